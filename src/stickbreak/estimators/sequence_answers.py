"""Answers about the rows of sequences, as methods of their estimators: states and densities."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import logsumexp

from stickbreak.inference import Draw, workers
from stickbreak.models import Model, ModelPotentials
from stickbreak.parameters import require_whole
from stickbreak.reading import Given, Rows, Stack, Values
from stickbreak.stats import Array, Fields, Summary

from .apart import answer_apart, is_apart
from .base import RandomState
from .fitted import Fitted
from .forecasts import draw_sequences, fill_gaps

if TYPE_CHECKING:
    from .sequence_fits import SequenceEstimator

__all__ = [
    "METHODS", "ask", "decode", "drawn_potentials", "filter_proba", "impute", "predict",
    "predict_proba", "sample", "score", "score_samples", "score_sequences",
]  # fmt: skip

METHODS = ("marginal", "viterbi")


def ask(
    self: SequenceEstimator,
    parameters: str,
    X: Rows,
    lengths: Values,
    sequence_id: Values,
    context: Values,
) -> tuple[Fitted, Stack, ModelPotentials]:
    """The fitted model, the sequences read for it, and the potentials to use."""
    given = self._given(X, lengths=lengths, sequence_id=sequence_id, context=context)
    fitted, table = self._use(given)
    return fitted, table, self._potentials_of(fitted, parameters)


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
    if method not in METHODS:
        raise ValueError(f"unknown method {method!r}; choose one of {', '.join(METHODS)}")
    if is_apart(X, out):
        where = {"lengths": lengths, "sequence_id": sequence_id, "context": context}
        return answer_apart(self, "predict", X, out, **where, method=method, parameters=parameters)
    if method == "viterbi":
        return decode(
            self,
            X,
            lengths=lengths,
            sequence_id=sequence_id,
            context=context,
            parameters=parameters,
        )[1]
    fitted, table, potentials = ask(self, parameters, X, lengths, sequence_id, context)
    with workers(self.n_jobs) as pool:
        return table.shape.answer(self._decode(fitted, potentials, table.whole(), pool))


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
    fitted, table, potentials = ask(self, parameters, X, lengths, sequence_id, context)
    with workers(self.n_jobs) as pool:
        path, value = fitted.model.best_paths(potentials, table.whole(), pool)
    return float(value.sum()), table.shape.answer(path)


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
    fitted, table, potentials = ask(self, parameters, X, lengths, sequence_id, context)
    with workers(self.n_jobs) as pool:
        shares = fitted.local_model.shares(potentials, table.whole(), pool)
    return table.shape.answer(shares)


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
    fitted, table, potentials = ask(self, "mean", X, lengths, sequence_id, context)
    with workers(self.n_jobs) as pool:
        return table.shape.answer(fitted.model.filter(potentials, table.whole(), pool))


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
    fitted, table, potentials = ask(self, "fitted", X, lengths, sequence_id, context)
    with workers(self.n_jobs) as pool:
        return fill_gaps(fitted, potentials, table, pool)


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
    table, steps = _log_steps(self, given)
    return table.shape.answer(steps, repeat_first=False)


def _log_steps(self: SequenceEstimator, given: Given) -> tuple[Stack, Array]:
    """Sequences, and the log density (n,) of each modeled row, not weighted."""
    fitted, table = self._use(given)
    potentials = self._potentials_of(fitted, "mean")
    batch = replace(table, repeats=None).whole()
    with workers(self.n_jobs) as pool:
        steps = fitted.model.log_steps(potentials, batch, pool)
    return table, np.asarray(steps, dtype=float)


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
    if draws is None:
        table, steps = _log_steps(self, given)
        return np.add.reduceat(steps, table.shape.offsets[:-1])
    require_whole(draws=draws)
    fitted, table = self._use(given)
    batch, rng = replace(table, repeats=None).whole(), self._rng(random_state)
    known = self._dictionary(fitted.schema, fitted.ids)
    legal, found = None if known is None else known.log_legal, []
    with workers(self.n_jobs) as pool:
        for _ in range(int(draws)):
            drawn = drawn_potentials(fitted.model, fitted.counts, fitted.params, rng)
            potentials = replace(drawn, log_legal=legal)
            found.append(fitted.model.log_evidence(potentials, batch, pool))
    return np.asarray(logsumexp(np.array(found), axis=0) - np.log(len(found)))


def drawn_potentials(
    model: Model, counts: Summary, params: Fields, rng: np.random.Generator
) -> ModelPotentials:
    """Potentials of parameters drawn from the posterior, rows renormalized over the states."""
    for part in (model.family, model.prior):
        if not part.draws:
            raise ValueError(
                f"{type(part).__name__} cannot be drawn from its posterior; use draws=None"
            )
    found = model.potentials(counts, params, Draw(rng))
    rows = {name: _normalized(found[name]) for name in ("start", "transition")}
    return replace(found, tables={**found.tables, **rows})


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
    table, steps = _log_steps(self, given)
    return float(np.average(steps, weights=table.repeats))


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


def _normalized(log_rows: Array) -> Array:
    """Log rows that sum to one; a row of zeros stays as it is."""
    total = logsumexp(log_rows, axis=-1, keepdims=True)
    return np.asarray(log_rows - np.where(np.isneginf(total), 0.0, total))
