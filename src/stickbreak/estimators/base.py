"""The outer skin that all estimators share: validate, run the engine, copy the results."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from stickbreak.data import Scale, Table, measure
from stickbreak.errors import ConvergenceWarning, DataWarning, NumericalError, columns_named
from stickbreak.inference import Engine, Result, Start, Trace, count_workers, read_checkpoint, run, workers
from stickbreak.moves import explain
from stickbreak.parameters import require_whole
from stickbreak.persist import pack_fields, unpack_fields
from stickbreak.stats import Array, Summary

from .conventions import Conventions
from .files import decode, encode, save
from .frames import check_categories
from .parts import check_concentration, check_learning, make_engine, make_family, make_seed
from .progress import Progress
from .views import Views

__all__ = ["Estimator"]

NOT_IDENTITY = {
    "checkpoint",
    "checkpoint_every",
    "callbacks",
}  # settings that may differ between a fit and its resumption


class Estimator(Views, Conventions):
    """What fit, resume, save and the learned attributes need; models add their data and their words."""

    _is_unbounded = False

    # ------------------------------------------------------------------------------------------ to be provided

    def _make_model(self, family: Any, concentration: Any) -> Any:
        """The model for a resolved family and a concentration that is known or a GammaPrior."""
        raise NotImplementedError

    def _make_start(self, model: Any, table: Table, legal: Array | None, rng: np.random.Generator, pool: Any) -> Start:
        """Where the fit begins."""
        raise NotImplementedError

    # ------------------------------------------------------------------------------------------ fitting

    def _check_arguments(self) -> None:
        """Before the data change what is learned."""
        require_whole(n_components=self.n_components, n_init=self.n_init)
        check_concentration(self.concentration)
        count_workers(self.n_jobs)
        engine = self._pick_engine(False)
        engine.check()
        check_learning(self.learn_prior, make_family(self.family), self.concentration, engine)

    def _pick_engine(self, prefer_memoized: bool) -> Engine:
        return make_engine(self.inference, prefer_memoized=prefer_memoized, is_unbounded=self._is_unbounded)

    def _engine(self, on_disk: bool) -> Engine:
        engine = self._pick_engine(on_disk)
        if engine.checkpoint is not None and self.n_init > 1:
            raise ValueError(f"a checkpoint holds one start; got n_init={self.n_init}: use n_init=1 with checkpoint=")
        return engine

    def _with_progress(self, engine: Engine, table: Table, start: int = 0, n_starts: int = 1) -> Engine:
        if not Progress.is_wanted(self.verbose):
            return engine
        progress = Progress(engine.max_iter, table.n_observations, start=start, n_starts=n_starts, shows=bool(self.verbose))
        return replace(engine, callbacks=(*engine.callbacks, progress))

    def _resolve(self, table: Table) -> Any:
        """The model with every open prior set from the data's scale."""
        names = getattr(self, "feature_names_in_", None)
        family = make_family(self.family).locate(names, int(table.rows.shape[1]))
        with columns_named(names):
            scale = measure(table, family.check_rows, allow_missing=family.missing != "refused")
            scale = self._with_categories(scale, names)
        if table.n_rows < self.n_components:
            warnings.warn(
                f"{table.n_rows} rows for {self.n_components} components: some will stay empty; a smaller n_components would do",
                DataWarning,
                stacklevel=4,
            )
        with columns_named(names):
            return self._make_model(family.resolve(scale), self.concentration)

    def _with_categories(self, scale: Scale, names: Any) -> Scale:
        """The scale with the columns' names; all categories of a column count as seen, for its dtype may list more."""
        largest, labels = scale.largest.copy(), list(range(scale.n_features) if names is None else names)
        for label, values in self.categories_.items():
            at = labels.index(label)
            largest[at] = max(largest[at], len(values) - 1)
        return replace(scale, largest=largest, names=None if names is None else tuple(labels))

    def _fit_table(self, table: Table, legal: Array | None, on_disk: bool) -> Self:
        """Run the engine from n_init starts and keep the best."""
        engine = self._engine(on_disk)
        is_continued = self.warm_start and hasattr(self, "_counts")
        if is_continued and engine.checkpoint is not None:
            raise ValueError("checkpoint= cannot save a warm start, which needs the model it continues; use warm_start=False")
        model = replace(self._model, learns=self.learn_prior) if is_continued else self._resolve(table)
        seed = make_seed(self.random_state)
        best: Result | None = None
        n_starts = 1 if is_continued else int(self.n_init)
        with workers(self.n_jobs) as pool:
            for i in range(n_starts):
                try:
                    start = self._make_start(model, table, legal, np.random.default_rng([seed, i]), pool)
                except KeyboardInterrupt:
                    if best is None:
                        raise
                    found = replace(best, is_interrupted=True)
                    break
                settings = self._settings(table, engine, seed) if engine.checkpoint is not None else None
                watched = self._with_progress(engine, table, i, n_starts)
                found = run(model, watched, table, start, seed=seed + i, pool=pool, settings=settings)
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
            raise NumericalError(f"the fit ended with a bound of {result.bound}; check the data's scale and the family's prior")
        if not result.is_converged and len(result.trace) >= engine.max_iter:
            warnings.warn(
                f"stopped at max_iter={engine.max_iter} before the bound settled to tol={engine.tol}; "
                "raise max_iter or tol, or check trace_",
                ConvergenceWarning,
                stacklevel=4,
            )
        return self

    def _learn(self, engine: Engine, result: Result, table: Table, on_disk: bool, pool: Any) -> None:
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
        self._data_on_disk = None
        if on_disk:
            self._data_on_disk = table
        else:
            self._labels = model.decode(self._potentials(), table.whole(), pool)

    def _potentials(self) -> Any:
        """Potentials of the fitted rule."""
        return self._model.potentials(self._counts, self._params, self._rule)

    # ------------------------------------------------------------------------------------------ learned values

    @property
    def labels_(self) -> Array:
        """(n,) best component of each training row; for data on disk computed at the first look, never stored."""
        self._require_fitted()
        if "_labels" in self.__dict__:
            return self._labels
        if self._data_on_disk is None:
            raise AttributeError("labels_ are not kept in files; use predict(X)")
        with workers(self.n_jobs) as pool:
            parts = [self._model.decode(self._potentials(), batch, pool) for batch in self._data_on_disk.batches()]
        return np.concatenate(parts)

    @property
    def counts_(self) -> Array:
        """(K,) expected number of training rows of each component."""
        self._require_fitted()
        return np.array(self._model.prior.sizes(self._counts))

    @property
    def n_effective_(self) -> int:
        """Components that hold at least one training row in expectation.

        A component may win a row with less (then `labels_` names it all the same), or hold one in pieces and win none.
        """
        return int((self.counts_ >= 1.0).sum())

    @property
    def family_(self) -> Any:
        """The family with its prior: as given or set from the data, and with `learn_prior` as learned."""
        self._require_fitted()
        return self._model.family

    @property
    def concentration_(self) -> float:
        """Posterior mean of the concentration; where it was given as a number, that number."""
        self._require_fitted()
        return float(self._model.prior.concentration_posterior(self._counts).mean)

    @property
    def concentration_interval_(self) -> Array:
        """(2,) central 95 % interval of the concentration's posterior."""
        self._require_fitted()
        return self._model.prior.concentration_posterior(self._counts).quantile([0.025, 0.975])

    @property
    def posterior_(self) -> dict[str, Array]:
        """Posterior summaries of the components in the data's units, by name; component axis first."""
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
        raise AttributeError(f"{type(self._model.family).__name__} has no {names[0]}; posterior_ holds {sorted(found)}")

    def explain_moves(self) -> str:
        """What births, merges and deletes were tried during the fit, which were accepted, and what each gained, in words."""
        self._require_fitted()
        return explain(self.trace_.moves, self.component_ids_)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_counts")

    def __getstate__(self) -> dict[str, Any]:
        """Pickles leave data on disk where they are."""
        return {**self.__dict__, "_data_on_disk": None} if hasattr(self, "_counts") else self.__dict__.copy()

    # ------------------------------------------------------------------------------------------ files

    def save(self, path: str | Path) -> None:
        """Write the fitted model to a file that `stickbreak.load` reads: safetensors and JSON, no pickle."""
        self._require_fitted()
        save(self, path)

    def _pack(self, arrays: dict[str, Array]) -> dict[str, Any]:
        return {
            "family": encode(self._model.family, "family", arrays),
            "concentration": encode(self._model.prior.concentration, "concentration", arrays),
            "engine": encode(self._fitted_by, "engine", arrays),
            "counts": pack_fields(self._counts, "counts", arrays),
            "params": pack_fields(self._params, "params", arrays),
            "numbers": {n: getattr(self._counts, n) for n in ("local_bound", "log_z", "n_units")},
            "ids": [int(i) for i in self.component_ids_],
            "next_id": int(self._next_id),
            "n_steps": int(self._n_steps),
            "lower_bound": float(self.lower_bound_),
            "converged": bool(self.converged_),
            "trace": self.trace_.to_dict(),
            "n_features_in": int(self.n_features_in_),
            "feature_names_in": [str(n) for n in self.feature_names_in_] if hasattr(self, "feature_names_in_") else None,
            "categories": [[column, list(values)] for column, values in self.categories_.items()],
        }

    def _unpack(self, saved: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
        counts = unpack_fields(saved["counts"], "counts", arrays)
        concentration = check_concentration(decode(saved["concentration"], arrays))
        self._model = self._make_model(decode(saved["family"], arrays), concentration)
        self._fitted_by = decode(saved["engine"], arrays)
        self._rule = self._fitted_by.rule()
        local_bound, log_z, n_units = (float(saved["numbers"][n]) for n in ("local_bound", "log_z", "n_units"))
        self._counts = Summary(counts.layout, counts.arrays, local_bound, log_z, n_units)
        self._params = unpack_fields(saved["params"], "params", arrays)
        self.component_ids_ = np.array([int(i) for i in saved["ids"]])
        self._next_id, self._n_steps = int(saved["next_id"]), int(saved["n_steps"])
        self.n_components_ = len(self.component_ids_)
        self.n_features_in_ = int(saved["n_features_in"])
        names = saved["feature_names_in"]
        self._check_shapes(None if names is None else len(names))
        self.categories_ = {column: list(values) for column, values in saved.get("categories", ())}
        check_categories(self.categories_, names, self.n_features_in_)
        self.lower_bound_ = float(saved["lower_bound"])
        self.converged_ = bool(saved["converged"])
        self.trace_ = Trace.from_dict(saved["trace"])
        self.n_iter_ = len(self.trace_)
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)
        share = self._model.prior.mean(self._counts, self._params)
        self.weights_ = share / share.sum()
        self._data_on_disk = None

    def _check_shapes(self, n_names: int | None) -> None:
        """A file's numbers and arrays must fit each other: kernels trust them."""
        columns = self._model.family.n_columns
        if self.n_features_in_ != columns or (n_names is not None and n_names != columns):
            raise ValueError(f"the model says {self.n_features_in_} columns, its family has {columns}")
        self._model.family.locate(None, columns)  # raises where members do not share out the columns
        if "legal" in self._params and self._params["legal"].shape[1:] != (self.n_components_,):
            raise ValueError(f"legal has shape {self._params['legal'].shape} for {self.n_components_} components")
        expected = self._model.zeros(self.n_components_)
        for name, array in expected.arrays.items():
            if self._counts[name].shape != array.shape or self._counts[name].dtype != np.float64:
                raise ValueError(f"{name} has shape {self._counts[name].shape}; expected {array.shape}")
            if not np.isfinite(self._counts[name]).all():
                raise ValueError(f"{name} holds values that are not finite")
            if expected.layout[name].nonnegative and (self._counts[name] < 0).any():
                raise ValueError(f"{name} holds negative values")
        found = {"weights": self._model.prior.mean(self._counts, self._params), **self._model.family.describe(self._counts)}
        for name, array in found.items():
            if not np.isfinite(array).all():
                raise ValueError(f"the {name} that follow from the arrays are not finite")

    # ------------------------------------------------------------------------------------------ checkpoints

    def _settings(self, table: Table, engine: Engine, seed: int) -> dict[str, Any]:
        """What identifies a fit: estimator, arguments, data."""
        arrays: dict[str, Array] = {}
        params = {k: encode(v, k, arrays) for k, v in self.get_params(deep=False).items() if k not in ("verbose", "n_jobs")}
        params["inference"] = encode(engine, "inference", arrays)
        for name in NOT_IDENTITY:
            params["inference"]["params"].pop(name, None)
        listed = {k: v.tolist() for k, v in arrays.items()}
        text = json.loads(json.dumps({"params": params, "arrays": listed}))
        columns = [str(name) for name in self.feature_names_in_] if hasattr(self, "feature_names_in_") else None
        identity = {"estimator": type(self).__name__, "columns": columns, "arguments": text}
        return {**identity, "data": table.fingerprint(), "seed": seed}

    def _resume_table(self, table: Table, legal: Array | None, on_disk: bool) -> Self:
        """Continue from the engine's checkpoint."""
        engine = self._engine(on_disk)
        if engine.checkpoint is None:
            raise ValueError("resume needs an engine with checkpoint=, the file that the interrupted fit wrote")
        expected = self._settings(table, engine, 0)
        found, snapshot = read_checkpoint(engine.checkpoint, {k: v for k, v in expected.items() if k != "seed"})
        model, seed = self._resolve(table), int(found["seed"])
        settings = {**expected, "seed": seed}
        with workers(self.n_jobs) as pool:
            result = run(model, self._with_progress(engine, table), table, snapshot, seed=seed, pool=pool, settings=settings)
            self._learn(engine, result, table, on_disk, pool)
        return self._finish(result, engine, result.is_interrupted)
