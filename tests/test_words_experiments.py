"""The pieces of the experiments on words, on a few of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import gammaln

import stickbreak as sb
from experiments import frame, text_prediction
from experiments.joint_predictive import count_earlier, error, predictives, row_of
from experiments.random_counts import FromCounts
from experiments.text_prediction import END, UNKNOWN, Split, fit, replace_rare, unigram

pytestmark = pytest.mark.slow  # what experiments print, not what the library does


def test_exact_predictives_make_up_the_evidence() -> None:
    rng = np.random.default_rng(0)
    counts, rows = np.array([5, 0, 2, 9]), rng.integers(0, 4, 30)
    exact, alone = predictives(counts, rows, 0.3)
    posterior, all_of = counts + 0.3, counts + np.bincount(rows, minlength=4) + 0.3
    evidence = gammaln(all_of).sum() - gammaln(posterior).sum()
    evidence += gammaln(posterior.sum()) - gammaln(all_of.sum())
    assert np.log(exact).sum() == pytest.approx(evidence, rel=1e-12)
    np.testing.assert_allclose(alone, posterior[rows] / posterior.sum())
    assert exact[0] == pytest.approx(alone[0])  # nothing before it


def test_equal_entries_are_numbered() -> None:
    assert count_earlier(np.array([2, 0, 2, 2, 0])).tolist() == [0, 0, 1, 2, 1]


def test_errors_grow_with_new_symbols_and_shrink_with_old_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(frame.QUICK, "1")
    found = {
        (n, m): np.mean([error(n, m, 0.1, 10, seed) for seed in range(10)])
        for n in (1_000, 100_000)
        for m in (1, 10, 1_000)
    }
    assert found[1_000, 1] == pytest.approx(0.0, abs=1e-15)
    for n in (1_000, 100_000):
        assert found[n, 10] < found[n, 1_000] < 10.0 / np.sqrt(n)
    assert found[100_000, 10] < found[1_000, 10] / 30
    assert row_of(1_000, 10).what == "1,000 old symbols, 10 new"


def test_words_seen_once_or_never_are_unknown() -> None:
    split = replace_rare([["a", "b", "a"], ["b", "c"]], [["a", "c", "d"]])
    assert split.train == [["a", "b", "a"], ["b", UNKNOWN]]
    assert split.test == [["a", UNKNOWN, UNKNOWN]]
    assert split.n_symbols == 3
    assert unigram(split) == pytest.approx((np.log(2 / 5) + 2 * np.log(1 / 5)) / 3)


def draw(n: int) -> list[list[str]]:
    """Sentences in which kinds of words take turns."""
    rng = np.random.default_rng(0)
    kinds = ["ab", "cde", "fg"]
    return [[str(rng.choice(list(kinds[t % 3]))) for t in range(9)] for _ in range(n)]


ENGINES: dict[str, Any] = {
    "batch": sb.BatchVB(max_iter=20, tol=0.0),
    "collapsed": sb.CollapsedVB(max_iter=20, tol=0.0),
    "stochastic": sb.StochasticVB(max_iter=10, batch_size=10, delay=1.0, kappa=0.5, tol=0.0),
    "guarded": sb.StochasticCollapsedVB(
        granularity="subsequence", subchain_length=2, batch_size=20, max_iter=10, delay=1.0,
        kappa=0.5, tol=0.0,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ENGINES)
def test_every_engine_predicts_better_than_frequencies(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_prediction, "N_STATES", 3)
    split = Split(draw(80), draw(5))
    value, seconds, laps = fit(split, ENGINES[name], 0, FromCounts)
    assert value > unigram(split) + 0.1
    assert seconds > 0
    assert laps <= 20


def test_tables_have_a_row_for_each_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(frame.QUICK, "1")
    monkeypatch.setattr(text_prediction, "N_STATES", 2)
    sentences = [[(word, "x") for word in sentence] for sentence in draw(60)]
    for name in ("read_brown", "read_treebank"):
        monkeypatch.setattr(text_prediction, name, lambda: sentences)
    monkeypatch.setattr(text_prediction, "MORE_STATES", 3)
    assert END in text_prediction.chain().train[0]
    monkeypatch.setattr(text_prediction, "RATES", ((10, 0.5),))
    monkeypatch.setattr(text_prediction, "BLOCKS", ((2, 0.5),))
    monkeypatch.setattr(text_prediction, "STEP_WORDS", 100)
    rows = text_prediction.run().rows
    assert len(rows) == (1 + 4) + (3 + 2) + (2 + 2) + 5
    assert sum("3 states" in row.what for row in rows) == 2 + 2
    assert all(float(row.ours.split()[0].rstrip(";")) < 0 for row in rows)
