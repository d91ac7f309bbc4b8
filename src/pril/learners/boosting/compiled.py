"""The compiled passes of `OrderedBoosting`: what labels say of scores, and scores of rows.

Ranks are 0..K-1. The kinds of labels that occur are numbered. Cut k is the threshold below class k;
those at both ends are infinite.
"""

from __future__ import annotations

from collections.abc import Callable
from math import exp, inf, isfinite, isnan, log
from typing import NamedTuple

import numpy as np

from pril.core.arrays import Array, frozen
from pril.online.code_cache import alone, cached, part_of_loop

compiled = cached(nogil=True, error_model="numpy")

MOST_EDGES = 127  # between the bins of a feature; one less than a power of two
LEAST_HESSIAN = 1e-6
LEAST_LIKELIHOOD = 1e-290  # of a label

ALL_BITS, NO_BITS, ONE = np.uint64(2**64 - 1), np.uint64(0), np.uint64(1)
# Multiplied by it, every single bit leaves another pattern in the top six: its number.
SPREAD = np.uint64(0x03F79D71B4CB0A89)
BIT_NUMBER = np.zeros(64, dtype=np.int64)
BIT_NUMBER[[((int(SPREAD) << k) % 2**64) >> 58 for k in range(64)]] = np.arange(64)

MISSING_RIGHT, MISSING_LEFT, SET = 0, 1, 2  # kinds of splits

FEW_ROWS = 10  # walk down the trees: comparing many rows at once takes longer


class LabelledRows(NamedTuple):
    """What is known of each row beside its features."""

    kind: Array  # (n,), of its label
    weight: Array  # (n,)
    fold: Array  # (n,)


class Labels(NamedTuple):
    """What kinds of labels say of scores, given thresholds and chances.

    A kind has one cell for each of its classes, between two cuts; or a single one for all of them,
    if their chances are alike. With several models, `odds` and `gap` have one more axis, the first.
    """

    cuts: Array  # (kinds, m), ascending; the last one of a kind is repeated
    n_cuts: Array  # (kinds,)
    odds: Array  # (K + 1,), exp(-cut)
    gap: Array  # (kinds, m - 1), 1 - exp(cut - next cut), of each cell
    chance: Array  # (kinds, m - 1), of being given this kind of label
    first: Array  # (kinds,), the number of the first cell of a kind, of those of which
    n_cells: Array  # (kinds,) there are so many in a kind: none, if chances are alike
    starts: Array  # (kinds, 2), where its sums begin, see `pril.likelihood.sums.KindSums`

    @classmethod
    def of(cls, *parts: Array) -> Labels:
        """Return what compiled functions can be given."""
        return cls(*map(frozen, parts))

    def __reduce__(self) -> tuple[Callable[..., Labels], tuple[Array, ...]]:
        return Labels.of, tuple(self)  # arrays that travel could be written again


# --- Features ---


@compiled
def last_of_bins(counts, most):
    """Cut sorted distinct values, given how often each occurs, into a limited number of bins.

    Returns the position of the last value of each bin but the last one. A value that occurs more
    often than a bin of average size has one to itself; the others share the rest evenly.
    """
    n, ends, n_ends = len(counts), np.empty(max(most, len(counts)), dtype=np.int64), 0
    rows, bins, inside, total = 0, most, 0, 0
    for i in range(n):  # plain loops compile in half of the time of array expressions
        total += counts[i]
    large = total / most if n > most else 0.0  # all values have a bin, if these are enough
    for i in range(n):
        if counts[i] >= large:
            bins -= 1
        else:
            rows += counts[i]
    average = rows / max(bins, 1)
    for i in range(n - 1):
        inside += counts[i]
        is_large = counts[i] >= large
        if not is_large:
            rows -= counts[i]
        is_half_full = counts[i + 1] >= large and inside >= max(1.0, average / 2.0)
        if is_large or inside >= average or is_half_full:
            ends[n_ends] = i
            n_ends += 1
            if n > most and n_ends == most - 1:
                break
            if not is_large:
                bins -= 1
                average = rows / max(bins, 1)
            inside = 0
    return ends[:n_ends]


@compiled
def write_codes(X, edges, is_number, codes):
    """Write how many edges are below each value; missing values and categories as they are."""
    for i in range(X.shape[0]):
        for k in range(X.shape[1]):
            x = X[i, k]
            if isnan(x) or not is_number[k]:
                codes[i, k] = x
                continue
            at, step = 0, (MOST_EDGES + 1) // 2
            while step > 0:
                at += step if edges[k, at + step - 1] < x else 0
                step //= 2
            codes[i, k] = at


@compiled
def write_linear_scores(X, mean, slopes, centres, scores):
    """Write the scores of rows by several linear models; a missing value counts as the mean.

    Unlike a product of matrices, it is the same, bit for bit, however the rows are cut.
    """
    for j in range(len(slopes)):
        for i in range(len(X)):
            score = -centres[j]
            for k in range(X.shape[1]):
                x = X[i, k]
                score += 0.0 if isnan(x) else (x - mean[k]) * slopes[j, k]
            scores[j, i] = score


# --- What labels say of scores ---


@part_of_loop
def sides(x):
    """Return 1 / (1 + x) and x / (1 + x), for an x that may be infinite."""
    below = 1.0 / (1.0 + x)
    return below, (x * below if x < inf else 1.0)


@compiled
def fill_gradients(e, start, left_out, rows, labels, boldness, gradient, hessian):
    """Write the gradients of rows, those of one fold as 0: expected over the cells of a label.

    The rows begin at number `start`; `e` is exp(score) of each. The learning rate is multiplied by
    `boldness`, and the l2 penalty divided by it.
    """
    kind, weight, fold = rows
    cuts, n_cuts, odds, gap, chance = labels[:5]
    for t in range(len(e)):
        i = start + t
        u = kind[i]
        gradient[i] = hessian[i] = z = g = h = 0.0
        if fold[i] == left_out:
            continue
        a, above = sides(e[t] * odds[cuts[u, 0]])
        for c in range(n_cuts[u] - 1):
            b, over = sides(e[t] * odds[cuts[u, c + 1]])
            p = chance[u, c] * gap[u, c] * b * above
            z += p
            g += p * (over - a)
            h += p * (a * above + b * over)
            a, above = b, over
        z = max(z, LEAST_LIKELIHOOD)
        w = weight[i] * boldness
        gradient[i] = w * boldness * g / z
        hessian[i] = w * max(h / z, LEAST_HESSIAN)


@part_of_loop
def look(e, u, labels, density, tilt, by_cell):
    """Return the likelihood of a label of kind u, where exp(score) is e.

    Write the densities at its cuts, by what these change if the score does, and the probabilities
    of its cells.
    """
    cuts, n_cuts, odds, gap, chance = labels[:5]
    z = last_above = 0.0
    for c in range(n_cuts[u]):
        below, above = sides(e * odds[cuts[u, c]])
        density[c], tilt[c] = below * above, above - below
        if c > 0:
            by_cell[c - 1] = gap[u, c - 1] * below * last_above
            z += chance[u, c - 1] * by_cell[c - 1]
        last_above = above
    return max(z, LEAST_LIKELIHOOD)


@compiled
def loglik(e, kind, weight, labels):
    """Return the log-likelihood of rows; e is exp(score) of each."""
    room, value = np.empty((3, labels.cuts.shape[1])), 0.0
    for i in range(len(e)):
        value += weight[i] * log(look(e[i], kind[i], labels, room[0], room[1], room[2]))
    return value


@compiled
def write_slopes(e, rows, labels, is_out, value, slope, by_cut):
    """Write the log-likelihood of several models, and its derivatives.

    Model j has the scores of which ``e[j]`` are the exponentials; it leaves out the folds of which
    ``is_out[j]`` is true. Derivatives are by each score, and by the cuts. All are zeros at first.
    """
    kind, weight, fold = rows
    cuts, n_cuts, odds, gap, chance, first, n_cells, starts = labels
    room = np.empty((3, cuts.shape[1]))
    density = room[0]
    for j in range(len(e)):
        own = Labels(cuts, n_cuts, odds[j], gap[j], chance, first, n_cells, starts)
        for i in range(len(kind)):
            if fold[i] >= 0 and is_out[j, fold[i]]:
                continue
            u, last = kind[i], 0.0
            z = look(e[j, i], u, own, density, room[1], room[2])
            value[j] += weight[i] * log(z)
            for c in range(n_cuts[u]):
                above = chance[u, c] if c < n_cuts[u] - 1 else 0.0
                change = weight[i] * (last - above) * density[c] / z
                by_cut[j, cuts[u, c]] += change
                slope[j, i] -= change
                last = above


@compiled
def add_kind_sums(Z, e, kind, weight, labels, slope, curve, by_local_w, first, pairs):
    """Add what rows with features Z say; e is exp(score) of each. Return the log-likelihood.

    The sums are those of `pril.likelihood.sums.KindSums`, one of them turned. If there are
    features, write for each row the derivative by its score, and minus the second one.
    """
    cuts, n_all, m, value = labels.cuts, len(labels.odds), labels.cuts.shape[1], 0.0
    part, room, d = np.empty(2 * m), np.empty((3, m)), Z.shape[1]
    density, tilt, by_cell = room[0], room[1], room[2]
    for i in range(len(e)):
        u, w, last, whole, bend = kind[i], weight[i], 0.0, 0.0, 0.0
        n_cuts, n_cells = labels.n_cuts[u], labels.n_cells[u]
        z = look(e[i], u, labels, density, tilt, by_cell)
        value += w * log(z)
        for c in range(n_cuts):
            above = labels.chance[u, c] if c < n_cuts - 1 else 0.0
            density[c] /= z
            part[c] = (last - above) * density[c]
            whole += part[c]
            bend -= part[c] * tilt[c]
            last = above
        for c in range(n_cells):
            part[n_cuts + c] = by_cell[c] / z
        if d > 0:
            slope[i], curve[i] = -w * whole, w * (bend + whole * whole)
        for a in range(n_cuts + n_cells if d > 0 else 0):
            change, c = -whole * part[a], a - n_cuts
            if a < n_cuts:
                change, place = change + part[a] * tilt[a], cuts[u, a]
            else:
                change, place = change + density[c + 1] - density[c], n_all + labels.first[u] + c
            for j in range(d):
                by_local_w[place, j] += w * change * Z[i, j]
        place, pair = labels.starts[u]
        for a in range(n_cuts + n_cells):
            weighed = w * part[a]
            first[place + a] += weighed
            pairs[pair] -= weighed * tilt[a] if a < n_cuts else 0.0
            for b in range(a, n_cuts + n_cells):
                pairs[pair] += weighed * part[b]
                if a < n_cuts and b == n_cuts + a:  # a cell has a cut below it and one above
                    pairs[pair] += w * density[a]
                elif a < n_cuts <= b and b == n_cuts + a - 1:
                    pairs[pair] -= w * density[a]
                pair += 1
    return value


# --- Scores ---


class Forest(NamedTuple):
    """A linear score, landmarks, and trees as arrays, tree after tree; leaves from the left.

    A row goes left at a split if its feature is at most `value`, or is a category whose bit is set
    in the words from number `value` on. A tree has one leaf more than splits.
    """

    mean: Array  # (features,)
    slope: Array  # (features,)
    width: Array  # (features,), what a unit of each feature adds to the distance from a landmark
    landmarks: Array  # (landmarks, features), rows from which the mean was taken, times width
    similarity: Array  # (landmarks,), what a row at a landmark adds to the score
    size: Array  # (trees,), splits of each tree
    feature: Array  # (splits,)
    value: Array  # (splits,)
    kind: Array  # (splits,)
    begin: Array  # (splits,), the first leaf on the left
    end: Array  # (splits,), the first leaf on the right
    leaf: Array  # (splits + trees,), what a leaf adds to the score
    words: Array  # category c is in a set if bit c % 32 of its word c // 32 is set


# --- Scores of rows ---
# The linear score is (x - mean) . slope; a missing value counts as the mean. Landmark l adds
# similarity_l exp(-distance), the distance in absolute differences. Each tree adds a leaf. All ways
# add the same numbers in the same order, so that their scores are the same, bit for bit.


@part_of_loop
def is_in_set(x, first, words):
    """Tell whether a category is in the set whose words begin at number `first`."""
    return not isnan(x) and (words[int(first) + (int(x) >> 5)] >> (int(x) & 31)) & 1 == 1


@part_of_loop
def clear(bits, keep, n, x, cut, kind, is_left, words):
    """Keep some bits only of those of n rows that do not go to one side of a split."""
    if kind == MISSING_RIGHT:  # plain loops use vector instructions
        for i in range(n):
            bits[i] &= ALL_BITS if (x[i] <= cut) == is_left else keep
    elif kind == MISSING_LEFT:
        for i in range(n):
            bits[i] &= keep if (x[i] > cut) == is_left else ALL_BITS
    else:
        for i in range(n):
            bits[i] &= ALL_BITS if is_in_set(x[i], cut, words) == is_left else keep


@part_of_loop
def lowest_bit(bits):
    """Return the number of the lowest bit that is set."""
    return BIT_NUMBER[((bits & (~bits + ONE)) * SPREAD) >> np.uint64(58)]


@compiled
def scores_of(X, forest, scores):
    """Write the score of each row.

    No row of many walks down a tree. Each has a bit for every leaf. A split clears, in all rows
    that do not go left, the bits of the leaves on its left; the first bit that is left is the row's
    leaf. So a split is one comparison of many rows at once.
    """
    mean, slope, width, landmarks, similarity = forest[:5]
    size, feature, value, kind, begin, end, leaf, words = forest[5:]
    if len(X) < FEW_ROWS:
        room = np.empty(X.shape[1])
        for i in range(len(X)):
            scores[i] = _walk(X[i], forest, _start(X[i], forest, room))
        return
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
            bits[: 1 + (size[tree] >> 6), :n] = ALL_BITS
            for split in range(first, first + size[tree]):
                x, cut, its_kind = cells[feature[split]], value[split], kind[split]
                for word in range(begin[split] >> 6, ((end[split] - 1) >> 6) + 1):
                    keep = ALL_BITS
                    if begin[split] > word << 6:
                        keep <<= np.uint64(begin[split] & 63)
                    if end[split] < (word + 1) << 6:
                        keep &= (ONE << np.uint64(end[split] & 63)) - ONE
                    clear(bits[word], ~keep, n, x, cut, its_kind, True, words)
            for i in range(n):
                word = 0
                while bits[word, i] == NO_BITS:
                    word += 1
                out[i] += leaf[first + tree + (word << 6) + lowest_bit(bits[word, i])]
            first += size[tree]


@part_of_loop
def _start(x, forest, scaled):
    """Return the score of a row without the trees; `scaled` is room for its features."""
    mean, slope, width, landmarks, similarity = forest[:5]
    score = 0.0
    for k in range(len(x)):
        score += 0.0 if isnan(x[k]) else (x[k] - mean[k]) * slope[k]
        scaled[k] = 0.0 if isnan(x[k]) or width[k] == 0.0 else (x[k] - mean[k]) * width[k]
    for landmark in range(len(landmarks)):
        distance = 0.0
        for k in range(len(x)):
            distance += abs(scaled[k] - landmarks[landmark, k])
        score += similarity[landmark] * exp(-distance)
    return score


@part_of_loop
def _walk(x, forest, score):
    """Add the leaves to which a row goes, tree by tree.

    Splits are in pre-order: the left child is next, the right one comes after all on the left.
    """
    size, feature, value, kind, begin, end, leaf, words = forest[5:]
    first = 0
    for tree in range(len(size)):
        split, stop, number = first, first + size[tree], 0
        while split < stop and begin[split] == number:  # else the leaf is reached
            cell = x[feature[split]]
            if kind[split] == SET:
                goes_left = is_in_set(cell, value[split], words)
            elif kind[split] == MISSING_LEFT:
                goes_left = not cell > value[split]
            else:
                goes_left = cell <= value[split]
            if not goes_left:
                number = end[split]
                split += end[split] - begin[split]
            elif end[split] - begin[split] == 1:
                break
            else:
                split += 1
        score += leaf[first + tree + number]
        first = stop
    return score


class SortedSplits(NamedTuple):
    """The splits of a forest by feature and kind, those of numbers ascending: for single rows.

    A row goes right at the first splits of numbers, left at all others, so that one search finds
    all leaves that it does not reach. Trees have at most 64 leaves.
    """

    feature: Array  # (groups,)
    kind: Array  # (groups,)
    start: Array  # (groups + 1,), the first split of each group
    value: Array  # (splits,)
    tree: Array  # (splits,)
    keep: Array  # (splits,), bit i is 0 if leaf i of the tree is left of the split

    @classmethod
    def of(cls, forest: Forest) -> SortedSplits:
        """Sort the splits of a forest."""
        order = np.lexsort([forest.value, forest.kind, forest.feature])
        feature, kind = forest.feature[order], forest.kind[order]
        is_new = np.ones(len(order) + 1, dtype=bool)  # a group begins, or the splits end
        is_new[1:-1] = (feature[1:] != feature[:-1]) | (kind[1:] != kind[:-1])
        start = np.flatnonzero(is_new)
        ends = zip(forest.begin.tolist(), forest.end.tolist(), strict=True)
        left = np.array([(1 << end) - (1 << begin) for begin, end in ends], dtype=np.uint64)
        return cls(
            feature=feature[start[:-1]],
            kind=kind[start[:-1]],
            start=start,
            value=forest.value[order],
            tree=np.repeat(np.arange(len(forest.size)), forest.size)[order],
            keep=~left[order],
        )


MOST_LEAVES = 64  # of a tree whose splits are sorted: down larger ones, walking is faster


@alone
def rate_row(x, largest, forest, splits, thresholds, scaled, bits, score):
    """Write the score of a row, and return its rank; -1 if a number or the score is too large.

    `splits` is None if there are large trees. `scaled` and `bits` are room for its features and for
    the leaves that it may reach, a word for each tree.
    """
    for k in range(len(x)):
        if abs(x[k]) > largest:
            return -1
    total = _start(x, forest, scaled)
    total = _walk(x, forest, total) if splits is None else _look_up(x, forest, splits, bits, total)
    score[0] = total
    if not isfinite(total):
        return -1
    rank = 0
    while rank < len(thresholds) and thresholds[rank] <= total:
        rank += 1
    return rank


@part_of_loop
def _look_up(x, forest, splits, bits, score):
    """Add the leaves to which a row goes: clear the bits of all others."""
    size, leaf, words = forest.size, forest.leaf, forest.words
    feature, kind, start, value, tree, keep = splits
    for j in range(len(size)):
        bits[j] = ALL_BITS
    for group in range(len(feature)):
        cell, first, stop = x[feature[group]], start[group], start[group + 1]
        if kind[group] == SET:
            for i in range(first, stop):
                bits[tree[i]] &= ALL_BITS if is_in_set(cell, value[i], words) else keep[i]
            continue
        if isnan(cell):
            stop = first if kind[group] == MISSING_LEFT else stop
        else:
            low = first  # search for the first split with a value that is not below
            while low < stop:
                middle = (low + stop) >> 1
                if value[middle] < cell:
                    low = middle + 1
                else:
                    stop = middle
        for i in range(first, stop):
            bits[tree[i]] &= keep[i]
    first = 0
    for j in range(len(size)):
        score += leaf[first + lowest_bit(bits[j])]
        first += size[j] + 1
    return score
