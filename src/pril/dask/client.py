"""Where tasks are computed: on a Dask cluster, or by Dask's own threads.

A cluster may be lost, its workers may lack pril, and warnings on a worker are seen by nobody: this
module turns the first two into one error and brings the warnings back.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager, nullcontext, suppress
from multiprocessing import resource_tracker
from pkgutil import resolve_name
from typing import Any

import distributed
from dask import delayed
from dask.delayed import Delayed
from dask.diagnostics import ProgressBar
from distributed.diagnostics.progressbar import TextProgressBar
from distributed.utils import silence_logging_cmgr

from pril.core.words import count
from pril.errors import InputError, InputTypeError, UnavailableError
from pril.likelihood import rows

log = logging.getLogger(__name__)

# Text of the first warning of each category and line of code.
CollectedWarnings = dict[tuple[type[Warning], str, int], str]

# Seconds: an adaptive cluster may need minutes to start a worker. Dask's own limit is for the whole
# scheduler, which may serve others.
NO_WORKER_LIMIT = 300.0
NO_SCHEDULER_LIMIT = 30.0  # seconds; as long as a client tries to connect
LOOPBACK = "127.0.0.1"  # no other machine can connect to local processes
# About the least memory that a worker takes: with pril alone; and for each thread, in copies of the
# features of a block, which it reads, checks and copies (5.5 were measured, of 600,000 rows of 20).
WORKER_BYTES, BLOCK_COPIES = 250e6, 5
IMPORT_LIMIT = 60.0  # seconds: a first import may read hundreds of files over a network

# What Dask raises when a cluster, its workers or its client are gone. The last two are not in every
# version.
CLUSTER_ERRORS = (
    CancelledError,
    distributed.KilledWorker,
    distributed.comm.CommClosedError,
    getattr(distributed.client, "ClosedClientError", CancelledError),
    getattr(distributed.scheduler, "NoWorkerError", CancelledError),
)


class ClusterLost(RuntimeError):  # noqa: N818
    """The Dask cluster is gone, has no workers, cancelled the work, or cannot import pril.

    See Also
    --------
    fit : Raises it; the estimator passed to it is unchanged.
    """


class Cluster:
    """Computes tasks with a distributed client, or without one with Dask's own scheduler."""

    def __init__(self, client: distributed.Client | None, progress: bool) -> None:
        if client is None:
            with suppress(ValueError):  # no client is active
                client = distributed.Client.current()
        elif not isinstance(client, distributed.Client):
            raise InputTypeError(
                f"client must be a distributed.Client, got {client!r}; distributed.Client(address "
                "or cluster) makes one"
            )
        if client is not None and client.asynchronous:
            raise InputError(
                f"client must be synchronous, got the asynchronous {client!r}: make one without "
                "asynchronous=True, in a thread without an event loop"
            )
        self.client: Any = client
        self.progress = progress
        self.workers_checked = client is None
        self.shown: CollectedWarnings = {}

    def show_warnings(self, collected: CollectedWarnings) -> None:
        """Warn the caller, once for each category and line of code."""
        for source, text in collected.items():
            if source not in self.shown:
                self.shown[source] = text
                warnings.warn_explicit(text, *source)

    def compute(self, task: Delayed, doing: str) -> Any:
        """Return the result of a task. When it fails, cancel what is still running."""
        with self._waiting(doing):
            if self.client is None:
                with ProgressBar() if self.progress else nullcontext():
                    return task.compute()
            if not self.workers_checked:
                self.client.sync(self._check_workers)
            future = self.client.compute(task)
            try:
                return self.client.sync(self._result, future, self.progress)
            finally:
                future.release()

    @contextmanager
    def _waiting(self, doing: str, *more: type[Exception]) -> Iterator[None]:
        """Raise ClusterLost for a cluster that is lost, and for `more` errors; show warnings."""
        try:
            with seceded(), collect_warnings() as collected:
                yield
        except (*CLUSTER_ERRORS, *more) as error:
            raise ClusterLost(
                f"the Dask cluster went away, or cancelled the work, while {doing}; nothing was "
                f"learned: {str(error) or type(error).__name__}"
            ) from error
        except ClusterLost:
            raise
        except RuntimeError as error:  # Dask's, when the scheduler cannot read the tasks
            if getattr(error.__cause__, "name", None) != "pril":
                raise
            raise _cannot_import("scheduler", error.__cause__) from error
        self.show_warnings(collected)

    def check_memory(self, n_rows: int, n_features: float) -> None:
        """Refuse a worker whose memory is too small for blocks of this size: Dask would pause it.

        Where Dask starts workers as they are needed, there may be none to look at.
        """
        workers = self.client.sync(self._workers) if self.client is not None else None
        block = 8.0 * n_rows * n_features
        for address, worker in sorted((workers or {}).items()):
            threads, there = worker["nthreads"], worker["memory_limit"]
            needed = WORKER_BYTES + threads * BLOCK_COPIES * block
            what = f"{count(threads, 'thread')} and blocks of {n_rows:,} rows"
            log.info("worker %s: about %.0f MB for %s", address, needed / 1e6, what)
            if there and there < needed:
                raise InputError(
                    f"the Dask worker {address} has {there / 1e6:,.0f} MB of memory, and needs "
                    f"about {needed / 1e6:,.0f} MB for {what}, {block / 1e6:,.0f} MB each: make "
                    "the blocks smaller, or start workers with more memory or fewer threads"
                )

    # --- Tasks that must stay on their worker ---

    def addresses(self) -> list[str]:
        """Return the addresses of all workers; there is at least one."""
        self.client.sync(self._check_workers)
        if not (workers := self.client.sync(self._workers)):
            raise ClusterLost("the Dask cluster went away; nothing was learned")
        return sorted(workers)

    def hold(self, tasks: dict[str, Any]) -> dict[str, Any]:
        """Compute a task on each of some workers; return futures of results that stay there."""
        return {
            address: self.client.compute(task, workers=[address], allow_other_workers=False)
            for address, task in tasks.items()
        }

    def ask(
        self, held: dict[str, Any], doing: str, function: Callable[..., Any], *arguments: object
    ) -> dict[str, Any]:
        """Call a function with what each worker holds; return the results by address."""
        futures = {
            address: self.client.submit(function, future, *arguments, workers=[address], pure=False)
            for address, future in held.items()
        }
        try:
            with self._waiting(doing, OSError):
                return dict(self.client.sync(self._result, futures))
        finally:
            self.forget(futures)

    def forget(self, futures: dict[str, Any]) -> None:
        """Cancel what is still running, and release the results, if the cluster is there."""
        running = [future for future in futures.values() if not future.done()]
        with suppress(*CLUSTER_ERRORS, OSError, TimeoutError, RuntimeError):
            self.client.cancel(running, force=True)
        for future in futures.values():
            future.release()

    async def _check_workers(self) -> None:
        """Refuse workers that cannot import pril. If there are none, wait for the first one.

        Such a worker would close itself at the first task, before it reports an error.
        """
        first = self.client.submit(resolve_name, "pril.dask:__name__", pure=False)
        try:
            with suppress(ImportError):  # raised again below, with the worker's address
                await self._result(first)
        finally:
            first.release()
        importing = self.client.run(resolve_name, "pril.dask:__name__", on_error="return")
        with suppress(TimeoutError):  # a worker that does not answer: Dask deals with it
            for address, answer in (await asyncio.wait_for(importing, IMPORT_LIMIT)).items():
                if isinstance(answer, ImportError):
                    raise _cannot_import(f"worker {address}", answer) from answer
        self.workers_checked = True

    async def _result(self, wanted: Any, progress: bool = False) -> Any:
        """Wait for a future, or for some, each on its worker, by their addresses.

        Give up when there are no workers, or no scheduler, for too long; or when such a worker is
        lost.
        """
        homes = wanted if isinstance(wanted, dict) else {}
        waiting = asyncio.ensure_future(self.client.gather(wanted, asynchronous=True))
        drawing = None
        if progress:
            bar = TextProgressBar([wanted], self.client.scheduler.address, start=False)
            drawing = asyncio.ensure_future(bar.listen())
        try:
            last_seen = time.monotonic()
            while not (await asyncio.wait([waiting], timeout=1.0))[0]:
                workers = await self._workers()
                missing = time.monotonic() - last_seen
                if workers:
                    last_seen = time.monotonic()
                elif workers is None and missing > NO_SCHEDULER_LIMIT:
                    raise CancelledError(f"no scheduler for {NO_SCHEDULER_LIMIT:g} s")
                elif missing > NO_WORKER_LIMIT:
                    raise CancelledError(f"no worker for {NO_WORKER_LIMIT:g} s")
                for address, future in homes.items():
                    status = (workers or {}).get(address, {}).get("status")
                    if workers is not None and status != "running" and not future.done():
                        reason = "it was killed, ran out of memory, or was retired"
                        raise CancelledError(f"lost the worker {address}: {reason}")
            if drawing is not None:
                await asyncio.wait([drawing], timeout=1.0)  # until the bar shows 100 %
            return await waiting
        finally:
            waiting.cancel()
            if drawing is not None:
                drawing.cancel()

    async def _workers(self) -> dict[str, dict[str, Any]] | None:
        """Return what the scheduler says of each worker, by its address; None if it is silent."""
        scheduler = self.client.scheduler
        if scheduler is None or self.client.status != "running":
            return None
        try:
            identity = await asyncio.wait_for(scheduler.identity(n_workers=-1), timeout=5.0)
        except (OSError, TimeoutError):
            return None
        return identity["workers"]


def _cannot_import(where: str, error: BaseException | None) -> ClusterLost:
    return ClusterLost(
        f"the Dask {where} cannot import pril: {error}; install pril with its extra 'dask' on the "
        "scheduler and on every worker"
    )


@contextmanager
def seceded() -> Iterator[None]:
    """Inside a worker task, secede so that nested tasks can run."""
    try:
        distributed.secede()
        inside_task = True
    except (ValueError, KeyError):  # not inside a task; or it has seceded already
        inside_task = False
    try:
        yield
    finally:
        if inside_task:
            distributed.rejoin()


_collecting = threading.Lock()


@contextmanager
def collect_warnings() -> Iterator[CollectedWarnings]:
    """Collect warnings instead of showing them.

    Filters of warnings belong to the process, not to a thread. So one thread collects at a time,
    and collects the warnings of all threads; the dicts of the others stay empty.
    """
    collected: CollectedWarnings = {}
    if not _collecting.acquire(blocking=False):
        yield collected
        return
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield collected
    finally:
        _collecting.release()
    for warning in caught:
        source = warning.category, warning.filename, warning.lineno
        collected.setdefault(source, str(warning.message))


def tree_sum(parts: list[Any], add: Callable[..., Any]) -> Any:
    """Return the lazy sum of lazy parts, in the order of `rows.total`."""
    size = rows.FAN_IN
    while len(parts) > 1:
        parts = [delayed(add)(parts[i : i + size]) for i in range(0, len(parts), size)]
    return parts[0]


# --- A client of a running cluster, or of local processes that end with the command --------------


@contextmanager
def connected(address: str | None, workers: int | None, timeout: str = "10s") -> Iterator[Any]:
    """Yield a client; raise UnavailableError for a cluster that is lost or cannot work."""
    with silence_logging_cmgr(logging.CRITICAL):
        try:
            with _client(address, workers, timeout) as client:
                yield client
        except RuntimeError as error:  # ClusterLost, or Dask's own if workers have other versions
            raise UnavailableError(str(error)) from None


@contextmanager
def _client(address: str | None, workers: int | None, timeout: str) -> Iterator[Any]:
    if address is None:
        with _without_ctrl_c():
            cluster = distributed.LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                host=LOOPBACK,
                dashboard_address=f"{LOOPBACK}:0",  # without one, Dask wants port 8787
                scheduler_kwargs={"dashboard": False},
                silence_logs=logging.CRITICAL,
            )
        with cluster, distributed.Client(cluster, set_as_default=False) as client:
            yield client
        return
    try:
        client = distributed.Client(address, timeout=timeout, set_as_default=False)
    except OSError as error:
        raise UnavailableError(f"no Dask scheduler answers at {address}: {error}") from None
    except (TypeError, ValueError) as error:
        raise InputError(f"the address of the Dask scheduler, {address}: {error}") from None
    with client:
        try:
            client.wait_for_workers(1, timeout=timeout)
        except TimeoutError:  # an adaptive cluster starts workers later
            warnings.warn(
                f"the Dask scheduler at {address} has no workers yet; start some with: "
                f"dask worker {address}",
                stacklevel=2,
            )
        yield client


@contextmanager
def _without_ctrl_c() -> Iterator[None]:
    """Start workers that ignore Ctrl-C: this process ends them.

    They inherit the blocked signal; so does Dask's thread, which restarts workers that die.
    """
    if os.name != "posix":  # other systems cannot block signals
        yield
        return
    resource_tracker.ensure_running()  # else Dask's thread starts it, which unblocks the signal
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
