"""Mean field of documents against a plain computation that holds every share."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import digamma, gammaln, logsumexp, xlogy

from stickbreak.kernels.documents import infer_documents, log_documents


@dataclass
class Corpus:
    """Random documents: log evidence of M symbols for K components, words, repeats, and prior
    counts.
    """

    log_table: np.ndarray
    index: np.ndarray
    repeats: np.ndarray
    offsets: np.ndarray
    pseudo: np.ndarray
    rest: float

    @classmethod
    def make(cls, seed=0, K=5, M=30, lengths=(7, 1, 0, 12, 4), pseudo=0.3, rest=0.2, spread=2.0):
        rng = np.random.default_rng(seed)
        offsets = np.r_[0, np.cumsum(lengths)]
        index = np.concatenate([rng.choice(M, n, replace=False) for n in lengths]).astype(np.int64)
        repeats = rng.integers(1, 5, len(index)).astype(float)
        return cls(
            rng.normal(0, spread, (M, K)),
            index,
            repeats,
            offsets,
            pseudo * rng.uniform(0.5, 1.5, K),
            rest,
        )

    @property
    def K(self):
        return len(self.pseudo)

    def infer(self, counts=None, max_steps=500, tol=1e-12, restarts=(0.0, 0.0), times=None):
        W, S = -(-self.K // 8) * 8, len(self.offsets) - 1
        table, pseudo, own = np.zeros((len(self.log_table), W)), np.ones(W), np.zeros((S, W))
        top = self.log_table.max(1)
        table[:, : self.K], pseudo[: self.K] = np.exp(self.log_table - top[:, None]), self.pseudo
        if counts is not None:
            own[:, : self.K] = counts
        weights, scale, log_share, found = (
            np.empty((S, W)),
            np.empty(len(self.index)),
            np.zeros(W + 1),
            np.empty((S, 4)),
        )
        times = np.ones(S) if times is None else times
        infer_documents(
            table, self.index, self.repeats, self.offsets, times, pseudo, self.rest, self.K,
            max_steps, tol, np.array(restarts),
            own, weights, scale, log_share, found,
        )  # fmt: skip
        unit = np.repeat(np.arange(S), np.diff(self.offsets))
        shares = scale[:, None] * table[self.index, : self.K] * weights[unit, : self.K]
        found[:, 0] += np.bincount(unit, self.repeats * top[self.index], S)
        return own[:, : self.K], shares, np.r_[log_share[: self.K], log_share[W]], found

    def words(self, s):
        at = slice(self.offsets[s], self.offsets[s + 1])
        return self.log_table[self.index[at]], self.repeats[at]

    def prior_part(self, log_share, n=1.0):
        """What the prior adds to the bound: E[log p(pi)] of n documents."""
        prior = np.r_[self.pseudo, self.rest] if self.rest else self.pseudo
        return (
            n * (gammaln(prior.sum()) - gammaln(prior).sum())
            + (prior * log_share[: len(prior)]).sum()
        )

    def bound(self, s, r):
        """The bound of document s with shares r (n, K) of its words, all of its terms, the
        Dirichlet at its best.
        """
        evidence, c = self.words(s)
        prior = np.r_[self.pseudo, self.rest] if self.rest else self.pseudo
        theta = prior + np.r_[c @ r, 0.0][: len(prior)] if self.rest else prior + c @ r
        log_share = digamma(theta) - digamma(theta.sum())
        words = (c[:, None] * (r * (evidence + log_share[: self.K]) - xlogy(r, r))).sum()
        normalizer = lambda v: gammaln(v.sum()) - gammaln(v).sum()
        return words + normalizer(prior) - normalizer(theta) + (
            (prior - theta) * log_share
        ).sum(), log_share


def step(corpus, s, counts):
    """Shares (n, K) from counts (K,)."""
    evidence, _ = corpus.words(s)
    logits = evidence + digamma(counts + corpus.pseudo)
    return np.exp(logits - logsumexp(logits, axis=1, keepdims=True))


CASES = {
    "few": Corpus.make(),
    "without unused mass": Corpus.make(1, K=3, rest=0.0),
    "many components": Corpus.make(2, K=21, lengths=(30, 9, 2)),
    "sparse": Corpus.make(3, K=8, pseudo=1e-3, rest=1e-3),
}


@pytest.mark.parametrize("name", CASES)
def test_fixed_point_and_bound(name):
    corpus = CASES[name]
    counts, shares, log_share, found = corpus.infer()
    total = np.zeros(corpus.K + 1)
    for s in range(len(counts)):
        at = slice(corpus.offsets[s], corpus.offsets[s + 1])
        r = step(corpus, s, counts[s])
        np.testing.assert_allclose(shares[at], corpus.repeats[at][:, None] * r, atol=1e-8)
        value, own = corpus.bound(s, r)
        prior = corpus.prior_part(own)
        assert found[s, :2].sum() + prior == pytest.approx(value, abs=1e-8)
        total[: len(own)] += own
    np.testing.assert_allclose(log_share, total, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(
        counts.sum(1), [corpus.words(s)[1].sum() for s in range(len(counts))]
    )


@pytest.mark.parametrize("name", CASES)
def test_bound_is_exact_after_any_number_of_steps_and_rises(name):
    corpus, counts, before = CASES[name], None, -np.inf
    for _ in range(12):
        counts, shares, log_share, found = corpus.infer(counts, max_steps=1)
        values = []
        for s in range(len(counts)):
            at = slice(corpus.offsets[s], corpus.offsets[s + 1])
            values.append(corpus.bound(s, shares[at] / corpus.repeats[at][:, None])[0])
        now = found[:, :2].sum() + corpus.prior_part(log_share, len(counts))
        assert now == pytest.approx(sum(values), abs=1e-8)
        assert now >= before - 1e-9
        before = now


def test_cold_start_uses_the_prior_shares():
    corpus = CASES["few"]
    counts, shares, _, _ = corpus.infer(max_steps=1)
    evidence, c = corpus.words(0)
    logits = evidence + np.log(corpus.pseudo)
    r = np.exp(logits - logsumexp(logits, axis=1, keepdims=True))
    np.testing.assert_allclose(counts[0], c @ r)
    np.testing.assert_allclose(shares[: len(c)], c[:, None] * r)


def test_a_word_three_times_is_three_words():
    corpus = Corpus.make(6, K=4, lengths=(9,))
    index = np.repeat(corpus.index, corpus.repeats.astype(int))
    tokens = Corpus(
        corpus.log_table,
        index,
        np.ones(len(index)),
        np.array([0, len(index)]),
        corpus.pseudo,
        corpus.rest,
    )
    once, apart = corpus.infer(), tokens.infer()
    np.testing.assert_allclose(once[0], apart[0], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(once[2], apart[2], rtol=1e-10)
    np.testing.assert_allclose(once[3][:, :2].sum(), apart[3][:, :2].sum(), rtol=1e-10)


def test_worked_example_of_a_birth():
    """E[log pi] before and after a topic's words go to two newborns, to three decimals."""

    def expected(shares, rest, counts):
        theta = np.r_[np.array(shares) + counts, rest]
        return digamma(theta) - digamma(theta.sum())

    before = expected([0.4, 0.3, 0.2], 0.1, [10.0, 50.0, 5.0])
    after = expected([0.4, 0.3, 0.02, 0.09, 0.09], 0.1, [10.0, 50.0, 0.0, 3.0, 2.0])
    np.testing.assert_allclose(before, [-1.889, -0.274, -2.633, -14.606], atol=5e-4)
    np.testing.assert_allclose(after, [-1.889, -0.274, -54.727, -3.224, -3.703, -14.606], atol=5e-4)
    log_table = np.zeros((5, 5))
    np.fill_diagonal(log_table, 60.0)  # a word for each topic
    corpus = Corpus(
        log_table, np.array([0, 1, 3, 4]), np.array([10.0, 50.0, 3.0, 2.0]), np.array([0, 4]),
        np.array([0.4, 0.3, 0.02, 0.09, 0.09]), 0.1,
    )  # fmt: skip
    np.testing.assert_allclose(corpus.infer()[2], after, atol=5e-4)


def test_a_document_without_words():
    corpus = CASES["few"]
    counts, _, _, found = corpus.infer()
    assert (counts[2] == 0).all()
    alone = Corpus(
        corpus.log_table,
        corpus.index[:0],
        corpus.repeats[:0],
        np.array([0, 0]),
        corpus.pseudo,
        corpus.rest,
    )
    _, _, log_share, found = alone.infer()
    assert found[0, :2].sum() + alone.prior_part(log_share) == pytest.approx(0.0, abs=1e-10)


def test_documents_that_count_several_times():
    corpus = CASES["few"]
    once, times = corpus.infer(), corpus.infer(times=np.array([3.0, 1.0, 2.0, 0.0, 1.5]))
    np.testing.assert_array_equal(once[0], times[0])
    unit = np.repeat(np.arange(5), np.diff(corpus.offsets))
    np.testing.assert_allclose(
        times[1], once[1] * np.array([3.0, 1.0, 2.0, 0.0, 1.5])[unit][:, None]
    )
    alone = [
        Corpus(
            **{
                **vars(corpus),
                "offsets": np.array([0, 7]),
                "index": corpus.index[:7],
                "repeats": corpus.repeats[:7],
            }
        )
    ]
    np.testing.assert_allclose(alone[0].infer(times=np.array([3.0]))[2], 3.0 * alone[0].infer()[2])


def test_in_any_company_a_document_has_the_same_bits():
    corpus = Corpus.make(5, K=11, lengths=(9, 3, 17))
    alone = Corpus(
        corpus.log_table,
        corpus.index[9:12],
        corpus.repeats[9:12],
        np.array([0, 3]),
        corpus.pseudo,
        corpus.rest,
    )
    np.testing.assert_array_equal(alone.infer()[0][0], corpus.infer()[0][1])


@pytest.mark.parametrize("seed", range(5))
def test_restarts_never_lower_the_bound_of_a_document(seed):
    corpus = Corpus.make(seed, K=6, M=40, lengths=(25, 30, 8), pseudo=0.05, rest=0.05)
    plain, better = corpus.infer(tol=1e-6), corpus.infer(tol=1e-6, restarts=(25.0, 0.1))
    for s in range(3):
        at = slice(corpus.offsets[s], corpus.offsets[s + 1])
        values = [
            corpus.bound(s, found[1][at] / corpus.repeats[at][:, None])[0]
            for found in (plain, better)
        ]
        assert values[1] >= values[0] - 1e-9
    assert (better[3][:, 3] <= better[3][:, 2]).all()


def test_restarts_leave_a_trap():
    """A component that holds four words of a long document is a fixed point; without it the
    document is better off.
    """
    log_table = np.log(np.array([[0.9, 0.5], [0.01, 0.5]]))
    corpus = Corpus(
        log_table, np.array([0, 1]), np.array([60.0, 4.0]), np.array([0, 2]), np.full(2, 0.001), 0.0
    )
    trapped = np.array([[60.0, 4.0]])
    stuck, free = (
        corpus.infer(trapped, tol=1e-6),
        corpus.infer(trapped, tol=1e-6, restarts=(25.0, 0.1)),
    )
    assert stuck[0][0, 1] > 1.0
    assert free[0][0, 1] < 0.1
    assert free[3][0, 3] == 1
    values = [found[3][0, :2].sum() + corpus.prior_part(found[2]) for found in (stuck, free)]
    assert values[1] > values[0] + 1.0


def test_words_that_no_weight_reaches_are_done_in_logs():
    """Evidence 900 nats apart, and a component without prior mass to speak of."""
    log_table = np.array([[0.0, -900.0], [-900.0, 0.0]])
    corpus = Corpus(
        log_table,
        np.array([0, 1]),
        np.array([2.0, 3.0]),
        np.array([0, 2]),
        np.array([1.0, 1e-4]),
        0.0,
    )
    assert corpus.infer(np.array([[5.0, 0.0]]))[3][0, 0] == -np.inf
    counts, log_weights, log_sums = np.array([5.0, 0.0]), np.empty(2), np.empty(2)
    log_documents(
        log_table, corpus.repeats, corpus.pseudo, 200, 1e-10, counts, log_weights, log_sums
    )
    # 900 nats are less than digamma(1e-4) = -10,000
    np.testing.assert_allclose(counts, [5.0, 0.0], atol=1e-12)
    np.testing.assert_allclose(log_sums, [digamma(6.0), digamma(6.0) - 900.0])


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 20), st.floats(1e-3, 3.0))
def test_logs_find_the_same(seed, K, pseudo):
    corpus = Corpus.make(seed, K=K, lengths=(10,), pseudo=pseudo)
    counts = corpus.infer(max_steps=7, tol=0.0)[0][0]
    own, evidence = np.zeros(K), corpus.words(0)
    log_documents(*evidence, corpus.pseudo, 7, 0.0, own, np.empty(K), np.empty(10))
    np.testing.assert_allclose(counts, own, rtol=1e-8, atol=1e-9)
