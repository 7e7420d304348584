"""Starts for mixtures: random rows, Bregman k-means++ and k-means, labels, or a previous model."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from stickbreak.data import Batch
from stickbreak.inference import Hard, Memoized, Mode, Start, step
from stickbreak.inference.engine import Data
from stickbreak.protocols import Array, Pool
from stickbreak.stats import SERIAL, Summary

from .counts import count_labels

if TYPE_CHECKING:
    from stickbreak.models import Model

__all__ = [
    "choose_plusplus",
    "choose_random",
    "examples_of_sets",
    "from_labels",
    "from_plusplus",
    "from_previous",
    "from_random",
    "refine_hard",
    "seed_rows",
]

SAMPLE_ROWS = 20_000  # rows that seeding uses: k-means++ reads them once for every component


def choose_random(
    repeats: Array, n_components: int, rng: np.random.Generator, given: tuple[int, ...] = ()
) -> Array:
    """Distinct rows: the given ones first, then random ones, each as often as it repeats."""
    free = repeats.astype(float)
    free[list(given)] = 0.0
    count = min(n_components - len(given), int(np.count_nonzero(free > 0)))
    if count < 1:
        return np.array(given, dtype=int)
    return np.concatenate(
        [
            np.array(given, dtype=int),
            rng.choice(len(free), count, replace=False, p=free / free.sum()),
        ]
    )


def choose_plusplus(
    family: Any,
    rows: Any,
    repeats: Array,
    n_components: int,
    rng: np.random.Generator,
    given: tuple[int, ...] = (),
) -> Array:
    """Rows selected by Bregman k-means++.

    The probability of each new row is proportional to its divergence from the nearest one selected
    before. Rows equal to a selected one are drawn only if no other is left.

    rows : prepared for seeding. given : rows already selected.
    """
    chosen = list(given) or [int(rng.choice(len(repeats), p=repeats / repeats.sum()))]
    nearest = np.full(len(repeats), np.inf)
    for index in chosen:
        nearest = np.minimum(nearest, family.divergence(rows, index))
    free = repeats > 0
    free[chosen] = False
    while len(chosen) < n_components and free.any():
        weight = np.where(free, repeats * nearest, 0.0)
        if not weight.sum() > 0:
            weight = np.where(free, repeats, 0.0)
        chosen.append(int(rng.choice(len(repeats), p=weight / weight.sum())))
        free[chosen[-1]] = False
        nearest = np.minimum(nearest, family.divergence(rows, chosen[-1]))
    return np.array(chosen)


def refine_hard(
    model: Model, batch: Batch, seed: Summary, params: Any, n_passes: int, pool: Pool = SERIAL
) -> Summary:
    """Bregman k-means from seed counts: n_passes of Hard(Mode) over one batch.

    Of EM, where the structure finds no best labelling, or only slowly.
    """
    counts, accumulator = seed, Memoized()
    is_hard = model.structure.starts_by_best(batch, seed.size(model.axis))
    rule = Hard(Mode()) if is_hard else Mode()
    for _ in range(n_passes):
        state = accumulator.begin(Start(counts, params), tuple(range(seed.size(model.axis))), 1)
        for edit in model.upkeep(counts):
            state.edit(edit)
        step(model, rule, accumulator, state, batch, (), pool)
        counts = state.total.summary()
    return counts


def _scaled(seed: Summary, n_units: float) -> Summary:
    """A sample's counts, scaled up to the data."""
    return seed.scale(n_units / seed.n_units) if seed.n_units > 0 else seed


def seed_rows(
    model: Model, batch: Batch, chosen: Array, own: tuple[int, ...], n_components: int
) -> Summary:
    """Counts with one component for each row in `chosen`; other components are empty.

    own : components of the first rows; the other rows get the remaining components, in order.
    """
    slots = [*own, *(k for k in range(n_components) if k not in own)]
    labels = np.full(batch.n_rows, -1)
    labels[chosen] = slots[: len(chosen)]
    return count_labels(model, replace(batch, repeats=None, sets=None), labels, n_components)


def start_weights(model: Model, batch: Batch) -> Array:
    """(n,) weight of each row as the start of a component: its repeats, 0 if it has no entries."""
    repeats = batch.repeats_or_ones()
    weights = repeats * model.family.has_values(batch.rows)
    return weights if weights.any() else repeats


def from_random(
    model: Model,
    data: Data,
    n_components: int,
    rng: np.random.Generator,
    *,
    legal: Array | None = None,
) -> Start:
    """A distinct random row for each component.

    A legal set with a single component seeds that component; legal (S, K).
    """
    batch = data.sample(SAMPLE_ROWS, rng)
    own = examples_of_sets(batch, legal, rng)
    chosen = choose_random(start_weights(model, batch), n_components, rng, tuple(own.values()))
    seed = seed_rows(model, batch, chosen, tuple(own), n_components)
    return Start(_scaled(seed, data.n_units), model.start_params(n_components, legal))


def from_plusplus(
    model: Model,
    data: Data,
    n_components: int,
    rng: np.random.Generator,
    *,
    n_passes: int = 2,
    n_coarse: int = 0,
    legal: Array | None = None,
    pool: Pool = SERIAL,
) -> Start:
    """Bregman k-means++ on (a sample of) the rows, then n_passes of Bregman k-means.

    n_coarse : earlier passes with the family's coarse form, whose covariances are the prior's:
        k-means in its metric.
    legal (S, K) : components that each legal set of the rows may use; a set with a single component
        seeds that component.
    """
    batch = data.sample(SAMPLE_ROWS, rng)
    params = model.start_params(n_components, legal)
    own = examples_of_sets(batch, legal, rng)
    given = tuple(own.values())
    coarse = replace(model, family=model.family.coarse()) if n_coarse else model
    prepared = coarse.family.prepare_seeding(batch.rows)
    chosen = choose_plusplus(
        coarse.family,
        prepared,
        start_weights(model, batch),
        max(n_components, len(given)),
        rng,
        given,
    )
    seed = seed_rows(coarse, batch, chosen, tuple(own), n_components)
    if n_coarse:
        seed = refine_hard(coarse, batch, seed, params, n_coarse, pool)
        labels = coarse.decode(
            coarse.potentials(seed.restrict(batch.symbols), params, Mode()), batch, pool
        )
        seed = count_labels(model, batch, labels, n_components)
    seed = refine_hard(model, batch, seed, params, n_passes, pool)
    return Start(_scaled(seed, data.n_units), params)


def examples_of_sets(batch: Batch, legal: Array | None, rng: np.random.Generator) -> dict[int, int]:
    """A random row for each component that some legal set names alone."""
    if legal is None or batch.sets is None:
        return {}
    found: dict[int, int] = {}
    for s in np.flatnonzero((legal > 0).sum(1) == 1):
        rows = np.flatnonzero(batch.sets == s)
        if len(rows):
            found[int(np.argmax(legal[s]))] = int(rng.choice(rows))
    return found


def from_labels(model: Model, data: Data, labels: Array, n_components: int) -> Start:
    """Counts of rows with known components; -1 is unknown and not counted."""
    # block by block, with one reference point for each component
    seed = count_labels(model, data.whole(), labels, n_components)
    return Start(_scaled(seed, data.n_units), model.start_params(n_components))


def from_previous(counts: Summary, params: Any, ids: tuple[int, ...], n_units: float) -> Start:
    """A fitted model's counts, scaled to the new data."""
    return Start(_scaled(counts, n_units), params, ids)
