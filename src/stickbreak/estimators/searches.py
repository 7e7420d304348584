"""How models of an open number of components search by default, in one place.

| model | begins with | then | why |
|---|---|---|---|
| `DPMixture` | 25 components: the better of k-means in the prior's metric, and k-means++ in the family's with three noisy passes, both settled; merges; those in use | laps that watch merges, births, deletes | one component, divided again and again, ends in holes that no single division leaves; decision 0041 |
| `HDPHMM` of symbols | 25 states, drawn by collapsed sweeps | laps; merges and deletes once settled; births last | states of symbols are alike at first, and would merge before they differ; 0036 |
| `HDPHMM` of other rows | 25 blocks of rows, far apart; from 40,000 rows on settled on 20,000, with merges | laps that watch merges; when settled loosened steps, births, deletes | order tells states apart, and merges cost no pass; 0036, 0042, 0063 |
| `HDPHMM(root="tables")` | 25 states, of symbols drawn by collapsed sweeps | sweeps; merges, tried by sweeps | superfluous states die out too slowly alone; 0150 |
| `HDPMixture` | as `DPMixture`, of the rows of all groups; what groups have of the components is found in the first lap | laps that watch merges, births, deletes | decision 0087 |
| `HDPTopicModel` | where collapsed sweeps end, over a ladder of numbers | laps, late merges, trials | 0033 |

Births are tried for components whose rows do not look like them (`Birth(min_misfit=3)`).
"""  # noqa: E501

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
