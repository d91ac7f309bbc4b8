"""How boosted trees rate rows, and what each feature adds to a score: it knows no estimators."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from math import nan
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike
from scipy.sparse import issparse

from pril.bases.classifier import OrdinalLearner
from pril.core.arrays import Array, frozen
from pril.core.loop_types import Csr, Dense
from pril.core.rating import Ratings
from pril.core.rows import batches, check_cells, read_rows
from pril.core.scikit import validate_data
from pril.core.threads import n_threads
from pril.errors import InputError, InputTypeError, OverflowedError, RowError
from pril.learners.boosting import compiled, shapley
from pril.learners.boosting.compiled import MISSING_LEFT, SET, Forest
from pril.learners.boosting.features import LARGEST, Codes, encoded, feature_name
from pril.likelihood.chosen import Choice
from pril.links import LOGIT
from pril.online.loop import compiled_for

LEAST_WORK = 1 << 24  # comparisons that are worth a thread
# The arrays of a tree, and of a forest.
TYPES = {"feature": "i4", "value": "f8", "kind": "i1", "begin": "i4", "end": "i4", "leaf": "f8",
         "words": "u4"}  # fmt: skip


class BoostedTrees(NamedTuple):
    """What boosting has learned: a score, thresholds that cut it into classes, and coarsening."""

    thresholds: Array
    choice: Choice  # how classes become labels
    forest: Forest
    background: Array  # (rows, features), rows of the training set, to which others are compared

    def to_plain(self) -> dict[str, Any]:
        """Return what was learned as plain data, for files and copies."""
        plain = {"choice": self.choice._asdict(), "forest": self.forest._asdict()}
        return {**self._asdict(), **plain}


class ForestEngine(NamedTuple):
    """How boosted trees rate rows. What was learned is `BoostedTrees`."""

    name: str  # of the learner, for errors
    categories: dict[str, list[Any]]  # of each feature that has some, by its number as text
    mode: bool  # predict the most probable class, not the median
    n_jobs: int | None = 1  # threads for many rows
    feature_names: Array | None = None

    def read(self, owner: OrdinalLearner, X: object, *, reset: bool, min_rows: int) -> Dense:
        """Return the rows of X, the categories as their codes, missing values as NaN.

        The owner knows the features, or learns of them if `reset`.
        """
        if isinstance(X, np.ma.MaskedArray):
            X = np.ma.filled(X.astype(np.float64), np.nan)
        if self.categories and not issparse(X):
            check_cells(X)
            validate_data(owner, X, reset=reset, skip_check_array=True)
            features = encoded(X, self.categories)
            if len(features) < min_rows:
                raise InputError(
                    f"Found array with 0 sample(s) (shape={features.shape}) while a minimum of 1 "
                    f"is required by {self.name}."
                )
        else:
            rows = read_rows(owner, X, constant=0.0, reset=reset, min_rows=min_rows)
            if isinstance(rows, Csr):
                raise InputTypeError(
                    f"Sparse data was passed for X, but {self.name} takes dense data: use "
                    "X.toarray(), or OrderedLogit"
                )
            features = rows.X
        highest = np.fmax.reduce(features, axis=None, initial=0.0)  # which ignores NaN
        lowest = np.fmin.reduce(features, axis=None, initial=0.0)
        if max(float(highest), -float(lowest)) > LARGEST:
            raise _too_large(features, getattr(owner, "feature_names_in_", None))
        return Dense(frozen(features), 0.0)

    def restore(self, n_features: int, n_classes: int, plain: dict[str, Any]) -> BoostedTrees:
        """Return what `BoostedTrees.to_plain` gave."""
        parts = {"choice": Choice(**plain["choice"]), "forest": Forest(**plain["forest"])}
        return BoostedTrees(**{**plain, **parts})

    def n_scores(self, n_classes: int) -> int:
        """Return the number of scores of a row."""
        return 1

    def parameters(self, memory: BoostedTrees) -> tuple[None, Array, float]:
        """Return no weights, the thresholds between sentinels, and 1."""
        return None, np.concatenate([[-np.inf], memory.thresholds, [np.inf]]), 1.0

    def rate(self, memory: BoostedTrees, rows: Dense) -> Ratings:
        """Return ranks and scores of rows."""
        _, cut, _ = self.parameters(memory)
        scores = scores_of(rows.X, memory.forest, self.n_jobs)[:, np.newaxis]
        if not np.isfinite(scores).all():
            raise _overflowed(int(np.argmin(np.isfinite(scores))))
        if self.mode:
            rank = LOGIT.log_between(cut[:-1] - scores, cut[1:] - scores).argmax(axis=1)
        else:
            rank = np.searchsorted(cut[1:-1], scores[:, 0], side="right")
        return Ratings(rank, scores, cut)

    def one_row(self, memory: BoostedTrees) -> ForestRow:
        """Return what rates one row at a time."""
        return ForestRow(self, memory)


class ForestRow:
    """Rates one row, which is written into `cells`, missing values as NaN.

    `rate` returns the rank of the row, -1 if it is refused.
    """

    absent = nan  # a feature that a dict lacks is missing

    def __init__(self, engine: ForestEngine, memory: BoostedTrees) -> None:
        self.codes = {int(k): Codes(values) for k, values in engine.categories.items()}
        self._names = engine.feature_names
        forest = Forest(*map(frozen, memory.forest))
        self.cells = np.zeros(len(forest.mean))
        self._score = np.empty((1, 1))
        _, self._cut, _ = engine.parameters(memory)
        splits = None
        if forest.size.max(initial=0) < compiled.MOST_LEAVES:
            splits = compiled.SortedSplits(*map(frozen, compiled.SortedSplits.of(forest)))
        given = (
            frozen(self.cells),
            LARGEST,
            forest,
            splits,
            frozen(memory.thresholds),
            np.empty(len(forest.mean)),
            np.empty(len(forest.size), dtype=np.uint64),
            self._score[0],
        )
        rate_row = compiled_for(compiled.rate_row, *given)
        self._rate: Callable[[], int] = lambda: rate_row(*given)
        self.rate: Callable[[], int] = self._rate_mode if engine.mode else self._rate

    def _rate_mode(self) -> int:
        return -1 if self._rate() < 0 else int(self._logs().argmax())

    def _logs(self) -> Array:
        return LOGIT.log_between(self._cut[:-1] - self._score, self._cut[1:] - self._score)[0]

    def score(self) -> float:
        """Return the score of the row that was rated last."""
        return float(self._score[0, 0])

    def chances(self) -> Array:
        """Return the probabilities of the classes for the row that was rated last."""
        return np.exp(self._logs())

    def refusal(self) -> ValueError:
        """Return the error for a row that was refused."""
        if np.fmax.reduce(np.abs(self.cells)) > LARGEST:
            return _too_large(self.cells[np.newaxis], self._names)
        return _overflowed(0)


def scores_of(X: Array, forest: Forest, n_jobs: int | None = 1) -> Array:
    """Return the score of each row; many rows are shared out among threads."""
    scores = np.empty(len(X))
    work = len(X) * (len(forest.feature) + forest.landmarks.size)
    n = min(n_threads(n_jobs), work // LEAST_WORK) if work >= 2 * LEAST_WORK else 1
    if n == 1:
        compiled.scores_of(X, forest, scores)
        return scores
    with ThreadPoolExecutor(n) as pool:
        parts = np.array_split(X, n), [forest] * n, np.array_split(scores, n)
        list(pool.map(compiled.scores_of, *parts))  # raises what they raise
    return scores


def _overflowed(row: int) -> OverflowedError:
    reason = "X is finite, but OrderedBoosting overflowed on it: the features are too far from "
    return OverflowedError(
        "X", row, reason + "those that it learned from; are they in other units?"
    )


def _too_large(features: Array, names: Array | None) -> RowError:
    """Return the error for the first number that is too large."""
    row, k = np.argwhere(np.abs(features.astype(np.float64)) > LARGEST)[0]
    name, value = feature_name(names, k), features[row, k]
    reason = "Input X contains infinity" if np.isinf(value) else f"the limit is {LARGEST:.0e}"
    advice = "replace it, or use NaN for a missing value"
    return RowError("X", int(row), f"feature {name} is {value}; {reason}: {advice}")


# --- Trees, as LightGBM writes them ---


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

    def numbers(name: str, dtype: DTypeLike = np.int64) -> Array:
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


# --- What each feature adds to a score ---

BACKGROUND_ROWS, BACKGROUND_CELLS = 100, 1 << 18  # of wide tables, fewer rows: files stay small
MOST_STEPS = 200_000_000  # of importances: landmarks, times background, times rows
MOST_CELLS = 1 << 21  # of rows that are explained at once
MOST_NODES = 32  # of a quadrature
MOST_SCORE = 1e300  # of the background, and how far it is from landmarks: sums of these are finite


def background_size(n_features: int) -> int:
    """Return how many rows to keep at most, to which others are compared."""
    return min(BACKGROUND_ROWS, max(2, BACKGROUND_CELLS // n_features))


def contributions(X: Array, forest: Forest, background: Array) -> Array:
    """Return for each row what each feature adds to the score, and in the last column the base.

    The base is the mean score of the background.
    """
    X, n_features = np.asarray(X, dtype=np.float64), X.shape[1]
    values = np.zeros((len(X), n_features + 1))
    values[:, -1] = scores_of(frozen(np.ascontiguousarray(background)), forest).mean()
    own, other = (
        np.where(np.isnan(rows), 0.0, rows - forest.mean) * forest.slope for rows in (X, background)
    )
    values[:, :-1] = own - other.mean(axis=0)
    del own
    size = max(16, MOST_CELLS // n_features - len(background))
    for batch in batches(len(X), size):
        n, rows = batch.stop - batch.start, np.vstack([X[batch], background])
        _add_trees(rows, n, forest, values[batch])
        _add_landmarks(rows, n, forest, values[batch])
    return values


def _add_trees(rows: Array, n: int, forest: Forest, values: Array) -> None:
    """Add what trees add for the first n rows; the others are the background."""
    used, feature = np.unique(forest.feature, return_inverse=True)
    cells = np.ascontiguousarray(rows[:, used].T)
    part, feature = np.zeros((n, len(used))), feature.astype(forest.feature.dtype)
    shapley.add_trees(cells, n, forest._replace(feature=feature), part)
    values[:, used] += part


def _add_landmarks(rows: Array, n: int, forest: Forest, values: Array) -> None:
    """Add what landmarks add for the first n rows; the others are the background."""
    used = np.flatnonzero(forest.width)
    if len(used) == 0 or not forest.similarity.any():
        return
    centred = rows[:, used] - forest.mean[used]
    scaled = np.where(np.isnan(centred), 0.0, centred) * forest.width[used]
    n_nodes = _nodes_needed(scaled[:n], scaled[n:])
    every, weights = np.zeros((2, n_nodes.max() + 1, n_nodes.max()))
    for q in np.unique(n_nodes):
        nodes, lengths = np.polynomial.legendre.leggauss(q)  # of the interval from -1 to 1
        every[q, :q], weights[q, :q] = (nodes + 1.0) / 2.0, lengths / 2.0
    landmarks, part = np.ascontiguousarray(forest.landmarks[:, used]), np.zeros((n, len(used)))
    cells = np.ascontiguousarray(scaled.T)
    shapley.add_landmarks(cells, n, landmarks, forest.similarity, n_nodes, every, weights, part)
    values[:, used] += part


def _nodes_needed(rows: Array, background: Array) -> Array:
    """Return how many nodes the quadrature takes for each row to be exact, or as good.

    In t, a product of d linear functions is a polynomial: d / 2 nodes are exact. It lies between
    exp(-distance t) and exp(distance t), of which 4 + distance nodes leave an error below 1e-12.
    """
    farthest = np.zeros(len(rows))
    for other in background:
        np.maximum(farthest, np.abs(rows - other).sum(axis=1), out=farthest)
    most = min(MOST_NODES, (rows.shape[1] + 1) // 2)
    return np.minimum(4.0 + np.ceil(farthest), most).astype(np.int64)


def importances(forest: Forest, background: Array) -> Array:
    """Return the mean size of the background's contributions, as shares.

    They are zeros if no feature adds anything.
    """
    steps = 6 * forest.landmarks.size * len(background)  # of a row, which takes about six nodes
    some = background[: max(2, MOST_STEPS // max(steps, 1))]
    sizes = np.abs(contributions(some, forest, background)[:, :-1]).mean(axis=0)
    return sizes / (sizes.sum() or 1.0)


def check_background(background: Array, forest: Forest, categories: dict[str, list[Any]]) -> None:
    """Refuse rows with a category that is not known, since compiled code trusts them.

    Refuse a forest whose scores of these rows overflow, too: it has learned from them.
    """
    for k, values in categories.items():
        codes = background[:, int(k)]
        if not (np.isnan(codes) | np.isin(codes, np.arange(len(values)))).all():
            raise InputError(f"the model is damaged: background has unknown categories of {k}")
    if len(background) == 0:
        raise InputError("the model is damaged: background has no row")
    total, places = 0.0, np.abs(forest.landmarks).max(axis=0, initial=0.0)
    with np.errstate(over="ignore"):
        largest = np.nan_to_num(np.abs(background - forest.mean)).max(axis=0)
        for names, sizes in {
            "mean and forest.slope": largest * np.abs(forest.slope),
            "similarity": np.abs(forest.similarity),
            "leaf": np.abs(forest.leaf),
            "width and forest.landmarks": largest * np.abs(forest.width) + places,
        }.items():
            total += float(sizes.sum())
            if not total <= MOST_SCORE:
                raise InputError(f"the model is damaged: forest.{names} make scores overflow")
