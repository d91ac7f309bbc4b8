import gc
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path

import forked

# Compiled code is kept between runs, for all processes of the tests.
os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(__file__).parent.parent / "output/numba"))
os.environ.setdefault("MPLBACKEND", "agg")
# There is a worker for every core.
os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
# Dask's workers are forked from one process that has imported what they need.
os.environ["DASK_DISTRIBUTED__WORKER__MULTIPROCESSING_METHOD"] = "forkserver"

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from pril.online.compile_time import compile_time
from tables import snapshot

# The first example of a test may compile. The same examples are tried in every run.
settings.register_profile(
    "pril",
    deadline=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=True,
)
# Without the compiler every row costs a millisecond.
settings.register_profile("interpreted", settings.get_profile("pril"), max_examples=15)
settings.load_profile("interpreted" if os.environ.get("NUMBA_DISABLE_JIT") == "1" else "pril")


def pytest_collection_modifyitems(items):
    """Shuffle the tests by the seed in PRIL_ORDER: none may depend on another."""
    if seed := os.environ.get("PRIL_ORDER"):
        random.Random(seed).shuffle(items)  # noqa: S311


def pytest_collection_finish():
    """Keep what was imported out of every search for garbage."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def command_of():
    """Build the command from its options once: that takes longer than most errors."""
    from typer.main import get_command

    return cache(get_command)


@pytest.fixture
def call(capfdbinary, tmp_path, monkeypatch, command_of):
    """Run the command in an empty folder; return exit code, output and errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("typer.main.get_command", command_of)
    monkeypatch.setattr("pril.cli.printing.FIRST_SECONDS", 1e6)  # however slow we are
    monkeypatch.setattr("pril.cli.printing.PROGRESS_SECONDS", float("inf"))
    monkeypatch.setattr(compile_time, "was_told", True)

    def run(*arguments):
        from pril.cli.main import main

        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        out, err = capfdbinary.readouterr()
        return ended.value.code, out.decode(), err.decode()

    return run


@pytest.fixture
def good(call):
    """Run the command, which must succeed; return its output."""

    def run(*arguments):
        code, out, err = call(*arguments)
        assert code == 0, err
        assert err == ""
        return out

    return run


@pytest.fixture
def bad(call, tmp_path):
    """Run the command, which must fail with one line and change no file; return the line."""

    def run(*arguments):
        before = snapshot(tmp_path)
        code, out, err = call(*arguments)
        assert code == 2, out + err
        assert out == ""
        assert err.startswith("pril: ")
        assert err.count("\n") == 1
        assert snapshot(tmp_path) == before
        return err[len("pril: ") : -1]

    return run


@pytest.fixture
def feed(tmp_path_factory, monkeypatch):
    """Let the next command read some bytes from standard input."""
    with ExitStack() as files:

        def give(data):
            path = tmp_path_factory.mktemp("stdin") / "input"
            path.write_bytes(data)
            monkeypatch.setattr(sys, "stdin", files.enter_context(path.open()))

        yield give


@pytest.fixture
def full_disk():
    """Return a context in which no file may grow beyond some bytes."""
    resource = pytest.importorskip("resource")

    @contextmanager
    def limited(size):
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    return limited


@pytest.fixture(scope="session")
def program():
    """The command as a program, to be followed by arguments."""
    if not hasattr(os, "fork"):
        yield [sys.executable, "-c", "from pril.cli.main import main; main()"]
        return
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path := f"{folder}/socket")
        listening.listen()
        number = listening.fileno()
        server = [sys.executable, forked.__file__, "serve", str(number)]
        with subprocess.Popen(server, stdin=subprocess.PIPE, pass_fds=[number]):
            yield [sys.executable, "-IS", forked.__file__, path]


@pytest.fixture(scope="session")
def cluster():
    """A Dask cluster for all tests of this process: starting one takes seconds."""
    distributed = pytest.importorskip("distributed")
    imported = ["distributed", "pril.dask", "pril.tables.training"]
    distributed.utils.get_mp_context().set_forkserver_preload(imported)
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    with distributed.LocalCluster(**options) as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    """A client of that cluster, which is not the active one."""
    from distributed import Client

    with Client(cluster, set_as_default=False) as client:
        yield client


@pytest.fixture(scope="module")
def browser():
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no Chromium is installed: apt-get install chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(autouse=True)
def same_draws():
    """Seed what `random_state=None` draws from."""
    np.random.seed(0)


@pytest.fixture(autouse=True)
def no_client_is_left():
    """A test that leaves a Dask client as the default one would change those after it.

    A client also sets Dask's scheduler, and puts the old one back when it is closed. Clients that
    are not closed in reverse order, as after a lost cluster, leave the scheduler of a dead one.
    """
    yield
    if distributed := sys.modules.get("distributed"):
        with pytest.raises(ValueError, match="No clients found"):
            distributed.Client.current()
        sys.modules["dask.config"].config.pop("scheduler", None)
