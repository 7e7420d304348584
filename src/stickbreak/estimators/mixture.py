"""Mixtures with a fixed number of components, or with as many as the data support up to a truncation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np

from stickbreak.data import Table, is_on_disk
from stickbreak.inference import (
    PowerDecay,
    Result,
    Start,
    State,
    Stochastic,
    StochasticVB,
    Streaming,
    Trace,
    step,
    workers,
)
from stickbreak.initialize import from_plusplus, from_previous, from_random, from_scalable
from stickbreak.models import dp_mixture, finite_mixture
from stickbreak.parameters import require_whole
from stickbreak.stats import Array, Tally

from .base import Estimator
from .files import register
from .parts import make_engine, make_family, make_seed
from .progress import Phase
from .tables import check_weights, legal_sets, make_table

__all__ = ["DPMixture", "Mixture"]

INITS = ("k-means++", "k-means||", "random")


class _MixtureEstimator(Estimator):
    """fit, predict and score for tables of independent rows."""

    def __init__(
        self,
        n_components: int = 8,
        *,
        family: Any = "gaussian",
        inference: Any = None,
        concentration: float = 1.0,
        random_state: Any = None,
        init: str = "k-means++",
        n_init: int = 1,
        n_jobs: int | None = None,
        warm_start: bool = False,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.family = family
        self.inference = inference
        self.concentration = concentration
        self.random_state = random_state
        self.init = init
        self.n_init = n_init
        self.n_jobs = n_jobs
        self.warm_start = warm_start
        self.verbose = verbose

    def _make_start(self, model: Any, table: Table, legal: Array | None, rng: np.random.Generator, pool: Any) -> Start:
        if self.warm_start and hasattr(self, "_counts"):
            start = from_previous(self._counts, self._params, tuple(int(i) for i in self.component_ids_), table.n_units)
            return start if legal is None else replace(start, params=model.start_params(self.n_components_, legal))
        return self._seed(model, table, legal, rng, pool)

    def _seed(self, model: Any, table: Table, legal: Array | None, rng: np.random.Generator, pool: Any) -> Start:
        """A start from the data, by the method that `init` names."""
        K = int(self.n_components)
        if self.init == "random":
            return from_random(model, table, K, rng, legal=legal)
        if self.init == "k-means||":
            with Phase("seeding by k-means||", bool(self.verbose)) as phase:
                return from_scalable(model, table, K, rng, legal=legal, pool=pool, report=phase.update)
        return from_plusplus(model, table, K, rng, legal=legal, pool=pool)

    def _check_arguments(self) -> None:
        super()._check_arguments()
        if self.init not in INITS:
            raise ValueError(f"unknown init {self.init!r}; choose one of {', '.join(INITS)}")

    def _prepare(self, X: Any, labels: Any, sample_weight: Any) -> tuple[Table, Array | None, bool]:
        """Checked arguments as a table, its legal sets, and whether it lives on disk."""
        is_continued = self.warm_start and hasattr(self, "_counts")
        if is_continued and not self._is_unbounded and self.n_components != self.n_components_:
            raise ValueError(f"n_components={self.n_components} but the model to continue has {self.n_components_} components")
        table, legal = self._read(X, labels, sample_weight, is_continued)
        return table, legal, is_on_disk(table.rows)

    def _read(self, X: Any, labels: Any, sample_weight: Any, is_continued: bool) -> tuple[Table, Array | None]:
        """Checked rows, and legal (S, K): which components each set of rows may use. Labels name permanent ids."""
        self._check_arguments()
        family = self._model.family if is_continued else make_family(self.family)
        table = make_table(self, X, family, sample_weight=sample_weight, reset=not is_continued)
        if labels is None:
            return table, None
        sets, legal = legal_sets(labels, table.n_rows, self._next_id if is_continued else self.n_components)
        if is_continued:
            legal = legal[:, self.component_ids_]
        gone = np.flatnonzero(legal.sum(1) == 0)
        if np.isin(gone, sets).any():
            raise ValueError(f"labels holds {gone[0] - 1}, but the model has no component with that id any more")
        return replace(table, sets=sets), legal

    def fit(self, X: Any, y: Any = None, *, labels: Any = None, sample_weight: Any = None) -> Self:
        """Fit to the rows of X.

        Parameters
        ----------
        X : array, data frame, CSR matrix (Multinomial), memory map, path to a `.npy`, `.npz`, `.csv`, `.tsv` or `.parquet`
            file, or what `stickbreak.open_table` gives; (n, D)
        y : ignored
        labels : (n,) known components, -1 where unknown. Value c names the component whose id is c.
        sample_weight : (n,) how often each row counts.

        Returns
        -------
        self
        """
        return self._fit_table(*self._prepare(X, labels, sample_weight))

    def fit_predict(self, X: Any, y: Any = None, *, labels: Any = None, sample_weight: Any = None) -> Array:
        """Fit, then the best component of each row: `fit(X).labels_`."""
        return self.fit(X, labels=labels, sample_weight=sample_weight).labels_

    def resume(self, X: Any, y: Any = None, *, labels: Any = None, sample_weight: Any = None) -> Self:
        """Continue an interrupted fit from `inference.checkpoint`, bit for bit. Other data or settings are refused.

        Parameters
        ----------
        X, y, labels, sample_weight : as given to the interrupted `fit`.

        Returns
        -------
        self
        """
        return self._resume_table(*self._prepare(X, labels, sample_weight))

    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        *,
        labels: Any = None,
        sample_weight: Any = None,
        total_samples: float | None = None,
    ) -> Self:
        """See some more rows: adds what they say to what was seen before. Rows on disk are seen in batches, a step each.

        Parameters
        ----------
        X, y, labels, sample_weight : as in `fit`. Default priors and scaling are fixed by the first call.
        total_samples : size of the whole data set; each call then is a step of stochastic variational Bayes, with the
            step sizes of `inference` if that is a StochasticVB.

        Returns
        -------
        self
        """
        is_first = not hasattr(self, "_counts")
        table, legal = self._read(X, labels, sample_weight, not is_first)
        if total_samples is not None and not total_samples > 0:
            raise ValueError(f"total_samples must be positive; got {total_samples!r}")
        engine = make_engine(self.inference, prefer_memoized=True)
        model = self._resolve(table) if is_first else self._model
        kappa, delay = (engine.kappa, engine.delay) if isinstance(engine, StochasticVB) else (0.6, 10.0)
        accumulator = (
            Streaming()
            if total_samples is None
            else Stochastic(float(total_samples), float(total_samples) * table.n_units / table.n_spans, PowerDecay(kappa, delay))
        )
        with workers(self.n_jobs) as pool:
            state = self._stream_state(model, table, legal, accumulator, pool)
            on_disk, seen = is_on_disk(table.rows), 0
            with Phase("learning", bool(self.verbose)) as phase:
                for batch in table.batches() if on_disk else [table.whole()]:
                    step(model, engine.rule(), accumulator, state, batch, (), pool)
                    for edit in model.upkeep(state.total.view()):
                        state.edit(edit)
                    seen += batch.n_rows
                    phase.update(seen, table.n_rows)
            counts = state.total.summary()
            params = model.start_params(len(state.ids))  # legal sets belong to the rows of one call
            bound = engine.rule().bound(model, counts, params) if accumulator.is_exact else None
            result = Result(
                counts,
                params,
                state.ids,
                state.next_id,
                state.n_steps,
                Trace(),
                np.nan if bound is None else bound,
                is_converged=False,
            )
            self._learn(model, engine, result, table, on_disk, pool)
        return self

    def _stream_state(self, model: Any, table: Table, legal: Array | None, accumulator: Any, pool: Any) -> State:
        if hasattr(self, "_counts"):
            ids = tuple(int(i) for i in self.component_ids_)
            params = model.start_params(len(ids), legal)
            return State(Tally(self._counts), params, None, ids, 1, next_id=self._next_id, n_steps=self._n_steps)
        rng = np.random.default_rng(make_seed(self.random_state))
        start = self._seed(model, table, legal, rng, pool)
        ids = tuple(range(int(self.n_components)))
        return accumulator.begin(start, ids, 1)

    # ------------------------------------------------------------------------------------------ using a fitted model

    def _rows(self, X: Any) -> Table:
        self._require_fitted()
        return make_table(self, X, self._model.family, reset=False)

    def predict(self, X: Any) -> Array:
        """(n,) most probable component of each row, 0..K-1; `component_ids_` maps them to permanent ids.

        Uses the potentials of the fitted rule, so `fit(X).labels_` equals `predict(X)` for rows without labels.
        """
        table = self._rows(X)
        with workers(self.n_jobs) as pool:
            return self._model.decode(self._potentials(), table.whole(), pool)

    def predict_proba(self, X: Any) -> Array:
        """(n, K) posterior probability of each component, from the local step of the fitted rule."""
        table = self._rows(X)
        model = self._rule.local_model(self._model)
        with workers(self.n_jobs) as pool:
            return model.shares(self._potentials(), table.whole(), pool)

    def score_samples(self, X: Any) -> Array:
        """(n,) log predictive density of each row, parameters integrated out.

        The weights are posterior means, renormalized over the components in use.
        """
        table = self._rows(X)
        with workers(self.n_jobs) as pool:
            potentials = self._model.predictive(self._counts, self._params)
            return self._model.log_evidence(potentials, table.whole(), pool)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Mean log predictive density per row, in nats; a row counts as often as its weight says."""
        values = self.score_samples(X)
        weights = None if sample_weight is None else check_weights(sample_weight, values)
        return float(np.average(values, weights=weights))

    def sample(self, n_samples: int = 1, random_state: Any = None) -> tuple[Array, Array]:
        """Draw rows from the posterior predictive.

        Parameters
        ----------
        n_samples : how many.
        random_state : seed; default: the estimator's.

        Returns
        -------
        X (n, D) and the components (n,) they came from.
        """
        self._require_fitted()
        require_whole(n_samples=n_samples)
        rng = np.random.default_rng(make_seed(self.random_state if random_state is None else random_state))
        labels = rng.choice(self.n_components_, size=n_samples, p=self.weights_)
        return self._model.family.sample(self._counts, labels, rng), labels


@register
class Mixture(_MixtureEstimator):
    """Bayesian mixture with a fixed number of components.

    Parameters
    ----------
    n_components : number of components.
    family : likelihood of a component, by name ("gaussian", "diagonal", "zero-mean", "fixed-variance", "categorical",
        "multinomial", "bernoulli", "poisson") or as an object with its prior.
    inference : engine, by name ("batch", "memoized", "stochastic", "em", "hard-em") or as an object; default `BatchVB`
        for data in memory, `MemoizedVB` for data on disk.
    concentration : total mass of the Dirichlet prior on the weights; each component has concentration / n_components.
    random_state : seed.
    init : where a fit begins: "k-means++" (Bregman, on at most 20,000 rows), "k-means||" (on all rows, in a few passes: finds
        rarer clusters of large tables) or "random" (random rows).
    n_init : starts to try; the best bound wins.
    n_jobs : threads; results do not depend on it. -1 is all.
    warm_start : begin from the last fit.
    verbose : show progress.

    Attributes
    ----------
    n_components_, n_effective_ : components; those with at least one row.
    weights_, counts_ : (K,) posterior mean weights; expected rows.
    posterior_, means_, covariances_ : posterior summaries of the components.
    component_ids_ : (K,) permanent ids.
    labels_ : (n,) component of each training row.
    lower_bound_, trace_, converged_, n_iter_ : whole-data bound in nats, its history, whether it settled, laps.
    n_features_in_, feature_names_in_ : as scikit-learn has them.

    Examples
    --------
    >>> import numpy as np, stickbreak as sb
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(-5, 1, (50, 2)), rng.normal(5, 1, (50, 2))])
    >>> model = sb.Mixture(2, random_state=0).fit(X)
    >>> model.counts_.round().astype(int).tolist()
    [50, 50]
    """

    def _make_model(self, family: Any, concentration: float) -> Any:
        return finite_mixture(family, concentration)


@register
class DPMixture(_MixtureEstimator):
    """Dirichlet process mixture: uses as many components as the data support, up to a truncation.

    Components are not split or joined during a fit, so one start may keep a cluster in two pieces; compare several
    (`n_init`) and a few truncations by `lower_bound_`, which are comparable.

    Parameters
    ----------
    n_components : truncation, the largest number of components.
    family : likelihood of a component, by name ("gaussian", "diagonal", "zero-mean", "fixed-variance", "categorical",
        "multinomial", "bernoulli", "poisson") or as an object with its prior.
    inference : engine, by name ("batch", "memoized", "stochastic", "em", "hard-em") or as an object; default `MemoizedVB`.
    concentration : of the Dirichlet process; larger expects more components.
    random_state : seed.
    init : where a fit begins: "k-means++" (Bregman, on at most 20,000 rows), "k-means||" (on all rows, in a few passes: finds
        rarer clusters of large tables) or "random" (random rows).
    n_init : starts to try; the best bound wins.
    n_jobs : threads; results do not depend on it. -1 is all.
    warm_start : begin from the last fit.
    verbose : show progress.

    Attributes
    ----------
    n_components_, n_effective_ : truncation; components with at least one row.
    weights_, counts_ : (K,) posterior mean weights, renormalized over the components; expected rows.
    posterior_, means_, covariances_ : posterior summaries of the components.
    component_ids_ : (K,) permanent ids.
    labels_ : (n,) component of each training row.
    lower_bound_, trace_, converged_, n_iter_ : whole-data bound in nats, its history, whether it settled, laps.
    n_features_in_, feature_names_in_ : as scikit-learn has them.

    Examples
    --------
    >>> import numpy as np, stickbreak as sb
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(-5, 1, (100, 2)), rng.normal(5, 1, (100, 2))])
    >>> model = sb.DPMixture(5, random_state=0).fit(X)
    >>> model.n_effective_
    2
    """

    _is_unbounded = True

    def __init__(
        self,
        n_components: int = 25,
        *,
        family: Any = "gaussian",
        inference: Any = None,
        concentration: float = 1.0,
        random_state: Any = None,
        init: str = "k-means++",
        n_init: int = 1,
        n_jobs: int | None = None,
        warm_start: bool = False,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            n_components,
            family=family,
            inference=inference,
            concentration=concentration,
            random_state=random_state,
            init=init,
            n_init=n_init,
            n_jobs=n_jobs,
            warm_start=warm_start,
            verbose=verbose,
        )

    def _make_model(self, family: Any, concentration: float) -> Any:
        return dp_mixture(family, concentration)
