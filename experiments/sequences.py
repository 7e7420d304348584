"""What the experiments on sequences share: models of chains, their labels and scores, and the toy
of eight states.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import logsumexp

import stickbreak as sb
from stickbreak.data import Batch, Sequences, measure
from stickbreak.estimators.given_sequences import drawn_potentials
from stickbreak.inference import MeanLog
from stickbreak.models import finite_hmm, hdp_hmm

from .fits import Fit, Setting
from .frame import span

MOVES = (sb.Loosen(), sb.Birth(), sb.Merge(), sb.Delete())
# of the peers, in every HDP-HMM here
ROWS = {"concentration": 0.5, "start_concentration": 10.0, "top_concentration": 10.0}
TOY_MEANS = np.array(
    [(0, 20), (20, 0), (-30, -30), (30, -30), (-20, 0), (0, -20), (30, 30), (-30, 30)], dtype=float
)


def as_sequences(parts: list[np.ndarray]) -> Sequences:
    """Arrays (T_s, D), one after another."""
    return Sequences(
        np.concatenate(parts), offsets=np.r_[0, np.cumsum([len(part) for part in parts])]
    )


def infinite(data: Sequences, family: Any, stickiness: float = 0.0) -> Setting:
    """A (sticky) HDP-HMM of the peers' concentrations; open priors of the family are set from the
    data.
    """
    return Setting(data, hdp_hmm(resolved(data, family), stickiness=stickiness, **ROWS))


def finite(data: Sequences, family: Any, **rows: float) -> Setting:
    """Dirichlet rows, whose keywords are those of the prior."""
    return Setting(data, finite_hmm(resolved(data, family), **rows))


def resolved(data: Sequences, family: Any) -> Any:
    """The family, with open priors set from the data."""
    return family.locate(None, data.rows.shape[1]).resolve(measure(data, family.check_rows))


def labels_of(fit: Fit, batch: Batch) -> np.ndarray:
    """(n,) the state with the largest posterior share of each row."""
    found = fit.result
    return np.asarray(
        found.model.decode(found.model.potentials(found.counts, found.params, MeanLog()), batch)
    )


def log_steps(fit: Fit, batch: Batch) -> np.ndarray:
    """(n,) log predictive density of each row given those before it; parameters integrated out,
    rows at their means.
    """
    found = fit.result
    return np.asarray(
        found.model.log_steps(found.model.predictive(found.counts, found.params), batch)
    )


def log_scores(fit: Fit, batch: Batch) -> np.ndarray:
    """(S,) log predictive density of each sequence."""
    found = fit.result
    return np.asarray(
        found.model.log_evidence(found.model.predictive(found.counts, found.params), batch)
    )


def drawn_scores(fit: Fit, batch: Batch, draws: int = 50) -> np.ndarray:
    """(S,) log of the mean density of each sequence over parameters drawn from the posterior: the
    published metric.
    """
    found, rng = fit.result, np.random.default_rng(0)
    scores = [
        found.model.log_evidence(
            drawn_potentials(found.model, found.counts, found.params, rng), batch
        )
        for _ in range(draws)
    ]
    return np.asarray(logsumexp(scores, axis=0) - np.log(draws))


def states(fits: list[Fit]) -> str:
    """How many states the fits ended with."""
    return span(len(fit.result.ids) for fit in fits)


def draw_toy(
    n_sequences: int = 32, length: int = 1000, stay: float = 0.999
) -> tuple[Sequences, np.ndarray]:
    """Eight states in a circle, mostly stayed in; Gaussians with unit covariance. Also the true
    states (n,).
    """
    rows, truth = [], []
    for i in range(n_sequences):
        rng = np.random.default_rng(i)
        moves = rng.random(length) >= stay
        moves[0] = False
        path = (i + np.cumsum(moves)) % len(TOY_MEANS)
        rows.append(TOY_MEANS[path] + rng.standard_normal((length, 2)))
        truth.append(path)
    return as_sequences(rows), np.concatenate(truth)
