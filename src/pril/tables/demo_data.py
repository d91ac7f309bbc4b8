"""A small table to try the commands on: flats, each rated by three people who disagree."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np

from pril.labels import from_votes

GRADES = ["poor", "fair", "good", "great"]


def make_flats(n: int, rng: np.random.Generator) -> tuple[list[dict[str, Any]], Any, Any]:
    """Return the features of n flats, their exact grades, and three votes on each, some missing."""
    built = rng.integers(1890, 2024, n)
    refit = np.maximum(built, rng.integers(1970, 2024, n))
    damp = rng.poisson(1.0, n)
    light = rng.uniform(0, 10, n)
    heating = rng.choice(["gas", "coal", "heat pump"], n, p=[0.6, 0.15, 0.25])
    quality = (built - 1950) / 60 + (refit - 1995) / 12 - 0.9 * damp + light / 3
    quality += np.where(heating == "coal", -1.5, np.where(heating == "gas", 0.0, 0.8))
    rank = np.digitize(quality + rng.normal(0, 0.3, n), [0.0, 2.0, 4.0])
    votes = np.clip(rank[:, np.newaxis] + rng.choice([-1, 0, 1], (n, 3), p=[0.2, 0.6, 0.2]), 0, 3)
    named = np.array(GRADES, dtype=object)[votes]
    named[rng.random((n, 3)) < 0.2] = None
    flats = [
        {
            "built": int(built[t]),
            "refit": int(refit[t]) if rng.random() > 0.05 else "",
            "damp_spots": int(damp[t]),
            "light": round(float(light[t]), 1),
            "heating": str(heating[t]),
        }
        for t in range(n)
    ]
    return flats, np.array(GRADES)[rank], named


def write_flats(folder: Path, n: int = 400) -> tuple[str, str, str, str]:
    """Write a table with ranges and one with exact grades; return the demo's file names."""
    rng = np.random.default_rng(7)
    folder.mkdir(parents=True, exist_ok=True)
    flats, _, votes = make_flats(n, rng)
    ranges = from_votes(votes, classes=GRADES)
    rows = [
        {**flat, "low": low or "", "high": high or ""}
        for flat, (low, high) in zip(flats, ranges, strict=True)
    ]
    _write(folder / "flats.csv", rows)
    flats, grades, _ = make_flats(n, rng)
    rows = [{**flat, "grade": grade} for flat, grade in zip(flats, grades, strict=True)]
    _write(folder / "new.csv", rows)
    names = ("flats.csv", "new.csv", "rated.csv", "flats.png")
    flats_csv, new_csv, rated_csv, picture = (str(folder / name) for name in names)
    return flats_csv, new_csv, rated_csv, picture


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
