"""What a stream answers: any spelling of a row, ids, probabilities, bad lines."""

import io as streams
import json
import math
import os
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline

import pril
from learners import LINEAR
from pril.io import model_files
from pril.tables.files import TableError
from pril.tables.json_lines import Codec, StreamOptions
from pril.tables.label_columns import Edges, LabelEnds
from pril.tables.model import LoadedModel
from pril.tables.opening import open_table
from pril.tables.runs import run_of
from pril.tables.stream import LineStream, StreamRun
from pril.tables.training import Checkpoint, Task
from tables import GRADES, features_and_labels, landmark_pipeline, make_rows, write
from test_stream import LABELS, fitted, json_lines, piped, row_by_row, told

pytestmark = pytest.mark.filterwarnings("ignore::pril.errors.FeatureRangeWarning")


def answered(path, data, names=LABELS, checkpoint=None, **options):
    """Return the stream and its answers."""
    output = streams.BytesIO()
    model = LoadedModel(path)
    labels = replace(model.notes.labels, columns=names)
    lines = LineStream(model, labels, StreamOptions(**options))
    stream = StreamRun(lines, output, lambda *_: None, checkpoint)
    reading = piped(data)
    try:
        with open(reading, closefd=True):
            stream.run(reading)
    finally:
        stream.answers = output.getvalue().decode().splitlines()
    return stream


def objects(stream):
    return [json.loads(line) for line in stream.answers]


# --- Lines ---------------------------------------------------------------------------------------

NUMBERS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.integers(-(10**25), 10**25).map(str),
    st.decimals(allow_nan=False, allow_infinity=False, places=25, min_value=-9, max_value=9).map(
        str
    ),
    st.sampled_from(["null", "true", '"7"', "1e999", "1e-999", "1E5", "01", "1.", "[]", "1e300"]),
)
WORDS = st.one_of(
    st.sampled_from(['"Rome"', '"Oslo"', '"R\\u006fme"', '"NA"', '""', "null", "5", '"\\ud800"']),
    st.text(max_size=5).map(json.dumps),
)
LABEL = st.sampled_from(['"poor"', '"fair"', '"good"', '"great"', "null", '""', '"bad"', "1"])
COLUMNS = {"size": NUMBERS, "age": NUMBERS, "town": WORDS, "low": LABEL, "high": LABEL,
           "other": st.one_of(NUMBERS, WORDS, st.just('{"a": [1, {}]}'))}  # fmt: skip
CELLS = st.lists(
    st.sampled_from(list(COLUMNS)).flatmap(lambda name: st.tuples(st.just(name), COLUMNS[name])),
    max_size=8,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def path(folder):
    return fitted(folder)


@given(
    cells=CELLS,
    space=st.sampled_from(["", " ", "\t"]),
    usual=st.booleans(),
)
@settings(max_examples=200)
def test_a_line_is_read_as_the_standard_library_reads_it(path, cells, space, usual):
    """Whatever keys the lines before it have; what cannot be used is refused."""
    line = f"{{{', '.join(f'{json.dumps(name)}:{space}{value}' for name, value in cells)}}}{space}"
    rows = make_rows(1, seed=3) if usual else []
    said = objects(answered(path, json_lines(rows) + line.encode() + b"\n", skip=True))[-1]
    try:
        row = dict.fromkeys(COLUMNS) | json.loads(line)
        for name in ("size", "age"):
            assert not isinstance(row[name], str | list)
            assert abs(row[name] or 0.0) < 1e154
        row |= {name: float(row[name] or 0) for name in ("size", "age") if row[name] is not None}
        if not isinstance(row["town"], str | None):
            row["town"] = json.dumps(row["town"])
        (row["town"] or "").encode()
        low, high = (row[name] or None for name in LABELS)
        row |= {"low": low, "high": high}
        assert GRADES.index(low or "poor") <= GRADES.index(high or "great")
        assert len({name for name, _ in cells}) == len(cells)
    except (ValueError, AssertionError):
        assert "error" in said
    else:
        expected = row_by_row(path, [*rows, row])[1][-1]
        assert said == {
            "prediction": expected["prediction"],
            "score": pytest.approx(expected["score"]),
        }


@pytest.mark.parametrize("cls", LINEAR)
@pytest.mark.parametrize("has_encoder", [True, False])
def test_a_stream_learns_as_partial_fit_does(folder, cls, has_encoder):
    """Rows in chunks, and all rows in one call of partial_fit: the same bits."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.uniform(-1, 1, (300, 5)), columns=list("abcde"))
    grades = np.digitize(frame.sum(axis=1), [-1.0, 0.0, 1.0])
    y = grades if cls.__name__ == "PRank" else np.column_stack([grades, np.minimum(grades + 1, 3)])
    names = ("low", "high")[: np.ndim(y)]
    learner = cls(classes=range(4)).partial_fit(frame[:50], y[:50])
    model = learner
    if has_encoder:
        encoder = pril.ColumnEncoder(bounded=True).fit(frame[:50])
        learner = cls(classes=range(4)).partial_fit(encoder.transform(frame[:50]), y[:50])
        model = pril.tables.training.Pipeline([("columns", encoder), ("learner", learner)])
    pril.save(model, folder / "m.pril")
    labels = pd.DataFrame(y, columns=list(names))
    rows = pd.concat([frame, labels], axis=1)[50:].to_dict("records")
    stream = answered(folder / "m.pril", json_lines(rows), names)
    features = encoder.transform(frame[50:]) if has_encoder else frame[50:]
    learner.partial_fit(features, y[50:])
    pril.save(model, folder / "whole.pril")
    pril.save(stream.model.model, folder / "rows.pril")
    assert (folder / "rows.pril").read_bytes() == (folder / "whole.pril").read_bytes()


def test_a_kernel_answers_and_learns(folder):
    home = folder / "kernel"
    home.mkdir()
    path, rows = fitted(home, "kernel"), make_rows(40, seed=3)
    learner, expected = row_by_row(path, rows)
    stream = answered(path, json_lines(rows))
    assert [row["prediction"] for row in objects(stream)] == [row["prediction"] for row in expected]
    scores = [row["score"] for row in objects(stream)]
    np.testing.assert_allclose(scores, [row["score"] for row in expected])
    assert stream.model.learner.t_ == learner.t_


def test_steps_after_the_encoder_make_the_features(good, feed, tmp_path):
    """A model with landmarks says of a stream what it says of a table."""
    file = write(tmp_path / "t.jsonl", make_rows())
    pril.save(landmark_pipeline().fit(*features_and_labels(make_rows())), tmp_path / "m.pril")
    good("predict", "m.pril", file, "-o", "rated.jsonl")
    wanted = [json.loads(line) for line in (tmp_path / "rated.jsonl").read_text().splitlines()]
    rows = [{name: row[name] for name in ("size", "age", "town")} for row in make_rows()]
    feed(json_lines(rows))
    said = good("stream", "m.pril", "-q")
    scores = [json.loads(line)["score"] for line in said.splitlines()]
    np.testing.assert_allclose(scores, [row["score"] for row in wanted], rtol=1e-12)


def test_learners_that_learn_no_stream_answer_and_refuse_labels(tmp_path):
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 2)), columns=["a", "b"])
    y = np.digitize(frame["a"], [-0.5, 0.5])
    lines = json_lines(frame.assign(y=y).to_dict("records"))
    boosting = pril.OrderedBoosting(max_iter=5).fit(frame, y)
    pril.save(boosting, tmp_path / "m.pril")
    said = objects(answered(tmp_path / "m.pril", lines, ()))
    assert [row["prediction"] for row in said] == boosting.predict(frame).tolist()
    with pytest.raises(TypeError, match="holds OrderedBoosting, which learns all rows at once"):
        answered(tmp_path / "m.pril", lines, ("y",))
    kernel = pd.DataFrame(frame @ frame.T).rename(columns=str)
    pril.save(pril.KernelPRIL(kernel="precomputed").fit(kernel, y), tmp_path / "k.pril")
    lines = json_lines(kernel.assign(y=y).to_dict("records"))
    with pytest.raises(ValueError, match="cannot be learned from a stream"):
        answered(tmp_path / "k.pril", lines, ("y",))


def test_a_number_that_would_spoil_the_sums_is_refused_when_it_comes(path):
    rows = make_rows(10, seed=3)
    for value in ("1e300", "-1e300", "1e146"):
        data = json_lines(rows) + b'{"size": %s, "high": "fair"}\n' % value.encode()
        with pytest.raises(TableError, match=r"row 11: column 'size' is .*too large: the limit"):
            answered(path, data)
    assert len(answered(path, b'{"size": 9e145, "high": "fair"}\n').answers) == 1


# --- Ids -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["17", '"a \\u00e9 é"', "1.00", "12345678901234567890123", "null",
                                   '{"a": [1, 2]}', "true"])  # fmt: skip
@pytest.mark.parametrize("name", ["flat", 'a "quoted" name'])
def test_an_id_comes_back_as_it_was_written(path, value, name):
    quick = f'{{{json.dumps(name)}: {value}, "age": 3}}\n'.encode()
    slow = f'{{{json.dumps(name)}: {value}, "age": true}}\n'.encode()
    without = b'{"age": 3}\n'
    stream = answered(path, quick + slow + without, key=name)
    assert [row.pop(name) for row in objects(stream)] == [*[json.loads(value)] * 2, None]
    if "quoted" not in name:
        assert all(f": {value}, " in line for line in stream.answers[:2])
    cells = '"size": 1, "age": 3, "town": "Rome", "low": null, "high": null, "other": 5'
    whole = f"{{{json.dumps(name)}: {value}, {cells}}}\n".encode()
    said = objects(answered(path, 2 * whole, key=name))
    assert [row[name] for row in said] == [json.loads(value)] * 2
    plain = answered(path, quick + slow + without)
    assert [list(row) for row in objects(stream)] == [[name, "prediction", "score"]] * 3
    assert [{**row, name: 0} for row in objects(plain)] == [
        {**row, name: 0} for row in objects(stream)
    ]


def test_an_id_that_cannot_be_read_is_refused_by_its_row(path):
    lines = [b'{"id": %d, "age": 3}' % t for t in range(6)]
    lines[3] = b'{"id": "\xff", "age": 3}'
    data = b"".join(line + b"\n" for line in lines)
    with pytest.raises(TableError, match="<stdin>, row 4: not UTF-8"):
        answered(path, data, key="id")
    said = objects(answered(path, data, key="id", skip=True))
    assert [row["id"] for row in said] == [0, 1, 2, None, 4, 5]
    assert [t for t, row in enumerate(said) if "error" in row] == [3]


@pytest.mark.parametrize("name", ["age", "low", "score", "line"])
def test_an_id_must_be_a_column_of_its_own(path, name):
    with pytest.raises(ValueError, match=f"the column '{name}' cannot be the id"):
        answered(path, b"", key=name)


# --- Probabilities -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def logit(folder):
    home = folder / "logit"
    home.mkdir()
    return fitted(home, "ordered-logit")


@pytest.mark.parametrize("names", [LABELS, ()])
def test_probabilities_are_those_before_the_row_is_learned(logit, names):
    rows = make_rows(60, seed=3)
    stream = answered(logit, json_lines(rows), names, chances=True)
    model = LoadedModel(logit).model
    for row, said in zip(rows, objects(stream), strict=True):
        frame = pd.DataFrame([row])[["size", "age", "town"]].astype({"size": float, "age": float})
        X = model[0].transform(frame.astype({"town": "object"}))
        chances = dict(zip(model[1].classes_, model[1].predict_proba(X)[0], strict=True))
        assert said["probabilities"] == pytest.approx(chances, abs=1e-12)
        assert math.isclose(sum(said["probabilities"].values()), 1.0)
        if names and (row["low"] or row["high"]):
            model[1].partial_fit(X, [(row["low"], row["high"])])
    plain = answered(logit, json_lines(rows), names)
    kept = [{name: row[name] for name in ("prediction", "score")} for row in objects(stream)]
    assert kept == objects(plain)


def test_sparse_features_have_the_same_probabilities(logit, monkeypatch):
    rows = make_rows(60, seed=3)
    expected = objects(answered(logit, json_lines(rows), chances=True))
    monkeypatch.setattr("pril.tables.encoder.is_dense", lambda encoder: False)
    said = objects(answered(logit, json_lines(rows), chances=True))
    for row, other in zip(said, expected, strict=True):
        assert row["probabilities"] == pytest.approx(other["probabilities"], abs=1e-9)


def test_a_model_without_probabilities_is_refused(path):
    with pytest.raises(ValueError, match=r"model.pril holds PRIL, which has no probabilities"):
        answered(path, b"", chances=True)


# --- Bad lines -----------------------------------------------------------------------------------

BAD = {
    b"": "the line is blank",
    b" \t": "the line is blank",
    b'{"size": 1, "age": ': "not a JSON object",
    b'{"size": "big"}': "column 'size' is 'big', not a number",
    b'{"size": 1e300}': "too large: the limit is",
    b'{"low": "good", "high": "fair"}': "columns 'low', 'high': lower end 'good' is above",
    b'{"town": "\xff"}': "not UTF-8",
}


def test_bad_lines_are_answered_and_not_learned(path, tmp_path):
    """Good rows have the answers, and the model has the bits, as if bad ones were not there."""
    good = json_lines(make_rows(40, seed=3)).splitlines()
    lines, bad = list(good), {}
    for k, line in enumerate(BAD):
        for at in (0, 7 * k, len(lines)):
            lines.insert(at, line)
    for t, line in enumerate(lines):
        if line in BAD:
            bad[t + 1] = BAD[line]
    data = b"".join(line + b"\n" for line in lines)
    stream, clean = (
        answered(path, data, skip=True),
        answered(path, json_lines(make_rows(40, seed=3))),
    )
    said = objects(stream)
    assert len(said) == len(lines)
    assert [row for row in said if "error" not in row] == objects(clean)
    refused = {row["line"]: row["error"] for row in said if "error" in row}
    assert list(refused) == list(bad)
    assert [t for t in bad if bad[t] not in refused[t]] == [], refused
    saved = []
    for name, one in (("a", stream), ("b", clean)):
        pril.save(one.model.model, tmp_path / name)
        saved.append((tmp_path / name).read_bytes())
    assert saved[0] == saved[1]
    assert vars(stream.evaluation) == vars(clean.evaluation)
    # Taken up again in the middle, it goes on as if nothing had happened.
    keeper = Checkpoint(tmp_path / "c.pril", 1)
    size = len(b"".join(line + b"\n" for line in lines[:30]))
    first = answered(path, data[:size], skip=True, checkpoint=keeper)
    second = answered(path, data, skip=True, checkpoint=keeper)
    assert first.answers + second.answers == stream.answers
    assert vars(second.evaluation) == vars(stream.evaluation)


def test_a_bad_line_keeps_its_id_if_that_can_be_read(path):
    lines = b'{"id": 7, "size": "big"}\n{"id": 8, "size"\n\n{"id": 9}\n'
    said = objects(answered(path, lines, key="id", skip=True))
    assert [row["id"] for row in said] == [7, None, None, 9]
    assert [row.get("line") for row in said] == [1, 2, 3, None]


def test_the_longest_lines_are_read(path, monkeypatch):
    for module in ("text", "stream"):
        monkeypatch.setattr(f"pril.tables.{module}.LONGEST_ROW", 100)
    line = b'{"age": 3}'
    assert len(answered(path, line.ljust(100) + b"\n", ()).answers) == 1
    with pytest.raises(TableError, match="<stdin>, row 1: longer than"):
        answered(path, line.ljust(101) + b"\n", ())


def test_rows_that_come_alone_are_evaluated_in_time(path):
    """Every power of two is reported when it is reached, whatever the chunks."""
    rows, reports = make_rows(300, seed=3), []
    lines = LineStream(LoadedModel(path), LabelEnds(LABELS))
    stream = StreamRun(lines, streams.BytesIO(), told(reports), None)
    reading, writing = os.pipe()
    labelled = 0

    class Output(streams.BytesIO):
        def write(self, data):  # a row is answered: send the next one
            nonlocal labelled
            labelled += bool(rows[0]["low"] or rows[0]["high"])
            assert len(reports) == labelled.bit_length()
            del rows[0]
            os.write(writing, json_lines(rows[:1])) if rows else os.close(writing)

    stream.output = Output()
    os.write(writing, json_lines(rows[:1]))
    stream.run(reading)
    os.close(reading)
    assert stream.evaluation.rows == labelled
    assert stream.evaluation.unlabelled == 300 - labelled


def test_the_command_has_these_options(path, logit, call, feed):
    lines = b'{"id": 1, "size": 40, "low": "fair"}\n{"id": 2, "size": "big"}\n{"id": 3}\n'

    def run(model, *options):
        feed(lines)
        return call("stream", model, "-q", *options)

    code, out, err = run(logit, "--id", "id", "--proba", "--on-error", "skip")
    said = [json.loads(line) for line in out.splitlines()]
    assert (code, err) == (0, "")
    assert [row["id"] for row in said] == [1, 2, 3]
    assert list(said[0]) == ["id", "prediction", "score", "probabilities"]
    assert list(said[0]["probabilities"]) == ["poor", "fair", "good", "great"]
    assert said[1] == {"id": 2, "error": "column 'size' is 'big', not a number", "line": 2}
    code, out, err = run(logit, "--id", "id")
    assert code == 2
    assert out.count("\n") == 1
    assert "<stdin>, row 2: column 'size' is 'big', not a number" in err
    code, out, err = run(path, "--proba")
    assert (code, out) == (2, "")
    assert "holds PRIL, which has no probabilities; ordered-logit and boosting have them" in err


@pytest.mark.parametrize("begins", [False, True])
def test_a_strict_stream_refuses_other_columns_and_nothing_else(path, call, feed, begins):
    """Labels may be absent; what is refused is not learned. A new model has the first columns."""
    rng, rows = np.random.default_rng(5), []
    for row in make_rows(80, seed=5):
        row = {name: cell for name, cell in row.items() if name != "grade"}
        for name in [*row]:
            if rows and rng.random() < 0.06:
                row["new " + name if rng.random() < 0.3 else "id"] = row.pop(name)
        rows.append({name: row[name] for name in rng.permutation([*row]).tolist()})
    wrong = [t for t, row in enumerate(rows) if {*row} - {"id", *LABELS} != {"size", "age", "town"}]
    assert 10 < len(wrong) < 50
    kept = [row for t, row in enumerate(rows) if t not in wrong]
    new = ["--lower", "low", "--upper", "high", "--classes", ",".join(GRADES)] if begins else []
    answers = {}
    for name, some, options in (
        ("strict", rows, ["--strict", "--on-error", "skip"]),
        ("kept", kept, []),
    ):
        feed(json_lines(some))
        model = f"{name}.pril" if begins else path
        options = [*options, "--id", "id", "-o", f"{name}.pril", "-q", *new]
        code, out, err = call("stream", model, *options)
        assert code == 0, err
        answers[name] = [json.loads(line) for line in out.splitlines()]
    refused = [t for t, answer in enumerate(answers["strict"]) if "error" in answer]
    assert refused == wrong
    assert [answer for answer in answers["strict"] if "error" not in answer] == answers["kept"]
    models = [pril.load(f"{name}.pril")[-1] for name in answers]
    assert models[0].coef_.tobytes() == models[1].coef_.tobytes()
    said = " ".join(answer.get("error", "") for answer in answers["strict"])
    assert "there is no column 'size', which is a feature" in said
    assert "the column 'new high' is not one that the model knows" in said


def test_a_bad_line_that_no_step_can_name_is_answered(tmp_path):
    frame = pd.DataFrame({"a": [0.0, 1.0, 2.0, 3.0]})
    model = make_pipeline(SimpleImputer(), pril.PRIL(classes=[1, 2])).fit(frame, [1, 1, 2, 2])
    pril.save(model, tmp_path / "m.pril")
    lines = [b'{"a": 1, "y": 1}', b'{"a": 1e999, "y": 1}', b'{"a": 2, "y": 1}', b'{"a": 1e999}']
    data = b"".join(line + b"\n" for line in lines)
    stream = answered(tmp_path / "m.pril", data, ("y",), skip=True)
    assert [row.get("line") for row in objects(stream)] == [None, 2, None, 4]
    assert stream.model.learner.t_ == model[-1].t_ + 2


# --- Labels of any JSON type ---------------------------------------------------------------------

JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(10**30), 10**30),
        st.floats(),
        st.text(max_size=5),
        st.sampled_from([1, 2.0, "2", "", 10**400, -(10**400), 2**63]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(st.text(max_size=2), inner, max_size=2)
    ),
    max_leaves=4,
)
WHOLE = [json.dumps(value) for value in (10**400, 2**63, -(10**25))]
DEEP = [
    "[" * 100 + "]" * 100,
    "1" * 5000,
    "[" + "1" * 5000 + "]",
    '{"low": 1, "high": 2}',
    "[1, 2]",
]


@pytest.fixture(scope="module")
def rated(tmp_path_factory):
    """Models whose classes are numbers, words, and brackets of a number."""
    folder = tmp_path_factory.mktemp("rated")
    rows = [
        {"a": float(t % 7), "y": t % 3 + 1, "w": ["low", "mid", "high"][t % 3]} for t in range(30)
    ]
    for name, labels, more in (
        ("numbers", LabelEnds(("y",)), {}),
        ("words", LabelEnds(("w",)), {"classes": ("low", "mid", "high")}),
        ("edges", Edges(("y",), (1.5, 2.5)), {}),
    ):
        table = open_table(str(write(folder / "t.csv", rows)))
        task = Task(labels, features=("a",), holdout=0.0, **more)
        run = run_of(table, task, lambda *_: None)
        model_files.write(run(), folder / f"{name}.pril", kind="model", notes=run.describe())
    return folder


@pytest.mark.parametrize("name", ["numbers", "words", "edges"])
@given(label=st.one_of(JSON.map(json.dumps), st.sampled_from([*WHOLE, *DEEP])))
def test_a_label_of_any_json_type_is_learned_or_refused(rated, name, label):
    """The rows around it are learned, and no label changes what becomes of them."""
    usual = "low" if name == "words" else 1
    before = json_lines([{"a": 1.0, "y": usual}] * 3)
    line = f'{{"a": 2.0, "y": {label}}}\n'.encode()
    path = rated / f"{name}.pril"
    stream = answered(path, before + line + before, names=("y",), skip=True)
    said = objects(stream)
    assert [set(one) for one in said[:3] + said[4:]] == [{"prediction", "score"}] * 6
    learned = stream.model.learner.t_ - LoadedModel(path).learner.t_
    if "error" in said[3]:
        assert learned == 6
        assert said[3]["line"] == 4
        with pytest.raises(TableError, match="<stdin>, row 4: "):
            answered(path, before + line + before, names=("y",))
    else:
        assert learned in (6, 7)  # without a label, or with one


@pytest.mark.parametrize("label", ["[1]", "{}", '{"low": 1}', '[{"a": [1]}]'])
def test_a_nested_label_ends_a_stream_whose_model_is_saved(rated, tmp_path, call, feed, label):
    path = tmp_path / "m.pril"
    path.write_bytes((rated / "numbers.pril").read_bytes())
    feed(b'{"a": 1.0, "y": 1}\n' * 500 + f'{{"a": 1.0, "y": {label}}}\n'.encode())
    before = LoadedModel(path).learner.t_
    code, out, err = call("stream", path, "--label", "y", "-o", path, "-q")
    assert (code, out.count("\n")) == (2, 500)
    assert err.startswith("pril: <stdin>, row 501: column 'y' is ")
    assert LoadedModel(path).learner.t_ == before + 500


@pytest.mark.parametrize("checkpoint", [(), ("--checkpoint", "c", "--checkpoint-every", "1000000")])
def test_a_bug_loses_no_row_that_was_learned(rated, tmp_path, call, feed, monkeypatch, checkpoint):
    """Exit code 70, and the model as it was before the line that the bug is about."""
    read = Codec.read

    def with_bug(self, lines):
        return read(self, lines) if b"bug" not in b"".join(lines) else 1 / 0

    path = tmp_path / "m.pril"
    path.write_bytes((rated / "numbers.pril").read_bytes())
    before = LoadedModel(path).learner.t_
    row = b'{"a": 1.0, "y": 1}\n'
    first, second = row * 40, b'{"a": 1.0, "y": 2, "bug": 1}\n' + row * 9
    stream = ("stream", path, "--label", "y", "-o", path, "-q", *checkpoint)
    reading = piped(first + second)
    monkeypatch.setattr("pril.tables.stream.CHUNK_BYTES", len(row))
    monkeypatch.setattr(Codec, "read", with_bug)
    with open(reading) as source:
        monkeypatch.setattr(sys, "stdin", source)
        code, out, err = call(*stream)
    assert code == 70
    assert "this is a bug in pril" in err
    n = out.count("\n")
    assert n >= 40
    monkeypatch.setattr(Codec, "read", read)
    if not checkpoint:
        assert LoadedModel(path).learner.t_ == before + n
        return
    feed(first + second)
    code, out, err = call(*stream)
    assert (code, out.count("\n")) == (0, 50 - n)
    assert LoadedModel(path).learner.t_ == before + 50
