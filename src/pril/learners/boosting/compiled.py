"""The compiled passes of `OrderedBoosting`: gradients, sums for the EM step, scores of rows.

Ranks are 0..K-1. The probabilities of the classes are `logistic`'s, from the `odds` of the
thresholds. The kinds of ranges that occur are numbered; row i has kind ``group[i]``.
"""

from __future__ import annotations

from math import exp, isnan, log
from typing import Any, NamedTuple

import numpy as np

from pril.core.code_cache import cached
from pril.core.logistic import write_chances

compiled: Any = cached(nogil=True, error_model="numpy")

LEAST_HESSIAN = 1e-6
LEAST_CHANCE = 1e-300  # of a label, for its logarithm

ALL_BITS, NO_BITS, ONE = np.uint64(2**64 - 1), np.uint64(0), np.uint64(1)
# Multiplied by it, every single bit leaves another pattern in the top six: its number.
SPREAD = np.uint64(0x03F79D71B4CB0A89)
BIT_NUMBER = np.zeros(64, dtype=np.int64)
BIT_NUMBER[[((int(SPREAD) << k) % 2**64) >> 58 for k in range(64)]] = np.arange(64)

MISSING_RIGHT, MISSING_LEFT, SET = 0, 1, 2  # kinds of splits


class Rows(NamedTuple):
    """What is known of each row beside its features."""

    ends: Any  # (kinds, 2), the lowest and the highest rank of each kind of range
    group: Any  # (n,), the kind of a row's range
    weight: Any  # (n,)
    fold: Any  # (n,)


@compiled
def fill_gradients(scores, left_out, odds, q, chance, rows, haste, gradient, hessian):
    """Write the gradients of all rows, those of one fold as 0; return the loss of that fold.

    Haste is what the learning rate is multiplied by and the l2 penalty divided by.
    """
    ends, group, weight, fold = rows
    below, p, loss = np.empty(len(odds)), np.empty(len(odds) - 1), 0.0
    for i in range(len(scores)):
        u = group[i]
        lo, hi = ends[u, 0], ends[u, 1]
        write_chances(scores[i], odds, lo, hi, below, p)
        if fold[i] == left_out:
            gradient[i] = hessian[i] = 0.0
            loss += _loss_of(p, lo, hi, chance[u], weight[i])
            continue
        z = g = h = 0.0
        for y in range(lo, hi + 1):
            a, b, r = below[y + 1], below[y], q[u, y] * p[y]
            z += r
            g += r * (1.0 - a - b)
            h += r * (a * (1.0 - a) + b * (1.0 - b))
        gradient[i] = weight[i] * haste * haste * g / z
        hessian[i] = weight[i] * haste * max(h / z, LEAST_HESSIAN)
    return loss


@compiled
def _loss_of(p, lo, hi, chance, weight):
    """Return -log P(range) of a row, times its weight."""
    z = 0.0
    for y in range(lo, hi + 1):
        z += chance[y] * p[y]
    return -weight * log(max(z, LEAST_CHANCE))


@compiled
def add_up(scores, some, odds, q, rows, table, slope, information):
    """Add to the sums what an EM step needs of some rows, given by their numbers.

    table[u, y]: weight of the rows with range u that are of class y. slope, information: the
    gradient of the thresholds, and the upper half of their expected information.
    """
    ends, group, weight, _ = rows
    n_classes = q.shape[1]
    below, p = np.empty(n_classes + 1), np.empty(n_classes)
    for i in some:
        u, w = group[i], weight[i]
        lo, hi = ends[u, 0], ends[u, 1]
        write_chances(scores[i], odds, 0, n_classes - 1, below, p)
        z = last = 0.0
        for y in range(lo, hi + 1):
            z += q[u, y] * p[y]
        for y in range(lo, hi + 1):
            table[u, y] += w * q[u, y] * p[y] / z
        for k in range(n_classes - 1):
            d = below[k + 1] * (1.0 - below[k + 1])
            slope[k] += w * d * (q[u, k] - q[u, k + 1]) / z
            information[k, k] += w * d * d * (1.0 / p[k] + 1.0 / p[k + 1])
            if k > 0:
                information[k - 1, k] -= w * last * d / p[k]
            last = d


@compiled
def held_out_loss(scores, some, odds, chance, rows):
    """Return the sum of -log P(range) over some rows, given by their numbers."""
    ends, group, weight, _ = rows
    below, p, loss = np.empty(len(odds)), np.empty(len(odds) - 1), 0.0
    for i in some:
        u = group[i]
        write_chances(scores[i], odds, ends[u, 0], ends[u, 1], below, p)
        loss += _loss_of(p, ends[u, 0], ends[u, 1], chance[u], weight[i])
    return loss


class Forest(NamedTuple):
    """A linear score, landmarks, and trees as arrays, tree after tree; leaves from the left.

    A row goes left at a split if its feature is at most `value`, or is a category whose bit is set
    in the words from number `value` on. A tree has one leaf more than splits.
    """

    mean: Any  # (features,)
    slope: Any  # (features,)
    width: Any  # (features,), what a unit of each feature adds to the distance from a landmark
    landmarks: Any  # (landmarks, features), rows from which the mean was taken, times width
    similarity: Any  # (landmarks,), what a row at a landmark adds to the score
    size: Any  # (trees,), splits of each tree
    feature: Any  # (splits,)
    value: Any  # (splits,)
    kind: Any  # (splits,)
    begin: Any  # (splits,), the first leaf on the left
    end: Any  # (splits,), the first leaf on the right
    leaf: Any  # (splits + trees,), what a leaf adds to the score
    words: Any  # category c is in a set if bit c % 32 of its word c // 32 is set


@compiled
def _is_in_set(x, first, words):
    return not isnan(x) and (words[int(first) + (int(x) >> 5)] >> (int(x) & 31)) & 1 == 1


@compiled
def scores_of(X, forest, scores):
    """Write the score of each row.

    The linear score is (x - mean) . slope; a missing value counts as the mean. Landmark l adds
    similarity_l exp(-distance), the distance in absolute differences. No row walks down a tree.
    Each has a bit for every leaf. A split clears, in all rows that do not go left, the bits of the
    leaves on its left; the first bit that is left is the row's leaf. So a split is one comparison
    of many rows at once.
    """
    mean, slope, width, landmarks, similarity = forest[:5]
    size, feature, value, kind, begin, end, leaf, words = forest[5:]
    n_words = 1 + (size.max() >> 6 if len(size) else 0)
    block = min(max((1 << 15) // (X.shape[1] + 1), 16), 512)
    cells, bits = np.empty((X.shape[1], block)), np.empty((n_words, block), np.uint64)
    scaled, distance = np.empty((X.shape[1], block)), np.empty(block)
    for start in range(0, len(X), block):
        n = min(block, len(X) - start)
        out = scores[start : start + n]
        out[:] = 0.0
        for k in range(X.shape[1]):
            for i in range(n):
                x = cells[k, i] = X[start + i, k]
                out[i] += 0.0 if isnan(x) else (x - mean[k]) * slope[k]
                scaled[k, i] = 0.0 if isnan(x) or width[k] == 0.0 else (x - mean[k]) * width[k]
        for landmark in range(len(landmarks)):
            distance[:n] = 0.0
            for k in range(X.shape[1]):
                at, row = landmarks[landmark, k], scaled[k]
                for i in range(n):
                    distance[i] += abs(row[i] - at)
            for i in range(n):
                out[i] += similarity[landmark] * exp(-distance[i])
        first = 0
        for tree in range(len(size)):
            bits[:] = ALL_BITS
            for split in range(first, first + size[tree]):
                x, cut, its_kind = cells[feature[split]], value[split], kind[split]
                for word in range(begin[split] >> 6, ((end[split] - 1) >> 6) + 1):
                    keep = ALL_BITS
                    if begin[split] > word << 6:
                        keep <<= np.uint64(begin[split] & 63)
                    if end[split] < (word + 1) << 6:
                        keep &= (ONE << np.uint64(end[split] & 63)) - ONE
                    keep, row = ~keep, bits[word]
                    if its_kind == MISSING_RIGHT:  # plain loops use vector instructions
                        for i in range(n):
                            row[i] &= ALL_BITS if x[i] <= cut else keep
                    elif its_kind == MISSING_LEFT:
                        for i in range(n):
                            row[i] &= keep if x[i] > cut else ALL_BITS
                    else:
                        for i in range(n):
                            row[i] &= ALL_BITS if _is_in_set(x[i], cut, words) else keep
            for i in range(n):
                word = 0
                while bits[word, i] == NO_BITS:
                    word += 1
                lowest = bits[word, i] & (~bits[word, i] + ONE)
                number = (word << 6) + BIT_NUMBER[(lowest * SPREAD) >> np.uint64(58)]
                out[i] += leaf[first + tree + number]
            first += size[tree]
