"""The paper's analysis as functions: margins, mistake bounds, regret; as printed and corrected.

Notation: K classes, labels ``[l, r]`` of width ``r - l`` at least c, ``C = K - c - 1`` the most
constraints a round can violate, R the largest length of a row, v = (w, theta). A comparator has
margin gamma if ``z_i (w . x - theta_i) >= gamma`` for every constraint i of every row. The errors
of the paper, and the proofs of the corrected statements, are in ``docs/background/theory.md``.
"""

from pril.paper.theory import bounds, margins
from pril.paper.theory.bounds import *
from pril.paper.theory.margins import *

__all__ = sorted([*bounds.__all__, *margins.__all__])
