"""Memory and time where rows, classes or features are many, and of a start; trees side by side.

`python benchmarks/limits.py [SRC ...]` measures this tree and others, given by their source
folders: each number in processes of their own, which take turns. CPU seconds, the best of a few.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from workloads import table

OWN = Path(__file__).parents[1] / "src"

PRELUDE = """
import json, os, tempfile, time, tracemalloc, warnings
import numpy as np
from scipy.sparse import csr_array
import pril
from pril import PRIL

warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
said = {}

def seconds(call, repeats=5):
    call()  # compiles
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        call()
        best = min(best, time.process_time() - start)
    return best

def megabytes(call):
    call()
    tracemalloc.start()
    call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1e6

def on_file(model):
    path = os.path.join(tempfile.mkdtemp(), "model.pril")
    said["`save`, ms"] = seconds(lambda: pril.save(model, path)) * 1e3
    said["`load`, ms"] = seconds(lambda: pril.load(path)) * 1e3
"""

MANY_ROWS = """
n = 10_000_000
X = rng.normal(size=(n, 4))
y = np.digitize(X.sum(axis=1), [-2, -1, 1, 2])
model = PRIL(classes=[0, 1, 2, 3, 4]).partial_fit(X[:100_000], y[:100_000])
for name, call in (("predict", lambda: model.predict(X)), ("score", lambda: model.score(X, y))):
    said[f"`{name}`, MB beyond X and y"] = megabytes(call)
    said[f"`{name}`, ns a row"] = seconds(call, 2) / n * 1e9
"""

SHUFFLED = """
n = 1_000_000
X = rng.normal(size=(n, 10))
score = X @ rng.normal(size=10)
score += 0.3 * score.std() * rng.normal(size=n)
y = np.searchsorted(np.quantile(score, [0.2, 0.4, 0.6, 0.8]), score)
wider = rng.random((2, n)) < 0.4
y = np.column_stack([np.maximum(y - wider[0], 0), np.minimum(y + wider[1], 4)])

def fit(passes, shuffle):
    PRIL(classes=[0, 1, 2, 3, 4], max_iter=passes, shuffle=shuffle, random_state=0).fit(X, y)

for shuffle, name in ((True, "shuffled"), (False, "in order")):
    passes = (seconds(lambda: fit(k, shuffle)) for k in (1, 6))
    said[f"a pass of `fit`, {name}, ns a row"] = -np.subtract(*passes) / 5 / n * 1e9
product = X @ np.ones(10)
said["`X @ w`, ns a row"] = seconds(lambda: X @ np.ones(10)) / n * 1e9
"""

MANY_CLASSES = """
n, K = 100_000, 100_000
X = rng.normal(size=(n, 10))
y = np.clip(((X.sum(axis=1) / 10**0.5 + 3) / 6 * K).astype(int), 0, K - 1)
y = np.column_stack([np.maximum(y - 2, 0), np.minimum(y + 2, K - 1)])
model = PRIL(classes=np.arange(K)).partial_fit(X, y)
said["`partial_fit`, ns a violated threshold"] = (
    seconds(lambda: PRIL(classes=np.arange(K)).partial_fit(X, y), 1) / model.n_updates_ * 1e9
)
said["`partial_fit`, one row, ms"] = seconds(lambda: model.partial_fit(X[:1], y[:1]), 50) * 1e3
said["`predict`, us a row"] = seconds(lambda: model.predict(X)) / n * 1e6
said["`score`, us a row"] = seconds(lambda: model.score(X, y)) / n * 1e6
on_file(model)
words = np.array([f"class {k:06d}" for k in range(K)], dtype=object)
model = PRIL(classes=words).partial_fit(X[:10], words[y[:10]])
said["`partial_fit`, one row, classes are words, ms"] = (
    seconds(lambda: model.partial_fit(X[:1], words[y[:1]]), 20) * 1e3
)
"""

MANY_FEATURES = """
n, d, stored = 50_000, 1_000_000, 20
indices = np.sort(rng.integers(0, d, (n, stored)), axis=1).astype(np.int32).ravel()
starts = np.arange(0, n * stored + 1, stored, dtype=np.int32)
X = csr_array((rng.normal(size=n * stored), indices, starts), shape=(n, d))
X.sum_duplicates()
y = np.digitize(X @ rng.normal(size=d), [-4, -1, 1, 4])
model = PRIL(classes=[0, 1, 2, 3, 4]).partial_fit(X, y)
said["`partial_fit`, us a row"] = seconds(lambda: model.partial_fit(X, y)) / n * 1e6
said["`fit`, one shuffled pass, us a row"] = (
    seconds(lambda: PRIL(classes=[0, 1, 2, 3, 4], max_iter=1, random_state=0).fit(X, y)) / n * 1e6
)
said["`predict`, us a row"] = seconds(lambda: model.predict(X)) / n * 1e6
on_file(model)
"""

COMMAND = """
import sys
try:
    from pril.cli.main import main
except ImportError:  # where it was one module
    from pril.cli import main
main(sys.argv[1:])
"""


def python(source, code, *arguments, **options):
    """Run code with the package of a source folder."""
    environment = os.environ | {"PYTHONPATH": str(source), "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, env=environment, check=True, capture_output=True, **options)  # noqa: S603


def measure(sources, code, repeats):
    """Return what a piece of code says in each tree: the least of a few runs."""
    code, best = f"{PRELUDE}{code}\nprint(json.dumps(said))", [{} for _ in sources]
    for _ in range(repeats):
        for source, least in zip(sources, best, strict=True):
            for name, number in json.loads(python(source, code).stdout).items():
                least[name] = min(number, least.get(name, number))
    return best


def measure_starts(sources, repeats=7):
    """Return the CPU seconds of commands that have one row to rate."""
    best = [{} for _ in sources]
    with tempfile.TemporaryDirectory() as folder:
        rows, one = Path(folder) / "rows.csv", Path(folder) / "one.csv"
        rows.write_text("a,b,y\n" + "".join(f"{t % 7},{t % 5},{t % 3}\n" for t in range(300)))
        one.write_text("a,b\n1,2\n")
        for k, source in enumerate(sources):
            python(source, COMMAND, "fit", rows, "--label", "y", "-o", Path(folder) / f"{k}.pril")
        for _ in range(repeats):
            for k, (source, least) in enumerate(zip(sources, best, strict=True)):
                model = Path(folder) / f"{k}.pril"
                for command in (["predict", model, one], ["stream", model]):
                    before = resource.getrusage(resource.RUSAGE_CHILDREN)
                    python(source, COMMAND, *command, input=one.read_bytes())
                    after = resource.getrusage(resource.RUSAGE_CHILDREN)
                    spent = sum(after[:2]) - sum(before[:2])
                    name = f"`pril {command[0]}`, CPU seconds"
                    least[name] = min(spent, least.get(name, spent))
    return best


def main():
    """Print a table for each limit: a line for each number, a column for each tree."""
    sources = [OWN, *sys.argv[1:]]
    header = ["number", "this tree", *sys.argv[1:]]
    limits = {
        "Ten million rows, d = 4": (MANY_ROWS, 1),
        "A million rows, d = 10, K = 5: the order of a pass": (SHUFFLED, 3),
        "100 000 classes, d = 10": (MANY_CLASSES, 2),
        "A million features, 20 stored values a row": (MANY_FEATURES, 2),
    }
    for title, limit in limits.items():
        show(title, header, measure(sources, *limit))
    show("From the command to the first row", header, measure_starts(sources))


def show(title, header, best):
    """Print a table."""
    print(f"### {title}\n")
    table(header, [[name, *(column.get(name, "-") for column in best)] for name in best[0]])


if __name__ == "__main__":
    main()
