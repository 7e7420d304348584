"""Starts of chains from drawn paths: sweeps of a sampler find states that steps alone tell apart.

Soft posteriors of states that look alike stay alike, and a fit ends with one state. Drawn ones are
never quite alike, and what they have in common grows from sweep to sweep.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from stickbreak.data import Sequences, Table
from stickbreak.inference import Callback, CollapsedGibbs, Engine, Gibbs, Start, run
from stickbreak.priors import GammaPrior
from stickbreak.protocols import Array, Pool
from stickbreak.stats import SERIAL, Summary

from .blocks import from_blocks
from .counts import count_labels
from .local import require_whole_run

if TYPE_CHECKING:
    from stickbreak.models import Model

__all__ = ["N_PATHS", "N_SYMBOLS", "can_draw", "completes", "from_drawn", "some_sequences"]

N_SYMBOLS = 200  # sweeps of one column of symbols, state by state
N_PATHS = 20  # sweeps of other rows, path by path
MOST_ROWS = 100_000  # of more, a sample is swept


def can_draw(model: Model) -> bool:
    """Whether paths can be drawn: family and prior can be, and no number of it is learned."""
    top = getattr(model.prior, "top_concentration", None)
    learns = bool(getattr(model.prior, "learned", ())) or isinstance(top, GammaPrior)
    return model.family.draws and model.prior.draws and not learns


def from_drawn(
    model: Model,
    data: Sequences,
    n_components: int,
    rng: np.random.Generator,
    *,
    added: float = 0.0,
    candidates: int = 10,
    legal: Array | None = None,
    pool: Pool = SERIAL,
    callbacks: tuple[Callback, ...] = (),
) -> Start:
    """Where sweeps that draw paths end.

    One column of symbols begins with each symbol in a random state, and is swept state by state
    with parameters integrated out. Other rows, and chains with impossible steps, begin with blocks
    of rows and equal steps, and are swept path by path; families and priors that cannot be drawn,
    and rows to be completed, keep that beginning. Sequences count once, whatever their weight.

    added : prior count of every step and symbol during the sweeps, beside the model's own: 1 for
        engines that look for a mode, which a prior count below one has not got
    candidates : see `from_blocks`
    """
    params = model.start_params(n_components, legal)
    some = some_sequences(data, rng)
    is_drawn = can_draw(model) and not completes(model, some)
    swept = replace(_with_added(model, added), learns=False)
    if is_drawn and model.sweeps_labels and _has_all_steps(model, n_components):
        states = _random_states(some, n_components, legal, rng)
        seed = count_labels(swept, some.whole(), states, n_components)
        engine: Engine = CollapsedGibbs(max_iter=N_SYMBOLS, callbacks=callbacks)
    else:
        blocks = from_blocks(model, data, n_components, rng, candidates=candidates, legal=legal)
        seed = _without_steps(model, blocks.seed)
        engine = Gibbs(max_iter=N_PATHS, callbacks=callbacks)
    if not is_drawn:
        return Start(seed, params)
    drawn = swept.for_draws().start_params(n_components, legal)
    number = int(rng.integers(2**31))
    found = run(swept, engine, some, Start(seed, drawn), seed=number, pool=pool)
    require_whole_run(found)
    return Start(found.counts.scale(data.n_units / some.n_units), params)


def completes(model: Model, data: Table) -> bool:
    """Whether rows lack entries that the family would complete, which samplers do not draw."""
    if model.family.missing not in ("completed", "mixed"):
        return False
    rows = data.rows
    return bool(isinstance(rows, np.ndarray) and rows.dtype.kind == "f" and np.isnan(rows).any())


def _has_all_steps(model: Model, n_components: int) -> bool:
    """Whether every state may follow every other."""
    prior = model.prior.for_draws()
    pseudo = prior.pseudo(prior.start(n_components, model.axis), n_components)
    return bool((pseudo.start > 0).all() and (pseudo.transition > 0).all())


def _without_steps(model: Model, counts: Summary) -> Summary:
    """Counts without starts and steps: those of blocks say that states are kept, which is no
    more than how the blocks were cut.
    """
    none = model.prior.zeros(counts.size(model.axis))
    return replace(counts, arrays={**counts.arrays, **none})


def _with_added(model: Model, added: float) -> Model:
    """The model with larger prior counts of symbols; those of steps too, if they are numbers."""
    if not added:
        return model
    prior, family = model.prior, model.family
    numbers = {
        name: getattr(prior, name) + added
        for name in ("concentration", "start_concentration")
        if isinstance(getattr(prior, name, None), int | float)
    }
    if model.sweeps_labels:
        family = replace(family, concentration=family.concentration + added)  # type: ignore[type-var, attr-defined]
    return replace(model, prior=replace(prior, **numbers), family=family)  # type: ignore[type-var]


def some_sequences(data: Sequences, rng: np.random.Generator, most: int = MOST_ROWS) -> Sequences:
    """The sequences, each once; of many rows, a sample."""
    if data.repeats is None and data.n_rows <= most:
        return data
    batch = data.sample(most, rng)
    return Sequences(batch.rows, sets=batch.sets, offsets=batch.offsets)


def _random_states(
    data: Sequences, n_components: int, legal: Array | None, rng: np.random.Generator
) -> Array:
    """(n,) a state for every symbol, the same wherever it occurs, among the legal ones."""
    symbols = np.nan_to_num(np.asarray(data.rows[:, 0], dtype=float), nan=-1.0).astype(np.int64)
    sets = np.zeros(len(symbols), np.int64) if data.sets is None else np.asarray(data.sets)
    kinds, which = np.unique(np.stack([symbols, sets]), axis=1, return_inverse=True)
    keys = rng.random((kinds.shape[1], n_components))
    if legal is not None:
        keys = np.where(legal[kinds[1]] > 0, keys, -1.0)
    return np.asarray(keys.argmax(1)[which.ravel()])
