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
    MISSING_LEFT,
    MISSING_RIGHT,
    NO_BITS,
    ONE,
    compiled,
    is_in_set,
    lowest_bit,
)

LARGEST_DISTANCE = 300.0  # beyond, a landmark adds nothing, and the product of two would be 0

# Columns of the way through a tree.
SPLIT, IS_LEFT, DEPTH, SLOT, IS_NEW, N_SLOTS, LEAF = range(7)


@compiled
def _way(feature, begin, slot_of, way):
    """Write all edges of a tree, in the order of its leaves; return their number.

    The features on the path to a node are numbered: these are its slots.
    """
    stack, on_left = np.empty(len(begin), np.int64), np.empty(len(begin), np.bool_)
    is_new = np.empty(len(begin), np.bool_)
    depth = n_slots = n_edges = leaf = split = 0
    while True:
        while split < len(begin) and begin[split] == leaf:  # the next split is on the way down
            stack[depth], on_left[depth] = split, True
            is_new[depth] = slot_of[feature[split]] < 0
            if is_new[depth]:
                slot_of[feature[split]] = n_slots
                n_slots += 1
            way[n_edges, SPLIT], way[n_edges, IS_LEFT], way[n_edges, DEPTH] = split, 1, depth
            way[n_edges, SLOT], way[n_edges, N_SLOTS] = slot_of[feature[split]], n_slots
            way[n_edges, IS_NEW], way[n_edges, LEAF] = is_new[depth], -1
            depth, n_edges, split = depth + 1, n_edges + 1, split + 1
        if n_edges > 0:
            way[n_edges - 1, LEAF] = leaf
        leaf += 1
        while depth > 0 and not on_left[depth - 1]:
            depth -= 1
            if is_new[depth]:
                slot_of[feature[stack[depth]]] = -1
                n_slots -= 1
        if depth == 0:
            return n_edges
        on_left[depth - 1] = False
        last = stack[depth - 1]
        way[n_edges, SPLIT], way[n_edges, IS_LEFT], way[n_edges, DEPTH] = last, 0, depth - 1
        way[n_edges, SLOT], way[n_edges, N_SLOTS] = slot_of[feature[last]], n_slots
        way[n_edges, IS_NEW], way[n_edges, LEAF] = is_new[depth - 1], -1
        n_edges += 1


@compiled
def _step(x, cut, kind, is_left, words, before, fresh, bit, after):
    """Clear a bit of the rows that do not go this way at a split."""
    keep = ~bit
    if kind == MISSING_RIGHT:
        for i in range(len(x)):
            old = before[i] | fresh
            after[i] = old & (ALL_BITS if (x[i] <= cut) == is_left else keep)
    elif kind == MISSING_LEFT:
        for i in range(len(x)):
            old = before[i] | fresh
            after[i] = old & (keep if (x[i] > cut) == is_left else ALL_BITS)
    else:
        for i in range(len(x)):
            old = before[i] | fresh
            after[i] = old & (ALL_BITS if is_in_set(x[i], cut, words) == is_left else keep)


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
def _add_values(own, others, worth, full, n_slots, weight, values):
    """Add the Shapley values of a leaf in the games of a row and others, by slots.

    `own` and `others` have a bit for each feature that lets a row through. Only if each feature
    lets at least one of two rows through can the leaf be reached. If then a features let only the
    row through, and c only the other one, (a - 1)! c! / (a + c)! of all orders of the features
    reach the leaf with a given one of the a, and (c - 1)! a! / (a + c)! leave it with one of the c.
    Returns whether there was anything to add.
    """
    n_words, lacks, is_reached = len(full), 0, False
    for word in range(n_words):
        lacks += _count(full[word] & ~own[word])
    left = 0.0
    for h in range(len(others)):
        word = 0
        while word < n_words and (own[word] | others[h, word]) == full[word]:
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
def add_trees(cells, n, forest, out):
    """Add the Shapley values of all trees to those of the first n columns of cells.

    The other columns are the background. `cells` is (features, columns), `out` (n, features).

    For each leaf, a row has a bit for every feature on the path: whether its value lets it
    through. Rows with the same bits have the same values. So rows are grouped, and the values are
    computed once for each pair of a group and a group of the background.
    """
    size, feature, value, kind, begin, _, leaf, words = forest[5:]
    d, n_columns, most = len(cells), cells.shape[1], size.max() if len(size) else 0
    n_background = n_columns - n
    n_table = 4
    while n_table < 2 * max(n, n_background):
        n_table *= 2
    table, group = np.empty(n_table, np.int32), np.empty(n_columns, np.int32)
    first, first_other = np.empty(n, np.int32), np.empty(n_background, np.int32)
    slot_of, feature_of = np.full(d, -1), np.empty(d, np.int64)
    way, weight = np.empty((2 * most, 7), np.int64), _weights(1)
    has_values = np.empty(n, np.bool_)
    start = 0
    for tree in range(len(size)):
        stop = start + size[tree]
        n_edges = _way(feature[start:stop], begin[start:stop], slot_of, way)
        depth = n_slots = 0
        for e in range(n_edges):
            depth, n_slots = max(depth, way[e, DEPTH] + 1), max(n_slots, way[e, N_SLOTS])
        n_words = 1 + (n_slots >> 6)
        if len(weight) <= n_slots:
            weight = _weights(n_slots)
        full, others = np.empty(n_words, np.uint64), np.empty((n_background, n_words), np.uint64)
        bits = np.zeros((depth + 1, n_words, n_columns), np.uint64)
        values, counts = np.empty((n, n_slots)), np.empty(n_background)
        for e in range(n_edges):
            split, at, slot = start + way[e, SPLIT], way[e, DEPTH], way[e, SLOT]
            feature_of[slot] = feature[split]
            word, bit = slot >> 6, ONE << np.uint64(slot & 63)
            fresh = bit if way[e, IS_NEW] else NO_BITS
            if n_words > 1:
                bits[at + 1] = bits[at]
            _step(
                cells[feature[split]], value[split], kind[split], way[e, IS_LEFT] == 1, words,
                bits[at, word], fresh, bit, bits[at + 1, word],
            )  # fmt: skip
            if way[e, LEAF] < 0:
                continue
            here, n_here = bits[at + 1], way[e, N_SLOTS]
            n_others = _group(here[:, n:], table, first_other, group[n:])
            counts[:n_others] = 0.0
            for j in range(n, n_columns):
                counts[group[j]] += leaf[start + tree + way[e, LEAF]] / n_background
            n_groups = _group(here[:, :n], table, first, group[:n])
            for word in range(n_words):
                n_bits = min(n_here - (word << 6), 64)
                full[word] = ALL_BITS if n_bits == 64 else (ONE << np.uint64(max(n_bits, 0))) - ONE
                for h in range(n_others):
                    others[h, word] = here[word, n + first_other[h]]
            for g in range(n_groups):
                values[g, :n_here] = 0.0
                own = here[:, first[g]]
                has_values[g] = _add_values(
                    own, others[:n_others], counts, full, n_here, weight, values[g]
                )
            for i in range(n):
                g = group[i]
                if has_values[g]:
                    for slot in range(n_here):
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
    near, others = np.empty(d), np.empty((d, n_background))
    before, sums = np.empty((d, n_background)), np.empty((d, n_background))
    after = np.empty(n_background)
    for landmark in range(len(landmarks)):
        if similarity[landmark] == 0.0:
            continue
        for k in range(d):
            for b in range(n_background):
                distance = abs(cells[k, n + b] - landmarks[landmark, k])
                others[k, b] = exp(-min(distance, LARGEST_DISTANCE))
        for i in range(n):
            for k in range(d):
                distance = abs(cells[k, i] - landmarks[landmark, k])
                near[k] = exp(-min(distance, LARGEST_DISTANCE))
            sums[:] = 0.0
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
