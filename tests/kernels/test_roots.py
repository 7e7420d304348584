"""Derivatives for the steps of a root, against scipy, numpy and differences."""

import numpy as np
import pytest
from scipy import special

from stickbreak.kernels import roots
from stickbreak.kernels.compile import kernel
from stickbreak.kernels.roots import polygammas
from stickbreak.priors.root import share_sticks


@kernel
def of_all(x, out):
    for i in range(x.shape[0]):
        out[0, i], out[1, i], out[2, i] = polygammas(x[i])


def test_polygammas_equal_scipy():
    x = np.concatenate([np.geomspace(1e-8, 1e12, 4000), np.linspace(0.01, 30, 4000)])
    out = np.empty((3, len(x)))
    of_all(x, out)
    np.testing.assert_allclose(out[0], special.digamma(x), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(out[1], special.polygamma(1, x), rtol=1e-12)
    np.testing.assert_allclose(out[2], special.polygamma(2, x), rtol=1e-12)


def test_sums_of_polygammas():
    rng = np.random.default_rng(0)
    theta, weight = rng.gamma(0.3, 50.0, size=(5, 7)) + 1e-6, rng.gamma(2.0, size=5)
    slope, curvature = np.empty((2, 7))
    roots.polygamma_sums(theta, weight, slope, curvature)
    np.testing.assert_allclose(slope, weight @ special.digamma(theta), rtol=1e-12)
    np.testing.assert_allclose(curvature, weight**2 @ special.polygamma(1, theta), rtol=1e-12)


@pytest.mark.parametrize("by_size", [True, False])
def test_sticks_are_broken_in_their_order(by_size):
    shares = np.array([0.1, 0.4, 0.1, 1e-12, 0.3, 0.1 - 1e-12])
    u, order = np.empty(5), np.empty(5, dtype=np.int64)
    roots.break_sticks(shares, by_size, 1e-8, u, order)
    assert order.tolist() == ([1, 4, 0, 2, 3] if by_size else [0, 1, 2, 3, 4])
    assert u[order == 3] == 1e-8
    np.testing.assert_allclose(share_sticks(u)[:-1], shares[order], rtol=1e-12, atol=1e-8)


@pytest.mark.parametrize("learned", [(0.0, 0.0), (2.0, 0.5)])
def test_derivatives_of_beta_sticks(learned):
    rng = np.random.default_rng(1)
    u, ones, zeros = rng.uniform(0.05, 0.95, 6), rng.gamma(3.0, size=6), rng.gamma(9.0, size=6)
    w, out, (shape, rate) = ones + zeros + 4.0, np.empty((3, 6)), learned

    def value(u):
        a, b = u * w, (1.0 - u) * w
        stop, go = special.digamma(a) - special.digamma(w), special.digamma(b) - special.digamma(w)
        known = (ones + 1.0 - a) @ stop + (zeros - b) @ go
        passed = go.sum()
        top = -(shape + 6) * np.log(rate - passed) if shape else 3.0 * passed
        return special.betaln(a, b).sum() + known + top, known, passed

    passed, known = roots.beta_derivatives(u, w, ones, zeros, 3.0, learned, out)
    assert (known, passed) == pytest.approx(value(u)[1:], rel=1e-12)
    step = 1e-6 * np.eye(6)
    slope = [(value(u + h)[0] - value(u - h)[0]) / 2e-6 for h in step]
    np.testing.assert_allclose(out[0], slope, rtol=1e-6, atol=1e-6)
    if not shape:  # else, the sticks are not apart
        ahead, behind = np.empty((2, 3, 6))
        for k, h in enumerate(step):
            roots.beta_derivatives(u + h, w, ones, zeros, 3.0, learned, ahead)
            roots.beta_derivatives(u - h, w, ones, zeros, 3.0, learned, behind)
            bent = (ahead[0, k] - behind[0, k]) / 2e-6
            assert out[1, k] == pytest.approx(bent, rel=1e-5)
    assert (out[2] > 0.0).all()


def test_bends_equal_the_matrix_product():
    rng, K = np.random.default_rng(2), 5
    u, order = rng.uniform(0.1, 0.9, K), np.array([3, 0, 4, 1, 2])
    slope, curvature, own = rng.normal(size=K + 1), rng.normal(size=K + 1), rng.normal(size=(3, K))
    b, placed = share_sticks(u), np.append(order, K)
    log_slope = np.tri(K + 1, K, -1) * -u
    np.fill_diagonal(log_slope, 1.0 - u)
    drawn, spread = b * slope[placed], u * (1.0 - u)
    from_here = drawn[::-1].cumsum()[::-1][:-1]
    diagonal = own[1] * spread**2 + own[0] * spread * (1.0 - 2.0 * u) - spread * from_here
    bent = drawn + b**2 * curvature[placed]
    expected = -(log_slope.T @ (bent[:, None] * log_slope)) - np.diag(diagonal)
    (gradient, scale), bend = np.empty((2, K)), np.empty((K, K))
    roots.bend_sticks(u, b, order, (slope, curvature), own, gradient, bend, scale)
    np.testing.assert_allclose(bend, expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(gradient, own[0] * spread + drawn @ log_slope, rtol=1e-12)
    np.testing.assert_allclose(scale, own[2] * spread**2, rtol=1e-12)
