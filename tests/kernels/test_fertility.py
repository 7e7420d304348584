"""Kernels of fertilities against sums over all ways that coins may fall."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from stickbreak.kernels.alignment import fertility

CLOSE = 1e-14  # sums of at most 2 ** 4 products


def plain_distribution(chances, M):
    """(M + 1,) of how many of these coins show heads, by listing all ways; the last is M and more.

    As in the kernel, coins that hardly ever do are left out.
    """
    chances = [q for q in chances if q >= fertility.LEAST]
    out = np.zeros(M + 1)
    for heads in product((0, 1), repeat=len(chances)):
        faces = [q if up else 1 - q for q, up in zip(chances, heads, strict=True)]
        out[min(sum(heads), M)] += np.prod(faces)
    return out


def plain_gain(others, counts):
    """Weight of one more link over that of none, given the coins of the other links."""
    M = len(counts) - 1
    told = plain_distribution(others, M)
    return told @ counts[np.minimum(np.arange(M + 1) + 1, M)] / (told @ counts)


def pair(N, J, seed):
    """float32 shares (J, N + 1) of links of a pair, NULL first, and its source words."""
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(N + 1, 0.4), J).astype(np.float32)
    shares[0, 1], shares[-1, -1] = 5e-5, 1.0  # one that is left out, and one that is certain
    words = rng.integers(1, 3, N).astype(np.int32)  # some of them twice
    return shares, words


@pytest.mark.parametrize("M", [1, 2, 6])
@pytest.mark.parametrize(("N", "J"), [(1, 1), (1, 4), (3, 3), (3, 4), (4, 1)])
def test_fertilities_are_sums_over_all_coins(N, J, M):
    shares, words = pair(N, J, seed=N + J)
    before = np.ones(4)  # links of another pair, which are not looked at
    own = np.concatenate([before, shares.ravel()]).astype(np.float32)
    expected = np.zeros((3, M + 1))
    for i in range(N):
        expected[words[i]] += plain_distribution(shares[:, i + 1].astype(float), M)
    found = np.zeros((3, M + 1))
    fertility.add_fertilities(own, 4, words, N, J, 1.0, np.zeros(M + 1), found)
    np.testing.assert_allclose(found, expected, atol=CLOSE)
    fertility.add_fertilities(own, 4, words, N, J, -1.0, np.zeros(M + 1), found)
    np.testing.assert_allclose(found, 0.0, atol=CLOSE)


@pytest.mark.parametrize("M", [1, 2, 6])
@pytest.mark.parametrize(("N", "J"), [(1, 1), (1, 4), (3, 3), (3, 4), (4, 1)])
def test_weights_of_links_are_what_one_more_is_worth_given_the_others(N, J, M):
    shares, words = pair(N, J, seed=10 * N + J)
    rng = np.random.default_rng(M)
    table, pseudo = rng.gamma(1.0, 2.0, (3, M + 1)), rng.gamma(1.0, 0.5, M + 1)
    table[words[0], 0] = -1e-9  # a rounded difference counts as zero
    weights = rng.random((J, N + 1))
    expected, counts = weights.copy(), np.maximum(table, 0.0) + pseudo
    for j, i in product(range(J), range(N)):
        others = [float(shares[k, i + 1]) for k in range(J) if k != j]
        expected[j, i + 1] *= plain_gain(others, counts[words[i]])
    found = weights.ravel().copy()
    given = table, pseudo, shares.ravel(), 0, words, N, J, np.zeros(M + 1), found
    fertility.weigh_fertilities(*given)
    np.testing.assert_allclose(found.reshape(J, N + 1), expected, rtol=1e-12)
