"""Loosen: the same components, begun again with weakened habits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from stickbreak.inference.proposals import BaseMove, Outcome
from stickbreak.inference.scene import Scene
from stickbreak.parameters import require_whole

from .trials import try_fit

__all__ = ["Loosen"]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Loosen(BaseMove):
    """Tries all components again with half of the steps between states as if all were left alike.

    A step that is hardly counted is hardly taken again under a sparse prior, so that paths take
    detours; the states themselves may be right. For models whose components follow each other; no
    effect on others. Tried once for each set of states.

    Parameters
    ----------
    n_passes : passes of the trial over all data, at most.
    """

    kind: ClassVar[str] = "loosen"

    n_passes: int = 20

    def check(self) -> None:
        """n_passes is a whole number."""
        require_whole(n_passes=self.n_passes)

    def targets(self, scene: Scene) -> list[tuple[int, ...]]:
        """All components together, if the prior can loosen them."""
        ids = tuple(sorted(scene.ids))
        slots = [scene.ids.index(i) for i in ids]
        if scene.own is not None or not scene.may_try(self.kind, slots):
            return []
        is_loose = scene.model.prior.loosened(scene.total, scene.params) is scene.total
        return [] if is_loose else [ids]

    def try_out(self, scene: Scene, slots: tuple[int, ...]) -> Outcome | None:
        """Fit all data from loosened counts."""
        found = try_fit(scene, scene.total, scene.params, list(scene.ids), self.n_passes)
        if found is not None:  # the same again would gain what a lap does
            scene.give_up(self.kind, slots)
        return found
