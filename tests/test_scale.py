"""Numbers back from brackets: medians, means and chances, against distributions that are known."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit

import pril
from pril import OrderedLogit
from pril.errors import PrilError
from pril.labels import Scale, bracket_names, from_bounds, from_brackets
from tables import write

INF = np.inf


@st.composite
def scales(draw, *, points=False):
    """A scale with stated ends, or of points, and probabilities of its classes, none of them 0."""
    K = draw(st.integers(2, 8))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    knots = np.cumsum(rng.uniform(0.1, 50.0, K + 1)) - draw(st.sampled_from([0.0, 100.0, 1e5]))
    P = rng.dirichlet(np.full(K, 0.7), size=5) + 1e-6
    P /= P.sum(axis=1, keepdims=True)
    scale = Scale.of_points(knots[1:]) if points else Scale(knots[1:-1], knots[0], knots[-1])
    return scale, knots, P


# --- Theorems ------------------------------------------------------------------------------------


@given(scales(), st.floats(0.001, 0.999))
def test_quantiles_are_the_inverse_of_exceedance(case, q):
    scale, _, P = case
    values = scale.quantile(P, q)
    chances = [scale.exceedance(P[[i]], value)[0] for i, value in enumerate(values)]
    np.testing.assert_allclose(chances, 1.0 - q, rtol=1e-6)
    np.testing.assert_array_equal(scale.quantile(P, [0.1, q])[:, 1], values)


@given(scales())
def test_exceedance_is_exact_at_edges_and_straight_between_them(case):
    scale, knots, P = case
    at_knots = np.hstack([np.cumsum(P[:, ::-1], axis=1)[:, ::-1], np.zeros((len(P), 1))])
    np.testing.assert_allclose(scale.exceedance(P, knots), at_knots, rtol=1e-12, atol=0.0)
    middles = (knots[1:] + knots[:-1]) / 2
    between = (at_knots[:, 1:] + at_knots[:, :-1]) / 2
    np.testing.assert_allclose(scale.exceedance(P, middles), between, rtol=1e-6)
    np.testing.assert_array_equal(scale.exceedance(P, [knots[0] - 1, knots[-1] + 1])[0], [1, 0])


@given(scales())
def test_the_mean_is_the_area_below_exceedance(case):
    scale, knots, P = case
    height = scale.exceedance(P, knots)
    area = ((height[:, 1:] + height[:, :-1]) / 2) @ np.diff(knots)
    np.testing.assert_allclose(scale.mean(P), knots[0] + area, rtol=1e-9, atol=1e-6)


@given(scales(points=True))
def test_points_are_what_they_are(case):
    scale, knots, P = case
    np.testing.assert_allclose(scale.mean(P), P @ knots[1:])
    chances = [P[:, knots[1:] >= value].sum(axis=1) for value in knots]
    np.testing.assert_allclose(scale.exceedance(P, knots), np.transpose(chances), rtol=1e-9)
    assert (scale.exceedance(P, knots[-1] + 1) == 0).all()
    np.testing.assert_allclose(scale.quantile(P, [0.0, 1.0])[0], knots[[1, -1]])


def test_quantiles_of_certain_classes_are_their_ends():
    scale = Scale([0.0, 2.0, 5.0], low=-1.0)
    certain = np.eye(4)
    assert scale.quantile(certain, 0.0).tolist() == [-1.0, -1.0, -1.0, -1.0]
    assert scale.quantile(certain, [0.25, 0.5, 1.0]).tolist() == [
        [-0.75, -0.5, 0.0], [0.5, 1.0, 2.0], [2.75, 3.5, 5.0], [INF, INF, INF],
    ]  # fmt: skip
    opens = Scale([0.0])
    assert opens.quantile([[0.5, 0.5]], [0.0, 0.4, 0.5, 0.6]).tolist() == [[-INF, -INF, 0.0, INF]]
    assert opens.exceedance([[0.25, 0.75]], 0.0).tolist() == [0.75]


def test_chances_keep_their_digits_in_the_tail():
    assert Scale([0, 1]).exceedance([[1.0, 1e-30, 3e-30]], [0, 1]).tolist() == [[4e-30, 3e-30]]


# --- Known distributions -------------------------------------------------------------------------


def test_incomes_come_back_from_two_questionnaires():
    """Incomes are log-logistic; each person was given one of two lists of brackets."""
    rng = np.random.default_rng(5)
    x, spread = rng.normal(size=4000), 0.6
    income = 30_000 * np.exp(spread * (x + rng.logistic(size=4000)))
    edges = 30_000 * np.exp(np.linspace(-2.2, 2.2, 16))
    lists = np.where(rng.random(4000)[:, None] < 0.5, edges[::2], edges[1::2])
    ends = np.hstack([np.full((4000, 1), -INF), lists, np.full((4000, 1), INF)])
    k = (income[:, None] >= ends).sum(axis=1)
    y = from_bounds(ends[range(4000), k - 1], ends[range(4000), k], edges)
    model = OrderedLogit(coarsening="random", alpha=0.0).fit(x[:, None], y)
    scale = Scale(edges)
    middle = edges[3:-3]
    people = np.log(middle / 30_000)[:, None] / spread  # whose medians are edges
    P = model.predict_proba(people)
    covariance = pril.inference.infer(model).covariance
    error = np.empty((len(people), len(edges)))
    for i, k in np.ndindex(error.shape):
        by = np.zeros(len(covariance))
        by[0], by[1 + k] = people[i, 0], -1.0
        error[i, k] = np.sqrt(by @ covariance @ by)
    chance = scale.exceedance(P, edges)
    wanted = people - np.log(edges / 30_000) / spread
    z = (np.log(chance / (1 - chance)) - wanted) / error
    assert np.abs(z).max() < 3.5
    assert np.square(z).mean() < 2.0
    medians = np.log(scale.median(P) / 30_000) / spread
    z = (medians - people[:, 0]) / error[range(len(people)), range(3, len(edges) - 3)]
    assert np.abs(z).max() < 3.5


def cumulative_logit(X, y):
    """Return the points, weights and thresholds of the maximum likelihood, by Newton's method."""
    points, k = np.unique(y, return_inverse=True)
    d, K, n = X.shape[1], len(points), len(X)
    below = np.cumsum(np.bincount(k))[:-1] / n
    p = np.concatenate([np.zeros(d), np.log(below / (1 - below))])
    upper, lower = (np.hstack([-X, np.zeros((n, K - 1))]) for _ in range(2))
    upper[np.flatnonzero(k < K - 1), d + k[k < K - 1]] = 1
    lower[np.flatnonzero(k > 0), d + k[k > 0] - 1] = 1
    for _ in range(6):
        a = expit(np.where(k < K - 1, upper @ p, INF))
        b = expit(np.where(k > 0, lower @ p, -INF))
        da, db = a * (1 - a) / (a - b), b * (1 - b) / (a - b)
        G = upper * da[:, None] - lower * db[:, None]
        H = G.T @ G - upper.T @ (upper * (da * (1 - 2 * a))[:, None])
        H += lower.T @ (lower * (db * (1 - 2 * b))[:, None])
        p = p + np.linalg.solve(H, G.sum(axis=0))
    return points, p[:d], p[d:]


def test_points_give_the_numbers_of_orm():
    """R 4.2, rms 6.5: fit = orm(y ~ X); Mean(fit)(lp), Quantile(fit)(.5, lp), lp of three rows."""
    r = np.random.default_rng(7)
    X = r.standard_normal((5000, 5))
    y = np.round(X @ [1, -1, 0.5, 0, 0] + r.logistic(size=5000), 1)
    points, w, theta = cumulative_logit(X, y)
    below = expit(theta - (X[:3] @ w)[:, None])
    P = np.diff(np.hstack([np.zeros((3, 1)), below, np.ones((3, 1))]))
    scale = Scale.of_points(points)
    np.testing.assert_allclose(scale.mean(P), [-0.431212166, -0.279100091, 0.185907285], atol=1e-8)
    medians = [-0.455555515, -0.304997290, 0.180675884]
    np.testing.assert_allclose(scale.median(P), medians, atol=1e-8)


# --- Intervals -----------------------------------------------------------------------------------


def fitted(seed=0, n=400):
    """Return rows, groups and weights of them, a model, and a scale of its four classes."""
    rng = np.random.default_rng(seed)
    X, region = rng.normal(size=(n, 2)), rng.choice(["N", "S", "W"], n)
    y = np.digitize(X @ [1.0, -0.5] + (region == "S") + rng.logistic(size=n), [-1.0, 0.5, 2.0])
    X = np.column_stack([X, region == "S"])
    model = OrderedLogit(coarsening="random", alpha=0.0, classes=range(4)).fit(X, y)
    return X, region, rng.uniform(0.5, 2.0, n), model, Scale([10, 20, 40], low=0, high=100)


def test_numbers_of_one_class_are_its_probability():
    X, _, _, model, _ = fitted()
    result = pril.inference.infer(model)
    found = result.numbers(X[:9], {k: np.eye(4)[k] for k in range(4)})
    wanted = result.probabilities(X[:9])
    for name in ("estimate", "std_error", "lower", "upper"):
        np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), rtol=1e-9)


def test_errors_of_numbers_are_those_of_differences():
    X, region, weight, model, scale = fitted()
    result = pril.inference.infer(model)
    values = {"mean": scale.mean(np.eye(4)), "above 20": scale.exceedance(np.eye(4), 20)}
    found = result.numbers(X, values, by=region, sample_weight=weight)

    def numbers(parameters):
        """Return the numbers of the groups for other weights and thresholds."""
        below = expit(parameters[3:] - (X @ parameters[:3])[:, None])
        P = np.diff(np.pad(below, ((0, 0), (1, 1)), constant_values=((0, 0), (0, 1))))
        own = np.column_stack([scale.mean(P), scale.exceedance(P, 20)])
        return np.array(
            [np.average(own[region == r], axis=0, weights=weight[region == r]) for r in "NSW"]
        )

    at, step = np.concatenate([model.coef_, model.thresholds_]), 1e-5 * np.eye(6)
    slopes = np.array([(numbers(at + one) - numbers(at - one)) / 2e-5 for one in step])
    error = np.sqrt(np.einsum("igm,ij,jgm->gm", slopes, result.covariance, slopes))
    np.testing.assert_allclose(found.estimate, numbers(at), rtol=1e-9)
    np.testing.assert_allclose(found.std_error, error, rtol=1e-5)
    z = 1.959963984540054
    np.testing.assert_allclose(found.upper[:, 0], (found.estimate + z * error)[:, 0], rtol=1e-5)
    odds = found.estimate[:, 1] / (1 - found.estimate[:, 1])
    half = z * error[:, 1] / (found.estimate[:, 1] * (1 - found.estimate[:, 1]))
    np.testing.assert_allclose(found.lower[:, 1], expit(np.log(odds) - half), rtol=1e-5)
    frame = found.to_frame()
    assert frame.columns[:2].tolist() == ["group", "number"]
    assert frame[["group", "number"]].to_numpy().tolist()[:3] == [
        ["N", "mean"], ["N", "above 20"], ["S", "mean"],
    ]  # fmt: skip


@pytest.mark.slow
def test_intervals_of_regions_hold_as_often_as_they_say():
    held = []
    for seed in range(200):
        X, region, weight, model, scale = fitted(seed)
        chance = {"above 20": scale.exceedance(np.eye(4), 20)}
        found = pril.inference.infer(model).numbers(X, chance, by=region, sample_weight=weight)
        above = expit(X @ [1.0, -0.5, 1.0] - 0.5)
        truth = [np.average(above[region == r], weights=weight[region == r]) for r in "NSW"]
        held.append((found.lower[:, 0] < truth) & (truth < found.upper[:, 0]))
    assert 0.92 < np.mean(held) < 0.98  # 0.95, and three standard errors of 200 sets


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"values": {"mean": [1, 2, 3]}},
            r"values\['mean'\] must be 4 finite numbers, one for each",
        ),
        ({"values": {"mean": [1, 2, 3, np.nan]}}, r"values\['mean'\] must be 4 finite numbers"),
        ({"values": {"mean": ["a"] * 4}}, r"values\['mean'\], row 0: 'a' is not a number"),
        ({"values": {}}, "values must be a dict of numbers of the classes, got {}"),
        ({"by": ["N"]}, "by has 1 values, expected one for each of 400 rows"),
        ({"sample_weight": np.arange(400) > 0}, "sample_weight is zero for every row of the row 0"),
    ],
)
def test_wrong_numbers_for_intervals_are_refused(options, message):
    X, *_, model, _ = fitted()
    given = {"values": {"mean": [1, 2, 3, 4]}} | options
    with pytest.raises(PrilError, match=message):
        pril.inference.infer(model).numbers(X, given.pop("values"), **given)


# --- Where scales come from ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("texts", "edges", "low", "high"),
    [
        (["0-20k", "20-50k", "50k+"], [20_000, 50_000], 0, None),
        (["<18", "18-64", "65-99"], [18, 65], None, 100),
        (["0-17", "18-64", "65+"], [18, 65], 0, None),
        (["-5 to 0", "0 to 5"], [0], -5, 5),
        (["0", "1", "2+"], [1, 2], 0, None),
    ],
)
def test_brackets_come_with_their_scale(texts, edges, low, high):
    y, scale = from_brackets(texts, return_scale=True)
    np.testing.assert_array_equal(y, from_brackets(texts))
    assert (scale.edges.tolist(), scale.low, scale.high) == (edges, low, high)
    _, scale = from_brackets(texts, edges=[1, 20], return_scale=True)
    assert (scale.edges.tolist(), scale.low, scale.high) == ([1, 20], None, None)


def test_scales_say_what_they_are():
    assert repr(Scale([1, 2], high=5)) == "Scale([1.0, 2.0], low=None, high=5.0)"
    assert repr(Scale.of_points([1, 2])) == "Scale.of_points([1.0, 2.0])"


GOOD = [[0.2, 0.3, 0.5]]
REFUSED = {
    "falling edges": (lambda: Scale([2, 1]), "edges must be a 1d array of ascending"),
    "equal edges": (lambda: Scale([1, 1]), "edges must be a 1d array of ascending"),
    "an edge that is missing": (lambda: Scale([1, np.nan]), "edges must be a 1d array of asc"),
    "no edges": (lambda: Scale([INF]), "edges holds no finite number"),
    "low inside": (lambda: Scale([1, 2], low=1), "low must be below the first edge 1.0, got 1"),
    "high inside": (lambda: Scale([1, 2], high=1.5), "high must be above the last edge 2.0, got 1"),
    "low missing": (lambda: Scale([1, 2], low=np.nan), "low must be finite, got nan"),
    "two lows": (lambda: Scale([1, 2], low=[0]), r"low must be a number, got \[0\]"),
    "an infinite point": (lambda: Scale.of_points([1, 2, INF]), "points must be finite, got"),
    "words for chances": (lambda: Scale([1, 2]).median([["a", "b", "c"]]), "P must hold numbers, got <U1"),
    "no number for a chance": (lambda: Scale([1, 2]).median([[None, 0.5, 0.5]]), "P must hold numbers, got object"),
    "a word": (lambda: Scale([1, 2], low="a"), "low, row 0: 'a' is not a number"),
    "falling points": (lambda: Scale.of_points([2, 1]), "points must be a 1d array of ascending"),
    "one point": (lambda: Scale.of_points([2]), "points must hold at least two"),
    "open below": (lambda: Scale([1, 2], high=3).mean(GOOD), "the mean needs low, the end of the lowest"),
    "open above": (lambda: Scale([1, 2], low=0).mean(GOOD), "the mean needs high, the end of the high"),
    "far below": (lambda: Scale([1, 2]).exceedance(GOOD, 0), "value 0.0 is inside the lowest class"),
    "far above": (lambda: Scale([1, 2]).exceedance(GOOD, [1, 3]), "value 3.0 is inside the highest"),
    "a missing value": (lambda: Scale([1, 2]).exceedance(GOOD, np.nan), "value must be finite, got"),
    "q above 1": (lambda: Scale([1, 2]).quantile(GOOD, 1.5), "q must be between 0 and 1, got 1.5"),
    "q missing": (lambda: Scale([1, 2]).quantile(GOOD, [0.5, None]), "q must be finite, got"),
    "another number of classes": (lambda: Scale([1]).median(GOOD), "P must have a column for each of the 2 classes, got shape"),
    "a row that is short": (lambda: Scale([1, 2]).median([*GOOD, [0.5, 0.5]]), "P, row 1: 2 values, where the rows above have 3"),
    "one row": (lambda: Scale([1, 2]).median(GOOD[0]), "P must have a column for each"),
    "no sum of 1": (lambda: Scale([1, 2]).median([*GOOD, [1, 2, 3]]), r"P, row 1: \[1.0, 2.0, 3.0\] are not prob"),
    "a negative one": (lambda: Scale([1, 2]).median([[1.5, -0.5, 0.0]]), "P, row 0: .* are not prob"),
    "a missing one": (lambda: Scale([1, 2]).median([[np.nan, 0.5, 0.5]]), "P, row 0: .* are not prob"),
}  # fmt: skip


@pytest.mark.parametrize(("call", "message"), REFUSED.values(), ids=REFUSED)
def test_what_makes_no_number_is_refused_by_name(call, message):
    with pytest.raises(PrilError, match=message):
        call()


# --- The command ---------------------------------------------------------------------------------


@pytest.fixture
def survey(good, tmp_path):
    """Fit a model on brackets whose lowest is stated to begin at 0; return its table."""
    rng = np.random.default_rng(3)
    age = rng.uniform(20, 60, 200).round()
    brackets = np.array(["0-20k", "20-50k", "50-90k", "90k+"])
    k = np.digitize(age + rng.normal(0, 6, 200), [30, 40, 50])
    rows = [{"age": a, "income": b} for a, b in zip(age, brackets[k], strict=True)]
    write(tmp_path / "t.csv", rows)
    good("fit", "t.csv", "--label=income", "--brackets", "--holdout=0", "-o", "m.pril")
    return rows


def test_the_command_predicts_numbers(good, survey, tmp_path):
    numbers = "median, mean, quantile=0.9, above=50000"
    good("predict", "m.pril", "t.csv", "--numbers", numbers, "--ends=,250000", "-o", "out.csv")
    found = pd.read_csv(tmp_path / "out.csv").iloc[:, -4:]
    model, edges = pril.load("m.pril"), [20_000, 50_000, 90_000]
    order = np.searchsorted(model.classes_, bracket_names(edges))
    P = model.predict_proba(pd.DataFrame(survey)[["age"]])[:, order]
    scale = Scale(edges, low=0, high=250_000)
    wanted = {
        "median": scale.median(P),
        "mean": scale.mean(P),
        "quantile 0.9": scale.quantile(P, 0.9),
        "probability above 50000": P[:, 2:].sum(axis=1),
    }
    pd.testing.assert_frame_equal(found, pd.DataFrame(wanted), rtol=1e-9)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--numbers=mean"], "--numbers mean: the mean needs high, the end of the highest class, which is open; pass --ends LOW,HIGH"),
        (["--numbers=above=100000"], "--numbers above=100000: value 100000.0 is inside the highest class, which is open: it needs high; pass --ends"),
        (["--numbers=mode"], "--numbers mode: 'mode': expected median, mean, quantile=NUMBER or above=NUMBER"),
        (["--numbers=above"], "--numbers above: 'above': expected median"),
        (["--numbers=median=3"], "--numbers median=3: 'median=3': expected median"),
        (["--numbers=above=x"], "--numbers above=x: 'above=x': expected median"),
        (["--numbers=quantile=1.5"], "--numbers quantile=1.5: q must be between 0 and 1, got 1.5"),
        (["--numbers=above=nan"], "--numbers above=nan: value must be finite, got nan"),
        (["--numbers="], "--numbers '': expected names separated by commas"),
        (["--numbers=above=5e4,above=50000"], "--numbers above=5e4,above=50000: 'probability above 50000' is named twice"),
        (["--numbers=mean", "--ends=5"], "--ends 5: expected LOW,HIGH, of which one may be left out"),
        (["--numbers=mean", "--ends=a,b"], "--ends a,b: expected LOW,HIGH"),
        (["--numbers=mean", "--ends=,7"], "--ends ,7: high must be above the last edge 90000.0, got 7.0"),
        (["--ends=0,5"], "--ends is for numbers of brackets: pass --numbers too"),
    ],
)  # fmt: skip
def test_wrong_numbers_are_refused(bad, survey, options, said):
    assert bad("predict", "m.pril", "t.csv", *options).startswith(said)


def test_only_brackets_of_numbers_have_numbers(good, bad, survey):
    good("fit", "t.csv", "--label=income", "--classes=0-20k,20-50k,50-90k,90k+", "-o", "w.pril")
    said = bad("predict", "w.pril", "t.csv", "--numbers=median")
    assert said.startswith("w.pril has not learned brackets of a number")
    good("fit", "t.csv", "--label=age", "--edges=30,40", "--model=pril", "-o", "p.pril")
    said = bad("predict", "p.pril", "t.csv", "--numbers=median")
    assert said.startswith("p.pril holds PRIL, which has no probabilities")
