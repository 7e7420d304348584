"""Steps that a path does not take: every way against all paths of a short chain."""

from itertools import pairwise, product

import numpy as np
import pytest

from stickbreak.kernels.chain.absent import (
    EXACT,
    INDEPENDENT,
    LEAST,
    MEAN_FIELD,
    SAMPLED,
    absent_first,
    absent_span,
    make_absent,
)

K, T = 3, 5


def chain(seed, K=K, T=T, power=1.0):
    """Linear messages (weights, futures, table), padded, with shares (T, W) and pairs (T-1, K, K).

    Rows of the table sum to less than one, as those of an HDP do.
    """
    rng, W = np.random.default_rng(seed), -(-K // 8) * 8
    start, table, rows = (rng.gamma(0.7, size=s) ** power for s in (K, (K, K), (T, K)))
    table /= 1.3 * table.sum(1, keepdims=True)
    forward, back = np.zeros((T, K)), np.ones((T, K))
    scale = np.zeros(T)
    for t in range(T):
        forward[t] = (start if t == 0 else forward[t - 1] @ table) * rows[t]
        scale[t] = forward[t].sum()
        forward[t] /= scale[t]
    for t in range(T - 1, 0, -1):
        back[t - 1] = table @ (rows[t] * back[t]) / scale[t]
    futures = rows * back / scale[:, None]
    pairs = forward[:-1, :, None] * table * futures[1:, None, :]

    def wide(x):
        return np.pad(x, [(0, W - n if n == K and d else 0) for d, n in enumerate(x.shape)])

    square = np.zeros((W, W))
    square[:K, :K] = table
    return wide(forward), wide(futures), square, wide(forward * back), pairs


def find(way, messages, log_z=np.nan, uniforms=None, at=0):
    """Probabilities (K, K) of no step, and (K,) of no step from a state."""
    weights, futures, table, shares, pairs = messages
    n, T = pairs.shape[1] if len(pairs) else K, len(shares)
    uniforms = np.zeros((0, 1)) if uniforms is None else uniforms
    work = make_absent(n, len(table), way, len(uniforms))
    absent_span(weights, futures, table, shares, T, log_z, way, uniforms, at, work)
    return np.exp(work.steps[:n, :n]), np.exp(work.rows[:n])


def of_paths(probability, K=K, T=T):
    """The same by all paths, each with its probability."""
    steps, rows = np.zeros((K, K)), np.zeros(K)
    for path in product(range(K), repeat=T):
        taken = set(pairwise(path))
        absent = [[(j, k) not in taken for k in range(K)] for j in range(K)]
        steps += probability(path) * np.array(absent)
        rows += probability(path) * np.array([j not in path[:-1] for j in range(K)])
    return steps, rows


def markov(messages):
    *_, shares, pairs = messages
    lines = pairs / pairs.sum(2, keepdims=True)
    return lambda path: (
        shares[0, path[0]] * np.prod([lines[t, path[t], path[t + 1]] for t in range(len(lines))])
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_exact_equals_all_paths(seed):
    messages = chain(seed)
    steps, rows = find(EXACT, messages)
    wanted = of_paths(markov(messages))
    np.testing.assert_allclose(steps, wanted[0], rtol=0, atol=1e-13)
    np.testing.assert_allclose(rows, wanted[1], rtol=0, atol=1e-13)


def test_exact_equals_first_passages():
    """f_t = P_t[j, k] (q(z_(t-1) = j) - sum_(s<t) f_s Pr(z_(t-1) = j | z_s = k))."""
    messages = chain(7, K=4, T=9)
    *_, shares, pairs = messages
    lines = pairs / pairs.sum(2, keepdims=True)
    first = np.zeros((9, 4, 4))  # [t, j, k]
    for t in range(1, 9):
        for j, k in product(range(4), repeat=2):
            arrived = shares[t - 1, j]
            for s in range(1, t):
                later = np.linalg.multi_dot([np.eye(4), *lines[s : t - 1], np.eye(4)])
                arrived -= first[s, j, k] * later[k, j]
            first[t, j, k] = lines[t - 1, j, k] * arrived
    np.testing.assert_allclose(find(EXACT, messages)[0], 1 - first.sum(0), rtol=0, atol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_mean_field_equals_all_paths_of_independent_states(seed):
    messages = chain(seed)
    shares = messages[3]
    wanted = of_paths(lambda path: np.prod([shares[t, k] for t, k in enumerate(path)]))
    steps, rows = find(MEAN_FIELD, messages)
    np.testing.assert_allclose(steps, wanted[0], rtol=0, atol=1e-13)
    np.testing.assert_allclose(rows, wanted[1], rtol=0, atol=1e-13)


@pytest.mark.parametrize("size", [(3, 5), (8, 4), (19, 130)])
def test_independent_is_the_product_over_pairs(size):
    messages = chain(1, *size)
    *_, shares, pairs = messages
    steps, rows = find(INDEPENDENT, messages)
    floor = np.exp(LEAST)
    np.testing.assert_allclose(
        steps, np.maximum((1 - pairs).prod(0), floor), rtol=1e-12, atol=2 * floor
    )
    wanted = np.maximum((1 - shares[:-1, : size[0]]).prod(0), floor)
    np.testing.assert_allclose(rows, wanted, rtol=1e-12, atol=2 * floor)


def test_sampled_is_within_the_error_of_its_draws():
    messages = chain(2)
    uniforms = np.random.default_rng(0).random((4000, T))
    wanted = of_paths(markov(messages))
    # four standard errors of a probability from 4,000 draws are at most 0.032
    for found, true in zip(find(SAMPLED, messages, uniforms=uniforms), wanted, strict=True):
        np.testing.assert_allclose(found, true, rtol=0, atol=0.032)


@pytest.mark.parametrize("way", [INDEPENDENT, EXACT, SAMPLED])
def test_messages_in_logs_say_the_same(way):
    messages = chain(3)
    weights, futures, table, shares, pairs = messages
    with np.errstate(divide="ignore"):
        logs = np.log(weights) + 700.0, np.log(futures) - 300.0, table, shares, pairs
    uniforms = np.random.default_rng(1).random((50, T))
    for found, wanted in zip(
        find(way, logs, 400.0, uniforms), find(way, messages, np.nan, uniforms), strict=True
    ):
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-17)


@pytest.mark.parametrize("way", [INDEPENDENT, MEAN_FIELD, EXACT, SAMPLED])
def test_one_state_alone_takes_no_step(way):
    messages = chain(0, T=1)
    steps, rows = find(way, messages, uniforms=np.full((5, 1), 0.5))
    np.testing.assert_allclose(steps, 1.0, rtol=1e-15)
    np.testing.assert_allclose(rows, 1.0, rtol=1e-15)


def test_no_more_is_expected_absent_than_the_sum_of_pairs_allows():
    """q(step) <= expected steps, so that steps given that there is one are at least one."""
    for seed in range(20):
        messages = chain(seed, power=3.0)
        expected = messages[4].sum(0)
        for way in (INDEPENDENT, EXACT):
            steps, _ = find(way, messages)
            assert (1 - steps <= expected + 1e-14).all()
            assert (steps >= 0).all()
            assert (steps <= 1).all()


@pytest.mark.parametrize(
    ("n_states", "n_chains", "most"),
    [(10, 1, 1e-2), pytest.param(50, 100, 2e-4, marks=pytest.mark.slow)],
)
def test_independent_pairs_are_closer_than_independent_states(n_states, n_chains, most):
    """Mean absolute error over pairs of states, chains of 100 rows together."""
    logs = dict.fromkeys((EXACT, INDEPENDENT, MEAN_FIELD), 0.0)
    for seed in range(n_chains):
        messages = chain(seed, n_states, 100)
        for way in logs:
            logs[way] = logs[way] + np.log(find(way, messages)[0])
    error = {way: np.abs(np.exp(log) - np.exp(logs[EXACT])).mean() for way, log in logs.items()}
    assert error[INDEPENDENT] < most
    assert error[INDEPENDENT] < error[MEAN_FIELD]


def test_no_more_is_absent_than_the_products_of_independent_states_allow():
    """Of mean field, whose pairs are products: at least one less their sum."""
    for seed in range(20):
        messages = chain(seed, power=3.0)
        shares = messages[3][:, :K]
        steps, _ = find(MEAN_FIELD, messages)
        assert (1 - steps <= shares[:-1].T @ shares[1:] + 1e-14).all()
        assert (steps >= 0).all()
        assert (steps <= 1).all()


@pytest.mark.parametrize("way", [INDEPENDENT, MEAN_FIELD, EXACT, SAMPLED])
def test_a_step_that_is_certain_has_the_least_log(way):
    """No path stays in state 0 without the step 0 -> 0: its log would be -inf."""
    T, W = 200, 8
    shares, table = np.zeros((T, W)), np.zeros((W, W))
    shares[:, 0] = table[0, 0] = 1.0
    pairs = np.zeros((T - 1, K, K))
    steps, rows = find(way, (shares, shares, table, shares, pairs), uniforms=np.full((5, 1), 0.5))
    np.testing.assert_allclose(np.log([steps[0, 0], rows[0]]), LEAST, rtol=1e-12)
    steps[0, 0] = rows[0] = 1.0
    assert (steps == 1).all()
    assert (rows == 1).all()


def test_first_states_are_exact():
    out = np.array([-1.0, 0.0, 0.0])
    absent_first(np.array([0.25, 0.0, 1.0]), out)
    np.testing.assert_allclose(out, [-1.0 + np.log(0.75), 0.0, LEAST])
