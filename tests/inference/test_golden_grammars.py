"""Grammars with known answers: a small one that was enumerated, and a hidden Markov model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from oracles.tree import all_trees, counts_of
from scipy.special import gammaln, logsumexp

from stickbreak.data import Sequences
from stickbreak.families import Categorical
from stickbreak.inference import EM, BatchVB, CollapsedVB, MeanLog, Start, run
from stickbreak.models import Model, finite_hmm
from stickbreak.priors.rule_tables import Table
from stickbreak.priors.rules import GrammarTables
from stickbreak.stats import SERIAL, Fields
from stickbreak.structures import Tree

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class GivenTables(GrammarTables):
    """Prior counts entry by entry; zero marks what is impossible.

    One Dirichlet over all rules of a category is a Beta over its kinds and a Dirichlet over the
    rules of each kind, so that grammars whose words and pairs share one are among these.
    """

    root: Any
    kind: Any
    rule: Any

    def tables(self, params: Fields, n_components: int) -> dict[str, Table]:
        return {
            "root": Table(np.array(self.root, dtype=float)),
            "kind": Table(np.array(self.kind, dtype=float)),
            "binary_rule": Table(np.array(self.rule, dtype=float), width=2),
        }


# ------------------------------------------------------------------------- S -> SA|AS|SS|a|b

RULES = [(0, 0, 1), (0, 1, 0), (0, 0, 0), (1, 0, 1)]  # S -> SA, AS, SS, and A -> SA
WORDS = [[0, 1], [0, 0, 1], [1, 1, 0], [0, 1, 1]]


def small() -> tuple[Model, Sequences, Start]:
    """The model, its four sentences, and a start in which all trees have the same share."""
    rule = np.zeros((2, 2, 2))
    for at in RULES:
        rule[at] = 0.5
    prior = GivenTables([1.0, 0.0], [[1.0, 1.5], [1.0, 0.5]], rule)
    model = Model(Tree(), Categorical(0.5, n_symbols=(2,)), prior, "category")
    ends = np.r_[0, np.cumsum([len(words) for words in WORDS])]
    data = Sequences(np.concatenate(WORDS)[:, None], offsets=ends)
    params, own = model.start_params(2), Tree().own_counts(data.whole(), 2, "category")
    even = {name: np.where(table > 0, 0.0, -np.inf) for name, table in tables_of(prior).items()}
    potentials = replace(
        model.predictive(model.zeros(2), params), tables=even, scores=flat_scores(model)
    )
    for s in range(4):
        unit = data.whole().part(s, s + 1)
        found, _ = model.local_step(potentials, unit.alone())
        rows = model.shares(potentials, unit.alone())
        Tree().keep_own(rows, dict(found.arrays), own.cut(**unit.cut))
    seed, _ = model.local_step(potentials, data.whole())
    return model, data, Start(seed, params, warm=own)


def tables_of(prior: GivenTables) -> dict[str, Array]:
    return {name: table.pseudo for name, table in prior.tables(Fields({}, {}), 2).items()}


def flat_scores(model: Model) -> Any:
    """Every word has the weight one."""
    found = model.family.log_mean(model.zeros(2))
    return replace(found, log_table=np.zeros_like(found.log_table))


def flat_counts(counts: Any) -> Array:
    """S -> SA, AS, SS, a, b and A -> SA, a, b."""
    rules = [counts["binary_rule"][at] for at in RULES]
    words = counts["emission"].T
    return np.r_[rules[:3], words[0], rules[3:], words[1]]


GOLDEN = {
    1: (
        [2.430991, 2.490554, 1.747914, 2.784136, 3.294319, 0.330541, 2.215864, 2.705681],
        -22.22783372,
    ),
    300: (
        [1.500353, 4.627495, 0.698311, 0.796234, 4.075917, 0.173841, 4.203766, 1.924083],
        -20.81115557,
    ),
}


@pytest.mark.parametrize("n_sweeps", [1, 300])
def test_collapsed_sweeps_of_a_small_grammar(n_sweeps: int) -> None:
    model, data, start = small()
    for _ in range(-(-n_sweeps // 4)):  # a fit may end before its posteriors have settled
        result = run(model, CollapsedVB(max_iter=min(n_sweeps, 4), tol=0.0), data, start)
        start = Start(result.counts, result.params, warm=result.warm())
    counts, bound = GOLDEN[n_sweeps]
    # own counts are kept in single precision; the published counts have six digits
    np.testing.assert_allclose(flat_counts(result.counts), counts, atol=2e-5)
    assert result.bound == pytest.approx(bound, abs=2e-5)


def test_variational_bayes_of_a_small_grammar() -> None:
    model, data, start = small()
    result = run(model, BatchVB(max_iter=2000, tol=1e-14), data, start)
    expected = [1.414709, 5.439405, 0.117498, 0.053749, 4.092137, 0.028388, 4.946251, 1.907863]
    np.testing.assert_allclose(flat_counts(result.counts), expected, atol=1e-5)
    assert result.bound == pytest.approx(-19.96230357, abs=1e-7)
    assert (np.diff(result.trace.bound) > -1e-10).all()


def trees_of(words: list[int]) -> Array:
    """(trees, 8) flat counts of the rules of every tree that the grammar has."""
    found = []
    for nodes in all_trees(len(words), 2):
        counts = counts_of(nodes, 2)
        flat = flat_counts({**counts, "emission": np.eye(2)[words].T @ counts["rows"]})
        is_whole = flat[[0, 1, 2, 5]].sum() == len(words) - 1
        if counts["root"][0] and is_whole:
            found.append(flat)
    return np.array(found)


def log_joint(counts: Array) -> Array:
    """Log p(x, trees) of flat counts (m, 8), rules integrated out."""
    found = np.zeros(len(counts))
    for own in (counts[:, :5], counts[:, 5:]):
        n = own.shape[1]
        found += gammaln(0.5 * n) - gammaln(0.5 * n + own.sum(1))
        found += (gammaln(0.5 + own) - gammaln(0.5)).sum(1)
    return found


def test_bounds_of_a_small_grammar_are_ordered() -> None:
    """C4: the variational bound, that with rules integrated out at the same q, the evidence."""
    model, data, start = small()
    result = run(model, BatchVB(max_iter=2000, tol=1e-14), data, start)
    potentials = model.potentials(result.counts, result.params, MeanLog())
    rules, kinds = potentials["binary_rule"], potentials["kind"]
    words = potentials.scores.log_table.T + kinds[:, :1]
    log_rules = np.array([rules[at] + kinds[at[0], 1] for at in RULES])
    weights = np.r_[log_rules[:3], words[0], log_rules[3:], words[1]]
    totals, log_q = np.zeros((1, 8)), np.zeros(1)
    for sentence in WORDS:
        own = trees_of(sentence)
        shares = own @ weights - logsumexp(own @ weights)
        totals = (totals[:, None] + own).reshape(-1, 8)
        log_q = (log_q[:, None] + shares).ravel()
    assert len(totals) == 8232
    evidence = logsumexp(log_joint(totals))
    collapsed = np.exp(log_q) @ (log_joint(totals) - log_q)
    assert result.bound < collapsed < evidence
    assert evidence == pytest.approx(-18.05091479, abs=1e-8)
    assert collapsed == pytest.approx(-19.51171453, abs=1e-7)


def test_the_order_of_rules_does_not_matter_for_their_joint() -> None:
    rng = np.random.default_rng(0)
    own, others, alpha = rng.integers(0, 4, 4), rng.gamma(2.0, size=4), 0.3
    found = []
    for order in permutations(range(4)):
        value, before = 0.0, 0
        for r in order:
            for m in range(own[r]):
                value += np.log(others[r] + m + alpha)
                value -= np.log(others.sum() + before + m + 4 * alpha)
            before += own[r]
        found.append(value)
    np.testing.assert_allclose(found, found[0], rtol=1e-12)


# --------------------------------------------------------------------- a chain with a stop state

K, V, ALPHA = 2, 3, 0.4
STOP = slice(1, K + 1)  # X_k: what follows state k
STATE = slice(K + 1, 2 * K + 1)  # E_k: a word of state k


def chains() -> tuple[Array, Array, Array]:
    """Words (n,), -1 for the end of each sequence, offsets, and the set of each row."""
    rng = np.random.default_rng(1)
    lengths = rng.integers(1, 5, 6)
    words = [np.r_[rng.integers(0, V, n), -1] for n in lengths]
    sets = [np.r_[np.full(n, 1), 2] for n in lengths]
    return np.concatenate(words), np.r_[0, np.cumsum(lengths + 1)], np.concatenate(sets)


def as_chain() -> tuple[Model, Array]:
    rows = np.full((K + 1, K + 1), ALPHA)
    model = finite_hmm(
        Categorical(0.5, n_symbols=(V,)),
        start_prior=np.r_[np.full(K, ALPHA), 0.0],
        transition_prior=rows,
    )
    legal = np.array([[1] * (K + 1), [1] * K + [0], [0] * K + [1]])
    return model, legal


def as_grammar() -> tuple[Model, Array]:
    """S -> E_k X_k, X_k -> E_l X_l or the end, E_k -> a word."""
    n = 2 * K + 1
    root, kind, rule = np.eye(n)[0], np.zeros((n, 2)), np.zeros((n, n, n))
    kind[0], kind[STOP], kind[STATE] = [0.0, 1.0], [ALPHA, K * ALPHA], [1.0, 0.0]
    for a in range(K + 1):
        for k in range(K):
            rule[a, K + 1 + k, 1 + k] = ALPHA
    rule[STATE, 0, 0] = 1.0  # of categories that never split
    model = Model(
        Tree(), Categorical(0.5, n_symbols=(V,)), GivenTables(root, kind, rule), "category"
    )
    legal = np.ones((3, n))
    legal[1], legal[2] = 0.0, 0.0
    legal[1, STATE], legal[2, STOP] = 1.0, 1.0
    return model, legal


def starts(data: Sequences) -> tuple[Start, Start]:
    """The same random chains, as chains and as trees."""
    chain, legal = as_chain()
    rng = np.random.default_rng(2)
    own = chain.structure.random_own(data.whole(), K + 1, chain.axis, rng, legal)
    trees = Tree().own_counts(data.whole(), 2 * K + 1, "category")
    rows, pairs = own["rows"], own["pairs"]
    trees["rows"][:, STATE] = rows[:, :K]
    last = data.offsets[1:] - 1
    trees["rows"][last] = 0.0
    trees["rows"][last, STOP] = rows[last - 1, :K]
    trees["roots"][:, 0] = 1.0
    for k in range(K):
        trees["rules"][:, 0, K + 1 + k, 1 + k] = rows[data.offsets[:-1], k]
        for j in range(K):
            trees["rules"][:, 1 + j, K + 1 + k, 1 + k] = pairs[:, j, k]
    from stickbreak.inference import count_own

    found = []
    for (model, sets), kept in ((as_chain(), own), (as_grammar(), trees)):
        params = model.start_params(len(sets[0]), sets)
        found.append(Start(count_own(model, params, data.whole(), kept, SERIAL), params, warm=kept))
    return found[0], found[1]


@pytest.mark.slow
@pytest.mark.parametrize("engine", [EM, BatchVB, CollapsedVB])
def test_a_chain_with_a_stop_state_is_a_grammar(engine: Any) -> None:
    words, ends, sets = chains()
    data = Sequences(words[:, None], offsets=ends, sets=sets)
    results = []
    for model, start in zip((as_chain()[0], as_grammar()[0]), starts(data), strict=True):
        results.append(run(model, engine(max_iter=4, tol=0.0), data, start))
    chain, tree = results
    tolerance = 1e-5 if engine is CollapsedVB else 1e-9  # own counts: single precision
    differences = np.asarray(chain.trace.bound) - np.asarray(tree.trace.bound)
    # EM's objective has constants of rows that are never used
    np.testing.assert_allclose(differences, differences[0], atol=tolerance)
    if engine is not EM:
        np.testing.assert_allclose(differences, 0.0, atol=tolerance)
    np.testing.assert_allclose(
        tree.counts["emission"][:, STATE], chain.counts["emission"][:, :K], atol=tolerance
    )
    steps = tree.counts["binary_rule"]
    for j in range(K):
        for k in range(K):
            found = steps[1 + j, K + 1 + k, 1 + k]
            assert found == pytest.approx(chain.counts["transition"][j, k], abs=tolerance)
