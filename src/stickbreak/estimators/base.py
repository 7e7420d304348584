"""The outer skin that all estimators share: validate, run the engine, copy the results."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np

from stickbreak.data import Scale, Table, is_on_disk, measure
from stickbreak.errors import ConvergenceWarning, DataWarning, NumericalError, columns_named
from stickbreak.inference import (
    BatchVB,
    Engine,
    MemoizedVB,
    Result,
    Start,
    count_workers,
    run,
    workers,
)
from stickbreak.initialize import from_previous
from stickbreak.moves import explain
from stickbreak.parameters import require_whole
from stickbreak.stats import Array

from .conventions import Conventions
from .keeping import Kept
from .parts import FAMILIES, check_learning, make_engine, make_family, make_seed
from .progress import Progress
from .streams import Streams
from .tables import Given, legal_sets, open_rows
from .views import Views

__all__ = ["Estimator"]


class Estimator(Streams, Kept, Views, Conventions):
    """What fit and the learned attributes need; models add their data and their words.

    PRIOR : arguments that are the prior's, under the names that it has for them. INITS : what
        `init` may be.
    """

    PRIOR: ClassVar[tuple[str, ...]] = ("concentration",)
    INITS: ClassVar[tuple[str, ...]]

    _is_unbounded = False
    _noun = "component"
    _row_noun = "row"

    # ------------------------------------------------------------------------------------------ to

    def _make_model(self, family: Any, prior: Mapping[str, Any], rule: Any) -> Any:
        """The model for a resolved family, the prior's arguments (those named by PRIOR), and the
        rule that will fit it.
        """
        raise NotImplementedError

    def _make_table(self, given: Given, family: Any, *, reset: bool) -> Any:
        """The user's data, checked; `reset` learns names and number of the columns from them."""
        raise NotImplementedError

    def _seed(
        self, model: Any, table: Table, legal: Array | None, rng: np.random.Generator, pool: Any
    ) -> Start:
        """A start from the data."""
        raise NotImplementedError

    def _make_family(self) -> Any:
        """The likelihood that the arguments ask for, its open priors still open."""
        return make_family(self.family)

    def _default_engine(self, on_disk: bool) -> Engine:
        """What `inference=None` stands for."""
        return MemoizedVB() if on_disk else BatchVB()

    # ------------------------------------------------------------------------------------------ fit

    def _check_arguments(self) -> None:
        """Before the data change what is learned."""
        require_whole(n_components=self.n_components, n_init=self.n_init)
        count_workers(self.n_jobs)
        engine = self._pick_engine(False)
        engine.check()
        check_learning(self.learn_prior, self._make_family(), self._prior_of(self), engine)
        if self.init not in self.INITS:
            raise ValueError(f"unknown init {self.init!r}; choose one of {', '.join(self.INITS)}")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        given = getattr(self, "family", None)
        family = FAMILIES.get(given) if isinstance(given, str) else given
        tags.input_tags.allow_nan = getattr(family, "missing", "refused") != "refused"
        return tags

    def _prior_of(self, owner: Any) -> dict[str, Any]:
        """The prior's arguments by name: the estimator's own, or those of a prior that was made
        from them.
        """
        return {name: getattr(owner, name) for name in self.PRIOR}

    def _pick_engine(self, on_disk: bool) -> Engine:
        return make_engine(self.inference, self._default_engine(on_disk))

    def _engine(self, on_disk: bool) -> Engine:
        engine = self._pick_engine(on_disk)
        if engine.checkpoint is not None and self.n_init > 1:
            raise ValueError(
                f"a checkpoint holds one start; got n_init={self.n_init}: use "
                "n_init=1 with checkpoint="
            )
        return engine

    def _with_progress(
        self, engine: Engine, table: Table, start: int = 0, n_starts: int = 1
    ) -> Engine:
        if not Progress.is_wanted(self.verbose):
            return engine
        what: dict[str, Any] = {
            "start": start,
            "n_starts": n_starts,
            "noun": self._row_noun,
            "shows": bool(self.verbose),
        }
        progress = Progress(engine.max_iter, table.n_observations, **what)
        return replace(engine, callbacks=(*engine.callbacks, progress))

    def _open(self, X: Any, names: Any) -> Any:
        """Data of a path, whose columns have these names where it has names; anything else is left
        as it is.
        """
        return open_rows(X, names, self.verbose)

    def _read(self, given: Given, labels: Any, is_continued: bool) -> tuple[Any, Array | None]:
        """Checked data, and legal (S, K): which components each set of rows may use. Labels name
        permanent ids.
        """
        self._check_arguments()
        family = self._model.family if is_continued else self._make_family()
        table = self._make_table(given, family, reset=not is_continued)
        return self._limit(table, labels, is_continued)

    def _limit(self, table: Any, labels: Any, is_continued: bool) -> tuple[Any, Array | None]:
        """The data with the sets that labels put their rows in, and what those allow."""
        if labels is None:
            return table, None
        n_ids = self._next_id if is_continued else self.n_components
        sets, legal = legal_sets(self._row_labels(labels, table), table.n_rows, n_ids)
        if is_continued:
            legal = legal[:, self.component_ids_]
        gone = np.flatnonzero(legal.sum(1) == 0)
        if np.isin(gone, sets).any():
            raise ValueError(
                f"labels holds {gone[0] - 1}, but the model has no component with that id any more"
            )
        return replace(table, sets=sets), legal

    def _row_labels(self, labels: Any, table: Any) -> Any:
        """The labels of the table's rows."""
        return labels

    def _prepare(self, given: Given, labels: Any) -> tuple[Any, Array | None, bool]:
        """Checked arguments as data, their legal sets, and whether they live on disk."""
        is_continued = self.warm_start and hasattr(self, "_counts")
        if is_continued and not self._is_unbounded and self.n_components != self.n_components_:
            raise ValueError(
                f"n_components={self.n_components} but the model to continue has "
                f"{self.n_components_} {self._noun}s"
            )
        table, legal = self._read(given, labels, is_continued)
        return table, legal, is_on_disk(table.rows)

    def _make_start(
        self, model: Any, table: Any, legal: Array | None, rng: np.random.Generator, pool: Any
    ) -> Start:
        """Where the fit begins: from the data, or from the last fit."""
        if self.warm_start and hasattr(self, "_counts"):
            start = from_previous(
                self._counts,
                self._params,
                tuple(int(i) for i in self.component_ids_),
                table.n_units,
            )
            return (
                start
                if legal is None
                else replace(start, params=model.with_legal(start.params, legal))
            )
        return self._seed(model, table, legal, rng, pool)

    def _row_names(self) -> Any:
        """Names of the columns as the family reads them; None where the data have none."""
        return getattr(self, "feature_names_in_", None)

    def _resolve(self, table: Table) -> Any:
        """The model with every open prior set from the data's scale."""
        names = self._row_names()
        family = self._make_family().locate(names, int(table.rows.shape[1]))
        with columns_named(names):
            scale = measure(table, family.check_rows, allow_missing=family.missing != "refused")
            scale = self._with_categories(scale, names)
        self._warn_of_few(table.n_rows, "rows")
        with columns_named(names):
            return self._make_model(
                family.resolve(scale), self._prior_of(self), self._pick_engine(False).rule()
            )

    def _warn_of_few(self, n: int, what: str) -> None:
        if n < self.n_components:
            warnings.warn(
                f"{n} {what} for {self.n_components} {self._noun}s: some will stay empty; a "
                "smaller n_components would do",
                DataWarning,
                stacklevel=5,
            )

    def _with_categories(self, scale: Scale, names: Any) -> Scale:
        """The scale with the columns' names; all categories of a column count as seen, for its
        dtype may list more.
        """
        largest, labels = (
            scale.largest.copy(),
            list(range(scale.n_features) if names is None else names),
        )
        for label, values in self.categories_.items():
            at = labels.index(label)
            largest[at] = max(largest[at], len(values) - 1)
        return replace(scale, largest=largest, names=None if names is None else tuple(labels))

    def _continued_model(self, engine: Engine) -> Any:
        """The fitted model, its priors as they are, for one more fit."""
        return self._make_model(
            self._model.family, self._prior_of(self._model.prior), engine.rule()
        )

    def _fit_table(self, table: Any, legal: Array | None, on_disk: bool) -> Self:
        """Run the engine from n_init starts and keep the best."""
        engine = self._engine(on_disk)
        is_continued = self.warm_start and hasattr(self, "_counts")
        if is_continued and engine.checkpoint is not None:
            raise ValueError(
                "checkpoint= cannot save a warm start, which needs the model it "
                "continues; use warm_start=False"
            )
        model = self._continued_model(engine) if is_continued else self._resolve(table)
        seed = make_seed(self.random_state)
        best: Result | None = None
        n_starts = 1 if is_continued else int(self.n_init)
        with workers(self.n_jobs) as pool:
            for i in range(n_starts):
                try:
                    start = self._make_start(
                        model, table, legal, np.random.default_rng([seed, i]), pool
                    )
                except KeyboardInterrupt:
                    if best is None:
                        raise
                    found = replace(best, is_interrupted=True)
                    break
                settings = (
                    self._settings(table, engine, seed) if engine.checkpoint is not None else None
                )
                watched = self._with_progress(engine, table, i, n_starts)
                found = run(
                    model, watched, table, start, seed=seed + i, pool=pool, settings=settings
                )
                if best is None or found.bound > best.bound:
                    best = found
                if found.is_interrupted:
                    break
            assert best is not None
            self._learn(engine, best, table, on_disk, pool)
        return self._finish(best, engine, found.is_interrupted)

    def _finish(self, result: Result, engine: Engine, is_interrupted: bool) -> Self:
        """What a fit says when it is over; after Ctrl-C the model is usable as it is."""
        if is_interrupted:
            raise KeyboardInterrupt
        if not np.isfinite(result.bound):
            raise NumericalError(
                f"the fit ended with a bound of {result.bound}; check the data's "
                "scale and the family's prior"
            )
        if not result.is_converged and len(result.trace) >= engine.max_iter:
            warnings.warn(
                f"stopped at max_iter={engine.max_iter} before the bound settled to "
                f"tol={engine.tol}; "
                "raise max_iter or tol, or check trace_",
                ConvergenceWarning,
                stacklevel=4,
            )
        return self

    def _learn(
        self, engine: Engine, result: Result, table: Table, on_disk: bool, pool: Any
    ) -> None:
        """Copy results to the attributes that end in an underscore."""
        model = result.model
        self._model, self._rule = model, engine.rule()
        self._fitted_by = replace(engine, callbacks=())
        self._counts, self._params, self._next_id = result.counts, result.params, result.next_id
        self._n_steps = result.n_steps
        self.component_ids_ = np.array(result.ids)
        self.n_components_ = len(result.ids)
        self.lower_bound_ = result.bound
        self.trace_ = result.trace
        self.converged_ = result.is_converged
        self.n_iter_ = len(result.trace)
        share = model.prior.mean(result.counts, result.params)
        self.weights_ = share / share.sum()
        self.__dict__.pop("_labels", None)
        self._data_on_disk = table if on_disk else None
        if not on_disk:
            self._labels = self._decode(table, self._potentials(), pool)

    def _decode(self, table: Any, potentials: Any, pool: Any) -> Array:
        """(n,) best component of each row, by the local step of the fitted rule."""
        return np.asarray(
            self._rule.local_model(self._model).decode(potentials, table.whole(), pool)
        )

    def _potentials(self) -> Any:
        """Potentials of the fitted rule, legal sets as in the fit."""
        return self._model.potentials(self._counts, self._params, self._rule)

    # ------------------------------------------------------------------------------------------ lea

    @property
    def labels_(self) -> Any:
        """(n,) best component of each training row; for data on disk computed at the first look,
        never stored.
        """
        return self._find_labels()

    def _find_labels(self) -> Array:
        self._require_fitted()
        if "_labels" in self.__dict__:
            return self._labels
        if self._data_on_disk is None:
            raise AttributeError("labels_ are not kept in files; use predict(X)")
        model, potentials = self._rule.local_model(self._model), self._potentials()
        with workers(self.n_jobs) as pool:
            return np.concatenate(
                [model.decode(potentials, batch, pool) for batch in self._data_on_disk.batches()]
            )

    @property
    def counts_(self) -> Array:
        """(K,) expected number of training rows of each component."""
        self._require_fitted()
        return np.array(self._model.prior.sizes(self._counts))

    @property
    def n_effective_(self) -> int:
        """Components that hold at least one training row in expectation.

        A component may win a row with less (then `labels_` names it all the same), or hold one in
        pieces and win none.
        """
        return int((self.counts_ >= 1.0).sum())

    @property
    def family_(self) -> Any:
        """The family with its prior: as given or set from the data, and with `learn_prior` as
        learned.
        """
        self._require_fitted()
        return self._model.family

    @property
    def posterior_(self) -> dict[str, Array]:
        """Posterior summaries of the components in the data's units, by name; component
        axis first.
        """
        self._require_fitted()
        return dict(self._model.family.describe(self._counts))

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
            f"{type(self._model.family).__name__} has no {names[0]}; posterior_ "
            f"holds {sorted(found)}"
        )

    def explain_moves(self) -> str:
        """What births, merges and deletes were tried during the fit, which were accepted, and what
        each gained, in words.
        """
        self._require_fitted()
        return explain(self.trace_.moves, self.component_ids_)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_counts")

    def __getstate__(self) -> dict[str, Any]:
        """Pickles leave data on disk where they are."""
        return (
            {**self.__dict__, "_data_on_disk": None}
            if hasattr(self, "_counts")
            else self.__dict__.copy()
        )
