"""Anchor words: their parts against plain loops and solvers, and topics that they recover."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import linear_sum_assignment, minimize

import stickbreak as sb
from stickbreak.initialize.anchors import (
    choose_anchors,
    co_occurrences,
    mixture_weights,
    on_simplex,
)


def separable(n: int = 3000, V: int = 60, K: int = 4, tokens: int = 40, seed: int = 0):
    """Documents of topics that each have a word of their own, and these topics (K, V)."""
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(V, 0.3), K)
    topics[:, :K] = 0.0
    topics[np.arange(K), np.arange(K)] = 0.06
    topics /= topics.sum(1, keepdims=True)
    shares = rng.dirichlet(np.full(K, 0.4), n)
    return rng.multinomial(tokens, shares @ topics), topics


COUNTS, TOPICS = separable()


def distance(found: np.ndarray, truth: np.ndarray) -> float:
    """Mean total variation of topics, best matched."""
    apart = 0.5 * np.abs(found[:, None] - truth).sum(2)
    return float(apart[linear_sum_assignment(apart)].mean())


def test_co_occurrences_are_those_of_pairs_of_words():
    """Every ordered pair of different positions of a document, written out."""
    counts = np.array([[2, 1, 0, 0], [0, 1, 3, 0], [0, 0, 1, 0], [1, 1, 1, 0]])
    table = np.zeros((4, 4))
    for row in counts[[0, 1, 3]]:
        words = np.repeat(np.arange(4), row)
        for a in range(len(words)):
            for b in range(len(words)):
                if a != b:
                    table[words[a], words[b]] += 1.0 / (len(words) * (len(words) - 1))
    rows, weights = co_occurrences(sparse.csr_array(counts), np.random.default_rng(0))
    np.testing.assert_allclose(weights, table.sum(1) / 3)
    np.testing.assert_allclose(rows[:3], table[:3] / table[:3].sum(1, keepdims=True), atol=1e-12)
    assert not rows[3].any()


def test_a_projection_keeps_distances():
    counts = sparse.csr_array(separable(V=400)[0])
    exact, _ = co_occurrences(counts, np.random.default_rng(0))
    rough, _ = co_occurrences(counts, np.random.default_rng(0), 256)
    assert rough.shape == (400, 256)
    some = np.random.default_rng(1).integers(400, size=(50, 2))
    far = [
        np.linalg.norm(np.subtract(*rows[some].swapaxes(0, 1)), axis=1) for rows in (exact, rough)
    ]
    np.testing.assert_allclose(far[1], far[0], rtol=0.25)  # one in sqrt(256), four times over


def test_anchors_are_the_corners_of_a_hull():
    rng = np.random.default_rng(0)
    corners = rng.normal(size=(4, 6))
    rows = np.concatenate([rng.dirichlet(np.ones(4), 50) @ corners, corners])
    assert sorted(choose_anchors(rows, 4)) == [50, 51, 52, 53]


def test_each_anchor_is_furthest_from_the_span_of_those_before():
    rows = np.random.default_rng(1).normal(size=(12, 5))
    chosen = choose_anchors(rows, 4)
    for k in range(1, 4):
        basis = (
            np.linalg.qr((rows[chosen[1:k]] - rows[chosen[0]]).T)[0] if k > 1 else np.zeros((5, 0))
        )
        left = rows - rows[chosen[0]]
        left = left - left @ basis @ basis.T
        assert np.linalg.norm(left, axis=1).argmax() == chosen[k]


def test_the_nearest_point_of_the_simplex_is_that_of_all_faces():
    """On each face the nearest point is a shift; the best that is not negative is the answer."""
    for point in np.random.default_rng(0).normal(size=(20, 4)):
        best, value = None, np.inf
        for size in range(1, 5):
            for face in combinations(range(4), size):
                trial = np.zeros(4)
                trial[list(face)] = point[list(face)] + (1.0 - point[list(face)].sum()) / size
                if trial.min() >= 0 and ((trial - point) ** 2).sum() < value:
                    best, value = trial, ((trial - point) ** 2).sum()
        np.testing.assert_allclose(on_simplex(point[None])[0], best, atol=1e-12)


def test_weights_are_those_of_a_plain_solver():
    rng = np.random.default_rng(0)
    corners, rows = rng.normal(size=(3, 5)), rng.normal(size=(6, 5))
    found = mixture_weights(rows, corners)
    for row, weights in zip(rows, found, strict=True):
        plain = minimize(
            lambda w, row=row: ((row - w @ corners) ** 2).sum(), np.full(3, 1 / 3), method="SLSQP",
            bounds=[(0, 1)] * 3, tol=1e-12,
            constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
        ).x  # fmt: skip
        np.testing.assert_allclose(weights, plain, atol=1e-3)
    inside = rng.dirichlet(np.ones(3), 7)
    np.testing.assert_allclose(mixture_weights(inside @ corners, corners), inside, atol=1e-3)


def test_topics_with_anchor_words_are_recovered_by_the_start_alone():
    """Before any lap of the engine; a lap improves it."""
    model = sb.LatentDirichletAllocation(4, init="anchors", random_state=0)
    seeds = []

    def keep(*given):
        seeds.append(type(model)._seed(model, *given))
        return seeds[-1]

    model._seed = keep
    model.fit(COUNTS)
    table = seeds[0].seed["emission"].T
    assert distance(table / table.sum(1, keepdims=True), TOPICS) < 0.1
    assert table.sum() == pytest.approx(COUNTS.sum())
    assert distance(model.topic_word_, TOPICS) < 0.05


def test_any_model_of_topics_begins_with_anchors():
    found = sb.HDPTopicModel(4, init="anchors", random_state=0).fit(COUNTS[:800])
    assert distance(found.topic_word_[found.counts_ > 100], TOPICS[: found.n_components_]) < 0.15
    seeded = sb.LatentDirichletAllocation(4, init="anchors", seeds={0: [2]}, random_state=0)
    assert seeded.fit(COUNTS[:800]).topic_word_[:, 2].argmax() == 0
    weights = np.r_[np.ones(400), np.zeros(400)]
    one = sb.LatentDirichletAllocation(4, init="anchors", random_state=0)
    first = one.fit(COUNTS[:800], sample_weight=weights).lower_bound_
    # without them the sample draws other random numbers for the projection: none are needed here
    assert first == pytest.approx(one.fit(COUNTS[:400]).lower_bound_, rel=1e-3)


def test_too_few_words_are_one_sentence():
    with pytest.raises(ValueError, match="needs a word for each of 9 topics that at least 5 doc"):
        sb.LatentDirichletAllocation(9, init="anchors").fit(COUNTS[:50, :6])
