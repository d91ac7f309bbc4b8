"""Compiled code on disk, safe for any number of processes that share a folder.

numba's own cache numbers its files. Two processes that compile at once may take the same number,
and a third then runs the wrong code. Here a file is named by what it holds: the function, the
source of all compiled modules, the types of the arguments, the processor, the versions of numba,
LLVM and Python. The file is written under another name and then renamed, so nobody reads half of
it, and whoever writes last has written the same.

Files are read from any of these folders and written to the first that allows it: the one that
NUMBA_CACHE_DIR names, `__pycache__` beside the module, the user's own cache of numba. If none
does, every process compiles.

To read a file is to run it. So folders and files are used only if they belong to this user or to
root, and nobody else can write to them; the log says which are not. Windows has no such owners and
modes: nothing is checked there, and the folder must not be one that others can write to.

When code is written, that of another source is removed, unless it was used within a day: another
version of the package may share the folder.

At the end are the ways to compile that numba offers, each with what it buys. A function that is
called from Python is an `entry`, and its code is kept on disk. The others are compiled into it.
Options that are not in numba's guide are here because a benchmark needs them.
"""

from __future__ import annotations

import hashlib
import logging
import os
import pickle
import stat
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import llvmlite
import numba
import numba.core.config
from llvmlite import ir
from numba import njit, types
from numba.core.caching import CompileResultCacheImpl, NullCache
from numba.core.registry import CPUDispatcher
from numba.core.serialize import dumps
from numba.extending import intrinsic, overload
from numba.misc.appdirs import AppDirs

from pril.online.compile_time import compile_time

if TYPE_CHECKING:
    from numba.core.codegen import CPUCodegen
    from numba.core.cpu import CPUContext

log = logging.getLogger(__name__)

# Modules with compiled code or what it is made of, and this one. They import no others of the
# package; if one changes, all code is compiled anew.
PACKAGE = "pril"
MODULES = (
    "core.arrays",
    "core.coarsening",
    "core.loop_types",
    "core.words",
    "learners.boosting.compiled",
    "learners.boosting.shapley",
    "online.coarsening_by_row",
    "online.code_cache",
    "online.compile_time",
    "online.loop",
)

# Settings of numba, from the environment, by which it makes other code from the same source.
SETTINGS = ("OPT", "BOUNDSCHECK", "LOOP_VECTORIZE", "SLP_VECTORIZE", "DEBUGINFO_DEFAULT")

IN_USE = 86400  # seconds: code of another source that was used since then is not removed
SUFFIX = ".compiled"

config: Any = numba.core.config


def cached(**options: object) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator that compiles a function, as `numba.njit`, and keeps its code on disk."""

    def decorate(function: Callable[..., Any]) -> Any:
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

    def compile(self, sig: Any) -> Any:
        """Return the code for a signature, from disk or compiled."""
        with compile_time.counted():
            return super().compile(sig)


# How numba takes compiled code apart for pickle, and puts it together again. It would look for a
# folder in `__init__`.
results: Any = object.__new__(CompileResultCacheImpl)


class _Files(NullCache):
    """The files of one function: one for each signature and kind of processor."""

    def __init__(self, function: Any) -> None:
        self._function = f"{function.__module__}.{function.__name__.strip('<>')}"
        self._code = function.__code__.co_firstlineno, function.__code__.co_code
        self._source = source_for(__name__), source_for(function.__module__)
        self._source_name = _digest(self._source)[:16]
        self._module_folder = Path(function.__code__.co_filename).parent

    def load_overload(self, sig: tuple[types.Type, ...], target_context: CPUContext) -> Any:
        """Return the code for a signature, None if no file has it."""
        if not _is_ours(sig):
            return None
        target_context.refresh()
        key = self._key(sig, target_context.codegen())
        for folder in self._folders():
            code = _read(folder / self._name(key), key)
            if code is not None:
                return results.rebuild(target_context, code)
        return None

    def save_overload(self, sig: tuple[types.Type, ...], data: Any) -> None:
        """Keep the code for a signature, unless it holds addresses of this process."""
        if data.library.has_dynamic_globals or not _is_ours(sig):
            return
        key = self._key(sig, data.codegen)
        written = dumps((key, results.reduce(data)))
        for folder in self._folders():
            try:
                _write(folder / self._name(key), written)
            except OSError as error:
                log.debug("%s: %s", folder, error)
            else:
                _remove_unused(folder, self._source_name)
                return

    def _folders(self) -> Iterator[Path]:
        if config.CACHE_DIR:
            yield Path(config.CACHE_DIR, PACKAGE)
        yield self._module_folder / "__pycache__"
        yield Path(AppDirs(appname="numba", appauthor=False).user_cache_dir, PACKAGE)

    def _key(self, sig: tuple[types.Type, ...], codegen: CPUCodegen) -> tuple[Any, ...]:
        versions = numba.__version__, llvmlite.__version__, sys.version
        settings = [(name, str(getattr(config, name, None))) for name in SETTINGS]
        machine = codegen.magic_tuple()
        return self._function, self._code, self._source, sig, machine, versions, settings

    def _name(self, key: tuple[Any, ...]) -> str:
        # Two types may have one name: `_read` compares the whole key.
        return f"{self._function}-{self._source_name}-{_digest(key)[:32]}{SUFFIX}"


def _is_ours(sig: tuple[types.Type, ...]) -> bool:
    """Tell whether all rules are of this package: of others, no digest knows the source."""
    named = (getattr(kind, "instance_class", None) for kind in sig)
    return all(one is None or one.__module__.startswith(f"{PACKAGE}.") for one in named)


def _digest(value: tuple[Any, ...]) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()


def _read(path: Path, key: tuple[Any, ...]) -> Any:
    """Return what was written for a key; None if the file is missing, damaged or of another key."""
    place = path.parent
    try:
        _check_owner(place.lstat())
        place = path
        # What is checked is what was opened: it cannot be exchanged in between.
        with open(path, "rb", opener=_open_no_link) as file:
            status = os.fstat(file.fileno())
            _check_owner(status)
            content = file.read()
        written = content[hashlib.sha256().digest_size :]
        if content != _with_checksum(written):
            return None
        found, code = pickle.loads(written)  # noqa: S301
    except FileNotFoundError:
        return None
    except Exception as error:  # no pair of pickles, or the type of an argument has moved
        say_once(place, f"{type(error).__name__}: {error}")
        return None
    if found != key:
        return None
    if time.time() - status.st_mtime > IN_USE / 2:
        with suppress(OSError):  # a file of root
            os.utime(path)
    return code


def _open_no_link(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0))


def _check_owner(status: os.stat_result) -> None:
    """Refuse a folder or a file that may hold what others have written."""
    if os.name != "posix":
        return
    if stat.S_ISLNK(status.st_mode):
        raise PermissionError("it is a link")
    if status.st_uid not in (0, os.geteuid()):
        raise PermissionError(f"it belongs to another user, {status.st_uid}")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError("others can write to it")


@cache
def say_once(place: Path, reason: str) -> None:
    """Log why a folder or a file is not used, once."""
    log.info("compiled code in %s is not used: %s", place, reason)


def _write(path: Path, written: bytes) -> None:
    """Write a file as a whole or not at all."""
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    _check_owner(path.parent.lstat())
    unfinished = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
    try:
        with open(unfinished, "xb", opener=partial(os.open, mode=0o644)) as file:
            file.write(_with_checksum(written))
        os.replace(unfinished, path)
    except BaseException:
        with suppress(OSError):
            unfinished.unlink()
        raise


def _remove_unused(folder: Path, source: str) -> None:
    """Remove code of other sources, and unfinished files, that nobody uses."""
    for path in folder.glob(f"*{SUFFIX}*"):
        if path.suffix == SUFFIX and f"-{source}-" in path.name:
            continue
        with suppress(OSError):  # another process has removed it, or has it open
            if time.time() - path.stat().st_mtime > IN_USE:
                path.unlink()


def _with_checksum(written: bytes) -> bytes:
    return hashlib.sha256(written).digest() + written


# --- Ways to compile -----------------------------------------------------------------------------

_njit: Any = njit  # its types do not know `_nrt`

# Without numba's runtime, which counts references to arrays: a row of an `OrderedLogit` stream
# would take half as long again, and so would `evaluate.progressive`. Such a function must not
# allocate, and must not return an array to a function that has the runtime. A division by zero
# gives infinity or NaN, as in NumPy: code that raises takes longer to compile.
BARE: Any = {"nogil": True, "_nrt": False, "no_cfunc_wrapper": True, "error_model": "numpy"}
# Without a wrapper for Python, which nobody calls: the first `fit` would take longer.
INNER: Any = BARE | {"no_cpython_wrapper": True}
# Inlined: a pass of `OrderedLogit` would take three times as long.
INLINE: Any = INNER | {"forceinline": True}

entry = cached(**BARE)  # called from Python
alone = cached(**BARE | {"nogil": False})  # likewise, and no other thread of Python runs meanwhile
own_function = _njit(**INNER)  # too long, or called too rarely, to be inlined
part_of_loop = _njit(**INLINE)
# Inlined by numba itself: no other way returns an array without the runtime, and the first `fit`
# takes a seventh less.
inserted = _njit(inline="always", _nrt=False)

# Dense sums may be reordered, as in BLAS; NaN and inf keep their meaning. Sparse sums keep their
# order: otherwise the compiler uses gather instructions, which are half as fast.
any_order = _njit(**INLINE, fastmath={"reassoc", "contract", "nsz"})


def on_type(
    table: dict[type, Callable[..., Any]], default: Callable[..., Any] | None = None
) -> Callable[..., Any]:
    """Return a function whose body is chosen by the type of its first argument.

    Types that are not in the table use the default. The body is inlined and must not allocate.
    """

    def call(first, *rest):
        return table.get(type(first), default)(first, *rest)

    @overload(call, strict=False, jit_options=INLINE)
    def pick(first, *rest):
        return table.get(getattr(first, "instance_class", None), default)

    return call


def prefetch(array, i):
    """Tell the processor that element i of a contiguous array will be read soon.

    Without it, a shuffled pass takes 1.3 times as long over dense rows, 1.6 times over sparse ones.
    """


@intrinsic
def _prefetch_instruction(context, array, i):
    def generate(context, builder, signature, arguments):
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        place = builder.bitcast(builder.gep(data, [arguments[1]]), ir.IntType(8).as_pointer())
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [place.type, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [place.type], kind)
        # A read, of high locality, into the data cache.
        builder.call(function, [place, *(ir.Constant(number, n) for n in (0, 3, 1))])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


@overload(prefetch, jit_options=INLINE)
def _prefetch_compiled(array, i):
    return lambda array, i: _prefetch_instruction(array, i)
