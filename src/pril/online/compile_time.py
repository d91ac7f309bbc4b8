"""How long compiling takes, and a line that says so while it does."""

from __future__ import annotations

import gc
import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

log = logging.getLogger(__name__)

TOLD_AFTER = 1.0  # seconds of compiling


class CompileTime:
    """The seconds for which this process has compiled."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.was_told = False
        self.is_counting = False

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count what is done meanwhile; if it takes long, log a line, once in a process.

        The garbage collector rests: it would take a tenth of the time, and find little.
        """
        if self.is_counting:  # what a function calls is compiled with it
            yield
            return
        self.is_counting, collects = True, gc.isenabled()
        gc.disable()
        timer, start = threading.Timer(TOLD_AFTER, self._tell), time.monotonic()
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            if collects:
                gc.enable()
            self.is_counting = False
            self.seconds += time.monotonic() - start

    def _tell(self) -> None:
        from multiprocessing import parent_process  # most processes never tell

        if not self.was_told and parent_process() is None:  # workers would all tell
            self.was_told = True
            # A warning, because Python shows it if nothing else was asked for.
            log.warning("compiling, once: the code is kept on disk")


compile_time = CompileTime()
