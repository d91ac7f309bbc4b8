"""How OrderedBoosting rates rows: one, a few, or many in threads, always to the same bit."""

import copy
import json
import pickle
import threading

import joblib
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

import pril
from forests import RandomForest
from pril import ColumnEncoder, OrderedBoosting, Pipeline
from pril.learners.boosting import compiled, forest_engine
from tables import make_rows, write
from test_stream import json_lines


def frame_of(forest, rows):
    return pd.DataFrame(rows, columns=forest.names, dtype=object)


def by_name(forest, row):
    return dict(zip(forest.names, row, strict=True))


# --- One row, a few rows, many rows ---


@given(
    seed=st.integers(0, 2**32 - 1),
    most_leaves=st.sampled_from([1, 2, 33, 64, 65, 200]),
    n_landmarks=st.sampled_from([0, 3]),
    decision=st.sampled_from(["median", "mode"]),
)
def test_all_ways_give_the_score_of_walking_down_the_trees(
    seed, most_leaves, n_landmarks, decision
):
    forest = RandomForest(np.random.default_rng(seed), 6, most_leaves, n_landmarks)
    model, rows = forest.model(decision=decision, n_jobs=1), forest.rows(40)
    expected = [forest.score(row) for row in rows]
    table = frame_of(forest, rows)
    assert model.latent(table).tolist() == expected
    few = [model.latent(table[t : t + 4]) for t in range(0, 40, 4)]
    assert np.concatenate(few).tolist() == expected
    labels, chances = model.predict(table), model.predict_proba(table)
    stream = model.stream()
    for t, row in enumerate(rows):
        for x in (row, by_name(forest, row), np.array(row, dtype=object)):
            assert stream.latent_one(x) == expected[t]
        assert stream.predict_one(row) == labels[t]
        assert list(stream.predict_proba_one(row)) == list(model.order_)
        assert list(stream.predict_proba_one(row).values()) == chances[t].tolist()


def test_the_numbers_of_an_array_may_be_categories():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.choice([3.0, 5.0, 2.5, np.nan], 200), rng.normal(size=200)])
    y = np.digitize(np.nan_to_num(X[:, 0]) % 2 + X[:, 1], [0.0, 1.0])
    model = OrderedBoosting(categorical_features=[0], max_iter=5, random_state=0).fit(X, y)
    X = np.vstack([X, [[4.0, 0.0], [-0.0, 1.0], [np.nan, np.nan]]])
    stream = model.stream()
    for kind in (np.array, list, tuple):
        assert [stream.latent_one(kind(x)) for x in X.tolist()] == model.latent(X).tolist()


@pytest.mark.parametrize("absent", [None, np.nan, pd.NA, "no key"])
def test_what_a_row_lacks_is_missing(absent):
    forest = RandomForest(np.random.default_rng(5), 20)
    assert (forest.sizes > 0).any()
    assert (forest.sizes == 0).any()
    stream = forest.model().stream()
    for row in forest.rows(50):
        for k, name in enumerate(forest.names):
            given = by_name(forest, row)
            if isinstance(absent, str):
                del given[name]
            else:
                given[name] = absent
            empty = None if forest.sizes[k] else np.nan
            assert stream.latent_one(given) == forest.score([*row[:k], empty, *row[k + 1 :]])


REFUSED = {
    "infinity": ({"size": np.inf, "town": "a"}, r"feature 'size' is inf; Input X contains inf"),
    "a large number": ({"size": -2e150, "town": "a"}, "feature 'size' is -2e.150; the limit is 1e"),
    "a word": ({"size": "large", "town": "a"}, "x, feature 'size': 'large' is not a number"),
    "a time": ({"size": np.datetime64("2020"), "town": "a"}, "x, feature 'size': .* not a number"),
    "a list": ({"size": [1.0], "town": "a"}, r"x, feature 'size': \[1.0\] is not a number"),
    "a list of words": ({"size": 1.0, "town": ["a"]}, r"feature 'town': \['a'\] is not a category"),
    "another feature": ({"size": 1.0, "twon": "a"}, "feature 'twon' that the model does not know"),
    "too few": ([1.0], "x has 1 features, expected 2"),
    "too many": (np.zeros(3), "x has 3 features, expected 2"),
    "a number": (1.0, "x must be a dict, a sequence or a 1d array"),
    "infinity in a list": ([-np.inf, "a"], "feature 'size' is -inf"),
}


@pytest.fixture(scope="module")
def flats():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"size": rng.normal(size=300), "town": rng.choice(["a", "b", "c"], 300)})
    table["town"] = table["town"].astype("category")
    y = np.digitize(table["size"] + (table["town"] == "b"), [-0.5, 0.5, 1.5]) + 1
    return table, y, OrderedBoosting(max_iter=20, random_state=0).fit(table, y)


@pytest.mark.parametrize("case", REFUSED)
def test_a_row_that_is_wrong_is_refused_by_name(case, flats):
    x, message = REFUSED[case]
    stream = flats[2].stream()
    good = stream.latent_one({"size": 1.0, "town": "b"})
    for ask in (stream.predict_one, stream.predict_proba_one, stream.latent_one):
        with pytest.raises((TypeError, ValueError), match=message):
            ask(x)
    assert stream.latent_one({"size": 1.0, "town": "b"}) == good


def test_other_features_may_be_ignored(flats):
    row = {"town": "b", "size": 0.25}
    stream = flats[2].stream(unknown="ignore")
    assert stream.latent_one(row | {"other": "x"}) == stream.latent_one(row)


def test_a_stream_of_boosting_does_not_learn(flats):
    model = flats[2]
    before = pickle.dumps(model)
    pipeline = Pipeline([("learner", model)])
    for stream in (model.stream(), pipeline.stream()):
        for x in ({"size": 1.0, "town": "a"}, "no row at all"):
            with pytest.raises(TypeError, match=r"holds OrderedBoosting, .* use OrderedLogit"):
                stream.learn_one(x, 2)
    assert pickle.dumps(model) == before
    with pytest.raises(NotFittedError):
        OrderedBoosting(classes=[1, 2]).stream()


def test_a_stream_of_boosting_takes_the_parameters_of_predict(flats):
    """Those of `fit` do not matter any more: linear learners go on with theirs."""
    model = flats[2]
    other = copy.deepcopy(model).set_params(class_weight="balanced", classes=[9, 8], max_iter=1)
    row = {"size": 1.0, "town": "a"}
    assert other.stream().predict_proba_one(row) == model.stream().predict_proba_one(row)


def test_a_stream_follows_a_model_that_is_fitted_again(flats):
    table, y, model = flats
    model = copy.deepcopy(model)
    streams = [model.stream(), pickle.loads(pickle.dumps(model.stream()))]  # noqa: S301
    row = table.iloc[0].to_dict()
    before = [stream.predict_proba_one(row) for stream in streams]
    model.fit(table, 5 - y)
    after = [stream.predict_proba_one(row) for stream in streams]
    assert before[0] == before[1] == after[1]
    assert list(after[0].values()) == model.predict_proba(table[:1])[0].tolist()
    assert after[0] != before[0]


# --- Many rows, in threads ---


@pytest.fixture
def processors(monkeypatch):
    """Let there be so many processors for this process."""
    return lambda n: monkeypatch.setattr("pril.core.threads.openmp_threads", lambda: n)


@pytest.fixture
def rated(monkeypatch):
    """How many rows were rated in threads, after each other and beside this one."""
    found, this, rate = [], threading.get_ident(), compiled.scores_of

    def scores_of(X, forest, scores):
        found.append((len(X), threading.get_ident() == this))
        rate(X, forest, scores)

    monkeypatch.setattr(compiled, "scores_of", scores_of)
    return found


def test_threads_share_many_rows_and_change_no_bit(processors, rated, monkeypatch):
    processors(3)
    monkeypatch.setattr(forest_engine, "LEAST_WORK", 1000)
    forest = RandomForest(np.random.default_rng(1), 10, n_landmarks=2)
    model, rows = forest.model(), forest.rows(101)
    table, splits = frame_of(forest, rows), len(forest.model().memory_.forest.feature)
    assert splits > 30
    for n_jobs, expected in ((None, [34, 34, 33]), (2, [51, 50]), (1, [101])):
        rated.clear()
        scores = model.set_params(n_jobs=n_jobs).latent(table)
        assert scores.tolist() == [forest.score(row) for row in rows]
        assert sorted(rated, reverse=True) == [(n, len(expected) == 1) for n in expected]
    rated.clear()
    with joblib.parallel_config(n_jobs=1):
        model.set_params(n_jobs=None).predict_proba(table)
    model.predict(table[: 1000 // splits])  # too few rows
    assert [is_here for _, is_here in rated] == [True, True]


# --- Pipelines and the command ---


def test_a_pipeline_serves_rows_of_a_table(flats):
    table, y, _ = flats
    table = table.astype({"town": object})
    table.loc[::9, "size"] = np.nan
    table.loc[::7, "town"] = None
    learner = OrderedBoosting(categorical_features=[1], max_iter=10, random_state=0)
    steps = [("columns", ColumnEncoder(codes=True)), ("learner", learner)]
    model = Pipeline(steps).fit(table, y)
    table.loc[:4, "town"] = "unseen"
    chances, labels = model.predict_proba(table), model.predict(table)
    stream = model.stream()
    for t, row in enumerate(table.to_dict("records")):
        assert list(stream.predict_proba_one(row).values()) == chances[t].tolist()
        assert stream.predict_one({k: v for k, v in row.items() if v == v}) == labels[t]


def test_a_model_of_the_command_serves_rows(good, bad, feed, tmp_path):
    rows = make_rows()
    write(tmp_path / "t.csv", rows)
    ends = ["--lower=low", "--upper=high"]
    fit = ["--classes=poor,fair,good,great", "--drop=id,grade", "--model=boosting"]
    good("fit", "t.csv", *ends, *fit, "--set=max_iter=30", "--set=learning_rate=1")
    model = pril.load("t.pril")
    labels, stream = model.predict(pd.DataFrame(rows)), model.stream()
    assert [stream.predict_one(row) for row in rows] == labels.tolist()
    feed(json_lines(rows))
    said = [json.loads(line) for line in good("stream", "t.pril", "-q", "--proba").splitlines()]
    assert [row["prediction"] for row in said] == labels.tolist()
    for row, one in zip(rows, said, strict=True):
        assert list(one["probabilities"].values()) == list(stream.predict_proba_one(row).values())
    said = bad("stream", "t.pril", *ends, "-o", "new.pril")  # there is nothing to read
    assert said.startswith("t.pril holds OrderedBoosting, which learns all rows at once, in fit: ")


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_the_command_reads_the_categories_of_a_saved_model_as_words(good, feed, tmp_path, suffix):
    """Some are written like numbers."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"zone": rng.choice(["1", "2", "03"], 200), "size": rng.normal(size=200)})
    y = np.digitize((table["zone"] == "2") + table["size"] / 4, [0.2, 0.8])
    model = OrderedBoosting(categorical_features=["zone"], max_iter=5, random_state=0)
    model.fit(table.astype({"zone": "category"}), y)
    pril.save(model, tmp_path / "m.pril")
    table.loc[0, "zone"] = "unseen"
    expected = model.predict(table).tolist()
    assert model.predict(table.assign(zone=None)).tolist() != expected
    file = write(tmp_path / f"t.{suffix}", table.to_dict("records"))
    good("predict", "m.pril", file, "-o", "out.jsonl")
    said = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [row["prediction"] for row in said] == expected
    feed(write(tmp_path / "t.jsonl", table.to_dict("records")).read_bytes())
    lines = good("stream", "m.pril", "-q").splitlines()
    assert [json.loads(line)["prediction"] for line in lines] == expected
