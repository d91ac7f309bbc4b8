"""How many threads a learner may use."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache, wraps
from threading import Lock
from typing import Any, TypeVar

from joblib import effective_n_jobs
from joblib.parallel import get_active_backend
from threadpoolctl import ThreadpoolController

from pril.core.scikit import openmp_threads

Function = TypeVar("Function", bound=Callable[..., Any])


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
        self._lock, self._n_inside = Lock(), 0
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
