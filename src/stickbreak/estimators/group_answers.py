"""Answers about rows in groups, as methods of their estimator: components, densities, draws."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import logsumexp

from stickbreak.data import Batch
from stickbreak.inference import workers
from stickbreak.models import Model, ModelPotentials
from stickbreak.parameters import require_whole
from stickbreak.protocols import Pool
from stickbreak.reading import Groups, Rows, Values
from stickbreak.stats import Array

from .base import RandomState

if TYPE_CHECKING:
    from .groups import HDPMixture

__all__ = [
    "densities", "group_shares", "impute", "predict", "predict_proba", "sample", "score",
    "score_groups", "score_samples",
]  # fmt: skip

N_FOLDS = 5  # parts of a group, each scored given the others
PART_ROWS = 100_000  # rows of the groups that are scored at a time


def predict(
    self: HDPMixture, X: Rows, *, lengths: Values = None, sequence_id: Values = None
) -> Any:
    """Component of each row, 0..K-1; `component_ids_` maps them to permanent ids.

    Parameters
    ----------
    X, lengths, sequence_id : as in `fit`.

    Returns
    -------
    (n,) array, or a list of arrays where X is a list.
    """
    fitted, table = self._use(self._given(X, lengths=lengths, sequence_id=sequence_id))
    with workers(self.n_jobs) as pool:
        return table.shape.answer(self._decode(fitted, fitted.potentials(), table.whole(), pool))


def predict_proba(
    self: HDPMixture, X: Rows, *, lengths: Values = None, sequence_id: Values = None
) -> Any:
    """Probability of each component for each row, given its group: (n, K), or a list of them.

    Parameters
    ----------
    X, lengths, sequence_id : as in `fit`.
    """
    fitted, table = self._use(self._given(X, lengths=lengths, sequence_id=sequence_id))
    with workers(self.n_jobs) as pool:
        shares = fitted.local_model.shares(fitted.potentials(), table.whole(), pool)
    return table.shape.answer(shares)


def group_shares(
    self: HDPMixture, X: Rows, *, lengths: Values = None, sequence_id: Values = None
) -> Array:
    """(S, K) posterior mean share of each component in each group.

    Parameters
    ----------
    X, lengths, sequence_id : as in `fit`.
    """
    fitted, table = self._use(self._given(X, lengths=lengths, sequence_id=sequence_id))
    with workers(self.n_jobs) as pool:
        return fitted.model.unit_shares(fitted.potentials(), table.whole(), pool)


def impute(self: HDPMixture, X: Rows, *, lengths: Values = None, sequence_id: Values = None) -> Any:
    """Fill missing entries with their posterior means, averaged as in `predict_proba`.

    Parameters
    ----------
    X, lengths, sequence_id : as in `fit`.
    """
    fitted, table = self._use(self._given(X, lengths=lengths, sequence_id=sequence_id))
    with workers(self.n_jobs) as pool:
        potentials, batch = fitted.potentials(), table.whole()
        filled = fitted.local_model.impute(potentials, fitted.counts, batch, pool)
    return table.shape.answer(filled)


def score_samples(
    self: HDPMixture, X: Rows, *, lengths: Values = None, sequence_id: Values = None
) -> Any:
    """Log predictive density of each row given other rows of its group: (n,), or a list of them.

    The rows of a group are dealt to five parts, always the same for as many rows. A row's density
    is that of the mixture with the group's shares as the other four parts tell them, parameters of
    the components integrated out. A row alone in its group has the shares of all groups.

    Parameters
    ----------
    X, lengths, sequence_id : as in `fit`.
    """
    table = self._use(self._given(X, lengths=lengths, sequence_id=sequence_id))[1]
    return table.shape.answer(densities(self, table), repeat_first=False)


def score(
    self: HDPMixture,
    X: Rows,
    y: Values = None,
    *,
    lengths: Values = None,
    sequence_id: Values = None,
    sample_weight: Values = None,
) -> float:
    """Mean log predictive density of a row, in nats; see `score_samples`.

    Parameters
    ----------
    X, y, lengths, sequence_id, sample_weight : as in `fit`.
    """
    where = {"lengths": lengths, "sequence_id": sequence_id, "sample_weight": sample_weight}
    table = self._use(self._given(X, y, **where))[1]
    return float(np.average(densities(self, table), weights=table.without_groups().repeats))


def score_groups(
    self: HDPMixture, X: Rows, *, lengths: Values = None, sequence_id: Values = None
) -> Array:
    """(S,) lower bound on the log probability of each group, which has no closed form.

    For comparisons of models use `score`, which is no bound.

    Parameters
    ----------
    X, lengths, sequence_id : as in `fit`.
    """
    fitted, table = self._use(self._given(X, lengths=lengths, sequence_id=sequence_id))
    batch = replace(table, times=None).whole()
    with workers(self.n_jobs) as pool:
        return fitted.model.log_evidence(fitted.predictive(), batch, pool)


def sample(
    self: HDPMixture,
    n_samples: int = 1,
    random_state: RandomState = None,
    *,
    lengths: Values = None,
) -> tuple[Any, Any]:
    """Draw new groups: their shares, components of rows, rows by the posterior predictive.

    Parameters
    ----------
    n_samples : rows of one group.
    random_state : seed; default: the estimator's.
    lengths : (S,) rows of several groups, in place of n_samples.

    Returns
    -------
    X (n, D) and components (n,); with `lengths`, two lists of them.
    """
    fitted = self._require_fitted()
    wanted = [n_samples] if lengths is None else np.atleast_1d(np.asarray(lengths)).tolist()
    for length in wanted:
        require_whole(**{"n_samples" if lengths is None else "lengths": length})
    rng, found = self._rng(random_state), []
    for length in wanted:
        shares = rng.dirichlet(fitted.predictive()["pseudo"])
        labels = rng.choice(len(fitted.ids), size=length, p=shares)
        found.append((fitted.model.family.sample(fitted.counts, labels, rng), labels))
    if lengths is None:
        return found[0]
    return [rows for rows, _ in found], [labels for _, labels in found]


# ---------------------------------------------------------------------------------------- densities


def densities(self: HDPMixture, table: Groups) -> Array:
    """(n,) see `score_samples`; rows that are context only are left out."""
    fitted, found = self._require_fitted(), []
    potentials = fitted.predictive()
    with workers(self.n_jobs) as pool:
        for part in _parts(replace(table, times=None)):
            values = np.empty(part.n_rows)
            assert part.offsets is not None
            folds = np.concatenate([_folds(int(n)) for n in np.diff(part.offsets)])
            for fold in range(N_FOLDS):
                _score_fold(fitted.model, potentials, part, folds == fold, pool, values)
            found.append(values)
    return np.concatenate(found)


def _parts(table: Groups) -> Iterator[Batch]:
    """The groups, some at a time."""
    assert table.offsets is not None
    cuts = np.searchsorted(table.offsets, np.arange(0, table.n_rows, PART_ROWS))
    for lo, hi in pairwise(np.unique(np.r_[cuts, table.n_spans]).tolist()):
        yield table.whole().part(lo, hi).alone()


@cache
def _folds(n: int) -> Array:
    """(n,) the part of each of n rows, at random and always the same."""
    return np.random.RandomState(n).permutation(n) % N_FOLDS


def _score_fold(
    model: Model,
    potentials: ModelPotentials,
    batch: Batch,
    is_scored: Array,
    pool: Pool,
    out: Array,
) -> None:
    """Log densities of some rows given the others of their groups, to out (n,)."""
    assert batch.offsets is not None
    units = np.repeat(np.arange(batch.n_spans), np.diff(batch.offsets))
    lengths = np.bincount(units[~is_scored], minlength=batch.n_spans)
    offsets = np.r_[0, np.cumsum(lengths)].astype(np.int64)
    others = Batch(0, batch.rows[~is_scored], offsets)
    log_shares = np.log(model.unit_shares(potentials, others, pool))
    scored = np.flatnonzero(is_scored)
    size = model.block_rows(log_shares.shape[1])
    for at in (scored[lo : lo + size] for lo in range(0, len(scored), size)):
        evidence = potentials.scores.evidence(model.family.prepare(batch.rows[at]))
        out[at] = logsumexp(evidence + log_shares[units[at]], axis=1)
