"""A model from a file, put to work on tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from sklearn.pipeline import Pipeline

from pril import io
from pril.tables.cells import column, kind_of, read_numbers, read_words
from pril.tables.encoder import ColumnEncoder

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    Array = NDArray[Any]


def pick_scores(rank: Array, scores: Array) -> Array:
    """Return each row's score: the only one, or that of the class predicted."""
    return scores[:, 0] if scores.shape[1] == 1 else scores[np.arange(len(rank)), rank]


class LoadedModel:
    """A model, what its file says of it, and how it reads a table."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.model, self.about = io.read(path, kind="model")
        self.use(self.model)

    def use(self, model: Any) -> None:
        """Take another model in its place, such as one that has learned more."""
        self.model = model
        self.learner: Any = io.learner_of(model)
        self.is_frozen = False
        steps: list[Any] = []
        last = model
        while last is not self.learner:  # pipelines in pipelines
            if isinstance(last, Pipeline):
                steps += last.steps[:-1]
                last = last.steps[-1][1]
            else:
                self.is_frozen = True
                last = last.estimator
        named = [(f"{k}_{name}", step) for k, (name, step) in enumerate(steps)]
        self.steps: Any = Pipeline(named) if steps else None
        first = self.steps[0] if self.steps else None
        self.encoder = first if isinstance(first, ColumnEncoder) else None

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the columns of the labels that it learned from, if they are known."""
        return tuple(self.about.notes.get("labels", ()))

    @property
    def columns(self) -> list[str]:
        """Return the columns it needs."""
        names = getattr(self.model, "feature_names_in_", None)
        if names is None:
            raise ValueError(
                f"{self.path}: the model does not know its columns by name; fit it on a DataFrame, "
                "or with pril fit"
            )
        return [str(name) for name in names]

    @property
    def has_text_labels(self) -> bool:
        """Tell whether the classes are words."""
        return bool(self.learner.classes_.dtype.kind not in "biuf")

    def features(self, batch: pa.RecordBatch, schema: pa.Schema) -> Any:
        """Return what the learner sees of some rows; the schema says what text means."""
        if self.encoder is not None:
            features = self.encoder.transform(batch)
            return self.steps[1:].transform(features) if len(self.steps) > 1 else features
        import pandas as pd

        cells = {
            name: (column(batch, name), kind_of(schema.field(name).type)) for name in self.columns
        }
        frame = pd.DataFrame(
            {
                name: read_numbers(cell, name)
                if kind == "number"
                else read_words(cell, name).to_pandas()
                for name, (cell, kind) in cells.items()
            }
        )
        return self.steps.transform(frame) if self.steps else frame

    def rate(self, features: Any) -> tuple[Array, Array]:
        """Return rank and score of each row."""
        rank, scores, _ = self.learner._rate(features)
        return rank, pick_scores(rank, scores)

    def class_column(self, rank: Array) -> pa.Array:
        """Return predicted classes as a column."""
        return pa.array(self.learner.classes_[rank].tolist())

    @property
    def feature_names(self) -> list[str]:
        """Return the names of what the learner sees."""
        source = self.steps if self.steps else self.learner
        try:
            named = source.get_feature_names_out() if self.steps else source.feature_names_in_
        except (AttributeError, ValueError):
            return [f"feature {j}" for j in range(self.learner.n_features_in_)]
        return [str(name) for name in named]

    def weights(self) -> list[tuple[str, Any]]:
        """Return the features and their weights, the largest first; none for a kernel."""
        coef = getattr(self.learner, "coef_", None)
        if coef is None:
            return []
        size = np.abs(np.atleast_2d(coef)).max(axis=0)
        names = self.feature_names
        return [(names[j], coef[..., j]) for j in np.argsort(-size, kind="stable")]
