"""Random forests, grown as nested tuples: a slow way to rate rows, and the arrays of the package.

A tree is a leaf, which is a number, or a tuple: feature, whether a value goes left, left, right. A
feature is a number, or a category, which is the word ``c0``, ``c1`` and so on.
"""

import math

import numpy as np

from pril import OrderedBoosting
from pril.core.coarsening import Kinds
from pril.learners.boosting.compiled import MISSING_LEFT, MISSING_RIGHT, SET, Forest
from pril.learners.boosting.forest_engine import BoostedTrees, check_forest
from pril.likelihood.chosen import Choice
from pril.likelihood.mechanisms import Random

# Values of splits, and of rows: some are alike, so that many cells are at a threshold.
VALUES = [-1e150, -2.5, -1.0, -1e-310, -0.0, 0.0, 5e-324, 1.0, math.nextafter(1.0, 2.0), 7.0, 1e150]
NOTHING_ABOVE = 1.7976931348623157e308  # the threshold between missing values and all others


class RandomForest:
    """A model with random trees, and how it rates rows by walking down the nested tuples."""

    def __init__(self, rng, n_trees=5, most_leaves=40, n_landmarks=0, n_classes=4):
        self.rng = rng
        self.sizes = rng.choice([0, 0, 1, 5, 40, 70], size=rng.integers(1, 6))  # categories
        d = len(self.sizes)
        self.names = [f"x{k}" for k in range(d)]
        self.words = []
        leaves = rng.integers(1, most_leaves + 1, size=n_trees)
        self.trees = [self._grow(n) for n in leaves.tolist()]
        numeric = (self.sizes == 0) * 1.0
        self.mean, self.slope = rng.normal(size=(2, d)) * [np.ones(d), numeric]
        self.width = np.abs(rng.normal(size=d)) * numeric * rng.integers(0, 2, d)
        self.landmarks = rng.normal(size=(n_landmarks, d)) * self.width
        self.similarity = rng.normal(size=n_landmarks)
        self.thresholds = np.sort(rng.normal(size=n_classes - 1)) * 3.0

    def _grow(self, n_leaves):
        rng = self.rng
        if n_leaves == 1:
            return rng.normal()
        n_left = int(rng.choice([1, n_leaves - 1, rng.integers(1, n_leaves)]))
        k, missing_left = int(rng.integers(len(self.sizes))), bool(rng.integers(2))
        if self.sizes[k]:
            chosen = rng.random(self.sizes[k]) < 0.5
            split = (SET, float(len(self.words)), {f"c{c}" for c in np.flatnonzero(chosen)})
            bits = np.zeros(32 * (1 + (self.sizes[k] >> 5)), dtype=np.uint8)
            bits[: len(chosen)] = chosen
            self.words += np.packbits(bits, bitorder="little").view("<u4").tolist()
        else:
            value = float(rng.choice([*VALUES, NOTHING_ABOVE]))
            split = (MISSING_LEFT if missing_left else MISSING_RIGHT, value, None)
        return (k, split, self._grow(n_left), self._grow(n_leaves - n_left))

    # --- The slow way ---

    def score(self, row):
        """Return the score of a row, in the order of the features."""
        gaps = [
            0.0 if self.sizes[k] or x is None or math.isnan(x) else x - self.mean[k]
            for k, x in enumerate(row)
        ]
        score = 0.0
        for gap, slope in zip(gaps, self.slope.tolist(), strict=True):
            score += gap * slope
        near = [gap * width for gap, width in zip(gaps, self.width.tolist(), strict=True)]
        for landmark, weight in zip(self.landmarks.tolist(), self.similarity.tolist(), strict=True):
            distance = 0.0
            for at, other in zip(near, landmark, strict=True):
                distance += abs(at - other)
            score += weight * math.exp(-distance)
        for tree in self.trees:
            while isinstance(tree, tuple):
                k, split, left, right = tree
                tree = left if goes_left(split, row[k]) else right
            score += tree
        return score

    # --- The package's way ---

    def model(self, **parameters):
        """Return the forest as a fitted model."""
        parts = [_arrays(tree) for tree in self.trees]
        joined = {name: [cell for part in parts for cell in part[name]] for name in parts[0]}
        types = {"feature": "i4", "value": "f8", "kind": "i1", "begin": "i4", "end": "i4"}
        forest = Forest(
            self.mean, self.slope, self.width, self.landmarks, self.similarity,
            size=np.array([len(part["feature"]) for part in parts], dtype="i4"),
            **{name: np.array(joined[name], dtype=types[name]) for name in types},
            leaf=np.array(joined["leaf"]), words=np.array(self.words, dtype="u4"),
        )  # fmt: skip
        model = OrderedBoosting(**parameters)
        n_classes = len(self.thresholds) + 1
        model.order_ = np.array([f"grade {rank}" for rank in range(n_classes)], dtype=object)
        model.categories_ = {
            str(k): [f"c{c}" for c in range(size)] for k, size in enumerate(self.sizes) if size
        }
        model.n_features_in_ = len(self.sizes)
        model.feature_names_in_ = np.array(self.names, dtype=object)
        check_forest(forest, model.categories_)
        kinds = Kinds(np.empty((0, 2), dtype=np.int64), n_classes)
        nothing = Choice.of(Random(kinds), np.empty(0), None, kinds, np.empty(0))
        background = np.zeros((1, len(self.sizes)))
        model.memory_ = BoostedTrees(self.thresholds, nothing, forest, background)
        return model

    def rows(self, n):
        """Return rows with values at the thresholds, missing ones, and unseen categories."""
        rng, cells = self.rng, []
        for size in self.sizes:
            if size:
                words = [f"c{c}" for c in range(size)]
                cells.append(rng.choice([*words, "unseen", None], size=n).tolist())
            else:
                cells.append(rng.choice([*VALUES, rng.normal(), math.nan, math.nan], n).tolist())
        return list(zip(*cells, strict=True))


def goes_left(split, x):
    kind, value, words = split
    if kind == SET:
        return x in words
    return kind == MISSING_LEFT if math.isnan(x) else x <= value


def _arrays(tree):
    """Return the arrays of a tree: splits in pre-order, leaves from the left."""
    parts = {name: [] for name in ("feature", "value", "kind", "begin", "end", "leaf")}

    def visit(node):
        if not isinstance(node, tuple):
            parts["leaf"].append(node)
            return
        k, (kind, value, _), left, right = node
        at = len(parts["feature"])
        for name, cell in zip(parts, (k, value, kind, len(parts["leaf"]), -1), strict=False):
            parts[name].append(cell)
        visit(left)
        parts["end"][at] = len(parts["leaf"])
        visit(right)

    visit(tree)
    return parts
