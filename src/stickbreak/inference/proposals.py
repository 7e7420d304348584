"""Moves, as the loop sees them: proposed before a lap, watched during it, decided after it on the
whole-data bound.

A move knows what to propose; this module keeps the books: what was tried, when to try again, which
proposals exclude each other, and the genealogy of components.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from stickbreak.data import Batch
from stickbreak.parameters import Parameters
from stickbreak.protocols import Array, Pool, Watch
from stickbreak.stats import Edit, Fields, Forget, Summary

from .random_streams import MOVES
from .records import MoveRecord
from .rules import MeanLog
from .state import State

if TYPE_CHECKING:
    from stickbreak.models import Model

__all__ = [
    "Attempts",
    "BaseMove",
    "MoveRecord",
    "Mover",
    "Outcome",
    "Proposal",
    "Sample",
    "Scene",
]

SAMPLE_ROWS = 20_000  # rows that planning looks at: enough to see a component's parts
SAMPLE_SHARES = 1 << 23  # numbers that the shares of those rows may take
TIE = 1e-10  # part of the bound that is rounding


# ---------------------------------------------------------------------------------------------- his


@dataclass
class Attempts:
    """Failures of each candidate (kind, ids): after f of them it rests for 2**f - 1 laps, and after
    its limit until it changes.

    A candidate has changed when the size of one of its components has, by more than a tenth. Births
    may fail more often, since each attempt begins elsewhere; a merge or delete would be the same
    again.
    """

    limits: Mapping[str, int] = field(default_factory=lambda: {"birth": 4})
    failed: dict[tuple[str, tuple[int, ...]], tuple[int, int, tuple[float, ...]]] = field(
        default_factory=dict
    )
    n_failed: int = 0

    def may_try(
        self, kind: str, ids: tuple[int, ...], sizes: Sequence[float], lap: int, settled: bool
    ) -> bool:
        """Whether to try a candidate in this lap; when the fit has settled nobody rests."""
        if (kind, ids) not in self.failed:
            return True
        times, last, before = self.failed[kind, ids]
        if any(
            abs(now - then) > 0.1 * max(then, 1.0) for now, then in zip(sizes, before, strict=True)
        ):
            return True
        return times < self.limits.get(kind, 1) and (settled or lap >= last + 2**times)

    def failures(self, kind: str, ids: tuple[int, ...]) -> int:
        """How often a candidate has failed since it last changed."""
        return self.failed.get((kind, ids), (0, 0, ()))[0]

    def fail(self, kind: str, ids: tuple[int, ...], sizes: Sequence[float], lap: int) -> None:
        """Remember a failure."""
        times, _, before = self.failed.get((kind, ids), (0, 0, tuple(sizes)))
        changed = any(
            abs(now - then) > 0.1 * max(then, 1.0) for now, then in zip(sizes, before, strict=True)
        )
        self.failed[kind, ids] = (1 if changed else times + 1, lap, tuple(float(s) for s in sizes))
        self.n_failed += 1

    def forget(self, alive: Iterable[int]) -> None:
        """Drop what concerns components that are gone."""
        here = set(alive)
        self.failed = {key: value for key, value in self.failed.items() if here.issuperset(key[1])}

    def to_list(self) -> list[Any]:
        """Plain values, for files."""
        return [
            [kind, list(ids), times, lap, list(sizes)]
            for (kind, ids), (times, lap, sizes) in self.failed.items()
        ]

    def load(self, values: Iterable[Any]) -> None:
        """The inverse of `to_list`."""
        for kind, ids, times, lap, sizes in values:
            self.failed[str(kind), tuple(int(i) for i in ids)] = (
                int(times),
                int(lap),
                tuple(float(s) for s in sizes),
            )


# ---------------------------------------------------------------------------------------------- wha


@dataclass(frozen=True)
class Sample:
    """Some rows of the data with their posterior shares (n, K), repeats counted; scale: data units
    for each sampled one.
    """

    batch: Batch
    shares: Array
    scale: float

    def mass(self, slots: Sequence[int]) -> Array:
        """(n,) share of each row in some components."""
        return self.shares[:, list(slots)].sum(1)


@dataclass
class Scene:
    """What a move may look at when it plans: the model at the beginning of a lap.

    settled : the last lap gained next to nothing
    in_stream : the data are rows that will be seen once; the total is that of the rows before them
    """

    model: Model
    total: Summary
    params: Fields
    ids: tuple[int, ...]
    data: Any
    attempts: Attempts
    rng: np.random.Generator
    lap: int
    settled: bool
    pool: Pool = map
    in_stream: bool = False
    next_id: int = 0

    @cached_property
    def bound(self) -> float:
        """The whole-data bound."""
        return float(self.model.bound(self.total, self.params))

    @cached_property
    def sizes(self) -> Array:
        """(K,) expected rows of each component."""
        return np.asarray(self.model.prior.sizes(self.total))

    def by_size(self, slots: Sequence[int]) -> tuple[int, ...]:
        """Positions with the largest component first, the order in which few rows cost least:
        little fits compare as such.
        """
        return tuple(sorted(slots, key=lambda k: -self.sizes[k]))

    @cached_property
    def protected(self) -> frozenset[int]:
        """Positions that labels name: no move touches them."""
        return self.model.named(self.params)

    @cached_property
    def sample(self) -> Sample:
        """Rows for planning, with their shares under the current globals. Drawn once a lap, when a
        move first asks.
        """
        size = max(1000, min(SAMPLE_ROWS, SAMPLE_SHARES // len(self.ids)))
        batch = self.data.sample(size, self.rng)
        potentials = self.model.potentials(
            self.total.restrict(batch.symbols), self.params, MeanLog()
        )
        shares = self.model.shares(potentials, batch, self.pool)
        if batch.repeats is not None:
            shares = shares * batch.repeats[:, None]
        return Sample(batch, shares, self.data.n_observations / batch.n_observations)

    def may_try(self, kind: str, slots: Sequence[int]) -> bool:
        """Whether the components at some positions are free, and this candidate is due."""
        if self.protected.intersection(slots):
            return False
        ids = tuple(self.ids[k] for k in slots)
        return self.attempts.may_try(
            kind, ids, [float(self.sizes[k]) for k in slots], self.lap, self.settled
        )

    def give_up(self, kind: str, slots: Sequence[int], times: int = 1) -> None:
        """Remember that a candidate was not worth watching; times: for how many attempts that
        speaks.
        """
        for _ in range(times):
            self.attempts.fail(
                kind,
                tuple(self.ids[k] for k in slots),
                [float(self.sizes[k]) for k in slots],
                self.lap,
            )


class Proposal(Protocol):
    """A change that a lap watches and its end decides.

    slots : positions that it touches, at planning time; the first n_key of them identify it
    watch : what to collect during the lap; proposals may share one
    """

    @property
    def kind(self) -> str:
        """Which move made it."""
        ...

    @property
    def slots(self) -> tuple[int, ...]:
        """Positions that it touches."""
        ...

    @property
    def n_key(self) -> int:
        """How many of them identify it."""
        ...

    @property
    def expected(self) -> float:
        """Nats that it should gain, by what was known when it was made."""
        ...

    @property
    def allowance(self) -> float:
        """Nats of the bound that it may cost: 0 but for little fits to a sample."""
        ...

    @property
    def watch(self) -> Watch:
        """What to collect."""
        ...

    def pack(self, prefix: str, arrays: MutableMapping[str, Array]) -> dict[str, Any]:
        """Plain values and arrays, for checkpoints."""
        ...

    def edit(
        self, model: Model, positions: tuple[int, ...], size: int, done: Sequence[Proposal]
    ) -> Edit:
        """The edit, for its components at `positions` of `size`, when `done` were accepted before
        it in this lap.
        """
        ...


class BaseMove(Parameters):
    """Knows what to propose. A move that cannot be tracked during a lap may be tried on all data.

    kind : name of the move in records and files
    """

    kind: ClassVar[str]

    def check(self) -> None:
        """Raise ValueError for a setting that makes no sense."""

    def plan(self, scene: Scene) -> list[Proposal]:
        """Proposals for the coming lap, to be tracked."""
        return []

    def unpack(self, saved: dict[str, Any], prefix: str, arrays: Mapping[str, Array]) -> Proposal:
        """A proposal of this kind, as `Proposal.pack` left it."""
        raise NotImplementedError

    def targets(self, scene: Scene) -> list[tuple[int, ...]]:
        """Ids of what to try on all data, the most promising first."""
        return []

    def try_out(self, scene: Scene, slots: tuple[int, ...]) -> Outcome | None:
        """Outcome of changing the components at some positions; None if it is not above
        `scene.bound`.
        """
        return None


# ---------------------------------------------------------------------------------------------- the


def is_worth(gain: float, bound: float, *, is_idle: bool) -> bool:
    """Whether a change raises the bound by more than rounding; one that removes a component without
    rows must not lower it.
    """
    return gain > (-TIE if is_idle else TIE) * max(1.0, abs(bound))


@dataclass(frozen=True)
class Outcome:
    """A trial that ended above the bound it had to beat: where the fit goes on from."""

    counts: Summary
    params: Fields
    ids: tuple[int, ...]
    next_id: int
    bound: float
    warm: Fields | None = None


@dataclass
class Mover:
    """All moves of a fit, with their history. The loop calls plan before a lap and decide
    after it.
    """

    moves: Sequence[BaseMove]
    attempts: Attempts = field(default_factory=Attempts)
    proposals: list[Proposal] = field(default_factory=list)
    planned_ids: tuple[int, ...] = ()

    def try_out(
        self, model: Model, state: State, data: Any, seed: int, settled: bool, pool: Pool
    ) -> tuple[Outcome | None, list[MoveRecord]]:
        """For structures whose changes cannot be tracked: fits of all data from changed starts, one
        after the other.

        Only when the fit has settled: before that a trial would win by the laps it makes. Returns
        where to go on from, and what was tried.
        """
        is_tracked = "redistribute" in model.structure.tracks
        if not settled or not self.moves or is_tracked or state.seed is not None:
            return None, []
        total, rng = state.total.view(), np.random.default_rng([seed, MOVES, state.lap])
        scene = Scene(
            model, total, state.params, state.ids, data, self.attempts, rng, state.lap, True, pool
        )
        best: Outcome | None = None
        records, next_id = [], state.next_id
        n_failed = -1
        # the fit ends with this: all that may be tried is, before that
        while best is None and self.attempts.n_failed > n_failed:
            n_failed = self.attempts.n_failed
            for move in self.moves:
                for ids in move.targets(scene):
                    if not set(ids) <= set(scene.ids):
                        continue
                    slots = tuple(scene.ids.index(i) for i in ids)
                    scene.next_id = next_id
                    outcome = move.try_out(scene, slots)
                    if outcome is None:
                        scene.give_up(move.kind, slots)
                        continue
                    parents = tuple(i for i in scene.ids if i in ids or i not in outcome.ids)
                    children = (
                        tuple(i for i in outcome.ids if i not in scene.ids or i in ids)
                        or outcome.ids
                    )
                    gain = outcome.bound - scene.bound
                    records.append(
                        MoveRecord(state.lap + 1, move.kind, parents, children, gain, gain, True)
                    )
                    best, next_id = outcome, outcome.next_id
                    scene = replace(
                        scene, total=outcome.counts, params=outcome.params, ids=outcome.ids
                    )
        self.attempts.forget(scene.ids)
        return best, records

    def plan(
        self,
        model: Model,
        state: State,
        data: Any,
        seed: int,
        settled: bool,
        pool: Pool,
        *,
        in_stream: bool = False,
    ) -> None:
        """What the coming lap will watch. Nothing while the seed stands in for the total: there is
        no bound yet.

        in_stream : `data` are new rows, seen once; the total is that of all rows before them
        """
        self.proposals, self.planned_ids = [], state.ids
        if not self.moves or state.seed is not None:
            return
        total, rng = state.total.view(), np.random.default_rng([seed, MOVES, state.lap])
        scene = Scene(
            model,
            total,
            state.params,
            state.ids,
            data,
            self.attempts,
            rng,
            state.lap,
            settled,
            pool,
            in_stream,
        )
        while True:
            n_failed = self.attempts.n_failed
            for move in self.moves:
                self.proposals += move.plan(scene)
            # a settled fit ends when nothing is proposed: so everything that may be tried is,
            # before that
            if self.proposals or not settled or self.attempts.n_failed == n_failed:
                break

    def pack(self, arrays: MutableMapping[str, Array]) -> dict[str, Any]:
        """Plain values and arrays, for checkpoints."""
        proposals = [
            [p.kind, p.pack(f"proposal/{i}", arrays)] for i, p in enumerate(self.proposals)
        ]
        return {
            "attempts": self.attempts.to_list(),
            "proposals": proposals,
            "planned_ids": list(self.planned_ids),
        }

    def unpack(self, saved: dict[str, Any], arrays: Mapping[str, Array]) -> None:
        """What `pack` left."""
        known = {move.kind: move for move in self.moves}
        self.attempts.load(saved["attempts"])
        self.planned_ids = tuple(int(i) for i in saved["planned_ids"])
        self.proposals = [
            known[kind].unpack(p, f"proposal/{i}", arrays)
            for i, (kind, p) in enumerate(saved["proposals"])
        ]

    @property
    def watches(self) -> list[Watch]:
        """What to collect during the lap, each once."""
        found: dict[str, Watch] = {}
        for proposal in self.proposals:
            found.setdefault(proposal.watch.name, proposal.watch)
        return list(found.values())

    def decide(self, model: Model, state: State) -> list[MoveRecord]:
        """Accept what raises the whole-data bound, best first; a component takes part in one
        accepted change a lap.
        """
        if not self.proposals:
            return []
        sizes = dict(zip(state.ids, model.prior.sizes(state.total.view()).tolist(), strict=True))
        bound = model.bound(state.total.view(), state.params)
        gains = [self._gain(model, state, p, (), bound) for p in self.proposals]
        touched: set[int] = set()
        done: list[Proposal] = []
        records = []
        for at in np.argsort([-g for g in gains], kind="stable"):
            proposal, gain = self.proposals[at], gains[at]
            ids = tuple(self.planned_ids[k] for k in proposal.slots)
            if touched.intersection(ids):
                continue
            if done:
                gain = self._gain(model, state, proposal, done, bound)
            size = min(sizes[i] for i in ids[: proposal.n_key])
            accepted = is_worth(
                gain + proposal.allowance, bound, is_idle=proposal.kind != "birth" and size < 1.0
            )
            edit = self._edit(model, state, proposal, done)
            children = tuple(
                i for i in edit.rename(state.ids, state.next_id) if i not in state.ids or i in ids
            )
            records.append(
                MoveRecord(
                    state.lap + 1, proposal.kind, ids, children, proposal.expected, gain, accepted
                )
            )
            if accepted:
                state.edit(edit)
                state.params = model.global_step(state.total.view(), state.params)
                bound += gain
                touched.update(ids)
                done.append(proposal)
            else:
                self.attempts.fail(
                    proposal.kind,
                    ids[: proposal.n_key],
                    [sizes[i] for i in ids[: proposal.n_key]],
                    state.lap,
                )
        state.edit(Forget())
        self.attempts.forget(state.ids)
        self.proposals = []
        return records

    def _edit(
        self, model: Model, state: State, proposal: Proposal, done: Sequence[Proposal]
    ) -> Edit:
        positions = tuple(state.ids.index(self.planned_ids[k]) for k in proposal.slots)
        return proposal.edit(model, positions, len(state.ids), done)

    def _gain(
        self, model: Model, state: State, proposal: Proposal, done: Sequence[Proposal], bound: float
    ) -> float:
        """Exact change of the whole-data bound, globals at their optimum on both sides."""
        edit = self._edit(model, state, proposal, done)
        tried = edit(state.total.view())
        params = model.global_step(tried, edit(state.params))
        return float(model.bound(replace(tried, sides={}), params) - bound)
