"""Learn from a table on disk, in Python."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from pril.core.registry import BY_COMMAND
from pril.errors import InputError, shown
from pril.tables.label_columns import Ends
from pril.tables.opening import open_table
from pril.tables.pipeline import Pipeline
from pril.tables.runs import run_of
from pril.tables.task import Task

__all__ = ["fit_table"]


def fit_table(
    table: str | os.PathLike[str],
    *,
    label: str | None = None,
    lower: str | None = None,
    upper: str | None = None,
    classes: Sequence[Any] | None = None,
    model: str = "ordered-logit",
    parameters: Mapping[str, Any] | None = None,
    features: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    weight: str | None = None,
    groups: str | None = None,
    random_state: int = 0,
) -> Pipeline:
    """Learn from all rows of a table on disk, of any size, as ``pril fit`` does without a holdout.

    The table is read in blocks. Of more than 200,000 rows, boosting keeps a byte for each cell.

    Parameters
    ----------
    table : str or path
        A file, a folder, a glob or a URL: CSV, Parquet or JSON Lines.
    label : str, default=None
        The column of exact labels.
    lower, upper : str, default=None
        The columns of the ends of ranges, instead of `label`.
    classes : sequence, default=None
        All classes, lowest first. None: those in the table, in their order.
    model : str, default="ordered-logit"
        The learner, as the command calls it: ``"boosting"``, ``"pril"``, ``"kernel"``.
    parameters : dict, default=None
        Parameters of the learner, such as ``{"max_iter": 500}``.
    features : sequence of str, default=None
        The columns to use. None: all but those that are named for something else.
    drop : sequence of str, default=()
        Columns to ignore.
    weight : str, default=None
        The column of row weights.
    groups : str, default=None
        The column of groups that a fold of boosting holds as a whole.
    random_state : int, default=0
        The seed.

    Returns
    -------
    pipeline : Pipeline
        A `ColumnEncoder` and the learner. It predicts from tables with the same columns.

    Examples
    --------
    >>> import pandas as pd, pril, tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp()) / "flats.parquet"
    >>> flats = pd.DataFrame({"size": [20.5, 45.5, 80.5] * 30, "town": ["Oslo", "Rome"] * 45})
    >>> flats.assign(grade=["poor", "fair", "good"] * 30).to_parquet(path)
    >>> model = pril.fit_table(path, label="grade", classes=["poor", "fair", "good"])
    >>> model.predict(flats[:3]).tolist()
    ['poor', 'fair', 'good']
    """
    columns = tuple(name for name in (label, lower, upper) if name is not None)
    if len(columns) != (2 if label is None else 1):
        raise InputError("where are the labels? Pass label=COLUMN, or lower=COLUMN, upper=COLUMN")
    if model not in BY_COMMAND:
        raise InputError(f"model must be one of {', '.join(BY_COMMAND)}, not {shown(model)}")
    task = Task(
        Ends(columns),
        classes=None if classes is None else tuple(map(str, classes)),
        model=model,
        parameters=dict(parameters or {}),
        features=None if features is None else tuple(features),
        drop=tuple(drop),
        weight=weight,
        groups=groups,
        holdout=0.0,
        seed=random_state,
    )
    fitted: Any = run_of(open_table(os.fspath(table)), task, lambda *_: None)()
    return fitted
