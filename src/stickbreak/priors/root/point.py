"""A root that is a point estimate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stickbreak.protocols import Array

from .base import Own, Root, top_term
from .groups import Groups, Surrogate, Term

__all__ = ["PointRoot"]


@dataclass(frozen=True)
class PointRoot(Root):
    """A point estimate of the shares; its prior is the density of b, not of u [J14, 5.4; LK07].

        log p(b) = K log c + (c - 1) log R_K - sum_{i<K} log R_i,   R_i = 1 - b_1 - ... - b_i

    The normalizers of the groups are exact, but a point pays nothing for a component: empty ones
    raise this "bound", and with more of them than the concentration it has no maximum. It cannot
    choose the number of components.
    """

    def _outside(self, groups: Groups, surrogate: Surrogate, shares: Array) -> Term:
        return groups.normalizers(shares)

    def _log_pass(self, u: Array, surrogate: Surrogate) -> Array:
        return np.log1p(-u)

    def _own(self, u: Array, surrogate: Surrogate) -> Own:
        """K log c + sum_k (c - 1 - K + k) log(1 - u_k), which is log p(b).

        In sticks, log R_i = sum_{l<=i} log(1 - u_l).
        """
        later = len(u) - 1.0 - np.arange(len(u))  # K - k for k = 1, ..., K
        log_pass = np.log1p(-u)
        top, mean = top_term(self.concentration, len(u), float(log_pass.sum()))
        power = mean - 1.0 - later
        scale = (surrogate.ones + surrogate.zeros + 2.0) / (u * (1.0 - u))
        return Own(
            float(top - (1.0 + later) @ log_pass),
            np.stack([-power / (1.0 - u), -power / (1.0 - u) ** 2, scale]),
        )
