"""All moves of a fit: what is proposed, tried, and accepted on the whole-data bound."""

from __future__ import annotations

import time
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from stickbreak.data import Batch
from stickbreak.protocols import Array, Pool, Watch
from stickbreak.stats import Edit, Forget

from .attempts import Attempts
from .proposals import TIE, BaseMove, Outcome, Proposal
from .random_streams import MOVES
from .records import MoveRecord
from .scene import Scene, Spent
from .state import State

if TYPE_CHECKING:
    from stickbreak.models import Model

    from .engine import Callback

__all__ = ["Mover"]


HOPELESS = -100.0  # nats; what loses more, but for what better globals gain, is not accepted


def is_worth(gain: float, bound: float, *, is_idle: bool) -> bool:
    """Whether a change raises the bound by more than rounding. An idle one must not lower it.

    is_idle : the change removes a component without rows
    """
    return gain > (-TIE if is_idle else TIE) * max(1.0, abs(bound))


def _record(
    scene: Scene, kind: str, ids: tuple[int, ...], outcome: Outcome | None, seconds: float
) -> MoveRecord:
    """Of a trial."""
    spent, parents, children = scene.spent, ids, tuple[int, ...]()
    if outcome is not None:
        parents = tuple(i for i in scene.ids if i in ids or i not in outcome.ids)
        children = tuple(i for i in outcome.ids if i not in scene.ids or i in ids) or outcome.ids
    cost = spent.n_units, spent.n_passes, seconds
    what = parents, children, spent.gain, spent.gain, outcome is not None
    return MoveRecord(scene.lap + 1, kind, *what, *cost)


@dataclass
class Mover:
    """All moves of a fit, with their history. The loop plans before a lap and decides after it.

    sweeps : whether trials are collapsed sweeps, which continue from the units' own counts
    """

    moves: Sequence[BaseMove]
    attempts: Attempts = field(default_factory=Attempts)
    proposals: list[Proposal] = field(default_factory=list)
    planned_ids: tuple[int, ...] = ()
    sweeps: bool = False
    has_settled: bool = False
    seconds: dict[tuple[str, int], float] = field(default_factory=dict)  # of looks that paid

    @property
    def tries_last(self) -> bool:
        """Whether trials wait until nothing is proposed, as moves with start="settled" ask for."""
        return any(move.waits for move in self.moves)

    def _scene(
        self, model: Model, state: State, data: Any, seed: int, settled: bool, pool: Pool
    ) -> Scene:
        rng = np.random.default_rng([seed, MOVES, state.lap])
        globals_ = state.total.view(), state.params, state.ids
        scene = Scene(model, *globals_, data, self.attempts, rng, state.lap, settled, pool)
        self.has_settled |= settled
        scene.has_settled = self.has_settled
        return scene

    def scene_of_stream(
        self, model: Model, state: State, data: Any, seed: int, pool: Pool
    ) -> Scene:
        """What births in a stream need that a lap cannot track.

        data : new rows, seen once; the total is that of all earlier rows
        """
        scene = self._scene(model, state, data, seed, True, pool)
        scene.next_id, scene.in_stream = state.next_id, True
        return scene

    def try_out(
        self,
        model: Model,
        state: State,
        data: Any,
        seed: int,
        settled: bool,
        pool: Pool,
        batches: Sequence[Batch] = (),
        callbacks: Sequence[Callback] = (),
    ) -> tuple[Outcome | None, list[MoveRecord]]:
        """Trials, one after the other, for structures whose changes cannot be tracked.

        Only once the fit has settled; before that, a trial would win just by its extra laps.
        Returns the outcome to continue from, and records of all.

        batches : the fixed ones of the fit
        callbacks : told of each trial before it begins
        """
        is_tracked = "redistribute" in model.structure.tracks
        if not settled or not self.moves or is_tracked or state.seed is not None:
            return None, []
        scene = self._scene(model, state, data, seed, True, pool)
        scene.next_id, scene.batches, scene.warm = state.next_id, batches, state.all_warm()
        scene.own, scene.callbacks = scene.warm if self.sweeps else None, callbacks
        best: Outcome | None = None
        records: list[MoveRecord] = []
        n_failed = -1
        # The fit ends after this, so try everything that may be tried.
        while best is None and self.attempts.n_failed > n_failed:
            n_failed = self.attempts.n_failed
            for move in self.moves:
                for ids in move.targets(scene):
                    if not set(ids) <= set(scene.ids):
                        continue
                    slots = tuple(scene.ids.index(i) for i in ids)
                    scene.spent, began = Spent(), scene.tell(move.kind, ids)
                    outcome = move.try_out(scene, slots)
                    seconds = time.monotonic() - began
                    records.append(_record(scene, move.kind, ids, outcome, seconds))
                    if outcome is None:
                        is_far = scene.spent.gain < HOPELESS
                        scene.give_up(move.kind, slots, hopeless=is_far)
                        continue
                    scene = scene.after(outcome)
                    best = scene.as_outcome()
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
        callbacks: Sequence[Callback] = (),
    ) -> list[MoveRecord]:
        """Plan what the coming lap will watch; returns what did not pay on a sample.

        Nothing until there is a bound.

        in_stream : `data` are new rows, seen once; the total is that of all earlier rows
        callbacks : told of each look at a sample before it begins
        """
        self.proposals, self.planned_ids, self.seconds = [], state.ids, {}
        if not self.moves or state.seed is not None:
            return []
        scene = self._scene(model, state, data, seed, settled, pool)
        scene.in_stream, scene.callbacks = in_stream, callbacks
        while True:
            n_failed = self.attempts.n_failed
            for move in self.moves:
                self.proposals += move.plan(scene)
            # A settled fit ends when nothing is proposed, so try everything that may be tried.
            if self.proposals or not settled or self.attempts.n_failed == n_failed:
                break
        self.seconds = scene.seconds
        return scene.looks

    def pack(self, arrays: MutableMapping[str, Array]) -> dict[str, Any]:
        """Plain values and arrays, for checkpoints."""
        proposals = [
            [p.kind, p.pack(f"proposal/{i}", arrays)] for i, p in enumerate(self.proposals)
        ]
        return {
            "attempts": self.attempts.to_list(),
            "proposals": proposals,
            "planned_ids": list(self.planned_ids),
            "has_settled": self.has_settled,
        }

    def unpack(
        self, saved: dict[str, Any], arrays: Mapping[str, Array], model: Model, state: State
    ) -> None:
        """Restore what `pack` saved. Raises ValueError for what cannot be of this state."""
        known = {move.kind: move for move in self.moves}
        self.attempts.load(saved["attempts"])
        self.planned_ids = tuple(int(i) for i in saved["planned_ids"])
        self.has_settled = saved["has_settled"]
        self.proposals = [
            known[kind].unpack(p, f"proposal/{i}", arrays)
            for i, (kind, p) in enumerate(saved["proposals"])
        ]
        watches = {watch.name: watch for watch in self.watches}
        for proposal in self.proposals:
            self._check(proposal, state)
            shared = watches[proposal.watch.name]
            known[proposal.kind].check_saved(proposal, shared, model, len(state.ids))

    def _check(self, proposal: Proposal, state: State) -> None:
        if self.planned_ids != state.ids:
            raise ValueError(f"planned_ids {self.planned_ids} for components {state.ids}")
        slots, K = proposal.slots, len(state.ids)
        if len(set(slots)) != len(slots) or not all(0 <= slot < K for slot in slots):
            raise ValueError(f"a {proposal.kind} of components {slots} of {K}")
        if len(slots) < proposal.n_key:
            raise ValueError(f"a {proposal.kind} of {len(slots)} components")
        # -inf: a component without a row is proposed even where nothing is likely to be gained
        if not (proposal.expected < np.inf and np.isfinite(proposal.allowance)):
            raise ValueError(f"a {proposal.kind} that should gain {proposal.expected} nats")

    @property
    def watches(self) -> list[Watch]:
        """What to collect during the lap, each once."""
        found: dict[str, Watch] = {}
        for proposal in self.proposals:
            found.setdefault(proposal.watch.name, proposal.watch)
        return list(found.values())

    def decide(self, model: Model, state: State) -> list[MoveRecord]:
        """Accept what raises the whole-data bound, best first.

        Each component takes part in at most one accepted change a lap.
        """
        if not self.proposals:
            return []
        sizes = dict(zip(state.ids, model.prior.sizes(state.total.view()).tolist(), strict=True))
        bound = model.bound(state.total.view(), state.params)
        # cheaper than with globals at their optimum, and close: what order to decide in
        gains = [self._gain(model, state, p, (), bound, is_exact=False) for p in self.proposals]
        touched: set[int] = set()
        done: list[Proposal] = []
        records = []
        for at in np.argsort([-g for g in gains], kind="stable"):
            proposal, gain = self.proposals[at], gains[at]
            ids = tuple(self.planned_ids[k] for k in proposal.slots)
            if touched.intersection(ids):
                continue
            is_close = gain + proposal.allowance > HOPELESS
            if done or is_close:
                gain = self._gain(model, state, proposal, done, bound, is_exact=is_close)
            key = ids[: proposal.n_key]
            is_idle = proposal.kind != "birth" and min(sizes[i] for i in key) < 1.0
            accepted = is_worth(gain + proposal.allowance, bound, is_idle=is_idle)
            edit = self._edit(model, state, proposal, done)
            after = edit.rename(state.ids, state.next_id)
            children = tuple(i for i in after if i not in state.ids or i in ids)
            what = proposal.kind, ids, children, proposal.expected, gain
            seconds = self.seconds.get((proposal.kind, proposal.slots[0]), 0.0)
            records.append(MoveRecord(state.lap + 1, *what, accepted, seconds=seconds))
            if accepted:
                state.edit(edit)
                state.params = model.global_step(state.total.view(), state.params)
                bound += gain
                touched.update(ids)
                done.append(proposal)
            else:
                self.attempts.fail(proposal.kind, key, [sizes[i] for i in key], state.lap)
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
        self,
        model: Model,
        state: State,
        proposal: Proposal,
        done: Sequence[Proposal],
        bound: float,
        *,
        is_exact: bool = True,
    ) -> float:
        """Exact change of the whole-data bound, with globals at their optimum on both sides.

        is_exact : if not, globals are edited only, and the change is at least the value
        """
        edit = self._edit(model, state, proposal, done)
        tried, params = edit(state.total.view()), edit(state.params)
        if is_exact:
            params = model.global_step(tried, params)
        return float(model.bound(replace(tried, sides={}), params) - bound)
