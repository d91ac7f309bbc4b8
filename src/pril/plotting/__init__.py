"""Plots of models. They need matplotlib, the extra ``plot``."""

from pril.plotting.confusion import IntervalConfusionDisplay
from pril.plotting.contributions import ContributionsDisplay, plot_contributions
from pril.plotting.forest import ForestDisplay, plot_bootstrap, plot_forest
from pril.plotting.mechanism import CoarseningDisplay, plot_coarsening
from pril.plotting.reliability import ReliabilityDisplay
from pril.plotting.score_axis import ScoreAxisDisplay, plot_scores
from pril.plotting.validation_loss import ValidationLossDisplay, plot_validation_loss
from pril.plotting.weights import WeightsDisplay, plot_model

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
