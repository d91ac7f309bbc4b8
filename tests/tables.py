"""Small tables for tests, written in every format by the standard library or by others."""

import bz2
import csv
import gzip
import io
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.pipeline import make_pipeline

import pril

GRADES = ["poor", "fair", "good", "great"]


def make_rows(n=300, seed=0):
    """Return dicts: two numbers, one with gaps, a word with gaps, an id, exact or ranged grades."""
    rng = np.random.default_rng(seed)
    size, age = rng.normal(50, 20, n), rng.integers(0, 100, n)
    town = rng.choice(["Rome", "Oslo", "Bern, old"], n)
    rank = np.digitize((size - 50) / 20 - (age - 50) / 30 + (town == "Oslo"), [-1.0, 0.0, 1.0])
    low = np.maximum(rank - rng.integers(0, 2, n), 0)
    high = np.minimum(rank + rng.integers(0, 2, n), 3)
    rows = []
    for t in range(n):
        rows.append(
            {
                "id": f"flat {t}",
                "size": float(size[t]) if rng.random() > 0.1 else None,
                "age": int(age[t]),
                "town": str(town[t]) if rng.random() > 0.1 else None,
                "low": GRADES[low[t]] if rng.random() > 0.1 else None,
                "high": GRADES[high[t]] if rng.random() > 0.1 else None,
                "grade": int(rank[t]) + 1,
            }
        )
    return rows


def _opened(path):
    if path.suffix == ".zst":
        return io.TextIOWrapper(pa.output_stream(path), newline="")
    opener = {".gz": gzip.open, ".bz2": bz2.open}.get(path.suffix, open)
    return opener(path, "wt", newline="")


def write_csv(path, rows, delimiter=","):
    with _opened(path) as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)


def write_jsonl(path, rows):
    with _opened(path) as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def write_parquet(path, rows, row_group_size=None):
    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=row_group_size)


def write(path, rows):
    """Write rows in the format of the path's suffix."""
    zipped = path.suffix in (".gz", ".bz2", ".zst")
    kind = (path.with_suffix("") if zipped else path).suffix[1:]
    if kind == "tsv":
        write_csv(path, rows, "\t")
    else:
        {"csv": write_csv, "jsonl": write_jsonl, "parquet": write_parquet}[kind](path, rows)
    return path


def features_and_labels(rows):
    """Return rows as tables in memory: the features, and the ends of the labels."""
    frame = pd.DataFrame(rows)
    return frame[["size", "age", "town"]], frame[["low", "high"]].astype(object)


def landmark_pipeline(n=20):
    """Return a pipeline with a step between the encoder and the learner, to be fitted."""
    learner = pril.OrderedLogit(classes=GRADES, random_state=0)
    return make_pipeline(pril.ColumnEncoder(), pril.LandmarkFeatures(n, random_state=0), learner)


def snapshot(folder):
    """Return the bytes of all files in a folder."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def assert_same_model(one, other):
    """Assert that two learners have learned the same, bit for bit."""
    assert type(one) is type(other)
    np.testing.assert_array_equal(one.order_, other.order_)
    for name in ("coef_", "dual_coef_", "thresholds_", "t_", "n_mistakes_", "n_updates_"):
        if hasattr(one, name):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
