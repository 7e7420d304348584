"""Rounded columns: a value stands for all numbers that round to it.

A column of whole numbers holds few distinct values, often one value nearly everywhere. A density
could then grow without limit where a component is as narrow as the single value, and the bound
would divide rows by such columns alone. So a value x of a rounded column is taken as x + u, with u
uniform over one step. The mean of log N(x + u | mean, precision) over u is

    log N(x | mean, precision) - 1/2 sum_d precision_dd step_d^2 / 12,

which stays conjugate: each row adds step^2 / 12 to the scatter. By Jensen's inequality the bound is
one on the log probability of the rounded values.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stickbreak.data import Scale
from stickbreak.protocols import Array

from .prior_scales import prior_vector

__all__ = ["add_noise", "noise_of", "prior_rounding", "trace_with"]


def prior_rounding(value: Any, spread: Any, scale: Scale) -> Array:
    """(D,) steps: as given, or 1 for columns of whole numbers, 0 for others.

    spread : the prior (co)variance as given. A user's own comes with no rounding but their own.
    """
    default = np.zeros(scale.n_features)
    if spread is None and scale.is_whole is not None:
        default[scale.is_whole] = 1.0
    steps = prior_vector("rounding", value, default)
    if (steps < 0).any():
        raise ValueError(f"rounding must be zero or positive; got {value!r}")
    return steps


def noise_of(rounding: Any, scale: Array) -> Array:
    """(D,) variances of what rounding took away, in a standardized frame; 0 for rounding=None."""
    steps = np.zeros(len(scale)) if rounding is None else np.asarray(rounding, dtype=float)
    return (steps / scale) ** 2 / 12.0


def add_noise(factor: Array, noise: Array) -> tuple[Array, Array | float]:
    """Lower factor (K, D, D) of factor factor' + diag(noise); (K,) what its log det gained."""
    if not noise.any():
        return factor, 0.0
    grown = np.linalg.cholesky(factor @ factor.transpose(0, 2, 1) + np.diag(noise))
    return grown, 2.0 * np.log(np.einsum("kdd->kd", grown) / np.einsum("kdd->kd", factor)).sum(1)


def trace_with(noise: Array, factor: Array) -> Array | float:
    """(K,) trace of diag(noise) times inverse(factor factor'); factor (K, D, D), lower."""
    if not noise.any():
        return 0.0
    return np.asarray(np.einsum("kij,j->k", np.linalg.inv(factor) ** 2, noise))
