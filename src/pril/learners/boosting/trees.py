"""Trees: grown by LightGBM, kept as plain arrays."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pril.errors import InputError, MissingExtraError
from pril.learners.boosting.passes import Forest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pril.learners.ordered_boosting import OrderedBoosting

    Array = NDArray[Any]

MOST_KEPT = 200_000  # rows


class Tree(NamedTuple):
    """One tree, its nodes as in a `Forest`."""

    feature: Array
    value: Array
    child: Array
    missing_left: Array
    is_set: Array
    sets: list[Array]
    gain: Array  # of each split, in the order of the nodes


class Engine:
    """Grows the trees of one booster: LightGBM, in one thread, so that threads change no bit.

    It gets all rows: those of the fold that the booster must not see have gradients of 0, and
    LightGBM says for all of them what the new tree adds.
    """

    def __init__(self, data: Any, parameters: dict[str, Any], scores: Array) -> None:
        self.data, self.parameters, self.scores = data, parameters, scores
        # LightGBM needs 40 bytes a row for a booster: with many rows, every tree has a new one.
        self.is_kept = len(scores) <= MOST_KEPT
        self.start = scores.copy() if self.is_kept else scores
        self.booster: Any = None
        self.rounds: list[int] = []  # how many trees there are after each round
        self.trees: list[Tree] = []

    def grow(self, gradient: Array, hessian: Array) -> None:
        """Grow a tree, and add what it says of each row to the scores."""
        if self.data is None:
            return
        if self.booster is None:
            self.booster = import_engine().Booster(self.parameters, self.data)
        self.booster.update(fobj=lambda *_: (gradient, hessian))

        def add(outputs: Array, _: Any) -> tuple[str, float, bool]:
            np.add(self.start, outputs, out=self.scores)
            return "", 0.0, True

        self.booster.eval_train(add)
        if not self.is_kept:
            self.trees += read_trees(self.booster)
            self.booster = None
        self.rounds.append(self.booster.num_trees() if self.is_kept else len(self.trees))

    def grown(self, n_rounds: int) -> list[Tree]:
        """Return the trees of the first rounds."""
        if self.booster is not None:
            self.trees = read_trees(self.booster)
        return self.trees[: self.rounds[n_rounds - 1]] if self.rounds else []


def import_engine() -> Any:
    """Import LightGBM, on first use."""
    try:
        import lightgbm
    except (ImportError, OSError) as error:
        raise MissingExtraError(
            "OrderedBoosting needs LightGBM, and on Linux the system's libgomp, in Debian the "
            f"package libgomp1 ({error})",
            "boosting",
        ) from error
    return lightgbm


def prepare_engine(model: OrderedBoosting, X: Array) -> tuple[Any, dict[str, Any]]:
    """Return LightGBM's form of the features, None if it can split none, and its parameters."""
    parameters = {
        "objective": "none",
        "metric": "None",
        "learning_rate": float(model.learning_rate),
        "num_leaves": int(model.max_leaf_nodes),
        "min_data_in_leaf": int(model.min_samples_leaf),
        "min_sum_hessian_in_leaf": 1.0,
        "min_data_in_bin": 1,
        "max_bin": 127,  # as good as 255, and a third faster where rows are few
        "lambda_l2": float(model.l2_regularization),
        "deterministic": True,
        "force_col_wise": True,
        "num_threads": 1,
        "verbosity": -1,
    }
    categorical = sorted(model._categories)
    data = (
        import_engine().Dataset(X, categorical_feature=categorical, params=parameters).construct()
    )
    # LightGBM fails if it can split no feature: all are constant, or the rows are too few.
    can_split = any(data.feature_num_bin(k) > 0 for k in range(X.shape[1]))
    return data if can_split else None, parameters


def read_trees(booster: Any) -> list[Tree]:
    """Read the trees of a booster from LightGBM's text."""
    parts = booster.model_to_string().partition("\nend of trees")[0].split("\nTree=")
    return [read_tree(part) for part in parts[1:]]


def read_tree(text: str) -> Tree:
    """Read one tree from LightGBM's text."""
    lines = (line.partition("=") for line in text.splitlines())
    parts = {name: cells.split() for name, _, cells in lines}

    def numbers(name: str, dtype: Any = np.int64) -> Array:
        return np.array(parts.get(name, []), dtype=dtype)

    below = np.column_stack([numbers("left_child"), numbers("right_child")])
    m = len(below)
    # The children of LightGBM's node i become nodes 1 + 2i and 2 + 2i, which are after it.
    slots, is_leaf = below.ravel(), below.ravel() < 0
    place = np.zeros(m, dtype=np.int64)
    place[slots[~is_leaf]] = 1 + np.flatnonzero(~is_leaf)
    feature = np.full(2 * m + 1, -1, dtype=np.int32)
    value, child = np.zeros(2 * m + 1), np.zeros(2 * m + 1, dtype=np.int32)
    missing_left, is_set = np.zeros(2 * m + 1, dtype=bool), np.zeros(2 * m + 1, dtype=bool)
    feature[place] = numbers("split_feature")
    # A split of the missing values from all others has an infinite threshold.
    value[place] = np.nan_to_num(numbers("threshold", np.float64))
    child[place] = 1 + 2 * np.arange(m)
    outputs = numbers("leaf_value", np.float64)
    if m == 0:
        value[:] = outputs
    value[1 + np.flatnonzero(is_leaf)] = outputs[~slots[is_leaf]]
    kind = numbers("decision_type")
    is_set[place] = kind & 1 == 1
    # Where no value was missing, a missing one goes with the larger part of the rows.
    counts = np.zeros(2 * m, dtype=np.int64)
    counts[is_leaf] = numbers("leaf_count")[~slots[is_leaf]]
    counts[~is_leaf] = numbers("internal_count")[slots[~is_leaf]]
    larger = counts[0::2] >= counts[1::2]
    missing_left[place] = np.where(kind & 12 == 8, kind & 2 == 2, larger) & (kind & 1 == 0)
    words, first = numbers("cat_threshold", np.uint32), numbers("cat_boundaries")
    sets = [words[a:b] for a, b in pairwise(first)]
    gain = numbers("split_gain", np.float64)
    return Tree(feature, value, child, missing_left, is_set, sets, gain[np.argsort(place)])


FOREST_TYPES = Forest(
    first=np.int32,
    feature=np.int32,
    value=np.float64,
    child=np.int32,
    missing_left=np.bool_,
    is_set=np.bool_,
    set_first=np.int32,
    set_words=np.uint32,
)


def plant(trees: list[Tree]) -> Forest:
    """Put trees one after the other."""
    first = np.cumsum([0, *(len(tree.feature) for tree in trees)])
    n_sets = np.cumsum([0, *(len(tree.sets) for tree in trees)])
    words = [words for tree in trees for words in tree.sets]
    parts = {
        "first": [first],
        "feature": [tree.feature for tree in trees],
        "value": [t.value + n * t.is_set for t, n in zip(trees, n_sets, strict=False)],
        "child": [tree.child + a for tree, a in zip(trees, first, strict=False)],
        "missing_left": [tree.missing_left for tree in trees],
        "is_set": [tree.is_set for tree in trees],
        "set_first": [np.cumsum([0, *map(len, words)])],
        "set_words": words,
    }
    types = FOREST_TYPES._asdict()
    return Forest(
        **{
            name: np.concatenate([np.empty(0, types[name]), *arrays]).astype(types[name])
            for name, arrays in parts.items()
        }
    )


def check_forest(parts: dict[str, Any], n_features: int, categorical: set[int]) -> Forest:
    """Return arrays as a forest if every index in them is right: compiled code does not look."""
    for name, dtype in FOREST_TYPES._asdict().items():
        part = parts.get(name)
        fits = isinstance(part, np.ndarray) and part.ndim == 1 and part.dtype == dtype
        require(fits, f"forest.{name} must be a one-dimensional array of {dtype.__name__}")
    forest = Forest(**{name: np.ascontiguousarray(parts[name]) for name in Forest._fields})
    n_nodes, n_sets = len(forest.feature), len(forest.set_first) - 1
    node = np.arange(n_nodes)
    require(all(len(part) == n_nodes for part in forest[1:6]), "forest: arrays differ in length")
    for name, first, n in (
        ("first", forest.first, n_nodes),
        ("set_first", forest.set_first, len(forest.set_words)),
    ):
        fits = len(first) > 0 and first[0] == 0 and first[-1] == n and (np.diff(first) > 0).all()
        require(fits, f"forest.{name} must ascend from 0 to {n}")
    is_split = forest.feature >= 0
    require(
        (forest.feature >= -1).all() and (forest.feature < n_features).all(),
        "forest.feature must be a feature, or -1",
    )
    require(np.isfinite(forest.value).all(), "forest.value must be finite")
    # Every node but a root is the child of one node, which is before it and in the same tree.
    children = np.add.outer([0, 1], forest.child[is_split].astype(np.int64)).ravel()
    roots = forest.first[:-1]
    require(
        np.array_equal(np.sort(children), np.setdiff1d(node, roots))
        and (forest.child[is_split] > node[is_split]).all()
        and (
            np.searchsorted(roots, children, side="right")
            == np.tile(np.searchsorted(roots, node[is_split], side="right"), 2)
        ).all(),
        "forest.child is not the child of a tree",
    )
    number, is_set = forest.value[forest.is_set], forest.is_set
    require(
        is_split[is_set].all()
        and set(forest.feature[is_set].tolist()) <= categorical
        and ((number >= 0) & (number < n_sets) & (number % 1 == 0)).all(),
        "forest.is_set: a set of categories must be known, and of a feature that has categories",
    )
    return forest


def require(holds: Any, reason: str) -> None:
    """Refuse arrays of which something does not hold."""
    if not holds:
        raise InputError(f"the model is damaged: {reason}")
