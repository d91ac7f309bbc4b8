"""One row at a time through a whole pipeline: the same answers and models as by tables."""

import copy
import json
import pickle

import numpy as np
import pandas as pd
import pytest
import skops.io
from sklearn import pipeline
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.preprocessing import StandardScaler

import pril
from pril.io import trusted_types
from tables import GRADES, features_and_labels, landmark_pipeline, make_rows, write
from test_stream import json_lines

FIT = ("--lower", "low", "--upper", "high", "--classes", ",".join(GRADES), "--drop", "id,grade")


def frame_of(row):
    """Return a table of one row, in which a missing word is still text."""
    return pd.DataFrame([row]).astype({"size": float, "town": object})


@pytest.fixture
def flats(tmp_path, good):
    """Fit a model by the command, or with landmarks in Python; return a function that loads it."""

    def fit(*options, landmarks=False):
        write(tmp_path / "flats.csv", make_rows(200))
        if landmarks:
            pipe = landmark_pipeline().fit(*features_and_labels(make_rows(200)))
            pril.save(pipe, tmp_path / "m.pril")
        else:
            good("fit", "flats.csv", *FIT, *options, "-q", "-o", "m.pril")
        return pril.load("m.pril")

    return fit


@pytest.mark.parametrize("landmarks", [False, True])
def test_a_loaded_model_serves_dicts_as_tables_of_one_row(flats, landmarks):
    model = flats(landmarks=landmarks)
    stream = model.stream()
    for row in make_rows(40, seed=5):
        frame = frame_of(row)
        assert stream.predict_one(row) == model.predict(frame)[0]
        features = model[:-1].transform(frame)
        assert stream.latent_one(row) == pytest.approx(model[-1].latent(features)[0])
        assert hasattr(stream, "predict_proba_one") == hasattr(model, "predict_proba")
        if hasattr(stream, "predict_proba_one"):
            chances = dict(zip(model.classes_, model.predict_proba(frame)[0], strict=True))
            assert stream.predict_proba_one(row) == pytest.approx(chances)


@pytest.mark.parametrize("landmarks", [False, True])
def test_a_loaded_model_learns_as_the_command_does(flats, good, feed, tmp_path, landmarks):
    """The same rows, learned by `pril stream` and by `learn_one`."""
    rows, model = make_rows(40, seed=5), flats(landmarks=landmarks)
    feed(json_lines(rows))
    good("stream", "m.pril", *FIT[:4], "-q", "-o", "streamed.pril")
    stream = model.stream()
    for row in rows:
        stream.learn_one(row, (row["low"], row["high"]))
    pril.save(model, tmp_path / "served.pril")
    twin = pril.load("streamed.pril")
    assert model[-1].t_ == twin[-1].t_
    np.testing.assert_allclose(model[-1].coef_, twin[-1].coef_, rtol=1e-12)
    np.testing.assert_allclose(model[-1].thresholds_, twin[-1].thresholds_, rtol=1e-12)


def test_the_command_streams_through_all_steps(flats, good, feed):
    """Landmarks come after the encoder: answers are those of predict."""
    rows = [row | {"low": None, "high": None} for row in make_rows(20, seed=5)]
    model = flats(landmarks=True)
    feed(json_lines(rows))
    said = [json.loads(line)["score"] for line in good("stream", "m.pril", "-q").splitlines()]
    features = [model[:-1].transform(frame_of(row)) for row in rows]
    np.testing.assert_allclose(said, [model[-1].latent(x)[0] for x in features])


def test_cells_of_a_row(flats):
    """What is missing is filled in, numbers of NumPy are numbers, what is wrong is named."""
    stream = flats("--model", "ordered-logit").stream()
    row = {"size": None, "town": "Oslo"}
    assert stream.latent_one(row) == stream.latent_one(row | {"age": float("nan"), "other": "x"})
    assert stream.latent_one(row | {"age": np.float32(3)}) == stream.latent_one(row | {"age": 3})
    with pytest.raises(ValueError, match=r"^x: column 'age' is 'old', not a number$"):
        stream.predict_one({"age": "old"})
    with pytest.raises(TypeError, match=r"x must be a dict of columns, got \[1, 2\]"):
        stream.learn_one([1, 2], "good")


def test_a_stream_follows_an_encoder_that_learns_more():
    learner = pril.PRIL(classes=GRADES, random_state=0)
    model = pril.Pipeline([("columns", pril.ColumnEncoder()), ("learner", learner)])
    stream = model.fit(pd.DataFrame({"size": [1.0, 2.0, 3.0]}), GRADES[:3]).stream()
    wide = pd.DataFrame({"width": [10.0, 20.0, 30.0]})
    model.fit(wide, GRADES[2::-1])
    said = [stream.predict_one({"width": width}) for width in wide["width"]]
    assert said == model.predict(wide).tolist() == GRADES[2::-1]


def test_an_argument_of_a_step_is_asked_for_by_its_name():
    X, y = np.arange(40.0).reshape(20, 2), np.arange(20) // 7
    groups = np.arange(20) // 2
    for name, learner in (
        ("groups", pril.OrderedBoosting(max_iter=2)),
        ("sample_weight", pril.PRIL()),
    ):
        inner = pril.Pipeline([("learner", learner)])
        for model, known in ((inner, "learner"), (pril.Pipeline([("a", inner)]), "a__learner")):
            said = f"fit of a Pipeline takes no {name}=: pass {known}__{name}=, with"
            with pytest.raises(ValueError, match=said):
                model.fit(X, y, **{name: groups})
            model.fit(X, y, **{f"{known}__{name}": groups})
            with pytest.raises(ValueError, match=f"fit of {type(learner).__name__} takes no foo="):
                model.fit(X, y, foo=1)


def test_it_is_a_pipeline_of_scikit_learn(flats, tmp_path):
    model = flats()
    row = make_rows(1, seed=5)[0]
    assert isinstance(model, pipeline.Pipeline)
    assert isinstance(clone(model), pril.Pipeline)
    assert isinstance(model[:-1], pipeline.Pipeline)
    assert type(model.stream()) is type(model[-1].stream())
    again = skops.io.loads(skops.io.dumps(model), trusted=trusted_types())
    for other in (again, pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):  # noqa: S301
        assert other.stream().latent_one(row) == model.stream().latent_one(row)
    plain = pipeline.Pipeline(model.steps)
    pril.save(plain, tmp_path / "plain.pril")
    pril.save(model, tmp_path / "ours.pril")
    assert (tmp_path / "plain.pril").read_bytes() == (tmp_path / "ours.pril").read_bytes()
    stream = model.stream()
    alone, rounds = copy.copy(stream), model[-1].t_
    alone.learn_one(row, "good")
    assert (alone.model[-1].t_, model[-1].t_) == (rounds + 1, rounds)


@pytest.mark.parametrize(
    "copied",
    [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))],  # noqa: S301
)
def test_a_copied_stream_goes_on_alone(flats, copied):
    model, rows = flats(), make_rows(20, seed=5)
    stream, learned = model.stream(), []
    for row in rows[:10]:
        stream.learn_one(row, "good")
    alone = copied(stream)
    for one in (stream, alone):
        for row in rows[10:]:
            one.learn_one(row, "poor")
        learned.append((one.model[-1].coef_.tolist(), one.latent_one(rows[0]), one.model[-1].t_))
    assert learned[0] == learned[1]
    assert alone.model is not model


def test_a_frozen_model_predicts_and_does_not_learn(flats):
    model = flats()
    steps = [*model.steps[:-1], ("learner", FrozenEstimator(model[-1]))]
    stream, row = pril.Pipeline(steps).stream(), make_rows(1, seed=5)[0]
    assert stream.predict_one(row) == model.stream().predict_one(row)
    rounds = model[-1].t_
    for x in (row, ["no row"]):
        with pytest.raises(ValueError, match="a FrozenEstimator, which does not learn"):
            stream.learn_one(x, "good")
    assert model[-1].t_ == rounds


@pytest.mark.parametrize("names", [["a", "b"], None])
def test_steps_of_other_libraries(names):
    X = np.random.default_rng(0).normal(size=(50, 2))
    table = X if names is None else pd.DataFrame(X, columns=names)
    y = np.digitize(X.sum(axis=1), [-0.5, 0.5])
    steps = [("scale", StandardScaler()), ("learner", pril.PRIL(random_state=0))]
    model = pipeline.Pipeline(steps).fit(table, y)
    stream = pril.Pipeline(model.steps).stream()
    rows = X if names is None else table.to_dict("records")
    assert [stream.predict_one(row) for row in rows] == model.predict(table).tolist()


def test_what_cannot_stream_says_so():
    X, y = [[-1.0], [0.0], [1.0]], [1, 2, 3]
    kernel = pril.Pipeline([("model", pril.KernelPRIL())]).fit(X, y)
    with pytest.raises(TypeError, match="KernelPRIL cannot learn or predict one row at a time"):
        kernel.stream()
