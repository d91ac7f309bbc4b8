"""What does `pril.torch` cost beside cross-entropy: time of a batch, time and memory of the loss?

    PYTHONPATH=src python benchmarks/networks.py

On a CUDA device if there is one, where memory is what PyTorch allocates at most; else on the CPU,
where it is the growth of a process. It needs PyTorch and NumPy. Of 15 million rows and 60 classes,
cross-entropy takes 14 GiB; `--rows 1_500_000` is enough to see what grows with what.
"""

import argparse
import resource
import statistics
import subprocess
import sys
import time

import torch
from torch.nn import functional

from pril.torch import CumulativeLogits, OffsetShares, range_loss

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
LOSSES = ("cross-entropy", "range", "offsets")


def seconds(call):
    """Return how long a call takes, its work on the device included."""
    start = time.perf_counter()
    call()
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start


def gibibytes():
    """Return the most memory that was in use."""
    if DEVICE == "cuda":
        return torch.cuda.max_memory_allocated() / 2**30
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def ranges(y):
    """Return ranges of a class and the next one."""
    return torch.stack([y, y + 1], dim=1)


def loss_alone(which, n, n_classes):
    """Print what the loss takes, forwards and backwards."""
    head = CumulativeLogits(n_classes).to(DEVICE)
    offsets = OffsetShares().to(DEVICE) if which == "offsets" else None
    y = torch.randint(0, n_classes - 1, (n,), device=DEVICE)
    shape = (n, n_classes) if which == "cross-entropy" else (n,)
    scores = torch.randn(shape, device=DEVICE, requires_grad=True)
    target = y if which == "cross-entropy" else ranges(y)
    before = gibibytes()

    def call():
        scores.grad = None
        if which == "cross-entropy":
            functional.cross_entropy(scores, target).backward()
        else:
            range_loss(scores, target, thresholds=head.thresholds, offsets=offsets).backward()

    took = statistics.median([seconds(call) for _ in range(4)][1:])
    inputs = scores.numel() * 4 / 2**30
    print(f"| {which} | {took:.3f} | {inputs:.2f} | {gibibytes() - before:.2f} |", flush=True)


def make_step(which, n, is_compiled, n_classes=10, width=1024):
    """Return a step of a network with two hidden layers on a batch of n rows."""
    body = torch.nn.Sequential(
        torch.nn.Linear(256, width), torch.nn.ReLU(),
        torch.nn.Linear(width, width), torch.nn.ReLU(),
        torch.nn.Linear(width, n_classes if which == "cross-entropy" else 1),
    ).to(DEVICE)  # fmt: skip
    head = CumulativeLogits(n_classes).to(DEVICE)
    offsets = OffsetShares().to(DEVICE) if which == "offsets" else None
    parameters = [
        *body.parameters(),
        *head.parameters(),
        *(offsets.parameters() if offsets else ()),
    ]
    optimizer = torch.optim.AdamW(parameters)
    X = torch.randn(n, 256, device=DEVICE)
    y = torch.randint(0, n_classes - 1, (n,), device=DEVICE)
    target = y if which == "cross-entropy" else ranges(y)

    def loss():
        out = body(X)
        if which == "cross-entropy":
            return functional.cross_entropy(out, target)
        return range_loss(head(out), target, offsets=offsets)

    forwards = torch.compile(loss) if is_compiled else loss

    def step():
        optimizer.zero_grad()
        forwards().backward()
        optimizer.step()

    return step


def batches(sizes, is_compiled, repeats=30):
    """Print the median time of a step by each loss, in turns, and its ratio to cross-entropy."""
    print("| rows in a batch | " + " | ".join(f"{which}, ms" for which in LOSSES) + " | ratios |")
    print("| --- " * (len(LOSSES) + 2) + "|")
    for n in sizes:
        steps = [make_step(which, n, is_compiled) for which in LOSSES]
        rounds = [[seconds(step) for step in steps] for _ in range(repeats + 5)][5:]  # 5 warm up
        times = [1e3 * statistics.median(column) for column in zip(*rounds, strict=True)]
        ratios = ", ".join(f"{one / times[0]:.2f}" for one in times[1:])
        print(
            f"| {n:,} | " + " | ".join(f"{one:.2f}" for one in times) + f" | {ratios} |", flush=True
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=15_000_000)
    parser.add_argument("--classes", type=int, default=60)
    parser.add_argument("--compile", action="store_true", help="batches by torch.compile")
    parser.add_argument("--loss", choices=LOSSES, help="of the rows alone, in this process")
    given = parser.parse_args()
    if given.loss:
        loss_alone(given.loss, given.rows, given.classes)
    else:
        device = torch.cuda.get_device_name() if DEVICE == "cuda" else "CPU"
        print(f"PyTorch {torch.__version__}, {device}\n")
        batches((256, 4096, 65536) if DEVICE == "cuda" else (256, 4096), given.compile)
        print(f"\nThe loss alone, {given.rows:,} rows and {given.classes} classes\n")
        print(
            "| loss | seconds | its input, GiB | more at the peak, GiB |\n| --- | --- | --- | --- |"
        )
        sizes = [f"--rows={given.rows}", f"--classes={given.classes}"]
        for which in LOSSES:
            subprocess.run([sys.executable, __file__, "--loss", which, *sizes])  # noqa: S603
