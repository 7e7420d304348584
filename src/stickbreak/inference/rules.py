"""Rules: how counts become potentials, and with it the local step and the bound of an algorithm."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from stickbreak.data import Batch
from stickbreak.errors import NumericalError
from stickbreak.protocols import Pool, Watch
from stickbreak.stats import Fields, Summary

from .random_streams import DRAWS

if TYPE_CHECKING:
    from stickbreak.models import Model, ModelPotentials

__all__ = ["BaseRule", "Draw", "Hard", "LogMean", "MeanLog", "Mode", "WindowMeanLog"]


class BaseRule:
    """How counts become potentials, which local step a visit takes, which bound there is."""

    @property
    def objective(self) -> str:
        """What `bound` gives, in words; empty for rules without one."""
        return ""

    def pick(self, table: Any) -> Callable[..., Any]:
        """The method of a family or table that makes this rule's potentials."""
        raise NotImplementedError

    def at(self, seed: int, step: int) -> BaseRule:
        """The same for every visit: no random numbers are used."""
        return self

    def potentials(self, model: Model, counts: Summary, params: Fields) -> ModelPotentials:
        """The model's, under this rule."""
        return model.potentials(counts, params, self)

    def local_model(self, model: Model) -> Model:
        """The model whose local step the rule takes."""
        return model

    def global_step(self, model: Model, total: Summary, params: Fields) -> Fields:
        """Parameters that are not functions of the counts, refreshed."""
        return model.global_step(total, params)

    def n_used(self, model: Model, total: Summary) -> int | None:
        """Rows are shared out: components hold parts of them."""
        return None

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
        """The whole-data objective, or None where there is none."""
        raise NotImplementedError

    def check(self, found: Summary) -> None:
        """Rules with a bound refuse one that is not a number."""
        if not math.isfinite(found.local_bound):
            raise NumericalError(
                f"the local bound is {found.local_bound}; check the data's scale "
                "and the family's prior"
            )

    def learn(self, model: Model, total: Summary) -> Model:
        """Hyperparameters stay: modes and predictives have no bound that could say which are
        better.
        """
        return model


@dataclass(frozen=True)
class MeanLog(BaseRule):
    """Expected log: variational Bayes."""

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
        """What the model learns of its priors raises the bound."""
        return model.learn(total)


@dataclass(frozen=True)
class WindowMeanLog(MeanLog):
    """Expected log, for windows of sequences that begin anywhere."""

    def potentials(self, model: Model, counts: Summary, params: Fields) -> ModelPotentials:
        """Those of whole sequences, and where windows begin."""
        return model.window_potentials(counts, params, self)


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
        """EM's objective: largest log joint plus the entropy of the labels, up to a constant of the
        prior.
        """
        return float(model.log_mode(total, params))


@dataclass(frozen=True)
class LogMean(BaseRule):
    """Posterior predictive, own counts included: held-out scores, stochastic collapsed inference.
    There is no bound.
    """

    def pick(self, table: Any) -> Callable[..., Any]:
        """`log_mean` of a family or table."""
        return table.log_mean

    def check(self, found: Summary) -> None:
        """There is no bound to check."""

    def bound(self, model: Model, total: Summary, params: Fields) -> float | None:
        """None: log_z of a batch is a predictive monitor."""
        return None


@dataclass(frozen=True)
class Hard(BaseRule):
    """Wraps a rule: the best labelling instead of the expectation. Hard(Mode()) is Bregman
    k-means.
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
        """The model that decodes."""
        return model.best_only()

    def bound(self, model: Model, total: Summary, params: Fields) -> float | None:
        """The wrapped rule's objective; the labels have no entropy."""
        return self.rule.bound(model, total, params)


@dataclass(frozen=True, eq=False)
class Draw(BaseRule):
    """A sample: parameters and labels drawn in turn, each given the other. Gibbs sampling.

    Without random numbers (`rng` None, as readers of a fitted model have it) potentials are those
    of the posterior predictive given the last labels, and the local step is the expectation.
    """

    rng: np.random.Generator | None = None

    @property
    def objective(self) -> str:
        """Log joint probability of data and labels, parameters of components and rows integrated
        out.
        """
        return "log joint"

    def at(self, seed: int, step: int) -> Draw:
        """The draws of one visit depend on the seed and its number alone."""
        return Draw(np.random.default_rng([seed, DRAWS, step]))

    def pick(self, table: Any) -> Callable[..., Any]:
        """`draw` of a family or table; `log_mean` for readers."""
        return table.log_mean if self.rng is None else partial(table.draw, rng=self.rng)

    def local_model(self, model: Model) -> Model:
        """The model that draws labels."""
        return model if self.rng is None else model.drawing(self.rng)

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
        """Counts of labels drawn under parameters drawn given `counts`. There is no local part of a
        bound.
        """
        found, _ = super().visit(model, counts, params, batch, None, watches, pool)
        return replace(found, local_bound=0.0), None

    def check(self, found: Summary) -> None:
        """There is no bound to check."""

    def global_step(self, model: Model, total: Summary, params: Fields) -> Fields:
        """Drawn once a visit; the end of a lap changes nothing."""
        return params if self.rng is None else model.redraw(total, params, self.rng)

    def bound(self, model: Model, total: Summary, params: Fields) -> float | None:
        """The log joint of data, labels and what is stored (a root): no bound, and it goes up and
        down.
        """
        return float(model.bound(total, params))

    def n_used(self, model: Model, total: Summary) -> int | None:
        """Components that hold at least one row."""
        return int(model.n_used(total))
