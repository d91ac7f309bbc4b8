"""The compiled passes of `OrderedBoosting`: what labels say of scores, and scores of rows.

Ranks are 0..K-1. The kinds of labels that occur are numbered; row i has kind ``group[i]``. Cut k is
the threshold below class k. The chances M of labels are those of `pril.likelihood`: kind u has them
from number ``first[u]`` on, one for each of its classes, or none if ``first[u]`` is -1.
"""

from __future__ import annotations

from math import exp, expm1, inf, isfinite, isnan, log
from typing import Any, NamedTuple

import numpy as np

from pril.online.code_cache import alone, cached, part_of_loop

compiled: Any = cached(nogil=True, error_model="numpy")

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


class Rows(NamedTuple):
    """What is known of each row beside its features."""

    ends: Any  # (kinds, 2), the lowest and the highest rank of each kind of label
    first: Any  # (kinds,), the first of its chances; -1 if they are alike
    group: Any  # (n,), the kind of a row's range
    weight: Any  # (n,)
    fold: Any  # (n,)


# --- Features ---


@compiled
def last_of_bins(counts, most):
    """Cut sorted distinct values, given how often each occurs, into a limited number of bins.

    Returns the position of the last value of each bin but the last one. A value that occurs more
    often than a bin of average size has one to itself; the others share the rest evenly.
    """
    n, ends, n_ends = len(counts), np.empty(most, dtype=np.int64), 0
    if n <= most:
        return np.arange(n - 1)
    average = counts.sum() / most
    is_large = counts >= average
    rows, bins = counts[~is_large].sum(), most - is_large.sum()
    average, inside = rows / max(bins, 1), 0
    for i in range(n - 1):
        inside += counts[i]
        if not is_large[i]:
            rows -= counts[i]
        is_half_full = is_large[i + 1] and inside >= max(1.0, average / 2.0)
        if is_large[i] or inside >= average or is_half_full:
            ends[n_ends] = i
            n_ends += 1
            if n_ends == most - 1:
                break
            if not is_large[i]:
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
def fill_gradients(e, start, left_out, odds, M, rows, haste, gradient, hessian):
    """Write the gradients of rows, those of one fold as 0.

    The rows begin at number `start`; `e` is exp(score) of each, and `odds` are exp(-cut). Haste is
    what the learning rate is multiplied by and the l2 penalty divided by.
    """
    ends, first, group, weight, fold = rows
    for t in range(len(e)):
        i = start + t
        w = 0.0 if fold[i] == left_out else weight[i] * haste
        u = group[i]
        low, high = ends[u, 0], ends[u, 1]
        a, above = sides(e[t] * odds[low])
        b, over = sides(e[t] * odds[high + 1])
        g, h = over - a, a * above + b * over
        if first[u] >= 0:  # expected over the classes of the label
            z = g = h = 0.0
            for y in range(low, high + 1):
                b, over = sides(e[t] * odds[y + 1])
                r = M[first[u] + y - low] * max(b * above - a * over, 0.0)
                z += r
                g += r * (over - a)
                h += r * (a * above + b * over)
                a, above = b, over
            z = max(z, LEAST_LIKELIHOOD)
            g, h = g / z, h / z
        gradient[i] = w * haste * g
        hessian[i] = w * max(h, LEAST_HESSIAN)


@compiled
def write_slopes(scores, cuts, rows, is_out, M, value, slope, by_cut):
    """Write the log-likelihood of several models, and its derivatives.

    Model j has the scores ``scores[:, j]`` and the cuts ``cuts[j]``, of which the outer ones are
    infinite; it leaves out the folds of which ``is_out[j]`` is true. Derivatives are by each score,
    and by the cuts, which are zeros at first. If chances are alike, a likelihood is a product,
    right in both tails.
    """
    ends, first, group, weight, fold = rows
    n_models = len(cuts)
    width, pull = np.empty((n_models, len(ends))), np.empty((n_models, len(ends)))
    for j in range(n_models):
        value[j] = 0.0
        for u in range(len(ends)):
            gap = cuts[j, ends[u, 1] + 1] - cuts[j, ends[u, 0]]
            width[j, u] = log(-expm1(-gap))
            pull[j, u] = 1.0 / expm1(gap) if gap < 700.0 else 0.0
    for i in range(len(scores)):
        u = group[i]
        low, high = ends[u, 0], ends[u, 1]
        for j in range(n_models):
            slope[i, j] = 0.0
            w = weight[i]
            if w == 0.0 or (fold[i] >= 0 and is_out[j, fold[i]]):
                continue
            f = scores[i, j]
            if first[u] < 0:
                c, d = f - cuts[j, low], f - cuts[j, high + 1]
                p, q = exp(-abs(c)), exp(-abs(d))
                log_z = width[j, u] + min(c, 0.0) - max(d, 0.0) - log((1.0 + p) * (1.0 + q))
                below = (p if c > 0.0 else 1.0) / (1.0 + p)
                over = (1.0 if d > 0.0 else q) / (1.0 + q)
                value[j] += w * log_z
                slope[i, j] = w * (below - over)
                by_cut[j, low] -= w * (below + pull[j, u])
                by_cut[j, high + 1] += w * (over + pull[j, u])
                continue
            z = 0.0
            a, above = sides(exp(f - cuts[j, low]))
            for y in range(low, high + 1):
                b, over = sides(exp(f - cuts[j, y + 1]))
                z += M[first[u] + y - low] * b * above * -expm1(cuts[j, y] - cuts[j, y + 1])
                a, above = b, over
            z = max(z, LEAST_LIKELIHOOD)
            value[j] += w * log(z)
            last, total = 0.0, 0.0
            for k in range(low, high + 2):
                a, above = sides(exp(f - cuts[j, k]))
                own = M[first[u] + k - low] if k <= high else 0.0
                added = w * (last - own) * a * above / z
                by_cut[j, k] += added
                total += added
                last = own
            slope[i, j] = -total


class Cuts(NamedTuple):
    """Thresholds and chances, and what follows from them: see `cuts_of`."""

    odds: Any  # (K + 1,), exp(-cut)
    gaps: Any  # (K,), 1 - exp(cut - next cut), of each class
    widths: Any  # (kinds,), the same from end to end of each kind
    M: Any


def cuts_of(theta: Any, M: Any, ends: Any) -> Cuts:
    """Return the cuts of thresholds and chances."""
    cut = np.concatenate([[-np.inf], theta, [np.inf]])
    gaps = -np.expm1(cut[:-1] - cut[1:])
    return Cuts(np.exp(-cut), gaps, -np.expm1(cut[ends[:, 0]] - cut[ends[:, 1] + 1]), M)


@compiled
def write_likelihoods(e, group, ends, first, cuts, z):
    """Write the likelihood of rows; e is exp(score) of each."""
    odds, gaps, widths, M = cuts
    for i in range(len(e)):
        u = group[i]
        low, high = ends[u, 0], ends[u, 1]
        _, above = sides(e[i] * odds[low])
        if first[u] < 0:
            below, _ = sides(e[i] * odds[high + 1])
            z[i] = below * above * widths[u]
            continue
        z[i] = 0.0
        for y in range(low, high + 1):
            below, over = sides(e[i] * odds[y + 1])
            z[i] += M[first[u] + y - low] * below * above * gaps[y]
            above = over


@compiled
def add_kind_sums(Z, e, group, weight, ends, first, cuts, z_of, sums):
    """Write the likelihood of rows with features Z, and add what they say; e is exp(score) of each.

    The sums are those of `pril.likelihood.sums.KindSums`.
    """
    by_w, by_ww, by_w_local, first_sums, outer, second, mixed = sums
    odds, gaps, widths, M = cuts
    m, d, n_all = second.shape[1], Z.shape[1], len(odds)
    place, part = np.empty(2 * m, dtype=np.int64), np.empty(2 * m)
    tilt, density = np.empty(m), np.empty(m)
    for i in range(len(e)):
        u, w = group[i], weight[i]
        low, high = ends[u, 0], ends[u, 1]
        varies = first[u] >= 0
        n_cuts = high - low + 2 if varies else 2
        z, n, last_above = 0.0, n_cuts, 0.0
        for c in range(n_cuts):
            below, above = sides(e[i] * odds[low + c if varies else (low, high + 1)[c]])
            density[c], tilt[c], place[c] = below * above, above - below, c
            if c > 0:
                p = below * last_above * (gaps[low + c - 1] if varies else widths[u])
                part[n_cuts + c - 1] = p
                z += p * (M[first[u] + c - 1] if varies else 1.0)
            last_above = above
        z_of[i] = z = max(z, LEAST_LIKELIHOOD)
        last = 0.0
        for c in range(n_cuts):
            own = 0.0 if c == n_cuts - 1 else M[first[u] + c] if varies else 1.0
            part[c] = (last - own) * density[c] / z
            second[u, c] += w * part[c] * tilt[c]
            last = own
        if varies:
            n = 2 * n_cuts - 1
            for c in range(n_cuts):
                mixed[u, c] += w * density[c] / z
            for c in range(n_cuts - 1):
                part[n_cuts + c] /= z
                place[n_cuts + c] = m + c
        whole = curve = 0.0
        for c in range(n_cuts):
            whole += part[c]
            curve -= part[c] * tilt[c]
        curve += whole * whole
        for j in range(d):
            by_w[j] -= Z[i, j] * w * whole
            for k in range(d):
                by_ww[j, k] += Z[i, j] * Z[i, k] * w * curve
            for c in range(n_cuts):
                k = low + c if varies else (low, high + 1)[c]
                by_w_local[j, k] += Z[i, j] * w * part[c] * (tilt[c] - whole)
            for c in range(n - n_cuts):
                change = (density[c + 1] - density[c]) / z - whole * part[n_cuts + c]
                by_w_local[j, n_all + first[u] + c] += Z[i, j] * w * change
        for a in range(n):
            first_sums[u, place[a]] += w * part[a]
            for b in range(a, n):
                outer[u, place[a], place[b]] += w * part[a] * part[b]


# --- Scores ---


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

    feature: Any  # (groups,)
    kind: Any  # (groups,)
    start: Any  # (groups + 1,), the first split of each group
    value: Any  # (splits,)
    tree: Any  # (splits,)
    keep: Any  # (splits,), bit i is 0 if leaf i of the tree is left of the split

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
