"""The types that a model file may hold: what is kept of each.

A linear learner needs no line here: it is in the registry, and its memory has a layout. Any other
type is a `Type` in `TYPES`: a kind for each learned attribute, and a function that checks what no
kind can say. `docs/reference/model-files.md` has the same tables for people.

A kind is a type that msgspec checks, such as ``list[str]``; a dict of kinds; or one of the
functions below, which check a value. They share `sizes`, the dimensions of an estimator, such as
"features": the first value that has a dimension sets its size, and the others must agree.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from inspect import signature
from types import FunctionType
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from msgspec import Meta

from pril.core.registry import LEARNERS
from pril.errors import InputError, InputTypeError
from pril.io.values import EstimatorNode, File, Size, convert, pack_labels, wrong

if TYPE_CHECKING:
    Sizes = dict[str, int]

Number = Annotated[float, Meta(ge=-1e308, le=1e308)]
LABELS = ("classes", "order_", "feature_names_in_")  # written as labels whatever their type is


# --- Kinds ---------------------------------------------------------------------------------------


def check_kind(kind: Any, value: Any, at: str, sizes: Sizes) -> None:
    """Refuse a value that is not of a kind."""
    if isinstance(kind, FunctionType | partial):
        kind(value, at, sizes)
    elif isinstance(kind, dict):
        if not isinstance(value, dict) or list(value) != list(kind):
            raise wrong(at, f"a dict of {', '.join(kind)}", value)
        for name, part in kind.items():
            check_kind(part, value[name], f"{at}.{name}", sizes)
    elif kind is not Any:
        convert(value.item() if isinstance(value, np.generic) else value, kind, at)


def each(value: Any, at: str, sizes: Sizes, *, kind: Any) -> None:
    """Check a dict whose values are of a kind; each has dimensions of its own."""
    convert(value, dict[str, Any], at)
    for key, item in value.items():
        check_kind(kind, item, f"{at}.{key}", {})


def count(value: Any, at: str, sizes: Sizes, *, of: str) -> None:
    """Check the size of a dimension."""
    check_kind(Size, value, at, sizes)
    if (size := sizes.setdefault(of, int(value))) != value:
        raise wrong(at, str(size), value)


def numbers(
    value: Any,
    at: str,
    sizes: Sizes,
    *,
    shape: tuple[str, ...],
    dtypes: str = "float64",
    low: float = -math.inf,
    finite: bool = True,
    any_order: bool = False,
) -> None:
    """Check an array: types, shape, least number; C's order, on which products may depend."""
    if not isinstance(value, np.ndarray):
        raise wrong(at, "an array", value)
    expected: tuple[Any, ...] = shape
    if fits := value.ndim == len(shape) and value.dtype.name in dtypes.split():
        expected = tuple(map(sizes.setdefault, shape, value.shape))
    if not fits or value.shape != expected:
        raise InputError(
            f"{at} must be {dtypes} of shape {expected}, not {value.dtype} of shape {value.shape}"
        )
    if not (any_order or value.flags.c_contiguous):
        raise InputError(f"{at} must be in C order")
    if np.isnan(value).any() or (finite and not np.isfinite(value).all()):
        raise InputError(f"{at} must be finite")
    if (value < low).any():
        raise InputError(f"{at} must be at least {low}")


def rows(value: Any, at: str, sizes: Sizes, *, positions: bool = False) -> None:
    """Check rows: dense, sparse or, if allowed, their positions among the rows of `fit`."""
    floats, shape = "float64 float32", ("rows", "features")
    if is_csr(value):
        numbers(value.data, f"{at}.data", {}, shape=("numbers",), dtypes=floats)
        if value.shape != (agreed := tuple(map(sizes.setdefault, shape, value.shape))):
            raise InputError(f"{at} must be of shape {agreed}, not {value.shape}")
    elif positions and isinstance(value, np.ndarray) and value.ndim == 1:
        numbers(value, at, sizes, shape=("rows",), dtypes="int64", low=0)
        if (value >= sizes["features"]).any():
            raise InputError(f"{at} must be below {sizes['features']}")
    else:
        numbers(value, at, sizes, shape=shape, dtypes=floats, any_order=True)


def is_csr(value: Any) -> bool:
    """Tell whether rows are sparse."""
    return getattr(value, "format", None) == "csr"


def labels(value: Any, at: str, sizes: Sizes, *, of: str, required: bool = False) -> None:
    """Check different numbers, strings or ranges of numbers; those of features are strings."""
    if value is None and not required:
        return
    if not isinstance(value, np.ndarray) or value.ndim != 1 or value.size == 0:
        raise wrong(at, "labels", value)
    found = value.tolist()
    if any(isinstance(label, float) and not math.isfinite(label) for label in found):
        raise wrong(at, "finite labels", found)
    if of == "features" and not (value.dtype == object and all(type(x) is str for x in found)):
        raise wrong(at, "strings", found)
    if len(set(found)) < len(found):
        raise wrong(at, "different labels", found)
    if (size := sizes.setdefault(of, len(found))) != len(found):
        raise wrong(at, f"{size} labels", found)


def step(value: Any, at: str, sizes: Sizes) -> None:
    """Check an estimator, or what stands for none in a pipeline."""
    if not hasattr(value, "get_params") and value not in (None, "passthrough"):
        raise wrong(at, "an estimator", value)


def steps(value: Any, at: str, sizes: Sizes) -> None:
    """Check a list of pairs: a name, and an estimator."""
    convert(value, list[tuple[str, Any]], at)
    for i, (_, estimator) in enumerate(value):
        step(estimator, f"{at}.{i}", sizes)


# --- Types ---------------------------------------------------------------------------------------


def _nothing(*_: Any) -> None:
    """Check nothing: the kinds say all."""


@dataclass(frozen=True)
class Type:
    """What a file keeps of a type of estimators.

    Learned attributes are those of `__getstate__`, and `__setstate__` takes them back. In a file
    they have no underscores.
    """

    name: str
    module: str  # where the class is
    learned: dict[str, Any] = field(default_factory=dict)  # a kind for each attribute
    parameters: dict[str, Any] = field(default_factory=dict)  # what the class does not check itself
    dropped: tuple[str, ...] = ()  # attributes that a file does not keep
    check: Callable[[Any, str], None] = _nothing  # what no kind can say, of the estimator

    def load(self) -> Any:
        """Import and return the class: a file says its name, never its module."""
        return getattr(import_module(self.module), self.name)

    def pack(self, estimator: Any, file: File) -> EstimatorNode:
        """Return an estimator as a struct."""
        state, parameters = estimator.__getstate__(), estimator.get_params(deep=False)
        for name in state:
            if name not in {*parameters, *self.learned, *self.dropped, "_sklearn_version"}:
                raise InputTypeError(f"no file keeps the attribute {name} of {self.name}")
        packed, learned = _packed(parameters, file), None
        if not self.learned or any(name in state for name in self.learned):
            learned = _packed({name: state.get(name) for name in self.learned}, file)
        return EstimatorNode(self.name, packed, learned)

    def open(self, node: EstimatorNode, file: File, at: str) -> Any:
        """Return an estimator if all about it is right."""
        kind = self.load()
        kinds = {name: self.parameters.get(name, Any) for name in signature(kind).parameters}
        parameters = _opened(kinds, node.parameters, file, f"{at}.parameters")
        with _naming(at):
            estimator = kind(**parameters)
            if hasattr(kind, "_parameter_constraints"):
                _validate(estimator)
        if node.learned is not None or not self.learned:
            learned = _opened(self.learned, node.learned, file, f"{at}.learned")
            known = {name: part for name, part in learned.items() if part is not None}
            with _naming(at):
                if known:
                    estimator.__setstate__({**vars(estimator), **known})
                self.check(estimator, f"{at}.learned")
        return estimator


def _packed(values: dict[str, Any], file: File) -> dict[str, Any]:
    return {
        name.strip("_"): pack_labels(value)
        if name in LABELS and value is not None
        else file.pack(value)
        for name, value in values.items()
    }


def _opened(kinds: dict[str, Any], plain: Any, file: File, at: str) -> dict[str, Any]:
    """Open and check a value for each kind."""
    keys = {name: name.strip("_") for name in kinds}
    if plain is None or set(plain) != set(keys.values()):
        raise wrong(at, f"an object with the keys {', '.join(keys.values())}", plain)
    opened: dict[str, Any] = {}
    sizes: Sizes = {}
    for name, key in keys.items():
        opened[name] = file.open(plain[key], f"{at}.{key}")
        check_kind(kinds[name], opened[name], f"{at}.{key}", sizes)
    return opened


def _validate(estimator: Any) -> None:
    from pril.core.scikit import validate_params  # which takes long to import

    validate_params(estimator)


@contextmanager
def _naming(at: str) -> Iterator[None]:
    """Let errors name the place."""
    try:
        yield
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(f"{at}: {error}") from None


# --- Learners ------------------------------------------------------------------------------------

FEATURES: dict[str, Any] = {
    "n_features_in_": partial(count, of="features"),
    "feature_names_in_": partial(labels, of="features"),
}
LEARNED: dict[str, Any] = {
    "order_": partial(labels, of="classes", required=True),
    **FEATURES,
    "n_iter_": Size | None,
    "learned_with_": dict[str, Any],
    "memory_": Any,  # which `Memory.of` checks against the layout
}
SUPPORT = {
    "rows": partial(rows, positions=True),
    "coef": partial(numbers, shape=("rows",)),
    "sums": partial(numbers, shape=("rows",)),
    "source": partial(numbers, shape=("rows",), dtypes="int64", low=0),
    "origin": Annotated[int, Meta(ge=0, le=2**53)],
    "base": Any,  # which `Memory.of` checks against the layout
}


def _check_learner(learner: Any, at: str) -> None:
    fixed = learner.learned_with_
    if list(fixed) != list(learner.fixed_parameters):
        names = ", ".join(learner.fixed_parameters)
        raise wrong(f"{at}.learned_with", f"a dict of {names}", fixed)
    _check_as_learned(learner)
    averages, has_mean = fixed.get("average", False), learner.memory_.averages
    if has_mean != averages and not (averages and learner.engine.may_lose_mean):
        raise InputError(f"{at}.memory must have a mean if it averages, and only then")


def _check_kernel(learner: Any, at: str) -> None:
    _check_learner(learner, at)
    before, memory = _check_as_learned(learner), learner.memory_
    if (memory.source >= memory.origin).any():
        raise InputError(f"{at}.memory.source must be below origin")
    has_positions = not is_csr(memory.rows) and memory.rows.ndim == 1
    if has_positions != (before.kernel == "precomputed"):
        raise InputError(f"{at} has support rows that kernel={before.kernel!r} cannot have")
    _ = before.engine  # which refuses wrong arguments of the kernel
    each(before.kernel_params or {}, f"{at}.kernel_params", {}, kind=Number)


def _check_as_learned(estimator: Any, _: str = "") -> Any:
    """Return an estimator with the parameters that it learned with, if they are right."""
    parameters = {**estimator.get_params(deep=False), **estimator.learned_with_}
    before = type(estimator)(**parameters)
    _validate(before)
    return before


FOREST = {
    "mean": partial(numbers, shape=("features",)),
    "slope": partial(numbers, shape=("features",)),
    "size": partial(numbers, shape=("trees",), dtypes="int32", low=0),
    "feature": partial(numbers, shape=("splits",), dtypes="int32", low=0),
    "value": partial(numbers, shape=("splits",)),
    "kind": partial(numbers, shape=("splits",), dtypes="int8", low=0),
    "begin": partial(numbers, shape=("splits",), dtypes="int32", low=0),
    "end": partial(numbers, shape=("splits",), dtypes="int32", low=0),
    "leaf": partial(numbers, shape=("leaves",)),
    "words": partial(numbers, shape=("words",), dtypes="uint32"),
}


def _check_boosting(learner: Any, at: str) -> None:
    from pril.learners.boosting.trees import check_forest

    cut, n_features = learner.thresholds_, learner.n_features_in_
    if len(cut) != len(learner.order_) - 1 or (np.diff(cut) < 0).any():
        raise wrong(f"{at}.thresholds", f"{len(learner.order_) - 1} ascending numbers", cut)
    if not set(learner.categories_) <= set(map(str, range(n_features))):
        raise wrong(f"{at}.categories", f"of the {n_features} features", learner.categories_)
    if learner._ends.shape[1] != 2:
        raise wrong(f"{at}.ends", "pairs", learner._ends)
    check_forest(learner.memory_.forest, learner.categories_)


def _learner(
    name: str, module: str, learned: dict[str, Any] = LEARNED, check: Any = _check_learner
) -> Type:
    # Not kept: what metadata routing asks for.
    dropped = ("_metadata_request",)
    classes = {"classes": partial(labels, of="classes")}
    return Type(name, module, learned, classes, dropped, check)


# --- Transformers and wrappers -------------------------------------------------------------------

# Set by set_output, which all transformers of scikit-learn have.
OUTPUT = {"_sklearn_output_config": dict[str, Literal["default", "pandas", "polars"]] | None}
LARGEST_DEGREE = 1000  # of a polynomial: its powers are computed one after the other
MOMENTS = {
    "count": partial(numbers, shape=("numbers",), low=0),
    "mean": partial(numbers, shape=("numbers",)),
    "squares": partial(numbers, shape=("numbers",), low=0),
    "low": partial(numbers, shape=("numbers",), finite=False),
    "high": partial(numbers, shape=("numbers",), finite=False),
}


def _check_map(estimator: Any, at: str) -> None:
    n_features, size = estimator.n_features_in_, estimator.n_output_features_
    degree, n_terms = estimator.degree, n_features - (estimator.coef0 == 0)
    if degree > LARGEST_DEGREE or math.comb(n_terms + degree, degree) != size:
        raise InputError(
            f"{at} has {size} monomials, which {n_features} features to the degree {degree} do not "
            "have"
        )


def _check_encoder(encoder: Any, at: str) -> None:
    columns = [*encoder.numbers_, *encoder.words_, *encoder.widths_, *encoder.left_out_]
    if len(set(columns)) < len(columns) or len(encoder.numbers_) != len(encoder.moments_.mean):
        raise wrong(f"{at}.numbers, words, sparse and left_out", "different columns", columns)
    if not set(encoder.ranks_) <= set(encoder.numbers_):
        raise wrong(f"{at}.ranks", "among the columns of numbers", list(encoder.ranks_))
    sizes = [
        {name: len(own) for name, own in kept.items()} for kept in (encoder.words_, encoder.counts_)
    ]
    if sizes[0] != sizes[1]:
        raise wrong(f"{at}.counts", "a number for each of the words", encoder.counts_)


TYPES = {
    described.name: described
    for described in (
        *(_learner(one.name, one.module) for one in LEARNERS),
        # Those that keep something else than a memory with a layout, in place of the above.
        _learner(
            "KernelPRIL",
            "pril.learners.kernel_pril",
            {**LEARNED, "memory_": SUPPORT},
            _check_kernel,
        ),
        _learner(
            "OrderedBoosting",
            "pril.learners.ordered_boosting",
            {
                "order_": partial(labels, of="classes", required=True),
                **FEATURES,
                "n_iter_": Size,
                "validation_loss_": partial(numbers, shape=("rounds",)),
                "feature_importances_": partial(numbers, shape=("features",), low=0),
                "categories_": dict[str, list[str | float]],
                "memory_": {"thresholds": partial(numbers, shape=("cuts",)), "forest": FOREST},
                "_ends": partial(numbers, shape=("ranges", "ends"), dtypes="int64", low=0),
                "_chances": partial(numbers, shape=("ranges", "classes"), low=0),
            },
            _check_boosting,
        ),
        Type(
            "PolynomialMap",
            "pril.features",
            {
                **FEATURES,
                "n_output_features_": partial(count, of="monomials"),
                "scale_": partial(numbers, shape=("monomials",), low=0),
                **OUTPUT,
            },
            dropped=("_monomials",),
            check=_check_map,
        ),
        Type(
            "LandmarkFeatures",
            "pril.features",
            {
                **FEATURES,
                "landmarks_": rows,
                "learned_with_": {"kernel": str, "gamma": float},
                "projection_": partial(numbers, shape=("rows", "rows")),
                "offset_": partial(numbers, shape=("rows",)),
                **OUTPUT,
            },
            check=_check_as_learned,
        ),
        Type(
            "ColumnEncoder",
            "pril.tables.encoder",
            {
                "numbers_": list[str],
                "ranks_": dict[str, list[str]],
                "words_": dict[str, list[str]],
                "counts_": dict[str, list[Size]],
                "left_out_": list[str],
                "moments_": MOMENTS,
                "_sparse": partial(each, kind=MOMENTS),
                **OUTPUT,
            },
            {
                **dict.fromkeys(("scale", "bounded", "impute", "codes"), bool),
                **dict.fromkeys(("numbers", "words"), list[str]),
                "most_words": Size,
            },
            check=_check_encoder,
        ),
        Type(
            "PredictionRanges",
            "pril.ranges",
            {
                "estimator_": step,
                "margin_": Annotated[float, Meta(ge=0)],
                "n_calibration_": Size,
            },
        ),
        Type(
            "Pipeline",  # of scikit-learn, or ours
            "pril.tables.pipeline",
            parameters={
                "steps": steps,
                "transform_input": list[str] | None,
                "memory": None,  # a folder of pickles
            },
            check=lambda pipeline, _: pipeline._validate_steps(),
        ),
        Type("FrozenEstimator", "sklearn.frozen", parameters={"estimator": step}),
    )
}


# --- Whole files ---------------------------------------------------------------------------------


def describe(content: Any) -> tuple[Any, File]:
    """Return content as a value of a header, and what belongs beside it."""
    file = File(TYPES)
    return file.pack(content), file


def open_content(
    plain: Any, members: dict[str, bytes], foreign: list[Any] | None = None
) -> tuple[Any, int]:
    """Return what a file holds if all of it is right, and the number of its foreign estimators."""
    file = File(TYPES, members, foreign)
    content = file.open(plain, "content")
    if file.members:
        raise InputError(f"nothing uses its member {min(file.members)!r}")
    return content, len(file.foreign)
