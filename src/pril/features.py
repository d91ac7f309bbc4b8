"""Feature maps, which make a linear learner non-linear."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.preprocessing import PolynomialFeatures
from sklearn.utils.validation import check_is_fitted, validate_data

from pril._rows import check_sparse
from pril._sklearn import Interval, fit_context

if TYPE_CHECKING:
    from typing import Self

    from numpy.typing import ArrayLike, NDArray

    Array = NDArray[Any]

__all__ = ["PolynomialMap"]


class PolynomialMap(TransformerMixin, BaseEstimator):
    """The exact feature map of the polynomial kernel ``(gamma x . x' + coef0) ** degree``.

    Inner products of mapped rows are kernel values, so `PRIL` on mapped rows is `KernelPRIL` with
    that kernel. Its cost per row does not grow with the number of rows. The map has
    ``C(n_features + degree, degree)`` features, fewer if `coef0` is 0. Prefer the map when that is
    less than `n_features` times the number of support rows, else the kernel.

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
    feature_names_in_ : ndarray of shape (n_features_in_,)
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
        "degree": [Interval(Integral, 1, None, closed="left")],
        "gamma": [Interval(Real, 0, None, closed="neither"), None],
        "coef0": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(self, degree: int = 2, *, gamma: float | None = None, coef0: float = 1) -> None:
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> Self:
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
        check_sparse(X)
        X = validate_data(self, X, accept_sparse="csr", dtype=(np.float64, np.float32))
        lowest = 0 if self.coef0 > 0 else self.degree
        self._monomials = PolynomialFeatures((lowest, self.degree), include_bias=lowest == 0).fit(X)
        gamma = 1.0 / X.shape[1] if self.gamma is None else self.gamma
        powers = self._monomials.powers_
        total = powers.sum(axis=1)
        # A kernel value has the multinomial coefficient of each monomial; a mapped row its root.
        log = math.lgamma(self.degree + 1) - np.array(
            [sum(math.lgamma(p + 1) for p in row) for row in powers]
        )
        rest = self.degree - total
        log -= np.array([math.lgamma(r + 1) for r in rest])
        scale = np.rint(np.exp(log)) * gamma**total * np.power(float(self.coef0), rest)
        self._scale = np.sqrt(scale)
        self.n_output_features_ = len(powers)
        return self

    def transform(self, X: Any) -> Any:
        """Map rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.

        Returns
        -------
        mapped : {ndarray, sparse matrix} of shape (n_samples, n_output_features_)
            Scaled monomials.
        """
        check_is_fitted(self)
        check_sparse(X)
        X = validate_data(self, X, reset=False, accept_sparse="csr", dtype=(np.float64, np.float32))
        mapped = self._monomials.transform(X)
        scale = self._scale.astype(mapped.dtype)
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
        names: Array = self._monomials.get_feature_names_out(input_features)
        return names

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
