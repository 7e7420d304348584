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
