"""Rules: how counts become potentials, and with it the local step and the bound of an algorithm."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from stickbreak.data import Batch
from stickbreak.errors import NumericalError
from stickbreak.protocols import Pool, Rule, Watch
from stickbreak.stats import Fields, Summary

__all__ = ["Hard", "LogMean", "MeanLog", "Mode"]


class _BaseRule:
    """What rules share: a visit makes potentials from the counts, then takes the model's local step."""

    @property
    def objective(self) -> str:
        """What `bound` gives, in words; empty for rules without one."""
        return ""

    def pick(self, table: Any) -> Callable[..., Any]:
        """The method of a family or table that makes this rule's potentials."""
        raise NotImplementedError

    def local_model(self, model: Any) -> Any:
        """The model whose local step the rule takes."""
        return model

    def visit(
        self, model: Any, counts: Summary, params: Fields, batch: Batch, warm: Fields | None, watches: Sequence[Watch], pool: Pool
    ) -> tuple[Summary, Fields | None]:
        """Counts of one batch under the potentials of `counts`."""
        potentials = model.potentials(counts, params, self)
        watches = [w.at(model, counts, batch, self) for w in watches]
        found, warm = self.local_model(model).local_step(potentials, batch, warm, watches, pool)
        self.check(found)
        return found, warm

    def bound(self, model: Any, total: Summary, params: Fields) -> float | None:
        """The whole-data objective, or None where there is none."""
        raise NotImplementedError

    def check(self, found: Summary) -> None:
        """Rules with a bound refuse one that is not a number."""
        if not math.isfinite(found.local_bound):
            raise NumericalError(f"the local bound is {found.local_bound}; check the data's scale and the family's prior")

    def learn(self, model: Any, total: Summary) -> Any:
        """Hyperparameters stay: modes and predictives have no bound that could say which are better."""
        return model


@dataclass(frozen=True)
class MeanLog(_BaseRule):
    """Expected log: variational Bayes."""

    @property
    def objective(self) -> str:
        """The bound on the log evidence."""
        return "bound"

    def pick(self, table: Any) -> Callable[..., Any]:
        """`mean_log` of a family or table."""
        return table.mean_log

    def bound(self, model: Any, total: Summary, params: Fields) -> float | None:
        """The whole-data bound."""
        return float(model.bound(total, params))

    def learn(self, model: Any, total: Summary) -> Any:
        """What the model learns of its priors raises the bound."""
        return model.learn(total)


@dataclass(frozen=True)
class Mode(_BaseRule):
    """Mode in natural coordinates: EM. A flat prior gives maximum likelihood."""

    @property
    def objective(self) -> str:
        """The log joint density at the mode."""
        return "log joint"

    def pick(self, table: Any) -> Callable[..., Any]:
        """`mode` of a family or table."""
        return table.mode

    def bound(self, model: Any, total: Summary, params: Fields) -> float | None:
        """EM's objective: largest log joint plus the entropy of the labels, up to a constant of the prior."""
        return float(model.log_mode(total, params))


@dataclass(frozen=True)
class LogMean(_BaseRule):
    """Posterior predictive, own counts included: held-out scores, stochastic collapsed inference. There is no bound."""

    def pick(self, table: Any) -> Callable[..., Any]:
        """`log_mean` of a family or table."""
        return table.log_mean

    def check(self, found: Summary) -> None:
        """There is no bound to check."""

    def bound(self, model: Any, total: Summary, params: Fields) -> float | None:
        """None: log_z of a batch is a predictive monitor."""
        return None


@dataclass(frozen=True)
class Hard(_BaseRule):
    """Wraps a rule: the best labelling instead of the expectation. Hard(Mode()) is Bregman k-means."""

    rule: Rule

    @property
    def objective(self) -> str:
        """As the wrapped rule, of the best labels."""
        return f"{self.rule.objective} of the best labels"

    def pick(self, table: Any) -> Callable[..., Any]:
        """As the wrapped rule."""
        return self.rule.pick(table)

    def local_model(self, model: Any) -> Any:
        """The model that decodes."""
        return model.best_only()

    def bound(self, model: Any, total: Summary, params: Fields) -> float | None:
        """The wrapped rule's objective; the labels have no entropy."""
        return self.rule.bound(model, total, params)
