"""Mixtures of independent rows, with a fixed or a learned number of components."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from stickbreak.data import is_sparse
from stickbreak.families.base import BaseFamily
from stickbreak.inference import Engine, Start, workers
from stickbreak.models import Model, dp_mixture, finite_mixture
from stickbreak.parameters import require_whole
from stickbreak.priors import GammaPrior
from stickbreak.priors.shares import ConcentrationPosterior
from stickbreak.progress import Phase
from stickbreak.protocols import Pool
from stickbreak.reading import Rows, Values, check_weights
from stickbreak.stats import Array

from .base import RandomState
from .engine_choice import pick_engine
from .engine_runs import Task
from .mixture_fits import MixtureFits, check_concentration
from .model_files import register
from .searches import begin_open, is_open

__all__ = ["DPMixture", "Mixture"]


class MixtureEstimator(MixtureFits):
    """fit, predict and score for tables of independent rows."""

    @property
    def concentration_(self) -> float:
        """Posterior mean of the concentration; the given number if it is not learned."""
        return float(self._posterior_of_concentration().mean)

    @property
    def concentration_interval_(self) -> Array:
        """(2,) central 95 % interval of the concentration's posterior."""
        return self._posterior_of_concentration().quantile([0.025, 0.975])

    def _posterior_of_concentration(self) -> ConcentrationPosterior:
        fitted = self._require_fitted()
        return fitted.model.prior.concentration_posterior(fitted.counts)

    def predict(self, X: Rows) -> Array:
        """(n,) most probable component of each row, 0..K-1.

        `component_ids_` maps them to permanent ids. Uses the potentials of the fitted rule, so
        `fit(X).labels_` equals `predict(X)` for rows without labels.
        """
        fitted, table = self._use(self._given(X))
        with workers(self.n_jobs) as pool:
            return self._decode(fitted, fitted.potentials(), table.whole(), pool)

    def predict_proba(self, X: Rows) -> Array:
        """(n, K) posterior probability of each component, from the local step of the fitted rule.

        Includes all components, even after a fit with `max_active`.
        """
        fitted, table = self._use(self._given(X))
        with workers(self.n_jobs) as pool:
            return fitted.local_model.shares(fitted.potentials(), table.whole(), pool)

    def score_samples(self, X: Rows) -> Array:
        """(n,) log predictive density of each row, parameters integrated out.

        The weights are posterior means, renormalized over the components in use.
        """
        fitted, table = self._use(self._given(X))
        with workers(self.n_jobs) as pool:
            return fitted.model.log_evidence(fitted.predictive(), table.whole(), pool)

    def score(self, X: Rows, y: object = None, sample_weight: Values = None) -> float:
        """Mean log predictive density per row, in nats, weighted by sample_weight."""
        values = self.score_samples(X)
        weights = None if sample_weight is None else check_weights(sample_weight, values)
        return float(np.average(values, weights=weights))

    def impute(self, X: Rows) -> Any:
        """Fill missing entries with their posterior means under the fitted model.

        A mean is taken over the components, weighted as in `predict_proba`. Given a component, full
        covariances regress a missing entry on those that are there; other families take the
        component's mean (`Bernoulli`: the probability of a one, `Multinomial`: the average row),
        `Categorical` the most probable symbol over all components.

        Parameters
        ----------
        X : as in `predict`; NaN marks a missing entry, and -1 too for `Categorical`.

        Returns
        -------
        (n, D) array, in which the entries that were there are unchanged. A CSR matrix cannot lack
        entries and is returned unchanged.

        Examples
        --------
        >>> import numpy as np, stickbreak as sb
        >>> rng = np.random.default_rng(0)
        >>> x = rng.normal(size=500)
        >>> model = sb.Mixture(1).fit(np.column_stack([x, 3 * x + rng.normal(0, 0.1, 500)]))
        >>> model.impute([[2.0, np.nan]]).round(1)
        array([[2., 6.]])
        """
        fitted, table = self._use(self._given(X))
        if is_sparse(table.rows):
            return table.rows
        with workers(self.n_jobs) as pool:
            potentials, batch = fitted.potentials(), table.whole()
            return fitted.local_model.impute(potentials, fitted.counts, batch, pool)

    def sample(self, n_samples: int = 1, random_state: RandomState = None) -> tuple[Array, Array]:
        """Draw rows from the posterior predictive.

        Parameters
        ----------
        n_samples : how many.
        random_state : seed; default: the estimator's.

        Returns
        -------
        X (n, D) and the components (n,) they came from.
        """
        fitted = self._require_fitted()
        require_whole(n_samples=n_samples)
        rng = self._rng(random_state)
        labels = rng.choice(len(fitted.ids), size=n_samples, p=fitted.weights)
        return fitted.model.family.sample(fitted.counts, labels, rng), labels


@register
class Mixture(MixtureEstimator):
    """Bayesian mixture with a fixed number of components.

    Parameters
    ----------
    n_components : number of components.
    family : likelihood of a component, by name ("gaussian", "diagonal", "zero-mean",
        "fixed-variance", "categorical", "multinomial", "bernoulli", "poisson", "autoregressive") or
        as an object with its prior; `Product` for columns of several kinds.
    inference : engine, by name ("batch", "memoized", "stochastic", "collapsed", "em", "hard-em") or
        as an object; default `BatchVB` for data in memory, `MemoizedVB` for data on disk.
    concentration : total mass of the Dirichlet prior on the weights; each component has
        concentration / n_components. A number, or a `GammaPrior` to learn it.
    learn_prior : at the end of each lap, move the family's prior to where it raises the bound
        (empirical Bayes).
    max_iter, tol : laps at most; nats per row, a lap that gains less ends the fit. Default: those
        of the engine.
    random_state : seed.
    init : where a fit begins: "k-means++" (Bregman, on at most 20,000 rows), "k-means||" (on all
        rows, in a few passes: finds rarer clusters of large tables), "random" (random rows),
        "local" (random shares of every row) or "collapsed" (up to 30 collapsed sweeps from there,
        see `CollapsedVB`). "auto" is the better of "k-means++" and "collapsed" after ten laps on at
        most 5,000 rows, for variational engines; "k-means++" for others, and with known labels.
    n_init : starts to try; the best bound wins.
    n_jobs : threads; results do not depend on it. -1 is all.
    warm_start : begin from the last fit.
    verbose : show progress.

    Attributes
    ----------
    n_components_, n_effective_ : components; those with at least one row.
    weights_, counts_ : (K,) posterior mean weights; expected rows.
    posterior_, means_, covariances_ : posterior summaries of the components.
    family_ : the family with its prior, as set from the data or learned.
    concentration_, concentration_interval_ : posterior mean and 95 % interval of a learned
        concentration.
    component_ids_ : (K,) permanent ids.
    labels_ : (n,) component of each training row.
    lower_bound_, trace_, converged_, n_iter_ : whole-data bound in nats, its history, whether it
        settled, laps.
    n_features_in_, feature_names_in_ : as scikit-learn has them.
    categories_ : dict from a column that held strings or categories to the list of them; category v
        is symbol v.

    Examples
    --------
    >>> import numpy as np, stickbreak as sb
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(-5, 1, (50, 2)), rng.normal(5, 1, (50, 2))])
    >>> model = sb.Mixture(2, random_state=0).fit(X)
    >>> model.counts_.round().astype(int).tolist()
    [50, 50]
    """

    def _make_model(self, family: BaseFamily, prior: Mapping[str, Any]) -> Model:
        concentration = check_concentration(prior["concentration"])
        return finite_mixture(family, concentration, learns=self.learn_prior)


@register
class DPMixture(MixtureEstimator):
    """Dirichlet process mixture: finds the number of components.

    A fit begins with `n_components` and tries births, merges and deletes, each kept only if it
    raises the bound of the whole data; `explain_moves` tells what happened. With an engine that has
    none, such as `EM()` or `MemoizedVB(moves=None)`, the number is a truncation: components are not
    split or joined, and a fit that would begin with one begins with 25 and says so.

    Parameters
    ----------
    n_components : number of components to begin with; 1 leaves it to `init`.
    inference : engine, by name ("batch", "memoized", "stochastic", "collapsed", "em", "hard-em") or
        as an object; default `MemoizedVB()`, which has moves here.
    concentration : of the Dirichlet process; larger expects more components. A number, or a
        `GammaPrior` to learn it.
    family, learn_prior, max_iter, tol, random_state : as in `Mixture`.
    init : "auto" begins with the better of two starts of 25 components, settled on at most 5,000
        rows, if there are moves to join them and `n_components` is 1; else it is that of
        `Mixture`. All others as there; they begin with `n_components`.
    n_jobs, warm_start, verbose : as in `Mixture`.
    n_init : starts to try; the best bound wins. Those after the first begin with 25 components if
        the first begins with one.

    Attributes
    ----------
    weights_ : (K,) posterior mean weights, renormalized over the components.
    counts_, labels_, lower_bound_ and all others : as in `Mixture`.

    Examples
    --------
    >>> import numpy as np, stickbreak as sb
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(-5, 1, (100, 2)), rng.normal(5, 1, (100, 2))])
    >>> model = sb.DPMixture(random_state=0).fit(X)
    >>> model.n_components_
    2
    """

    _is_unbounded = True

    def __init__(
        self,
        n_components: int = 1,
        *,
        family: str | BaseFamily = "gaussian",
        inference: str | Engine | None = None,
        concentration: float | GammaPrior = 1.0,
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

    def _starts_differ(self) -> bool:
        return self.init == "auto"

    def _seed(self, model: Model, task: Task, rng: np.random.Generator, pool: Pool) -> Start:
        has_moves = bool(pick_engine(self, task.is_on_disk).mover().moves)
        if not (self._starts_differ() and has_moves and is_open(task)):
            return super()._seed(model, task, rng, pool)
        with Phase("settling two starts", bool(self.verbose)):
            return begin_open(model, task, rng, pool)

    def _make_model(self, family: BaseFamily, prior: Mapping[str, Any]) -> Model:
        concentration = check_concentration(prior["concentration"])
        return dp_mixture(family, concentration, learns=self.learn_prior)
