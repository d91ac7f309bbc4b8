"""How fast is `PRIL.partial_fit` on CSR rows?"""

import numpy as np
from sklearn.linear_model import Perceptron

from pril import PRIL
from workloads import K, best_times, sparse, table


def main():
    """Print the table."""
    print("### CSR rows, 100 stored values each, d = 10 000, one pass\n")
    rows = []
    for noise in (0.1, 0.3):
        X, intervals, y = sparse(noise)
        w = np.ones(X.shape[1])
        perceptron = Perceptron(max_iter=1, shuffle=False, tol=None)

        def learn(average, X=X, intervals=intervals):
            return PRIL(average=average).partial_fit(X, intervals, classes=range(K))

        times = best_times(
            {"product": lambda: X @ w, "last": lambda: learn(False), "mean": lambda: learn(True)}
        )
        times |= best_times({"perceptron": lambda: perceptron.fit(X, y)}, repeats=2)
        rows.append(
            [
                noise,
                f"{learn(False).n_mistakes_ / len(y):.0%}",
                f"{times['product'] / len(y) * 1e9:.0f}",
                times["last"] / times["product"],
                times["mean"] / times["product"],
                times["mean"] / times["last"],
                times["perceptron"] / times["mean"],
            ]
        )
    table(
        [
            "noise",
            "mistakes",
            "`X @ w`, ns a row",
            "last iterate / `X @ w`",
            "averaged / `X @ w`",
            "averaged / last",
            "`Perceptron` / averaged",
        ],
        rows,
    )


if __name__ == "__main__":
    main()
