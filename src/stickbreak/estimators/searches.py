"""How models of an open number of components search by default: their starts and moves.

`docs/how-to/how-models-search.md` says what each model does and why, with the figures behind it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from stickbreak.data import Sequences
from stickbreak.inference import BaseMove, Start
from stickbreak.initialize import from_settled, from_settled_part
from stickbreak.models import Model
from stickbreak.moves import Birth, Delete, Loosen, Merge
from stickbreak.protocols import Pool

from .engine_choice import TRUNCATION

if TYPE_CHECKING:
    from .engine_runs import Task

__all__ = [
    "MIXTURE_MOVES",
    "STATE_MOVES",
    "SYMBOL_MOVES",
    "begin_open",
    "begin_states",
    "is_open",
]

MIXTURE_MOVES: tuple[BaseMove, ...] = Birth(), Merge(), Delete()
STATE_MOVES: tuple[BaseMove, ...] = Loosen(), Birth(), Merge(), Delete()
SYMBOL_MOVES: tuple[BaseMove, ...] = (
    Merge(start="settled"),
    Loosen(),
    Delete(start="settled"),
    Birth(),
)


def is_open(task: Task) -> bool:
    """Whether a mixture may begin with any number of components: no label names one."""
    return task.n_components == 1 and (task.legal is None or len(task.legal) == 1)


def begin_open(model: Model, task: Task, rng: np.random.Generator, pool: Pool) -> Start:
    """The start of a mixture that leaves the number of components open."""
    start = from_settled(model, task.table, TRUNCATION, rng, moves=(Merge(),), pool=pool)
    if task.legal is None:
        return start
    sets = np.ones((len(task.legal), start.seed.size(model.axis)))
    return replace(start, params=model.with_legal(start.params, sets))


def begin_states(
    model: Model,
    task: Task,
    make: Callable[[Sequences], Start],
    rng: np.random.Generator,
    pool: Pool,
) -> Start:
    """The start of a chain whose moves find the number of states: settled on some sequences.

    make : the start that settles. Named states are left as it says.
    """
    assert isinstance(task.table, Sequences)
    if task.legal is not None or "merge" not in model.structure.tracks:
        return make(task.table)
    return from_settled_part(model, task.table, make, rng, moves=(Merge(),), pool=pool)
