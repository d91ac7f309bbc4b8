"""How rows become the features of a pipeline's learner, without the cost of a table."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from pril.core.arrays import Array
from pril.core.parts import Parts
from pril.errors import InputError, InputTypeError, RowError, refusing, shown
from pril.tables.encoder import ColumnEncoder, scales_of, to_features
from pril.tables.json_lines import Cells, to_matrix, to_text


class RowEncoder:
    """How a row, or the cells of a few rows, become the features of a pipeline's learner.

    It goes around `ColumnEncoder.transform`, which takes long for a single row.
    """

    def __init__(self, model: Any, strict: bool = False) -> None:
        self._model = model
        self.strict = strict  # whether a row must have all columns, and no other
        self._begin()

    def _begin(self) -> None:
        """Work with the steps as they are now."""
        steps = Parts.of(self._model).steps
        first = steps[0][1] if steps else None
        self._encoder = first if isinstance(first, ColumnEncoder) else None
        if self._encoder is not None:
            steps, encoder = steps[1:], self._encoder
            self._moments, self._scales = encoder.moments_, scales_of(encoder)
            self._numbers = encoder.numbers_
            self._ranks, self._words = _places(encoder.ranks_), _places(encoder.words_)
            self._columns = [*self._numbers, *self._words]
        self._further = Pipeline(steps) if steps else None
        self._names = getattr(self._model, "feature_names_in_", None)

    def __reduce__(self) -> Any:
        return RowEncoder, (self._model, self.strict)

    def __call__(self, x: Any) -> Any:
        """Return a row as the learner takes it."""
        if self._encoder is not None:
            features = self._further_features(self._encoded_row(x))
        elif self._further is None:
            return x
        else:
            features = self._further_features(self._as_table(x))
        dense = features.toarray() if hasattr(features, "toarray") else features
        row: Array = np.asarray(dense, dtype=np.float64)[0]
        return row

    def _encoded_row(self, x: Any) -> Any:
        """Return what the ColumnEncoder makes of a dict."""
        if not isinstance(x, Mapping):
            raise InputTypeError(f"x must be a dict of columns, got {shown(x)}")
        self._follow()
        self._check_columns(x, self._columns)
        try:
            return self._encoded([tuple(map(x.get, self._columns))])
        except RowError as error:
            raise InputError(f"x: {error.reason}") from None

    def _as_table(self, x: Any) -> Any:
        """Return a table of one row, for steps of other libraries."""
        if self._names is None:
            if isinstance(x, Mapping):
                raise InputError("x is a dict, but the model learned from columns without names")
            return np.asarray(x)[np.newaxis]
        import pandas as pd

        if not isinstance(x, Mapping):
            raise InputTypeError(f"x must be a dict of columns, got {shown(x)}")
        self._check_columns(x, self._names)
        return pd.DataFrame([x], columns=self._names)

    def _check_columns(self, x: Mapping[Any, Any], columns: Collection[str]) -> None:
        """Refuse a row that is not whole, if rows must be."""
        if not self.strict or x.keys() == {*columns}:
            return
        for name in columns:
            if name not in x:
                raise InputError(f"x lacks the column {shown(name)}, which strict=True refuses")
        other = next(name for name in x if name not in {*columns})
        raise InputError(f"x has a column {shown(other)} that the model does not know")

    def features(self, cells: Cells) -> Any:
        """Return the features of rows, by a ColumnEncoder and the steps after it."""
        self._follow()
        return self._further_features(self._encoded(cells))

    def _follow(self) -> None:
        """Start over if the encoder has learned more."""
        if self._encoder is None or self._encoder.moments_ is not self._moments:
            self._begin()

    def _encoded(self, cells: Cells) -> Any:
        encoder: Any = self._encoder
        n = len(self._numbers)
        rows = [row[:n] for row in cells]
        for name, places in self._ranks.items():
            j = self._numbers.index(name)
            for t, row in enumerate(rows):
                rows[t] = (*row[:j], places.get(to_text(row[j], name, t)), *row[j + 1 :])
        codes = [
            np.array([places.get(to_text(row[j], name, t), -1) for t, row in enumerate(cells)])
            for j, (name, places) in enumerate(self._words.items(), n)
        ]
        return to_features(encoder, to_matrix(rows, self._numbers), codes, self._scales)

    def _further_features(self, features: Any) -> Any:
        if self._further is None:
            return features
        with refusing():
            return self._further.transform(features)


def _places(words: dict[str, list[str]]) -> dict[str, dict[str | None, int]]:
    return {name: {word: k for k, word in enumerate(own)} for name, own in words.items()}
