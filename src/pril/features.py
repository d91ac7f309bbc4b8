"""Feature maps, which make a linear learner non-linear."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array, hstack, issparse
from scipy.special import gammaln
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS, pairwise_kernels
from sklearn.preprocessing import PolynomialFeatures
from sklearn.utils.validation import check_is_fitted

from pril.core import scikit
from pril.core.arrays import Array, FeaturesLike, Seed
from pril.core.rows import batches, check_cells

__all__ = ["LandmarkFeatures", "PolynomialMap"]


BLOCK_VALUES = 1 << 20  # kernel values computed at once


class _FeatureMap(TransformerMixin, BaseEstimator):
    """A map of dense or sparse rows of float64 or float32."""

    def _read(self, X: FeaturesLike, *, reset: bool) -> Any:
        check_cells(X)
        return scikit.validate_data(
            self, X, reset=reset, accept_sparse="csr", dtype=(np.float64, np.float32)
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class PolynomialMap(_FeatureMap):
    """The exact feature map of the polynomial kernel ``(gamma x.x' + coef0) ** degree``.

    Inner products of mapped rows are kernel values, so `PRIL` on mapped rows is the same as
    `KernelPRIL` with that kernel, but its cost per row does not grow with the number of rows. The
    map has ``C(n_features + degree, degree)`` features, fewer if `coef0` is 0. Use the map if that
    is less than `n_features` times the number of support rows, and the kernel otherwise.

    Parameters
    ----------
    degree : int, default=2
        Degree of the polynomial.
    gamma : float, default=None
        Factor of the inner product. None: ``1 / n_features``.
    coef0 : float, default=1
        Constant added to the inner product, at least 0.

    Attributes
    ----------
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, where X has them.
    n_output_features_ : int
        Number of features of the map.

    See Also
    --------
    KernelPRIL : Any kernel, without the map.

    Examples
    --------
    >>> import numpy as np
    >>> from pril import PolynomialMap
    >>> X = np.array([[1.0, 2.0], [3.0, -1.0]])
    >>> mapped = PolynomialMap(degree=2, gamma=1.0, coef0=1.0).fit_transform(X)
    >>> np.allclose(mapped @ mapped.T, (X @ X.T + 1) ** 2)
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "degree": [scikit.Interval(Integral, 1, None, closed="left")],
        "gamma": [scikit.Interval(Real, 0, None, closed="neither"), None],
        "coef0": [scikit.Interval(Real, 0, None, closed="left")],
    }

    def __init__(self, degree: int = 2, *, gamma: float | None = None, coef0: float = 1) -> None:
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0

    @scikit.fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: FeaturesLike, y: object = None) -> Self:
        """Learn the number of features.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.
        y : None
            Not used.

        Returns
        -------
        self : object
            The fitted transformer.
        """
        X = self._read(X, reset=True)
        self.__dict__.pop("_monomials", None)
        gamma = 1.0 / X.shape[1] if self.gamma is None else self.gamma
        powers = self.powers_
        total = powers.sum(axis=1)
        rest = self.degree - total
        # A kernel value has each monomial times its multinomial coefficient, a mapped row its root.
        log = gammaln(self.degree + 1) - gammaln(powers + 1).sum(axis=1) - gammaln(rest + 1)
        scale = np.rint(np.exp(log)) * gamma**total * np.power(float(self.coef0), rest)
        self.scale_ = np.sqrt(scale)
        self.n_output_features_ = len(powers)
        return self

    @property
    def powers_(self) -> Array:
        """Power of each feature in each monomial, a row for each monomial."""
        return self._monomials.powers_

    @cached_property
    def _monomials(self) -> Any:
        lowest = 0 if self.coef0 > 0 else self.degree
        monomials = PolynomialFeatures((lowest, self.degree), include_bias=lowest == 0)
        return monomials.fit(np.zeros((1, self.n_features_in_)))

    def transform(self, X: FeaturesLike) -> Any:
        """Map rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.

        Returns
        -------
        mapped : {ndarray, sparse matrix} of shape (n_samples, `n_output_features_`)
            Scaled monomials.
        """
        check_is_fitted(self)
        X = self._read(X, reset=False)
        mapped = self._monomials.transform(X)
        scale = self.scale_.astype(mapped.dtype)
        return mapped.multiply(scale).tocsr() if issparse(mapped) else mapped * scale

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> Array:
        """Return the names of the monomials.

        Parameters
        ----------
        input_features : array-like of str or None, default=None
            Names of the features; None takes those of `fit`.

        Returns
        -------
        names : ndarray of str
            One for each monomial.
        """
        check_is_fitted(self)
        if input_features is None:
            input_features = getattr(self, "feature_names_in_", None)
        return self._monomials.get_feature_names_out(input_features)


class LandmarkFeatures(_FeatureMap):
    """Add similarities to some rows of the training set to the features.

    A linear learner on these features is non-linear in the original ones. The similarities are
    :class:`~sklearn.kernel_approximation.Nystroem` features. The rows to compare with, the
    landmarks, are sampled by `fit`. The similarities are centred, and then multiplied by one
    number, so that their squared norm is on average three times that of the features.

    The features must be standardised, for example with
    :class:`~sklearn.preprocessing.StandardScaler`: the kernel adds up differences over all of them,
    and the default `gamma` is meant for differences of about 1.

    Parameters
    ----------
    n_landmarks : int, default=300
        Number of landmarks; all rows, if `fit` has fewer.
    kernel : str, default="laplacian"
        A kernel of :func:`~sklearn.metrics.pairwise.pairwise_kernels`.
    gamma : float, default=None
        Parameter of the kernel, if it has one. None: ``0.6 / n_features``.
    random_state : int, RandomState instance or None, default=None
        Seed for the choice of the landmarks.

    Attributes
    ----------
    landmarks_ : {ndarray, sparse matrix} of shape (n_landmarks, n_features)
        The landmarks.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, where X has them.

    See Also
    --------
    OrderedLogit : The learner that gains most from them.
    KernelPRIL : Any kernel, without landmarks; its cost grows with the number of rows.

    References
    ----------
    C. K. I. Williams and M. Seeger, "Using the Nystroem method to speed up kernel machines", 2001.

    Examples
    --------
    A class in the middle of a plane, and the other one around it:

    >>> import numpy as np
    >>> from pril import LandmarkFeatures, OrderedLogit
    >>> from sklearn.pipeline import make_pipeline
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> y = (X**2).sum(axis=1) > 1.4
    >>> linear = OrderedLogit(random_state=0)
    >>> map_first = make_pipeline(LandmarkFeatures(50, random_state=0), linear)
    >>> bool(map_first.fit(X, y).score(X, y) > linear.fit(X, y).score(X, y) + 0.3)
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_landmarks": [scikit.Interval(Integral, 1, None, closed="left")],
        "kernel": [scikit.StrOptions(set(PAIRWISE_KERNEL_FUNCTIONS))],
        "gamma": [scikit.Interval(Real, 0, None, closed="neither"), None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_landmarks: int = 300,
        *,
        kernel: str = "laplacian",
        gamma: float | None = None,
        random_state: Seed = None,
    ) -> None:
        self.n_landmarks = n_landmarks
        self.kernel = kernel
        self.gamma = gamma
        self.random_state = random_state

    @scikit.fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: FeaturesLike, y: object = None) -> Self:
        """Sample the landmarks, and learn how to centre and scale the similarities.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features, standardised.
        y : None
            Not used.

        Returns
        -------
        self : object
            The fitted transformer.
        """
        X = self._read(X, reset=True)
        n, d = X.shape
        self.learned_with_ = {
            "kernel": self.kernel,
            "gamma": 0.6 / d if self.gamma is None else float(self.gamma),
        }
        nystroem = Nystroem(
            n_components=min(self.n_landmarks, n),
            random_state=self.random_state,
            **self.learned_with_,
        ).fit(X)
        self.landmarks_ = nystroem.components_
        # The memory order that a loaded file has, so that products round the same.
        self.projection_ = nystroem.normalization_.T.astype(np.float64, order="C")
        self.offset_ = np.zeros(len(self.projection_))
        mean, square = self.offset_.copy(), 0.0
        for _, similar in self._similarities(X):
            mean += similar.sum(axis=0, dtype=np.float64) / n
            square += np.square(similar, dtype=np.float64).sum() / n
        spread = square - mean @ mean  # of the centred similarities
        length = np.square(X.data if issparse(X) else X, dtype=np.float64).sum() / n
        factor = math.sqrt(3.0 * length / spread) if spread > 1e-12 * square else 1.0
        self.projection_ *= factor
        self.offset_ = factor * mean
        return self

    def transform(self, X: FeaturesLike) -> Any:
        """Append the similarities to the landmarks to the features.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features, standardised as those of `fit`.

        Returns
        -------
        mapped : {ndarray, sparse array} of shape (n_samples, n_features + n_landmarks)
            Sparse if X is sparse.
        """
        check_is_fitted(self)
        X = self._read(X, reset=False)
        n, d = X.shape
        first = 0 if issparse(X) else d
        mapped = np.empty((n, first + len(self.offset_)), dtype=X.dtype)
        for rows, similar in self._similarities(X):
            mapped[rows, first:] = similar
        if issparse(X):
            return hstack([X, csr_array(mapped)], format="csr")
        mapped[:, :d] = X
        return mapped

    def kernel_weights(self, slope: Array) -> tuple[Array, float]:
        """Return a linear score of the similarities as one of the kernel's values.

        Parameters
        ----------
        slope : ndarray of shape (n_landmarks,)
            Weights of the similarities that `transform` appends.

        Returns
        -------
        weights : ndarray of shape (n_landmarks,)
            Weights of the kernel's values of a row and `landmarks_`.
        offset : float
            What to subtract from their weighted sum.
        """
        check_is_fitted(self)
        return self.projection_ @ slope, float(self.offset_ @ slope)

    def _read(self, X: FeaturesLike, *, reset: bool) -> Any:
        X = super()._read(X, reset=reset)
        if issparse(X) and X.nnz <= np.iinfo(np.int32).max:  # the kernels take 32-bit indices only
            short = X.indices.astype(np.int32), X.indptr.astype(np.int32)
            return csr_array((X.data, *short), shape=X.shape)
        return X

    def _similarities(self, X: Array) -> Iterator[tuple[slice, Array]]:
        """Yield the Nystroem features, centred and scaled, of batches of rows."""
        kernel, gamma = self.learned_with_["kernel"], self.learned_with_["gamma"]
        for rows in batches(X.shape[0], max(1, BLOCK_VALUES // len(self.offset_))):
            values = pairwise_kernels(
                X[rows], self.landmarks_, metric=kernel, filter_params=True, gamma=gamma
            )
            yield rows, values @ self.projection_ - self.offset_

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> Array:
        """Return the names of the features: those of X, then one for each landmark.

        Parameters
        ----------
        input_features : array-like of str or None, default=None
            Names of the features; None takes those of `fit`.

        Returns
        -------
        names : ndarray of str
            One for each column of what `transform` returns.
        """
        check_is_fitted(self)
        names = scikit.check_feature_names_in(self, input_features)
        landmarks = [f"landmark{k}" for k in range(len(self.offset_))]
        return np.array([*names, *landmarks], dtype=object)
