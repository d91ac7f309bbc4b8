"""Learn to rate from ranges: ordinal classifiers from interval labels, online."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pril import (
        dask,
        datasets,
        evaluate,
        experiments,
        io,
        labels,
        metrics,
        plotting,
        theory,
    )
    from pril.estimators import MPRIL, PRIL, MulticlassPerceptron, PRank, WidrowHoff
    from pril.io import load, save
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
    "io",
    "labels",
    "load",
    "metrics",
    "plotting",
    "save",
    "theory",
]

# Where the names are that are neither modules nor in pril.estimators.
_HOMES = {
    "KernelPRIL": "pril.kernel",
    "PolynomialMap": "pril.kernel",
    "load": "pril.io",
    "save": "pril.io",
}


def __getattr__(name: str) -> Any:
    # On first use: numba and scikit-learn take two seconds to import.
    if name not in __all__:
        raise AttributeError(f"module 'pril' has no attribute {name!r}")
    if name.islower() and name not in _HOMES:
        return import_module(f"pril.{name}")
    return getattr(import_module(_HOMES.get(name, "pril.estimators")), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
