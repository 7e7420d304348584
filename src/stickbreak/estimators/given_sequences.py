"""What models of sequences answer, given sequences as they were passed: states and densities."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import logsumexp

from stickbreak.inference import Draw, workers
from stickbreak.models import Model, ModelPotentials
from stickbreak.parameters import require_whole
from stickbreak.reading import Given, Stack
from stickbreak.stats import Array, Fields, Summary

from .base import RandomState
from .fitted import Fitted
from .forecasts import fill_gaps

if TYPE_CHECKING:
    from .sequence_fits import SequenceEstimator

__all__ = [
    "METHODS", "ask", "best_path", "check_method", "drawn_potentials", "filled", "filtered_shares",
    "mean_score", "row_scores", "sequence_scores", "shares_of", "states_of",
]  # fmt: skip

METHODS = ("marginal", "viterbi")


def check_method(method: str) -> None:
    """Raise ValueError for a method that there is not."""
    if method not in METHODS:
        raise ValueError(f"unknown method {method!r}; choose one of {', '.join(METHODS)}")


def ask(
    self: SequenceEstimator, parameters: str, given: Given
) -> tuple[Fitted, Stack, ModelPotentials]:
    """The fitted model, the sequences read for it, and the potentials to use."""
    fitted, table = self._use(given)
    return fitted, table, self._potentials_of(fitted, parameters)


def states_of(self: SequenceEstimator, given: Given, method: str, parameters: str) -> Any:
    """The state of each row; see `sequence_answers.predict`."""
    if method == "viterbi":
        return best_path(self, given, parameters)[1]
    fitted, table, potentials = ask(self, parameters, given)
    with workers(self.n_jobs) as pool:
        return table.shape.answer(self._decode(fitted, potentials, table.whole(), pool))


def best_path(self: SequenceEstimator, given: Given, parameters: str) -> tuple[float, Any]:
    """The best path of each sequence, and its log probability."""
    fitted, table, potentials = ask(self, parameters, given)
    with workers(self.n_jobs) as pool:
        path, value = fitted.model.best_paths(potentials, table.whole(), pool)
    return float(value.sum()), table.shape.answer(path)


def shares_of(self: SequenceEstimator, given: Given, parameters: str) -> Any:
    """Probability of each state for each row, given its whole sequence."""
    fitted, table, potentials = ask(self, parameters, given)
    with workers(self.n_jobs) as pool:
        shares = fitted.local_model.shares(potentials, table.whole(), pool)
    return table.shape.answer(shares)


def filtered_shares(self: SequenceEstimator, given: Given) -> Any:
    """Probability of each state for each row, given the rows up to it."""
    fitted, table, potentials = ask(self, "mean", given)
    with workers(self.n_jobs) as pool:
        return table.shape.answer(fitted.model.filter(potentials, table.whole(), pool))


def filled(self: SequenceEstimator, given: Given) -> Any:
    """Rows whose missing entries are their posterior means."""
    fitted, table, potentials = ask(self, "fitted", given)
    with workers(self.n_jobs) as pool:
        return fill_gaps(fitted, potentials, table, pool)


def _log_steps(self: SequenceEstimator, given: Given) -> tuple[Stack, Array]:
    """Sequences, and the log density (n,) of each modeled row, not weighted."""
    fitted, table, potentials = ask(self, "mean", given)
    batch = replace(table, repeats=None).whole()
    with workers(self.n_jobs) as pool:
        steps = fitted.model.log_steps(potentials, batch, pool)
    return table, np.asarray(steps, dtype=float)


def row_scores(self: SequenceEstimator, given: Given) -> Any:
    """Log density of each row given those before it."""
    table, steps = _log_steps(self, given)
    return table.shape.answer(steps, repeat_first=False)


def mean_score(self: SequenceEstimator, given: Given) -> float:
    """Mean log density of a modeled row."""
    table, steps = _log_steps(self, given)
    return float(np.average(steps, weights=table.repeats))


def sequence_scores(
    self: SequenceEstimator, given: Given, draws: int | None, random_state: RandomState
) -> Array:
    """(S,) log density of each sequence, or its mean over parameters that are drawn."""
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


def _normalized(log_rows: Array) -> Array:
    """Log rows that sum to one; a row of zeros stays as it is."""
    total = logsumexp(log_rows, axis=-1, keepdims=True)
    return np.asarray(log_rows - np.where(np.isneginf(total), 0.0, total))
