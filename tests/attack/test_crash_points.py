"""Kill a command at every change of a file: the same command, run again, ends in the same bits."""

import multiprocessing
import os
import shutil
import signal
import sys

import numpy as np
import pytest

from pril.cli.main import main
from pril.evaluate import progressive
from pril.tables import files, stream
from pril.tables.model import LoadedModel
from tables import GRADES, make_rows, snapshot, write, write_jsonl

pytestmark = [
    pytest.mark.attack,
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]
LABELS = ["--lower", "low", "--upper", "high"]
FIT = ["fit", "t.csv", *LABELS, "--classes", ",".join(GRADES), "--drop", "id,grade", "-q"]
KEEP = ["--checkpoint", "state", "--checkpoint-every", "150"]
COMMANDS = {
    "fit": [*FIT, *KEEP, "--model", "pril", "--epochs", "1", "-o", "out.pril"],
    "fit to the maximum": [*FIT, *KEEP, "--set", "coarsening=random", "-o", "out.pril"],
    "stream": ["stream", "m.pril", *KEEP, "-q", "-o", "out.pril"],
    "stream in place": ["stream", "m.pril", *KEEP, "-q", "-o", "m.pril"],
    "predict": ["predict", "m.pril", "t.csv", "-q", "-o", "out.csv"],
}


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def run(folder, arguments, crash_at):
    """Run a command, in a process of its own, that dies at the n-th change of a file."""
    os.chdir(folder)
    sys.stdin = open("rows.jsonl", "rb", buffering=0)  # noqa: SIM115
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    files.BLOCK_ROWS, stream.CHUNK_BYTES = 37, 4096
    n_changes = 0

    def count():
        nonlocal n_changes
        n_changes += 1
        return n_changes == crash_at

    def watch(event, values):
        if event == "open":
            changes = values[2] & (os.O_WRONLY | os.O_RDWR) and os.devnull not in str(values[0])
        else:
            changes = event in ("os.rename", "os.remove")
        if changes and count():
            die()

    def fsync(descriptor, really=os.fsync):
        if count():  # only a part of the file has reached the disk
            if os.path.isfile(f"/proc/self/fd/{descriptor}"):
                os.truncate(descriptor, os.fstat(descriptor).st_size // 2)
            die()
        if count():
            die()
        really(descriptor)

    sys.addaudithook(watch)
    os.fsync = fsync
    main(arguments)


def attempt(folder, arguments, crash_at=0):
    process = multiprocessing.get_context("fork").Process(
        target=run, args=(folder, arguments, crash_at)
    )
    process.start()
    process.join()
    return process.exitcode


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    """Return a folder with a table, rows and a model; compile here what the processes need."""
    folder = tmp_path_factory.mktemp("fresh")
    write(folder / "t.csv", make_rows())
    write_jsonl(folder / "rows.jsonl", make_rows(200, seed=1))
    model = str(folder / "m.pril")
    with pytest.raises(SystemExit, match="0"):
        main(["fit", str(folder / "t.csv"), *FIT[2:], "-o", model])
    learner = LoadedModel(model).learner
    progressive(learner, np.zeros((1, learner.n_features_in_)), [GRADES[0]])
    return folder


@pytest.mark.parametrize("name", COMMANDS)
def test_the_same_command_again_is_right_at_every_crash_point(fresh, tmp_path, name):
    whole = shutil.copytree(fresh, tmp_path / "whole")
    assert attempt(whole, COMMANDS[name]) == 0
    expected = {path.relative_to(whole): data for path, data in snapshot(whole).items()}
    # A process that is killed after its last change of a file has done all of its work.
    assert attempt(whole, COMMANDS[name]) == 0
    assert {path.relative_to(whole): data for path, data in snapshot(whole).items()} == expected
    assert {path.name for path in expected} >= {"m.pril", COMMANDS[name][-1]}
    n_crashes = 0
    while True:
        folder = shutil.copytree(fresh, tmp_path / "again")
        ended = attempt(folder, COMMANDS[name], n_crashes + 1)
        if ended == 0:
            break
        assert ended == -signal.SIGKILL
        n_crashes += 1
        assert attempt(folder, COMMANDS[name]) == 0, n_crashes
        found = {path.relative_to(folder): data for path, data in snapshot(folder).items()}
        assert found == expected, n_crashes
        shutil.rmtree(folder)
    print("CRASHES", name, n_crashes)
    assert n_crashes >= (6 if name == "predict" else 15)
