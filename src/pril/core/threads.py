"""Threads: one learns at a time, a call that fails changes nothing, and how many there may be."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, wraps
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from joblib import effective_n_jobs
from joblib.parallel import get_active_backend
from threadpoolctl import ThreadpoolController

from pril.core.scikit import openmp_threads

Function = TypeVar("Function", bound=Callable[..., Any])

# --- One thread learns ---


class Aside:
    """What belongs to one estimator, not to its copies or files."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # held by the thread that learns
        self.valid: list[Any] | None = None  # hyper-parameters that were validated last
        # The parameter `classes`, its values, and the model's classes: compared last.
        self.agreed: tuple[Any, Any, Any] = (None, None, None)
        self.importances: tuple[Any, Any] = (None, None)  # of a memory


_asides: WeakKeyDictionary[Any, Aside] = WeakKeyDictionary()


def aside(estimator: Any) -> Aside:
    """Return what is kept beside an estimator."""
    found = _asides.get(estimator)
    return _asides.setdefault(estimator, Aside()) if found is None else found


def _unlock_all() -> None:
    for one in _asides.values():
        one.lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    # In a forked process, the threads that hold the locks do not exist.
    os.register_at_fork(after_in_child=_unlock_all)


@contextmanager
def unchanged_on_failure(estimator: Any) -> Iterator[dict[str, Any]]:
    """Let one thread at a time learn, and undo what a call that fails has changed."""
    with aside(estimator).lock:
        before = vars(estimator).copy()
        try:
            yield before
        except BaseException:
            estimator.__dict__ = before
            raise


# --- How many there may be ---


def n_threads(n_jobs: int | None) -> int:
    """Return the number of threads that `n_jobs` asks for.

    None asks for all processors, as OpenMP counts them, unless a `joblib.parallel_config` has a
    number. Inside a worker of joblib, None asks for its share: joblib tells its processes by
    OMP_NUM_THREADS; its threads, which it does not tell, have one each.
    """
    backend, configured = get_active_backend()
    if n_jobs is not None or configured is not None:
        return int(effective_n_jobs(n_jobs))
    if backend.nesting_level > 0 and "OMP_NUM_THREADS" not in os.environ:
        return 1
    return openmp_threads()


# --- BLAS ----------------------------------------------------------------------------------------


class OneBlasThread:
    """While any thread is inside, BLAS computes with one thread: more of them add up differently.

    The number of BLAS threads belongs to the process: the last one to leave sets it back.
    """

    def __init__(self) -> None:
        self._lock, self._n_inside = threading.Lock(), 0
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._n_inside == 0:
                self._limit = _libraries().limit(limits=1, user_api="blas")
            self._n_inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._n_inside -= 1
            if self._n_inside == 0:
                self._limit.restore_original_limits()


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()  # looks for them, in 5 ms


ONE_BLAS_THREAD = OneBlasThread()


def with_one_blas_thread(function: Function) -> Function:
    """Let a function compute the same bits, however many threads BLAS may use."""

    @wraps(function)
    def limited(*arguments: Any, **named: Any) -> Any:
        with ONE_BLAS_THREAD:
            return function(*arguments, **named)

    return limited  # type: ignore[return-value]
