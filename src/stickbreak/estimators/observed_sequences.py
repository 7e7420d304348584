"""What a report says of sequences: states of their rows, and of sequences drawn from the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from stickbreak.data import is_sparse
from stickbreak.inference import workers
from stickbreak.reading import Rows, Schema, Stack, Values
from stickbreak.report.markup import clean
from stickbreak.report.reasons import why
from stickbreak.stats import SERIAL, Array

from .fitted import Fitted
from .observed_rows import MOST_ROWS, N_BINS, N_DRAWS, N_WORST, NO_SAMPLER, without_draws
from .reports import data_digest, group_shares, make_subject

if TYPE_CHECKING:
    from stickbreak.report import Replica, Report, Subject

    from .sequence_fits import SequenceEstimator

__all__ = ["observe_sequences", "report_sequences", "sequence_values"]

DRAW_ROWS = 2000
N_COURSES, MOST_COURSES, MOST_PLACES = 6, 20, 300  # columns and sequences drawn, places of each
MOST_VALUES = 8000  # of all courses
ONSET = 20  # rows after the beginning of a state
MOST_ONSETS = 5000  # stays that mean courses are of
UNSURE = 0.8  # a row whose best state is less probable is marked


def report_sequences(
    self: SequenceEstimator,
    X: Rows | None = None,
    *,
    lengths: Values = None,
    sequence_id: Values = None,
    context: Values = None,
    sequence_names: Sequence[Any] | None = None,
    title: str | None = None,
    names: Mapping[int, str] | None = None,
    by: Any = None,
    data: str = "sample",
    texts: bool = True,
) -> Report:
    """A page about the fitted model: one HTML file to look at, share and keep.

    Parameters
    ----------
    X, lengths, sequence_id, context : sequences to show with the model, as in `predict`.
    sequence_names : one for each sequence, by which the page calls them. Default: the ids of
        `sequence_id`, else numbers. Left out with texts=False or data="none".
    title, names, data, texts : as in `Mixture.report`.
    by : one value for each sequence: how states differ between groups.

    Returns
    -------
    Report, with `save(path)`, `show()` and `html`.
    """
    from stickbreak.report import write_page

    if sequence_names is not None and X is None:
        raise ValueError("sequence_names are of the sequences of X; give X too")
    where = {"lengths": lengths, "sequence_id": sequence_id, "context": context,
             "sequence_names": sequence_names}  # fmt: skip
    subject = make_subject(self, X, names=names, by=by, data=data, texts=texts, where=where)
    return write_page(replace(subject, title=str(title or "")))


def sequence_values(self: SequenceEstimator, subject: Subject) -> Subject:
    """The subject with transitions and stays."""
    stays = self._stays()
    if "laws" in stays:
        laws = np.asarray(stays["laws"])
        stays["durations"] = laws @ np.arange(1, laws.shape[1] + 1)
    return replace(subject, more={**subject.more, "transition": self.transmat_, **stays})


def observe_sequences(
    self: SequenceEstimator,
    subject: Subject,
    X: Rows,
    by: Any,
    where: Mapping[str, Any] | None = None,
) -> Subject:
    """The subject with what the model says of sequences."""
    from stickbreak.report import Observed

    where = dict(where or {})
    called = where.pop("sequence_names", None)
    fitted, table = self._use(self._given(X, **where))
    if table.n_rows == 0:
        raise ValueError("X has no rows; give at least one, or no X")
    potentials = self._potentials_of(fitted, "fitted")
    labels, shares = _answers(self, potentials, table)
    scores = _scores(self, table)
    largest, K = shares.max(1), len(fitted.ids)
    shape = replace(table.shape, is_list=True)
    overlap = np.zeros((K, K))
    np.add.at(overlap, labels, shares)
    known = np.flatnonzero(np.isfinite(scores))
    paths = shape.answer(labels)
    sequences = _names(called, table, len(paths)) if subject.shows_texts else ()
    observed = Observed(
        n_rows=table.n_rows,
        n_units=len(paths),
        sizes=np.bincount(labels, minlength=K),
        certainty=np.bincount(
            np.minimum((largest * N_BINS).astype(int), N_BINS - 1), minlength=N_BINS
        ),
        sure=float((largest > 0.95).mean()),
        mean_certainty=float(largest.mean()),
        overlap=overlap / np.maximum(overlap.sum(1, keepdims=True), 1e-300),
        score=float(scores[known].mean()) if len(known) else float("nan"),
        score_error=float(scores[known].std() / np.sqrt(max(len(known), 1))),
        worst=_worst(subject, table, labels, scores, known, sequences),
        worst_in=labels[known[np.argsort(scores[known], kind="stable")[:N_WORST]]].tolist(),
        rows=_plain_rows(fitted, table),
        labels=labels,
        paths=paths,
        sequences=sequences,
        unsure=[np.flatnonzero(part < UNSURE) for part in shape.answer(largest)],
        groups=_groups(subject, by, paths),
    )
    n = table.n_rows
    holds = f"states of {n:,} rows; up to {N_COURSES} columns at no more than {MOST_PLACES} places "
    holds += f"of {MOST_COURSES} sequences at most, {MOST_ROWS:,} together"
    holds += "; names of sequences (left out with texts=False)." if sequences else "."
    rows = table.rows
    parts = (rows.data, rows.indices, rows.indptr) if is_sparse(rows) else (rows,)
    digests = {**subject.digests, "data": data_digest([*parts, table.shape.offsets])}
    more = {**subject.more, "holds": holds, "courses": _courses(subject, table, paths)}
    subject = replace(subject, observed=observed, more=more, digests=digests)
    return _with_draws(self, subject, table, labels, scores)


def _answers(self: SequenceEstimator, potentials: Any, table: Stack) -> tuple[Array, Array]:
    """(n,) states as `predict` names them, and (n, K) their probabilities."""
    fitted = self._require_fitted()
    with workers(self.n_jobs) as pool:
        labels = self._decode(fitted, potentials, table.whole(), pool)
        return labels, fitted.local_model.shares(potentials, table.whole(), pool)


def _scores(self: SequenceEstimator, table: Stack) -> Array:
    fitted = self._require_fitted()
    batch = replace(table, repeats=None).whole()
    with workers(self.n_jobs) as pool:
        steps = fitted.model.log_steps(self._potentials_of(fitted, "mean"), batch, pool)
    return np.asarray(steps, dtype=float)


def _plain_rows(fitted: Any, table: Stack) -> Array | None:
    """Rows as numbers; None for autoregressions, whose rows hold what came before."""
    if fitted.model.family.lags or is_sparse(table.rows):
        return None
    return np.asarray(table.rows, dtype=float)


def _names(given: Sequence[Any] | None, table: Stack, n_sequences: int) -> tuple[str, ...]:
    """Names of sequences: those given, or ids of their rows; empty for numbers."""
    if given is not None and len(given) != n_sequences:
        raise ValueError(
            f"sequence_names has {len(given):,} entries for {n_sequences:,} sequences of X"
        )
    return tuple(clean(str(name)) for name in (table.ids if given is None else given))


def _worst(
    subject: Subject, table: Stack, labels: Array, scores: Array, known: Array, names: Sequence[str]
) -> list[tuple[int, float, str]]:
    """(row, log density, where it is and because of what) of the rows explained worst."""
    if subject.keeps == "none":
        return []
    found = []
    for i in known[np.argsort(scores[known], kind="stable")[:N_WORST]].tolist():
        s = int(np.searchsorted(table.shape.offsets, i, "right")) - 1
        place = f"sequence {names[s] if names else s}, row {i - table.shape.offsets[s]}"
        is_plain = not is_sparse(table.rows) and not subject.family.lags
        told = why(subject, np.asarray(table.rows[i], float), int(labels[i])) if is_plain else ""
        found.append((i, float(scores[i]), f"{place}: {told}" if told else place))
    return found


def _groups(subject: Subject, by: Any, paths: Sequence[Array]) -> dict[str, Array]:
    if by is None:
        return {}
    values = np.asarray(by, dtype=object).ravel()
    if len(values) != len(paths):
        raise ValueError(f"by has {len(values):,} entries for {len(paths):,} sequences of X")
    repeated = np.repeat(values, [len(path) for path in paths])
    return group_shares(subject, repeated, np.concatenate(paths), "row")


def _courses(
    subject: Subject, table: Stack, paths: Sequence[Array]
) -> tuple[list[str], list[list[Array]], Array] | None:
    """The columns that tell states apart best, along each of the first sequences, and on average
    from the beginning of each state on, (columns, K, ONSET); None where there are no numbers.
    """
    mean = subject.posterior.get("mean")
    if subject.keeps == "none" or mean is None or is_sparse(table.rows):
        return None
    center = subject.weights @ mean
    telling = subject.weights @ (mean - center) ** 2
    spread = np.nanvar(np.asarray(table.rows[:20000], dtype=float), axis=0) + 1e-300
    chosen = np.argsort(-telling / spread[: len(telling)], kind="stable")[:N_COURSES]
    offsets = table.shape.offsets
    n = min(len(offsets) - 1, MOST_COURSES)
    most = min(MOST_PLACES, MOST_ROWS // n, max(20, MOST_VALUES // (n * len(chosen))))
    found: list[list[Array]] = [[] for _ in chosen]
    for s in range(n):
        values = np.asarray(table.rows[offsets[s] : offsets[s + 1]], dtype=float)[:, chosen]
        every = max(1, -(-len(values) // most))
        for part, column in zip(found, values[::every].T, strict=True):
            part.append(column)
    onset = _onsets(table, paths, chosen, len(subject.weights))
    return [str(subject.columns[d]) for d in chosen], found, onset


def _onsets(table: Stack, paths: Sequence[Array], chosen: Array, n_states: int) -> Array:
    """(columns, K, ONSET) means of columns so many rows after a state began.

    NaN where fewer than three stays are that long.
    """
    total = np.zeros((len(chosen), n_states, ONSET))
    count = np.zeros((n_states, ONSET), dtype=np.int64)
    known = np.zeros_like(total)
    n_left = MOST_ONSETS
    for begin, path in zip(table.shape.offsets, paths, strict=False):
        cuts = np.flatnonzero(np.diff(path)) + 1  # the first stay is cut off, so it is left out
        ends = np.append(cuts[1:], len(path))
        cuts = cuts[:n_left]
        ends = ends[: len(cuts)]
        n_left -= len(cuts)
        for a, b in zip(cuts, ends, strict=True):
            n, k = min(b - a, ONSET), int(path[a])
            rows = np.asarray(table.rows[begin + a : begin + a + n], dtype=float)[:, chosen].T
            total[:, k, :n] += np.nan_to_num(rows)
            known[:, k, :n] += np.isfinite(rows)
            count[k, :n] += 1
    return np.where((known > 0) & (count >= 3), total / np.maximum(known, 1), np.nan)


def _with_draws(
    self: SequenceEstimator, subject: Subject, table: Stack, labels: Array, scores: Array
) -> Subject:
    """The subject with sequences drawn from the model, decoded as the data are."""
    fitted, offsets = self._require_fitted(), table.shape.offsets
    rows = _plain_rows(fitted, table)
    if fitted.model.family.lags:
        return without_draws(subject, "rows of autoregressions are not drawn by themselves")
    if rows is not None and not np.isfinite(rows).all():
        return without_draws(subject, "some values are missing")
    own, n_taken = [], 0
    for a, b in pairwise(offsets.tolist()):
        if n_taken >= DRAW_ROWS:
            break
        own.append((a, min(b, a + DRAW_ROWS - n_taken)))
        n_taken += own[-1][1] - own[-1][0]
    lengths = [b - a for a, b in own]
    try:
        drawn = self.sample(lengths=lengths * N_DRAWS, random_state=0)[0]
    except ValueError:
        return without_draws(subject, NO_SAMPLER)
    read = _read_draws(self, fitted, drawn)
    decoded = self._decode(fitted, self._potentials_of(fitted, "fitted"), read.whole(), SERIAL)
    steps, cuts = _scores(self, read), read.shape.offsets
    replicas = []
    for r in range(N_DRAWS):
        spans = [(int(cuts[i]), int(cuts[i + 1])) for i in range(r * len(own), (r + 1) * len(own))]
        replicas.append(_replica(_plain_rows(fitted, read), decoded, steps, spans))
    return replace(subject, replica=_replica(rows, labels, scores, own), replicas=replicas)


def _read_draws(self: SequenceEstimator, fitted: Fitted, drawn: Any) -> Stack:
    """Draws as the family reads them: their columns have no names, and symbols are numbers."""
    plain = Schema(fitted.schema.n_features)
    read = self._read(self._given(drawn), fitted.model.family, plain)[0]
    known = self._dictionary(fitted.schema, fitted.ids)
    return read if known is None else replace(read, sets=known.sets(read.rows))


def _replica(rows: Array | None, labels: Array, scores: Array, spans: Any) -> Replica:
    from stickbreak.report import Replica

    begin, end = spans[0][0], spans[-1][1]
    return Replica(
        None if rows is None else rows[begin:end],
        labels[begin:end],
        scores[begin:end],
        [labels[a:b] for a, b in spans],
    )
