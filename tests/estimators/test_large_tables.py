"""Starts look at a sample of large tables: labels and weights must survive that."""

import numpy as np
import pytest

import stickbreak as sb
from stickbreak.data import Table
from stickbreak.initialize.plusplus import SAMPLE_ROWS

N = 2 * SAMPLE_ROWS
TRUTH = np.arange(N) % 3
X = (
    np.random.default_rng(0).normal(size=(N, 2))
    + np.array([[-9.0, 0.0], [0.0, 9.0], [9.0, 0.0]])[TRUTH]
)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_few_labels_name_their_components_in_a_large_table(seed):
    labels = np.full(N, -1)
    for c in range(3):
        labels[np.flatnonzero(c == TRUTH)[:5]] = c
    model = sb.Mixture(3, random_state=seed).fit(X, labels=labels)
    # the clusters are nine deviations apart
    assert (model.component_ids_[model.predict(X)] == TRUTH).mean() > 0.99


@pytest.mark.parametrize("seed", range(4))
def test_rows_that_count_are_found_however_rare(seed):
    weight = np.zeros(N)
    weight[[7, 8, N - 1]] = 1.0
    model = sb.Mixture(3, random_state=seed).fit(X, sample_weight=weight)
    assert model.counts_.sum() == pytest.approx(3.0)


def test_a_sample_has_distinct_rows_that_count_and_every_set():
    weight = (np.arange(N) % 2).astype(float)
    sets = np.zeros(N, dtype=int)
    sets[[1, 3]] = 1, 2
    batch = Table(np.arange(N, dtype=float)[:, None], weight, sets).sample(
        100, np.random.default_rng(0)
    )
    rows = batch.rows[:, 0].astype(int)
    assert len(set(rows)) == len(rows) <= 100
    assert (weight[rows] > 0).all()
    assert {1, 2} <= set(batch.sets)
