"""Export of models to ONNX. Needs skl2onnx, the extra ``onnx``.

A model in ONNX predicts without Python. Scores are computed in float64 and compared with the
thresholds as in the learners, so that labels agree, ties included. Trees are the operator
TreeEnsembleRegressor. The newer TreeEnsemble has sets of categories and adds up in float64, but
onnxruntime up to 1.23 gives wrong sums for it. So a table tells whether a category is in each set,
and a leaf is given in parts, of which each sum is exact in float32. The probabilities of probit and
cauchit have seven digits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import normalize

from pril.errors import InputError, InputTypeError, MissingExtraError, shown

try:
    from onnx import helper as onnx_helper
    from onnx import numpy_helper
    from skl2onnx import convert_sklearn, update_registered_converter
    from skl2onnx import to_onnx as convert_with_rows
    from skl2onnx._parse import _parse_sklearn
    from skl2onnx.common import data_types
    from skl2onnx.common._container import ModelComponentContainer
    from skl2onnx.common._topology import Operator, Scope, Variable
    from skl2onnx.common.data_types import DoubleTensorType, StringTensorType
    from skl2onnx.common.exceptions import MissingConverter, MissingShapeCalculator
    from skl2onnx.proto import onnx_proto
except ImportError as error:  # pragma: no cover - the extra is missing
    raise MissingExtraError("pril.onnx needs skl2onnx", "onnx") from error

from pril.bases.classifier import OrdinalLearner, ProbabilityMixin, ThresholdMixin, check_ready
from pril.bases.parts import Parts
from pril.core.arrays import Array, FeaturesLike
from pril.core.registry import LEARNERS
from pril.features import LandmarkFeatures, PolynomialMap
from pril.learners.boosting.compiled import MISSING_LEFT, SET, Forest
from pril.links import LOGIT, Cauchit, Cloglog, Link, Loglog, Probit
from pril.ranges import CLASS, PredictionRanges, is_by_column

__all__ = ["register", "to_onnx"]


TENSOR = onnx_proto.TensorProto
DOUBLE, INTEGER = TENSOR.DOUBLE, TENSOR.INT64
ML = "ai.onnx.ml"  # the domain of operators of machine learning
TYPES = {  # of a label: the type of a variable and of a tensor, by the kind of the classes' dtype
    "b": (data_types.BooleanTensorType, TENSOR.BOOL),
    "i": (data_types.Int64TensorType, INTEGER),
    "u": (data_types.Int64TensorType, INTEGER),
    "f": (DoubleTensorType, DOUBLE),
    "O": (StringTensorType, TENSOR.STRING),
    "U": (StringTensorType, TENSOR.STRING),
}


def to_onnx(model: BaseEstimator, X: FeaturesLike | None = None) -> onnx_proto.ModelProto:
    """Return a fitted model as an ONNX graph.

    Parameters
    ----------
    model : estimator
        A fitted learner of this package other than `KernelPRIL`, alone or at the end of a
        :class:`~sklearn.pipeline.Pipeline` whose other steps skl2onnx knows, among them
        `PolynomialMap`, `LandmarkFeatures` and, as the first step, `ColumnEncoder`; or a
        `PredictionRanges` of such a model.
    X : array-like of shape (n_samples, n_features), default=None
        Rows whose type is taken: float32 or float64. None: float64. It has no effect if the
        first step is a `ColumnEncoder`, or an `OrderedBoosting` with words as categories: each
        column is then a separate input, of shape (n_samples, 1), float64 or strings. A number
        is missing if it is NaN, a word if it is none that the model knows, such as "".

    Returns
    -------
    graph : onnx.ModelProto
        Its outputs are `label` and, for a learner with probabilities, `probabilities`, else
        `scores`: the score of `latent`, or one for each class if there are no thresholds. Columns
        are in the order of the model's `classes_`, as those of `predict_proba` are. A
        `PredictionRanges` also has `lower` and `upper`, the ends of the range that `predict_range`
        predicts.

    Examples
    --------
    >>> import numpy as np
    >>> import onnxruntime
    >>> from pril import PRIL
    >>> from pril.onnx import to_onnx
    >>> X = np.array([[-1.0], [0.0], [1.0]])
    >>> model = PRIL(random_state=0, max_iter=50).fit(X, [1, 2, 3])
    >>> session = onnxruntime.InferenceSession(to_onnx(model, X).SerializeToString())
    >>> session.run(["label"], {"X": X})[0].tolist()
    [1, 2, 3]
    """
    register()
    if isinstance(model, Pipeline):  # skl2onnx does not know our subclass
        model = Pipeline(model.steps)
    parts = Parts.of(model)
    first = parts.steps[0][1] if parts.steps else parts.learner
    inputs = _columns(first)
    if inputs is None and X is None:
        inputs = [("X", DoubleTensorType([None, first.n_features_in_]))]
    try:
        if inputs is not None:
            return convert_sklearn(model, initial_types=inputs)
        if hasattr(X, "iloc") and not isinstance(first, ColumnTransformer):
            X = np.asarray(X)
        rows: Any = X
        return convert_with_rows(model, rows[:1])
    except (MissingConverter, MissingShapeCalculator) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputTypeError(f"the model cannot be exported to ONNX: {reason}") from None


def _columns(first: BaseEstimator) -> list[tuple[str, Any]] | None:
    """Return an input for each column, if the first step takes words; None if it does not."""
    if isinstance(first, _column_encoder()):
        names, words = [*first.numbers_, *first.words_], {*first.ranks_, *first.words_}
    else:
        names = _feature_names(first) if isinstance(first, OrdinalLearner) else []
        words = {name for k, name in enumerate(names) if _holds_words(first, k)}
        if not words:
            return None
    types = (StringTensorType if name in words else DoubleTensorType for name in names)
    return [(name, kind([None, 1])) for name, kind in zip(names, types, strict=True)]


def register() -> None:
    """Tell skl2onnx how to convert the estimators of this package.

    `to_onnx` calls this. Call it yourself to use skl2onnx's own functions.

    Examples
    --------
    >>> from pril.onnx import register
    >>> register()
    """
    for kind in (*(learner.load() for learner in LEARNERS), PredictionRanges):
        update_registered_converter(
            kind, f"Pril{kind.__name__}", _shape_learner, _convert_learner, parser=_parse_learner
        )
    for kind, convert in ((PolynomialMap, _convert_map), (LandmarkFeatures, _convert_landmarks)):
        update_registered_converter(kind, f"Pril{kind.__name__}", _shape_map, convert)
    for encoder in _column_encoder():
        update_registered_converter(encoder, "PrilColumnEncoder", _shape_encoder, _convert_encoder)


def _column_encoder() -> tuple[Any, ...]:
    """Return the class ColumnEncoder, nothing without pyarrow, which it needs."""
    try:
        from pril.tables.encoder import ColumnEncoder
    except ImportError:
        return ()
    return (ColumnEncoder,)


class _Graph:
    """Adds operators to the graph of one step of a model; every result has a new name."""

    def __init__(self, scope: Scope, container: ModelComponentContainer) -> None:
        self.scope = scope
        self.container = container

    def constant(self, kind: int, values: ArrayLike) -> str:
        name: str = self.scope.get_unique_variable_name("constant")
        values = np.asarray(values)
        self.container.add_initializer(name, kind, list(values.shape), values.ravel().tolist())
        return name

    def add(self, operator: str, *inputs: object, into: str | None = None, **options: Any) -> str:
        """Add an operator; its inputs are names of results, and arrays of floats or integers."""
        name: str = into or self.scope.get_unique_variable_name(operator.lower())
        options.setdefault("op_version", self.container.target_opset)
        options.setdefault("name", self.scope.get_unique_operator_name(operator))
        named = [one if isinstance(one, str) else self._numbers(np.asarray(one)) for one in inputs]
        self.container.add_node(operator, named, [name], **options)
        return name

    def _numbers(self, values: Array) -> str:
        return self.constant(DOUBLE if values.dtype.kind == "f" else INTEGER, values)

    def logistic(self, z: str) -> str:
        """Return 1 / (1 + exp(-z))."""
        return self.add("Div", [1.0], self.add("Add", [1.0], self.add("Exp", self.add("Neg", z))))

    def filled(self, X: str, values: ArrayLike) -> str:
        """Return cells with other values in the place of NaN."""
        return self.add("Where", self.add("IsNaN", X), values, X)

    def codes(self, cells: str, keys: list[Any], about: str, *, words: bool) -> str:
        """Return the position of each cell among words or numbers, NaN if it is none of them."""
        names = [_category(key, about, words=words) for key in keys]
        if words:  # not as tensors, with which onnxruntime 1.26 cannot begin
            codes = self.add(
                "LabelEncoder",
                cells,
                op_domain=ML,
                op_version=2,
                keys_strings=names or [b""],
                values_floats=np.arange(float(len(keys))).tolist() or [np.nan],
                default_float=np.nan,
            )
            return self.add("Cast", codes, to=DOUBLE)
        is_key = self.add("Equal", self.add("Cast", cells, to=DOUBLE), names or [np.nan])
        is_key = self.add("Cast", is_key, to=DOUBLE)  # once in a row, or never, which gives 0 / 0
        places = np.arange(float(len(keys) or 1))[:, np.newaxis]
        return self.add(
            "Div", self.add("MatMul", is_key, places), self.row_sums(is_key, keepdims=1)
        )

    def looked_up(self, X: str, k: int, table: Array) -> str:
        """Return the row of a table for each code in column k, the last one for NaN."""
        codes = self.add("Gather", X, [k], axis=1)
        codes = self.add("Cast", self.filled(codes, [len(table) - 1.0]), to=INTEGER)
        codes = self.add("Reshape", codes, [-1])
        rows = self.add("Gather", self.constant(TENSOR.UINT8, table), codes, axis=0)
        return self.add("Cast", rows, to=DOUBLE)

    def row_sums(self, values: str, **options: Any) -> str:
        """Return the sum of each row."""
        return self.add("ReduceSum", values, [1], **options)

    def distances(self, X: str, points: Array, of: str) -> str:
        """Return the sums over the columns of "Abs" or "Mul" (squares) of differences to points.

        Columns are added one by one: all differences at once would take too much memory.
        """
        columns = self.add("Transpose", X, perm=[1, 0])
        columns = self.add("Unsqueeze", columns, [2])
        first = self.add("Gather", X, [0], axis=1)
        zeros = self.add("Mul", first, np.zeros((1, len(points))))
        names = [self.scope.get_unique_variable_name(name) for name in ("sum", "x", "point")]
        gap, part, total = map(self.scope.get_unique_variable_name, ("gap", "part", "total"))
        nodes = [
            onnx_helper.make_node("Sub", names[1:], [gap]),
            onnx_helper.make_node(of, [gap] if of == "Abs" else [gap, gap], [part]),
            onnx_helper.make_node("Add", [names[0], part], [total]),
        ]
        ends = [onnx_helper.make_tensor_value_info(name, DOUBLE, None) for name in [*names, total]]
        body = onnx_helper.make_graph(nodes, "distances", ends[:3], ends[3:])
        return self.add("Scan", zeros, columns, points.T, num_scan_inputs=2, body=body)

    def joined(self, variables: Sequence[Variable]) -> str:
        """Return the inputs of a step as one matrix of doubles."""
        parts = [self.add("Cast", variable.full_name, to=DOUBLE) for variable in variables]
        return parts[0] if len(parts) == 1 else self.add("Concat", *parts, axis=1)


def _category(key: object, about: str, *, words: bool) -> Any:
    """Return a category as ONNX has it: a word in UTF-8, or a float64."""
    kind: Any = str if words else int | float
    reason = "which is no word" if words else "which is no number"
    if isinstance(key, kind):
        reason = "not UTF-8" if words else "which is no float64"
        with suppress(UnicodeEncodeError, OverflowError):
            if words or float(key) == key:
                return key.encode() if words else float(key)
    said = f"{about} has the category {shown(key)}, {reason}"
    raise InputTypeError(f"{said}: it cannot be exported to ONNX")


# --- Learners ------------------------------------------------------------------------------------


def _feature_names(learner: BaseEstimator) -> list[str]:
    """Return the names of a learner's features; those without are called x0, x1 and so on."""
    names = getattr(learner, "feature_names_in_", range(learner.n_features_in_))
    return [name if isinstance(name, str) else f"x{name}" for name in names]


def _holds_words(learner: BaseEstimator, k: int | str) -> bool:
    """Tell whether feature k has words as categories."""
    categories = getattr(learner, "categories_", {})
    return any(isinstance(value, str) for value in categories.get(str(k), ()))


def _features(graph: _Graph, learner: BaseEstimator, inputs: list[Variable]) -> str:
    """Return the features of a learner as one matrix of doubles, categories as their codes."""
    categories = getattr(learner, "categories_", {})
    if not categories:
        return graph.joined(inputs)
    names, n = [variable.full_name for variable in inputs], learner.n_features_in_
    if len(names) == 1 < n:
        X = graph.joined(inputs)
        names = [graph.add("Gather", X, [k], axis=1) for k in range(n)]
    parts = []
    for k, (name, cells) in enumerate(zip(_feature_names(learner), names, strict=True)):
        if str(k) in categories:
            values, words = categories[str(k)], _holds_words(learner, k)
            parts.append(graph.codes(cells, values, f"feature {name!r}", words=words))
        else:
            parts.append(graph.add("Cast", cells, to=DOUBLE))
    return graph.add("Concat", *parts, axis=1)


def _output(model: BaseEstimator) -> tuple[str, int]:
    """Return the name and the width of what a learner gives besides its label."""
    if isinstance(model, ProbabilityMixin):
        return "probabilities", len(model.order_)
    return "scores", 1 if isinstance(model, ThresholdMixin) else len(model.order_)


def _parse_learner(
    scope: Scope, model: BaseEstimator, inputs: list[Variable], custom_parsers: object = None
) -> Any:
    parts = Parts.of(model)
    for _, step in parts.steps:  # of a Pipeline in a PredictionRanges
        inputs = _parse_sklearn(scope, step, inputs, custom_parsers=custom_parsers)
    operator = scope.declare_local_operator(f"Pril{type(model).__name__}", model)
    operator.inputs.extend(inputs)
    names = ["label", _output(parts.learner)[0], *(["lower", "upper"] if parts.ranges else [])]
    for name in names:
        operator.outputs.append(scope.declare_local_variable(name, DoubleTensorType()))
    return operator.outputs


def _shape_learner(operator: Operator) -> None:
    learner = Parts.of(operator.raw_operator).learner
    kind = learner.order_.dtype.kind
    if kind not in TYPES or (kind == "O" and not isinstance(learner.order_[0], str)):
        raise InputTypeError(
            f"labels in ONNX must be numbers or strings, not {type(learner.order_[0]).__name__}"
        )
    for output in operator.outputs:
        output.type = TYPES[kind][0]([None])
    operator.outputs[1].type = DoubleTensorType([None, _output(learner)[1]])


def _convert_learner(scope: Scope, operator: Operator, container: ModelComponentContainer) -> None:
    parts = Parts.of(operator.raw_operator)
    learner = parts.learner
    if hasattr(learner, "dual_coef_"):
        raise InputTypeError(
            f"{type(learner).__name__} cannot be exported to ONNX: use LandmarkFeatures, or "
            "PolynomialMap for a polynomial kernel, and PRIL"
        )
    graph = _Graph(scope, container)
    label, other, *ends = (output.full_name for output in operator.outputs)
    score, cut, unit = _score(graph, learner, _features(graph, learner, operator.inputs))
    output, largest = graph.add("Div", score, [float(unit)]), score
    reported = output
    if isinstance(learner, ProbabilityMixin):
        output = largest = _chances(graph, learner, output, cut / unit)
    # The columns of classes follow `classes_`, as those of `predict_proba` do.
    columns = np.argsort(learner.order_) if _output(learner)[1] > 1 else [0]
    graph.add("Gather", output, columns, into=other, axis=1)
    by_size = not isinstance(learner, ThresholdMixin)
    if by_size or getattr(learner, "decision", "") == "mode" or len(cut) == 2:  # one class: 0
        rank = graph.add("ArgMax", largest, axis=1, keepdims=0)
    else:
        rank = _count(graph, graph.add("GreaterOrEqual", score, cut[1:-1]))
    classes, kind = learner.order_, TYPES[learner.order_.dtype.kind][1]
    if kind == TENSOR.STRING:
        classes = np.array([str(name).encode() for name in classes], dtype=object)
    names = graph.constant(kind, classes)
    ranks = [rank, *(_range(graph, rank, reported, cut / unit, parts.ranges) if ends else [])]
    for into, chosen in zip([label, *ends], ranks, strict=True):
        graph.add("Gather", names, chosen, into=into, axis=0)


def _count(graph: _Graph, flags: str) -> str:
    """Return how many flags of each row are set."""
    return graph.row_sums(graph.add("Cast", flags, to=INTEGER), keepdims=0)


def _range(
    graph: _Graph, rank: str, score: str, cut: Array, ranges: PredictionRanges
) -> tuple[str, str]:
    """Return the lowest and the highest rank of each row's range, as `rank_ranges` has them."""
    if len(cut) == 2:  # one class
        return rank, rank
    if is_by_column(ranges):
        raise InputError(
            f"ranges by the column {ranges.by!r} cannot be exported to ONNX: export one model for "
            "each of its values, or ranges by class"
        )
    margin: Array | str = np.atleast_1d(ranges.margin_)
    if ranges.by == CLASS:
        below, above = graph.add("Sub", cut[:-1], score), graph.add("Sub", score, cut[1:])
        far = graph.add("Max", below, above)
        inside = graph.add("Cast", graph.add("LessOrEqual", far, margin), to=INTEGER)
        if ranges.guarantee == "exact":
            ends = [
                graph.add("ArgMax", inside, axis=1, keepdims=0, select_last_index=last)
                for last in (0, 1)
            ]
            return graph.add("Min", ends[0], rank), graph.add("Max", ends[1], rank)
        # A margin of zero counts if its class is inside.
        inside_margin = graph.add("Mul", graph.add("Cast", inside, to=DOUBLE), ranges.margin_ + 1.0)
        widest = graph.add("ArgMax", inside_margin, axis=1, keepdims=1)
        margin = graph.add("Gather", margin, widest, axis=0)
    below = graph.add("Greater", graph.add("Sub", score, cut[1:-1]), margin)
    above = graph.add("Greater", graph.add("Sub", cut[1:-1], score), margin)
    high = graph.add("Sub", [len(cut) - 2], _count(graph, above))
    return graph.add("Min", _count(graph, below), rank), graph.add("Max", high, rank)


def _score(graph: _Graph, model: BaseEstimator, X: str) -> tuple[str, Any, float]:
    """Return scores, thresholds between sentinels, and the number that divides both."""
    check_ready(model)
    w, cut, unit = model.engine.parameters(model.memory_)
    if w is None:
        return _boosted_score(graph, model, X), cut, unit
    score = graph.add("MatMul", X, w[:, :-1].T)
    if getattr(model, "fit_intercept", False):
        score = graph.add("Add", score, w[:, -1])
    return score, cut, unit


def _boosted_score(graph: _Graph, model: BaseEstimator, X: str) -> str:
    """Return the linear score plus the mean of the boosters' trees."""
    forest: Forest = model.memory_.forest
    centred = graph.add("Sub", graph.filled(X, forest.mean), forest.mean)
    score = graph.add("MatMul", centred, forest.slope[:, np.newaxis])
    if len(forest.landmarks) > 0:
        scaled = graph.add("Mul", centred, forest.width)
        distances = graph.distances(scaled, forest.landmarks, "Abs")
        similar = graph.add("Exp", graph.add("Neg", distances))
        weighed = graph.add("MatMul", similar, forest.similarity[:, np.newaxis])
        score = graph.add("Add", score, weighed)
    if len(forest.size) == 0:
        return score
    return graph.add("Add", score, _trees(graph, forest, model.categories_, X))


def _trees(graph: _Graph, forest: Forest, categories: dict[str, list[Any]], X: str) -> str:
    """Return the sum of the trees."""
    feature, value, parts = forest.feature.copy(), forest.value.copy(), [X]
    width = len(forest.mean)
    for k, values in categories.items():
        splits = np.flatnonzero((forest.kind == SET) & (forest.feature == int(k)))
        if len(splits):
            outside, number = _sets(forest, splits, len(values))
            parts.append(graph.looked_up(X, int(k), outside))
            feature[splits], value[splits] = width + number, 0.5
            width += outside.shape[1]
    cells = graph.add("Concat", *parts, axis=1) if len(parts) > 1 else X
    # Splits are in pre-order: the left child is next, the right one comes after all on the left.
    tree, n_left = np.repeat(np.arange(len(forest.size)), forest.size), forest.end - forest.begin
    size, split = forest.size[tree], np.concatenate([np.arange(n) for n in forest.size])
    after = np.append(forest.begin, -1)[np.minimum(np.arange(len(tree)) + n_left, len(tree))]
    goes_on = (split + n_left < size) & (after == forest.end)
    left = np.where(n_left > 1, split + 1, size + forest.begin)
    right = np.where(goes_on, split + n_left, size + forest.end)
    tree_of_leaf = np.repeat(np.arange(len(forest.size)), forest.size + 1)
    leaf = np.concatenate([np.arange(n, 2 * n + 1) for n in forest.size])  # numbers of nodes
    order = np.argsort(np.concatenate([tree, tree_of_leaf]), kind="stable")
    none, weights = np.zeros(len(leaf)), _exact_parts(forest)

    def nodes(of_splits: ArrayLike, of_leaves: ArrayLike) -> Any:
        """Join what splits and leaves have; the nodes of a tree must be neighbours."""
        return np.concatenate([of_splits, of_leaves])[order]

    def integers(of_splits: ArrayLike, of_leaves: ArrayLike) -> list[int]:
        return nodes(of_splits, of_leaves).astype(int).tolist()

    sums = graph.add(
        "TreeEnsembleRegressor",
        cells,
        op_domain=ML,
        op_version=3,
        n_targets=len(weights),
        aggregate_function="SUM",
        nodes_treeids=integers(tree, tree_of_leaf),
        nodes_nodeids=integers(split, leaf),
        nodes_featureids=integers(feature, none),
        nodes_modes=nodes(["BRANCH_LEQ"] * len(tree), ["LEAF"] * len(leaf)).tolist(),
        nodes_values_as_tensor=numpy_helper.from_array(nodes(value, none), "splits"),
        nodes_truenodeids=integers(left, none),
        nodes_falsenodeids=integers(right, none),
        nodes_missing_value_tracks_true=integers(forest.kind == MISSING_LEFT, none),
        target_treeids=np.repeat(tree_of_leaf, len(weights)).tolist(),
        target_nodeids=np.repeat(leaf, len(weights)).tolist(),
        target_ids=np.tile(np.arange(len(weights)), len(leaf)).tolist(),
        target_weights_as_tensor=numpy_helper.from_array(weights.T.ravel(), "leaves"),
    )
    return graph.row_sums(graph.add("Cast", sums, to=DOUBLE), keepdims=1)


def _exact_parts(forest: Forest) -> Any:
    """Return leaves in four parts, multiples of numbers so large that each sum has 24 bits."""
    starts = np.cumsum(forest.size + 1) - forest.size - 1
    rest, parts = forest.leaf.copy(), []
    for _ in range(4):
        most = np.maximum.reduceat(np.abs(rest), starts).sum()
        # Rounding may add half a unit for each tree. In float32, units cannot be smaller.
        unit = 2.0 ** max(np.frexp(most)[1] - 22, -120)
        parts.append(np.round(rest / unit) * unit)
        rest -= parts[-1]
    return np.array(parts)


def _sets(forest: Forest, splits: Array, n_categories: int) -> tuple[Any, Any]:
    """Return which categories are outside each set of some splits, and the set of each split.

    The last row is for a missing value, which is in no set.
    """
    first = forest.value[splits].astype(int)[:, np.newaxis]
    words = forest.words[first + np.arange(1 + (n_categories >> 5))].astype("<u4")
    words, number = np.unique(words, axis=0, return_inverse=True)
    inside = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")[:, :n_categories]
    return np.vstack([1 - inside.T, np.ones((1, len(words)), dtype=np.uint8)]), number.ravel()


def _chances(graph: _Graph, learner: BaseEstimator, score: str, cut: Array) -> str:
    """Return the probabilities of the classes: the product in `rating`, or a difference."""
    link = learner.link_function
    if link is LOGIT:
        low = graph.logistic(graph.add("Sub", score, cut[:-1]))
        high = graph.logistic(graph.add("Sub", cut[1:], score))
        return graph.add("Mul", graph.add("Mul", low, high), -np.expm1(cut[:-1] - cut[1:]))
    if type(link) not in BELOW:
        raise InputTypeError(f"the link {link!r} cannot be written as ONNX: it is not one of ours")
    below = BELOW[type(link)](graph, graph.add("Sub", cut + learner.median, score))
    n = len(cut) - 1
    return graph.add("MatMul", below, np.eye(n + 1, n, -1) - np.eye(n + 1, n))  # differences


def _exp_of_exp(graph: _Graph, z: str) -> str:
    """Return exp(-exp(z))."""
    return graph.add("Exp", graph.add("Neg", graph.add("Exp", z)))


def _in_single(graph: _Graph, operator: str, z: str, factor: float, scale: float) -> str:
    """Return 0.5 + factor f(scale z); onnxruntime has these functions of floats only."""
    small = graph.add("Cast", graph.add("Mul", z, [scale]), to=TENSOR.FLOAT)
    value = graph.add("Cast", graph.add(operator, small), to=DOUBLE)
    return graph.add("Add", graph.add("Mul", value, [factor]), [0.5])


BELOW: dict[type[Link], Callable[[_Graph, str], str]] = {
    Cloglog: lambda graph, z: graph.add("Sub", [1.0], _exp_of_exp(graph, z)),
    Loglog: lambda graph, z: _exp_of_exp(graph, graph.add("Neg", z)),
    Probit: lambda graph, z: _in_single(graph, "Erf", z, 0.5, np.sqrt(0.5)),
    Cauchit: lambda graph, z: _in_single(graph, "Atan", z, 1.0 / np.pi, 1.0),
}


# --- Transformers --------------------------------------------------------------------------------


def _shape_map(operator: Operator) -> None:
    kind = type(operator.inputs[0].type)
    kind = kind if kind is data_types.FloatTensorType else DoubleTensorType
    n_features = len(operator.raw_operator.get_feature_names_out())
    operator.outputs[0].type = kind([None, n_features])


def _put_out(graph: _Graph, features: str, output: Variable) -> None:
    """Make features the output of a map, in the precision of its input."""
    kind = DOUBLE if isinstance(output.type, DoubleTensorType) else TENSOR.FLOAT
    graph.add("Cast", features, into=output.full_name, to=kind)


def _convert_map(scope: Scope, operator: Operator, container: ModelComponentContainer) -> None:
    """Multiply columns; a monomial of a lower degree takes a column of ones for the rest."""
    model = operator.raw_operator
    graph = _Graph(scope, container)
    X = graph.joined(operator.inputs)
    zeros = graph.add("Mul", graph.add("Gather", X, [0], axis=1), [0.0])
    X = graph.add("Concat", X, graph.add("Add", zeros, [1.0]), axis=1)
    powers = model.powers_
    factors = [[j for j, power in enumerate(row) for _ in range(power)] for row in powers.tolist()]
    factors = [[*row, *[powers.shape[1]] * (model.degree - len(row))] for row in factors]
    product = model.scale_
    for columns in np.array(factors).T:
        product = graph.add("Mul", graph.add("Gather", X, columns, axis=1), product)
    _put_out(graph, product, operator.outputs[0])


def _convert_landmarks(
    scope: Scope, operator: Operator, container: ModelComponentContainer
) -> None:
    model = operator.raw_operator
    graph = _Graph(scope, container)
    X = graph.joined(operator.inputs)
    similar = graph.add("MatMul", _kernel_values(graph, X, model), model.projection_)
    similar = graph.add("Sub", similar, model.offset_)
    _put_out(graph, graph.add("Concat", X, similar, axis=1), operator.outputs[0])


def _kernel_values(graph: _Graph, X: str, model: BaseEstimator) -> str:
    """Return the kernel of rows and landmarks, as `pairwise_kernels` has it."""
    kernel, gamma = model.learned_with_["kernel"], model.learned_with_["gamma"]
    landmarks = model.landmarks_.toarray() if issparse(model.landmarks_) else model.landmarks_
    landmarks = landmarks.astype(np.float64)
    if kernel in ("laplacian", "rbf"):
        distances = graph.distances(X, landmarks, "Abs" if kernel == "laplacian" else "Mul")
        return graph.add("Exp", graph.add("Mul", distances, [-gamma]))
    if kernel == "cosine":
        landmarks = normalize(landmarks)
        length = graph.add("Sqrt", graph.row_sums(graph.add("Mul", X, X), keepdims=1))
        is_zero = graph.add("Equal", length, [0.0])
        X = graph.add("Div", X, graph.add("Where", is_zero, [1.0], length))
    if kernel in ("cosine", "linear"):
        return graph.add("MatMul", X, landmarks.T)
    if kernel not in ("poly", "polynomial", "sigmoid"):  # chi-squared kernels
        raise InputTypeError(
            f"LandmarkFeatures with kernel={kernel!r} cannot be exported to ONNX: a graph cannot "
            "refuse negative features; use laplacian or rbf"
        )
    # Not a product with gamma: onnxruntime would make it the float32 factor of a MatMul.
    products = graph.add("Add", graph.add("MatMul", X, gamma * landmarks.T), [1.0])
    if kernel == "sigmoid":
        return graph.add("Tanh", products)
    return graph.add("Mul", graph.add("Mul", products, products), products)


def _shape_encoder(operator: Operator) -> None:
    encoder = operator.raw_operator
    operator.outputs[0].type = DoubleTensorType([None, len(encoder.get_feature_names_out())])


def _convert_encoder(scope: Scope, operator: Operator, container: ModelComponentContainer) -> None:
    from pril.tables.encoder import scales_of

    encoder = operator.raw_operator
    graph = _Graph(scope, container)
    inputs = {variable.raw_name: variable.full_name for variable in operator.inputs}
    means, scales, parts = encoder.moments_.mean, scales_of(encoder), []
    for name, mean, scale in zip(encoder.numbers_, means, scales, strict=True):
        cells = inputs[name]
        if name in encoder.ranks_:
            cells = graph.codes(cells, encoder.ranks_[name], f"column {name!r}", words=True)
        cells = graph.add("Cast", cells, to=DOUBLE)
        if encoder.impute and not encoder.codes:
            cells = graph.filled(cells, [mean])
        if encoder.scale and not encoder.codes:
            cells = graph.add("Div", graph.add("Sub", cells, [mean]), [scale])
        parts.append(cells)
    for name, words in encoder.words_.items():
        if encoder.codes:
            parts.append(graph.codes(inputs[name], words, f"column {name!r}", words=True))
        elif words:
            flags = graph.add(
                "OneHotEncoder",
                inputs[name],
                op_domain=ML,
                op_version=1,
                cats_strings=[word.encode() for word in words],
                zeros=1,
            )
            flags = graph.add("Reshape", flags, [-1, len(words)])
            parts.append(graph.add("Cast", flags, to=DOUBLE))
    graph.add("Concat", *parts, into=operator.outputs[0].full_name, axis=1)
