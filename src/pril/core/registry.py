"""Every learner of the package: its name, its home and what can be done with it.

This file imports nothing heavy: the command reads it to print its help.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:  # what `pril` exports to type checkers
    from pril.learners.kernel_pril import KernelPRIL as KernelPRIL
    from pril.learners.linear import MPRIL as MPRIL
    from pril.learners.linear import PRIL as PRIL
    from pril.learners.linear import MulticlassPerceptron as MulticlassPerceptron
    from pril.learners.linear import PassiveAggressive as PassiveAggressive
    from pril.learners.linear import PRank as PRank
    from pril.learners.linear import WidrowHoff as WidrowHoff
    from pril.learners.ordered_boosting import OrderedBoosting as OrderedBoosting
    from pril.learners.ordered_logit import OrderedLogit as OrderedLogit


class Learner(NamedTuple):
    """One learner."""

    name: str  # of the class
    module: str  # where the class is
    command: str  # its name on the command line
    takes_ranges: bool = True  # False: exact labels only
    online: bool = True  # learns row by row: `partial_fit`, tables of any size, Dask
    linear: bool = True  # one weight a feature and score: it has a `stream`
    exports: bool = True  # to ONNX
    has_thresholds: bool = True  # one score, cut into classes
    averages: bool = True  # has the parameter `average`
    maximises: bool = False  # `fit` takes steps to a maximum, each a pass over all rows
    mixes: bool = True  # blocks may learn side by side, and the mean of their models is a model
    bounded: bool = False  # wants features within [-1, 1]
    step: str | None = None  # its parameter for the step: rows of twice the weight want half of it

    def load(self) -> Any:
        """Import and return the class."""
        return getattr(import_module(self.module), self.name)


LEARNERS = (
    Learner("PRIL", "pril.learners.linear", "pril"),
    Learner(
        "OrderedLogit", "pril.learners.ordered_logit", "ordered-logit", maximises=True, mixes=False
    ),
    Learner("MPRIL", "pril.learners.linear", "mpril", averages=False, bounded=True, step="rate"),
    Learner(
        "KernelPRIL",
        "pril.learners.kernel_pril",
        "kernel",
        linear=False,
        exports=False,
        mixes=False,
    ),
    Learner("PassiveAggressive", "pril.learners.linear", "passive-aggressive", step="C"),
    Learner("PRank", "pril.learners.linear", "prank", takes_ranges=False),
    Learner("WidrowHoff", "pril.learners.linear", "widrow-hoff", step="rate"),
    Learner("MulticlassPerceptron", "pril.learners.linear", "perceptron", has_thresholds=False),
    Learner(
        "OrderedBoosting",
        "pril.learners.ordered_boosting",
        "boosting",
        online=False,
        linear=False,
        averages=False,
        mixes=False,
    ),
)
BY_COMMAND = {learner.command: learner for learner in LEARNERS}
# All but baselines.
RECOMMENDED = ("ordered-logit", "boosting", "pril", "passive-aggressive", "mpril", "kernel")
