"""Rules: how counts become potentials; which local step and which bound an algorithm has."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from stickbreak.data import Batch
from stickbreak.errors import NumericalError
from stickbreak.protocols import Pool, Watch
from stickbreak.stats import Fields, Summary

from .random_streams import DRAWS

if TYPE_CHECKING:
    from stickbreak.models import Model, ModelPotentials

    from .engine import Data
    from .state import Start

__all__ = ["BaseRule", "Draw", "Hard", "LogMean", "MeanLog", "Mode", "WindowMeanLog"]


class BaseRule:
    """How counts become potentials, which local step a visit takes, and which bound applies."""

    continues: ClassVar[bool] = False
    """Whether units always continue from their values, and never begin afresh."""

    is_predictive: ClassVar[bool] = False
    """Whether parameters are integrated out, so that a unit is to be judged by all others."""

    is_variational: ClassVar[bool] = False
    """Whether `bound` is a lower bound on the evidence of data, whatever the units' posteriors."""

    monitor: ClassVar[str] = ""
    """What the log normalizers of a lap are, if a fit ends by them and readers may want them."""

    @property
    def objective(self) -> str:
        """Name of what `bound` computes; empty if there is none."""
        return ""

    def pick(self, table: Any) -> Callable[..., Any]:
        """The method of a family or table that makes this rule's potentials."""
        raise NotImplementedError

    def at(self, seed: int, step: int) -> BaseRule:
        """The rule for one visit. The same for all, if it uses no random numbers."""
        return self

    def seen_once(self, model: Model) -> BaseRule:
        """The rule for units that are visited once, in a stream. By default the same."""
        return self

    def potentials(self, model: Model, counts: Summary, params: Fields) -> ModelPotentials:
        """The model's potentials under this rule."""
        return model.potentials(counts, params, self)

    def keeps(self, model: Model, batch: Batch, n_components: int) -> Fields | None:
        """The values that units keep from visit to visit, before the first; None for none."""
        return model.structure.cold_start(batch, n_components, model.axis)

    def begin(self, model: Model, data: Data, start: Start, pool: Pool) -> Start:
        """The start, without values of units that visits cannot continue from."""
        if start.warm is None:
            return start
        kept = self.keeps(model, data.whole(), start.seed.size(model.axis))
        is_ours = kept is not None and dict(kept.layout) == dict(start.warm.layout)
        return start if is_ours else replace(start, warm=None)

    def others(self, model: Model, counts: Summary, old: Summary | None) -> Summary:
        """The counts that a batch's potentials are made from: by default all.

        old : those of the batch at its last visit
        """
        return counts

    def local_model(self, model: Model) -> Model:
        """The model whose local step the rule takes."""
        return model

    def global_step(self, model: Model, total: Summary, params: Fields) -> Fields:
        """Updated parameters that are not functions of the counts."""
        return model.global_step(total, params)

    def n_used(self, model: Model, total: Summary) -> int | None:
        """Components that hold rows; None if rows are divided among components."""
        return None

    def moved(self, model: Model, old: Fields | None, new: Fields | None) -> float | None:
        """Expected rows of a batch in another component than before the visit, if measured.

        old, new : values of its units
        """
        return None

    def accepted(self, warm: Fields | None) -> tuple[float, float]:
        """(proposed, accepted) trees of a visit, or restarts of documents; zeros for others.

        warm : values of its units
        """
        if warm is None or "tried" not in warm:
            return 0.0, 0.0
        return float(warm["tried"].sum()), float(warm["accepted"].sum())

    def visit(
        self,
        model: Model,
        counts: Summary,
        params: Fields,
        batch: Batch,
        warm: Fields | None,
        watches: Sequence[Watch],
        pool: Pool,
    ) -> tuple[Summary, Fields | None]:
        """Counts of one batch under the potentials of `counts`."""
        potentials = self.potentials(model, counts, params)
        watches = [w.at(model, counts, batch, self) for w in watches]
        found, warm = self.local_model(model).local_step(potentials, batch, warm, watches, pool)
        self.check(found)
        return found, warm

    def bound(self, model: Model, total: Summary, params: Fields) -> float | None:
        """The whole-data objective; None if there is none."""
        raise NotImplementedError

    def check(self, found: Summary) -> None:
        """Raise NumericalError if the local bound is not finite."""
        if not math.isfinite(found.local_bound):
            raise NumericalError(
                f"the local bound is {found.local_bound}; check the data's scale "
                "and the family's prior"
            )

    def learn(self, model: Model, total: Summary) -> Model:
        """The model itself: without a bound, nothing tells which hyperparameters are better.

        Modes and predictives have no such bound.
        """
        return model


@dataclass(frozen=True)
class MeanLog(BaseRule):
    """Expected log: variational Bayes."""

    is_variational = True

    @property
    def objective(self) -> str:
        """The bound on the log evidence."""
        return "bound"

    def pick(self, table: Any) -> Callable[..., Any]:
        """`mean_log` of a family or table."""
        return table.mean_log

    def bound(self, model: Model, total: Summary, params: Fields) -> float | None:
        """The whole-data bound."""
        return float(model.bound(total, params))

    def learn(self, model: Model, total: Summary) -> Model:
        """The model with learned priors, which raise the bound."""
        return model.learn(total)


@dataclass(frozen=True)
class InWindows(BaseRule):
    """A rule for windows of sequences that begin anywhere, beside the rule for whole ones."""

    def potentials(self, model: Model, counts: Summary, params: Fields) -> ModelPotentials:
        """Potentials of whole sequences, and those of window starts."""
        return model.window_potentials(counts, params, self)


@dataclass(frozen=True)
class WindowMeanLog(InWindows, MeanLog):
    """Expected log, for windows of sequences that begin anywhere."""


@dataclass(frozen=True)
class Mode(BaseRule):
    """Mode in natural coordinates: EM. A flat prior gives maximum likelihood."""

    @property
    def objective(self) -> str:
        """The log joint density at the mode."""
        return "log joint"

    def pick(self, table: Any) -> Callable[..., Any]:
        """`mode` of a family or table."""
        return table.mode

    def bound(self, model: Model, total: Summary, params: Fields) -> float | None:
        """EM's objective: largest log joint plus entropy of the labels, up to a constant.

        The constant is one of the prior.
        """
        return float(model.log_mode(total, params))


@dataclass(frozen=True)
class LogMean(BaseRule):
    """Posterior predictive, own counts included. There is no bound.

    For held-out scores and stochastic collapsed inference.
    """

    def pick(self, table: Any) -> Callable[..., Any]:
        """`log_mean` of a family or table."""
        return table.log_mean

    def visit(
        self,
        model: Model,
        counts: Summary,
        params: Fields,
        batch: Batch,
        warm: Fields | None,
        watches: Sequence[Watch],
        pool: Pool,
    ) -> tuple[Summary, Fields | None]:
        """Counts of one batch, without a local bound: sums do not tell it for all families."""
        found, warm = super().visit(model, counts, params, batch, warm, watches, pool)
        return replace(found, local_bound=0.0), warm

    def check(self, found: Summary) -> None:
        """There is no bound to check."""

    def learn(self, model: Model, total: Summary) -> Model:
        """The model with a learned base of symbols, if it has counts for one."""
        return model.learn(total) if model.family.learns_collapsed else model

    def bound(self, model: Model, total: Summary, params: Fields) -> float | None:
        """None: log_z of a batch is a predictive monitor."""
        return None


@dataclass(frozen=True)
class Hard(BaseRule):
    """Wraps a rule: the best labeling instead of the expectation.

    Hard(Mode()) is Bregman k-means.
    """

    rule: BaseRule

    @property
    def objective(self) -> str:
        """As the wrapped rule, of the best labels."""
        return f"{self.rule.objective} of the best labels"

    def pick(self, table: Any) -> Callable[..., Any]:
        """As the wrapped rule."""
        return self.rule.pick(table)

    def local_model(self, model: Model) -> Model:
        """The model whose local step takes the best labeling."""
        return model.best_only()

    def bound(self, model: Model, total: Summary, params: Fields) -> float | None:
        """The wrapped rule's objective; the labels have no entropy."""
        return self.rule.bound(model, total, params)


@dataclass(frozen=True, eq=False)
class Draw(BaseRule):
    """A sample: parameters and labels drawn in turn, each given the other. Gibbs sampling.

    Without random numbers (`rng` None, as for readers of a fitted model), potentials are those of
    the posterior predictive given the last labels, and the local step is the expectation.
    """

    rng: np.random.Generator | None = None

    @property
    def continues(self) -> bool:  # type: ignore[override]
        """Whether units continue from their last labels: in fits; readers see none."""
        return self.rng is not None

    @property
    def objective(self) -> str:
        """Log joint of data and labels, with parameters of components and rows integrated out."""
        return "log joint"

    def at(self, seed: int, step: int) -> Draw:
        """The rule with the random numbers of one visit, which depend on seed and step only."""
        return Draw(np.random.default_rng([seed, DRAWS, step]))

    def pick(self, table: Any) -> Callable[..., Any]:
        """`draw` of a family or table; `log_mean` for readers."""
        return table.log_mean if self.rng is None else partial(table.draw, rng=self.rng)

    def local_model(self, model: Model) -> Model:
        """The model that draws labels."""
        return model if self.rng is None else model.drawing(self.rng)

    def keeps(self, model: Model, batch: Batch, n_components: int) -> Fields | None:
        """What units keep of their last labels."""
        return model.structure.drawn_start(batch, n_components, model.axis)

    def visit(
        self,
        model: Model,
        counts: Summary,
        params: Fields,
        batch: Batch,
        warm: Fields | None,
        watches: Sequence[Watch],
        pool: Pool,
    ) -> tuple[Summary, Fields | None]:
        """Counts of labels drawn under parameters drawn given `counts`; no local bound."""
        warm = None if self.rng is None else warm
        found, warm = super().visit(model, counts, params, batch, warm, watches, pool)
        kept = None if warm is None else self.local_model(model).step.kept(warm)
        return replace(found, local_bound=0.0), kept

    def check(self, found: Summary) -> None:
        """There is no bound to check."""

    def global_step(self, model: Model, total: Summary, params: Fields) -> Fields:
        """Draw the parameters, once a visit. Unchanged at the end of a lap."""
        return params if self.rng is None else model.redraw(total, params, self.rng)

    def bound(self, model: Model, total: Summary, params: Fields) -> float | None:
        """The log joint of data, labels and stored values (a root): not a bound, may fall."""
        return float(model.bound(total, params))

    def n_used(self, model: Model, total: Summary) -> int | None:
        """Components that hold at least one row."""
        return int(model.n_used(total))
