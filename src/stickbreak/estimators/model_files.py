"""Model files and checkpoints: estimators and their results as plain values, and back."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from stickbreak.errors import DAMAGE, CheckpointError, ModelFileError, in_one_line
from stickbreak.inference import Engine, Snapshot, Trace, read_checkpoint, workers
from stickbreak.persist import pack_fields, read_file, unpack_fields, write_file
from stickbreak.reading import Rows, Schema, check_categories
from stickbreak.stats import Array, Summary

from .checked_models import check_arrays, check_columns, check_components, columns_of, try_out
from .encoding import decode, encode
from .fitted import Fitted

if TYPE_CHECKING:
    from .base import Estimator
    from .engine_runs import Task

__all__ = [
    "continue_fit", "estimator_of", "identify_fit", "load", "register", "resume", "save",
]  # fmt: skip

NOT_GIVEN = {"labels": "is not for documents", "change_points": "is for semi-Markov models"}

ESTIMATORS: dict[str, type[Any]] = {}
# Settings that may differ between a fit and its resumption.
NOT_IDENTITY = {"checkpoint", "checkpoint_every", "callbacks"}
NOT_FIT = {"verbose", "n_jobs", "max_iter", "tol"}  # the engine has the last two
REVERSE = "reverse/"  # before the names of arrays of the model of the other direction
NUMBERS = ("local_bound", "log_z", "n_units")  # of a Summary, beside its arrays


def register(cls: type[Any]) -> type[Any]:
    """Make an estimator known to `load` by its class name; usable as a decorator."""
    ESTIMATORS[cls.__name__] = cls
    return cls


# ---------------------------------------------------------------------------------------- models


def save(estimator: Estimator, fitted: Fitted, path: str | Path) -> None:
    """Write a fitted estimator to a file that `load` reads."""
    name = type(estimator).__name__
    if ESTIMATORS.get(name) is not type(estimator):
        raise ValueError(f"{name} is not known to files; only registered estimators can be saved")
    columns_of(fitted.model.family)
    arrays: dict[str, Array] = {}
    params = estimator.get_params(deep=False)
    header = {
        "estimator": name,
        "params": {k: encode(v, f"init.{k}", arrays) for k, v in params.items()},
        "fitted": _pack(fitted, estimator._prior_of(fitted.model.prior), arrays),
    }
    write_file(path, "model", header, arrays)


def load(path: str | Path) -> Any:
    """Read a fitted estimator that `save` wrote.

    Parameters
    ----------
    path : file name. A damaged, foreign or later file gives a ModelFileError.

    Returns
    -------
    The estimator, fitted: for instance a `Mixture`.
    """
    header, arrays = read_file(path, "model")
    try:
        estimator = _read_estimator(header, arrays)
        estimator._check_arguments()
        estimator._fitted = _unpack(estimator, header["fitted"], arrays)
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {in_one_line(error)}") from None
    except DAMAGE as error:
        raise ModelFileError(
            f"{path} is damaged: {type(error).__name__}: {in_one_line(error)}"
        ) from None
    return estimator


def _read_estimator(header: dict[str, Any], arrays: Mapping[str, Array]) -> Estimator:
    """An unfitted estimator."""
    name = header["estimator"]
    if name not in ESTIMATORS:
        raise ModelFileError(
            f"the file holds an unknown estimator {name!r}; it may come from a later release"
        )
    params = {str(k): decode(v, arrays) for k, v in header["params"].items()}
    made: Estimator = ESTIMATORS[name](**params)
    return made


def _pack(fitted: Fitted, prior: Mapping[str, Any], arrays: dict[str, Array]) -> dict[str, Any]:
    schema = fitted.schema
    return {
        "family": encode(fitted.model.family, "family", arrays),
        "prior": {name: encode(value, f"prior.{name}", arrays) for name, value in prior.items()},
        "engine": encode(fitted.engine, "engine", arrays),
        "counts": pack_fields(fitted.counts, "counts", arrays),
        "params": pack_fields(fitted.params, "params", arrays),
        "numbers": {name: getattr(fitted.counts, name) for name in NUMBERS},
        "ids": list(fitted.ids),
        "next_id": fitted.next_id,
        "n_steps": fitted.n_steps,
        "lower_bound": float(fitted.bound),
        "converged": bool(fitted.is_converged),
        "trace": fitted.trace.to_dict(),
        "n_features_in": schema.n_features,
        "feature_names_in": None if schema.names is None else [str(n) for n in schema.names],
        "categories": [[column, list(values)] for column, values in schema.categories.items()],
        **({"names": [[i, name] for i, name in fitted.names.items()]} if fitted.names else {}),
        **({"starts": [list(start) for start in fitted.starts]} if fitted.starts else {}),
        **_pack_sides(fitted, prior, arrays),
    }


def _pack_sides(
    fitted: Fitted, prior: Mapping[str, Any], arrays: dict[str, Array]
) -> dict[str, Any]:
    """What only models of sentence pairs have: source words, and a model of the other direction."""
    found: dict[str, Any] = {}
    if fitted.schema.source_names is not None:
        found["source_names_in"] = list(fitted.schema.source_names)
    if fitted.reverse is not None:
        own: dict[str, Array] = {}
        found["reverse"] = _pack(fitted.reverse, prior, own)
        arrays.update({f"{REVERSE}{name}": array for name, array in own.items()})
    return found


def _unpack_reverse(
    estimator: Estimator, saved: Mapping[str, Any], arrays: Mapping[str, Array]
) -> Fitted | None:
    if saved.get("reverse") is None:
        return None
    if saved["reverse"].get("reverse") is not None:
        raise ValueError("the model of the other direction has a model of the other direction")
    own = {n.removeprefix(REVERSE): a for n, a in arrays.items() if n.startswith(REVERSE)}
    return _unpack(estimator, saved["reverse"], own)


def _unpack(estimator: Estimator, saved: Mapping[str, Any], arrays: Mapping[str, Array]) -> Fitted:
    # the first file format had only a concentration
    prior = saved["prior"] if "prior" in saved else {"concentration": saved["concentration"]}
    engine: Engine = decode(saved["engine"], arrays)
    found = {name: decode(prior[name], arrays) for name in estimator.PRIOR}
    model = estimator._model_for(engine, decode(saved["family"], arrays), found)
    local_bound, log_z, n_units = (float(saved["numbers"][name]) for name in NUMBERS)
    ids = tuple(int(i) for i in saved["ids"])
    names, n_features = saved["feature_names_in"], int(saved["n_features_in"])
    if names is not None and len(names) != n_features:
        raise ValueError(f"the model says {n_features} columns and names {len(names)}")
    if names is not None and not all(isinstance(name, str) for name in names):
        raise ValueError("the names of columns are not text")
    categories = {column: list(values) for column, values in saved.get("categories", ())}
    check_components(ids, int(saved["next_id"]))
    params = unpack_fields(saved["params"], "params", arrays)
    layout = model.layout()  # not that of the file, which says nothing else
    fitted = Fitted(
        model,
        Summary(layout, {n: arrays[f"counts/{n}"] for n in layout}, local_bound, log_z, n_units),
        params,
        ids,
        int(saved["next_id"]),
        int(saved["n_steps"]),
        Trace.from_dict(saved["trace"]),
        float(saved["lower_bound"]),
        bool(saved["converged"]),
        engine,
        Schema(n_features, None if names is None else tuple(names), categories, _sources(saved)),
        reverse=_unpack_reverse(estimator, saved, arrays),
        names=_unpack_names(saved, ids),
        starts=tuple((float(b), int(k), int(n)) for b, k, n in saved.get("starts", ())),
    )
    check_columns(fitted, estimator._family_columns(fitted))
    check_categories(categories, names, n_features)
    with workers():  # BLAS does not pay for many small matrices
        check_arrays(fitted)
        try_out(fitted)
    return fitted


def _unpack_names(saved: Mapping[str, Any], ids: tuple[int, ...]) -> dict[int, str]:
    """The user's names of components."""
    names = {int(i): name for i, name in saved.get("names", ())}
    if not all(isinstance(name, str) for name in names.values()):
        raise ValueError("the names of components are not text")
    if not set(names) <= set(ids):
        raise ValueError("components are named that the model does not have")
    return names


def _sources(saved: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Words of the source language."""
    names = saved.get("source_names_in")
    if names is not None and not all(isinstance(name, str) for name in names):
        raise ValueError("the source words are not text")
    return None if names is None else tuple(names)


# ------------------------------------------------------------------------------------ checkpoints


def identify_fit(estimator: Estimator, task: Task, engine: Engine, seed: int) -> dict[str, Any]:
    """Estimator, arguments and data, which a checkpoint and its resumed fit must share."""
    arrays: dict[str, Array] = {}
    given = estimator.get_params(deep=False)
    params = {k: encode(v, k, arrays) for k, v in given.items() if k not in NOT_FIT}
    params["inference"] = encode(engine, "inference", arrays)
    for name in NOT_IDENTITY:
        params["inference"]["params"].pop(name, None)
    listed = {k: v.tolist() for k, v in arrays.items()}
    names = task.schema.names
    return {
        "estimator": type(estimator).__name__,
        "columns": None if names is None else [str(name) for name in names],
        "arguments": json.loads(json.dumps({"params": params, "arrays": listed})),
        **task.table.identity(),
        "seed": seed,
    }


def resume(
    path: str | Path,
    X: Rows,
    *,
    lengths: ArrayLike | None = None,
    sequence_id: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    context: ArrayLike | None = None,
    change_points: Any = None,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> Any:
    """Continue an interrupted fit from its checkpoint.

    The settings are in the file; the data must be the same.

    Parameters
    ----------
    path : the checkpoint.
    X, labels, sample_weight : as given to the interrupted `fit`; lengths, sequence_id, context :
        the same, of sequences; change_points : of segments.
    n_jobs : threads; results do not depend on it.
    verbose : show progress.

    Returns
    -------
    The fitted estimator.
    """
    where = {"lengths": lengths, "sequence_id": sequence_id, "labels": labels, "context": context}
    where |= {"sample_weight": sample_weight, "change_points": change_points}
    given = {name: value for name, value in where.items() if value is not None}
    return continue_fit(path, read_checkpoint(path), X, given, n_jobs=n_jobs, verbose=verbose)


def continue_fit(
    path: str | Path,
    saved: tuple[dict[str, Any], Snapshot],
    X: Rows,
    given: Mapping[str, Any],
    *,
    n_jobs: int | None,
    verbose: int,
) -> Any:
    """As `resume`, from a checkpoint that was read; given: arguments of `fit` beside X, by name."""
    settings = saved[0]
    estimator = estimator_of(settings, path).set_params(n_jobs=n_jobs, verbose=verbose)
    estimator._saved = saved
    # a column of X, which the estimator reads by itself
    if not isinstance(given.get("sequence_id"), str):
        X = estimator._open(X, settings.get("columns"))
    for name in given:
        if name not in inspect.signature(estimator.resume).parameters:
            what = NOT_GIVEN.get(name, "is for sequences")
            raise ValueError(f"{name} {what}; the checkpoint is of a {type(estimator).__name__}")
    return estimator.resume(X, **given)


def estimator_of(settings: Mapping[str, Any], path: str | Path) -> Any:
    """The estimator that wrote a checkpoint, unfitted."""
    name = settings.get("estimator")
    if not isinstance(name, str) or name not in ESTIMATORS:
        raise CheckpointError(f"{path} holds an unknown estimator {name!r}")
    try:
        given = settings["arguments"]
        arrays = {name: np.array(values) for name, values in given["arrays"].items()}
        params = {name: decode(value, arrays) for name, value in given["params"].items()}
        params["inference"].set_params(checkpoint=str(path))
        made = ESTIMATORS[name](**params)
        made._check_arguments()
        return made
    except DAMAGE as error:
        raise CheckpointError(
            f"{path} is damaged: {type(error).__name__}: {in_one_line(error)}"
        ) from None
