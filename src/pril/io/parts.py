"""What a model is made of: steps before the learner, the learner, ranges around it."""

from __future__ import annotations

from typing import Any, NamedTuple

from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from pril.io.model_files import learner_of, part_of
from pril.ranges import PredictionRanges


class Parts(NamedTuple):
    """The parts of a model."""

    steps: Any  # before the learner, as one Pipeline; None if there are none
    learner: Any
    ranges: PredictionRanges | None
    is_frozen: bool  # the model must not go on learning

    @classmethod
    def of(cls, model: Any) -> Parts:
        """Take a model apart: pipelines in pipelines, and what is wrapped around them."""
        learner = learner_of(model)
        steps: list[Any] = []
        ranges, is_frozen, part = None, False, model
        while part is not learner:
            if isinstance(part, Pipeline):
                steps += part.steps[:-1]
            elif isinstance(part, PredictionRanges):
                ranges, is_frozen = part, True
            elif isinstance(part, FrozenEstimator):
                is_frozen = True
            part = part_of(part)
        named = [(f"{k}_{name}", step) for k, (name, step) in enumerate(steps)]
        return cls(Pipeline(named) if steps else None, learner, ranges, is_frozen)

    @property
    def feature_names(self) -> list[str] | None:
        """The names of the learner's features, None if they have none."""
        try:
            if self.steps is None:
                names = self.learner.feature_names_in_
            else:
                names = self.steps.get_feature_names_out()
        except (AttributeError, ValueError):  # no step or learner has names for its features
            return None
        return [str(name) for name in names]

    def transform(self, X: Any) -> Any:
        """Return the features of rows, as the learner takes them."""
        return X if self.steps is None else self.steps.transform(X)
