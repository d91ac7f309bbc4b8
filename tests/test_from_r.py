"""Numbers of R on R's own data, beside ours: docs/guide/from-r.md has them to four digits.

R 4.2.2 with MASS 7.3, ordinal 2022.11, rms 6.5 and survey 4.1. The call is above each table.
"""

from itertools import product

import numpy as np
import pandas as pd
import pytest

from pril import OrderedLogit
from pril.inference import infer
from pril.labels import Scale

# MASS::housing: satisfaction varies fastest, then influence, type and contact.
FREQUENCIES = np.array(
    [21, 21, 28, 34, 22, 36, 10, 11, 36, 61, 23, 17, 43, 35, 40, 26, 18, 54, 13, 9, 10, 8, 8, 12, 6, 7, 9, 18, 6, 7, 15,
     13, 13, 7, 5, 11, 14, 19, 37, 17, 23, 40, 3, 5, 23, 78, 46, 43, 48, 45, 86, 15, 25, 62, 20, 23, 20, 10, 22, 24, 7,
     10, 21, 57, 23, 13, 31, 21, 13, 5, 6, 13]
)  # fmt: skip
# ordinal::wine: eight ratings of each judge; cold without and with contact, then warm, two of each.
RATINGS = np.array(
    [2, 3, 3, 4, 4, 4, 5, 5, 1, 2, 1, 3, 2, 3, 5, 4, 2, 3, 3, 2, 5, 5, 4, 4, 3, 2, 3, 2, 3, 2, 5, 3, 2, 3, 4, 3, 3, 3,
     3, 3, 3, 2, 3, 2, 2, 4, 5, 4, 1, 1, 2, 2, 2, 3, 2, 3, 2, 2, 2, 3, 3, 3, 3, 4, 1, 2, 3, 2, 3, 2, 4, 4]
)  # fmt: skip


def housing():
    """Return features as R has them (the first level of each factor is left out), and ranks."""
    cells = np.array([*product(range(2), range(4), range(3), range(3))])
    contact, kind, influence, satisfaction = cells.T
    levels = [influence == 1, influence == 2, kind == 1, kind == 2, kind == 3, contact == 1]
    return np.column_stack(levels).astype(float), satisfaction


def wine():
    temperature = np.tile([0, 0, 0, 0, 1, 1, 1, 1], 9)
    return np.column_stack([temperature, np.tile([0, 0, 1, 1], 18)]).astype(float)


def check(result, estimates, errors, rtol):
    np.testing.assert_allclose(result.estimate, estimates, rtol=rtol)
    np.testing.assert_allclose(result.std_error, errors, rtol=rtol)


def test_polr_on_counts():
    """m <- polr(Sat ~ Infl + Type + Cont, weights=Freq, data=housing, Hess=TRUE); sqrt(diag(vcov(m)))."""
    X, y = housing()
    model = OrderedLogit(alpha=0.0).fit(X, y, sample_weight=FREQUENCIES)
    result = infer(model, X, y, sample_weight=FREQUENCIES)
    assert result.loglik == pytest.approx(-1739.57464953, abs=1e-7)
    assert result.aic == pytest.approx(3495.14929906, abs=1e-7)
    estimates = [
        0.56639374,
        1.28881906,
        -0.57235015,
        -0.36618657,
        -1.09101491,
        0.36028415,
        -0.49613534,
        0.69070829,
    ]
    errors = [
        0.10465279,
        0.12715615,
        0.11923801,
        0.15517334,
        0.15148603,
        0.09553580,
        0.12484725,
        0.12547194,
    ]
    check(
        result, estimates, errors, rtol=1e-5
    )  # polr stops at 1e-6 or so; orm has the same to 1e-6


def test_svyolr_on_sampling_weights():
    """d <- housing[rep(1:72, housing$Freq), ]; d$w <- ifelse(d$Cont == "High", 1.5, 2.5).

    m <- svyolr(Sat ~ Infl + Type + Cont, svydesign(~1, weights=~w, data=d)); sqrt(diag(vcov(m)))
    """
    X, y = (rows.repeat(FREQUENCIES, axis=0) for rows in housing())
    weight = np.where(X[:, 5] == 1.0, 1.5, 2.5)
    model = OrderedLogit(alpha=0.0).fit(X, y, sample_weight=weight)
    estimates = [
        0.55325749,
        1.26943935,
        -0.55605393,
        -0.33142282,
        -0.98096638,
        0.34882356,
        -0.46852293,
        0.69392390,
    ]
    errors = [
        0.10710716,
        0.13322486,
        0.12442759,
        0.15926203,
        0.15779520,
        0.09525525,
        0.12826562,
        0.12848343,
    ]
    check(
        infer(model, X, y, sample_weight=weight), estimates, errors, rtol=3e-4
    )  # it takes differences


def test_robcov_on_judges():
    """m <- orm(as.numeric(rating) ~ temp + contact, wine, x=TRUE, y=TRUE); diag(robcov(m, wine$judge)$var).

    robcov has no factor G / (G - 1), and G is 9.
    """
    X, judges = wine(), np.repeat(np.arange(9), 8)
    result = infer(OrderedLogit(alpha=0.0).fit(X, RATINGS), X, RATINGS, groups=judges)
    errors = [0.33366139, 0.40955398, 0.64901050, 0.51900442, 0.59377188, 0.70654926]
    np.testing.assert_allclose(result.std_error, np.sqrt(9 / 8) * np.array(errors), rtol=1e-5)


@pytest.mark.parametrize(
    ("link", "loglik"),
    [
        ("logit", -86.4919233657),
        ("probit", -85.7611484021),
        ("cloglog", -86.6340792088),
        ("loglog", -87.717855143),
        ("cauchit", -92.515554076),
    ],
)
def test_orm_swaps_the_log_logs(link, loglik):
    """orm(as.numeric(rating) ~ temp + contact, wine, family=...)$loglik: its "loglog" is our cloglog."""
    X = wine()
    assert OrderedLogit(alpha=0.0, link=link).fit(X, RATINGS).loglik_ == pytest.approx(
        loglik, abs=1e-6
    )


def test_predicted_probabilities_with_intervals():
    """m <- clm(rating ~ temp + contact, data=wine).

    predict(m, data.frame(temp="warm", contact="yes"), se.fit=TRUE, interval=TRUE)
    """
    X = wine()
    found = infer(OrderedLogit(alpha=0.0).fit(X, RATINGS), X, RATINGS).probabilities(X[-1:])
    fit = [0.00460827351, 0.05380128431, 0.30420994075, 0.36359580979, 0.27378469164]
    np.testing.assert_allclose(found.estimate[0], fit, rtol=1e-6)
    se = [0.00352284606, 0.02668355413, 0.07805941668, 0.08671573779, 0.09132786423]
    np.testing.assert_allclose(found.std_error[0], se, rtol=1e-6)
    lower = [0.00102653823, 0.01994751897, 0.17506663283, 0.21512673205, 0.13287400500]
    np.testing.assert_allclose(found.lower[0], lower, rtol=1e-5)


def test_points_of_the_wines():
    """lo <- c(-Inf, 20, 40, 60, 80)[wine$rating]; hi <- c(20, 40, 60, 80, Inf)[wine$rating].

    predict(survreg(Surv(lo, hi, type="interval2") ~ temp + contact, wine, dist="gaussian")) assumes
    normal points, and we do not: both are within half a standard error.
    """
    X = wine()
    probit = OrderedLogit(alpha=0.0, link="probit").fit(X, RATINGS)
    result = infer(probit, X, RATINGS)
    points = {"mean": Scale([20, 40, 60, 80], low=0, high=100).mean(np.eye(5))}
    cells = pd.Series(X[:, 0] * 2 + X[:, 1])
    found = result.numbers(X, points, by=cells)
    survreg = np.array([29.44909385, 43.25691263, 53.43861749, 67.24643626])
    assert (np.abs(found.estimate[:, 0] - survreg) < 0.5 * found.std_error[:, 0]).all()
