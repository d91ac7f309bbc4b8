"""Plots of models. They need matplotlib, the extra ``plot``."""

from pril.plotting.features import (
    ContributionsDisplay,
    WeightsDisplay,
    plot_contributions,
    plot_model,
)
from pril.plotting.fits import (
    CoarseningDisplay,
    ForestDisplay,
    ValidationLossDisplay,
    plot_bootstrap,
    plot_coarsening,
    plot_forest,
    plot_validation_loss,
)
from pril.plotting.predictions import (
    IntervalConfusionDisplay,
    ReliabilityDisplay,
    ScoreAxisDisplay,
    plot_scores,
)

__all__ = [
    "CoarseningDisplay",
    "ContributionsDisplay",
    "ForestDisplay",
    "IntervalConfusionDisplay",
    "ReliabilityDisplay",
    "ScoreAxisDisplay",
    "ValidationLossDisplay",
    "WeightsDisplay",
    "plot_bootstrap",
    "plot_coarsening",
    "plot_contributions",
    "plot_forest",
    "plot_model",
    "plot_scores",
    "plot_validation_loss",
]
