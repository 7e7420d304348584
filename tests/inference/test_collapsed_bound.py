"""The bound of collapsed fits is the variational one at the posteriors found.

With q(z) as a fit leaves it, everything else follows by brute force over all labelings z:

    bound  =  log integral of p(parameters) exp(E_q[log p(x, z | parameters)]) + entropy of q
          <=  E_q[log p(x, z)] + entropy of q     (parameters integrated out for each z)
          <=  log p(x)                            (the sum over all z)

The first line is a textbook marginal at expected counts, which are themselves sums over labelings.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from itertools import pairwise, product

import numpy as np
import pytest
from enumeration import log_dirichlet_multinomial
from registers import FAMILIES
from scipy.integrate import quad
from scipy.special import betaln, logsumexp, xlogy
from scipy.stats import gamma

import stickbreak as sb
from stickbreak.data import Documents, Sequences, Table
from stickbreak.families import Categorical
from stickbreak.inference import CollapsedVB, ExcludeOwn, run
from stickbreak.initialize import from_local, from_plusplus
from stickbreak.models import dp_mixture, finite_hmm, finite_mixture, hdp_hmm, hdp_topics, lda
from stickbreak.stats import SERIAL
from tests.table_cases import BASE, WORDS, log_evidence

K = 2


def assert_bounds(bound, expected, chance, joint, tol=1e-6):
    """bound = expected <= E_q[joint] + entropy <= log evidence; chance, joint : of all labelings.

    tol : shares are float32, and what their sums lack of one counts
    """
    whole = float(chance @ joint - xlogy(chance, chance).sum())
    assert chance.sum() == pytest.approx(1.0, abs=1e-5)
    assert bound == pytest.approx(expected, abs=tol * max(1.0, abs(expected)))
    assert bound <= whole + 1e-6
    assert whole <= logsumexp(joint) + 1e-6


# ---- mixtures ------------------------------------------------------------------------------------
N_ROWS, SHAPE = 5, 2.0


def log_sticks(counts, c):
    """Beta(1, c) sticks, also the last of the K."""
    counts = np.array(counts)
    later = counts.sum() - np.cumsum(counts)
    return float((betaln(1 + counts, c + later) - betaln(1.0, c)).sum())


def log_finite(counts, c):
    return float(log_dirichlet_multinomial(np.array(counts), np.full(K, c / K)))


@cache
def averaged(log_p, counts):
    """Over a concentration from Gamma(SHAPE, 1)."""
    value = lambda c: np.exp(log_p(counts, c)) * gamma.pdf(c, SHAPE)
    return float(np.log(quad(value, 0, 60, epsabs=0, epsrel=1e-10, limit=200)[0]))


SHARES = {
    "finite": (lambda family: finite_mixture(family, 1.3), partial(log_finite, c=1.3)),
    "dp": (lambda family: dp_mixture(family, 0.7), partial(log_sticks, c=0.7)),
    "finite-learned": (
        lambda family: finite_mixture(family, sb.GammaPrior(SHAPE)),
        partial(averaged, log_finite),
    ),
    "dp-learned": (
        lambda family: dp_mixture(family, sb.GammaPrior(SHAPE)),
        partial(averaged, log_sticks),
    ),
}


LABELINGS = np.array(list(product(range(K), repeat=N_ROWS)))


def log_weighted(case, log_shares, weights):
    """Textbook marginal of rows with weights (n, K)."""
    X = case.dense[:N_ROWS]
    rows = sum(case.oracle.log_marginal(X, weights[:, k]) for k in range(K))
    return rows + log_shares(tuple(weights.sum(0)))


@cache
def log_joints(name, prior):
    return [log_weighted(FAMILIES[name], SHARES[prior][1], np.eye(K)[z]) for z in LABELINGS]


def judge_mixture(name, prior, q, bound):
    chance = np.array([q[range(N_ROWS), z].prod() for z in LABELINGS])
    expected = log_weighted(FAMILIES[name], SHARES[prior][1], q) - xlogy(q, q).sum()
    assert_bounds(bound, expected, chance, np.array(log_joints(name, prior)))


QUICK = {"gaussian", "diagonal", "categorical", "product", "skeleton"}
# each of the others takes seconds to compile
families = lambda some: pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in some]
)


@pytest.mark.few(4)
@families([name for name, case in FAMILIES.items() if case.family.sweeps])
@pytest.mark.parametrize("prior", SHARES)
def test_mixtures_row_by_row(name, prior):
    case = FAMILIES[name]
    table, model = Table(case.rows[:N_ROWS]), SHARES[prior][0](case.family)
    start = from_local(model, table, K, np.random.default_rng(1))
    for max_iter in (1, 30):
        found = run(model, CollapsedVB(max_iter=max_iter, tol=0.0), table, start)
        q = np.asarray(found.warm()["shares"], dtype=float)
        judge_mixture(name, prior, q, found.bound)


@families(FAMILIES)
@pytest.mark.parametrize("prior", ["finite", "dp"])
def test_mixtures_batch_by_batch(name, prior):
    """Shares are those of the last visits."""
    case, rule = FAMILIES[name], ExcludeOwn("batch")
    table, model = Table(case.dense[:N_ROWS]), SHARES[prior][0](case.family)
    start = from_plusplus(model, table, K, np.random.default_rng(1))
    counted, q = {}, np.zeros((N_ROWS, K))
    for _ in range(3):
        end = 0
        for batch in table.batches(3):
            seen = sum(counted.values(), start.seed.empty()) if len(counted) == 3 else start.seed
            others = rule.others(model, seen, counted.get(batch.id))
            counted[batch.id] = rule.visit(model, others, start.params, batch, None, (), SERIAL)[0]
            potentials = rule.potentials(model, others, start.params)
            begin, end = end, end + batch.n_rows
            q[begin:end] = model.shares(potentials, batch)
        total = sum(counted.values(), start.seed.empty())
        judge_mixture(name, prior, q, model.bound(total, start.params))


# ---- chains --------------------------------------------------------------------------------------
SYMBOLS = np.array([0, 1, 1, 2, 0, 1, 2])
CUTS = {"short": [0, 2, 3, 5, 7], "long": [0, 5, 7]}  # own steps of two rows are their joint
LEGAL = np.array([[1.0, 1.0], [1.0, 0.0]])  # symbol 0 has the first state only
CHAINS = [
    ("short", "sequence", 1, 1),
    ("short", "sequence", 2, 1),
    ("short", "token", 1, 1),
    ("short", "subsequence", 1, 1),
    ("long", "subsequence", 1, 1),
    ("long", "subsequence", 1, 2),
    ("long", "token", 1, 1),
]


def chances(own, offsets):
    """q of every labeling: a product over units of one row or two."""
    found = []
    for z in product(range(K), repeat=len(SYMBOLS)):
        value = 1.0
        for u, (lo, hi) in enumerate(pairwise(offsets)):
            value *= own["rows"][lo, z[lo]] if hi - lo == 1 else own["pairs"][u][z[lo : lo + 2]]
        found.append(value)
    return np.array(found, dtype=float)


def chain_counts(z, ends):
    """First states (1, K), steps (K, K) and emissions (K, V) of a labeling."""
    z, first, steps, words = np.array(z), np.zeros((1, K)), np.zeros((K, K)), np.zeros((K, 3))
    np.add.at(words, (z, SYMBOLS), 1)
    for lo, hi in pairwise(ends):
        first[0, z[lo]] += 1
        np.add.at(steps, (z[lo : hi - 1], z[lo + 1 : hi]), 1)
    return first, steps, words


def log_chain(counts, first=0.7, stickiness=1.5):
    prior = (
        np.full((1, K), first),
        np.full((K, K), 0.3) + stickiness * np.eye(K),
        np.full((K, 3), 0.4),
    )
    return sum(
        float(log_dirichlet_multinomial(n, a).sum()) for n, a in zip(counts, prior, strict=True)
    )


@pytest.mark.parametrize("is_limited", [False, True])
@pytest.mark.parametrize(("cut", "granularity", "block", "length"), CHAINS)
def test_chains_unit_by_unit(cut, granularity, block, length, is_limited):
    ends = np.array(CUTS[cut])
    data = Sequences(SYMBOLS[:, None], offsets=ends)
    if is_limited:
        data = replace(data, sets=(SYMBOLS == 0).astype(int))
    model = finite_hmm(
        Categorical(0.4, (3,)), concentration=0.3, start_concentration=0.7, stickiness=1.5
    )
    legal = LEGAL if is_limited else None
    start = from_local(model, data, K, np.random.default_rng(1), legal=legal)
    engine = CollapsedVB(granularity=granularity, block=block, subchain_length=length, tol=0.0)
    labelings = list(product(range(K), repeat=len(SYMBOLS)))
    if granularity == "token":
        units = np.arange(len(SYMBOLS) + 1)
    else:
        units = engine.rule().units(data.whole()).offsets
    counted = [chain_counts(z, ends) for z in labelings]
    joint = np.array([log_chain(found) for found in counted])
    if is_limited:  # the evidence is that of the words and of legal states
        joint[[any(z[t] for t in np.flatnonzero(SYMBOLS == 0)) for z in labelings]] = -1e9
    for max_iter in (1, 2, 25):
        found = run(model, replace(engine, max_iter=max_iter), data, start)
        chance = chances(found.warm(), units)
        mean = [sum(c * n[i] for c, n in zip(chance, counted, strict=True)) for i in range(3)]
        expected = log_chain(mean) - xlogy(chance, chance).sum()
        assert_bounds(found.bound, expected, chance, joint)


@pytest.mark.covering
@pytest.mark.parametrize("granularity", ["sequence", "token", "subsequence"])
@pytest.mark.parametrize(("c", "top"), [(0.5, 1.0), (3.0, 0.7)])
def test_chains_around_a_root_are_below_the_evidence(granularity, c, top):
    """Two states, the sticks of the root on a fine grid."""
    ends = np.r_[0, np.cumsum([len(words) for words in WORDS])]
    data = Sequences(np.concatenate(WORDS)[:, None], offsets=ends)
    model = hdp_hmm(
        Categorical(BASE, (2,)), concentration=c, start_concentration=c, top_concentration=top
    )
    engine = CollapsedVB(granularity=granularity, subchain_length=2, max_iter=20, tol=0.0)
    exact = log_evidence(c, top)
    for seed in range(5):
        start = from_local(model, data, K, np.random.default_rng(seed))
        found = run(model, engine, data, start)
        bounds = [lap.bound for lap in found.trace]
        assert exact - 10.0 < min(bounds)  # VB of a root loses some nats on five words
        assert max(bounds) < exact


@pytest.mark.slow
def test_tables_with_learned_concentrations_are_below_the_evidence():
    """That of the concentrations which were learned: they are points, without a prior of theirs."""
    X = [np.array(words)[:, None] for words in WORDS]
    for seed in range(5):
        model = sb.HDPHMM(
            K, family=sb.Categorical(BASE), root="tables", init="local", max_iter=30, tol=0.0,
            concentration=3.0, top_concentration=2.0, random_state=seed,
        )  # fmt: skip
        with pytest.warns(sb.ConvergenceWarning):
            model.fit(X)
        exact = log_evidence(model.concentration_, model.top_concentration_)
        assert exact - 4.0 < model.lower_bound_ < exact


# ---- documents -----------------------------------------------------------------------------------
TOKENS, OF_DOCUMENT = np.array([0, 0, 1, 2, 1, 2, 2]), np.array([0, 0, 0, 0, 1, 1, 1])
TEXTS = Documents(
    np.array([0, 1, 2, 1, 2])[:, None], np.array([2.0, 1, 1, 1, 2]), offsets=np.array([0, 3, 5])
)
AT = np.array([0, 0, 1, 2, 3, 4, 4])  # the row of every occurrence


def document_counts(z):
    """Topics of documents (D, K), words of topics (K, V)."""
    documents, topics = np.zeros((2, K)), np.zeros((K, 3))
    np.add.at(documents, (OF_DOCUMENT, np.array(z)), 1)
    np.add.at(topics, (np.array(z), TOKENS), 1)
    return documents, topics


ALL_LABELS = list(product(range(K), repeat=len(TOKENS)))
COUNTED = [document_counts(z) for z in ALL_LABELS]


def log_topics(topics):
    return float(log_dirichlet_multinomial(topics, np.full((K, 3), 0.4)).sum())


def test_documents_word_by_word():
    prior = np.full((2, K), 0.6)
    log_joint = lambda documents, topics: (
        float(log_dirichlet_multinomial(documents, prior).sum()) + log_topics(topics)
    )
    joint = np.array([log_joint(*counts) for counts in COUNTED])
    model = lda(Categorical(0.4, (3,)), concentration=0.6)
    start = from_local(model, TEXTS, K, np.random.default_rng(1))
    for max_iter in (1, 2, 30):
        found = run(model, CollapsedVB(max_iter=max_iter, tol=0.0), TEXTS, start)
        q = np.asarray(found.warm()["shares"], dtype=float)[AT]
        chance = np.array([q[range(len(TOKENS)), z].prod() for z in ALL_LABELS])
        mean = [sum(c * n[i] for c, n in zip(chance, COUNTED, strict=True)) for i in range(2)]
        expected = log_joint(*mean) - xlogy(chance, chance).sum()
        assert_bounds(found.bound, expected, chance, joint)


@pytest.mark.few(1)
@pytest.mark.parametrize(("c", "top"), [(0.5, 1.0), (3.0, 0.7), (2.0, 5.0)])
def test_documents_around_a_root_are_below_the_evidence(c, top):
    """Labels among the first two topics, the sticks of the root on a fine grid."""
    nodes, share = np.polynomial.legendre.leggauss(50)
    u = 1.0 - ((nodes + 1) / 2) ** (1.0 / top)  # quantiles of Beta(1, top)
    first, second = np.meshgrid(u, u, indexing="ij")
    b = np.stack([first, (1 - first) * second, (1 - first) * (1 - second)], axis=-1)
    weight, total = np.outer(share, share) / 4, 0.0
    for documents, topics in COUNTED:
        wide = np.column_stack([documents, np.zeros(2)])
        log_p = sum(log_dirichlet_multinomial(n, c * b) for n in wide)
        total += (weight * np.exp(log_p)).sum() * np.exp(log_topics(topics))
    model = hdp_topics(Categorical(0.4, (3,)), concentration=c, top_concentration=top)
    for seed in range(5):
        start = from_local(model, TEXTS, K, np.random.default_rng(seed))
        found = run(model, CollapsedVB(max_iter=20, tol=0.0), TEXTS, start)
        bounds = [lap.bound for lap in found.trace]
        assert np.log(total) - 10.0 < min(bounds)
        assert max(bounds) < np.log(total)
