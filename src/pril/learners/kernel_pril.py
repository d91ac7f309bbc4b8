"""Kernel PRIL: learned block by block, on the device of the rows."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np
from scipy.sparse import issparse
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS
from sklearn.utils.validation import check_is_fitted

from pril.core import loop
from pril.core.classifier import Ratings
from pril.core.learner import Batch, OnlineClassifier
from pril.core.memory import Memory
from pril.core.rows import batches, check_cells, not_finite_error
from pril.core.scikit import Interval, StrOptions, get_namespace, validate_data
from pril.core.threshold_learner import OnlineThresholdClassifier
from pril.errors import InputError
from pril.kernels.support import Support, joined, like, namespace, taken, to_numpy
from pril.kernels.values import Kernel

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Array = NDArray[Any]

__all__ = ["KernelPRIL"]

# Rows learned at a time: their own kernel matrix is kept, and copied from a device to the host.
# Measured by benchmarks/kernel_speed.py.
BLOCK = 1024
UNLIMITED = np.iinfo(np.int64).max


class Points(NamedTuple):
    """Checked rows, to be compared by the kernel."""

    X: Any


class Block(NamedTuple):
    """Some of the rows of a call, to be learned together."""

    X: Any
    own: Any  # what is kept of a row that becomes a support row: itself, or its position
    source: Array  # where each row comes from, as in `Support`
    places: Array  # where each row is among the support rows, -1 if it is not one
    intervals: Array
    weights: Array | None
    record: loop.Record | None


class KernelPRIL(OnlineThresholdClassifier):
    """Kernel PRIL: the score is a weighted sum of kernel values with past mistakes.

    This is `PRIL` in the feature space of a kernel. A row that violates constraints becomes a
    support row. Its coefficient s is the number of violated constraints that require a higher
    score, minus the number of those that require a lower one:

        ``f(x) = sum_t s_t kernel(x_t, x)``,  ``theta_i -= z`` for each violated constraint i

    Rows are learned in blocks: matrix products give the scores of a block against all support
    rows, then the loop of `PRIL` runs over the block's own kernel matrix. The result does not
    depend on the size of a block, up to the rounding of sums.

    Parameters
    ----------
    %(classes class_weight max_iter shuffle random_state)
    average : bool, default=True
        Predict with the mean of all iterates instead of the last one. The mean needs the support
        rows of all iterates, so once a budget has dropped a row, the last iterate predicts.
    kernel : str or callable, default="rbf"
        A name that :func:`~sklearn.metrics.pairwise.pairwise_kernels` knows; "precomputed", where
        `fit` takes the square matrix of kernel values and `predict` the values with the rows of
        `fit`; or a function that returns the kernel values of two matrices or of two rows.
    gamma : float, default=None
        Parameter of the kernels that have it. None is the kernel's own default, for most of them
        ``1 / n_features``.
    degree : float, default=3
        Degree of the polynomial kernel.
    coef0 : float, default=1
        Constant of the polynomial and sigmoid kernels.
    kernel_params : dict, default=None
        Other keyword arguments of the kernel.
    budget : int, default=None
        Largest number of support rows; None for no limit. A round that would exceed it drops the
        row with the smallest coefficient; among equal ones, the oldest. Thresholds do not change.
    %(tol n_iter_no_change)
    n_jobs : int, default=None
        Number of threads that compute kernel values on a CPU. As in scikit-learn, None means one,
        unless within :func:`joblib.parallel_backend`, and -1 means all cores. It does not change
        the model.
    verbose : int, default=0
        Whether `fit` prints a line after each pass: how many mistakes it made, and its mean
        interval loss, with each row predicted before it is learned.

    Attributes
    ----------
    %(classes_ order_)
    support_ : ndarray of shape (n_support,)
        Row of `fit`, or of the stream, that each support row came from.
    support_vectors_ : array of shape (n_support, n_features)
        The support rows, on the device of X.
    dual_coef_ : array of shape (n_support,)
        Coefficients of the support rows, on the device of X.
    %(thresholds_ n_features_in_ feature_names_in_ n_iter_ t_ n_mistakes_ n_updates_)

    See Also
    --------
    PolynomialMap : With `PRIL`, the same as a polynomial kernel; faster for few features.

    Notes
    -----
    With scikit-learn's array API dispatch (``sklearn.set_config(array_api_dispatch=True)``) X may
    be a PyTorch tensor or another array, on any device. Kernel values are computed on that device,
    support rows stay on it, and `latent` returns an array on it.

    Examples
    --------
    >>> import numpy as np
    >>> from pril import KernelPRIL
    >>> X = np.linspace(-2, 2, 21).reshape(-1, 1)
    >>> y = np.digitize(np.abs(X[:, 0]), [0.7, 1.3])  # not linear in X
    >>> model = KernelPRIL(gamma=2.0, max_iter=50, random_state=0).fit(X, y)
    >>> model.predict([[0.0], [1.0], [-1.0], [2.0]])
    array([0, 1, 1, 2])
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **OnlineClassifier._parameter_constraints,
        "kernel": [StrOptions(set(PAIRWISE_KERNEL_FUNCTIONS) | {"precomputed"}), callable],
        "gamma": [Interval(Real, 0, None, closed="left"), None],
        "degree": [Interval(Real, 0, None, closed="left")],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "kernel_params": [dict, None],
        "budget": [Interval(Integral, 1, None, closed="left"), None],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
    }
    _parameter_constraints.pop("half_life")
    _fixed = ("average", "kernel", "gamma", "degree", "coef0", "kernel_params")
    _memory_type = Support
    _may_lose_mean = True  # when a budget drops a support row

    _memory: Support

    def __init__(
        self,
        *,
        classes: ArrayLike | None = None,
        class_weight: dict[Any, float] | Literal["balanced"] | None = None,
        max_iter: int = 10,
        shuffle: bool = True,
        random_state: Any = None,
        average: bool = True,
        kernel: str | Callable[[Any, Any], Any] = "rbf",
        gamma: float | None = None,
        degree: float = 3,
        coef0: float = 1,
        kernel_params: dict[str, Any] | None = None,
        budget: int | None = None,
        tol: float | None = None,
        n_iter_no_change: int = 3,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.classes = classes
        self.class_weight = class_weight
        self.max_iter = max_iter
        self.shuffle = shuffle
        self.random_state = random_state
        self.average = average
        self.tol = tol
        self.n_iter_no_change = n_iter_no_change
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.budget = budget
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _rule(self) -> loop.Pril:
        return loop.Pril(skip_correct=False)

    # --- Learning ---

    def _prepare(
        self,
        X: Any,
        y: Any,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        reset: bool = False,
    ) -> Batch:
        if self.kernel == "precomputed" and not reset:
            raise InputError(
                "kernel='precomputed' cannot be learned from a stream, because the kernel values "
                "of later rows are not known: use fit, or a kernel that is a name or a function"
            )
        return super()._prepare(X, y, classes, sample_weight, reset=reset)

    def _make_passes(self, batch: Batch) -> Support:
        memory: Support = super()._make_passes(batch)
        return memory.compact().after(len(batch))

    def _go_on(
        self, batch: Batch, record: loop.Record | None = None, order: Array | None = None
    ) -> None:
        super()._go_on(batch, record, order)
        self._memory = self._memory.after(len(batch))

    def _read_rows(self, X: Any, *, reset: bool, min_rows: int) -> Points:
        xp, _ = get_namespace(X)
        check_cells(X)
        X = validate_data(
            self,
            X,
            reset=reset,
            accept_sparse=False if self.kernel == "precomputed" else "csr",
            dtype=(xp.float64, xp.float32),
            ensure_all_finite=False,
            ensure_min_samples=min_rows,
        )
        # A bounded kernel can return finite values for rows that are not: check the rows here.
        if issparse(X):
            if not np.isfinite(X.data).all():
                raise not_finite_error(loop.Csr(X.data, X.indices, X.indptr, 0.0), self, None)
        elif not bool(xp.all(xp.isfinite(X))):
            raise not_finite_error(loop.Dense(to_numpy(X), 0.0), self, None)
        if self.kernel == "precomputed" and reset and X.shape[0] != X.shape[1]:
            raise InputError(
                "kernel='precomputed' needs a square matrix, the kernel values of all pairs of "
                f"rows, got X of shape {tuple(X.shape)}"
            )
        return Points(X)

    def _blank_memory(self, rows: Points) -> Support:
        self._fix_parameters()
        blank = Memory.blank(self._layout()._replace(n_features=0), lattice=True)
        empty = np.empty(0) if issparse(rows.X) else like(np.empty(0), rows.X)
        none = np.empty(0, dtype=np.int64)
        first = none if self.kernel == "precomputed" else rows.X[:0, ...]
        place = np.full(rows.X.shape[0], -1)
        return Support(first, empty, empty, none, 0, place, blank)

    def _learn(
        self,
        memory: Support,
        batch: Batch,
        order: Array | None,
        record: loop.Record | None,
        columns: Array | None = None,
    ) -> Support:
        if batch.weights is not None:
            memory.base.integers[loop.LATTICE] = 0
        order = None if order is None else order.astype(np.int64)
        if record is None:
            learned = self._learn_fused(memory, batch, order)
            if learned is not None:
                return learned
        if self.budget is None:
            own = memory.source if self.kernel == "precomputed" else batch.rows.X
            memory = memory.with_room(len(batch), own)
        for part in batches(len(batch) if order is None else len(order), BLOCK):
            if order is None:
                chosen, X = np.arange(part.start, part.stop), batch.rows.X[part, ...]
            else:
                chosen, X = order[part], taken(batch.rows.X, order[part])
            source = memory.origin + chosen
            block = Block(
                X=X,
                own=source if self.kernel == "precomputed" else X,
                source=source,
                places=memory.places(chosen),
                intervals=batch.intervals[chosen],
                weights=None if batch.weights is None else batch.weights[chosen],
                record=record and loop.Record(*(column[part] for column in record)),
            )
            if self.budget is None:
                memory = self._learn_block(memory, block)
            else:
                memory = self._learn_block_within_budget(memory, block, int(self.budget))
        return memory.without_room()

    def _learn_fused(self, memory: Support, batch: Batch, order: Array | None) -> Support | None:
        """Learn by the fused loop on a CUDA device; None where it cannot run."""
        X, fused = batch.rows.X, self._fused(batch.rows.X, memory.rows)
        if fused is None or self.budget is not None or not memory.base.integers[loop.LATTICE]:
            return None
        if memory.base.layout.n_classes - 1 > fused.MAX_CUTS:
            return None
        labelled = batch.labelled()
        chosen = np.flatnonzero(labelled) if order is None else order[labelled[order]]
        learned: Support | None = fused.learn(
            memory, X, chosen, batch.intervals[chosen], self._kernel().gamma(X)
        )
        return learned

    def _fused(self, X: Any, rows: Any) -> Any:
        """Return the module of the fused loop for these rows; None where it cannot run."""
        if self.kernel != "rbf" or type(X).__module__ != "torch" or X.device.type != "cuda":
            return None
        if find_spec("triton") is None or X.dtype != rows.dtype:
            return None
        from pril.kernels import fused

        return fused if fused.works() else None

    def _learn_block(self, memory: Support, block: Block) -> Support:
        """Learn from a block without a budget: the support rows count by their scores alone."""
        n = len(block.source)
        gram = loop.Gram(
            scores=self._scores(memory, block, memory.coef),
            sums=self._scores(memory, block, memory.sums) if block.record else np.empty(0),
            values=self._kernel().values(block.X, block.own),
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

    def _learn_block_within_budget(self, memory: Support, block: Block, budget: int) -> Support:
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
        own = np.where(block.places >= 0, block.places, n_support + np.arange(n))
        gram = loop.Gram(
            scores=self._scores(memory, block, memory.coef),
            sums=self._scores(memory, block, memory.sums) if block.record else np.empty(0),
            values=np.ascontiguousarray(self._kernel().values(block.X, rows).T),
            slot=np.searchsorted(candidates, own),
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

    def _scores(self, memory: Support, block: Block, coef: Any) -> Array:
        """Return the scores of a block under some coefficients of the support rows."""
        rows, coef = memory.rows[: len(memory.source), ...], coef[: len(memory.source)]
        return to_numpy(self._kernel().scores(block.X, rows, coef, self.n_jobs))

    def _run(
        self, gram: loop.Gram, coef: Array, sums: Array, memory: Support, block: Block
    ) -> tuple[Array, Array]:
        """Run the loop over a block; return the new coefficients and their sums."""
        base = memory.base
        own = base.with_layout(base.layout._replace(n_features=len(coef)))
        state = own.state
        state.u[0, :-1], state.mean_u[:, :-1] = coef, sums
        if self._run_loop(gram, block.intervals, None, own, block.weights, block.record) >= 0:
            raise InputError(
                f"X: {self._kernel()} gives scores that are not finite: scale the features"
            )
        base.tail()[:], base.integers[: loop.LATTICE] = own.tail(), own.integers[: loop.LATTICE]
        return state.u[0, :-1], state.mean_u[0, :-1] if base.averages else np.zeros_like(coef)

    def _kernel(self) -> Kernel:
        more = self.kernel_params or {}
        if callable(self.kernel) or self.kernel == "precomputed":
            return Kernel(self.kernel, more)
        own = {"gamma": self.gamma, "degree": self.degree, "coef0": self.coef0}
        return Kernel.named(self.kernel, own, more)

    # --- Predicting ---

    def latent(self, X: Any) -> Any:
        """Return the score f(x) that the thresholds cut into classes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features. For a precomputed kernel, its values: shape (n_samples, n_samples_fit).

        Returns
        -------
        scores : array of shape (n_samples,)
            Comparable to `thresholds_`, in the namespace and on the device of X.
        """
        check_is_fitted(self)
        self._check_fixed()
        return self._score_rows(self._read_rows(X, reset=False, min_rows=1))

    def _score_rows(self, rows: Points) -> Any:
        kernel, coef, support = self._kernel(), self.dual_coef_, self._memory.rows
        fused = self._fused(rows.X, support)
        if fused is not None and len(coef) > 0:
            scores = fused.scores(rows.X, support, coef, kernel.gamma(rows.X))
            if scores is not None:
                return scores
        blocks = [
            kernel.scores(rows.X[block, ...], support, coef, self.n_jobs)
            for block in batches(rows.X.shape[0], BLOCK)
        ]
        return namespace(coef).concat(blocks)

    def _rate_rows(self, rows: Points) -> Ratings:
        scores = to_numpy(self._score_rows(rows))
        w, cut, _ = self._parameters()
        ranks, written = np.empty(len(scores), dtype=np.int64), np.empty((len(scores), 1))
        gram = loop.Gram(scores, scores, scores[np.newaxis], ranks, ranks, ranks, 0)
        if loop.rate(gram, self._rule(), w, cut, ranks, written) >= 0:
            raise InputError(
                f"X: {self._kernel()} gives scores that are not finite: scale the features"
            )
        return Ratings(ranks, written, cut)

    @property
    def coef_(self) -> Array:
        """Not defined: the weights are in the kernel's feature space."""
        raise AttributeError("KernelPRIL has no coef_; see dual_coef_ and support_vectors_")

    @property
    def dual_coef_(self) -> Any:
        """Coefficients of the support rows."""
        check_is_fitted(self)
        base = self._memory.base
        weight = float(base.state.clock[0])
        if not base.averages or weight == 0.0:
            return self._memory.coef
        return self._memory.coef - self._memory.sums / weight

    @property
    def support_(self) -> Array:
        """Row of `fit`, or of the stream, that each support row came from."""
        check_is_fitted(self)
        return self._memory.source

    @property
    def support_vectors_(self) -> Any:
        """The support rows."""
        check_is_fitted(self)
        if self.kernel == "precomputed":
            raise AttributeError("a precomputed kernel has no support_vectors_; see support_")
        return self._memory.rows

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.input_tags.sparse = self.kernel != "precomputed"
        return tags
