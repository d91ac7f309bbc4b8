"""A stream of rows that measures how good its predictions are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from pril.core import learning
from pril.core.one_row import RowStream
from pril.core.recent_errors import RecentErrors


class MeasuredStream(RowStream):
    """A `RowStream` that predicts each row before it learns it, and keeps how far it was off.

    Parameters
    ----------
    model, unknown, encode
        As in `RowStream`.
    errors : RecentErrors
        What keeps them.
    """

    def __init__(
        self,
        model: Any,
        unknown: Literal["error", "ignore"] = "error",
        encode: Callable[[Any], Any] | None = None,
        *,
        errors: RecentErrors,
    ) -> None:
        self._errors = errors
        super().__init__(model, unknown, encode)

    def __reduce__(self) -> Any:
        return _resumed, (self.model, self.unknown, self._encode, self.grows, self._errors)

    def learn_one(self, x: Any, y: Any, sample_weight: float = 1.0) -> None:
        """Learn from one row, as in `RowStream`; predict it first."""
        with self._shared.lock:
            rank = self._rank(x) if learning.has_learned(self._learner) else None
            super().learn_one(x, y, sample_weight)
            lo, hi = self._read_label(y)
            if rank is not None and lo <= hi and sample_weight > 0.0:
                self._errors.add(max(lo - rank, rank - hi, 0))

    def metrics(self) -> dict[str, Any]:
        """Return how good the predictions of the last rows were, each made before it was learned.

        Returns
        -------
        metrics : dict
            ``rows``, how many rows with a label were predicted so far; ``window``, how many of them
            the means are over; ``mean_error``, how many ranks a prediction was off, and
            ``share_inside``, how often it was inside the label; ``alarms``, at which rows it was
            noticed that the error had risen.

        Examples
        --------
        >>> from pril import PRIL
        >>> stream = PRIL(classes=[1, 2, 3]).stream(metrics=1000)
        >>> for size in range(-3, 4):
        ...     stream.learn_one({"size": size}, (1, 2) if size < 0 else (2, 3))
        >>> stream.metrics()
        {'rows': 6, 'window': 6, 'mean_error': 0.0, 'share_inside': 1.0, 'alarms': []}
        """
        with self._shared.lock:
            return self._errors.to_dict()


def _resumed(model: Any, unknown: Any, encode: Any, grows: bool, errors: Any) -> MeasuredStream:
    """Return the stream of a model that was copied with its stream and its metrics."""
    stream = MeasuredStream(model, unknown, encode, errors=errors)
    stream.grows = grows
    return stream


def stream_of(
    model: Any,
    unknown: Literal["error", "ignore"] = "error",
    encode: Callable[[Any], Any] | None = None,
    metrics: int | None = None,
) -> RowStream:
    """Return the stream of a model, with metrics over so many rows if they are asked for."""
    if metrics is None:
        return RowStream(model, unknown, encode)
    return MeasuredStream(model, unknown, encode, errors=RecentErrors(metrics))
