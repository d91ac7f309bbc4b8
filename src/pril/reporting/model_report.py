"""A report on a model: one HTML file that shows how good it is on rows with labels.

Rows are added block by block. Of each labelled row, its label, its prediction and its score are
kept, 32 bytes; cells are kept only of the worst rows.
"""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Callable, Mapping
from functools import cache, cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from pril.core import ranking
from pril.core.arrays import Array
from pril.core.parts import Parts
from pril.core.scikit import safe_indexing
from pril.errors import InputError, MissingExtraError, shown
from pril.io import model_files
from pril.metrics import Evaluation, Outcomes, pick_scores
from pril.plotting.drawing import rated
from pril.reporting.contents import contents
from pril.reporting.words import count

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def data_url(figure: Figure, kind: Literal["png", "svg"] = "svg") -> str:
    """Return a figure as the address of an image; equal numbers give equal bytes."""
    from matplotlib import rc_context

    buffer = io.BytesIO()
    metadata = {"Date": None} if kind == "svg" else None
    with rc_context({"svg.hashsalt": "pril", "svg.fonttype": "none"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # a browser has more letters
        figure.savefig(buffer, format=kind, dpi=120, metadata=metadata)
    media = "svg+xml" if kind == "svg" else kind
    return f"data:image/{media};base64,{base64.b64encode(buffer.getvalue()).decode()}"


@cache
def template(name: str) -> Any:
    """Return a template; in HTML all text is escaped."""
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
    except ImportError as error:
        raise MissingExtraError("a report needs jinja2", "plot") from error
    environment = Environment(
        loader=PackageLoader("pril"),
        autoescape=select_autoescape(["html"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(repr=repr, number=lambda value, digits: f"{value:.{digits}f}")
    environment.globals.update(count=count, data_url=data_url)
    return environment.get_template(name)


__all__ = ["report"]

N_WORST = 10  # rows in the table of the worst
N_CELLS = 6  # cells of each


def report(
    model: Any, X: Any, y: Any, path: str | PathLike[str], *, title: str | None = None
) -> dict[str, Any]:
    """Write a report on a model as one HTML file that needs no other.

    It shows how good the model is beside the best constant, where the scores of the rows lie, the
    largest weights, hits by the width of the label and by class, the loss along the rows, the worst
    rows, and what the model is made of; for a model with probabilities how far they can be trusted,
    and for one with ranges how many hold. Needs the extra ``plot``.

    Parameters
    ----------
    model : estimator
        A fitted learner of this package, alone, at the end of a Pipeline, or in a
        `PredictionRanges`.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Features, as the model takes them. Take rows that the model has not learned from.
    y : array-like of shape (n_samples,) or (n_samples, 2)
        Exact labels or ranges; a row without a label is ignored.
    path : str or path-like
        The file to write. It appears whole or not at all.
    title : str, default=None
        The title of the page. None names the learner.

    Returns
    -------
    evaluation : dict
        The numbers of the verdict, as the command ``pril evaluate`` prints them.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import pril
    >>> X = np.arange(10.0).reshape(-1, 1)
    >>> y = [(1, 2), (1, 1), (1, 1), (1, 2), (1, 2), (2, 2), (2, 3), (3, 3), (3, 3), (3, 3)]
    >>> model = pril.PRIL(random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     evaluation = pril.report(model, X, y, f"{folder}/report.html")
    >>> evaluation["rows"], evaluation["constant"]
    (10, 1)
    """
    gathered = Report(model, "X and y", "Rows are counted from 0.", title=title)
    _, rank, scores, _, intervals = rated(model, X, y)
    outcomes = Outcomes(intervals, rank, pick_scores(rank, scores))
    gathered.add(outcomes, lambda rows: list(zip(map(str, rows), cells_of(X, rows), strict=True)))
    versions = dict(model_files.versions_of(model_files.LIBRARIES))
    return gathered.write(path, versions, {})


def cells_of(X: Any, rows: Array) -> list[dict[str, Any]]:
    """Return some cells of rows, by the names of their columns."""
    if hasattr(X, "tocsr"):
        part = X.tocsr()[rows]
        ends = zip(part.indptr[:-1], part.indptr[1:], strict=True)
        features = [zip(part.indices[a:b], part.data[a:b], strict=True) for a, b in ends]
        return [
            {"features": " ".join(f"{j}:{value:g}" for j, value in list(row)[:N_CELLS])}
            for row in features
        ]
    if hasattr(X, "to_pylist"):  # of Arrow
        return X.select(X.schema.names[:N_CELLS]).take(rows).to_pylist()
    part = safe_indexing(X, rows)
    if not hasattr(part, "columns"):
        table = np.asarray(part)[:, :N_CELLS]
        return [{f"feature {j}": cell for j, cell in enumerate(row)} for row in table.tolist()]
    columns = {str(name): list(part[name]) for name in part.columns[:N_CELLS]}
    return [{name: cells[t] for name, cells in columns.items()} for t in range(len(rows))]


# --- What is reported on -------------------------------------------------------------------------


class WorstRow(NamedTuple):
    """A row whose prediction is outside of its label."""

    loss: int  # ranks
    beyond: float  # how far the score is outside of the label's classes
    position: int
    place: str
    label: str
    prediction: str
    score: float
    cells: dict[str, Any]

    def order(self) -> tuple[float, float, int]:
        """Return what the worst rows are sorted by."""
        return -self.loss, -self.beyond, self.position


class Report:
    """The predictions of a model, gathered block by block, and the page about them.

    Parameters
    ----------
    model : estimator
        The model.
    source : str
        What to call the rows.
    counting : str
        A sentence on how rows are counted.
    names : list of str, default=None
        Names of the learner's features; None takes those that the model knows.
    title : str, default=None
        The title of the page.
    """

    def __init__(
        self,
        model: Any,
        source: str,
        counting: str,
        names: list[str] | None = None,
        title: str | None = None,
    ) -> None:
        _check_packages()
        if title is not None and not (isinstance(title, str) and title.strip()):
            raise InputError(f"title must be a text, got {shown(title)}")
        self.title = title
        self.model = model
        self.parts = Parts.of(model)
        self.learner = self.parts.learner
        self.classes = self.learner.order_
        self.source = source
        self.counting = counting
        self.names = names
        self.n_rows = 0
        self.evaluation = Evaluation()
        self.worst: list[WorstRow] = []
        self._blocks: list[Outcomes] = []

    def add(
        self, block: Outcomes, describe: Callable[[Array], list[tuple[str, dict[str, Any]]]]
    ) -> None:
        """Add some rows; `describe` returns the place and some cells of rows of the block."""
        self.evaluation += Evaluation.of(block.intervals, block.rank)
        loss, beyond = block.loss, self._beyond(block)
        order = np.lexsort((-beyond, -loss))[:N_WORST]
        rows = order[loss[order] > 0]
        for row, (place, cells) in zip(rows, describe(rows) if len(rows) else [], strict=True):
            self.worst.append(
                WorstRow(
                    int(loss[row]),
                    float(beyond[row]),
                    self.n_rows + int(row),
                    place,
                    self._label(*block.intervals[row]),
                    str(self.classes[block.rank[row]]),
                    float(block.score[row]),
                    cells,
                )
            )
        self.worst = sorted(self.worst, key=WorstRow.order)[:N_WORST]
        self.n_rows += len(loss)
        self._blocks.append(block.take(ranking.is_labelled(block.intervals)))

    def write(
        self,
        path: str | PathLike[str],
        versions: Mapping[str, str],
        notes: Mapping[str, Any],
        known: str | None = None,
    ) -> dict[str, Any]:
        """Write the page, with what is known of the model's origin; return the evaluation.

        `known` says that the model learned from these rows.
        """
        if not self.evaluation.rows:
            raise InputError(f"{self.source}: no row has a label, so there is nothing to report")
        html = template("report.html").render(contents(self, versions, notes, known))
        with model_files.replace_file(path) as file:
            file.write(html.encode(errors="backslashreplace"))
        return self.numbers

    @cached_property
    def numbers(self) -> dict[str, Any]:
        """The numbers of the verdict."""
        return self.evaluation.to_dict(self.classes)

    @cached_property
    def rows(self) -> Outcomes:
        """All rows that have a label."""
        return Outcomes(*map(np.concatenate, zip(*self._blocks, strict=True)))

    @cached_property
    def loss(self) -> Array:
        """The loss of each of these rows."""
        return self.rows.loss

    @cached_property
    def constant_losses(self) -> list[Array]:
        """The losses of two constants: that with the most hits, and that with the least loss."""
        n = len(self.loss)
        return [
            ranking.interval_loss(self.rows.intervals, np.full(n, constant.rank))
            for constant in self.evaluation.best_constants()
        ]

    @cached_property
    def cut(self) -> Array | None:
        """The thresholds between two infinities, None if the learner has none."""
        thresholds = getattr(self.learner, "thresholds_", None)
        return None if thresholds is None else np.concatenate([[-np.inf], thresholds, [np.inf]])

    def _beyond(self, block: Outcomes) -> Array:
        if self.cut is None:
            return np.zeros(len(block.rank))
        lo, hi = block.intervals.T
        labelled = lo <= hi
        lo, hi = np.where(labelled, lo, 0), np.where(labelled, hi, len(self.classes) - 1)
        beyond: Array = np.maximum(self.cut[lo] - block.score, block.score - self.cut[hi + 1])
        return np.maximum(beyond, 0.0)

    def _label(self, lo: int, hi: int) -> str:
        ends = [str(self.classes[lo]), str(self.classes[hi])]
        return ends[0] if lo == hi else " \u2013 ".join(ends)


def _check_packages() -> None:
    """Raise the error of a missing package before any work is done."""
    template("report.html")
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("a report needs matplotlib", "plot") from error
