"""Export of models to ONNX. Needs skl2onnx, the extra ``onnx``.

A model in ONNX predicts without Python. Scores are computed in float64 and compared with the
thresholds as in the learners, so that labels agree, ties included.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer

from pril.errors import InputTypeError, MissingExtraError

try:
    from onnx import helper as onnx_helper
    from skl2onnx import convert_sklearn, update_registered_converter
    from skl2onnx import to_onnx as convert_with_rows
    from skl2onnx.common.data_types import (
        BooleanTensorType,
        DoubleTensorType,
        FloatTensorType,
        Int64TensorType,
        StringTensorType,
    )
    from skl2onnx.common.exceptions import MissingConverter, MissingShapeCalculator
    from skl2onnx.proto import onnx_proto
except ImportError as error:  # pragma: no cover - the extra is missing
    raise MissingExtraError("pril.onnx needs skl2onnx", "onnx") from error

from pril.core.classifier import ProbabilityClassifier, ThresholdClassifier
from pril.core.parts import Parts
from pril.core.registry import LEARNERS
from pril.features import PolynomialMap
from pril.learners.boosting.passes import MISSING_LEFT, Forest

__all__ = ["register", "to_onnx"]


def __dir__() -> list[str]:
    return __all__


TENSOR = onnx_proto.TensorProto
DOUBLE, INTEGER = TENSOR.DOUBLE, TENSOR.INT64
TYPES = {  # of a label: the type of a variable and of a tensor, by the kind of the classes' dtype
    "b": (BooleanTensorType, TENSOR.BOOL),
    "i": (Int64TensorType, INTEGER),
    "u": (Int64TensorType, INTEGER),
    "f": (DoubleTensorType, DOUBLE),
    "O": (StringTensorType, TENSOR.STRING),
    "U": (StringTensorType, TENSOR.STRING),
}


def to_onnx(model: Any, X: Any = None) -> Any:
    """Return a fitted model as an ONNX graph.

    Parameters
    ----------
    model : estimator
        A fitted linear learner of this package, alone or at the end of a
        :class:`~sklearn.pipeline.Pipeline` whose other steps skl2onnx knows, among them
        `PolynomialMap` and, as the first step, `ColumnEncoder`.
    X : array-like of shape (n_samples, n_features), default=None
        Rows of which the type is taken: float32 or float64. None: float64. It has no effect if the
        first step is a `ColumnEncoder`: each column is then an input of its own, of shape
        (n_samples, 1), float64 or strings.

    Returns
    -------
    graph : onnx.ModelProto
        Its outputs are `label` and, for a learner with probabilities, `probabilities`, else
        `scores`: the score of `latent`, or one for each class if there are no thresholds. Classes
        are in the order of the model's `order_`, from lowest to highest.

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
    try:
        return _converted(model, X)
    except (MissingConverter, MissingShapeCalculator) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputTypeError(f"the model cannot be exported to ONNX: {reason}") from None


def _converted(model: Any, X: Any) -> Any:
    parts = Parts.of(model)
    first = parts.steps[0][1] if parts.steps else parts.learner
    if isinstance(first, _column_encoder()):
        inputs = [
            (name, (StringTensorType if name in first.ranks_ else DoubleTensorType)([None, 1]))
            for name in first.numbers_
        ]
        inputs += [(name, StringTensorType([None, 1])) for name in first.words_]
        return convert_sklearn(model, initial_types=inputs)
    if X is None:
        inputs = [("X", DoubleTensorType([None, first.n_features_in_]))]
        return convert_sklearn(model, initial_types=inputs)
    if hasattr(X, "iloc") and not isinstance(first, ColumnTransformer):
        X = np.asarray(X)
    return convert_with_rows(model, X[:1])


def register() -> None:
    """Tell skl2onnx how to convert the estimators of this package.

    `to_onnx` calls this. Call it yourself to use skl2onnx's own functions.

    Examples
    --------
    >>> from pril.onnx import register
    >>> register()
    """
    for learner in LEARNERS:
        kind = learner.load()
        convert = _convert_learner if learner.exports else _refuse
        update_registered_converter(
            kind, f"Pril{learner.name}", _shape_learner, convert, parser=_parse_learner
        )
    update_registered_converter(PolynomialMap, "PrilPolynomialMap", _shape_map, _convert_map)
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

    def __init__(self, scope: Any, container: Any) -> None:
        self.scope = scope
        self.container = container

    def constant(self, kind: int, values: Any) -> str:
        name: str = self.scope.get_unique_variable_name("constant")
        values = np.asarray(values)
        self.container.add_initializer(name, kind, list(values.shape), values.ravel().tolist())
        return name

    def numbers(self, values: Any) -> str:
        return self.constant(DOUBLE, np.asarray(values, dtype=np.float64))

    def add(self, operator: str, *inputs: str, into: str | None = None, **options: Any) -> str:
        name: str = into or self.scope.get_unique_variable_name(operator.lower())
        options.setdefault("op_version", self.container.target_opset)
        options.setdefault("name", self.scope.get_unique_operator_name(operator))
        self.container.add_node(operator, list(inputs), [name], **options)
        return name

    def logistic(self, z: str) -> str:
        """Return 1 / (1 + exp(-z))."""
        one = self.numbers([1.0])
        return self.add("Div", one, self.add("Add", one, self.add("Exp", self.add("Neg", z))))

    def filled(self, X: str, values: Any) -> str:
        """Return cells with other values in the place of NaN."""
        return self.add("Where", self.add("IsNaN", X), self.numbers(values), X)

    def joined(self, variables: Any) -> str:
        """Return the inputs of a step as one matrix of doubles."""
        parts = [self.add("Cast", variable.full_name, to=DOUBLE) for variable in variables]
        return parts[0] if len(parts) == 1 else self.add("Concat", *parts, axis=1)


# --- Learners ------------------------------------------------------------------------------------


def _output(model: Any) -> tuple[str, int]:
    """Return the name and the width of what a learner gives besides its label."""
    if isinstance(model, ProbabilityClassifier):
        return "probabilities", len(model.order_)
    return "scores", 1 if isinstance(model, ThresholdClassifier) else len(model.order_)


def _parse_learner(scope: Any, model: Any, inputs: Any, custom_parsers: Any = None) -> Any:
    operator = scope.declare_local_operator(f"Pril{type(model).__name__}", model)
    operator.inputs.extend(inputs)
    for name, kind in (("label", Int64TensorType()), (_output(model)[0], DoubleTensorType())):
        operator.outputs.append(scope.declare_local_variable(name, kind))
    return operator.outputs


def _shape_learner(operator: Any) -> None:
    model = operator.raw_operator
    kind = model.order_.dtype.kind
    if kind not in TYPES or (kind == "O" and not isinstance(model.order_[0], str)):
        raise InputTypeError(
            f"labels in ONNX must be numbers or strings, not {type(model.order_[0]).__name__}"
        )
    operator.outputs[0].type = TYPES[kind][0]([None])
    operator.outputs[1].type = DoubleTensorType([None, _output(model)[1]])


def _refuse(scope: Any, operator: Any, container: Any) -> None:
    raise InputTypeError(
        f"{type(operator.raw_operator).__name__} cannot be exported to ONNX: use PolynomialMap and "
        "PRIL for a polynomial kernel"
    )


def _convert_learner(scope: Any, operator: Any, container: Any) -> None:
    model = operator.raw_operator
    graph = _Graph(scope, container)
    label, other = (output.full_name for output in operator.outputs)
    score, cut, unit = _score(graph, model, graph.joined(operator.inputs))
    found, largest = graph.add("Div", score, graph.numbers([unit])), score
    if isinstance(model, ProbabilityClassifier):
        found = largest = _chances(graph, found, cut / unit)
    graph.add("Identity", found, into=other)
    by_size = not isinstance(model, ThresholdClassifier) or getattr(model, "decision", "") == "mode"
    if by_size or len(cut) == 2:  # with one class, it is 0
        rank = graph.add("ArgMax", largest, axis=1, keepdims=0)
    else:
        above = graph.add("GreaterOrEqual", score, graph.numbers(cut[1:-1]))
        above = graph.add("Cast", above, to=INTEGER)
        rank = graph.add("ReduceSum", above, graph.constant(INTEGER, [1]), keepdims=0)
    classes, kind = model.order_, TYPES[model.order_.dtype.kind][1]
    if kind == TENSOR.STRING:
        classes = np.array([str(name).encode() for name in classes], dtype=object)
    graph.add("Gather", graph.constant(kind, classes), rank, into=label, axis=0)


def _score(graph: _Graph, model: Any, X: str) -> tuple[str, Any, float]:
    """Return scores, thresholds between sentinels, and the number that divides both."""
    if hasattr(model, "_forest"):
        return _boosted_score(graph, model, X), np.r_[-np.inf, model.thresholds_, np.inf], 1.0
    w, cut, unit = model._parameters()
    score = graph.add("MatMul", X, graph.numbers(w[:, :-1].T))
    if getattr(model, "fit_intercept", False):
        score = graph.add("Add", score, graph.numbers(w[:, -1]))
    return score, cut, unit


def _boosted_score(graph: _Graph, model: Any, X: str) -> str:
    """Return the linear score plus the mean of the boosters' trees."""
    if model._categories:
        raise InputTypeError(
            "OrderedBoosting with categorical features cannot be exported to ONNX: put a "
            "ColumnEncoder before it"
        )
    forest = Forest(**model._forest)
    centred = graph.add("Sub", graph.filled(X, forest.mean), graph.numbers(forest.mean))
    score = graph.add("MatMul", centred, graph.numbers(forest.slope[:, np.newaxis]))
    if len(forest.size) == 0:
        return score
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
    none = np.zeros(len(leaf))

    def doubles(cells: Any) -> Any:
        return onnx_helper.make_tensor("values", DOUBLE, [len(cells)], cells.tolist())

    def nodes(of_splits: Any, of_leaves: Any) -> Any:
        """Join what splits and leaves have; the nodes of a tree must be neighbours."""
        return np.concatenate([of_splits, of_leaves])[order]

    def integers(of_splits: Any, of_leaves: Any) -> list[int]:
        cells: list[int] = nodes(of_splits, of_leaves).astype(int).tolist()
        return cells

    trees = graph.add(
        "TreeEnsembleRegressor",
        X,
        op_domain="ai.onnx.ml",
        op_version=3,
        n_targets=1,
        aggregate_function="SUM",
        nodes_treeids=integers(tree, tree_of_leaf),
        nodes_nodeids=integers(split, leaf),
        nodes_featureids=integers(forest.feature, none),
        nodes_modes=nodes(["BRANCH_LEQ"] * len(tree), ["LEAF"] * len(leaf)).tolist(),
        nodes_values_as_tensor=doubles(nodes(forest.value, none)),
        nodes_truenodeids=integers(left, none),
        nodes_falsenodeids=integers(right, none),
        nodes_missing_value_tracks_true=integers(forest.kind == MISSING_LEFT, none),
        target_treeids=tree_of_leaf.tolist(),
        target_nodeids=leaf.tolist(),
        target_ids=[0] * len(leaf),
        target_weights_as_tensor=doubles(forest.leaf),
    )
    return graph.add("Add", score, graph.add("Cast", trees, to=DOUBLE))


def _chances(graph: _Graph, score: str, cut: Any) -> str:
    """Return the probabilities of the classes, as `predict_proba` has them."""
    low = graph.logistic(graph.add("Sub", score, graph.numbers(cut[:-1])))
    high = graph.logistic(graph.add("Sub", graph.numbers(cut[1:]), score))
    width = graph.numbers(-np.expm1(cut[:-1] - cut[1:]))
    return graph.add("Mul", graph.add("Mul", low, high), width)


# --- Transformers --------------------------------------------------------------------------------


def _shape_map(operator: Any) -> None:
    kind = type(operator.inputs[0].type)
    kind = kind if kind in (FloatTensorType, DoubleTensorType) else DoubleTensorType
    operator.outputs[0].type = kind([None, operator.raw_operator.n_output_features_])


def _convert_map(scope: Any, operator: Any, container: Any) -> None:
    """Multiply columns; a monomial of a lower degree takes a column of ones for the rest."""
    model = operator.raw_operator
    graph = _Graph(scope, container)
    X = graph.joined(operator.inputs)
    first = graph.constant(INTEGER, [0])
    zeros = graph.add("Mul", graph.add("Gather", X, first, axis=1), graph.numbers([0.0]))
    X = graph.add("Concat", X, graph.add("Add", zeros, graph.numbers([1.0])), axis=1)
    powers = model._monomials.powers_
    factors = [[j for j, power in enumerate(row) for _ in range(power)] for row in powers.tolist()]
    factors = [[*row, *[powers.shape[1]] * (model.degree - len(row))] for row in factors]
    product = graph.numbers(model._scale)
    for columns in np.array(factors).T:
        index = graph.constant(INTEGER, columns)
        product = graph.add("Mul", graph.add("Gather", X, index, axis=1), product)
    is_double = isinstance(operator.outputs[0].type, DoubleTensorType)
    kind = DOUBLE if is_double else TENSOR.FLOAT
    graph.add("Cast", product, into=operator.outputs[0].full_name, to=kind)


def _shape_encoder(operator: Any) -> None:
    encoder = operator.raw_operator
    if encoder.widths_:
        raise InputTypeError("a ColumnEncoder with sparse columns cannot be exported to ONNX")
    if encoder.codes and encoder.words_:
        raise InputTypeError(
            "a ColumnEncoder with codes=True and columns of words cannot be exported to ONNX"
        )
    operator.outputs[0].type = DoubleTensorType([None, len(encoder.get_feature_names_out())])


def _convert_encoder(scope: Any, operator: Any, container: Any) -> None:
    encoder = operator.raw_operator
    graph = _Graph(scope, container)
    inputs = {variable.raw_name: variable.full_name for variable in operator.inputs}
    parts = []
    for j, name in enumerate(encoder.numbers_):
        mean, scale = encoder._moments.mean[j], encoder._scales()[j]
        cells = inputs[name]
        if name in encoder.ranks_:
            cells = graph.add(
                "LabelEncoder",
                cells,
                op_domain="ai.onnx.ml",
                op_version=2,
                keys_strings=[word.encode() for word in encoder.ranks_[name]],
                values_floats=[float(rank) for rank in range(len(encoder.ranks_[name]))],
                default_float=float("nan"),
            )
        cells = graph.add("Cast", cells, to=DOUBLE)
        if encoder.impute and not encoder.codes:
            cells = graph.filled(cells, [mean])
        if encoder.scale and not encoder.codes:
            cells = graph.add("Sub", cells, graph.numbers([mean]))
            cells = graph.add("Div", cells, graph.numbers([scale]))
        parts.append(cells)
    for name, words in encoder.words_.items():
        if words:
            flags = graph.add(
                "OneHotEncoder",
                inputs[name],
                op_domain="ai.onnx.ml",
                op_version=1,
                cats_strings=[word.encode() for word in words],
                zeros=1,
            )
            shape = graph.constant(INTEGER, [-1, len(words)])
            parts.append(graph.add("Cast", graph.add("Reshape", flags, shape), to=DOUBLE))
    graph.add("Concat", *parts, into=operator.outputs[0].full_name, axis=1)
