"""Links of target words to the source words of their sentence, or to NULL.

A unit is a sentence pair and a row a target word; the companion holds the source words. Components
are the source vocabulary, NULL first, but a row may use the words of its own sentence only, so no
array has an entry for each row and component. Weights, posteriors and own counts are those of
links: the first of a row is to NULL, the others to the positions of its source sentence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from stickbreak.data import Batch, Companion
from stickbreak.kernels.alignment import posteriors
from stickbreak.protocols import Array, Local, Out, Potentials, SweptLane
from stickbreak.stats import Fields, LinkShares

from ..base import BaseStructure
from .collapsed import even_links, no_links, sweep_links, zero_places

__all__ = ["BagAlignment", "ChainAlignment"]

BLOCK_ROWS = 4096
BLOCK_LINKS = 1 << 18  # of a block whose source sentences are long


@dataclass(frozen=True)
class BagAlignment(BaseStructure):
    """Every target word is linked by itself, to all positions alike: IBM model 1.

    Its labels are positions of the source sentence from 0 on, -1 for NULL.
    """

    has_best = names_components = sweeps_in_place = True
    granularities = ("sequence", "token")
    drawn_granularity = "token"

    @property
    def has_jumps(self) -> bool:
        """Whether links depend on each other."""
        return False

    def block_rows(self, width: int) -> int:
        """Not by the number of components: a row has links to the words of its sentence only."""
        return BLOCK_ROWS

    def blocks(self, batch: Batch, max_rows: int) -> list[Batch]:
        """Parts of about `max_rows` rows, or fewer where source sentences are long.

        None has more than BLOCK_LINKS links and those of one pair.
        """
        return [part for block in batch.blocks(max_rows) for part in _parts(block)]

    # ------------------------------------------------------------------------------ local step

    def infer(self, potentials: Potentials, block: Batch, warm: Fields | None, out: Out) -> Local:
        """Posteriors of all links."""
        _refuse_fertility(out)
        shares, found, log_z = _infer(potentials, block)
        for name, counts in found.items():
            out[name] += counts
        return Local(float(log_z.sum()), shares)

    def infer_best(
        self, potentials: Potentials, block: Batch, warm: Fields | None, out: Out
    ) -> Local:
        """The best alignment of each pair."""
        _refuse_fertility(out)
        places, log_z, links = _best(potentials, block)
        companion, offsets = _sides(block)
        shares = np.zeros(len(links))
        jump = out["jump"] if self.has_jumps else np.zeros(0)
        spans = companion.offsets, offsets
        posteriors.count_places(places, *spans, shares, out["null"], jump)
        return Local(float(log_z.sum()), _shares(shares, links, block, potentials))

    def count(self, labels: Array, block: Batch, out: Out) -> None:
        """Links to NULL and to words, and jumps, of positions (n,); all of them are known."""
        companion, offsets = _sides(block)
        room = companion.linked(offsets)
        assert room.link_offsets is not None
        jump = out["jump"] if self.has_jumps else np.zeros(0)
        places, shares = np.asarray(labels) + 1, np.zeros(int(room.link_offsets[-1]))
        spans = companion.offsets, offsets
        posteriors.count_places(places, *spans, shares, out["null"], jump)

    def log_evidence(self, potentials: Potentials, block: Batch) -> Array:
        """(units,) log normalizers."""
        return _infer(potentials, block)[2]

    # ------------------------------------------------------------------------------ links

    def link_posteriors(self, potentials: Potentials, block: Batch) -> Array:
        """(L,) posteriors of links, unit after unit and row after row, NULL first."""
        rows = block.with_rows(np.ravel(block.rows))
        return _infer(potentials, rows)[0].values

    def decode(self, potentials: Potentials, block: Batch) -> Array:
        """(n,) position with the largest posterior, -1 for NULL; ties go to the first."""
        return _largest(self.link_posteriors(potentials, block), block) - 1

    align = decode

    def best(self, potentials: Potentials, block: Batch) -> Array:
        """(n,) positions of the best alignment of each pair, -1 for NULL."""
        return _best(potentials, block.with_rows(np.ravel(block.rows)))[0] - 1

    # ------------------------------------------------------------------------------ sweeps

    def own_counts(
        self, batch: Batch, n_components: int, axis: str, granularity: str = ""
    ) -> Fields:
        """Links (L,), and jumps (m, 2) of source words, those of a pair one after another."""
        return no_links(batch, self.has_jumps)

    def own_labels(self, batch: Batch, n_components: int, axis: str) -> Fields:
        """Positions (n,) from 1 on, 0 for NULL, -1 before the first draw."""
        return zero_places(batch)

    def even_own(self, batch: Batch, chance: Array) -> Fields:
        """Own counts of links that are all alike; chance (2,) of NULL and of a word, or ()."""
        return even_links(batch, self.has_jumps, chance)

    def own_after(self, batch: Batch, own: Fields | None) -> Fields | None:
        """Own counts from those of a fit with another model: its links; jumps begin anew."""
        if own is None or "links" not in own.arrays:
            return own
        found = no_links(batch, self.has_jumps, own["links"])
        return found

    def places_of(self, batch: Batch, own: Fields) -> Array:
        """(n,) positions that units keep, -1 for NULL: drawn ones, or those of most posterior.

        Posteriors given all other pairs, as kept by sweeps, align better than those of `decode`
        under counts that include the pair itself.
        """
        if "places" in own.arrays:
            return np.asarray(own["places"], dtype=np.int64) - 1
        return _largest(own["links"], batch) - 1

    def sweep(self, lane: SweptLane) -> tuple[float, float]:
        """Every pair, or every target word, given all others."""
        return sweep_links(lane)


@dataclass(frozen=True)
class ChainAlignment(BagAlignment):
    """Positions follow each other by jumps; a word linked to NULL keeps the last: HMM aligner."""

    @property
    def has_jumps(self) -> bool:
        """They do."""
        return True


def _parts(block: Batch) -> list[Batch]:
    """The block, or parts of it with fewer links."""
    companion, offsets = _sides(block)
    done = np.cumsum((np.diff(companion.offsets) + 1) * np.diff(offsets))
    if not len(done) or done[-1] <= BLOCK_LINKS:
        return [block]
    inner = np.searchsorted(done, np.arange(BLOCK_LINKS, done[-1], BLOCK_LINKS), "right")
    cuts = np.unique(np.r_[0, inner, block.n_spans]).tolist()
    return [block.part(lo, hi) for lo, hi in pairwise(cuts)]


def _refuse_fertility(out: Out) -> None:
    """Raise ValueError for a model whose links are not a chain."""
    if "fertility" in out:
        raise ValueError(
            "fertilities are for CollapsedVB(granularity='sequence') and CollapsedGibbs; for other "
            "engines use an aligner without them"
        )


def _sides(block: Batch) -> tuple[Companion, Array]:
    """The source words of a block's units, and the offsets of its target words."""
    if block.companion is None or block.offsets is None:
        raise ValueError("alignment needs sentence pairs: Sequences with a Companion")
    if block.repeats is not None:
        raise ValueError("sentence pairs have no weights; repeat pairs instead")
    return block.companion, block.offsets


def _largest(values: Array, block: Batch) -> Array:
    """(n,) position of the largest of the values (L,) of a row's links, 0 for NULL."""
    companion, offsets = _sides(block)
    places = np.empty(block.n_rows, dtype=np.int64)
    posteriors.largest_places(values, companion.offsets, offsets, places)
    return places


def _cells(potentials: Potentials) -> tuple[Array, Array, Callable[..., Any]]:
    """What the family says of cells."""
    found = potentials.scores.cell_table
    if found is None:
        raise ValueError("alignment needs a family of pairs of words; use Lexicon")
    return found


def _tables(potentials: Potentials, block: Batch) -> Any:
    """What kernels read: log weights of cells, links, both sides, and weights of positions."""
    companion, offsets = _sides(block)
    log_cells, log_absent, link = _cells(potentials)
    if companion.links is None:
        companion = link(block.rows, offsets, companion)
    assert companion.links is not None
    tables = potentials.tables  # type: ignore[attr-defined]
    jump = np.exp(tables["jump"]) if "jump" in tables else np.zeros(0)
    words = np.ascontiguousarray(companion.rows)
    sides = companion.links, words, companion.offsets, offsets
    positions = np.exp(tables["chance"]), jump, bool(tables.get("is_open", True))
    return log_cells, log_absent, *sides, *positions


def _infer(potentials: Potentials, block: Batch) -> tuple[LinkShares, dict[str, Array], Array]:
    """Posteriors of links, counts of the prior, and log normalizers (units,)."""
    tables = _tables(potentials, block)
    links, jump = tables[2], tables[7]
    shares, log_z = np.empty(len(links)), np.empty(block.n_spans)
    null, jumps = np.zeros(2), np.zeros(len(jump))
    given = [*tables, shares, null, jumps, log_z]
    posteriors.infer_pairs(*given)
    counts = {"null": null, "jump": jumps} if len(jump) else {"null": null}
    return _shares(shares, links, block, potentials), counts, log_z


def _best(potentials: Potentials, block: Batch) -> tuple[Array, Array, Array]:
    """Positions (n,) from 1 on, 0 for NULL, of the best alignments, their log weights, links."""
    tables = _tables(potentials, block)
    places, log_z = np.empty(block.n_rows, dtype=np.int64), np.empty(block.n_spans)
    given = [*tables, places, log_z]
    posteriors.best_pairs(*given)
    return places, log_z, tables[2]


def _shares(values: Array, links: Array, block: Batch, potentials: Potentials) -> LinkShares:
    companion, offsets = _sides(block)
    sides = np.ascontiguousarray(companion.rows), companion.offsets, offsets
    return LinkShares(values, links, *sides, len(_cells(potentials)[1]))
