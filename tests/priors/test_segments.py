"""Rows without their own entry: bounds, slopes, the weak limit, what is refused."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.special import digamma, gammaln

from stickbreak.inference.rules import Draw, LogMean, MeanLog, Mode
from stickbreak.priors import (
    DirichletSegments,
    HDPSegments,
    NegativeBinomial,
    SegmentGroups,
    ShiftedPoisson,
    WeakLimitSegments,
)
from stickbreak.priors.hdp_transitions import MODES, POSTERIORS
from stickbreak.priors.segments import _SegmentTerm
from stickbreak.stats import Summary

D = 5
KINDS = {"exact": {"max_duration": D}, "embedded": {"duration_inference": "embedded"}}


def random_counts(prior, n_states, seed=0):
    rng = np.random.default_rng(seed)
    arrays = prior.zeros(n_states)
    filled = {name: rng.gamma(1.0, 2.0, array.shape) for name, array in arrays.items()}
    np.fill_diagonal(filled["transition"], 0.0)
    return Summary(prior.fields("component"), filled)


def point(**numbers):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return HDPSegments(root="point", max_duration=D, **numbers)


@pytest.mark.parametrize("functions", [POSTERIORS, MODES])
def test_slope_and_curvature_of_the_row_term_are_its_derivatives(functions):
    """The own entry is missing: its slope is that of the total, alpha (1 - b_j)."""
    K, rng, h = 4, np.random.default_rng(0), 1e-4
    counts = random_counts(DirichletSegments(max_duration=D), K)
    term = _SegmentTerm.of(counts, SegmentGroups(3.0, 0.8), functions)
    b = rng.dirichlet(np.full(K + 1, 9.0))  # differences need shares well above h
    found = term(b)
    assert found.value == pytest.approx(term.value(b), abs=1e-12)
    for k in range(K):  # along the simplex: what b_k gains the rest loses
        step = np.zeros(K + 1)
        step[k], step[-1] = h, -h
        up, down = term.value(b + step), term.value(b - step)
        slope = found.slope[k] - found.slope[-1]
        np.testing.assert_allclose((up - down) / (2 * h), slope, rtol=1e-6)
        second = (up + down - 2 * found.value) / h**2
        np.testing.assert_allclose(second, found.curvature[k] + found.curvature[-1], rtol=1e-3)


def test_slope_of_the_point_root_is_that_of_the_fixed_row_posteriors():
    """2.7.4: rows at their optimum, so the envelope has the slope of E[log p(rows | b)]."""
    K, alpha = 3, 0.7
    prior = point(concentration=alpha, start_concentration=2.0)
    counts = random_counts(prior, K)
    b = np.random.default_rng(1).dirichlet(np.ones(K + 1))
    rows = np.hstack([counts["transition"], np.zeros((K, 1))]) + alpha * b
    rows[np.arange(K), np.arange(K)] = 0.0
    slope = np.zeros(K)
    rest = digamma(alpha * b[-1])
    for i in range(K):
        for k in range(K):
            if k != i:
                slope[k] += alpha * (
                    digamma(rows[i, k]) - digamma(rows[i, -1]) - digamma(alpha * b[k]) + rest
                )
        slope[i] += alpha * (
            rest - digamma(alpha * (1 - b[i])) - digamma(rows[i, -1]) + digamma(rows[i].sum())
        )
    first = counts["start"] + 2.0 * b[:-1]
    slope += 2.0 * (
        digamma(first) - digamma(2.0 * b[-1]) - digamma(2.0 * b[:-1]) + digamma(2.0 * b[-1])
    )
    groups = SegmentGroups(2.0, alpha)
    found = groups.normalizers(b).slope + _SegmentTerm.of(counts, groups, POSTERIORS)(b).slope
    np.testing.assert_allclose(found[:-1] - found[-1], slope, rtol=1e-9)


def test_bound_of_finite_rows_is_the_log_evidence_of_labels():
    prior = DirichletSegments(concentration=0.6, start_concentration=0.4, max_duration=D)
    counts = random_counts(prior, 3)
    expected = float(prior.duration.log_marginal(counts["duration"]).sum())

    def evidence(seen, each):
        return (
            gammaln(each * len(seen))
            - gammaln(each * len(seen) + seen.sum())
            + (gammaln(each + seen) - gammaln(each)).sum()
        )

    expected += evidence(counts["start"], 0.4)
    for j in range(3):
        expected += evidence(np.delete(counts["transition"][j], j), 0.6)
    assert prior.bound(counts, prior.start(3, "component")) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("root", ["beta", "point", None])
def test_updates_never_lower_the_bound_and_own_steps_do_not_count(kind, root):
    if root is None:
        prior = DirichletSegments(**KINDS[kind])
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            prior = HDPSegments(root=root, **KINDS[kind])
    for seed in range(3):
        counts, params = random_counts(prior, 4, seed), prior.start(4, "component")
        before = prior.bound(counts, params)
        better = prior.update(counts, params)
        assert prior.bound(counts, better) >= before - 1e-9
        if root is not None:
            shares = prior.shares(better)
            assert (shares > 0).all()
            assert shares.sum() < 1.0 + 1e-12
        own = dict(counts.arrays)
        own["transition"] = own["transition"] + 7.0 * np.eye(4)
        noisy = Summary(counts.layout, own)
        assert prior.bound(noisy, better) == pytest.approx(prior.bound(counts, better), abs=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_states", [1, 3])
def test_every_rule_gives_numbers_and_no_state_follows_itself(kind, n_states):
    whole = HDPSegments(**KINDS[kind])
    for prior in (DirichletSegments(**KINDS[kind]), whole, whole.for_draws(), whole.for_modes()):
        counts, params = random_counts(prior, n_states), prior.start(n_states, "component")
        rules = (MeanLog(), Mode(), LogMean(), Draw(np.random.default_rng(0)))
        tables = [prior.potentials(counts, params, rule) for rule in rules]
        for found in [*tables, prior.predictive(counts, params)]:
            assert np.isneginf(np.diagonal(found["transition"])).all()
            assert np.isfinite(found["transition"][~np.eye(n_states, dtype=bool)]).all()
            assert not any(np.isnan(table).any() for table in found.values())
        assert np.isfinite(prior.bound(counts, params))
        np.testing.assert_array_equal(prior.sizes(counts), counts["rows"])
        assert not prior.sweeps


def test_slopes_of_the_bound_are_the_potentials():
    prior, h = DirichletSegments(max_duration=D), 1e-5
    counts = random_counts(prior, 3)
    params = prior.start(3, "component")
    found = prior.potentials(counts, params, MeanLog())
    for name in ("start", "transition", "duration"):
        for at in np.ndindex(counts[name].shape):
            if name == "transition" and at[0] == at[1]:
                continue
            values = []
            for step in (h, -h):
                array = counts[name].copy()
                array[at] += step
                changed = Summary(counts.layout, {**counts.arrays, name: array})
                values.append(prior.bound(changed, params))
            np.testing.assert_allclose(
                (values[0] - values[1]) / (2 * h), found[name][at], rtol=1e-5, atol=1e-6
            )


@pytest.mark.slow
def test_drawn_roots_have_the_exact_posterior_given_the_labels():
    """Two tables of steps of three states, the root's posterior by a grid over the simplex."""
    prior = WeakLimitSegments(
        concentration=1.5, start_concentration=2.0, top_concentration=3.0, max_duration=D
    )
    arrays = prior.zeros(3)
    arrays["start"] = np.array([1.0, 0.0, 0.0])
    arrays["transition"] = np.array([[0.0, 4.0, 1.0], [3.0, 0.0, 0.0], [0.0, 2.0, 0.0]])
    counts = Summary(prior.fields("component"), arrays)
    params, rng, seen = prior.start(3, "component"), np.random.default_rng(0), []
    for _ in range(6000):
        params = prior.redraw(counts, params, rng)
        seen.append(params["root"])
    n = 50
    grid = [(i, j, n - i - j) for i in range(1, n) for j in range(1, n - i)]
    shares = np.array(grid) / n
    layout = {"root": params.layout["root"]}
    weights = np.array([
        prior.bound(counts, type(params)(layout, {"root": b})) for b in shares
    ])  # fmt: skip
    weights = np.exp(weights - weights.max())
    mean = weights @ shares / weights.sum()
    spread = np.sqrt(weights @ shares**2 / weights.sum() - mean**2)
    drawn = np.array(seen)
    # draws are correlated: about a tenth of them count; the grid is exact to a fifth of a step
    np.testing.assert_allclose(drawn.mean(0), mean, atol=5 * spread.max() / np.sqrt(600) + 0.004)
    np.testing.assert_allclose(drawn.std(0), spread, atol=0.02)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: DirichletSegments(max_duration=0), "max_duration"),
        (lambda: DirichletSegments(stickiness=1.0), "stickiness"),
        (lambda: HDPSegments(stickiness=1.0), "stickiness"),
        (lambda: DirichletSegments(transition_prior=np.ones((2, 2))), r"entry \(0, 0\) is 1"),
        (lambda: DirichletSegments(duration_inference="fast"), "fast"),
        (
            lambda: DirichletSegments(duration=ShiftedPoisson(), duration_inference="embedded"),
            "NegativeBinomial",
        ),
        (
            lambda: HDPSegments(duration_inference="sampled", max_duration=3),
            "no longest segment",
        ),
        (lambda: DirichletSegments(duration=NegativeBinomial).lengths, "duration must be"),
        (lambda: DirichletSegments().zeros(2), "max_duration"),
        (
            lambda: DirichletSegments(max_duration=D).window_tables({}, None),
            "SubchainVB",
        ),
    ],
)
def test_what_cannot_be_is_refused(make, named):
    with pytest.raises(ValueError, match=named):
        make()
