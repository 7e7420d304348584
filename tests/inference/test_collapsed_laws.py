"""Laws of collapsed inference of chains: what is left out, what is expected, and its limits."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
from collapsed_chains import (
    FAMILY,
    MODELS,
    K,
    V,
    chances_of_symbols,
    dictionary,
    plain_blocks,
    words,
)
from labelings import Labelings

from stickbreak.data import Sequences
from stickbreak.families import Categorical
from stickbreak.inference import ExcludeOwn
from stickbreak.initialize import from_local
from stickbreak.models import finite_hmm
from stickbreak.stats import SERIAL

RULES = {
    "sequence": ExcludeOwn("sequence"),
    "token": ExcludeOwn("token"),
    "subsequence": ExcludeOwn("subsequence", subchain_length=2),
}
every_rule = pytest.mark.parametrize("granularity", RULES)


def begun(model, data, rule, n_states=K, legal=None, seed=1):
    """Own counts of random chains for a rule, their counts, parameters and the rule's units."""
    start = from_local(model, data, n_states, np.random.default_rng(seed), legal=legal)
    batch = rule.units(data.whole())
    own = model.structure.own_of(batch, start.warm, model.axis, rule.granularity)
    return own, rule.count(model, start.params, batch, own, SERIAL), start.params, batch


# ---- what tokens expect --------------------------------------------------------------------------
def expected_weights(t, q, ends, symbols, a, b):
    """Weights of a token by the counts of every labeling of all others, each with its chance.

    Numerators and denominators are expected on their own. a, b : prior counts of states, symbols
    """
    n, n_states = q.shape
    is_first = np.isin(np.arange(n), ends[:-1])
    has_next = t + 1 < n and not is_first[t + 1]
    into, out, down, mine, every = (np.zeros(n_states) for _ in range(5))
    for z in product(range(n_states), repeat=n):
        chance = np.prod(q[range(n), z])
        steps, starts = np.zeros((n_states, n_states)), np.zeros(n_states)
        for s in range(n):
            if s in (t, t + 1):  # steps that touch the token
                starts[z[s]] += is_first[s] and s != t
            elif is_first[s]:
                starts[z[s]] += 1
            else:
                steps[z[s - 1], z[s]] += 1
        into += chance * (starts if is_first[t] else steps[z[t - 1]])
        others = np.delete(np.arange(n), t)
        for k in range(n_states):
            in_k = np.array(z)[others] == k
            mine[k] += chance * (in_k & (symbols[others] == symbols[t])).sum()
            every[k] += chance * in_k.sum()
            if has_next:
                comes = not is_first[t] and z[t - 1] == k  # the step into the token is one more
                out[k] += chance * (steps[k, z[t + 1]] + (comes and z[t + 1] == k))
                down[k] += chance * (steps[k].sum() + comes)
    weight = (into + a) * (mine + b) / (every + V * b)
    return weight * (out + a) / (down + n_states * a) if has_next else weight


def test_tokens_expect_what_all_labelings_of_the_others_say():
    """Every position: first, second, last but one, last, and alone."""
    symbols, ends = np.array([0, 1, 1, 0, 2, 1, 0]), np.array([0, 4, 6, 7])
    data = Sequences(symbols[:, None], offsets=ends)
    model = finite_hmm(FAMILY, concentration=0.3, start_concentration=0.3)
    rule = RULES["token"]
    own, counts, params, batch = begun(model, data, rule, n_states=2)
    own["rows"][...] = np.random.default_rng(0).dirichlet([0.5, 0.5], 7)
    counts, q = rule.count(model, params, batch, own, SERIAL), own["rows"].astype(float)
    for t in range(7):
        weight = expected_weights(t, q, ends, symbols, 0.3, 0.4)
        q[t] = weight / weight.sum()
    _, own = rule.visit(model, counts, params, batch, own, (), SERIAL)
    np.testing.assert_allclose(own["rows"], q, atol=1e-6)  # kept in float32


# ---- limits --------------------------------------------------------------------------------------
@every_rule
def test_one_state_has_everything(granularity):
    rule, data = RULES[granularity], words()
    own, counts, params, batch = begun(MODELS["hmm"](), data, rule, n_states=1)
    counts, own = rule.visit(MODELS["hmm"](), counts, params, batch, own, (), SERIAL)
    np.testing.assert_array_equal(own["rows"], 1.0)
    assert counts["emission"].sum() == data.n_rows


@every_rule
def test_a_strong_prior_leaves_legal_states_alike(granularity):
    """Prior counts of 1e9 beside some tens of words: a relative 1e-7 is left."""
    data, legal = dictionary(words())
    family = replace(Categorical(1e9), n_symbols=(V,))
    model = finite_hmm(family, concentration=1e9, start_concentration=1e9)
    rule = RULES[granularity]
    own, counts, params, batch = begun(model, data, rule, legal=legal)
    for _ in range(3):
        counts, own = rule.visit(model, counts, params, batch, own, (), SERIAL)
    even = legal[data.sets] / legal[data.sets].sum(1, keepdims=True)
    np.testing.assert_allclose(own["rows"], even, atol=1e-6)


@pytest.mark.parametrize("is_limited", [False, True])
def test_one_sequence_alone_has_all_paths_alike(is_limited):
    """Nothing is left to learn from; fits refuse it."""
    data, legal = words(2), None
    data = Sequences(data.rows[: data.offsets[-1]], offsets=np.array([0, data.n_rows]))
    if is_limited:
        data, legal = dictionary(data)
    model, rule = MODELS["hmm"](), RULES["sequence"]
    own, counts, params, batch = begun(model, data, rule, legal=legal)
    counts, own = rule.visit(model, counts, params, batch, own, (), SERIAL)
    allowed = np.ones((data.n_rows, K)) if legal is None else legal[data.sets]
    np.testing.assert_allclose(own["rows"], allowed / allowed.sum(1, keepdims=True), atol=1e-6)
    n_paths = allowed.sum(1).prod()
    log_z = np.log(n_paths) - data.n_rows * np.log(K) - data.n_rows * np.log(V)
    assert counts.log_z == pytest.approx(log_z, abs=1e-5)


# ---- what leaves ---------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["hmm", "sticky"])
def test_predictives_sum_to_one_and_nobody_leaves_more_than_there_is(kind):
    model, data, rule = MODELS[kind](), words(30), RULES["sequence"]
    own, counts, params, batch = begun(model, data, rule)
    for _ in range(10):
        counts, own = rule.visit(model, counts, params, batch, own, (), SERIAL)
    every = model.family.prepare(np.arange(V)[:, None])
    for s in range(data.n_spans):
        unit = data.whole().part(s, s + 1)
        mine = rule.count(model, params, unit.alone(), own.cut(**unit.cut), SERIAL)
        left = {name: counts[name] - mine[name] for name in counts}
        assert min(array.min() for array in left.values()) > -1e-12
        potentials = rule.potentials(model, counts - mine, params)
        np.testing.assert_allclose(np.exp(potentials["start"]).sum(), 1.0, rtol=1e-12)
        np.testing.assert_allclose(np.exp(potentials["transition"]).sum(1), 1.0, rtol=1e-12)
        words_of = np.exp(potentials.scores.evidence(every))
        np.testing.assert_allclose(words_of.sum(0), 1.0, rtol=1e-12)


@pytest.mark.parametrize("n_copies", [1, 4, 16])
def test_exclusion_matters_less_and_less(n_copies):
    """Copies of all sequences: with and without exclusion, fixed points are within 1 / copies."""
    problem = Labelings(("012", "102", "112"), 2, 3, 0.5, {0: [0], 1: [0, 1], 2: [1]})
    even = {0: np.array([1, 0]), 1: np.array([0.5, 0.5]), 2: np.array([0, 1])}
    texts = tuple("".join(map(str, text)) for text in problem.texts) * n_copies
    rows = np.array([int(c) for text in texts for c in text])
    data = Sequences(rows[:, None], sets=rows, offsets=np.arange(0, len(rows) + 1, 3))
    model = finite_hmm(Categorical(0.5, (3,)), concentration=0.5, start_concentration=0.5)
    rule, legal = RULES["sequence"], np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    own, counts, params, batch = begun(model, data, rule, n_states=2, legal=legal)
    own["rows"][...] = [even[w] for w in rows]
    for s in range(data.n_spans):
        mine = own["rows"][3 * s : 3 * s + 3]
        own["pairs"][s] = mine[:-1].T @ mine[1:]
    counts, q = rule.count(model, params, batch, own, SERIAL), problem.independent(even)
    for _ in range(80):
        counts, own = rule.visit(model, counts, params, batch, own, (), SERIAL)
        total = n_copies * sum(problem.mean(q))
        q = [problem.under(s, total) for s in range(3)]
    apart = np.abs(own["rows"][:9] - problem.rows(q)).max()
    assert apart < 0.4 / n_copies


# ---- guards of blocks ----------------------------------------------------------------------------
def swept_blocks(data, length, guards="counts", shares=None):
    """Rows before and after one sweep, and steps before."""
    model, rule = MODELS["hmm"](), ExcludeOwn("subsequence", subchain_length=length, guards=guards)
    own, counts, params, batch = begun(model, data, rule)
    if shares is not None:
        own["rows"][...] = shares
        for s, (lo, hi) in enumerate(pairwise(batch.offsets)):
            own["pairs"][s] = own["rows"][lo : hi - 1].T @ own["rows"][lo + 1 : hi]
        counts = rule.count(model, params, batch, own, SERIAL)
    before = own["rows"].astype(float), own["pairs"].astype(float)
    _, after = rule.visit(model, counts, params, batch, own, (), SERIAL)
    return model.prior.pseudo(params, K), before, after["rows"]


@pytest.mark.parametrize("length", [2, 3])
def test_guards_as_published_are_the_same_and_a_wrong_denominator_is_not(length):
    """Prior counts divided by a guard's chance, and the denominator of the guard's row."""
    data, found = words(), {}
    prior, before, after = swept_blocks(data, length)
    for form in ("plain", "published", "misprinted"):
        q, pairs = before[0] / before[0].sum(1, keepdims=True), before[1].copy()
        plain_blocks(prior, data, q, pairs, length, "counts", chances_of_symbols(data, 0.4), form)
        found[form] = q
    np.testing.assert_allclose(found["published"], found["plain"], rtol=0, atol=1e-12)
    np.testing.assert_allclose(after, found["plain"], atol=1e-5)
    assert np.abs(found["misprinted"] - found["plain"]).max() > 1e-2


def test_guards_that_are_certain_do_no_harm():
    """A chance of zero, by which the published form would divide."""
    data = words()
    labels = np.arange(data.n_rows) % K
    prior, (q, pairs), after = swept_blocks(data, 2, shares=np.eye(K)[labels])
    plain_blocks(prior, data, q, pairs, 2, "counts", chances_of_symbols(data, 0.4))
    assert np.isfinite(after).all()
    np.testing.assert_allclose(after, q, atol=1e-5)


def test_blocks_of_one_row_are_tokens_without_corrections():
    """Left: the row and the one before it are left out, right: the row and the next."""
    data = words()
    prior, (q, _), after = swept_blocks(data, 1)
    symbols, ends = data.rows[:, 0], data.offsets
    into = [t for t in range(data.n_rows) if t not in ends]

    def steps(*left_out):
        kept = [t for t in into if t not in left_out]
        return q[[t - 1 for t in kept]].T @ q[kept] + prior.transition

    for lo, hi in pairwise(ends):
        for t in range(lo, hi):
            others = np.delete(np.arange(len(q)), t)
            firsts = [s for s in ends[:-1] if s != t]
            weight = q[firsts].sum(0) + prior.start
            if t > lo:
                weight = q[t - 1] @ steps(t - 1, t, t + 1)
            if t < hi - 1:
                after_it = steps(t, t + 1, t + 2)
                weight = weight * (after_it @ q[t + 1]) / after_it.sum(1)
            same = others[symbols[others] == symbols[t]]
            weight = weight * (q[same].sum(0) + 0.4) / (q[others].sum(0) + V * 0.4)
            q[t] = weight / weight.sum()
    np.testing.assert_allclose(after, q, atol=1e-5)


# ---- several rows at once ------------------------------------------------------------------------
@pytest.mark.parametrize(("n_old", "n_new", "limit"), [(1e6, 10, 1e-6), (1e6, 1000, 1e-5)])
def test_joint_predictives_are_near_products_of_predictives(n_old, n_new, limit):
    """What a sequence's potentials leave out: the counts of its own earlier rows."""
    rng = np.random.default_rng(0)
    family = replace(Categorical(0.1), n_symbols=(10,))
    shares = rng.dirichlet(np.full(10, 0.1))
    old = rng.multinomial(int(n_old), shares).astype(float)
    rows = rng.choice(10, n_new, p=shares)
    as_counts = lambda n: {"emission": n[:, None], "emission_total": np.array([[n.sum()]])}
    fixed = np.exp(family.log_mean(as_counts(old)).evidence(family.prepare(rows[:, None])))[:, 0]
    exact = np.array([
        (old[w] + (rows[:m] == w).sum() + 0.1) / (n_old + m + 1.0) for m, w in enumerate(rows)
    ])  # fmt: skip
    new = old + np.bincount(rows, minlength=10)
    rise = family.log_marginal(as_counts(new)) - family.log_marginal(as_counts(old))
    assert rise[0] == pytest.approx(np.log(exact).sum(), abs=1e-6)  # of sums that are 1e7
    assert np.abs(fixed - exact).mean() < limit
    assert fixed[0] == pytest.approx(exact[0], rel=1e-14)
