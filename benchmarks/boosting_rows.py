"""How fast does a fitted OrderedBoosting answer? One row, a few, and many in threads

Rows change from call to call: a repeated one hides what branches cost.
"""

import time

import numpy as np
from joblib import cpu_count

from pril import OrderedBoosting
from workloads import best_times, table

D, N, MANY = 10, 2_000, 100_000


def main():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12_000, D))
    score = np.abs(X[:, 0]) + X[:, 1] * X[:, 2] + np.sin(3.0 * X[:, 3]) + X[:, 4]
    y = np.digitize(score + 0.3 * rng.logistic(size=len(X)), [0.0, 1.0, 2.0, 3.0])
    model = OrderedBoosting(max_iter=150, n_iter_no_change=150, random_state=0).fit(X, y)
    model.feature_names_in_ = np.array([f"feature {j}" for j in range(D)], dtype=object)
    trees, rows = len(model.memory_.forest.size), rng.normal(size=(N, D))
    dicts = [dict(zip(model.feature_names_in_, x, strict=True)) for x in rows.tolist()]
    stream = model.stream()
    calls = {
        f"`{name}`, {kind}": (getattr(stream, name), given)
        for name in ("predict_proba_one", "predict_one", "latent_one")
        for kind, given in (("dict", dicts), ("array", list(rows)))
    }
    del model.feature_names_in_
    for n in (1, 5, 100):
        blocks = [rows[start : start + n] for start in range(0, N, n)]
        calls[f"`predict_proba`, {n} rows"] = (model.predict_proba, blocks)
    seconds = best_times({name: lambda c=c: [c[0](x) for x in c[1]] for name, c in calls.items()})
    print(f"### Answers of `OrderedBoosting`, {trees} trees, d = {D}\n")
    each = [[name, seconds[name] / len(calls[name][1]) * 1e6] for name in calls]
    table(["a call", "µs"], each)

    many, cells = rng.normal(size=(MANY, D)), []
    for name in ("predict", "predict_proba", "latent"):
        answer, times = getattr(model, name), {1: [], cpu_count(): []}
        for _ in range(7):
            for n_jobs, own in times.items():
                model.set_params(n_jobs=n_jobs)
                start = time.perf_counter()
                answer(many)
                own.append(time.perf_counter() - start)
        one, all_of_them = (min(own) for own in times.values())
        cells.append([f"`{name}`", one * 1e3, all_of_them * 1e3, one / all_of_them])
    print(f"### {MANY:,} rows, ms, on one processor and on {cpu_count()}\n")
    table(["", "one", "all", "ratio"], cells)


if __name__ == "__main__":
    main()
