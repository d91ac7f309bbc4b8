"""A service around ``pril stream``: it is killed, goes on, notices a drift and a renamed column.

Run: python examples/stream_service.py (needs the extra ``cli``)
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import pril

CLASSES = ["poor", "fair", "good"]
PRIL = str(Path(sys.executable).with_name("pril"))
OPTIONS = (
    "--lower low --upper high --note offset --checkpoint state --checkpoint-every 500 --every 1000"
)


def make_rows(n=3000, drift=2000):
    """Return JSON lines; after the drift, what was good is poor."""
    rng = np.random.default_rng(0)
    lines = []
    for t, (price, age) in enumerate(rng.normal(size=(n, 2)).round(3).tolist()):
        sign = 1 if t < drift else -1
        rank = int(np.digitize(sign * (price - age) + 0.3 * rng.logistic(), [-0.7, 0.7]))
        label = {"low": CLASSES[max(rank - t % 2, 0)], "high": CLASSES[rank]}
        lines.append(json.dumps({"offset": t, "price": price, "age": age} | label))
    return lines


def next_row(folder):
    """Return where to go on: after the last row that was kept with the model."""
    try:
        return pril.load_notes(folder / "m.pril", checkpoint=folder / "state")["offset"] + 1
    except FileNotFoundError:  # nothing was kept yet
        return 0


def start(folder):
    """Start the stream; the first time it makes the model."""
    command = [PRIL, "stream", "m.pril", "--classes", ",".join(CLASSES), *OPTIONS.split()]
    with (folder / "log.txt").open("a") as log:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": log}
        return subprocess.Popen([*command, "--json"], cwd=folder, text=True, **pipes)  # noqa: S603


def main():
    rows = make_rows()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        service = start(folder)
        for line in rows[:1200]:  # each row is answered before the next one comes
            service.stdin.write(line + "\n")
            service.stdin.flush()
            service.stdout.readline()
        service.kill()  # as a power cut would
        service.communicate()
        begin = next_row(folder)
        print(f"killed after 1200 rows; goes on with row {begin}")
        start(folder).communicate("\n".join(rows[begin:]) + "\n")
        print(f"learned until row {pril.load_notes(folder / 'm.pril')['offset']}")
        for line in (folder / "log.txt").read_text().splitlines():
            if '"alarm"' in line:
                print(line)

        stream = pril.load(folder / "m.pril").stream(strict=True)
        row = {"price": 0.3, "age": 1.2}
        print(stream.predict_one(row))
        try:
            stream.predict_one({"cost": 0.3, "age": 1.2})
        except ValueError as error:
            print("refused:", error)


if __name__ == "__main__":
    main()
