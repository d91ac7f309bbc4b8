"""How long an answer takes: one row from a dict, in one thread and in several.

python benchmarks/serving.py
"""

import statistics
import threading
import time

import numpy as np
import pandas as pd

import pril

N_ROWS, N_COLUMNS, SECONDS = 2000, 10, 1.0


def make_table(rng):
    """Return a table of numbers and one column of words, and its labels."""
    table = pd.DataFrame(rng.normal(size=(N_ROWS, N_COLUMNS)), columns=[f"x{j}" for j in range(10)])
    table["town"] = rng.choice(["Oslo", "Rome", "Bern"], N_ROWS)
    grade = np.digitize(table["x0"] - table["x1"] + rng.normal(size=N_ROWS), [-1.0, 0.0, 1.0])
    return table, np.array(["poor", "fair", "good", "great"])[grade]


def latencies(call, rows, seconds=SECONDS):
    """Return how long each call takes, in microseconds, sorted."""
    for row in rows[:100]:
        call(row)
    found, end, k = [], time.perf_counter() + seconds, 0
    while time.perf_counter() < end:
        row, k = rows[k % len(rows)], k + 1
        start = time.perf_counter_ns()
        call(row)
        found.append((time.perf_counter_ns() - start) / 1000)
    return sorted(found)


def line(name, found):
    """Print a line of the table."""
    at = [statistics.median(found), found[int(0.99 * len(found))]]
    print(f"| {name} | {at[0]:,.1f} | {at[1]:,.1f} |", flush=True)


def throughput(call, rows, n_threads, seconds=SECONDS):
    """Return answers a second of several threads together."""
    counts, stop = [0] * n_threads, threading.Event()

    def work(me):
        while not stop.is_set():
            call(rows[counts[me] % len(rows)])
            counts[me] += 1

    threads = [threading.Thread(target=work, args=(k,)) for k in range(n_threads)]
    for thread in threads:
        thread.start()
    time.sleep(seconds)
    stop.set()
    for thread in threads:
        thread.join()
    return sum(counts) / seconds


def main():
    """Print both tables."""
    rng = np.random.default_rng(0)
    table, grades = make_table(rng)
    order = ["poor", "fair", "good", "great"]
    numbers = table.drop(columns="town")
    learner = pril.OrderedLogit(classes=order, random_state=0).fit(numbers, grades)
    steps = [("columns", pril.ColumnEncoder()), ("learner", pril.OrderedLogit(classes=order))]
    pipeline = pril.Pipeline(steps).fit(table, grades)
    alone, encoded = learner.stream(), pipeline.stream()
    plain = [dict(zip(numbers, row, strict=True)) for row in numbers.to_numpy()[:500].tolist()]
    rows = table.head(500).to_dict("records")
    frames = [table.iloc[[k]] for k in range(200)]
    print("| one row | median, µs | 99 %, µs |\n| --- | --- | --- |")
    line("`predict_one`, a learner, 10 numbers", latencies(alone.predict_one, plain))
    line("`predict_proba_one`, a learner", latencies(alone.predict_proba_one, plain))
    line("`predict_one`, a pipeline with words", latencies(encoded.predict_one, rows))
    line("`predict_proba_one`, a pipeline", latencies(encoded.predict_proba_one, rows))
    line("`learn_one`, a learner", latencies(lambda row: alone.learn_one(row, "good"), plain))
    line("`predict` of the pipeline, a DataFrame of one row", latencies(pipeline.predict, frames))
    print("\n| threads | answers a second, a pipeline |\n| --- | --- |")
    for n_threads in (1, 2, 4, 16):
        print(f"| {n_threads} | {throughput(encoded.predict_one, rows, n_threads):,.0f} |")


if __name__ == "__main__":
    main()
