"""Words that the listed rules of a grammar emit: nothing of them is left to explain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from stickbreak.data import Listing
from stickbreak.protocols import Array, Counts, Out
from stickbreak.stats import Field, Shares

from .base import BaseFamily, BaseScores

__all__ = ["ListedWords"]


@dataclass(frozen=True)
class NoScores(BaseScores):
    """Evidence 0 for every subtype: rules that emit words are the prior's."""

    n_components: int

    def evidence(self, rows: Array) -> Array:
        """(n, K)."""
        return np.zeros((self.n_components, len(rows))).T

    def collect(self, rows: Array, shares: Shares, out: Out) -> None:
        """Nothing."""

    def pair(self, counts: Counts) -> float:
        """Nothing."""
        return 0.0


@dataclass(frozen=True, eq=False, repr=False)
class ListedWords(BaseFamily):
    """Words of a treebank, with the rules that emit them. Rows are numbers of words.

    symbols, words, tops, binary, unary, emits : see `Listing`
    """

    symbols: Any = ()
    words: Any = ()
    tops: Any = ()
    binary: Any = ()
    unary: Any = ()
    emits: Any = ()

    max_categories = 1 << 31
    missing_category = -1.0
    draws = sweeps = True
    measure = "probabilities"

    @cached_property
    def listing(self) -> Listing:
        """The rules, checked: kernels trust them."""
        sizes = {"tops": None, "binary": 3, "unary": 2, "emits": 2}
        tables: dict[str, Array] = {}
        for name, width in sizes.items():
            table = np.asarray(getattr(self, name))
            shape = (-1,) if width is None else (-1, width)
            if table.dtype.kind not in "iu" or (width and table.shape[1:] != (width,)):
                raise ValueError(f"{name} must be a table of {width or 1} columns of numbers")
            tables[name] = np.ascontiguousarray(table.reshape(shape), dtype=np.int64)
        names = tuple(self.symbols), tuple(self.words)
        if not all(isinstance(name, str) for part in names for name in part):
            raise ValueError("symbols and words must be text")
        limits = {name: np.full(table.shape[-1], len(names[0])) for name, table in tables.items()}
        limits["emits"][1] = len(names[1])
        limits["tops"] = np.array(len(names[0]))
        for name, table in tables.items():
            if not len(table) and name in ("tops", "emits"):
                raise ValueError(f"{name} is empty")
            if (table < 0).any() or (table >= limits[name]).any():
                raise ValueError(f"{name} holds a number that no symbol or word has")
        tops, binary, unary, emits = tables.values()
        return Listing(*names, tops, binary, unary, emits)

    def check_rows(self, rows: Any, first: int = 0) -> None:
        """Words must be whole numbers of listed words."""
        values = np.asarray(rows)[:, 0]
        bad = ~((values >= 0) & (values == np.floor(values)) & (values < len(self.words)))
        if bad.any():
            at = int(np.flatnonzero(bad)[0])
            raise ValueError(
                f"row {first + at} is {values[at]}; words are numbers from 0 to "
                f"{len(self.words) - 1}"
            )

    @property
    def n_columns(self) -> int:
        """One."""
        return 1

    def prepare(self, rows: Any) -> Array:
        """Words (n,)."""
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
        return np.zeros(counts["root"].shape[1])

    log_mode = log_marginal

    def mean_log(self, counts: Counts) -> NoScores:
        """The same under every rule."""
        return NoScores(counts["root"].shape[1])

    log_mean = mode = mean_log

    def draw(self, counts: Counts, rng: np.random.Generator) -> NoScores:
        """The same under every rule."""
        return self.mean_log(counts)

    def describe(self, counts: Counts) -> Mapping[str, Array]:
        """Nothing: words are what they are."""
        return {}

    def live(self, counts: Counts) -> None:
        """Nothing leaves or joins."""

    live_sums = live

    def settle(self, live: Any, n_components: int) -> Out:
        """Nothing."""
        return {}
