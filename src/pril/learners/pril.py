"""PRIL: perceptron ranking from interval labels, the learner of the paper."""

from __future__ import annotations

from pril.core import nouns
from pril.core.classifier import ThresholdMixin
from pril.core.learning import OnlineClassifier
from pril.core.linear import LinearMixin


class PRIL(LinearMixin, ThresholdMixin, OnlineClassifier):
    """Perceptron ranking from interval labels, the learner of the paper.

    For a row with score ``f = w . x`` and label ``lo..hi``, every threshold below rank `lo` should
    lie below f, and every threshold from rank `hi` on should lie above it. Each violated
    constraint i, with z = +1 in the first case and -1 in the second, moves the model one step:

        ``w += z x``,  ``theta_i -= z``

    There is no step size: learning starts at zero, so a step size would only rescale the model.

    Parameters
    ----------
    %(classes class_weight max_iter shuffle random_state average half_life tol n_iter_no_change)

    Attributes
    ----------
    %(classes_ order_ coef_ thresholds_ intercept_ n_features_in_ feature_names_in_ n_iter_ t_)
    %(n_mistakes_ n_updates_)

    See Also
    --------
    MPRIL : The multiplicative version, for many irrelevant features.
    PRank : The same algorithm for exact labels.

    Notes
    -----
    With ``average=False``, `partial_fit` is Algorithm 1 of the paper to the letter. Centre and
    scale the features, for example with :class:`~sklearn.preprocessing.StandardScaler`: the length
    of a row decides how much it counts.

    References
    ----------
    N. Manwani, "PRIL: Perceptron Ranking Using Interval Labeled Data".

    Examples
    --------
    >>> from pril import PRIL
    >>> X = [[-2.5], [-1.5], [-0.5], [0.5], [1.5], [2.5]]
    >>> y = [(1, 1), (1, 2), (2, 2), (2, 2), (2, 3), (3, None)]
    >>> model = PRIL(classes=[1, 2, 3], random_state=3).fit(X, y)
    >>> model.predict([[-3.0], [0.0], [3.0]])
    array([1, 2, 3])
    >>> model.score(X, y)
    1.0
    """

    def _rule(self) -> nouns.Pril:
        return nouns.Pril(skip_correct=False)
