"""Expected table counts: formulas against Stirling numbers, enumeration and finite differences."""

from itertools import product

import numpy as np
import pytest
from scipy.special import digamma, polygamma

from stickbreak.priors import TableRoot, TableRows
from stickbreak.priors.tables import (
    Present,
    StickPosteriors,
    expected_tables,
    log_rise_below,
    table_bound,
)
from stickbreak.stats import Summary, log_gamma_rise
from tests.table_cases import WORDS, log_evidence, log_words, of_labels

K = 4


def stirling(n):
    """(n + 1,) unsigned Stirling numbers of the first kind [n, s]."""
    row = np.ones(1)
    for m in range(n):
        row = np.append(0.0, row) + np.append(m * row, 0.0)
    return row


def counts_of(seed, scale=20.0, K=K):
    """Counts with entries from certain to next to impossible."""
    rng = np.random.default_rng(seed)
    steps = scale * rng.gamma(0.2, size=(K + 1, K))
    absent = -steps * rng.uniform(0.5, 1.0, size=steps.shape)  # q(C > 0) <= E[C]
    arrays = {
        "start": steps[0],
        "transition": steps[1:],
        "log_absent_start": absent[0],
        "log_absent": absent[1:],
        "log_absent_row": absent[1:].sum(1),
    }
    return Summary(TableRows().fields("component"), arrays)


def at_best(prior, total, n=3000):
    params = prior.start(len(total["start"]), "component")
    for _ in range(n):
        params = prior.update(total, params)
    return params


@pytest.mark.parametrize("n", range(11))
@pytest.mark.parametrize("x", [1e-3, 0.7, 12.0])
def test_tables_of_known_steps_are_those_of_stirling_numbers(n, x):
    weights = stirling(n) * x ** np.arange(n + 1)
    np.testing.assert_allclose(np.log(weights.sum()), log_gamma_rise(x, n), atol=1e-12)
    found = expected_tables(x, np.array(float(n)), np.array(min(n, 1.0)))
    np.testing.assert_allclose(found, weights @ np.arange(n + 1) / weights.sum(), rtol=1e-12)


def test_tables_lie_between_the_probability_of_a_step_and_the_expected_steps():
    rng = np.random.default_rng(0)
    steps = 10.0 ** rng.uniform(-20, 6, size=1000)
    is_step = np.minimum(steps, 1.0) * 10.0 ** -rng.uniform(0, 2, size=1000)
    before = np.zeros(1000)
    for x in 10.0 ** np.arange(-300, 7, 6.0):  # concentrations are at most 1e6
        found = expected_tables(x, steps, is_step)
        assert (found >= is_step).all()
        assert (found <= steps).all()
        assert (found >= before - 1e-7 * steps).all()  # grows with x, but for rounding
        before = found
    likely = is_step > 1e-11
    np.testing.assert_allclose(expected_tables(1e-300, steps, is_step)[likely], is_step[likely])
    few = steps < 1e3
    np.testing.assert_allclose(expected_tables(1e8, steps, is_step)[few], steps[few], rtol=1e-3)


def test_start_leaves_as_much_for_unused_states_as_for_each():
    prior = TableRows(concentration=2.0)
    pseudo = prior.pseudo(prior.start(K, "component"), K)
    np.testing.assert_allclose(pseudo.start, 2.0 / (K + 1))
    np.testing.assert_allclose(pseudo.transition, 2.0 / (K + 1))
    np.testing.assert_allclose([pseudo.start_rest, *pseudo.transition_rest], 2.0 / (K + 1))


@pytest.mark.parametrize("learns", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_updates_never_lower_the_surrogate(seed, learns):
    total, prior = counts_of(seed), TableRows(root=TableRoot(learns=learns))
    params = prior.update(total, prior.start(K, "component"))
    values = []
    for _ in range(30):
        values.append(prior.surrogate(total, params))
        params = prior.update(total, params)
    assert np.diff(values).min() > -1e-9
    if not learns:
        assert (float(params["top"]), float(params["concentration"])) == (10.0, 0.5)


def slopes(value, at, step=1e-6):
    """Central differences in every number, relative to its size."""
    out = np.empty(len(at))
    for i in range(len(at)):
        up, down = at.copy(), at.copy()
        up[i] += step * at[i]
        down[i] -= step * at[i]
        out[i] = (value(up) - value(down)) / (2 * step * at[i])
    return out


def as_function(total):
    """The surrogate of free numbers (ones, zeros, concentration, top)."""
    seen, K = Present.of(total), len(total["start"])

    def value(at):
        sticks = StickPosteriors(at[:K], at[K : 2 * K])
        return table_bound(seen, sticks, at[-2]) + sticks.bound(at[-1])

    return value


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_closed_forms_are_where_the_surrogate_is_flat(seed):
    total, prior = counts_of(seed), TableRows(50.0, 1.0)
    params = at_best(prior, total, 1500)
    c, top = float(params["concentration"]), float(params["top"])
    assert c < 50.0  # not at its limit
    sticks = StickPosteriors.of_tables(params["tables"], top)
    at = np.concatenate([*sticks, [c, top]])
    # relative slopes of a function of size 100, by differences of 1e-6: rounding leaves 1e-7
    np.testing.assert_allclose(slopes(as_function(total), at) * at, 0.0, atol=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_gradients_in_closed_form(seed):
    """For stochastic steps: in the sticks, the concentration and the top."""
    total, rng = counts_of(seed), np.random.default_rng(seed)
    seen, (u, v) = Present.of(total), rng.uniform(0.5, 5.0, size=(2, K))
    c, top = 1.7, 2.3
    weight = c * np.exp(StickPosteriors(u, v).log_shares())
    tables = expected_tables(weight, seen.steps, seen.is_step).sum(0)
    here_on = tables[::-1].cumsum()[::-1]
    both = polygamma(1, u + v) * (u + v - here_on - top - 1)
    by_u = both - polygamma(1, u) * (u - tables - 1)
    by_v = both - polygamma(1, v) * (v - (here_on - tables) - top)
    rows = expected_tables(c, seen.taken, seen.is_taken).sum()
    by_top = K / top + (digamma(v) - digamma(u + v)).sum()
    wanted = np.concatenate([by_u, by_v, [(tables.sum() - rows) / c, by_top]])
    found = slopes(as_function(total), np.concatenate([u, v, [c, top]]))
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.slow
def test_dead_states_stay_finite():
    total = counts_of(1, K=12)
    arrays = {n: a.copy() for n, a in total.arrays.items()}
    for name in arrays:
        arrays[name][..., 3:] = 0.0  # states that no step leads to
    total = Summary(total.layout, arrays)
    prior = TableRows()
    params = at_best(prior, total, 1000)
    assert all(np.isfinite(a).all() for a in params.arrays.values())
    assert params["root"].sum() < 1.0
    assert params["root"].min() > 0.0
    assert np.isfinite([prior.bound(total, params), prior.surrogate(total, params)]).all()
    pseudo = prior.pseudo(params, 12)
    assert pseudo.transition.min() > 0.0
    assert pseudo.start_rest is not None
    np.testing.assert_allclose(pseudo.start.sum() + pseudo.start_rest, params["concentration"])


def test_merged_states_have_the_sum_of_their_shares_and_tables():
    prior, total = TableRows(), counts_of(0)
    params = prior.update(total, prior.start(K, "component"))
    merged = params.merge("component", 0, 2)
    for name in ("root", "tables"):
        np.testing.assert_allclose(merged[name][0], params[name][[0, 2]].sum())
        np.testing.assert_allclose(merged[name].sum(), params[name].sum())


@pytest.mark.parametrize("seed", range(3))
def test_states_in_order_of_size_stay_in_it(seed):
    """Any order first, then by size: once is as good as twice, and shares stay below one."""
    rng, total, prior = np.random.default_rng(seed), counts_of(seed), TableRows()
    params = prior.update(total, prior.start(K, "component"))

    def by_size(total, params):
        order = np.argsort(-(total["start"] + total["transition"].sum(0)), kind="stable")
        return total.permute("component", order), params.permute("component", order)

    wanted = by_size(total, params)
    mixed = rng.permutation(K)
    once = by_size(total.permute("component", mixed), params.permute("component", mixed))
    for found in (once, by_size(*once)):
        for first, second in zip(found, wanted, strict=True):
            for name, array in second.arrays.items():
                np.testing.assert_array_equal(first[name], array)
    assert once[1]["root"].sum() < 1.0
    again = prior.update(*once)  # shares follow the sticks, and are those of the new order
    assert again["root"].sum() < 1.0


# ---- the bound -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_lower_bound_of_rows_holds_for_random_counts(seed):
    """Of counts drawn from a few random vectors; weights from usual to next to none."""
    rng = np.random.default_rng(seed)
    vectors = rng.poisson(rng.gamma(0.5, 2.0, size=K), size=(6, K)).astype(float)
    vectors[:4, rng.integers(K)] = 0.0
    probability = rng.dirichlet(np.full(6, 0.5))
    weight, rest = 10.0 ** rng.uniform(-12, 1, size=K), 10.0 ** rng.uniform(-6, 0)

    def log_p(steps):
        total = weight.sum() + rest
        return log_gamma_rise(weight, steps).sum(-1) - log_gamma_rise(total, steps.sum(-1))

    mean = probability @ vectors
    found = log_rise_below(mean[None], weight, rest, np.array([vectors.sum(1).max()]))[0]
    assert found <= probability @ log_p(vectors) + 1e-10
    assert found >= log_p(mean) - 1e-10


@pytest.mark.parametrize(("c", "top"), [(0.5, 1.0), (3.0, 0.7)])
def test_bound_is_below_the_evidence(c, top):
    """For any posterior of the labels: also below what all labelings give with the same sticks."""
    exact, rng = log_evidence(c, top), np.random.default_rng(0)
    prior = TableRows(c, top, TableRoot(learns=False))
    for power in (0.1, 1.0, 6.0):
        weights = [rng.dirichlet(np.full(2 ** len(w), 1.0 / power)) for w in WORDS]
        paths = [list(product(range(2), repeat=len(w))) for w in WORDS]
        steps, emitted, present, rows = np.zeros((3, 2)), np.zeros((2, 2)), 0.0, 0.0
        labelings = list(product(*(range(len(p)) for p in paths)))
        found = [of_labels([paths[s][i] for s, i in enumerate(each)]) for each in labelings]
        chance = [weights[0][i] * weights[1][j] for i, j in labelings]
        for p, (n, m) in zip(chance, found, strict=True):
            steps, emitted = steps + p * n, emitted + p * m
            present, rows = present + p * (n > 0), rows + p * (n.sum(1) > 0)
        with np.errstate(divide="ignore"):
            absent, row = np.log1p(-np.minimum(present, 1 - 1e-17)), np.log1p(-rows[1:])
        arrays = {
            "start": steps[0], "transition": steps[1:], "log_absent_start": absent[0],
            "log_absent": absent[1:], "log_absent_row": row,
        }  # fmt: skip
        total = Summary(prior.fields("component"), arrays)
        params = at_best(prior, total, 50)
        entropy = -sum((w * np.log(np.maximum(w, 1e-300))).sum() for w in weights)
        bound = prior.bound(total, params) + log_words(emitted) + entropy
        x = prior.pseudo(params, 2).start
        best = prior_part = StickPosteriors.of_tables(params["tables"], top).bound(top) + entropy
        for p, (n, m) in zip(chance, found, strict=True):
            rise = log_gamma_rise(x, n).sum() - log_gamma_rise(c, n.sum(1)).sum()
            best += p * (rise + log_words(m))
        assert bound <= best + 1e-10
        assert best <= exact + 1e-9
        assert np.isfinite(prior_part)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"root": TableRoot(existence="guessed")}, "existence must be one of independent"),
        ({"root": TableRoot(n_draws=0)}, "n_draws"),
        ({"root": TableRoot(learns=1)}, "learns must be True or False"),
        ({"concentration": 0.0}, "concentration"),
        ({"top_concentration": -1.0}, "top_concentration"),
    ],
)
def test_bad_settings_are_named(given, words):
    with pytest.raises(ValueError, match=words):
        TableRows(**given)
