"""Learn to rate from ranges: ordinal classifiers from interval labels, online.

A label is a value ("good"), a range ("fair", "good"), or open at an end ("good", None).

    from pril import OrderedLogit
    model = OrderedLogit(classes=["poor", "fair", "good", "great"]).fit(X, y)
    model.predict(X_new), model.predict_proba(X_new)

Learners, each a scikit-learn classifier with `fit` and, unless said, `partial_fit`:

- OrderedBoosting: gradient boosting, the least error on tables; in memory, without `partial_fit`
- OrderedLogit: probabilities, online; the least error of the linear learners
- PRIL: the paper's perceptron; KernelPRIL: with a kernel; MPRIL: multiplicative
- PassiveAggressive: PRIL's successor; PRank, WidrowHoff, MulticlassPerceptron: baselines

Around them:

- PredictionRanges: predicted ranges with a guaranteed coverage
- LandmarkFeatures, PolynomialMap: non-linear features; ColumnEncoder: columns of a table
- Pipeline: scikit-learn's, which also serves one row at a time; fit_table: from a table on disk
- save, load, load_notes: models in files; report: a page on how good a model is

Modules: labels (from votes, brackets, strings), metrics, evaluate, inference, plotting, rules,
paper (its theory, experiments and data), io, errors; and with others: dask, river, onnx, torch.

``help(pril.PRIL)`` explains one of them; the command ``pril`` works on tables.
"""

import importlib as _importlib
import typing as _typing

from pril.core.registry import LEARNERS as _LEARNERS

if _typing.TYPE_CHECKING:
    from pril import dask as dask
    from pril import errors as errors
    from pril import evaluate as evaluate
    from pril import inference as inference
    from pril import io as io
    from pril import labels as labels
    from pril import metrics as metrics
    from pril import onnx as onnx
    from pril import paper as paper
    from pril import plotting as plotting
    from pril import river as river
    from pril import rules as rules
    from pril import torch as torch
    from pril.core.registry import *
    from pril.features import *
    from pril.io import load as load
    from pril.io import load_notes as load_notes
    from pril.io import save as save
    from pril.ranges import *
    from pril.reporting import report as report
    from pril.tables.encoder import ColumnEncoder as ColumnEncoder
    from pril.tables.pipeline import Pipeline as Pipeline
    from pril.tables.runs import fit_table as fit_table

__version__ = "1.0.0rc1"

_HOMES = {learner.name: learner.module for learner in _LEARNERS} | {
    "ColumnEncoder": "pril.tables.encoder",
    "LandmarkFeatures": "pril.features",
    "Pipeline": "pril.tables.pipeline",
    "PolynomialMap": "pril.features",
    "PredictionRanges": "pril.ranges",
    "fit_table": "pril.tables.runs",
    "load": "pril.io",
    "load_notes": "pril.io",
    "report": "pril.reporting",
    "save": "pril.io",
}
_MODULES = (
    "dask",
    "errors",
    "evaluate",
    "inference",
    "io",
    "labels",
    "metrics",
    "onnx",
    "paper",
    "plotting",
    "river",
    "rules",
    "torch",
)

# No modules: `from pril import *` must not hide the io of Python, or the library dask.
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> _typing.Any:
    # On first use: scikit-learn takes a second to import.
    if name in _HOMES:
        return getattr(_importlib.import_module(_HOMES[name]), name)
    if name in _MODULES:
        return _importlib.import_module(f"pril.{name}")
    raise AttributeError(f"module 'pril' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(["__version__", *_HOMES, *_MODULES])
