"""Fits of mixtures: starts, whole data, streams."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np

from stickbreak.data import Table
from stickbreak.families.base import BaseFamily
from stickbreak.inference import Engine, Start
from stickbreak.initialize import (
    from_better,
    from_collapsed,
    from_local,
    from_plusplus,
    from_random,
    from_scalable,
)
from stickbreak.models import Model
from stickbreak.parameters import require_prior_count
from stickbreak.priors import GammaPrior
from stickbreak.progress import Phase
from stickbreak.protocols import Pool
from stickbreak.reading import Given, Rows, Schema, Values, read_table
from stickbreak.stats import Array

from .base import Estimator, RandomState
from .engine_choice import pick_engine
from .engine_runs import Task
from .observed_rows import observe_rows
from .views import plot_mixture

__all__ = ["MixtureFits", "check_concentration"]

N_SWEEPS = 30  # of a collapsed start


def check_concentration(concentration: float | GammaPrior) -> float | GammaPrior:
    """The concentration, if it is a positive number or a GammaPrior of such numbers."""
    if isinstance(concentration, GammaPrior):
        concentration.check()
    else:
        require_prior_count(concentration=concentration)
    return concentration


class MixtureFits(Estimator):
    """Fits to tables of independent rows."""

    _reads_shards = True
    INITS: ClassVar[tuple[str, ...]] = (
        "auto", "k-means++", "k-means||", "random", "local", "collapsed",
    )  # fmt: skip
    concentration: float | GammaPrior

    def __init__(
        self,
        n_components: int = 8,
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

    plot = plot_mixture
    _observe = observe_rows

    def _seed(self, model: Model, task: Task, rng: np.random.Generator, pool: Pool) -> Start:
        table, K, legal = task.table, task.n_components, task.legal
        if self.init == "random":
            return from_random(model, table, K, rng, legal=legal)
        if self.init in ("local", "collapsed"):
            return self._seed_shares(model, task, rng, pool)
        if self.init == "k-means||":
            with Phase("seeding by k-means||", bool(self.verbose)) as phase:
                return from_scalable(
                    model, table, K, rng, legal=legal, pool=pool, report=phase.update
                )
        if self._compares_starts(model, task):
            with Phase("comparing two starts", bool(self.verbose)):
                return from_better(model, table, K, rng, pool)
        return from_plusplus(model, table, K, rng, legal=legal, pool=pool)

    def _compares_starts(self, model: Model, task: Task) -> bool:
        """Whether the start is the better of two: k-means++, and sweeps from random shares.

        Known labels, engines that sweep, draw or look for a mode, and families that cannot sweep
        begin with k-means++.
        """
        is_variational = pick_engine(self, task.is_on_disk).rule().is_variational
        can_sweep = model.begins_swept and task.legal is None and task.n_components > 1
        return self.init == "auto" and can_sweep and is_variational

    def _seed_shares(self, model: Model, task: Task, rng: np.random.Generator, pool: Pool) -> Start:
        """Random shares of every row, or where collapsed sweeps lead from there."""
        table, K, legal = task.table, task.n_components, task.legal
        if not model.sweeps:
            raise ValueError(
                f'init="{self.init}" is not for {type(model.family).__name__}, whose rows do not '
                'leave counts one by one; use init="k-means++"'
            )
        if self.init == "local":
            return from_local(model, table, K, rng, legal=legal, pool=pool)
        return from_collapsed(model, table, K, rng, n_sweeps=N_SWEEPS, legal=legal, pool=pool)

    def _check_arguments(self) -> None:
        check_concentration(self.concentration)
        super()._check_arguments()

    def _read(
        self, given: Given, family: BaseFamily, schema: Schema | None
    ) -> tuple[Table, Schema]:
        return read_table(given, family, schema)

    def fit(
        self, X: Rows, y: object = None, *, labels: Values = None, sample_weight: Values = None
    ) -> Self:
        """Fit to the rows of X.

        Parameters
        ----------
        X : array, data frame, CSR matrix (Multinomial), memory map, path to a `.npy`, `.npz`,
            `.csv`, `.tsv` or `.parquet` file, or what `stickbreak.open_table` gives; (n, D). NaN is
            a missing entry; what that means depends on the family (see "Missing data" among the
            how-to pages).
        y : ignored
        labels : (n,) known components, -1 where unknown. Value c names the component whose id is c.
        sample_weight : (n,) how often each row counts.

        Returns
        -------
        self
        """
        return self._fit(self._given(X, labels=labels, sample_weight=sample_weight))

    def fit_predict(
        self, X: Rows, y: object = None, *, labels: Values = None, sample_weight: Values = None
    ) -> Array:
        """Fit, then the best component of each row: `fit(X).labels_`."""
        return self.fit(X, labels=labels, sample_weight=sample_weight).labels_

    def resume(
        self, X: Rows, y: object = None, *, labels: Values = None, sample_weight: Values = None
    ) -> Self:
        """Continue an interrupted fit from `inference.checkpoint`, bit for bit.

        Parameters
        ----------
        X, y, labels, sample_weight : as given to the interrupted `fit`. Other data or settings are
            refused.

        Returns
        -------
        self
        """
        return self._resume(self._given(X, labels=labels, sample_weight=sample_weight))

    def partial_fit(
        self,
        X: Rows,
        y: object = None,
        *,
        labels: Values = None,
        sample_weight: Values = None,
        total_samples: float | None = None,
    ) -> Self:
        """Update the model with more rows. Rows on disk are seen in batches, a step each.

        With moves (the default of `DPMixture`), the first call fits its rows, and later ones may
        give birth to components for rows that those before do not explain; ids stay.

        Parameters
        ----------
        X, y, labels, sample_weight : as in `fit`. Default priors and scaling are fixed by the first
            call.
        total_samples : size of the whole data set; each call then is a step of stochastic
            variational Bayes, with the step sizes of `inference` if that is a StochasticVB.

        Returns
        -------
        self
        """
        given = self._given(X, labels=labels, sample_weight=sample_weight)
        return self._stream(given, total_samples)
