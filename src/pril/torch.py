"""A network learns from ranges: a head, a loss, and shares of offsets. Needs PyTorch.

The head turns a score f into logits ``theta_k - f``, so that ``P(y <= k) = sigmoid(logit_k)``. The
loss of a row is ``-log P(lo <= y <= hi)``, as in `OrderedLogit`. It takes the two logits of each
row and no others: given thresholds, memory does not grow with the number of classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pril.core.coarsening import MOST_STEPS, OFFSETS
from pril.errors import InputError, InputTypeError, MissingExtraError, RowError

try:
    import torch
    from torch import Tensor, nn
    from torch.nn import functional
except ImportError as error:  # pragma: no cover - the extra is missing
    raise MissingExtraError("pril.torch needs PyTorch", "torch") from error

__all__ = ["CumulativeLogits", "OffsetShares", "RangeLoss", "range_loss"]

WIDEST = MOST_STEPS + 1  # classes of a range that offsets make
Reduction = Literal["none", "mean", "sum"]


class CumulativeLogits(nn.Module):
    """The head of a network: a score becomes logits that ascend with the classes.

    Parameters
    ----------
    n_classes : int
        The number of classes.
    shares : sequence of float, default=None
        The share of each class, at which the thresholds begin. None: all are equal.

    Examples
    --------
    >>> import torch
    >>> from pril.torch import CumulativeLogits
    >>> head = CumulativeLogits(4)
    >>> head(torch.zeros(2)).shape
    torch.Size([2, 3])
    >>> head.probabilities(torch.zeros(1)).detach()
    tensor([[0.2500, 0.2500, 0.2500, 0.2500]])
    """

    def __init__(self, n_classes: int, shares: Sequence[float] | None = None) -> None:
        super().__init__()
        if not hasattr(n_classes, "__index__") or n_classes < 2:
            raise InputError(f"n_classes must be a whole number of at least 2, got {n_classes!r}")
        given = [1.0] * n_classes if shares is None else shares
        sizes = torch.as_tensor(given, dtype=torch.float64)
        if sizes.shape != (n_classes,) or not bool((sizes > 0).all() & sizes.isfinite().all()):
            raise InputError(f"shares must be {n_classes} positive numbers, got {shares!r}")
        start = torch.logit((sizes / sizes.sum()).cumsum(0)[:-1])
        gaps = torch.log(torch.expm1(start.diff()))  # the inverse of softplus
        real = torch.get_default_dtype()
        self.first = nn.Parameter(start[:1].to(real))
        self.gaps = nn.Parameter(gaps.to(real))

    @property
    def thresholds(self) -> Tensor:
        """The thresholds, ascending."""
        return torch.cat([self.first, self.first + functional.softplus(self.gaps).cumsum(0)])

    def forward(self, score: Tensor) -> Tensor:
        """Return the logits of P(y <= k) for scores of shape (n,) or (n, 1)."""
        return self.thresholds - _column(score)

    def probabilities(self, score: Tensor) -> Tensor:
        """Return the probability of each class, lowest first."""
        logits = self(score)
        ends = torch.full_like(logits[:, :1], torch.inf)
        return torch.sigmoid(torch.cat([-ends, logits, ends], dim=1)).diff(dim=1)


class OffsetShares(nn.Module):
    """How raters widen a class to two or three: the same offsets at every class.

    A class y becomes y - a to y + b, cut off at the ends of the scale, with the share of the offset
    (a, b) over the sum of those that leave a range at y. Learn it with the network if no labels, or
    few, are exact: pass it to `RangeLoss`.

    Examples
    --------
    >>> from pril.torch import OffsetShares
    >>> OffsetShares().shares.detach()
    tensor([0.2000, 0.2000, 0.2000, 0.2000, 0.2000])
    """

    def __init__(self) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(len(OFFSETS)))

    @property
    def shares(self) -> Tensor:
        """The shares of (0, 1), (1, 0), (0, 2), (1, 1) and (2, 0): classes below and above."""
        return torch.softmax(self.logits, dim=0)

    def chances(self, n_classes: int) -> Tensor:
        """Return P(range | class) of ranges of two and three classes: (2, lowest class, class)."""
        device = self.logits.device
        down, up = torch.tensor(OFFSETS, device=device).T
        rank = torch.arange(n_classes, device=device)[:, None]
        low, high = (rank - down).clamp(min=0), (rank + up).clamp(max=n_classes - 1)
        drawn = torch.softmax(self.logits.masked_fill(low == high, -torch.inf), dim=1)
        width, first, place = torch.meshgrid(
            *(torch.arange(size, device=device) for size in (2, n_classes, WIDEST)), indexing="ij"
        )
        y = (first + place).clamp(max=n_classes - 1)
        made = (low[y] == first[..., None]) & (high[y] == (first + width + 1)[..., None])
        return (made * drawn[y]).sum(-1) * (place < width + 2)


def range_loss(
    scores: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    thresholds: Tensor | None = None,
    offsets: OffsetShares | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    """Return the negative log-likelihood of exact labels and ranges.

    Parameters
    ----------
    scores : Tensor of shape (n, n_classes - 1), (n,) or (n, 1)
        The logits of `CumulativeLogits` or, if `thresholds` are given, scores. Half precision is
        summed in float32.
    target : Tensor of shape (n,) or (n, 2)
        The rank of the class, or the lowest and the highest. A negative end is open. If both are
        negative, the row has no label: its loss is 0, and no mean counts it.
    weight : Tensor of shape (n,), default=None
        Weight of each row.
    thresholds : Tensor of shape (n_classes - 1,), default=None
        Those of the head. With them, no matrix of all rows and classes is made.
    offsets : OffsetShares, default=None
        How ranges of two or three classes arise. None: each class of a range is given it equally
        often.
    reduction : {"mean", "sum", "none"}, default="mean"
        The mean is weighted, and 0 without labels.

    Returns
    -------
    loss : Tensor
        One number or, with "none", one for each row.

    Examples
    --------
    >>> import torch
    >>> from pril.torch import range_loss
    >>> logits = torch.tensor([[-1.0, 1.0], [0.0, 2.0]])
    >>> range_loss(logits, torch.tensor([[0, 1], [2, -1]]), reduction="none")
    tensor([0.3133, 2.1269])
    """
    if reduction not in ("none", "mean", "sum"):
        raise InputError(f"reduction must be 'none', 'mean' or 'sum', got {reduction!r}")
    K, lo, hi, labelled = _read(scores, target, thresholds)
    cuts = _in_full(scores if thresholds is None else thresholds)
    f = None if thresholds is None else _in_full(_column(scores))
    log = _log_between(cuts, f, lo, hi)
    if offsets is not None:
        more = hi - lo - 1
        given = offsets.chances(K).to(log.dtype)[more.clamp(0, WIDEST - 2), lo]
        classes = [(lo + j).clamp(max=K - 1) for j in range(WIDEST)]
        parts = torch.stack([_log_between(cuts, f, y, y) for y in classes], dim=1)
        parts = parts + torch.where(given > 0, given, 1.0).log()
        parts = parts.masked_fill(given == 0, -torch.inf)
        narrow = labelled & (more >= 0) & (more < WIDEST - 1)
        log = torch.where(narrow, parts.logsumexp(1), log)
    # The logarithm of a row without a label is 0.
    loss = -log if weight is None else -log * _checked(weight, len(log))
    if reduction == "none":
        return loss
    if reduction == "sum":
        return loss.sum()
    whole = labelled.sum() if weight is None else (labelled * weight).sum()
    return loss.sum() / (whole + (whole == 0))


class RangeLoss(nn.Module):
    """`range_loss` as a module; the shares of offsets, if there are any, are its parameters.

    Parameters
    ----------
    reduction : {"mean", "sum", "none"}, default="mean"
        As in `range_loss`.
    offsets : OffsetShares, default=None
        As in `range_loss`.

    Examples
    --------
    >>> import torch
    >>> from pril.torch import CumulativeLogits, RangeLoss
    >>> head, loss = CumulativeLogits(3), RangeLoss()
    >>> scores = torch.zeros(4, requires_grad=True)      # of a network
    >>> target = torch.tensor([[0, 0], [1, 2], [-1, 1], [-1, -1]])
    >>> loss(head(scores), target)
    tensor(0.6365, grad_fn=<DivBackward0>)
    >>> loss(scores, target, thresholds=head.thresholds)  # the same, for very many rows
    tensor(0.6365, grad_fn=<DivBackward0>)
    """

    def __init__(self, reduction: Reduction = "mean", offsets: OffsetShares | None = None) -> None:
        super().__init__()
        self.reduction, self.offsets = reduction, offsets

    def forward(
        self,
        scores: Tensor,
        target: Tensor,
        weight: Tensor | None = None,
        thresholds: Tensor | None = None,
    ) -> Tensor:
        """Return the loss; the arguments are those of `range_loss`."""
        return range_loss(
            scores,
            target,
            weight,
            thresholds=thresholds,
            offsets=self.offsets,
            reduction=self.reduction,
        )


def _column(scores: Tensor) -> Tensor:
    """Return scores as one column; several of a row would be taken for rows."""
    n = len(scores)
    if scores.shape not in ((n,), (n, 1)):
        raise InputError(f"scores must have shape (n,) or (n, 1), got {scores.shape}")
    return scores.reshape(-1, 1)


def _in_full(values: Tensor) -> Tensor:
    """Return numbers that sums may be made of."""
    return values.float() if values.dtype in (torch.float16, torch.bfloat16) else values


class _LogDifference(torch.autograd.Function):
    """log(sigmoid(b) - sigmoid(a)) in few steps: on a graphics card each one has to be started."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        # Where both are equal, the chance is tiny.
        gap = (b - a).clamp(min=torch.finfo(b.dtype).tiny)
        ctx.save_for_backward(a, b, gap)
        tails = functional.logsigmoid(b) + functional.logsigmoid(-a)
        return tails + torch.log(-torch.expm1(-gap))

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, Tensor]:
        a, b, gap = ctx.saved_tensors
        apart = 1.0 / torch.expm1(gap)
        return -slope * (torch.sigmoid(a) + apart), slope * (torch.sigmoid(-b) + apart)


def _log_between(cuts: Tensor, f: Tensor | None, lo: Tensor, hi: Tensor) -> Tensor:
    """Return log P(lo <= y <= hi); `cuts` are thresholds with scores f, or logits."""
    last = cuts.shape[-1] - 1
    places = torch.stack([lo - 1, hi], dim=1).clamp(0, last)
    logits = cuts.gather(1, places) if f is None else cuts[places] - f
    a = logits[:, 0].masked_fill(lo == 0, -torch.inf)
    b = logits[:, 1].masked_fill(hi > last, torch.inf)
    if a.device.type == "cpu":  # a graphics card would have to wait
        _refuse_row("scores", a > b, "its logits do not ascend with the classes")
    return _LogDifference.apply(a, b)


def _refuse_row(name: str, wrong: Tensor, reason: str, values: Tensor | None = None) -> None:
    """Raise an error that names the first wrong row."""
    if bool(wrong.any()):
        row = int(wrong.int().argmax())
        value = "" if values is None else f"{values[row].tolist()} "
        raise RowError(name, row, value + reason)


def _checked(weight: Tensor, n: int) -> Tensor:
    """Return weights; refuse what would be multiplied with other rows."""
    if weight.shape != (n,):
        raise InputError(f"weight must have shape ({n},), got {weight.shape}")
    if weight.device.type == "cpu":
        usable = (weight >= 0) & weight.isfinite()
        _refuse_row("weight", ~usable, "is not the weight of a row", weight)
    return weight


def _read(
    scores: Tensor, target: Tensor, thresholds: Tensor | None
) -> tuple[int, Tensor, Tensor, Tensor]:
    """Return the number of classes, those of each row's range, and which rows have a label."""
    n = len(scores)
    if thresholds is None and scores.ndim != 2:
        raise InputError(f"scores must be logits, or come with thresholds; got {scores.shape}")
    if not scores.is_floating_point():
        raise InputTypeError(f"scores must be floating-point numbers, got {scores.dtype}")
    if thresholds is not None and thresholds.ndim != 1:
        raise InputError(f"thresholds must have shape (n_classes - 1,), got {thresholds.shape}")
    K = (scores.shape[1] if thresholds is None else len(thresholds)) + 1
    if target.shape not in ((n,), (n, 2)):
        raise InputError(f"target must have shape ({n},) or ({n}, 2), got {target.shape}")
    if target.is_floating_point() or target.dtype == torch.bool:
        raise InputTypeError(f"target must hold ranks as integers, got {target.dtype}")
    ends = target.long() if target.ndim == 2 else target.long()[:, None]
    lo, hi = ends[:, 0], ends[:, -1]
    labelled = ends.amax(dim=1) >= 0
    lo, hi = lo.clamp(min=0), torch.where(hi < 0, K - 1, hi)
    if target.device.type == "cpu":
        reason = f"is not a range of the ranks 0 to {K - 1}"
        _refuse_row("target", (lo > hi) | (hi >= K), reason, target)
    return K, lo, hi, labelled
