"""Accumulators: how a visit changes the total. Batch is memoized with one batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from stickbreak.data import Batch
from stickbreak.stats import Fields, Summary, Tally

from .memory import SpillingMemory, Visit
from .schedules import PowerDecay
from .state import Start, State

__all__ = ["Accumulator", "Guarded", "Memoized", "Stochastic", "Streaming", "Subchains"]


class Accumulator(Protocol):
    """Owns the total: how it begins, how a visit changes it, what happens at the end of a lap.

    is_exact : whether the total is the sum over all data, so that there is a bound
    """

    is_exact: bool

    def begin(self, start: Start, ids: tuple[int, ...], n_batches: int) -> State:
        """The state before the first visit."""
        ...

    def combine(
        self, state: State, batch: Batch, old: Visit | None, new: Summary, warm: Fields | None
    ) -> None:
        """Change the total by one visit."""
        ...

    def resume(self, state: State) -> State:
        """Adapt a state from a checkpoint to this accumulator."""
        ...

    def end_lap(self, state: State) -> None:
        """Finish a lap."""
        ...


@dataclass(frozen=True)
class Memoized:
    """total - old + new. Until every batch has been seen, the seed stands in for the total."""

    memory_limit: int = 1 << 30
    is_exact = True

    def begin(self, start: Start, ids: tuple[int, ...], n_batches: int) -> State:
        """Nothing seen yet."""
        memory = SpillingMemory(self.memory_limit)
        return State(
            Tally(start.seed.empty()),
            start.params,
            start.seed,
            ids,
            n_batches,
            memory,
            next_id=max(ids) + 1,
        )

    def combine(
        self, state: State, batch: Batch, old: Visit | None, new: Summary, warm: Fields | None
    ) -> None:
        """Exchange the batch's old counts for its new ones."""
        if state.n_batches == 1 and new.index is None:
            state.total = Tally(new)  # and that of the lap
        else:
            if old is not None:
                state.total.subtract(old.summary)
            state.total.add(new)
            if state.lap_total is None:
                state.lap_total = Tally(state.total.view().empty())
            state.lap_total.add(new)
        state.remember(batch, new, warm)

    def resume(self, state: State) -> State:
        """Move remembered visits to a memory with a limit."""
        memory = SpillingMemory(self.memory_limit)
        for batch_id in state.memory:
            visit = state.memory.recall(batch_id)
            assert visit is not None
            memory.remember(batch_id, visit)
        state.memory = memory
        return state

    def end_lap(self, state: State) -> None:
        """Use the fresh sum of this lap's visits as the total. Equal to it, without drift."""
        if state.lap_total is not None:
            state.total = state.lap_total
            state.lap_total = None


@dataclass(frozen=True)
class Stochastic:
    """(1 - rate) * total + rate * scaled new. Remembers nothing.

    The first total is the seed, scaled to the data. The first visit sees the unscaled seed, as in
    batch inference: a few rows, scaled up, would count as certain.

    n_spans, n_units : units of the whole data, without and with repeats. Batches are drawn by
        units, so scaling by n_spans over the batch's is unbiased for any repeats.
    """

    n_spans: float
    n_units: float
    schedule: PowerDecay
    is_exact = False

    def begin(self, start: Start, ids: tuple[int, ...], n_batches: int) -> State:
        """The seed, scaled to the data, is the total; the first visit uses the unscaled seed."""
        seen = start.seed.n_units
        total = start.seed.scale(self.n_units / seen) if seen > 0 else start.seed
        return State(Tally(total), start.params, start.seed, ids, n_batches, next_id=max(ids) + 1)

    def combine(
        self, state: State, batch: Batch, old: Visit | None, new: Summary, warm: Fields | None
    ) -> None:
        """A natural-gradient step; with rate 1 on all data, a step of variational Bayes."""
        rate = self.schedule.rate(state.n_steps + 1)
        total = state.total.summary().scale(1.0 - rate)
        state.total = Tally.taking(total).add(new.scale(rate * self.n_spans / batch.n_spans))

    def resume(self, state: State) -> State:
        """Nothing is remembered."""
        return state

    def end_lap(self, state: State) -> None:
        """Nothing to re-sum."""


@dataclass(frozen=True)
class Subchains(Stochastic):
    """As Stochastic, for batches of windows of sequences.

    Fields are scaled so that their averages over all cuts are those of all data. Every row is in
    one window: the factor is n_windows over the batch's. Pairs of neighbors are sometimes cut: the
    same factor over `pair_share`. Counts per sequence are seen where it begins: if a batch has some
    beginnings, they are scaled to all sequences, else the total's stay unchanged.
    """

    def combine(
        self, state: State, batch: Batch, old: Visit | None, new: Summary, warm: Fields | None
    ) -> None:
        """A natural-gradient step; with rate 1 on whole sequences, a step of variational Bayes."""
        assert batch.windows is not None
        rate, windows = self.schedule.rate(state.n_steps + 1), batch.windows
        factor, n_starts = windows.n_windows / batch.n_spans, int(windows.has_start.sum())
        factors = {
            "pair": rate * factor / windows.pair_share,
            "unit": rate * windows.n_sequences / max(n_starts, 1),
        }
        own = {n: factors[f.per] for n, f in new.layout.items() if f.per in factors}
        kept = {n: 1.0 for n, f in new.layout.items() if f.per == "unit" and not n_starts}
        total = state.total.summary().scale(1.0 - rate, kept)
        state.total = Tally.taking(total).add(new.scale(rate * factor, own))


@dataclass(frozen=True)
class Guarded(Subchains):
    """As Subchains, for windows that are the same in every lap and see each other's edges.

    The state keeps the posteriors of the first and the last row of every window as values of one
    batch, which holds all windows; a visit changes those of its own.
    """

    def combine(
        self, state: State, batch: Batch, old: Visit | None, new: Summary, warm: Fields | None
    ) -> None:
        """A step, and the new edges."""
        super().combine(state, batch, old, new, warm)
        assert warm is not None
        assert batch.windows is not None
        for name, array in state.warm[batch.id].arrays.items():
            array[batch.windows.number] = warm[name]


@dataclass(frozen=True)
class Streaming:
    """total + new: each batch is seen once."""

    is_exact = True

    def begin(self, start: Start, ids: tuple[int, ...], n_batches: int) -> State:
        """Nothing seen yet; the seed stands in for the first batch."""
        return State(
            Tally(start.seed.empty()), start.params, start.seed, ids, 1, next_id=max(ids) + 1
        )

    def combine(
        self, state: State, batch: Batch, old: Visit | None, new: Summary, warm: Fields | None
    ) -> None:
        """Add the new counts."""
        state.total.add(new)
        state.seed = None

    def resume(self, state: State) -> State:
        """Nothing is remembered."""
        return state

    def end_lap(self, state: State) -> None:
        """Nothing to re-sum."""
