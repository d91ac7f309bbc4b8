"""Models in files, without pickle.

A file is a zip archive (`archive`) with a header, ``pril.json`` (`header`), and an ``.npy``
member for each array: `docs/reference/model-files.md` describes it. `schema` says what is kept of
each of our types; `content` writes and reads it. Estimators of other libraries, such as a
StandardScaler, go together into one member, which skops writes and reads (`foreign`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from pril import __version__
from pril.errors import InputError, InputTypeError, MissingExtraError, is_bug
from pril.io import archive
from pril.io.content import ContentReader, ContentWriter
from pril.io.header import Header, from_json, to_json
from pril.io.notes import USER, check_notes
from pril.io.replacing import remove_leftovers as remove_leftovers
from pril.io.replacing import replace_file as replace_file

if TYPE_CHECKING:
    from os import PathLike
    from types import ModuleType

    from pril.io.header import Kind

__all__ = ["load", "load_notes", "save", "trusted_types"]

FORMAT = 3
LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba")
HEADER, FOREIGN = "pril.json", "foreign.skops"
CHECKPOINT = "checkpoint.pril"  # the file of a checkpoint, in its folder


class About(NamedTuple):
    """What a file says of itself."""

    kind: str  # "model" or "checkpoint"
    format: int
    versions: dict[str, str]
    model: str  # as in "Pipeline(StandardScaler, PRIL)"
    classes: list[Any] | None
    features: list[str] | None
    notes: dict[str, Any]


def save(model: Any, path: str | PathLike[str], *, notes: dict[str, Any] | None = None) -> None:
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
        finite numbers, booleans, None, lists and dicts.

    See Also
    --------
    load : Read the model.
    load_notes : Read the notes.

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
    kept = None if notes is None else {USER: check_notes(notes)}
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

    folder = None if checkpoint is None else Path(checkpoint)
    saved = None if folder is None else folder / CHECKPOINT
    if saved is None or not saved.exists():
        return user_notes(_read_header(path).notes, path)
    begun = _read_header(saved).notes
    origin = {name: note for name, note in begun.items() if name != USER}
    if Path(path).exists():
        own = _read_header(path).notes
        finished = own.get("finished")
        if isinstance(finished, dict) and finished.get("origin") == origin:
            return user_notes(own, path)  # killed when it had replaced the model
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
    return list(_with_skops().trusted_types())


# --- Files of any kind ---------------------------------------------------------------------------


def write(
    content: Any, path: str | PathLike[str], *, kind: Kind, notes: dict[str, Any] | None = None
) -> None:
    """Write a model, or a dict of models, numbers, strings and lists (a checkpoint)."""
    data = to_bytes(content, kind=kind, notes=notes)
    with replace_file(path) as target:
        target.write(data)


def to_bytes(content: Any, *, kind: Kind, notes: dict[str, Any] | None = None) -> bytes:
    """Return the bytes of a file."""
    from pril.core.parts import model_name

    if kind == "model":
        _check_fitted(content)
    try:
        writer = ContentWriter()
        value = writer.value(content)
        libraries = (*LIBRARIES, "skops") if writer.foreign else LIBRARIES
        header = Header(FORMAT, kind, dict(versions_of(libraries)), notes or {}, value)
        members = {HEADER: to_json(header), **writer.arrays}
        if writer.foreign:
            members[FOREIGN] = _with_skops().pack(writer.foreign)
        _check(members)  # what could not be read is not written
    except (ImportError, MemoryError):
        raise
    except UnknownTypes as error:
        names = f"it holds {error}, and a file holds data of known types, no code"
        raise InputTypeError(f"{model_name(content)} cannot be saved: {names}") from None
    except Exception as error:
        if is_bug(error):
            raise
        raise InputTypeError(f"{model_name(content)} cannot be saved: {error}") from error
    return archive.seal(members)


def read(path: str | PathLike[str], *, kind: Kind) -> tuple[Any, About]:
    """Return what `write` wrote, and what the file says of itself."""
    members = _read_members(path)
    try:
        with _as_damage(path):
            header, content, n_foreign = _check(members)
    except UnknownTypes as error:
        raise InputError(f"{path} holds {error}, which pril does not load") from None
    if header.kind != kind:
        raise InputError(f"{path} is a {header.kind}, not a {kind}")
    with _as_damage(path):
        if n_foreign:
            foreign = _with_skops().unpack(members[FOREIGN], n_foreign)
            content = ContentReader(_arrays(members), foreign).content(header.content)
        if kind == "model":
            _check_fitted(content)
    return content, _about(content, header)


def _read_header(path: str | PathLike[str]) -> Header:
    """Return what a file says of itself; its content is not looked at."""
    members = _read_members(path)
    with _as_damage(path):
        return from_json(members[HEADER])


def _read_members(path: str | PathLike[str]) -> dict[str, bytes]:
    """Return the members of a file, if its checksum is right and its format is known."""
    with _as_damage(path, ValueError):
        data = archive.read_sealed(path)
    with _as_damage(path):
        members = archive.unpack(data)
        number = json.loads(members[HEADER])["format"]
        if type(number) is not int:
            raise InputError("its format is not a number")
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
    return members


class UnknownTypes(Exception):  # noqa: N818 - what to say of them depends on who asks
    """A file holds types of other libraries that are not trusted: their names."""


def _check(members: dict[str, bytes]) -> tuple[Header, Any, int]:
    """Return the header, the content and the number of foreign steps if all of a file is right.

    Something else stands for the foreign steps: they are not built before all is checked.
    """
    header, reader = from_json(members[HEADER]), ContentReader(_arrays(members))
    content, n_foreign = reader.content(header.content), reader.n_foreign
    if (FOREIGN in members) != (n_foreign > 0):
        reason = "there must be a foreign.skops if it is not 0, and only then"
        raise InputError(f"the number of steps of other libraries is {n_foreign}: {reason}")
    if n_foreign and (unknown := _with_skops().unknown_types(members[FOREIGN])):
        raise UnknownTypes(", ".join(unknown))
    return header, content, n_foreign


def _arrays(members: dict[str, bytes]) -> dict[str, bytes]:
    return {name: members[name] for name in members if name not in (HEADER, FOREIGN)}


def _with_skops() -> ModuleType:
    """Return the module that needs skops."""
    try:
        from pril.io import foreign
    except ImportError as error:
        raise MissingExtraError("steps of other libraries need skops", "io") from error
    return foreign


@contextmanager
def _as_damage(path: str | PathLike[str], kind: type[Exception] = Exception) -> Iterator[None]:
    try:  # a file can be wrong in any way
        yield
    except (ImportError, MemoryError, UnknownTypes):
        raise
    except kind as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        message = f"{path} is damaged or not a model file of pril: {reason}"
        raise InputError(message) from None


def _check_fitted(model: Any) -> None:
    from sklearn.utils.validation import check_is_fitted

    from pril.core.parts import Parts

    parts = Parts.of(model)
    check_is_fitted(parts.learner)
    if parts.ranges is not None:
        check_is_fitted(parts.ranges)


def _about(content: Any, header: Header) -> About:
    from pril.core.parts import model_name
    from pril.metrics import order_of

    parts = content.values() if isinstance(content, dict) else [content]
    model = next((part for part in parts if hasattr(part, "get_params")), content)
    classes = order_of(model) if hasattr(model, "classes_") else None
    features = getattr(model, "feature_names_in_", None)
    return About(
        kind=header.kind,
        format=header.format,
        versions=header.versions,
        model=model_name(model),
        classes=None if classes is None else classes.tolist(),
        features=None if features is None else [str(name) for name in features],
        notes=header.notes,
    )


@cache
def versions_of(libraries: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Return the versions of this package, of some libraries, and of Python."""
    import platform
    from importlib.metadata import version

    found = ((library, version(library)) for library in libraries)
    return (("pril", __version__), *found, ("python", platform.python_version()))
