"""Starts of grammars: from trees that a structure guesses without parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stickbreak.data import Table
from stickbreak.inference import Callback, Start, count_own
from stickbreak.protocols import Pool

from .local import sweep_on

if TYPE_CHECKING:
    from stickbreak.models import Model

__all__ = ["from_guess"]


def from_guess(
    model: Model,
    data: Table,
    n_components: int,
    rng: np.random.Generator,
    *,
    jitter: float = 0.5,
    n_sweeps: int = 0,
    pool: Pool = map,
    callbacks: tuple[Callback, ...] = (),
) -> Start:
    """Guessed trees of every sentence, each count times a number in 1 - jitter to 1 + jitter.

    n_sweeps : collapsed sweeps from there
    """
    batch, params = data.whole(), model.start_params(n_components)
    own = model.structure.guess_own(batch, n_components, model.axis, rng, jitter)
    start = Start(count_own(model, params, batch, own, pool, n_components), params, warm=own)
    return sweep_on(model, data, start, n_sweeps, pool, callbacks) if n_sweeps else start
