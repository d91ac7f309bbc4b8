"""Folds: a booster of LightGBM each, with the rows that it must not see; and where folds live."""

from __future__ import annotations

import ctypes
import importlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from functools import reduce
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import numpy as np
from threadpoolctl import threadpool_limits

from pril.core.arrays import Array, frozen
from pril.core.rating import MAX_SCORE, exp_of
from pril.core.rows import batches
from pril.errors import MissingExtraError
from pril.learners.boosting import compiled
from pril.learners.boosting.compiled import LabelledRows, Labels
from pril.learners.boosting.features import MOST_BINS, Bins
from pril.learners.boosting.held_out import Shown, kind_sums
from pril.likelihood.sums import KindSums

if TYPE_CHECKING:
    from lightgbm import Booster, Dataset

    from pril.learners.ordered_boosting import OrderedBoosting

T = TypeVar("T")
Turn = AbstractContextManager[Any]  # lets one fold grow at a time, to save memory

BATCH = 1 << 15  # rows whose exponentials stay in the cache
MOST_KEPT = 2_000_000  # rows
PUSHED_ROWS = 1 << 16  # at once to LightGBM


# --- LightGBM ------------------------------------------------------------------------------------


def lightgbm() -> ModuleType:
    """Import LightGBM, or say what to install."""
    try:
        return importlib.import_module("lightgbm")
    except (ImportError, OSError) as error:
        raise MissingExtraError(
            "OrderedBoosting needs LightGBM, and on Linux the system's libgomp, in Debian the "
            f"package libgomp1 ({error})",
            "boosting",
        ) from error


def parameters_of(model: OrderedBoosting, signs: Array) -> dict[str, Any]:
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


def dataset(
    sample: Array,
    categorical: list[int],
    parameters: dict[str, Any],
    n_rows: int,
    blocks: Iterator[Array] | None,
) -> Dataset | None:
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


# --- Folds ---------------------------------------------------------------------------------------


class Fold:
    """One booster, the scores it gives to all rows, and the rows that it must not see.

    Folds need nothing of each other. What they show of their held-out rows is added up in the order
    of the folds, so that a model is the same, bit for bit, wherever its folds live.

    LightGBM gets all rows: those that the booster must not see have gradients of 0, and it says for
    all of them what the new tree adds.
    """

    def __init__(
        self,
        number: int,
        rows: LabelledRows,
        data: Dataset | None,
        parameters: dict[str, Any],
        scores: Array,
        sample: Array,
        turn: Turn,
    ) -> None:
        self.number, self.rows, self.scores = number, LabelledRows(*map(frozen, rows)), scores
        self.data, self.parameters, self.turn = data, parameters, turn
        inside = np.flatnonzero(rows.fold == number).astype(np.int32)
        cuts = [inside[batch] for batch in batches(max(len(inside), 1), BATCH)]
        # The rows inside, in batches, with the kinds and the weights of their labels.
        self.held_out = [(some, rows.kind[some], rows.weight[some]) for some in cuts]
        self.sample = sample[rows.fold[sample] == number]
        # LightGBM needs 40 bytes a row for a booster: with many rows, every tree has a new one.
        self.is_kept = len(scores) <= MOST_KEPT
        self.start = scores.copy() if self.is_kept else scores
        self.booster: Booster | None = None
        self.texts: list[str] = []  # of each tree, of those that have no booster any more
        self.n_trees: list[int] = []  # after each round: one that finds no split may add none

    def learn(self, labels: Labels, boldness: float) -> Shown:
        """Add a tree, learned from the rows outside the fold; return what those inside show."""
        with self.turn:
            self._grow(*self._gradients(labels, boldness))
        scores = np.clip(self.scores[self.sample], -MAX_SCORE, MAX_SCORE, dtype=np.float64)
        weight = self.rows.weight[self.sample].astype(np.float64)
        sums = (kind_sums(np.empty((len(rows[0]), 0)), *rows) for rows in self._inside(labels))
        return Shown(reduce(KindSums.plus, sums), scores, weight)

    def look(self, labels: Labels) -> float:
        """Return the log-likelihood of the rows inside, with other thresholds and chances."""
        return sum(compiled.loglik(*rows) for rows in self._inside(labels))

    def _inside(self, labels: Labels) -> Iterator[tuple[Array, Array, Array, Labels]]:
        """Return exp(score) of the rows inside, in batches, and what their labels say."""
        for some, kind, weight in self.held_out:
            yield exp_of(self.scores[some]), kind, weight, labels

    def trees(self, n_rounds: int) -> list[str]:
        """Return LightGBM's text of the trees of the first rounds."""
        return self._all_texts()[: max(self.n_trees[:n_rounds], default=0)]

    def _gradients(self, labels: Labels, boldness: float) -> Array:
        gradients = np.empty((2, len(self.scores)), dtype=np.float32)
        for batch in batches(len(self.scores), BATCH):
            e = exp_of(self.scores[batch])
            compiled.fill_gradients(
                e, batch.start, self.number, self.rows, labels, boldness, *gradients
            )
        return gradients

    def _grow(self, gradient: Array, hessian: Array) -> None:
        """Grow a tree, and add what it says of each row to the scores."""
        if self.data is None:
            return
        silence_lightgbm(self.parameters)
        if self.booster is None:
            self.booster = lightgbm().Booster(self.parameters, self.data)
        self.booster.update(fobj=lambda *_: (gradient, hessian))

        def add(outputs: Array, _: object) -> tuple[str, float, bool]:
            np.add(self.start, outputs, out=self.scores)
            return "", 0.0, True

        self.booster.eval_train(add)
        self.n_trees.append(len(self.texts) + self.booster.num_trees())
        if not self.is_kept:
            self.texts, self.booster = self._all_texts(), None
            return_memory()

    def _all_texts(self) -> list[str]:
        """Return LightGBM's text of all trees."""
        if self.booster is None:
            return self.texts
        text: str = self.booster.model_to_string()
        return self.texts + text.partition("\nend of trees")[0].split("\nTree=")[1:]


class Encoded(NamedTuple):
    """Rows as folds get them."""

    codes: Array  # (rows, features), of bins
    scores: Array  # (folds, rows), of the starts


class Plan(NamedTuple):
    """What folds begin with."""

    rows: LabelledRows
    parameters: dict[str, Any]  # LightGBM's
    bins: Bins
    sample: Array  # the codes of a sample of the rows
    shown: Array  # the rows that show the shares of the classes
    mean: Array  # (features,), with slopes and centres: the linear models to start from
    slopes: Array  # (folds, features)
    centres: Array  # (folds,)
    scores: Array | None  # (folds, n), where the sample is all rows
    is_scarce: bool  # whether memory counts for more than time

    def encode(self, X: Array) -> Encoded:
        """Return some rows as folds get them."""
        scores = np.empty((len(self.centres), len(X)), dtype=np.float32)
        compiled.write_linear_scores(frozen(X), self.mean, self.slopes, self.centres, scores)
        return Encoded(self.bins.codes(X), scores)

    def folds(self, numbers: list[int], encoded: Iterator[Encoded]) -> list[Fold]:
        """Return some folds; `encoded` has all rows, in parts of any size, if the sample has not.

        The sample is then enough to know how LightGBM stores the rows.
        """
        n, codes = len(self.rows.fold), None
        if self.scores is not None:
            scores = self.scores[numbers]
        else:
            scores = np.empty((len(numbers), n), dtype=np.float32)
            codes = rebatched(_codes_of(encoded, numbers, scores), PUSHED_ROWS)
        categorical = np.flatnonzero(~self.bins.is_number).tolist()
        data = dataset(self.sample, categorical, self.parameters, n, codes)
        turn: Turn = threading.Lock() if self.is_scarce and n > MOST_KEPT else nullcontext()
        return [
            Fold(j, self.rows, data, self.parameters, of_fold, self.shown, turn)
            for j, of_fold in zip(numbers, scores, strict=True)
        ]


def _codes_of(encoded: Iterator[Encoded], numbers: list[int], scores: Array) -> Iterator[Array]:
    """Return the codes of parts, and write their scores by some folds."""
    done = 0
    for part in encoded:
        end = done + len(part.codes)
        scores[:, done:end] = part.scores[numbers]
        done = end
        yield part.codes


def rebatched(parts: Iterator[Array], size: int) -> Iterator[Array]:
    """Cut rows that come in parts into blocks of one size, but for the last one."""
    block, n = np.empty((0, 0)), 0
    for part in parts:
        if len(block) == 0:
            block = np.empty((size, part.shape[1]), dtype=part.dtype)
        while len(part):
            taken = part[: size - n]
            block[n : n + len(taken)] = taken
            n, part = n + len(taken), part[len(taken) :]
            if n == size:
                yield block
                n = 0
    if n:
        yield block[:n]


# --- Where features and folds are ----------------------------------------------------------------


class Source(Protocol):
    """Where features come from."""

    n_rows: int
    is_scarce: bool  # whether memory counts for more than time

    def take(self, rows: Array) -> Array:
        """Return some rows, given by their numbers, ascending."""

    def parts(self) -> Iterator[Array]:
        """Return all rows, in parts of any size."""


class MatrixSource:
    """Features in memory."""

    is_scarce = False

    def __init__(self, X: Array) -> None:
        self.X, self.n_rows = X, len(X)

    def take(self, rows: Array) -> Array:
        """Return some rows, given by their numbers, ascending."""
        return self.X if len(rows) == len(self.X) else self.X[rows]

    def parts(self) -> Iterator[Array]:
        """Return all rows, in parts of any size."""
        return (self.X[batch] for batch in batches(len(self.X), PUSHED_ROWS))


class FoldRunner(Protocol):
    """Where folds live and learn."""

    def begin(self, plan: Plan, source: Source) -> None:
        """Make the folds."""

    def each(self, verb: Callable[..., T], *arguments: object) -> list[T]:
        """Call a method of `Fold` for each; return the results in the order of the folds."""


class Threads(ExitStack):
    """Folds in threads of this process. Use it in a `with` statement."""

    def __init__(self, n_threads: int) -> None:
        super().__init__()
        # Threads of OpenMP and BLAS wait by spinning: seconds where processors are busy.
        self.enter_context(threadpool_limits(1))
        pool = self.enter_context(ThreadPoolExecutor(n_threads))
        self.map = pool.map if n_threads > 1 else map
        self.folds: list[Fold] = []

    def begin(self, plan: Plan, source: Source) -> None:
        """Make the folds."""
        numbers = list(range(len(plan.centres)))
        self.folds = plan.folds(numbers, map(plan.encode, source.parts()))

    def each(self, verb: Callable[..., T], *arguments: object) -> list[T]:
        """Call a method of `Fold` for each; return the results in the order of the folds."""
        return list(self.map(lambda fold: verb(fold, *arguments), self.folds))
