"""The compiled passes of contributions: Shapley values of trees and of landmarks.

A row is explained against the rows of a background. In the game of a row x and a background row b,
a set of features is worth the score of a row that has these features of x and the others of b. A
leaf and a landmark are products over features of what each of them lets through, so their Shapley
values have closed forms.
"""

from __future__ import annotations

from math import exp

import numpy as np

from pril.learners.boosting.compiled import (
    ALL_BITS,
    NO_BITS,
    ONE,
    clear,
    compiled,
    lowest_bit,
)

LARGEST_DISTANCE = 300.0  # beyond, a landmark adds nothing, and the product of two would be 0


@compiled
def _path(begin, end, leaf, splits, sides):
    """Write the splits on the way to a leaf of a tree, and whether it goes left at each.

    Returns how many there are. `_walk` of the scores goes the same way.
    """
    n = split = number = 0
    while split < len(begin) and begin[split] == number:
        splits[n], sides[n] = split, leaf < end[split]
        n += 1
        if leaf >= end[split]:
            number = end[split]
            split += end[split] - begin[split]
        elif end[split] - begin[split] == 1:
            break
        else:
            split += 1
    return n


@compiled
def _group(bits, table, first, group):
    """Give rows with the same bits the same number; `first` is a row of each.

    Returns how many numbers there are.
    """
    table[:] = -1
    n_words, n_groups, mask = len(bits), 0, np.uint64(len(table) - 1)
    for i in range(bits.shape[1]):
        mixed = NO_BITS
        for word in range(n_words):
            mixed = (mixed ^ bits[word, i]) * np.uint64(0x9E3779B97F4A7C15)
        at = (mixed >> np.uint64(32)) & mask
        while True:
            known = table[at]
            if known < 0:
                table[at], first[n_groups], group[i] = n_groups, i, n_groups
                n_groups += 1
                break
            other, word = first[known], 0
            while word < n_words and bits[word, other] == bits[word, i]:
                word += 1
            if word == n_words:
                group[i] = known
                break
            at = (at + ONE) & mask
    return n_groups


@compiled
def _count(bits):
    n = 0
    while bits != NO_BITS:
        bits &= bits - ONE
        n += 1
    return n


@compiled
def _add_values(own, others, worth, n_slots, weight, values):
    """Add the Shapley values of a leaf in the games of a row and others, by slots.

    `own` and `others` have a bit for each feature that lets a row through. Only if each feature
    lets at least one of two rows through can the leaf be reached. If then a features let only the
    row through, and c only the other one, (a - 1)! c! / (a + c)! of all orders of the features
    reach the leaf with a given one of the a, and (c - 1)! a! / (a + c)! leave it with one of the c.
    Returns whether there was anything to add.
    """
    n_words, lacks, is_reached = len(own), 0, False
    for word in range(n_words):
        lacks += _count(~own[word])
    left = 0.0
    for h in range(len(others)):
        word = 0
        while word < n_words and (own[word] | others[h, word]) == ALL_BITS:
            word += 1
        if word < n_words:
            continue
        alone = 0
        for word in range(n_words):
            alone += _count(own[word] & ~others[h, word])
        left += worth[h] * weight[lacks, alone]
        gain = worth[h] * weight[alone, lacks]
        for word in range(n_words):
            bits = own[word] & ~others[h, word]
            while bits != NO_BITS:
                values[(word << 6) + lowest_bit(bits)] += gain
                bits &= bits - ONE
        is_reached |= alone + lacks > 0
    for slot in range(n_slots if is_reached else 0):
        if (own[slot >> 6] >> np.uint64(slot & 63)) & ONE == NO_BITS:
            values[slot] -= left
    return is_reached


@compiled
def _weights(n):
    """Return (a - 1)! c! / (a + c)! of all a > 0 and c with at most n."""
    weight = np.zeros((n + 1, n + 1))
    for a in range(1, n + 1):
        weight[a, 0] = 1.0 / a
        for c in range(1, n + 1):
            weight[a, c] = weight[a, c - 1] * c / (a + c)
    return weight


@compiled
def _follow(cells, forest, start, n_steps, splits, sides, edges, bits, feature_of):
    """Write the bits of all columns after each step of a path; return the number of its features.

    The features are numbered as they come, and `feature_of` has the feature of each number. Steps
    that the path has in common with the last one, whose edges are given, are there already.
    """
    feature, value, kind, n_features = forest.feature, forest.value, forest.kind, 0
    for step in range(n_steps):
        split, number = start + splits[step], 0
        k, edge = feature[split], 2 * split + sides[step]
        while number < n_features and feature_of[number] != k:
            number += 1
        feature_of[number], n_features = k, max(n_features, number + 1)
        if edges[step] != edge:
            edges[step], here = edge, bits[step + 1]
            here[:] = bits[step]
            row, keep = here[number >> 6], ~(ONE << np.uint64(number & 63))
            clear(
                row, keep, len(row), cells[k], value[split], kind[split], sides[step], forest.words
            )
    return n_features


@compiled
def add_trees(cells, n, forest, out):
    """Add the Shapley values of all trees to those of the first n columns of cells.

    The other columns are the background. `cells` is (features, columns), `out` (n, features).

    For each leaf, a row has a bit for every feature on the path: whether its value lets it
    through. Rows with the same bits have the same values. So rows are grouped, and the values are
    computed once for each pair of a group and a group of the background.
    """
    size, begin, end, leaf = forest.size, forest.begin, forest.end, forest.leaf
    d, n_columns, most = len(cells), cells.shape[1], size.max() if len(size) else 0
    n_background = n_columns - n
    n_table = 4
    while n_table < 2 * max(n, n_background):
        n_table *= 2
    table, group = np.empty(n_table, np.int32), np.empty(n_columns, np.int32)
    first, first_other = np.empty(n, np.int32), np.empty(n_background, np.int32)
    splits, sides = np.empty(most, np.int64), np.empty(most, np.bool_)
    feature_of, has_values = np.empty(d, np.int64), np.empty(n, np.bool_)
    start = 0
    for tree in range(len(size)):
        stop, depth = start + size[tree], 0
        for at in range(size[tree] + 1):
            depth = max(depth, _path(begin[start:stop], end[start:stop], at, splits, sides))
        n_words = 1 + (min(depth, d) >> 6)
        bits, edges = np.full((depth + 1, n_words, n_columns), ALL_BITS), np.full(depth, -1)
        others, counts = np.empty((n_background, n_words), np.uint64), np.empty(n_background)
        values, weight = np.empty((n, min(depth, d))), _weights(min(depth, d))
        for at in range(size[tree] + 1):
            n_steps = _path(begin[start:stop], end[start:stop], at, splits, sides)
            n_slots = _follow(cells, forest, start, n_steps, splits, sides, edges, bits, feature_of)
            here = bits[n_steps]
            n_others = _group(here[:, n:], table, first_other, group[n:])
            counts[:n_others] = 0.0
            for j in range(n, n_columns):
                counts[group[j]] += leaf[start + tree + at] / n_background
            for h in range(n_others):
                others[h] = here[:, n + first_other[h]]
            for g in range(_group(here[:, :n], table, first, group[:n])):
                values[g, :n_slots] = 0.0
                own = here[:, first[g]]
                has_values[g] = _add_values(
                    own, others[:n_others], counts, n_slots, weight, values[g]
                )
            for i in range(n):
                g = group[i]
                if has_values[g]:
                    for slot in range(n_slots):
                        out[i, feature_of[slot]] += values[g, slot]
        start = stop


@compiled
def add_landmarks(cells, n, landmarks, similarity, n_nodes, nodes, node_weights, out):
    """Add the Shapley values of all landmarks to those of the first n columns of cells.

    The other columns are the background; cells are scaled as the landmarks are. A landmark lets
    through near_k = exp(-distance in feature k) of each feature, in all their product. The Shapley
    value of feature k is the integral over t from 0 to 1 of (near_k - other_k) times the product
    over all other features j of t near_j + (1 - t) other_j. Gauss's quadrature takes `n_nodes` of
    each row: half as many as there are features are exact.
    """
    d, n_background = len(cells), cells.shape[1] - n
    through, after = np.empty(cells.shape), np.empty(n_background)
    before, sums = np.empty((d, n_background)), np.empty((d, n_background))
    for landmark in range(len(landmarks)):
        if similarity[landmark] == 0.0:
            continue
        for k in range(d):
            for c in range(cells.shape[1]):
                distance = abs(cells[k, c] - landmarks[landmark, k])
                through[k, c] = exp(-min(distance, LARGEST_DISTANCE))
        others = through[:, n:]
        for i in range(n):
            near, sums[:] = through[:, i], 0.0
            for node in range(n_nodes[i]):
                t, share = nodes[n_nodes[i], node], node_weights[n_nodes[i], node]
                after[:] = share
                for k in range(d - 1, -1, -1):  # products of all features after, then before, k
                    mine, row, sofar = t * near[k], others[k], before[k]
                    for b in range(n_background):
                        sofar[b] = after[b]
                        after[b] *= mine + (1.0 - t) * row[b]
                after[:] = 1.0
                for k in range(d):
                    mine, row, sofar, total = t * near[k], others[k], before[k], sums[k]
                    for b in range(n_background):
                        total[b] += sofar[b] * after[b]
                        after[b] *= mine + (1.0 - t) * row[b]
            for k in range(d):
                total = 0.0
                for b in range(n_background):
                    total += (near[k] - others[k, b]) * sums[k, b]
                out[i, k] += similarity[landmark] / n_background * total
