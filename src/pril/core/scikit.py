"""The private parts of scikit-learn that we use, in one place.

They may move in any release: a change shows here first, and `make test` runs the newest version.
"""

from operator import attrgetter, methodcaller
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.base import _fit_context as fit_context
from sklearn.utils import _safe_indexing as safe_indexing
from sklearn.utils._array_api import _convert_to_numpy as convert_to_numpy
from sklearn.utils._array_api import get_namespace
from sklearn.utils._indexing import _get_column_indices
from sklearn.utils._openmp_helpers import _openmp_effective_n_threads
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import _check_feature_names_in as check_feature_names_in
from sklearn.utils.validation import validate_data as _validate_data

from pril.core.arrays import FeaturesLike
from pril.errors import InputError, refusing

__all__ = [
    "HasMethods",
    "Interval",
    "StrOptions",
    "check_feature_names_in",
    "column_indices",
    "convert_to_numpy",
    "fit_context",
    "get_namespace",
    "openmp_threads",
    "safe_indexing",
    "score_function",
    "validate_data",
    "validate_params",
    "validate_steps",
]

validate_params = methodcaller("_validate_params")  # of an estimator
validate_steps = methodcaller("_validate_steps")  # of a pipeline
score_function = attrgetter("_score_func")  # of a scorer


def openmp_threads() -> int:
    """Return how many threads OpenMP may use: containers, OMP_NUM_THREADS, threadpoolctl count."""
    return int(_openmp_effective_n_threads(only_physical_cores=False))


def validate_data(estimator: BaseEstimator, X: FeaturesLike, /, **options: object) -> Any:
    """Let scikit-learn check X; what it refuses is an error of ours."""
    try:
        with refusing():
            return _validate_data(estimator, X, **options)
    except InputError as error:
        if not str(error).startswith("Expected 2D array"):  # followed by the whole array
            raise
    raise InputError(
        f"X must have rows and columns, got an array of shape {np.shape(X)}: are X and y swapped? "
        "Reshape your data with X.reshape(-1, 1) if it has one feature, with X.reshape(1, -1) if "
        "it is one row"
    )


def column_indices(X: FeaturesLike, chosen: object, name: str) -> list[int]:
    """Let scikit-learn find the columns that a mask, indices or names choose."""
    try:
        return sorted({int(k) for k in _get_column_indices(X, chosen)})
    except (IndexError, TypeError, ValueError) as error:
        raise InputError(f"{name}={chosen!r}: {error}") from None
