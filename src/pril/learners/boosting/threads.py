"""How many threads boosting uses."""

from __future__ import annotations

from joblib import cpu_count
from joblib.parallel import get_active_backend

from pril.errors import InputError


def n_threads(n_jobs: int | None) -> int:
    """Return the number of threads that `n_jobs` stands for, at least one.

    None is what a :class:`joblib.parallel_config` says. Without one it is one thread inside a task
    of joblib, whose other tasks use the other processors, and else a thread for each processor that
    this process may use: the limits of a container count. -1 is all of these processors, -2 all but
    one, and so on.
    """
    if n_jobs is None:
        backend, n_jobs = get_active_backend()
        if n_jobs is None:
            n_jobs = 1 if getattr(backend, "nesting_level", 0) else -1
    if n_jobs == 0:
        raise InputError("n_jobs=0 has no meaning: use 1 for one thread, or -1 for all processors")
    return int(n_jobs) if n_jobs > 0 else max(1, cpu_count() + 1 + int(n_jobs))
