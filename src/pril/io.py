"""Models in files: scikit-learn's types and ours by skops, without pickle.

A file is skops' zip archive with one more member, ``pril.json``, that says what the file is. Its
last bytes are the SHA-256 of all bytes before them, so that damage is seen before anything is
parsed. Nothing in it is compressed, dated or named after a memory address: what is read is no
larger than the file, and the same model gives the same bytes.
"""

from __future__ import annotations

import errno
import json
import os
import platform
import re
import secrets
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple
from zipfile import ZIP_STORED, ZipFile, ZipInfo

import numpy as np
from scipy.sparse import csr_array, csr_matrix
from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from pril import __version__
from pril import _loop as loop
from pril._online import Memory, OnlineClassifier
from pril._registry import LEARNERS
from pril._support import Support
from pril.features import PolynomialMap

if TYPE_CHECKING:
    from os import PathLike
    from types import ModuleType

__all__ = ["load", "save"]

FORMAT = 1
LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba", "skops")
SEAL = b"pril sha256 "  # the archive's comment: this, then the digest
DIGEST_LENGTH = 64
PLAIN_NAME = re.compile(r"[A-Za-z0-9_]+\.(npy|npz|bin|json)")

# What a file may hold besides the types that skops trusts: our own, and what scikit-learn's
# transformers keep. Building them runs no code of the file's choosing.
TRUSTED = [
    *(f"{learner.module}.{learner.name}" for learner in LEARNERS),
    *(
        f"{kind.__module__}.{kind.__qualname__}"
        for kind in (Memory, Support, loop.State, loop.Mean, PolynomialMap)
    ),
    *(f"{kind.__module__}.{kind.__qualname__}" for kind in (csr_array, csr_matrix, np.dtype)),
    "pril.tables.encoder.ColumnEncoder",  # by name: they need pyarrow
    "pril.tables.encoder.Moments",
]


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
    The same model gives the same bytes.

    Parameters
    ----------
    model : estimator
        A fitted estimator of this package, alone or as the last step of a
        :class:`~sklearn.pipeline.Pipeline`.
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
    refused before anything in it is built: loading runs no code from the file.

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


# --- Files of any kind ---------------------------------------------------------------------------


def write(
    content: Any, path: str | PathLike[str], *, kind: str, notes: dict[str, Any] | None = None
) -> None:
    """Write a model, or a dict of models, arrays, numbers, strings and lists (a checkpoint)."""
    skops = _skops()
    if kind == "model":
        check_is_fitted(learner_of(content))
    _check_learners(content)
    try:
        members = _canonical(skops.dumps(content))
        unknown = _unknown_types(_packed(members))
    except Exception as error:
        raise TypeError(f"{_name(content)} cannot be saved: {error}") from error
    if unknown:
        raise TypeError(
            f"{_name(content)} cannot be saved: it holds {', '.join(unknown)}, and a file holds "
            "data of known types, no code"
        )
    about = _about(content, kind, notes or {})
    members["pril.json"] = json.dumps(about._asdict()).encode()
    data = _sealed(members)
    _unsealed(data)  # what could not be read is not written
    with replace_file(path) as file:
        file.write(data)


def read(path: str | PathLike[str], *, kind: str) -> tuple[Any, About]:
    """Return what `write` wrote, and what the file says of itself."""
    skops = _skops()
    data = Path(path).read_bytes()
    with _as_damage(path):
        said = json.loads(_unsealed(data)["pril.json"])
        newer = said["format"] > FORMAT
    if newer:
        raise ValueError(
            f"{path} was written by a newer pril (format {said['format']}; this one reads up to "
            f"{FORMAT}): upgrade"
        )
    with _as_damage(path):
        about = About(**said)
    if about.kind != kind:
        raise ValueError(f"{path} is a {about.kind}, not a {kind}")
    with _as_damage(path):
        unknown = _unknown_types(data)
    if unknown:
        raise ValueError(f"{path} holds {', '.join(unknown)}, which pril does not load")
    with _as_damage(path):
        content = skops.loads(data, trusted=TRUSTED)
        if kind == "model":
            learner_of(content)
        _check_learners(content)
    return content, about


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
    temporary = target.parent / f".pril-{secrets.token_hex(8)}.tmp"
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            temporary.chmod(target.stat().st_mode)
        temporary.replace(target)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename in (None, str(temporary)):
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
    if os.name == "posix":  # elsewhere a folder cannot be opened
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _skops() -> ModuleType:
    try:
        import skops.io
    except ImportError as error:
        raise ImportError("pril.io needs skops: pip install 'pril[io]'") from error
    return skops.io  # type: ignore[no-any-return]


@contextmanager
def _as_damage(path: str | PathLike[str]) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # a file can be wrong in any way
        reason = str(error) or type(error).__name__
        message = f"{path} is damaged or not a model file of pril: {reason}"
        raise ValueError(message) from None


# --- The learners in a file ----------------------------------------------------------------------


def learner_of(model: Any) -> OnlineClassifier:
    """Return the estimator of ours that a model is, or ends in."""
    last = model
    while isinstance(last, Pipeline | FrozenEstimator):
        last = last.steps[-1][1] if isinstance(last, Pipeline) else last.estimator
    if not isinstance(last, OnlineClassifier):
        raise TypeError(
            "a model is an estimator of pril, alone or at the end of a Pipeline, not "
            f"{type(model).__name__}"
        )
    return last


def _check_learners(content: Any) -> None:
    """Refuse learned arrays that do not fit their estimator: the compiled loop trusts them."""
    rest, seen = [content], set()
    while rest:
        item = rest.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, OnlineClassifier) and hasattr(item, "_memory"):
            item._check_memory()
        elif isinstance(item, BaseEstimator):
            rest.extend(vars(item).values())
        elif isinstance(item, dict):
            rest.extend(item.values())
        elif isinstance(item, list | tuple | set):
            rest.extend(item)
        elif isinstance(item, np.ndarray) and item.dtype == object:
            rest.extend(item.flat)


def _name(content: Any) -> str:
    if isinstance(content, Pipeline):
        return f"Pipeline({', '.join(_name(step) for _, step in content.steps)})"
    if isinstance(content, FrozenEstimator):
        return f"FrozenEstimator({_name(content.estimator)})"
    return content if isinstance(content, str) else type(content).__name__


def _about(content: Any, kind: str, notes: dict[str, Any]) -> About:
    parts = content.values() if isinstance(content, dict) else [content]
    model = next((part for part in parts if isinstance(part, BaseEstimator)), content)
    classes = getattr(model, "classes_", None)
    features = getattr(model, "feature_names_in_", None)
    return About(
        kind=kind,
        format=FORMAT,
        versions=dict(_versions()),
        model=_name(model),
        classes=None if classes is None else classes.tolist(),
        features=None if features is None else [str(name) for name in features],
        notes=notes,
    )


@cache
def _versions() -> tuple[tuple[str, str], ...]:
    libraries = ((library, version(library)) for library in LIBRARIES)
    return (("pril", __version__), *libraries, ("python", platform.python_version()))


# --- The archive ---------------------------------------------------------------------------------


def _unknown_types(data: bytes) -> list[str]:
    return sorted(set(_skops().get_untrusted_types(data=data)) - set(TRUSTED))


def _nodes(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield skops' descriptions of objects, in the order of the text."""
    rest = [schema]
    while rest:
        item = rest.pop()
        if isinstance(item, dict):
            if isinstance(item.get("__loader__"), str):
                yield item
            rest.extend(reversed(item.values()))
        elif isinstance(item, list):
            rest.extend(reversed(item))


def _canonical(archive: bytes) -> dict[str, bytes]:
    """Return the members of skops' archive with nothing in them that two runs do not share.

    skops numbers objects by their memory addresses. Only an object that occurs more than once
    needs its number, and constants never do. Members with the same bytes become one, so that an
    object that occurs again is described in the same words.
    """
    with ZipFile(BytesIO(archive)) as opened:
        found = {name: opened.read(name) for name in opened.namelist()}
    schema = json.loads(found.pop("schema.json"))
    nodes = list(_nodes(schema))
    occurrences = Counter(node["__id__"] for node in nodes if "content" in node or "file" in node)
    numbers: dict[int, int] = {}
    names: dict[bytes, str] = {}
    for node in nodes:
        if node["__loader__"] == "SetNode":  # of strings, in the order of their hashes
            node["content"].sort(key=lambda child: str(child["content"]))
        address = node.pop("__id__")
        if node["__loader__"] != "JsonNode" and occurrences[address] > 1:
            node["__id__"] = numbers.setdefault(address, len(numbers) + 1)
        if "file" in node:
            name = f"{len(names)}{Path(node['file']).suffix}"
            node["file"] = names.setdefault(found[node["file"]], name)
    members = {name: _stored(member) for member, name in names.items()}
    members["schema.json"] = json.dumps(schema).encode()
    return members


def _is_archive(member: bytes) -> bool:
    return member.startswith(b"PK")


def _stored(member: bytes) -> bytes:
    """Return a member, uncompressed if it is an archive itself: a sparse matrix is one."""
    if not _is_archive(member):
        return member
    with ZipFile(BytesIO(member)) as inner:
        return _packed({name: inner.read(name) for name in inner.namelist()})


def _packed(members: dict[str, bytes], comment: bytes = b"") -> bytes:
    packed = BytesIO()
    with ZipFile(packed, "w", ZIP_STORED) as archive:
        archive.comment = comment
        for name, member in members.items():
            info = ZipInfo(name)  # dated 1980
            info.create_system = 3
            archive.writestr(info, member)
    return packed.getvalue()


def _unpacked(data: bytes) -> dict[str, bytes]:
    """Return the members of an archive, which are no larger than it."""
    with ZipFile(BytesIO(data)) as archive:
        infos = archive.infolist()
        if any(info.compress_type != ZIP_STORED for info in infos):
            raise ValueError("a member is compressed")
        if sum(info.file_size for info in infos) > len(data):
            raise ValueError("its members are larger than the file")
        names = [info.filename for info in infos]
        if len(set(names)) < len(names) or not all(map(PLAIN_NAME.fullmatch, names)):
            raise ValueError("its members have odd names")
        return {name: archive.read(name) for name in names}


def _sealed(members: dict[str, bytes]) -> bytes:
    data = _packed(members, comment=SEAL + b"0" * DIGEST_LENGTH)[:-DIGEST_LENGTH]
    return data + sha256(data).hexdigest().encode()


def _unsealed(data: bytes) -> dict[str, bytes]:
    """Return the members of a file that is whole and safe to parse."""
    body, digest = data[:-DIGEST_LENGTH], data[-DIGEST_LENGTH:]
    if not (_is_archive(data) and body.endswith(SEAL)):
        raise ValueError("it does not begin and end as one")
    if sha256(body).hexdigest().encode() != digest:
        raise ValueError("its checksum is wrong")
    members = _unpacked(data)
    for member in filter(_is_archive, members.values()):
        _unpacked(member)
    # An object that occurs again must be described again, or a short file could describe a tree
    # that no computer can walk.
    described: dict[int, Any] = {}
    for node in _nodes(json.loads(members["schema.json"])):
        if "__id__" in node and described.setdefault(node["__id__"], node) != node:
            raise ValueError("two objects have one number")
    return members
