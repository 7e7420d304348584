"""State: what the next step needs. Info: what a reader may want to plot."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stickbreak.data import Batch
from stickbreak.stats import Edit, EditLog, Fields, Summary, Tally, join

from .memory import Memory, RamMemory, Visit

if TYPE_CHECKING:
    from stickbreak.models import Model

__all__ = ["Info", "Start", "State"]


@dataclass(frozen=True)
class Start:
    """Where a fit begins.

    seed, params : counts and parameters
    ids : permanent ids of the components
    warm : values of every unit, in the order of the data; None for cold units
    """

    seed: Summary
    params: Fields
    ids: tuple[int, ...] | None = None
    warm: Fields | None = None


@dataclass(frozen=True)
class Info:
    """One visit, for readers. bound is None if it was not computed or would not be a bound."""

    lap: int
    step: int
    batch: int
    bound: float | None
    log_z: float
    n_observations: float
    n_components: int


@dataclass
class State:
    """The engine's own state. Only the loop that owns it writes to it.

    Totals are added to in place; everything else is replaced.

    seed : stands in for the total until every batch has been seen (memoized: lap 1; stochastic: the
        first visit); None afterwards
    lap_version : number of edits when this lap began; at its end, older ones have been replayed
        everywhere
    lap_total : sum of this lap's visits, which replaces the running total at the lap's end (running
        sums drift)
    warm : values of units after an accepted trial, for batches not seen since
    settled : batches whose units no longer start afresh
    keeps_warm : whether units keep values at all
    moved : expected rows of the last visit that went to another component; None if not measured
    accepted : (proposed, accepted) units of the last visit
    """

    total: Tally
    params: Fields
    seed: Summary | None
    ids: tuple[int, ...]
    n_batches: int
    memory: Memory = field(default_factory=RamMemory)
    log: EditLog = field(default_factory=EditLog)
    next_id: int = 0
    lap: int = 0
    position: int = 0
    n_steps: int = 0
    lap_total: Tally | None = None
    lap_version: int = 0
    warm: dict[int, Fields] = field(default_factory=dict)
    settled: set[int] = field(default_factory=set)
    keeps_warm: bool = False
    moved: float | None = None
    accepted: tuple[float, float] = (0.0, 0.0)

    @property
    def counts(self) -> Summary:
        """The counts that potentials are made from: the total, or the seed in its place."""
        return self.total.view() if self.seed is None else self.seed

    @property
    def n_components(self) -> int:
        """Components in use."""
        return len(self.ids)

    def recall(self, batch: Batch) -> Visit | None:
        """The last visit of a batch, with later edits replayed."""
        visit = self.memory.recall(batch.id)
        return None if visit is None else visit.catch_up(self.log)

    def warm_of(self, batch: Batch, old: Visit | None) -> Fields | None:
        """Values that a batch's units continue from: its last visit, or an accepted trial."""
        return self.warm.get(batch.id) if old is None else old.warm

    def all_warm(self) -> Fields | None:
        """Values of every unit of fixed batches, in the order of the data.

        None if the structure keeps none, or if not all batches have been seen.
        """
        visits = [self.memory.recall(batch_id) for batch_id in self.memory]
        kept = [visit.catch_up(self.log).warm for visit in visits if visit is not None]
        found = [warm for warm in kept if warm is not None]
        return join(found) if found and len(found) == self.n_batches else None

    def remember(self, batch: Batch, summary: Summary, warm: Fields | None) -> None:
        """Keep a batch's counts. Once every batch is kept, the seed is dropped."""
        self.memory.remember(batch.id, Visit(summary, warm, len(self.log)))
        self.warm.pop(batch.id, None)
        self.keeps_warm = self.keeps_warm or warm is not None
        if len(self.memory) >= self.n_batches:
            self.seed = None

    def edit(self, edit: Edit) -> None:
        """Apply an edit: now to totals, seed and parameters, later to each remembered batch."""
        ids = edit.rename(self.ids, self.next_id)
        edited = {
            "ids": ids,
            "next_id": max((self.next_id, *(i + 1 for i in ids))),
            "total": Tally(edit(self.total.summary())),
            "lap_total": None if self.lap_total is None else Tally(edit(self.lap_total.summary())),
            "params": edit(self.params),
            "seed": None if self.seed is None else edit(self.seed),
            "log": self.log.then(edit),
            "warm": {batch_id: edit(warm) for batch_id, warm in self.warm.items()},
        }
        self.__dict__.update(edited)  # in one go: Ctrl-C must not leave half an edit

    def recover(self, model: Model) -> None:
        """Restore a consistent total after an interruption in the middle of a step.

        It is the sum of the remembered counts.
        """
        if not len(self.memory):
            return
        total = Tally(model.zeros(self.n_components))
        first = True
        for batch_id in self.memory:
            visit = self.memory.recall(batch_id)
            assert visit is not None
            summary = visit.catch_up(self.log).summary
            if first and summary.index is None:
                total, first = Tally(summary), False
            else:
                total.add(summary)
        self.total = total
