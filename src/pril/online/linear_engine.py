"""How a linear learner learns and rates: a small value that knows nothing of estimators."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from pril.core import loop_types as types
from pril.core import rating
from pril.core.arrays import Array, FeaturesLike, frozen
from pril.core.rating import Ratings
from pril.core.rows import not_finite_error, read_rows
from pril.errors import FeatureRangeWarning, RowError
from pril.labels import ranking
from pril.links import LOGIT, Link
from pril.online.memory import Layout, Memory

# With a mean of more standard deviations, learners are little better than chance.
MAX_MEAN_IN_DEVIATIONS = 10.0
MIN_ROWS_OF_MEANS, ROWS_OF_MEANS = 20, 1000  # of which means are taken
MAX_SHORT_ROWS = 2**31 - 1  # rows whose positions fit into 32 bits
ROUNDING = 1e-9  # the relative spread of a constant
MIN_WIDE = 1 << 16  # with fewer features, copying all is as fast as choosing some
NO_WEIGHTS = np.empty(0)
NO_RECORD = types.Record(
    np.empty(0, dtype=np.int64), np.empty((0, 1)), np.empty(0), np.empty((0, 1))
)


@dataclass(frozen=True)
class Batch:
    """Rows and labels that have been checked; learning does not check them again."""

    rows: Any  # `Dense`, `Csr`, `Gram`, or the `Points` of a kernel
    intervals: Array  # (n, 2), lowest and highest rank; `ranking.NO_LABEL` where there is no label
    weights: Array | None = None  # (n,), positive where there is a label; None: all are 1

    def __len__(self) -> int:
        return len(self.intervals)

    def labelled(self) -> Array:
        """Return which rows have a label."""
        return ranking.is_labelled(self.intervals)

    def shuffled(self, rng: np.random.RandomState | np.random.Generator) -> Array:
        """Return the positions of the rows that have a label, in a new order."""
        labelled = self.labelled()
        seed = int.from_bytes(rng.bytes(16), "little")
        # Faster than a RandomState, which scikit-learn gives us.
        order = np.random.Generator(np.random.SFC64(seed)).permutation(np.count_nonzero(labelled))
        if len(order) < len(self):
            order = np.flatnonzero(labelled)[order]
        return frozen(order.astype(np.int32) if len(self) <= MAX_SHORT_ROWS else order)

    @property
    def nbytes(self) -> int:
        """How much memory it takes."""
        arrays = [self.intervals, self.weights, *self.rows]
        return sum(part.nbytes for part in arrays if isinstance(part, np.ndarray))

    def interval_loss(self, order: Array | None, record: types.Record | None) -> int:
        """Return the sum of the losses recorded in a pass, 0 if nothing was recorded."""
        if record is None:
            return 0
        visited = self.intervals if order is None else self.intervals[order]
        return int(ranking.interval_loss(visited, record.rank).sum())


class LinearEngine(NamedTuple):
    """How a linear learner learns and rates. What it has learned is a `Memory`."""

    name: str  # of the learner, for errors
    rule: types.Rule
    geometry: types.Geometry = types.Additive()
    average: bool = False  # predict with the mean of all iterates
    growth: float | None = None  # how much more a round weighs than the one before it
    constant: float = 0.0  # the value of a further feature
    scores_classes: bool = False  # one score for each class
    whole_steps: bool = True  # thresholds start at zero and move by whole numbers
    settles: bool = True  # after a pass without a mistake, nothing would change any more
    mixes: bool = True  # blocks may learn side by side: the mean of their memories is one
    may_lose_mean: bool = False  # may have to go on without a mean, though it averages
    exact_only: bool = False  # takes no ranges
    centres: bool = False  # in `fit`, it does not matter where features are
    bounded: bool = False  # its guarantee is for features within [-1, 1]
    link: Link = LOGIT  # of probabilities
    start: Callable[[int], Array] | None = None  # the first sums of the thresholds, by classes
    feature_names: Array | None = None

    # --- Checking ---

    def read(
        self, owner: BaseEstimator, X: FeaturesLike, *, reset: bool, min_rows: int
    ) -> types.Rows:
        """Return the rows of X; the owner knows the features, or learns of them if `reset`."""
        return read_rows(owner, X, constant=self.constant, reset=reset, min_rows=min_rows)

    def inspect_labels(self, table: ranking.Labels, intervals: Array) -> None:
        """Refuse labels that this learner cannot take."""
        ranges = intervals[:, 0] < intervals[:, 1]
        if self.exact_only and ranges.any():
            t = int(np.argmax(ranges))
            reason = f"{self.name} learns from exact labels only, got the interval {table.row(t)!r}"
            raise RowError("y", t, f"{reason}; PRIL learns from intervals")

    def inspect_rows(self, rows: types.Rows) -> None:
        """Warn of features that this learner's guarantee does not cover."""
        if not self.bounded:
            return
        cells = rows.X if isinstance(rows, types.Dense) else rows.data
        if np.maximum.reduce(abs(cells), axis=None, initial=0.0) <= 1.0:
            return
        largest = max(cells.max(), cells.min(), key=abs)
        if 1.0 < abs(largest) < np.inf:  # infinite cells are refused elsewhere, with their row
            warnings.warn(
                f"X reaches {largest:.6g}: {self.name} expects features within [-1, 1]; scale "
                "them, for example with MaxAbsScaler",
                FeatureRangeWarning,
                stacklevel=2,
            )

    def inspect_means(self, owner: BaseEstimator, rows: types.Rows) -> None:
        """Warn of a feature so far from zero that its mean hides how it differs between rows."""
        if self.centres or isinstance(rows, types.Csr) or len(rows.X) < MIN_ROWS_OF_MEANS:
            return
        some = rows.X[:: max(1, len(rows.X) // ROWS_OF_MEANS)]
        with np.errstate(all="ignore"):  # cells that are not finite are refused elsewhere
            mean, sd = some.mean(axis=0), some.std(axis=0)
            # The mean of a constant, or of an indicator that is nearly one, does no harm.
            near = MAX_MEAN_IN_DEVIATIONS * np.maximum(sd, np.sqrt(np.mean(sd**2)))
            far = (np.abs(mean) > near) & (sd > np.abs(mean) * ROUNDING)
        if far.any():
            j = int(np.argmax(far))
            name = getattr(owner, "feature_names_in_", range(len(mean)))[j]
            warnings.warn(
                f"X: the mean of the feature {name!r} is {mean[j]:.4g}, far from zero beside its "
                f"standard deviation of {sd[j]:.3g}: centre the features, for example with "
                "StandardScaler",
                FeatureRangeWarning,
                stacklevel=2,
            )

    # --- Learning ---

    def n_scores(self, n_classes: int) -> int:
        """Return the number of scores of a row."""
        return n_classes if self.scores_classes else 1

    def layout(self, n_features: int, n_classes: int) -> Layout:
        """Return the layout of a memory."""
        parts = types.OWN_PARTS.get(type(self.rule), ())
        return Layout(self.n_scores(n_classes), n_features, n_classes, self.average, parts)

    def blank(self, n_features: int, n_classes: int, rows: types.Rows | None = None) -> Memory:
        """Return what is known before the first row."""
        memory = Memory.blank(self.layout(n_features, n_classes), lattice=self.whole_steps)
        if self.start is not None:
            memory.state.n[:] = self.start(n_classes)
        return memory

    def restore(self, n_features: int, n_classes: int, plain: dict[str, Any]) -> Memory:
        """Return the memory that `Memory.to_plain` gave, if it is right."""
        return Memory.of(self.layout(n_features, n_classes), plain)

    def blank_record(self, n: int, n_classes: int, *, with_cuts: bool = False) -> types.Record:
        """Return room for what is predicted before n rows are learned."""
        scores = np.empty((n, self.n_scores(n_classes)))
        cuts = np.empty((n if with_cuts else 0, n_classes + 1))
        return types.Record(np.empty(n, dtype=np.int64), scores, np.empty(n), cuts)

    def learn(
        self, memory: Memory, batch: Batch, order: Array | None, record: types.Record | None
    ) -> Memory:
        """Return the memory after a pass over a batch; the one given does not change."""
        return self._learn_in_place(memory.copy(), batch, order, record)

    def go_on(
        self, memory: Memory, batch: Batch, order: Array | None, record: types.Record | None
    ) -> Memory:
        """Return the memory after a pass over a batch; the one given may change.

        A few sparse rows of a wide model are learned in place, and undone if that fails.
        """
        columns = few_columns(batch.rows, memory.layout.n_features + 1)
        if columns is None or self.growth is not None:  # a half-life may rescale every number
            return self.learn(memory, batch, order, record)
        with memory.undone_on_failure(columns):
            return self._learn_in_place(memory, batch, order, record, columns)

    def finish(self, memory: Memory, batch: Batch) -> Memory:
        """Return the memory after the last pass of `fit`."""
        return memory

    def _learn_in_place(
        self,
        memory: Memory,
        batch: Batch,
        order: Array | None,
        record: types.Record | None,
        columns: Array | None = None,
    ) -> Memory:
        """Return the memory given, changed; `columns` are the features of the rows, None: any."""
        if batch.weights is not None:
            memory.lattice = False
        bad = self.run(memory, batch, order, record)
        if bad >= 0:
            row = int(bad if order is None else order[bad])
            raise self.not_finite(batch.rows, row, batch.weights)
        if not memory.is_finite(columns):
            raise self.not_finite(batch.rows, None, batch.weights)
        return memory

    def run(
        self, memory: Memory, batch: Batch, order: Array | None, record: types.Record | None
    ) -> int:
        """Run the loop in place; return -1, or the first position whose scores are not finite."""
        if order is not None and len(order) == 0:  # the loop takes an empty order for all rows
            return -1
        extras, weights = None, batch.weights
        if weights is not None or record is not None or self.growth is not None:
            weights = NO_WEIGHTS if weights is None else weights
            extras = types.Extras(weights, self.growth or 1.0, record or NO_RECORD)
        from pril.online import loop  # which imports numba

        order = loop.NO_ORDER if order is None else order
        desk = loop.make_desk(self.geometry, *memory.layout.sizes())
        given = frozen(batch.intervals), order, self.rule, self.geometry, extras
        return loop.run(batch.rows, *given, memory.arrays, desk)

    # --- Rating ---

    def parameters(self, memory: Memory) -> tuple[Array, Array, float]:
        """Return weights, thresholds between sentinels, and the number that divides them."""
        return memory.predicting(self.geometry)

    def rate(self, memory: Memory, rows: types.Rows) -> Ratings:
        """Return ranks and scores of rows."""
        w, cut, unit = self.parameters(memory)
        scores, bad = rating.scores_of(rows, w)
        if bad >= 0:
            raise self.not_finite(rows, bad)
        ranks = rating.ranks_of(self.rule, scores, cut, self.link)
        if unit != 1.0:
            scores, cut = scores / unit, cut / unit
        return Ratings(ranks, scores, cut)

    def one_row(self, memory: Memory) -> LinearRow:
        """Return what learns and rates one row at a time, in place."""
        return LinearRow(self, memory)

    def not_finite(
        self, rows: types.Rows, row: int | None, weights: Array | None = None
    ) -> ValueError:
        """Return the error for numbers that are not finite."""
        return not_finite_error(rows, self.name, self.feature_names, row, weights)


def few_columns(rows: types.Rows | types.Gram, width: int) -> Array | None:
    """Return the features that sparse rows touch, and the last one; None unless few of many."""
    if width < MIN_WIDE or not isinstance(rows, types.Csr) or 16 * len(rows.data) > width:
        return None
    return np.append(np.unique(rows.indices), width - 1)


class LinearRow:
    """Learns and rates one row, which is written into `cells`; the memory changes in place.

    `rate` returns the rank of the row, -1 if it is refused. `learn` returns -1, or a number >= 0 if
    the row is refused and nothing has changed.
    """

    absent = 0.0  # a feature that a dict lacks
    codes: ClassVar[dict[int, dict[Any, int]]] = {}  # of categories: there are none

    def __init__(self, engine: LinearEngine, memory: Memory) -> None:
        n_scores, width, n_classes = memory.layout.sizes()
        self.cells = np.zeros(width - 1)
        self._engine, self._memory = engine, memory
        from pril.online import loop  # which imports numba

        self._loop = loop
        self._row = loop.OneRow(
            rows=types.Dense(frozen(self.cells[np.newaxis]), engine.constant),
            label=np.empty((1, 2), dtype=np.int64),
            kept=np.ones(len(memory.numbers) + 1),
        )
        rating = self._rating = loop.Rating(
            w=np.empty((n_scores, width)),
            cut=np.empty(n_classes + 1),
            scores=np.empty(n_scores),
            unit=np.array([1.0, -1.0]),
        )
        rule, geometry, arrays = engine.rule, engine.geometry, memory.arrays
        cells = types.Cells(*self._row.rows)
        rate = loop.compiled_for(loop.rate_row, rule, geometry, arrays, rating, cells)
        # Plain functions: those who measure the memory of a model do not go on into the compiler.
        self.rate: Callable[[], int] = lambda: rate(rule, geometry, arrays, rating, cells)
        self.learn = self._compiled(engine.growth)
        self._learn_weighted: Callable[[int, int], int] | None = None  # compiled when it is needed

    def _compiled(self, growth: float | None) -> Callable[[int, int], int]:
        loop, memory, row = self._loop, self._memory, self._row
        rule, geometry, arrays = self._engine.rule, self._engine.geometry, memory.arrays
        desk = loop.make_desk(geometry, *memory.layout.sizes())
        given = rule, geometry, growth, arrays, desk, row
        learn = loop.compiled_for(loop.learn_row, *given, 0, 0)
        if not self._engine.bounded:
            return lambda lo, hi: learn(rule, geometry, growth, arrays, desk, row, lo, hi)

        def inspect_and_learn(lo: int, hi: int) -> int:
            self._engine.inspect_rows(row.rows)
            return learn(*given, lo, hi)

        return inspect_and_learn

    def learn_weighted(self, lo: int, hi: int, weight: float) -> int:
        """Learn the row with a weight."""
        if weight == 1.0:
            return self.learn(lo, hi)
        if self._learn_weighted is None:
            self._learn_weighted = self._compiled(self._engine.growth or 1.0)
        self._row.kept[-1] = weight
        try:
            return self._learn_weighted(lo, hi)
        finally:
            self._row.kept[-1] = 1.0

    def score(self) -> float:
        """Return the score of the row that was rated last."""
        return float(self._rating.scores[0] / self._rating.unit[0])

    def chances(self) -> Array:
        """Return the probabilities of the classes for the row that was rated last."""
        scores, cut = self._rating.scores, self._rating.cut  # streams have no other link
        return np.exp(LOGIT.log_between(cut[:-1] - scores, cut[1:] - scores))

    def refusal(self, weight: float = 1.0) -> ValueError:
        """Return the error for a row that was refused."""
        rows = types.Dense(self.cells[np.newaxis], 0.0)
        return self._engine.not_finite(rows, 0, np.array([weight]))
