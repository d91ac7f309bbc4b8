"""The types that a model file may hold: what is kept of each.

A linear learner needs no line here: it is in the registry, and its memory has a layout. Any other
type is a `Type` in `TYPES`: a kind for each learned attribute, and a function that checks what no
kind can say. `docs/reference/model-files.md` has the same tables for people.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from inspect import signature
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta

from pril.core.registry import LEARNERS
from pril.errors import InputError, InputTypeError
from pril.io.kinds import (
    Count,
    Each,
    Fields,
    Labels,
    Maybe,
    Number,
    Numbers,
    Rows,
    Share,
    Step,
    Steps,
    is_csr,
)
from pril.io.kinds import check as check_kind
from pril.io.packing import Writer, pack_labels
from pril.io.values import EstimatorNode, Place, Plan, Reader, Size


def _nothing(*_: Any) -> None:
    """Check nothing: the kinds say all."""


@dataclass(frozen=True)
class Type:
    """What a file keeps of a type of estimators.

    Learned attributes are those of `__getstate__`, and `__setstate__` takes them back.
    """

    name: str
    module: str  # where the class is
    learned: dict[str, Any] = field(default_factory=dict)  # a kind for each attribute
    parameters: dict[str, Any] = field(default_factory=dict)  # what the class does not check itself
    dropped: tuple[str, ...] = ()  # attributes that a file does not keep
    check: Callable[[Any, Place], None] = _nothing  # what no kind can say, of the estimator
    wraps: bool = False  # it holds estimators: it is built when all of the file is checked

    def load(self) -> Any:
        """Import and return the class: a file says its name, never its module."""
        return getattr(import_module(self.module), self.name)

    def pack(self, estimator: Any, file: Writer) -> EstimatorNode:
        """Return an estimator as a struct."""
        state, parameters = estimator.__getstate__(), estimator.get_params(deep=False)
        for name in state:
            if name not in {*parameters, *self.learned, *self.dropped, "_sklearn_version"}:
                raise InputTypeError(f"no file keeps the attribute {name} of {self.name}")
        needed = [name for name, kind in self.learned.items() if not isinstance(kind, Maybe)]
        is_fitted = all(name in state for name in needed)
        if not is_fitted and any(name in state for name in self.learned):
            raise InputTypeError(f"{self.name} has learned only a part of {', '.join(needed)}")
        return EstimatorNode(
            self.name,
            {k: _packed(self.parameters.get(k), v, file) for k, v in parameters.items()},
            {key_of(k): _packed(kind, state.get(k), file) for k, kind in self.learned.items()}
            if is_fitted
            else None,
        )

    def open(self, node: EstimatorNode, file: Reader, at: Place) -> Any:
        """Return an estimator, or the plan of one, if all about it is right."""
        place = at.inside("learned")
        kind = self.load()
        kinds = {name: self.parameters.get(name, Any) for name in signature(kind).parameters}
        parameters = _opened(kinds, node.parameters, file, Place(f"{at.name}.parameters", {}))
        learned = None
        if node.learned is not None or not self.learned:
            learned = _opened(self.learned, node.learned, file, place)

        def make(parameters: dict[str, Any], learned: dict[str, Any] | None) -> Any:
            estimator = kind(**parameters)
            if learned:
                known = {name: part for name, part in learned.items() if part is not None}
                estimator.__setstate__({**vars(estimator), **known})
            if learned is not None:
                self.check(estimator, place)
            return estimator

        if self.wraps:
            return Plan(make, {"parameters": parameters, "learned": learned})
        with _naming(at):
            if hasattr(kind, "_parameter_constraints"):
                kind(**parameters)._validate_params()
            return make(parameters, learned)


def key_of(attribute: str) -> str:
    """Return an attribute's name in a file."""
    return attribute.strip("_")


def _packed(kind: Any, value: Any, file: Writer) -> Any:
    is_labels = isinstance(kind.of if isinstance(kind, Maybe) else kind, Labels)
    return pack_labels(value) if is_labels and value is not None else file.pack(value)


def _opened(kinds: dict[str, Any], plain: Any, file: Reader, at: Place) -> dict[str, Any]:
    """Open and check a value for each kind; attributes lose their underscores in a file."""
    if plain is None or set(plain) != set(map(key_of, kinds)):
        raise at.wrong(f"about {', '.join(map(key_of, kinds)) or 'nothing'}", plain)
    opened = {}
    for name, kind in kinds.items():
        place = at.inside(key_of(name))
        opened[name] = file.open(plain[key_of(name)], place)
        check_kind(kind, opened[name], place)
    return opened


@contextmanager
def _naming(at: Place) -> Iterator[None]:
    """Let errors name the place."""
    try:
        yield
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(f"{at.name}: {error}") from None


# --- Learners ------------------------------------------------------------------------------------

FEATURES: dict[str, Any] = {
    "n_features_in_": Count("features"),
    "feature_names_in_": Maybe(Labels("features", are_names=True)),
}
LEARNED: dict[str, Any] = {
    "order_": Labels("classes"),
    **FEATURES,
    "n_iter_": Maybe(Size),
    "_learned_with": Each(Any),
    "_memory": Any,  # which `Memory.of` checks
}


def _check_learner(learner: Any, at: Place) -> None:
    fixed = learner._learned_with
    if list(fixed) != list(learner._fixed):
        raise at.inside("learned_with").wrong(f"about {', '.join(learner._fixed)}", fixed)
    _as_learned(learner)._validate_params()
    averages, has_mean = fixed.get("average", False), learner._memory.averages
    if has_mean != averages and not (averages and learner._may_lose_mean):
        raise InputError(f"{at.name}.memory must have a mean if it averages, and only then")


def _check_kernel(learner: Any, at: Place) -> None:
    _check_learner(learner, at)
    before, rows = _as_learned(learner), learner._memory.rows
    if (learner._memory.source >= learner._memory.origin).any():
        raise InputError(f"{at.name}.memory.source must be below origin")
    has_positions = not is_csr(rows) and rows.ndim == 1
    if has_positions != (before.kernel == "precomputed"):
        raise InputError(f"{at.name} has support rows that kernel={before.kernel!r} cannot have")
    if not has_positions:
        before._kernel()
    Each(Number).check(before.kernel_params or {}, at.inside("kernel_params"))


def _as_learned(estimator: Any) -> Any:
    """Return an estimator with the parameters that it learned with."""
    parameters = {**estimator.get_params(deep=False), **estimator._learned_with}
    return type(estimator)(**parameters)


SUPPORT = Fields(
    {
        "rows": Rows(may_be_positions=True),
        "coef": Numbers("float64", ("rows",)),
        "sums": Numbers("float64", ("rows",)),
        "source": Numbers("int64", ("rows",), low=0),
        "origin": Annotated[int, Meta(ge=0, le=2**53)],
        "base": Any,  # which `Memory.of` checks
    }
)


FOREST: dict[str, Any] = {
    "mean": Numbers("float64", ("features",)),
    "slope": Numbers("float64", ("features",)),
    "feature": Numbers("int32", ("splits",), low=0),
    "value": Numbers("float64", ("splits",)),
    "kind": Numbers("int8", ("splits",), low=0),
    "begin": Numbers("int32", ("splits",), low=0),
    "end": Numbers("int32", ("splits",), low=0),
    "leaf": Numbers("float64", (None,)),
    "words": Numbers("uint32", (None,)),
    "size": Numbers("int32", (None,), low=0),
}


def _check_boosting(learner: Any, at: Place) -> None:
    from pril.learners.boosting.passes import Forest
    from pril.learners.boosting.trees import check_forest

    cut, n_features = learner.thresholds_, learner.n_features_in_
    if len(cut) != len(learner.order_) - 1 or (np.diff(cut) < 0).any():
        raise at.inside("thresholds").wrong(f"{len(learner.order_) - 1} ascending numbers", cut)
    if not set(learner._categories) <= set(map(str, range(n_features))):
        raise at.inside("categories").wrong(f"of the {n_features} features", learner._categories)
    check_forest(Forest(**learner._forest), learner._categories)


def learner(name: str, module: str, learned: dict[str, Any], check: Any) -> Type:
    """Return the type of a learner."""
    # Not kept: which classes were compared before, and what metadata routing asks for.
    dropped = ("_agreed", "_metadata_request")
    return Type(name, module, learned, {"classes": Maybe(Labels())}, dropped, check)


# --- Transformers and wrappers -------------------------------------------------------------------

# Set by set_output, which all transformers of scikit-learn have.
OUTPUT = {"_sklearn_output_config": Maybe(dict[str, Literal["default", "pandas", "polars"]])}
LARGEST_DEGREE = 1000  # of a polynomial: its powers are computed one after the other


def _check_map(estimator: Any, at: Place) -> None:
    n_features, size = estimator.n_features_in_, estimator.n_output_features_
    low, high = sorted((n_features - (estimator.coef0 == 0), estimator.degree))
    count = 1  # of monomials: the binomial (low + high, low), which may be astronomical
    for i in range(1, low + 1):
        count = count * (high + i) // i
        if count > size:
            break
    if count != size or estimator.degree > LARGEST_DEGREE:
        raise InputError(
            f"{at.name} has {size} monomials, which {n_features} features to the degree "
            f"{estimator.degree} do not have"
        )


def _check_landmarks(estimator: Any, at: Place) -> None:
    fixed = estimator._learned_with
    if list(fixed) != ["kernel", "gamma"] or fixed["gamma"] is None:
        raise at.inside("learned_with").wrong("about a kernel and gamma", fixed)
    _as_learned(estimator)._validate_params()


def _check_encoder(encoder: Any, at: Place) -> None:
    columns = [*encoder.numbers_, *encoder.words_, *encoder.widths_, *encoder.left_out_]
    if len(set(columns)) < len(columns) or len(encoder.numbers_) != len(encoder._moments.mean):
        raise at.wrong("about different columns", columns)
    if not set(encoder.ranks_) <= set(encoder.numbers_):
        raise at.inside("ranks").wrong("about columns of numbers", list(encoder.ranks_))


def _check_pipeline(pipeline: Any, at: Place) -> None:
    pipeline._validate_steps()


def _columns(dimension: str, **low: float) -> dict[str, Any]:
    return {name: Numbers("float64", (dimension,), low=least) for name, least in low.items()}


MOMENTS = _columns("numbers", count=0, mean=-math.inf, squares=0) | {
    name: Numbers("float64", ("numbers",), finite=False) for name in ("low", "high")
}
SPARSE_COLUMN = {
    "rows": Annotated[float, Meta(ge=0, le=2**53)],
    **_columns("width", mean=-math.inf, variance=0, scale=0),
}

TYPES = {
    described.name: described
    for described in (
        *(learner(one.name, one.module, LEARNED, _check_learner) for one in LEARNERS),
        # Those that keep something else than a memory with a layout, in place of the above.
        learner(
            "KernelPRIL",
            "pril.learners.kernel_pril",
            {**LEARNED, "_memory": SUPPORT},
            _check_kernel,
        ),
        learner(
            "OrderedBoosting",
            "pril.learners.ordered_boosting",
            {
                "order_": Labels("classes"),
                **FEATURES,
                "thresholds_": Numbers("float64", (None,)),
                "n_iter_": Size,
                "validation_loss_": Numbers("float64", (None,)),
                "feature_importances_": Numbers("float64", ("features",), low=0),
                "_categories": Each(list[str | float]),
                "_forest": Fields(FOREST),
                "_ends": Numbers("int64", ("ranges", 2), low=0),
                "_chances": Numbers("float64", ("ranges", "classes"), low=0),
            },
            _check_boosting,
        ),
        Type(
            "PolynomialMap",
            "pril.features",
            {
                **FEATURES,
                "n_output_features_": Count("monomials"),
                "_scale": Numbers("float64", ("monomials",), low=0),
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
                "landmarks_": Rows(),
                "_learned_with": Each(Any),
                "_projection": Numbers("float64", ("rows", "rows")),
                "_offset": Numbers("float64", ("rows",)),
                **OUTPUT,
            },
            check=_check_landmarks,
        ),
        Type(
            "ColumnEncoder",
            "pril.tables.encoder",
            {
                "numbers_": list[str],
                "ranks_": dict[str, list[str]],
                "words_": dict[str, list[str]],
                "left_out_": list[str],
                "_moments": Fields(MOMENTS),
                "_sparse": Each(Fields(SPARSE_COLUMN)),
                **OUTPUT,
            },
            {
                **dict.fromkeys(("scale", "bounded", "impute"), bool),
                **dict.fromkeys(("numbers", "words"), list[str]),
                "most_words": Size,
            },
            check=_check_encoder,
        ),
        Type(
            "PredictionRanges",
            "pril.ranges",
            {
                "estimator_": Maybe(Step()),
                "margin_": Annotated[float, Meta(ge=0)],
                "n_calibration_": Size,
            },
            {
                "estimator": Step(),
                "coverage": Share,
                "guarantee": Literal["exact", "contain", "touch"],
                "calibration_size": Share,
            },
            wraps=True,
        ),
        Type(
            "Pipeline",
            "sklearn.pipeline",
            parameters={
                "steps": Steps(),
                "transform_input": list[str] | None,
                "memory": None,  # a folder of pickles
                "verbose": bool,
            },
            check=_check_pipeline,
            wraps=True,
        ),
        Type("FrozenEstimator", "sklearn.frozen", parameters={"estimator": Step()}, wraps=True),
    )
}


def type_of(value: Any) -> Type | None:
    """Return what describes the type of an object; a subclass is not described."""
    for described in TYPES.values():
        module = sys.modules.get(described.module)
        if module is not None and getattr(module, described.name, None) is type(value):
            return described
    return None


# --- Whole files ---------------------------------------------------------------------------------


def describe(content: Any) -> tuple[Any, Writer]:
    """Return content as a value of a header, and what belongs beside it."""
    file = Writer(type_of)
    return file.pack(content), file


def check(plain: Any, members: dict[str, bytes]) -> tuple[Any, Reader]:
    """Return what a file holds, to be built, if all of it is right."""
    file = Reader(members, TYPES)
    opened = file.open(plain, Place("content", {}))
    if file.unused:
        raise InputError(f"nothing uses its member {min(file.unused)!r}")
    return opened, file
