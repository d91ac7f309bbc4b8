"""Where compiled code is kept between runs of the tests."""

import hashlib
import os
import platform
import shutil
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parent.parent


def folder():
    """Return the folder of this worker's compiled code.

    It is named by all that the code depends on. numba numbers the files in it without a lock, so
    every worker has a folder of its own.
    """
    loop = (ROOT / "src/pril/core/loop.py").read_bytes()
    machine = f"{version('numba')} {platform.python_version()} {platform.processor()}"
    name = hashlib.sha256(loop + machine.encode()).hexdigest()[:16]
    folders, worker = ROOT / "output/numba", os.environ.get("PYTEST_XDIST_WORKER")
    if worker is None and folders.exists():
        for old in folders.iterdir():
            if old.name != name:
                shutil.rmtree(old, ignore_errors=True)
    return str(folders / name / (worker or "main"))
