"""Passes over the units that a trial touches. All others keep their posteriors, see `posteriors`.

The total is that of all data, so the bound of every pass is exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stickbreak.inference.posteriors import Inferred, Layer, Part, infer
from stickbreak.protocols import Pool, Revisit
from stickbreak.stats import Fields, Summary, Tally

from .little_fits import Goal

if TYPE_CHECKING:
    from stickbreak.models import Model

__all__ = ["PartialFit"]


@dataclass
class PartialFit:
    """A fit of the units of a part, from counts of all data.

    total, params, bound : of all data, after the last pass
    source, start, found : of the last pass: counts and parameters that its potentials were made
        of, values that units started from, and what it found
    layers : of all other units
    is_settled : whether units with values of their own no longer start afresh
    n_infers : how often the units were inferred
    scale : units that each unit of the part stands for
    """

    model: Model
    part: Part
    total: Summary
    params: Fields
    pool: Pool
    bound: float = -float("inf")
    source: tuple[Summary, Fields] | None = None
    start: Fields | None = None
    found: Inferred | None = None
    layers: tuple[Layer, ...] = ()
    is_settled: bool = False
    n_infers: int = 0
    scale: float = 1.0

    def run(self, n_passes: int, goal: Goal, tol: float, enough: float = float("inf")) -> None:
        """Passes until there is no hope, or until one changes the bound by less than tol.

        enough : a bound that needs no further pass
        """
        goal.max_iter, K = n_passes, self.total.size(self.model.axis)
        for lap in range(1, n_passes + 1):
            before = self.bound
            self._pass()
            is_done = self.bound >= enough or abs(self.bound - before) < tol
            if is_done or goal.is_hopeless(lap, self.bound, K):
                break

    def _pass(self) -> None:
        """Local step of the part, then globals. Its units may try a cold start first."""
        model, kept = self.model, None if self.found is None else self.found.warm
        self.source = self.total, self.params
        self.layers = self.part.others(model, self.params, self.total, self.layers)
        if kept is None or self.is_settled:
            self._infer(kept)
        else:
            visit = Revisit(self._infer, kept, self._improves)
            self.is_settled = model.structure.revisit(visit)[2]
        assert self.found is not None
        total = self._with_others(self.found.counts)
        params = model.global_step(total, self.params)
        for edit in model.upkeep(total):
            total, params = edit(total), edit(params)
        self.total, self.params = total, params
        self.bound = float(model.bound(total, params))

    def _infer(self, start: Fields | None) -> tuple[Summary, Fields | None]:
        assert self.source is not None
        found = infer(self.model, *self.source, self.part.batches, start, self.pool)
        self.start, self.found, self.n_infers = start, found, self.n_infers + 1
        return found.counts, found.warm

    def _with_others(self, counts: Summary) -> Summary:
        total = Tally(self.total.empty())
        for layer in self.layers:
            total.add(layer.counts)
        return total.add(counts if self.scale == 1.0 else counts.scale(self.scale)).summary()

    def _improves(self, counts: Summary) -> bool:
        bound = self.model.bound
        return bool(bound(self._with_others(counts), self.params) > bound(self.total, self.params))
