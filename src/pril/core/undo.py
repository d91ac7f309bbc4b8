"""One thread at a time learns, and a call that fails changes nothing."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary


class Aside:
    """What belongs to one estimator, not to its copies or files."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # held by the thread that learns
        self.valid: list[Any] | None = None  # hyper-parameters that were validated last
        # The parameter `classes`, its values, and the model's classes: compared last.
        self.agreed: tuple[Any, Any, Any] = (None, None, None)
        self.importances: tuple[Any, Any] = (None, None)  # of a memory


_asides: WeakKeyDictionary[Any, Aside] = WeakKeyDictionary()


def aside(estimator: Any) -> Aside:
    """Return what is kept beside an estimator."""
    found = _asides.get(estimator)
    return _asides.setdefault(estimator, Aside()) if found is None else found


def _unlock_all() -> None:
    for one in _asides.values():
        one.lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    # In a forked process, the threads that hold the locks do not exist.
    os.register_at_fork(after_in_child=_unlock_all)


@contextmanager
def unchanged_on_failure(estimator: Any) -> Iterator[dict[str, Any]]:
    """Let one thread at a time learn, and undo what a call that fails has changed."""
    with aside(estimator).lock:
        before = vars(estimator).copy()
        try:
            yield before
        except BaseException:
            estimator.__dict__ = before
            raise
