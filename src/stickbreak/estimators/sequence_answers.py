"""Answers about the rows of sequences, as methods of their estimators: states and densities."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from stickbreak.parameters import require_whole
from stickbreak.reading import Rows, Values
from stickbreak.stats import Array

from .apart import answer_apart, is_apart
from .base import RandomState
from .forecasts import draw_sequences
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

if TYPE_CHECKING:
    from .sequence_fits import SequenceEstimator

__all__ = [
    "decode", "filter_proba", "impute", "predict", "predict_proba", "sample", "score",
    "score_samples", "score_sequences",
]  # fmt: skip


def predict(
    self: SequenceEstimator,
    X: Rows,
    *,
    lengths: Values = None,
    sequence_id: Values = None,
    context: Values = None,
    method: str = "marginal",
    parameters: str = "fitted",
    out: Path | str | None = None,
) -> Any:
    """State of each row, 0..K-1; `component_ids_` maps them to permanent ids.

    Parameters
    ----------
    X, lengths, sequence_id, context : as in `fit`.
    method : "marginal", the most probable state of each row by itself (after `HardEM`, that of
        the best path); "viterbi", the states of the most probable path as a whole, as `decode`
        has it.
    parameters : "fitted", the potentials of the fitted rule (variational Bayes: expected logs;
        EM: modes), so that `fit(X).labels_` equals `predict(X)` for rows without labels;
        "mean", posterior mean transitions and the posterior predictive of rows.
    out : for shards, a folder to which whoever reads a shard writes its answers (`.npy`); their
        paths are returned. Of dask collections the answer is a lazy one.

    Returns
    -------
    (n,) array, or a list of (T,) arrays where X is a list. The first rows of an autoregression,
    which are context only, get the state of the first row that is modeled.
    """
    check_method(method)
    if is_apart(X, out):
        where = {"lengths": lengths, "sequence_id": sequence_id, "context": context}
        return answer_apart(self, "predict", X, out, **where, method=method, parameters=parameters)
    given = self._given(X, lengths=lengths, sequence_id=sequence_id, context=context)
    return states_of(self, given, method, parameters)


def decode(
    self: SequenceEstimator,
    X: Rows,
    *,
    lengths: Values = None,
    sequence_id: Values = None,
    context: Values = None,
    parameters: str = "fitted",
) -> tuple[float, Any]:
    """The most probable path of each sequence (Viterbi), and its log probability.

    Parameters
    ----------
    X, lengths, sequence_id, context, parameters : as in `predict`.

    Returns
    -------
    log probability : of rows and path together, log p(x, z), summed over sequences. With the
        potentials of variational Bayes it is the expected log of that.
    states : as `predict` gives them.
    """
    given = self._given(X, lengths=lengths, sequence_id=sequence_id, context=context)
    return best_path(self, given, parameters)


def predict_proba(
    self: SequenceEstimator,
    X: Rows,
    *,
    lengths: Values = None,
    sequence_id: Values = None,
    context: Values = None,
    parameters: str = "fitted",
    out: Path | str | None = None,
) -> Any:
    """Probability of each state for each row, given its whole sequence.

    (n, K), or a list of (T, K).

    Parameters
    ----------
    X, lengths, sequence_id, context, parameters : as in `predict`; after `HardEM`, the best
        path has probability one.
    out : as in `predict`.
    """
    if is_apart(X, out):
        where = {"lengths": lengths, "sequence_id": sequence_id, "context": context}
        return answer_apart(self, "predict_proba", X, out, **where, parameters=parameters)
    given = self._given(X, lengths=lengths, sequence_id=sequence_id, context=context)
    return shares_of(self, given, parameters)


def filter_proba(
    self: SequenceEstimator,
    X: Rows,
    *,
    lengths: Values = None,
    sequence_id: Values = None,
    context: Values = None,
) -> Any:
    """Probability of each state for each row, given the rows up to it.

    (n, K), or a list of (T, K). Uses posterior mean transitions and the posterior predictive of
    rows. `online_filter` gives the same, row by row.

    Parameters
    ----------
    X, lengths, sequence_id, context : as in `fit`.
    """
    given = self._given(X, lengths=lengths, sequence_id=sequence_id, context=context)
    return filtered_shares(self, given)


def impute(
    self: SequenceEstimator,
    X: Rows,
    *,
    lengths: Values = None,
    sequence_id: Values = None,
    context: Values = None,
) -> Any:
    """Fill missing entries with their posterior means: (n, D), or a list of (T, D).

    A mean is taken over the states, weighted as in `predict_proba`: rows before and after a gap
    tell its state. Values of an autoregression are filled if their context is complete.

    Parameters
    ----------
    X, lengths, sequence_id, context : as in `fit`.
    """
    given = self._given(X, lengths=lengths, sequence_id=sequence_id, context=context)
    return filled(self, given)


def score_samples(
    self: SequenceEstimator,
    X: Rows,
    *,
    lengths: Values = None,
    sequence_id: Values = None,
    context: Values = None,
    out: Path | str | None = None,
) -> Any:
    """Log predictive density of each row given those before it in its sequence.

    (n,), or a list of (T,). The family's parameters are integrated out (the posterior
    predictive of each row); transitions are posterior means. The sum over a sequence is its log
    density. A row that is missing as a whole scores 0. The first rows of an autoregression,
    which are context only, score NaN.

    Parameters
    ----------
    X, lengths, sequence_id, context : as in `fit`.
    out : as in `predict`.
    """
    if is_apart(X, out):
        where = {"lengths": lengths, "sequence_id": sequence_id, "context": context}
        return answer_apart(self, "score_samples", X, out, **where)
    given = self._given(X, lengths=lengths, sequence_id=sequence_id, context=context)
    return row_scores(self, given)


def score_sequences(
    self: SequenceEstimator,
    X: Rows,
    *,
    lengths: Values = None,
    sequence_id: Values = None,
    context: Values = None,
    draws: int | None = None,
    random_state: RandomState = None,
) -> Array:
    """(S,) log predictive density of each sequence.

    Parameters
    ----------
    X, lengths, sequence_id, context : as in `fit`.
    draws : None, the sums of `score_samples`; or a number of parameter sets to draw from the
        posterior: the log of the mean density over them, with one set for a whole sequence
        (50 in published comparisons).
    random_state : seed of the draws; default: the estimator's.
    """
    given = self._given(X, lengths=lengths, sequence_id=sequence_id, context=context)
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
) -> float:
    """Mean log predictive density per modeled row, in nats; see `score_samples`.

    Parameters
    ----------
    X, y, lengths, sequence_id, sample_weight, context : as in `fit`.
    """
    given = self._given(
        X, y, lengths=lengths, sequence_id=sequence_id, sample_weight=sample_weight,
        context=context,
    )  # fmt: skip
    return mean_score(self, given)


def sample(
    self: SequenceEstimator,
    n_samples: int = 1,
    random_state: RandomState = None,
    *,
    lengths: Values = None,
) -> tuple[Any, Any]:
    """Draw sequences: states by posterior mean transitions, rows by the posterior predictive.

    Parameters
    ----------
    n_samples : rows of one sequence.
    random_state : seed; default: the estimator's.
    lengths : (S,) rows of several sequences, in place of n_samples.

    Returns
    -------
    X (n, D) and states (n,); with `lengths`, two lists of them.
    """
    fitted = self._require_fitted()
    require_whole(n_samples=n_samples)
    wanted = [n_samples] if lengths is None else np.atleast_1d(np.asarray(lengths)).tolist()
    potentials, rng = self._potentials_of(fitted, "mean"), self._rng(random_state)
    return draw_sequences(fitted, potentials, wanted, rng, is_list=lengths is not None)
