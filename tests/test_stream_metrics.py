"""How good the answers of a stream are: windows of rows, and an alarm if the error rises."""

import copy
import json
import math
import pickle
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pril
from pril.online.recent_errors import ALARM_LIMIT, IGNORED_RISE, MIN_DEVIATION, WARM_UP, ErrorAlarm
from tables import GRADES, assert_same_model, make_rows, write_csv, write_jsonl

ENDS = ("--lower", "low", "--upper", "high")


# --- In Python ---


def rows_and_labels(n=60, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    rank = np.digitize(x + rng.normal(scale=0.5, size=n), [-1.0, 0.0, 1.0])
    low, high = np.maximum(rank - rng.integers(0, 2, n), 0), rank
    labels = [(int(a), int(b)) if keep else None
              for a, b, keep in zip(low, high, rng.random(n) < 0.9, strict=True)]  # fmt: skip
    return [{"x": float(one)} for one in x], labels


@settings(max_examples=12)
@given(st.integers(1, 60), st.integers(0, 2**16))
def test_metrics_are_those_of_the_last_rows_predicted_before_they_are_learned(window, seed):
    rows, labels = rows_and_labels(seed=seed)
    plain, measured = (pril.OrderedLogit(classes=range(4)) for _ in range(2))
    twin, stream = plain.stream(), measured.stream(metrics=window)
    losses = []
    for t, (row, label) in enumerate(zip(rows, labels, strict=True)):
        if t and label is not None:
            said = twin.predict_one(row)
            losses.append(max(label[0] - said, said - label[1], 0))
        twin.learn_one(row, label)
        stream.learn_one(row, label)
        last = losses[-window:]
        assert stream.metrics() == {
            "rows": len(losses),
            "window": len(last),
            "mean_error": sum(last) / len(last) if last else None,
            "share_inside": last.count(0) / len(last) if last else None,
            "alarms": [],
        }
    assert_same_model(plain, measured)


def test_rows_that_do_not_count():
    weighted = pril.PRIL(classes=[1, 2, 3], class_weight={2: 0.0})
    stream = weighted.partial_fit([[-1.0], [1.0]], [1, 3]).stream(metrics=5)
    for _ in range(2):  # read, then remembered
        stream.learn_one(np.array([1.0]), 2)
    stream.learn_one([1.0], None)
    stream.learn_one([1.0], (None, None))
    stream.learn_one([1.0], 3, sample_weight=0.0)
    with pytest.raises(ValueError, match="not one of the classes"):
        stream.learn_one([1.0], 7)
    with pytest.raises(ValueError, match="features"):
        stream.learn_one([1.0, 2.0], 3)
    assert stream.metrics()["rows"] == 0
    stream.learn_one([1.0], 3)
    assert stream.metrics()["rows"] == 1


def test_a_copy_goes_on_alone_with_the_metrics_so_far():
    rows, labels = rows_and_labels()
    stream = pril.OrderedLogit(classes=range(4)).stream(metrics=20)
    for row, label in zip(rows[:40], labels[:40], strict=True):
        stream.learn_one(row, label)
    before = stream.metrics()
    twins = [copy.copy(stream), pickle.loads(pickle.dumps(stream))]  # noqa: S301
    for row, label in zip(rows[40:], labels[40:], strict=True):
        stream.learn_one(row, label)
    for twin in twins:
        assert twin.metrics() == before
        for row, label in zip(rows[40:], labels[40:], strict=True):
            twin.learn_one(row, label)
        assert twin.metrics() == stream.metrics()


def test_a_pipeline_has_metrics_too():
    import pandas as pd

    flats = pd.DataFrame({"size": [20, 40, 60, 80], "town": ["Oslo", "Rome", "Oslo", "Rome"]})
    learner = pril.OrderedLogit(classes=["poor", "fair", "good"], random_state=0)
    model = pril.Pipeline([("columns", pril.ColumnEncoder()), ("learner", learner)])
    stream = model.fit(flats, ["poor", "fair", "good", "good"]).stream(metrics=10)
    said = stream.predict_one({"size": 90, "town": "Rome"})
    stream.learn_one({"size": 90, "town": "Rome"}, said)
    assert stream.metrics()["share_inside"] == 1.0


def test_metrics_must_be_asked_for():
    model = pril.PRIL(classes=[1, 2])
    with pytest.raises(ValueError, match=r"begin it with stream\(metrics=1000\)"):
        model.stream().metrics()
    for wrong in (0, -1, 2.5, True, "many"):
        with pytest.raises(ValueError, match="metrics must be a number of rows, at least 1"):
            model.stream(metrics=wrong)


# --- The alarm ---


def slow_alarms(errors):
    """Return the rows of alarms by the definition: the sum now, less the least sum so far."""
    rows, start = [], 0
    total = least = 0.0
    for t in range(len(errors)):
        seen = np.array(errors[start : t + 1], dtype=float)
        if len(seen) > WARM_UP:
            deviation = max(seen.std(), MIN_DEVIATION)
            total += (seen[-1] - seen.mean()) / deviation - IGNORED_RISE
            least = min(least, total)
        if total - least > ALARM_LIMIT:
            rows.append(t + 1)
            start, total, least = t + 1, 0.0, 0.0
    return rows


@settings(max_examples=30)
@given(
    st.lists(st.tuples(st.integers(1, 300), st.floats(0.0, 1.0), st.integers(1, 9)), max_size=4),
    st.integers(0, 2**16),
)
def test_the_alarm_is_page_and_hinkleys(parts, seed):
    rng = np.random.default_rng(seed)
    errors = [int(size * (rng.random() < share)) for n, share, size in parts for _ in range(n)]
    alarm = ErrorAlarm()
    found = [t for t, error in enumerate(errors, 1) if alarm.add(error)]
    assert found == slow_alarms(errors)


def test_it_comes_when_the_error_rises_and_only_then():
    rng = np.random.default_rng(3)
    falling = rng.random(20_000) < np.linspace(0.6, 0.1, 20_000)
    alarm = ErrorAlarm()
    assert not any(alarm.add(int(error)) for error in falling)
    found = [t for t in range(2000) if alarm.add(int(rng.random() < 0.7))]
    assert 0 < found[0] < 200
    assert math.isclose(alarm.mean, 0.7, abs_tol=0.1)  # it has begun anew, and is silent
    assert len(found) == 1


def test_a_stream_whose_features_turn_round_is_noticed():
    rng = np.random.default_rng(0)
    stream = pril.OrderedLogit(classes=range(4)).stream(metrics=500)
    for t in range(6000):
        x = rng.normal()
        rank = int(np.digitize(x + rng.normal(scale=0.3), [-1.0, 0.0, 1.0]))
        stream.learn_one({"x": x if t < 4000 else -x}, rank)
    alarms = stream.metrics()["alarms"]
    assert 4000 < alarms[0] < 4200
    assert stream.metrics()["mean_error"] > 0.5


# --- In the command ---


@pytest.fixture
def model(good, tmp_path):
    rows = make_rows(200, seed=1)
    write_csv(tmp_path / "flats.csv", rows)
    classes = ("--classes", ",".join(GRADES))
    good("fit", "flats.csv", *ENDS, *classes, "--drop", "id,grade", "-o", "m.pril")
    return "m.pril"


def windows_of(rows, out, every, begun=0, held=0):
    """Return the windows after `begun` labelled rows, computed from the answers to all rows.

    The first window also holds the labelled rows after `held`.
    """
    losses = []
    for row, line in zip(rows, out.splitlines(), strict=True):
        if row["low"] is None and row["high"] is None:
            continue
        low = 0 if row["low"] is None else GRADES.index(row["low"])
        high = 3 if row["high"] is None else GRADES.index(row["high"])
        said = GRADES.index(json.loads(line)["prediction"])
        losses.append(max(low - said, said - high, 0))
    ends = range((begun // every + 1) * every, len(losses) + 1, every)
    return [
        {
            "rows": end,
            "window": end - start,
            "mean_error": sum(losses[start:end]) / (end - start),
            "share_inside": losses[start:end].count(0) / (end - start),
            "alarms": [],
        }
        for start, end in pairwise([held, *ends])
    ]


def read_log(path):
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert all(line.pop("time").endswith("+00:00") for line in lines)
    return lines


@pytest.mark.parametrize("every", [1, 7, 64, 1000])
def test_every_prints_the_last_rows(model, call, feed, tmp_path, every):
    rows = make_rows(300, seed=2)
    feed(write_lines(tmp_path, rows))
    code, out, err = call(
        "stream", model, "--every", every, "--metrics", "log.jsonl", "-o", "n.pril"
    )
    assert code == 0, err
    expected = windows_of(rows, out, every)
    assert read_log(tmp_path / "log.jsonl") == expected
    lines = [line.split() for line in err.splitlines()]
    table = [line for line in lines if len(line) == 3 and line[0][0].isdigit()]
    assert [float(line[0]) for line in table] == [round(w["mean_error"], 4) for w in expected]
    assert [line[1] for line in table] == [f"{w['share_inside']:.1%}" for w in expected]
    assert [line[2] for line in table] == [f"{w['rows']:,}" for w in expected]
    feed(write_lines(tmp_path, rows))
    code, _, err = call("stream", model, "--every", every, "--json")
    told = [json.loads(line) for line in err.splitlines()][:-1]
    assert [{k: v for k, v in line.items() if k != "time"} for line in told] == expected


def write_lines(tmp_path, rows):
    write_jsonl(tmp_path / "rows.jsonl", rows)
    return (tmp_path / "rows.jsonl").read_bytes()


def test_windows_go_on_after_a_checkpoint(model, call, feed, tmp_path):
    rows = make_rows(400, seed=4)
    data = write_lines(tmp_path, rows)
    feed(data)
    options = ("--every", 30, "--metrics", "whole.jsonl", "-o", "whole.pril", "--quiet")
    assert call("stream", model, *options)[0] == 0
    lines = data.splitlines(keepends=True)
    options = ("--every", 30, "--metrics", "parts.jsonl", "-o", "parts.pril", "--quiet")
    options = (*options, "--checkpoint", "state")
    for stop in (100, 217):
        feed(b"".join([*lines[:stop], b"bad\n"]))
        assert call("stream", model, *options)[0] == 2
    feed(data)
    code, _, err = call("stream", model, *options)
    assert code == 0, err
    assert read_log(tmp_path / "parts.jsonl") == read_log(tmp_path / "whole.jsonl")


@pytest.mark.parametrize(("before", "after"), [(30, 7), (7, 30), (None, 30), (1000, 7)])
def test_a_window_has_the_rows_that_it_holds_after_a_stop(
    model, call, feed, tmp_path, before, after
):
    """Whatever the size of the windows was before the stop, or if there were none."""
    rows = make_rows(400, seed=4)
    data = write_lines(tmp_path, rows)
    keep = ("-o", "n.pril", "--quiet", "--checkpoint", "state")
    feed(b"".join([*data.splitlines(keepends=True)[:100], b"bad\n"]))
    code, first, _ = call("stream", model, *keep, *([] if before is None else ["--every", before]))
    assert code == 2
    feed(data)
    code, rest, err = call("stream", model, *keep, "--every", after, "--metrics", "log.jsonl")
    assert code == 0, err
    begun = sum(bool(row["low"] or row["high"]) for row in rows[:100])
    told = 1 << (begun.bit_length() - 1)  # without windows, when their number doubles
    held = told if before is None else begun // before * before
    expected = windows_of(rows, first + rest, after, begun, held)
    assert read_log(tmp_path / "log.jsonl") == expected


def test_an_alarm_is_printed_and_changes_nothing(model, call, feed, tmp_path):
    """The labels of the second half are upside down."""
    rows = make_rows(2500, seed=5)
    turned = dict(zip(GRADES, reversed(GRADES), strict=True))
    for row in rows[1500:]:
        row["low"], row["high"] = turned.get(row["high"]), turned.get(row["low"])
    data = write_lines(tmp_path, rows)
    feed(data)
    code, out, err = call("stream", model, "--every", 100, "--metrics", "m.jsonl", "-o", "a.pril")
    assert code == 0
    log = read_log(tmp_path / "m.jsonl")
    alarms = [row for line in log for row in line.get("alarms", ())]
    events = [line for line in log if line.get("event") == "alarm"]
    assert [event["row"] for event in events] == alarms
    since = np.diff([0, *alarms]).tolist()  # how long the rows were alike
    assert [event["half_life"] for event in events] == since
    labelled = sum(bool(row["low"] or row["high"]) for row in rows[:1500])
    assert labelled < alarms[0] < labelled + 300
    assert f"the error has risen: noticed at row {alarms[0]:,}" in err
    assert f"; if the rows have changed, try --half-life {since[0]}\n" in err
    feed(data)
    known = ["--id", "id", "--note", "grade", "--half-life", 600, "-o", "c.pril"]
    _, _, err = call("stream", model, "--every", 100, "--json", *known)
    event = next(line for line in map(json.loads, err.splitlines()) if "event" in line)
    row = [row for row in rows if row["low"] or row["high"]][event["row"] - 1]
    assert (event["id"], event["note"]) == (row["id"], row["grade"])
    assert event["half_life"] == 300  # half of what it is
    feed(data)
    assert call("stream", model, "-o", "b.pril")[1] == out
    assert_same_model(pril.load("a.pril").steps[-1][1], pril.load("b.pril").steps[-1][1])


@pytest.mark.parametrize("line", [b"", b"{", b'{"id": "wrong", "low": "?"}'])
def test_an_alarm_names_its_row_where_lines_are_refused(model, call, feed, line):
    """Of the lines that are answered, some have a NaN, which JSON itself does not allow."""
    rows = make_rows(2500, seed=5)
    turned = dict(zip(GRADES, reversed(GRADES), strict=True))
    for row in rows[1500:]:
        row["low"], row["high"] = turned.get(row["high"]), turned.get(row["low"])
    lines = [json.dumps(row | {"more": math.nan}).encode() for row in rows]
    for t in range(2400, 0, -10):
        lines[t:t] = [line]
    feed(b"\n".join([*lines, b""]))
    options = ("--every", 100, "--json", "--id", "id", "--note", "grade", "-o", "a.pril")
    code, _, err = call("stream", model, *options, "--on-error", "skip")
    assert code == 0, err
    event = next(line for line in map(json.loads, err.splitlines()) if "event" in line)
    row = [row for row in rows if row["low"] or row["high"]][event["row"] - 1]
    assert (event["id"], event["note"]) == (row["id"], row["grade"])


def test_files_for_metrics_that_are_refused(model, bad, feed, tmp_path):
    feed(write_lines(tmp_path, make_rows(5)))
    assert "pass --every N too" in bad("stream", model, "--metrics", "log.jsonl")
    every = ("--every", 5)
    assert "flats.csv exists and does not hold lines of JSON" in bad(
        "stream", model, *every, "--metrics", "flats.csv"
    )
    assert "m.pril is the model" in bad("stream", model, *every, "--metrics", "m.pril")
    assert "n.pril is the model" in bad(
        "stream", model, "-o", "n.pril", *every, "--metrics", "./n.pril"
    )
    assert "there is no folder" in bad("stream", model, *every, "--metrics", "no/log.jsonl")
    assert "--every" in bad("stream", model, "--every", 0)
