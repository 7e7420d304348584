"""Fitted estimators in files, and fits that continue from a checkpoint."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from stickbreak.inference import Engine, Trace, read_checkpoint, run, workers
from stickbreak.persist import pack_fields, unpack_fields
from stickbreak.stats import Array, Summary

from .files import decode, encode, save
from .frames import check_categories

__all__ = ["Kept"]

NOT_IDENTITY = {
    "checkpoint",
    "checkpoint_every",
    "callbacks",
}  # settings that may differ between a fit and its resumption


class Kept:
    """`save`, what `load` reads, and checkpoints."""

    _data_on_disk: Any

    if TYPE_CHECKING:  # of the estimator

        def __getattr__(self, name: str) -> Any: ...

    def save(self, path: str | Path) -> None:
        """Write the fitted model to a file that `stickbreak.load` reads: safetensors and JSON, no
        pickle.
        """
        self._require_fitted()
        save(self, path)

    def _pack(self, arrays: dict[str, Array]) -> dict[str, Any]:
        return {
            "family": encode(self._model.family, "family", arrays),
            "prior": {
                name: encode(value, f"prior.{name}", arrays)
                for name, value in self._prior_of(self._model.prior).items()
            },
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
            "feature_names_in": [str(n) for n in self.feature_names_in_]
            if hasattr(self, "feature_names_in_")
            else None,
            "categories": [[column, list(values)] for column, values in self.categories_.items()],
        }

    def _unpack(self, saved: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
        counts = unpack_fields(saved["counts"], "counts", arrays)
        # as the first files had it
        prior = saved["prior"] if "prior" in saved else {"concentration": saved["concentration"]}
        self._fitted_by = decode(saved["engine"], arrays)
        self._rule = self._fitted_by.rule()
        found = {name: decode(prior[name], arrays) for name in self.PRIOR}
        self._model = self._make_model(decode(saved["family"], arrays), found, self._rule)
        local_bound, log_z, n_units = (
            float(saved["numbers"][n]) for n in ("local_bound", "log_z", "n_units")
        )
        self._counts = Summary(counts.layout, counts.arrays, local_bound, log_z, n_units)
        self._params = unpack_fields(saved["params"], "params", arrays)
        self.component_ids_ = np.array([int(i) for i in saved["ids"]])
        self._next_id, self._n_steps = int(saved["next_id"]), int(saved["n_steps"])
        self.n_components_ = len(self.component_ids_)
        self.n_features_in_ = int(saved["n_features_in"])
        names = saved["feature_names_in"]
        if names is not None and len(names) != self.n_features_in_:
            raise ValueError(f"the model says {self.n_features_in_} columns and names {len(names)}")
        self._check_shapes()
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

    def _n_columns(self) -> int:
        """Columns of the rows that the family reads."""
        return int(self.n_features_in_)

    def _check_shapes(self) -> None:
        """A file's numbers and arrays must fit each other: kernels trust them."""
        columns = self._model.family.n_columns
        if self._n_columns() != columns:
            raise ValueError(
                f"the model says {self.n_features_in_} columns, its family has {columns}"
            )
        # raises where members do not share out the columns
        self._model.family.locate(None, columns)
        if "legal" in self._params and self._params["legal"].shape[1:] != (self.n_components_,):
            raise ValueError(
                f"legal has shape {self._params['legal'].shape} for {self.n_components_} components"
            )
        expected = self._model.start_params(self.n_components_)
        for name, array in expected.arrays.items():
            if self._params[name].shape != array.shape or not np.isfinite(self._params[name]).all():
                raise ValueError(
                    f"{name} has shape {self._params[name].shape}, or is not finite; "
                    f"expected {array.shape}"
                )
        expected = self._model.zeros(self.n_components_)
        for name, array in expected.arrays.items():
            if self._counts[name].shape != array.shape or self._counts[name].dtype != np.float64:
                raise ValueError(
                    f"{name} has shape {self._counts[name].shape}; expected {array.shape}"
                )
            if not np.isfinite(self._counts[name]).all():
                raise ValueError(f"{name} holds values that are not finite")
            if expected.layout[name].nonnegative and (self._counts[name] < 0).any():
                raise ValueError(f"{name} holds negative values")
        found = {
            "weights": self._model.prior.mean(self._counts, self._params),
            **self._model.family.describe(self._counts),
        }
        for name, array in found.items():
            if not np.isfinite(array).all():
                raise ValueError(f"the {name} that follow from the arrays are not finite")

    # ------------------------------------------------------------------------------------------ che

    def _settings(self, table: Any, engine: Engine, seed: int) -> dict[str, Any]:
        """What identifies a fit: estimator, arguments, data."""
        arrays: dict[str, Array] = {}
        params = {
            k: encode(v, k, arrays)
            for k, v in self.get_params(deep=False).items()
            if k not in ("verbose", "n_jobs")
        }
        params["inference"] = encode(engine, "inference", arrays)
        for name in NOT_IDENTITY:
            params["inference"]["params"].pop(name, None)
        listed = {k: v.tolist() for k, v in arrays.items()}
        text = json.loads(json.dumps({"params": params, "arrays": listed}))
        columns = (
            [str(name) for name in self.feature_names_in_]
            if hasattr(self, "feature_names_in_")
            else None
        )
        identity = {"estimator": type(self).__name__, "columns": columns, "arguments": text}
        return {**identity, "data": table.fingerprint(), "seed": seed}

    def _resume_table(self, table: Any, legal: Array | None, on_disk: bool) -> Self:
        """Continue from the engine's checkpoint."""
        engine = self._engine(on_disk)
        if engine.checkpoint is None:
            raise ValueError(
                "resume needs an engine with checkpoint=, the file that the interrupted fit wrote"
            )
        expected = self._settings(table, engine, 0)
        found, snapshot = read_checkpoint(
            engine.checkpoint, {k: v for k, v in expected.items() if k != "seed"}
        )
        model, seed = self._resolve(table), int(found["seed"])
        settings = {**expected, "seed": seed}
        with workers(self.n_jobs) as pool:
            result = run(
                model,
                self._with_progress(engine, table),
                table,
                snapshot,
                seed=seed,
                pool=pool,
                settings=settings,
            )
            self._learn(engine, result, table, on_disk, pool)
        return self._finish(result, engine, result.is_interrupted)
