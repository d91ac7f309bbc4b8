"""Damaged, forged and odd files: refused with a sentence, or read as what they are."""

import csv
import io as streams
import json
import os
import subprocess
import sys
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pril
from pril.io import archive as container
from pril.tables.opening import open_table
from tables import GRADES, make_rows, write

pytestmark = pytest.mark.attack
SHARE = float(os.environ.get("PRIL_ATTACK", "1"))  # of all cases; CI runs a part


def cases(n):
    return max(10, int(n * SHARE))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "m.pril"
    X = np.random.default_rng(0).normal(size=(50, 3))
    pril.save(pril.PRIL(classes=GRADES).fit(X, [GRADES[k % 4] for k in range(50)]), path)
    return path


def refused(path):
    """Tell whether a model file is refused; nothing but a ValueError may come."""
    try:
        pril.load(path)
    except ValueError:
        return True
    return False


def test_flipped_and_cut_models(model, tmp_path):
    rng = np.random.default_rng(1)
    data, path = model.read_bytes(), tmp_path / "m.pril"
    for _ in range(cases(4000)):
        bad = bytearray(data)
        for at in rng.integers(0, len(data), rng.integers(1, 4)):
            bad[at] ^= int(rng.integers(1, 256))
        path.write_bytes(bad)
        assert refused(path)
    for size in rng.integers(0, len(data), cases(500)):
        path.write_bytes(data[:size])
        assert refused(path)


def mutated(value, rng):
    """Return JSON with one part replaced by another value."""
    odd = [None, -1, 0, 2**70, 1.5, "", "x", [], {}, [[]], True]
    if isinstance(value, dict) and value and rng.random() < 0.8:
        key = list(value)[rng.integers(len(value))]
        return {**value, key: mutated(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.8:
        at = int(rng.integers(len(value)))
        return [*value[:at], mutated(value[at], rng), *value[at + 1 :]]
    return odd[rng.integers(len(odd))]


def test_resealed_mutations(model, tmp_path):
    rng = np.random.default_rng(2)
    with zipfile.ZipFile(model) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(members["pril.json"])
    path = tmp_path / "m.pril"
    for _ in range(cases(3000)):
        forged = dict(members)
        if rng.random() < 0.8:
            forged["pril.json"] = json.dumps(mutated(header, rng)).encode()
        else:
            name = list(forged)[rng.integers(len(forged))]
            part = bytearray(forged[name])
            part[rng.integers(len(part))] ^= int(rng.integers(1, 256))
            forged[name] = bytes(part)
        path.write_bytes(container.seal(forged))
        if not refused(path):  # what loads must work
            loaded = pril.load(path)
            loaded.predict(np.zeros((1, loaded.n_features_in_)))


def test_a_forged_width_does_not_hang_show(tmp_path, monkeypatch):
    """No number in a file decides how long `pril show` works: widths are lengths of arrays."""
    from pril.cli.main import main

    monkeypatch.chdir(tmp_path)
    write(tmp_path / "t.csv", make_rows(60))
    with pytest.raises(SystemExit):
        main(["fit", "t.csv", "--label", "grade", "--quiet"])
    with zipfile.ZipFile("t.pril") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    header, rng = json.loads(members["pril.json"]), np.random.default_rng(5)
    path = tmp_path / "forged.pril"
    for k in range(cases(500)):
        forged = dict(members)
        if k % 2:
            forged["pril.json"] = json.dumps(mutated(header, rng)).encode()
        else:  # an array that claims to be long, with all its numbers or without
            name = list(members)[int(rng.integers(1, len(members)))]
            array = np.load(streams.BytesIO(members[name]))
            n = int(rng.choice([0, 1, 9, 1000]))
            forged[name] = container.to_npy(np.resize(array, (n,) if array.ndim == 1 else (1, n)))
            if rng.random() < 0.5:
                claim = str(10 ** int(rng.integers(6, 18))).encode()
                forged[name] = forged[name].replace(str(n).encode(), claim, 1)
        path.write_bytes(container.seal(forged))
        with pytest.raises(SystemExit) as ended:
            main(["show", "forged.pril", "--json"])
        assert ended.value.code in (0, 2)


def test_files_that_are_no_models(tmp_path):
    sparse = tmp_path / "large.pril"
    with sparse.open("wb") as file:
        file.truncate(5 << 30)
    code = (
        "import pril, resource, sys\n"
        "resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))\n"
        "try: pril.load(sys.argv[1])\n"
        "except ValueError as error: print(error)\n"
    )
    for path in (sparse, "/dev/zero", __file__):
        ended = subprocess.run(
            [sys.executable, "-c", code, str(path)], capture_output=True, text=True, timeout=60
        )
        assert f"{path} is damaged or not a model file" in ended.stdout, ended.stderr


def read(path):
    """Return the rows of a table as text, None if it is refused."""
    try:
        blocks = [block.to_pylist() for _, block in open_table(str(path)).blocks()]
    except (ValueError, TypeError):
        return None
    return [list(row.values()) for block in blocks for row in block]


def test_csv_against_the_standard_library(tmp_path):
    rng = np.random.default_rng(3)
    path, n_read = tmp_path / "t.csv", 0
    pieces = ["a", "1", "", '"', '""', ",", "\n", "\r\n", " ", '"x"', '"a,b"', '"c\nd"', "é"]
    for _ in range(cases(3000)):
        text = "".join(rng.choice(pieces, rng.integers(1, 25)))
        path.write_bytes(f"x,y\n{text}\n".encode())
        rows = read(path)
        if rows is None:
            continue
        n_read += 1
        expected = list(csv.reader(streams.StringIO(f"x,y\n{text}\n", newline=""), strict=True))
        assert rows == [row for row in expected if row][1:], text
    assert n_read > cases(3000) / 100


def test_fuzzed_tables_are_read_or_refused(tmp_path):
    rng = np.random.default_rng(4)
    for suffix in ("csv", "csv.gz", "tsv", "jsonl", "parquet"):
        path = write(tmp_path / f"t.{suffix}", make_rows(20))
        data = path.read_bytes()
        for _ in range(cases(500)):
            bad = bytearray(data)
            for at in rng.integers(0, len(data), rng.integers(1, 4)):
                bad[at] = rng.integers(0, 256)
            path.write_bytes(bad[: rng.integers(1, len(bad) + 1)] if rng.random() < 0.3 else bad)
            read(path)


def test_many_columns(tmp_path):
    n_columns = cases(20_000)
    table = pa.table({f"c{k}": [1.0, 2.0, 3.0, 4.0] for k in range(n_columns)} | {"y": [0, 1] * 2})
    pq.write_table(table, tmp_path / "t.parquet")
    command = [sys.executable, "-c", "from pril.cli.main import main; main()", "fit"]
    options = ["--label", "y", "--holdout", "0", "-q", "-o", str(tmp_path / "m.pril")]
    subprocess.run([*command, str(tmp_path / "t.parquet"), *options], check=True, timeout=120)
    assert pril.load(tmp_path / "m.pril")[1].n_features_in_ == n_columns
