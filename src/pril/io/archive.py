"""The container of a model file: a zip archive with a checksum at its end.

Members are stored uncompressed and dated 1980, so that equal members give equal bytes and nothing
that is read is larger than the file. The archive's comment ends with the SHA-256 of all bytes
before it: damage is detected before anything is parsed. Files are written whole or not at all.
"""

from __future__ import annotations

import errno
import math
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from hashlib import sha256
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import BinaryIO
from zipfile import ZIP_STORED, ZipFile, ZipInfo

from numpy.lib import format as npy

from pril.core.arrays import Array
from pril.errors import InputError

if os.name == "posix":
    import fcntl

MAGIC = b"PK\3\4"  # at the start of every zip archive that has a member
SEAL = b"pril sha256 "  # the archive's comment: this, then the digest
DIGEST_LENGTH = 64
PLAIN_NAME = re.compile(r"[A-Za-z0-9_]+\.[a-z]+")
DTYPES = ("<f8", "<f4", "<i8", "<i4", "<u4", "|i1")  # of arrays in a file


def seal(members: dict[str, bytes]) -> bytes:
    """Return the bytes of a file."""
    data = pack(members, comment=SEAL + b"0" * DIGEST_LENGTH)[:-DIGEST_LENGTH]
    return data + sha256(data).hexdigest().encode()


def read_sealed(path: str | PathLike[str]) -> bytes:
    """Return the bytes of a file that `seal` made; read no more of another than is needed."""
    if not stat.S_ISREG(mode := os.stat(path).st_mode) and not stat.S_ISDIR(mode):
        raise InputError("it is not a regular file")
    with open(path, "rb") as file:
        start = file.read(len(MAGIC))
        file.seek(max(0, file.seek(0, os.SEEK_END) - len(SEAL) - DIGEST_LENGTH))
        if start != MAGIC or file.read(len(SEAL)) != SEAL:
            raise InputError("it is not a zip archive of pril")
        file.seek(0)
        data = file.read()
    if sha256(memoryview(data)[:-DIGEST_LENGTH]).hexdigest().encode() != data[-DIGEST_LENGTH:]:
        raise InputError("its checksum is wrong")
    return data


def pack(members: dict[str, bytes], comment: bytes = b"") -> bytes:
    """Return a zip archive of the members."""
    packed = BytesIO()
    with ZipFile(packed, "w", ZIP_STORED) as archive:
        archive.comment = comment
        for name, member in members.items():
            info = ZipInfo(name)  # dated 1980
            info.create_system = 3
            archive.writestr(info, member)
    return packed.getvalue()


def unpack(data: bytes, *, compressed: bool = False) -> dict[str, bytes]:
    """Return the members of a zip archive, which are no larger than it unless `compressed`."""
    with ZipFile(BytesIO(data)) as archive:
        infos = archive.infolist()
        if compressed:
            return {info.filename: archive.read(info) for info in infos}
        if any(info.compress_type != ZIP_STORED for info in infos):
            raise InputError("a member is compressed")
        if sum(info.file_size for info in infos) > len(data):
            raise InputError("its members are larger than the file")
        names = [info.filename for info in infos]
        if len(set(names)) < len(names) or not all(map(PLAIN_NAME.fullmatch, names)):
            raise InputError("its members have odd names")
        return {name: archive.read(name) for name in names}


def to_npy(array: Array) -> bytes:
    """Return an array of numbers as an ``.npy`` member."""
    member = BytesIO()
    npy.write_array(member, array.astype(array.dtype.newbyteorder("<"), copy=False), (1, 0), False)
    return member.getvalue()


def from_npy(member: bytes) -> Array:
    """Return the array of an ``.npy`` member, whose header must fit its size."""
    stream = BytesIO(member)
    if npy.read_magic(stream) != (1, 0):
        raise InputError("an array is not of version 1.0 of the format npy")
    shape, _, dtype = npy.read_array_header_1_0(stream)
    if dtype.str not in DTYPES:
        raise InputError(f"an array holds {dtype}, which is none of {', '.join(DTYPES)}")
    if math.prod(shape) * dtype.itemsize != (size := len(member) - stream.tell()):
        raise InputError(f"an array of shape {shape} has {size} bytes")
    stream.seek(0)
    return npy.read_array(stream)


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
        temporary, file = create_temporary(target)
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
    """Remove the temporary files that killed processes left beside a file."""
    target = Path(path).resolve()
    for leftover in target.parent.glob(f"{_temporary_prefix(target)}*.tmp"):
        with suppress(OSError), ExitStack() as stack:  # another process writes it
            if os.name == "posix":  # elsewhere an open file cannot be removed
                file = stack.enter_context(leftover.open("rb"))
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            leftover.unlink()


def create_temporary(target: Path) -> tuple[Path, BinaryIO]:
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
