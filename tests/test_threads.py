"""Threads that share one stream."""

import os
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from pril import (
    PRIL,
    ColumnEncoder,
    MulticlassPerceptron,
    OrderedBoosting,
    OrderedLogit,
    Pipeline,
)

BOOSTING = OrderedBoosting(max_iter=20, n_jobs=1, random_state=0)


@pytest.fixture
def threads():
    """Run functions at once, with as many switches between them as there can be."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    with ThreadPoolExecutor(4) as pool:
        yield lambda function, arguments: list(pool.map(function, arguments))
    sys.setswitchinterval(before)


def in_threads(stream, rows, threads):
    """Check that threads get the same answers as one alone."""
    for name in ("predict_one", "latent_one", "predict_proba_one"):
        if hasattr(stream, name):
            assert all(same_answers(getattr(stream, name), rows, threads)), name


def same_answers(call, rows, threads):
    alone, begin = [call(row) for row in rows], threading.Barrier(4)

    def ask(start):
        begin.wait()
        at = range(start, len(rows), 4)
        return all(call(rows[t]) == alone[t] for t in at for _ in range(5))

    return threads(ask, range(4))


@pytest.mark.parametrize("model", [OrderedLogit(), MulticlassPerceptron(), BOOSTING], ids=repr)
@pytest.mark.parametrize("kind", [dict, list, np.array])
def test_threads_share_a_stream(model, kind, threads):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 8))
    model = clone(model).set_params(classes=[1, 2, 3])
    names = [f"x{j}" for j in range(8)]
    table = pd.DataFrame(X, columns=names) if kind is dict else X
    model.fit(table, np.digitize(X[:, 0], [-0.5, 0.5]) + 1)
    rows = [dict(zip(names, x, strict=True)) if kind is dict else kind(x) for x in X.tolist()]
    in_threads(model.stream(), rows, threads)


@pytest.mark.parametrize("codes", [False, True])
def test_threads_share_the_stream_of_a_pipeline(codes, threads):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"size": rng.normal(size=200), "town": rng.choice(["a", "b", "c"], 200)})
    learner = clone(BOOSTING).set_params(categorical_features=[1])
    learner = learner if codes else OrderedLogit(random_state=0)
    model = Pipeline([("columns", ColumnEncoder(codes=codes)), ("learner", learner)])
    stream = model.fit(table, np.digitize(table["size"], [-0.5, 0.5])).stream()
    in_threads(stream, table.to_dict("records"), threads)


def test_a_thread_sees_the_model_between_two_rows(threads):
    """While one thread learns, each answer is that of a model after a whole number of rows."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(3000, 30)), rng.integers(1, 4, 3000).tolist()
    probe = rng.normal(size=30)
    streams = [OrderedLogit(classes=[1, 2, 3]).stream() for _ in range(2)]
    for stream in streams:
        stream.learn_one(X[0], y[0])
    alone = streams[0]
    expected = {alone.latent_one(probe)}
    for t in range(1, len(X)):
        alone.learn_one(X[t], y[t])
        expected.add(alone.latent_one(probe))
    stream, ended = streams[1], threading.Event()
    ask = [stream.latent_one, lambda x: stream.model.latent(x[np.newaxis])[0]]

    def run(number):
        if number == 0:
            for t in range(1, len(X)):
                stream.learn_one(X[t], y[t])
            return ended.set()
        found = set()
        while not ended.is_set():
            found.add(float(ask[number % 2](probe)))
        return found

    _, *found = threads(run, range(4))
    assert set().union(*found) <= expected
    assert stream.latent_one(probe) == alone.latent_one(probe)


def test_threads_take_turns_to_learn_a_stream(threads):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(2000, 5)), rng.integers(1, 4, 2000).tolist()
    stream = PRIL(classes=[1, 2, 3]).stream()

    def learn(start):
        for t in range(start, len(X), 4):
            if start == 0 and t % 10 == 0:
                stream.model.partial_fit(X[t : t + 1], y[t : t + 1])
            else:
                stream.learn_one(X[t], y[t])

    threads(learn, range(4))
    assert stream.model.t_ == len(X)


class SlowRow(dict):
    """A row that is read when it may be."""

    def __init__(self, row):
        super().__init__(row)
        self.begun, self.may_end = threading.Event(), threading.Event()

    def get(self, *arguments):
        self.begun.set()
        self.may_end.wait()
        return super().get(*arguments)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_process_forked_while_a_thread_learns_a_row_can_predict():
    stream = PRIL(classes=[1, 2]).stream()
    stream.learn_one({"a": 1.0}, 1)
    row = SlowRow({"a": 2.0})
    thread = threading.Thread(target=stream.learn_one, args=(row, 2))
    thread.start()
    row.begun.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # ends a child that hangs
        stream.learn_one({"a": -1.0}, 1)
        os._exit(stream.model.t_)
    row.may_end.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
    assert stream.model.t_ == 2
