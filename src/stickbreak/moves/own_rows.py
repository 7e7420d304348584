"""The rows that shape a birth: those of its own components, or of the units that hold them.

A sample of everything holds few rows of each of many components. Its rows then count many times,
and what a newborn gains there must exceed what so few rows overrate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from stickbreak.data import Table, is_sparse
from stickbreak.inference.scene import Sample, Scene

from .little_fits import rows_of, thin

if TYPE_CHECKING:
    from stickbreak.protocols import Array

__all__ = ["own_rows", "own_units"]

MOST_OWN = 5_000  # rows of one birth
MOST_SEARCHED = 200_000  # rows looked through, for all births of a lap
FEW_SEEN = 0.5  # part of the data from which on a sample of everything will do


def own_rows(scene: Scene, groups: Sequence[tuple[int, ...]]) -> list[tuple[Table | None, float]]:
    """A table of rows of each group of components, and how many rows each of them stands for.

    The table is None if there are fewer than two rows. Rows are looked through in random order
    until every group has enough.
    """
    found = [_of_sample(scene, scene.sample, taken) for taken in groups]
    few = [g for g, (table, _) in enumerate(found) if table is None or table.n_rows < MOST_OWN]
    if few and scene.sample.scale > 1.0:
        for g, own in zip(few, _searched(scene, [groups[g] for g in few]), strict=True):
            found[g] = own
    return found


def own_units(scene: Scene, taken: Sequence[int], focus: Array) -> Scene:
    """The scene with a sample of the units `focus`, which hold some components.

    The scene itself if its sample has enough of their rows, or most of the data, or if these units
    are too long to be looked at as a whole.
    """
    usual, data = scene.sample, scene.data
    has_enough = usual.scale < 1.0 / FEW_SEEN or usual.mass(taken).sum() >= MOST_OWN
    if has_enough or data.offsets is None or not len(focus):
        return scene
    if np.diff(data.offsets)[focus].max() > scene.sample_size:
        return scene
    batch = data.some_of(focus, scene.sample_size, scene.rng)
    scene.spent.n_passes += batch.n_rows / data.n_rows
    shares = scene.shares_of(batch)
    held = shares[:, list(taken)].sum()
    if held < usual.mass(taken).sum():  # what the units hold is spread thinly
        return scene
    later = replace(scene)
    later.sample = Sample(batch, shares, max(1.0, float(scene.sizes[list(taken)].sum() / held)))
    return later


def _of_sample(scene: Scene, sample: Sample, taken: tuple[int, ...]) -> tuple[Table | None, float]:
    return rows_of(scene.model, sample, taken), sample.scale


def _searched(scene: Scene, groups: Sequence[tuple[int, ...]]) -> list[tuple[Table | None, float]]:
    """Rows of some groups among many more than a sample has."""
    order = scene.rng.permutation(scene.data.n_rows)[:MOST_SEARCHED]
    parts: list[list[Table]] = [[] for _ in groups]
    n_seen, n_observations = 0, 0.0
    while n_seen < len(order) and any(_count(found) < MOST_OWN for found in parts):
        seen = _infer(scene, order[n_seen : n_seen + scene.sample_size])
        n_observations += seen.batch.n_observations
        n_seen += scene.sample_size
        for found, taken in zip(parts, groups, strict=True):
            table = rows_of(scene.model, seen, taken)
            if table is not None:
                found.append(table)
    scale = max(1.0, scene.data.n_observations / n_observations)
    return [_weighted(_stack(found), scale, scene.rng) for found in parts]


def _infer(scene: Scene, at: Array) -> Sample:
    """Some rows with their shares, each counted once."""
    batch = scene.data.take(at)
    return Sample(batch, scene.shares_of(batch), 1.0)


def _count(tables: Sequence[Table]) -> int:
    return sum(table.n_rows for table in tables)


def _stack(tables: Sequence[Table]) -> Table | None:
    if not tables:
        return None
    rows = [table.rows for table in tables]
    together = sparse.csr_array(sparse.vstack(rows)) if is_sparse(rows[0]) else np.concatenate(rows)
    return Table(together, np.concatenate([table.repeats for table in tables]))


def _weighted(
    table: Table | None, scale: float, rng: np.random.Generator
) -> tuple[Table | None, float]:
    """At most so many of the rows, which stand for all."""
    if table is None:
        return None, scale
    some, times = thin(table, MOST_OWN, rng)
    assert some.repeats is not None
    return Table(some.rows, some.repeats * scale), scale * times
