"""Rules around a root: moments against draws, the bound against theory, and updates that climb."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, gammaln, logit

from stickbreak.data import Sequences
from stickbreak.families import Categorical
from stickbreak.inference import BatchVB, MeanLog, run
from stickbreak.initialize import from_local
from stickbreak.models import hdp_grammar
from stickbreak.priors import HDPRules
from stickbreak.priors.hdp_rules import RuleGroups, _Counts
from stickbreak.priors.hdp_transitions import POSTERIORS
from stickbreak.priors.root.base import share_sticks

Array = np.ndarray


def counts_of(K: int, seed: int) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    return {
        "root": rng.gamma(2.0, size=K),
        "kind": rng.gamma(3.0, size=(K, 2)),
        "binary_rule": rng.gamma(0.5, size=(K, K, K)),
    }


def test_moments_of_pairs_equal_draws() -> None:
    prior, rng, n = HDPRules(), np.random.default_rng(0), 200_000
    u = np.array([0.5, 0.3, 0.6])
    sticks = prior._sticks(u)
    drawn = rng.beta(u * sticks.w, (1 - u) * sticks.w, (n, 3))
    shares = np.column_stack([*(drawn.T * np.cumprod(
        np.column_stack([np.ones(n), 1 - drawn]), 1).T[:3]), np.prod(1 - drawn, 1)])  # fmt: skip
    pairs, _ = sticks.pairs()
    assert pairs.sum() == pytest.approx(1.0, abs=1e-12)
    # four standard errors
    found = shares[:, :, None] * shares[:, None, :]
    np.testing.assert_allclose(pairs, found.mean(0), atol=4 * found.std(0).max() / np.sqrt(n))


def test_the_surrogate_is_below_the_normalizers() -> None:
    rng, K, groups = np.random.default_rng(1), 3, RuleGroups(1.3, 0.7)
    found = groups.surrogate(K)
    for _ in range(50):
        u = rng.beta(1.0, 2.0, K)
        b = share_sticks(u)
        prior, top = groups.rules * np.outer(b, b), groups.root * b
        exact = K * (gammaln(groups.rules) - gammaln(prior).sum())
        exact += gammaln(groups.root) - gammaln(top).sum()
        lower = found.constant + found.ones @ np.log(u) + found.zeros @ np.log1p(-u)
        assert lower <= exact + 1e-9 * abs(exact)


@pytest.mark.filterwarnings("ignore::stickbreak.errors.StickbreakWarning")
@pytest.mark.parametrize("root", ["beta", "point"])
def test_slopes_are_derivatives(root: str) -> None:
    prior, x = HDPRules(root=root, concentration=0.8), logit(np.array([0.4, 0.5, 0.3]))
    counts, step = _Counts.make(counts_of(3, 2), np.arange(3)), 1e-6
    slope = prior._value(expit(x), counts, POSTERIORS)[1]
    for k in range(3):
        values = []
        for sign in (step, -step):
            u = expit(x)
            u[k] += sign
            values.append(prior._value(u, counts, POSTERIORS)[0])
        assert slope[k] == pytest.approx((values[0] - values[1]) / (2 * step), rel=1e-5, abs=1e-5)


@pytest.mark.filterwarnings("ignore::stickbreak.errors.StickbreakWarning")
@pytest.mark.parametrize("root", ["beta", "point"])
def test_updates_never_lower_the_bound(root: str) -> None:
    prior = HDPRules(root=root)
    for seed in range(3):
        counts, params = counts_of(4, seed), prior.start(4, "category")
        before = prior.bound(counts, params)  # type: ignore[arg-type]
        for _ in range(3):
            params = prior.update(counts, params)  # type: ignore[arg-type]
            after = prior.bound(counts, params)  # type: ignore[arg-type]
            assert after >= before
            before = after


def test_removing_an_empty_category_raises_the_bound_of_the_beta_root() -> None:
    prior, counts = HDPRules(), counts_of(3, 5)
    empty = {
        "root": np.append(counts["root"], 0.0),
        "kind": np.vstack([counts["kind"], [0.0, 0.0]]),
        "binary_rule": np.pad(counts["binary_rule"], (0, 1)),
    }
    found = []
    for given, K in ((empty, 4), (counts, 3)):
        params = prior.start(K, "category")
        for _ in range(5):
            params = prior.update(given, params)  # type: ignore[arg-type]
        found.append(prior.bound(given, params))  # type: ignore[arg-type]
    assert found[1] > found[0]


def test_the_bound_of_a_fit_never_drops() -> None:
    rng = np.random.default_rng(3)
    ends = np.r_[0, np.cumsum(rng.integers(1, 6, 20))]
    data = Sequences(rng.integers(0, 3, (ends[-1], 1)), offsets=ends)
    model = hdp_grammar(Categorical(0.4, n_symbols=(3,)))
    start = from_local(model, data, 3, rng)
    result = run(model, BatchVB(max_iter=12, tol=0.0, moves=None), data, start)
    assert (np.diff(result.trace.bound) > -1e-9 * np.abs(result.bound)).all()
    potentials = model.potentials(result.counts, result.params, MeanLog())
    found, _ = model.local_step(potentials, data.whole())
    before = model.bound_at(result.counts, result.params, potentials, found)
    after = model.bound(found, model.global_step(found, result.params))
    assert result.bound - 1e-9 <= before <= after + 1e-9
    shuffled = replace(result.params, arrays={"root": result.params["root"][[2, 0, 1]]})
    mixed = result.counts.permute("category", [2, 0, 1])
    assert model.bound(mixed, shuffled) == pytest.approx(result.bound, rel=1e-10)
