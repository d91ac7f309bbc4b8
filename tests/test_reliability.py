"""Nothing is lost: locks, leftovers, disks that fail and tables that change."""

import copy
import datetime
import errno
import gzip
import json
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from filelock import FileLock
from scipy import sparse
from sklearn.pipeline import Pipeline, make_pipeline

import pril
from learners import ALL
from pril.io import archive
from pril.labels import ranking
from pril.metrics import interval_absolute_error, interval_accuracy
from pril.online import learning
from pril.tables import files, text
from pril.tables.checkpoints import hold, lock_of
from pril.tables.opening import open_table
from tables import GRADES, make_rows, write

RANGES = ["--lower", "low", "--upper", "high", "--classes", ",".join(GRADES), "--drop", "id,grade"]


@pytest.fixture
def table(tmp_path):
    return write(tmp_path / "t.csv", make_rows())


def test_an_output_that_is_the_checkpoint_is_refused(good, bad, table):
    keep = ["--checkpoint", "state"]
    said = bad("fit", "t.csv", *RANGES, *keep, "-o", "state/../state/checkpoint.pril")
    assert "there is no folder" in said  # before the first run
    good("fit", "t.csv", *RANGES, *keep)
    said = bad("fit", "t.csv", *RANGES, *keep, "-o", "state/checkpoint.pril")
    assert said == "state/checkpoint.pril is the checkpoint itself: write the model to another file"
    assert "is the checkpoint itself" in bad(
        "stream", "t.pril", *keep, "-o", "state/checkpoint.pril"
    )


def test_a_checkpoint_folder_belongs_to_one_run(good, bad, table, tmp_path):
    (tmp_path / "state").mkdir()
    others = tmp_path / "state" / ".pril-0123456789abcdef-of-another-run.tmp"
    others.write_bytes(b"half of a model")
    with FileLock(tmp_path / "state" / "checkpoint.lock"):
        said = bad("fit", "t.csv", *RANGES, "--checkpoint", "state")
    assert said == "the checkpoint state is in use by another process: wait until it ends"
    good("fit", "t.csv", *RANGES, "--checkpoint", "state", "--checkpoint-every", 1)
    assert list((tmp_path / "state").iterdir()) == [others]


def test_two_streams_do_not_write_one_model(good, bad, table, tmp_path):
    good("fit", "t.csv", *RANGES)
    with FileLock(lock_of(tmp_path / "t.pril")):
        assert bad("stream", "t.pril", "-o", "t.pril").startswith("t.pril is in use")


def test_a_lock_is_given_back_where_open_files_cannot_be_removed(tmp_path, monkeypatch):
    lock = lock_of(tmp_path / "t.pril")
    remove = Path.unlink

    def refuse_open_files(path, missing_ok=False):
        if path == lock and holding:
            raise PermissionError(13, "The process cannot access the file", str(path))
        remove(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", refuse_open_files)
    for _ in range(2):
        with hold(lock, "t.pril"):
            holding = True
            with pytest.raises(ValueError, match="is in use"), hold(lock, "t.pril"):
                pass
        holding = False


def test_leftovers_of_killed_runs_are_removed(good, table, tmp_path):
    good("fit", "t.csv", *RANGES)
    killed, left = archive.create_temporary(tmp_path / "out.csv")
    left.close()
    other, abandoned = archive.create_temporary(tmp_path / "other.csv")
    abandoned.close()
    running, busy = archive.create_temporary(tmp_path / "out.csv")
    with busy:
        good("predict", "t.pril", "t.csv", "-o", "out.csv")
        assert not killed.exists()
        assert running.exists()  # somebody writes it now
        assert other.exists()  # it belongs to another output
    archive.remove_leftovers(tmp_path / "out.csv")
    assert not running.exists()


class FailingStream:
    """A file on a disk that fails after so many bytes."""

    def __init__(self, stream, most):
        self.stream, self.most = stream, most

    def read(self, size=-1):
        if self.stream.tell() >= self.most:
            raise OSError(errno.EIO, "Input/output error")
        return self.stream.read(size)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stream.close()

    def __getattr__(self, name):
        return getattr(self.stream, name)


def test_a_failing_disk_is_no_mistake_of_the_table(good, call, tmp_path, monkeypatch):
    write(tmp_path / "t.csv", make_rows(3000))
    keep = ["--checkpoint", "state", "--checkpoint-every", 1]
    monkeypatch.setattr(files, "BLOCK_ROWS", 370)
    monkeypatch.setattr(text, "READ_BYTES", 1000)
    good("fit", "t.csv", *RANGES, "-o", "whole.pril")
    opened = text.open_text
    with monkeypatch.context() as patch:
        patch.setattr(text, "open_text", lambda *of: FailingStream(opened(*of), 120_000))
        code, _, err = call("fit", "t.csv", *RANGES, *keep)
    assert (code, err.count("\n")) == (2, 1)
    assert err == "pril: t.csv: Input/output error\n"
    assert (tmp_path / "state" / "checkpoint.pril").exists()
    good("fit", "t.csv", *RANGES, *keep)  # once the disk works, the run goes on
    assert (tmp_path / "t.pril").read_bytes() == (tmp_path / "whole.pril").read_bytes()


def test_a_failing_disk_under_parquet(tmp_path, monkeypatch):
    path = write(tmp_path / "t.parquet", make_rows())
    table = open_table(str(path))

    def fail(*_, **__):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(files.pa.parquet.ParquetFile, "iter_batches", fail)
    with pytest.raises(OSError, match="Input/output error") as caught:
        list(table.blocks())
    assert caught.value.filename == str(path)
    assert not isinstance(caught.value, files.TableError)


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("command", ["fit", "evaluate", "predict"])
def test_a_table_that_changes_during_a_run(good, call, tmp_path, monkeypatch, suffix, command):
    path = write(tmp_path / f"t.{suffix}", make_rows())
    good("fit", path.name, *RANGES)
    good("fit", path.name, *RANGES, "-o", "m.pril")
    read = files.Table.begin_file

    def grow(self, file, row):
        read(self, file, row)
        more = write(tmp_path / f"more.{suffix}", make_rows(310))
        path.write_bytes(more.read_bytes())

    monkeypatch.setattr(files.Table, "begin_file", grow)
    rest = RANGES if command == "fit" else []
    given = [path.name] if command == "fit" else ["m.pril", path.name]
    code, _, err = call(command, *given, *rest)
    assert code == 2
    assert f"t.{suffix} has changed while it was read" in err or "damaged" in err
    assert pril.load("m.pril")


@pytest.mark.parametrize("model", ["pril", "ordered-logit"])
def test_a_table_that_grows_between_two_passes(call, tmp_path, monkeypatch, model):
    path = write(tmp_path / "t.csv", make_rows())
    monkeypatch.setattr("pril.tables.training.CACHE_BYTES", 0)
    begin = learning.begin_with  # between the survey and the first pass that learns

    def grow(*arguments):
        write(path, make_rows(310))
        begin(*arguments)

    monkeypatch.setattr(learning, "begin_with", grow)
    code, out, err = call("fit", "t.csv", *RANGES, "--json", "--model", model)
    assert (code, out) == (2, "")
    assert "t.csv has changed while it was read" in err


# --- Labels that floats cannot hold --------------------------------------------------------------

LARGE = 2**53


def test_a_masked_label_is_a_missing_one():
    X = np.arange(12.0).reshape(6, 2)
    for y, gaps in (
        ([1, 2, 3, 1, 2, 3], [1, 2, None, 1, None, 3]),
        (["a", "b", "c", "a", "b", "c"], ["a", "b", None, "a", None, "c"]),
    ):
        masked = np.ma.array(y, mask=[0, 0, 1, 0, 1, 0])
        classes = sorted(set(y))
        one, other = (
            pril.PRIL(classes=classes, random_state=0).fit(X, labels) for labels in (masked, gaps)
        )
        assert one.t_ == other.t_ == 4 * one.n_iter_
        assert one.coef_.tolist() == other.coef_.tolist()
    ends = np.ma.array([[1, 2], [2, 3]] * 3, mask=[[0, 0], [0, 1]] * 3)
    pairs = [(1, 2), (2, None)] * 3
    one, other = (
        pril.PRIL(classes=[1, 2, 3], random_state=0).fit(X, labels) for labels in (ends, pairs)
    )
    assert one.thresholds_.tolist() == other.thresholds_.tolist()
    unmasked = np.ma.array([LARGE, LARGE + 1] * 3)
    assert pril.PRIL().fit(X, unmasked).classes_.tolist() == [LARGE, LARGE + 1]


DAYS = np.array([["2020-01-01", "2021-01-01"], ["2022-01-01", "2023-01-01"]], dtype="M8[ns]")
NOT_NUMBERS = {
    "masked": (np.ma.masked_array([[1.0, 2.0], [3.0, 4.0]], [[0, 0], [0, 1]]), "row 1: a value is masked"),
    "masked rows": ([np.ma.masked_array([1.0, 2.0], [0, 0]), np.ma.masked_array([3.0, 4.0], [1, 0])], "row 1: a value is masked"),
    "dates": (DAYS, "got datetime64"),
    "spans": (DAYS - DAYS[0], "got timedelta64"),
    "listed dates": ([list(row) for row in DAYS], "row 0: got a time"),
    "spans among objects": (np.array([[1.0, np.timedelta64(5, "s")], [2.0, 3.0]]), "got object"),
    "a date column": (pd.DataFrame({"a": [1.0, 2.0], "when": DAYS[:, 0]}), "feature 'when': got datetime64"),
    "with a time zone": (pd.DataFrame({"a": [1.0, 2.0], "when": pd.DatetimeIndex(DAYS[0], tz="UTC")}), "feature 'when': got datetime64"),
    "a span column": (pd.DataFrame({"a": [1.0, 2.0], "took": (DAYS - DAYS[0])[:, 0]}), "feature 'took': got timedelta64"),
    "polars": (pl.DataFrame({"a": [1.0, 2.0], "when": DAYS[:, 0]}), "feature 'when': got Datetime"),
}  # fmt: skip


@pytest.mark.parametrize("case", NOT_NUMBERS)
@pytest.mark.parametrize("cls", [*ALL, pril.PolynomialMap, pril.LandmarkFeatures])
def test_masked_values_and_times_are_no_features(cls, case):
    X, message = NOT_NUMBERS[case]
    for method in ("fit", "partial_fit", "predict", "latent", "transform"):
        for model in (cls(), cls().fit(np.eye(2), [1, 2])):
            before = pickle.dumps(model)
            if hasattr(model, method) and (
                method.endswith("fit") or hasattr(model, "n_features_in_")
            ):
                y = [[1, 2]] if method.endswith("fit") else []
                with pytest.raises((ValueError, TypeError), match=f"X, {message}|X: {message}"):
                    getattr(model, method)(X, *y)
            assert pickle.dumps(model) == before
    if hasattr(cls, "stream") and isinstance(X, np.ndarray):
        stream = cls(classes=[1, 2]).stream()
        with pytest.raises((ValueError, TypeError), match=r"x, feature [01]: .* is not a number"):
            stream.learn_one(X[-1] if case == "masked" else X[0], 1)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ma.masked_array([1.0, 2.0], [0, 1]), "sample_weight, row 1: a value is masked"),
        (np.ma.masked, "sample_weight, row 0: a value is masked"),
        (DAYS[0], "sample_weight: got datetime64"),
        (pd.Series(DAYS[0] - DAYS[1]), "sample_weight: got timedelta64"),
        ([2.0, np.timedelta64(5, "s")], "sample_weight, row 1: got a time"),
    ],
)
def test_masked_values_and_times_are_no_weights(weights, message):
    model = pril.PRIL(random_state=0).fit(np.eye(2), [1, 2])
    for call in (
        lambda: model.fit(np.eye(2), [1, 2], weights),
        lambda: model.partial_fit(np.eye(2), [1, 2], sample_weight=weights),
        lambda: model.score(np.eye(2), [1, 2], weights),
        lambda: interval_accuracy([1, 2], [1, 2], sample_weight=weights),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            call()
    kept = np.ma.masked_array([1.0, 2.0])  # nothing is masked
    assert (
        model.fit(np.ma.masked_array(np.eye(2)), [1, 2], kept).score(np.eye(2), [1, 2], kept) == 1
    )


def test_large_labels_are_refused(good, bad, tmp_path):
    rows = [{"x": k % 7, "y": LARGE + k % 3} for k in range(60)]
    for suffix in ("csv", "tsv", "parquet", "jsonl"):
        write(tmp_path / f"t.{suffix}", rows)
        said = bad("fit", f"t.{suffix}", "--label", "y")
        assert f"column 'y' is about {LARGE}, which is too large for a label" in said
    few = [{"x": k % 7, "y": k % 3} for k in range(60)]
    write(tmp_path / "t.csv", few)
    assert "smaller than 2^53" in bad("fit", "t.csv", "--label", "y", "--classes", f"0,1,2,{LARGE}")
    exact = [2**53 - 3, 2**53 - 2, 2**53 - 1]  # as floats, and no other number is rounded to them
    gap = [{"x": 1, "y": ""}, *({"x": k % 7, "y": exact[k % 3]} for k in range(60))]
    write(tmp_path / "gap.csv", gap)
    good("fit", "gap.csv", "--label", "y")
    assert pril.load("gap.pril").classes_.tolist() == exact
    write(tmp_path / "gap.csv", [*gap, {"x": 1, "y": 2**53}])
    assert f"row 62: column 'y' is about {2**53}, which" in bad("fit", "gap.csv", "--label", "y")


def test_unsigned_labels(good, bad, tmp_path):
    x = [k % 7 for k in range(60)]
    small = pa.array([k % 3 for k in x], pa.uint64())
    pq.write_table(pa.table({"x": x, "y": small}), tmp_path / "t.parquet")
    good("fit", "t.parquet", "--label", "y")
    assert pril.load("t.pril").classes_.tolist() == [0, 1, 2]
    for first in (2**53, 2**63, 2**64 - 1):
        large = pa.array([first, *small.to_pylist()[1:]], pa.uint64())
        pq.write_table(pa.table({"x": x, "y": large}), tmp_path / "t.parquet")
        said = bad("fit", "t.parquet", "--label", "y")
        assert said.startswith("t.parquet, row 1: column 'y' is about ")
        assert said.endswith("which is too large for a label")


# --- Matrices that do not fit together -----------------------------------------------------------


def damaged(kind, **changes):
    matrix = kind(np.eye(4))
    for name, value in changes.items():
        setattr(matrix, name, np.asarray(value))
    return matrix


@pytest.mark.parametrize(
    "X",
    [
        damaged(sparse.csr_array, indptr=[0, 1, 2, 3, 10**7]),
        damaged(sparse.csr_array, indptr=[0, 10**8, 2, 3, 4]),
        damaged(sparse.csr_array, indptr=[1, 1, 2, 3, 4]),
        damaged(sparse.csr_array, indptr=[0, 2, 4]),
        damaged(sparse.csr_array, data=[1.0]),
        damaged(sparse.csr_matrix, indices=[0, 1, 2, 10**8]),
        damaged(sparse.csr_matrix, indices=[0, 1, 2, -1]),
        damaged(sparse.csc_array, indices=[0, 1, 2, 10**8]),
        damaged(sparse.csc_array, indptr=[0, 1, 2, 3, 10**7]),
        damaged(sparse.coo_array),
    ],
    ids=lambda X: X.format,
)
@pytest.mark.parametrize("learner", [pril.PRIL, pril.KernelPRIL])
def test_a_damaged_matrix_is_refused(X, learner):
    if X.format == "coo":
        X.coords = tuple(map(np.array, ([0, 1, 2, 10**8], [0, 1, 2, 3])))
    fitted = learner().fit(np.eye(4), [1, 2, 1, 2])
    for call in (lambda: learner().fit(X, [1, 2, 1, 2]), lambda: fitted.predict(X)):
        with pytest.raises(ValueError, match="X is damaged"):
            call()
    with pytest.raises(ValueError, match="X is damaged"):
        pril.PolynomialMap().fit(X)


# --- Threads -------------------------------------------------------------------------------------


class Slow:
    """Rows that are read while another thread does something."""

    def __init__(self):
        self.begun, self.may_end = threading.Event(), threading.Event()

    def __array__(self, dtype=None, copy=None):
        self.begun.set()
        self.may_end.wait()
        return np.array([[1.0, 2.0]])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_process_forked_while_a_thread_learns_can_learn():
    model = pril.PRIL(classes=[1, 2]).partial_fit([[1.0, 0.0]], [1])
    rows = Slow()
    thread = threading.Thread(target=model.partial_fit, args=(rows, [2]))
    thread.start()
    rows.begun.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # ends a child that hangs
        model.partial_fit([[0.0, 1.0]], [2])
        os._exit(model.t_)
    rows.may_end.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
    assert model.t_ == 2


def test_threads_take_turns_to_learn():
    """Every update counts, and a call that fails takes nothing from the others."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(2000, 5)), rng.integers(0, 3, 2000)
    model = pril.PRIL(classes=[0, 1, 2])
    begin = threading.Barrier(4)

    def learn(number):
        begin.wait()
        for t in range(number * 500, (number + 1) * 500):
            model.partial_fit(X[t : t + 1], y[t : t + 1])
            with pytest.raises(ValueError, match="not one of the classes"):
                model.partial_fit(X[t : t + 1], [7])

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(learn, range(4)))
    finally:
        sys.setswitchinterval(before)
    assert model.t_ == 2000
    assert pickle.loads(pickle.dumps(model)).t_ == 2000  # noqa: S301
    assert copy.deepcopy(model).t_ == 2000


# --- Columns that mean something else than they seem to ------------------------------------------


def test_folders_of_hive_are_columns(good, bad, tmp_path):
    rows = make_rows()
    for row in rows:
        row["town"] = row["town"] or "none"
    write(tmp_path / "flat.csv", [{k: v for k, v in row.items() if k != "id"} for row in rows])
    for suffix in ("csv", "jsonl", "parquet"):
        ordered = []
        for town in sorted({row["town"] for row in rows}):
            folder = tmp_path / suffix / f"town={town.replace(' ', '%20')}"
            folder.mkdir(parents=True)
            inside = [row for row in rows if row["town"] == town]
            ordered += inside
            drop = ("town", "id")
            write(
                folder / f"p.{suffix}",
                [{k: row[k] for k in row if k not in drop} for row in inside],
            )
        write(tmp_path / "flat.csv", [{k: row[k] for k in row if k != "id"} for row in ordered])
        options = [*RANGES[:-1], "grade", "--holdout", 0]
        good("fit", "flat.csv", *options, "-o", "flat.pril")
        good("fit", suffix, *options, "-o", "hive.pril")
        flat, hive = pril.load("flat.pril"), pril.load("hive.pril")
        assert hive[0].words_ == {"town": ["Bern, old", "Oslo", "Rome", "none"]}
        np.testing.assert_allclose(hive[1].coef_, flat[1].coef_)
        for place in (suffix, f"{suffix}/*/p.{suffix}"):
            good("predict", "hive.pril", place, "-o", "out.csv")
        place = f"{suffix}/town=Oslo/p.{suffix}"
        for command in ("predict", "evaluate"):
            said = bad(command, "hive.pril", place)
            assert said.startswith(f"{place}: there is no column 'town': hive.pril learned it from")
        said = good("fit", suffix, *options, "-o", "hive.pril").splitlines()
        assert (
            "folders   town (a column named by folders); to learn without pass --drop town" in said
        )
        said = good("fit", suffix, *options, "--drop", "town", "-o", "without.pril")
        assert "folders" not in said
        good("predict", "without.pril", place, "-q", "-o", "out.csv")
        good("fit", suffix, "--label", "town", "--features", "age", "--classes",
             '"Bern, old",Oslo,Rome,none')  # fmt: skip


def test_folders_above_the_table_are_no_columns(tmp_path):
    (tmp_path / "run=3").mkdir()
    path = write(tmp_path / "run=3" / "t.csv", [{"x": 1}])
    for place in (path, path.parent, f"{path.parent}/*.csv"):
        assert open_table(str(place)).schema.names == ["x"]
    assert open_table(f"{tmp_path}/*/t.csv").schema.names == ["x", "run"]
    for name in ("plain", "=3"):
        (tmp_path / "folder" / name).mkdir(parents=True)
        write(tmp_path / "folder" / name / "t.csv", [{"x": 1}])
    assert open_table(str(tmp_path / "folder")).schema.names == ["x"]
    (tmp_path / "both" / "x=7").mkdir(parents=True)
    write(tmp_path / "both" / "x=7" / "t.csv", [{"x": 1}])  # a column of the file is used
    [(_, block)] = open_table(str(tmp_path / "both")).blocks()
    assert block["x"].to_pylist() == ["1"]


def test_dates_and_booleans_are_the_same_in_every_format(good, tmp_path):
    rng = np.random.default_rng(0)
    days = [datetime.date(2024, 1, 1) + datetime.timedelta(int(k)) for k in rng.integers(0, 99, 80)]
    rows = [
        {"x": float(x), "day": day, "new": bool(x > 0.3), "y": int(x > 0) + int(x > 1)}
        for x, day in zip(rng.normal(size=80), days, strict=True)
    ]
    predictions = []
    for suffix in ("csv", "tsv", "jsonl", "parquet"):
        for spell in (str, lambda b: str(b).lower(), lambda b: str(b).upper()):
            shown = [dict(row) for row in rows]
            for row in shown if suffix != "parquet" else ():
                row["day"] = row["day"].isoformat()
                if suffix != "jsonl":
                    row["new"] = spell(row["new"])
            write(tmp_path / f"t.{suffix}", shown)
            out = good("fit", f"t.{suffix}", "--label", "y", "-o", "m.pril")
            assert "day (dates)" in out
            good("predict", "m.pril", f"t.{suffix}", "-o", "out.jsonl")
            lines = (tmp_path / "out.jsonl").read_text().splitlines()
            predictions.append(
                [(row := json.loads(line))["prediction"] + row["score"] for line in lines]
            )
    assert all(entry == predictions[0] for entry in predictions)


def test_row_numbers_are_no_features(good, call, tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=200), "y": rng.integers(0, 3, 200)})
    named = pd.Index(rng.permutation(10**6)[:200], name="number")
    frame.set_index(named).to_parquet(tmp_path / "t.parquet")
    frame.set_index(rng.permutation(10**6)[:200]).to_parquet(tmp_path / "u.parquet")
    for name in ("t", "u"):
        assert "(the index of a DataFrame)" in good("fit", f"{name}.parquet", "--label", "y")
        assert pril.load(f"{name}.pril")[0].numbers_ == ["x"]
    for numbers in (range(200), rng.permutation(200), 1000 - np.arange(200)):
        frame.assign(rownames=numbers).to_csv(tmp_path / "t.csv", index=False)
        code, _, err = call("fit", "t.csv", "--label", "y", "-q")
        assert code == 0
        assert err == (
            "pril: warning: t.csv: the column 'rownames' looks like a row id: no whole number in it "
            "occurs twice; a row id says nothing about new rows; leave it out with --drop\n"
        )
        good("fit", "t.csv", "--label", "y", "--drop", "rownames")


@pytest.mark.parametrize(
    ("name", "cells", "warns"),
    [
        ("n", np.arange(40) + 1000, True),
        ("n", np.random.default_rng(0).permutation(40), True),
        ("user_id", np.random.default_rng(0).permutation(10**6)[:40], True),
        ("income", np.random.default_rng(0).permutation(10**6)[:40], False),
        ("n", np.arange(40) % 39, False),
        ("n", np.arange(40) + 0.5, False),
        ("id", np.append(np.arange(39), 0.5), False),
        ("id", np.arange(9), False),
        ("n", np.arange(10), True),
        ("income", np.random.default_rng(0).permutation(10**6)[:99], False),
        ("income", np.random.default_rng(0).permutation(10**6)[:100], True),
    ],
)
def test_row_ids_of_small_tables_are_warned_of(call, tmp_path, name, cells, warns):
    row = np.arange(len(cells))
    table = pd.DataFrame({name: cells, "x": row % 7, "y": row * 2 // len(cells)})
    table.to_csv(tmp_path / "t.csv", index=False)
    code, _, err = call("fit", "t.csv", "--label", "y", "-q")
    assert code == 0
    assert (f"the column {name!r} looks like a row id" in err) == warns


def test_two_words_in_alphabetical_order_are_warned_of(call, good, tmp_path):
    table = pd.DataFrame({"x": np.arange(40) % 7, "y": ["good", "bad"] * 20})
    table.to_csv(tmp_path / "t.csv", index=False)
    code, _, err = call("fit", "t.csv", "--label", "y", "-q")
    assert code == 0
    assert err.startswith(
        "pril: warning: t.csv: column 'y': the classes are ['bad', 'good'], lowest"
    )
    assert "alphabetical" in err
    assert "--classes" in err
    good("fit", "t.csv", "--label", "y", "--classes", "bad,good")


def test_words_among_the_features_of_a_learner_are_named():
    table = pd.DataFrame({"x": [1.0, 2.0, 3.0], "town": ["1", "Rome", "Oslo"]})
    advice = "encode words, for example with pril.ColumnEncoder"
    with pytest.raises(
        ValueError, match=f"row 1: feature 'town' is 'Rome', not a number; {advice}"
    ):
        pril.PRIL().fit(table, [0, 1, 2])
    with pytest.raises(ValueError, match=f"row 1: feature 1 is 'Rome', not a number; {advice}"):
        pril.PRIL().fit(table.to_numpy(), [0, 1, 2])
    model = pril.PRIL().fit(table[["x"]], [0, 1, 2])
    with pytest.raises(ValueError, match=f"row 0: feature 'x' is 'big', not a number; {advice}"):
        model.predict(table.assign(x="big")[["x"]])


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "CSV.GZ"])
def test_byte_order_marks_are_no_part_of_a_name(good, tmp_path, suffix):
    table = pd.DataFrame({"x": np.arange(40) % 7, "y": np.arange(40) % 2})
    text = table.to_csv(index=False)
    if suffix == "jsonl":
        text = table.to_json(orient="records", lines=True)
    raw = b"\xef\xbb\xbf" * 2 + text.encode()
    (tmp_path / f"t.{suffix}").write_bytes(gzip.compress(raw) if "GZ" in suffix else raw)
    good("fit", f"t.{suffix}", "--label", "y", "-o", "m.pril")
    assert pril.load("m.pril")[0].numbers_ == ["x"]


def test_ordered_categories_of_a_model_from_python(good, tmp_path):
    sizes = ["small", "medium", "large"]
    table = pd.DataFrame({"x": np.arange(30) % 7, "size": [sizes[k % 3] for k in range(30)]})
    ordered = table.assign(size=pd.Categorical(table["size"], sizes, ordered=True))
    model = make_pipeline(pril.ColumnEncoder(), pril.PRIL()).fit(ordered, np.arange(30) % 3)
    pril.save(model, tmp_path / "m.pril")
    table.to_csv(tmp_path / "t.csv", index=False)
    table.to_json(tmp_path / "t.jsonl", orient="records", lines=True)
    ordered.to_parquet(tmp_path / "t.parquet")
    for suffix in ("csv", "jsonl", "parquet"):
        good("predict", "m.pril", f"t.{suffix}", "-o", "out.csv")
        found = pd.read_csv(tmp_path / "out.csv")["prediction"]
        np.testing.assert_array_equal(found, model.predict(ordered))


def test_text_of_other_libraries(good, tmp_path):
    words = [["a", "b", None][k % 3] for k in range(60)]
    x, y = [float(k % 7) for k in range(60)], [k % 2 for k in range(60)]
    plain = pa.table({"x": x, "w": words, "y": y})
    view = plain.set_column(1, "w", pa.array(words, pa.string_view()))
    coded = plain.set_column(1, "w", pa.array(words, pa.string_view()).dictionary_encode())
    expected = pril.ColumnEncoder().fit(plain).transform(plain)
    for table in (view, coded):
        assert (pril.ColumnEncoder().fit(table).transform(table) == expected).all()
    pq.write_table(view, tmp_path / "t.parquet")
    good("fit", "t.parquet", "--label", "y")
    assert pril.load("t.pril")[0].words_ == {"w": ["a", "b"]}


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("t.jsonl", b"null\n", "t.jsonl, row 1: not a JSON object: 'null'"),
        ("t.jsonl", b'{"a": 1, "y": 2}\nnull\n', "t.jsonl, row 2: not a JSON object: 'null'"),
        ("t.jsonl", b"\xef\xbb\xbf null\n{}\n", "t.jsonl, row 1: not a JSON object"),
        ("t.csv", b"a,y", "t.csv has a header, but no rows"),
        ("t.csv", "a,y\n1,2\n".encode("utf-16-le"), "the header is not UTF-8: is it UTF-16?"),
        ("t.csv", b"a,y\n1,inf\n2,inf\n", "column 'y' is inf, which is too large"),
    ],
)
def test_odd_tables_are_named(bad, tmp_path, name, data, said):
    (tmp_path / name).write_bytes(data)
    assert said in bad("fit", name, "--label", "y")


def test_null_is_no_row(good, bad, tmp_path):
    (tmp_path / "t.jsonl").write_text('{"a": 1, "y": 1}\n{"a": 2, "y": 2}\n' * 9)
    good("fit", "t.jsonl", "--label", "y")
    (tmp_path / "new.jsonl").write_text('{"a": 1}\nnull\n')
    assert "new.jsonl, row 2: not a JSON object" in bad("predict", "t.pril", "new.jsonl")


def test_what_cannot_be_words_is_not_read_as_words(bad, tmp_path):
    table = pa.table({"a": [1.0, 2.0], "c": [[1], [2]], "y": [1, 2]})
    pq.write_table(table, tmp_path / "t.parquet")
    said = bad("fit", "t.parquet", "--label=y", "--text=c")
    assert "the column 'c' cannot be a feature: holds list" in said


def test_odd_parameters_are_mistakes_of_the_user(bad, table):
    said = bad("fit", "t.csv", *RANGES, "--set", "half_life=1e-300")
    assert "'half_life' parameter of OrderedLogit must be a float in the range [0.01, inf)" in said
    learner = pril.PRIL(classes=[1, 2]).partial_fit([[0.0]], [1]).set_params(half_life=1e-300)
    with pytest.raises(ValueError, match="half_life"):
        learner.partial_fit([[1.0]], [2])


def test_letters_that_stdout_does_not_have(call, tmp_path, monkeypatch):
    (tmp_path / "\u00fc.csv").write_text("a,y\n" + "1,1\n2,2\n" * 9, encoding="utf-8")
    with (tmp_path / "said").open("w", encoding="ascii") as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        assert call("fit", "\u00fc.csv", "--label=y") == (0, "", "")
    assert "read      18 rows of \\xfc.csv" in (tmp_path / "said").read_text()


def test_steps_that_do_not_fit_the_learner(good, bad, tmp_path):
    table = pa.table({"a": [1.0, 2.0, 3.0], "b": [3.0, 1.0, 2.0]})
    encoder = pril.ColumnEncoder().fit(table)
    for width in (1, 3):
        learner = pril.PRIL().fit(np.eye(3)[:, :width], [0, 1, 2])
        pril.save(Pipeline([("columns", encoder), ("model", learner)]), tmp_path / "m.pril")
        said = f"m.pril: its steps make 2 features, but the learner takes {width}"
        assert said in bad("show", "m.pril")


def test_a_missing_column_is_told_with_the_nearest_names(bad, tmp_path):
    write(tmp_path / "t.csv", [{f"column_{k}": k for k in range(57)} | {"Rating": 1}] * 3)
    said = bad("fit", "t.csv", "--label", "rating")
    assert said.startswith(
        "t.csv: there is no column 'rating'; the nearest of 58 columns are 'Rating', "
    )
    assert said.count("'") == 12
    names = [f"c{k}" for k in range(13)]
    write(tmp_path / "t.csv", [dict.fromkeys(names[:12], 1)] * 3)
    said = bad("fit", "t.csv", "--label", "y")
    known = ", ".join(map(repr, names[:12]))
    assert said == f"t.csv: there is no column 'y'; the columns are {known}"
    write(tmp_path / "t.csv", [dict.fromkeys(names, 1)] * 3)
    assert "the nearest of 13 columns are" in bad("fit", "t.csv", "--label", "y")


# --- How the command ends ------------------------------------------------------------------------


def test_a_bug_is_one_line_and_exit_code_70(call, table, monkeypatch):
    def fail(*_, **__):
        raise ZeroDivisionError("never")

    monkeypatch.setattr(pril.ColumnEncoder, "partial_fit", fail)
    line = "pril: this is a bug in pril, please report it (ZeroDivisionError: never)"
    assert call("fit", "t.csv", *RANGES) == (70, "", f"{line}; --traceback shows where\n")
    code, out, err = call("fit", "t.csv", *RANGES, "--traceback")
    assert (code, out) == (70, "")
    assert err.startswith("Traceback")
    assert err.endswith(f"{line}\n")


@pytest.mark.parametrize(
    "error", [TypeError, ValueError, KeyError, OSError, ImportError, AttributeError]
)
def test_an_error_inside_is_never_the_users(good, call, feed, table, monkeypatch, error):
    """Only errors that are raised on purpose are the user's; here they arise in the middle."""

    def fail(*_, **__):
        raise error("never")

    good("fit", "t.csv", *RANGES, "-q", "-o", "m.pril")
    feed(b'{"size": 1}\n')
    monkeypatch.setattr(pril.ColumnEncoder, "partial_fit", fail)
    monkeypatch.setattr(pril.ColumnEncoder, "transform", fail)
    monkeypatch.setattr("pril.tables.stream.LineStream._read", fail)
    for command in (
        ["fit", "t.csv", *RANGES],
        ["predict", "m.pril", "t.csv"],
        ["evaluate", "m.pril", "t.csv"],
        ["report", "m.pril", "t.csv", "-o", "r.html"],
        ["stream", "m.pril"],
    ):
        code, _, err = call(*command, "--traceback")
        assert code == 70, err
        assert "this is a bug in pril" in err
        assert "in fail\n" in err


@pytest.mark.skipif(not os.path.exists("/proc/self/mem"), reason="a file that cannot be read")
def test_input_that_cannot_be_read_is_named(good, table, program):
    """The first bytes of a process's memory are not there: reading gives EIO."""
    good("fit", "t.csv", *RANGES, "-q")
    for command in (["stream", "t.pril", "-q"], ["predict", "t.pril", "-"]):
        with open("/proc/self/mem", "rb") as unreadable:
            ended = subprocess.run(
                [*program, *command], stdin=unreadable, capture_output=True, text=True, check=False
            )
        assert (ended.returncode, ended.stderr) == (2, "pril: <stdin>: Input/output error\n")


def test_errors_are_json_where_results_are(call, table):
    for arguments in (["fit", "t.csv", "--label", "none"], ["fit"], ["fit", "t.csv", "--nothing"]):
        code, out, err = call(*arguments, "--json")
        assert (code, out) == (2, "")
        assert list(json.loads(err)) == ["error"]


@pytest.mark.parametrize(
    ("command", "suffix"),
    [
        (["fit", "t.csv", *RANGES, "-q", "-o"], ".pril"),
        (["stream", "t.pril", "-q", "-o"], ".pril"),
        (["report", "t.pril", "t.csv", "-q", "-o"], ".html"),
        (["export", "t.pril", "-q", "-o"], ".onnx"),
    ],
)
def test_a_file_of_another_kind_is_not_replaced(good, bad, feed, table, tmp_path, command, suffix):
    """Its suffix tells."""
    good("fit", "t.csv", *RANGES, "-q")
    feed(b"")
    for target in ("precious.csv", "precious.doc", "precious"):
        precious = shutil.copy(tmp_path / "t.csv", tmp_path / target)
        said = bad(*command, target)
        assert said.startswith(f"{target} exists and is not ")
        assert "--overwrite" in said
        assert precious.read_bytes() == (tmp_path / "t.csv").read_bytes()
    for new in (f"new{suffix}", "empty"):
        (tmp_path / new).touch()  # an empty file holds nothing
        good(*command, new)
    good(*command, f"new{suffix}")  # the same kind
    good(*command, precious.name, "--overwrite")
    assert precious.read_bytes()[:4] == (tmp_path / f"new{suffix}").read_bytes()[:4]


def test_a_stream_replaces_its_model_whatever_it_is_called(good, feed, table, tmp_path):
    good("fit", "t.csv", *RANGES, "-q", "-o", "model.bin")
    feed(b"")
    good("stream", "model.bin", "-q", "-o", "model.bin")


@pytest.mark.parametrize(
    "command", [["show", "t.pril", "--plot"], ["predict", "t.pril", "t.csv", "-o"]]
)
def test_pictures_and_tables_have_the_suffix_of_one(good, bad, table, tmp_path, command):
    good("fit", "t.csv", *RANGES, "-q")
    for target in ("precious.pril", "precious"):
        precious = shutil.copy(tmp_path / "t.pril", tmp_path / target)
        assert bad(*command, target).startswith(f"{target}: the suffix must be one of ")
        assert precious.read_bytes() == (tmp_path / "t.pril").read_bytes()


def test_outputs_that_are_loops_of_links(good, bad, table, tmp_path):
    (tmp_path / "loop.pril").symlink_to("loop.pril")
    assert bad("fit", "t.csv", *RANGES, "-o", "loop.pril").startswith("loop.pril: ")
    good("fit", "t.csv", *RANGES)
    (tmp_path / "loop.csv").symlink_to("loop.csv")
    assert bad("predict", "t.pril", "t.csv", "-o", "loop.csv").startswith("loop.csv: ")
    assert bad("stream", "t.pril", "-o", "loop.pril").startswith("loop.pril: ")
    assert bad("show", "t.pril", "--plot", "loop.csv").startswith("loop.csv: ")


def test_the_best_constant_stands_beside_every_score(good, table):
    fitted = json.loads(good("fit", "t.csv", *RANGES, "--json"))["holdout"]
    model, frame = pril.load("t.pril"), pd.DataFrame(make_rows())
    y = frame[["low", "high"]].astype(object)
    result = json.loads(good("evaluate", "t.pril", "t.csv", "--json"))
    shares = [interval_accuracy(y, [name] * len(y), classes=GRADES) for name in GRADES]
    assert result["constant"] == GRADES[int(np.argmax(shares))]
    assert result["constant_accuracy"] == pytest.approx(max(shares))
    assert 0 < fitted["constant_accuracy"] < 1
    constant = f"(always {result['constant']!r} {max(shares):.1%})"
    assert constant in good("evaluate", "t.pril", "t.csv")
    errors = [interval_absolute_error(y, [name] * len(y), classes=GRADES) for name in GRADES]
    assert result["nearest_constant"] == GRADES[int(np.argmin(errors))]
    assert result["nearest_constant_error"] == pytest.approx(min(errors))
    nearest = f"ranks on average (always {result['nearest_constant']!r} {min(errors):.4f})"
    assert nearest in good("evaluate", "t.pril", "t.csv")
    said = good("fit", "t.csv", *RANGES)
    assert f"(always {fitted['constant']!r} " in said
    assert f"(always {fitted['nearest_constant']!r} {fitted['nearest_constant_error']:.4f})" in said
    assert model[-1].order_.tolist() == GRADES


def test_progress_is_told_where_there_is_no_terminal(call, table, monkeypatch):
    monkeypatch.setattr("pril.tables.files.BLOCK_ROWS", 150)
    monkeypatch.setattr("pril.cli.printing.PROGRESS_SECONDS", 0.0)
    passes = ["--model", "pril", "--epochs", 2]
    code, _, err = call("fit", "t.csv", *RANGES, *passes, "--holdout", 0)
    assert code == 0
    said = [line.rsplit(", ", 1) for line in err.splitlines()]
    assert [text for text, _ in said] == [
        "reading: 150 rows", "reading: 300 rows",
        "pass 1/2: 150 rows (50%)", "pass 1/2: 300 rows (100%)",
        "pass 2/2: 150 rows (50%)", "pass 2/2: 300 rows (100%)",
    ]  # fmt: skip
    assert all(re.fullmatch(r"[\d,]{1,13} rows/s", speed) for _, speed in said)
    for silent in ("--quiet", "--json"):
        assert call("fit", "t.csv", *RANGES, silent)[2] == ""


# --- Messages ------------------------------------------------------------------------------------


def test_decisions_are_told_with_their_reasons(good, call, tmp_path, monkeypatch):
    write(tmp_path / "t.csv", [row | {"day": "2024-01-02"} for row in make_rows()])
    fit = ["fit", "t.csv", *RANGES, "--text", "age"]
    quiet = good(*fit)
    code, out, err = call(*fit, "--verbose")
    assert (code, out) == (0, quiet)
    ages = len(pril.load("t.pril")[0].words_["age"])  # those of rows held out are not known
    said, steps = err.splitlines()[:15], err.splitlines()[15:]
    assert said == [
        "pril: table: t.csv, files: 1; read, by its suffix, as CSV with commas, the first value of "
        "a column tells numbers from words",
        "pril: age: read as words, as asked for",
        "pril: numbers: size",
        "pril: words: age, town",
        "pril: ignored: id (not asked for), grade (not asked for), day (dates)",
        "pril: rows: 300 in blocks of 32768",
        "pril: labels: low, high",
        "pril: classes: ['poor', 'fair', 'good', 'great'], in the order given",
        f"pril: one-hot: age, {ages} words",
        "pril: one-hot: town, 3 words",
        "pril: scaling: numbers are standardised",
        "pril: missing numbers: the mean",
        f"pril: features: {1 + ages + 3}, sparse",
        "pril: holdout: 20% of the rows, by seed 0",
        "pril: memory: rows are kept (512 MB at most)",
    ]
    assert steps
    for k, step in enumerate(steps):
        form = rf"pril: step {k + 1}: penalised log-likelihood -\d+\.\d+, .* s left"
        assert re.fullmatch(form, step)
    assert good(*fit) == quiet
    monkeypatch.setattr("pril.tables.training.CACHE_BYTES", 0)
    rest = ["--label=grade", "--drop=id,low,high", "--no-scale", "--no-one-hot", "--model=mpril"]
    _, _, err = call("--verbose", "fit", "t.csv", *rest, "--set=signed=true", "--holdout=0.5")
    for line in (
        "classes: [1, 2, 3, 4], numbers, in ascending order",
        "ignored: id (not asked for), town (text), low (not asked for), high (not asked for), "
        "day (dates)",
        "scaling: none, as asked for",
        "features: 2, dense",
        "holdout: 50% of the rows, by seed 0",
        "memory: rows are read again (0 MB at most)",
    ):
        assert f"pril: {line}\n" in err
    good("fit", "t.csv", *RANGES)
    _, _, err = call("evaluate", "t.pril", "t.csv", "--verbose")
    assert "pril: words: town, as in the model\n" in err


def test_more_text_than_a_block_can_hold(bad, table, monkeypatch):
    def overflow(batches):
        raise pa.ArrowInvalid("offset overflow while concatenating arrays")

    monkeypatch.setattr(files, "_joined", overflow)
    assert bad("fit", "t.csv", *RANGES).startswith("t.csv, row 1: the 32768 rows from here on")


def test_integers_of_thousands_of_digits(bad, tmp_path):
    for suffix, form in (("jsonl", '{{"x": {}, "y": {}}}'), ("csv", "{},{}")):
        lines = [form.format("9" * 5000 if k == 30 else k % 7, k % 2) for k in range(60)]
        head = ["x,y"] if suffix == "csv" else []
        (tmp_path / f"t.{suffix}").write_text("\n".join([*head, *lines, ""]))
        said = bad("fit", f"t.{suffix}", "--label", "y")
        assert said == f"t.{suffix}, row 31: column 'x' is inf, which is not finite"


def test_nested_columns_of_parquet(good, tmp_path):
    cells = {
        "y": [0, 1] * 30,
        "m": pa.array([[(1, 2.0)]] * 60, pa.map_(pa.int32(), pa.float64())),
        "q": [{"b": 1.0}] * 60,
        "q.b": [1.0, 2.0, 3.0] * 20,
    }
    pq.write_table(pa.table(cells), tmp_path / "t.parquet")
    out = good("fit", "t.parquet", "--label", "y")
    assert "ignored   m (holds map<int32, double ('m')>), q (holds struct<b: double>)" in out
    assert pril.load("t.pril")[0].numbers_ == ["q.b"]


def test_a_number_too_large_is_refused_when_it_comes(table, good, tmp_path):
    good("fit", "t.csv", *RANGES)
    encoder = pril.load("t.pril")[0]
    frame = pd.DataFrame(make_rows(3))
    frame.loc[1, "size"] = 1e300
    with pytest.raises(ValueError, match=r"row 1: column 'size' is 1e\+300, too large"):
        encoder.transform(frame)
    frame.loc[2, "size"] = -1e300  # the two add up to zero
    with pytest.raises(ValueError, match=r"row 1: column 'size' is 1e\+300, too large"):
        encoder.transform(frame)


# --- Edges that no other test sees ---------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:overflow")
def test_a_kernel_that_overflows_in_row_0():
    model = pril.KernelPRIL(kernel="linear", classes=[1, 2, 3]).partial_fit([[1e154]], [3])
    assert model.dual_coef_.tolist() == [2]  # so the next score is 2e308
    with pytest.raises(ValueError, match="gives scores that are not finite"):
        model.partial_fit([[1e154], [0.0]], [3, 1])
    assert model.t_ == 1


def test_the_limit_of_words_at_its_edge():
    words = pa.table({"w": ["a", "b", "c"], "x": [1.0, 2.0, 3.0]})
    assert pril.ColumnEncoder(most_words=3).fit(words).words_ == {"w": ["a", "b", "c"]}
    few = pril.ColumnEncoder(most_words=2).fit(words)
    assert (few.words_, few.left_out_) == ({}, ["w"])


def test_pieces_of_a_table_are_whole_row_groups(tmp_path, monkeypatch):
    pq.write_table(pa.table({"x": range(22)}), tmp_path / "t.parquet", row_group_size=4)
    table = open_table(str(tmp_path / "t.parquet"))
    for rows, sizes in ((8, [8, 8, 6]), (7, [4, 4, 4, 4, 6]), (9, [8, 8, 6]), (4, [4] * 5 + [2])):
        monkeypatch.setattr(files, "PIECE_ROWS", rows)
        pieces = table.pieces()
        assert [size for _, _, size in pieces] == sizes
        assert [first for _, first, _ in pieces] == np.cumsum([0, *sizes[:-1]]).tolist()


def test_labels_without_rows_have_no_values():
    empty = ranking.read(np.empty(0, dtype=np.int64))
    assert empty.seen().tolist() == []
    with pytest.raises(ValueError, match="every label in y is missing"):
        ranking.order_classes(empty)


# --- Extreme numbers -----------------------------------------------------------------------------

EXPONENTS = [
    -320,
    -310,
    -200,
    -160,
    -155,
    -101,
    -99,
    -50,
    0,
    20,
    99,
    101,
    152,
    154,
    160,
    250,
    300,
    308,
]


@pytest.mark.filterwarnings("ignore::pril.errors.FeatureRangeWarning")
@pytest.mark.parametrize("average", [True, False])
@pytest.mark.parametrize("cls", ALL)
def test_extreme_numbers_are_refused_or_learned_and_kept(cls, average, tmp_path):
    """Finite in: a finite model that can be saved, or an error that names the argument."""
    options = {"average": average} if "average" in cls().get_params() else {}
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (6, 2)), [1, 2, 3, 3, 1, 2]
    usual = cls(classes=[1, 2, 3], **options).partial_fit(X, y)
    cases = [(e, 0) for e in EXPONENTS] + [(0, e) for e in EXPONENTS]
    cases += [(-400, 20), (150, 90), (-90, -90), (90, 90), (99, -99), (-150, 99)]
    for feature, weight in cases:
        scale, w = float(f"1e{feature}"), float(f"1e{weight}")
        extreme, weights = X.copy(), np.ones(6)
        extreme[3:] *= scale
        weights[3:] = w
        model = copy.copy(usual)
        before = pickle.dumps(model)
        said = ""
        try:
            model.partial_fit(extreme, y, sample_weight=weights)
            model.partial_fit(extreme, y, sample_weight=weights)
        except ValueError as error:
            said = str(error)
        if said:
            assert said.startswith("sample_weight" if abs(weight) > 100 else ("X", "sample_weight"))
            if said.startswith("X"):
                assert feature != 0, said
                assert feature > 0 or "large" not in said
            assert model.t_ > usual.t_ or pickle.dumps(model) == before
            continue
        pril.save(model, tmp_path / "model.pril")
        loaded = pril.load(tmp_path / "model.pril")
        assert (loaded.predict(X) == model.predict(X)).all()
        assert np.isfinite(np.asarray(model.decision_function(X))).all()
        if hasattr(model, "coef_"):
            assert np.isfinite(model.coef_).all()


# --- Rows that no reader should take --------------------------------------------------------------

LINES = [f'{{"x": {k}, "t": "12:{k:02}", "y": {k % 3}}}' for k in range(30)]


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ('{"x": 1, "y": 0, "y": 2}', "y"),
        ('{"x" : 1, "x" :2, "t": ": a :", "y": 0}', "x"),
        ('{"x": 1, "t": {"a": 1, "a": 2}, "y": 1}', "a"),
        ('{"x": null, "t": "12:00", "t": "13:00", "y": 1}', "t"),
    ],
)
def test_a_key_that_is_there_twice_is_refused(bad, tmp_path, line, key):
    (tmp_path / "t.jsonl").write_text("\n".join([*LINES, line, ""]))
    said = bad("fit", "t.jsonl", "--label", "y")
    assert said == f"t.jsonl, row 31: the key {key!r} occurs twice"


def test_a_row_that_is_too_long_is_refused(bad, tmp_path):
    said = "longer than 16,777,216 bytes, the most that a row may have"
    for name, head, start, end, place in (
        ("t.csv", "x,w,y\n", "1,", ",0", "row 2: the row is "),
        ("t.tsv", "x\tw\ty\n", '1\t"\n', '"\t0', "row 2: the row is "),
        ("u.csv.GZ", None, "x,", ",y", "the header is "),
        ("t.jsonl", "", '{"x":1,"w":"', '","y":0}', "row 2: "),
    ):
        longest = start + "a" * (text.LONGEST_ROW - len(start) - len(end)) + end
        rows = f"{start}a{longest[len(start) :]}\n"
        with (gzip.open if name.endswith("GZ") else open)(tmp_path / name, "wt") as file:
            file.write(rows if head is None else f"{head}{longest}\n{rows}")
        refused = bad("fit", name, "--label", "y", "--features", "x")
        assert refused.startswith(name)
        assert refused.endswith(f"{place}{said}")
