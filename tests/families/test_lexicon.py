"""The lexicon: laws, mass of what never occurred, more words."""

from __future__ import annotations

import numpy as np
import pytest

from stickbreak.data import Companion
from stickbreak.families import Lexicon
from stickbreak.stats import Summary

ROWS = np.array([0, 1, 2, 0, 3, 1], dtype=np.int32)[:, None]
OFFSETS = np.array([0, 3, 4, 6])
SOURCE = Companion(np.array([1, 2, 1, 3], dtype=np.int32), np.array([0, 2, 3, 4]))
K, V = 5, 6  # with NULL and unknown words


def lexicon(concentration=0.3):
    sizes = {"n_words": K, "n_symbols": V}
    return Lexicon.of_data(ROWS, OFFSETS, SOURCE, concentration=concentration, **sizes)


def some_counts(family, seed=0):
    cell = np.random.default_rng(seed).gamma(1.0, 2.0, len(family.targets))
    words = np.repeat(np.arange(K), np.diff(family.starts))
    return {"cell": cell, "total": np.bincount(words, cell, minlength=K)}


def test_derivative_and_difference_of_the_marginal_are_the_evidence():
    family, _ = lexicon()
    counts, step = some_counts(family), 1e-5
    words = np.repeat(np.arange(K), np.diff(family.starts))
    mean_log, log_mean, mode = (
        getattr(family, rule)(counts).log_cells for rule in ("mean_log", "log_mean", "mode")
    )
    for c, s in enumerate(words):

        def after(by, value, c=c, s=s):
            changed = {n: a.copy() for n, a in counts.items()}
            changed["cell"][c] += by
            changed["total"][s] += by
            return getattr(family, value)(changed).sum()

        slope = (after(step, "log_marginal") - after(-step, "log_marginal")) / (2 * step)
        assert slope == pytest.approx(mean_log[c], abs=1e-7)  # step ** 2 times third derivatives
        gain = after(1.0, "log_marginal") - after(0.0, "log_marginal")
        assert gain == pytest.approx(log_mean[c], abs=1e-12)
        slope = (after(step, "log_mode") - after(-step, "log_mode")) / (2 * step)
        assert slope == pytest.approx(mode[c], abs=1e-7)


def test_predictives_of_all_target_words_sum_to_one_whether_they_occur_or_not():
    family, _ = lexicon()
    scores = family.log_mean(some_counts(family))
    evidence = scores.evidence(np.arange(V))
    np.testing.assert_allclose(np.exp(evidence).sum(0), 1.0, atol=1e-14)
    words = np.repeat(np.arange(K), np.diff(family.starts))
    np.testing.assert_array_equal(evidence[family.targets, words], scores.log_cells)
    assert evidence[0, 3] == scores.log_absent[3]  # never together
    np.testing.assert_allclose(evidence[:, K - 1], -np.log(V), atol=1e-14)  # an unknown word
    sums = family.translations(some_counts(family)).sum(1)
    n_absent = V - np.diff(family.starts)
    np.testing.assert_allclose(sums + n_absent * np.exp(scores.log_absent), 1.0, atol=1e-14)


def test_shares_are_collected_by_cell_and_a_pair_that_never_occurs_is_refused():
    family, _ = lexicon()
    shares = np.zeros((6, K))
    shares[:, 0] = 0.25
    shares[:4, 1] = 0.75
    shares[4:, 3] = 0.75
    counts = family.zeros(K)
    family.log_mean(counts).collect(family.prepare(ROWS), shares, counts)
    np.testing.assert_allclose(counts["total"], [1.5, 3.0, 0.0, 1.5, 0.0])
    assert counts["cell"][family.find([1], [0])[0]] == 1.5
    scores = family.log_mean(counts)
    evidence = scores.evidence(family.prepare(ROWS))
    assert scores.pair(counts) == pytest.approx((shares * evidence).sum())
    with pytest.raises(ValueError, match="never occurred"):
        scores.collect(np.array([0]), np.eye(K)[[3]], counts)


def test_more_pairs_bring_words_and_cells_and_counts_stay():
    family, _ = lexicon()
    counts = Summary(family.fields("word"), some_counts(family))
    rows = np.array([4, 5, 0], dtype=np.int32)[:, None]
    more = Companion(np.array([4, 3], dtype=np.int32), np.array([0, 1, 2]))
    grown, companion = family.grown(rows, np.array([0, 2, 3]), more, n_words=6, n_symbols=7)
    carried = family.carry(counts, grown)
    old = np.repeat(np.arange(K), np.diff(family.starts))
    at = grown.find(old, family.targets)
    assert (at >= 0).all()
    np.testing.assert_array_equal(carried["cell"][at], counts["cell"])
    assert carried["cell"].sum() == pytest.approx(counts["cell"].sum())
    assert companion.links.tolist() == grown.find([0, 4, 0, 4, 0, 3], [4, 4, 5, 5, 0, 0]).tolist()
    again = grown.link(rows, np.array([0, 2, 3]), more)
    np.testing.assert_array_equal(again.links, companion.links)
    np.testing.assert_array_equal(again.link_offsets, [0, 4, 6])


def test_words_outside_of_the_vocabularies_are_refused():
    family, _ = lexicon()
    with pytest.raises(ValueError, match="target words are whole numbers from 0 to 5; got 6"):
        family.prepare(np.array([[6]]))
    with pytest.raises(ValueError, match="source words"):
        Lexicon.of_data(ROWS, OFFSETS, SOURCE, n_words=3, n_symbols=V)
