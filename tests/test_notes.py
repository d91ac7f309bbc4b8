"""Notes that are kept with a model: from Python, and the last offset of a stream."""

import copy
import json
import math
import os
import pickle
import signal
import subprocess
import sys
from contextlib import suppress

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.frozen import FrozenEstimator

import pril
from pril.io import model_files
from tables import GRADES, assert_same_model, make_rows, write_csv

CLASSES = ("--classes", ",".join(GRADES))
ENDS = ("--lower", "low", "--upper", "high")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@pytest.fixture(scope="module")
def model():
    return pril.PRIL(random_state=0).fit([[-1.0], [0.0], [1.0]], [1, 2, 3])


# --- In Python ---


@settings(max_examples=40)
@given(notes=st.dictionaries(st.text(), JSON, max_size=4))
def test_notes_come_back_as_they_were(model, tmp_path_factory, notes):
    path = tmp_path_factory.getbasetemp() / "any.pril"
    pril.save(model, path, notes=notes)
    found = pril.load_notes(path)
    assert repr(found) == repr(notes)  # 1 is not 1.0, nor True
    assert_same_model(pril.load(path), model)


def test_notes_do_not_collide_with_our_own(good, tmp_path):
    """The same keys as the command uses: columns, labels and CSV are still known."""
    write_csv(tmp_path / "t.csv", make_rows(60))
    good("fit", "t.csv", *ENDS, *CLASSES, "--drop", "id", "-o", "m.pril")
    loaded, about = model_files.read("m.pril", kind="model")
    mine = {"csv": 1, "labels": ["x"], "options": 2, "finished": 3, "user": 4, "contents": 5}
    model_files.write(loaded, "m.pril", kind="model", notes=about.notes | {"user": mine})
    assert pril.load_notes("m.pril") == mine
    assert "note: the model learned" in good("evaluate", "m.pril", "t.csv")
    shown = json.loads(good("show", "m.pril", "--json"))
    assert shown["user_notes"] == mine
    assert shown["notes"] == about.notes
    pril.save(loaded, "n.pril", notes=mine)
    assert pril.load_notes("n.pril") == mine


def test_a_model_without_notes(model, tmp_path):
    pril.save(model, tmp_path / "m.pril", notes={"a": 1})
    pril.save(model, tmp_path / "m.pril")
    assert pril.load_notes(tmp_path / "m.pril") == {}
    pril.save(model, tmp_path / "n.pril", notes={})
    assert pril.load_notes(tmp_path / "n.pril") == {}


def nested(depth):
    return {"a": nested(depth - 1)} if depth else {}


@pytest.mark.parametrize(
    ("notes", "said"),
    [
        ({"a": {"b": [1, 2, (3,)]}}, r"notes\['a'\]\['b'\]\[2\]: JSON has no tuple, got \(3,\)"),
        ({"n": np.int64(3)}, r"notes\['n'\]: JSON has no numpy.int64"),
        ({"n": math.nan}, r"notes\['n'\]: JSON has no nan"),
        ({"n": [1.0, -math.inf]}, r"notes\['n'\]\[1\]: JSON has no -inf"),
        ({"n": 2**63}, r"notes\['n'\]: 9223372036854775808 does not fit into 64 bits"),
        ({"s": "\ud800"}, r"notes\['s'\] '\\ud800' is not valid Unicode"),
        ({"\udfff": 1}, "notes: the key .* is not valid Unicode"),
        ({3: "x"}, "notes: a key must be a string, got 3"),
        ({"a": {None: 1}}, r"notes\['a'\]: a key must be a string, got None"),
        ({"s": b"x"}, r"notes\['s'\]: JSON has no bytes"),
        ({"s": {1, 2}}, r"notes\['s'\]: JSON has no set"),
        ({"s": "x" * 70_000}, "notes take 70,0.. bytes as JSON, and a file keeps at most 65,536"),
        (nested(30), "more than 20 lists or dicts inside each other"),
        ([1], r"notes must be a dict, got \[1\]"),
        ("x", "notes must be a dict"),
    ],
)
def test_what_json_does_not_have_is_refused_by_its_place(model, tmp_path, notes, said):
    path = tmp_path / "m.pril"
    pril.save(model, path, notes={"a": 1})
    before = path.read_bytes()
    with pytest.raises((TypeError, ValueError), match=said):
        pril.save(model, path, notes=notes)
    assert path.read_bytes() == before
    assert [*tmp_path.iterdir()] == [path]


def test_notes_that_contain_themselves(model, tmp_path):
    notes = {}
    notes["again"] = [notes]
    with pytest.raises(ValueError, match="inside each other"):
        pril.save(model, tmp_path / "m.pril", notes=notes)


def test_files_without_readable_notes(model, tmp_path):
    path = tmp_path / "m.pril"
    with pytest.raises(FileNotFoundError):
        pril.load_notes(path)
    path.write_bytes(b"PK no")
    with pytest.raises(ValueError, match="is damaged or not a model file"):
        pril.load_notes(path)
    for wrong in ([1], "x", {"a": "x" * 70_000}):
        model_files.write(model, path, kind="model", notes={"user": wrong})
        with pytest.raises(ValueError, match="is damaged or not a model file"):
            pril.load_notes(path)


# --- A file that the command wrote, loaded and saved ---

GERMAN = ("--delimiter", ";", "--decimal", ",", "--thousands", ".")


@pytest.fixture
def rents(tmp_path):
    """A table with brackets of rents, in a style of its own, where 1.234 is a large number."""
    size = np.random.default_rng(0).integers(100, 3000, 80)
    lines = [
        f"{value:,}".replace(",", ".") + f";{value / 2:.1f}".replace(".", ",") for value in size
    ]
    (tmp_path / "rents.csv").write_text("\n".join(["size;rent", *lines, ""]))


@pytest.mark.parametrize("model", ["pril", "boosting"])
def test_what_the_command_keeps_survives_load_and_save(model, rents, good, tmp_path):
    options = ("--label", "rent", "--edges", "400,900", "--model", model, *GERMAN)
    good("fit", "rents.csv", *options, "-o", "m.pril")
    for again in (lambda one: one, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))):  # noqa: S301
        pril.save(again(pril.load("m.pril")), "n.pril")
        assert (tmp_path / "n.pril").read_bytes() == (tmp_path / "m.pril").read_bytes()
    pril.save(pril.load("m.pril"), "n.pril", notes={"by": "ann"})
    answers = [good("predict", name, "rents.csv") for name in ("m.pril", "n.pril")]
    assert answers[0] == answers[1]
    assert good("evaluate", "n.pril", "rents.csv") == good("evaluate", "m.pril", "rents.csv")
    assert pril.load_notes("n.pril") == {"by": "ann"}
    pril.save(pril.load("n.pril"), "o.pril")
    assert pril.load_notes("o.pril") == {"by": "ann"}
    pril.save(pril.load("n.pril"), "o.pril", notes={})
    assert pril.load_notes("o.pril") == {}


def test_a_model_that_learns_on_keeps_the_notes_of_its_file(fitted, good, tmp_path):
    loaded = pril.load(fitted)
    loaded.stream().learn_one({"size": 40.0, "age": 3, "town": "Rome"}, ("poor", "fair"))
    pril.save(loaded, "n.pril")
    assert "note: the model learned" in good("evaluate", "n.pril", "t.csv")
    wrapped = pril.PredictionRanges(FrozenEstimator(loaded))
    pril.save(wrapped.fit(pd.read_csv("t.csv"), pd.read_csv("t.csv")[["low", "high"]]), "r.pril")
    assert "note: the model learned" in good("evaluate", "r.pril", "t.csv")


@pytest.mark.parametrize("model", ["pril", "boosting"])
def test_a_model_that_is_fitted_anew_forgets_its_file(model, rents, good):
    options = ("--label", "rent", "--edges", "400,900", "--model", model, *GERMAN)
    good("fit", "rents.csv", *options, "-o", "m.pril")
    loaded = pril.load("m.pril")
    with pytest.raises(ValueError, match="label"):
        loaded.fit(pd.DataFrame({"size": [1.0, 2.0, 3.0]}), [None, None, None])
    pril.save(loaded, "n.pril", notes={"by": "ann"})
    assert json.loads(good("show", "n.pril", "--json"))["notes"]["csv"]["thousands"] == "."
    loaded = pril.load("n.pril")
    loaded.fit(pd.DataFrame({"size": [1.0, 2.0, 3.0] * 9}), loaded.classes_.tolist() * 9)
    pril.save(loaded, "n.pril")
    assert json.loads(good("show", "n.pril", "--json"))["notes"] == {}
    assert pril.load_notes("n.pril") == {}


# --- In the command ---


@pytest.fixture
def fitted(good, tmp_path):
    write_csv(tmp_path / "t.csv", make_rows(200, seed=1))
    good("fit", "t.csv", *ENDS, *CLASSES, "--drop", "id,grade", "-o", "m.pril")
    return tmp_path / "m.pril"


def messages(n, seed=2):
    """Return rows of a queue, each with its offset."""
    rows = make_rows(n, seed=seed)
    names = ("size", "age", "town", "low", "high")
    return [
        {"offset": 1000 + t, **{name: row[name] for name in names}} for t, row in enumerate(rows)
    ]


def json_lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def test_show_prints_them(model, good, tmp_path):
    pril.save(model, tmp_path / "m.pril", notes={"offset": 17, "from": ["a", None]})
    lines = good("show", "m.pril").splitlines()
    assert "notes       offset: 17" in lines
    assert '            from: ["a", null]' in lines


def test_the_last_offset_is_kept_with_the_model(fitted, call, feed):
    loaded, about = model_files.read(fitted, kind="model")
    notes = about.notes | {"user": {"by": "ann"}}
    model_files.write(loaded, fitted, kind="model", notes=notes)
    rows = messages(40)
    feed(json_lines(rows))
    assert call("stream", "m.pril", "--note", "offset", "-o", "n.pril", "-q")[0] == 0
    assert pril.load_notes("n.pril") == {"by": "ann", "offset": 1039}
    feed(json_lines([{**row, "offset": str(row["offset"])} for row in rows]))
    options = ("--note", "offset", "--id", "offset", "-o", "c.pril", "-q")
    assert call("stream", "m.pril", *options)[0] == 0
    assert pril.load_notes("c.pril") == {"by": "ann", "offset": "1039"}  # as it is written
    assert_same_model(pril.load("n.pril").steps[-1][1], pril.load("c.pril").steps[-1][1])


def test_bad_lines_that_are_skipped_are_noted_if_they_can_be_read(fitted, call, feed):
    rows = messages(5)
    lines = json_lines(rows) + b'{"offset": 7, "size": "wide"}\n{"size": 3}\nno JSON\n'
    feed(lines)
    options = ("--note", "offset", "--on-error", "skip", "-o", "n.pril", "-q")
    code, out, _ = call("stream", "m.pril", *options)
    assert code == 0
    assert out.count('"error"') == 3
    assert pril.load_notes("n.pril") == {"offset": 7}


@pytest.mark.parametrize("value", [None, [1], {"a": 1}, "x" * 1001, 2**64])
def test_a_row_without_an_offset_is_refused(fitted, call, feed, value):
    rows = messages(6)
    rows[4]["offset"] = value
    feed(json_lines(rows))
    code, _, err = call("stream", "m.pril", "--note", "offset", "-o", "n.pril", "-q")
    assert code == 2
    assert "<stdin>, row 5: column 'offset' is " in err
    assert pril.load_notes("n.pril") == {"offset": 1003}  # the rows before were learned
    assert pril.load("n.pril").steps[-1][1].t_ > pril.load("m.pril").steps[-1][1].t_


def test_options_that_are_refused(fitted, bad, feed):
    feed(json_lines(messages(3)))
    assert "pass -o FILE or --checkpoint too" in bad("stream", "m.pril", "--note", "offset")
    keep = ("-o", "n.pril")
    assert "'age' cannot be noted" in bad("stream", "m.pril", "--note", "age", *keep)
    assert "'low' cannot be noted" in bad("stream", "m.pril", "--note", "low", *keep)


def test_a_new_model_does_not_learn_the_offset(call, feed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    feed(json_lines(messages(20)))
    assert call("stream", "new.pril", *ENDS, *CLASSES, "--note", "offset", "-q")[0] == 0
    assert "offset" not in pril.load("new.pril").feature_names_in_
    assert pril.load_notes("new.pril") == {"offset": 1019}


@pytest.mark.parametrize("from_offset", [True, False])
def test_a_checkpoint_goes_on_after_its_offset_or_from_the_start(
    fitted, call, feed, tmp_path, from_offset
):
    whole = json_lines(messages(200))
    lines = whole.splitlines(keepends=True)
    feed(whole)
    assert call("stream", "m.pril", "--note", "offset", "-o", "whole.pril", "-q")[0] == 0
    options = ("-o", "parts.pril", "-q", "--note", "offset")
    options = (*options, "--checkpoint", "state", "--checkpoint-every", 7)
    start = 0
    for stop in (50, 51, 130):
        feed(b"".join([*lines[start:stop], b"bad\n"]))
        code, _, err = call("stream", "m.pril", *options)
        assert code == 2, err
        known = pril.load_notes("m.pril", checkpoint="state")["offset"]
        assert int(known) == 1000 + stop - 1
        start = int(known) - 999 if from_offset else 0
    if from_offset:  # nothing new has come, and the stream is stopped once more
        feed(b"bad\n")
        assert call("stream", "m.pril", *options)[0] == 2
    feed(b"".join(lines[start:]))
    code, _, err = call("stream", "m.pril", *options)
    assert code == 0, err
    assert pril.load_notes("m.pril", checkpoint="state") == {}  # m.pril was not replaced
    assert pril.load_notes("parts.pril") == pril.load_notes("whole.pril")
    assert (tmp_path / "parts.pril").read_bytes() == (tmp_path / "whole.pril").read_bytes()


def test_nothing_new_ends_a_stream_well(fitted, call, feed):
    options = ("-o", "n.pril", "-q", "--note", "offset", "--checkpoint", "state")
    lines = json_lines(messages(30))
    feed(lines + b"bad\n")
    assert call("stream", "m.pril", *options)[0] == 2
    feed(b"")
    assert call("stream", "m.pril", *options)[0] == 0
    feed(lines)
    assert call("stream", "m.pril", "-o", "whole.pril", "-q", "--note", "offset")[0] == 0
    assert pril.load_notes("n.pril") == {"offset": 1029}
    assert_same_model(pril.load("n.pril").steps[-1][1], pril.load("whole.pril").steps[-1][1])


DYING = """
import os, signal, sys
from pril.cli.main import main
from pril.tables.checkpoints import Checkpoint
at, when = int(sys.argv.pop(1)), sys.argv.pop(1)
def dying(self, *arguments, really=getattr(Checkpoint, when)):
    global at
    at -= 1
    if at == 0 and when == "remove":  # the model is written, the checkpoint is still there
        os.kill(os.getpid(), signal.SIGKILL)
    really(self, *arguments)
    if at == 0:
        os.kill(os.getpid(), signal.SIGKILL)
setattr(Checkpoint, when, dying)
main()
"""


@pytest.mark.slow
def test_a_consumer_that_is_killed_resumes_from_its_offset(fitted, program, tmp_path):
    """No row is lost or learned twice: the model is that of one run, bit for bit."""
    rows = messages(123)  # the last checkpoint is three rows before the end
    whole = tmp_path / "whole.pril"
    command = ["stream", str(fitted), "-q", "--note", "offset"]
    subprocess.run(
        [*program, *command, "-o", str(whole)],
        input=json_lines(rows), check=True, capture_output=True,
    )  # fmt: skip
    keep = ["-o", str(fitted), "--checkpoint", str(tmp_path / "state"), "--checkpoint-every", "5"]

    def consume(*dying):
        """Read the queue after the offset that is noted; return the exit code and that offset."""
        known = pril.load_notes(fitted, checkpoint=tmp_path / "state").get("offset", 999)
        start = [sys.executable, "-c", DYING, *dying] if dying else program
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with subprocess.Popen([*start, *command, *keep], **pipes) as process:
            for row in rows:
                if row["offset"] > known:
                    with suppress(BrokenPipeError):
                        process.stdin.write(json_lines([row]))
                        process.stdin.flush()
                    if not process.stdout.readline():  # an answer, unless it was killed
                        break
            with suppress(BrokenPipeError):
                process.stdin.close()
        return process.returncode, known

    if not hasattr(signal, "SIGKILL"):
        pytest.skip("there is no kill -9")
    assert consume("7", "save") == (-signal.SIGKILL, 999)
    assert consume("6", "save") == (-signal.SIGKILL, 1034)
    assert consume("1", "remove")[0] == -signal.SIGKILL
    assert os.path.exists(tmp_path / "state/checkpoint.pril")
    code, known = consume()
    assert (code, known) == (0, 1122)  # all was learned before it was killed
    assert pril.load_notes(fitted, checkpoint=tmp_path / "state") == {"offset": 1122}
    assert_same_model(pril.load(fitted).steps[-1][1], pril.load(whole).steps[-1][1])
