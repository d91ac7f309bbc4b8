"""Threads and memory: one thread learns at a time, and how much of both there may be.

A call that fails changes nothing.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache, wraps
from pathlib import Path, PurePosixPath
from typing import Any, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from joblib import effective_n_jobs
from joblib.parallel import get_active_backend
from sklearn.base import BaseEstimator
from threadpoolctl import ThreadpoolController

from pril.core.scikit import openmp_threads

P = ParamSpec("P")
T = TypeVar("T")

# --- One thread learns ---


class PrivateState:
    """What belongs to one estimator, not to its copies or files."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # held by the thread that learns
        self.valid: list[Any] | None = None  # hyper-parameters that were validated last
        # The parameter `classes`, its values, and the model's classes: compared last.
        self.agreed: tuple[Any, Any, Any] = (None, None, None)
        self.importances: tuple[Any, Any] = (None, None)  # of a memory


_states: WeakKeyDictionary[BaseEstimator, PrivateState] = WeakKeyDictionary()


def private_state(estimator: BaseEstimator) -> PrivateState:
    """Return what is kept beside an estimator."""
    state = _states.get(estimator)
    return _states.setdefault(estimator, PrivateState()) if state is None else state


def _unlock_all() -> None:
    for one in _states.values():
        one.lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    # In a forked process, the threads that hold the locks do not exist.
    os.register_at_fork(after_in_child=_unlock_all)


@contextmanager
def unchanged_on_failure(estimator: BaseEstimator) -> Iterator[dict[str, Any]]:
    """Let one thread at a time learn, and undo what a call that fails has changed."""
    with private_state(estimator).lock:
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
        self._limit = ExitStack()

    def __enter__(self) -> None:
        with self._lock:
            if self._n_inside == 0:
                self._limit.enter_context(_libraries().limit(limits=1, user_api="blas"))
            self._n_inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._n_inside -= 1
            if self._n_inside == 0:
                self._limit.close()


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()  # looks for them, in 5 ms


ONE_BLAS_THREAD = OneBlasThread()


def with_one_blas_thread(function: Callable[P, T]) -> Callable[P, T]:
    """Let a function compute the same bits, however many threads BLAS may use."""

    @wraps(function)
    def limited(*arguments: P.args, **named: P.kwargs) -> T:
        with ONE_BLAS_THREAD:
            return function(*arguments, **named)

    return limited


# --- Memory --------------------------------------------------------------------------------------


def available_memory(root: Path = Path("/")) -> int:
    """Return how many bytes of memory are free, or can be made free; else all there are.

    A container may have less than the machine: the least of what its control groups leave counts.
    """
    machine = 1 << 62
    with suppress(AttributeError, OSError, ValueError):  # not on Windows
        machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(OSError, StopIteration, ValueError):
        lines = (root / "proc/meminfo").read_text().splitlines()
        line = next(line for line in lines if line.startswith("MemAvailable:"))
        machine = int(line.split()[1]) * 1024
    return max(0, min([machine, *_left_by_groups(root)]))


# Names of a control group's limit, of its use, and, in memory.stat, of files that can be dropped.
GROUPS_V2 = ("memory.max", "memory.current", "inactive_file")
GROUPS_V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def _left_by_groups(root: Path) -> Iterator[int]:
    """Return what each control group of Linux leaves to this process, where it has a limit."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if "memory" not in controllers.split(",") and controllers:
            continue
        names, start = (GROUPS_V1, "memory") if controllers else (GROUPS_V2, "")
        top = root / "sys/fs/cgroup" / start
        group_path = PurePosixPath(path.lstrip("/"))
        for group in (group_path, *group_path.parents):
            with suppress(OSError, ValueError):  # no limit, or none that this process can see
                yield _left_by(top / group, *names)


def _left_by(group: Path, limit: str, use: str, files: str) -> int:
    """Return what one control group leaves. Raises ValueError if it has no limit."""
    left = int((group / limit).read_text()) - int((group / use).read_text())
    pairs = (line.split() for line in (group / "memory.stat").read_text().splitlines())
    return left + next((int(number) for name, number in pairs if name == files), 0)
