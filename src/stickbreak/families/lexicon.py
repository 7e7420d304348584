"""Translations of source words: a table over the target vocabulary that holds what occurs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import digamma

from stickbreak.data import Companion, Scale
from stickbreak.kernels.alignment import cells
from stickbreak.kernels.alignment.sweeps import LiveLexicon
from stickbreak.kernels.tables import digamma_table
from stickbreak.protocols import Array, Counts, Out
from stickbreak.stats import Field, LinkShares, Shares, Summary, log_gamma_rise

from .base import BaseFamily, BaseScores

__all__ = ["Lexicon", "LexiconScores"]


@dataclass(frozen=True)
class LexiconScores(BaseScores):
    """Log potentials of cells, log_cells (C,), and of what is no cell, log_absent (K,)."""

    log_cells: Array
    log_absent: Array
    lexicon: Lexicon

    def _cells(self, rows: Array) -> Array:
        """(n, K) cells of all source words, -1 for none: for few rows or words."""
        K, n = len(self.log_absent), len(rows)
        words = np.tile(np.arange(K), n)
        return self.lexicon.find(words, np.repeat(np.ravel(rows), K)).reshape(n, K)

    @property
    def cell_table(self) -> tuple[Array, Array, Callable[..., Any]]:
        """Logs of cells, of what is no cell, and how to find the cells of links."""
        return self.log_cells, self.log_absent, self.lexicon.link

    def evidence(self, rows: Array) -> Array:
        """(n, K) for rows of target words; alignments read the cells of their links instead."""
        at = self._cells(rows)
        padded = np.r_[self.log_cells, 0.0]  # the last for what is no cell
        return np.asfortranarray(np.where(at >= 0, padded[at], self.log_absent))

    def collect(self, rows: Array, shares: Shares, out: Out) -> None:
        """Add the shares of links to their cells, and to the totals of source words."""
        if isinstance(shares, LinkShares):
            spans = shares.words, shares.word_offsets, shares.offsets
            cells.add_links(shares.links, shares.values, *spans, out["cell"], out["total"])
            return
        at, dense = self._cells(rows), np.asarray(shares)
        if (dense[at < 0] != 0).any():
            raise ValueError(
                "a row has a share in a source word with which its target word never occurred; "
                "make the lexicon from all pairs, by Lexicon.of_data or grown"
            )
        np.add.at(out["cell"], at[at >= 0], dense[at >= 0])
        out["total"] += dense.sum(0)

    def pair(self, counts: Counts) -> float:
        """<potentials, counts>."""
        is_held = counts["cell"] > 0  # potentials may be -inf where nothing is
        return float(self.log_cells[is_held] @ counts["cell"][is_held])


@dataclass(frozen=True, eq=False, repr=False)
class Lexicon(BaseFamily):
    """A Categorical for each source word over V target words, with a symmetric Dirichlet prior.

    Only pairs of words that occur together in some sentence pair can have counts. These cells are
    counted on one flat axis: `cell` (C,), those of source word s at starts[s]:starts[s + 1], with
    `total` (K,) by source word. All others have the prior's mass, and need no memory. Source word 0
    is NULL. The last source word and the last target word stand for all that are unknown.

    Parameters
    ----------
    concentration : prior count of each target word
    n_words, n_symbols : source words K and target words V
    starts (K + 1,), targets (C,) : which cells there are, target words ascending; see `of_data`
    """

    concentration: float
    n_words: int
    n_symbols: int
    starts: Any
    targets: Any

    sweeps = True
    measure = "probabilities"

    @classmethod
    def of_data(
        cls,
        rows: Array,
        offsets: Array,
        companion: Companion,
        *,
        n_words: int,
        n_symbols: int,
        concentration: float = 0.003,
        keeps_links: bool = True,
    ) -> tuple[Lexicon, Companion]:
        """The lexicon of sentence pairs, and their companion with its links.

        rows (n, 1) : target words of all units. companion : their source words
        keeps_links : whether links are kept for all units; if not, they are found when needed
        """
        _check_words(rows, n_symbols, "target")
        _check_words(companion.rows, n_words, "source")
        source = np.ascontiguousarray(companion.rows)
        found = cells.by_word(source, companion.offsets, n_words)
        words = np.ascontiguousarray(np.ravel(rows))
        starts, targets = cells.count_cells(found, words, offsets, n_symbols)
        lexicon = cls(concentration, n_words, n_symbols, starts, targets)
        if not keeps_links:
            return lexicon, companion
        room = companion.linked(offsets)
        assert room.link_offsets is not None
        links = np.empty(int(room.link_offsets[-1]), dtype=np.int32)
        lengths = np.diff(companion.offsets)
        index = [*found, words, offsets, lengths, starts, targets, room.link_offsets, links]
        cells.fill_links(*index)
        return lexicon, room._replace(links=links)

    def link(self, rows: Array, offsets: Array, companion: Companion) -> Companion:
        """The companion with the links of these sentence pairs, -1 for what is no cell."""
        _check_words(rows, self.n_symbols, "target")
        _check_words(companion.rows, self.n_words, "source")
        room = companion.linked(offsets)
        assert room.link_offsets is not None
        links = np.empty(int(room.link_offsets[-1]), dtype=np.int32)
        source, words = np.ascontiguousarray(companion.rows), np.ascontiguousarray(np.ravel(rows))
        pairs = source, companion.offsets, words, offsets
        cells.find_links(self.starts, self.targets, *pairs, links)
        return room._replace(links=links)

    def find(self, sources: Array, targets: Array) -> Array:
        """(n,) cells of pairs of words, -1 for those that never occurred together."""
        out = np.empty(len(sources), dtype=np.int64)
        cells.find_cells(self.starts, self.targets, np.asarray(sources), np.asarray(targets), out)
        return out

    # ------------------------------------------------------------------------------ more words

    def grown(
        self, rows: Array, offsets: Array, companion: Companion, *, n_words: int, n_symbols: int
    ) -> tuple[Lexicon, Companion]:
        """The lexicon with the cells of more sentence pairs, and their companion with its links.

        Known words keep their numbers; the last ones, for unknown words, move up.
        """
        other, companion = Lexicon.of_data(
            rows, offsets, companion, n_words=n_words, n_symbols=n_symbols
        )
        keys = [lexicon._keys(n_symbols) for lexicon in (self, other)]
        both = np.union1d(*keys)
        starts = np.searchsorted(both, np.arange(n_words + 1) * n_symbols)
        targets = (both % n_symbols).astype(np.int32)
        new = Lexicon(self.concentration, n_words, n_symbols, starts, targets)
        place = np.searchsorted(both, keys[1]).astype(np.int32)
        assert companion.links is not None
        return new, companion._replace(links=place[companion.links])

    def carry(self, counts: Summary, new: Lexicon) -> Summary:
        """Counts of this lexicon as those of one that has grown from it."""
        cell, total = np.zeros(len(new.targets)), np.zeros(new.n_words)
        cell[new.find(self._words(), self.targets)] = counts["cell"]
        total[: self.n_words - 1] = counts["total"][:-1]  # of the unknown there are none
        return replace(counts, arrays={**counts.arrays, "cell": cell, "total": total})

    def _words(self) -> Array:
        """(C,) source word of each cell."""
        return np.repeat(np.arange(self.n_words), np.diff(self.starts))

    def _keys(self, n_symbols: int) -> Array:
        """(C,) numbers that order the cells."""
        return self._words() * n_symbols + self.targets

    # ------------------------------------------------------------------------------ rows, counts

    @property
    def n_columns(self) -> int:
        """A row is one target word."""
        return 1

    @property
    def n_named(self) -> int:
        """Source words, with NULL and the unknown."""
        return int(self.n_words)

    def resolve(self, scale: Scale) -> Lexicon:
        """Itself, if its cells are those of its words: nothing depends on the scale."""
        starts, targets = np.asarray(self.starts), np.asarray(self.targets)
        is_right = (
            starts.shape == (self.n_words + 1,)
            and targets.ndim == 1
            and {starts.dtype.kind, targets.dtype.kind} <= {"i"}
            and starts[0] == 0
            and starts[-1] == len(targets)
            and (np.diff(starts) >= 0).all()
        )
        if not is_right:
            raise ValueError(f"starts and targets are not those of {self.n_words} source words")
        _check_words(targets, self.n_symbols, "target")
        return self

    def check_rows(self, rows: Any, first: int = 0) -> None:
        """Target words are 0 to V - 1."""
        _check_words(rows, self.n_symbols, "target")

    def prepare(self, rows: Any) -> Array:
        """Target words (n,)."""
        found = np.ravel(rows)
        if found.dtype.kind == "f" and (found == np.floor(found)).all():  # as tables have them
            found = found.astype(np.int64)
        self.check_rows(found)
        return np.ascontiguousarray(found)

    def fields(self, axis: str) -> dict[str, Field]:
        """Cells of all source words, one after another; and the totals of each."""
        return {"cell": Field(("cell",)), "total": Field((axis,))}

    def zeros(self, n_components: int) -> Out:
        """Empty counts."""
        return {"cell": np.zeros(len(self.targets)), "total": np.zeros(n_components)}

    # ------------------------------------------------------------------------------ posterior

    @property
    def _base_total(self) -> float:
        return float(self.concentration * self.n_symbols)

    def log_marginal(self, counts: Counts) -> Array:
        """(K,) Dirichlet log-partition differences."""
        out = np.empty(self.n_words)
        cells.log_gamma_words(self.starts, counts["cell"], float(self.concentration), out)
        return np.asarray(out - log_gamma_rise(self._base_total, counts["total"]))

    def log_mode(self, counts: Counts) -> Array:
        """(K,) sum over all target words of (count + concentration) * log probability."""
        scores, out = self.mode(counts), np.empty(self.n_words)
        value = (counts["cell"] + self.concentration) * scores.log_cells
        cells.gather_words(self.starts, value, out)
        n_absent = self.n_symbols - np.diff(self.starts)
        return np.asarray(out + n_absent * self.concentration * scores.log_absent)

    def _scores(self, logs: Array, least: float, totals: Array) -> LexiconScores:
        cells.spread_words(self.starts, logs, totals, logs)
        return LexiconScores(logs, least - totals, self)

    def mean_log(self, counts: Counts) -> LexiconScores:
        """E[log probability]."""
        base, logs = float(self.concentration), np.empty(len(self.targets))
        digamma_table(np.ascontiguousarray(counts["cell"]), base, logs)
        totals = digamma(counts["total"] + self._base_total)
        return self._scores(logs, float(digamma(base)), totals)

    def log_mean(self, counts: Counts) -> LexiconScores:
        """Log predictive probability."""
        base = float(self.concentration)
        logs, totals = np.log(counts["cell"] + base), np.log(counts["total"] + self._base_total)
        return self._scores(logs, float(np.log(base)), totals)

    def mode(self, counts: Counts) -> LexiconScores:
        """Log probability at the mode in natural coordinates."""
        return self.log_mean(counts)

    # ------------------------------------------------------------------------------ sweeps

    def live(self, counts: Counts) -> LiveLexicon:
        """Counts, copied, for a sweep."""
        own = np.array(counts["cell"]), np.array(counts["total"])
        prior = float(self.concentration), self._base_total
        return LiveLexicon(*own, *prior, self.starts, self.targets)

    def settle(self, live: LiveLexicon, n_components: int) -> Out:
        """Fields from live counts."""
        return {"cell": live.cells, "total": live.totals}

    # ------------------------------------------------------------------------------ for readers

    def translations(self, counts: Counts) -> Any:
        """(K, V) posterior means of the cells, as a CSR matrix; rows lack the mass of others."""
        from scipy.sparse import csr_array

        values = np.exp(self.log_mean(counts).log_cells)
        shape = self.n_words, self.n_symbols
        return csr_array((values, np.asarray(self.targets), np.asarray(self.starts)), shape=shape)

    def describe(self, counts: Counts) -> Mapping[str, Array]:
        """Links (K,): expected number of target words of each source word."""
        return {"links": np.asarray(counts["total"])}


def _check_words(words: Any, n_words: int, side: str) -> None:
    """Raise ValueError for words that are not of a vocabulary."""
    values = np.asarray(words)
    if values.size == 0:
        return
    if values.dtype.kind not in "iu" or values.min() < 0 or values.max() >= n_words:
        raise ValueError(
            f"{side} words are whole numbers from 0 to {n_words - 1}; got {values.min()} to "
            f"{values.max()}, {values.dtype}"
        )
