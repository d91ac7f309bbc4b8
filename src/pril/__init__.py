"""Learn to rate from ranges: ordinal classifiers from interval labels, online."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pril import dask, datasets, evaluate, experiments, labels, metrics, plotting, theory
    from pril.estimators import MPRIL, PRIL, MulticlassPerceptron, PRank, WidrowHoff
    from pril.kernel import KernelPRIL, PolynomialMap

__version__ = "0.1.0.dev0"

__all__ = [
    "MPRIL",
    "PRIL",
    "KernelPRIL",
    "MulticlassPerceptron",
    "PRank",
    "PolynomialMap",
    "WidrowHoff",
    "dask",
    "datasets",
    "evaluate",
    "experiments",
    "labels",
    "metrics",
    "plotting",
    "theory",
]

_MODULES = (
    "dask",
    "datasets",
    "evaluate",
    "experiments",
    "labels",
    "metrics",
    "plotting",
    "theory",
)


def __getattr__(name: str) -> Any:
    # On first use: numba and scikit-learn take two seconds to import.
    if name in _MODULES:
        return import_module(f"pril.{name}")
    if name in __all__:
        home = "pril.kernel" if name in ("KernelPRIL", "PolynomialMap") else "pril.estimators"
        return getattr(import_module(home), name)
    raise AttributeError(f"module 'pril' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
