"""Models in files, without pickle.

A file is a zip archive with a header, ``pril.json``, and an ``.npy`` member for each array:
`docs/reference/model-files.md` describes it. Our own types are read and written by `_schema`.
Estimators of other libraries, such as a StandardScaler before a learner, go together into one
member that skops reads and writes; nothing else needs skops.
"""

from __future__ import annotations

import errno
import json
import math
import os
import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from pril import __version__
from pril.errors import InputError, InputTypeError, MissingExtraError, shown
from pril.io import archive

if os.name == "posix":
    import fcntl

if TYPE_CHECKING:
    from os import PathLike
    from types import ModuleType

    from pril.core.learner import OnlineClassifier
    from pril.io.fields import Reader

__all__ = ["load", "save", "trusted_types"]

FORMAT = 3
LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba")
HEADER, FOREIGN = "pril.json", "foreign.skops"


class About(NamedTuple):
    """What a file says of itself."""

    kind: str  # "model" or "checkpoint"
    format: int
    versions: dict[str, str]
    model: str  # as in "Pipeline(StandardScaler, PRIL)"
    classes: list[Any] | None
    features: list[str] | None
    notes: dict[str, Any]


def save(model: Any, path: str | PathLike[str]) -> None:
    """Write a fitted model to a file.

    The file appears whole or not at all: a failure leaves an older file of that name as it was.
    A model of this package gives the same bytes in every process; one with steps of other
    libraries gives the same content.

    Parameters
    ----------
    model : estimator
        A fitted estimator of this package, alone or as the last step of a
        :class:`~sklearn.pipeline.Pipeline`, or a fitted search for one, such as
        :class:`~sklearn.model_selection.GridSearchCV`.
    path : str or path-like
        Where to write.

    See Also
    --------
    load : Read the file.

    Notes
    -----
    A file holds data, not code: models that contain a function of yours, such as a kernel or a
    :class:`~sklearn.preprocessing.FunctionTransformer`, are refused.

    Examples
    --------
    >>> import pril, tempfile
    >>> from pathlib import Path
    >>> model = pril.PRIL(random_state=0).fit([[-1.0], [0.0], [1.0]], [1, 2, 3])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "rating.pril"
    ...     pril.save(model, path)
    ...     again = pril.load(path)
    >>> again.predict([[-2.0], [2.0]])
    array([1, 3])
    """
    write(model, path, kind="model")


def load(path: str | PathLike[str]) -> Any:
    """Read a model from a file.

    It predicts, and goes on learning, exactly as the model that was saved. A file that is damaged,
    newer than this package, or that holds types other than scikit-learn's and this package's is
    refused before anything in it is built: loading runs no code from the file. Only steps of other
    libraries need skops, the extra ``io``.

    Parameters
    ----------
    path : str or path-like
        A file that `save` wrote.

    Returns
    -------
    model : estimator
        The model.

    See Also
    --------
    save : Write the file.

    Examples
    --------
    >>> import numpy as np, pril, tempfile
    >>> from pathlib import Path
    >>> model = pril.PRIL(classes=[1, 2, 3]).partial_fit([[-1.0], [1.0]], [(1, 2), (3, None)])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pril.save(model, Path(folder) / "rating.pril")
    ...     again = pril.load(Path(folder) / "rating.pril")
    >>> for learner in (model, again):
    ...     _ = learner.partial_fit([[0.5]], [2])
    >>> np.array_equal(again.thresholds_, model.thresholds_)
    True
    """
    return read(path, kind="model")[0]


def trusted_types() -> list[str]:
    """Return the types that tools built on skops must trust to load our models.

    Returns
    -------
    names : list of str
        Full names, to be passed as `trusted` to `skops.io.load`, or as `skops_trusted_types` to
        `mlflow.sklearn.save_model`.

    Examples
    --------
    >>> import skops.io
    >>> from pril import PRIL
    >>> from pril.io import trusted_types
    >>> data = skops.io.dumps(PRIL(random_state=0).fit([[-1.0], [1.0]], [0, 1]))
    >>> skops.io.loads(data, trusted=trusted_types()).predict([[2.0]])
    array([1])
    """
    return list(_foreign().trusted_types())


# --- Files of any kind ---------------------------------------------------------------------------


def write(
    content: Any, path: str | PathLike[str], *, kind: str, notes: dict[str, Any] | None = None
) -> None:
    """Write a model, or a dict of models, numbers, strings and lists (a checkpoint)."""
    data = to_bytes(content, kind=kind, notes=notes)
    with replace_file(path) as target:
        target.write(data)


def to_bytes(content: Any, *, kind: str, notes: dict[str, Any] | None = None) -> bytes:
    """Return the bytes of a file."""
    from pril.io import schema

    if kind == "model":
        _check_fitted(content)
    try:
        plain, file = schema.describe(content)
        libraries = (*LIBRARIES, "skops") if file.foreign else LIBRARIES
        header = {
            "format": FORMAT,
            "kind": kind,
            "versions": dict(versions_of(libraries)),
            "notes": notes or {},
            "content": plain,
        }
        members = {HEADER: json.dumps(header, allow_nan=False).encode(), **file.members}
        if file.foreign:
            members[FOREIGN] = _foreign().pack(file.foreign)
        _check(members)  # what could not be read is not written
    except ImportError:
        raise
    except UnknownTypes as error:
        names = f"it holds {error}, and a file holds data of known types, no code"
        raise InputTypeError(f"{model_name(content)} cannot be saved: {names}") from None
    except Exception as error:
        raise InputTypeError(f"{model_name(content)} cannot be saved: {error}") from error
    return archive.seal(members)


def read(path: str | PathLike[str], *, kind: str) -> tuple[Any, About]:
    """Return what `write` wrote, and what the file says of itself."""
    with _as_damage(path, ValueError):
        data = archive.read_sealed(path)
    with _as_damage(path):
        members = archive.unpack(data)
        number = _whole(_parse(members[HEADER])["format"])
    if number > FORMAT:
        raise InputError(
            f"{path} was written by a newer pril (format {number}; this one reads format "
            f"{FORMAT}): upgrade"
        )
    if number < FORMAT:
        raise InputError(
            f"{path} has format {number}, from before the first release, and this pril reads "
            f"format {FORMAT}: learn the model again"
        )
    try:
        with _as_damage(path):
            header, plan, file = _check(members)
    except UnknownTypes as error:
        raise InputError(f"{path} holds {error}, which pril does not load") from None
    if header["kind"] != kind:
        raise InputError(f"{path} is a {header['kind']}, not a {kind}")
    with _as_damage(path):
        content = _build(members, plan, file)
        if kind == "model":
            _check_fitted(content)
    return content, _about(content, header)


class UnknownTypes(Exception):  # noqa: N818 - what to say of them depends on who asks
    """A file holds types of other libraries that are not trusted: their names."""


def _check(members: dict[str, bytes]) -> tuple[dict[str, Any], Any, Reader]:
    """Return the header and the plan of the content, if all of the file is right."""
    from pril.io import schema

    header = _parse(members[HEADER])
    if set(header) != {"format", "kind", "versions", "notes", "content"}:
        raise InputError(f"its header has the keys {', '.join(sorted(header))}")
    if header["kind"] not in ("model", "checkpoint"):
        raise InputError(f"its kind is {shown(header['kind'])}, not a model or a checkpoint")
    versions = header["versions"]
    if type(versions) is not dict or not all(type(text) is str for text in versions.values()):
        raise InputError("its versions are not strings")
    if type(header["notes"]) is not dict:
        raise InputError("its notes are not an object")
    arrays = {name: members[name] for name in members if name not in (HEADER, FOREIGN)}
    plan, file = schema.check(header["content"], arrays)
    if (FOREIGN in members) != (file.n_foreign > 0):
        raise InputError(f"it holds {file.n_foreign} foreign steps")
    if file.n_foreign:
        unknown = _foreign().unknown_types(members[FOREIGN])
        if unknown:
            raise UnknownTypes(", ".join(unknown))
    return header, plan, file


def _build(members: dict[str, bytes], plan: Any, file: Reader) -> Any:
    from pril.io import fields, schema

    if file.n_foreign:
        file.foreign = _foreign().unpack(members[FOREIGN])
        if type(file.foreign) is not list or len(file.foreign) != file.n_foreign:
            raise InputError(f"it has other than {file.n_foreign} foreign steps")
        schema.check_inside(file.foreign)
    return fields.build(plan)


def _foreign() -> ModuleType:
    """Return the module that needs skops."""
    try:
        from pril.io import foreign
    except ImportError as error:
        raise MissingExtraError("steps of other libraries need skops", "io") from error
    return foreign


@contextmanager
def replace_file(path: str | PathLike[str]) -> Iterator[BinaryIO]:
    """Yield a temporary file, not to be closed, that becomes `path` if all goes well.

    A failure removes it and leaves the old file as it was.
    """
    target = Path(path).resolve()  # a link stays a link
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if target.exists() and not target.is_file():
        raise OSError(errno.EINVAL, "Not a regular file", str(path))
    remove_leftovers(target)
    temporary = None
    try:
        temporary, file = _create_temporary(target)
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if os.name != "posix":  # elsewhere an open file cannot be renamed
                file.close()
            if target.exists():
                temporary.chmod(target.stat().st_mode)
            temporary.replace(target)
    except BaseException as error:
        if temporary:
            temporary.unlink(missing_ok=True)
        ours = temporary is None or getattr(error, "filename", None) in (None, str(temporary))
        if isinstance(error, OSError) and error.errno is not None and ours:
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
    if os.name == "posix":  # elsewhere a folder cannot be opened
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def remove_leftovers(path: str | PathLike[str]) -> None:
    """Remove the temporary files that killed processes have left of a file."""
    target = Path(path).resolve()
    for leftover in target.parent.glob(f"{_temporary_prefix(target)}*.tmp"):
        with suppress(OSError), ExitStack() as stack:  # somebody writes it
            if os.name == "posix":  # elsewhere no file goes while it is open
                file = stack.enter_context(leftover.open("rb"))
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            leftover.unlink()


def _create_temporary(target: Path) -> tuple[Path, BinaryIO]:
    """Return a new file beside the target, locked as long as it is open."""
    while True:
        name = f"{_temporary_prefix(target)}{secrets.token_hex(8)}.tmp"
        temporary = target.parent / name
        file = temporary.open("xb")
        if os.name == "posix":
            with suppress(OSError):  # a file system without locks
                fcntl.flock(file, fcntl.LOCK_EX)
        if os.fstat(file.fileno()).st_nlink:  # else it was removed before it was locked
            return temporary, file
        file.close()


def _temporary_prefix(target: Path) -> str:
    return f".pril-{sha256(os.fsencode(target.name)).hexdigest()[:16]}-"


@contextmanager
def _as_damage(
    path: str | PathLike[str], kind: type[Exception] = Exception
) -> Iterator[None]:  # a file can be wrong in any way
    try:
        yield
    except (ImportError, UnknownTypes):
        raise
    except kind as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        message = f"{path} is damaged or not a model file of pril: {reason}"
        raise InputError(message) from None


# --- The header ----------------------------------------------------------------------------------


def _parse(text: bytes) -> dict[str, Any]:
    """Parse strict JSON: no key twice, no number that is not finite."""
    header = json.loads(
        text, object_pairs_hook=_to_dict, parse_float=_to_float, parse_constant=_to_float
    )
    if type(header) is not dict:
        raise InputError("its header is not an object")
    return header


def _to_dict(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) < len(pairs):
        raise InputError("its header has a key twice")
    return dict(pairs)


def _to_float(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise InputError(f"its header has the number {shown(text)}")
    return number


def _whole(number: Any) -> int:
    if type(number) is not int:
        raise InputError(f"its format is {shown(number)}")
    return number


def _about(content: Any, header: dict[str, Any]) -> About:
    parts = content.values() if isinstance(content, dict) else [content]
    model = next((part for part in parts if hasattr(part, "get_params")), content)
    from pril.metrics import order_of

    classes = order_of(model) if hasattr(model, "classes_") else None
    features = getattr(model, "feature_names_in_", None)
    return About(
        kind=header["kind"],
        format=header["format"],
        versions=header["versions"],
        model=model_name(model),
        classes=None if classes is None else classes.tolist(),
        features=None if features is None else [str(name) for name in features],
        notes=header["notes"],
    )


@cache
def versions_of(libraries: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Return the versions of this package, of some libraries, and of Python."""
    import platform
    from importlib.metadata import version

    found = ((library, version(library)) for library in libraries)
    return (("pril", __version__), *found, ("python", platform.python_version()))


# --- Models --------------------------------------------------------------------------------------


def learner_of(model: Any) -> OnlineClassifier:
    """Return the estimator of ours that a model is, or ends in."""
    from pril.core.learner import OnlineClassifier

    last = model
    while (part := part_of(last)) is not None:
        last = part
    if not isinstance(last, OnlineClassifier):
        raise InputTypeError(
            "a model is an estimator of pril, alone or at the end of a Pipeline, not "
            f"{type(model).__name__}"
        )
    return last


def part_of(model: Any) -> Any:
    """Return the last step of a pipeline, or the estimator that another one wraps, else None."""
    if _is(model, "Pipeline"):
        return model.steps[-1][1]
    if _is(model, "FrozenEstimator"):
        return model.estimator
    if _is(model, "PredictionRanges", "pril"):
        return getattr(model, "estimator_", model.estimator)
    return getattr(model, "best_estimator_", None)  # of a fitted search


def _check_fitted(model: Any) -> None:
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(learner_of(model))
    while model is not None:
        if _is(model, "PredictionRanges", "pril"):
            check_is_fitted(model)
        model = part_of(model)


def _is(model: Any, name: str, library: str = "sklearn") -> bool:
    """Tell whether a model is of a class, without importing it."""
    kind = type(model)
    return kind.__name__ == name and kind.__module__.split(".")[0] == library


def model_name(content: Any) -> str:
    """Return what a model is, in short: Pipeline(StandardScaler, PRIL)."""
    if _is(content, "Pipeline"):
        return f"Pipeline({', '.join(model_name(step) for _, step in content.steps)})"
    if _is(content, "FrozenEstimator"):
        return f"FrozenEstimator({model_name(content.estimator)})"
    if _is(content, "PredictionRanges", "pril"):
        return f"PredictionRanges({model_name(content.estimator)})"
    return content if isinstance(content, str) else type(content).__name__
