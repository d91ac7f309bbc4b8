"""Kernel PRIL: PRIL in the feature space of a kernel."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

from numpy.typing import ArrayLike
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS
from sklearn.utils.validation import check_is_fitted

from pril.bases.classifier import ThresholdMixin, rows_to_rate
from pril.core.arrays import Array, FeaturesLike, Seed
from pril.core.loop_types import Pril
from pril.core.scikit import Interval, StrOptions
from pril.kernels.kernel_engine import KernelEngine, Support
from pril.kernels.values import Kernel
from pril.online.learning import SHARED_CONSTRAINTS, OnlineClassifier
from pril.online.linear_engine import LinearEngine

__all__ = ["KernelPRIL"]


class KernelPRIL(ThresholdMixin, OnlineClassifier):
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
        **SHARED_CONSTRAINTS,
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
    fixed_parameters = ("average", "kernel", "gamma", "degree", "coef0", "kernel_params")

    memory_: Support

    def __init__(
        self,
        *,
        classes: ArrayLike | None = None,
        class_weight: dict[Any, float] | Literal["balanced"] | None = None,
        max_iter: int = 10,
        shuffle: bool = True,
        random_state: Seed = None,
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

    @property
    def engine(self) -> KernelEngine:
        """How it learns and rates, by its parameters."""
        names = getattr(self, "feature_names_in_", None)
        rule = Pril(skip_correct=False)
        linear = LinearEngine("KernelPRIL", rule, average=bool(self.average), feature_names=names)
        own = {"gamma": self.gamma, "degree": self.degree, "coef0": self.coef0}
        kernel = Kernel.of(self.kernel, own, self.kernel_params or {})
        return KernelEngine(linear, kernel, self.budget, self.n_jobs)

    # --- Predicting ---

    def latent(self, X: FeaturesLike) -> Any:
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
        return self.engine.scores(self.memory_, rows_to_rate(self, X))

    @property
    def dual_coef_(self) -> Any:
        """Coefficients of the support rows."""
        check_is_fitted(self)
        return self.memory_.predicting_coef()

    @property
    def support_(self) -> Array:
        """Row of `fit`, or of the stream, that each support row came from."""
        check_is_fitted(self)
        return self.memory_.source

    @property
    def support_vectors_(self) -> Any:
        """The support rows."""
        check_is_fitted(self)
        if self.kernel == "precomputed":
            raise AttributeError("a precomputed kernel has no support_vectors_; see support_")
        return self.memory_.rows

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.input_tags.sparse = self.kernel != "precomputed"
        return tags
