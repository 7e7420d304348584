"""Segments that strings do not have: weights of what is rare in expectation, and of what is there.

The collapsed weight of a segment is exp(E[log(x + C)]), x its prior count and C how often all other
strings have it: mostly never, where E[C] is below one and x tiny. With q = q(C > 0) from the places
where it might be, taken as independent,

    E[log(x + C)]  is taken as  (1 - q) log x + q log(x + E[C] / q)

while log(x + E[C]) would let many improbable uses add up to a certain one.
"""

from __future__ import annotations

import math

from ..compile import kernel

__all__ = ["LEAST", "log_present", "log_without"]

LEAST = -40.0  # of a log of q(not at a place)
RARE = 1e-9  # q below this is zero: sums that change in place are as exact
SURE = 1.0 - 1e-15
SMALL = 1e-4  # shares below: three terms of the series leave an error of 3e-13 of the value


@kernel
def log_without(share):
    """Log of q(not at a place), from LEAST to 0."""
    if share < SMALL:  # most shares are, and a logarithm takes ten times as long
        return -share * (1.0 + share * (0.5 + share / 3.0))
    return max(math.log1p(-share), LEAST) if share < 1.0 else LEAST


@kernel
def log_present(prior, count, absent):
    """E[log(prior + C)] for an expected count and the log of q(C = 0)."""
    chance = min(-math.expm1(absent), count) if absent < 0.0 else 0.0
    if chance < RARE:
        return math.log(prior)
    if chance > SURE:
        return math.log(prior + count)
    log_prior = math.log(prior)
    return log_prior + chance * (math.log(prior + count / chance) - log_prior)
