"""The command: what a newcomer types, and every way to get it wrong."""

import csv
import io as streams
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import matplotlib.pyplot
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from typer import BadParameter
from typer.main import get_command

import pril
from pril.cli.main import app
from pril.cli.options import FitOptions
from pril.core.registry import BY_COMMAND, RECOMMENDED
from pril.core.threads import available_memory
from pril.io import model_files as io
from pril.tables.label_columns import LabelEnds
from pril.tables.survey import Task
from tables import GRADES, features_and_labels, landmark_pipeline, make_rows, write

ENDS = ["--lower", "low", "--upper", "high"]
RANGES = [*ENDS, "--classes", ",".join(GRADES), "--drop", "id,grade"]
PRIL = [sys.executable, "-c", "from pril.cli.main import main; main()"]
COMMANDS = sorted(get_command(app).commands)


# --- Commands ------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_predict_adds_probabilities(good, bad, tmp_path, suffix):
    rows = make_rows()
    write(tmp_path / f"t.{suffix}", rows)
    good("fit", f"t.{suffix}", *RANGES, "--model=ordered-logit", "--coverage=0.8")
    good("predict", "t.pril", f"t.{suffix}", "--proba", "-o", f"out.{suffix}")
    again = read_table(tmp_path / f"out.{suffix}")
    names = [f"probability of {grade}" for grade in GRADES]
    assert list(again[0]) == [*rows[0], "prediction", "score", "lower", "upper", *names]
    model = pril.load("t.pril").estimator
    expected = model.predict_proba(pd.DataFrame(rows))[:, np.argsort(np.argsort(GRADES))]
    found = [[float(row[name]) for name in names] for row in again]
    np.testing.assert_array_equal(found, expected)
    write(tmp_path / f"has.{suffix}", [row | {names[1]: 0.5} for row in rows])
    good("predict", "t.pril", f"has.{suffix}", "-o", f"out.{suffix}")
    said = bad("predict", "t.pril", f"has.{suffix}", "--proba", "-o", f"out2.{suffix}")
    assert said == f"has.{suffix}: there is a column 'probability of fair' already; rename it first"


def test_predict_refuses_probabilities_that_a_model_lacks(good, bad, tmp_path):
    write(tmp_path / "t.csv", make_rows())
    good("fit", "t.csv", *RANGES, "--model=pril")
    said = bad("predict", "t.pril", "t.csv", "--proba")
    assert said == (
        "t.pril holds PRIL, which has no probabilities; ordered-logit and boosting have them"
    )
    with_some = {name for name, one in BY_COMMAND.items() if hasattr(one.load(), "predict_proba")}
    assert with_some == {"ordered-logit", "boosting"}


def test_classes_have_weights(good, feed, tmp_path):
    """A stream weighs classes as `fit` does."""
    rows = make_rows()
    write(tmp_path / "t.csv", rows)
    fit = ["fit", "t.csv", "--label=grade", "--features=age", "--holdout=0"]
    fit += ["--model=pril", "--no-shuffle"]
    good(*fit, "--epochs=2", "--class-weight=1=5, 4=0.25", "-o", "two.pril")
    good(*fit, "--epochs=1", "--class-weight=1=5,4=0.25", "-o", "one.pril")
    good(*fit, "--epochs=2", "-o", "plain.pril")
    feed(write(tmp_path / "t.jsonl", rows).read_bytes())
    good("stream", "one.pril", "-o", "two again.pril", "-q")
    models = [pril.load(f"{name}.pril")[-1] for name in ("two", "two again", "plain")]
    assert models[0].class_weight == {1: 5.0, 2: 1.0, 3: 1.0, 4: 0.25}
    np.testing.assert_array_equal(models[0].thresholds_, models[1].thresholds_)
    assert models[0].thresholds_[0] > models[2].thresholds_[0]
    shown = json.loads(good(*fit, "--class-weight=balanced", "--json"))
    assert shown["options"]["class_weight"] == "balanced"
    counts = pd.Series([row["grade"] for row in rows]).value_counts()
    weights = pril.load("t.pril")[-1].class_weight
    assert weights == pytest.approx({grade: 75 / counts[grade] for grade in (1, 2, 3, 4)})


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ("poor", "--class-weight poor: expected balanced, or CLASS=NUMBER,..."),
        ("poor=x", "--class-weight poor=x: expected balanced, or CLASS=NUMBER,..."),
        ("=3", "--class-weight =3: expected balanced, or CLASS=NUMBER,..."),
        (
            "bad=3",
            "class_weight: 'bad' is not one of the classes ['poor', 'fair', 'good', 'great']",
        ),
        ("poor=-1", "class_weight: the weight of 'poor' must be a number from 0 on, got -1.0"),
        ("poor=0,fair=0,good=0,great=0", "the weights of the classes are zero for every row"),
    ],
)
def test_wrong_weights_of_classes_are_refused(bad, tmp_path, weights, said):
    write(tmp_path / "t.csv", make_rows())
    assert bad("fit", "t.csv", *RANGES, "--class-weight", weights) == said


GROWTH = {"max_iter": 20, "learning_rate": 0.8}  # so that the last round is not the best
BOOSTING = ["--model=boosting", *(f"--set={name}={value}" for name, value in GROWTH.items())]


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_boosting_learns_a_table_as_it_is(good, tmp_path, suffix):
    """Missing numbers and words go into the learner as they are, as in Python."""
    rows = make_rows()
    write(tmp_path / f"t.{suffix}", rows)
    fit = [f"t.{suffix}", *RANGES, *BOOSTING, "--holdout=0"]
    shown = json.loads(good("fit", *fit, "--class-weight=poor=2", "--json"))
    model = pril.load("t.pril")
    frame = pd.DataFrame(rows)
    X, y = frame[["size", "age", "town"]], frame[["low", "high"]].astype(object)
    X = X.assign(town=X["town"].astype("category"))
    twin = pril.OrderedBoosting(
        classes=GRADES, class_weight={"poor": 2.0}, random_state=0, **GROWTH
    ).fit(X, y)
    np.testing.assert_array_equal(model.predict_proba(frame), twin.predict_proba(X))
    assert (shown["passes"], shown["mistakes"], shown["rounds"]) == (None, None, twin.n_iter_)
    good("predict", "t.pril", f"t.{suffix}", "--proba", "-o", f"out.{suffix}")
    found = read_table(tmp_path / f"out.{suffix}")
    assert [row["prediction"] for row in found] == twin.predict(X).tolist()
    result = json.loads(good("evaluate", "t.pril", f"t.{suffix}", "--json"))
    labelled = y.notna().any(axis=1)
    assert result["interval_accuracy"] == pytest.approx(twin.score(X[labelled], y[labelled]))


def test_boosting_in_blocks_with_weights_and_ranges(good, tmp_path, monkeypatch):
    monkeypatch.setattr("pril.tables.files.BLOCK_ROWS", 37)
    rows = [row | {"w": t % 3} for t, row in enumerate(make_rows())]
    for row in rows[:40]:  # a block without a word, and without an upper end
        row["town"] = row["high"] = None
    write(tmp_path / "t.csv", rows)
    good("fit", "t.csv", *RANGES, *BOOSTING, "--weight=w", "--holdout=0")
    frame = pd.DataFrame(rows)
    X, y = frame[["size", "age", "town"]], frame[["low", "high"]].astype(object)
    X = X.assign(town=X["town"].astype("category"))
    twin = pril.OrderedBoosting(classes=GRADES, max_iter=20, learning_rate=0.8, random_state=0)
    twin.fit(X, y, sample_weight=frame["w"])
    model = pril.load("t.pril")
    np.testing.assert_array_equal(model.predict_proba(frame), twin.predict_proba(X))
    report = json.loads(good("fit", "t.csv", *RANGES, *BOOSTING, "--coverage=0.8", "--json"))
    assert report["ranges"]["calibration_rows"] > 0
    assert report["holdout"]["rows"] + report["holdout"]["unlabelled_rows"] > 40
    good("predict", "t.pril", "t.csv", "-o", "out.csv")
    assert {"lower", "upper"} <= set(read_table(tmp_path / "out.csv")[0])


@pytest.mark.parametrize("model", ["ordered-logit", "pril", "boosting"])
def test_a_group_is_used_as_a_whole(good, bad, tmp_path, monkeypatch, model):
    """Each of 60 households has 5 rows that count, in no order: all counts are multiples of 5."""
    monkeypatch.setattr("pril.tables.files.BLOCK_ROWS", 37)
    rows = [row | {"household": t * 7 % 300 // 5} for t, row in enumerate(make_rows())]
    fit = ["--label=grade", "--features=size,age", "--coverage=0.8", "--json"]
    fit[:0] = BOOSTING if model == "boosting" else [f"--model={model}"]
    seen = []
    for suffix in ("csv", "jsonl", "parquet"):
        write(tmp_path / f"t.{suffix}", rows)
        report = json.loads(good("fit", f"t.{suffix}", *fit, "--groups=household"))
        counts = report["learned_rows"], report["holdout"]["rows"]
        seen.append((*counts, report["ranges"]["calibration_rows"]))
        assert sum(seen[-1]) == 300
        assert min(seen[-1]) > 0
        assert not any(n % 5 for n in seen[-1])
        assert "household" not in report["columns"]["numbers"]
    assert seen == seen[:1] * 3
    out = good("fit", "t.csv", *fit[:-1], "--groups=household")
    assert "groups    household\n" in out
    other = json.loads(good("fit", "t.csv", *fit, "--groups=household", "--seed=1"))
    assert (other["learned_rows"], other["holdout"]["rows"]) != seen[0][:2]
    rows[100]["household"] = None
    write(tmp_path / "t.csv", rows)
    said = bad("fit", "t.csv", *fit[:-1], "--groups=household")
    assert said == "t.csv, row 101: column 'household', the group, is missing"
    said = bad("fit", "t.csv", *fit[:-1], "--groups=age")
    assert said == "t.csv: the column 'age' is the group, not a label or feature"


def test_folds_of_boosting_hold_whole_groups(good, tmp_path, monkeypatch):
    """As in Python."""
    monkeypatch.setattr("pril.tables.files.BLOCK_ROWS", 37)
    rows = [row | {"household": f"h{t // 5}"} for t, row in enumerate(make_rows())]
    frame = pd.DataFrame(rows)
    write(tmp_path / "t.csv", rows)
    given = ["--features=size,age", "--holdout=0", "--groups=household"]
    good("fit", "t.csv", *ENDS, "--classes", ",".join(GRADES), *given, *BOOSTING)
    model = pril.OrderedBoosting(classes=GRADES, random_state=0, **GROWTH)
    X, y = frame[["size", "age"]], frame[["low", "high"]].astype(object)
    expected = model.fit(X, y, groups=frame["household"]).validation_loss_
    np.testing.assert_array_equal(pril.load("t.pril")[-1].validation_loss_, expected)
    assert not np.array_equal(model.fit(X, y).validation_loss_, expected)


def test_fit_takes_a_half_life_and_a_new_stream_parameters(good, bad, feed, tmp_path):
    rows = make_rows()
    write(tmp_path / "t.csv", rows)
    fit = ["fit", "t.csv", *RANGES, "--model=pril"]
    good(*fit, "--half-life=100", "-o", "a.pril")
    good(*fit, "--set=half_life=100.0", "-o", "b.pril")
    good(*fit, "-o", "c.pril")
    one, other, plain = (pril.load(f"{name}.pril")[-1] for name in "abc")
    assert one.half_life == 100
    np.testing.assert_array_equal(one.coef_, other.coef_)
    assert not np.array_equal(one.coef_, plain.coef_)
    said = bad("fit", "t.csv", *RANGES, "--model=mpril", "--half-life=100")
    assert said.startswith("the parameter 'half_life' cannot be set for MPRIL")
    begin = ["stream", "new.pril", *ENDS, "--classes", ",".join(GRADES), "-q", "--id=id"]
    data = write(tmp_path / "t.jsonl", rows).read_bytes()
    feed(data)
    good(*begin, "--set=rate=0.5", "--set=average=false")
    learner = pril.load("new.pril")[-1]
    assert (learner.rate, learner.average) == (0.5, False)
    feed(data)
    assert "the parameter 'speed' cannot be set" in bad(
        *begin[:1], "x.pril", *begin[2:], "--set=speed=1"
    )
    feed(data)
    assert bad(*begin, "--set=rate=1") == (
        "--set is for a new model, and new.pril exists: leave out --set"
    )


def test_boosting_is_shown_reported_and_streamed(good, bad, feed, tmp_path):
    rows = make_rows()
    write(tmp_path / "t.csv", rows)
    out = good("fit", "t.csv", *RANGES, *BOOSTING)
    assert " of boosting" in out
    out = good("show", "t.pril")
    assert "OrderedBoosting" in out
    assert out.index("importances ") < out.index("town")
    good("report", "t.pril", "t.csv", "-o", "report.html")
    feed(write(tmp_path / "t.jsonl", rows).read_bytes())
    answers = good("stream", "t.pril", "--quiet").splitlines()
    expected = pril.load("t.pril").predict(pd.DataFrame(rows))
    assert [json.loads(line)["prediction"] for line in answers] == expected.tolist()
    said = bad("stream", "t.pril", *ENDS)
    assert said.startswith("t.pril holds OrderedBoosting, which learns all rows at once, in fit: ")


@pytest.mark.parametrize(
    ("model", "option", "way"),
    [
        ("boosting", "--checkpoint=c", "learns all rows at once"),
        ("boosting", "--epochs=10", "learns all rows at once, in rounds; --set max_iter=500 "),
        ("boosting", "--no-shuffle", "learns all rows at once"),
        (
            "ordered-logit",
            "--epochs=10",
            "takes steps to the maximum of the likelihood; --set max_",
        ),
        ("ordered-logit", "--no-shuffle", "takes steps to the maximum of the likelihood; --set"),
    ],
)
def test_options_that_mean_nothing_to_a_model_are_refused(bad, tmp_path, model, option, way):
    write(tmp_path / "t.csv", make_rows())
    name = option.partition("=")[0]
    said = bad("fit", "t.csv", *RANGES, "--model", model, option)
    assert said.startswith(f"{name} has no meaning for --model {model}, which {way}")


def test_words_that_separate_labels_are_named(call, tmp_path):
    lines = [f"{i % 7},{'boss' if i % 3 == 2 else 'clerk'},{i % 3}" for i in range(90)]
    (tmp_path / "t.csv").write_text("\n".join(["age,job,grade", *lines]))
    code, _, err = call("fit", "t.csv", "--label", "grade", "--set=alpha=0")
    assert code == 0
    assert (
        "pril: warning: no maximum exists: feature 'job=boss' separates rows of label 1, 2" in err
    )


def test_steps_have_a_limit(call, tmp_path):
    write(tmp_path / "t.csv", make_rows())
    code, out, err = call("fit", "t.csv", *RANGES, "--set=max_iter=2")
    assert code == 0
    assert re.search(r"in \d+ steps, log-likelihood -", out)
    assert "pril: warning: no maximum was found in max_iter=2 steps: raise it" in err


@pytest.mark.parametrize(
    ("asked", "said"),
    {
        "[0, 1, 0]": 'monotonic_cst: expected {"COLUMN": 1, "COLUMN": -1}, got [0, 1, 0]',
        '{"sise": 1}': "t.csv: monotonic_cst: there is no column 'sise'; the columns are 'size', "
        "'age', 'town'",
        '{"town": 1}': "t.csv: monotonic_cst: the column 'town' holds words, which have no order",
        '{"age": 2}': "t.csv: monotonic_cst: the column 'age' must have -1, 0 or 1, got 2",
    }.items(),
)
def test_constraints_of_boosting_name_columns(bad, tmp_path, asked, said):
    write(tmp_path / "t.csv", make_rows())
    assert bad("fit", "t.csv", *RANGES, *BOOSTING, f"--set=monotonic_cst={asked}") == said


def test_a_constraint_holds_for_the_column_it_names(good, tmp_path):
    """A column of words comes first in the table, and last among the features."""
    rows = [{"town": row["town"], **row} for row in make_rows()]
    write(tmp_path / "t.csv", rows)
    good("fit", "t.csv", *RANGES, *BOOSTING, '--set=monotonic_cst={"age": -1}', "-q")
    model = pril.load("t.pril")
    ages = [{**rows[t], "age": age} for t in range(20) for age in (0, 20, 50, 80, 100)]
    scores = model.predict_proba(pd.DataFrame(ages))[:, model.classes_ == "great"].reshape(20, 5)
    assert (np.diff(scores) <= 0.0).all()
    assert np.ptp(scores) > 0.0


@pytest.mark.parametrize("size", [1e-310, 1e152])
def test_a_column_that_boosting_cannot_use_is_named(bad, tmp_path, size):
    write(
        tmp_path / "t.csv", [{**row, "size": size * (t % 5)} for t, row in enumerate(make_rows())]
    )
    said = bad("fit", "t.csv", *RANGES, *BOOSTING)
    small = "t.csv: no number in the column 'size' is larger than 4e-310, too small to learn from"
    large = "t.csv, row 2: column 'size' is 1e+152, too large: the limit is 1e+146"
    assert said.startswith(small if size < 1 else large)


def test_a_table_too_large_for_memory_is_refused(bad, tmp_path, monkeypatch):
    write(tmp_path / "t.csv", make_rows())
    monkeypatch.setattr("pril.tables.runs.available_memory", lambda: 90_000)
    said = bad("fit", "t.csv", *RANGES, *BOOSTING, "--holdout=0")
    assert "300 rows of 3 features take about 181,200 bytes of memory, and 90,000 are" in said


def groups(root, lines, files):
    """Write what a Linux says of its memory; return the folder."""
    for name, text in {"proc/self/cgroup": lines, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


V2 = {
    "memory.max": "3000\n",
    "memory.current": "1000\n",
    "memory.stat": "anon 1\ninactive_file 70\n",
}
V1 = {"memory.limit_in_bytes": "3000\n", "memory.usage_in_bytes": "1000\n",
      "memory.stat": "inactive_file 1\ntotal_inactive_file 70\n"}  # fmt: skip
HERE = {"proc/meminfo": "MemTotal: 9 kB\nMemAvailable: 4 kB\n"}  # 4096 bytes


@pytest.mark.parametrize(
    ("lines", "folder", "files", "expected"),
    [
        ("0::/a/b\n", "", {}, 4096),
        ("0::/a/b\n", "a/b", V2, 2070),
        ("0::/a/b\n", "a", V2, 2070),  # a group above has the limit
        ("0::/\n", "", V2, 2070),  # as in a container
        ("0::/not/here\n", "", V2, 2070),
        ("0::/a/b\n", "a/b", V2 | {"memory.max": "max\n"}, 4096),
        ("0::/a/b\n", "a/b", V2 | {"memory.max": "900\n"}, 0),  # more is used than there may be
        ("0::/a/b\n", "a/b", V2 | {"memory.max": "9000\n"}, 4096),
        ("0::/a/b\n", "a/other", V2, 4096),
        ("1:cpu:/x\n4:memory,hugetlb:/a/b\n0::/\n", "memory/a/b", V1, 2070),
        ("4:memory:/a/b\n", "memory", V1, 2070),
        ("4:cpu:/a/b\n", "memory/a/b", V1, 4096),
    ],
)
def test_a_container_has_less_memory_than_its_machine(tmp_path, lines, folder, files, expected):
    there = {f"sys/fs/cgroup/{folder}/{name}": text for name, text in files.items()}
    assert available_memory(groups(tmp_path, lines, {**HERE, **there})) == expected


def test_memory_where_the_system_does_not_tell_what_is_free(tmp_path, monkeypatch):
    """All there is, or, where not even that is known, as much as is asked for."""
    whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert available_memory(tmp_path) == whole
    groups(tmp_path, "", {"proc/meminfo": "MemTotal: 9 kB\n"})  # of an old Linux
    assert available_memory(tmp_path) == whole
    assert 0 < available_memory() <= whole
    monkeypatch.delattr(os, "sysconf")
    assert available_memory(tmp_path) > 10**15


@pytest.mark.parametrize("classes", ["false,true", "False,True", "TRUE,FALSE", "true,0", "0,1"])
@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_classes_may_be_true_and_false(good, tmp_path, classes, suffix):
    """Labels that are true or false are the numbers 1 and 0, and so are the classes."""
    rows = [{"a": float(t % 10), "y": t % 10 > 4} for t in range(60)]
    write(tmp_path / f"t.{suffix}", rows)
    good("fit", f"t.{suffix}", "--label", "y", "--classes", classes, "-q", "-o", "m.pril")
    words = {"true": 1, "false": 0, "1": 1, "0": 0}
    order = [words[name.lower()] for name in classes.split(",")]
    learner = pril.load("m.pril")[-1]
    assert learner.order_.tolist() == order
    assert (learner.coef_[0] > 0) == (order == [0, 1])


def test_the_help_lists_all_learners_but_baselines(good):
    out = " ".join(good("fit", "--help").replace("\u2502", " ").split())
    assert f"Which learner: {', '.join(RECOMMENDED)}." in out
    assert {*BY_COMMAND} - {*RECOMMENDED} == {"prank", "widrow-hoff", "perceptron"}
    assert "widrow-hoff" not in good("stream", "--help")


@pytest.mark.parametrize("columns", ["80", "100"])
def test_the_help_is_in_boxes(good, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    boxes = {}
    for line in good("fit", "--help").splitlines():
        if line.startswith("\u256d"):
            box = boxes.setdefault(line.strip("\u256d\u2500\u256e "), [])
        elif option := re.match("\u2502 (--[a-z-]+)", line):
            box.append(option[1])
        elif "Example:" in line:
            assert line.split()[-2] == "--classes"  # it is whole, to be copied
            assert not boxes
    assert list(boxes) == ["Arguments", "Labels", "Columns", "Learning", "File", "Output"]
    assert boxes["Labels"][:3] == ["--label", "--lower", "--upper"]
    assert boxes["Columns"][0] == "--features"
    assert boxes["Learning"][:2] == ["--model", "--set"]
    assert (boxes["Output"][0], boxes["Output"][-1]) == ("--output", "--help")
    assert max(map(len, boxes.values())) <= 16


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "tsv", "jsonl", "parquet"])
def test_fit_predict_evaluate(good, tmp_path, suffix):
    rows = make_rows()
    write(tmp_path / f"t.{suffix}", rows)
    out = good("fit", f"t.{suffix}", *RANGES)
    assert "300 rows of" in out
    assert "low, high" in out
    assert "town (3 words)" in out
    assert "id (not asked for)" in out
    assert (tmp_path / "t.pril").exists()
    model = pril.load("t.pril")
    frame = pd.DataFrame(rows)
    expected = model.predict(frame)
    for kind in ("csv", "jsonl", "parquet"):
        good("predict", "t.pril", f"t.{suffix}", "-o", f"out.{kind}")
        again = read_table(tmp_path / f"out.{kind}")
        assert [str(row["prediction"]) for row in again] == expected.tolist()
        np.testing.assert_array_equal(
            [float(row["score"]) for row in again], model[-1].latent(model[0].transform(frame))
        )
        assert [row["id"] for row in again] == [row["id"] for row in rows]
        assert list(again[0]) == [*rows[0], "prediction", "score"]
    result = json.loads(good("evaluate", "t.pril", f"t.{suffix}", "--json"))
    y = frame[["low", "high"]].astype(object)
    labelled = y.notna().any(axis=1)
    assert result["rows"] == labelled.sum()
    assert result["interval_accuracy"] == pytest.approx(model.score(frame[labelled], y[labelled]))


def read_table(path):
    if path.suffix == ".parquet":
        return pq.read_table(path).to_pylist()
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_a_table_of_one_row(good, tmp_path, suffix):
    write(tmp_path / f"t.{suffix}", [{"x": 1.5, "y": "good"}])
    said = good("fit", f"t.{suffix}", "--label=y", "--classes=bad,good", "--holdout=0", "--json")
    assert json.loads(said)["learned_rows"] == 1
    assert json.loads(good("evaluate", "t.pril", f"t.{suffix}", "--json"))["rows"] == 1
    good("predict", "t.pril", f"t.{suffix}", "-o", "out.csv")
    assert len(read_table(tmp_path / "out.csv")) == 1


def test_fit_tells_machines_the_same(good, tmp_path):
    rows = make_rows()
    write(tmp_path / "t.csv", rows)
    result = json.loads(good("fit", "t.csv", *RANGES, "-o", "m.pril", "--json"))
    assert result["rows"] == 300
    assert result["columns"]["numbers"] == ["size", "age"]
    assert result["columns"]["words"] == {"town": 3}
    assert set(result["columns"]["ignored"]) == {"id", "grade"}
    assert [entry["class"] for entry in result["classes"]] == GRADES
    assert sum(result["widths"].values()) + result["unlabelled_rows"] == 300
    assert result["unlabelled_rows"] == sum(not (row["low"] or row["high"]) for row in rows)
    rank = {grade: k for k, grade in enumerate(GRADES)}
    labelled = [row for row in rows if row["low"] or row["high"]]
    spans = [(rank.get(row["low"], 0), rank.get(row["high"], 3)) for row in labelled]
    assert result["zero_weight_rows"] == 0
    assert result["widths"] == Counter(str(hi - lo + 1) for lo, hi in spans)
    for k, entry in enumerate(result["classes"]):
        assert entry["exact"] == sum(lo == k == hi for lo, hi in spans)
        assert entry["lower"] == sum(lo == k < hi for lo, hi in spans)
        assert entry["upper"] == sum(lo < k == hi for lo, hi in spans)
    assert result["learned_rows"] + result["holdout"]["rows"] == len(labelled)
    everything = json.loads(good("fit", "t.csv", *RANGES, "--holdout", 0, "--json"))
    assert everything["learned_rows"] == len(labelled)
    assert result["model"] == "m.pril"
    assert io.read("m.pril", kind="model")[1].notes["holdout"] == result["holdout"]
    assert good("fit", "t.csv", *RANGES, "--quiet") == ""


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("mpril", ["--set", "rate=0.2"]), ("kernel", ["--set", "kernel=poly", "--set", "budget=50"]),
        ("widrow-hoff", ["--set", "normalize=false"]), ("perceptron", []), ("ordered-logit", []),
        ("passive-aggressive", ["--set", "C=inf"]),
    ],
)  # fmt: skip
def test_every_model_by_its_name(good, tmp_path, name, options):
    write(tmp_path / "t.csv", make_rows())
    good("fit", "t.csv", *RANGES, "--model", name, *options)
    learner = pril.load("t.pril")[-1]
    for option in options[1::2]:
        key, value = option.split("=")
        assert str(learner.get_params()[key]).lower() == value
    good("predict", "t.pril", "t.csv", "-o", "out.csv")
    said = [float(row["score"]) for row in read_table(tmp_path / "out.csv")]
    X = pril.load("t.pril")[0].transform(pd.DataFrame(make_rows()))
    scores = learner.decision_function(X).max(axis=1) if name == "perceptron" else learner.latent(X)
    np.testing.assert_array_equal(said, scores)
    shown = json.loads(good("show", "t.pril", "--json"))
    assert shown["classes"] == GRADES
    assert len(shown["weights"]) == (0 if name == "kernel" else 5)
    lines = good("show", "t.pril").splitlines()
    assert "pril" in lines[-1]
    found = getattr(learner, "coarsening_", None)
    assert [line for line in lines if line.startswith("coarsening")] == (
        [f"coarsening  {found}"] if found else []
    )
    assert (shown["coarsening"] is None) == (found is None)
    if found:
        assert shown["coarsening"]["mechanism"] == found.mechanism
        assert shown["coarsening"]["evidence"] == found.evidence
        assert list(shown["coarsening"]["shares"].values()) == list(found.shares.values())


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_ranges(good, bad, tmp_path, kind):
    rows = make_rows(600)
    write(tmp_path / "t.csv", rows)
    out = good("fit", "t.csv", *RANGES, "--coverage", 0.8, "--guarantee", "contain")
    assert re.search(r"coverage +0.8 \(contain\), calibrated on \d+ rows", out)
    model, frame = pril.load("t.pril"), pd.DataFrame(rows)
    assert model.coverage == 0.8
    assert model.guarantee == "contain"
    good("predict", "t.pril", "t.csv", "-o", f"out.{kind}")
    again = read_table(tmp_path / f"out.{kind}")
    assert list(again[0]) == [*rows[0], "prediction", "score", "lower", "upper"]
    said = [[row["lower"], row["upper"]] for row in again]
    assert said == model.predict_range(frame).tolist()
    assert [row["prediction"] for row in again] == model.predict(frame).tolist()
    assert json.loads(good("evaluate", "t.pril", "t.csv", "--json"))["rows"] > 500
    shown = json.loads(good("show", "t.pril", "--json"))
    assert shown["notes"]["ranges"]["coverage"] == 0.8
    assert "PredictionRanges" in good("show", "t.pril")
    write(tmp_path / "u.csv", [{**row, "upper": 1} for row in rows])
    assert "there is a column 'upper' already" in bad("predict", "t.pril", "u.csv")
    assert "calibrated ranges" in bad("stream", "t.pril")


def test_ranges_that_hold_for_each_class(good, bad, tmp_path):
    rows = make_rows(600)
    write(tmp_path / "t.csv", rows)
    contain = ["--guarantee", "contain", "--by", "class"]
    out = good("fit", "t.csv", *RANGES, "--coverage", 0.8, *contain)
    assert re.search(r"coverage +0.8 \(contain for each class\), calibrated on \d+ rows", out)
    good("predict", "t.pril", "t.csv", "-o", "out.csv")
    said = [[row["lower"], row["upper"]] for row in read_table(tmp_path / "out.csv")]
    model = pril.load("t.pril")
    assert said == model.predict_range(pd.DataFrame(rows)).tolist()
    assert model.groups_.tolist() == model.order_.tolist()
    few = bad("fit", "t.csv", *RANGES, "--coverage", 0.99, *contain)
    assert "needs at least 99 rows with a label for each class to calibrate with: 'poor' has" in few
    assert "by is for predicted ranges: pass coverage too" in bad("fit", "t.csv", *RANGES, *contain)
    touch = bad("fit", "t.csv", *RANGES, "--coverage", 0.8, "--by=class", "--guarantee=touch")
    assert "choose 'exact' or 'contain'" in touch


def test_ranges_that_depend_on_a_column_are_predicted_in_python(bad, tmp_path):
    rows = make_rows(600)
    write(tmp_path / "t.csv", rows)
    frame, y = pd.DataFrame(rows), features_and_labels(rows)[1]
    frame = frame.assign(town=frame["town"].fillna("nowhere"))
    steps = pril.Pipeline(
        [("columns", pril.ColumnEncoder()), ("model", pril.OrderedLogit(classes=GRADES))]
    )
    model = pril.PredictionRanges(steps, coverage=0.3, guarantee="contain", by="town")
    pril.save(model.fit(frame[["size", "age", "town"]], y), "t.pril")
    assert "depend on the column 'town'" in bad("predict", "t.pril", "t.csv")


def test_a_model_with_landmarks_serves_tables(good, tmp_path):
    rows = make_rows()
    write(tmp_path / "t.csv", rows)
    X, y = features_and_labels(rows)
    model = pril.PredictionRanges(landmark_pipeline(10), random_state=0).fit(X, y)
    pril.save(model, "t.pril")
    good("predict", "t.pril", "t.csv", "-o", "out.csv")
    again = read_table(tmp_path / "out.csv")
    assert [row["prediction"] for row in again] == model.predict(X).tolist()
    assert [[row["lower"], row["upper"]] for row in again] == model.predict_range(X).tolist()
    assert json.loads(good("evaluate", "t.pril", "t.csv", *ENDS, "--json"))["rows"] > 250
    shown = json.loads(good("show", "t.pril", "--json"))
    assert sum(name.startswith("landmark") for name in shown["weights"]) == 10


@pytest.mark.parametrize("name", ["t.svm", "t.svmlight", "t.LIBSVM", "t.svm.gz"])
@pytest.mark.parametrize("command", ["fit", "evaluate t.pril", "predict t.pril"])
def test_svmlight_is_for_python(good, bad, tmp_path, name, command):
    write(tmp_path / "t.csv", make_rows(20))
    good("fit", "t.csv", *RANGES)
    (tmp_path / name).write_text("1 1:2\n2 1:3\n")
    said = bad(*command.split(), name, *([] if "predict" in command else ["--label", "label"]))
    assert said == (
        f"{name}: svmlight is not read as a table: in Python, load it with "
        "sklearn.datasets.load_svmlight_file, fit a learner, and pril.save the model"
    )


SPSS_LABELS = "apply_value_formats=True, formats_as_ordered_category=True"


@pytest.mark.parametrize(
    ("name", "code"),
    {
        "t.xlsx": "import pandas; pandas.read_excel('t.xlsx')",
        "t.dta": "import pandas; pandas.read_stata('t.dta')",
        "t.sav": f"import pyreadstat; pyreadstat.read_sav('t.sav', {SPSS_LABELS})[0]",
    }.items(),
)
def test_files_of_other_programs_are_for_python(good, bad, tmp_path, name, code):
    """The advice works, with openpyxl and pyreadstat where they are, and value labels are kept."""
    names = {1: "poor", 2: "fair", 3: "good", 4: "great"}
    frame = pd.DataFrame(make_rows(40))[["age", "grade"]].astype(float)
    words = pd.Categorical(frame["grade"].map(names), names.values(), ordered=True)
    (tmp_path / name).write_text("not empty")
    said = bad("fit", name, "--label", "grade")
    reason, _, advice = said.partition("; run: ")
    assert reason == f"{name}: the command does not read this format, but Python does"
    assert advice == f"{code}.to_parquet('t.parquet')"
    if name == "t.xlsx":
        pytest.importorskip("openpyxl")
        frame.assign(grade=words).to_excel(name, index=False)
    elif name == "t.sav":
        labels = {"grade": names}
        pytest.importorskip("pyreadstat").write_sav(frame, name, variable_value_labels=labels)
    else:
        frame.assign(grade=words).to_stata(name, write_index=False)
    exec(advice)  # noqa: S102
    kept = pd.read_parquet("t.parquet")["grade"]
    assert kept.tolist() == words.tolist()
    assert name == "t.xlsx" or kept.cat.categories.tolist() == list(names.values())
    good("fit", "t.parquet", "--label", "grade", "--classes", "poor,fair,good,great")


def test_csv_has_no_place_for_nested_columns(good, call, tmp_path):
    rows = [row | {"list": [1, 2]} for row in make_rows(30)]
    write(tmp_path / "t.parquet", rows)
    good("fit", "t.parquet", *RANGES)
    code, out, err = call("predict", "t.pril", "t.parquet")
    assert (code, err) == (0, "pril: warning: CSV cannot hold the columns list: left out\n")
    assert out.startswith("id,size,age,town,low,high,grade,prediction,score\n")


def test_ranges_need_enough_rows(call, bad, tmp_path):
    write(tmp_path / "t.csv", make_rows(30))
    code, _, err = call("fit", "t.csv", *RANGES, "--coverage", 0.9)
    assert code == 0
    assert err.startswith("pril: warning: every range is the full scale: coverage=0.9 needs")
    wide = [{**row, "low": "poor", "high": "fair"} for row in make_rows(30)]
    wide[0] |= {"low": "good", "high": "great"}
    write(tmp_path / "t.csv", wide)
    said = bad("fit", "t.csv", *RANGES, "--coverage", 0.9, "-o", "m.pril")
    assert said.startswith('guarantee="exact" needs rows with exact labels')
    for wrong in ("0", "1", "2"):
        assert "coverage" in bad("fit", "t.csv", *RANGES, "--coverage", wrong)


def test_flags_switch_the_encoding_off(good, tmp_path):
    write(tmp_path / "t.csv", make_rows())
    common = ["fit", "t.csv", *RANGES, "-o"]
    good(*common, "a.pril", "--no-scale", "--no-one-hot")
    encoder = pril.load("a.pril")[0]
    assert encoder.transform(pd.DataFrame([{"size": 70.0, "age": 3}])).tolist() == [[70.0, 3.0]]
    good(*common, "b.pril", "--features", "age,town", "--text", "age")
    assert "age=7" in pril.load("b.pril")[0].get_feature_names_out()
    assert pril.load("b.pril")[0].numbers_ == []


def test_show_says_what_was_learned(good, tmp_path):
    write(tmp_path / "t.csv", make_rows())
    good("fit", "t.csv", *RANGES)
    model = pril.load("t.pril")
    shown = json.loads(good("show", "t.pril", "--json", "--plot", "t.png"))
    rows = pd.read_csv(tmp_path / "t.csv")
    features = pd.DataFrame(model[0].transform(rows), columns=model[0].get_feature_names_out())
    scores = features @ pd.Series(shown["weights"]) + shown["intercept"]
    known = rows["town"].notna()
    np.testing.assert_allclose(scores[known], model[-1].latent(features.to_numpy())[known])
    assert shown["thresholds"] == model[-1].thresholds_.tolist()
    sizes = np.abs(list(shown["weights"].values()))
    assert (np.diff(sizes) <= 0).all()
    assert (tmp_path / "t.png").read_bytes().startswith(b"\x89PNG")
    out = good("show", "t.pril", "--top", 2)
    assert "and 3 smaller" in out
    assert "smaller" not in good("show", "t.pril", "--top", 5)
    assert "300 rows of t.csv, labels low, high" in out
    assert "scikit-learn" in out


@pytest.mark.parametrize("model", ["pril", "ordered-logit", "perceptron"])
def test_words_without_an_effect_are_shown_without_one(model, good, tmp_path):
    """All words of a column share an amount with the thresholds: it says nothing."""
    rng = np.random.default_rng(0)
    size = rng.normal(size=1500)
    region = rng.choice(["Nord", "Ost", "West", "rare"], p=[0.4, 0.3, 0.29, 0.01], size=1500)
    town = rng.choice(["Oslo", "Rome"], size=1500)
    grade = np.digitize(2 * size + 3 * (town == "Rome") + rng.logistic(size=1500), [3.0, 5.0, 7.0])
    table = pd.DataFrame({"size": size, "region": region, "town": town, "grade": grade})
    table.to_csv(tmp_path / "t.csv", index=False)
    good("fit", "t.csv", "--label", "grade", "--model", model, "--holdout", 0)
    shown = json.loads(good("show", "t.pril", "--json"))["weights"]
    size = {name: np.abs(weight).max() for name, weight in shown.items()}
    assert max(size["region=Nord"], size["region=Ost"], size["region=West"]) < 0.25 * size["size"]
    for column in ("region", "town"):
        words = table[column].value_counts()
        total = sum(n * np.array(shown[f"{column}={word}"]) for word, n in words.items())
        np.testing.assert_allclose(total / 1500, 0.0, atol=1e-9)
    if model != "perceptron":
        loaded = pril.load("t.pril")
        coef = dict(zip(loaded[0].get_feature_names_out(), loaded[-1].coef_, strict=True))
        difference = shown["town=Rome"] - shown["town=Oslo"]
        assert difference == pytest.approx(coef["town=Rome"] - coef["town=Oslo"])
        display = pril.plotting.WeightsDisplay.from_estimator(loaded)
        assert dict(zip(display.names, display.coef, strict=True)) == pytest.approx(shown)
        begin = {bar.get_x() for bar in display.ax_.patches if bar.get_height() == 0.6}
        assert begin == {display.intercept}
        matplotlib.pyplot.close("all")


def test_a_kernel_is_shown_without_weights(good, tmp_path):
    model = pril.KernelPRIL(random_state=0).fit([[0.0], [1.0], [2.0]], [1, 2, 3])
    pril.save(model, tmp_path / "k.pril")
    out = good("show", "k.pril")
    assert f"support     {len(model.dual_coef_)} row" in out
    assert "smaller" not in out
    assert json.loads(good("show", "k.pril", "--json"))["weights"] == {}


def test_models_saved_by_the_library_work_too(good, bad, tmp_path):
    from sklearn.compose import make_column_transformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    rows = [row for row in make_rows() if row["size"] and row["town"]]
    frame, y = pd.DataFrame(rows), [(row["low"], row["high"]) for row in rows]
    write(tmp_path / "t.csv", rows)
    columns = make_column_transformer(
        (StandardScaler(), ["size", "age"]), (OneHotEncoder(), ["town"])
    )
    pipeline = make_pipeline(columns, pril.PRIL(classes=GRADES, random_state=0)).fit(frame, y)
    alone = pril.PRIL(classes=GRADES, random_state=0).fit(frame[["size", "age"]], y)
    for model in (pipeline, alone):
        pril.save(model, "m.pril")
        good("predict", "m.pril", "t.csv", "-o", "out.csv")
        said = [row["prediction"] for row in read_table(tmp_path / "out.csv")]
        assert said == model.predict(frame[model.feature_names_in_]).tolist()
        assert "off by" in good("evaluate", "m.pril", "t.csv", *ENDS)
        assert "thresholds" in good("show", "m.pril")
    assert "does not say which columns its labels were in" in bad("evaluate", "m.pril", "t.csv")
    pril.save(pril.PRIL(classes=[1, 2]).fit([[0.0], [1.0]], [1, 2]), "m.pril")
    assert "does not know its columns by name" in bad("predict", "m.pril", "t.csv")
    assert "feature 0" in good("show", "m.pril")


def test_audit(good, bad, tmp_path):
    write(tmp_path / "t.csv", make_rows())
    assert "Theorem 3, regret" in good("audit", "t.csv", *RANGES)
    result = json.loads(good("audit", "t.csv", *RANGES, "--json"))
    X, y = pd.DataFrame(make_rows()), [(row["low"], row["high"]) for row in make_rows()]
    from pril import ColumnEncoder
    from pril.paper.theory import audit

    expected = audit(ColumnEncoder().fit_transform(X[["size", "age", "town"]]), y, classes=GRADES)
    assert [bound["bound"] for bound in result["bounds"]] == [
        bound.bound for bound in expected.bounds
    ]
    assert result["facts"] == {**expected.facts, "margin, l2": 0.0}
    assert "'prank' is not one of 'pril', 'mpril'" in bad(
        "audit", "t.csv", *RANGES, "--model", "prank"
    )


def test_demo_runs_the_commands(call, tmp_path):
    code, out, err = call("demo")
    assert (code, err) == (0, "")
    for line in ("$ pril fit output/flats.csv", "$ pril show", "$ pril predict", "$ pril evaluate"):
        assert line in out
    assert {path.name for path in (tmp_path / "output").iterdir()} == {
        "flats.csv", "new.csv", "rated.csv", "flats.pril", "flats.png",
    }  # fmt: skip
    code, out, _ = call("demo", "--json")
    assert code == 0
    assert len([json.loads(line) for line in out.splitlines()]) == 4
    assert call("demo", "--quiet")[:2] == (0, "")


def test_fit_with_workers(call, bad, cluster, tmp_path):
    for part in range(2):
        write(tmp_path / f"{part}.csv", make_rows(100, seed=part))
    code, out, _ = call("fit", "*.csv", *RANGES, "--workers", 1, "-o", "m.pril")
    assert code == 0
    assert "200 rows of *.csv" in out
    assert pril.load("m.pril")[-1].order_.tolist() == GRADES
    many = [{**row, "low": "bad"} if t == 7 else row for t, row in enumerate(make_rows(50))]
    write(tmp_path / "1.csv", many)
    there = ["--cluster", cluster.scheduler_address]
    said = bad("fit", "*.csv", *RANGES, *there, "-o", "m.pril")
    assert said.startswith("1.csv, row 8: columns 'low', 'high': 'bad' is not one of")
    assert "choose one" in bad("fit", "*.csv", *RANGES, "--workers", 2, *there)
    assert "cannot be used on a cluster" in bad(
        "fit", "*.csv", *RANGES, *there, "--checkpoint", "c"
    )


def test_boosting_on_a_cluster_is_that_of_one_process(good, bad, cluster, tmp_path):
    rows = [{**row, "town": None} if t % 9 == 0 else row for t, row in enumerate(make_rows(200))]
    write(tmp_path / "t.csv", rows)
    there = ["--cluster", cluster.scheduler_address]
    fit = ["fit", "t.csv", *RANGES, *BOOSTING, "--set=learning_rate=3"]
    reports = [json.loads(good(*fit, *where, "--json", "-o", "m.pril")) for where in ((), there)]
    assert reports[0] == reports[1]
    good(*fit, "-o", "one.pril")
    assert (tmp_path / "one.pril").read_bytes() == (tmp_path / "m.pril").read_bytes()
    write(tmp_path / "t.csv", [{**rows[0], "size": 1e200}, *rows[1:]])
    assert "t.csv, row 1: column 'size' is 1e+200" in bad(*fit, *there)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example_and_the_common_options(good, command):
    out = good(command, "--help")
    assert f"pril {command}" in out.split("Example:")[1]
    for option in ("--quiet", "--json", "--help"):
        assert option in out


def test_help_imports_nothing_heavy():
    said = subprocess.run(
        [sys.executable, "-c", "import sys; from pril.cli.main import main\n"
         "try: main(['fit', '--help'])\n"
         "except SystemExit: print(*sys.modules, file=sys.stderr)"],
        capture_output=True, text=True, check=True,
    ).stderr  # fmt: skip
    assert not {"numba", "sklearn", "numpy", "pyarrow", "skops"} & set(said.split())


def test_using_a_model_imports_only_what_it_needs(good, tmp_path):
    write(tmp_path / "t.csv", make_rows())
    good("fit", "t.csv", *RANGES, "-q", "-o", "m.pril")
    code = (
        "import contextlib, sys; from pril.cli.main import main\n"
        "for command in ('predict m.pril t.csv', 'stream m.pril'):\n"
        "    with contextlib.suppress(SystemExit): main(command.split())\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    with write(tmp_path / "t.jsonl", make_rows()).open("rb") as rows:
        done = subprocess.run(
            [sys.executable, "-c", code], stdin=rows, capture_output=True, text=True, check=True
        )
    assert done.stdout.count("\n") >= 600
    loaded = set(done.stderr.splitlines()[-1].split())
    assert "sklearn.base" in loaded
    unwanted = {"dask", "matplotlib", "scipy.stats._stats_py", "skops"}
    assert not (unwanted | {"sklearn.metrics", "sklearn.model_selection"}) & loaded


def test_what_is_loaded_on_first_use_is_loaded_then():
    code = """
import sys
from pril.cli.main import _starting_fast
finders = list(sys.meta_path)
with _starting_fast():
    import scipy.stats
assert "scipy.stats._stats_py" not in sys.modules
assert sys.meta_path == finders
assert scipy.stats.norm.cdf(0.0) == 0.5
assert "scipy.stats._stats_py" in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_stdin_and_stdout(good, feed, tmp_path):
    rows = make_rows()
    for suffix in ("csv", "jsonl", "parquet"):
        feed(write(tmp_path / f"t.{suffix}", rows).read_bytes())
        good("fit", "-", *RANGES, "-q", "-o", f"{suffix}.pril")
    learned = [pril.load(tmp_path / f"{s}.pril")[-1].coef_ for s in ("csv", "jsonl", "parquet")]
    np.testing.assert_array_equal(learned[0], learned[1])
    np.testing.assert_array_equal(learned[0], learned[2])
    feed((tmp_path / "t.csv").read_bytes())
    out = good("predict", "csv.pril", "-", "--format", "csv")
    assert len(list(csv.DictReader(streams.StringIO(out)))) == 300


@pytest.mark.slow
def test_a_reader_who_has_seen_enough(tmp_path, program):
    write(tmp_path / "long.csv", make_rows() * 100)
    with subprocess.Popen(
        [*program, "predict", str(made_model(tmp_path)), str(tmp_path / "long.csv")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


@pytest.mark.parametrize("encoding", ["cp1252", "ascii"])
def test_words_that_the_output_cannot_encode_are_escaped(good, tmp_path, monkeypatch, encoding):
    rows = [
        {"size": t % 5, "town": "Łódź", "grade": "źle" if t % 5 < 2 else "dobrze"}
        for t in range(40)
    ]
    write(tmp_path / "t.csv", rows)
    good("fit", "t.csv", "--label", "grade", "--classes", "źle,dobrze", "-o", "m.pril")
    out = streams.TextIOWrapper(streams.BytesIO(), encoding=encoding)
    monkeypatch.setattr(sys, "stdout", out)
    good("show", "m.pril")
    assert rb"classes     \u017ale < dobrze" in out.buffer.getvalue()
    out.buffer.truncate(0)
    good("predict", "m.pril", "t.csv")
    table = out.buffer.getvalue().lstrip(b"\0").decode("utf-8")  # a table is UTF-8
    assert table.splitlines()[1].startswith("0,Łódź,źle,")


def test_warnings_are_lines(call, tmp_path):
    write(tmp_path / "t.csv", make_rows())
    code, _, err = call("fit", "t.csv", "--label", "low", "--drop", "id,high,grade", "-q")
    assert code == 0
    lines = err.splitlines()
    assert len(lines) == 1  # said once
    assert any(
        line.startswith(
            "pril: warning: t.csv: column 'low': the classes were sorted as strings, ['fair', 'good'"
        )
        and "pass --classes" in line
        for line in lines
    )
    new = make_rows(20)
    for row, town in ((5, None), (7, "Bonn"), (9, "Kiel")):  # a missing word is no new one
        new[row]["town"] = town
    write(tmp_path / "new.csv", new)
    code, _, err = call("predict", "t.pril", "new.csv")
    assert code == 0
    assert err == (
        "pril: warning: new.csv, row 8: column 'town' is 'Bonn', which the model has never seen; "
        "it is ignored\n"
    )


def test_advice_names_an_option_that_the_command_has(bad, tmp_path):
    write(tmp_path / "one.csv", make_rows(1))
    assert bad("fit", "one.csv", "--label", "grade", "--holdout", 0.99) == (
        "one.csv: every row was held out; make --holdout smaller"
    )
    (tmp_path / "t.dat").write_bytes(b"?")
    assert bad("fit", "t.dat", *RANGES).endswith("; pass --format csv|tsv|parquet|jsonl")
    write(tmp_path / "new.csv", [{"age": "1"}, {"age": "old"}])
    assert bad("predict", made_model(tmp_path), "new.csv") == (  # it has no --text
        "new.csv, row 2: column 'age' is 'old', not a number"
    )


def test_only_the_command_names_its_options():
    package = Path(pril.__file__).parent
    for path in package.rglob("*.py"):
        if path.parent.name != "cli":
            assert not re.findall(r"(?<![-\w])--[a-z]\S*", path.read_text()), path


# --- Mistakes ------------------------------------------------------------------------------------


def spoil(path, row, **cells):
    rows = make_rows(100)
    rows[row].update(cells)
    return write(path, rows)


def test_files_that_cannot_be_read(bad, tmp_path):
    assert bad("fit", "no.csv", *RANGES) == "no.csv: no such file"
    for name, content, said in (
        ("e.csv", b"", "e.csv is empty"),
        ("h.csv", b"size,low,high\n", "h.csv has a header, but no rows"),
        ("r.csv", b"size,low,high\n1,poor,good\n2,poor\n", "r.csv, row 2: 2 cells where the header has 3: '2,poor'"),
        ("u.csv", b"size,town,low,high\n1,Rome,poor,good\n2,\xff\xfe,poor,fair\n", "u.csv, row 2: column 'town' is b'\\xff\\xfe', which is not UTF-8"),
        ("v.csv", b"size,low,high\n1,poor,good\n2,\xff,good\n", "v.csv, row 2: column 'low' is b'\\xff', which is not UTF-8"),
        ("p.parquet", b"nothing", "p.parquet is damaged, or not a Parquet file"),
        ("j.jsonl", b'{"size": 1, "low": "poor", "high": "fair"}\n{"size"\n', "j.jsonl, row 2: not a JSON object"),
    ):  # fmt: skip
        (tmp_path / name).write_bytes(content)
        said_now = bad("fit", name, *ENDS, "--classes", ",".join(GRADES), "-o", "m.pril")
        assert said_now.startswith(said)


@pytest.mark.parametrize("suffix", ["csv", "parquet", "jsonl"])
def test_cells_that_cannot_be_used(bad, good, tmp_path, suffix):
    name = f"t.{suffix}"
    for cells, said in (
        ({"low": "great", "high": "fair"}, f"{name}, row 61: columns 'low', 'high': lower end 'great' is above upper end 'fair'"),
        ({"low": "bad"}, f"{name}, row 61: columns 'low', 'high': 'bad' is not one of the classes ['poor', 'fair', 'good', 'great']"),
    ):  # fmt: skip
        spoil(tmp_path / name, 60, **cells)
        assert bad("fit", name, *RANGES) == said
    if suffix != "jsonl":  # JSON has no infinity
        spoil(tmp_path / name, 60, size=float("inf"))
        assert (
            bad("fit", name, *RANGES)
            == f"{name}, row 61: column 'size' is inf, which is not finite"
        )
    if suffix != "parquet":  # its columns have types
        spoil(tmp_path / name, 60, age="old")
        said = bad("fit", name, *RANGES)
        assert said.startswith(f"{name}, row 61: column 'age' is 'old', not a number")
    write(tmp_path / name, make_rows())
    good("fit", name, *RANGES)
    if suffix == "csv":
        for cells, said in (
            ({"size": "inf"}, "inf, which is not finite"),
            ({"size": "x"}, "'x', not a number"),
        ):
            spoil(tmp_path / "new.csv", 60, **cells)
            for command in (
                ["predict", "t.pril", "new.csv", "-o", "out.csv"],
                ["evaluate", "t.pril", "new.csv"],
            ):
                assert bad(*command).startswith(f"new.csv, row 61: column 'size' is {said}")
        spoil(tmp_path / "new.csv", 60, low="bad")
        assert "row 61: columns 'low', 'high': 'bad' is not one of" in bad(
            "evaluate", "t.pril", "new.csv"
        )
        missing = [{k: v for k, v in row.items() if k != "age"} for row in make_rows(5)]
        write(tmp_path / "new.csv", missing)
        assert bad("predict", "t.pril", "new.csv", "-o", "out.csv").startswith(
            "new.csv: there is no column 'age'; the columns are 'id', 'size', 'town'"
        )
        write(tmp_path / "new.csv", [{**row, "score": 1} for row in make_rows(5)])
        assert "there is a column 'score' already" in bad("predict", "t.pril", "new.csv")


def test_rows_of_weight_zero_are_counted_apart(good, tmp_path):
    """They are neither learned, nor evaluated, nor called rows without a label."""
    rows = [{**row, "w": k % 3} for k, row in enumerate(make_rows())]
    rows[0] |= {"low": "unknown", "high": "unknown"}  # of weight zero: its label says nothing
    write(tmp_path / "t.csv", rows)
    for options in ([], ["--coverage", "0.8"], ["--holdout", "0"], ["--seed", "5"]):
        command = ["fit", "t.csv", *RANGES, "--weight", "w", *options]
        result = json.loads(good(*command, "--json"))
        used = [row for row in rows if row["w"]]
        labelled = sum(bool(row["low"] or row["high"]) for row in used)
        assert result["zero_weight_rows"] == 100
        assert result["unlabelled_rows"] == 200 - labelled
        assert sum(result["widths"].values()) == labelled
        assert result["learned_rows"] == json.loads(good("show", "t.pril", "--json"))["rounds"]
        if options == ["--holdout", "0"]:
            assert result["learned_rows"] == labelled
    lines = good(*command)
    assert f"no label {200 - labelled}, weight zero 100\n" in lines


@pytest.mark.parametrize(("low", "high"), [("fair", "fair"), ("poor", "great"), ("fair", "good")])
def test_labels_that_tell_no_classes_apart_are_warned_of(call, tmp_path, low, high):
    """Else "100.0% inside their range" would look like a success."""
    rows = make_rows()
    write(tmp_path / "t.csv", [{**row, "low": low, "high": high} for row in rows])
    code, _, err = call("fit", "t.csv", *RANGES)
    assert code == 0
    said = f"columns 'low', 'high': every label includes {low!r}: nothing can be learned"
    assert f"pril: warning: t.csv: {said}\n" in err
    write(tmp_path / "t.csv", rows)
    assert "nothing can be learned" not in call("fit", "t.csv", *RANGES)[2]


def test_a_model_that_there_is_not_is_refused_in_plain_words(bad):
    said = bad("fit", "t.csv", *RANGES, "--model", "boost")
    assert said.startswith("Invalid value for '--model': 'boost' is not one of 'pril', ")


def test_weights_and_half_life(good, bad, call, feed, tmp_path):
    rows = [{**row, "w": k % 3} for k, row in enumerate(make_rows())]
    write(tmp_path / "t.csv", rows)
    result = json.loads(good("fit", "t.csv", *RANGES, "--weight", "w", "-o", "w.pril", "--json"))
    assert "w" not in result["columns"]["numbers"]
    assert result["options"]["weight"] == "w"
    assert "there is no column 'v'" in bad("fit", "t.csv", *RANGES, "--weight", "v")
    assert "'low' is the weight, not a label or feature" in bad(
        "fit", "t.csv", *RANGES, "--weight", "low"
    )
    write(tmp_path / "words.csv", [{**row, "w": "heavy"} for row in rows])
    said = bad("fit", "words.csv", *RANGES, "--weight", "w")
    assert said == "words.csv, row 1: column 'w' is 'heavy', not a number"  # --text would not help
    good("fit", "t.csv", *RANGES, "--model", "mpril", "-o", "m.pril", "-q")
    said = bad("stream", "m.pril", "--half-life", "9")
    assert said == "m.pril holds MPRIL, which has no half-life"
    for option in ([], ["--half-life", "9"]):
        feed("".join(f"{json.dumps(row)}\n" for row in rows).encode())
        assert call("stream", "w.pril", "-q", "-o", "new.pril", *option)[0] == 0
        assert pril.load("new.pril")[-1].half_life == (9 if option else None)


def test_options_that_make_no_sense(bad, call, tmp_path):
    write(tmp_path / "t.csv", make_rows())
    assert "where are the labels?" in bad("fit", "t.csv")
    for ends in (["--upper", "high"], ["--lower", "low", "--upper", "low"]):
        assert bad("fit", "t.csv", *ends) == (
            "--lower and --upper name the two ends of a range: pass both, each with a column of "
            "its own; for exact labels pass --label"
        )
    assert "exact labels, --lower and --upper for ranges: choose one" in bad(
        "fit", "t.csv", *ENDS, "--label", "grade"
    )
    assert "a class must be finite" in bad("fit", "t.csv", "--label", "size", "--classes", "1,inf")
    assert "NA in a table is a missing value" in bad("fit", "t.csv", *ENDS, "--classes", "NA,low")
    assert (
        "lower end 'poor' is above upper end 'good'; the classes were taken in alphabetical order; "
        "pass --classes, lowest first"
    ) in bad("fit", "t.csv", *ENDS, "--drop", "id,grade")
    assert bad("fit", "t.csv", "--label", "rating").startswith(
        "t.csv: there is no column 'rating'; the columns are 'id', 'size', 'age'"
    )
    assert bad("fit", "t.csv", *RANGES, "--by", "class") == (
        "by is for predicted ranges: pass coverage too"
    )
    assert "expected NAME=VALUE" in bad("fit", "t.csv", *RANGES, "--set", "step")
    assert "choose one of alpha, average" in bad("fit", "t.csv", *RANGES, "--set", "step=1")
    assert "--classes 'a,,b': expected names separated by commas" in bad(
        "fit", "t.csv", *ENDS, "--classes", "a,,b"
    )
    assert "names 'a' more than once" in bad("fit", "t.csv", *ENDS, "--classes", "a,a")
    assert "the suffix must be one of" in bad(
        "predict", made_model(tmp_path), "t.csv", "-o", "t.xls"
    )
    for wrong, said in (
        (["fit"], "Missing argument 'TABLE'"),
        (["fit", "t.csv", "--epochs", "0"], "'--epochs'"),
        (["fit", "t.csv", "--holdout", "2"], "'--holdout'"),
        (
            ["fit", "t.csv", "--model", "forest"],
            "'forest' is not one of 'pril', 'ordered-logit', 'mpril'",
        ),
        (["fit", "t.csv", "--nonsense"], "--nonsense"),
        (["dance"], "No such command 'dance'"),
    ):
        assert said in bad(*wrong)
    code, out, err = call()
    assert "stream" in out
    assert err == ""
    assert code == 2


def made_model(folder):
    model = pril.PRIL(classes=GRADES).fit(pd.DataFrame({"age": [0.0, 1.0]}), ["poor", "good"])
    pril.save(model, folder / "made.pril")
    return folder / "made.pril"


def test_jsonl_is_read_to_its_end_and_copied_as_it_is(good, bad, tmp_path):
    rows = [
        {"id": 2**60 + k, "x": k % 45, "ok": k % 2 == 0, "day": "2020-01-01", "y": k % 3}
        for k in range(90)
    ]
    rows[0]["note"] = None
    rows[60] |= {"late": 1.5, "note": "seen", "day": "unknown"}
    path = write(tmp_path / "t.jsonl", rows)
    result = json.loads(good("fit", "t.jsonl", "--label", "y", "--drop", "id", "--json"))
    assert result["columns"]["numbers"] == ["x", "ok", "late"]
    assert result["columns"]["words"] == {"note": 1}
    assert result["columns"]["ignored"] == {"id": "not asked for", "day": "dates"}
    good("predict", "t.pril", "t.jsonl", "-o", "out.jsonl")
    for row, again in zip(rows, read_table(tmp_path / "out.jsonl"), strict=True):
        assert {name: again[name] for name in row} == row
    good("predict", "t.pril", "t.jsonl", "-o", "out.csv.gz")
    again = pd.read_csv(tmp_path / "out.csv.gz")
    assert again["id"].tolist() == [row["id"] for row in rows]
    write(path, [{**row, "x": "many"} if k == 70 else row for k, row in enumerate(rows)])
    assert (
        bad("predict", "t.pril", "t.jsonl") == "t.jsonl, row 71: column 'x' is 'many', not a number"
    )


@pytest.mark.parametrize("packed", ["csv.gz", "CSV.BZ2", "jsonl.zst"])
def test_every_compression_has_a_default_name_and_is_replaced(good, tmp_path, packed):
    pril.save(pril.PRIL().fit(pd.DataFrame({"x": [0.0, 1.0]}), [1, 2]), "m.pril")
    (tmp_path / "t.csv").write_text("x,y\n0,1\n1,2\n")
    for _ in range(2):
        good("predict", "m.pril", "t.csv", "-o", f"new.{packed}")
    good("fit", f"new.{packed}", "--label", "prediction", "--holdout", 0)
    assert Path("new.pril").exists()


def test_pipelines_in_pipelines(good, bad, tmp_path):
    from sklearn.frozen import FrozenEstimator
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MaxAbsScaler, StandardScaler

    rows = [row for row in make_rows() if row["size"]]
    frame, y = pd.DataFrame(rows)[["size", "age"]], [row["grade"] for row in rows]
    write(tmp_path / "t.csv", rows)
    inner = make_pipeline(StandardScaler(), pril.PRIL(classes=[1, 2, 3, 4], random_state=0))
    model = make_pipeline(MaxAbsScaler(), inner).fit(frame, y)
    pril.save(model, "m.pril")
    good("predict", "m.pril", "t.csv", "-o", "out.csv")
    said = [int(row["prediction"]) for row in read_table(tmp_path / "out.csv")]
    assert said == model.predict(frame).tolist()
    pril.save(FrozenEstimator(pril.PRIL().fit(frame, y)), "m.pril")
    assert "does not learn" in bad("stream", "m.pril", "--label", "grade")


def test_odd_values(good, bad, call, tmp_path):
    pq.write_table(
        pq.read_table(write(tmp_path / "a.parquet", make_rows())).append_column(
            "big", [[2**60 + 1] * 300]
        ),
        "b.parquet",
    )
    good("fit", "b.parquet", *RANGES)
    write(tmp_path / "h.csv", [{"x": 1e308 if t else 1.0, "y": t % 2} for t in range(9)])
    assert bad("fit", "h.csv", "--label", "y") == (
        "h.csv, row 2: column 'x' is 1e+308, too large: the limit is 1e+146"
    )
    write(tmp_path / "f.csv", [{"x": t, "y": t / 4} for t in range(9)])
    assert bad("fit", "f.csv", "--label", "y").startswith(
        "f.csv, row 2: column 'y': Unknown label type: continuous. 0.25 is not a whole number; pass --classes"
    )
    write(tmp_path / "n.csv", [{"x": t, "y": ""} for t in range(9)])
    assert (
        bad("fit", "n.csv", "--label", "y", "--classes", "1,2")
        == "n.csv: column 'y': no row has a label"
    )
    (tmp_path / "folders" / "one").mkdir(parents=True)
    assert bad("fit", "folders/*", "--label", "y") == "folders/*: no such file"
    assert "is a device" in bad("fit", "f.csv", "--label", "y", "-o", "/dev/null")
    assert "for exact labels pass --label" in bad("fit", "f.csv", "--lower", "y", "--upper", "y")
    code, out, err = call("predict", "b.pril", "b.parquet", "--json")
    assert code == 0
    assert out.startswith("id,size,age")
    assert json.loads(err)["rows"] == 300
    assert not (tmp_path / "state").exists()
    bad("fit", "n.csv", "--label", "y", "--checkpoint", "state")


def test_text_that_is_copied_must_be_text(bad, good, tmp_path):
    rows = [{"x": t / 2, "note": "a" * 50, "y": t % 2} for t in range(40_000)]
    path = write(tmp_path / "t.csv", rows)
    good("fit", "t.csv", "--label", "y", "--drop", "note")
    path.write_bytes(path.read_bytes().replace(b"19500.0,aa", b"19500.0,\xff\xfe"))
    for name in ("out.csv", "out.jsonl", "out.parquet"):
        said = bad("predict", "t.pril", "t.csv", "-o", name)
        assert said.startswith("t.csv, row 39001: column 'note' is b'\\xff\\xfeaaaa")


def test_files_that_cannot_be_written(bad, tmp_path):
    write(tmp_path / "t.csv", make_rows())
    model = made_model(tmp_path)
    assert "is the input: writing there would destroy it" in bad(
        "fit", "t.csv", *RANGES, "-o", "t.csv"
    )
    assert "is the input" in bad("predict", model, "t.csv", "-o", "./t.csv")
    os.link("t.csv", "same.csv")
    assert "is the input" in bad("predict", model, "t.csv", "-o", "same.csv")
    assert "there is no folder" in bad("fit", "t.csv", *RANGES, "-o", "no/m.pril")
    assert "is a folder" in bad("fit", "t.csv", *RANGES, "-o", tmp_path)
    assert "there is no folder" in bad("predict", model, "t.csv", "-o", "no/out.csv")


def test_an_unwritable_folder(bad, tmp_path):
    write(tmp_path / "t.csv", make_rows())
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    if os.geteuid() == 0:  # who may write anywhere, but not here
        locked = "/proc/self"
    assert "is not writable" in bad("fit", "t.csv", *RANGES, "-o", f"{locked}/m.pril")
    model = made_model(tmp_path)
    assert "is not writable" in bad("predict", model, "t.csv", "-o", f"{locked}/out.csv")


def test_a_full_disk(good, bad, tmp_path, full_disk):
    """A real limit on the size of files; the old model and the old table stay as they were."""
    write(tmp_path / "t.csv", make_rows())
    for command, output in (
        (["fit", "t.csv", *RANGES, "-q", "--overwrite", "-o"], "m.pril"),
        (["predict", "m.pril", "t.csv", "-o"], "out.csv"),
    ):
        good(*command, output)
        with full_disk(2000):
            assert bad(*command, output) == f"{output}: File too large"


def test_fit_says_that_it_reads_before_it_has_read_anything(tmp_path, call, feed):
    command = [*PRIL, "fit", "-", *RANGES, "-o", str(tmp_path / "m.pril")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stderr.readline() == b"reading <stdin>\n"
        _, rest = process.communicate(b"")
    assert rest == b"pril: <stdin> is empty\n"
    feed(b"")
    _, _, said = call("fit", "-", *RANGES, "-q")
    assert said == "pril: <stdin> is empty\n"


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_nothing_behind(tmp_path, program, stop):
    table = write(tmp_path / "t.csv", make_rows() * 100)
    command = [*program, "fit", "-", *RANGES, "--model", "pril", "--epochs", "100000"]
    command += ["-o", str(tmp_path / "m.pril")]
    command += ["--checkpoint", str(tmp_path / "state"), "--checkpoint-every", "1000"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with (
        table.open("rb") as data,
        subprocess.Popen(
            command, stdin=data, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
        ) as process,
    ):
        while not (tmp_path / "state" / "checkpoint.pril").exists():
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(stop)
        try:
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()  # else a process that hangs would hang this test, too
    assert (process.returncode, out, err) == (1, b"", b"pril: stopped\n")
    assert {path.name for path in tmp_path.iterdir()} == {"t.csv", "state"}


def test_models_that_cannot_be_read(bad, tmp_path):
    write(tmp_path / "t.csv", make_rows())
    (tmp_path / "m.pril").write_bytes(b"not a model")
    for command in (
        ["predict", "m.pril", "t.csv"],
        ["evaluate", "m.pril", "t.csv"],
        ["show", "m.pril"],
        ["stream", "m.pril"],
    ):
        assert "m.pril is damaged or not a model file of pril" in bad(*command)
        missing = bad(command[0], "no.pril", *command[2:])
        assert missing.partition(";")[0] == "no.pril: No such file or directory"
    io.write({"phase": "learn"}, tmp_path / "c.pril", kind="checkpoint")
    assert "c.pril is a checkpoint, not a model" in bad("show", "c.pril")


def test_a_run_says_that_it_was_resumed(call, good, feed, tmp_path, monkeypatch):
    rows = make_rows(60)
    write(tmp_path / "t.csv", rows)
    keep = ["--checkpoint", "state", "--checkpoint-every", 1]
    fit = ["fit", "t.csv", *RANGES, *keep, "-o", "t.pril"]
    with monkeypatch.context() as patch:
        patch.setattr("pril.tables.training.Run.describe", lambda _: 1 / 0)
        assert call(*fit)[0] == 70
    assert good(*fit).startswith("resumed   from the checkpoint in state\n")
    assert "resumed" not in good(*fit)
    lines = [json.dumps(row).encode() for row in rows]
    stream = ["stream", "t.pril", *keep, "-o", "new.pril"]
    for end in ([b"{"], [b""]):
        feed(b"\n".join([*lines, *end]))
        code, _, err = call(*stream)
        assert ("resumed from the checkpoint in state\n" in err) == (code == 0)


def test_a_table_without_weights_or_without_labels_says_which(bad, tmp_path):
    def said(weights, grades):
        pairs = enumerate(zip(weights, grades, strict=True))
        rows = [{"x": t, "w": weight, "grade": grade} for t, (weight, grade) in pairs]
        write(tmp_path / "t.csv", rows)
        return bad("fit", "t.csv", "--label", "grade", "--weight", "w")

    assert said([0] * 4, [1, 2] * 2) == "t.csv: every row has weight 0, so none can be learned"
    assert said([0, 1] * 2, [1, ""] * 2) == (
        "t.csv: column 'grade': no row of a weight above 0 has a label"
    )
    assert said([1] * 4, [""] * 4) == "t.csv: column 'grade': no row has a label"


def test_a_checkpoint_of_another_command(call, bad, tmp_path):
    write(tmp_path / "t.csv", make_rows())
    (tmp_path / "state").mkdir()
    io.write(
        {"phase": "learn"}, tmp_path / "state" / "checkpoint.pril", kind="checkpoint", notes={}
    )
    said = bad("fit", "t.csv", *RANGES, "--checkpoint", "state")
    assert "belongs to another run: the table differs" in said
    (tmp_path / "state" / "checkpoint.pril").write_bytes(b"?")
    assert "damaged" in bad("fit", "t.csv", *RANGES, "--checkpoint", "state")
    (tmp_path / "state" / "checkpoint.pril").unlink()
    code, _, _ = call("fit", "t.csv", *RANGES, "--checkpoint", "state", "--checkpoint-every", "1")
    assert code == 0
    assert list((tmp_path / "state").iterdir()) == []


# --- What users do -------------------------------------------------------------------------------


def test_spaces_around_numbers_and_names(good, bad, tmp_path):
    lines = [f"{k}.5,  {k % 7}, {k % 3}" for k in range(40)]
    (tmp_path / "t.csv").write_text("\n".join(["x, z, k", *lines, "1, NA , 2"]) + "\n")
    result = json.loads(good("fit", "t.csv", "--label", " k", "--json"))
    assert result["columns"]["numbers"] == ["x", " z"]
    assert [entry["class"] for entry in result["classes"]] == [0, 1, 2]
    assert "there is no column 'k'; the columns are 'x', ' z', ' k'" in bad(
        "fit", "t.csv", "--label", "k"
    )
    good("fit", "t.csv", "--label", " k", "--features", 'x, " z"')


def test_words_in_a_column_of_numbers(good, bad, tmp_path):
    rows = [{"x": "oops" if k == 7 else k % 4, "k": k % 3} for k in range(40)]
    for suffix in ("csv", "jsonl"):
        name = write(tmp_path / f"t.{suffix}", rows).name
        said = f"{name}, row 8: column 'x' is 'oops', not a number"
        advice = "; if the column holds words, pass --text"
        for command in ("fit", "audit"):
            assert bad(command, name, "--label", "k") == said + advice
        result = json.loads(good("fit", name, "--label", "k", "--text", "x", "--json"))
        assert result["columns"]["words"] == {"x": 5}
        assert len(good("predict", "t.pril", name).splitlines()) >= 40


def test_nothing_is_left_to_learn_from(bad, tmp_path):
    write(tmp_path / "t.csv", [{"id": f"n{k}", "k": k % 3} for k in range(2400)])
    said = "t.csv: no column is left to learn from: 'id' has too many words"
    assert bad("fit", "t.csv", "--label", "k") == said
    write(tmp_path / "t.csv", [{"x": "", "k": k % 3} for k in range(24)])
    said = bad("fit", "t.csv", "--label", "k", "--features", "x", "--text", "x")
    assert said == "t.csv: no column is left to learn from: 'x' has no words"


def test_the_first_bad_row_is_named_whether_it_is_held_out_or_not(bad, tmp_path):
    for row in range(4, 10):
        cells = [{"x": "?" if k >= row else k, "k": k % 3} for k in range(40)]
        write(tmp_path / "t.csv", cells)
        said = f"t.csv, row {row + 1}: column 'x' is '?', not a number"
        assert said in bad("fit", "t.csv", "--label", "k", "--holdout", 0.5)


def test_labels_that_are_no_ratings(call, bad, tmp_path):
    write(tmp_path / "t.csv", [{"x": k % 9, "k": k % 3 or 10**20} for k in range(40)])
    said = bad("fit", "t.csv", "--label", "k")
    assert said.endswith(
        "row 1: column 'k' is about 100000000000000000000, which is too large for a label"
    )
    ends = [{"x": k % 9, "lo": "" if k % 2 else k % 4, "hi": 4} for k in range(40)]
    write(tmp_path / "t.csv", ends)
    _, _, err = call("fit", "t.csv", "--lower", "lo", "--upper", "hi", "-q")
    assert err.startswith(
        "pril: warning: t.csv: columns 'lo', 'hi': (0, 4) may include classes that never occur"
    )


def test_a_terminal_obeys_no_name_or_value(good, call, bad, tmp_path):
    """Names and cells may hold escapes that clear the screen, or turn the text round."""
    evil = "a\x1b[2J\x07\u202e"
    rows = [
        {evil: k, "town\nRome": "x\x1b]0;t\x07", "k": ["lo\x1b[31m", "hi"][k % 2]}
        for k in range(120)
    ]
    write(tmp_path / "t.jsonl", rows)
    code, out, err = call(
        "fit", "t.jsonl", "--label", "k", "--classes", "lo\x1b[31m,hi", "--verbose"
    )
    assert code == 0
    write(tmp_path / "new.jsonl", [{**row, "town\nRome": "never\x1b[1m"} for row in rows])
    seen = [out, err, good("show", "t.pril"), good("evaluate", "t.pril", "t.jsonl")]
    seen += call("predict", "t.pril", "new.jsonl", "-o", "out.csv")[1:]
    write(tmp_path / "new.jsonl", [{**row, evil: "\x1b[0m"} for row in rows])
    seen.append(bad("predict", "t.pril", "new.jsonl"))
    seen.append(bad("fit", "t.jsonl", "--label", "none\x1b[5m"))
    for text in seen:
        assert not [c for c in text if not c.isprintable() and c != "\n"]
    assert r"a\x1b[2J\x07\u202e" in out
    assert r"town\nRome" in out


def test_long_values_are_cut(call, bad, tmp_path):
    word = "long" * 10**5
    rows = [{"x": k, "w": "a" if k % 2 else "b", "k": k % 3} for k in range(40)]
    write(tmp_path / "t.jsonl", rows)
    assert call("fit", "t.jsonl", "--label", "k", "-q")[0] == 0
    write(tmp_path / "new.jsonl", [{**rows[0], "w": word}])
    code, _, err = call("predict", "t.pril", "new.jsonl")
    assert code == 0
    assert "longlong...," in err
    assert len(err) < 300
    write(tmp_path / "new.jsonl", [*rows, {**rows[0], "x": word}])
    assert len(bad("predict", "t.pril", "new.jsonl")) < 300
    write(tmp_path / "new.csv", [*rows, {**rows[0], "x": word}])
    assert len(bad("predict", "t.pril", "new.csv")) < 300
    write(tmp_path / "new.csv", [*rows, {**rows[0], "k": word}])
    assert len(bad("fit", "new.csv", "--label", "k")) < 300
    (tmp_path / "new.csv").write_bytes(b"\xff" * 10**5)
    assert len(bad("fit", "new.csv", "--label", "k")) < 300


def test_pictures_are_written_whole_or_not_at_all(good, bad, tmp_path):
    model = made_model(tmp_path)
    for name in ("p", "p.xyz", "p."):
        assert f"{name}: the suffix must be one of ." in bad("show", model, "--plot", name)
    for name, start in (("p.png", b"\x89PNG"), ("p.SVG", b"<?xml"), ("p.pdf", b"%PDF")):
        good("show", model, "--plot", name)
        assert (tmp_path / name).read_bytes().startswith(start)


@pytest.mark.parametrize(
    ("table", "model"),
    [
        ("sales.2023.csv", "sales.2023.pril"),
        ("t.csv.gz", "t.pril"),
        ("p*.csv", "p.pril"),
        ("*.csv", "model.pril"),
        ("folder", "folder.pril"),
        ("folder/[pq]?.csv", "pq.pril"),
    ],
)
def test_the_model_is_called_like_the_table(good, tmp_path, table, model):
    (tmp_path / "folder").mkdir()
    for name in ("sales.2023.csv", "t.csv.gz", "p1.csv", "p2.csv", "folder/q1.csv"):
        write(tmp_path / name, make_rows())
    good("fit", table, *RANGES, "-q")
    assert [path.name for path in tmp_path.glob("*.pril")] == [model]


def test_a_stream_by_other_labels_leaves_the_provenance(good, call, feed, tmp_path):
    rows = make_rows()
    write(tmp_path / "t.csv", rows)
    good("fit", "t.csv", *RANGES)
    feed("".join(json.dumps({**row, "other": "good"}) + "\n" for row in rows[:20]).encode())
    assert call("stream", "t.pril", "--label", "other", "-o", "t.pril")[0] == 0
    about = io.read(tmp_path / "t.pril", kind="model")[1]
    assert about.notes["labels"] == {"kind": "ends", "columns": ["low", "high"]}
    assert about.notes["streamed"] == 20


def test_a_stream_that_is_repeated_says_the_same(good, call, feed, tmp_path):
    """In the order of the classes, not of the alphabet."""
    rows = make_rows()
    write(tmp_path / "t.csv", rows)
    good("fit", "t.csv", *RANGES)
    said = []
    for _ in range(2):
        feed("".join(json.dumps(row) + "\n" for row in rows[:50]).encode())
        code, _, err = call("stream", "t.pril", "--checkpoint", "c", "-o", "t.pril", "--json")
        assert code == 0, err
        said.append(json.loads(err.splitlines()[-1]))
    assert said[0] == said[1]


def test_the_checkpoint_of_a_table_with_a_mistake_is_removed(good, bad, tmp_path):
    rows = make_rows()
    write(tmp_path / "t.csv", [*rows, {**rows[0], "size": "big"}])
    keep = ["--checkpoint", "state", "--checkpoint-every", 1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pril.tables.files.BLOCK_ROWS", 37)
        said = bad("fit", "t.csv", *RANGES, *keep)
        assert "row 301: column 'size' is 'big'" in said
        assert list((tmp_path / "state").iterdir()) == []
        write(tmp_path / "t.csv", rows)
        good("fit", "t.csv", *RANGES, *keep)


@pytest.mark.slow
def test_closed_and_full_outputs(tmp_path):
    for table in ("t.csv", "t.jsonl"):
        write(tmp_path / table, make_rows())
    made_model(tmp_path)
    command, full = shlex.join(PRIL), "No space left on device\n"
    failed = f"pril: Finished, but writing to standard output failed: {full}"
    for line, code, said in (
        (f"{command} stream made.pril <&-", 0, None),
        (f"{command} predict made.pril t.csv 2>&- >&-", 0, ""),
        (f"{command} show made.pril >/dev/full", 2, failed),
        (f"{command} predict made.pril t.csv >/dev/full", 2, f"pril: standard output: {full}"),
        (f"{command} stream made.pril -q >/dev/full <t.jsonl", 2, f"pril: standard output: {full}"),
    ):
        ended = subprocess.run(
            ["/bin/sh", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert ended.returncode == code, ended.stderr
        assert "Traceback" not in ended.stderr
        assert said is None or ended.stderr == said


def test_version_and_help_say_what_is_true(good):
    assert good("--version") == f"pril {pril.__version__}\n"
    assert "else stdout" in good("predict", "--help")
    assert "parquet" not in good("stream", "--help")
    assert "prank" not in good("audit", "--help")


@pytest.mark.parametrize(
    ("command", "option", "least", "most"),
    [
        ("fit t.csv", "epochs", 1, None),
        ("fit t.csv", "checkpoint_every", 1, None),
        ("fit t.csv", "holdout", 0.0, 0.99),
        ("fit t.csv", "seed", 0, 2**32 - 1),
        ("fit t.csv", "workers", 1, None),
        ("reproduce", "jobs", 1, None),
        ("reproduce", "runs", 1, None),
        ("show m.pril", "top", 1, None),
    ],
)
def test_options_have_limits(command, option, least, most):
    name, *arguments = command.split()

    def parsed(value):
        given = [*arguments, f"--{option.replace('_', '-')}={value}"]
        return get_command(app).commands[name].make_context(name, given).params[option]

    assert parsed(least) == least
    with pytest.raises(BadParameter, match=r"range|than or equal"):
        parsed(least - 1)
    if most is not None:
        assert parsed(most) == most
        with pytest.raises(BadParameter, match=r"range|than or equal"):
            parsed(most + 1)


def test_defaults_are_those_of_a_task():
    assert FitOptions(label="y").task({}) == Task(LabelEnds(("y",)))
    assert Task(LabelEnds(("y",))).epochs == 10  # as the help says
    defaults = get_command(app).commands["show"].make_context("show", ["m.pril"]).params
    assert defaults["top"] == 10
    options = [one for command in get_command(app).commands.values() for one in command.params]
    switched_on = {option.name for option in options if option.default is True}
    assert switched_on == {"scale", "impute", "one_hot", "shuffle"}
    defaults = get_command(app).commands["reproduce"].make_context("reproduce", []).params
    assert (defaults["runs"], defaults["quick"], defaults["seed"]) == (100, False, 0)
