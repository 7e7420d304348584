"""Moves as the loop sees them: proposed before a lap, watched during it, decided after it."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from stickbreak.parameters import Parameters, require_whole
from stickbreak.protocols import Array, Watch
from stickbreak.stats import Edit

from .posteriors import Outcome
from .scene import Scene

if TYPE_CHECKING:
    from stickbreak.models import Model

__all__ = ["TIE", "BaseMove", "Outcome", "Proposal", "require_start"]

TIE = 1e-10  # relative rounding error of the bound


class Proposal(Protocol):
    """A change that a lap watches and its end decides.

    slots : positions that it touches, at planning time; the first n_key of them identify it
    watch : what to collect during the lap; proposals may share one
    """

    @property
    def kind(self) -> str:
        """Which move made it."""

    @property
    def slots(self) -> tuple[int, ...]:
        """Positions that it touches."""

    @property
    def n_key(self) -> int:
        """How many of them identify it."""

    @property
    def expected(self) -> float:
        """Nats that it should gain, as estimated when it was made."""

    @property
    def allowance(self) -> float:
        """Nats of the bound that it may cost: 0 except in little fits to a sample."""

    @property
    def watch(self) -> Watch:
        """What to collect."""

    def pack(self, prefix: str, arrays: MutableMapping[str, Array]) -> dict[str, Any]:
        """Plain values and arrays, for checkpoints."""

    def edit(
        self, model: Model, positions: tuple[int, ...], size: int, done: Sequence[Proposal]
    ) -> Edit:
        """The edit, for components at `positions` of `size`, given those `done` before.

        Those were accepted earlier in this lap.
        """


def require_start(start: Any) -> None:
    """Raise ValueError unless it is a lap, or "settled"."""
    if isinstance(start, str):
        if start != "settled":
            raise ValueError(f'start must be a lap, or "settled"; got {start!r}')
        return
    require_whole(start=start)


class BaseMove(Parameters):
    """Proposes changes of the components.

    A move that cannot be tracked during a lap may be tried on all data.

    kind : name of the move in records and files
    start : first lap in which it proposes, or "settled": once a lap has gained hardly anything
    """

    kind: ClassVar[str]
    start: int | str = 1

    @property
    def waits(self) -> bool:
        """Whether it proposes nothing until the fit has settled once."""
        return self.start == "settled"

    def is_due(self, scene: Scene) -> bool:
        """Whether it may propose in this lap."""
        if isinstance(self.start, str):
            return scene.has_settled
        return scene.lap >= self.start

    def check(self) -> None:
        """Raise ValueError for an invalid setting."""

    def plan(self, scene: Scene) -> list[Proposal]:
        """Proposals for the coming lap, to be tracked."""
        return []

    def unpack(self, saved: dict[str, Any], prefix: str, arrays: Mapping[str, Array]) -> Proposal:
        """A proposal of this kind, as `Proposal.pack` saved it."""
        raise NotImplementedError

    def check_saved(
        self, proposal: Proposal, shared: Watch, model: Model, n_components: int
    ) -> None:
        """Raise ValueError if an unpacked proposal is not one for n_components of this model.

        shared : the watch that collects for all proposals with its name
        """

    def targets(self, scene: Scene) -> list[tuple[int, ...]]:
        """Ids of the candidates to try on all data, the most promising first."""
        return []

    def try_out(self, scene: Scene, slots: tuple[int, ...]) -> Outcome | None:
        """Outcome of changing the components at some positions.

        None if it is not above the bound to beat. What it cost is in `scene.spent`.
        """
        return None
