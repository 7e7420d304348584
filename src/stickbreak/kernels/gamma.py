"""Log gamma and digamma of a number or of eight at once, for the steps of a document.

All functions move x to z = x + 7.5, where a short series is exact to 1e-13, by the recurrence
Gamma(x + 8) = x (x + 1) ... (x + 7) Gamma(x). With y = x (x + 7) that product is
y (y + 6) (y + 10) (y + 12), and the sum of the reciprocals takes one division.
"""

from __future__ import annotations

from .compile import inline
from .rows import exp_fast
from .vectors import at_least, exponent, fma, mantissa

__all__ = ["digamma_fast", "exp_digamma", "log_fast", "log_gamma_fast"]

LOG_2 = 0.6931471805599453
ROOT_2 = 1.4142135623730951
HALF_LOG_2_PI = 0.9189385332046727


@inline
def log_fast(x):
    """Log x of a normal x > 0; relative error 1e-15, absolute error 1e-16 near one."""
    m, e = mantissa(x), exponent(x)
    is_large = at_least(m, ROOT_2, 1.0, 0.0)
    m = fma(m * -0.5, is_large, m)  # in [0.7, 1.4]
    f = (m - 1.0) / (m + 1.0)  # log m = 2 atanh f
    s = f * f
    high = fma(s, fma(s, fma(s, 2 / 21, 2 / 19), 2 / 17), 2 / 15)
    series = fma(
        s, fma(s, fma(s, fma(s, fma(s, fma(s, high, 2 / 13), 2 / 11), 2 / 9), 2 / 7), 2 / 5), 2 / 3
    )
    return fma(e + is_large, LOG_2, fma(f * s, series, 2.0 * f))


@inline
def reciprocals(x):
    """1 / x + 1 / (x + 1) + ... + 1 / (x + 7)."""
    y = x * (x + 7.0)
    a, b = y * (y + 6.0), fma(y, y + 22.0, 120.0)
    return fma(x, 2.0, 7.0) * fma(fma(y, 2.0, 6.0), b, fma(y, 2.0, 22.0) * a) / (a * b)


@inline
def exp_digamma(x):
    """exp(digamma(x)) for x > 0, relative error 1e-12 unless it underflows.

    exp(digamma(z + 1 / 2)) = z + 1 / (24 z) - ...
    """
    z = x + 7.5
    w = 1.0 / z
    s = w * w
    tail = fma(
        s,
        fma(s, fma(s, 2709398569 / 367873228800, -5509121 / 1393459200), 10313 / 2903040),
        -37 / 5760,
    )
    return fma(w, fma(s, tail, 1 / 24), z) * exp_fast(-1.0 * reciprocals(x))


@inline
def digamma_fast(x):
    """digamma(x) for x > 0, absolute error 1e-13 plus rounding."""
    z = x + 8.0
    w = 1.0 / z
    s = w * w
    tail = fma(
        s,
        fma(s, fma(s, fma(s, fma(s, -691 / 32760, 1 / 132), -1 / 240), 1 / 252), -1 / 120),
        1 / 12,
    )
    return log_fast(z) - fma(s, tail, 0.5 * w) - reciprocals(x)


@inline
def log_gamma_fast(x):
    """Log Gamma(x) for x > 0, absolute error 1e-13 plus rounding."""
    z, y = x + 8.0, x * (x + 7.0)
    w = 1.0 / z
    s = w * w
    tail = w * fma(
        s,
        fma(s, fma(s, fma(s, fma(s, -691 / 360360, 1 / 1188), -1 / 1680), 1 / 1260), -1 / 360),
        1 / 12,
    )
    product = y * (y + 6.0) * fma(y, y + 22.0, 120.0)
    return fma(x + 7.5, log_fast(z), tail - z) + HALF_LOG_2_PI - log_fast(product)
