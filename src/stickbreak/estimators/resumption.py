"""Continue an interrupted fit from its checkpoint alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from stickbreak.errors import CheckpointError, in_one_line
from stickbreak.inference import read_checkpoint

from .chains import ChainEstimator
from .files import DAMAGE, ESTIMATORS, decode
from .topics import TopicEstimator

__all__ = ["resume"]


def resume(
    path: str | Path,
    X: Any,
    *,
    lengths: Any = None,
    sequence_id: Any = None,
    labels: Any = None,
    sample_weight: Any = None,
    context: Any = None,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> Any:
    """Continue an interrupted fit from its checkpoint; the settings are in the file, the data must
    be the same.

    Parameters
    ----------
    path : the checkpoint.
    X, labels, sample_weight : as given to the interrupted `fit`; lengths, sequence_id, context :
        the same, of sequences.
    n_jobs : threads; results do not depend on it.
    verbose : show progress.

    Returns
    -------
    The fitted estimator.
    """
    settings, _ = read_checkpoint(path)
    if settings.get("estimator") not in ESTIMATORS:
        raise CheckpointError(f"{path} holds an unknown estimator {settings.get('estimator')!r}")
    try:
        arrays = {
            name: np.array(values) for name, values in settings["arguments"]["arrays"].items()
        }
        params = {
            name: decode(value, arrays) for name, value in settings["arguments"]["params"].items()
        }
        params["inference"].set_params(checkpoint=str(path))
        estimator = ESTIMATORS[settings["estimator"]](**params, n_jobs=n_jobs, verbose=verbose)
    except DAMAGE as error:
        raise CheckpointError(
            f"{path} is damaged: {type(error).__name__}: {in_one_line(error)}"
        ) from None
    if not isinstance(sequence_id, str):  # a column of X, which the estimator reads by itself
        X = estimator._open(X, settings.get("columns"))
    where = {"lengths": lengths, "sequence_id": sequence_id, "context": context}
    given = {name: value for name, value in where.items() if value is not None}
    if given and not isinstance(estimator, ChainEstimator):
        raise ValueError(
            f"{next(iter(given))} is for sequences; the checkpoint is of a "
            f"{type(estimator).__name__}"
        )
    if labels is not None and isinstance(estimator, TopicEstimator):
        raise ValueError(
            f"labels is not for documents; the checkpoint is of a {type(estimator).__name__}"
        )
    known = {} if labels is None else {"labels": labels}
    return estimator.resume(X, sample_weight=sample_weight, **known, **given)
