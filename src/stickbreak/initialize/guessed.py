"""Starts of grammars: trees that a structure guesses, or that a cooled sampler finds."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from stickbreak.data import Table
from stickbreak.inference import Callback, CollapsedGibbs, Start, count_own, run
from stickbreak.protocols import Pool
from stickbreak.stats import SERIAL

from .local import from_local, require_whole_run, sweep_on

if TYPE_CHECKING:
    from stickbreak.models import Model

__all__ = ["from_cooled", "from_guess"]


def from_guess(
    model: Model,
    data: Table,
    n_components: int,
    rng: np.random.Generator,
    *,
    jitter: float = 0.5,
    n_sweeps: int = 0,
    pool: Pool = SERIAL,
    callbacks: tuple[Callback, ...] = (),
) -> Start:
    """Guessed trees of every sentence, each count times a number in 1 - jitter to 1 + jitter.

    n_sweeps : collapsed sweeps from there
    """
    batch, params = data.whole(), model.start_params(n_components)
    own = model.structure.guess_own(batch, n_components, model.axis, rng, jitter)
    start = Start(count_own(model, params, batch, own, pool, n_components), params, warm=own)
    return sweep_on(model, data, start, n_sweeps, pool, callbacks) if n_sweeps else start


def from_cooled(
    model: Model,
    data: Table,
    n_components: int,
    rng: np.random.Generator,
    *,
    n_sweeps: int,
    temperature: float,
    pool: Pool = SERIAL,
) -> Start:
    """Counts of the trees that collapsed Gibbs sampling ends with, as its temperature falls to one.

    Units count once, whatever their weight.
    """
    some = replace(data, repeats=None)
    start = replace(from_local(model, some, n_components, rng, pool=pool), warm=None)
    engine = CollapsedGibbs(max_iter=n_sweeps, temperature=(temperature, 1.0))
    found = run(model, engine, some, start, seed=int(rng.integers(2**31)), pool=pool)
    require_whole_run(found)
    return Start(found.counts.scale(data.n_units / some.n_units), start.params)
