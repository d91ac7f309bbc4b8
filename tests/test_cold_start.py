"""A model that begins with a stream, and is widened by what appears."""

import json
import math
import re
import subprocess

import numpy as np
import pyarrow as pa
import pytest

import pril
from learners import LINEAR
from pril.core.registry import LEARNERS
from tables import GRADES, make_rows
from test_stream import PRIL, json_lines, run_and_kill

BEGIN = ("--classes", ",".join(GRADES), "--lower", "low", "--upper", "high", "--id", "id")
COMMANDS = {one.name: one.command for one in LEARNERS}


def late_rows(n=150, seed=3):
    """Return rows in which a number appears late, and words in no order."""
    rows = make_rows(n, seed=seed)
    for t, row in enumerate(rows):
        del row["grade"]
        if t < n // 3:
            del row["age"]
    return rows


class Twin:
    """The same by hand: running moments, and the stream of a bare learner, which widens itself."""

    def __init__(self, learner, bounded):
        self.learner, self.bounded = learner, bounded
        self.stream, self.seen = learner.stream(), {}

    def features(self, row):
        found = {}
        for name in ("size", "age"):
            if row.get(name) is not None:
                self.seen.setdefault(name, []).append(row[name])
                seen = np.array(self.seen[name], dtype=float)
                spread = np.abs(seen - seen.mean()).max() if self.bounded else seen.std()
                found[name] = (row[name] - seen.mean()) / (spread or 1.0)
        if row["town"] is not None:
            found[f"town={row['town']}"] = 1.0
        return found


@pytest.mark.parametrize("cls", [cls for cls in LINEAR if cls.__name__ != "PRank"])
@pytest.mark.filterwarnings("ignore::pril.errors.FeatureRangeWarning")
def test_it_learns_as_a_bare_learner_that_widens(good, feed, cls):
    rows = late_rows()
    feed(json_lines(rows))
    command = COMMANDS[cls.__name__]
    said = good("stream", "new.pril", *BEGIN, "--model", command, "-q").splitlines()
    twin = Twin(cls(classes=GRADES), bounded=command == "mpril")
    for t, row in enumerate(rows):
        x = twin.features(row)
        if t > 0:
            known = {name: x[name] for name in x if name in twin.learner.feature_names_in_}
            expected = twin.stream.predict_one(known)
            assert json.loads(said[t])["prediction"] == expected, t
        twin.stream.learn_one(x, (row["low"], row["high"]))
    model = pril.load("new.pril")
    names = model[:-1].get_feature_names_out().tolist()
    assert sorted(names) == sorted(twin.learner.feature_names_in_)
    order = [twin.learner.feature_names_in_.tolist().index(name) for name in names]
    np.testing.assert_allclose(
        model[-1].coef_, twin.learner.coef_[..., order], rtol=1e-6, atol=1e-9
    )
    assert model[-1].t_ == twin.learner.t_
    if hasattr(cls(), "shuffle"):  # else `fit` makes no passes
        assert (model[-1].max_iter, model[-1].shuffle) == (1, False)


def test_it_goes_on_where_it_ended(good, feed):
    """In two runs and in one, the model is the same; columns of the second run widen it."""
    rows = late_rows()
    for some in (rows[:40], rows[40:]):
        feed(json_lines(some))
        good("stream", "two.pril", *BEGIN, "-q")
    feed(json_lines(rows))
    good("stream", "one.pril", *BEGIN, "-q")
    one, two = pril.load("one.pril"), pril.load("two.pril")
    assert one[0].get_feature_names_out().tolist() == two[0].get_feature_names_out().tolist()
    np.testing.assert_array_equal(one[-1].coef_, two[-1].coef_)
    pril.save(one, "1.pril")
    pril.save(two, "2.pril")
    with open("1.pril", "rb") as first, open("2.pril", "rb") as second:
        assert first.read() == second.read()


def test_the_model_is_like_any_other(good, feed, tmp_path):
    rows = late_rows(300)
    feed(json_lines(rows))
    good("stream", "new.pril", *BEGIN, "-q")
    (tmp_path / "t.jsonl").write_bytes(json_lines(make_rows(100, seed=5)))
    result = json.loads(good("evaluate", "new.pril", "t.jsonl", "--json"))
    assert result["interval_accuracy"] > result["constant_accuracy"] + 0.2
    assert pril.load("new.pril").stream().predict_one({"size": 500}) == "great"


def test_a_refused_row_widens_nothing(good, feed):
    good_row = {"id": 1, "size": 3, "low": "poor", "high": "fair"}
    bad_row = {"id": 2, "size": 4e9, "colour": "red", "weight": 3, "low": "odd", "high": "fair"}
    feed(json_lines([good_row, bad_row, {**good_row, "size": 5}]))
    said = good("stream", "new.pril", *BEGIN, "-q", "--on-error", "skip").splitlines()
    assert "error" in json.loads(said[1])
    model = pril.load("new.pril")
    assert model[0].get_feature_names_out().tolist() == ["size"]
    assert model[0].transform(pa.table({"size": [4.0]})).tolist() == [[0.0]]


def test_a_column_with_too_many_words_is_left_out(good, feed):
    rows = [
        {
            "name": f"n{t % 1001 if t > 100 else 0}",
            "size": math.sin(t),
            "low": "poor",
            "high": "fair",
        }
        for t in range(1105)
    ]
    feed(json_lines(rows))
    good("stream", "new.pril", *BEGIN[:-2], "-q")
    model = pril.load("new.pril")
    assert model[0].left_out_ == ["name"]
    assert len(model[-1].coef_) == 1


def test_mistakes_are_named(bad, good, feed):
    feed(json_lines(late_rows(5)))
    assert bad("stream", "new.pril").endswith(
        "new.pril: No such file or directory; to begin a new model pass --classes, lowest first"
    )
    assert bad("stream", "new.pril", "--classes", "a,b").startswith("where are the labels?")
    said = bad("stream", "new.pril", *BEGIN, "--model", "kernel")
    assert said == "new.pril: a model kernel cannot begin with a stream: it needs a table"
    good("stream", "new.pril", *BEGIN, "-q")
    said = bad("stream", "new.pril", "--classes", "a,b")
    assert said.startswith("new.pril exists, and has the classes poor, fair, good, great: leave")


@pytest.mark.slow
def test_it_survives_kill_9(tmp_path):
    data = tmp_path / "rows.jsonl"
    data.write_bytes(json_lines(late_rows(10_000)))
    commands = {}
    for name in ("whole", "killed"):
        home = tmp_path / name
        home.mkdir()
        saved = ["--checkpoint", str(home / "state"), "--checkpoint-every", "1000"]
        commands[name] = [*PRIL, "stream", str(home / "m.pril"), *BEGIN, "-q", *saved]
    with data.open("rb") as stdin:
        subprocess.run(commands["whole"], stdin=stdin, check=True, stdout=subprocess.DEVNULL)
    checkpoint = tmp_path / "killed" / "state" / "checkpoint.pril"
    run_and_kill(commands["killed"], data, checkpoint, seed=2)
    files = [tmp_path / name / "m.pril" for name in commands]
    assert files[0].read_bytes() == files[1].read_bytes()


def told_columns(err):
    return re.findall(r"pril: warning: <stdin>: the column '(\w+)'", err)


@pytest.mark.parametrize("n", [15, 250])
def test_columns_that_say_nothing_of_new_rows_are_warned_of_once(call, feed, tmp_path, n):
    rows = [
        {"id": f"flat {t}", "offset": 7000 + t, "x": t % 7, "town": "Oslo", "y": 1 + t % 2}
        for t in range(n)
    ]
    begin = ("--classes", "1,2", "--label", "y", "-q")
    feed(json_lines(rows))
    code, _, err = call("stream", "a.pril", *begin)
    assert code == 0
    assert told_columns(err) == ["offset", "id"]
    assert "the column 'offset' looks like a row id" in err
    assert f"the column 'id' has {min(n, 100)} different words in {min(n, 100)} rows" in err
    assert "begin the model anew: pass an id by --id, an offset by --note" in err
    for options in (("--id", "id", "--note", "offset"), ("--id", "offset", "--note", "id")):
        (tmp_path / "b.pril").unlink(missing_ok=True)
        feed(json_lines(rows))
        code, _, err = call("stream", "b.pril", *begin, *options)
        assert (code, err) == (0, "")
    feed(json_lines(rows[:9]))
    assert told_columns(call("stream", "c.pril", *begin)[2]) == []
