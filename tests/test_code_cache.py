"""Compiled code that processes share."""

import ast
import importlib
import logging
import os
import pickle
import re
import subprocess
import sys
import time
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from numba.core import config

import pril
from pril.cli.printing import Printer
from pril.online import code_cache
from pril.online.compile_time import compile_time

# Two types of one name, whose fields are in another order.
MODULES = {
    "steps.py": "from pril.online.code_cache import cached\n"
    "half = cached()(lambda x: x / 2 if x > 2 else x)\n"
    "double = cached()(lambda x: x * 2)\n"
    "adding = lambda one: cached()(lambda x: x + one)\n"
    "second = cached()(lambda values: values[1])\n"
    "x_of = cached()(lambda point: point.x)\n",
    "here.py": "from typing import NamedTuple\nclass Point(NamedTuple):\n    x: int\n    y: int\n",
    "there.py": "from typing import NamedTuple\nclass Point(NamedTuple):\n    y: int\n    x: int\n",
}

# The process says when it is about to give a file of compiled code its name, and waits.
PROGRAM = """
import os, sys
def wait(event, arguments):
    if event == "os.rename" and str(arguments[1]).startswith(os.environ["NUMBA_CACHE_DIR"]):
        print("waiting", flush=True)
        sys.stdin.readline()
sys.addaudithook(wait)
import steps
print(repr(steps.half({value})), sum(steps.half.stats.cache_hits.values()))
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder for compiled code, and a module of functions that keep theirs in it."""
    for name, source in MODULES.items():
        (tmp_path / name).write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "steps.py" / "not a folder"))
    code_cache.say_once.cache_clear()
    before = os.umask(0o022)
    yield tmp_path / "cache" / "pril"
    os.umask(before)
    for name in MODULES:
        sys.modules.pop(Path(name).stem, None)


def fresh():
    """Import the functions as another process would: nothing is compiled yet."""
    sys.modules.pop("steps", None)
    return importlib.import_module("steps")


def hits(function):
    return sum(function.stats.cache_hits.values())


def process(folder, value, **variables):
    environment = os.environ | {
        "NUMBA_CACHE_DIR": str(folder.parent),
        "PYTHONPATH": os.pathsep.join([str(folder.parent.parent), *sys.path]),
        **variables,
    }
    command = [sys.executable, "-c", PROGRAM.format(value=value)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True)


def answer(one):
    """Let a process go on to its end; return what it says last."""
    said, _ = one.communicate()
    assert one.returncode == 0
    return said.splitlines()[-1]


@pytest.mark.parametrize("named", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_processes_that_compile_at_once_cannot_take_each_others_code(folder, named):
    """One is killed after it has named so many files, when the other has named all of its own."""
    one, other = process(folder, 3), process(folder, 3.5)
    for each in (one, other):
        assert each.stdout.readline() == "waiting\n"  # it has compiled, and found no file
    assert answer(one) == "1.5 0"
    for _ in range(named):
        other.stdin.write("\n")
        other.stdin.flush()
        other.stdout.readline()
    other.kill()
    other.communicate()
    assert answer(process(folder, 3.5)) == f"1.75 {named}"


@pytest.mark.slow
def test_another_processor_compiles_for_itself(folder):
    assert answer(process(folder, 3, NUMBA_CPU_NAME="generic")) == "1.5 0"
    assert answer(process(folder, 3)) == "1.5 0"
    assert answer(process(folder, 3, NUMBA_CPU_NAME="generic")) == "1.5 1"


def test_damaged_files_are_written_anew(folder):
    assert fresh().half(3) == 1.5
    (path,) = folder.iterdir()
    good = path.read_bytes()
    flipped = bytearray(good)
    flipped[len(good) // 2] ^= 1
    for damaged in (b"", good[:10], good[:32], good[:-1], good + b"0", bytes(flipped)):
        path.write_bytes(damaged)
        half = fresh().half
        assert half(3) == 1.5
        assert hits(half) == 0
        half = fresh().half
        assert half(3) == 1.5
        assert hits(half) == 1
        assert list(folder.iterdir()) == [path]


class Evil:
    """Leaves a file where it is unpickled."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return Path.touch, (self.mark,)


def sealed(written):
    return sha256(written).digest() + written


posix = pytest.mark.skipif(os.name != "posix", reason="Windows has neither owners nor modes")
root = pytest.mark.skipif(
    getattr(os, "geteuid", int)() != 0, reason="only root can give files away"
)


def give_away(path):
    os.chown(path, 12345, -1)


def make_a_link(path):
    other = path.with_name("elsewhere")
    path.rename(other)
    path.symlink_to(other)


@posix
@pytest.mark.parametrize("of_folder", [True, False])
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda path: path.chmod(0o777), "others can write to it"),
        (lambda path: path.chmod(0o775), "others can write to it"),
        pytest.param(give_away, "it belongs to another user, 12345", marks=root),
        (make_a_link, "(it is a link|symbolic links)"),
    ],
)
def test_code_that_others_may_have_written_is_not_run(
    folder, tmp_path, caplog, of_folder, change, reason
):
    assert fresh().half(3) == 1.5
    (path,) = folder.iterdir()
    path.write_bytes(sealed(pickle.dumps(Evil(tmp_path / "mark"))))
    untrusted = folder if of_folder else path
    change(untrusted)
    with caplog.at_level(logging.INFO, "pril.online.code_cache"):
        for number in (3, 3.5):  # two files are looked for
            assert fresh().half(number) == number / 2
    assert not (tmp_path / "mark").exists()
    said = [record.getMessage() for record in caplog.records]
    if of_folder:
        assert len(said) == 1  # not for every file
        assert len([*folder.iterdir()]) == 1  # nothing was added there
        beside = [*(tmp_path / "__pycache__").glob("*.compiled")]
        assert len(beside) == 2
    assert untrusted.name in said[0]
    assert re.search(reason, said[0])


@posix
def test_folders_and_files_are_ours_alone_whatever_the_umask(folder):
    os.umask(0)
    assert fresh().half(3) == 1.5
    half = fresh().half
    assert half(3) == 1.5
    assert hits(half) == 1


@pytest.mark.parametrize(
    "written",
    [b"", b"no pickle", pickle.dumps(3), pickle.dumps((1, 2, 3)), pickle.dumps((1, 2)), b"cx\ny\n.",
     pickle.dumps([1, 2])[:-1]],
)  # fmt: skip
def test_sealed_files_that_are_no_pair_of_pickles_are_written_anew(folder, written):
    assert fresh().half(3) == 1.5
    (path,) = folder.iterdir()
    path.write_bytes(sealed(written))
    for number_of_hits in (0, 1):
        half = fresh().half
        assert half(3) == 1.5
        assert hits(half) == number_of_hits


def test_code_of_another_source_that_nobody_uses_is_removed(folder):
    """That of another version, which shares the folder and is used, stays."""
    half = fresh().half
    assert half(3) == 1.5
    (own,) = folder.iterdir()
    digest = own.name.split("-")[1]
    before = time.time() - 2 * 86400
    gone = [
        own.with_name(own.name.replace(digest, "0" * len(digest))),
        own.with_name("steps.removed-0123456789abcdef0123456789abcdef.compiled"),  # a name of old
        own.with_name(f"{own.name}.0123"),  # a process was killed before it had written it
    ]
    module = own.with_name("steps.cpython-311.pyc")
    used = own.with_name(gone[0].name.replace("lambda", "used"))
    for path in (*gone, module, used):
        path.touch()
    for path in (*gone, module, own):
        os.utime(path, (before, before))
    assert fresh().double(3) == 6
    assert [path for path in gone if path.exists()] == []
    assert {own, module, used} < {*folder.iterdir()}
    assert fresh().half(3) == 1.5
    assert own.stat().st_mtime > before + 86400  # it is in use


def test_types_of_one_name_have_their_own_code(folder):
    here, there = (importlib.import_module(name).Point(1, 2) for name in ("here", "there"))
    for _ in range(2):
        assert fresh().x_of(here) == 1
        assert fresh().x_of(there) == 2


def test_functions_of_one_name_have_their_own_code(folder):
    for _ in range(2):
        steps = fresh()
        assert [steps.half(3), steps.double(3)] == [1.5, 6]


def test_a_function_made_of_values_is_not_kept(folder):
    steps = fresh()
    assert [steps.adding(one)(3) for one in (1, 2)] == [4, 5]
    assert not folder.exists()


def test_a_type_that_has_moved_is_compiled_for_again(folder):
    assert fresh().x_of(importlib.import_module("here").Point(1, 2)) == 1
    del sys.modules["here"]
    (folder.parent.parent / "here.py").write_text("")
    assert fresh().x_of(importlib.import_module("there").Point(1, 2)) == 2


def test_checks_that_are_asked_for_are_made(folder, monkeypatch):
    values = np.array([1.0, 2.0])
    assert fresh().second(values) == 2.0
    monkeypatch.setattr(config, "BOUNDSCHECK", 1)
    with pytest.raises(IndexError):
        fresh().second(values[:1])


def test_the_first_folder_that_can_be_written_is_used(folder, monkeypatch):
    (folder.parent.parent / "file").write_text("")
    monkeypatch.setattr(config, "CACHE_DIR", str(folder.parent.parent / "file"))
    assert fresh().half(3) == 1.5
    beside = folder.parent.parent / "__pycache__"
    (path,) = beside.glob("*.compiled")
    half = fresh().half
    assert half(3) == 1.5
    assert hits(half) == 1
    # Code that came with an image is used, whoever may write there.
    monkeypatch.setattr(config, "CACHE_DIR", str(folder.parent))
    half = fresh().half
    assert half(3) == 1.5
    assert hits(half) == 1
    path.unlink()


def test_without_a_folder_every_process_compiles(folder, monkeypatch):
    """The disk is full, or no folder can be written."""
    home = folder.parent.parent
    (home / "file").write_text("")
    (home / "__pycache__").write_text("")
    monkeypatch.setattr(config, "CACHE_DIR", str(home / "file"))
    before = sorted(home.iterdir())
    half = fresh().half
    assert half(3) == 1.5
    assert sorted(home.iterdir()) == before


def test_a_full_disk_leaves_nothing(folder, full_disk):
    steps = fresh()
    with full_disk(1000):
        assert steps.half(3) == 1.5
    home = folder.parent.parent
    found = [path for path in home.rglob("steps.*") if path.suffix != ".pyc"]
    assert found == [home / "steps.py"]


def test_that_it_compiles_is_told_once(folder, monkeypatch, caplog):
    monkeypatch.setattr("pril.online.compile_time.TOLD_AFTER", 0.0)
    monkeypatch.setattr(compile_time, "was_told", False)
    before, steps = compile_time.seconds, fresh()
    assert [steps.half(3), steps.double(3)] == [1.5, 6]
    assert caplog.messages == ["compiling, once: the code is kept on disk"]
    assert caplog.records[0].levelno == logging.WARNING  # which notebooks show
    assert compile_time.seconds > before


def test_rows_a_second_do_not_count_the_time_of_compiling(monkeypatch, capfd):
    monkeypatch.setattr("pril.cli.printing.PROGRESS_SECONDS", 0.0)
    with Printer().progress() as update:
        monkeypatch.setattr(compile_time, "seconds", compile_time.seconds + 3600.0)
        update("learning", 10, None)
        assert capfd.readouterr().err == ""  # less than no time has passed
        monkeypatch.undo()
        monkeypatch.setattr("pril.cli.printing.PROGRESS_SECONDS", 0.0)
        update("learning", 10, None)
    assert capfd.readouterr().err.endswith(" rows/s\n")


def imports(path):
    """Yield the modules, and names in them, that a file imports."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_a_change_of_any_compiled_module_is_noticed():
    """All that can be part of compiled code is in modules whose source is in the names of files."""
    source = Path(pril.__file__).parent
    listed = {f"pril.{name}" for name in code_cache.MODULES}
    modules = {}
    for path in source.rglob("*.py"):
        name = ".".join(("pril", *path.relative_to(source).with_suffix("").parts))
        modules[name.removesuffix(".__init__")] = set(imports(path))
    for name, imported in modules.items():
        if {"numba", "llvmlite", "pril.online.code_cache"} & imported:
            assert name in listed, name
        if name in listed:
            assert imported & modules.keys() - {"pril.core", "pril.online"} <= listed, name
