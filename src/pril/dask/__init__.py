"""The same learners on a Dask cluster. Needs Dask: ``pip install 'pril[dask]'``.

A table is a list of blocks of rows, each of them lazy. Two ways to learn from them:

- ``"chain"`` is the online algorithm: the model goes from block to block;
- ``"mix"`` is iterative parameter mixing (McDonald, Hall and Mann, 2010): in every round all blocks
  learn one pass from the common model, and the common model moves by the mean of their changes.

A task is a pure function of a model and a block: it learns on a copy, so that Dask may run it twice
or lend its inputs to another. Sums over blocks are added up in the order of the blocks, so that a
result depends neither on who computed what nor on what was lost and computed again.

Order of thresholds. Lemma 1 of the paper rests on integers, which a mean is not. So the mixed sums
`n` are brought back to ordered integers: isotonic regression, then rounding. Then the lemma holds
in the next pass of every block, and `decode` and `step` may rely on it in every row. What rounding
takes away is carried to the next round: else mean changes below a half, which is all that many or
short blocks bring, would be lost in every round.
"""

from __future__ import annotations

import asyncio
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, nullcontext
from copy import copy
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.isotonic import isotonic_regression
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from pril import _loop as loop
from pril import _ranks
from pril._online import Memory, OnlineClassifier, Patience, total_loss
from pril._registry import BY_NAME
from pril._rows import n_rows

try:
    import dask.array as da
    import distributed
    from dask import delayed
    from dask.delayed import Delayed
    from dask.diagnostics import ProgressBar
    from dask.optimization import cull
    from dask.utils import ensure_dict, is_dataframe_like, is_series_like
    from distributed.diagnostics.progressbar import TextProgressBar
except ImportError as error:
    raise ImportError("pril.dask needs Dask: pip install 'pril[dask]'") from error

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]
    Mode = Literal["chain", "mix"]
    Blocks = Sequence[Any]  # X and y of each block: a lazy pair, or a pair of lazy ones
    Warned = dict[tuple[type[Warning], str, int], str]  # by kind and place in the code

__all__ = ["ClusterLost", "fit", "fit_blocks", "latent", "predict", "score"]

# Measured (benchmarks/dask_quality.py): how far a round goes along the mean change of its blocks. A
# pass reaches a block's optimum along steep directions and goes a part of the way along flat ones:
# 1, the plain mean, is slow there, and from 2 on the steep ones swing ever wider. The last round
# goes to the plain mean, which has the least noise.
STRIDE = 1.5

FAN_IN = 16  # shares added up by one task
WINDOW = 8  # blocks of a chain that may be in memory at once: one is learned, others are read
NO_WORKER_LIMIT = 300.0  # seconds: an adaptive cluster may need minutes to start one
NO_SCHEDULER_LIMIT = 30.0  # seconds; as long as a client tries to connect

# What Dask raises where a cluster, its workers or its client are gone; versions have not all of it.
GONE = (
    CancelledError,
    distributed.KilledWorker,
    distributed.comm.CommClosedError,
    *(
        getattr(module, name)
        for module, name in (
            (distributed.client, "ClosedClientError"),
            (distributed.scheduler, "NoWorkerError"),
        )
        if hasattr(module, name)
    ),
)


# --- Learning ------------------------------------------------------------------------------------


def fit(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    mode: Mode = "mix",
    epochs: int | None = None,
    client: Any = None,
    progress: bool = False,
) -> Any:
    """Learn from scratch from a Dask array or DataFrame, and return an ordinary fitted estimator.

    Blocks are read anew in every round. If they fit into the cluster's memory, pass
    ``X.persist()`` and ``y.persist()``.

    Parameters
    ----------
    estimator : estimator
        One of the learners of this package. It is not changed: a clone learns. If its `classes` are
        None and y is no ordered Categorical, the labels are read once more to find them.
    X : dask Array or dask DataFrame of shape (n_samples, n_features)
        Features, in blocks of rows; blocks of an array may be CSR matrices.
    y : dask Array, Series or DataFrame, or names of columns
        Exact labels, or two columns with the lower and the upper end of each label, in the blocks
        of X. For a DataFrame X also the name of its column with the labels, or two names; the other
        columns are the features.
    mode : {"mix", "chain"}, default="mix"
        "mix" lets all blocks learn at once from a common model that moves by the mean of their
        changes, weighted by rows. "chain" learns block after block, without shuffling: what
        `partial_fit` gives in memory, bit for bit.
    epochs : int, default=None
        Passes over the blocks, at most. None is the estimator's `max_iter`.
    client : distributed.Client, default=None
        Where to compute. None is the active client, or without one Dask's own threads.
    progress : bool, default=False
        Whether to print Dask's progress bar: one for each round of "mix", one for every few blocks
        of "chain".

    Returns
    -------
    model : estimator
        The fitted clone. `t_`, `n_mistakes_` and `n_updates_` count over all blocks; `partial_fit`
        goes on from the common model.

    See Also
    --------
    fit_blocks : For blocks that come from elsewhere.

    Notes
    -----
    With `average`, a mixed model predicts with the mean of the blocks' iterates from the second
    half of the rounds. With `shuffle`, each block has a new order in each round, which depends on
    `random_state`, round and block alone. Rows are never moved between blocks: mixing wants every
    block to look like the whole, so shuffle a table that is sorted before.

    References
    ----------
    R. McDonald, K. Hall and G. Mann, "Distributed Training Strategies for the Structured
    Perceptron", NAACL 2010.

    Examples
    --------
    >>> import dask.array as da
    >>> import pril.dask
    >>> X = da.linspace(-3, 3, 600, chunks=100).reshape(-1, 1)
    >>> y = da.digitize(X[:, 0], [-1, 1])
    >>> model = pril.dask.fit(pril.PRIL(classes=[0, 1, 2]), X, y, mode="chain")
    >>> model.predict([[-2.0], [0.0], [2.0]])
    array([0, 1, 2])
    """
    model = _clone(estimator)
    blocks = _blocks(X, y)
    classes = _ranks.check_classes(model.classes) if model.classes is not None else _declared(X, y)
    cluster = Cluster(client, progress)
    return _learn(model, blocks, _columns(X, y), classes, mode, epochs, cluster)


def fit_blocks(
    estimator: Any,
    blocks: Blocks,
    *,
    mode: Mode = "mix",
    epochs: int | None = None,
    client: Any = None,
    progress: bool = False,
) -> Any:
    """Learn from scratch from lazy blocks of any origin, such as one for each file.

    Parameters
    ----------
    estimator : estimator
        One of the learners of this package. It is not changed: a clone learns.
    blocks : sequence of dask Delayed
        Each of them a pair, X and y of a block, as `partial_fit` takes them; or a pair of two
        Delayed.
    mode : {"mix", "chain"}, default="mix"
        As in `fit`.
    epochs : int, default=None
        As in `fit`.
    client : distributed.Client, default=None
        As in `fit`.
    progress : bool, default=False
        As in `fit`.

    Returns
    -------
    model : estimator
        The fitted clone.

    Examples
    --------
    >>> import dask
    >>> import numpy as np
    >>> import pril.dask
    >>> def read(start):
    ...     X = np.linspace(start, start + 6, 100).reshape(-1, 1)
    ...     return X, np.digitize(X[:, 0], [-1, 1])
    >>> blocks = [dask.delayed(read)(start) for start in (-3.3, -3.0, -2.7)]
    >>> model = pril.dask.fit_blocks(pril.PRIL(classes=[0, 1, 2], random_state=0), blocks)
    >>> model.predict([[-2.0], [0.0], [2.0]])
    array([0, 1, 2])
    """
    model = _clone(estimator)
    classes = None if model.classes is None else _ranks.check_classes(model.classes)
    return _learn(model, list(blocks), None, classes, mode, epochs, Cluster(client, progress))


def _clone(estimator: Any) -> Any:
    _check_learner(estimator)
    model = clone(estimator)
    model._validate_params()
    return model


def _check_learner(estimator: Any) -> None:
    if not isinstance(estimator, OnlineClassifier):
        raise TypeError(
            f"pril.dask runs the learners of this package, got {type(estimator).__name__}; apply a "
            "pipeline's other steps to X first, for example X.map_partitions(scaler.transform) of "
            "a DataFrame, X.map_blocks(scaler.transform) of an array"
        )


def _learn(
    model: Any,
    blocks: Blocks,
    columns: Any,
    classes: Array | None,
    mode: Mode,
    epochs: int | None,
    cluster: Cluster,
) -> Any:
    if mode not in ("mix", "chain"):
        raise ValueError(f"mode must be 'mix' or 'chain', got {mode!r}")
    whole = isinstance(epochs, (int, np.integer)) and not isinstance(epochs, bool)
    if epochs is not None and not (whole and epochs >= 1):
        raise ValueError(f"epochs must be a whole number from 1 on, or None, got {epochs!r}")
    name = type(model).__name__
    if mode == "mix" and not BY_NAME[name].mixes:
        raise ValueError(
            f"mode='mix' needs a model of few numbers, and the mean of {name}'s models has the "
            "support rows of all of them: use mode='chain', or PRIL on a feature map"
        )
    if len(blocks) == 0:
        raise ValueError("X has no blocks")
    if classes is None:
        classes = _find_classes(blocks, cluster)
    epochs = model.max_iter if epochs is None else epochs
    if mode == "chain":
        return _chain(model, blocks, classes, epochs, cluster)
    if columns is None:
        seen = delayed(find_columns)(delayed(model, traverse=False), blocks[0][0])
        model = cluster.compute(seen, "looking at the features")
    else:
        model._read_rows(columns, reset=True, min_rows=0)
    return _mix(model, blocks, classes, epochs, cluster)


class ClusterLost(RuntimeError):  # noqa: N818
    """The Dask cluster went away, has no workers, or cancelled the work.

    See Also
    --------
    fit : Raises it; the estimator given to it is as it was.

    Examples
    --------
    >>> import pril.dask
    >>> issubclass(pril.dask.ClusterLost, RuntimeError)
    True
    """


class Cluster:
    """Where tasks are computed: a distributed client's cluster, or Dask's own scheduler."""

    def __init__(self, client: Any, progress: bool) -> None:
        if client is None:
            try:
                client = distributed.Client.current()
            except ValueError:  # there is none
                client = None
        elif not isinstance(client, distributed.Client):
            raise TypeError(
                f"client must be a distributed.Client, got {client!r}; distributed.Client(address "
                "or cluster) makes one"
            )
        if client is not None and client.asynchronous:
            raise ValueError(
                f"client must wait for its results, got the asynchronous {client!r}: make one "
                "without asynchronous=True, in a thread without an event loop"
            )
        self.client = client
        self.progress = progress
        self.told: Warned = {}

    def tell(self, warned: Warned) -> None:
        """Show the user what was collected; of each kind one warning."""
        for kind, text in warned.items():
            if kind not in self.told:
                self.told[kind] = text
                warnings.warn_explicit(text, *kind)

    def compute(self, task: Any, doing: str) -> Any:
        """Return the result of a task; whatever happens, nothing of it is left running."""
        future = None
        try:
            with _thread_lent(), _heard() as warned:
                if self.client is None:
                    with ProgressBar() if self.progress else nullcontext():
                        result = task.compute()
                else:
                    future = self.client.compute(task)
                    result = self.client.sync(self._result, future)
        except GONE as error:
            raise ClusterLost(
                f"the Dask cluster went away, or cancelled the work, while {doing}; nothing was "
                f"learned: {str(error) or type(error).__name__}"
            ) from error
        finally:
            if future is not None:
                future.release()
        self.tell(warned)
        return result

    async def _result(self, future: Any) -> Any:
        """Wait for a future, but not for ever if there is no worker."""
        waiting = asyncio.ensure_future(self.client.gather(future, asynchronous=True))
        drawing = None
        if self.progress:
            bar = TextProgressBar([future], self.client.scheduler.address, start=False)
            drawing = asyncio.ensure_future(bar.listen())
        try:
            seen = time.monotonic()
            while not (await asyncio.wait([waiting], timeout=1.0))[0]:
                workers = await self._n_workers()
                missing = time.monotonic() - seen
                if workers:
                    seen = time.monotonic()
                elif workers is None and missing > NO_SCHEDULER_LIMIT:
                    raise CancelledError(f"no scheduler for {NO_SCHEDULER_LIMIT:g} s")
                elif missing > NO_WORKER_LIMIT:
                    raise CancelledError(f"no worker for {NO_WORKER_LIMIT:g} s")
            if drawing is not None:
                await asyncio.wait([drawing], timeout=1.0)  # for its last stroke
            return await waiting
        finally:
            waiting.cancel()
            if drawing is not None:
                drawing.cancel()

    async def _n_workers(self) -> int | None:
        """Return how many workers there are, None if the scheduler does not say."""
        scheduler = self.client.scheduler
        if scheduler is None or self.client.status != "running":
            return None
        try:
            return len(await asyncio.wait_for(scheduler.ncores(), timeout=5.0))
        except (OSError, TimeoutError):
            return None


@contextmanager
def _thread_lent() -> Iterator[None]:
    """Where this is a worker's task, lend its thread: what it waits for may need it."""
    try:
        distributed.secede()
        lent = True
    except (ValueError, KeyError):  # no task; or it is lent already
        lent = False
    try:
        yield
    finally:
        if lent:
            distributed.rejoin()


# --- Tasks: their names are what Dask's dashboard shows ------------------------------------------


@contextmanager
def _naming(block: int | None) -> Iterator[None]:
    """Let errors about rows name their block too, if it is known."""
    try:
        yield
    except (TypeError, ValueError) as error:
        if block is None:
            raise
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"block {block}: {error}") from error


_listening = threading.Lock()


@contextmanager
def _heard() -> Iterator[Warned]:
    """Collect warnings instead of showing them: those on a worker would be seen by nobody.

    How warnings are shown belongs to a process, not to a thread: the first who listens hears all.
    """
    found: Warned = {}
    if not _listening.acquire(blocking=False):
        yield found
        return
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield found
    finally:
        _listening.release()
    for one in caught:
        found.setdefault((one.category, one.filename, one.lineno), str(one.message))


def _tree(parts: list[Any], add: Callable[..., Any]) -> Any:
    """Return the lazy sum of lazy parts, always added up in the same order."""
    while len(parts) > 1:
        parts = [delayed(add)(parts[i : i + FAN_IN]) for i in range(0, len(parts), FAN_IN)]
    return parts[0]


def find_labels(y: Any, block: int) -> _ranks.Labels:
    """Return the labels that differ, with their places in the table."""
    with _naming(block), _heard():  # learning will say it again
        found = _ranks.distinct(_ranks.read(y))
    if found.vocabulary is None:
        fractions = np.flatnonzero((found.values % 1 > 0).any(axis=1))
        if fractions.size:  # will be refused: one is enough, all could be as many as rows
            keep = fractions[:1]
            found = found._replace(values=found.values[keep], places=(found.places[keep[0]],))
    return found._replace(places=tuple(f"block {block}, {place}" for place in found.places))


def join_labels(tables: list[_ranks.Labels]) -> _ranks.Labels:
    """Return the labels that differ among those of several blocks."""
    return _ranks.distinct(_ranks.stack(tables))


def find_columns(model: Any, X: Any) -> Any:
    """Return a model that knows the features of the first block."""
    model = copy(model)
    with _naming(0):
        model._read_rows(X, reset=True, min_rows=0)
    return model


def _find_classes(blocks: Blocks, cluster: Cluster) -> Array:
    tables = [delayed(find_labels)(block[1], b) for b, block in enumerate(blocks)]
    table = cluster.compute(_tree(tables, join_labels), "looking for the classes")
    return _ranks.encode(table)[0]


# --- Chain ---------------------------------------------------------------------------------------


class Past(NamedTuple):
    """A pass so far: its model, the loss, and what there was to warn of."""

    model: Any
    loss: int
    warned: Warned


def learn_in_turn(past: Past, block: Any, b: int, classes: Array) -> Past:
    """Return the pass after the b-th block."""
    model, loss, warned = past
    learner = copy(model)  # the model may be lent to another task, or asked for again
    with _naming(b), _heard() as heard:
        X, y = block
        intervals, record = learner._learn_once(X, y, classes, recording=learner.tol is not None)
    return Past(learner, loss + total_loss(intervals, None, record), heard | warned)


def _chain(model: Any, blocks: Blocks, classes: Array, epochs: int, cluster: Cluster) -> Any:
    patience = Patience(model.tol, model.n_iter_no_change)
    seen = mistakes = 0
    for n_iter in range(1, epochs + 1):
        loss = 0
        for start in range(0, len(blocks), WINDOW):
            past: Any = delayed(Past(model, loss, {}), traverse=False)
            for b, block in enumerate(blocks[start : start + WINDOW], start):
                past = delayed(learn_in_turn)(past, block, b, classes)
            model, loss, warned = cluster.compute(past, f"learning pass {n_iter} of {epochs}")
            cluster.tell(warned)
        if not hasattr(model, "_memory"):
            raise _no_rows()
        model.n_iter_ = n_iter
        rows, missed = model.t_ - seen, model.n_mistakes_ - mistakes
        seen, mistakes = model.t_, model.n_mistakes_
        if patience.ends(missed, loss / rows):
            break
    return model


def _no_rows() -> ValueError:
    return ValueError("X has no rows in any block, and at least one is needed to learn from")


# --- Mix -----------------------------------------------------------------------------------------


class Share(NamedTuple):
    """What blocks bring to a round: sums over their rows, so that shares add up."""

    rows: int
    u: Any  # change of the model's sums, times rows
    n: Any
    mean_u: Any  # iterates added up; 0 without an average
    mean_n: Any
    counts: Array
    loss: int
    warned: Warned


def learn_block(model: Any, block: Any, b: int, seed: tuple[int, ...] | None) -> Share:
    """Learn one pass over the b-th block from the common model, which stays as it is."""
    memory: Memory = model._memory.copy()
    with _naming(b), _heard() as warned:
        X, y = block
        rows = model._read_rows(X, reset=False, min_rows=0)
        table = _ranks.read(y)
        _ranks.check_length(table.values, range(n_rows(rows)))
        intervals = model._to_intervals(table, rows)
        n = len(intervals)
        order = None if seed is None else np.random.default_rng(seed).permutation(n)
        record = None if model.tol is None else model._blank_record(n)
        memory = model._learn(memory, rows, intervals, order, record)
    before, (after, mean) = model._memory.state, memory
    return Share(
        rows=n,
        u=n * (after.u - before.u),
        n=n * (after.n - before.n),
        mean_u=0 if mean is None else n * after.u - mean.u,
        mean_n=0 if mean is None else n * after.n - mean.n,
        counts=after.counts,
        loss=total_loss(intervals, order, record),
        warned=warned,
    )


def add_shares(shares: Sequence[Share]) -> Share:
    """Return what several shares bring together."""
    *sums, warned = zip(*shares, strict=True)
    first = {kind: text for one in reversed(warned) for kind, text in one.items()}
    return Share._make([*(sum(parts[1:], parts[0]) for parts in sums), first])


def _mix(model: Any, blocks: Blocks, classes: Array, epochs: int, cluster: Cluster) -> Any:
    model.classes_ = classes
    model._memory = model._blank_memory(None)
    seed = int(check_random_state(model.random_state).randint(2**31)) if model.shuffle else None
    patience = Patience(model.tol, model.n_iter_no_change)
    counts = np.zeros(3, dtype=np.int64)
    late: Any = None  # the second half of the rounds, or the last one where learning ends before
    carry = np.zeros_like(model._memory.state.n)
    for n_iter in range(1, epochs + 1):
        common = delayed(model, traverse=False)
        learned = [
            delayed(learn_block)(common, block, b, None if seed is None else (seed, n_iter, b))
            for b, block in enumerate(blocks)
        ]
        share = cluster.compute(_tree(learned, add_shares), f"learning round {n_iter} of {epochs}")
        if share.rows == 0:
            raise _no_rows()
        cluster.tell(share.warned)
        counts += share.counts
        late = share if n_iter <= epochs // 2 + 1 else add_shares([late, share])
        model = copy(model)  # the old one may still be lent to a task
        model.n_iter_ = n_iter
        if patience.ends(share.counts[1], share.loss / share.rows) or n_iter == epochs:
            break
        model._memory, carry = _moved(model, share, STRIDE, carry)
    memory, _ = _moved(model, share, 1.0, carry)
    model._memory = _with_past(memory, late, counts)
    return model


def _moved(model: Any, share: Share, stride: float, carry: Array) -> tuple[Memory, Array]:
    """Return the common model moved along the mean change of the blocks, without a past.

    `carry` is what rounding took from the thresholds' sums in the rounds before; the second result
    is what it has taken now.
    """
    state, mean = model._memory
    u = state.u + stride * share.u / share.rows
    exact = state.n + carry + stride * share.n / share.rows
    if len(exact):  # one class has no threshold
        exact = isotonic_regression(exact, increasing=False)
    n = np.round(exact)
    state = state._replace(u=u, n=n, shift=np.zeros(2), counts=np.zeros(3, dtype=np.int64))
    state.shift[0] = loop.common_shift(model._geometry(), state)
    memory = Memory(state, mean)
    if not memory.is_finite():
        raise ValueError(f"{type(model).__name__} overflowed in mixing: scale the features")
    return memory, exact - n


def _with_past(memory: Memory, rounds: Share, counts: Array) -> Memory:
    """Return the common model as if it alone had learned all rows, its mean being the rounds'."""
    state, mean = memory.state._replace(counts=counts), memory.mean
    if mean is not None:
        t = counts[0]
        # Whole numbers, as learning itself would leave them: so the means stay in order.
        mean_n = np.round(t * (rounds.mean_n / rounds.rows))
        mean = loop.Mean(t * (state.u - rounds.mean_u / rounds.rows), t * state.n - mean_n)
    return Memory(state, mean)


# --- Predicting ----------------------------------------------------------------------------------


def predict(estimator: Any, X: Any) -> Any:
    """Predict a label for each row, lazily.

    Parameters
    ----------
    estimator : estimator
        A fitted learner of this package.
    X : dask Array or dask DataFrame of shape (n_samples, n_features)
        Features, in blocks of rows.

    Returns
    -------
    labels : dask Array or dask Series of shape (n_samples,)
        The predicted classes, in the chunks or with the index of X.

    Examples
    --------
    >>> import dask.array as da
    >>> import pril.dask
    >>> X = da.linspace(-3, 3, 600, chunks=100).reshape(-1, 1)
    >>> y = da.digitize(X[:, 0], [-1, 1])
    >>> model = pril.dask.fit(pril.PRIL(classes=[0, 1, 2]), X, y, mode="chain")
    >>> pril.dask.predict(model, X)[[0, 300, 599]].compute()
    array([0, 1, 2])
    """
    _check_fitted(estimator)
    return _rated(estimator, X, "predict", estimator.classes_.dtype)


def latent(estimator: Any, X: Any) -> Any:
    """Return the score f(x) that the thresholds cut into classes, lazily.

    Parameters
    ----------
    estimator : estimator
        A fitted learner of this package with thresholds.
    X : dask Array or dask DataFrame of shape (n_samples, n_features)
        Features, in blocks of rows.

    Returns
    -------
    scores : dask Array or dask Series of shape (n_samples,)
        Comparable to the model's `thresholds_`, in the chunks or with the index of X.

    Examples
    --------
    >>> import dask.array as da
    >>> import pril.dask
    >>> X = da.linspace(-3, 3, 600, chunks=100).reshape(-1, 1)
    >>> y = da.digitize(X[:, 0], [-1, 1])
    >>> model = pril.dask.fit(pril.PRIL(classes=[0, 1, 2]), X, y, mode="chain")
    >>> bool((pril.dask.latent(model, X).compute() == model.latent(X.compute())).all())
    True
    """
    _check_fitted(estimator)
    if not hasattr(estimator, "latent"):
        raise TypeError(f"{type(estimator).__name__} has one score a class and no latent score")
    return _rated(estimator, X, "latent", np.dtype(np.float64))


def score(estimator: Any, X: Any, y: Any) -> Any:
    """Return the share of predictions inside their interval, lazily.

    Parameters
    ----------
    estimator : estimator
        A fitted learner of this package.
    X : dask Array or dask DataFrame of shape (n_samples, n_features)
        Features, in blocks of rows.
    y : dask Array, Series or DataFrame, or names of columns
        Exact labels or intervals, as in `fit`.

    Returns
    -------
    score : dask Delayed
        Its `compute` gives a float between 0 and 1.

    Examples
    --------
    >>> import dask.array as da
    >>> import pril.dask
    >>> X = da.linspace(-3, 3, 600, chunks=100).reshape(-1, 1)
    >>> y = da.digitize(X[:, 0], [-1, 1])
    >>> model = pril.dask.fit(pril.PRIL(classes=[0, 1, 2]), X, y, mode="chain")
    >>> pril.dask.score(model, X, y).compute() == model.score(X.compute(), y.compute())
    True
    """
    _check_fitted(estimator)
    model = delayed(estimator, traverse=False)
    hits = [delayed(count_hits)(model, block, b) for b, block in enumerate(_blocks(X, y))]
    return delayed(share_of_hits)(_tree(hits, add_hits))


def count_hits(model: Any, block: Any, b: int) -> tuple[int, int]:
    """Return how many predictions are inside their interval, and of how many."""
    X, y = block
    with _naming(b):
        if X.shape[0] == 0:  # nothing to predict, but labels would be without their rows
            _ranks.check_length(_ranks.read(y).values, range(0))
            return 0, 0
        return round(model.score(X, y) * X.shape[0]), X.shape[0]


def add_hits(parts: list[tuple[int, int]]) -> tuple[int, int]:
    """Add up hits and rows."""
    return sum(hits for hits, _ in parts), sum(rows for _, rows in parts)


def share_of_hits(counts: tuple[int, int]) -> float:
    """Return hits over rows."""
    if counts[1] == 0:
        raise ValueError("X has no rows in any block, and at least one is needed for a score")
    return counts[0] / counts[1]


def _check_fitted(estimator: Any) -> None:
    _check_learner(estimator)
    check_is_fitted(estimator)


def _rated(estimator: Any, X: Any, method: str, dtype: Any) -> Any:
    model = delayed(estimator, traverse=False)  # sent once, not with every block
    if isinstance(X, da.Array):
        _row_blocks(X, "X")
        options = {"dtype": dtype, "drop_axis": 1, "meta": np.empty(0, dtype=dtype)}
        return X.map_blocks(rate_block, model, method, dtype, **options)
    if not is_dataframe_like(X) or not hasattr(X, "map_partitions"):
        raise _not_lazy("X", X)
    import pandas as pd

    dtype = pd.Series(estimator.classes_).dtype if method == "predict" else dtype
    meta = pd.Series(dtype=dtype, name=method, index=X._meta.index)
    return X.map_partitions(rate_partition, model, method, dtype, meta=meta)


def rate_block(X: Any, model: Any, method: str, dtype: Any, block_id: Any = None) -> Array:
    """Return what a model's method says of each row of a block, which may have none."""
    if X.shape[0] == 0:
        return np.empty(0, dtype=dtype)
    with _naming(None if block_id is None else block_id[0]):
        rated: Array = getattr(model, method)(X)
    return rated


def rate_partition(X: Any, model: Any, method: str, dtype: Any, partition_info: Any = None) -> Any:
    """Return what a model's method says of each row of a partition, with its index."""
    import pandas as pd

    block = None if partition_info is None else (partition_info["number"],)
    rated = rate_block(X, model, method, None, block)
    return pd.Series(rated, index=X.index, name=method, dtype=dtype)


# --- Blocks of rows ------------------------------------------------------------------------------


def _blocks(X: Any, y: Any) -> Blocks:
    """Return the lazy blocks of X and y, row by row in step."""
    names = _names(X, y)
    if names:
        return [delayed(split_columns)(part, names) for part in _apart(X.to_delayed())]
    if isinstance(X, da.Array) and isinstance(y, da.Array):
        known = not np.isnan([*X.shape, *y.shape]).any()
        if known and X.shape[0] != y.shape[0]:
            raise ValueError(f"X has {X.shape[0]} rows, y has {y.shape[0]} labels")
        if known and X.chunks[0] != y.chunks[0]:
            y = y.rechunk({0: X.chunks[0]})
    parts, targets = _row_blocks(X, "X"), _row_blocks(y, "y")
    if len(parts) != len(targets):
        raise ValueError(
            f"X has {len(parts)} blocks and y has {len(targets)}: they must hold the same rows, "
            "for example as columns of one DataFrame, or after rechunk or repartition"
        )
    known = all(getattr(part, "known_divisions", False) for part in (X, y))
    if known and X.divisions != y.divisions:
        raise ValueError(
            f"X has the divisions {_ranks.named(X.divisions)} and y has "
            f"{_ranks.named(y.divisions)}: they must hold the same rows, for example as columns of "
            "one DataFrame, or after y.repartition(divisions=X.divisions)"
        )
    return list(zip(parts, targets, strict=True))


def _row_blocks(array: Any, name: str) -> list[Any]:
    if not isinstance(array, da.Array):
        lazy = hasattr(array, "to_delayed") and hasattr(array, "npartitions")
        if not lazy or not (is_dataframe_like(array) or (name == "y" and is_series_like(array))):
            raise _not_lazy(name, array)
        return _apart(array.to_delayed())
    if array.ndim not in ((2,) if name == "X" else (1, 2)):
        raise ValueError(f"{name} must be a table of rows, got an array of shape {array.shape}")
    if array.ndim == 2 and array.numblocks[1] > 1:
        if name == "X":
            raise ValueError(
                f"X is cut into {array.numblocks[1]} blocks of columns, and a learner needs whole "
                "rows: use X.rechunk({1: -1})"
            )
        array = array.rechunk({1: -1})
    return _apart(array.to_delayed().ravel())


def _apart(parts: Sequence[Any]) -> list[Any]:
    """Return lazy parts of a table, each with its own tasks only.

    They come with those of the whole table, which Dask would go through for every part.
    """
    graph = ensure_dict(parts[0].__dask_graph__()) if len(parts) else {}
    return [Delayed(part.key, cull(graph, [part.key])[0]) for part in parts]


def _not_lazy(name: str, given: Any) -> TypeError:
    return TypeError(
        f"{name} must be a Dask array or DataFrame, got {type(given).__name__}; the estimator's "
        "own methods take what is in memory"
    )


def _names(X: Any, y: Any) -> list[Any]:
    """Return the columns of X that are its labels, if y names them."""
    frame = is_dataframe_like(X) and hasattr(X, "to_delayed")
    kinds = (str, int, np.integer) if frame else str  # numbers would be labels elsewhere
    names = [y] if isinstance(y, kinds) else y
    if not isinstance(names, list | tuple) or not all(isinstance(name, kinds) for name in names):
        return []
    if not frame:
        raise TypeError(f"y names columns, but X is no Dask DataFrame: {type(X).__name__}")
    if len(names) not in (1, 2):
        raise ValueError(
            f"y must name one column, or a lower and an upper end, got {_ranks.named(names)}"
        )
    missing = [name for name in names if name not in X.columns]
    if missing:
        raise ValueError(f"X has no column {missing[0]!r}, only {_ranks.named(X.columns)}")
    return list(names)


def _columns(X: Any, y: Any) -> Any:
    """Return X without its rows, or None if its columns are not known before it is read."""
    if not isinstance(X, da.Array):
        return X._meta.drop(columns=_names(X, y))
    return None if np.isnan(X.shape[1]) else np.empty((0, X.shape[1]))


def split_columns(part: Any, names: list[Any]) -> tuple[Any, Any]:
    """Return features and labels of a partition that holds both."""
    return part.drop(columns=names), part[names[0] if len(names) == 1 else names]


def _declared(X: Any, y: Any) -> Array | None:
    """Return the classes of an ordered Categorical whose categories are known beforehand."""
    names = _names(X, y)
    columns = X[names] if names else y
    if isinstance(columns, da.Array):
        return None
    from dask.dataframe.utils import UNKNOWN_CATEGORIES

    meta = columns._meta
    dtypes = [meta.dtype] if meta.ndim == 1 else list(meta.dtypes)
    if any(UNKNOWN_CATEGORIES in getattr(dtype, "categories", ()) for dtype in dtypes):
        return None
    table = _ranks.read(meta.iloc[:, 0] if len(names) == 1 else meta)
    return table.vocabulary if table.ordered else None
