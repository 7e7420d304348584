"""Documents with a few components each, against the plain computation that holds every share."""

import numpy as np
import pytest

from stickbreak.kernels.sparse_documents import find_likely, infer_sparse_documents

from .test_documents import CASES, Corpus, step


def infer(corpus, limit, counts=None, max_steps=500, n_trials=0, times=None, tol=1e-12):
    """New counts (S, K), dense shares (n, K), E[log pi] (K + 1,), found (S, 4)."""
    K, S, n = corpus.K, len(corpus.offsets) - 1, len(corpus.index)
    W = -(-K // 8) * 8
    table, pseudo = np.zeros((len(corpus.log_table), W)), np.ones(W)
    top = corpus.log_table.max(1)
    table[:, :K], pseudo[:K] = np.exp(corpus.log_table - top[:, None]), corpus.pseudo
    own = np.zeros((S, K)) if counts is None else np.array(counts, dtype=float)
    likely = np.empty((len(table), min(4, K)), dtype=np.int64)
    peaks = np.empty(likely.shape)
    find_likely(table, K, likely, peaks)
    values, index = np.zeros((n, limit)), np.zeros((n, limit), dtype=np.int64)
    log_share, found = np.zeros(W + 1), np.empty((S, 4))
    infer_sparse_documents(
        table, corpus.index, likely, peaks, corpus.repeats, corpus.offsets,
        np.ones(S) if times is None else times, pseudo, corpus.rest, K, max_steps, tol, n_trials,
        own, values, index, log_share, found,
    )  # fmt: skip
    unit = np.repeat(np.arange(S), np.diff(corpus.offsets))
    found[:, 0] += np.bincount(unit, corpus.repeats * top[corpus.index], S)
    shares = np.zeros((n, K))
    np.add.at(shares, (np.arange(n)[:, None], index), values)
    return own, shares, np.r_[log_share[:K], log_share[W]], found


@pytest.mark.parametrize("name", CASES)
def test_fixed_point_within_the_set_and_its_bound(name):
    """Shares are those of the model without the other components, and the bound is the plain one
    at these shares: a valid one for the model with all components.
    """
    corpus, limit = CASES[name], 2
    counts, shares, log_share, found = infer(corpus, limit)
    total = np.zeros(corpus.K + 1)
    assert ((counts > 0).sum(1) <= limit).all()
    for s in range(len(counts)):
        at = slice(corpus.offsets[s], corpus.offsets[s + 1])
        r = step(corpus, s, counts[s]) * (counts[s] > 0)
        r /= np.maximum(r.sum(1, keepdims=True), 1e-300)
        np.testing.assert_allclose(shares[at], corpus.repeats[at][:, None] * r, atol=1e-8)
        np.testing.assert_allclose(counts[s], shares[at].sum(0), atol=1e-12)
        value, own = corpus.bound(s, shares[at] / corpus.repeats[at][:, None])
        assert found[s, :2].sum() + corpus.prior_part(own) == pytest.approx(value, abs=1e-8)
        total[: len(own)] += own
    np.testing.assert_allclose(log_share, total, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("n_trials", [0, 2])
@pytest.mark.parametrize("name", CASES)
def test_bound_rises_from_visit_to_visit(name, n_trials):
    corpus, counts, before = CASES[name], None, -np.inf
    for _ in range(12):
        counts, _, log_share, found = infer(corpus, 2, counts, max_steps=2, n_trials=n_trials)
        now = found[:, :2].sum() + corpus.prior_part(log_share, len(counts))
        assert now >= before - 1e-9
        before = now


def test_exchanges_find_a_component_that_was_left_out():
    """Words of component 3 alone, in a document that holds 0 and 1."""
    log_table = np.where(np.eye(6, 5) > 0, 0.0, -6.0)
    corpus = Corpus(
        log_table, np.array([3, 5]), np.array([9.0, 1.0]), np.array([0, 2]), np.full(5, 0.3), 0.0
    )
    start = np.array([[5.0, 5.0, 0, 0, 0]])
    stuck, moved = (infer(corpus, 2, start, n_trials=n)[0] for n in (0, 2))
    assert stuck[0, 3] == 0
    assert moved[0, 3] > 8.5
    tried, accepted = infer(corpus, 2, start, n_trials=2)[3][0, 2:]
    assert tried >= accepted >= 1


def test_documents_that_count_several_times_and_one_without_words():
    corpus, times = CASES["few"], np.array([3.0, 1.0, 2.0, 0.0, 1.5])
    once, often = infer(corpus, 2), infer(corpus, 2, times=times)
    np.testing.assert_array_equal(once[0], often[0])
    assert (once[0][2] == 0).all()
    unit = np.repeat(np.arange(5), np.diff(corpus.offsets))
    np.testing.assert_allclose(often[1], once[1] * times[unit][:, None])


def test_a_lost_document_keeps_its_counts_and_says_so():
    corpus = Corpus.make(5, K=4, lengths=(3, 4))
    corpus.log_table[corpus.index[0]] = [0.0, -800.0, -800.0, -800.0]
    start = np.array([[0.0, 3.0, 2.0, 0.0], [1.0, 1.0, 0.0, 0.0]])
    counts, _, _, found = infer(corpus, 2, start)
    np.testing.assert_array_equal(counts[0], start[0])
    assert found[0, 0] == -np.inf
    assert np.isfinite(found[1, :2]).all()


def test_likely_components_are_the_largest_entries():
    table = np.random.default_rng(0).random((7, 16))
    out, peaks = np.empty((7, 4), dtype=np.int64), np.empty((7, 4))
    find_likely(table, 11, out, peaks)
    np.testing.assert_array_equal(peaks, np.take_along_axis(table, out, axis=1))
    np.testing.assert_array_equal(out, np.argsort(-table[:, :11], axis=1)[:, :4])
