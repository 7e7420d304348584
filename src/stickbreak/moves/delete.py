"""Delete: divide a component's rows among others.

These adapt to the rows on a sample first; then the bound on all data decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from stickbreak.data import Table
from stickbreak.inference.proposals import BaseMove, Outcome, Proposal, require_start
from stickbreak.inference.scene import Scene
from stickbreak.parameters import require_whole
from stickbreak.protocols import Array, Watch
from stickbreak.stats import Regroup, Summary

from .little_fits import Goal, absorber, little_fit, nearest, overrated, rows_of, thin
from .redistribute import Redistribution, RedistributionProposal
from .trials import try_fit

if TYPE_CHECKING:
    from stickbreak.models import Model

__all__ = ["Delete"]

LOOK_ROWS = 2_000  # a first look at as many rows ends most attempts
LOOK_PATIENCE = 5.0  # of that look, see `Goal`


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Delete(BaseMove):
    """Tries to do without a component.

    Parameters
    ----------
    n_absorbers : nearest components that take over its rows.
    max_targets : components tried in one lap, at most.
    n_passes : passes in which the absorbers adapt on a sample; too few and nothing is ever
        accepted.
    max_trial_rows : as in `Birth`.
    start : as in `Merge`. Trials on all data always wait until the fit has settled.
    """

    kind: ClassVar[str] = "delete"

    n_absorbers: int = 5
    max_targets: int = 2
    n_passes: int = 50
    max_trial_rows: int | None = None
    start: int | str = 1

    def unpack(self, saved: dict[str, Any], prefix: str, arrays: Mapping[str, Array]) -> Proposal:
        """A proposal, as `pack` saved it."""
        return RedistributionProposal.unpack("delete", saved, prefix, arrays)

    def check_saved(
        self, proposal: Proposal, shared: Watch, model: Model, n_components: int
    ) -> None:
        """Its counts are those of components of this model."""
        assert isinstance(proposal, RedistributionProposal)
        proposal.check(shared, model)

    def check(self) -> None:
        """Settings are whole numbers."""
        require_start(self.start)
        require_whole(
            n_absorbers=self.n_absorbers, max_targets=self.max_targets, n_passes=self.n_passes
        )
        if self.max_trial_rows is not None:
            require_whole(max_trial_rows=self.max_trial_rows)

    def plan(self, scene: Scene) -> list[Proposal]:
        """Proposals for the smallest components."""
        is_tracked = "redistribute" in scene.model.structure.tracks
        if len(scene.ids) < 2 or scene.in_stream or not is_tracked or not self.is_due(scene):
            return []
        found: list[Proposal] = []
        tried = 0
        for target in np.argsort(scene.sizes, kind="stable"):
            if tried >= self.max_targets:
                break
            if not scene.may_try("delete", (int(target),)):
                continue
            tried += 1
            proposal = self._propose(scene, int(target))
            if proposal is None:
                scene.give_up("delete", (int(target),))
            else:
                found.append(proposal)
        return found

    def targets(self, scene: Scene) -> list[tuple[int, ...]]:
        """Targets of trials: components without a row together, then each one, smallest first."""
        if self.max_trial_rows is not None and scene.data.n_rows > self.max_trial_rows:
            return []
        free = [
            k for k in np.argsort(scene.sizes, kind="stable") if scene.may_try("delete", (int(k),))
        ]
        idle = tuple(scene.ids[k] for k in free if scene.sizes[k] < 1.0)[: len(scene.ids) - 1]
        alone = [(scene.ids[k],) for k in free if scene.sizes[k] >= 1.0]
        return ([idle] if idle else []) + alone

    def try_out(self, scene: Scene, slots: tuple[int, ...]) -> Outcome | None:
        """Fit all data without those components."""
        if len(slots) >= len(scene.ids):
            return None
        keep = [k for k in range(len(scene.ids)) if k not in slots]
        axis = scene.model.axis
        counts, params = scene.total.permute(axis, keep), scene.params.permute(axis, keep)
        heirs = {k: absorber(scene, k, keep) for k in slots}
        sources = tuple((k, *(drop for drop in slots if heirs[drop] == k)) for k in keep)
        how = Regroup(axis, sources, slots)
        return try_fit(scene, counts, params, [scene.ids[k] for k in keep], self.n_passes, how)

    def _propose(self, scene: Scene, target: int) -> RedistributionProposal | None:
        model = scene.model
        absorbers = scene.by_size(nearest(scene, target, self.n_absorbers))
        if not absorbers:
            return None
        slots = (target, *absorbers)
        table = rows_of(model, scene.sample, slots)
        if table is None:
            return None
        began = scene.look_at("delete", target)
        some, scale = thin(table, LOOK_ROWS, scene.rng)
        allowance = overrated(model, scale * scene.sample.scale)
        n_rows, goes_on = some.n_rows, True
        if scale > 1.0:
            counts, gain = self._without(scene, slots, some, allowance, LOOK_PATIENCE)
            goes_on = counts is not None
        if goes_on:
            counts, gain = self._without(scene, slots, table)
            n_rows = table.n_rows
        pays = counts is not None
        scene.keep_look("delete", target, began, n_rows=n_rows, gain=gain, pays=pays)
        if counts is None:
            return None
        log_share = np.log(np.maximum(model.prior.sizes(counts), 1e-300))
        name = f"delete {scene.ids[target]}"
        watch = Redistribution(name, slots, counts.forget(), log_share, 1, 2)
        return RedistributionProposal("delete", slots, watch, gain)

    def _without(
        self,
        scene: Scene,
        slots: tuple[int, ...],
        table: Table,
        allowance: float = 0.0,
        patience: float = np.inf,
    ) -> tuple[Summary | None, float]:
        """Counts of the absorbers, fitted to the rows of all `slots`, and the gain less what those
        rows overrate. The counts are None if there is none.

        allowance : nats by which these rows overrate the target
        patience : of the fit, see `Goal`
        """
        model, total = scene.model, scene.total
        before = little_fit(model, table, total.permute(model.axis, scene.by_size(slots)), 2)
        wanted = before.bound - allowance
        kept = total.permute(model.axis, list(slots[1:]))
        goal = Goal(wanted, patience=patience)
        after = little_fit(model, table, kept, self.n_passes, goal=goal)
        return (None if after.bound <= wanted else after.counts), after.bound - wanted
