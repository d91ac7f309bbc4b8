"""Every learner of the package: its name, its home and what can be done with it.

This file imports nothing heavy: the command reads it to print its help.
"""

from importlib import import_module
from typing import Any, NamedTuple


class Learner(NamedTuple):
    """One learner."""

    name: str  # of the class
    module: str  # where the class is
    command: str  # its name on the command line
    takes_ranges: bool = True  # False: exact labels only
    has_thresholds: bool = True  # one score, cut into classes
    averages: bool = True  # has the parameter `average`
    mixes: bool = True  # blocks may learn side by side, and the mean of their models is a model
    bounded: bool = False  # wants features within [-1, 1]
    online: bool = True  # learns row by row, with `partial_fit`; False: all rows at once, in memory

    def load(self) -> Any:
        """Import and return the class."""
        return getattr(import_module(self.module), self.name)


LEARNERS = (
    Learner("PRIL", "pril.learners.pril", "pril"),
    Learner("OrderedLogit", "pril.learners.ordered_logit", "ordered-logit"),
    Learner(
        "OrderedBoosting",
        "pril.learners.ordered_boosting",
        "boosting",
        averages=False,
        mixes=False,
        online=False,
    ),
    Learner("MPRIL", "pril.learners.mpril", "mpril", averages=False, bounded=True),
    Learner("KernelPRIL", "pril.learners.kernel_pril", "kernel", mixes=False),
    Learner("PRank", "pril.learners.prank", "prank", takes_ranges=False),
    Learner("WidrowHoff", "pril.learners.widrow_hoff", "widrow-hoff"),
    Learner("MulticlassPerceptron", "pril.learners.multiclass", "perceptron", has_thresholds=False),
)
# Learners that take rows one by one; the others learn all rows at once, in memory.
ONLINE = tuple(learner for learner in LEARNERS if learner.online)
BY_COMMAND = {learner.command: learner for learner in LEARNERS}
BY_NAME = {learner.name: learner for learner in LEARNERS}
