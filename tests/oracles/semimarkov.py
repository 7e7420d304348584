"""Semi-Markov chains by trying every labeling. Neighboring segments have different states, so a
labeling says all about its segments but the complete lengths of those that are cut.

evidence (T, K), start (K,), transition (K, K), duration (K, D) for lengths 1 to D: logarithms of
any scale, -inf allowed.
"""

from __future__ import annotations

from itertools import groupby, pairwise
from typing import Any, NamedTuple

import numpy as np

from oracles.chain import all_paths

Array = np.ndarray


class Found(NamedTuple):
    """log_z, shares (T, K), start (K,), transition (K, K), duration (K, D), of complete lengths."""

    log_z: float
    shares: Array
    start: Array
    transition: Array
    duration: Array


def segments(path: Array) -> list[tuple[int, int]]:
    """(state, seen length) of every segment."""
    return [(int(state), len(list(rows))) for state, rows in groupby(path)]


def complete_lengths(
    duration: Array, state: int, seen: int, is_first: bool, is_last: bool, right: bool, left: bool
) -> Array:
    """(D,) log weight of every complete length of a segment of which `seen` rows are seen."""
    lengths = np.arange(1, duration.shape[1] + 1)
    weights = duration[state].astype(float)
    if left and is_first:
        # a segment is seen from any of its rows on; the rows after the last one are not
        places = lengths - seen + 1.0 if right and is_last else np.ones(len(lengths))
        possible = lengths >= seen
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(possible, weights + np.log(places / lengths), -np.inf)
    possible = lengths >= seen if right and is_last else lengths == seen
    return np.where(possible, weights, -np.inf)


def every_labeling(
    evidence: Array, start: Array, transition: Array, duration: Array, **censoring: bool
) -> tuple[Array, Array, list[list[Array]]]:
    """Paths (N, T), their log weights (N,), and the posteriors (D,) of their segments' lengths."""
    T, K = evidence.shape
    paths, weights, lengths = all_paths(T, K), [], []
    known: dict[tuple[int, int, bool, bool], tuple[float, Array]] = {}

    def of(*segment: Any) -> tuple[float, Array]:
        if segment not in known:
            each = complete_lengths(duration, *segment, **censoring)
            total = float(np.logaddexp.reduce(each))
            with np.errstate(invalid="ignore"):
                known[segment] = total, np.exp(each - total)
        return known[segment]

    for path in paths:
        found = segments(path)
        last = len(found) - 1
        each = [of(*segment, i == 0, i == last) for i, segment in enumerate(found)]
        weight = start[path[0]] + evidence[np.arange(T), path].sum() + sum(w for w, _ in each)
        weights.append(weight + steps_of(found, transition))
        lengths.append([share for _, share in each])
    return paths, np.array(weights), lengths


def steps_of(found: list[tuple[int, int]], transition: Array) -> float:
    """Sum of the steps between segments."""
    return sum(transition[a, b] for (a, _), (b, _) in pairwise(found))


def smooth(
    evidence: Array, start: Array, transition: Array, duration: Array, **censoring: bool
) -> Found:
    """The posterior by enumeration."""
    (T, K), out = evidence.shape, np.zeros_like(duration)
    paths, weights, lengths = every_labeling(evidence, start, transition, duration, **censoring)
    log_z = float(np.logaddexp.reduce(weights))
    shares, first, steps = np.zeros((T, K)), np.zeros(K), np.zeros((K, K))
    with np.errstate(invalid="ignore"):
        chances = np.exp(weights - log_z)
    for path, chance, of in zip(paths, chances, lengths, strict=True):
        if not chance > 0.0:
            continue
        shares[np.arange(T), path] += chance
        first[path[0]] += chance
        found = segments(path)
        for (a, _), (b, _) in pairwise(found):
            steps[a, b] += chance
        for (state, _), share in zip(found, of, strict=True):
            out[state] += chance * share
    return Found(log_z, shares, first, steps, out)


def best(
    evidence: Array, start: Array, transition: Array, duration: Array, *, right: bool, left: bool
) -> tuple[Array, float]:
    """The best labeling with the best complete lengths, and its log weight.

    A segment that is cut on the left begins at one certain row.
    """
    (T, K), values = evidence.shape, []
    paths, lengths = all_paths(T, K), np.arange(1, duration.shape[1] + 1)
    for path in paths:
        found = segments(path)
        value = start[path[0]] + evidence[np.arange(T), path].sum()
        value += steps_of(found, transition)
        for i, (state, seen) in enumerate(found):
            is_left, is_right = left and i == 0, right and i == len(found) - 1
            possible = lengths >= seen if is_left or is_right else lengths == seen
            weights = duration[state] - (np.log(lengths) if is_left else 0.0)
            value += np.where(possible, weights, -np.inf).max()
        values.append(value)
    return paths[int(np.argmax(values))], float(np.max(values))


def smooth_in_logs(evidence: Array, start: Array, transition: Array, duration: Array) -> Found:
    """The posterior of longer sequences by messages in logarithms; the last segment may be cut."""
    (T, K), D, out = evidence.shape, duration.shape[1], np.zeros_like(duration)
    tails = np.logaddexp.accumulate(duration[:, ::-1], axis=1)[:, ::-1]

    def segment(k: int, s: int, t: int) -> float:
        table = tails if t == T else duration
        return float(table[k, t - s - 1] + evidence[s:t, k].sum()) if t - s <= D else -np.inf

    weights = np.full((K, T, T + 1), -np.inf)
    for k, s, t in np.ndindex(weights.shape):
        if s < t:
            weights[k, s, t] = segment(k, s, t)
    begun, ended = np.full((T + 1, K), -np.inf), np.full((T + 1, K), -np.inf)
    after, coming = np.full((T + 1, K), -np.inf), np.full((T + 1, K), -np.inf)
    begun[0], after[T] = start, 0.0
    for t in range(1, T + 1):
        ended[t] = [np.logaddexp.reduce(begun[:t, k] + weights[k, :t, t]) for k in range(K)]
        if t < T:
            begun[t] = np.logaddexp.reduce(ended[t][:, None] + transition, axis=0)
    log_z = float(np.logaddexp.reduce(ended[T]))
    for t in range(T - 1, -1, -1):
        coming[t] = [
            np.logaddexp.reduce(weights[k, t, t + 1 :] + after[t + 1 :, k]) for k in range(K)
        ]
        after[t] = np.logaddexp.reduce(transition + coming[t], axis=1)
    shares, steps = np.zeros((T, K)), np.zeros((K, K))
    for k in range(K):
        for s in range(T):
            for t in range(s + 1, min(T, s + D) + 1):
                chance = np.exp(begun[s, k] + weights[k, s, t] + after[t, k] - log_z)
                shares[s:t, k] += chance
                if t < T:
                    out[k, t - s - 1] += chance
                elif chance > 0.0:
                    out[k, t - s - 1 :] += chance * np.exp(
                        duration[k, t - s - 1 :] - tails[k, t - s - 1]
                    )
    for t in range(1, T):
        steps += np.exp(ended[t][:, None] + transition + coming[t] - log_z)
    return Found(log_z, shares, np.exp(begun[0] + coming[0] - log_z), steps, out)
