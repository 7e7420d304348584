"""Scores of clusterings against brute force, published procedures and identities."""

from __future__ import annotations

from itertools import pairwise, permutations, product

import numpy as np
import pytest
from sklearn.metrics import v_measure_score

import stickbreak as sb
from stickbreak.metrics import many_to_one, one_to_one, variation_of_information

METRICS = (many_to_one, one_to_one, variation_of_information)
SEEDS = range(20)


def draw(seed: int, n: int = 40) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 4, n), rng.integers(0, 6, n)


def table_of(states: np.ndarray, gold: np.ndarray) -> np.ndarray:
    table = np.zeros((states.max() + 1, gold.max() + 1))
    np.add.at(table, (states, gold), 1)
    return table


def published(states: np.ndarray, gold: np.ndarray) -> dict[str, float]:
    """The procedures by which figures of part-of-speech induction are made."""
    table = table_of(states, gold)
    left, greedy = table.copy(), 0.0
    for _ in range(min(table.shape)):
        i, j = np.unravel_index(left.argmax(), left.shape)
        greedy += table[i, j]
        left[i, :] = left[:, j] = -1
    half, right = len(states) // 2, []
    for known, scored in ((slice(0, half), slice(half, None)), (slice(half, None), slice(0, half))):
        part = np.zeros_like(table)
        np.add.at(part, (states[known], gold[known]), 1)
        right.append((part.argmax(1)[states[scored]] == gold[scored]).mean())
    p = table / table.sum()
    entropy = lambda x: -(x[x > 0] * np.log2(x[x > 0])).sum()
    return {
        "many": table.max(1).sum() / table.sum(),
        "halves": float(np.mean(right)),
        "greedy": greedy / table.sum(),
        "information": 2 * entropy(p) - entropy(p.sum(0)) - entropy(p.sum(1)),
    }


@pytest.mark.parametrize("n", [2, 9, 40, 41])
@pytest.mark.parametrize("seed", SEEDS[:10])
def test_scores_are_the_published_ones(seed: int, n: int) -> None:
    truth, labels = draw(seed, n)
    truth -= truth.min()  # the published procedure takes labels that are absent for the first one
    wanted = published(labels, truth)
    assert many_to_one(truth, labels) == pytest.approx(wanted["many"], abs=1e-12)
    halves = many_to_one(truth, labels, cross_validated=True)
    assert halves == pytest.approx(wanted["halves"], abs=1e-12)
    assert one_to_one(truth, labels) == pytest.approx(wanted["greedy"], abs=1e-12)
    # differences of entropies of a few bits, by rounding
    assert variation_of_information(truth, labels) == pytest.approx(
        wanted["information"], abs=1e-12
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_best_maps_are_those_of_all(seed: int) -> None:
    rng = np.random.default_rng(seed)
    truth, labels = rng.integers(0, 3, 12), rng.integers(0, 3, 12)
    maps = [np.array(found) for found in product(range(3), repeat=3)]
    ones = [np.array(found) for found in permutations(range(3))]
    assert many_to_one(truth, labels) == max((m[labels] == truth).mean() for m in maps)
    best = one_to_one(truth, labels, greedy=False)
    assert best == max((m[labels] == truth).mean() for m in ones)
    assert one_to_one(truth, labels) <= best <= many_to_one(truth, labels)


def test_a_greedy_match_may_be_worse_than_the_best() -> None:
    truth, labels = [0] * 5 + [0] * 4 + [1] * 4, [0] * 5 + [1] * 4 + [0] * 4
    assert one_to_one(truth, labels) == pytest.approx(5 / 13)
    assert one_to_one(truth, labels, greedy=False) == pytest.approx(8 / 13)


@pytest.mark.parametrize("seed", SEEDS)
def test_information_is_symmetric_and_the_sum_of_conditional_entropies(seed: int) -> None:
    truth, labels = draw(seed)

    def conditional(a: np.ndarray, b: np.ndarray) -> float:
        """H(a | b), cluster by cluster."""
        total = 0.0
        for value in set(b.tolist()):
            p = np.bincount(a[b == value]) / (b == value).sum()
            total -= (b == value).mean() * (p[p > 0] * np.log2(p[p > 0])).sum()
        return total

    found = variation_of_information(truth, labels)
    assert found == pytest.approx(conditional(truth, labels) + conditional(labels, truth))
    assert found == pytest.approx(variation_of_information(labels, truth), rel=1e-12)
    entropies = sum(
        -(p * np.log2(p)).sum()
        for p in (np.unique(z, return_counts=True)[1] / len(z) for z in (truth, labels))
    )
    assert v_measure_score(truth, labels) == pytest.approx(1 - found / entropies)


@pytest.mark.parametrize("seed", SEEDS[:5])
def test_new_names_change_nothing(seed: int) -> None:
    truth, labels = draw(seed)
    words, pairs = [f"w{z}" for z in truth], [(int(z), "x") for z in labels]
    for metric in METRICS:
        assert metric(words, pairs) == pytest.approx(metric(truth, labels), rel=1e-12)
    assert variation_of_information(truth, np.random.default_rng(0).permutation(9)[truth]) == 0.0
    assert one_to_one(truth, 7 - truth) == many_to_one(truth, 7 - truth) == 1.0


def test_one_cluster_scores_the_commonest_label() -> None:
    assert many_to_one([0, 0, 0, 1], [5] * 4) == one_to_one([0, 0, 0, 1], [5] * 4) == 0.75
    assert variation_of_information([0, 1, 2, 3], [5] * 4) == 2.0
    assert v_measure_score([0, 0, 0, 1], [5] * 4) == 0.0


@pytest.mark.parametrize("seed", SEEDS[:5])
def test_perfect_clusters_have_perfect_scores(seed: int) -> None:
    truth, _ = draw(seed)
    names = np.random.default_rng(seed).permutation(4)[truth]
    assert many_to_one(truth, names) == one_to_one(truth, names) == 1.0
    assert variation_of_information(truth, names) == 0.0
    assert v_measure_score(truth, names) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("metric", METRICS)
def test_sequences_are_their_rows_one_after_another(metric) -> None:
    truth, labels = draw(3)
    cuts = [0, 3, 3, 20, 40]
    cut = lambda z: [z[a:b] for a, b in pairwise(cuts)]
    wanted = metric(truth, labels)
    assert metric(cut(truth), cut(labels)) == wanted
    assert metric([z.tolist() for z in cut(truth)], cut(labels)) == wanted
    assert metric([list(map(str, z)) for z in cut(truth)], labels) == pytest.approx(wanted)
    assert metric(tuple(cut(truth)), labels.tolist()) == wanted


def test_labels_of_one_value_are_one_label() -> None:
    assert many_to_one([1, 1.0, True, np.int64(1)], [np.str_("a"), "a", "a", "a"]) == 1.0
    assert variation_of_information([1, 1.0, True, np.int64(1)], [None, None, None, None]) == 0.0


def test_pandas_columns_are_labels() -> None:
    pandas = pytest.importorskip("pandas")
    truth = pandas.Series(["a", "b", "a"])
    assert many_to_one(truth, truth.astype("category")) == 1.0
    with pytest.raises(ValueError, match="labels has <NA> in row 1"):
        many_to_one(truth, pandas.Series([1, pandas.NA, 2], dtype=object))
    with pytest.raises(ValueError, match="labels has nan in row 1"):
        many_to_one(truth, pandas.Series([1, None, 2], dtype="Int64"))


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(
    ("truth", "labels", "message"),
    [
        ([0, 1], [0], "truth has 2 rows but labels has 1"),
        ([[0, 1], [0]], [[0, 1]], "truth has 2 sequences but labels has 1"),
        ([[0, 1], [0]], [[0], [0, 1]], "sequence 0 has 2 rows in truth but 1 in labels"),
        ([[0, 1], [0]], [0, 0], "truth has 3 rows but labels has 2"),
        ([], [], "truth and labels are empty; give at least one row"),
        ([[], []], [[], []], "truth and labels are empty; give at least one row"),
        (np.array([0.0, np.nan]), [0, 1], "truth has nan in row 1; leave out rows without a label"),
        ([0, 1], ["a", float("nan")], "labels has nan in row 1; leave out"),
        ([np.array([0.0]), np.array([np.nan])], [0, 1], "truth has nan in row 1"),
        (np.zeros((2, 1)), [0, 1], r"truth has shape \(2, 1\); give one label for each row"),
        ([0, [1]], [0, 1], "truth mixes labels and sequences of labels; see its entry 1"),
        ([{}, {}], [0, 1], "truth has {} in row 0; a label is a number, a word"),
        ("ab", [0, 1], "truth must be a list or an array of labels; got 'ab'"),
        ([0, 1], None, "labels must be a list or an array of labels; got None"),
    ],
)
def test_labels_that_cannot_be_scored_are_refused(metric, truth, labels, message) -> None:
    with pytest.raises(ValueError, match=message):
        metric(truth, labels)


def test_one_row_has_no_halves() -> None:
    with pytest.raises(ValueError, match="cross-validation needs at least two rows"):
        many_to_one([0], [0], cross_validated=True)


def test_many_rows_and_labels_take_no_table_of_all_pairs() -> None:
    """A table of 100,000 x 100,000 labels would take 80 GB."""
    rows = np.arange(100_000)
    assert many_to_one(rows, rows) == one_to_one(rows, rows) == 1.0
    assert variation_of_information(rows, rows) == 0.0


def test_metrics_are_a_public_part_of_the_package() -> None:
    assert "metrics" in dir(sb)
    assert sb.metrics.many_to_one is many_to_one
