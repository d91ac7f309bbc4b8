"""Interval labels from brackets, votes, numeric bounds or exact labels."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from pril.core.arrays import Array, LabelsLike, Ranks, Seed
from pril.errors import ClassOrderWarning, InputError, InputTypeError, RowError, shown
from pril.labels import brackets, ranking
from pril.labels.range_texts import ClassTexts
from pril.labels.resampling import Bootstrap
from pril.labels.scale import Scale, cut_points, read_numbers

STREAM = 1  # makes the draws of `make_intervals` independent of those of learners

__all__ = [
    "ClassOrderWarning",
    "Scale",
    "bracket_names",
    "find_edges",
    "from_bounds",
    "from_brackets",
    "from_strings",
    "from_votes",
    "krippendorff_alpha",
    "krippendorff_interval",
    "make_intervals",
    "ordered",
    "to_ranks",
]


def ordered(y: LabelsLike, classes: LabelsLike | None = None) -> Array:
    """Turn exact labels into names whose alphabetical order is the order of the classes.

    Meta-estimators of scikit-learn, such as `BaggingClassifier`, sort the labels before a learner
    sees them, so that words lose their order, even those of an ordered Categorical. These names
    keep it, because each begins with the rank of its class.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Exact labels. Ranges and missing labels are refused, as by the meta-estimators.
    classes : array-like, default=None
        The ordered classes, lowest first. None takes the order of numbers, or of an ordered
        Categorical; strings have no order of their own and are refused.

    Returns
    -------
    names : ndarray of str of shape (n_samples,)
        The rank and the class: "0: poor", "1: fair" and so on.

    See Also
    --------
    to_ranks : Numbers instead of names, also for ranges.

    Notes
    -----
    Do not set `classes` on the learner: some meta-estimators give it the names, some give it
    numbers. The learner finds the right order in both.

    Examples
    --------
    >>> from sklearn.ensemble import BaggingClassifier
    >>> from pril import PRIL
    >>> from pril.labels import ordered
    >>> X, y = [[-1.0], [0.0], [1.0]] * 10, ["low", "middle", "high"] * 10
    >>> names = ordered(y, ["low", "middle", "high"])
    >>> names[:3]
    array(['0: low', '1: middle', '2: high'], dtype='<U9')
    >>> model = BaggingClassifier(PRIL(random_state=0), random_state=0).fit(X, names)
    >>> predicted = model.predict([[1.0], [-1.0]])
    >>> [name.partition(": ")[2] for name in predicted]
    ['high', 'low']
    """
    labels = ranking.read(y)
    words = labels.vocabulary
    are_ranges = words is not None and ranking.is_range(next(iter(words), None))
    if classes is None and words is not None and not (labels.ordered or are_ranges):
        raise InputError("y holds strings, which have no order: pass classes=, lowest first")
    order, ranks = ranking.encode(labels, classes)
    names = np.array(ranking.numbered(order))
    return names[_exact(ranks, labels, "ordered takes one class")]


def _exact(ranks: Ranks, labels: ranking.Labels, wanted: str) -> Ranks:
    """Return one rank for each row; refuse ranges and missing labels."""
    wrong = ranks[:, 0] != ranks[:, 1]
    if wrong.any():
        t = int(np.argmax(wrong))
        if not labels.labelled()[t]:
            reason = f"the label is missing, and {wanted} in every row"
            raise RowError("y", t, f"{reason}: take out rows without a label first")
        raise RowError("y", t, f"{labels.row(t)!r} is a range, and {wanted}")
    return ranks[:, 0]


def to_ranks(
    y: LabelsLike,
    classes: LabelsLike | None = None,
    *,
    exact: bool = False,
    one_column: bool = False,
) -> Array:
    """Turn labels into ranks: integers, starting with 0 for the lowest class.

    Some of scikit-learn's splitters and scorers refuse open ends. They accept ranks. Those that
    also refuse two columns, such as `HalvingGridSearchCV`, accept ranks in one column of pairs.

    Parameters
    ----------
    y : array-like of shape (n_samples,) or (n_samples, 2)
        Exact labels or ranges, as `fit` takes them.
    classes : array-like, default=None
        The ordered classes, lowest first. None takes them from y, as `fit` does.
    exact : bool, default=False
        Whether to return one rank for each row, and to refuse ranges and missing labels.
    one_column : bool, default=False
        Whether to return a structured array, whose entries are pairs with the fields `lower` and
        `upper`. Splitters then stratify the rows by their ranges.

    Returns
    -------
    ranks : ndarray of shape (n_samples, 2), or (n_samples,) if `exact` or `one_column`
        Lowest and highest rank. An open end extends to the end of the scale. A row without a label
        has two NaN, and the ranks are then floats; `fit`, `score` and the metrics accept them and
        ignore such rows.

    See Also
    --------
    ordered : Names that keep their order in meta-estimators such as `BaggingClassifier`.

    Notes
    -----
    Set ``classes=range(n_classes)`` on the learner.

    Examples
    --------
    >>> from pril.labels import to_ranks
    >>> sizes = ["small", "medium", "large"]
    >>> to_ranks([("small", "medium"), ("medium", None)], sizes)
    array([[0, 1],
           [1, 2]])
    >>> to_ranks([("small", "medium"), (None, None)], sizes)
    array([[ 0.,  1.],
           [nan, nan]])
    >>> to_ranks(["large", "small"], sizes, exact=True)
    array([2, 0])
    >>> to_ranks([("small", "medium"), ("medium", None)], sizes, one_column=True)["upper"]
    array([1, 2])
    """
    if exact and one_column:
        raise InputError("exact=True returns one rank for each row, and one_column=True pairs")
    labels = ranking.read(y)
    order, ranks = ranking.encode(labels, classes)
    if one_column:
        ends = np.ascontiguousarray(_spell(ranks, np.arange(len(order))))
        return ends.view([("lower", ends.dtype), ("upper", ends.dtype)])[:, 0]
    if not exact:
        return _spell(ranks, np.arange(len(order)))
    return _exact(ranks, labels, "exact=True wants one class")


def _check_share(name: str, share: object, most: float) -> None:
    if not isinstance(share, Real) or not 0.0 <= float(share) <= most:
        raise InputError(f"{name} must be between 0 and {most}, got {share!r}")


def from_votes(votes: LabelsLike, *, trim: float = 0.0, classes: LabelsLike | None = None) -> Array:
    """Turn a table of ratings into intervals, from the lowest to the highest vote of each row.

    Parameters
    ----------
    votes : array-like or DataFrame of shape (n_samples, n_raters)
        One column per rater. A missing value (None, NaN) means that the rater did not vote.
    trim : float, default=0.0
        Share of the votes to leave out at each end, at most 0.5. With 0.25, an interval extends
        from the lower to the upper quartile. With 0.5 it is the median; of an even number of votes,
        it extends over the two in the middle. It always begins and ends at a vote that was cast.
        Use 0.5 with three and more raters; see the notes.
    classes : array-like, default=None
        The ordered classes, lowest first. None takes them from the votes, as `fit` does.

    Returns
    -------
    y : ndarray of shape (n_samples, 2)
        Lower and upper end; both missing where nobody voted.

    Notes
    -----
    The more raters there are, the wider the range of all votes, and the less it says. With three
    raters it is a little worse a label than the median, with nine clearly worse:
    `benchmarks/votes.py` measures it.

    A label is exact if all raters agree. These are the easy rows: do not calibrate
    `PredictionRanges` with them, but with the median or one vote of each row.

    Examples
    --------
    >>> from pril.labels import from_votes
    >>> from_votes([[3, 4, 4], [2, 2, None]])
    array([[3, 4],
           [2, 2]])
    >>> from_votes([["B", "A"], ["C", None]], classes=["C", "B", "A"])
    array([['B', 'A'],
           ['C', 'C']], dtype=object)
    >>> from_votes([[1, 3, 4, 4, 5], [1, 2, 4, 5, None]], trim=0.5)  # the median
    array([[4, 4],
           [2, 4]])
    """
    _check_share("trim", trim, ranking.MOST_TRIMMED)
    order, ranks = _ranked_votes(votes, classes)
    return _spell(ranking.between_votes(ranks, len(order), trim), order)


def _ranked_votes(votes: LabelsLike, classes: LabelsLike | None) -> tuple[Array, Ranks]:
    """Return the classes, and the rank of each vote: the number of classes where there is none."""
    table = ranking.read(votes, name="votes", columns=())
    if table.values.shape[1] == 0:
        raise InputError("votes needs at least one column, one for each rater")
    order = ranking.find_classes(table, classes, name="votes")
    if classes is None and (reason := ranking.zero_among_votes(order)):
        t = int(np.argmax((table.values == 0).any(axis=1)))
        message = f"votes, row {t}: {reason}, else pass classes="
        warnings.warn(ClassOrderWarning(message, reason), stacklevel=3)
    return order, ranking.rank_votes(table, order)


def krippendorff_alpha(votes: LabelsLike, *, classes: LabelsLike | None = None) -> float:
    """Return how well raters agree: Krippendorff's alpha for ordered classes.

    1 is perfect agreement, 0 is what chance would give. Ratings are usually called reliable from
    0.8 on.

    Parameters
    ----------
    votes : array-like or DataFrame of shape (n_samples, n_raters)
        One column per rater, as for `from_votes`. Rows with fewer than two votes are ignored.
    classes : array-like, default=None
        The ordered classes, lowest first. None takes them from the votes, as `fit` does.

    Returns
    -------
    alpha : float
        At most 1. NaN if all votes are equal, because agreement and chance are then the same.

    See Also
    --------
    krippendorff_interval : How certain it is.

    References
    ----------
    K. Krippendorff, "Computing Krippendorff's alpha-reliability", 2011.

    Examples
    --------
    >>> from pril.labels import krippendorff_alpha
    >>> round(krippendorff_alpha([[1, 1, 2], [3, 3, None], [2, 2, 2], [1, 2, 1]]), 2)
    0.61
    """
    return _alpha(_vote_counts(votes, classes))


def krippendorff_interval(
    votes: LabelsLike,
    *,
    classes: LabelsLike | None = None,
    groups: LabelsLike | None = None,
    n_resamples: int = 1000,
    level: float = 0.95,
    random_state: Seed = None,
) -> tuple[float, float]:
    """Return a bootstrap confidence interval of `krippendorff_alpha`.

    Alpha is computed for samples of the rows, drawn with replacement. The interval says how certain
    alpha is for these raters, if the rows were drawn from a larger population.

    Parameters
    ----------
    votes : array-like or DataFrame of shape (n_samples, n_raters)
        As for `krippendorff_alpha`.
    classes : array-like, default=None
        The ordered classes, lowest first. None takes them from the votes, as `fit` does.
    groups : array-like of shape (n_samples,), default=None
        Group of each row, such as the patient of a scan. The rows of a group are drawn together,
        or not at all. None draws each row by itself.
    n_resamples : int, default=1000
        Number of samples.
    level : float, default=0.95
        Confidence level of the interval.
    random_state : int, RandomState instance or None, default=None
        Seed for drawing the samples.

    Returns
    -------
    lower, upper : float
        The ends of the interval.

    References
    ----------
    A. Zapf, S. Castell, L. Morawietz and A. Karch, "Measuring inter-rater reliability for nominal
    data: which coefficients and confidence intervals are appropriate?", 2016 (the samples).

    Examples
    --------
    >>> from pril.labels import krippendorff_interval
    >>> votes = [[1, 1, 2], [3, 3, None], [2, 2, 2], [1, 2, 1], [3, 3, 3]] * 10
    >>> lower, upper = krippendorff_interval(votes, random_state=0)
    >>> 0.6 < lower < upper < 0.95
    True
    """
    counts = _vote_counts(votes, classes)
    draws = Bootstrap(counts.sum(axis=1) > 1.0, groups, n_resamples, level, random_state)
    samples = np.array([_alpha(counts[rows]) for rows in draws.samples()])
    undefined = np.isnan(samples)
    if undefined.all():
        raise InputError("all votes are equal, so that agreement and chance are the same")
    if undefined.any():
        warnings.warn(
            f"{undefined.sum()} of {n_resamples} samples are left out: all votes in them are "
            "equal, and alpha is not defined",
            stacklevel=2,
        )
    lower, upper = draws.interval(samples[~undefined], _alpha(counts[draws.rows]))
    return float(lower), float(upper)


def _vote_counts(votes: LabelsLike, classes: LabelsLike | None) -> Array:
    """Return how many votes of each row are for each class; refuse votes without any pair."""
    order, ranks = _ranked_votes(votes, classes)
    counts = np.array([np.sum(ranks == k, axis=1) for k in range(len(order))], dtype=np.float64).T
    if not (counts.sum(axis=1) > 1.0).any():
        raise InputError("votes has no row with two votes, so agreement cannot be measured")
    return counts


def _alpha(counts: Array) -> float:
    """Return Krippendorff's alpha of rows with these votes for each class."""
    n_votes = counts.sum(axis=1)
    counts, n_votes = counts[n_votes > 1.0], n_votes[n_votes > 1.0]
    share = counts / (n_votes - 1.0)[:, np.newaxis]
    observed = counts.T @ share - np.diag(share.sum(axis=0))  # pairs of votes of the same row
    total = counts.sum(axis=0)
    middle = np.cumsum(total) - total / 2.0
    distance = (middle[:, np.newaxis] - middle) ** 2
    expected = total @ distance @ total
    if expected == 0.0:
        return float("nan")
    return float(1.0 - (total.sum() - 1.0) * np.sum(observed * distance) / expected)


def _spell(ranks: Ranks, classes: Array) -> Array:
    """Return intervals of ranks as labels, both ends missing in rows without a label."""
    silent = ~ranking.is_labelled(ranks)
    if not silent.any():
        return classes[ranks]
    labels = classes[np.where(silent[:, np.newaxis], 0, ranks)]
    labels = labels.astype(np.float64 if classes.dtype.kind in "biuf" else object)
    labels[silent] = np.nan if labels.dtype.kind == "f" else None
    return labels


def from_bounds(
    lower: LabelsLike, upper: ArrayLike | None = None, edges: ArrayLike | None = None
) -> Array:
    """Turn numeric ranges into intervals of ordered bins.

    Bin 0 contains everything below ``edges[0]``, bin k everything in ``[edges[k - 1], edges[k])``,
    and the last bin everything from the last edge on. Like a bin, a range includes its lower end
    but not its upper one, unless the two are equal. So with edges at 30 and 40, the range 30-40 is
    one bin.

    Parameters
    ----------
    lower, upper : array-like of shape (n_samples,)
        Ends of each range; a missing or infinite end is open. Instead of both, you can pass pandas
        Intervals as `lower`, such as `pandas.cut` returns; their `closed` says which ends they
        include.
    edges : array-like of shape (n_bins - 1,)
        The cut points between the bins, ascending. Infinite ones are ignored.

    Returns
    -------
    y : ndarray of shape (n_samples, 2)
        Lowest and highest bin that the range overlaps, from 0. Pass ``classes=range(n_bins)`` to
        the estimator, because some bins may not occur as an end. A row whose ends are both missing
        has no label: it has two NaN, and the bins are then floats. A range from minus to plus
        infinity is a label.

    Examples
    --------
    >>> from pril.labels import from_bounds
    >>> from_bounds([30, 60, None, 44], [40, None, 18, 44], edges=[18, 30, 40, 60])
    array([[2, 2],
           [4, 4],
           [0, 0],
           [3, 3]])
    >>> import pandas as pd
    >>> from_bounds(pd.arrays.IntervalArray.from_tuples([(30, 40), (20, 30)]), edges=[30, 40])
    array([[1, 2],
           [0, 1]])
    """
    if edges is None:
        raise InputTypeError("from_bounds needs edges=, the cut points between the bins")
    cuts = cut_points(edges)
    low, high, holds_upper = _bounds(lower, upper)
    if low.shape != high.shape:
        raise InputError(f"lower has {len(low)} values, upper has {len(high)}")
    bins = ranking.rank_bounds(low, high, cuts, holds_upper)
    return _spell(bins, np.arange(len(cuts) + 1))


def _bounds(lower: LabelsLike, upper: ArrayLike | None) -> tuple[Array, Array, Any]:
    """Return the ends of ranges, and whether a range holds its upper end."""
    if upper is not None:
        return read_numbers(lower, "lower"), read_numbers(upper, "upper"), False
    table = ranking.read(lower, name="lower", columns=(1,))
    words = table.vocabulary
    if words is None or not all(map(ranking.is_range, words)):
        raise InputTypeError("from_bounds needs upper=, unless lower holds Intervals of pandas")
    ends = [(word.left, word.right, word.closed in ("right", "both")) for word in words]
    low, high, closed = np.array([*ends, (np.nan, np.nan, False)])[table.values[:, 0]].T
    return low, high, closed.astype(bool)


def from_brackets(
    text: LabelsLike,
    edges: ArrayLike | None = None,
    missing: str | Sequence[str] = (),
    *,
    decimal: str | None = None,
    thousands: str | None = None,
    return_scale: bool = False,
) -> Any:
    """Turn brackets written as text, such as incomes or ages, into intervals of classes.

    These forms are understood, with dashes of any kind, in English and with the same few words in
    German, French and Spanish:

    - ``20-50k``, ``20 to 50``, ``between 20 and 50``, ``$20 to under $50``: a range;
    - ``100k+``, ``65 or older``, ``at least 60``, ``> 60``, ``over 60``: open above;
    - ``<20k``, ``under 18``, ``up to 5``, ``5 or less``: open below;
    - ``42``: a number, known exactly.

    What is left of a text beside its numbers and these words is its unit, such as ``years`` or
    ``EUR``. All texts of a column must have the same unit, written in the same way; nothing is
    converted. Texts that leave something open are refused. See the notes for the ends.

    Parameters
    ----------
    text : array-like of shape (n_samples,)
        The brackets; numbers are allowed, too, and are never read as text. A missing value, an
        empty text, "don't know", "no answer", "not sure", "prefer not to say", "refused",
        "unknown", "n/a" and the like mean no label.
    edges : array-like of shape (n_classes - 1,), default=None
        The cut points between the classes, ascending. None takes those at which the brackets
        start and end, as `find_edges` returns them.
    missing : sequence of str, default=()
        Other texts that mean no label.
    decimal : {".", ","}, default=None
        What separates decimals. None is a point, or what `thousands` leaves.
    thousands : {"", ".", ",", " ", "'", "_"}, default=None
        What separates groups of three digits; "" if nothing does. With None, a number such as
        ``1,000,000`` or ``1.000,50``, or one of the edges, shows what ``1,000`` and ``1.250`` are.
        Without it, they are thousands if decimals would give the same classes, else refused.
    return_scale : bool, default=False
        Whether to return the scale too, which turns probabilities back into numbers.

    Returns
    -------
    y : ndarray of shape (n_samples, 2)
        Lowest and highest class of each bracket, from 0, as `from_bounds` returns them. A row
        without a label has two NaN, and the classes are then floats.
    scale : Scale
        Where the classes begin and end. It has ends if no text is open there, and if `edges` are
        not given. Only if `return_scale`.

    Raises
    ------
    RowError
        If texts cannot be read, with the row of each; if they are in several units; or if they
        contradict one another about an end.

    See Also
    --------
    find_edges : The cut points.
    bracket_names : Names of the classes.
    from_strings : Ranges of classes that have names or numbers, such as "good to excellent".

    Notes
    -----
    An end that a text includes belongs to its bracket. Where another text begins at the same
    number, the number belongs to that one: ``20-50k`` ends where ``50-100k`` starts. Where another
    begins one step after, nothing is between them: ``0-17`` ends where ``18-64`` starts. "Over 65"
    beside ``18-64`` means 65 and more, and "under 18" beside ``19-64`` means 18 and less. Where no
    text begins, as with ``0-5`` and "more than 5", the edge is the next float above 5.

    Examples
    --------
    >>> from pril.labels import bracket_names, find_edges, from_brackets
    >>> income = ["20-50k", "<20k", "under 50k", "100k+", "60000", "prefer not to say"]
    >>> from_brackets(income)
    array([[ 1.,  1.],
           [ 0.,  0.],
           [ 0.,  1.],
           [ 3.,  3.],
           [ 2.,  2.],
           [nan, nan]])
    >>> find_edges(income)
    array([ 20000.,  50000., 100000.])
    >>> bracket_names(find_edges(income))
    ['below 20000', '20000 to 50000', '50000 to 100000', '100000 or more']
    >>> rent = ["unter 3.000 \u20ac", "3.000 bis unter 4.500 \u20ac", "ab 4.500 \u20ac"]
    >>> from_brackets(rent, decimal=",", thousands=".").tolist()
    [[0, 0], [1, 1], [2, 2]]
    """
    cuts = None if edges is None else cut_points(edges).tolist()
    spelling = brackets.Spelling(decimal, thousands)
    cells, column = _brackets(text, missing, spelling, cuts or ())
    low, cuts, high = column.ends.span() if cuts is None else (None, cuts, None)
    if not cuts:
        raise InputError("text has only one bracket, so there is nothing to learn; pass edges")
    classes = column.classes(cuts)
    ranks = np.array([classes[cell] for cell in cells], dtype=np.int64).reshape(-1, 2)
    y = _spell(ranks, np.arange(len(cuts) + 1))
    return (y, Scale(cuts, low, high)) if return_scale else y


def find_edges(
    text: LabelsLike,
    missing: str | Sequence[str] = (),
    *,
    decimal: str | None = None,
    thousands: str | None = None,
) -> Array:
    """Return the numbers at which brackets start and end.

    Parameters
    ----------
    text : array-like of shape (n_samples,)
        Brackets, as `from_brackets` takes them.
    missing : sequence of str, default=()
        Texts that mean no label, besides the usual ones.
    decimal : str, default=None
        As in `from_brackets`.
    thousands : str, default=None
        As in `from_brackets`.

    Returns
    -------
    edges : ndarray
        Ascending, without the lowest start and the highest end if no bracket is open there.

    Examples
    --------
    >>> from pril.labels import find_edges
    >>> find_edges(["0-17", "18-64", "65+"])
    array([18., 65.])
    """
    _, column = _brackets(text, missing, brackets.Spelling(decimal, thousands))
    return np.array(column.ends.span()[1])


def bracket_names(edges: ArrayLike) -> list[str]:
    """Return a name for each class between some edges.

    Parameters
    ----------
    edges : array-like of shape (n_classes - 1,)
        The cut points, ascending.

    Returns
    -------
    names : list of str
        From the lowest class to the highest.

    Examples
    --------
    >>> from pril.labels import bracket_names
    >>> bracket_names([18, 65])
    ['below 18', '18 to 65', '65 or more']
    """
    return list(brackets.names(read_numbers(edges, "edges").tolist()))


def _brackets(
    text: LabelsLike,
    missing: str | Sequence[str],
    spelling: brackets.Spelling,
    edges: Sequence[float] = (),
) -> tuple[list[brackets.Cell], brackets.Brackets]:
    """Return the cells of a column, and the brackets that are in it."""
    silent = (missing,) if isinstance(missing, str) else tuple(missing)
    if not all(isinstance(text, str) for text in silent):
        raise InputTypeError(f"missing must hold texts, got {shown(missing)}")
    cells = [_bracket_cell(cell, t) for t, cell in enumerate(_column(text, "text"))]
    first: dict[brackets.Cell, int] = {}
    for t, cell in enumerate(cells):
        first.setdefault(cell, t)
    return cells, brackets.Brackets(first, silent, "text", spelling, edges)


def _bracket_cell(cell: object, row: int) -> brackets.Cell:
    """Return a text, or a number that is not text; empty text where it is missing."""
    if ranking.is_missing(cell):
        return ""
    if isinstance(cell, str):
        return " ".join(cell.split())
    number = (
        np.nan if isinstance(cell, bool) or not isinstance(cell, Real | Decimal) else float(cell)
    )
    if np.isfinite(number):
        return number
    raise RowError("text", row, f"{shown(cell)} is neither a text nor a finite number")


def _column(column: Any, name: str) -> Iterable[object]:
    """Return the cells of a column."""
    if isinstance(column, str) or np.ndim(column) != 1:
        raise InputError(f"{name} should be a 1d array of strings, got {shown(column)} instead")
    return column.to_pylist() if hasattr(column, "to_pylist") else column


def from_strings(y: LabelsLike, classes: LabelsLike | None) -> Array:
    """Turn ranges written as text into intervals.

    If the text is one of the classes, it means that class, whatever characters it has ("A+",
    "BBB-"). Otherwise, these forms are understood, where 3 and 4 stand for any two classes:

    - ``3-4``, ``3 to 4``, ``3..4``, ``3 or 4``: a range;
    - ``4+``, ``>= 4``, ``\u2265 4``, ``at least 4``, ``4 or more``: that class or a higher one;
    - ``<= 4``, ``\u2264 4``, ``at most 4``, ``up to 4``, ``4 or less``: that class or a lower one;
    - ``> 4``, ``above 4``, ``more than 4`` and ``< 4``, ``below 4``, ``less than 4``: without it;
    - empty text: no label.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Text; a missing value means no label. Upper and lower case are the same, unless two classes
        differ only in case.
    classes : array-like
        The ordered classes, lowest first: strings or numbers.

    Returns
    -------
    y : ndarray of shape (n_samples, 2)
        Lower and upper ends, in the labels of `classes`; both missing where there is no label.

    Examples
    --------
    >>> from pril.labels import from_strings
    >>> from_strings(["3-4", "at least 4", "< 2", "5"], classes=range(1, 6))
    array([[3, 4],
           [4, 5],
           [1, 1],
           [5, 5]])
    >>> from_strings(["A+", "A or B", ""], classes=["C", "B", "A", "A+"])
    array([['A+', 'A+'],
           ['B', 'A'],
           [None, None]], dtype=object)
    """
    order = ranking.check_classes(classes)
    texts = ("" if ranking.is_missing(cell) else str(cell) for cell in _column(y, "y"))
    return _spell(ClassTexts(order).intervals(texts), order)


def make_intervals(
    y: LabelsLike,
    kind: Literal[1, 2] = 1,
    fraction: float = 0.75,
    *,
    classes: LabelsLike | None = None,
    random_state: Seed = None,
) -> Array:
    """Widen a share of exact labels to intervals, as in the paper's experiments.

    Type 1 is ``[y - 1, y]`` or ``[y, y + 1]`` with equal probability, Type 2 is ``[y - 1, y +
    1]``. At both ends of the scale, the interval is the outermost two ranks.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Exact labels. A row without a label stays without one.
    kind : {1, 2}, default=1
        The paper's label type.
    fraction : float, default=0.75
        Share of the labels that become intervals, chosen at random; the others stay exact.
    classes : array-like, default=None
        The ordered classes, lowest first. None takes them from y, as `fit` does.
    random_state : int, RandomState instance or None, default=None
        Seed for the choice of rows and sides. A learner with the same seed makes other draws.

    Returns
    -------
    intervals : ndarray of shape (n_samples, 2)
        Lower and upper ends, in the labels of y; both missing where there is no label.

    Examples
    --------
    >>> from pril.labels import make_intervals
    >>> make_intervals([1, 2, 3, 4, 5], kind=2, fraction=1.0)
    array([[1, 2],
           [1, 3],
           [2, 4],
           [3, 5],
           [4, 5]])
    """
    if kind not in (1, 2):
        raise InputError(f"kind must be 1 or 2, got {kind!r}")
    _check_share("fraction", fraction, 1)
    labels = ranking.read(y, columns=(1,))
    order = ranking.find_classes(labels, classes)
    ranks = ranking.to_intervals(labels, order)
    labelled = np.flatnonzero(ranking.is_labelled(ranks))
    rng = _own_stream(random_state)
    top = len(order) - 1
    rank = ranks[labelled, 0]
    sides = np.array([[-1, 0], [0, 1]]) if kind == 1 else np.array([[-1, 1]])
    side = sides[rng.randint(len(sides), size=len(rank), dtype=np.int64)]
    wide = rank[:, np.newaxis] + side
    wide[rank == 0] = (0, min(1, top))
    wide[rank == top] = (max(0, top - 1), top)
    widened = rng.permutation(len(rank))[: round(fraction * len(rank))]
    ranks[labelled[widened]] = wide[widened]
    return _spell(ranks, order)


def _own_stream(random_state: Seed) -> np.random.RandomState:
    """Return a generator whose draws differ from those of a learner with the same number.

    Otherwise both would draw the same permutation, and the learner would see all ranges first.
    """
    if isinstance(random_state, int | np.integer):
        seeds = np.random.SeedSequence([int(random_state), STREAM])
        return np.random.RandomState(np.random.MT19937(seeds))
    return check_random_state(random_state)
