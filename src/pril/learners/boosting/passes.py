"""The compiled passes of `OrderedBoosting`: gradients, sums for the EM step, walks down trees.

Ranks are 0..K-1. Thresholds come as `Cuts`: with f the score of a row and E = exp(f),

    ``P(y <= k) = a_k = 1 / (1 + E odds_k)``,  ``P(y) = a_y (1 - a_{y-1}) width_y``

so that a row needs one exponential, and no probability is a difference of two that are nearly
equal. The kinds of ranges that occur are numbered; row i has kind ``group[i]``.

This file stands alone: numba's cache notices edits of the file of a compiled function only.
"""

from __future__ import annotations

from math import exp, isnan, log
from typing import Any, NamedTuple

import numpy as np
from numba import njit

compiled: Any = njit(nogil=True, cache=True, error_model="numpy")

FARTHEST = 300.0  # scores and thresholds beyond it are as good as infinite; exp(600) is finite
LEAST = 1e-12  # the least probability of a class
LEAST_HESSIAN = 1e-6

ALL_BITS, NO_BITS, ONE = np.uint64(2**64 - 1), np.uint64(0), np.uint64(1)
# Multiplied by it, every single bit leaves another pattern in the top six: its number.
SPREAD = np.uint64(0x03F79D71B4CB0A89)
BIT_NUMBER = np.zeros(64, dtype=np.int64)
BIT_NUMBER[[((int(SPREAD) << k) % 2**64) >> 58 for k in range(64)]] = np.arange(64)


class Rows(NamedTuple):
    """What is known of each row beside its features."""

    ends: Any  # (kinds, 2), the lowest and the highest rank of each kind of range
    group: Any  # (n,), the kind of a row's range
    weight: Any  # (n,)
    fold: Any  # (n,)


class Cuts(NamedTuple):
    """Thresholds as the passes need them."""

    odds: Any  # (K + 1,), exp(-theta), between infinity and 0
    width: Any  # (K,), 1 - exp(theta_{y-1} - theta_y)

    @classmethod
    def of(cls, theta: Any) -> Cuts:
        """Prepare thresholds, in ascending order."""
        cut = np.concatenate([[-np.inf], np.clip(theta, -FARTHEST, FARTHEST), [np.inf]])
        return cls(np.exp(-cut), -np.expm1(cut[:-1] - cut[1:]))


@compiled
def fill_gradients(scores, left_out, cuts, q, rows, gradient, hessian):
    """Write the gradients of all rows; those of one fold are 0."""
    odds, width = cuts
    ends, group, weight, fold = rows
    for i in range(len(scores)):
        u = group[i]
        lo, hi = ends[u, 0], ends[u, 1]
        w = 0.0 if fold[i] == left_out else weight[i]
        e = exp(min(max(scores[i], -FARTHEST), FARTHEST))
        b, above = 0.0, 1.0  # P(y < lo), P(y >= lo)
        if lo > 0:
            b = 1.0 / (1.0 + e * odds[lo])
            above = e * odds[lo] * b
        z = g = h = 0.0
        for y in range(lo, hi + 1):
            a = 1.0 / (1.0 + e * odds[y + 1])
            beyond = e * odds[y + 1] * a
            r = 1.0 if lo == hi else q[u, y] * max(a * above * width[y], LEAST)
            z += r
            g += r * (1.0 - a - b)
            h += r * (a * beyond + b * above)
            b, above = a, beyond
        gradient[i] = w * g / z
        hessian[i] = w * max(h / z, LEAST_HESSIAN)


@compiled
def _probabilities(f, odds, width, lo, hi, below, p):
    """Write P(y <= k) for k in lo-1..hi to below[k + 1], and P(y) for y in lo..hi to p."""
    e = exp(min(max(f, -FARTHEST), FARTHEST))
    below[lo] = 1.0 / (1.0 + e * odds[lo]) if lo > 0 else 0.0
    above = e * odds[lo] * below[lo] if lo > 0 else 1.0  # 1 - below, without cancellation
    for y in range(lo, hi + 1):
        below[y + 1] = 1.0 / (1.0 + e * odds[y + 1])
        p[y] = max(below[y + 1] * above * width[y], LEAST)
        above = e * odds[y + 1] * below[y + 1]


@compiled
def add_up(scores, cuts, q, rows, sums):
    """Add to the sums what an EM step needs.

    table[u, y]: weight of the rows with range u that are of class y; slope, diagonal, beside: the
    gradient of the thresholds and their expected information, which is tridiagonal.
    """
    table, slope, diagonal, beside = sums
    ends, group, weight, _ = rows
    n_classes = q.shape[1]
    below, p = np.empty(n_classes + 1), np.empty(n_classes)
    for i in range(len(scores)):
        u, w = group[i], weight[i]
        lo, hi = ends[u, 0], ends[u, 1]
        _probabilities(scores[i], cuts.odds, cuts.width, 0, n_classes - 1, below, p)
        z = 0.0
        for y in range(lo, hi + 1):
            z += q[u, y] * p[y]
        for y in range(lo, hi + 1):
            table[u, y] += w * q[u, y] * p[y] / z
        last = 0.0
        for k in range(n_classes - 1):
            d = below[k + 1] * (1.0 - below[k + 1])
            slope[k] += w * d * (q[u, k] - q[u, k + 1]) / z
            diagonal[k] += w * d * d * (1.0 / p[k] + 1.0 / p[k + 1])
            if k > 0:
                beside[k - 1] -= w * last * d / p[k]
            last = d


@compiled
def held_out_loss(scores, cuts, chance, rows):
    """Return the sum of -log P(range) over the rows."""
    ends, group, weight, _ = rows
    n_classes, loss = chance.shape[1], 0.0
    below, p = np.empty(n_classes + 1), np.empty(n_classes)
    for i in range(len(scores)):
        u, z = group[i], 0.0
        lo, hi = ends[u, 0], ends[u, 1]
        _probabilities(scores[i], cuts.odds, cuts.width, lo, hi, below, p)
        for y in range(lo, hi + 1):
            z += chance[u, y] * p[y]
        loss -= weight[i] * log(max(z, 1e-300))
    return loss


class Forest(NamedTuple):
    """Trees as arrays, node after node. The children of a node are neighbours, and come after it.

    A row goes to the left child if its feature is at most `value`, or its category is in set number
    `value`; a missing value goes left where `missing_left` says so.
    """

    first: Any  # (trees + 1,) the root of each tree, and the number of nodes
    feature: Any  # (nodes,) -1: a leaf
    value: Any  # (nodes,) of a leaf: what it adds to the score
    child: Any  # (nodes,) the left child; the right one is next to it
    missing_left: Any  # (nodes,)
    is_set: Any  # (nodes,) whether `value` is the number of a set of categories
    set_first: Any  # (sets + 1,) the first word of each set, and the number of words
    set_words: Any  # (words,) category c is in a set if bit c % 32 of its word c // 32 is set


@compiled
def linear_scores(X, mean, slope, scores):
    """Write (x - mean) . slope; a missing value counts as the mean."""
    for i in range(len(X)):
        f = 0.0
        for k in range(X.shape[1]):
            x = X[i, k]
            if not isnan(x):
                f += (x - mean[k]) * slope[k]
        scores[i] = f


@compiled
def _count_leaves(forest):
    """Return how many leaves are below each node, and how many of its tree are left of it."""
    n_nodes = len(forest.feature)
    below, before = np.ones(n_nodes, np.int32), np.zeros(n_nodes, np.int32)
    for node in range(n_nodes - 1, -1, -1):
        if forest.feature[node] >= 0:
            below[node] = below[forest.child[node]] + below[forest.child[node] + 1]
    for node in range(n_nodes):
        if forest.feature[node] >= 0:
            left = forest.child[node]
            before[left] = before[node]
            before[left + 1] = before[node] + below[left]
    return below, before


@compiled
def _is_in_set(forest, number, x):
    word = forest.set_first[number] + (int(x) >> 5)
    in_range = word < forest.set_first[number + 1]
    return in_range and (forest.set_words[word] >> (int(x) & 31)) & 1 == 1


@compiled
def add_trees(X, forest, scores):
    """Add what the trees say of each row to its score.

    No row walks down a tree. Each has a bit for every leaf, leftmost leaf first. A split clears,
    in all rows that do not go left, the bits of the leaves on its left; the first bit that is left
    is the row's leaf. So a split is one comparison of many rows at once.
    """
    below, before = _count_leaves(forest)
    n_trees, used = len(forest.first) - 1, np.unique(forest.feature)
    used = used[used >= 0]
    place = np.zeros(X.shape[1], np.int64)
    place[used] = np.arange(len(used))
    n_words = 1
    for tree in range(n_trees):
        n_words = max(n_words, (below[forest.first[tree]] + 63) >> 6)
    outputs = np.empty(n_words << 6)
    block = min(max((1 << 15) // (len(used) + 1), 16), 512)
    cells = np.empty((len(used), block))
    bits = np.empty((n_words, block), np.uint64)
    for start in range(0, len(X), block):
        size = min(block, len(X) - start)
        for k in range(len(used)):
            for i in range(size):
                cells[k, i] = X[start + i, used[k]]
        for tree in range(n_trees):
            bits[:] = ALL_BITS
            for node in range(forest.first[tree], forest.first[tree + 1]):
                if forest.feature[node] < 0:
                    outputs[before[node]] = forest.value[node]
                    continue
                x, value = cells[place[forest.feature[node]]], forest.value[node]
                begin = before[node]
                end = begin + below[forest.child[node]]
                for word in range(begin >> 6, ((end - 1) >> 6) + 1):
                    keep = ALL_BITS
                    if begin > word << 6:
                        keep <<= np.uint64(begin & 63)
                    if end < (word + 1) << 6:
                        keep &= (ONE << np.uint64(end & 63)) - ONE
                    keep = ~keep
                    row_bits = bits[word]
                    if forest.is_set[node]:
                        for i in range(size):
                            missing = isnan(x[i])
                            if missing or not _is_in_set(forest, int(value), x[i]):
                                row_bits[i] &= keep
                    elif forest.missing_left[node]:
                        for i in range(size):
                            row_bits[i] &= keep if x[i] > value else ALL_BITS
                    else:
                        for i in range(size):
                            row_bits[i] &= ALL_BITS if x[i] <= value else keep
            for i in range(size):
                word = 0
                while bits[word, i] == NO_BITS:
                    word += 1
                lowest = bits[word, i] & (~bits[word, i] + ONE)
                leaf = (word << 6) + BIT_NUMBER[(lowest * SPREAD) >> np.uint64(58)]
                scores[start + i] += outputs[leaf]
