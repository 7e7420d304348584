"""Birth: divide the rows of one component among newborns, and accept them on all data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from stickbreak.data import Table
from stickbreak.errors import NumericalError
from stickbreak.inference.proposals import BaseMove, Outcome, Proposal
from stickbreak.inference.scene import Scene
from stickbreak.initialize import from_plusplus
from stickbreak.parameters import require_whole
from stickbreak.protocols import Array, Watch
from stickbreak.stats import Regroup, Summary

from .blocks import newborns_from_blocks
from .little_fits import Goal, little_fit, nearest, overrated, rows_of, side_by_side
from .merge import Merge
from .newborns import Newborns, newborns_from_rows, newborns_from_seeds, newborns_from_units
from .own_rows import own_rows, own_units
from .redistribute import Redistribution, RedistributionProposal
from .stream_births import gain_together
from .trials import join, keeps_some, split, try_fit

if TYPE_CHECKING:
    from stickbreak.models import Model

__all__ = ["Birth"]

MAKERS: dict[str, Callable[[Scene, int, int, int], Newborns | None]] = {
    "rows": newborns_from_rows,
    "blocks": newborns_from_blocks,
    "units": newborns_from_units,
    "seeds": newborns_from_seeds,
}
N_COARSE = 10
# Two far clusters of one component, as large as each other, have a kurtosis of 1 instead of 3: 3.7
# standard errors, three after the allowance for several moments, from some eighty rows on.
TELLING = 80


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Birth(BaseMove):
    """Tries to replace a component by several.

    Parameters
    ----------
    n_newborn : components that a proposal begins with; those that do not pay for themselves are
        joined or dropped.
    max_targets : components tried in one lap, at most.
    min_rows : smallest component that is tried, in expected rows.
    n_passes : passes of the little fit to a sample that shapes a proposal.
    min_misfit : components whose sampled rows are less far from what the family expects, in
        standard errors, are not tried: skewness, kurtosis and the order of Gaussian rows. 0 for
        all. Families that cannot tell have all tried, and so have components of fewer than eighty
        rows, which do not show it.
    max_trial_rows : no trials on data of more rows, where laps cannot track births (documents,
        chains): each is as dear as many laps. Default no limit.
    """

    kind: ClassVar[str] = "birth"

    n_newborn: int = 8
    max_targets: int = 8
    min_rows: int = 8
    n_passes: int = 40
    min_misfit: float = 3.0
    max_trial_rows: int | None = None

    def unpack(self, saved: dict[str, Any], prefix: str, arrays: Mapping[str, Array]) -> Proposal:
        """A proposal, as `pack` saved it."""
        return RedistributionProposal.unpack("birth", saved, prefix, arrays)

    def check_saved(
        self, proposal: Proposal, shared: Watch, model: Model, n_components: int
    ) -> None:
        """Its counts are those of components of this model."""
        assert isinstance(proposal, RedistributionProposal)
        proposal.check(shared, model)

    def check(self) -> None:
        """Settings are whole numbers."""
        require_whole(
            n_newborn=self.n_newborn,
            max_targets=self.max_targets,
            min_rows=self.min_rows,
            n_passes=self.n_passes,
        )
        if not 0 <= self.min_misfit < np.inf:
            raise ValueError(f"min_misfit={self.min_misfit} must be a number, 0 or more")
        if self.max_trial_rows is not None:
            require_whole(max_trial_rows=self.max_trial_rows)

    def plan(self, scene: Scene) -> list[Proposal]:
        """Proposals for some components: those with the fewest failures first, then the largest."""
        if "redistribute" not in scene.model.structure.tracks:
            return []
        if scene.in_stream:
            return self._plan_in_stream(scene)
        found: list[Proposal] = []
        groups = [
            (target, *nearest(scene, target, max(0, self._failures(scene, target) - 1)))
            for target in self._targets(scene)[: self.max_targets]
        ]
        for taken, (table, scale) in zip(groups, own_rows(scene, groups), strict=True):
            if table is None:
                scene.give_up("birth", taken[:1])
                continue
            began = scene.look_at("birth", taken[0])
            counts, gain = self._shape(scene, taken, table, scale)
            n_rows, pays = table.n_rows, counts is not None
            scene.keep_look("birth", taken[0], began, n_rows=n_rows, gain=gain, pays=pays)
            if counts is None:
                # all newborns joined again; fewer of them would do so too
                scene.give_up("birth", taken[:1], times=2 if gain == 0.0 else 1)
                continue
            found.append(
                RedistributionProposal(
                    "birth", taken, _watch(scene, taken, counts, len(taken)), gain
                )
            )
        return found

    def targets(self, scene: Scene) -> list[tuple[int, ...]]:
        """Targets of trials on all data: as in `plan`, each component once for every division."""
        if self.max_trial_rows is not None and scene.data.n_rows > self.max_trial_rows:
            return []
        n_ways = len(scene.model.structure.births)
        ready = [k for k in self._targets(scene) if self._failures(scene, k) < n_ways]
        return [(scene.ids[k],) for k in ready[: self.max_targets]]

    def try_out(self, scene: Scene, slots: tuple[int, ...]) -> Outcome | None:
        """Fit all data with newborns in place of a component, divided as the structure declares."""
        (target,) = slots
        ways = scene.model.structure.births
        way = ways[min(self._failures(scene, target), len(ways) - 1)]
        taken = (target, *nearest(scene, target, way.n_more))
        least, focus = scene.model.structure.least_held or 0.0, None
        if keeps_some(scene, taken):
            focus = scene.posteriors.touched(taken, least)
        seen = scene if focus is None or way.by == "units" else own_units(scene, taken, focus)
        joined, at = join(seen, taken)
        joined.focus = focus
        n_newborn = max(2, self.n_newborn // way.part)
        try:
            newborns = MAKERS[way.by](joined, at, n_newborn, self.n_passes)
        except NumericalError:  # rows so far apart that they swamp the rest: no start
            return None
        if newborns is None:
            return None
        counts, params = split(joined, at, newborns)
        others = [k for k in range(len(scene.ids)) if k not in taken]
        heirs = np.arange(1) if way.keeps else np.argsort(-newborns.sizes, kind="stable")
        sources: list[tuple[int, ...]] = [(k,) for k in others] + [()] * len(newborns.sizes)
        for heir, k in zip(heirs, taken, strict=False):
            sources[len(others) + int(heir)] = (k,)
        how = Regroup(scene.model.axis, tuple(sources), taken)
        kept = [scene.ids[k] for k in others] + [scene.ids[target]] * way.keeps
        return try_fit(scene, counts, params, kept, self.n_passes, how, least)

    def _plan_in_stream(self, scene: Scene) -> list[Proposal]:
        """For rows seen once: newborns beside the components, to compete for the new rows.

        The new rows of some components are divided into clusters. A cluster that one of the
        components, by its counts of all earlier rows, explains as well is a copy and is dropped;
        the others are newborns. The components keep their counts.
        """
        model, clusters, taken = scene.model, [], []
        for target in self._targets(scene)[: self.max_targets]:
            counts = self._clusters(scene, (target,))
            if counts is not None:
                clusters.append(counts)
                taken.append(target)
        if not clusters:
            return []
        if len(clusters) > 1:  # parts of one cluster that two targets held can now merge
            together = side_by_side(clusters, model.axis)
            joint = self._clusters(scene, tuple(taken), together)
            clusters = [together if joint is None else joint]
        old, found = scene.total.permute(model.axis, taken), clusters[0]
        alike = np.array([gain_together(model, old, found, k) for k in range(len(taken))])
        new, copies = np.flatnonzero(alike.max(0) < 0), np.flatnonzero(alike.max(0) >= 0)
        if not len(new):
            return []
        sizes = np.asarray(model.prior.sizes(found))
        kept = np.bincount(alike[:, copies].argmax(0), sizes[copies], minlength=len(taken))
        counts = side_by_side([old, found.permute(model.axis, new.tolist())], model.axis)
        watch = _watch(scene, tuple(taken), counts, 0, np.r_[np.maximum(kept, 1.0), sizes[new]])
        expected = -float(alike.max(0)[new].sum())
        return [RedistributionProposal("birth", tuple(taken), watch, expected)]

    def _clusters(
        self, scene: Scene, taken: tuple[int, ...], start: Summary | None = None
    ) -> Summary | None:
        """Counts of clusters of the new rows of some components, one or more; None without rows."""
        model, table = scene.model, rows_of(scene.model, scene.sample, taken)
        if table is None:
            return None
        if start is None:
            n_newborn = min(max(2, self.n_newborn), table.n_rows)
            start = _seed(scene, table, n_newborn, _coarse_passes(model)[0])
        merge = Merge(start=3, allowance=overrated(model, scene.sample.scale))
        found = little_fit(model, table, start, self.n_passes, moves=(merge,), reorder=True)
        counts = _without_empty(model, found.counts)
        return counts if counts.size(model.axis) else None

    def _targets(self, scene: Scene) -> list[int]:
        ready = [
            k
            for k in range(len(scene.ids))
            if scene.sizes[k] >= self.min_rows and scene.may_try("birth", (k,))
        ]
        if self.min_misfit > 0 and not scene.in_stream:
            ready = self._misfits(scene, ready)
        return sorted(ready, key=lambda k: (self._failures(scene, k), -scene.sizes[k]))

    def _misfits(self, scene: Scene, ready: list[int]) -> list[int]:
        """Those whose rows do not look like them, or are too few to tell.

        What has passed the check rests, see `Attempts`: another sample of the same rows tells
        little more, and may mislead.
        """
        due = [k for k in ready if scene.may_try("misfit", (k,))]
        if not due or scene.misfit is None:
            return due
        n_seen = scene.sample.shares.sum(0)
        found = [k for k in due if scene.misfit[k] > self.min_misfit or n_seen[k] < TELLING]
        for k in due:
            if k not in found:
                scene.give_up("misfit", (k,))
        return found

    def _failures(self, scene: Scene, target: int) -> int:
        return scene.attempts.failures("birth", (scene.ids[target],))

    def _shape(
        self, scene: Scene, taken: tuple[int, ...], table: Table, scale: float
    ) -> tuple[Summary | None, float]:
        """Counts of newborns, by a little fit to a table of rows of some components, and its gain.

        The counts are None if newborns do not pay even there. A gain of zero then means that they
        merged until there were as many as before.

        The first attempt begins with n_newborn of them, the next with half. When those have failed,
        `taken` includes neighbors of the target, and the rows of all of them are divided together.

        scale : how many rows of the data each of the table stands for
        """
        model, failures = scene.model, self._failures(scene, taken[0])
        n_newborn = self.n_newborn >> failures if failures < 2 else len(taken) + 2
        n_newborn = min(max(2, n_newborn), table.n_rows)
        before = little_fit(
            model, table, scene.total.permute(model.axis, scene.by_size(taken)), 1 + len(taken)
        )
        price, n_free = overrated(model, scale), len(taken)
        starts = _coarse_passes(model)
        # k-means in the prior's metric may see one cluster where the family sees two
        for n_coarse in starts if n_free == 1 else starts[:1]:
            start = _seed(scene, table, n_newborn, n_coarse)
            goal = Goal(before.bound, n_free=n_free, price=price)
            merges = (Merge(start=3, allowance=price),)
            found = little_fit(
                model, table, start, self.n_passes, goal=goal, moves=merges, reorder=True
            )
            counts = _without_empty(model, found.counts)
            n_found = counts.size(model.axis)
            gain = found.bound - before.bound - price * max(0, n_found - n_free)
            if gain > 0 and n_found > 1:
                return counts, gain
            if n_found > n_free:
                return None, gain
        return None, 0.0


def _coarse_passes(model: Model) -> tuple[int, ...]:
    """Passes of k-means in the prior's metric that newborns begin with: some first, then none."""
    return (0,) if model.family.coarse() is model.family else (N_COARSE, 0)


def _seed(scene: Scene, table: Table, n_newborn: int, n_coarse: int) -> Summary:
    n_exact = 0 if n_coarse else 2
    return from_plusplus(
        scene.model, table, n_newborn, scene.rng, n_passes=n_exact, n_coarse=n_coarse
    ).seed


def _watch(
    scene: Scene, taken: tuple[int, ...], counts: Summary, first: int, shares: Array | None = None
) -> Redistribution:
    shares = scene.model.prior.sizes(counts) if shares is None else shares
    name = f"birth {scene.ids[taken[0]]}"
    return Redistribution(name, taken, counts.forget(), np.log(shares / shares.sum()), first, first)


def _without_empty(model: Model, counts: Summary) -> Summary:
    """Counts of the components that hold at least one row."""
    keep = np.flatnonzero(model.prior.sizes(counts) >= 1.0)
    return counts.permute(model.axis, keep.tolist())
