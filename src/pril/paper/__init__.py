"""What belongs to the paper alone: its analysis, its experiments and the data they ran on.

The paper is the one that introduced `PRIL`. `theory` has its bounds and margins as functions,
`experiments` draws its figures again and judges each claim, and `datasets` makes or loads the
three data sets of these figures. Nothing else in the package needs any of this: read it to check
the paper, or to begin an experiment of your own.
"""

from pril.paper import datasets as datasets
from pril.paper import experiments as experiments
from pril.paper import theory as theory

__all__ = ["datasets", "experiments", "theory"]
