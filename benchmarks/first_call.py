"""How long do the first `fit`, `predict` and `stream()` take in a fresh environment?

CPU seconds without imports, each in a process and with a copy of the package of its own.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pril

CALLS = {  # what is done before, and what is measured
    "fit": ("", "model.fit(X, y)"),
    "predict": ("model.fit(X, y)", "model.predict(X)"),
    "stream()": (
        "",
        "stream = model.stream(); stream.learn_one(X[0], 1); stream.predict_one(X[0])",
    ),
}
PROGRAM = """
import time
import numpy as np
import pril.online.loop
import pril.learners.boosting.compiled
from pril import {name}
X, y = np.random.default_rng(0).normal(size=(100, 5)), np.arange(100) % 3
model = {name}(classes=[0, 1, 2])
{before}
start = time.process_time()
{call}
print(time.process_time() - start)
"""


def seconds(name, before, call):
    """Return the CPU seconds of a call in a fresh environment."""
    with tempfile.TemporaryDirectory() as folder:
        ignored = shutil.ignore_patterns("__pycache__")  # where compiled code is kept
        shutil.copytree(Path(pril.__file__).parent, Path(folder, "pril"), ignore=ignored)
        program = PROGRAM.format(name=name, before=before, call=call)
        environment = os.environ | {"PYTHONPATH": folder, "NUMBA_CACHE_DIR": folder}
        command = [sys.executable, "-c", program]
        return float(subprocess.check_output(command, env=environment))  # noqa: S603


if __name__ == "__main__":
    for name in ("PRIL", "OrderedLogit", "OrderedBoosting"):
        for title, calls in CALLS.items():
            if title != "stream()" or name != "OrderedBoosting":  # its stream only predicts
                print(f"{name}, first {title}: {seconds(name, *calls):.2f} s")
