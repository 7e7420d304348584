"""What the parts of the contract exchange.

The contract itself is four base classes, each in the file that its name says: `BaseFamily` and
`BaseScores` (families/base.py), `BasePrior` (priors/base.py), `BaseStructure` (structures/base.py).
`Model` (models/base.py) assembles one of each. Hyperparameters carry no component axis; the number
of components is read off the counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy.typing as npt

if TYPE_CHECKING:
    from stickbreak.data import Batch
    from stickbreak.families.base import BaseScores
    from stickbreak.models import Model
    from stickbreak.stats import Fields, Shares, Summary

__all__ = [
    "Array",
    "Counts",
    "Local",
    "Out",
    "Pool",
    "Potentials",
    "Revisit",
    "Rule",
    "Sweep",
    "SweptLane",
    "Watch",
]

Array = npt.NDArray[Any]
Out = dict[str, Array]
"""Arrays by field name that a local step adds to in place."""


class Pool(Protocol):
    """Where the jobs of lanes run: here, on threads, or on the workers of a cluster.

    Nothing that a fit finds depends on it, down to the last bit.
    """

    @property
    def here(self) -> Pool:
        """A pool of this process: for jobs of a few rows, or that cannot travel."""

    @property
    def processors(self) -> tuple[str, ...]:
        """Kinds of processors of workers elsewhere, and that of this process; () without."""

    def telling(self, told: Callable[[int, int], None], /) -> Pool:
        """A pool that tells how many tasks of a visit are done, and of how many."""

    def map(self, call: Callable[[Any], Any], jobs: Iterable[Any], /) -> Iterable[Any]:
        """call(job) of every job, in the order of the jobs."""

    def total(
        self, call: Callable[[Any], tuple[Summary, Fields | None]], jobs: Iterable[Any], /
    ) -> tuple[Summary, list[Fields]]:
        """The sum of the Summaries of all jobs, in one fixed order, and the values they keep."""


class Counts(Protocol):
    """Arrays by name: a Summary, or a dict of a family's own fields."""

    def __getitem__(self, name: str, /) -> Array: ...


class Potentials(Protocol):
    """Log potentials of one step: the prior's tables by name, and the family's Scores."""

    @property
    def scores(self) -> BaseScores: ...

    @property
    def log_legal(self) -> Array | None: ...

    @property
    def empty(self) -> Summary: ...

    def __getitem__(self, name: str) -> Any: ...


class Local(NamedTuple):
    """Result of a block's local step.

    log_z : sum of log normalizers
    shares (n, K) : row posteriors times repeats, an array, SparseShares or WordShares
    own_bound : what units add to the bound besides log_z - <potentials, counts> (documents only)
    memo : values that watches need again
    """

    log_z: float
    shares: Shares
    own_bound: float = 0.0
    memo: tuple[Any, ...] = ()


class Revisit(NamedTuple):
    """A batch that was seen before.

    infer : local step from some values per unit (None: a cold start); gives counts and new values
    kept : values of its units after the last visit
    improves : whether some counts of the batch raise the bound of all data
    """

    infer: Callable[[Fields | None], tuple[Summary, Fields | None]]
    kept: Fields
    improves: Callable[[Summary], bool]


class Sweep(NamedTuple):
    """How a collapsed sweep visits the units of a lane.

    granularity : what is inferred at a time, one of the structure's `granularities`
    is_part : whether own counts are part of the live ones; if not, these stay as they are
    moves : whether units are inferred at all, or only counted as they are
    is_measured : whether their part of the bound is wanted
    seeds (n,) : uint64, random numbers of each row begin here, and labels are drawn; None for
        expectations
    power : of the conditional probabilities that labels are drawn from, 1 / temperature
    block : successive units whose counts leave together, and which share their potentials
    guards : what a part of a unit sees of its neighbor to the left, "messages" or "counts"
    in_place : whether the live counts after the sweep tell those of the lane, which are then not
        collected
    """

    granularity: str
    is_part: bool
    moves: bool = True
    is_measured: bool = True
    seeds: Array | None = None
    power: float = 1.0
    block: int = 1
    guards: str = "messages"
    in_place: bool = False

    def cut(self, lane: Batch) -> Sweep:
        """The same for one lane of a batch, with the seeds of its rows."""
        return self if self.seeds is None else self._replace(seeds=self.seeds[lane.cut["row"]])


class SweptLane(NamedTuple):
    """What a sweep of one lane reads and writes.

    batch, how : its units, and how they are visited
    legal (M, K) : the components that each set of rows may have; None for all
    own : counts or labels that its units keep, replaced
    live, tables : the family's and the prior's counts of all data, changed on the way
    pseudo : prior counts
    out_live, out : += the counts of the lane; out_live is live itself if `how.in_place`
    """

    batch: Batch
    how: Sweep
    legal: Array | None
    own: Fields
    live: Any
    tables: Out
    pseudo: Any
    out_live: Any
    out: Out


class Rule(Protocol):
    """How counts become potentials, as far as models and priors see it."""

    def pick(self, table: Any) -> Callable[..., Any]:
        """Method of a family or table that makes this rule's potentials."""


class Watch(Protocol):
    """What a move collects during a lap: a side Summary that travels with the batch's counts."""

    @property
    def name(self) -> str: ...

    def at(self, model: Model, counts: Summary, batch: Batch, rule: Rule) -> Watch:
        """The watch for one visit, with whatever it computes once from `counts`."""

    def empty_side(self, model: Model, potentials: Potentials) -> Summary: ...

    def observe(
        self,
        model: Model,
        potentials: Potentials,
        block: Batch,
        raw: Batch,
        local: Local,
        side: Summary,
    ) -> Summary:
        """Add a block. `block` has its rows prepared, `raw` as the user gave them."""
