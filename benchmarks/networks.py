"""What does `pril.torch` cost beside cross-entropy: memory of the loss, and time of a batch?

On a CUDA device if there is one, where memory is what PyTorch allocates at most; else on the CPU,
where it is the growth of the process. It needs PyTorch; run each part in a process of its own:

    python benchmarks/networks.py loss range; python benchmarks/networks.py loss cross-entropy
    python benchmarks/networks.py batch range; python benchmarks/networks.py batch cross-entropy
"""

import argparse
import resource
import time

import torch
from torch.nn import functional

from pril.torch import CumulativeLogits, OffsetShares, range_loss

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def seconds(call, repeats):
    """Return the mean time of a call, after three that warm up."""
    for timed in (3, repeats):
        start = time.perf_counter()
        for _ in range(timed):
            call()
        if DEVICE == "cuda":
            torch.cuda.synchronize()
    return (time.perf_counter() - start) / repeats


def gibibytes():
    """Return the most memory that was in use."""
    if DEVICE == "cuda":
        return torch.cuda.max_memory_allocated() / 2**30
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def loss_alone(which, n, n_classes):
    """Compare the loss of scores with that of a matrix of logits, forwards and backwards."""
    head = CumulativeLogits(n_classes).to(DEVICE)
    offsets = OffsetShares().to(DEVICE) if which == "offsets" else None
    low = torch.randint(0, n_classes - 1, (n,), device=DEVICE)
    shape = (n, n_classes) if which == "cross-entropy" else (n,)
    scores = torch.randn(shape, device=DEVICE, requires_grad=True)
    target = low if which == "cross-entropy" else torch.stack([low, low + 1], dim=1)
    before = gibibytes()

    def call():
        scores.grad = None
        if which == "cross-entropy":
            functional.cross_entropy(scores, target).backward()
        else:
            range_loss(scores, target, thresholds=head.thresholds, offsets=offsets).backward()

    took = seconds(call, 3)
    inputs = scores.numel() * 4 / 2**30
    print(f"{which}: {took:.3f} s, {gibibytes() - before:.2f} GiB more, scores {inputs:.2f} GiB")


def batch(which, n_classes, is_compiled, width=1024):
    """Time a step of a network with two hidden layers, on batches of several sizes."""
    body = torch.nn.Sequential(
        torch.nn.Linear(256, width), torch.nn.ReLU(),
        torch.nn.Linear(width, width), torch.nn.ReLU(),
        torch.nn.Linear(width, n_classes if which == "cross-entropy" else 1),
    ).to(DEVICE)  # fmt: skip
    head = CumulativeLogits(n_classes).to(DEVICE)
    optimizer = torch.optim.AdamW([*body.parameters(), *head.parameters()])
    for n in (256, 4096, 65536) if DEVICE == "cuda" else (256, 4096):
        X, y = torch.randn(n, 256, device=DEVICE), torch.randint(0, 9, (n,), device=DEVICE)
        target = torch.stack([y, y + 1], dim=1)

        def loss(X, y, target):
            out = body(X)
            if which == "cross-entropy":
                return functional.cross_entropy(out, y)
            return range_loss(head(out), target)

        if is_compiled:
            loss = torch.compile(loss)

        def step(loss=loss, X=X, y=y, target=target):
            optimizer.zero_grad()
            loss(X, y, target).backward()
            optimizer.step()

        print(f"{which}, {n} rows: {1e3 * seconds(step, 20):.2f} ms")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=("loss", "batch"))
    parser.add_argument("which", choices=("range", "offsets", "cross-entropy"))
    parser.add_argument("--rows", type=int, default=15_000_000)
    parser.add_argument("--classes", type=int, default=60)
    parser.add_argument("--compile", action="store_true", help="by torch.compile")
    given = parser.parse_args()
    if given.part == "loss":
        loss_alone(given.which, given.rows, given.classes)
    else:
        batch(given.which, 10, given.compile)
