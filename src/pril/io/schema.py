"""The types that a model file may hold: what is kept of each.

A linear learner needs no line here: it is in the registry, and its memory has a layout. Any other
type is a `Type` in `TYPES`: a kind for each learned attribute, and a function that checks what no
kind can say. `docs/reference/model-files.md` has the same tables for people.

A kind is a type that msgspec checks, such as ``list[str]``; a dict of kinds; or, for what msgspec
does not know, one of the classes below. They share `sizes`, the dimensions of an estimator, such
as "features": the first value that has a dimension sets its size, and the others must agree.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta, Struct

from pril.core.registry import LEARNERS
from pril.errors import InputError, shown

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

    from pril.core.arrays import Array
    from pril.features import PolynomialMap
    from pril.learners.kernel_pril import KernelPRIL
    from pril.learners.ordered_boosting import OrderedBoosting
    from pril.learners.ordered_logit import OrderedLogit
    from pril.online.learning import OnlineClassifier
    from pril.ranges import PredictionRanges

Sizes = dict[str, int]
Size = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Number = Annotated[float, Meta(ge=-1e308, le=1e308)]


def convert(plain: object, kind: Any, at: str) -> Any:
    """Return a value as a type that msgspec checks; `at` names the place in errors."""
    try:
        return msgspec.convert(plain, kind)
    except msgspec.ValidationError as error:
        reason, _, inside = str(error).partition(" - at ")
        raise InputError(f"{at}{inside.strip('`$')}: {reason.replace('`', '')}") from None


def wrong(at: str, expected: str, value: object) -> InputError:
    """Return an error that names the place of a value."""
    return InputError(f"{at} must be {expected}, not {shown(value)}")


def is_csr(value: object) -> bool:
    """Tell whether rows are sparse."""
    return getattr(value, "format", None) == "csr"


# --- Kinds ---------------------------------------------------------------------------------------


def check_kind(kind: Any, value: object, at: str, sizes: Sizes) -> None:
    """Refuse a value that is not of a kind; `at` is its place in the header."""
    if hasattr(kind, "check"):
        kind.check(value, at, sizes)
    elif isinstance(kind, dict):
        if not isinstance(value, dict) or list(value) != list(kind):
            raise wrong(at, f"a dict of {', '.join(kind)}", value)
        for name, part in kind.items():
            check_kind(part, value[name], f"{at}.{name}", sizes)
    elif kind is not Any:
        convert(value, kind, at)


class Maybe(Struct, frozen=True):
    """A value of a kind, or None."""

    kind: Any

    def check(self, value: object, at: str, sizes: Sizes) -> None:
        if value is not None:
            check_kind(self.kind, value, at, sizes)


class Count(Struct, frozen=True):
    """The size of a dimension."""

    of: str

    def check(self, value: Any, at: str, sizes: Sizes) -> None:
        check_kind(Size, value, at, sizes)
        if (size := sizes.setdefault(self.of, int(value))) != value:
            raise wrong(at, str(size), value)


class Numbers(Struct, frozen=True):
    """An array: its dimensions, types and least number; in C's order, as products depend on it."""

    shape: str
    dtypes: str = "float64"
    low: float = -math.inf
    also: Callable[[Any], Any] = np.isfinite  # which numbers are right besides finite ones
    any_order: bool = False

    def check(self, value: object, at: str, sizes: Sizes) -> None:
        if not isinstance(value, np.ndarray):
            raise wrong(at, "an array", value)
        expected: tuple[Any, ...] = tuple(self.shape.split())
        if fits := value.ndim == len(expected) and value.dtype.name in self.dtypes.split():
            expected = tuple(map(sizes.setdefault, expected, value.shape))
        if not fits or value.shape != expected:
            given = f"not {value.dtype} of shape {value.shape}"
            raise InputError(f"{at} must be {self.dtypes} of shape {expected}, {given}")
        if not (self.any_order or value.flags.c_contiguous):
            raise InputError(f"{at} must be in C order")
        if not (np.isfinite(value) | self.also(value)).all():
            raise InputError(f"{at} must be finite")
        if (value < self.low).any():
            raise InputError(f"{at} must be at least {self.low}")


class RowArray(Struct, frozen=True):
    """Rows: dense, sparse or, if allowed, their positions among the rows of `fit`."""

    positions: bool = False

    def check(self, value: Any, at: str, sizes: Sizes) -> None:
        floats = "float64 float32"
        if is_csr(value):
            Numbers("numbers", floats).check(value.data, f"{at}.data", {})
            agreed = tuple(map(sizes.setdefault, ("rows", "features"), value.shape))
            if value.shape != agreed:
                raise InputError(f"{at} must be of shape {agreed}, not {value.shape}")
        elif self.positions and isinstance(value, np.ndarray) and value.ndim == 1:
            Numbers("rows", "int64", low=0).check(value, at, sizes)
            if (value >= sizes["features"]).any():
                raise InputError(f"{at} must be below {sizes['features']}")
        else:
            Numbers("rows features", floats, any_order=True).check(value, at, sizes)


class LabelArray(Struct, frozen=True):
    """Different numbers, strings or ranges of numbers, or None; those of features are strings."""

    of: str
    required: bool = False

    def check(self, value: object, at: str, sizes: Sizes) -> None:
        if value is None and not self.required:
            return
        if not isinstance(value, np.ndarray) or value.ndim != 1 or value.size == 0:
            raise wrong(at, "labels", value)
        labels = value.tolist()
        if any(isinstance(label, float) and not math.isfinite(label) for label in labels):
            raise wrong(at, "finite labels", labels)
        is_text = value.dtype == object and all(type(label) is str for label in labels)
        if self.of == "features" and not is_text:
            raise wrong(at, "strings", labels)
        if len(set(labels)) < len(labels):
            raise wrong(at, "different labels", labels)
        if (size := sizes.setdefault(self.of, len(labels))) != len(labels):
            raise wrong(at, f"{size} labels", labels)


class PerGroup(Struct, frozen=True):
    """An array with an entry for each group, or one value if there are no groups."""

    array: Numbers
    value: Any

    def check(self, value: object, at: str, sizes: Sizes) -> None:
        check_kind(self.array if "groups" in sizes else self.value, value, at, sizes)


class Step:
    """An estimator, or what stands for none in a pipeline."""

    def check(self, value: object, at: str, sizes: Sizes) -> None:
        if not hasattr(value, "get_params") and value not in (None, "passthrough"):
            raise wrong(at, "an estimator", value)


# --- Types ---------------------------------------------------------------------------------------


class Type(Struct, frozen=True):
    """What a file keeps of a type of estimators.

    Learned attributes are those of `__getstate__`, and `__setstate__` takes them back. In a file
    they have no underscores.
    """

    name: str
    module: str  # where the class is
    learned: dict[str, Any] = {}  # a kind for each attribute
    parameters: dict[str, Any] = {}  # kinds of those that the class does not check itself
    dropped: tuple[str, ...] = ()  # attributes that a file does not keep
    check: Callable[[Any, str], Any] = lambda *_: None  # what no kind can say, of the estimator

    def load(self) -> Any:
        """Import and return the class: a file says its name, never its module."""
        return getattr(import_module(self.module), self.name)


def build(kind: Any, parameters: dict[str, Any]) -> Any:
    """Return an estimator if its class accepts the parameters."""
    from pril.core.scikit import validate_params  # scikit-learn takes long to import

    estimator = kind(**parameters)
    if hasattr(kind, "_parameter_constraints"):
        validate_params(estimator)
    return estimator


# --- Learners ------------------------------------------------------------------------------------

FEATURES = {"n_features_in_": Count("features"), "feature_names_in_": LabelArray("features")}
LEARNED: dict[str, Any] = {
    "order_": LabelArray("classes", required=True),
    **FEATURES,
    "n_iter_": Size | None,
    "learned_with_": dict[str, Any],
    "memory_": Any,  # which `Memory.of` checks against the layout
}
CHOICE = {
    "mechanism": Literal["random", "offsets"],
    "phi": Numbers("phi"),
    "target": Numbers("target", low=0),
    "evidence": Number | None,
    "ends": Numbers("kinds ends", dtypes="int64", low=0),
    "by_kind": Numbers("kinds", low=0),
}
MAXIMUM = {
    "converged": bool,
    "loglik": Number,
    "rows": Size,
    "weight": Number,
    "parameters": Size,
    "means": Numbers("features"),
    "covariance": Numbers("parameters parameters"),
    "unused": Numbers("unused", dtypes="int64", low=0),
    **CHOICE,
    "sampled": bool,
    "has_prior": bool,
    "aliases": Numbers("unused features"),
    "unbounded": Numbers("directions numbers"),
    "growing": Numbers("growing", dtypes="int64", low=0),
    "separated": Numbers("separated ends", dtypes="int64", low=0),
}
SUPPORT = {
    "rows": RowArray(positions=True),
    "coef": Numbers("rows"),
    "sums": Numbers("rows"),
    "source": Numbers("rows", dtypes="int64", low=0),
    "origin": Annotated[int, Meta(ge=0, le=2**53)],
    "base": Any,  # which `Memory.of` checks against the layout
}


def _check_learner(learner: OnlineClassifier, at: str) -> None:
    fixed = learner.learned_with_
    check_kind(dict.fromkeys(learner.fixed_parameters, Any), fixed, f"{at}.learned_with", {})
    _check_as_learned(learner)
    averages, has_mean = fixed.get("average", False), learner.memory_.averages
    if has_mean != averages and not (averages and learner.engine.may_lose_mean):
        raise InputError(f"{at}.memory must have a mean if it averages, and only then")


def _check_maximum(learner: OrderedLogit, at: str) -> None:
    _check_learner(learner, at)
    maximum: dict[str, Any] = getattr(learner, "maximum_", {})
    if not maximum:
        return
    n_features, n_classes = learner.n_features_in_, len(learner.order_)
    expected, covariance = n_features + n_classes - 1, maximum["covariance"]
    if len(covariance) not in (0, expected) or (np.diagonal(covariance) < 0.0).any():
        raise wrong(f"{at}.maximum.covariance", f"of {expected} numbers", covariance.shape)
    if maximum["unbounded"].shape[1] != expected:
        raise wrong(f"{at}.maximum.unbounded", f"of {expected} numbers", maximum["unbounded"].shape)
    for name in ("unused", "growing"):
        if (maximum[name] >= n_features).any():
            raise wrong(f"{at}.maximum.{name}", f"below {n_features}", maximum[name])
    for name in ("separated", "ends"):
        _check_ends(maximum[name], n_classes, f"{at}.maximum.{name}")
    if not learner.choice.fits(n_classes):
        raise wrong(f"{at}.maximum.phi", "numbers of the mechanism", maximum["phi"])


def _check_ends(ends: Array, n_classes: int, at: str) -> None:
    """Refuse what are not kinds of labels, in their order."""
    codes = ends @ np.array([n_classes, 1]) if ends.shape[1] == 2 else np.zeros(2)
    if (np.diff(codes) <= 0).any() or (np.diff(ends) < 0).any() or (ends >= n_classes).any():
        raise wrong(at, "different pairs of ascending ranks", ends)


def _check_kernel(learner: KernelPRIL, at: str) -> None:
    _check_learner(learner, at)
    before, memory = _check_as_learned(learner), learner.memory_
    if (memory.source >= memory.origin).any():
        raise InputError(f"{at}.memory.source must be below origin")
    has_positions = not is_csr(memory.rows) and memory.rows.ndim == 1
    if has_positions != (before.kernel == "precomputed"):
        raise InputError(f"{at} has support rows that kernel={before.kernel!r} cannot have")
    _ = before.engine  # which refuses wrong arguments of the kernel
    convert(before.kernel_params or {}, dict[str, Number], f"{at}.kernel_params")


def _check_as_learned(estimator: Any, _: str = "") -> Any:
    """Return an estimator with the parameters that it learned with, if they are right."""
    parameters = {**estimator.get_params(deep=False), **estimator.learned_with_}
    return build(type(estimator), parameters)


def _check_ranges(ranges: PredictionRanges, at: str) -> None:
    if not hasattr(ranges, "margin_"):
        return
    groups: Any = getattr(ranges, "groups_", None)
    if (groups is None) != (ranges.by is None):
        raise InputError(f"{at}.groups must be there if ranges are by a class or a column")
    is_same = ranges.by != "class" or np.array_equal(groups, ranges.order_)
    if not is_same:
        raise InputError(f"{at}.groups must be the classes, lowest first")


FOREST = {
    "mean": Numbers("features"),
    "slope": Numbers("features"),
    "width": Numbers("features", low=0),
    "landmarks": Numbers("landmarks features"),
    "similarity": Numbers("landmarks"),
    "size": Numbers("trees", dtypes="int32", low=0),
    "feature": Numbers("splits", dtypes="int32", low=0),
    "value": Numbers("splits"),
    "kind": Numbers("splits", dtypes="int8", low=0),
    "begin": Numbers("splits", dtypes="int32", low=0),
    "end": Numbers("splits", dtypes="int32", low=0),
    "leaf": Numbers("leaves"),
    "words": Numbers("words", dtypes="uint32"),
}


def _check_boosting(learner: OrderedBoosting, at: str) -> None:
    from pril.learners.boosting.forest_engine import check_background, check_forest

    cut, n_features = learner.thresholds_, learner.n_features_in_
    if len(cut) != len(learner.order_) - 1 or (np.diff(cut) < 0).any():
        raise wrong(f"{at}.thresholds", f"{len(learner.order_) - 1} ascending numbers", cut)
    if not set(learner.categories_) <= set(map(str, range(n_features))):
        raise wrong(f"{at}.categories", f"of the {n_features} features", learner.categories_)
    choice = learner.memory_.choice
    _check_ends(choice.ends, len(learner.order_), f"{at}.memory.choice.ends")
    if not choice.fits(len(learner.order_)):
        raise wrong(f"{at}.memory.choice.phi", "numbers of the mechanism", choice.phi)
    check_forest(learner.memory_.forest, learner.categories_)
    check_background(learner.memory_.background, learner.memory_.forest, learner.categories_)


BOOSTING = {
    "order_": LabelArray("classes", required=True),
    **FEATURES,
    "n_iter_": Size,
    "validation_loss_": Numbers("rounds"),
    "categories_": dict[str, list[str | bool | float]],
    "memory_": {
        "thresholds": Numbers("cuts"),
        "choice": CHOICE,
        "forest": FOREST,
        "background": Numbers("background features", also=np.isnan),
    },
}
# Learners that keep something else than a memory with a layout.
OWN = {
    "KernelPRIL": (LEARNED | {"memory_": SUPPORT}, _check_kernel),
    "OrderedLogit": (LEARNED | {"maximum_": Maybe(MAXIMUM)}, _check_maximum),
    "OrderedBoosting": (BOOSTING, _check_boosting),
}


def _learner(name: str, module: str) -> Type:
    learned, check = OWN.get(name, (LEARNED, _check_learner))
    # What metadata routing asks for, and notes, which are written beside the model.
    dropped = ("_metadata_request", "file_notes_")
    return Type(name, module, learned, {"classes": LabelArray("classes")}, dropped, check)


# --- Transformers and wrappers -------------------------------------------------------------------

# Set by set_output, which all transformers of scikit-learn have.
OUTPUT = {"_sklearn_output_config": dict[str, Literal["default", "pandas", "polars"]] | None}
LARGEST_DEGREE = 1000  # of a polynomial: its powers are computed one after the other
MOMENTS = {
    "count": Numbers("numbers", low=0),
    "mean": Numbers("numbers"),
    "squares": Numbers("numbers", low=0),
    **dict.fromkeys(("low", "high"), Numbers("numbers", also=np.isinf)),
}


def _check_map(estimator: PolynomialMap, at: str) -> None:
    n_features, size = estimator.n_features_in_, estimator.n_output_features_
    degree, n_terms = estimator.degree, n_features - (estimator.coef0 == 0)
    if degree > LARGEST_DEGREE or math.comb(n_terms + degree, degree) != size:
        which = f"{n_features} features to the degree {degree}"
        raise InputError(f"{at} has {size} monomials, which {which} do not have")


def _check_encoder(encoder: Any, at: str) -> None:
    columns = [*encoder.numbers_, *encoder.words_, *encoder.left_out_]
    if len(set(columns)) < len(columns) or len(encoder.numbers_) != len(encoder.moments_.mean):
        raise wrong(f"{at}.numbers, words and left_out", "different columns", columns)
    if not set(encoder.ranks_) <= set(encoder.numbers_):
        raise wrong(f"{at}.ranks", "among the columns of numbers", list(encoder.ranks_))
    words, counts = encoder.words_, encoder.counts_
    if {name: len(words[name]) for name in words} != {name: len(counts[name]) for name in counts}:
        raise wrong(f"{at}.counts", "a number for each of the words", counts)


def _check_pipeline(pipeline: Pipeline, _: str) -> None:
    from pril.core.scikit import validate_steps

    validate_steps(pipeline)


MAP = FEATURES | {"n_output_features_": Count("monomials"), "scale_": Numbers("monomials", low=0)}
LANDMARKS = {
    **FEATURES,
    "landmarks_": RowArray(),
    "learned_with_": {"kernel": str, "gamma": float},
    "projection_": Numbers("rows rows"),
    "offset_": Numbers("rows"),
}
ENCODER = {
    "numbers_": list[str],
    **dict.fromkeys(("ranks_", "words_"), dict[str, list[str]]),
    "counts_": dict[str, list[Size]],
    "left_out_": list[str],
    "moments_": MOMENTS,
    **OUTPUT,
}
ENCODES = {
    **dict.fromkeys(("scale", "bounded", "impute", "codes"), bool),
    **dict.fromkeys(("numbers", "words"), list[str]),
    "most_words": Size,
}
RANGES = {
    "estimator_": Step(),
    "groups_": LabelArray("groups"),
    "margin_": PerGroup(Numbers("groups", low=0), Annotated[float, Meta(ge=0)]),
    "n_calibration_": PerGroup(Numbers("groups", dtypes="int64", low=1), Size),
}
PIPELINE = {
    "steps": list[tuple[str, Any]],
    "transform_input": list[str] | None,
    "memory": None,  # a folder of pickles
}

_TYPES = [
    *(_learner(one.name, one.module) for one in LEARNERS),
    Type("PolynomialMap", "pril.features", MAP | OUTPUT, {}, ("_monomials",), _check_map),
    Type("LandmarkFeatures", "pril.features", LANDMARKS | OUTPUT, check=_check_as_learned),
    Type("ColumnEncoder", "pril.tables.encoder", ENCODER, ENCODES, check=_check_encoder),
    Type("PredictionRanges", "pril.ranges", RANGES, check=_check_ranges),
    # Of scikit-learn, or ours.
    Type("Pipeline", "pril.tables.pipeline", parameters=PIPELINE, check=_check_pipeline),
    Type("FrozenEstimator", "sklearn.frozen", parameters={"estimator": Step()}),
]
TYPES = {described.name: described for described in _TYPES}
