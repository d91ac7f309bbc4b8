"""
Raters who disagree
===================

Several raters judge the same case and do not agree. Is it better to learn from the range of their
votes, from the middle half of it, or from their median?

That depends on how many raters you have. Two votes have no median, and their range is a good label.
The more votes, the wider the range of all of them, and the less it says: here the median is better
from three votes on for LEV, and from seven on for SWD.

Data: LEV (students rate lecturers) and SWD (social workers rate risks), donated by Arie
Ben-David, which come with the package skordinal (BSD-3-Clause). Rows with equal features are one
case, and each such row is the vote of one rater.
"""

import matplotlib.pyplot as plt
import numpy as np
from skordinal.datasets import load_lev, load_swd

from pril import OrderedLogit
from pril.labels import from_votes

# %%
# Cases and votes
# ---------------
#
# We keep cases with at least 12 votes: up to nine to learn from, and the others to judge with.


def cases_of(load):
    """Return the features of each case, and the votes on it."""
    X, y = load(return_X_y=True)
    features, case = np.unique(X, axis=0, return_inverse=True)
    votes = [y[case == number] for number in range(len(features))]
    many = [number for number, cast in enumerate(votes) if len(cast) >= 12]
    return features[many].astype(float), [votes[number] for number in many]


for name, load in (("LEV", load_lev), ("SWD", load_swd)):
    features, votes = cases_of(load)
    spread = np.mean([np.ptp(cast) for cast in votes])
    print(f"{name}: {len(features)} cases, highest less lowest vote {spread:.1f} on average")

# %%
# Three labels from the same votes
# --------------------------------
#
# For each case, some raters are drawn at random, and their votes become a label in three ways. (For
# an even number of votes, the "median" is the range of the two in the middle.) A prediction is
# judged by the votes of the other raters on the same case. Each point is the mean of eight draws.


TRIMS = {"range of all votes": 0.0, "middle half of the votes": 0.25, "median vote": 0.5}


def errors(features, votes, n_raters, n_classes, seed):
    """Return the mean distance from unseen votes, for each way to make a label."""
    rng = np.random.default_rng(seed)
    shuffled = [rng.permutation(cast) for cast in votes]
    seen = np.array([cast[:n_raters] for cast in shuffled])
    result = []
    for trim in TRIMS.values():
        y = from_votes(seen, classes=range(n_classes), trim=trim)
        model = OrderedLogit(classes=range(n_classes))
        predicted = model.fit(features, y).predict(features)
        pairs = zip(predicted, shuffled, strict=True)
        result.append(np.mean([np.abs(cast[n_raters:] - rank).mean() for rank, cast in pairs]))
    return result


numbers = [1, 2, 3, 5, 7, 9]
figure, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
for ax, load, n_classes in zip(axes, (load_lev, load_swd), (5, 4), strict=True):
    features, votes = cases_of(load)
    curves = [
        np.mean([errors(features, votes, n, n_classes, seed) for seed in range(8)], axis=0)
        for n in numbers
    ]
    for curve, label, style in zip(np.transpose(curves), TRIMS, ("o-", "s--", "^:"), strict=True):
        ax.plot(numbers, curve, style, label=label)
    ax.set(title=f"{load.__name__[5:].upper()}, {n_classes} grades", xlabel="raters per case")
axes[0].set_ylabel("error on a held-out vote, in grades")
figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=3)
plt.show()
