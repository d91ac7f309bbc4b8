"""How fast is `PRIL.partial_fit` on dense rows, end to end?"""

import numpy as np
from sklearn.linear_model import Perceptron

from handwritten import pril as handwritten
from pril import PRIL
from pril.core import loop_types as types
from pril.core.arrays import frozen
from pril.core.rows import Dense
from pril.online import loop
from pril.online.memory import Layout, Memory
from workloads import K, best_times, dense, table


def loop_alone(X, intervals):
    layout = Layout(1, X.shape[1], K, average=False, own=())
    memory = Memory.blank(layout, lattice=True)
    geometry = types.Additive()
    given = (Dense(X, 0.0), frozen(intervals), loop.NO_ORDER, types.Pril(False), geometry, None)
    loop.run(*given, memory.arrays, loop.make_desk(geometry, *layout.sizes()))
    return memory.state


def main():
    """Print the table."""
    print("### Dense rows, one pass, against `X @ w` on the same float64 matrix\n")
    rows = []
    for n_features in (10, 50, 200, 1000):
        for noise in (0.1, 0.3):
            X, intervals, y = dense(n_features, noise)
            w, X32 = np.ones(n_features), X.astype(np.float32)
            fixed = frozen(X)

            def learn(X, average, intervals=intervals):
                return PRIL(average=average).partial_fit(X, intervals, classes=range(K))

            expected, state = handwritten(X, intervals, K), loop_alone(fixed, intervals)
            np.testing.assert_allclose(state.u[0, :-1], expected[0], rtol=1e-9, atol=1e-9)
            times = best_times(
                {
                    "product": lambda: X @ w,
                    "last": lambda: learn(X, False),
                    "mean": lambda: learn(X, True),
                    "last32": lambda: learn(X32, False),
                    "mean32": lambda: learn(X32, True),
                    "loop": lambda: loop_alone(fixed, intervals),
                    "hand": lambda: handwritten(X, intervals, K),
                }
            )
            perceptron = Perceptron(max_iter=1, shuffle=False, tol=None)
            times |= best_times({"perceptron": lambda: perceptron.fit(X, y)}, repeats=2)
            product = times["product"]
            rows.append(
                [
                    n_features,
                    noise,
                    f"{learn(X, False).n_mistakes_ / len(y):.0%}",
                    f"{product / len(y) * 1e9:.1f}",
                    times["last"] / product,
                    times["mean"] / product,
                    times["mean"] / times["last"],
                    times["last32"] / times["last"],
                    times["mean32"] / times["mean"],
                    times["loop"] / times["hand"],
                    f"{times['perceptron'] / times['mean']:.0f}",
                ]
            )
    table(
        [
            "d",
            "noise",
            "mistakes",
            "`X @ w`, ns a row",
            "last iterate / `X @ w`",
            "averaged / `X @ w`",
            "averaged / last",
            "float32 / float64, last",
            "float32 / float64, averaged",
            "general loop / hand-written",
            "`Perceptron` / averaged",
        ],
        rows,
    )


if __name__ == "__main__":
    main()
