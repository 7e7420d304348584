"""Birth: the rows of one component are dealt out to newborn ones, seeded on a sample and judged on all data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stickbreak.inference.proposals import Proposal, Scene
from stickbreak.initialize import from_plusplus
from stickbreak.parameters import Parameters, require_whole
from stickbreak.protocols import Array
from stickbreak.stats import Summary

from .merge import Merge
from .redistribute import Redistribution, RedistributionProposal, little_fit, nearest, rows_of

__all__ = ["Birth"]

MAX_RATIO = 0.02  # a lap that gains more than this many nats per row is still busy: births wait


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Birth(Parameters):
    """Tries to replace a component by several.

    Parameters
    ----------
    n_newborn : components that a proposal begins with; those that do not pay for themselves are joined or dropped.
    max_targets : components tried in one lap, at most.
    min_rows : smallest component that is tried, in expected rows.
    n_passes : passes of the little fit that shapes a proposal on a sample.
    """

    n_newborn: int = 8
    max_targets: int = 8
    min_rows: int = 8
    n_passes: int = 40

    @property
    def kind(self) -> str:
        """Name in records."""
        return "birth"

    def unpack(self, saved: dict[str, Any], prefix: str, arrays: dict[str, Array]) -> Proposal:
        """A proposal as `pack` left it."""
        return RedistributionProposal.unpack("birth", saved, prefix, arrays)

    def check(self) -> None:
        """Whole numbers."""
        require_whole(n_newborn=self.n_newborn, max_targets=self.max_targets, min_rows=self.min_rows, n_passes=self.n_passes)

    def plan(self, scene: Scene) -> list[Proposal]:
        """Proposals for the components that most need one: those never tried first, large ones first."""
        found: list[Proposal] = []
        for target in self._targets(scene)[: self.max_targets]:
            proposal = self._propose(scene, target)
            if proposal is None:
                scene.give_up("birth", (target,))
            else:
                found.append(proposal)
        return found

    def _targets(self, scene: Scene) -> list[int]:
        ready = [k for k in range(len(scene.ids)) if scene.sizes[k] >= self.min_rows and scene.may_try("birth", (k,))]
        failures = {k: scene.attempts.failures("birth", (scene.ids[k],)) for k in ready}
        return sorted(ready, key=lambda k: (failures[k], -scene.sizes[k]))

    def _propose(self, scene: Scene, target: int) -> RedistributionProposal | None:
        """A little fit of newborns to the rows of the target; None when it would not pay even there.

        The first attempt begins with n_newborn of them, the next with half. When those have failed, neighbours join the
        target: their rows are dealt out together.
        """
        model, failures = scene.model, scene.attempts.failures("birth", (scene.ids[target],))
        taken = (target, *nearest(scene, target, max(0, failures - 1)))
        table = rows_of(model, scene.sample, taken)
        if table is None:
            return None
        n_newborn = self.n_newborn >> failures if failures < 2 else len(taken) + 2
        start = from_plusplus(model, table, min(max(2, n_newborn), table.n_rows), scene.rng)
        before = little_fit(model, table, scene.total.permute(model.axis, scene.by_size(taken)), 1 + len(taken))
        found = little_fit(model, table, start.seed, self.n_passes, wanted=before.bound, moves=(Merge(start=3),), reorder=True)
        counts = _without_empty(model, found.counts)
        gain = found.bound - before.bound
        if counts.size(model.axis) < 2 or gain <= 0:
            return None
        shares = counts["share"]
        whole = model.zeros(len(shares))
        whole = replace(whole, arrays={n: whole[n] if f.additive else counts[n] for n, f in whole.layout.items()}) + counts
        name = f"birth {scene.ids[target]}"
        watch = Redistribution(name, taken, replace(whole, sides={}), np.log(shares / shares.sum()), len(taken), len(taken))
        return RedistributionProposal("birth", taken, watch, gain)


def _without_empty(model: Any, counts: Summary) -> Summary:
    """Counts of the components that hold at least one row."""
    keep = np.flatnonzero(counts["share"] >= 1.0)
    return counts.permute(model.axis, keep.tolist())
