"""How fast is the maximum of the likelihood found, beside statsmodels and mord?

CPU seconds on one thread, in one run. The last line compares log-likelihoods and coefficients on
the data set anes96 of statsmodels.

    python benchmarks/maximum_speed.py
"""

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

import time

import numpy as np
import statsmodels.api as sm
from mord import LogisticAT
from statsmodels.miscmodels.ordinal_model import OrderedModel

from pril import OrderedLogit
from workloads import table

CUTS = [-1.5, -0.5, 0.5, 1.5]
FEATURES = ["logpopul", "selfLR", "age", "educ", "income"]


def simulated(n, d=20):
    """Return features, and classes of an ordered logit."""
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(n, d)), rng.normal(size=d) / 3.0
    return X, np.digitize(X @ w + rng.logistic(size=n), CUTS)


def seconds(function, repeats=3):
    """Return the least CPU time of some calls, and what the last one gave."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        found = function()
        times.append(time.process_time() - start)
    return min(times), found


def by_statsmodels(X, y):
    return OrderedModel(y, X, distr="logit").fit(method="bfgs", maxiter=1000, disp=False)


def main():
    lines = []
    for n in (30_000, 300_000):
        X, y = simulated(n)
        times = {
            "pril": seconds(lambda: OrderedLogit().fit(X, y))[0],
            "mord": seconds(lambda: LogisticAT().fit(X, y), 1)[0],
            "statsmodels": seconds(lambda: by_statsmodels(X, y), 1)[0],
        }
        lines += [[f"{n:,}", name, f"{taken:.2f} s"] for name, taken in times.items()]
    table(["rows x 20", "fit by", "CPU"], lines)
    frame = sm.datasets.anes96.load_pandas().data
    X, y = frame[FEATURES].to_numpy(), frame["PID"].to_numpy()
    taken, model = seconds(lambda: OrderedLogit(alpha=0.0).fit(X, y))
    theirs, other = seconds(lambda: by_statsmodels(X, y), 1)
    apart = np.abs(other.params[: X.shape[1]] - model.coef_).max()
    print(
        f"anes96: log-likelihood {model.loglik_:.6f} in {1000 * taken:.0f} ms and "
        f"{model.n_iter_} steps; statsmodels {other.llf:.6f} in {1000 * theirs:.0f} ms; "
        f"coefficients differ by {apart:.0e}"
    )


if __name__ == "__main__":
    main()
