"""Semi-Markov kernels against enumeration of all labelings."""

from __future__ import annotations

import numpy as np
import pytest
from oracles import semimarkov as oracle

from stickbreak.kernels.chain.smooth import smooth
from stickbreak.kernels.semimarkov.online import filter_step, log_ages, remaining
from stickbreak.kernels.semimarkov.paths import best_segments, draw_segments, filter_segments
from stickbreak.kernels.semimarkov.smooth import segments_log_z, smooth_segments

censoring = pytest.mark.parametrize(
    ("right", "left"), [(True, False), (False, False), (True, True), (False, True)]
)


def problem(seed: int, K: int, T: int, D: int, scale: float = 1.0, holes: float = 0.0):
    """Random potentials that do not sum to one; some impossible rows and lengths."""
    rng = np.random.default_rng(seed)
    evidence, duration = scale * rng.normal(size=(T, K)), scale * rng.normal(size=(K, D)) / 2
    start, transition = rng.normal(size=K) - 1.0, 0.2 * scale * rng.normal(size=(K, K))
    np.fill_diagonal(transition, 0.7)  # not used
    evidence[rng.random((T, K)) < holes] = -np.inf
    duration[rng.random((K, D)) < holes] = -np.inf
    return evidence, start, transition, duration


def of_oracle(given):
    """The same with an impossible diagonal."""
    evidence, start, transition, duration = given
    return evidence, start, np.where(np.eye(len(start)) > 0, -np.inf, transition), duration


def run(given, right=True, left=False, weights=None, is_free=None, offsets=None):
    """log_z, shares (n, K), start, transition, duration."""
    evidence, start, transition, duration = given
    offsets = np.array([0, len(evidence)]) if offsets is None else offsets
    found = {
        "start": np.zeros(len(start)),
        "transition": np.zeros(transition.shape),
        "duration": np.zeros(duration.shape),
    }
    log_z, shares = smooth_segments(
        np.ascontiguousarray(evidence.T), start, transition, duration, offsets, weights, is_free,
        right_censored=right, left_censored=left, **found,
    )  # fmt: skip
    return oracle.Found(log_z, shares.T, *found.values())


CASES = [
    # states, rows, lengths, scale, holes
    (2, 8, 9, 1.0, 0.0),
    (3, 6, 4, 1.0, 0.0),
    (3, 5, 9, 30.0, 0.1),
    (2, 7, 3, 700.0, 0.0),  # gaps far beyond the range of floating point
    (3, 5, 6, 3000.0, 0.1),
    (9, 3, 4, 1.0, 0.0),  # more than a vector
    (1, 4, 6, 1.0, 0.0),
    (3, 1, 2, 1.0, 0.0),
]


@censoring
@pytest.mark.parametrize("case", range(len(CASES)))
def test_messages_and_all_counts_equal_enumeration(case, right, left):
    given = of_oracle(problem(case, *CASES[case]))
    expected = oracle.smooth(*given, right=right, left=left)
    if not np.isfinite(expected.log_z):
        assert run(given, right, left).log_z[0] == -np.inf
        return
    found = run(given, right, left)
    # logarithms of this size are rounded by about their size times 1e-16
    size = max(1.0, abs(expected.log_z))
    assert found.log_z[0] == pytest.approx(expected.log_z, rel=1e-13, abs=1e-12)
    for name in ("shares", "start", "transition", "duration"):
        np.testing.assert_allclose(
            getattr(found, name), getattr(expected, name), atol=1e-14 * size + 1e-13, err_msg=name
        )
    np.testing.assert_allclose(found.shares.sum(1), 1.0, atol=1e-12)
    # every segment is the first, or one that another goes over to (spec 5.6 b)
    begun = found.start + found.transition.sum(0)
    np.testing.assert_allclose(found.duration.sum(1), begun, atol=1e-13 * size + 1e-12)


@pytest.mark.parametrize(
    ("K", "T", "D", "scale", "holes"),
    [
        (3, 35, 11, 1.0, 0.0),
        (2, 40, 60, 40.0, 0.0),
        (9, 20, 5, 3.0, 0.05),
        (2, 35, 30, 900.0, 0.02),
        (2, 30, 3, 5.0, 0.0),
    ],
)
def test_longer_sequences_equal_messages_in_logarithms(K, T, D, scale, holes):
    given = of_oracle(problem(40 + T, K, T, D, scale, holes))
    expected, found = oracle.smooth_in_logs(*given), run(given)
    assert found.log_z[0] == pytest.approx(expected.log_z, rel=1e-13)
    size = max(1.0, abs(expected.log_z))
    for name in ("shares", "start", "transition", "duration"):
        np.testing.assert_allclose(
            getattr(found, name), getattr(expected, name), atol=1e-14 * size + 1e-12, err_msg=name
        )


def test_derivatives_of_log_z_are_the_expected_counts():
    given, h = problem(3, 3, 6, 5), 1e-5
    found = run(given)
    for at, name in ((1, "start"), (2, "transition"), (3, "duration")):
        counts = getattr(found, name)
        for index in np.ndindex(*counts.shape):
            values = []
            for step in (h, -h):
                moved = [np.array(table) for table in given]
                moved[at][index] += step
                values.append(run(tuple(moved)).log_z[0])
            # rounding of log_z over the step of the difference
            assert (values[0] - values[1]) / (2 * h) == pytest.approx(counts[index], abs=1e-8)


@censoring
def test_the_best_segmentation_is_that_of_enumeration(right, left):
    for case in range(5):
        given = of_oracle(problem(20 + case, *CASES[case]))
        path, value = oracle.best(*given, right=right, left=left)
        if not np.isfinite(value):
            continue
        evidence, *tables = given
        offsets = np.array([0, len(evidence)])
        found = best_segments(
            np.ascontiguousarray(evidence.T), *tables, offsets, right_censored=right,
            left_censored=left,
        )  # fmt: skip
        assert np.array_equal(found[0], path)
        assert found[1][0] == pytest.approx(value, rel=1e-13)


@censoring
def test_filtering_is_smoothing_of_the_rows_so_far(right, left):
    given = of_oracle(problem(7, 3, 6, 4))
    evidence, *tables = given
    offsets = np.array([0, len(evidence)])
    shares, steps = filter_segments(
        np.ascontiguousarray(evidence.T), *tables, offsets, right_censored=right,
        left_censored=left,
    )  # fmt: skip
    before = 0.0
    for t in range(1, len(evidence) + 1):
        is_open = right or t < len(evidence)
        expected = oracle.smooth(evidence[:t], *tables, right=is_open, left=left)
        np.testing.assert_allclose(shares[t - 1], expected.shares[-1], atol=1e-12)
        assert steps[t - 1] == pytest.approx(expected.log_z - before, abs=1e-12)
        before = expected.log_z


@censoring
def test_draws_have_the_expected_counts(right, left):
    given, n_draws = of_oracle(problem(8, 3, 4, 5)), 4000
    expected = oracle.smooth(*given, right=right, left=left)
    evidence, *tables = given
    T, D = len(evidence), tables[2].shape[1]
    uniforms = np.random.default_rng(0).random(n_draws * T)
    path, log_z, first, last = draw_segments(
        np.ascontiguousarray(np.tile(evidence.T, n_draws)), *tables, np.arange(n_draws + 1) * T,
        uniforms, right_censored=right, left_censored=left,
    )  # fmt: skip
    np.testing.assert_allclose(log_z, expected.log_z, rtol=1e-12)
    paths, lengths = path.reshape(n_draws, T), np.zeros((3, D))
    for labels, begun, ended in zip(paths, first, last, strict=True):
        found = oracle.segments(labels)
        for i, (state, seen) in enumerate(found):
            is_end = ended if i == len(found) - 1 else begun if i == 0 else seen
            lengths[state, is_end - 1] += 1.0
    share = (paths[:, :, None] == np.arange(3)).mean(0)
    # five standard errors; a count of a segmentation of four rows has at most a deviation of 1
    np.testing.assert_allclose(share, expected.shares, atol=5 * 0.5 / np.sqrt(n_draws))
    np.testing.assert_allclose(lengths / n_draws, expected.duration, atol=5 / np.sqrt(n_draws))


def test_weights_of_what_is_seen_of_a_first_segment_sum_to_one():
    duration = np.log(np.array([[0.2, 0.5, 0.1, 0.2]]))
    tables = np.zeros(1), np.full((1, 1), -np.inf), duration
    seen = [
        segments_log_z(
            np.zeros((1, m)), *tables, np.array([0, m]), right_censored=False, left_censored=True
        )[0]
        for m in range(1, 5)
    ]
    assert np.exp(seen).sum() == pytest.approx(1.0)


def test_sequences_side_by_side_and_weighted_are_sums_of_single_ones():
    parts = [problem(30 + s, 3, T, 5) for s, T in enumerate((4, 1, 6))]
    tables, weights = parts[0][1:], np.array([1.0, 2.5, 0.0])
    evidence, offsets = np.concatenate([p[0] for p in parts]), np.array([0, 4, 5, 11])
    found = run((evidence, *tables), weights=weights, offsets=offsets)
    alone = [run((p[0], *tables)) for p in parts]
    np.testing.assert_allclose(found.log_z, [a.log_z[0] for a in alone], rtol=1e-14)
    for name in ("start", "transition", "duration"):
        expected = sum(w * getattr(a, name) for w, a in zip(weights, alone, strict=True))
        np.testing.assert_allclose(getattr(found, name), expected, atol=1e-13)


def test_segments_begin_at_free_rows_only():
    given = of_oracle(problem(9, 3, 6, 6))
    is_free = np.array([True, False, True, True, False, False])
    paths, weights, _ = oracle.every_labeling(*given, right=True, left=False)
    is_legal = ((paths[:, 1:] == paths[:, :-1]) | is_free[1:]).all(1)
    found = run(given, is_free=is_free)
    assert found.log_z[0] == pytest.approx(np.logaddexp.reduce(weights[is_legal]), abs=1e-12)
    evidence, *tables = given
    path, *_ = best_segments(evidence.T.copy(), *tables, np.array([0, 6]), is_free)
    assert is_free[1:][path[1:] != path[:-1]].all()


def test_bad_sequences_do_not_touch_others():
    given = problem(10, 2, 9, 2)
    evidence = given[0].copy()
    evidence[1, 0], evidence[4] = np.nan, -np.inf
    found = run((evidence, *given[1:]), offsets=np.array([0, 3, 6, 9]))
    alone = run((evidence[6:], *given[1:]))
    assert np.isnan(found.log_z[0])
    assert found.log_z[1] == -np.inf
    assert found.log_z[2] == alone.log_z[0]
    np.testing.assert_allclose(found.duration, alone.duration, atol=1e-14)


def test_geometric_lengths_are_a_chain_that_stays():
    rng, K, T = np.random.default_rng(11), 4, 60
    stay, D = np.array([0.3, 0.6, 0.8, 0.5]), 4000
    rows = rng.random((K, K)) * (1 - np.eye(K))
    rows /= rows.sum(1, keepdims=True)
    with np.errstate(divide="ignore"):
        steps = np.log(np.diag(stay) + (1 - stay)[:, None] * rows)
        given = (
            3 * rng.normal(size=(T, K)), np.log(np.full(K, 0.25)), np.log(rows),
            np.arange(D) * np.log(stay)[:, None] + np.log1p(-stay)[:, None],
        )  # fmt: skip
    found = run(given)
    start, moves = np.zeros(K), np.zeros((K, K))
    log_z, shares = smooth(
        np.ascontiguousarray(given[0].T), given[1], steps, np.array([0, T]), start=start,
        transition=moves,
    )  # fmt: skip
    assert found.log_z[0] == pytest.approx(log_z[0], rel=1e-13)
    np.testing.assert_allclose(found.shares, shares.T, atol=1e-12)
    np.testing.assert_allclose(found.transition, moves - np.diag(np.diag(moves)), atol=1e-12)
    # of a segment that is cut, stays are still to come: p / (1 - p)
    stays = np.diag(moves) + shares[:, -1] * stay / (1 - stay)
    np.testing.assert_allclose(found.duration @ np.arange(D), stays, rtol=1e-11)


def test_online_filter_and_ages_agree_with_the_batch():
    given = problem(12, 3, 7, 5)
    evidence, *tables = given
    shares, steps = filter_segments(evidence.T.copy(), *tables, np.array([0, 7]))
    ages = None
    for t in range(7):
        ages, step = filter_step(ages, evidence[t], *tables)
        assert step == pytest.approx(steps[t], abs=1e-12)
        np.testing.assert_allclose(np.exp(ages).sum(1), shares[t], atol=1e-13)
    found = log_ages(evidence.T.copy(), *tables, np.array([0, 7]))
    np.testing.assert_allclose(np.exp(found[0]), np.exp(ages), atol=1e-13)
    left = remaining(ages, tables[2])
    np.testing.assert_allclose(left.sum(1), shares[-1], atol=1e-13)
    # the mean number of complete rows is that of the seen ones and of those still to come
    lengths = np.arange(1, 6)
    expected = (run(given).duration * lengths).sum() - 7
    assert (left * np.arange(5)).sum() == pytest.approx(expected, rel=1e-12)
