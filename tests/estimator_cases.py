"""Rows for tests of estimators: for each family name, a table with three clear groups, the group of
each row, and new rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import stickbreak as sb

Array = np.ndarray
N_GROUPS = 3


@dataclass(frozen=True)
class Case:
    """rows (n, D), groups (n,), new rows (m, D) of the same kind."""

    name: str
    rows: Array
    groups: Array
    new: Array


def _make(name: str, groups: Array, rng: np.random.Generator) -> Array:
    """One row for each group number."""
    n = len(groups)
    if name in ("gaussian", "diagonal", "fixed-variance"):
        return np.array([[-8.0, 0.0], [0.0, 9.0], [8.0, -1.0]])[groups] + rng.normal(size=(n, 2))
    if name == "zero-mean":
        return np.array([[0.1, 10.0], [5.0, 0.05], [60.0, 60.0]])[groups] * rng.normal(size=(n, 2))
    if name == "categorical":
        kept = rng.random((n, 6)) < 0.9
        return np.where(kept, groups[:, None], rng.integers(0, 3, (n, 6)))
    if name == "multinomial":
        p = np.kron(np.eye(3), [0.45, 0.45]) + 0.1 / 6
        return rng.multinomial(30, (p / p.sum(1, keepdims=True))[groups])
    if name == "bernoulli":
        p = np.kron(np.eye(3), np.full(4, 0.8)) + 0.1
        return (rng.random((n, 12)) < p[groups]).astype(int)
    if name == "poisson":
        return rng.poisson(np.array([[1.0, 20.0], [25.0, 2.0], [60.0, 60.0]])[groups])
    # three regressions of a value on its context: random walks that rise, fall, or turn around
    if name == "autoregressive":
        context = rng.normal(3.0, 2.0, size=(n, 1))
        slope, place = np.array([1.0, 1.0, -1.0])[groups], np.array([4.0, -4.0, 20.0])[groups]
        return np.column_stack([slope * context[:, 0] + place + 0.3 * rng.normal(size=n), context])
    raise KeyError(name)


def make_case(name: str, n: int = 150, seed: int = 7) -> Case:
    """A case of n rows, groups of equal size in random order."""
    rng = np.random.default_rng(seed)
    groups = rng.permutation(np.arange(n) % N_GROUPS)
    return Case(name, _make(name, groups, rng), groups, _make(name, np.arange(30) % N_GROUPS, rng))


NAMES = (
    "gaussian", "diagonal", "zero-mean", "fixed-variance", "categorical", "multinomial",
    "bernoulli", "poisson", "autoregressive",
)  # fmt: skip
CASES = {name: make_case(name) for name in NAMES}


def fixed_dp(n_components: int, *, inference: Any = None, **settings: Any) -> sb.DPMixture:
    """A DPMixture without moves: n_components is a truncation."""
    engine = sb.MemoizedVB(moves=None) if inference is None else inference
    return sb.DPMixture(n_components, inference=engine, **settings)


def blobs(n: int = 120, n_features: int = 2, n_groups: int = 2, seed: int = 0) -> Array:
    """(n, D) rows around well separated centers, in random order."""
    rng = np.random.default_rng(seed)
    centers = 10.0 * np.arange(n_groups)[:, None] * np.where(np.arange(n_features) % 2, -1.0, 1.0)
    return centers[rng.permutation(np.arange(n) % n_groups)] + rng.normal(size=(n, n_features))
