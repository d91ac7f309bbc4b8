"""How OrderedBoosting rates rows: one, a few, or many in threads, always to the same bit."""

import joblib
import pytest

from pril.learners.boosting.threads import n_threads


@pytest.fixture
def processors(monkeypatch):
    """Let there be so many processors for this process."""
    return lambda n: monkeypatch.setattr("pril.learners.boosting.threads.cpu_count", lambda: n)


def test_how_many_threads_are_used(processors):
    processors(6)
    assert [n_threads(n) for n in (None, 1, 4, -1, -2, -9)] == [6, 1, 4, 6, 5, 1]
    with joblib.parallel_config(n_jobs=3):
        assert [n_threads(n) for n in (None, 1, -1)] == [3, 1, 6]
    with joblib.parallel_config(n_jobs=1):
        assert n_threads(None) == 1
    with joblib.parallel_config(n_jobs=-1):
        assert n_threads(None) == 6
    with pytest.raises(ValueError, match="n_jobs=0 has no meaning"):
        n_threads(0)


def test_tasks_of_joblib_share_the_processors(processors):
    processors(6)
    with joblib.Parallel(n_jobs=2, backend="threading") as parallel:
        assert parallel(joblib.delayed(n_threads)(n) for n in (None, 4)) == [1, 4]
