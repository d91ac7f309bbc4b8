"""Kernel values between rows, computed on the rows' device, and arrays on any device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from joblib import effective_n_jobs
from scipy.sparse import csr_array, issparse, vstack
from sklearn.metrics.pairwise import KERNEL_PARAMS, pairwise_kernels

from pril.core.arrays import Array
from pril.core.rows import batches
from pril.core.scikit import convert_to_numpy, get_namespace
from pril.core.threads import ONE_BLAS_THREAD
from pril.errors import InputError
from pril.labels import ranking

# How many kernel values `Kernel.scores` holds at once, measured by benchmarks/kernel_speed.py. On a
# CPU they should stay in cache; on an accelerator, few large products are faster than many small.
CHUNK, DEVICE_CHUNK = 1 << 18, 1 << 27
ROUNDING = 1e-5  # rounding of a value of the RBF kernel above one


class Kernel(NamedTuple):
    """A kernel and its arguments."""

    kernel: str | Callable[..., Any]
    arguments: dict[str, Any]

    @classmethod
    def of(cls, kernel: Any, parameters: dict[str, Any], more: dict[str, Any]) -> Kernel:
        """Return a function, with `more` arguments, or a kernel that scikit-learn knows by name.

        For a name, `parameters` that the kernel does not have, or that are None, are left out;
        `more` must fit.
        """
        if callable(kernel) or kernel == "precomputed":
            return cls(kernel, more)
        arguments = KERNEL_PARAMS[kernel]
        for name in more:
            if name not in arguments:
                raise InputError(
                    f"kernel_params: kernel={kernel!r} takes no argument {name!r}, "
                    f"only {ranking.named(sorted(arguments))}"
                )
        fitting = {name: parameters[name] for name in parameters if name in arguments}
        # A float64 of NumPy would make float32 rows float64; a float of Python does not.
        given = {name: ranking.plain(value) for name, value in {**fitting, **more}.items()}
        return cls(kernel, {name: value for name, value in given.items() if value is not None})

    def __str__(self) -> str:
        return f"kernel={self.kernel!r}" if isinstance(self.kernel, str) else "the kernel function"

    def gamma(self, X: Any) -> float:
        """Return gamma, whose default depends on the number of features."""
        return float(self.arguments.get("gamma", 1.0 / X.shape[1]))

    def values(self, A: Any, B: Any) -> Array:
        """Return the kernel values of A's rows and B's rows as NumPy; they must be finite."""
        if B.shape[0] == 0:
            return np.empty((A.shape[0], 0))
        values = self._between(A, B)(slice(0, B.shape[0]))
        xp = namespace(values)
        if not bool(xp.all(xp.isfinite(values))):
            host = to_numpy(values)
            raise InputError(
                f"X: {self} returned {host[~np.isfinite(host)][0]} for two finite rows"
            )
        return np.ascontiguousarray(to_numpy(values))

    @np.errstate(all="ignore")  # scores that overflow are refused later
    def scores(self, A: Any, B: Any, coef: Any, n_jobs: int | None = None) -> Any:
        """Return kernel values of A's and B's rows, times the coefficients of B's rows.

        A chunk of the values exists at a time in each of `n_jobs` threads, never all of them. The
        sum does not depend on the number of threads.
        """
        xp = namespace(coef)
        scores = like(np.zeros(A.shape[0]), coef)
        if coef.shape[0] == 0:
            return scores
        between, weights = self._between(A, B), xp.astype(coef, A.dtype)

        @np.errstate(all="ignore")  # in its thread
        def product(part: slice) -> Any:
            return xp.astype(between(part) @ weights[part], scores.dtype)

        if on_host(coef):
            parts = list(batches(coef.shape[0], max(1, CHUNK // A.shape[0])))
            shares = in_threads(product, parts, n_jobs)
        else:
            width = max(1, DEVICE_CHUNK // A.shape[0])
            shares = map(product, batches(coef.shape[0], width, least=width // 16))
        for share in shares:
            scores = scores + share
        return scores

    def _between(self, A: Any, B: Any) -> Callable[[slice], Any]:
        """Return a function from a slice of B's rows to their kernel values with A's rows."""
        if self.kernel == "precomputed":
            return lambda part: A[:, B[part]]
        if callable(self.kernel):
            return lambda part: self._call_function(A, B[part, ...])
        if self.kernel == "rbf" and not (issparse(A) or issparse(B)):
            return _rbf(A, B, self.gamma(A))

        def between(part: slice) -> Any:
            with np.errstate(all="ignore"):  # values that overflow are refused later
                return pairwise_kernels(A, B[part, ...], metric=self.kernel, **self.arguments)

        return between

    def _call_function(self, A: Any, B: Any) -> Any:
        """Call the user's function, on matrices if it takes them, else on each pair of rows."""
        function: Any = self.kernel
        try:
            if self._takes_matrices(A):
                values = function(A, B, **self.arguments)
            else:
                values = pairwise_kernels(A, B, metric=function, **self.arguments)
            values = values.toarray() if issparse(values) else values
            if on_host(A):
                values = np.asarray(values, dtype=np.float64)
        except Exception as error:
            raise InputError(f"the kernel function raised {error!r}") from error
        if np.shape(values) != (A.shape[0], B.shape[0]):
            raise InputError(
                f"the kernel function returned shape {np.shape(values)} for {A.shape[0]} and "
                f"{B.shape[0]} rows; it should return ({A.shape[0]}, {B.shape[0]})"
            )
        return values

    def _takes_matrices(self, A: Any) -> bool:
        """Tell whether the user's function takes two matrices or two rows, by calling it."""
        if A.shape[0] == 0 or issparse(A):
            return True
        function: Any = self.kernel
        one, two, three = (taken(A, np.zeros(n, dtype=np.int64)) for n in (1, 2, 3))
        try:
            value = function(one[0, :], one[0, :], **self.arguments)
        except Exception:  # if it takes rows and fails, the call on matrices reports the failure
            return True
        if np.shape(value) != ():
            return True
        try:
            return bool(np.shape(function(two, three, **self.arguments)) == (2, 3))
        except Exception:
            return False


def in_threads(
    call: Callable[[slice], Any], parts: list[slice], n_jobs: int | None
) -> Iterator[Any]:
    """Return the results of a call for each part, in order."""
    n_threads = min(effective_n_jobs(n_jobs), len(parts))
    # Products of a chunk are too small to be shared by several threads of BLAS.
    with ONE_BLAS_THREAD:
        if n_threads == 1:
            yield from map(call, parts)
        else:
            with ThreadPoolExecutor(n_threads) as pool:
                yield from pool.map(call, parts)


def _rbf(A: Any, B: Any, gamma: float) -> Callable[[slice], Any]:
    """Return a function from a slice of B's rows to exp(-gamma |a - b|^2) with A's rows.

    The exponent is one product of longer rows,
    ``(a, -gamma |a|^2, 1) . (2 gamma b, 1, -gamma |b|^2)``: two passes over the result, where
    `pairwise_kernels` makes seven.
    """
    xp, origin = namespace(A), B[:1, ...]

    @np.errstate(all="ignore")  # values that overflow are refused later
    def moved(rows: Any) -> tuple[Any, Any]:
        # Subtract a row of B: far from the origin, differences would be lost in rounding.
        rows = rows - origin
        return rows, -gamma * xp.sum(rows * rows, axis=1, keepdims=True)

    rows, a = moved(A)
    left = xp.concat([rows, a, xp.ones_like(a)], axis=1)
    # Near B's first row no exponent is above zero by more than rounding.
    far = -float(xp.min(a)) * float(xp.finfo(a.dtype).eps) > ROUNDING

    def between(part: slice) -> Any:
        rows, b = moved(B[part, ...])
        with np.errstate(all="ignore"):
            exponent = left @ xp.concat([2.0 * gamma * rows, xp.ones_like(b), b], axis=1).T
        if far:
            exponent = xp.clip(exponent, max=0.0)
        return np.exp(exponent, out=exponent) if on_host(exponent) else xp.exp(exponent)

    return between


# --- Arrays on any device ------------------------------------------------------------------------


def on_host(array: Any) -> bool:
    """Tell whether an array is NumPy's, or a sparse matrix."""
    return isinstance(array, np.ndarray) or issparse(array)


_NAMESPACES: dict[type, Any] = {}


def namespace(array: Any) -> Any:
    """Return an array's namespace; scikit-learn's look-up takes as long as a small product."""
    if on_host(array):
        return np
    if type(array) not in _NAMESPACES:
        _NAMESPACES[type(array)] = get_namespace(array)[0]
    return _NAMESPACES[type(array)]


def to_numpy(array: Any) -> Array:
    """Return an array of any namespace and device as NumPy."""
    return array if on_host(array) else convert_to_numpy(array, namespace(array))


def like(values: Array, array: Any) -> Any:
    """Return NumPy values in the namespace and on the device of an array."""
    return namespace(array).asarray(values, device=array.device)


def taken(array: Any, rows: Array) -> Any:
    """Return the rows of an array at some positions."""
    if on_host(array):
        return array[rows]
    return namespace(array).take(array, like(rows, array), axis=0)


def joined(one: Any, other: Any) -> Any:
    """Return the rows of both, one after the other."""
    if issparse(one) or issparse(other):
        return vstack([csr_array(one), csr_array(other)], format="csr")
    return namespace(one).concat([one, other])


def roomy(array: Any, n: int) -> Any:
    """Return a copy with n more rows, zero."""
    shape = (array.shape[0] + n, *array.shape[1:])
    copy = namespace(array).zeros(shape, dtype=array.dtype, device=array.device)
    copy[: array.shape[0], ...] = array
    return copy


def scattered(values: Array, places: Array, array: Any) -> Any:
    """Return zeros like a vector, with values in some places."""
    spread = np.zeros(array.shape[0])
    spread[places] = values
    return like(spread, array)
