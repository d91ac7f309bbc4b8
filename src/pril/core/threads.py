"""How many threads a learner may use."""

from __future__ import annotations

import os

from joblib import effective_n_jobs
from joblib.parallel import get_active_backend

from pril.core.scikit import openmp_threads


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
