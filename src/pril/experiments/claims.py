"""Verdicts on the paper's claims, computed from the curves."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from pril.experiments.protocol import ABALONE, FRACTIONS, PARKINSONS, SYNTHETIC, TYPES, Curve

__all__ = ["Verdict", "judge"]

CLEAR = 2.0  # standard errors that make a difference clear
DEFAULT_STEP = "normalised step 0.1"  # of our WidrowHoff
ALIKE = 0.10  # relative difference up to which two learners are "about as good"


class Verdict(NamedTuple):
    """A claim of the paper, whether it holds, and the numbers that decide it."""

    claim: str
    text: str
    verdict: str
    evidence: list[str]


class _Case(NamedTuple):
    """One comparison that a claim depends on."""

    condition: str
    holds: bool
    numbers: str


def judge(figure2: list[Curve], figure3: list[Curve]) -> list[Verdict]:
    """Judge the paper's claims C1 to C6 on the curves of its two figures.

    Parameters
    ----------
    figure2 : list of Curve
        As `figure2` returns them.
    figure3 : list of Curve
        As `figure3` returns them.

    Returns
    -------
    verdicts : list of Verdict
        One for each claim: holds, holds in some of the cases, or fails.

    Examples
    --------
    >>> from pril.experiments import Settings, figure2, figure3, judge
    >>> settings = Settings(runs=2)
    >>> sets = ("Synthetic",)
    >>> verdicts = judge(figure2(settings, sets), figure3(settings, sets))
    >>> verdicts[0].claim, verdicts[0].verdict
    ('C1', 'holds')
    """
    by_name = {(curve.data, curve.name): curve for curve in [*figure2, *figure3]}
    sets = list(dict.fromkeys(curve.data for curve in figure2))
    judged = list(dict.fromkeys(curve.data for curve in figure3))
    shares = {
        (data, kind): [by_name[data, f"Type {kind}, {share:.0%}"] for share in FRACTIONS]
        for data in sets
        for kind in TYPES
    }
    claims = [
        (
            "C1",
            "The average loss falls with the number of rounds, on all sets and both label types.",
            [
                _falls(f"{curve.data}, {curve.name}", curve)
                for group in shares.values()
                for curve in group
            ],
        ),
        (
            "C2",
            "The average interval loss falls as the share of interval labels grows.",
            [_descends(f"{data}, Type {kind}", group) for (data, kind), group in shares.items()],
        ),
        (
            "C3",
            "PRIL on intervals, judged on exact labels, beats Widrow-Hoff.",
            [
                _beats(by_name, data, kind, f"Widrow-Hoff{suffix}, {step}")
                for data in judged
                for kind in TYPES
                for suffix in ("", " with intercept")
                for step in ("best step", DEFAULT_STEP)
            ],
        ),
        (
            "C4",
            "It beats the multiclass perceptron on Synthetic and Parkinsons.",
            [
                _beats(by_name, data, kind, f"MCP{suffix}")
                for data in judged
                if data in (SYNTHETIC, PARKINSONS)
                for kind in TYPES
                for suffix in ("", " with intercept")
            ],
        ),
        (
            "C5",
            "It is about as good as PRank, which has exact labels, on Abalone and Parkinsons.",
            [
                _is_alike(by_name, data, kind)
                for data in judged
                if data in (ABALONE, PARKINSONS)
                for kind in TYPES
            ],
        ),
        (
            "C6",
            "Training with no interval labels gives the largest loss, each on labels of its share.",
            [_is_largest(f"{data}, Type {kind}", group) for (data, kind), group in shares.items()],
        ),
    ]
    return [_verdict(claim, text, cases) for claim, text, cases in claims if cases]


def _verdict(claim: str, text: str, cases: list[_Case]) -> Verdict:
    good = [case for case in cases if case.holds]
    if len(good) == len(cases):
        verdict = "holds"
    elif not good:
        verdict = "fails"
    else:
        where = "; ".join(case.condition for case in good)
        verdict = f"holds in {len(good)} of {len(cases)} cases: {where}"
    evidence = [
        f"{'yes' if case.holds else 'no'}: {case.condition}: {case.numbers}" for case in cases
    ]
    return Verdict(claim, text, verdict, evidence)


def _last(curve: Curve) -> str:
    return f"{curve.mean[-1]:.4f} ± {curve.error[-1]:.4f}"


def _clearly_less(one: Curve, other: Curve, at: int = -1) -> bool:
    """Tell whether a curve ends clearly below a point of another one, its last by default."""
    clear = CLEAR * math.hypot(one.error[-1], other.error[at])
    return bool(one.mean[-1] < other.mean[at] - clear)


def _falls(condition: str, curve: Curve) -> _Case:
    early = int(np.searchsorted(curve.rounds, curve.rounds[-1] / 10))
    before = f"{curve.mean[early]:.4f} after {curve.rounds[early]} rounds"
    holds = _clearly_less(curve, curve, early)
    return _Case(condition, holds, f"{before}, {_last(curve)} at the end")


def _descends(condition: str, group: list[Curve]) -> _Case:
    holds = all(_clearly_less(later, earlier) for earlier, later in pairwise(group))
    return _Case(condition, holds, " > ".join(f"{curve.mean[-1]:.4f}" for curve in group))


def _is_largest(condition: str, group: list[Curve]) -> _Case:
    holds = all(_clearly_less(other, group[0]) for other in group[1:])
    largest = max(curve.mean[-1] for curve in group[1:])
    return _Case(condition, holds, f"{_last(group[0])} without, at most {largest:.4f} with")


def _beats(by_name: dict[tuple[str, str], Curve], data: str, kind: int, rival: str) -> _Case:
    ours, theirs = by_name[data, f"PRIL, Type {kind}"], by_name[data, rival]
    condition = f"{data}, Type {kind}, against {rival}"
    return _Case(condition, _clearly_less(ours, theirs), f"{_last(ours)} against {_last(theirs)}")


def _is_alike(by_name: dict[tuple[str, str], Curve], data: str, kind: int) -> _Case:
    ours, theirs = by_name[data, f"PRIL, Type {kind}"], by_name[data, "PRank"]
    ratio = ours.mean[-1] / theirs.mean[-1]
    numbers = f"{_last(ours)} against {_last(theirs)}, {ratio - 1:+.1%}"
    return _Case(f"{data}, Type {kind}", bool(ratio <= 1 + ALIKE), numbers)
