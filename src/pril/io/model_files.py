"""Models in files, without pickle.

A file is a zip archive (`archive`) with a header, ``pril.json``, and an ``.npy`` member for each
array: `docs/reference/model-files.md` describes it. `schema` says what is kept of each of our
types; `content` writes and reads it. Estimators of other libraries, such as a
StandardScaler, go together into one member, which skops writes and reads (`foreign`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple

from pril import __version__
from pril.errors import InputError, InputTypeError, import_extra, is_bug, shown
from pril.io import archive
from pril.io.archive import remove_leftovers as remove_leftovers
from pril.io.archive import replace_file as replace_file
from pril.io.content import ContentWriter, Header, Kind, from_json, read_content, to_json

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

__all__ = ["load", "load_notes", "save", "trusted_types"]

FORMAT = 6  # another one whenever files hold something else: a test compares what they hold
LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba")
HEADER, FOREIGN = "pril.json", "foreign.skops"
SAVE_ELSEWHERE = (
    "save the learner inside it, or the whole by skops.io.dump or, for files that only you use, by "
    "joblib.dump"
)
USER = "user"  # the key of a user's notes among the notes of a file
LARGEST, DEEPEST = 1 << 16, 20  # notes: bytes of JSON, and lists and objects inside each other
CHECKPOINT = "checkpoint.pril"  # the file of a checkpoint, in its folder


class About(NamedTuple):
    """What a file says of itself."""

    versions: dict[str, str]
    notes: dict[str, Any]


def save(
    model: BaseEstimator, path: str | PathLike[str], *, notes: dict[str, Any] | None = None
) -> None:
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
    notes : dict, default=None
        A small JSON object to keep with the model: for example, up to which offset of a queue it
        has learned. Model and notes are written in one step. At most 64 kB; values are strings,
        finite numbers, booleans, None, lists and dicts. None keeps the notes of the file that the
        model was loaded from, if it has not been fitted anew; an empty dict removes them.

    See Also
    --------
    load : Read the model.
    load_notes : Read the notes.

    Notes
    -----
    A file holds data, not code: models that contain a function of yours, such as a kernel or a
    :class:`~sklearn.preprocessing.FunctionTransformer`, are refused.

    What the command ``pril fit`` has written into a file, such as the columns of the labels and how
    numbers in CSV are written, is kept if the model is loaded, learns more and is saved. It is
    dropped if the model is fitted anew, since it may be wrong then.

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
    from pril.bases.parts import Parts

    try:
        kept = getattr(Parts.of(model).learner, "file_notes_", {})
    except InputTypeError as error:
        raise InputTypeError(f"{error}; {SAVE_ELSEWHERE}") from None
    if notes is not None:
        kept = kept | {USER: check_notes(notes)}
    write(model, path, kind="model", notes=kept)


def load_notes(
    path: str | PathLike[str], *, checkpoint: str | PathLike[str] | None = None
) -> dict[str, Any]:
    """Read the notes that were saved with a model.

    The model itself is not built.

    Parameters
    ----------
    path : str or path-like
        A file that `save` or the command wrote.
    checkpoint : str or path-like, default=None
        The folder in which the command `pril stream` keeps checkpoints of this model. If it holds a
        checkpoint, because a run was killed, return the notes of that: the same command goes on
        from there.

    Returns
    -------
    notes : dict
        The notes; empty if there are none.

    See Also
    --------
    save : Write a model with notes.

    Examples
    --------
    >>> import pril, tempfile
    >>> from pathlib import Path
    >>> model = pril.PRIL(random_state=0).fit([[-1.0], [0.0], [1.0]], [1, 2, 3])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "rating.pril"
    ...     pril.save(model, path, notes={"offset": 17, "source": "reviews"})
    ...     pril.load_notes(path)
    {'offset': 17, 'source': 'reviews'}
    """
    from pathlib import Path

    saved = None if checkpoint is None else Path(checkpoint, CHECKPOINT)
    if saved is None or not saved.exists():
        return user_notes(_unpack(path)[0].notes, path)
    begun = _unpack(saved)[0].notes
    origin = {name: note for name, note in begun.items() if name != USER}
    if Path(path).exists():
        notes = _unpack(path)[0].notes
        finished = notes.get("finished")
        if isinstance(finished, dict) and finished.get("origin") == origin:
            return user_notes(notes, path)  # killed when it had replaced the model
    return user_notes(begun, saved)


def user_notes(notes: dict[str, Any], path: str | PathLike[str]) -> dict[str, Any]:
    """Return the notes of the user among those of a file."""
    with _as_damage(path):
        return dict(check_notes(notes.get(USER, {})))


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
    from pril.bases.parts import Parts

    model, about = read(path, kind="model")
    Parts.of(model).learner.file_notes_ = about.notes
    return model


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
    return list(_with_skops().trusted_types())


# --- Files of any kind ---------------------------------------------------------------------------


def write(
    content: Any,
    path: str | PathLike[str],
    *,
    kind: Kind,
    notes: dict[str, Any] | None = None,
    verify: bool = True,
) -> None:
    """Write a model, or a dict of models, numbers, strings and lists (a checkpoint).

    What could not be read is not written: `verify` reads it first.
    """
    from pril.bases.parts import model_name

    if kind == "model":
        _check_fitted(content)
    try:
        writer = ContentWriter()
        value = writer.value(content)
        libraries = (*LIBRARIES, "skops") if writer.foreign else LIBRARIES
        header = Header(FORMAT, kind, dict(versions_of(libraries)), notes or {}, value)
        text, members = to_json(header), dict(writer.arrays)
        if writer.foreign:
            members[FOREIGN] = _with_skops().pack(writer.foreign)
        if verify:
            _content(from_json(text), dict(members), writer.foreign)
    except (ImportError, MemoryError):
        raise
    except UnknownTypes as error:
        raise InputTypeError(
            f"{model_name(content)} cannot be saved: it holds {error}, and a file holds data of "
            f"known types, no code; {SAVE_ELSEWHERE}"
        ) from None
    except Exception as error:
        if is_bug(error):
            raise
        raise InputTypeError(f"{model_name(content)} cannot be saved: {error}") from error
    with replace_file(path) as target:
        target.write(archive.seal({HEADER: text, **members}))


def read(path: str | PathLike[str], *, kind: Kind) -> tuple[Any, About]:
    """Return what `write` wrote, and what the file says of itself."""
    header, members = _unpack(path)
    if header.kind != kind:
        raise InputError(f"{path} is a {header.kind}, not a {kind}")
    with _as_damage(path):
        content = _content(header, members)
        if kind == "model":
            _check_fitted(content)
    return content, About(header.versions, header.notes)


def _unpack(path: str | PathLike[str]) -> tuple[Header, dict[str, bytes]]:
    """Return the header and the other members, if the checksum is right and the format known."""
    with _as_damage(path, ValueError):
        data = archive.read_sealed(path)
    with _as_damage(path):
        members = archive.unpack(data)
        text = members.pop(HEADER)
        number = json.loads(text)["format"]
        if type(number) is not int:
            raise InputError("its format is not a number")
    if number != FORMAT:
        is_newer = number > FORMAT
        age, advice = (
            ("a newer", "upgrade") if is_newer else ("an earlier", "learn the model again")
        )
        raise InputError(
            f"{path} was written by {age} version of pril (format {number}); this one reads "
            f"format {FORMAT}: {advice}"
        )
    with _as_damage(path):
        return from_json(text), members


class UnknownTypes(Exception):  # noqa: N818 - what to say of them depends on who asks
    """A file holds types of other libraries that are not trusted: their names."""


def _content(header: Header, members: dict[str, bytes], foreign: list[Any] | None = None) -> Any:
    """Return the content of a file, if all of it is right.

    Steps of other libraries are built if they are not given, and only if all their types are known.
    """
    member = members.pop(FOREIGN, None)
    if member is not None:
        if unknown := _with_skops().unknown_types(member):
            raise UnknownTypes(", ".join(unknown))
        foreign = _with_skops().unpack(member) if foreign is None else foreign
    return read_content(header.content, members, foreign or [])


def _with_skops() -> Any:
    """Return the module that needs skops."""
    return import_extra("pril.io.foreign", "steps of other libraries need skops", "io")


@contextmanager
def _as_damage(path: str | PathLike[str], kind: type[Exception] = Exception) -> Iterator[None]:
    try:  # a file can be wrong in any way
        yield
    except (ImportError, MemoryError):
        raise
    except UnknownTypes as error:
        raise InputError(f"{path} holds {error}, which pril does not load") from None
    except kind as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        message = f"{path} is damaged or not a model file of pril: {reason}"
        raise InputError(message) from None


def _check_fitted(model: BaseEstimator) -> None:
    from sklearn.utils.validation import check_is_fitted

    from pril.bases.parts import Parts

    parts = Parts.of(model)
    check_is_fitted(parts.learner)
    if parts.ranges is not None:
        check_is_fitted(parts.ranges)


@cache
def versions_of(libraries: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Return the versions of this package, of some libraries, and of Python."""
    import platform
    from importlib.metadata import version

    installed = ((library, version(library)) for library in libraries)
    return (("pril", __version__), *installed, ("python", platform.python_version()))


# --- Notes of a user: a small JSON object ---------------------------------------------------------


def check_notes(notes: object) -> dict[str, Any]:
    """Return notes, if JSON has all that is in them and they are small; refuse others by place."""
    if type(notes) is not dict:
        raise InputTypeError(f"notes must be a dict, got {shown(notes)}")
    _check_note(notes, "notes", 0)
    if (size := len(json.dumps(notes))) > LARGEST:
        raise InputError(f"notes take {size:,} bytes as JSON, and a file keeps at most {LARGEST:,}")
    return notes


def _check_note(value: Any, place: str, depth: int) -> None:
    kind = type(value)  # a subclass, such as a number of NumPy, would come back as another type
    if depth > DEEPEST:
        raise InputError(f"{place[:100]}...: more than {DEEPEST} lists or dicts inside each other")
    for key in value if kind is dict else ():
        if type(key) is not str:
            raise InputTypeError(f"{place}: a key must be a string, got {shown(key)}")
        _check_note(key, f"{place}: the key", depth)
    entries = value.items() if kind is dict else enumerate(value if kind is list else ())
    for key, entry in entries:
        _check_note(entry, f"{place}[{shown(key)}]", depth + 1)
    if kind is str and any("\ud800" <= c <= "\udfff" for c in value):
        raise InputError(f"{place} {shown(value)} is not valid Unicode")
    if kind is int and not -(2**63) <= value < 2**63:
        raise InputError(f"{place}: {shown(value)} does not fit into 64 bits")
    if kind is float and not math.isfinite(value):
        raise InputError(f"{place}: JSON has no {value}")
    if kind not in (dict, list, str, bool, int, float, type(None)):
        name = f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")
        raise InputTypeError(f"{place}: JSON has no {name}, got {shown(value)}")
