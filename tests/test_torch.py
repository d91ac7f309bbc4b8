"""`pril.torch` against NumPy and `OrderedLogit`. Skipped where PyTorch is missing."""

import doctest
import runpy
from pathlib import Path

import numpy as np
import pytest
from scipy.special import log_expit, logsumexp

from pril import OrderedLogit
from pril.errors import PrilError

torch = pytest.importorskip("torch", reason="pip install 'pril[torch]', or make test-torch")

import pril.torch  # noqa: E402
from pril.torch import CumulativeLogits, OffsetShares, RangeLoss, range_loss  # noqa: E402

INF = np.inf


def make_rows(n=60, K=6, seed=0):
    """Return scores, thresholds, and ranges of every kind: exact, open, of any width, no label."""
    rng = np.random.default_rng(seed)
    target = np.sort(rng.integers(0, K, (n, 2)), axis=1)
    target[::7, 0], target[1::7, 1], target[2::7] = -1, -1, -1
    target[3::7, 1] = target[3::7, 0]
    theta = np.cumsum(rng.uniform(0.05, 2.0, K - 1)) - K / 2
    return rng.normal(0, 3, n), theta, target


def log_chances(f, theta):
    """Return log P(y) as a product of which no digit cancels, of shape (n, K)."""
    cut = np.concatenate([[-INF], theta, [INF]])
    a, b = cut[:-1] - f[:, None], cut[1:] - f[:, None]
    return log_expit(b) + log_expit(-a) + np.log(-np.expm1(a - b))


def chance_of(u, y, shares, K):
    """Return P(range u | class y) by offsets, from their definition."""
    made = {o: (max(y - o[0], 0), min(y + o[1], K - 1)) for o in shares}
    left = sum(share for o, share in shares.items() if made[o][0] < made[o][1])
    return sum(share for o, share in shares.items() if made[o] == u) / left


def by_rows(f, theta, target, shares=None):
    """Return the log-likelihood of each row, 0 without a label; the slow way."""
    K, log = len(theta) + 1, log_chances(f, theta)
    out = np.zeros(len(f))
    for i, (lo, hi) in enumerate(target):
        if (lo, hi) == (-1, -1):
            continue
        lo, hi = max(lo, 0), hi if hi >= 0 else K - 1
        classes = np.arange(lo, hi + 1)
        M = np.ones(len(classes))
        if shares and 2 <= len(classes) <= 3:
            M = np.array([chance_of((lo, hi), y, shares, K) for y in classes])
        out[i] = logsumexp(log[i, classes], b=M) if (lo, hi) != (0, K - 1) or shares else 0.0
    return out


def tensors(f, theta, target, dtype=torch.float64):
    return torch.tensor(f, dtype=dtype), torch.tensor(theta, dtype=dtype), torch.tensor(target)


# --- The likelihood ------------------------------------------------------------------------------


@pytest.mark.parametrize("K", [2, 3, 6])
def test_the_loss_is_the_log_likelihood_of_ranges(K):
    f, theta, target = make_rows(K=K)
    wanted = -by_rows(f, theta, target)
    score, cuts, ends = tensors(f, theta, target)
    for input_, options in (
        (cuts - score[:, None], {}),
        (score, {"thresholds": cuts}),
        (score[:, None], {"thresholds": cuts}),
    ):
        found = range_loss(input_, ends, **options, reduction="none").numpy()
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)
    exact = target[:, 0]
    found = range_loss(score, torch.tensor(exact), thresholds=cuts, reduction="none")
    wanted = -by_rows(f, theta, np.column_stack([exact, exact]))
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("K", [2, 3, 7])
def test_offsets_share_out_narrow_ranges(K):
    f, theta, target = make_rows(K=K, seed=1)
    offsets = OffsetShares().double()
    with torch.no_grad():
        offsets.logits.copy_(torch.tensor([0.3, -0.8, 0.1, 1.1, -0.4]))
    shares = dict(zip(pril.torch.OFFSETS, offsets.shares.tolist(), strict=True))
    assert sum(shares.values()) == pytest.approx(1.0)
    score, cuts, ends = tensors(f, theta, target)
    found = range_loss(score, ends, thresholds=cuts, offsets=offsets, reduction="none")
    labelled = (target >= 0).any(axis=1)
    wanted = -by_rows(f, theta, target, shares) * labelled
    np.testing.assert_allclose(found.detach().numpy(), wanted, rtol=1e-12, atol=1e-12)


def test_it_is_largest_where_ordered_logit_ends():
    """The same maximum, by another optimiser, with weights."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(300, 2))
    y = np.digitize(X @ [1.0, -0.5] + rng.logistic(size=300), [-1.0, 0.5, 2.0])
    weight = rng.uniform(0.5, 2.0, 300)
    model = OrderedLogit(classes=range(4), coarsening="random", alpha=0.0)
    model.fit(X, y, sample_weight=weight)
    net, head = torch.nn.Linear(2, 1, bias=False).double(), CumulativeLogits(4).double()
    features, target, w = torch.tensor(X), torch.tensor(y), torch.tensor(weight)
    optimiser = torch.optim.LBFGS(
        [*net.parameters(), *head.parameters()],
        max_iter=60,
        tolerance_grad=1e-9,
        tolerance_change=1e-14,
        line_search_fn="strong_wolfe",
    )

    def closure():
        optimiser.zero_grad()
        loss = RangeLoss()(head(net(features)), target, w)
        loss.backward()
        return loss

    optimiser.step(closure)
    np.testing.assert_allclose(net.weight.detach().numpy()[0], model.coef_, atol=1e-5)
    np.testing.assert_allclose(head.thresholds.detach().numpy(), model.thresholds_, atol=1e-5)
    proba = head.probabilities(net(features)).detach().numpy()
    np.testing.assert_allclose(proba, model.predict_proba(X), atol=1e-5)


@pytest.mark.parametrize("far", [1.0, 1e3])
def test_the_loss_of_a_fitted_model_is_its_log_likelihood(far):
    """Of exact labels and ranges of any kind, also far from the thresholds."""
    rng = np.random.default_rng(3)
    X, w = rng.normal(0, [1.0, far], size=(200, 2)), rng.uniform(0.5, 2.0, 200)
    y = np.digitize(X @ [1.0, 1.0 / far] + rng.logistic(size=200), [-1.0, 0.5, 2.0])
    y = np.column_stack([y - rng.integers(0, 2, 200), y + rng.integers(0, 2, 200)]).clip(0, 3)
    model = OrderedLogit(classes=range(4), coarsening="random", alpha=0.0)
    model.fit(X, y, sample_weight=w)
    cuts, target = torch.tensor(model.thresholds_), torch.tensor(y)
    loss = range_loss(
        torch.tensor(model.latent(X)), target, torch.tensor(w), thresholds=cuts, reduction="sum"
    )
    assert float(loss) == pytest.approx(-model.loglik_, rel=1e-12)


def test_shares_of_raters_are_found():
    """Labels by known offsets, none exact: the shares are parameters as any others."""
    rng = np.random.default_rng(3)
    n, K, shares = 4000, 6, [0.55, 0.05, 0.25, 0.1, 0.05]
    x = rng.normal(0, 2, n)
    y = np.digitize(2 * x + rng.logistic(size=n), [-4.0, -2.0, 0.0, 2.0, 4.0])
    target = np.empty((n, 2), dtype=int)
    for i in range(n):
        while True:
            down, up = pril.torch.OFFSETS[rng.choice(5, p=shares)]
            target[i] = max(y[i] - down, 0), min(y[i] + up, K - 1)
            if target[i, 0] < target[i, 1]:
                break
    offsets, head = OffsetShares().double(), CumulativeLogits(K).double()
    slope = torch.ones(1, dtype=torch.float64, requires_grad=True)
    loss, features, ends = (
        RangeLoss(offsets=offsets).double(),
        torch.tensor(x),
        torch.tensor(target),
    )
    optimiser = torch.optim.LBFGS(
        [slope, *head.parameters(), *loss.parameters()], max_iter=100, line_search_fn="strong_wolfe"
    )

    def closure():
        optimiser.zero_grad()
        value = loss(slope * features, ends, thresholds=head.thresholds)
        value.backward()
        return value

    optimiser.step(closure)
    np.testing.assert_allclose(offsets.shares.detach().numpy(), shares, atol=0.06)


# --- Gradients -----------------------------------------------------------------------------------


@pytest.mark.parametrize("offsets", [False, True])
def test_gradients_are_those_of_differences(offsets):
    f, theta, target = make_rows(n=14, K=5, seed=4)
    score, cuts, ends = tensors(f, theta, target)
    logits = torch.randn(5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))

    def value(score, cuts, shares):
        module = OffsetShares() if offsets else None
        if offsets:
            del module.logits
            module.logits = shares
        return range_loss(score, ends, thresholds=cuts, offsets=module, reduction="none")

    inputs = [one.requires_grad_() for one in (score, cuts, logits)]
    assert torch.autograd.gradcheck(value, inputs)
    head = CumulativeLogits(5, shares=[1, 2, 3, 2, 1]).double()
    parameters = list(head.parameters())
    assert torch.autograd.gradcheck(
        lambda score, *own: range_loss(torch.func.functional_call(
            head, dict(zip(("first", "gaps"), own, strict=True)), (score,)), ends),
        (score, *parameters),
    )  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("far", [-3e4, 3e4])
def test_nothing_overflows_far_from_the_thresholds(dtype, far):
    target = torch.tensor([[0, 0], [1, 1], [2, 2], [0, 1], [1, -1], [-1, -1]])
    for offsets in (None, OffsetShares()):
        score = torch.full((6,), far, dtype=dtype, requires_grad=True)
        cuts = torch.tensor([-1.0, 1.0], dtype=dtype, requires_grad=True)
        loss = range_loss(score, target, thresholds=cuts, offsets=offsets)
        loss.backward()
        assert all(torch.isfinite(one).all() for one in (loss, score.grad, cuts.grad))
        assert score.grad[5] == 0


def test_equal_logits_have_a_finite_loss():
    logits = torch.zeros(1, 2, requires_grad=True)
    loss = range_loss(logits, torch.tensor([1]))
    loss.backward()
    assert torch.isfinite(loss)
    assert torch.isfinite(logits.grad).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_summed_in_full(dtype):
    f, theta, target = make_rows(n=3000)
    score, cuts, ends = tensors(f, theta, target, dtype)
    found = range_loss(score, ends, thresholds=cuts)
    assert found.dtype == torch.float32
    assert found == range_loss(score.float(), ends, thresholds=cuts.float())


# --- Batches -------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, 3])
@pytest.mark.parametrize("offsets", [None, OffsetShares()])
def test_a_batch_without_labels_moves_nothing(n, offsets):
    head = CumulativeLogits(4)
    score = torch.ones(n, requires_grad=True)
    for target in (torch.full((n,), -1), torch.full((n, 2), -1)):
        for reduction in ("mean", "sum"):
            loss = range_loss(head(score), target, offsets=offsets, reduction=reduction)
            loss.backward()
            assert loss == 0
    parts = [score, *head.parameters()] + ([offsets.logits] if offsets else [])
    assert all((part.grad == 0).all() for part in parts)


def test_reductions_and_weights_are_what_they_say():
    f, theta, target = make_rows()
    score, cuts, ends = tensors(f, theta, target)
    weight = torch.tensor(np.random.default_rng(0).integers(0, 3, len(f)).astype(float))
    options = {"thresholds": cuts}
    rows = range_loss(score, ends, reduction="none", **options)
    labelled = (ends >= 0).any(dim=1)
    assert (rows[~labelled] == 0).all()
    assert torch.isclose(range_loss(score, ends, **options), rows[labelled].mean())
    assert torch.isclose(range_loss(score, ends, reduction="sum", **options), rows.sum())
    again = weight.long()
    repeated = range_loss(
        score.repeat_interleave(again), ends.repeat_interleave(again, 0), **options
    )
    assert torch.isclose(range_loss(score, ends, weight, **options), repeated)
    weighted = range_loss(score, ends, weight, reduction="none", **options)
    torch.testing.assert_close(weighted, rows * weight)


@pytest.mark.parametrize("offsets", [None, OffsetShares()])
def test_memory_does_not_grow_with_the_classes(offsets):
    from torch.utils._python_dispatch import TorchDispatchMode

    class Largest(TorchDispatchMode):
        size = 0

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            for one in result if isinstance(result, tuple | list) else (result,):
                if isinstance(one, torch.Tensor):
                    self.size = max(self.size, one.numel())
            return result

    n, head = 20_000, CumulativeLogits(60)
    score = torch.zeros(n, requires_grad=True)
    target = torch.randint(0, 58, (n, 1)) + torch.tensor([0, 1])
    with Largest() as largest:
        loss = range_loss(score, target, thresholds=head.thresholds, offsets=offsets)
        loss.backward()
    assert n <= largest.size <= 3 * n


# --- The head, and what cannot be ----------------------------------------------------------------


def test_the_head_begins_at_the_shares():
    shares = [0.1, 0.2, 0.4, 0.3]
    head = CumulativeLogits(4, shares=[1, 2, 4, 3])
    found = head.probabilities(torch.zeros(2, 1)).detach().numpy()
    np.testing.assert_allclose(found, [shares, shares], rtol=1e-5)
    np.testing.assert_allclose(head.thresholds.detach(), np.log(expit_odds(shares)), rtol=1e-5)
    with torch.no_grad():
        head.gaps.fill_(-20.0)
    assert (head.thresholds.diff() >= 0).all()
    assert CumulativeLogits(2)(torch.zeros(3)).tolist() == [[0.0]] * 3


def expit_odds(shares):
    below = np.cumsum(shares)[:-1]
    return below / (1 - below)


ONE = torch.zeros(1, 3)
REFUSED = {
    "one class": (lambda: CumulativeLogits(1), "n_classes must be a whole number of at least 2, got 1"),
    "half a class": (lambda: CumulativeLogits(2.5), "n_classes must be a whole number of at least 2, got 2.5"),
    "all shares": (lambda: CumulativeLogits(2, [1, INF]), r"shares must be 2 positive numbers, got \[1, inf\]"),
    "logits that are integers": (lambda: range_loss(ONE.long(), torch.tensor([1])), "scores must be floating-point numbers, got torch.int64"),
    "a column of thresholds": (lambda: range_loss(ONE[:, 0], torch.tensor([1]), thresholds=ONE.T), r"thresholds must have shape \(n_classes - 1,\), got"),
    "a column of weights": (lambda: range_loss(ONE.repeat(2, 1), torch.tensor([1, 1]), torch.ones(2, 1)), r"weight must have shape \(2,\), got"),
    "a negative weight": (lambda: range_loss(ONE.repeat(2, 1), torch.tensor([1, 1]), torch.tensor([1.0, -2.0])), "weight, row 1: -2.0 is not the weight"),
    "a missing weight": (lambda: range_loss(ONE, torch.tensor([1]), torch.tensor([INF - INF])), "weight, row 0: nan is not the weight"),
    "other shares": (lambda: CumulativeLogits(2, [1, 2, 3]), r"shares must be 2 positive numbers, got \[1, 2, 3\]"),
    "no share": (lambda: CumulativeLogits(2, [1, 0]), r"shares must be 2 positive numbers, got \[1, 0\]"),
    "scores alone": (lambda: range_loss(torch.zeros(3), torch.zeros(3).long()), "scores must be logits, or come with thresholds"),
    "logits and thresholds": (lambda: range_loss(ONE, torch.tensor([1]), thresholds=ONE[0]), r"scores must have shape \(n,\)"),
    "more labels": (lambda: range_loss(ONE, torch.tensor([1, 2])), r"target must have shape \(1,\) or \(1, 2\)"),
    "backwards": (lambda: range_loss(ONE, torch.tensor([[2, 1]])), r"target, row 0: \[2, 1\] is not a range of the ranks 0 to 3"),
    "too high": (lambda: range_loss(ONE.repeat(2, 1), torch.tensor([1, 4])), "target, row 1: 4 is not a range"),
    "too high, open below": (lambda: range_loss(ONE, torch.tensor([[-1, 4]])), "target, row 0"),
    "floats": (lambda: range_loss(ONE, torch.tensor([1.0])), "target must hold ranks as integers, got torch.float32"),
    "an infinite weight": (lambda: range_loss(ONE, torch.tensor([1]), torch.tensor([INF])), "weight, row 0: inf is not the weight"),
    "scores of several classes": (lambda: CumulativeLogits(4)(torch.zeros(2, 3)), r"scores must have shape \(n,\) or \(n, 1\), got torch.Size\(\[2, 3\]\)"),
    "logits of classes": (lambda: range_loss(torch.tensor([[0.0, 1.0], [1.0, 0.0]]), torch.tensor([1, 1])), "scores, row 1: its logits do not ascend with the classes"),
    "thresholds that descend": (lambda: range_loss(ONE[:, 0], torch.tensor([1]), thresholds=torch.tensor([1.0, 0.0])), "scores, row 0: its logits do not ascend"),
    "another reduction": (lambda: range_loss(ONE, torch.tensor([1]), reduction="max"), "reduction must be"),
}  # fmt: skip


@pytest.mark.parametrize(("call", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_is_refused_by_name(call, message):
    with pytest.raises(PrilError, match=message):
        call()


def test_the_guide_runs():
    page = (Path(__file__).parents[1] / "docs" / "guide" / "networks.md").read_text("utf-8")
    names = {}
    exec(page.partition("```py\n")[2].partition("```")[0], names)  # noqa: S102
    assert names["value"] < 0.8 < -np.log(2 / 5)
    np.testing.assert_allclose(names["proba"].sum(dim=1).detach(), 1.0, rtol=1e-5)


@pytest.mark.slow
def test_a_network_learns_digits_from_ranges(monkeypatch):
    """Without an exact label it is off by less than half of what cross-entropy is with 2 %."""
    monkeypatch.setenv("MPLBACKEND", "agg")
    script = Path(__file__).parents[1] / "examples" / "network_digits.py"
    errors = runpy.run_path(str(script))["errors"]
    assert errors["network, ranges"][0] < 0.5 * errors["network, exact labels alone"][1]
    assert errors["network, ranges"][0] < errors["OrderedBoosting, ranges"][0]


def test_examples_run():
    assert doctest.testmod(pril.torch).failed == 0
    assert torch.__name__ == "torch"
    assert pril.torch.torch is torch
