"""What a report says of rows of a table: read once, batch by batch."""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import xlogy

from stickbreak.data import Table, is_sparse
from stickbreak.inference import workers
from stickbreak.reading import Rows
from stickbreak.report.reasons import why
from stickbreak.stats import Array

from .fitted import Fitted
from .reports import data_digest, group_shares
from .views import choose_rows

if TYPE_CHECKING:
    from stickbreak.report import Observed, Replica, Subject

    from .base import Estimator
    from .mixture_fits import MixtureFits

__all__ = ["MOST_ROWS", "NO_SAMPLER", "Seen", "observe_rows", "tell_rows", "without_draws"]

NO_SAMPLER = "its family has no sampler"

N_WORST, N_TYPICAL, N_BINS = 12, 3, 20
MOST_ROWS = 2000 - N_WORST  # so that those explained worst are among 2,000
N_DRAWS, DRAW_ROWS, DRAW_CELLS = 39, 500, 100_000
MOST_SHARES, MOST_PAIRS = 2000, 12  # of rows and of components that are tried as one


def observe_rows(
    self: MixtureFits, subject: Subject, X: Rows, by: Any, where: Any = None
) -> Subject:
    """The subject with what the model says of X; also the method `_observe` of mixtures."""
    fitted, table = self._use(self._given(X))
    if table.n_rows == 0:
        raise ValueError("X has no rows; give at least one, or no X")
    seen = Seen(len(fitted.ids), choose_rows(table.n_rows, MOST_ROWS), by is not None)
    potentials, predictive = fitted.potentials(), fitted.predictive()
    with workers(self.n_jobs) as pool:
        for batch in table.batches():
            shares = fitted.local_model.shares(potentials, batch, pool)
            seen.add(batch.rows, shares, fitted.model.log_evidence(predictive, batch, pool))
    labels = np.concatenate(seen.labels) if by is not None else np.zeros(0, dtype=np.int32)
    groups = group_shares(subject, by, labels, "row")
    return _with_draws(self, *tell_rows(self, subject, table, seen, table.n_rows, groups))


def tell_rows(
    self: Estimator,
    subject: Subject,
    table: Table,
    seen: Seen,
    n_units: int,
    groups: Mapping[str, Array],
) -> tuple[Subject, Observed]:
    """The subject with what was seen of the rows of a table."""
    from stickbreak.report import Observed

    fitted, chosen = self._require_fitted(), seen.chosen
    rows = table.rows[chosen]
    is_numeric = not is_sparse(rows)
    observed = Observed(
        n_rows=table.n_rows,
        n_units=n_units,
        sizes=seen.sizes,
        certainty=seen.bins,
        sure=seen.n_sure / table.n_rows,
        mean_certainty=seen.certainty / table.n_rows,
        overlap=seen.overlap / np.maximum(seen.overlap.sum(1, keepdims=True), 1e-300),
        score=seen.score / table.n_rows,
        score_error=seen.error(table.n_rows),
        worst=[
            (row, score, "" if not is_numeric else why(subject, _plain(table.rows[row]), k))
            for score, row, k in seen.lowest()
        ]
        if subject.keeps != "none"
        else (),
        worst_in=[k for *_, k in seen.lowest()],
        typical=seen.best() if subject.keeps != "none" else {},
        rows=np.asarray(rows, dtype=float) if is_numeric else None,
        numbers=chosen,
        labels=np.concatenate(seen.chosen_labels),
        groups=groups,
    )
    n = len(chosen)
    holds = f"{n:,} of {table.n_rows:,} rows, and of the {N_WORST} explained worst what makes them "
    holds += "so, rounded to four digits; names of columns."
    more: Mapping[str, Any] = {
        **subject.more,
        "holds": holds,
        "joins": _joins(fitted, np.concatenate(seen.shares)),
    }
    digests = {**subject.digests, "data": seen.digest()}
    return replace(subject, observed=observed, more=more, digests=digests), observed


class Seen:
    """Sums over batches, and what is kept of single rows: of those chosen, sorted.

    keeps_labels : whether those of all rows are kept, which groups need
    """

    def __init__(self, n_components: int, chosen: Array, keeps_labels: bool) -> None:
        self.chosen, self.keeps_labels = chosen, keeps_labels
        self.labels: list[Array] = []
        self.chosen_labels: list[Array] = []
        self.sizes = np.zeros(n_components, dtype=np.int64)
        self.bins = np.zeros(N_BINS, dtype=np.int64)
        self.n_sure, self.certainty, self.score, self.squares = 0, 0.0, 0.0, 0.0
        self.overlap = np.zeros((n_components, n_components))
        self.worst: list[tuple[float, int, int]] = []
        self.typical: dict[int, list[tuple[float, int]]] = {}
        self.n_seen = 0
        self.shares: list[Array] = []
        self.n_kept = 0
        self.parts: list[str] = []

    def add(self, rows: Any, shares: Array, scores: Array) -> None:
        """A batch: its rows, shares (n, K), log densities (n,)."""
        labels, largest = shares.argmax(1), shares.max(1)
        if self.keeps_labels:
            self.labels.append(labels.astype(np.int32))
        inside = slice(*np.searchsorted(self.chosen, [self.n_seen, self.n_seen + len(labels)]))
        self.chosen_labels.append(labels[self.chosen[inside] - self.n_seen])
        self.sizes += np.bincount(labels, minlength=len(self.sizes))
        places = np.minimum((largest * N_BINS).astype(int), N_BINS - 1)
        self.bins += np.bincount(places, minlength=N_BINS)
        self.n_sure += int((largest > 0.95).sum())
        self.certainty += float(largest.sum())
        self.score, self.squares = self.score + scores.sum(), self.squares + (scores**2).sum()
        np.add.at(self.overlap, labels, shares)
        for i in np.argsort(scores, kind="stable")[:N_WORST]:
            place = -float(scores[i]), -int(self.n_seen + i)
            heapq.heappush(self.worst, (*place, int(labels[i])))
        self.worst = heapq.nsmallest(N_WORST, self.worst, key=lambda item: (-item[0], -item[1]))
        heapq.heapify(self.worst)
        for k in np.unique(labels):
            own = np.flatnonzero(labels == k)
            best = own[np.argsort(-scores[own], kind="stable")[:N_TYPICAL]]
            kept = self.typical.setdefault(int(k), [])
            kept += [(float(scores[i]), int(self.n_seen + i)) for i in best]
            kept.sort(key=lambda item: (-item[0], item[1]))
            del kept[N_TYPICAL:]
        self.n_seen += len(labels)
        if self.n_kept < MOST_SHARES:
            self.shares.append(shares[: MOST_SHARES - self.n_kept].copy())
            self.n_kept += len(self.shares[-1])
        dense = (rows.data, rows.indices, rows.indptr) if is_sparse(rows) else (rows,)
        self.parts.append(data_digest(dense))

    def lowest(self) -> list[tuple[float, int, int]]:
        """(log density, row, component) of the rows explained worst."""
        return sorted((-score, -row, k) for score, row, k in self.worst)

    def best(self) -> dict[int, list[int]]:
        """Rows of each component that it explains best."""
        return {k: [row for _, row in kept] for k, kept in self.typical.items()}

    def error(self, n: int) -> float:
        """Standard error of the mean log density."""
        variance = max(self.squares / n - (self.score / n) ** 2, 0.0)
        return float(np.sqrt(variance / n))

    def digest(self) -> str:
        """One for all batches."""
        return data_digest([np.frombuffer(part.encode(), np.uint8) for part in self.parts])


def _joins(fitted: Fitted, shares: Array) -> list[tuple[float, int, int]]:
    """(gain, k, j): what joining two components would add to the bound, of the pairs that share
    most.

    The rows' shares of both are added and nothing else is changed, so the gain is at least that.
    shares : (n, K) of some rows, which stand for all in the entropy of labels.
    """
    K, axis = len(fitted.ids), fitted.model.axis
    if fitted.rule.objective != "bound" or K < 2 or not math.isfinite(fitted.bound):
        return []
    held = np.flatnonzero(np.asarray(fitted.model.prior.sizes(fitted.counts)) >= 1.0)
    both = shares.T @ shares
    own = np.maximum(np.diagonal(both), 1e-300)
    both = both / np.minimum(own[:, None], own[None, :])
    pairs = [(-float(both[i, j]), int(i), int(j)) for i, j in combinations(held, 2)]
    weight = float(np.sum(fitted.model.prior.sizes(fitted.counts))) / max(len(shares), 1)
    now, found = fitted.model.bound(fitted.counts, fitted.params), []
    for _, i, j in sorted(pairs)[:MOST_PAIRS]:
        merged = fitted.model.bound(
            fitted.counts.merge(axis, i, j), fitted.params.merge(axis, i, j)
        )
        a, b = shares[:, i], shares[:, j]
        entropy = xlogy(a, a).sum() + xlogy(b, b).sum() - xlogy(a + b, a + b).sum()
        found.append((float(merged - now + weight * entropy), i, j))
    return found


def _plain(row: Any) -> Array:
    return np.asarray(row, dtype=float)


def _with_draws(self: MixtureFits, subject: Subject, observed: Any) -> Subject:
    """The subject with draws from the model, where its family can be drawn from."""
    fitted = self._require_fitted()
    if observed.rows is None:
        return without_draws(subject, "the rows are sparse")
    if not np.isfinite(observed.rows).all():
        return without_draws(subject, "some values are missing")
    n = min(len(observed.rows), DRAW_ROWS, max(DRAW_CELLS // observed.rows.shape[1], 50))
    rng = np.random.default_rng(0)
    some = observed.rows[np.sort(rng.choice(len(observed.rows), n, replace=False))]
    labels = rng.choice(len(fitted.ids), size=n * N_DRAWS, p=fitted.weights)
    try:
        drawn = fitted.model.family.sample(fitted.counts, labels, rng)
    except ValueError:
        return without_draws(subject, NO_SAMPLER)
    if is_sparse(drawn) or np.asarray(drawn).shape[1:] != some.shape[1:]:
        return without_draws(subject, "draws of its family are no such rows")
    parts = np.split(np.asarray(drawn, dtype=float), N_DRAWS)
    replicas = [_replica(self, part) for part in parts]
    return replace(subject, replica=_replica(self, some), replicas=replicas)


def without_draws(subject: Subject, why: str) -> Subject:
    """The subject with the reason why there are no checks against draws from the model."""
    return replace(subject, more={**subject.more, "no_draws": why})


def _replica(self: MixtureFits, rows: Array) -> Replica:
    from stickbreak.report import Replica

    fitted = self._require_fitted()
    batch = Table(np.ascontiguousarray(rows)).whole()
    return Replica(
        rows,
        fitted.model.decode(fitted.potentials(), batch),
        np.asarray(fitted.model.log_evidence(fitted.predictive(), batch)),
    )
