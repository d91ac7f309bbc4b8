"""How often the alarm on the error of a stream is false, and how soon it comes: `--every`.

    python benchmarks/drift_alarm.py

Streams of errors without a change, and with one after 5,000 rows. IGNORED_RISE and ALARM_LIMIT
were chosen on the seed 0; the numbers here are from another one.
"""

import numpy as np

from pril.online.recent_errors import ErrorAlarm

ROWS, STREAMS, CHANGE, SEED = 50_000, 60, 5_000, 1


def wrong_by_one(share):
    """Return a function that draws errors: 1 in a share of the rows, 0 in the others."""
    return lambda rng, n: (rng.random(n) < share).astype(int)


STEADY = {
    "off by 1 in 1 of 1,000 rows": wrong_by_one(0.001),
    "off by 1 in 1 of 100 rows": wrong_by_one(0.01),
    "off by 1 in 1 of 10 rows": wrong_by_one(0.1),
    "off by 1 in 3 of 10 rows": wrong_by_one(0.3),
    "off by 1 in half of the rows": wrong_by_one(0.5),
    "off by 0 to 4, mean 0.6": lambda rng, n: rng.poisson(0.6, n).clip(0, 4),
    "off by 1 to 9 in 1 of 50 rows": lambda rng, n: (rng.random(n) < 0.02) * rng.integers(1, 10, n),
}
RISES = [(0.05, 0.1), (0.05, 0.15), (0.1, 0.2), (0.3, 0.35), (0.3, 0.4), (0.3, 0.5)]


def alarms(errors):
    """Return the rows at which there is an alarm."""
    alarm = ErrorAlarm()
    return [row for row, error in enumerate(errors.tolist(), 1) if alarm.add(error)]


def main():
    """Print both tables."""
    rng = np.random.default_rng(SEED)
    print("| errors without a change | false alarms in a million rows |\n| --- | --- |")
    for name, draw in STEADY.items():
        counts = np.array([len(alarms(draw(rng, ROWS))) for _ in range(STREAMS)]) / ROWS * 1e6
        print(f"| {name} | {counts.mean():.1f} ± {counts.std() / np.sqrt(STREAMS):.1f} |")
    print("\n| share of rows off by 1 | found | after so many rows (median) |\n| --- | --- | --- |")
    for before, after in RISES:
        found = []
        for _ in range(STREAMS):
            parts = [wrong_by_one(before)(rng, CHANGE), wrong_by_one(after)(rng, CHANGE)]
            found += [row - CHANGE for row in alarms(np.concatenate(parts)) if row > CHANGE][:1]
        median = f"{np.median(found):,.0f}" if found else "-"
        print(f"| {before:g} to {after:g} | {len(found)} of {STREAMS} | {median} |")


if __name__ == "__main__":
    main()
