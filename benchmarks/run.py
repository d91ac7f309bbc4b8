"""Run all benchmarks, single-threaded, and print their tables (`make bench`)."""

import os
import platform
from pathlib import Path

for library in ("OPENBLAS", "OMP", "MKL", "NUMBA"):
    os.environ[f"{library}_NUM_THREADS"] = "1"

import warnings

import numba
import numpy as np
import sklearn

import boosting_rows
import dask_quality
import dask_speed
import dense_speed
import drift
import kernel_speed
import labels_speed
import latency
import limits
import many_blocks
import one_row
import quality
import sparse_speed
import table_speed


def processor() -> str:
    """Return the processor's name."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return f"{len(names)} x {names[0]}" if names else platform.processor()


if __name__ == "__main__":
    print(
        f"Machine: {processor()}, {platform.system()}; Python {platform.python_version()}, "
        f"NumPy {np.__version__}, scikit-learn {sklearn.__version__}, numba {numba.__version__}\n"
    )
    for benchmark in (
        dense_speed,
        drift,
        sparse_speed,
        latency,
        one_row,
        boosting_rows,
        labels_speed,
        kernel_speed,
        quality,
        dask_quality,
        dask_speed,
        many_blocks,
        table_speed,
        limits,
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            benchmark.main()
