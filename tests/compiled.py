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

    The folder is named by all that the code depends on.
    """
    sources = b"".join((ROOT / source).read_bytes() for source in SOURCES)
    machine = f"py{platform.python_version()}-numba{version('numba')}-{platform.machine()}"
    name = hashlib.sha256(sources).hexdigest()[:16]
    folders = ROOT / "output/numba" / machine
    if "PYTEST_XDIST_WORKER" not in os.environ and folders.exists():
        for old in folders.iterdir():
            if old.name != name:
                shutil.rmtree(old, ignore_errors=True)
    paths = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        "NUMBA_CACHE_DIR": str(folders / name),
        "NUMBA_CACHE_LOCATOR_CLASSES": "shared_code.Locator",
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)),
    }
