"""Where compiled code is kept between runs of the tests."""

import hashlib
import os
import platform
import shutil
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCES = ("src/pril/core/loop.py", "src/pril/learners/boosting/passes.py")


def environment():
    """Return the variables by which a process and those it starts find compiled code.

    The folder is named by all that the code depends on. Numba before 0.62 numbers the files in it
    without a lock, so every worker has a folder of its own; a newer one lets us share it.
    """
    sources = b"".join((ROOT / source).read_bytes() for source in SOURCES)
    machine = f"py{platform.python_version()}-numba{version('numba')}-{platform.machine()}"
    name = hashlib.sha256(sources).hexdigest()[:16]
    folders, worker = ROOT / "output/numba" / machine, os.environ.get("PYTEST_XDIST_WORKER")
    if worker is None and folders.exists():
        for old in folders.iterdir():
            if old.name != name:
                shutil.rmtree(old, ignore_errors=True)
    if tuple(map(int, version("numba").split(".")[:2])) < (0, 62):
        return {"NUMBA_CACHE_DIR": str(folders / name / (worker or "main"))}
    paths = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        "NUMBA_CACHE_DIR": str(folders / name),
        "NUMBA_CACHE_LOCATOR_CLASSES": "shared_code.Locator",
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)),
    }
