"""Answers and fits of segments: as those of all sequences, with known change points.

`SegmentModel` binds these functions; the argument `self` is that estimator.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from stickbreak.reading import Rows, Values
from stickbreak.stats import Array

from . import sequence_answers as answers
from .apart import is_apart
from .base import RandomState
from .given_sequences import (
    best_path,
    check_method,
    filled,
    filtered_shares,
    mean_score,
    row_scores,
    sequence_scores,
    shares_of,
    states_of,
)
from .sequence_fits import SequenceEstimator

__all__ = [
    "decode", "filter_proba", "fit", "fit_predict", "impute", "partial_fit", "predict",
    "predict_proba", "resume", "score", "score_samples", "score_sequences",
]  # fmt: skip

Own = TypeVar("Own", bound=SequenceEstimator)


def predict(
    self: SequenceEstimator,
    X: Rows,
    *,
    lengths: Values = None,
    sequence_id: Values = None,
    context: Values = None,
    change_points: Any = None,
    method: str = "marginal",
    parameters: str = "fitted",
    out: Path | str | None = None,
) -> Any:
    """State of each row, 0..K-1; `component_ids_` maps them to permanent ids.

    Parameters
    ----------
    X, lengths, sequence_id, context, method, parameters, out : as in `HMM.predict`.
    change_points : as in `fit`.
    """
    where: dict[str, Any] = {
        "lengths": lengths, "sequence_id": sequence_id, "context": context,
    }  # fmt: skip
    if _without_points(X, out, change_points):
        return answers.predict(self, X, out=out, method=method, parameters=parameters, **where)
    check_method(method)
    given = self._given(X, change_points=change_points, **where)
    return states_of(self, given, method, parameters)


def decode(
    self: SequenceEstimator,
    X: Rows,
    *,
    lengths: Values = None,
    sequence_id: Values = None,
    context: Values = None,
    change_points: Any = None,
    parameters: str = "fitted",
) -> tuple[float, Any]:
    """The most probable segmentation of each sequence, and its log probability.

    Parameters
    ----------
    X, lengths, sequence_id, context, parameters : as in `HMM.decode`.
    change_points : as in `fit`.
    """
    given = self._given(
        X, lengths=lengths, sequence_id=sequence_id, context=context,
        change_points=change_points,
    )  # fmt: skip
    return best_path(self, given, parameters)


def predict_proba(
    self: SequenceEstimator,
    X: Rows,
    *,
    lengths: Values = None,
    sequence_id: Values = None,
    context: Values = None,
    change_points: Any = None,
    parameters: str = "fitted",
    out: Path | str | None = None,
) -> Any:
    """Probability of each state for each row, given its whole sequence.

    Parameters
    ----------
    X, lengths, sequence_id, context, parameters, out : as in `HMM.predict_proba`.
    change_points : as in `fit`.
    """
    where: dict[str, Any] = {
        "lengths": lengths, "sequence_id": sequence_id, "context": context,
    }  # fmt: skip
    if _without_points(X, out, change_points):
        return answers.predict_proba(self, X, out=out, parameters=parameters, **where)
    return shares_of(self, self._given(X, change_points=change_points, **where), parameters)


def filter_proba(
    self: SequenceEstimator,
    X: Rows,
    *,
    lengths: Values = None,
    sequence_id: Values = None,
    context: Values = None,
    change_points: Any = None,
) -> Any:
    """Probability of each state for each row, given the rows up to it.

    Parameters
    ----------
    X, lengths, sequence_id, context : as in `HMM.filter_proba`.
    change_points : as in `fit`.
    """
    given = self._given(
        X, lengths=lengths, sequence_id=sequence_id, context=context,
        change_points=change_points,
    )  # fmt: skip
    return filtered_shares(self, given)


def impute(
    self: SequenceEstimator,
    X: Rows,
    *,
    lengths: Values = None,
    sequence_id: Values = None,
    context: Values = None,
    change_points: Any = None,
) -> Any:
    """Fill missing entries with their posterior means: (n, D), or a list of (T, D).

    Parameters
    ----------
    X, lengths, sequence_id, context : as in `HMM.impute`.
    change_points : as in `fit`.
    """
    given = self._given(
        X, lengths=lengths, sequence_id=sequence_id, context=context,
        change_points=change_points,
    )  # fmt: skip
    return filled(self, given)


def score_samples(
    self: SequenceEstimator,
    X: Rows,
    *,
    lengths: Values = None,
    sequence_id: Values = None,
    context: Values = None,
    change_points: Any = None,
    out: Path | str | None = None,
) -> Any:
    """Log predictive density of each row given those before it in its sequence.

    Parameters
    ----------
    X, lengths, sequence_id, context, out : as in `HMM.score_samples`.
    change_points : as in `fit`. Segments that begin elsewhere have no density, and what there
        is sums to less than one: compare scores of the same change points only.
    """
    where: dict[str, Any] = {
        "lengths": lengths, "sequence_id": sequence_id, "context": context,
    }  # fmt: skip
    if _without_points(X, out, change_points):
        return answers.score_samples(self, X, out=out, **where)
    return row_scores(self, self._given(X, change_points=change_points, **where))


def score_sequences(
    self: SequenceEstimator,
    X: Rows,
    *,
    lengths: Values = None,
    sequence_id: Values = None,
    context: Values = None,
    change_points: Any = None,
    draws: int | None = None,
    random_state: RandomState = None,
) -> Array:
    """(S,) log predictive density of each sequence.

    Parameters
    ----------
    X, lengths, sequence_id, context, draws, random_state : as in `HMM.score_sequences`.
    change_points : as in `score_samples`.
    """
    given = self._given(
        X, lengths=lengths, sequence_id=sequence_id, context=context,
        change_points=change_points,
    )  # fmt: skip
    return sequence_scores(self, given, draws, random_state)


def score(
    self: SequenceEstimator,
    X: Rows,
    y: Values = None,
    *,
    lengths: Values = None,
    sequence_id: Values = None,
    sample_weight: Values = None,
    context: Values = None,
    change_points: Any = None,
) -> float:
    """Mean log predictive density per modeled row, in nats; see `score_samples`.

    Parameters
    ----------
    X, y, lengths, sequence_id, sample_weight, context : as in `HMM.score`.
    change_points : as in `score_samples`.
    """
    given = self._given(
        X, y, lengths=lengths, sequence_id=sequence_id, sample_weight=sample_weight,
        context=context, change_points=change_points,
    )  # fmt: skip
    return mean_score(self, given)


def fit(
    self: Own,
    X: Rows,
    y: Values = None,
    *,
    lengths: Values = None,
    sequence_id: Values = None,
    labels: Values = None,
    sample_weight: Values = None,
    context: Values = None,
    change_points: Any = None,
) -> Own:
    """Fit to sequences.

    Parameters
    ----------
    X, y, lengths, sequence_id, labels, sample_weight, context : as in `HMM.fit`.
    change_points : rows at which a segment may begin, counted within a sequence from 0, which
        must be one of them: an array of numbers for one sequence, a list of them for several.
        Default: every row.

    Returns
    -------
    self
    """
    given = self._given(
        X, y, lengths=lengths, sequence_id=sequence_id, labels=labels,
        sample_weight=sample_weight, context=context, change_points=change_points,
    )  # fmt: skip
    return self._fit(given)


def fit_predict(
    self: Own,
    X: Rows,
    y: Values = None,
    *,
    lengths: Values = None,
    sequence_id: Values = None,
    labels: Values = None,
    sample_weight: Values = None,
    context: Values = None,
    change_points: Any = None,
) -> Any:
    """Fit, then the best state of each row: `fit(X).labels_`."""
    return fit(
        self, X, y, lengths=lengths, sequence_id=sequence_id, labels=labels,
        sample_weight=sample_weight, context=context, change_points=change_points,
    ).labels_  # fmt: skip


def resume(
    self: Own,
    X: Rows,
    y: Values = None,
    *,
    lengths: Values = None,
    sequence_id: Values = None,
    labels: Values = None,
    sample_weight: Values = None,
    context: Values = None,
    change_points: Any = None,
) -> Own:
    """Continue an interrupted fit from `inference.checkpoint`, bit for bit.

    Parameters
    ----------
    X, y, lengths, sequence_id, labels, sample_weight, context, change_points : as given to the
        interrupted `fit`. Other data or settings are refused.

    Returns
    -------
    self
    """
    given = self._given(
        X, y, lengths=lengths, sequence_id=sequence_id, labels=labels,
        sample_weight=sample_weight, context=context, change_points=change_points,
    )  # fmt: skip
    return self._resume(given)


def partial_fit(
    self: Own,
    X: Rows,
    y: Values = None,
    *,
    lengths: Values = None,
    sequence_id: Values = None,
    labels: Values = None,
    sample_weight: Values = None,
    context: Values = None,
    change_points: Any = None,
    total_samples: float | None = None,
) -> Own:
    """Update the model with more sequences.

    Parameters
    ----------
    X, y, lengths, sequence_id, labels, sample_weight, context, total_samples : as in
        `HMM.partial_fit`.
    change_points : as in `fit`, of the sequences of this call.

    Returns
    -------
    self
    """
    given = self._given(
        X, y, lengths=lengths, sequence_id=sequence_id, labels=labels,
        sample_weight=sample_weight, context=context, change_points=change_points,
    )  # fmt: skip
    return self._stream(given, total_samples)


def _without_points(X: Any, out: Path | str | None, change_points: Any) -> bool:
    """Whether answers come apart, which change points do not; ValueError for both at once."""
    if not is_apart(X, out):
        return False
    if change_points is not None:
        raise ValueError(
            "change_points= is for sequences in memory; answers about shards and dask collections "
            "are made part by part: ask without it, or for one part at a time"
        )
    return True
