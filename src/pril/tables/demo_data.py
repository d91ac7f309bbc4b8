"""A small table to try the commands on: flats, each rated by three people who disagree."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from pril.labels import from_votes
from pril.tables.writing import TableWriter

GRADES = np.array(["poor", "fair", "good", "great"], dtype=object)


def write_flats(folder: Path, n: int = 400) -> tuple[str, str, str, str]:
    """Write a table with ranges and one with exact grades; return the demo's file names."""
    rng = np.random.default_rng(7)
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("flats.csv", "new.csv"):
        built = rng.integers(1890, 2024, n)
        refit = np.maximum(built, rng.integers(1970, 2024, n))
        damp = rng.poisson(1.0, n)
        light = rng.uniform(0, 10, n)
        heating = rng.choice(["gas", "coal", "heat pump"], n, p=[0.6, 0.15, 0.25])
        quality = (built - 1950) / 60 + (refit - 1995) / 12 - 0.9 * damp + light / 3
        quality += np.where(heating == "coal", -1.5, np.where(heating == "gas", 0.0, 0.8))
        rank = np.digitize(quality + rng.normal(0, 0.3, n), [0.0, 2.0, 4.0])
        seen = rank[:, np.newaxis] + rng.choice([-1, 0, 1], (n, 3), p=[0.2, 0.6, 0.2])
        votes = GRADES[np.clip(seen, 0, 3)]
        votes[rng.random((n, 3)) < 0.2] = None
        low, high = from_votes(votes, classes=GRADES).T
        labels = {"low": low, "high": high} if name == "flats.csv" else {"grade": GRADES[rank]}
        flats = {
            "built": built,
            "refit": pa.array(refit, mask=rng.random(n) <= 0.05),
            "damp_spots": damp,
            "light": light.round(1),
            "heating": heating,
            **labels,
        }
        with (folder / name).open("wb") as file:
            TableWriter(file, "csv").write(pa.RecordBatch.from_pydict(flats), {})
    names = ("flats.csv", "new.csv", "rated.csv", "flats.png")
    flats_csv, new_csv, rated_csv, picture = (str(folder / name) for name in names)
    return flats_csv, new_csv, rated_csv, picture
