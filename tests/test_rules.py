"""Rules that are not of the package, against learners that are."""

from typing import NamedTuple

import numpy as np
import pytest
from scipy.sparse import csr_array

from pril import PRIL, PassiveAggressive
from pril.errors import InputError, InputTypeError
from pril.online import code_cache
from pril.rules import RuleLearner, nudge, step_of


class Margin(NamedTuple):
    margin: float


@step_of(Margin)
def step_margin(rule, thresholds, own, work, score, squared, lo, hi, now):
    violated, alpha, cut = 0, 0.0, thresholds.cut
    for i in range(len(thresholds.n)):
        z = 1.0 if i < lo else -1.0 if i >= hi else 0.0
        if z != 0.0 and z * (score - cut[i + 1]) <= rule.margin:
            nudge(thresholds, now.before, i, now.weight * z)
            alpha += now.weight * z
            violated += 1
    work.alpha[0] = alpha
    return violated, violated > 0


class Far(NamedTuple):
    margin: float


@step_of(Far, needs_length=True)
def step_far(rule, thresholds, own, work, score, squared, lo, hi, now):
    """Passive-aggressive learning of two classes, in closed form."""
    z = 1.0 if lo == 1 else -1.0 if hi == 0 else 0.0
    missing = rule.margin - z * (score - thresholds.cut[1])
    if z == 0.0 or missing <= 0.0:
        return 0, False
    work.alpha[0] = z * missing / (1.0 + squared)
    nudge(thresholds, now.before, 0, work.alpha[0])
    return 1, True


class Ours(RuleLearner):
    def rule(self):
        return Margin(0.0)


class FarOff(RuleLearner):
    def rule(self):
        return Far(1.0)


def rows(K, seed=0):
    rng = np.random.default_rng(seed)
    y = np.sort(rng.integers(0, K, (60, 2)), axis=1)
    return rng.normal(size=(60, 3)), y


def compare_with_pril(X, y, **options):
    for average in (False, True):
        one, other = (
            cls(average=average, classes=range(4), random_state=0).fit(X, y, **options)
            for cls in (Ours, PRIL)
        )
        np.testing.assert_array_equal(one.coef_, other.coef_)
        np.testing.assert_array_equal(one.thresholds_, other.thresholds_)
        assert one.n_updates_ == other.n_updates_


# Code of such rules is compiled in every run, so that most of these tests are slow.
def test_a_rule_is_like_those_of_the_package():
    compare_with_pril(*rows(4))


@pytest.mark.slow
def test_sparse_and_weighted_rows_are_learned_by_a_rule():
    X, y = rows(4)
    compare_with_pril(csr_array(X), y, sample_weight=np.linspace(0.5, 2.0, len(X)))


@pytest.mark.slow
def test_streams_learn_by_a_rule():
    X, y = rows(4)
    model = Ours(classes=range(4)).partial_fit(X, y)
    stream = Ours(classes=range(4)).stream()
    for x, ends in zip(X, y, strict=True):
        stream.learn_one(x, tuple(ends))
    np.testing.assert_array_equal(stream.model.coef_, model.coef_)
    assert [stream.predict_one(x) for x in X[:5]] == model.predict(X[:5]).tolist()


@pytest.mark.slow
def test_a_rule_is_given_the_length_of_a_row():
    X, y = rows(2)
    one = FarOff(average=False, classes=[0, 1]).partial_fit(X, y)
    other = PassiveAggressive(C=np.inf, average=False, classes=[0, 1]).partial_fit(X, y)
    np.testing.assert_allclose(one.coef_, other.coef_, rtol=1e-9)
    np.testing.assert_allclose(one.thresholds_, other.thresholds_, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.skipif(code_cache.config.DISABLE_JIT, reason="nothing is compiled")
def test_code_of_a_rule_is_not_kept_on_disk(tmp_path, monkeypatch):
    """Its source is not part of the digest: a rule that changed would learn as before."""
    monkeypatch.setattr(code_cache.config, "CACHE_DIR", str(tmp_path))
    X, y = rows(3)
    Ours(classes=range(3)).partial_fit(np.float32(X), y)
    assert list(tmp_path.rglob("*")) == []


def test_what_is_no_rule_is_refused():
    with pytest.raises(InputTypeError, match="rule must be a named tuple with at least one field"):
        step_of(float)
    with pytest.raises(InputError, match="rule Margin has a step already: make a new class"):
        step_of(Margin)

    class Wrong(RuleLearner):
        def rule(self):
            return 0.5

    with pytest.raises(InputTypeError, match=r"rule\(\) returned 0.5, whose type has no step"):
        Wrong().fit([[0.0], [1.0]], [0, 1])
