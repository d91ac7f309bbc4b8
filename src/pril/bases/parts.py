"""What a model is made of: steps before the learner, the learner, and what is wrapped around it."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator

from pril.bases.classifier import OrdinalLearner
from pril.core.arrays import Array, FeaturesLike
from pril.errors import InputError, InputTypeError


class Parts(NamedTuple):
    """The parts of a model."""

    wrappers: list[Any]  # pipelines, ranges, frozen estimators and searches, outermost first
    steps: list[tuple[str, Any]]  # before the learner, without those that do nothing
    learner: Any  # an `OrdinalLearner`, with all that only some have

    @classmethod
    def of(cls, model: BaseEstimator) -> Parts:
        """Take a model apart."""
        wrappers: list[Any] = []
        steps: list[tuple[str, Any]] = []
        part = model
        while (inner := part_of(part)) is not None:
            wrappers.append(part)
            steps += [pair for pair in _steps_of(part)[:-1] if _does_something(pair[1])]
            part = inner
        if not isinstance(part, OrdinalLearner):
            raise InputTypeError(
                "a model must be a learner of pril, or a Pipeline that ends in one, got "
                f"{type(part).__name__}"
            )
        return cls(wrappers, steps, part)

    @property
    def ranges(self) -> Any:
        """The PredictionRanges around the learner, None if there are none."""
        return next((part for part in self.wrappers if _is_ranges(part)), None)

    @property
    def is_frozen(self) -> bool:
        """Whether the learner must not go on learning."""
        return any(isinstance(part, FrozenEstimator) or _is_ranges(part) for part in self.wrappers)

    @property
    def pipeline(self) -> Any:
        """The steps before the learner as one Pipeline, None if there are none."""
        from sklearn.pipeline import Pipeline  # half a second, which few models need

        named = [(f"{k}_{name}", step) for k, (name, step) in enumerate(self.steps)]
        return Pipeline(named) if named else None

    @property
    def feature_names(self) -> list[str] | None:
        """The names of the learner's features, None if they have none."""
        try:
            if self.steps:
                names = self.pipeline.get_feature_names_out()
            else:
                names = self.learner.feature_names_in_
        except (AttributeError, ValueError):  # no step or learner has names for its features
            return None
        return [str(name) for name in names]

    @property
    def names(self) -> list[str]:
        """The names of the learner's features, numbers if they have none."""
        return self.feature_names or [str(j) for j in range(self.learner.n_features_in_)]

    @property
    def weights(self) -> tuple[Any, Any]:
        """The weights of a linear learner, to be shown, and its intercept; None for others.

        The words of a column are relative to their mean, which the intercept has instead: the
        score of a row whose words are known is the same.
        """
        coef = getattr(self.learner, "coef_", None)
        if coef is None:
            return None, None
        coef, shared = self.centre_words(coef)
        return coef, np.asarray(self.learner.intercept_) + shared

    @property
    def centres_words(self) -> bool:
        """Whether the first step has words whose weights `centre_words` can compare."""
        first, *others = [step for _, step in self.steps] or [None]
        # Landmarks are added to the features; other steps may change those of words.
        return hasattr(first, "centre_words") and all(hasattr(one, "landmarks_") for one in others)

    def centre_words(self, weights: Array, **options: object) -> tuple[Array, Array]:
        """Return weights with those of words relative to their mean, and the sum of these means.

        See `ColumnEncoder.centre_words`. Without an encoder, weights stay as they are.
        """
        if not self.centres_words:
            return weights, np.zeros(weights.shape[:-1])
        centred, shared = self.steps[0][1].centre_words(weights, **options)
        return centred, shared

    def check_learns(self, name: object = "the model") -> None:
        """Refuse a model whose learner cannot go on learning row by row, or must not."""
        if not hasattr(self.learner, "partial_fit"):
            raise InputTypeError(
                f"{name} holds {type(self.learner).__name__}, which learns all rows at once, in "
                "fit: to learn row by row use OrderedLogit"
            )
        if self.ranges:
            raise InputError(
                f"{name} holds calibrated ranges, which would not hold for a model that has "
                "learned more"
            )
        if self.is_frozen:
            raise InputError(f"{name} holds a FrozenEstimator, which does not learn")

    def wrong(self, what: str) -> InputTypeError:
        """Return the error for a model that is not what is needed."""
        name = model_name([*self.wrappers, self.learner][0])
        return InputTypeError(f"{what}, or a Pipeline that ends in one, got {name}")

    def fit_parameter(self, name: str) -> str:
        """Return what a parameter of the learner's `fit` is called in `fit` of the model."""
        steps = [part.steps[-1][0] for part in self.wrappers if _steps_of(part)]
        return "__".join([*steps, name])

    def transform(self, X: FeaturesLike) -> Any:
        """Return the features of rows, as the learner takes them."""
        return self.pipeline.transform(X) if self.steps else X


def part_of(model: BaseEstimator) -> BaseEstimator | None:
    """Return the last step of a pipeline, or the estimator that another one wraps, else None."""
    if steps := _steps_of(model):
        return steps[-1][1]
    if isinstance(model, FrozenEstimator):
        return model.estimator
    if _is_ranges(model):
        return getattr(model, "estimator_", model.estimator)
    return getattr(model, "best_estimator_", None)  # of a fitted search


def learns(model: BaseEstimator) -> bool:
    """Tell whether any part of a model would learn in `fit`."""
    if steps := _steps_of(model):
        return any(_does_something(step) and learns(step) for _, step in steps)
    return not isinstance(model, FrozenEstimator)


def model_name(model: BaseEstimator | str) -> str:
    """Return what a model is, in short: Pipeline(StandardScaler, PRIL)."""
    if isinstance(model, str):
        return model
    inner = [step for _, step in _steps_of(model)]
    if isinstance(model, FrozenEstimator) or _is_ranges(model):
        inner = [model.estimator]
    name = type(model).__name__
    return f"{name}({', '.join(map(model_name, inner))})" if inner else name


def _steps_of(model: BaseEstimator) -> list[tuple[str, Any]]:
    """Return the steps of a pipeline, none of another model."""
    if isinstance(model, FrozenEstimator):  # which has the attributes of what it wraps
        return []
    return getattr(model, "steps", [])


def _is_ranges(model: BaseEstimator) -> bool:
    return hasattr(type(model), "predict_range")


def _does_something(step: object) -> bool:
    return step is not None and step != "passthrough"


# --- In which units of a table the features of a learner are ---


def units_of_features(steps: list[tuple[str, Any]], n_features: int) -> Array:
    """Return how many units of its column one unit of each feature is.

    Steps are read from the last one back, through scalers, a ColumnTransformer and a ColumnEncoder.
    Before any other step the features are different ones, and a feature is the unit.
    """
    from sklearn.compose import ColumnTransformer
    from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler

    units = np.ones(n_features)
    for _, step in reversed(steps):
        if isinstance(step, StandardScaler | RobustScaler | MaxAbsScaler):
            units = units if step.scale_ is None else units * step.scale_
        elif isinstance(step, MinMaxScaler):
            units = units / step.scale_
        elif isinstance(step, ColumnTransformer):
            for name, inner in _branches(step):
                columns = step.output_indices_[name]
                units[columns] *= units_of_features(inner, columns.stop - columns.start)
            return units
        elif hasattr(step, "units"):  # a ColumnEncoder
            return units * step.units()
        elif _does_something(step):
            return units
    return units


class FeatureScale(NamedTuple):
    """What the features of a learner are in, by the last step before it."""

    unit: str  # of a number: "unit", "standard deviation", or "unit of the scaled column"
    is_centred: bool  # at the mean of its column


def scale_of_features(parts: Parts) -> FeatureScale:
    """Return the scale of a learner's numbers."""
    from sklearn.preprocessing import StandardScaler

    steps = [step for _, step in parts.steps if not hasattr(step, "landmarks_")]
    last: Any = steps[-1] if steps else None
    if isinstance(last, StandardScaler):
        return FeatureScale("standard deviation" if last.with_std else "unit", bool(last.with_mean))
    if hasattr(last, "centre_words"):  # a ColumnEncoder
        is_scaled = last.scale and not last.codes
        unit = "unit of the scaled column" if last.bounded else "standard deviation"
        return FeatureScale(unit if is_scaled else "unit", is_scaled)
    units = units_of_features(parts.steps, parts.learner.n_features_in_)
    return FeatureScale("unit" if (units == 1.0).all() else "unit of the scaled column", False)


def has_all_words(steps: list[tuple[str, Any]]) -> bool:
    """Tell whether some column has an indicator for each of its words, with none left out.

    The weights of these words may share any amount, so that only their differences have a meaning.
    """
    from sklearn.compose import ColumnTransformer
    from sklearn.preprocessing import OneHotEncoder

    for _, step in steps:
        if isinstance(step, ColumnTransformer):
            if any(has_all_words(inner) for _, inner in _branches(step)):
                return True
        elif isinstance(step, OneHotEncoder):
            if step.drop_idx_ is None or None in step.drop_idx_.tolist():
                return True
        elif hasattr(step, "centre_words") and step.words_ and not step.codes:  # a ColumnEncoder
            return True
    return False


def reference_of_words(parts: Parts) -> str | None:
    """Return what weights of words are relative to, None without words; warn if it is nothing."""
    if not has_all_words(parts.steps):
        return None
    if parts.centres_words:
        words = parts.steps[0][1].reference_words
        return ", ".join(f"{name}={word}" for name, word in words.items())
    warnings.warn(
        "the words of a column have no reference: only differences between them have a "
        "meaning, and the intervals of their weights, of their effects and of the thresholds "
        'have none; use OneHotEncoder(drop="first"), or a ColumnEncoder as the first step with '
        "no scaler after it",
        stacklevel=3,
    )
    return None


def _branches(transformer: BaseEstimator) -> list[tuple[str, list[tuple[str, Any]]]]:
    """Return name and steps of each part of a ColumnTransformer."""
    return [
        (name, getattr(part, "steps", [(name, part)]))
        for name, part, _ in transformer.transformers_
    ]
