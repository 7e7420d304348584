"""Semi-Markov chains by trying every labeling. Neighboring segments have different states, so a
labeling says all about its segments but the complete lengths of those that are cut.

evidence (T, K), start (K,), transition (K, K), duration (K, D) for lengths 1 to D: logarithms of
any scale, -inf allowed.
"""

from __future__ import annotations

from itertools import groupby
from typing import NamedTuple

import numpy as np
from oracles.chain import all_paths
from scipy.special import logsumexp

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
    """Paths (N, T), their log weights (N,), and the log weights of lengths of their segments."""
    T, K = evidence.shape
    paths, weights, lengths = all_paths(T, K), [], []
    for path in paths:
        found = segments(path)
        ends = [i in (0,) for i in range(len(found))], [i == len(found) - 1 for i in range(len(found))]
        of = [
            complete_lengths(duration, state, seen, ends[0][i], ends[1][i], **censoring)
            for i, (state, seen) in enumerate(found)
        ]
        weight = start[path[0]] + evidence[np.arange(T), path].sum()
        weight += sum(logsumexp(w) for w in of)
        weight += sum(transition[a, b] for (a, _), (b, _) in zip(found, found[1:]))
        weights.append(weight)
        lengths.append(of)
    return paths, np.array(weights), lengths


def smooth(
    evidence: Array, start: Array, transition: Array, duration: Array, **censoring: bool
) -> Found:
    """The posterior by enumeration."""
    (T, K), out = evidence.shape, np.zeros_like(duration)
    paths, weights, lengths = every_labeling(evidence, start, transition, duration, **censoring)
    log_z = float(logsumexp(weights))
    shares, first, steps = np.zeros((T, K)), np.zeros(K), np.zeros((K, K))
    for path, weight, of in zip(paths, weights, lengths, strict=True):
        chance = np.exp(weight - log_z)
        if chance == 0.0:
            continue
        shares[np.arange(T), path] += chance
        first[path[0]] += chance
        found = segments(path)
        for (a, _), (b, _) in zip(found, found[1:]):
            steps[a, b] += chance
        for (state, _), weights_of in zip(found, of, strict=True):
            out[state] += chance * np.exp(weights_of - logsumexp(weights_of))
    return Found(log_z, shares, first, steps, out)


def best(
    evidence: Array, start: Array, transition: Array, duration: Array, **censoring: bool
) -> tuple[Array, float]:
    """The labeling whose most probable completion is best, and the log weight of that."""
    paths, _, lengths = every_labeling(evidence, start, transition, duration, **censoring)
    T = len(evidence)
    values = []
    for path, of in zip(paths, lengths, strict=True):
        found = segments(path)
        value = start[path[0]] + evidence[np.arange(T), path].sum() + sum(w.max() for w in of)
        values.append(value + sum(transition[a, b] for (a, _), (b, _) in zip(found, found[1:])))
    return paths[int(np.argmax(values))], float(np.max(values))
