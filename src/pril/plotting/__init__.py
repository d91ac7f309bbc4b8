"""Plots of models. They need matplotlib, the extra ``plot``."""

from pril.plotting import features, fits, predictions
from pril.plotting.features import *
from pril.plotting.fits import *
from pril.plotting.predictions import *

__all__ = sorted([*features.__all__, *fits.__all__, *predictions.__all__])
