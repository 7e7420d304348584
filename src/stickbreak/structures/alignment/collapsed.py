"""Collapsed sweeps of alignments: what sentence pairs keep, and how they are visited."""

from __future__ import annotations

from typing import Any

import numpy as np

from stickbreak.data import Batch, Companion
from stickbreak.errors import NumericalError
from stickbreak.kernels.alignment.cells import even_shares, find_links
from stickbreak.kernels.alignment.sweeps import LiveLexicon, Tables, count_pairs, sweep_pairs
from stickbreak.kernels.alignment.tokens import count_places_live, draw_tokens, sweep_tokens
from stickbreak.protocols import Array, SweptLane
from stickbreak.stats import Field, Fields

__all__ = ["even_links", "no_links", "sweep_links", "zero_places"]

KEPT = np.float32


def no_links(batch: Batch, has_jumps: bool, links: Array | None = None) -> Fields:
    """Links (L,), zero unless given, and no jumps (m, 2)."""
    companion = batch.companion
    if companion is None or companion.link_offsets is None:
        raise ValueError(
            "collapsed inference keeps the links of sentence pairs; give Sequences whose companion "
            "has link_offsets, by Lexicon.of_data, Lexicon.link or Companion.linked"
        )
    layout, arrays = {"links": Field(("link",))}, {}
    n_links = int(companion.link_offsets[-1])
    arrays["links"] = np.zeros(n_links, KEPT) if links is None else links
    if has_jumps:
        layout["jumps"] = Field(("companion", None))
        arrays["jumps"] = np.zeros((len(companion.rows), 2), KEPT)
    return Fields(layout, arrays)


def even_links(batch: Batch, has_jumps: bool, chance: Array) -> Fields:
    """Links of rows that are shared evenly among all positions; no jumps.

    chance (2,) : shares of NULL and of all words; () where NULL is one more position
    """
    own = no_links(batch, has_jumps)
    assert batch.companion is not None
    assert batch.offsets is not None
    even_shares(batch.companion.offsets, batch.offsets, chance, own["links"])
    return own


def zero_places(batch: Batch) -> Fields:
    """Positions (n,) that are not drawn yet."""
    return Fields(
        {"places": Field(("row",), nonnegative=False)},
        {"places": np.full(batch.n_rows, -1, dtype=np.int32)},
    )


def sweep_links(lane: SweptLane) -> tuple[float, float]:
    """See `BaseStructure.sweep`."""
    how, found, bad = lane.how, np.zeros(2), -1
    sides, outs = _sides(lane), _outs(lane)
    if "places" in lane.own.arrays:
        _draw(lane, sides, outs, found)
    elif not how.moves:
        count_pairs(*sides, *_own(lane), *outs)
    elif how.granularity == "token" and how.is_part:
        if outs[-1].size:
            raise ValueError("fertilities are for CollapsedVB(granularity='sequence')")
        given = [*sides, *_own(lane), *outs[:3], found, how.in_place]
        sweep_tokens(lane.live, _tables(lane), *given)
    else:
        given = [*sides, *_own(lane), how.is_part, how.is_measured, *outs, found, how.in_place]
        bad = sweep_pairs(lane.live, _tables(lane), *given)
    if bad >= 0:
        raise NumericalError(
            f"sentence pair {lane.batch.unit_at + bad} has no possible alignment; check the priors"
        )
    return float(found[0]), float(found[1])


def _draw(lane: SweptLane, sides: Any, outs: Any, found: Array) -> None:
    """Draw positions, or count those that are kept."""
    how, places = lane.how, lane.own["places"]
    if how.seeds is None or not how.moves:
        given = [*sides, places, *outs, found]
        count_places_live(*given)
        return
    tables = _tables(lane)
    if not tables.is_open:
        raise ValueError("CollapsedGibbs draws open jumps; use jumps='open'")
    given = [*sides, places, how.is_part, how.seeds, how.power, *outs, found]
    draw_tokens(lane.live, tables, *given)


def _outs(lane: SweptLane) -> Any:
    """Where the lane's counts are added: cells, NULL, jumps and fertilities."""
    out = lane.out
    jump, fertility = out.get("jump", np.zeros(0)), out.get("fertility", np.zeros((0, 0)))
    return lane.out_live, out["null"], jump, fertility


def _own(lane: SweptLane) -> Any:
    """Links and jumps that pairs keep; room for none in a bag."""
    own = lane.own.arrays
    return own["links"], own.get("jumps", np.zeros((0, 2), KEPT))


def _sides(lane: SweptLane) -> Any:
    """Links, source words and both offsets."""
    batch, live = lane.batch, lane.live
    companion = batch.companion
    assert isinstance(companion, Companion)
    assert isinstance(live, LiveLexicon)
    assert batch.offsets is not None
    links: Any = companion.links
    words = np.ascontiguousarray(companion.rows)
    if links is None:
        room = companion.linked(batch.offsets)
        assert room.link_offsets is not None
        links = np.empty(int(room.link_offsets[-1]), dtype=np.int32)
        rows = np.ascontiguousarray(np.ravel(batch.rows))
        spans = words, companion.offsets, rows, batch.offsets
        find_links(live.starts, live.targets, *spans, links)
    return links, words, companion.offsets, batch.offsets


def _fertility(lane: SweptLane) -> Array:
    return lane.tables.get("fertility", np.zeros((0, 0)))


def _tables(lane: SweptLane) -> Tables:
    pseudo, tables = lane.pseudo, lane.tables
    counts = tables["null"], tables.get("jump", np.zeros(0)), _fertility(lane)
    return Tables(*counts, *pseudo)
