"""PRank: perceptron ranking from exact labels, a baseline of the paper."""

from __future__ import annotations

from typing import Any, ClassVar

from pril.core import nouns
from pril.core.classifier import ThresholdMixin
from pril.core.learner import OnlineClassifier
from pril.core.linear import LinearMixin


class PRank(LinearMixin, ThresholdMixin, OnlineClassifier):
    """PRank (Crammer and Singer), the baseline for exact labels.

    It is `PRIL` on exact labels, except at ties: if the predicted rank is right, the model does
    not change, even if the score lies exactly on a threshold.

    Parameters
    ----------
    %(classes class_weight max_iter shuffle random_state average half_life tol n_iter_no_change)

    Attributes
    ----------
    %(classes_ order_ coef_ thresholds_ intercept_ n_features_in_ feature_names_in_ n_iter_ t_)
    %(n_mistakes_ n_updates_)

    See Also
    --------
    PRIL : Takes intervals as well.

    References
    ----------
    K. Crammer and Y. Singer, "Pranking with Ranking", NIPS 2001.

    Examples
    --------
    >>> from pril import PRank
    >>> X = [[1.0], [2.0], [3.0], [4.0], [5.0], [6.0]]
    >>> model = PRank(max_iter=100, random_state=0).fit(X, [1, 1, 2, 2, 3, 3])
    >>> model.predict([[0.0], [7.0]])
    array([1, 3])
    """

    _traits: ClassVar[dict[str, Any]] = {"exact_only": True}

    def _rule(self) -> nouns.Pril:
        return nouns.Pril(skip_correct=True)
