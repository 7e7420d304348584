"""Derivatives that every step of an HDP's root needs, for sticks u (K,) in their order.

With few components nearly all of such a step would be the overhead of small arrays.
"""

from __future__ import annotations

import math

import numpy as np

from .compile import inline, kernel

__all__ = ["bend_sticks", "beta_derivatives", "break_sticks", "polygamma_sums", "polygammas"]

FAR = 10  # where the series of the polygammas are exact to 1e-14


@inline
def polygammas(x):
    """Digamma, trigamma and tetragamma of a number x > 0; relative error 1e-13."""
    first, second, third = 0.0, 0.0, 0.0
    while x < FAR:
        y = 1.0 / x
        first -= y
        second += y * y
        third -= 2.0 * y * y * y
        x += 1.0
    y = 1.0 / x
    z = y * y
    tail = 1 / 12 - z * (1 / 120 - z * (1 / 252 - z * (1 / 240 - z * (1 / 132 - z * 691 / 32760))))
    first += math.log(x) - 0.5 * y - z * tail
    tail = 1 / 6 - z * (1 / 30 - z * (1 / 42 - z * (1 / 30 - z * (5 / 66 - z * 691 / 2730))))
    second += y + 0.5 * z + y * z * tail
    tail = 1 / 2 - z * (1 / 6 - z * (1 / 6 - z * (3 / 10 - z * (5 / 6 - z * 691 / 210))))
    third -= z + y * z + z * z * tail
    return first, second, third


@kernel
def polygamma_sums(theta, weight, slope, curvature):
    """Slope (L,) = sum over rows of weight digamma(theta), curvature: weight^2 trigamma(theta).

    theta (R, L), weight (R,).
    """
    slope[:], curvature[:] = 0.0, 0.0
    for r in range(theta.shape[0]):
        w = weight[r]
        for k in range(theta.shape[1]):
            first, second, _ = polygammas(theta[r, k])
            slope[k] += w * first
            curvature[k] += w * w * second


@kernel
def break_sticks(shares, by_size, edge, u, order):
    """Sticks u (K,) of shares (K + 1,), the rest last, and their order (K,): by size, or as given.

    Sticks stay an `edge` away from 0 and 1.
    """
    K = len(u)
    if by_size:
        order[:] = np.argsort(-shares[:K], kind="mergesort")
    else:
        order[:] = np.arange(K)
    from_here = shares[K]
    for at in range(K - 1, -1, -1):
        own = shares[order[at]]
        from_here += own
        u[at] = min(max(own / from_here, edge), 1.0 - edge)


@kernel
def beta_derivatives(u, w, ones, zeros, concentration, learned, out):
    """Of sum_k log B(a, b) + (ones + 1 - a) E[log u] + (zeros - b) E[log(1 - u)] + top, in u.

    a = u w, b = (1 - u) w; `top` is a function of S = sum_k E[log(1 - u_k)] whose slope is the
    concentration, or (shape + K) / (rate - S) for learned = (shape, rate), shape above zero.
    out (3, K) : slope, curvature, and its positive replacement.
    Returns S and the second and third sum.
    """
    K = len(u)
    parts = np.empty((6, K))
    passed, known = 0.0, 0.0
    for k in range(K):
        a, b = u[k] * w[k], (1.0 - u[k]) * w[k]
        stop, parts[0, k], parts[1, k] = polygammas(a)
        go, parts[2, k], parts[3, k] = polygammas(b)
        tail = polygammas(w[k])[0]
        parts[4, k], parts[5, k] = ones[k] + 1.0 - a, zeros[k] - b
        passed += go - tail
        known += parts[4, k] * (stop - tail) + parts[5, k] * (go - tail)
    shape, rate = learned
    mean = (shape + K) / (rate - passed) if shape > 0.0 else concentration
    for k in range(K):
        stop, stop_slope, go, go_slope = parts[0, k], parts[1, k], parts[2, k], parts[3, k]
        more, less = parts[4, k], parts[5, k] + mean
        out[0, k] = w[k] * (more * stop - less * go)
        out[2, k] = w[k] * w[k] * (stop + go)
        out[1, k] = w[k] * w[k] * (more * stop_slope + less * go_slope) - out[2, k]
    return passed, known


@kernel
def bend_sticks(u, b, order, outside, own, gradient, bend, scale):
    """Gradient (K,), minus the Hessian (K, K), and its positive scale (K,), in logits of u.

    b (K + 1,) : shares in the order of the sticks
    outside : slope and curvature (K + 1,) of a function of the shares in the order of the slots
    own (3, K) : slope, curvature and positive curvature of a sum over sticks
    """
    K, slope, curvature = len(u), outside[0], outside[1]
    drawn = b[K] * slope[K]  # sum over the shares after k, of b times slope
    bent = drawn + b[K] * b[K] * curvature[K]
    for k in range(K - 1, -1, -1):
        v, spread, at = 1.0 - u[k], u[k] * (1.0 - u[k]), order[k]
        here = b[k] * slope[at]
        here_bent = here + b[k] * b[k] * curvature[at]
        gradient[k] = own[0, k] * spread + here * v - u[k] * drawn
        for j in range(k):
            bend[j, k] = u[j] * (v * here_bent - u[k] * bent)
            bend[k, j] = bend[j, k]
        diagonal = spread * (own[1, k] * spread + own[0, k] * (v - u[k]) - (drawn + here))
        bend[k, k] = -(v * v * here_bent + u[k] * u[k] * bent) - diagonal
        scale[k] = own[2, k] * spread * spread
        drawn += here
        bent += here_bent
