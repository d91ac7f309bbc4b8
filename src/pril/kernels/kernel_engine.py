"""How kernel PRIL learns and rates: block by block, on the device of the rows."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse

from pril.core import loop_types as types
from pril.core import rating
from pril.core.arrays import Array
from pril.core.rating import Ratings
from pril.core.rows import batches, check_cells, not_finite_error
from pril.core.scikit import get_namespace, validate_data
from pril.errors import InputError
from pril.kernels.values import Kernel, joined, like, namespace, roomy, scattered, taken, to_numpy
from pril.labels import ranking
from pril.online.linear_engine import Batch, LinearEngine
from pril.online.memory import Memory

# Rows learned at a time: their own kernel matrix is kept, and copied from a device to the host.
# Measured by benchmarks/kernel_speed.py.
BLOCK = 1024
UNLIMITED = np.iinfo(np.int64).max


class Support(NamedTuple):
    """What the kernel learner learned: support rows with their coefficients, and thresholds."""

    rows: Any  # the support rows, or their positions if the kernel is precomputed
    coef: Any  # (m,), on the device of the rows
    sums: Any  # (m,), for the average: each move of a coefficient, times the rounds before it
    source: Array  # (m,), the row of `fit`, or of the stream, that each row came from
    origin: int  # the source of the first row of this call or, between calls, of the next one
    base: Memory  # thresholds and counters, for no features

    def to_plain(self) -> dict[str, Any]:
        """Return what was learned as plain data, for files and copies."""
        return self._asdict() | {"base": self.base.to_plain()}

    def copy(self) -> Support:
        """Return a copy to learn on; the arrays of support rows are never changed."""
        return self._replace(base=self.base.copy())

    @property
    def counts(self) -> Array:
        """Rounds, mistakes and updates, as those of `Memory`."""
        return self.base.counts

    @property
    def averages(self) -> bool:
        """Whether there are sums of a mean."""
        return self.base.averages

    def predicting_coef(self) -> Any:
        """Return the coefficients that predict: those of the mean, if there is one."""
        weight = float(self.base.state.clock[0])
        if not self.averages or weight == 0.0:
            return self.coef
        return self.coef - self.sums / weight

    def places(self, n: int) -> Array:
        """Return where each of the n rows of this call is among the support rows, -1 if nowhere."""
        of_call, places = np.flatnonzero(self.source >= self.origin), np.full(n, -1)
        places[self.source[of_call] - self.origin] = of_call
        return places

    def with_room(self, n: int, rows: Any) -> Support:
        """Return a support that shares no array, with room to `add` n rows like these."""
        kept = self.rows
        if not issparse(kept):
            xp = namespace(kept)
            kept = roomy(xp.astype(kept, xp.result_type(kept.dtype, rows.dtype)), n)
        return self._replace(rows=kept, coef=roomy(self.coef, n), sums=roomy(self.sums, n))

    def without_room(self) -> Support:
        """Return the support with arrays of just its rows."""
        n = len(self.source)
        if n == self.coef.shape[0]:
            return self
        rows = self.rows if issparse(self.rows) else roomy(self.rows[:n, ...], 0)
        return self._replace(rows=rows, coef=roomy(self.coef[:n], 0), sums=roomy(self.sums[:n], 0))

    def add(self, rows: Any, coef: Array, sums: Array, source: Array) -> Support:
        """Return the support with more rows, written into its room."""
        start, stop = len(self.source), len(self.source) + len(source)
        if issparse(self.rows) or issparse(rows):
            rows = joined(self.rows[:start, ...], rows)
        else:
            self.rows[start:stop, ...] = rows
            rows = self.rows
        self.coef[start:stop] = like(coef, self.coef)
        self.sums[start:stop] = like(sums, self.sums)
        return self._replace(rows=rows, source=np.concatenate([self.source, source]))

    def move(self, places: Array, coef: Array, sums: Array) -> Support:
        """Return the support with these numbers added to the coefficients at some places."""
        if len(places) == 0:
            return self
        return self._replace(
            coef=self.coef + scattered(coef, places, self.coef),
            sums=self.sums + scattered(sums, places, self.sums),
        )

    def keep(self, chosen: Array) -> Support:
        """Return the support with the chosen rows only."""
        rows, coef, sums, source = (taken(part, chosen) for part in self[:4])
        return self._replace(rows=rows, coef=coef, sums=sums, source=source)

    def compact(self) -> Support:
        """Return the support without the rows whose coefficients are zero."""
        used = to_numpy(self.coef) != 0.0
        if self.base.averages:
            used |= to_numpy(self.sums) != 0.0
        return self.keep(np.flatnonzero(used))

    def after(self, n: int) -> Support:
        """Return the support at the end of a call with n rows, labelled or not."""
        return self._replace(origin=self.origin + n)


class Points(NamedTuple):
    """Checked rows, to be compared by the kernel."""

    X: Any


class KernelBlock(NamedTuple):
    """Some of the rows of a call, to be learned together."""

    X: Any
    own: Any  # what is kept of a row that becomes a support row: itself, or its position
    source: Array  # where each row comes from, as in `Support`
    places: Array  # where each row is among the support rows, -1 if it is not one
    intervals: Array
    weights: Array | None
    record: types.Record | None


class KernelEngine(NamedTuple):
    """How kernel PRIL learns and rates. What it has learned is a `Support`."""

    linear: LinearEngine  # the rule, for thresholds and coefficients
    kernel: Kernel
    budget: int | None = None  # the largest number of support rows
    n_jobs: int | None = None  # threads that compute kernel values on a CPU
    settles: bool = True  # as in `LinearEngine`
    mixes: bool = False  # a mean of several models would hold all their support rows
    may_lose_mean: bool = True  # once a support row is dropped, there is none any more

    @property
    def is_precomputed(self) -> bool:
        """Whether rows are kernel values."""
        return self.kernel.kernel == "precomputed"

    # --- Checking ---

    def read(self, owner: Any, X: Any, *, reset: bool, min_rows: int) -> Points:
        """Return the rows of X; the owner knows the features, or learns of them if `reset`."""
        xp, _ = get_namespace(X)
        check_cells(X)
        X = validate_data(
            owner,
            X,
            reset=reset,
            accept_sparse=False if self.is_precomputed else "csr",
            dtype=(xp.float64, xp.float32),
            ensure_all_finite=False,
            ensure_min_samples=min_rows,
        )
        # A bounded kernel can return finite values for rows that are not: check the rows here.
        names = getattr(owner, "feature_names_in_", None)
        if issparse(X):
            if not np.isfinite(X.data).all():
                rows = types.Csr(X.data, X.indices, X.indptr, 0.0)
                raise not_finite_error(rows, self.linear.name, names, None)
        elif not bool(xp.all(xp.isfinite(X))):
            raise not_finite_error(types.Dense(to_numpy(X), 0.0), self.linear.name, names, None)
        if self.is_precomputed and reset and X.shape[0] != X.shape[1]:
            raise InputError(
                "kernel='precomputed' needs a square matrix, the kernel values of all pairs of "
                f"rows, got X of shape {tuple(X.shape)}"
            )
        return Points(X)

    def inspect_rows(self, rows: Points) -> None:
        """Warn of nothing: most kernels see differences between rows only."""

    def inspect_means(self, owner: Any, rows: Points) -> None:
        """Warn of nothing."""

    def inspect_labels(self, table: ranking.Labels, intervals: Array) -> None:
        """Refuse no labels."""

    # --- Learning ---

    def n_scores(self, n_classes: int) -> int:
        """Return the number of scores of a row."""
        return 1

    def blank(self, n_features: int, n_classes: int, rows: Any = None) -> Support:
        """Return what is known before the first of these rows."""
        empty = np.empty(0) if issparse(rows.X) else like(np.empty(0), rows.X)
        none = np.empty(0, dtype=np.int64)
        first = none if self.is_precomputed else rows.X[:0, ...]
        return Support(first, empty, empty, none, 0, self.linear.blank(0, n_classes))

    def restore(self, n_features: int, n_classes: int, plain: dict[str, Any]) -> Support:
        """Return the support that `Support.to_plain` gave, if it is right."""
        return Support(**{**plain, "base": self.linear.restore(0, n_classes, plain["base"])})

    def blank_record(self, n: int, n_classes: int, *, with_cuts: bool = False) -> types.Record:
        """Return room for what is predicted before n rows are learned."""
        return self.linear.blank_record(n, n_classes, with_cuts=with_cuts)

    def go_on(
        self, memory: Support, batch: Batch, order: Array | None, record: types.Record | None
    ) -> Support:
        """Return the support after the rows of a stream."""
        return self.learn(memory, batch, order, record).after(len(batch))

    def finish(self, memory: Support, batch: Batch) -> Support:
        """Return the support after the last pass of `fit`."""
        return memory.compact().after(len(batch))

    def learn(
        self, memory: Support, batch: Batch, order: Array | None, record: types.Record | None
    ) -> Support:
        """Return the support after a pass over a batch; the one given does not change."""
        memory = memory.copy()
        if batch.weights is not None:
            memory.base.lattice = False
        order = None if order is None else order.astype(np.int64)
        if record is None:
            learned = self._learn_fused(memory, batch, order)
            if learned is not None:
                return learned
        if self.budget is None:
            kept = memory.source if self.is_precomputed else batch.rows.X
            memory = memory.with_room(len(batch), kept)
        places = memory.places(len(batch))
        for part in batches(len(batch) if order is None else len(order), BLOCK):
            if self.budget is not None:  # rows may have been dropped
                places = memory.places(len(batch))
            if order is None:
                chosen, X = np.arange(part.start, part.stop), batch.rows.X[part, ...]
            else:
                chosen, X = order[part], taken(batch.rows.X, order[part])
            source = memory.origin + chosen
            block = KernelBlock(
                X=X,
                own=source if self.is_precomputed else X,
                source=source,
                places=places[chosen],
                intervals=batch.intervals[chosen],
                weights=None if batch.weights is None else batch.weights[chosen],
                record=record and types.Record(*(column[part] for column in record)),
            )
            if self.budget is None:
                memory = self._learn_block(memory, block)
            else:
                memory = self._learn_block_within_budget(memory, block, int(self.budget))
        return memory.without_room()

    def _learn_fused(self, memory: Support, batch: Batch, order: Array | None) -> Support | None:
        """Learn by the fused loop on a CUDA device; None where it cannot run."""
        X, fused = batch.rows.X, self._fused(batch.rows.X, memory.rows)
        if fused is None or self.budget is not None or not memory.base.lattice:
            return None
        if memory.base.layout.n_classes - 1 > fused.MAX_CUTS:
            return None
        labelled = batch.labelled()
        chosen = np.flatnonzero(labelled) if order is None else order[labelled[order]]
        return fused.learn(memory, X, chosen, batch.intervals[chosen], self.kernel.gamma(X))

    def _fused(self, X: Any, rows: Any) -> Any:
        """Return the module of the fused loop for these rows; None where it cannot run."""
        if self.kernel.kernel != "rbf" or type(X).__module__ != "torch" or X.device.type != "cuda":
            return None
        if find_spec("triton") is None or X.dtype != rows.dtype:
            return None
        from pril.kernels import fused

        return fused if fused.works() else None

    def _learn_block(self, memory: Support, block: KernelBlock) -> Support:
        """Learn from a block without a budget: the support rows count by their scores alone."""
        n = len(block.source)
        gram = types.Gram(
            scores=self._scores(memory, block, memory.coef),
            sums=self._scores(memory, block, memory.sums) if block.record else np.empty(0),
            values=self.kernel.values(block.X, block.own),
            slot=np.arange(n),
            since=np.full(n, -1),
            size=np.array([0, 0]),
            budget=UNLIMITED,
        )
        coef, sums = self._run(gram, np.zeros(n), np.zeros(n), memory, block)
        old = np.flatnonzero(block.places >= 0)
        memory = memory.move(block.places[old], coef[old], sums[old])
        new = np.flatnonzero((gram.since >= 0) & (block.places < 0))
        return memory.add(taken(block.own, new), coef[new], sums[new], block.source[new])

    def _learn_block_within_budget(
        self, memory: Support, block: KernelBlock, budget: int
    ) -> Support:
        """Learn from a block within a budget: dropping a support row changes all later scores.

        Only rows of the block, and as many others with the smallest coefficients, can be dropped.
        The loop needs the kernel values of these candidates alone.
        """
        n, n_support = len(block.source), len(memory.source)
        coef, sums = (np.append(to_numpy(part), np.zeros(n)) for part in memory[1:3])
        smallest = np.argsort(np.abs(coef[:n_support]), kind="stable")
        n_dropped = n + max(0, n_support - budget)  # at most
        old = np.union1d(smallest[:n_dropped], block.places[block.places >= 0])
        candidates = np.append(old, n_support + np.arange(n))
        rows = joined(taken(memory.rows, old), block.own)
        since = np.append(np.arange(n_support), np.full(n, -1))
        coefficient = np.where(block.places >= 0, block.places, n_support + np.arange(n))
        gram = types.Gram(
            scores=self._scores(memory, block, memory.coef),
            sums=self._scores(memory, block, memory.sums) if block.record else np.empty(0),
            values=np.ascontiguousarray(self.kernel.values(block.X, rows).T),
            slot=np.searchsorted(candidates, coefficient),
            since=since[candidates],
            size=np.array([n_support, 0]),
            budget=budget,
        )
        moved = self._run(gram, coef[candidates], sums[candidates], memory, block)
        coef[candidates], sums[candidates] = moved
        since[candidates] = gram.since
        memory = memory._replace(
            rows=joined(memory.rows, block.own),
            coef=like(coef, memory.coef),
            sums=like(sums, memory.coef),
            source=np.append(memory.source, block.source),
            base=memory.base.without_mean() if gram.size[1] > 0 else memory.base,
        )
        oldest_first = np.argsort(since, kind="stable")
        return memory.keep(oldest_first[np.count_nonzero(since < 0) :])

    def _scores(self, memory: Support, block: KernelBlock, coef: Any) -> Array:
        """Return the scores of a block under some coefficients of the support rows."""
        rows, coef = memory.rows[: len(memory.source), ...], coef[: len(memory.source)]
        return to_numpy(self.kernel.scores(block.X, rows, coef, self.n_jobs))

    def _run(
        self, gram: types.Gram, coef: Array, sums: Array, memory: Support, block: KernelBlock
    ) -> tuple[Array, Array]:
        """Run the loop over a block; return the new coefficients and their sums."""
        base = memory.base
        room = base.with_features(np.full(len(coef), -1))
        state = room.state
        state.u[0, :-1], state.mean_u[:, :-1] = coef, sums
        batch = Batch(gram, block.intervals, block.weights)
        if self.linear.run(room, batch, None, block.record) >= 0:
            raise self._not_finite()
        base.tail()[:], base.counts[:] = room.tail(), room.counts
        return state.u[0, :-1], state.mean_u[0, :-1] if base.averages else np.zeros_like(coef)

    # --- Rating ---

    def parameters(self, memory: Support) -> tuple[Array, Array, float]:
        """Return no weights, the thresholds between sentinels, and 1."""
        return self.linear.parameters(memory.base)

    def scores(self, memory: Support, rows: Points) -> Any:
        """Return the scores of rows, on their device."""
        coef, support = memory.predicting_coef(), memory.rows
        fused = self._fused(rows.X, support)
        scores, xp = None, namespace(coef)
        if fused is not None and len(coef) > 0:
            scores = fused.scores(rows.X, support, coef, self.kernel.gamma(rows.X))
        if scores is None:
            blocks = [
                self.kernel.scores(rows.X[block, ...], support, coef, self.n_jobs)
                for block in batches(rows.X.shape[0], BLOCK)
            ]
            scores = xp.concat(blocks)
        if not bool(xp.all(xp.isfinite(scores))):
            raise self._not_finite()
        return scores

    def rate(self, memory: Support, rows: Points) -> Ratings:
        """Return ranks and scores of rows."""
        scores = to_numpy(self.scores(memory, rows))
        _, cut, _ = self.parameters(memory)
        column = scores.astype(np.float64, copy=False)[:, np.newaxis]
        ranks = rating.ranks_of(self.linear.rule, column, cut, self.linear.link)
        return Ratings(ranks, column, cut)

    def _not_finite(self) -> ValueError:
        return InputError(f"X: {self.kernel} gives scores that are not finite: scale the features")
