"""Kernel PRIL with an RBF kernel on a CUDA device, by Triton; few kernel values are written.

The blocks and the decisions are those of `KernelEngine`, and all of it stays on the device.
For each block, `_add_scores` sums kernel values times coefficients over all support rows and
writes the sums alone, `_learn_block` runs the loop over the block's own kernel matrix, and
`_append` copies the rows that became support rows. The loop is one program, whose state is in
registers; each of its warps has a copy of it, because sums within a warp need no shared memory.

A kernel value is ``exp2(a . b - |a|^2 / 2 - |b|^2 / 2)`` of scaled rows a and b. Tensor cores have
no float32: a float32 row is the sum of two float16 rows, high and low, and the product of two rows
is the sum of three products, the small ones first. float64 rows are multiplied as they are.
"""

from __future__ import annotations

import math
import warnings
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
import triton
import triton.language as tl

if TYPE_CHECKING:
    from pril.kernels.kernel_engine import Support

BLOCK = 1024  # rows learned at a time
GRAMS = 32  # the kernel matrices of this many blocks are computed together
WARPS = 4  # of the program that learns a block
SLICE = 16  # rows whose part in the later scores it adds at a time
WIDEST = 64  # columns of a product; wider rows take several
MAX_CUTS = 1024
# The largest distance of rows from the first one at which rounding does not affect kernel values.
MAX_ROUNDING = 1e-4


# --- Rows as the device multiplies them ----------------------------------------------------------


class Operands(NamedTuple):
    """Rows, scaled so that two of them give log2 of their kernel value."""

    parts: torch.Tensor  # (n, columns), float64; or (n, 2 columns), float16: high and low parts
    half: torch.Tensor  # (n,), -|row|^2 / 2
    columns: int  # features, and zeros up to a size that products can have

    @classmethod
    def of(cls, X: torch.Tensor, origin: torch.Tensor, gamma: float) -> Operands:
        """Return the operands of rows, measured from an origin."""
        scaled = (X - origin) * math.sqrt(2.0 * gamma * math.log2(math.e))
        d = X.shape[1]
        columns = max(16, triton.next_power_of_2(d)) if d <= WIDEST else -(-d // WIDEST) * WIDEST
        high = torch.nn.functional.pad(scaled, (0, columns - d))
        half = -0.5 * (scaled * scaled).sum(1)
        if X.dtype == torch.float64:
            return cls(high, half, columns)
        low = high - high.half().float()
        return cls(torch.cat([high.half(), low.half()], dim=1), half, columns)

    def with_room(self, n: int) -> Operands:
        """Return a copy with room for n more rows."""
        parts = torch.nn.functional.pad(self.parts, (0, 0, 0, n))
        return self._replace(parts=parts, half=torch.nn.functional.pad(self.half, (0, n)))

    def are_close(self) -> bool:
        """Tell whether rounding does not affect kernel values and rows are in float16's range."""
        farthest = -float(self.half.min()) if len(self.half) else 0.0
        return bool(farthest * torch.finfo(self.half.dtype).eps <= MAX_ROUNDING)


@triton.jit
def _load_parts(at, COLUMNS: tl.constexpr, SPLIT: tl.constexpr):
    """Load rows of operands: high and low parts, or the same twice."""
    high = tl.load(at)
    low = high
    if SPLIT:
        low = tl.load(at + COLUMNS)
    return high, low


@triton.jit
def _add_product(total, a_high, a_low, b_high, b_low, SPLIT: tl.constexpr):
    """Add a b' to a total, small terms first: sums are cut at the last bit of the largest term."""
    if SPLIT:
        total = tl.dot(a_low, tl.trans(b_high), total)
        total = tl.dot(a_high, tl.trans(b_low), total)
    return tl.dot(a_high, tl.trans(b_high), total, out_dtype=total.dtype)


@triton.jit
def _add_scores(
    rows_parts,
    rows_half,
    chosen,
    support_parts,
    support_half,
    coef,
    n_support,
    sums,
    n,
    COLUMNS: tl.constexpr,
    WIDTH: tl.constexpr,
    SPLIT: tl.constexpr,
    ROWS: tl.constexpr,
    SUPPORT: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Write the chosen rows' scores under a share of the support rows: one of `sums`' rows."""
    share = tl.program_id(1)
    n_shares = tl.num_programs(1)
    STRIDE: tl.constexpr = 2 * COLUMNS if SPLIT else COLUMNS
    m = tl.load(n_support)
    place = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    row = tl.load(chosen + place, mask=place < n, other=0).to(tl.int64)
    k = tl.arange(0, WIDTH)
    a = rows_parts + row[:, None] * STRIDE + k[None, :]
    a_half = tl.load(rows_half + row)
    if COLUMNS == WIDTH:
        a_high, a_low = _load_parts(a, COLUMNS, SPLIT)
    total = tl.zeros([ROWS], a_half.dtype)
    tiles = tl.cdiv(m, SUPPORT)
    for tile in tl.range(
        tiles * share // n_shares, tiles * (share + 1) // n_shares, num_stages=STAGES
    ):
        other = tile * SUPPORT + tl.arange(0, SUPPORT)
        b = support_parts + other[:, None].to(tl.int64) * STRIDE + k[None, :]
        exponent = tl.zeros([ROWS, SUPPORT], a_half.dtype)
        if COLUMNS == WIDTH:
            b_high, b_low = _load_parts(b, COLUMNS, SPLIT)
            exponent = _add_product(exponent, a_high, a_low, b_high, b_low, SPLIT)
        else:
            for first in range(0, COLUMNS, WIDTH):
                a_high, a_low = _load_parts(a + first, COLUMNS, SPLIT)
                b_high, b_low = _load_parts(b + first, COLUMNS, SPLIT)
                exponent = _add_product(exponent, a_high, a_low, b_high, b_low, SPLIT)
        exponent += a_half[:, None] + tl.load(support_half + other)[None, :]
        weight = tl.load(coef + other, mask=other < m, other=0.0).to(a_half.dtype)
        total += tl.sum(tl.exp2(exponent) * weight[None, :], 1)
    tl.store(sums + share * n + place, total, mask=place < n)


# How `_add_scores` divides its work; measured by benchmarks/kernel_speed.py.
FLOAT32 = {"ROWS": 128, "SUPPORT": 64, "num_warps": 4, "STAGES": 3}
FLOAT64 = {"ROWS": 64, "SUPPORT": 64, "num_warps": 4, "STAGES": 2}


def add_scores(
    rows: Operands,
    chosen: torch.Tensor,
    support: Operands,
    coef: torch.Tensor,
    n_support: torch.Tensor,
    sums: torch.Tensor,
) -> None:
    """Write the chosen rows' scores to `sums`, a row for each share of the support rows."""
    split = rows.half.dtype == torch.float32
    shapes = FLOAT32 if split else FLOAT64
    n = len(chosen)
    _add_scores[triton.cdiv(n, shapes["ROWS"]), len(sums)](
        rows.parts,
        rows.half,
        chosen,
        support.parts,
        support.half,
        coef,
        n_support,
        sums,
        n,
        COLUMNS=rows.columns,
        WIDTH=min(rows.columns, WIDEST),
        SPLIT=split,
        **shapes,
    )


# --- Learning ------------------------------------------------------------------------------------


@triton.jit
def _pick(values, here):
    """Return the value that is here, in each copy.

    A warp adds integers in one instruction, floats in ten: so the bits are added.
    """
    if values.dtype == tl.float32:
        bits = tl.where(here, values.to(tl.int32, bitcast=True), 0)
        picked = tl.sum(bits, 1).to(tl.float32, bitcast=True)
    else:
        bits = tl.where(here, values.to(tl.int64, bitcast=True), 0)
        low = tl.sum((bits & 0xFFFFFFFF).to(tl.int32), 1).to(tl.int64) & 0xFFFFFFFF
        high = tl.sum((bits >> 32).to(tl.int32), 1).to(tl.int64)
        picked = ((high << 32) | low).to(tl.float64, bitcast=True)
    return picked[:, None]


@triton.jit
def _learn_block(
    sums,
    values,
    labels,
    chosen,
    places,
    thresholds,
    moves,
    counts,
    n_support,
    scratch,
    steps,
    coef,
    coef_moves,
    source,
    n,
    SHARES: tl.constexpr,
    SIZE: tl.constexpr,
    CUTS: tl.constexpr,
    LANES: tl.constexpr,
    COPIES: tl.constexpr,
    SLICE: tl.constexpr,
):
    """Learn from a block: 32 rows at a time, then what they add to the scores of the later ones."""
    row = tl.arange(0, SIZE)
    copy = tl.zeros([COPIES, 1], tl.int32)
    near = copy + tl.arange(0, 32)[None, :]
    cut = copy + tl.arange(0, LANES)[None, :]
    first_copy = tl.arange(0, COPIES)[:, None] == 0
    total = tl.zeros([SIZE], tl.float64)
    for share in range(SHARES):
        total += tl.load(sums + share * SIZE + row).to(tl.float64)
    score = total.to(values.dtype.element_ty)
    tl.store(scratch + row, score)
    theta = tl.load(thresholds + cut)
    moved = tl.load(moves + cut)
    before = tl.load(counts)
    t = before.to(tl.float64)
    mistakes = copy
    updates = copy
    tl.debug_barrier()
    for start in range(0, SIZE, 32):
        s = tl.load(scratch + start + near)
        step = tl.zeros_like(s)
        value = tl.load(values + start * SIZE + start + near)
        label = tl.load(labels + start)
        for r in range(32):
            later = start + tl.minimum(r + 1, 31)
            value_later = tl.load(values + later * SIZE + start + near)
            label_later = tl.load(labels + later)
            f = _pick(s, near == r)
            left = (cut < (label & 0xFFFF)) & (f <= theta)
            right = (cut >= (label >> 16)) & (cut < CUTS) & (f >= theta)
            tau = left.to(tl.int32) - right.to(tl.int32)
            both = tl.sum(left.to(tl.int32) + (right.to(tl.int32) << 16), 1)[:, None]
            alpha = (both & 0xFFFF) - (both >> 16)
            violated = (both & 0xFFFF) + (both >> 16)
            s += alpha.to(s.dtype) * value
            theta -= tau.to(theta.dtype)
            moved += t * tau.to(tl.float64)
            t += 1.0
            step = tl.where(near == r, alpha.to(s.dtype), step)
            mistakes += (violated > 0).to(tl.int32)
            updates += violated
            value = value_later
            label = label_later
        tl.store(steps + start + near, step, mask=first_copy)
        tl.debug_barrier()
        for part in tl.static_range(32 // SLICE):
            these = start + part * SLICE + tl.arange(0, SLICE)
            at = values + these[None, :] * SIZE + row[:, None]
            block = tl.load(at, mask=(row >= start + 32)[:, None], other=0.0)
            score += tl.sum(block * tl.load(steps + these)[None, :], 1)
        tl.store(scratch + row, score, mask=(row >= start + 32) & (row < start + 64))
        tl.debug_barrier()
    tl.store(thresholds + cut, theta, mask=first_copy)
    tl.store(moves + cut, moved, mask=first_copy)
    one = first_copy & (copy == 0)
    tl.store(counts + copy, before + n, mask=one)
    tl.store(counts + 1 + copy, tl.load(counts + 1 + copy, mask=one) + mistakes, mask=one)
    tl.store(counts + 2 + copy, tl.load(counts + 2 + copy, mask=one) + updates, mask=one)

    step = tl.load(steps + row).to(tl.float64)
    origin = tl.load(chosen + row, mask=row < n, other=0)
    place = tl.load(places + origin)
    old = (step != 0.0) & (place >= 0)
    new = (step != 0.0) & (place < 0)
    n_before = tl.load(n_support)
    tl.store(n_support + 1, n_before + tl.sum(new.to(tl.int32)))
    place = tl.where(new, n_before + tl.cumsum(new.to(tl.int32), 0) - 1, place)
    step_before = step * (before + row).to(tl.float64)
    tl.store(coef + place, tl.load(coef + place, mask=old, other=0.0) + step, mask=old | new)
    step_before += tl.load(coef_moves + place, mask=old, other=0.0)
    tl.store(coef_moves + place, step_before, mask=old | new)
    tl.store(source + place, origin, mask=new)
    tl.store(places + origin, place, mask=new)


@triton.jit
def _append(
    source,
    parts,
    half,
    support_parts,
    support_half,
    n_support,
    STRIDE: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """Copy the operands of the rows that became support rows in a block."""
    place = tl.load(n_support) + tl.program_id(0) * 32 + tl.arange(0, 32)
    new = place < tl.load(n_support + 1)
    row = tl.load(source + place, mask=new, other=0).to(tl.int64)
    tl.store(support_half + place, tl.load(half + row, mask=new), mask=new)
    for first in range(0, STRIDE, WIDTH):
        k = first + tl.arange(0, WIDTH)
        value = tl.load(parts + row[:, None] * STRIDE + k[None, :], mask=new[:, None])
        at = support_parts + place[:, None].to(tl.int64) * STRIDE + k[None, :]
        tl.store(at, value, mask=new[:, None])


def learn(
    memory: Support, X: torch.Tensor, chosen: np.ndarray, intervals: np.ndarray, gamma: float
) -> Support | None:
    """Learn from the chosen rows of X, all of them labelled; None where rows are too far apart.

    Thresholds must be integers: rows of unequal weight are not for this function.
    """
    device, m, state = X.device, len(memory.source), memory.base.state
    n_cuts = len(state.n)
    origin = X[:1] if m == 0 else memory.rows[:1]
    rows, support = Operands.of(X, origin, gamma), Operands.of(memory.rows, origin, gamma)
    if not (rows.are_close() and support.are_close()):
        return None
    real, long = X.dtype, torch.int64
    places = torch.as_tensor(memory.places(len(X)), dtype=long, device=device)
    room = int((places < 0).sum())
    support = support.with_room(room + FLOAT32["SUPPORT"])
    coef, coef_moves = (torch.nn.functional.pad(part, (0, room)) for part in memory[1:3])
    source = torch.zeros(m + room, dtype=long, device=device)
    lanes = max(32, triton.next_power_of_2(n_cuts))
    thresholds = torch.zeros(lanes, dtype=real, device=device)
    thresholds[:n_cuts] = torch.as_tensor(-state.n, dtype=real, device=device)
    moves = torch.zeros(lanes, dtype=torch.float64, device=device)
    counts = torch.tensor([int(state.clock[0]), 0, 0], dtype=long, device=device)
    n, n_blocks = len(chosen), -(-len(chosen) // BLOCK)
    # Rows that fill the last block up have no constraint.
    labels = np.full(n_blocks * BLOCK, n_cuts << 16, dtype=np.int32)
    labels[:n] = intervals[:, 0] | (intervals[:, 1] << 16)
    labels = torch.as_tensor(labels, device=device)
    order = torch.zeros(n_blocks * BLOCK, dtype=long, device=device)
    order[:n] = torch.as_tensor(chosen, device=device)
    n_support = torch.full([n_blocks + 1], m, dtype=torch.int32, device=device)
    sums = torch.empty(32, BLOCK, dtype=real, device=device)
    scratch, steps = torch.empty(2, BLOCK, dtype=real, device=device)
    for b in range(n_blocks):
        if b % GRAMS == 0:
            grams = gram_matrices(X, order[b * BLOCK : (b + GRAMS) * BLOCK], origin, gamma)
        part = slice(b * BLOCK, (b + 1) * BLOCK)
        add_scores(rows, order[part], support, coef, n_support[b:], sums)
        _learn_block[1,](
            sums,
            grams[b % GRAMS],
            labels[part],
            order[part],
            places,
            thresholds,
            moves,
            counts,
            n_support[b:],
            scratch,
            steps,
            coef,
            coef_moves,
            source,
            min(BLOCK, n - b * BLOCK),
            SHARES=len(sums),
            SIZE=BLOCK,
            CUTS=n_cuts,
            LANES=lanes,
            COPIES=WARPS,
            SLICE=SLICE,
            num_warps=WARPS,
        )
        _append[BLOCK // 32,](
            source,
            rows.parts,
            rows.half,
            support.parts,
            support.half,
            n_support[b:],
            STRIDE=rows.parts.shape[1],
            WIDTH=min(rows.columns, WIDEST),
        )
    total = int(n_support[-1])
    new = source[m:total]
    origins = new.cpu().numpy()
    rounds, mistakes, updates = counts.tolist()
    state.n[:] = -thresholds[:n_cuts].cpu().numpy()
    state.clock[0] = rounds
    state.counts[:] += [n, mistakes, updates]
    if not memory.base.averages:
        coef_moves.zero_()
    else:
        state.mean_n[:] += moves[:n_cuts].cpu().numpy()
    return memory._replace(
        rows=torch.cat([memory.rows, X[new]]),
        coef=coef[:total].clone(),
        sums=coef_moves[:total].clone(),
        source=np.concatenate([memory.source, memory.origin + origins]),
    )


def gram_matrices(X: Any, chosen: Any, origin: Any, gamma: float) -> Any:
    """Return the kernel matrix of each block of the chosen rows."""
    rows = (X[chosen] - origin).view(-1, BLOCK, X.shape[1])
    squares = -gamma * (rows * rows).sum(2, keepdim=True)
    ones = torch.ones_like(squares)
    left = torch.cat([rows, squares, ones], dim=2)
    right = torch.cat([2.0 * gamma * rows, ones, squares], dim=2)
    return (left @ right.transpose(1, 2)).exp_()


# --- Predicting ----------------------------------------------------------------------------------


def scores(X: Any, rows: Any, coef: Any, gamma: float) -> Any:
    """Return the scores of X under support rows; None where rows are too far apart."""
    points, support = (Operands.of(part, rows[:1], gamma) for part in (X, rows))
    if not (points.are_close() and support.are_close()):
        return None
    n_shares = max(1, 64 * BLOCK // len(X)) if len(X) > 2 * BLOCK else 32
    sums = torch.empty(n_shares, len(X), dtype=X.dtype, device=X.device)
    n_support = torch.tensor([len(rows)], device=X.device)
    chosen = torch.arange(len(X), device=X.device)
    add_scores(points, chosen, support.with_room(FLOAT32["SUPPORT"]), coef, n_support, sums)
    return sums.sum(0, dtype=coef.dtype)


@cache
def works() -> bool:
    """Tell whether Triton compiles and runs a kernel here, which needs a C compiler, too."""
    X = torch.zeros(1, 1, device="cuda")
    try:
        scores(X, X, X[0].double(), 1.0)
    except Exception as error:
        warnings.warn(
            f"KernelPRIL is slower than it could be: Triton cannot compile its kernels: {error!r}",
            RuntimeWarning,
            stacklevel=2,
        )
        return False
    return True
