"""Mixtures of rows in groups: one set of components, of which every group has shares of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np

from stickbreak.data import Table
from stickbreak.families.base import BaseFamily
from stickbreak.inference import BaseMove, Engine, Start
from stickbreak.initialize import from_plusplus, from_random, from_settled, from_ungrouped
from stickbreak.models import Model, hdp_mixture
from stickbreak.moves import Merge
from stickbreak.priors import GammaPrior
from stickbreak.progress import Phase
from stickbreak.protocols import Pool
from stickbreak.reading import (
    Given,
    Groups,
    Rows,
    Schema,
    Values,
    lagged_names,
    read_groups,
    stack_values,
)

from . import group_answers as answers
from .base import Estimator, RandomState
from .engine_choice import TRUNCATION, pick_engine
from .engine_runs import Task
from .fitted import Fitted
from .group_pictures import plot_groups
from .model_files import register
from .observed_groups import observe_groups, report_groups
from .root_numbers import top_concentration, top_interval, unit_concentration
from .searches import is_open
from .sequence_fits import ROUTED

__all__ = ["HDPMixture"]


@register
class HDPMixture(Estimator):
    """Hierarchical Dirichlet process mixture of rows in groups: finds the number of components.

    All groups (images with their patches, patients with their visits, shops with their sales) share
    the components, and each has shares of its own. The order of rows in a group does not matter. A
    fit begins with a mixture of all rows, and tries births, merges and deletes, each kept only if
    it raises the bound of the whole data; `explain_moves` tells what happened. With an engine that
    has none, the number is a truncation.

    Parameters
    ----------
    n_components : number of components to begin with; 1 leaves it to `init`.
    family : likelihood of a component, by name or as an object, as in `Mixture`. For documents of
        words, `HDPTopicModel` is faster.
    inference : engine; default `MemoizedVB()`, which has moves here.
    concentration : of groups around the shares that all have in common; small values give groups of
        few components. A number, or a `GammaPrior` to learn it. Default 1.
    top_concentration : of those shares; large values expect many components. A number or a
        `GammaPrior`. Default 10.
    root : "beta", whose bound can choose the number of components, or "point", a point estimate as
        in older work, which cannot.
    learn_prior, max_iter, tol, random_state : as in `Mixture`.
    init : where a fit begins, always with a mixture of all rows: "auto" is the better of two with
        25 components, settled on at most 5,000 rows, if there are moves and `n_components` is 1;
        else it is "k-means++". "random" takes random rows.
    n_init, n_jobs, warm_start, verbose : as in `Mixture`.

    Attributes
    ----------
    weights_, counts_ : (K,) share of each component in all groups; expected rows.
    labels_ : (n,) component of each training row, or a list where groups were a list.
    concentration_, top_concentration_, top_concentration_interval_ : as given, or as learned.
    posterior_, means_, covariances_, family_, component_ids_ : as in `Mixture`.
    lower_bound_, trace_, converged_, n_iter_ : likewise.
    n_features_in_, feature_names_in_, categories_ : likewise.

    Examples
    --------
    >>> import numpy as np, stickbreak as sb
    >>> rng = np.random.default_rng(0)
    >>> left, right = rng.normal(-5, 1, (9, 30, 2)), rng.normal(5, 1, (9, 30, 2))
    >>> groups = [*left, *right, *np.concatenate([left[:2], right[:2]], axis=1)]
    >>> model = sb.HDPMixture(random_state=0).fit(groups)
    >>> model.n_components_, np.sort(model.group_shares(groups[-1:])).round(1).tolist()
    (2, [[0.5, 0.5]])
    """

    PRIOR = ("concentration", "top_concentration", "root")
    INITS = ("auto", "k-means++", "random")
    _is_unbounded = True
    root: str
    __metadata_request__fit: ClassVar = ROUTED
    __metadata_request__partial_fit: ClassVar = ROUTED
    __metadata_request__predict: ClassVar = ROUTED
    __metadata_request__predict_proba: ClassVar = ROUTED
    __metadata_request__score: ClassVar = ROUTED

    def __init__(
        self,
        n_components: int = 1,
        *,
        family: str | BaseFamily = "gaussian",
        inference: str | Engine | None = None,
        concentration: float | GammaPrior = 1.0,
        top_concentration: float | GammaPrior = 10.0,
        root: str = "beta",
        learn_prior: bool = False,
        max_iter: int | None = None,
        tol: float | None = None,
        random_state: RandomState = None,
        init: str = "auto",
        n_init: int = 1,
        n_jobs: int | None = None,
        warm_start: bool = False,
        verbose: int = 0,
    ) -> None:
        self._store(locals())

    predict = answers.predict
    predict_proba = answers.predict_proba
    group_shares = answers.group_shares
    impute = answers.impute
    score_samples = answers.score_samples
    score_groups = answers.score_groups
    score = answers.score
    sample = answers.sample
    plot = plot_groups
    report = report_groups
    _observe = observe_groups
    concentration_ = property(unit_concentration)
    top_concentration_ = property(top_concentration)
    top_concentration_interval_ = property(top_interval)

    def _make_model(self, family: BaseFamily, prior: Mapping[str, Any]) -> Model:
        return hdp_mixture(family, **prior, learns=self.learn_prior)

    def _check_arguments(self) -> None:
        super()._check_arguments()
        self._make_model(self._make_family(), self._prior_of(self))

    def _recommended_moves(self) -> tuple[BaseMove, ...]:
        # the bound of a point estimate cannot choose the number of components
        return super()._recommended_moves() if self.root == "beta" else ()

    def _starts_differ(self) -> bool:
        return self.init == "auto"

    def _n_items(self, table: Table) -> int:
        return table.n_rows

    def _read(
        self, given: Given, family: BaseFamily, schema: Schema | None
    ) -> tuple[Groups, Schema]:
        return read_groups(given, family, schema)

    def _limit(self, task: Task, given: Given) -> Task:
        if given.labels is None:
            return task
        assert isinstance(task.table, Groups)
        shape = task.table.shape
        labels = stack_values("labels", given.labels, shape)[shape.is_modelled]
        return self._with_sets(task, self._sets_of_labels(labels, task))

    def _use(self, given: Given) -> tuple[Fitted, Groups]:
        return super()._use(given)

    def _seed(self, model: Model, task: Task, rng: np.random.Generator, pool: Pool) -> Start:
        table, K, legal = task.table, task.n_components, task.legal
        assert isinstance(table, Groups)
        has_moves = bool(pick_engine(self, task.is_on_disk).mover().moves)
        make: Any = partial(from_plusplus, n_components=K, rng=rng, legal=legal, pool=pool)
        if self.init == "random":
            make = partial(from_random, n_components=K, rng=rng, legal=legal)
        elif self.init == "auto" and has_moves and legal is None and is_open(task):
            moves = (Merge(),)
            make = partial(from_settled, n_components=TRUNCATION, rng=rng, moves=moves, pool=pool)
        with Phase("looking for a start", bool(self.verbose)):
            return from_ungrouped(model, table.without_groups(), table.n_units, make, legal)

    # ------------------------------------------------------------------------------------ fits

    def fit(
        self,
        X: Rows,
        y: Values = None,
        *,
        lengths: Values = None,
        sequence_id: Values = None,
        labels: Values = None,
        sample_weight: Values = None,
    ) -> Self:
        """Fit to groups of rows.

        Parameters
        ----------
        X : a list of groups, each an array (T, D), a data frame or a CSR matrix; or all rows one
            after another, (n, D), as an array, data frame, CSR matrix, memory map or path to a
            file, with `lengths` or `sequence_id`; without either, one group. NaN is a missing
            entry.
        y : ignored, as in `HMM.fit`.
        lengths : (S,) rows of each group; they must sum to n.
        sequence_id : (n,) which group each row belongs to, rows of a group together; or the name of
            the column of a data frame or file that holds them.
        labels : known components of all rows, -1 where unknown: (n,), or a list of arrays where X
            is one. Value c names the component whose id is c.
        sample_weight : (S,) how often each group counts; or (n,), the same for all rows of a group.

        Returns
        -------
        self
        """
        where = {"lengths": lengths, "sequence_id": sequence_id}
        return self._fit(self._given(X, y, labels=labels, sample_weight=sample_weight, **where))

    def fit_predict(
        self,
        X: Rows,
        y: Values = None,
        *,
        lengths: Values = None,
        sequence_id: Values = None,
        labels: Values = None,
        sample_weight: Values = None,
    ) -> Any:
        """Fit, then the component of each row: `fit(X).labels_`."""
        where = {"lengths": lengths, "sequence_id": sequence_id}
        given = self._given(X, y, labels=labels, sample_weight=sample_weight, **where)
        return self._fit(given).labels_

    def resume(
        self,
        X: Rows,
        y: Values = None,
        *,
        lengths: Values = None,
        sequence_id: Values = None,
        labels: Values = None,
        sample_weight: Values = None,
    ) -> Self:
        """Continue an interrupted fit from `inference.checkpoint`; refuses other data."""
        where = {"lengths": lengths, "sequence_id": sequence_id}
        return self._resume(self._given(X, y, labels=labels, sample_weight=sample_weight, **where))

    def partial_fit(
        self,
        X: Rows,
        y: Values = None,
        *,
        lengths: Values = None,
        sequence_id: Values = None,
        labels: Values = None,
        sample_weight: Values = None,
        total_samples: float | None = None,
    ) -> Self:
        """Update the model with more groups; returns self. Later calls may bring new components.

        Parameters
        ----------
        X, y, lengths, sequence_id, labels, sample_weight : as in `fit`. Default priors and scaling
            are fixed by the first call.
        total_samples : number of groups of the whole data set; each call then is a step of
            stochastic variational Bayes, with the step sizes of `inference` if that is a
            StochasticVB.
        """
        where = {"lengths": lengths, "sequence_id": sequence_id}
        given = self._given(X, y, labels=labels, sample_weight=sample_weight, **where)
        return self._stream(given, total_samples)

    def _row_names(self, schema: Schema) -> Sequence[str] | None:
        return lagged_names(schema.names, self._make_family().lags)

    def _family_columns(self, fitted: Fitted) -> int:
        return fitted.schema.n_features * (1 + fitted.model.family.lags)

    # ------------------------------------------------------------------------------------ readers

    @property
    def labels_(self) -> Any:
        """(n,) component of each training row, or a list if groups were a list."""
        found, shape = super().labels_, self._require_fitted().shape
        return found if shape is None else shape.answer(found)
