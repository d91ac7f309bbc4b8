"""Trees: grown by LightGBM, kept as plain arrays."""

from __future__ import annotations

import ctypes
import importlib
import threading
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from typing import Any

import numpy as np

from pril.core.arrays import Array
from pril.errors import InputError, MissingExtraError
from pril.learners.boosting.compiled import MISSING_LEFT, SET, Forest
from pril.learners.boosting.features import MOST_BINS

MOST_KEPT = 2_000_000  # rows
PUSHED_ROWS = 1 << 16  # at once to LightGBM
# The arrays of a tree, and of a forest.
TYPES = {"feature": "i4", "value": "f8", "kind": "i1", "begin": "i4", "end": "i4", "leaf": "f8",
         "words": "u4"}  # fmt: skip


def parameters_of(model: Any, signs: Array) -> dict[str, Any]:
    """Return LightGBM's parameters; signs are those of `find_constraints`."""
    parameters = {
        "objective": "none",
        "metric": "None",
        "learning_rate": float(model.learning_rate),
        "num_leaves": int(model.max_leaf_nodes),
        "min_data_in_leaf": int(model.min_samples_leaf),
        "min_sum_hessian_in_leaf": 1.0,
        "min_data_in_bin": 1,
        "max_bin": MOST_BINS + 1,  # the features are bins already; and one for missing values
        "lambda_l2": float(model.l2_regularization),
        "deterministic": True,
        "force_col_wise": True,
        "num_threads": 1,  # so that threads change no bit
        "verbosity": -1,
    }
    if signs.any():
        parameters["monotone_constraints"] = signs.tolist()
        # With "advanced", trees of LightGBM 4.6 rise and fall; "basic" has no more error.
        parameters["monotone_constraints_method"] = "basic"
    return parameters


def lightgbm() -> Any:
    """Import LightGBM, or say what to install."""
    try:
        return importlib.import_module("lightgbm")
    except (ImportError, OSError) as error:
        raise MissingExtraError(
            "OrderedBoosting needs LightGBM, and on Linux the system's libgomp, in Debian the "
            f"package libgomp1 ({error})",
            "boosting",
        ) from error


def dataset(
    sample: Array,
    categorical: list[int],
    parameters: dict[str, Any],
    n_rows: int,
    blocks: Iterator[Array] | None,
) -> Any:
    """Return LightGBM's form of the features, None if it can split none.

    A sample of the rows, which has every bin, determines how they are stored. If it is not all
    rows, blocks have all of them, `PUSHED_ROWS` each but for the last one.
    """
    library = lightgbm()
    data = library.Dataset(sample, categorical_feature=categorical, params=parameters).construct()
    # LightGBM fails if it can split no feature: all are constant, or the rows are too few.
    if not any(data.feature_num_bin(k) > 0 for k in range(sample.shape[1])):
        return None
    if blocks is None:
        return data
    pushed = blocks

    class Pushed(library.Sequence):  # type: ignore[name-defined]
        batch_size = PUSHED_ROWS

        def __len__(self) -> int:
            return n_rows

        def __getitem__(self, _: slice) -> Array:
            return next(pushed)

    whole = library.Dataset(Pushed(), reference=data, params=parameters).construct()
    next(pushed, None)  # lets the one who reads them put everything away
    return_memory()
    return whole


_this_thread = threading.local()


def silence_lightgbm(parameters: dict[str, Any]) -> None:
    """Let LightGBM print nothing in this thread: each thread has its verbosity."""
    if not hasattr(_this_thread, "is_silent"):
        lightgbm().Dataset(np.zeros((1, 1)), params=parameters).construct()  # which sets it
        _this_thread.is_silent = True


def return_memory() -> None:
    """Return freed memory to the system: glibc keeps blocks of up to 32 MB, in every thread."""
    with suppress(AttributeError, OSError, TypeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)


class FoldBooster:
    """Grows the trees of one booster.

    LightGBM gets all rows: those of the fold that the booster must not see have gradients of 0, and
    it says for all of them what the new tree adds.
    """

    def __init__(self, data: Any, parameters: dict[str, Any], scores: Array) -> None:
        self.data, self.parameters, self.scores = data, parameters, scores
        # LightGBM needs 40 bytes a row for a booster: with many rows, every tree has a new one.
        self.is_kept = len(scores) <= MOST_KEPT
        self.start = scores.copy() if self.is_kept else scores
        self.booster: Any = None
        self.trees: list[str] = []  # the text of each, of those that have no booster any more
        self.n_trees: list[int] = []  # after each round: one that finds no split may add none

    def grow(self, gradient: Array, hessian: Array) -> None:
        """Grow a tree, and add what it says of each row to the scores."""
        if self.data is None:
            return
        silence_lightgbm(self.parameters)
        if self.booster is None:
            self.booster = lightgbm().Booster(self.parameters, self.data)
        self.booster.update(fobj=lambda *_: (gradient, hessian))

        def add(outputs: Array, _: Any) -> tuple[str, float, bool]:
            np.add(self.start, outputs, out=self.scores)
            return "", 0.0, True

        self.booster.eval_train(add)
        self.n_trees.append(len(self.trees) + self.booster.num_trees())
        if not self.is_kept:
            self.trees, self.booster = self._texts(), None
            return_memory()

    def grown(self, n_rounds: int) -> list[str]:
        """Return LightGBM's text of the trees of the first rounds."""
        return self._texts()[: max(self.n_trees[:n_rounds], default=0)]

    def _texts(self) -> list[str]:
        """Return LightGBM's text of all trees."""
        if self.booster is None:
            return self.trees
        text: str = self.booster.model_to_string()
        return self.trees + text.partition("\nend of trees")[0].split("\nTree=")[1:]


def read_trees(texts: list[str], categories: dict[str, list[Any]]) -> dict[str, Array]:
    """Read trees from LightGBM's text; return the arrays of a forest."""
    trees: list[dict[str, Array]] = []
    n_words = 0
    for text in texts:
        trees.append(read_tree(text, n_words, categories))
        n_words += len(trees[-1]["words"])
    forest = {
        name: np.concatenate([[], *(tree[name] for tree in trees)]).astype(dtype)
        for name, dtype in TYPES.items()
    }
    return forest | {"size": np.array([len(tree["feature"]) for tree in trees], dtype="i4")}


def read_tree(text: str, n_words: int, categories: dict[str, list[Any]]) -> dict[str, Array]:
    """Read one tree; `n_words` is the offset of its category sets."""
    lines = (line.partition("=") for line in text.splitlines())
    cells = {name: values.split() for name, _, values in lines}

    def numbers(name: str, dtype: Any = np.int64) -> Array:
        return np.array(cells.get(name, []), dtype=dtype)

    left, right, leaf = numbers("left_child"), numbers("right_child"), numbers("leaf_value", float)
    # LightGBM's node i is a split; -1 - i is leaf i. `at`: how many leaves are left of a node.
    at: dict[int, int] = {}
    splits: list[int] = []
    leaves: list[int] = []
    stack = [0 if len(left) else -1]
    while stack:
        node = stack.pop()
        at[node] = len(leaves)
        if node < 0:
            leaves.append(~node)
        else:
            splits.append(node)
            stack += [int(right[node]), int(left[node])]
    decision, feature = numbers("decision_type"), numbers("split_feature")
    # Where no value was missing, a missing one goes with the larger part of the rows.
    counts = np.concatenate([numbers("internal_count"), numbers("leaf_count")[::-1]])
    larger = counts[left] >= counts[right]
    kind = np.where(decision & 12 == 8, decision & 2 == 2, larger) * MISSING_LEFT
    # A split of the missing values from all others has an infinite threshold.
    value = np.nan_to_num(numbers("threshold", float))
    sets = [np.empty(0, np.uint32)]
    words, first = numbers("cat_threshold", np.uint32), list(pairwise(numbers("cat_boundaries")))
    for node in np.flatnonzero(decision & 1).tolist():
        a, b = first[int(value[node])]
        kind[node], value[node] = SET, n_words + sum(map(len, sets))
        width = 1 + (len(categories[str(feature[node])]) >> 5)
        sets.append(np.resize(np.append(words[a:b], np.zeros(width, np.uint32)), width))
    return {
        "feature": feature[splits],
        "value": value[splits],
        "kind": kind[splits],
        "begin": np.array([at[node] for node in splits]),
        "end": np.array([at[int(right[node])] for node in splits]),
        "leaf": leaf[leaves],
        "words": np.concatenate(sets),
    }


def check_forest(forest: Forest, categories: dict[str, list[Any]]) -> None:
    """Refuse arrays with an index that is out of range: compiled code trusts them."""
    size, n, is_set = forest.size, forest.size.sum(), forest.kind == SET
    most = np.repeat(size, size) if n == len(forest.feature) else -1
    widths = np.zeros(len(forest.mean), dtype=np.int64)
    for k, values in categories.items():
        widths[int(k)] = 1 + (len(values) >> 5)
    width, first = widths[forest.feature % len(widths)][is_set], forest.value[is_set]
    for name, holds in {
        "size": n == len(forest.feature) and n + len(size) == len(forest.leaf),
        "feature": (forest.feature < len(widths)).all(),
        "begin": (forest.begin < forest.end).all(),
        "end": (forest.end <= most).all(),  # the last leaf is never on the left
        "kind": (forest.kind <= SET).all() and (width > 0).all(),
        "value": ((first >= 0) & (first % 1 == 0) & (first + width <= len(forest.words))).all(),
    }.items():
        if not holds:
            raise InputError(f"the model is damaged: forest.{name} does not fit the other arrays")
