"""Descriptions that docstrings share, each written once."""

from __future__ import annotations

import re
from inspect import cleandoc
from textwrap import indent
from typing import Any, TypeVar

Thing = TypeVar("Thing")

PLACE = re.compile(r"^( *)%\((.*)\)$", re.MULTILINE)


class Descriptions:
    """A decorator that fills descriptions into the docstring of a class or a function.

    A line such as ``%(X y)`` becomes the descriptions of X and y.
    """

    def __init__(self, text: str) -> None:
        entries = re.split(r"\n(?=\S)", cleandoc(text))
        self.entries = {entry.split(" : ")[0]: entry for entry in entries}

    def __call__(self, thing: Thing) -> Thing:
        """Fill in the descriptions, and return the same class or function."""
        documented: Any = thing
        if documented.__doc__:  # there are none under python -OO
            documented.__doc__ = PLACE.sub(self._fill, documented.__doc__)
        return thing

    def _fill(self, place: re.Match[str]) -> str:
        margin, names = place.groups()
        return indent("\n".join(self.entries[name] for name in names.split()), margin)


# Of the learners: parameters, attributes, and the arguments of `fit` and `partial_fit`.
documented = Descriptions(
    """
    classes : array-like of shape (n_classes,), default=None
        The ordered labels, lowest first. None takes them from y.
    max_iter : int, default=10
        Passes of `fit` over the rows, at most.
    shuffle : bool, default=True
        Whether each pass of `fit` takes the rows in a new order.
    random_state : int, RandomState instance or None, default=None
        Chooses the orders.
    average : bool, default=True
        Predict with the mean of all iterates instead of the last one. Learning goes on from the
        last one.
    half_life : float, default=None
        Rounds after which a round counts half as much in the mean, so that the model follows a
        stream that changes. None: all rounds count the same. It has no effect without `average`.
    tol : float, default=None
        Stop `fit` when the mean interval loss of a pass, with each row predicted before it is
        learned, has not improved by `tol` for `n_iter_no_change` passes. None: stop only after a
        pass without a mistake.
    n_iter_no_change : int, default=3
        See `tol`.
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted. Columns of margins are in this order.
    order_ : ndarray of shape (n_classes,)
        The classes, lowest first.
    coef_ : ndarray of shape (n_features,)
        Weights of the features.
    thresholds_ : ndarray of shape (n_classes - 1,)
        Thresholds between neighbouring classes, ascending.
    intercept_ : float
        Weight of the constant feature, 0.0 if there is none.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, where X has them.
    n_iter_ : int
        Passes that `fit` made; not set by `partial_fit`.
    t_ : int
        Rounds learned from.
    n_mistakes_ : int
        Rounds that changed the model.
    n_updates_ : int
        Violated constraints, over all rounds.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Features. float32 and float64 are used without a copy.
    y : array-like of shape (n_samples,) or (n_samples, 2)
        Exact labels, or the lower and the upper end of each label. A missing end is open; a row
        without a label is ignored.
    sample_weight : array-like of shape (n_samples,), default=None
        How far each row moves the model, relative to a row of weight 1. A row of weight 0 is
        ignored. None: all weights are 1.
    """
)
