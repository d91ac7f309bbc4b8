"""A client of a running cluster, or of local processes that end with the command."""

from __future__ import annotations

import logging
import os
import signal
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from typing import Any

from distributed import Client, LocalCluster
from distributed.utils import silence_logging_cmgr

from pril.errors import InputError, UnavailableError

LOOPBACK = "127.0.0.1"  # no other machine can connect to local processes


@contextmanager
def connected(address: str | None, workers: int | None, timeout: str = "10s") -> Iterator[Any]:
    """Yield a client; a cluster that is lost, or cannot work, is an UnavailableError."""
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
            cluster = LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                host=LOOPBACK,
                dashboard_address=f"{LOOPBACK}:0",  # without one, Dask wants port 8787
                scheduler_kwargs={"dashboard": False},
                silence_logs=logging.CRITICAL,
            )
        with cluster, Client(cluster, set_as_default=False) as client:
            yield client
        return
    try:
        client = Client(address, timeout=timeout, set_as_default=False)
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
