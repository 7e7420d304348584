"""k-means|| [BMVKV12] with Bregman divergences: seeds from all rows of tables larger than memory.

k-means++ draws rows one by one, each with a pass over the data. k-means|| draws many rows in each
of a few passes, weighs each drawn row by the number of rows nearest to it, and then selects among
them by k-means++.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from stickbreak.data import Batch, compact, is_by_reference, is_on_disk, is_sparse, scratch
from stickbreak.inference import Start
from stickbreak.inference.engine import Data
from stickbreak.protocols import Array, Pool
from stickbreak.stats import SERIAL

from .plusplus import choose_plusplus, examples_of_sets, refine_hard, seed_rows

if TYPE_CHECKING:
    from stickbreak.models import Model

__all__ = ["choose_scalable", "from_scalable"]

Report = Callable[[int, int], None]

N_ROUNDS = 5  # as in the paper, where more rounds gained nothing
CHUNK_ROWS = 1 << 18  # rows read together; this bounds memory
SHARD_CHUNK_ROWS = 1 << 21  # the same where workers read: 32 lanes, 100 MB here
BLOCK_ROWS = 2048


def from_scalable(
    model: Model,
    data: Data,
    n_components: int,
    rng: np.random.Generator,
    *,
    n_passes: int = 2,
    legal: Array | None = None,
    pool: Pool = SERIAL,
    report: Report | None = None,
) -> Start:
    """k-means|| on all rows, then n_passes of Bregman k-means on all rows.

    legal (S, K) : components that each legal set of the rows may use; a set with a single component
        seeds that component.
    report : called with the passes over the data done so far, in rows, and their total.
    """
    whole = data.whole()
    params = model.start_params(n_components, legal)
    own = examples_of_sets(whole, legal, rng)
    drawn, weights = choose_scalable(
        model.family, whole, n_components, rng, tuple(own.values()), pool, report
    )
    batch = compact(Batch(0, _rows(whole.rows, drawn), repeats=weights))
    prepared = model.family.prepare_seeding(batch.rows)
    chosen = choose_plusplus(
        model.family, prepared, weights, max(n_components, len(own)), rng, tuple(range(len(own)))
    )
    seed = seed_rows(model, batch, chosen, tuple(own), n_components)
    return Start(refine_hard(model, data.batches(1)[0], seed, params, n_passes, pool), params)


def choose_scalable(
    family: Any,
    whole: Batch,
    n_components: int,
    rng: np.random.Generator,
    given: tuple[int, ...] = (),
    pool: Pool = SERIAL,
    report: Report | None = None,
) -> tuple[Array, Array]:
    """Rows that represent all others, and how many rows (repeats counted) are nearest to each.

    Given rows come first. Each round draws n_components rows without replacement, with weights
    repeats * divergence from the nearest row drawn before. Chunks are processed in order, so that
    the result does not depend on the pool.
    """
    n = whole.n_rows
    nearest = scratch((n,), np.float64) if is_on_disk(whole.rows) else np.zeros(n)
    # a full disk is tried, and warned of, once
    owner = scratch((n,), np.int32) if is_on_disk(nearest) else np.zeros(n, dtype=np.int32)
    nearest[:] = np.inf
    drawn = np.array(given or _draw(family, whole, None, 1, rng, pool).tolist())
    n_old = 0
    for i in range(N_ROUNDS + 1):
        fresh = _rows(whole.rows, drawn[n_old:])
        _update(
            family,
            whole,
            fresh,
            n_old,
            nearest,
            owner,
            pool,
            _shifted(report, i * n, (N_ROUNDS + 1) * n),
        )
        n_old = len(drawn)
        if i < N_ROUNDS:
            found = _draw(family, whole, nearest, n_components, rng, pool)
            drawn = np.concatenate([drawn, found[~np.isin(found, drawn)]])
        if len(drawn) == n_old:
            break
    weights = np.zeros(len(drawn))
    for lo, hi in _chunks(n):
        weights += np.bincount(
            owner[lo:hi], None if whole.repeats is None else whole.repeats[lo:hi], len(drawn)
        )
    return drawn, weights


def _shifted(report: Report | None, before: int, total: int) -> Callable[[int], None]:
    return lambda seen: None if report is None else report(before + seen, total)


def _chunks(n: int, rows: Any = None) -> Iterator[tuple[int, int]]:
    """Where chunks of n rows begin and end; of shards they are larger, as many workers read."""
    size = SHARD_CHUNK_ROWS if is_by_reference(rows) else CHUNK_ROWS
    return ((lo, min(lo + size, n)) for lo in range(0, n, size))


def _draw(
    family: Any,
    whole: Batch,
    nearest: Array | None,
    count: int,
    rng: np.random.Generator,
    pool: Pool = SERIAL,
) -> Array:
    """Up to `count` distinct rows with any entry, weighted by repeats * nearest.

    They are those with the smallest exponential variable divided by weight.
    """
    keys, rows = np.empty(0), np.empty(0, dtype=np.int64)
    for lo, hi in _chunks(whole.n_rows, whole.rows):
        weight = np.ones(hi - lo) if nearest is None else np.array(nearest[lo:hi])
        weight *= _have_values(family, whole, lo, hi, pool)
        if whole.repeats is not None:
            weight *= whole.repeats[lo:hi]
        possible = np.flatnonzero(weight > 0)
        keys = np.concatenate(
            [keys, rng.standard_exponential(hi - lo)[possible] / weight[possible]]
        )
        rows = np.concatenate([rows, lo + possible])
        if len(keys) > count:
            best = np.argpartition(keys, count - 1)[:count]
            keys, rows = keys[best], rows[best]
    return rows[np.argsort(keys, kind="stable")]


def _have_values(family: Any, whole: Batch, lo: int, hi: int, pool: Pool) -> Array:
    """(hi - lo,) whether each row has any entry; whoever reads the rows looks."""
    some = whole.part(lo, hi)
    if not is_by_reference(some.rows):
        return np.asarray(family.has_values(some.rows))
    return np.concatenate(list(pool.map(partial(_seed_values_lane, family), some.alone().lanes())))


def _seed_values_lane(family: Any, lane: Batch) -> Array:
    return np.asarray(family.has_values(lane.rows))


def _update(
    family: Any,
    whole: Batch,
    fresh: Any,
    first: int,
    nearest: Array,
    owner: Array,
    pool: Pool,
    report: Callable[[int], None],
) -> None:
    """Update nearest (n,) and owner (n,) by comparing every row with the fresh ones.

    The fresh rows have the numbers from `first` on.
    """
    for lo, hi in _chunks(whole.n_rows, whole.rows):
        lanes = whole.part(lo, hi).alone().lanes()
        at = lo
        for distance, index in pool.map(partial(_seed_lane, family, fresh), lanes):
            end = at + len(distance)
            closer = distance < nearest[at:end]
            nearest[at:end] = np.where(closer, distance, nearest[at:end])
            owner[at:end] = np.where(closer, first + index, owner[at:end])
            at = end
        report(hi)


def _seed_lane(family: Any, fresh: Any, lane: Batch) -> tuple[Array, Array]:
    """Divergence (n,) of each row of a lane from the nearest fresh row, and the index of that."""
    parts = [_compare_block(family, fresh, block.rows) for block in lane.blocks(BLOCK_ROWS)]
    return np.concatenate([distance for distance, _ in parts]), np.concatenate(
        [index for _, index in parts]
    )


def _compare_block(family: Any, fresh: Any, rows: Any) -> tuple[Array, Array]:
    n, n_fresh = rows.shape[0], fresh.shape[0]
    stacked: Any = (
        sparse.vstack([rows, fresh], format="csr")
        if is_sparse(rows)
        else np.concatenate([rows, fresh])
    )
    found = family.divergences(family.prepare_seeding(stacked), np.arange(n, n + n_fresh))[:, :n]
    index = found.argmin(axis=0).astype(np.int32)
    return found[index, np.arange(n)], index


def _rows(rows: Any, at: Array) -> Any:
    """The rows `at`, in this order, in memory."""
    return rows[at] if is_sparse(rows) else np.array(rows[at])
