"""Streams: what predict, then partial_fit, row by row would give; killed and taken up again."""

import io as streams
import json
import os
import random
import select
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress

import numpy as np
import pandas as pd
import pytest
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import pril
from pril.io import model_files as io
from pril.io.content import ContentReader, ContentWriter
from pril.tables.files import TableError
from pril.tables.label_columns import LabelEnds
from pril.tables.model import LoadedModel
from pril.tables.opening import open_table
from pril.tables.runs import run_of
from pril.tables.stream import LineStream, Stopped, StreamRun, chunks
from pril.tables.text import LONGEST_ROW, whole_lines
from pril.tables.training import Checkpoint, Task
from tables import GRADES, make_rows, write

LABELS = ("low", "high")
NOTES = {"labels": {"kind": "ends", "columns": list(LABELS)}}
PRIL = [sys.executable, "-c", "from pril.cli.main import main; main()"]


def fitted(folder, name="pril"):
    """Write a model learned from a few rows; return its path."""
    task = Task(LabelEnds(LABELS), tuple(GRADES), name, drop=("id", "grade"), epochs=1, holdout=0.0)
    run = run_of(
        open_table(str(write(folder / "first.csv", make_rows(50, seed=9)))), task, lambda *_: None
    )
    io.write(run(), folder / "model.pril", kind="model", notes=NOTES)
    return folder / "model.pril"


def json_lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def piped(data, seed=0):
    """Return the reading end of a pipe that gets the data in pieces of random size."""
    reading, writing = os.pipe()
    rng = random.Random(seed)  # noqa: S311

    def feed():
        at = 0
        with suppress(BrokenPipeError):  # a reader who met a bad row leaves early
            while at < len(data):
                size = rng.choice([1, 100, 1000, 5000]) if at < 1 << 20 else 1 << 20
                at += os.write(writing, data[at : at + size])
        os.close(writing)

    threading.Thread(target=feed, daemon=True).start()
    return reading


def told(reports):
    """Return a function that notes how many rows were reported, and their loss."""
    return lambda errors: reports.append((errors.recent.rows, errors.loss))


def run_stream(path, data, names=LABELS, seed=0, checkpoint=None):
    """Return the model, the answers and what was reported."""
    loaded, output, reports = LoadedModel(path), streams.BytesIO(), []
    lines = LineStream(loaded, LabelEnds(names))
    stream = StreamRun(lines, output, told(reports), checkpoint)
    descriptor = piped(data, seed)
    try:
        stream.run(descriptor)
    finally:
        os.close(descriptor)
        stream.answers = output.getvalue().decode().splitlines()
        stream.reports = reports
    return stream


def row_by_row(path, rows):
    """Return the model and the answers, from scikit-learn's methods alone."""
    model = io.read(path, kind="model")[0]
    encoder, learner = model[0], model[1]
    answers = []
    for row in rows:
        frame = pd.DataFrame([row])
        X = encoder.transform(
            frame[["size", "age"]].astype(float).assign(town=row["town"]).astype({"town": "object"})
        )
        said = learner.predict(X)[0]
        scores = (
            learner.latent(X)
            if hasattr(learner, "latent")
            else learner.decision_function(X).max(axis=1)
        )
        answers.append({"prediction": said, "score": float(scores[0])})
        if row["low"] or row["high"]:
            learner.partial_fit(X, [(row["low"], row["high"])])
    return learner, answers


@pytest.mark.parametrize("name", ["pril", "mpril", "widrow-hoff", "perceptron"])
@pytest.mark.filterwarnings("ignore::pril.errors.FeatureRangeWarning")
def test_equals_row_by_row(tmp_path, name):
    path, rows = fitted(tmp_path, name), make_rows(120, seed=3)
    learner, expected = row_by_row(path, rows)
    stream = run_stream(path, json_lines(rows))
    said = [json.loads(line) for line in stream.answers]
    assert [row["prediction"] for row in said] == [row["prediction"] for row in expected]
    # The loop's running mean and predict's mean of the parameters round differently.
    np.testing.assert_allclose([row["score"] for row in said], [row["score"] for row in expected])
    np.testing.assert_array_equal(stream.model.learner.coef_, learner.coef_)
    assert stream.model.learner.t_ == learner.t_


def test_rows_without_a_label_change_nothing(tmp_path):
    path, rows = fitted(tmp_path), make_rows(100, seed=3)
    unlabelled = [{**row, "low": None, "high": None} for row in make_rows(40, seed=4)]
    mixed = [*rows[:30], *unlabelled[:20], *rows[30:31], *unlabelled[20:], *rows[31:]]
    io.write(run_stream(path, json_lines(rows)).model.model, tmp_path / "a", kind="model")
    stream = run_stream(path, json_lines(mixed))
    io.write(stream.model.model, tmp_path / "b", kind="model")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert len(stream.answers) == 140
    # No label column at all: answers only.
    without_labels = [{name: row[name] for name in ("town", "age", "size")} for row in rows]
    before = LoadedModel(path).learner.t_
    assert run_stream(path, json_lines(without_labels)).model.learner.t_ == before


def test_losses_are_reported_as_counts_double(tmp_path):
    path, rows = fitted(tmp_path), make_rows(100, seed=3)
    stream = run_stream(path, json_lines(rows))
    labelled = [row for row in rows if row["low"] or row["high"]]
    assert [count for count, _ in stream.reports] == [1, 2, 4, 8, 16, 32, 64]
    _, answers = row_by_row(path, labelled)
    rank = {grade: k for k, grade in enumerate(GRADES)}
    losses = [
        max(
            rank.get(row["low"], 0) - rank[said["prediction"]],
            rank[said["prediction"]] - rank.get(row["high"], 3),
            0,
        )
        for row, said in zip(labelled, answers, strict=True)
    ]
    assert [loss for _, loss in stream.reports] == [
        sum(losses[:n]) for n in (1, 2, 4, 8, 16, 32, 64)
    ]
    assert stream.evaluation.loss == sum(losses)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b'{"size": 1, "age": \n', "not a JSON object"),
        (b"[1, 2]\n", r"not a JSON object: '\[1, 2\]'"),
        (b'{"size": 1} {"size": 2}\n', "not a JSON object"),
        (b'{"size": "big"}\n', "column 'size' is 'big', not a number"),
        (b'{"low": "good", "high": "fair"}\n', "lower end 'good' is above upper end 'fair'"),
        (b'{"low": "bad"}\n', "'bad' is not one of the classes"),
        (b'{"low": 3}\n', "'3' is not one of the classes"),
        (b'{"town": "\\ud800"}\n', "column 'town' is .*, an unpaired surrogate"),
        (b'{"size": 1e308, "age": 1e308, "high": "fair"}\n', "too large: the limit is"),
        (b'{"town": "\xff"}\n', "not UTF-8"),
        (b'{"size": 1e999}\n', "Number too big|not finite"),
        (b'{"size": 1, "low": "fair", "low": "poor"}\n', "the key 'low' occurs twice"),
        (b'{"x": 1e999, "x": "12:30", "low": "fair"}\n', "the key 'x' occurs twice"),
        (b'{"size": "%s"}\n' % (b"a" * (LONGEST_ROW + 1)), "longer than 16,777,216 bytes"),
    ],
)
def test_a_bad_row_is_named_and_what_came_before_is_kept(tmp_path, line, said):
    path, rows = fitted(tmp_path), make_rows(60, seed=3)
    data = json_lines(rows[:41]) + line + json_lines(rows[41:])
    keeper = Checkpoint(tmp_path / "c.pril", 10**9)
    with pytest.raises(TableError, match=f"<stdin>, row 42: .*{said}"):
        run_stream(path, data, checkpoint=keeper)
    # The row mended, the same command goes on where it stopped.
    stream = run_stream(path, json_lines(rows), checkpoint=keeper)
    assert len(stream.answers) == 19
    whole = run_stream(path, json_lines(rows))
    assert stream.answers == whole.answers[41:]
    assert vars(stream.evaluation) == vars(whole.evaluation)
    with pytest.raises(ValueError, match="belongs to another stream"):
        run_stream(path, json_lines(make_rows(60, seed=5)), checkpoint=keeper)
    with pytest.raises(ValueError, match="has 3 rows, but the checkpoint has seen 41"):
        run_stream(path, json_lines(rows[:3]), checkpoint=keeper)


def test_an_error_while_learning_keeps_the_rows_before_it(tmp_path):
    frame = pd.DataFrame({"a": [0.0, 1.0, 2.0, 3.0], "b": [1.0, 0.0, 1.0, 0.0]})
    model = make_pipeline(StandardScaler(), pril.PRIL(classes=[1, 2])).fit(frame, [1, 1, 2, 2])
    path = tmp_path / "m.pril"
    pril.save(model, path)
    rows = [{"a": 5, "b": 1, "y": 1}, {"a": 1, "b": 0}, {"a": 2, "b": 1, "y": 2}] * 2
    for bad, said in (
        ({"a": 1, "y": 1}, "feature 1 is NaN"),
        ({"a": 1}, "feature 1 is NaN"),
    ):
        loaded, output = LoadedModel(path), streams.BytesIO()
        stream = StreamRun(LineStream(loaded, LabelEnds(("y",))), output, lambda *_: None, None)
        reading = piped(json_lines([*rows, bad, *rows]))
        with pytest.raises(TableError, match=f"<stdin>, row 7: .*{said}"):
            stream.run(reading)
        os.close(reading)
        whole = run_stream(path, json_lines(rows), names=("y",))
        assert output.getvalue().decode().splitlines() == whole.answers
        assert loaded.learner.t_ == whole.model.learner.t_
        np.testing.assert_array_equal(loaded.learner.coef_, whole.model.learner.coef_)
        assert vars(stream.evaluation) == vars(whole.evaluation)


def test_a_step_that_does_not_know_rows_is_asked_row_by_row(tmp_path):
    frame = pd.DataFrame({"a": [0.0, 1.0, 2.0, 3.0]})
    model = make_pipeline(SimpleImputer(), pril.PRIL(classes=[1, 2])).fit(frame, [1, 1, 2, 2])
    pril.save(model, tmp_path / "m.pril")
    data = b'{"a": 1, "y": 1}\n{"a": 2, "y": 1}\n{"a": 1e999, "y": 1}\n{"a": 1, "y": 1}\n'
    loaded, output = LoadedModel(tmp_path / "m.pril"), streams.BytesIO()
    stream = StreamRun(LineStream(loaded, LabelEnds(("y",))), output, lambda *_: None, None)
    reading = piped(data)
    with pytest.raises(TableError, match=r"<stdin>, row 3: .*(infinity|too big)"):
        stream.run(reading)
    os.close(reading)
    assert output.getvalue().count(b"\n") == 2
    assert loaded.learner.t_ == model[-1].t_ + 2


def test_blank_lines_are_no_rows(tmp_path):
    path, rows = fitted(tmp_path), make_rows(20, seed=3)
    expected = run_stream(path, json_lines(rows))
    reading, writing = os.pipe()
    os.write(writing, b"\n \n")
    loaded, output = LoadedModel(path), streams.BytesIO()
    stream = StreamRun(LineStream(loaded, LabelEnds(LABELS)), output, lambda *_: None, None)

    def feed():
        while select.select([reading], [], [], 0)[0]:  # until the blank lines are read
            time.sleep(0.01)
        os.write(writing, b"\n" + json_lines(rows))
        os.close(writing)

    feeder = threading.Thread(target=feed)
    feeder.start()
    stream.run(reading)
    feeder.join()
    os.close(reading)
    assert output.getvalue().decode().splitlines() == expected.answers


def test_a_signal_while_rows_are_passed_over_leaves_the_checkpoint(tmp_path):
    path, rows = fitted(tmp_path), make_rows(60, seed=3)
    keeper = Checkpoint(tmp_path / "c.pril", 20)
    run_stream(path, json_lines(rows), checkpoint=keeper)
    before = keeper.path.read_bytes()
    reading, writing = os.pipe()

    def feed():
        os.write(writing, json_lines(rows[:10]))
        while select.select([reading], [], [], 0)[0]:  # not yet read
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    feeder = threading.Thread(target=feed)
    feeder.start()
    stream = StreamRun(
        LineStream(LoadedModel(path), LabelEnds(LABELS)), streams.BytesIO(), print, keeper
    )
    with pytest.raises(Stopped):
        stream.run(reading)
    feeder.join()
    os.close(reading)
    os.close(writing)
    assert keeper.path.read_bytes() == before


def test_what_is_no_json_is_refused(tmp_path):
    path, rows = fitted(tmp_path), make_rows(20, seed=3)
    csv = write(tmp_path / "rows.csv", rows).read_bytes()
    with pytest.raises(TableError, match=r"row 1: not a JSON object: 'id,size.*to turn CSV into"):
        run_stream(path, b"\n" + csv)
    with pytest.raises(TableError, match="row 1: not a JSON object"):
        run_stream(path, b"[1, 2]\n")
    assert len(run_stream(path, b"\xef\xbb\xbf" + json_lines(rows)).answers) == 20
    with pytest.raises(ValueError, match="'age' cannot be a label: it is a feature"):
        run_stream(path, json_lines(rows), names=("age",))
    truth = [{**row, "age": row["age"] > 50} for row in rows]
    assert len(run_stream(path, json_lines(truth)).answers) == 20


def test_chunks_are_whole_lines():
    for seed in range(5):
        data = b"".join(b"%d\n" % k for k in range(3000)) + b"last"
        descriptor = piped(data, seed)
        found = list(chunks(descriptor))
        os.close(descriptor)
        assert b"".join(found) == data + b"\n"
        assert all(chunk.endswith(b"\n") for chunk in found)


@pytest.mark.parametrize("size", range(1, 11))
def test_lines_that_are_too_long_come_alone_and_cut(monkeypatch, size):
    monkeypatch.setattr("pril.tables.text.LONGEST_ROW", 10)
    lines = [b"a", b"b" * 10, b"c" * 11, b"d" * 12, b"e", b"f" * 35, b"g" * 10, b"h" * 30]
    data = b"\n".join(lines)
    found = list(whole_lines(data[k : k + size] for k in range(0, len(data), size)))
    assert b"".join(found) == b"".join(line[:11] + b"\n" for line in lines)
    assert {b"c" * 11 + b"\n", b"d" * 11 + b"\n", b"f" * 11 + b"\n"} <= set(found)


# --- Real processes ------------------------------------------------------------------------------


def test_every_row_is_answered_before_the_next_is_sent(tmp_path, program):
    path, rows = fitted(tmp_path), make_rows(20, seed=3)
    with subprocess.Popen(
        [*program, "stream", str(path), "-o", str(path), "--quiet"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0,
    ) as process:  # fmt: skip
        answers = []
        for row in rows:
            process.stdin.write(json_lines([row]))
            answers.append(json.loads(process.stdout.readline()))
        process.stdin.close()
    assert process.returncode == 0
    # MODEL itself was the output: it has learned.
    assert LoadedModel(path).learner.t_ == 50 + sum(bool(row["low"] or row["high"]) for row in rows)


def test_a_signal_ends_a_stream_between_two_rows(tmp_path, program):
    path, rows = fitted(tmp_path), make_rows(50, seed=3)
    with subprocess.Popen(
        [*program, "stream", str(path), "-o", str(tmp_path / "out.pril")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
    ) as process:  # fmt: skip
        process.stdin.write(json_lines(rows))
        for _ in rows:
            process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        process.wait(30)
        said = process.stderr.read()
    assert process.returncode == 1
    assert b"stopped" in said
    assert b"Traceback" not in said
    expected = run_stream(path, json_lines(rows)).model.learner
    assert LoadedModel(tmp_path / "out.pril").learner.t_ == expected.t_


def test_what_was_learned_is_kept_when_the_reader_leaves(tmp_path, program):
    path, rows = fitted(tmp_path), make_rows(500, seed=3)
    with subprocess.Popen(
        [*program, "stream", str(path), "-o", str(path), "-q"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        process.stdin.write(json_lines(rows[:10]))
        process.stdin.flush()
        process.stdout.readline()
        process.stdout.close()
        with suppress(BrokenPipeError):
            process.stdin.write(json_lines(rows * 20))
        with suppress(BrokenPipeError):
            process.stdin.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1
    assert LoadedModel(path).learner.t_ > 50


def big_table(folder, n):
    rows = make_rows(500, seed=3)
    return write(folder / "big.csv", rows * (n // 500))


def run_and_kill(command, stdin, checkpoint, seed, kills=1):
    """Run a command until it is done; kill -9 it so many times, at random, between checkpoints."""
    rng = random.Random(seed)  # noqa: S311
    killed = 0
    while True:
        changes, last = rng.randint(1, 3), None
        with open(stdin, "rb") as data:
            process = subprocess.Popen(
                command, stdin=data, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
            )
        while killed < kills and changes and process.poll() is None:
            with suppress(FileNotFoundError):
                now = checkpoint.stat().st_mtime_ns
                changes -= now != last
                last = now
            time.sleep(0.001)
        if killed < kills:
            time.sleep(rng.uniform(0.0, 0.05))
            process.kill()
        said = process.communicate()[1]
        if process.returncode != -signal.SIGKILL:
            break
        killed += 1
    assert process.returncode == 0, said
    assert killed, "done before it could be killed"


def test_checkpoints_have_an_option_of_their_own_and_are_not_all_read_back(
    tmp_path, call, bad, feed, monkeypatch
):
    path, rows = fitted(tmp_path), json_lines(make_rows(60, seed=3))
    monkeypatch.setattr("pril.tables.stream.CHUNK_BYTES", 300)  # a few rows at a time
    writes, reads = [], []
    for kind, calls in ((ContentWriter, writes), (ContentReader, reads)):
        really = kind.__init__

        def counted(self, *given, really=really, calls=calls):
            calls.append(self)
            really(self, *given)

        monkeypatch.setattr(kind, "__init__", counted)
    found = []
    for options in (("--every", 5), ("--checkpoint-every", 30), ("--checkpoint-every", 5)):
        writes.clear()
        reads.clear()
        feed(rows)
        code, _, err = call("stream", path, "-q", "--checkpoint", "state", *options)
        assert code == 0, err
        found.append((len(writes), len(reads)))
    (no_writes, reads_of_none), (some_writes, reads_of_some), (many_writes, reads_of_many) = found
    assert no_writes == 0 < some_writes < many_writes > 8
    assert reads_of_none < reads_of_some == reads_of_many
    feed(rows)
    for command in (("stream", path), ("fit", "first.csv", "--lower", "low", "--upper", "high")):
        said = bad(*command, "--checkpoint-every", 5)
        assert said == "--checkpoint-every is about checkpoints: pass --checkpoint FOLDER too"
    assert "--checkpoint-every" in bad("fit", "first.csv", "--label", "grade", "--every", 5)


@pytest.mark.slow
@pytest.mark.parametrize("model", [[], ["--model", "pril", "--epochs", "6"]])
def test_fit_survives_kill_9(tmp_path, program, model):
    table = big_table(tmp_path, 150_000)
    common = ["fit", str(table), "--lower", "low", "--upper", "high", "--drop", "id,grade",
              "--classes", ",".join(GRADES), *model, "-q"]  # fmt: skip
    subprocess.run([*program, *common, "-o", str(tmp_path / "whole.pril")], check=True)
    checkpoint = ["--checkpoint", str(tmp_path / "state"), "--checkpoint-every", "30000"]
    command = [*PRIL, *common, "-o", str(tmp_path / "killed.pril"), *checkpoint]
    run_and_kill(command, os.devnull, tmp_path / "state" / "checkpoint.pril", seed=1)
    assert (tmp_path / "killed.pril").read_bytes() == (tmp_path / "whole.pril").read_bytes()
    assert list((tmp_path / "state").iterdir()) == []


@pytest.mark.slow
def test_stream_survives_kill_9(tmp_path, program):
    path = fitted(tmp_path)
    rows = make_rows(500, seed=3)
    data = tmp_path / "rows.jsonl"
    data.write_bytes(json_lines(rows) * 400)
    common = ["stream", str(path), "-q"]
    with data.open("rb") as stdin:
        subprocess.run(
            [*program, *common, "-o", str(tmp_path / "whole.pril")],
            stdin=stdin,
            check=True,
            stdout=subprocess.DEVNULL,
        )
    checkpoint = ["--checkpoint", str(tmp_path / "state"), "--checkpoint-every", "5000"]
    command = [*PRIL, *common, "-o", str(tmp_path / "killed.pril"), *checkpoint]
    run_and_kill(command, data, tmp_path / "state" / "checkpoint.pril", seed=2)
    assert (tmp_path / "killed.pril").read_bytes() == (tmp_path / "whole.pril").read_bytes()
    assert list((tmp_path / "state").iterdir()) == []


# --- In place: no row is learned twice -----------------------------------------------------------


@pytest.fixture
def stream_in_place(tmp_path, feed, call):
    """Return a function that streams rows into m.pril; it returns what is said on stderr."""
    path = fitted(tmp_path).rename(tmp_path / "m.pril")

    def run(rows, *options, code=0):
        feed(json_lines(rows))
        keep = ["-o", path, "--checkpoint", tmp_path / "state"]
        ended, _, err = call("stream", path, *keep, *options)
        assert ended == code, err
        return err

    run.path = path
    return run


def test_the_same_rows_again_are_not_learned_twice(stream_in_place):
    rows, path = make_rows(60, seed=3), stream_in_place.path
    first = stream_in_place(rows)
    done = path.read_bytes()
    said = stream_in_place(rows)
    assert path.read_bytes() == done
    assert said.startswith("pril: warning: ")
    assert "has already learned the first 60 rows; to learn them once more pass --again" in said
    assert said.splitlines()[1:] == first.splitlines()[-2:]
    stream_in_place(rows, "--again")
    assert path.read_bytes() != done


def test_losses_are_printed_for_people_and_machines(stream_in_place):
    rows = make_rows(60, seed=3)
    *lines, _ = map(json.loads, stream_in_place(rows, "--json").splitlines())
    assert [line["rows"] for line in lines] == [1, 2, 4, 8, 16, 32]
    loss = [line["rows"] * line["mean_loss"] for line in lines]
    recent = np.diff(loss, prepend=0) / np.diff([line["rows"] for line in lines], prepend=0)
    np.testing.assert_allclose([line["since_last"] for line in lines], recent)
    head, first, *_ = stream_in_place(rows, "--again").splitlines()
    assert head.split() == ["mean", "loss", "since", "last", "rows"]
    assert first.split()[-1] == "1"


def test_a_model_of_other_rows_learns_them(stream_in_place, tmp_path, feed, call):
    """What the last run has learned is remembered only for the model and options of that run."""
    rows, path = make_rows(60, seed=3), stream_in_place.path
    feed(json_lines(rows))
    keep = ["--checkpoint", tmp_path / "state"]
    assert call("stream", path, "-o", tmp_path / "other.pril", *keep)[0] == 0
    (tmp_path / "other.pril").replace(path)
    for options in ([], ["--half-life", "50"]):
        before = path.read_bytes()
        assert "already" not in stream_in_place(rows, *options)
        assert path.read_bytes() != before


def test_stopped_before_the_rows_were_compared(stream_in_place, monkeypatch):
    """No checkpoint is left that would hide what the last run has learned."""
    rows, path = make_rows(60, seed=3), stream_in_place.path
    stream_in_place(rows)
    done = path.read_bytes()

    def stop(_):
        raise Stopped
        yield

    with monkeypatch.context() as patch:
        patch.setattr("pril.tables.stream.chunks", stop)
        stream_in_place(rows, code=1)
    assert "already" in stream_in_place(rows)
    assert path.read_bytes() == done


def test_a_longer_input_goes_on_where_the_last_one_ended(stream_in_place, tmp_path):
    rows, path = make_rows(60, seed=3), stream_in_place.path
    old = path.read_bytes()
    stream_in_place(rows[:40])
    stream_in_place(rows)
    grown = io.read(path, kind="model")
    path.write_bytes(old)
    stream_in_place(rows)
    whole = io.read(path, kind="model")
    assert grown[1].notes["streamed"] == whole[1].notes["streamed"]
    assert grown[1].notes["finished"]["position"] == whole[1].notes["finished"]["position"]
    np.testing.assert_array_equal(grown[0][-1].coef_, whole[0][-1].coef_)


def test_other_rows_are_learned(stream_in_place):
    path, other = stream_in_place.path, make_rows(10, seed=9)
    stream_in_place(make_rows(40, seed=3))
    before = path.read_bytes()
    assert "already" not in stream_in_place(other)
    found = path.read_bytes()
    path.write_bytes(before)
    stream_in_place(other, "--again")
    assert path.read_bytes() == found


@pytest.mark.parametrize(("n_same", "n"), [(1, 10), (8, 10), (39, 10), (33, 3), (39, 0)])
def test_rows_that_begin_alike_and_then_differ_are_refused(stream_in_place, n_same, n):
    rows, path = make_rows(40, seed=3), stream_in_place.path
    stream_in_place(rows)
    before = path.read_bytes()
    other = rows[:n_same] + make_rows(n, seed=9)
    for again in (0, 1):  # it leaves no checkpoint that would hide what was learned
        assert "--again" in stream_in_place(other, code=2), again
        assert path.read_bytes() == before
    stream_in_place(other, "--again")
    assert path.read_bytes() != before


@pytest.mark.slow
def test_killed_when_the_checkpoint_is_gone(tmp_path, program):
    """A real process, killed as soon as its checkpoint has been removed."""
    path = fitted(tmp_path)
    (tmp_path / "rows.jsonl").write_bytes(json_lines(make_rows(60, seed=3)))
    dying = (
        "import os, signal\n"
        "from pril.cli.main import main\n"
        "from pril.tables.training import Checkpoint\n"
        "def remove(self, really=Checkpoint.remove):\n"
        "    really(self)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "Checkpoint.remove = remove\n"
        "main()\n"
    )
    keep = ["--checkpoint", tmp_path / "state", "--checkpoint-every", "7"]
    command = ["stream", path, "-o", path, *keep]
    with (tmp_path / "rows.jsonl").open("rb") as rows:
        ended = subprocess.run(
            [sys.executable, "-c", dying, *map(str, command)],
            stdin=rows, capture_output=True, check=False,
        )  # fmt: skip
    assert ended.returncode == -signal.SIGKILL
    done = path.read_bytes()
    with (tmp_path / "rows.jsonl").open("rb") as rows:
        again = subprocess.run(
            [*program, *map(str, command)],
            stdin=rows, capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert again.returncode == 0, again.stderr
    assert path.read_bytes() == done
    assert "already" in again.stderr
