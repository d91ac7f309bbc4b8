"""The paper's experiments: its figures as arrays, and a verdict on each of its claims."""

from pril.experiments.protocol import Curve, Settings, figure1, figure2, figure3
from pril.experiments.results import draw, judge, reproduce

__all__ = ["Curve", "Settings", "draw", "figure1", "figure2", "figure3", "judge", "reproduce"]
