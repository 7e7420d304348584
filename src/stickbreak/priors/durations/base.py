"""The contract of a duration law: the lengths 1, 2, ..., D of the segments of K states.

A law is a function of the histogram (K, D) of lengths, column d - 1 for length d. As a family, it
holds hyperparameters only and obeys three laws: the derivative of `log_marginal` along a length is
its `mean_log`, the difference its `log_mean`, and the derivative of `log_mode` its `mode`.

Lengths above D do not exist: their probability is lost, and laws are not renormalized, which would
cost the closed forms.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from stickbreak.parameters import Parameters
from stickbreak.protocols import Array

__all__ = ["BaseDuration", "column_of"]


def column_of(histogram: Array) -> tuple[Array, Array]:
    """Lengths 1, ..., D as floats, and the segments (K,) of each state."""
    return np.arange(1.0, histogram.shape[1] + 1), np.asarray(histogram.sum(1))


class BaseDuration(Parameters):
    """Law of the number of rows of a segment, with its conjugate prior."""

    is_staged: ClassVar[bool] = False
    """Whether a segment is a walk through stages, which a chain with sub-states can take."""

    is_limited: ClassVar[bool] = False
    """Whether lengths above the largest one have no meaning, rather than little probability."""

    def log_marginal(self, histogram: Array) -> Array:
        """(K,) log-partition of the posterior minus that of the prior."""
        raise NotImplementedError

    def log_mode(self, histogram: Array) -> Array:
        """(K,) largest log joint, up to a constant of the prior."""
        raise NotImplementedError

    def mean_log(self, histogram: Array) -> Array:
        """(K, D) E[log p(length)]."""
        raise NotImplementedError

    def log_mean(self, histogram: Array) -> Array:
        """(K, D) log E[p(length)], the posterior predictive."""
        raise NotImplementedError

    def mode(self, histogram: Array) -> Array:
        """(K, D) log p(length) at the mode in natural coordinates."""
        raise NotImplementedError

    def draw(self, histogram: Array, *, rng: np.random.Generator) -> Array:
        """(K, D) log p(length) for parameters drawn from their posterior."""
        raise NotImplementedError

    def describe(self, histogram: Array) -> dict[str, Array]:
        """Posterior means of the parameters by name, states first."""
        raise NotImplementedError
