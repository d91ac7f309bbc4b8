"""One folder of compiled code for many processes, where each function is compiled once.

Numba finds this module by NUMBA_CACHE_LOCATOR_CLASSES, in every process of the tests. Its own cache
numbers files, and two processes may take the same number. Here a file is named by what it holds,
and the process that misses one holds a lock until it has written it; the others wait.
"""

import hashlib
import os
from contextlib import suppress

from filelock import FileLock, Timeout
from numba.core import caching

PATIENCE = 120  # seconds to wait for another process, which may have failed
held = {}


class NamedFiles(caching.IndexDataCacheFile):
    """A file for each signature, and no index."""

    def load(self, key):
        path, whole = self._named(key)
        data = self._read(path, whole)
        if data is None:
            os.makedirs(self._cache_path, exist_ok=True)
            lock = FileLock(f"{path}.lock", PATIENCE)
            with suppress(Timeout):
                lock.acquire()
            data = self._read(path, whole)
            if data is None:
                held[path] = lock
            else:
                lock.release()
        return data

    def save(self, key, data):
        path, whole = self._named(key)
        self._save_data(path, (whole, data))
        if path in held:
            held.pop(path).release()

    def _named(self, key):
        whole = self._source_stamp, self._version, key
        name = hashlib.sha256(repr(whole).encode()).hexdigest()[:24]
        return self._data_path(f"{self._index_name}.{name}"), whole

    def _read(self, path, whole):
        try:
            found, data = self._load_data(path)
        except OSError:
            return None
        return data if found == whole else None


class Locator(caching.UserProvidedCacheLocator):
    """Numba's own, of the folder NUMBA_CACHE_DIR; it is asked for before the files are opened."""

    @classmethod
    def from_function(cls, py_func, py_file):
        caching.IndexDataCacheFile = NamedFiles
        return super().from_function(py_func, py_file)
