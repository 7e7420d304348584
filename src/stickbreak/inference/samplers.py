"""Engines that draw from the posterior: blocked and collapsed Gibbs sampling."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar

from .accumulate import Accumulator, Memoized
from .collapsed_gibbs import DrawOwn
from .engine import Data, Engine, Visits
from .plans import FixedBatches
from .rules import BaseRule, Draw
from .stopping import AllLaps, Stopping

if TYPE_CHECKING:
    from stickbreak.models import Model

__all__ = ["CollapsedGibbs", "Gibbs"]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class _Sampler(Engine):
    """What both samplers have: all laps are made, on one batch, in no order of components."""

    draws: ClassVar[bool] = True

    max_iter: int = 1000
    tol: float = 0.0
    reorder: bool = False

    def check(self) -> None:
        """Check the settings that a sampler cannot have too."""
        super().check()
        name = type(self).__name__
        if self.tol != 0:
            raise ValueError(
                f"{name} makes max_iter sweeps and does not stop by itself: tol must "
                f"be 0; got {self.tol!r}"
            )
        if self.reorder:
            raise ValueError(f"{name} draws components in any order: reorder must be False")

    def accumulator(self, data: Data) -> Accumulator:
        """The labels of this sweep replace those of the last."""
        return Memoized()

    def stopping(self) -> Stopping:
        """After all sweeps."""
        return AllLaps(self.max_iter)

    def plan(self, data: Data) -> Visits:
        """One batch."""
        return FixedBatches(data.batches(1))


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Gibbs(_Sampler):
    """Blocked Gibbs sampling: parameters given all labels, then labels given the parameters.

    The labels of a whole sequence are drawn together. Of documents, the shares are drawn given the
    last labels, then the labels of all words. Each lap is a sweep. A (sticky) HDP is sampled in its
    weak limit: as many components as the fit begins with, and a root that is drawn too.

    The result is the last sweep, a draw from the posterior and not an optimum. Its counts are those
    of the labels, and readers of the model see the posterior given them. There is no bound:
    `trace_.bound` and `lower_bound_` hold the log joint of data and labels, which goes up and down;
    `trace_.n_used` holds the number of components that hold rows.

    Parameters
    ----------
    slices : hidden Markov models only: paths are drawn within random slices of the last paths (beam
        sampling), which has the same posterior. A sweep goes over the larger transitions only,
        fewer with many states and sparse rows, and changes less. `trace_.log_z` is then the log
        weight of the paths, and sequences are never cut: a long one needs memory for all its rows.
    max_iter : sweeps. All are made.
    tol : must be 0: a sampler does not stop by itself.
    reorder : must be False: a sorted order is not a draw.
    trace_visits, checkpoint, checkpoint_every, callbacks : see `Engine`.
    """

    slices: bool = False

    def check(self) -> None:
        """Check slices too."""
        super().check()
        if not isinstance(self.slices, bool):
            raise ValueError(f"slices must be True or False; got {self.slices!r}")

    def adapt(self, model: Model) -> Model:
        """The model with a prior whose parameters can be drawn."""
        model = model.for_draws()
        return replace(model, structure=model.structure.sliced()) if self.slices else model

    def rule(self) -> BaseRule:
        """A sample."""
        return Draw()


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class CollapsedGibbs(_Sampler):
    """Collapsed Gibbs sampling: parameters integrated out, one label at a time given all others.

    For topic models, occurrence by occurrence of every word; for hidden Markov models of one column
    of symbols, and for mixtures, row by row. For grammars, sentence by sentence: a whole tree is
    proposed given the trees of all others, and accepted or not by Metropolis-Hastings
    (`trace_.acceptance`). An HDP is sampled in its weak limit, as by `Gibbs`, which is for all
    other models.

    Parts of the data that are swept in parallel (from 131,072 rows on, whatever `n_jobs` is)
    see each other's new labels at the next sweep only. Then draws are from the posterior
    approximately.

    The result is the last sweep, and `trace_` is as for `Gibbs`.

    Parameters
    ----------
    temperature : labels are drawn from the conditional probabilities to the power 1 / temperature.
        A pair (first, last) falls, or rises, from the first sweep to the last in geometric steps;
        (2.0, 0.08) ends near a mode. Default 1.0, the posterior.
    max_iter, tol, reorder : as in `Gibbs`.
    trace_visits, checkpoint, checkpoint_every, callbacks : see `Engine`.
    """

    temperature: float | tuple[float, float] = 1.0

    def check(self) -> None:
        """Check the temperature too."""
        super().check()
        self._temperatures()

    def _temperatures(self) -> tuple[float, float]:
        given: Any = self.temperature
        pair = (given, given) if isinstance(given, Real) else given
        if (
            not isinstance(pair, tuple | list)
            or len(pair) != 2
            or isinstance(given, bool)
            or not all(isinstance(t, Real) and 0 < float(t) < math.inf for t in pair)
        ):
            raise ValueError(
                "temperature must be a positive number, or a pair of them for the first and the "
                f"last sweep; got {given!r}"
            )
        return float(pair[0]), float(pair[1])

    def adapt(self, model: Model) -> Model:
        """The model with a prior whose parameters are integrated out or drawn."""
        if not model.sweeps_labels:
            remedy = "Gibbs" if model.structure.draws else "CollapsedVB"
            raise ValueError(
                f"CollapsedGibbs has no sweeps for {type(model.structure).__name__} with "
                f"{type(model.family).__name__}; use {remedy}"
            )
        return replace(model, prior=model.prior.for_draws())

    def rule(self) -> BaseRule:
        """A label given all others."""
        return DrawOwn(temperatures=self._temperatures(), n_laps=self.max_iter)
