"""Kernel PRIL, block by block, on whatever device the rows live."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from scipy.sparse import issparse
from sklearn.metrics.pairwise import (
    KERNEL_PARAMS,
    PAIRWISE_KERNEL_FUNCTIONS,
    pairwise_kernels,
)
from sklearn.utils.validation import check_is_fitted, validate_data

from pril import _loop as loop
from pril import _ranks
from pril._online import OnlineClassifier, ThresholdClassifier
from pril._rows import not_finite_error
from pril._sklearn import Interval, StrOptions, get_namespace, safe_indexing
from pril._support import Support, batches, like, namespace, on_host, scattered, to_numpy

if TYPE_CHECKING:
    from typing import Self

    from numpy.typing import ArrayLike, NDArray

    Array = NDArray[Any]

__all__ = ["KernelPRIL"]

# Measured (benchmarks/kernel_speed.py): rows whose own kernel matrix is held at once, and kernel
# values against support rows held at once. On a CPU the latter stay in cache; on an accelerator
# they must be worth a launch, and the former cross to the host.
BLOCK, CHUNK = 1024, 1 << 18
DEVICE_BLOCK, DEVICE_CHUNK = 1024, 1 << 26


class Points(NamedTuple):
    """Checked rows, to be compared by the kernel."""

    X: Any


class KernelPRIL(ThresholdClassifier):
    """Kernel PRIL: the score is a sum of kernel values at the rows that were mistakes.

    A row whose label ``lo..hi`` is violated in s more constraints on one side than on the other
    becomes a support row with coefficient s, and the score is

        ``f(x) = sum_t s_t kernel(x_t, x)``,  ``theta_i -= z`` for each violated constraint i

    Rows are taken in blocks: scores of a block against all support rows by matrix products, then
    the online loop of `PRIL` over the block's own kernel matrix. That is exact: the result does not
    depend on the size of a block, up to the rounding of sums.

    Parameters
    ----------
    classes : array-like of shape (n_classes,), default=None
        The ordered labels, lowest first. None takes them from y.
    max_iter : int, default=10
        Passes of `fit` over the rows, at most.
    shuffle : bool, default=True
        Whether each pass of `fit` takes the rows in a new order.
    random_state : int, RandomState instance or None, default=None
        Chooses the orders.
    average : bool, default=True
        Predict with the mean of all iterates instead of the last one. The mean needs every row of
        all of them, so from the first row that a budget drops on the last iterate predicts.
    kernel : str or callable, default="rbf"
        A name that :func:`~sklearn.metrics.pairwise.pairwise_kernels` knows, "precomputed" (`fit`
        takes the square matrix of kernel values, `predict` the values against the rows of `fit`),
        or a function of two matrices, or of two rows, that returns kernel values.
    gamma : float, default=None
        Of the kernels that have it. None is the kernel's own default, mostly ``1 / n_features``.
    degree : float, default=3
        Of the polynomial kernel.
    coef0 : float, default=1
        Of the polynomial and sigmoid kernels.
    kernel_params : dict, default=None
        More keyword arguments of the kernel.
    budget : int, default=None
        Largest number of support rows kept. Beyond it the smallest coefficient is dropped, the
        oldest of equal ones, in the round that would exceed it. The thresholds stay.
    tol : float, default=None
        Stop `fit` when a pass's mean interval loss, each row judged before it is learned, has not
        improved by `tol` for `n_iter_no_change` passes. None: stop only after a pass without a
        mistake.
    n_iter_no_change : int, default=3
        See `tol`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, lowest first.
    support_ : ndarray of shape (n_support,)
        Row of `fit`, or round of the stream, that each support row came from.
    support_vectors_ : array of shape (n_support, n_features)
        The support rows, where X lives.
    dual_coef_ : array of shape (n_support,)
        Their coefficients, where X lives.
    thresholds_ : ndarray of shape (n_classes - 1,)
        Thresholds between neighbouring classes, ascending.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, where X has them.
    n_iter_ : int
        Passes that `fit` made.
    t_ : int
        Rounds learned from.
    n_mistakes_ : int
        Rounds that changed the model.
    n_updates_ : int
        Violated constraints, over all rounds.

    See Also
    --------
    PolynomialMap : With `PRIL`, the same as a polynomial kernel, and faster on few features.

    Notes
    -----
    With scikit-learn's array API dispatch (``sklearn.set_config(array_api_dispatch=True)``) X may
    be a PyTorch tensor or another array, on any device: kernel values are computed there, support
    rows stay there, and `latent` answers there.

    Examples
    --------
    >>> import numpy as np
    >>> from pril import KernelPRIL
    >>> X = np.linspace(-2, 2, 21).reshape(-1, 1)
    >>> y = np.digitize(np.abs(X[:, 0]), [0.7, 1.3])  # no line can rate this
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
    }
    _fixed = ("average", "kernel", "gamma", "degree", "coef0", "kernel_params")
    _may_lose_mean = True  # to a budget

    def __init__(
        self,
        *,
        classes: ArrayLike | None = None,
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
    ) -> None:
        super().__init__(
            classes=classes,
            max_iter=max_iter,
            shuffle=shuffle,
            random_state=random_state,
            average=average,
            tol=tol,
            n_iter_no_change=n_iter_no_change,
        )
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.budget = budget

    def _rule(self) -> loop.Pril:
        return loop.Pril(skip_correct=False)

    # --- Learning ---

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from scratch, in `max_iter` passes over the rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features; for a precomputed kernel its values, of shape (n_samples, n_samples).
        y : array-like of shape (n_samples,) or (n_samples, 2)
            Exact labels, or the lower and the upper end of each label. A missing end is open.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        super().fit(X, y)
        self._memory = self._memory.compact()
        return self

    def _learn_once(
        self,
        X: Any,
        y: Any,
        classes: ArrayLike | None,
        *,
        recording: bool,
        order: Array | None = None,
    ) -> tuple[Array, loop.Record | None]:
        if self.kernel == "precomputed":
            raise ValueError(
                "kernel='precomputed' cannot be learned from a stream, whose later rows it does "
                "not know: use fit, or a kernel that is a name or a function"
            )
        return super()._learn_once(X, y, classes, recording=recording, order=order)

    def _read_rows(self, X: Any, *, reset: bool, min_rows: int) -> Points:
        xp, _ = get_namespace(X)
        X = validate_data(
            self,
            X,
            reset=reset,
            accept_sparse=False if self.kernel == "precomputed" else "csr",
            dtype=(xp.float64, xp.float32),
            ensure_all_finite=False,
            ensure_min_samples=min_rows,
        )
        # A bounded kernel can hide what is not finite, so here it is looked for.
        if issparse(X):
            if not np.isfinite(X.data).all():
                raise not_finite_error(loop.Csr(X.data, X.indices, X.indptr, 0.0), self, None)
        elif not bool(xp.all(xp.isfinite(X))):
            raise not_finite_error(loop.Dense(to_numpy(X), 0.0), self, None)
        if self.kernel == "precomputed" and reset and X.shape[0] != X.shape[1]:
            raise ValueError(
                "kernel='precomputed' needs a square matrix, the kernel of each row of fit with "
                f"each, got X of shape {tuple(X.shape)}"
            )
        return Points(X)

    def _blank_memory(self, rows: Points) -> Support:
        blank = super()._blank_memory(rows)
        n = rows.X.shape[0]
        empty = np.empty(0) if issparse(rows.X) else like(np.empty(0), rows.X)
        none = np.empty(0, dtype=np.int64)
        first = none if self.kernel == "precomputed" else rows.X[:0, ...]
        return Support(first, empty, empty, none, 0, np.full(n, -1), blank.state, blank.mean)

    def _learn(
        self,
        memory: Support,
        rows: Points,
        intervals: Array,
        order: Array | None,
        record: loop.Record | None,
    ) -> Support:
        for batch in batches(len(intervals), BLOCK if on_host(rows.X) else DEVICE_BLOCK):
            if order is None:
                chosen, block = np.arange(batch.start, batch.stop), rows.X[batch, ...]
            else:
                chosen, block = order[batch], safe_indexing(rows.X, order[batch])
            noted = record and loop.Record(*(part[batch] for part in record))
            memory = self._learn_block(memory, block, chosen, intervals[chosen], noted)
        return memory

    def _learn_block(
        self,
        memory: Support,
        block: Any,
        chosen: Array,
        intervals: Array,
        record: loop.Record | None,
    ) -> Support:
        """Learn from a block of rows, given with their positions among the rows of this call."""
        source = memory.origin + chosen
        own = source if self.kernel == "precomputed" else block
        place = np.full(len(chosen), -1) if memory.place is None else memory.place[chosen]
        within = self._checked_kernel(block, own)
        n_kept = len(memory.source)
        if self.budget is None:
            columns = [memory.coef] if record is None else [memory.coef, memory.sums]
            scores = [to_numpy(self._scores(block, memory.rows, column)) for column in columns]
            values, slot = within, np.arange(len(chosen))
            u = mean_u = np.zeros(len(chosen) + 1)
        else:
            # A row that is dropped changes all scores to come, so its kernel values are kept.
            across = self._checked_kernel(block, memory.rows)
            u = np.concatenate([to_numpy(memory.coef), np.zeros(len(chosen) + 1)])
            mean_u = np.concatenate([to_numpy(memory.sums), np.zeros(len(chosen) + 1)])
            scores = [across @ column[:n_kept] for column in (u, mean_u)]
            values = np.concatenate([across.T, within])
            slot = np.where(place >= 0, place, n_kept + np.arange(len(chosen)))
        n_pool = len(u) - 1 - len(chosen)
        gram = loop.Gram(
            scores=scores[0],
            sums=np.empty(0) if record is None else scores[1],
            values=values,
            slot=slot,
            since=np.concatenate([np.arange(n_pool), np.full(len(chosen), -1)]),
            size=np.array([n_pool, 0]),
            budget=np.iinfo(np.int64).max if self.budget is None else int(self.budget),
        )
        state = memory.state._replace(u=u[np.newaxis].copy())
        mean = memory.mean and memory.mean._replace(u=mean_u[np.newaxis].copy())
        bad = loop.run(gram, intervals, None, self._rule(), self._geometry(), state, mean, record)
        if bad >= 0:
            raise ValueError(f"{self._kernel_name()} gives scores that are not finite")
        u = state.u[0, :-1]
        mean_u = np.zeros_like(u) if mean is None else mean.u[0, :-1]
        if self.budget is not None:
            memory = memory.extend(own, u[n_kept:], mean_u[n_kept:], source)
            memory = memory._replace(coef=like(u, memory.coef), sums=like(mean_u, memory.coef))
            if gram.size[1] > 0:
                memory = memory._replace(mean=None)
            if memory.place is not None:
                memory.place[memory.source] = -1
            order = np.argsort(gram.since, kind="stable")  # oldest first
            memory = memory.keep(order[np.count_nonzero(gram.since < 0) :])
            if memory.place is not None:
                memory.place[memory.source] = np.arange(len(memory.source))
        else:
            again = place >= 0
            if again.any():
                memory = memory._replace(
                    coef=memory.coef + scattered(u[again], place[again], memory.coef),
                    sums=memory.sums + scattered(mean_u[again], place[again], memory.sums),
                )
            new = np.flatnonzero(~again & (gram.since >= 0))
            memory = memory.extend(safe_indexing(own, new), u[new], mean_u[new], source[new])
            if memory.place is not None:
                memory.place[source[new]] = n_kept + np.arange(len(new))
        return memory

    # --- The kernel ---

    def _kernel_name(self) -> str:
        return f"kernel={self.kernel!r}" if isinstance(self.kernel, str) else "the kernel function"

    def _kernel(self, A: Any, B: Any) -> Callable[[slice], Any]:
        """Return a function from a part of B's rows to their kernel with A's, where they live."""
        if self.kernel == "precomputed":
            return lambda part: A[:, B[part]]
        params = self.kernel_params or {}
        if callable(self.kernel):
            return lambda part: self._called_kernel(A, B[part, ...], params)
        params = self._named_params()
        if self.kernel == "rbf" and not (issparse(A) or issparse(B)):
            return _rbf(A, B, params.get("gamma", 1.0 / A.shape[1]))

        def compare(part: slice) -> Any:
            with np.errstate(all="ignore"):  # what overflows is refused
                return pairwise_kernels(A, B[part, ...], metric=self.kernel, **params)

        return compare

    def _named_params(self) -> dict[str, Any]:
        """Return the arguments of a kernel known by name: what it does not take is refused."""
        own = {"gamma": self.gamma, "degree": self.degree, "coef0": self.coef0}
        taken = KERNEL_PARAMS[self.kernel]
        more = self.kernel_params or {}
        for name in more:
            if name not in taken:
                raise ValueError(
                    f"kernel_params: kernel={self.kernel!r} takes no argument {name!r}, "
                    f"only {_ranks.named(sorted(taken))}"
                )
        given = {name: own[name] for name in own if name in taken and own[name] is not None}
        return given | more

    def _called_kernel(self, A: Any, B: Any, params: dict[str, Any]) -> Any:
        """Call the user's function, on matrices if it takes them, else on each pair of rows."""
        function: Any = self.kernel
        try:
            if self._takes_matrices(A, params):
                values = function(A, B, **params)
            else:
                values = pairwise_kernels(A, B, metric=function, **params)
            values = values.toarray() if issparse(values) else values
            if on_host(A):
                values = np.asarray(values, dtype=np.float64)
        except Exception as error:
            raise ValueError(f"the kernel function raised {error!r}") from error
        if np.shape(values) != (A.shape[0], B.shape[0]):
            raise ValueError(
                f"the kernel function returned shape {np.shape(values)} for {A.shape[0]} and "
                f"{B.shape[0]} rows; it should return ({A.shape[0]}, {B.shape[0]})"
            )
        return values

    def _takes_matrices(self, A: Any, params: dict[str, Any]) -> bool:
        """Tell a function of two matrices from a function of two rows, by trying it."""
        if A.shape[0] == 0:
            return True
        function: Any = self.kernel
        row = safe_indexing(A, np.zeros(1, dtype=np.int64))
        if issparse(A):
            return True
        try:
            number = function(row[0, :], row[0, :], **params)
        except Exception:  # a function of rows that fails is told of by the call itself
            return True
        if np.shape(number) != ():
            return True
        two, three = (safe_indexing(A, np.zeros(n, dtype=np.int64)) for n in (2, 3))
        try:
            return bool(np.shape(function(two, three, **params)) == (2, 3))
        except Exception:
            return False

    def _checked_kernel(self, A: Any, B: Any) -> Array:
        """Return the kernel as a NumPy array, or refuse what is not finite."""
        if B.shape[0] == 0:
            return np.empty((A.shape[0], 0))
        values = self._kernel(A, B)(slice(0, B.shape[0]))
        xp = namespace(values)
        if not bool(xp.all(xp.isfinite(values))):
            bad = to_numpy(values)
            raise ValueError(
                f"{self._kernel_name()} returned {bad[~np.isfinite(bad)][0]} for two finite rows"
            )
        return np.ascontiguousarray(to_numpy(values))

    def _scores(self, A: Any, B: Any, coef: Any) -> Any:
        """Return the kernel of A and B times the coefficients, never holding all of it."""
        xp = namespace(coef)
        scores = like(np.zeros(A.shape[0]), coef)
        if coef.shape[0] == 0:
            return scores
        kernel, weights = self._kernel(A, B), xp.astype(coef, A.dtype)
        width = max(1, (CHUNK if on_host(coef) else DEVICE_CHUNK) // A.shape[0])
        for part in batches(coef.shape[0], width):
            scores = scores + xp.astype(kernel(part) @ weights[part], scores.dtype)
        return scores

    # --- Predicting ---

    def latent(self, X: Any) -> Any:
        """Return the score f(x) that the thresholds cut into classes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features; for a precomputed kernel its values, of shape (n_samples, n_samples_fit).

        Returns
        -------
        scores : array of shape (n_samples,)
            Comparable to `thresholds_`, in the namespace and on the device of X.
        """
        check_is_fitted(self)
        self._check_fixed()
        rows = self._read_rows(X, reset=False, min_rows=1).X
        coef = self.dual_coef_
        blocks = [
            self._scores(rows[block, ...], self._memory.rows, coef)
            for block in batches(rows.shape[0], BLOCK)
        ]
        return namespace(coef).concat(blocks)

    def _rate(self, X: Any) -> tuple[Array, Array, Array]:
        scores = to_numpy(self.latent(X))
        w, cut, _ = self._parameters()
        ranks, written = np.empty(len(scores), dtype=np.int64), np.empty((len(scores), 1))
        gram = loop.Gram(scores, scores, scores[np.newaxis], ranks, ranks, ranks, 0)
        if loop.rate(gram, self._rule(), w, cut, ranks, written) >= 0:
            raise ValueError(f"{self._kernel_name()} gives scores that are not finite")
        return ranks, written, cut

    @property
    def coef_(self) -> Array:
        """There is none: the weights live in the kernel's feature space."""
        raise AttributeError("KernelPRIL has no coef_; see dual_coef_ and support_vectors_")

    @property
    def dual_coef_(self) -> Any:
        """Coefficients of the support rows."""
        check_is_fitted(self)
        rounds = int(self._memory.state.counts[0])
        if self._memory.mean is None or rounds == 0:
            return self._memory.coef
        return self._memory.coef - self._memory.sums / rounds

    @property
    def support_(self) -> Array:
        """Row of `fit`, or round of the stream, that each support row came from."""
        check_is_fitted(self)
        source: Array = self._memory.source
        return source

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


def _rbf(A: Any, B: Any, gamma: float) -> Callable[[slice], Any]:
    """Return exp(-gamma |a - b|^2) as the exponential of one product of lengthened rows.

    ``(a, -gamma |a|^2, 1) . (2 gamma b, 1, -gamma |b|^2)`` is the exponent: two passes over the
    result instead of pairwise_kernels' seven.
    """
    xp = namespace(A)
    # Only differences count: near zero the squares do not drown them.
    A, B = A - B[:1, ...], B - B[:1, ...]
    a, b = (-gamma * xp.sum(rows * rows, axis=1, keepdims=True) for rows in (A, B))
    left = xp.concat([A, a, xp.ones_like(a)], axis=1)
    right = xp.concat([2.0 * gamma * B, xp.ones_like(b), b], axis=1)

    def compare(part: slice) -> Any:
        exponent = left @ right[part, ...].T
        if on_host(exponent):
            return np.exp(np.minimum(exponent, 0.0, out=exponent), out=exponent)
        return xp.exp(xp.clip(exponent, max=0.0))

    return compare
