"""Local steps: which posterior of its units a visit computes. A model holds one of these values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from stickbreak.data import Batch
from stickbreak.protocols import Array, Local, Out, Potentials
from stickbreak.stats import Field, Fields

from .labels import require_single

if TYPE_CHECKING:
    from .base import BaseStructure

__all__ = ["Best", "Drawn", "DrawnPart", "Expected", "LocalStep"]

Infer = Callable[[Potentials, Batch, Fields | None, Out], Local]


@dataclass(frozen=True)
class Expected:
    """The posterior itself: variational Bayes, EM."""

    starts_alone: ClassVar[bool] = True
    """Whether cold values of some units do not depend on others, so that a lane can make them."""

    def start(
        self,
        structure: BaseStructure,
        batch: Batch,
        n: int,
        axis: str,
        kept: Fields | None = None,
    ) -> Fields | None:
        """Values per unit to start from, for n components: those kept, or cold ones."""
        return structure.cold_start(batch, n, axis) if kept is None else kept

    @staticmethod
    def kept(warm: Fields) -> Fields | None:
        """What units keep of their values for the next step; None for nothing."""
        return warm

    def infer_by(self, structure: BaseStructure) -> Infer:
        """The structure's method for this kind of inference, see `BaseStructure.infer`."""
        return structure.infer


@dataclass(frozen=True)
class Best(Expected):
    """The best single labeling, whose entropy is zero: hard EM, Bregman k-means."""

    def infer_by(self, structure: BaseStructure) -> Infer:
        """By the best labeling of every unit."""
        return structure.infer_best


@dataclass(frozen=True, eq=False)
class Drawn(Expected):
    """One labeling drawn from the posterior: Gibbs sampling.

    The random numbers are made before the batch is cut into lanes and travel like
    warm starts, beside what units keep of their last draw. So the draws are the same for any number
    of workers.
    """

    rng: np.random.Generator

    starts_alone = False

    def start(
        self,
        structure: BaseStructure,
        batch: Batch,
        n: int,
        axis: str,
        kept: Fields | None = None,
    ) -> Fields:
        """Uniform numbers in [0, 1), one or more for each row, and what units keep."""
        m = structure.n_uniforms
        uniforms = self.rng.random(batch.n_rows if m == 1 else (batch.n_rows, m))
        kept = structure.drawn_start(batch, n, axis) if kept is None else kept
        held = Fields({}, {}) if kept is None else kept
        axes = ("row", None)[: uniforms.ndim]
        return Fields({**held.layout, "uniform": Field(axes)}, {**held.arrays, "uniform": uniforms})

    @staticmethod
    def kept(warm: Fields) -> Fields | None:
        """What units keep for the next draw: all but the random numbers; None for nothing."""
        arrays = {name: array for name, array in warm.arrays.items() if name != "uniform"}
        return Fields({name: warm.layout[name] for name in arrays}, arrays) if arrays else None

    def infer_by(self, structure: BaseStructure) -> Infer:
        """By one drawn labeling of every unit."""

        def infer(potentials: Potentials, block: Batch, warm: Fields | None, out: Out) -> Local:
            assert warm is not None
            has_all = structure.labels_repeats
            uniforms = warm["uniform"] if has_all else self.uniforms(block, warm)
            return structure.redraw(potentials, block, warm, uniforms, out)

        return infer

    def uniforms(self, block: Batch, warm: Fields | None) -> Array:
        """Random numbers of a block's rows. Weights are 0 or 1: a copy would need its own label."""
        assert warm is not None
        require_single(block)
        return warm["uniform"]


@dataclass(frozen=True, eq=False)
class DrawnPart(Drawn):
    """One of the labelings whose average stands for the posterior: its counts can be weighted."""

    def uniforms(self, block: Batch, warm: Fields | None) -> Array:
        """Random numbers of a block's rows, whatever their weights."""
        assert warm is not None
        return warm["uniform"]


LocalStep = Expected | Best | Drawn
