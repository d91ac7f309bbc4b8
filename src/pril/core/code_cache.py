"""Compiled code on disk, safe for any number of processes that share a folder.

numba's own cache numbers its files. Two processes that compile at once may take the same number,
and a third then runs the wrong code. Here a file is named by what it holds: the function, the
source of all compiled modules, the types of the arguments, the processor, the versions of numba,
LLVM and Python. The file is written under another name and then renamed, so nobody reads half of
it, and whoever writes last has written the same.

Files are read from any of these folders and written to the first that allows it: the one that
NUMBA_CACHE_DIR names, `__pycache__` beside the module, the user's own cache of numba. If none
does, every process compiles.
"""

from __future__ import annotations

import hashlib
import logging
import os
import pickle
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numba.core.config
from numba.core.caching import CompileResultCacheImpl, NullCache
from numba.core.registry import CPUDispatcher
from numba.core.serialize import dumps
from numba.misc.appdirs import AppDirs

log = logging.getLogger(__name__)

# Modules with compiled code, and this one. Of the package, they import each other only; a change of
# one makes all code anew.
PACKAGE = "pril"
MODULES = (
    "core.code_cache",
    "core.compiling",
    "core.logistic",
    "core.loop",
    "learners.boosting.compiled",
    "learners.boosting.shapley",
)

# Settings of numba, from the environment, by which it makes other code from the same source.
SETTINGS = ("OPT", "BOUNDSCHECK", "LOOP_VECTORIZE", "SLP_VECTORIZE", "DEBUGINFO_DEFAULT")

config: Any = numba.core.config
serialized: Any = dumps


def cached(**options: Any) -> Callable[[Any], Any]:
    """Return a decorator that compiles a function, as `numba.njit`, and keeps its code on disk."""

    def decorate(function: Any) -> Any:
        if config.DISABLE_JIT:
            return function
        # The first two are what `njit` sets.
        given = {"nopython": True, "boundscheck": None, **options}
        dispatcher = _Cached(function, targetoptions=given)
        dispatcher.enable_caching()
        return dispatcher

    return decorate


@cache
def source_for(module: str) -> str:
    """Return a digest of the source of all compiled modules as a module is imported.

    Empty if there is no source. It is taken only then: if a file changes later, old code must not
    be kept under the name of the new source.
    """
    folder, digest = Path(__file__).parents[1], hashlib.sha256()
    try:
        for name in MODULES:
            source = folder.joinpath(*name.split(".")).with_suffix(".py").read_bytes()
            digest.update(hashlib.sha256(source).digest())
    except OSError:
        return ""
    return digest.hexdigest()


source_for(__name__)


class _Cached(CPUDispatcher):
    """A function that is compiled for the types it is called with."""

    def enable_caching(self) -> None:
        """Keep its code in our files; that of a closure depends on values, and is not kept."""
        if source_for(self.py_func.__module__) and self.py_func.__closure__ is None:
            self._cache = _Files(self.py_func)


class _Results(CompileResultCacheImpl):
    """How numba takes compiled code apart for pickle, and puts it together again."""

    def __init__(self) -> None:
        """Look for no folder, unlike numba."""


results: Any = _Results()


class _Files(NullCache):
    """The files of one function: one for each signature and kind of processor."""

    def __init__(self, function: Any) -> None:
        self._function = f"{function.__module__}.{function.__name__.strip('<>')}"
        self._code = function.__code__.co_firstlineno, function.__code__.co_code
        self._source = source_for(__name__), source_for(function.__module__)
        self._module_folder = Path(function.__code__.co_filename).parent

    @property
    def cache_path(self) -> str:
        """The folder that is tried first."""
        return str(next(self._folders()))

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the code for a signature, None if no file has it."""
        target_context.refresh()
        key = self._key(sig, target_context.codegen())
        for folder in self._folders():
            code = _read(folder / self._name(key), key)
            if code is not None:
                return results.rebuild(target_context, code)
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the code for a signature, unless it holds addresses of this process."""
        if data.library.has_dynamic_globals:
            return
        key = self._key(sig, data.codegen)
        written = serialized((key, results.reduce(data)))
        for folder in self._folders():
            try:
                _write(folder / self._name(key), written)
            except OSError as error:
                log.debug("%s: %s", folder, error)
            else:
                return

    def _folders(self) -> Iterator[Path]:
        if config.CACHE_DIR:
            yield Path(config.CACHE_DIR, PACKAGE)
        yield self._module_folder / "__pycache__"
        user: Any = AppDirs
        yield Path(user(appname="numba", appauthor=False).user_cache_dir, PACKAGE)

    def _key(self, sig: Any, codegen: Any) -> tuple[Any, ...]:
        versions = numba.__version__, llvmlite.__version__, sys.version
        settings = [(name, str(getattr(config, name, None))) for name in SETTINGS]
        machine = codegen.magic_tuple()
        return self._function, self._code, self._source, sig, machine, versions, settings

    def _name(self, key: tuple[Any, ...]) -> str:
        # Two types may have one name: `_read` compares the whole key.
        return f"{self._function}-{hashlib.sha256(repr(key).encode()).hexdigest()[:32]}.compiled"


def _read(path: Path, key: tuple[Any, ...]) -> Any:
    """Return what was written for a key; None if the file is missing, damaged or of another key."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    written = content[hashlib.sha256().digest_size :]
    if content != _with_checksum(written):
        return None
    try:
        found, code = pickle.loads(written)  # noqa: S301
    except (AttributeError, ImportError):  # the type of an argument has moved to another module
        return None
    return code if found == key else None


def _write(path: Path, written: bytes) -> None:
    """Write a file as a whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(f".{uuid.uuid4().hex}")
    try:
        unfinished.write_bytes(_with_checksum(written))
        os.replace(unfinished, path)
    except BaseException:
        with suppress(OSError):
            unfinished.unlink()
        raise


def _with_checksum(written: bytes) -> bytes:
    return hashlib.sha256(written).digest() + written
