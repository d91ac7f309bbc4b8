"""What a model file may hold: every type, its parameters and its learned attributes.

This is the one place to describe a type. A new one is a `Type` in `TYPES`; an attribute that is
new is a line among its fields. `docs/reference/model-files.md` has the same tables for people.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pril.core.registry import LEARNERS
from pril.errors import InputError, shown
from pril.io.archive import from_npy
from pril.io.fields import (
    ANYTHING,
    DESCENDING,
    FINITE,
    FLAG,
    NOT_NAN,
    NOT_NEGATIVE,
    Choice,
    Count,
    Field,
    Labels,
    Names,
    Number,
    Numbers,
    Optional,
    Pairs,
    Place,
    Plan,
    Reader,
    Record,
    Step,
    Type,
    Writer,
    check_each,
    is_number,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


# --- Learners ------------------------------------------------------------------------------------


class Parts:
    """A memory: an array for each part of its layout, the counts, and whether n holds integers."""

    def write(self, value: Any, file: Writer) -> Any:
        parts = {name: file.add(part) for name, part in value.parts().items()}
        state = value.state
        return parts | {"counts": file.add(state.counts), "lattice": bool(state.lattice[0])}

    def check(self, plain: Any, at: Place) -> Any:
        """Return a plan that `check_memory` completes when the layout is known."""
        if type(plain) is not dict or "lattice" not in plain:
            raise at.wrong("the parts of a memory", plain)
        arrays = {}
        for name, member in plain.items():
            if name != "lattice":
                if type(member) is not str or member not in at.file.unused:
                    raise at.inside(name).wrong(
                        "the name of an array that nothing else uses", member
                    )
                arrays[name] = from_npy(at.file.unused.pop(member))
        lattice = FLAG.check(plain["lattice"], at.inside("lattice"))
        return Plan(_make_memory, {"arrays": arrays, "lattice": lattice})


def _make_memory(parts: dict[str, Any]) -> Any:
    from pril.core.memory import Memory

    arrays = parts["arrays"]
    memory = Memory.blank(parts["layout"], lattice=parts["lattice"])
    for name, part in memory.parts().items():
        part[:] = arrays[name]
    memory.state.counts[:] = arrays["counts"]
    return memory


def check_memory(plan: Plan, layout: Any, at: Place) -> None:
    """Refuse a memory that a learner with this layout cannot have; complete its plan."""
    arrays, shapes = plan.parts["arrays"], layout.shapes()
    at.check_keys(dict.fromkeys(arrays), [*shapes, "counts"])
    for name, shape in {**shapes, "counts": (3,)}.items():
        array, place, dtype = arrays[name], at.inside(name), "int64" if name == "counts" else "f8"
        if array.shape != shape or array.dtype != dtype or not array.flags.c_contiguous:
            kind = np.dtype(dtype).name
            raise InputError(
                f"{place.name} must be {kind} of shape {shape} in C order, not {array.dtype} of "
                f"shape {array.shape}"
            )
        FINITE.check(array, place)
        if name in {"counts", "clock", *(part.name for part in layout.own)}:
            NOT_NEGATIVE.check(array, place)
    DESCENDING.check(arrays["n"], at.inside("n"))
    weight = arrays["clock"][0]
    if layout.average and weight > 0.0:
        # Rounding may break the order in the last bits; `fill_cuts` mends that.
        n = arrays["n"] - arrays["mean_n"] / weight
        DESCENDING.check(np.round(n, 6), at.inside("mean_n"))
    plan.parts["layout"] = layout


# Support rows: dense, sparse, or where the kernel is precomputed their positions among the rows.
LAYOUTS: dict[str, dict[str, Field]] = {
    "positions": {"data": Numbers("int64", ("support",), (NOT_NEGATIVE,))},
    "dense": {"data": Numbers("float64 float32", ("support", "features"), any_order=True)},
    "csr": {
        "data": Numbers("float64 float32", ("values",)),
        "indices": Numbers("int32 int64", ("values",), (NOT_NEGATIVE,)),
        "indptr": Numbers("int32 int64", ("support+1",), (NOT_NEGATIVE,)),
    },
}


class Rows:
    """Support rows in one of the layouts."""

    def write(self, value: Any, file: Writer) -> Any:
        is_csr = getattr(value, "format", None) == "csr"
        layout = "csr" if is_csr else "positions" if value.ndim == 1 else "dense"
        parts = vars(value) if is_csr else {"data": value}
        fields = LAYOUTS[layout].items()
        return {"layout": layout} | {name: of.write(parts[name], file) for name, of in fields}

    def check(self, plain: Any, at: Place) -> Any:
        layout = plain.get("layout") if type(plain) is dict else None
        if type(layout) is not str or layout not in LAYOUTS:
            raise at.wrong(f"rows in one of the layouts {', '.join(LAYOUTS)}", plain)
        parts = check_each({"layout": Choice((layout,)), **LAYOUTS[layout]}, plain, at)
        shape = (at.sizes["support"], at.sizes["features"])
        columns = parts.get("indices", parts["data"] if layout == "positions" else np.empty(0))
        if (columns >= shape[1]).any():
            raise InputError(f"{at.name} must have columns below {shape[1]}")
        if layout != "csr":
            return parts["data"]
        data, indices, indptr = parts["data"], parts["indices"], parts["indptr"]
        if indptr[0] != 0 or indptr[-1] != len(data) or (np.diff(indptr) < 0).any():
            raise InputError(f"{at.name}.indptr must ascend from 0 to {len(data)}")
        return Plan(lambda _: _csr_array((data, indices, indptr), shape), {})


def _csr_array(arrays: tuple[Array, Array, Array], shape: tuple[int, int]) -> Any:
    from scipy.sparse import csr_array

    return csr_array(arrays, shape=shape)


SUPPORT = Record(
    "pril.kernels.support",
    "Support",
    {
        "rows": Rows(),
        "coef": Numbers("float64", ("support",)),
        "sums": Numbers("float64", ("support",)),
        "source": Numbers("int64", ("support",), (NOT_NEGATIVE,)),
        "origin": Count(high=2**53),
        "base": Parts(),
    },
    constants={"place": None},  # of the rows of one call
)


def _check_learner(blank: Any, learned: dict[str, Any], at: Place) -> None:
    layout = _check_fixed(blank, learned, at)
    check_memory(learned["_memory"], layout, at.inside("memory"))


def _check_fixed(blank: Any, learned: dict[str, Any], at: Place) -> Any:
    """Check the parameters that cannot change once there is a model; return the layout."""
    fixed = learned["_learned_with"]
    if list(fixed) != list(blank._fixed):
        raise at.wrong(f"learned with {', '.join(blank._fixed)}", fixed)
    model = _as_learned(blank, fixed)
    model._validate_params()
    model.order_, model.n_features_in_ = learned["order_"], learned["n_features_in_"]
    return model._layout()


def _check_kernel(blank: Any, learned: dict[str, Any], at: Place) -> None:
    layout = _check_fixed(blank, learned, at)._replace(n_features=0)
    fixed, support = learned["_learned_with"], learned["_memory"].parts
    if support["base"].parts["arrays"].get("mean_u", np.empty(1)).size == 0:
        layout = layout._replace(average=False)  # a budget has dropped a support row
    check_memory(support["base"], layout, at.inside("memory.base"))
    rows, origin = support["rows"], support["origin"]
    if (support["source"] >= origin).any():
        raise at.inside("memory.source").wrong(f"rows below {origin}", int(support["source"].max()))
    has_positions = isinstance(rows, np.ndarray) and rows.ndim == 1
    if has_positions != (fixed["kernel"] == "precomputed"):
        raise InputError(f"{at.name} has support rows that kernel={fixed['kernel']!r} cannot have")
    if not has_positions:
        _as_learned(blank, fixed)._kernel()
    for name, value in (fixed["kernel_params"] or {}).items():
        if not is_number(value):
            raise at.inside(f"learned_with.kernel_params.{name}").wrong("a finite number", value)


def _as_learned(blank: Any, fixed: dict[str, Any]) -> Any:
    """Return an estimator with the parameters that it learned with."""
    return type(blank)(**{**blank.get_params(deep=False), **fixed})


def _learned(memory: Field) -> dict[str, Field]:
    return {
        "order_": Labels("classes"),
        "n_features_in_": Count("features"),
        "feature_names_in_": Optional(Names("features", as_array=True)),
        "n_iter_": Optional(Count()),
        "_learned_with": Pairs(ANYTHING),
        "_memory": memory,
    }


def _learner(name: str, module: str) -> Type:
    is_kernel = name == "KernelPRIL"
    return Type(
        name,
        module,
        learned=_learned(SUPPORT if is_kernel else Parts()),
        parameters={"classes": Optional(Labels())},
        # Which classes were compared before; what metadata routing asks for.
        dropped=("_agreed", "_metadata_request"),
        check_more=_check_kernel if is_kernel else _check_learner,
    )


# --- Transformers and wrappers -------------------------------------------------------------------

# Set by set_output, which all transformers of scikit-learn have.
OUTPUT: dict[str, Field] = {
    "_sklearn_output_config": Optional(Pairs(Choice(("default", "pandas", "polars"))))
}

LARGEST_DEGREE = 1000  # of a polynomial: its powers are computed one after the other


def _check_map(blank: Any, learned: dict[str, Any], at: Place) -> None:
    n_features, size = learned["n_features_in_"], len(learned["_scale"])
    low, high = sorted((n_features - (blank.coef0 == 0), blank.degree))
    count = 1  # of monomials: the binomial (low + high, low), which may be astronomical
    for i in range(1, low + 1):
        count = count * (high + i) // i
        if count > size:
            break
    if count != size or blank.degree > LARGEST_DEGREE:
        raise InputError(
            f"{at.name} has {size} monomials, which {n_features} features to the degree "
            f"{blank.degree} do not have"
        )


def _finish_map(estimator: Any) -> None:
    from sklearn.preprocessing import PolynomialFeatures

    lowest = 0 if estimator.coef0 > 0 else estimator.degree
    monomials = PolynomialFeatures((lowest, estimator.degree), include_bias=lowest == 0)
    estimator._monomials = monomials.fit(np.zeros((1, estimator.n_features_in_)))


def _check_landmarks(blank: Any, learned: dict[str, Any], at: Place) -> None:
    fixed, rows = learned["_learned_with"], learned["landmarks_"]
    if list(fixed) != ["kernel", "gamma"] or fixed["gamma"] is None:
        raise at.wrong("learned with a kernel and gamma", fixed)
    _as_learned(blank, fixed)._validate_params()
    if isinstance(rows, np.ndarray) and rows.ndim == 1:
        raise InputError(f"{at.name} has landmarks without features")


class SparseColumn(NamedTuple):
    """What an encoder has learned of a sparse column: the state of scikit-learn's scaler."""

    rows: Any
    mean: Array
    variance: Array
    scale: Array


SPARSE_COLUMN = Record(
    "pril.io.schema",
    "SparseColumn",
    {
        "rows": Number(),
        "mean": Numbers("float64", ("width",)),
        "variance": Numbers("float64", ("width",), (FINITE, NOT_NEGATIVE)),
        "scale": Numbers("float64", ("width",), (FINITE, NOT_NEGATIVE)),
    },
)

MOMENTS = Record(
    "pril.tables.encoder",
    "Moments",
    {
        "count": Numbers("float64", ("numbers",), (FINITE, NOT_NEGATIVE)),
        "mean": Numbers("float64", ("numbers",)),
        "squares": Numbers("float64", ("numbers",), (FINITE, NOT_NEGATIVE)),
        "low": Numbers("float64", ("numbers",), (NOT_NAN,)),
        "high": Numbers("float64", ("numbers",), (NOT_NAN,)),
    },
)


def _encoder_attributes(encoder: Any) -> dict[str, Any]:
    """Return an encoder's attributes, the state of its scalers in place of the scalers.

    Every width is then the length of an array: a file cannot claim more than it holds.
    """
    attributes = dict(vars(encoder))
    widths, scalers = attributes.pop("widths_", None), attributes.pop("_sparse_scalers", None)
    if widths is None:
        return attributes
    attributes["_sparse"] = {}
    for name, width in widths.items():
        scaler = scalers[name]
        is_fitted = hasattr(scaler, "scale_")
        state = (scaler.mean_, scaler.var_, scaler.scale_) if is_fitted else [np.zeros(width)] * 3
        rows = scaler.n_samples_seen_ if is_fitted else 0
        attributes["_sparse"][name] = SparseColumn(rows, *state)
    return attributes


def _check_encoder(blank: Any, learned: dict[str, Any], at: Place) -> None:
    columns = [*learned["numbers_"], *learned["words_"], *learned["_sparse"], *learned["left_out_"]]
    if len(set(columns)) < len(columns):
        raise at.wrong("about different columns", columns)
    if not set(learned["ranks_"]) <= set(learned["numbers_"]):
        raise at.wrong("about columns of numbers_", list(learned["ranks_"]))
    for name, column in learned["_sparse"].items():
        NOT_NEGATIVE.check(np.array(column.parts["rows"]), at.inside(f"sparse.{name}.rows"))


def _finish_encoder(encoder: Any) -> None:
    from sklearn.preprocessing import StandardScaler

    encoder.widths_, encoder._sparse_scalers = {}, {}
    for name, (rows, mean, variance, scale) in vars(encoder).pop("_sparse").items():
        scaler = StandardScaler(with_mean=False)
        if rows:
            scaler.n_features_in_, scaler.n_samples_seen_ = len(mean), rows
            scaler.mean_, scaler.var_, scaler.scale_ = mean, variance, scale
        encoder.widths_[name], encoder._sparse_scalers[name] = len(mean), scaler


class Share:
    """A number between 0 and 1."""

    def write(self, value: Any, file: Writer) -> Any:
        return ANYTHING.write(value, file)

    def check(self, plain: Any, at: Place) -> Any:
        number = ANYTHING.check(plain, at)
        if not is_number(number) or not 0.0 < number < 1.0:
            raise at.wrong("a number between 0 and 1", plain)
        return number


def _ranges_attributes(ranges: Any) -> dict[str, Any]:
    """Return the attributes; a frozen estimator is the fitted one, and is kept once."""
    attributes = dict(vars(ranges))
    if attributes.get("estimator_") is ranges.estimator:
        attributes["estimator_"] = None
    return attributes


def _check_ranges(blank: Any, learned: dict[str, Any], at: Place) -> None:
    margin = learned["margin_"]
    if not (isinstance(margin, float) and margin >= 0.0):
        raise at.inside("margin").wrong("a number that is not negative", margin)


def _finish_ranges(ranges: Any) -> None:
    if not hasattr(ranges, "estimator_"):
        ranges.estimator_ = ranges.estimator


def _check_steps(pipeline: Any) -> None:
    if not pipeline.steps:
        raise InputError("a Pipeline has no steps")
    for name, step in pipeline.steps[:-1]:
        if step not in (None, "passthrough") and not hasattr(step, "transform"):
            raise InputError(f"step {shown(name)} of a Pipeline is {shown(step)}, no transformer")


TYPES = {
    described.name: described
    for described in (
        *(_learner(kind.name, kind.module) for kind in LEARNERS),
        Type(
            "PolynomialMap",
            "pril.features",
            learned={
                "n_features_in_": Count("features"),
                "feature_names_in_": Optional(Names("features", as_array=True)),
                "n_output_features_": Count("monomials"),
                "_scale": Numbers("float64", ("monomials",), (FINITE, NOT_NEGATIVE)),
                **OUTPUT,
            },
            dropped=("_monomials",),
            check_more=_check_map,
            finish=_finish_map,
        ),
        Type(
            "LandmarkFeatures",
            "pril.features",
            learned={
                "n_features_in_": Count("features"),
                "feature_names_in_": Optional(Names("features", as_array=True)),
                "landmarks_": Rows(),
                "_learned_with": Pairs(ANYTHING),
                "_projection": Numbers("float64", ("support", "support")),
                "_offset": Numbers("float64", ("support",)),
                **OUTPUT,
            },
            check_more=_check_landmarks,
        ),
        Type(
            "ColumnEncoder",
            "pril.tables.encoder",
            parameters={
                "scale": FLAG,
                "bounded": FLAG,
                "impute": FLAG,
                "numbers": Names(),
                "words": Names(),
                "most_words": Count(),
            },
            has_constraints=False,
            learned={
                "numbers_": Names("numbers"),
                "ranks_": Pairs(Names()),
                "words_": Pairs(Names()),
                "left_out_": Names(),
                "_moments": MOMENTS,
                "_sparse": Pairs(SPARSE_COLUMN),
                **OUTPUT,
            },
            attributes=_encoder_attributes,
            check_more=_check_encoder,
            finish=_finish_encoder,
        ),
        Type(
            "PredictionRanges",
            "pril.ranges",
            parameters={
                "estimator": Step(),
                "coverage": Share(),
                "guarantee": Choice(("exact", "contain", "touch")),
                "calibration_size": Share(),
            },
            has_constraints=False,
            learned={
                "estimator_": Optional(Step()),
                "margin_": ANYTHING,
                "n_calibration_": Count(),
            },
            attributes=_ranges_attributes,
            check_more=_check_ranges,
            finish=_finish_ranges,
        ),
        Type(
            "Pipeline",
            "sklearn.pipeline",
            parameters={
                "steps": Pairs(Step(), as_list=True),
                "transform_input": Optional(Names()),
                "memory": Choice((None,)),  # a folder of pickles
                "verbose": FLAG,
            },
            has_constraints=False,
            learned={},
            finish=_check_steps,
        ),
        Type(
            "FrozenEstimator",
            "sklearn.frozen",
            parameters={"estimator": Step()},
            has_constraints=False,
            learned={},
        ),
    )
}
RECORDS = (SUPPORT, MOMENTS)


# --- Whole files ---------------------------------------------------------------------------------


def describe(content: Any) -> tuple[Any, Writer]:
    """Return content as plain JSON, and what belongs beside it: arrays and foreign estimators."""
    file = Writer(TYPES)
    return ANYTHING.write(content, file), file


def check(plain: Any, members: dict[str, bytes]) -> tuple[Any, Reader]:
    """Return the plan of what a file holds if all of it is right."""
    file = Reader(members, TYPES)
    plan = ANYTHING.check(plain, Place(file, "content", {}))
    if file.unused:
        raise InputError(f"nothing uses its member {min(file.unused)!r}")
    return plan, file


def check_inside(objects: list[Any]) -> None:
    """Check objects of ours that objects of other libraries hold: the compiled loop trusts them."""
    rest, seen = list(objects), set()
    while rest:
        item = rest.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if Writer(TYPES).type_of(item) is not None:
            plain, file = describe(item)
            check(plain, file.members)
        if isinstance(item, dict):
            rest.extend(item.values())
        elif isinstance(item, list | tuple | set):
            rest.extend(item)
        elif isinstance(item, np.ndarray):
            rest.extend(item.flat if item.dtype == object else ())
        else:
            rest.extend(getattr(item, "__dict__", {}).values())
