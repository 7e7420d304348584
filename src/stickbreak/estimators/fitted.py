"""The result of a fit as one value, and the attributes that estimators show of it.

Answers, files, streams and pictures are functions of a `Fitted`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from stickbreak.data import Batch, Links, Table
from stickbreak.families import Categorical
from stickbreak.inference import Engine, Result, Trace, workers
from stickbreak.inference.rules import BaseRule
from stickbreak.models import Model, ModelPotentials
from stickbreak.moves import explain
from stickbreak.priors import GammaPrior
from stickbreak.protocols import Pool
from stickbreak.reading import Categories, Schema, Shape
from stickbreak.stats import SYMBOL, Array, Fields, Summary

__all__ = ["Fitted", "Learned", "interval_of", "number_of", "with_words"]


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted model. `fit`, `resume`, `partial_fit` and `load` each make one.

    model : with the hyperparameters that were learned
    counts, params : expected counts, and parameters that are not functions of them
    ids, next_id : permanent ids of the components, and of the next one to be born
    n_steps, trace, bound, is_converged : how the fit went
    engine : the engine that fitted it, without callbacks
    schema : columns, categories and vocabulary of the data
    shape : how sequences were given; None for other data
    labels : (n,) best component of each training row; None if not kept
    data : training rows that stay on disk; None for rows in memory
    reverse : of sentence pairs, the same with their sides exchanged; None if there is none
    links : of the sentence pairs of the fit; None if not kept
    names : the user's names of components, by permanent id
    starts : (bound, components, laps) of each start of the fit, where there were several
    """

    model: Model
    counts: Summary
    params: Fields
    ids: tuple[int, ...]
    next_id: int
    n_steps: int
    trace: Trace
    bound: float
    is_converged: bool
    engine: Engine
    schema: Schema
    shape: Shape | None = None
    labels: Array | None = None
    data: Table | None = None
    reverse: Fitted | None = None
    links: Links | None = None
    names: Mapping[int, str] = field(default_factory=dict)
    starts: tuple[tuple[float, int, int], ...] = ()

    @classmethod
    def from_result(cls, result: Result, engine: Engine, schema: Schema) -> Fitted:
        """The result of an engine's run."""
        return cls(
            result.model,
            result.counts,
            result.params,
            tuple(int(i) for i in result.ids),
            int(result.next_id),
            int(result.n_steps),
            result.trace,
            result.bound,
            result.is_converged,
            replace(engine, callbacks=()),
            schema,
        )

    @cached_property
    def rule(self) -> BaseRule:
        """The rule of the fit."""
        return self.engine.rule()

    @cached_property
    def weights(self) -> Array:
        """(K,) posterior mean shares of the components, which sum to one."""
        share = self.model.prior.mean(self.counts, self.params)
        return np.asarray(share / share.sum())

    @property
    def local_model(self) -> Model:
        """The model with the local step of the rule, for answers about rows."""
        return self.rule.local_model(self.model)

    def posterior(self) -> dict[str, Array]:
        """Posterior summaries of the components by name, component axis first."""
        return dict(self.model.family.describe(self.counts))

    def potentials(self) -> ModelPotentials:
        """Potentials under the rule of the fit, with its legal sets."""
        return self.model.potentials(self.counts, self.params, self.rule)

    def predictive(self) -> ModelPotentials:
        """Potentials at posterior mean weights, with the posterior predictive of rows."""
        return self.model.predictive(self.counts, self.params)


def with_words(fitted: Fitted, schema: Schema) -> Fitted:
    """The same fit with a larger vocabulary; new words have no counts."""
    n_new = schema.n_features - fitted.schema.n_features
    if not n_new:
        return fitted
    assert isinstance(fitted.model.family, Categorical)
    family = replace(fitted.model.family, n_symbols=(schema.n_features,))
    model = replace(fitted.model, family=family)
    return replace(fitted, model=model, counts=fitted.counts.insert(SYMBOL, n_new), schema=schema)


def number_of(concentration: float | GammaPrior) -> float:
    """A known number, or the mean of a posterior."""
    return float(concentration.mean if isinstance(concentration, GammaPrior) else concentration)


def interval_of(concentration: float | GammaPrior) -> Array:
    """(2,) central 95 % interval of a posterior; for a known number, that number twice."""
    if isinstance(concentration, GammaPrior):
        return concentration.quantile([0.025, 0.975])
    return np.full(2, float(concentration))


class Learned:
    """Attributes that end in an underscore: what an estimator shows of its `Fitted`."""

    _fitted: Fitted | None = None
    n_jobs: int | None

    def _require_fitted(self) -> Fitted:
        if self._fitted is None:
            from sklearn.exceptions import NotFittedError

            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit first")
        return self._fitted

    def _decode(
        self, fitted: Fitted, potentials: ModelPotentials, batch: Batch, pool: Pool
    ) -> Array:
        """(n,) best component of each row, by the local step of the fitted rule."""
        return np.asarray(fitted.local_model.decode(potentials, batch, pool))

    @property
    def n_components_(self) -> int:
        """Number of components."""
        return len(self._require_fitted().ids)

    @property
    def component_ids_(self) -> Array:
        """(K,) permanent ids of the components."""
        return np.array(self._require_fitted().ids)

    @property
    def weights_(self) -> Array:
        """(K,) posterior mean weights, which sum to one."""
        return self._require_fitted().weights

    @property
    def lower_bound_(self) -> float:
        """Bound of the whole data, in nats."""
        return self._require_fitted().bound

    @property
    def trace_(self) -> Trace:
        """History of the fit, lap by lap."""
        return self._require_fitted().trace

    @property
    def converged_(self) -> bool:
        """Whether the bound settled."""
        return self._require_fitted().is_converged

    @property
    def n_iter_(self) -> int:
        """Laps of the fit."""
        return len(self.trace_)

    @property
    def n_features_in_(self) -> int:
        """Columns of the data; words of a vocabulary."""
        return self._require_fitted().schema.n_features

    @property
    def feature_names_in_(self) -> Array:
        """Names of the columns, or the words; AttributeError if the data have none."""
        schema = self._require_fitted().schema
        if schema.names is None:
            raise AttributeError("the data of the fit have no names of columns")
        return schema.name_array

    @property
    def categories_(self) -> Categories:
        """Dict from each column of strings or categories to the list of its categories."""
        return self._require_fitted().schema.categories

    @property
    def labels_(self) -> Any:
        """(n,) best component of each training row.

        For data on disk they are computed at every access.
        """
        fitted = self._require_fitted()
        if fitted.labels is not None:
            return fitted.labels
        if fitted.data is None:
            raise AttributeError("labels_ are not kept in files; use predict(X)")
        potentials = fitted.potentials()
        with workers(self.n_jobs) as pool:
            batches = fitted.data.in_order()
            return np.concatenate([self._decode(fitted, potentials, b, pool) for b in batches])

    @property
    def counts_(self) -> Array:
        """(K,) expected number of training rows of each component."""
        fitted = self._require_fitted()
        return np.array(fitted.model.prior.sizes(fitted.counts))

    @property
    def n_effective_(self) -> int:
        """Components that hold at least one training row in expectation.

        A component may win a row with less (then `labels_` still names it), or hold parts of many
        rows and win none.
        """
        return int((self.counts_ >= 1.0).sum())

    def n_covering(self, share: float = 0.99) -> int:
        """Smallest number of components that hold this share of the training rows.

        Unlike `n_effective_`, it does not count components with a few rows of very many.
        """
        if not 0.0 < share <= 1.0:
            raise ValueError(f"share must be above 0 and at most 1; got {share!r}")
        held = np.sort(self.counts_)[::-1].cumsum()
        return int(np.searchsorted(held, share * held[-1] * (1.0 - 1e-12)) + 1)

    @property
    def family_(self) -> Any:
        """The family with its prior: given, set from the data, or learned with `learn_prior`."""
        return self._require_fitted().model.family

    @property
    def posterior_(self) -> dict[str, Array]:
        """Posterior summaries of the components by name, in the data's units.

        The component axis comes first.
        """
        return self._require_fitted().posterior()

    @property
    def means_(self) -> Array:
        """(K, D) posterior means, for Gaussian families."""
        return self._summary("mean")

    @property
    def covariances_(self) -> Array:
        """(K, D, D) posterior expected covariances, or (K, D) variances, for Gaussian families."""
        return self._summary("covariance", "variance")

    def _summary(self, *names: str) -> Array:
        found = self.posterior_
        for name in names:
            if name in found:
                return found[name]
        raise AttributeError(
            f"{type(self.family_).__name__} has no {names[0]}; posterior_ holds {sorted(found)}"
        )

    def explain_moves(self) -> str:
        """Text about which births, merges and deletes were tried and accepted, with their gains.

        It begins with a summary: all of them, their gain, and their share of the time.
        """
        fitted = self._require_fitted()
        named = [fitted.ids[k] for k in sorted(fitted.model.named(fitted.params))]
        trace = fitted.trace
        share = trace.seconds_of_moves / trace.seconds_of_fit if trace.seconds_of_fit else None
        return explain(trace.moves, self.component_ids_, named, share)
