"""
A network learns from ranges
============================

Images of digits, as ordered classes. Of most of them it is only known that the digit is, say, "3 or
4". A small network in PyTorch learns from such labels by the head and the loss of ``pril.torch``,
beside the same network with cross-entropy, which can use the exact labels only, and beside
`OrderedBoosting`, which learns from ranges too.

.. image:: /_static/network_digits.png
   :alt: Error by the share of exact labels. Without any, the network is off by 0.5 digits and
     boosting by 0.6. Cross-entropy needs a tenth of the labels to be as good.

With few exact labels or none, the network needs the ranges. As soon as a tenth of the labels is
exact, cross-entropy is better, because digits have no real order but one score must give them one.

Data: the digits of scikit-learn. This script needs PyTorch, so the site shows the picture that it
made elsewhere.
"""

# sphinx_gallery_thumbnail_path = '_static/network_digits_thumbnail.png'

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

from pril import OrderedBoosting
from pril.labels import make_intervals
from pril.torch import CumulativeLogits, OffsetShares, RangeLoss

X, digit = load_digits(return_X_y=True)
X = (X / 16).astype(np.float32)
X, X_new, digit, digit_new = train_test_split(X, digit, test_size=0.5, random_state=0)


def trained(body, parameters, loss, target, epochs=40):
    """Train a network in batches of 64 rows."""
    torch.manual_seed(0)
    images, target = torch.tensor(X), torch.tensor(target)
    optimizer = torch.optim.AdamW(parameters, lr=3e-3)
    for _ in range(epochs):
        for rows in torch.randperm(len(images)).split(64):
            optimizer.zero_grad()
            loss(body(images[rows]), target[rows]).backward()
            optimizer.step()


def network(n_outputs):
    torch.manual_seed(0)
    hidden = nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU()
    return nn.Sequential(*hidden, nn.Linear(64, n_outputs))


def by_ranges(labels):
    """Learn from exact labels and ranges: one score, thresholds, and how raters make ranges."""
    body, head, loss = network(1), CumulativeLogits(10), RangeLoss(offsets=OffsetShares())
    parameters = [*body.parameters(), *head.parameters(), *loss.parameters()]
    trained(body, parameters, lambda score, target: loss(head(score), target), labels)
    with torch.no_grad():
        score = body(torch.tensor(X_new))
        return (head(score) <= 0).sum(dim=1).numpy()  # the median class


def by_cross_entropy(labels):
    """Learn from the exact labels alone."""
    body = network(10)
    target = np.where(labels[:, 0] == labels[:, 1], labels[:, 0], -100)  # what the loss ignores
    loss = nn.CrossEntropyLoss(ignore_index=-100, reduction="sum")
    trained(body, body.parameters(), lambda out, y: loss(out, y) / len(y), target)
    with torch.no_grad():
        return body(torch.tensor(X_new)).argmax(dim=1).numpy()


def by_boosting(labels):
    model = OrderedBoosting(classes=range(10), max_iter=200, random_state=0)
    return model.fit(X, labels).predict(X_new)


SHARES = [0.0, 0.02, 0.1, 0.25, 1.0]
WAYS = {
    "network, ranges": by_ranges,
    "network, exact labels alone": by_cross_entropy,
    "OrderedBoosting, ranges": by_boosting,
}
errors = {name: [] for name in WAYS}
for share in SHARES:
    labels = make_intervals(digit, kind=1, fraction=1 - share, random_state=0)
    for name, learn in WAYS.items():
        has_labels = share > 0 or learn is not by_cross_entropy
        off_by = np.abs(learn(labels) - digit_new).mean() if has_labels else np.nan
        errors[name].append(off_by)
        print(f"{share:4.0%} exact, {name}: off by {off_by:.2f}")

figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
for (name, values), style in zip(errors.items(), ("o-", "s--", "^-"), strict=True):
    ax.plot(range(len(SHARES)), values, style, label=name)
ax.set(xlabel="exact labels", ylabel="off by, digits", ylim=(0, 1.75))
ax.set_xticks(range(len(SHARES)), ["none", "2 %", "10 %", "25 %", "all"])
ax.legend()
plt.show()
