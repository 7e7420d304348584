"""Rows that name their component: one column of symbols, of which nothing is left to explain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stickbreak.data import Scale
from stickbreak.protocols import Array, Counts, Out
from stickbreak.stats import Field, Shares

from .base import BaseFamily, BaseScores

__all__ = ["Letters", "Tags"]


@dataclass(frozen=True)
class TagScores(BaseScores):
    """Evidence 0 for a row's own tag, -inf for all others; nothing is counted."""

    n_symbols: int

    def evidence(self, rows: Array) -> Array:
        """(n, V)."""
        out = np.full((self.n_symbols, len(rows)), -np.inf)
        out[rows, np.arange(len(rows))] = 0.0
        return out.T

    def collect(self, rows: Array, shares: Shares, out: Out) -> None:
        """Nothing."""

    def pair(self, counts: Counts) -> float:
        """Nothing."""
        return 0.0


@dataclass(frozen=True, eq=False, repr=False)
class Tags(BaseFamily):
    """The component of a row is its symbol, 0 to n_symbols - 1: tags of words, whose structure is
    sought and not their kind.

    n_symbols : number of tags. Default: the largest seen, plus one.
    """

    n_symbols: Any = None
    max_categories = 1 << 31
    missing_category = -1.0
    names_components = True
    draws = sweeps = True
    measure = "probabilities"

    def resolve(self, scale: Scale) -> Tags:
        """Set n_symbols to the largest tag plus one."""
        n_seen = int(scale.largest[0]) + 1
        wanted = n_seen if self.n_symbols is None else int(self.n_symbols)
        if wanted < n_seen:
            raise ValueError(f"there is tag {n_seen - 1} but n_symbols={wanted}")
        return replace(self, n_symbols=wanted)

    def check_rows(self, rows: Any, first: int = 0) -> None:
        """Tags must be whole numbers from 0 to n_symbols - 1, if known."""
        values = np.asarray(rows)[:, 0]
        known = np.inf if self.n_symbols is None else self.n_symbols
        bad = ~((values >= 0) & (values == np.floor(values)) & (values < known))
        if bad.any():
            at = int(np.flatnonzero(bad)[0])
            raise ValueError(
                f"row {first + at} is {values[at]}; tags are words, or whole numbers from 0"
                + ("" if known == np.inf else f" to {known - 1}")
            )

    @property
    def n_columns(self) -> int:
        """One."""
        return 1

    def prepare(self, rows: Any) -> Array:
        """Tags (n,)."""
        self.check_rows(rows)  # kernels trust their input
        return np.ascontiguousarray(np.asarray(rows)[:, 0], dtype=np.int64)

    def fields(self, axis: str) -> dict[str, Field]:
        """Nothing."""
        return {}

    def zeros(self, n_components: int) -> Out:
        """Nothing."""
        return {}

    def log_marginal(self, counts: Counts) -> Array:
        """Zeros."""
        return np.zeros(int(self.n_symbols))

    log_mode = log_marginal

    def mean_log(self, counts: Counts) -> TagScores:
        """The same under every rule."""
        return TagScores(int(self.n_symbols))

    log_mean = mode = mean_log

    def draw(self, counts: Counts, rng: np.random.Generator) -> TagScores:
        """The same under every rule."""
        return TagScores(int(self.n_symbols))

    def describe(self, counts: Counts) -> Mapping[str, Array]:
        """Nothing: tags are what they are."""
        return {}

    def live(self, counts: Counts) -> None:
        """Nothing leaves or joins."""

    live_sums = live

    def settle(self, live: Any, n_components: int) -> Out:
        """Nothing."""
        return {}


@dataclass(frozen=True, eq=False, repr=False)
class Letters(Tags):
    """What strings are made of: like tags nothing is left to explain, but no letter is a component.

    n_symbols : number of letters. Default: the largest seen, plus one.
    """

    names_components = False
