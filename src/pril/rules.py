"""Rules of your own, in the loop that all linear learners share.

The guide has a page about them, "Your own rule or kernel".
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

from pril.bases.classifier import ThresholdMixin
from pril.errors import InputError, InputTypeError
from pril.learners.linear import LinearMixin
from pril.online import loop
from pril.online.learning import OnlineClassifier
from pril.online.loop import nudge

__all__ = ["RuleLearner", "nudge", "step_of"]


def step_of(rule: Any, *, needs_length: bool = False) -> Callable[[Any], Any]:
    """Return a decorator that makes a function the step of a rule.

    Parameters
    ----------
    rule : type
        A named tuple with at least one field; the fields are numbers.
    needs_length : bool, default=False
        Whether the function is to be given ``|x|^2`` of the row; else it is 0.

    Returns
    -------
    decorator : callable
        Takes the function, and returns it.

    Examples
    --------
    >>> from typing import NamedTuple
    >>> from pril.rules import step_of
    >>> class Still(NamedTuple):
    ...     length: float
    >>> @step_of(Still)
    ... def step(rule, thresholds, own, work, score, squared, lo, hi, now):
    ...     return 0, False  # no constraint is violated, nothing moves
    """
    if not getattr(rule, "_fields", ()):
        raise InputTypeError(f"rule must be a named tuple with at least one field, got {rule!r}")
    if rule in loop.STEPS:
        raise InputError(f"rule {rule.__name__} has a step already: make a new class")

    def register(step: Any) -> Any:
        loop.add_rule(rule, step, needs_length=needs_length)
        return step

    return register


class RuleLearner(LinearMixin, ThresholdMixin, OnlineClassifier):
    """The base of a linear learner with a rule of your own.

    Parameters
    ----------
    %(classes class_weight max_iter shuffle random_state average half_life tol n_iter_no_change)

    Attributes
    ----------
    %(classes_ order_ coef_ thresholds_ intercept_ n_features_in_ feature_names_in_ n_iter_ t_)
    %(n_mistakes_ n_updates_)

    Examples
    --------
    >>> from typing import NamedTuple
    >>> from pril.rules import RuleLearner, nudge, step_of
    >>> class Lift(NamedTuple):
    ...     length: float
    >>> @step_of(Lift)
    ... def step(rule, thresholds, own, work, score, squared, lo, hi, now):
    ...     nudge(thresholds, now.before, 0, -rule.length)  # the first threshold rises
    ...     work.alpha[0] = 0.0
    ...     return 1, True
    >>> class Lifter(RuleLearner):
    ...     def rule(self):
    ...         return Lift(0.5)
    >>> Lifter(average=False).partial_fit([[1.0], [2.0]], [0, 1], classes=[0, 1]).thresholds_
    array([1.])
    """

    _traits: ClassVar[dict[str, Any]] = {"whole_steps": False}

    @abstractmethod
    def rule(self) -> Any:
        """Return the rule: a named tuple that has a step.

        Returns
        -------
        rule : tuple
            By the parameters of the learner.
        """

    def _rule(self) -> Any:
        rule = self.rule()
        if type(rule) not in loop.STEPS:
            raise InputTypeError(f"rule() returned {rule!r}, whose type has no step: see step_of")
        return rule
