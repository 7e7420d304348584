"""Chains that a search for states finds hard, with the states that made them.

Symbols that look like one state, neighbors that overlap, rare states, states that differ in their
covariances only, states that change at every row, and sentences.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import stickbreak as sb

from .tagged import read_treebank

__all__ = ["PROBLEMS", "Problem", "draw_path"]

Parts = list[np.ndarray]


@dataclass(frozen=True)
class Problem:
    """Sequences, the state of every row, and the model to be fitted.

    make : the model, without its start
    peer : hmmlearn's class for the same data, which is given the number of states
    """

    rows: Parts
    truth: Parts
    make: Callable[[], Any]
    peer: str = ""

    @property
    def usual(self) -> str:
        """What the default start is; empty if it is the best of several."""
        model = self.make()
        if self.rows[0].dtype.kind == "i":
            return "collapsed" if model.inference == "em" else ""
        return "blocks" if isinstance(model, sb.HDPHMM) else ""

    @property
    def n_states(self) -> int:
        """States that generated the rows."""
        return int(max(path.max() for path in self.truth)) + 1


def draw_path(start: np.ndarray, steps: np.ndarray, length: int, rng: Any) -> np.ndarray:
    """States (length,) of one sequence."""
    path, edges = np.empty(length, dtype=np.int64), np.cumsum(steps, axis=1)
    uniforms = rng.random(length)
    path[0] = np.searchsorted(np.cumsum(start), uniforms[0])
    for t in range(1, length):
        path[t] = np.searchsorted(edges[path[t - 1]], uniforms[t])
    return np.minimum(path, len(start) - 1)


def _staying(n_states: int, stay: float) -> np.ndarray:
    """Steps that stay with one probability, and go anywhere else with equal ones."""
    steps = np.full((n_states, n_states), (1.0 - stay) / max(n_states - 1, 1))
    np.fill_diagonal(steps, stay)
    return steps


def _paths(steps: np.ndarray, n_sequences: int, length: int, rng: Any) -> Parts:
    flat = np.full(len(steps), 1.0 / len(steps))
    return [draw_path(flat, steps, length, rng) for _ in range(n_sequences)]


def _gaussians(path: np.ndarray, means: np.ndarray, roots: np.ndarray, rng: Any) -> np.ndarray:
    noise = rng.standard_normal((len(path), means.shape[1]))
    return means[path] + np.einsum("tij,tj->ti", roots[path], noise)


def symbols(seed: int, n_sequences: int = 40, length: int = 500) -> Problem:
    """Eight states over 200 symbols: Dirichlet(0.1) emissions, Dirichlet(0.3) rows."""
    rng = np.random.default_rng([seed, 1])
    words = rng.dirichlet(np.full(200, 0.1), size=8)
    paths = _paths(rng.dirichlet(np.full(8, 0.3), size=8), n_sequences, length, rng)
    edges = np.cumsum(words, axis=1)
    rows = [np.array([[np.searchsorted(edges[k], rng.random())] for k in path]) for path in paths]
    rows = [np.minimum(part, 199) for part in rows]
    return Problem(rows, paths, lambda: sb.HDPHMM(family="categorical"), "CategoricalHMM")


def few_symbols(seed: int) -> Problem:
    """The same, 4,800 rows."""
    return symbols(seed, 16, 300)


def overlapping(seed: int, n_sequences: int = 20, length: int = 500) -> Problem:
    """15 states on a grid of 5 x 3 points, two standard deviations apart."""
    rng = np.random.default_rng([seed, 2])
    means = np.array([(2.0 * i, 2.0 * j) for i in range(5) for j in range(3)])
    paths = _paths(_staying(15, 0.95), n_sequences, length, rng)
    roots = np.broadcast_to(np.eye(2), (15, 2, 2))
    rows = [_gaussians(p, means, roots, rng) for p in paths]
    return Problem(rows, paths, sb.HDPHMM, "GaussianHMM")


def rare(seed: int, n_sequences: int = 20, length: int = 1000) -> Problem:
    """Four common states and two that hold a row of a thousand each, five deviations away."""
    rng = np.random.default_rng([seed, 3])
    means = np.array([(0, 0), (5, 0), (0, 5), (5, 5), (-5, 0), (0, -5)], dtype=float)
    steps = np.zeros((6, 6))
    steps[:4, :4] = _staying(4, 0.95) * 0.9998
    steps[:4, 4:] = 0.0001
    steps[4:] = np.r_[np.full(4, 0.05), 0.0, 0.0]
    steps[4, 4] = steps[5, 5] = 0.8
    starts = np.r_[np.full(4, 0.25), 0.0, 0.0]
    paths = [draw_path(starts, steps, length, rng) for _ in range(n_sequences)]
    roots = np.broadcast_to(np.eye(2), (6, 2, 2))
    rows = [_gaussians(p, means, roots, rng) for p in paths]
    return Problem(rows, paths, sb.HDPHMM, "GaussianHMM")


def covariances(seed: int, n_sequences: int = 20, length: int = 400) -> Problem:
    """Five states with one mean: round and small, round and large, and three directions."""
    rng = np.random.default_rng([seed, 4])
    angles = np.pi / 3.0 * np.arange(3)
    turns = np.array([[(np.cos(a), -np.sin(a)), (np.sin(a), np.cos(a))] for a in angles])
    roots = np.concatenate([[0.4 * np.eye(2), 3.0 * np.eye(2)], turns @ np.diag([3.0, 0.4])])
    paths = _paths(_staying(5, 0.95), n_sequences, length, rng)
    rows = [_gaussians(p, np.zeros((5, 2)), roots, rng) for p in paths]
    return Problem(rows, paths, sb.HDPHMM, "GaussianHMM")


def fast(seed: int, n_sequences: int = 10, length: int = 200) -> Problem:
    """Four states at the corners of a square, three deviations apart; Dirichlet(1) rows."""
    rng = np.random.default_rng([seed, 5])
    means = 3.0 * np.array([(0, 0), (1, 0), (0, 1), (1, 1)], dtype=float)
    paths = _paths(rng.dirichlet(np.ones(4), size=4), n_sequences, length, rng)
    roots = np.broadcast_to(np.eye(2), (4, 2, 2))
    rows = [_gaussians(p, means, roots, rng) for p in paths]
    return Problem(rows, paths, lambda: sb.HMM(4), "GaussianHMM")


def fast_and_sparse(seed: int) -> Problem:
    """The same, fitted with a prior that expects few kinds of steps."""
    return replace(fast(seed), make=lambda: sb.HMM(4, concentration=1e-3))


def two_symbols(seed: int, n_sequences: int = 20, length: int = 100) -> Problem:
    """Two states over four symbols, stayed in for five rows; fitted by EM."""
    rng = np.random.default_rng([seed, 6])
    words = np.cumsum([(0.4, 0.3, 0.2, 0.1), (0.1, 0.2, 0.3, 0.4)], axis=1)
    paths = _paths(_staying(2, 0.8), n_sequences, length, rng)
    rows = [
        np.minimum([[np.searchsorted(words[k], rng.random())] for k in path], 3) for path in paths
    ]

    def make() -> Any:
        return sb.HMM(2, family=sb.Categorical(1e-3), inference="em", concentration=1e-3)

    return Problem(rows, paths, make, "CategoricalHMM")


def sentences(seed: int, n_sequences: int = 1_400, prior: float = 0.5) -> Problem:
    """Sentences of a treebank as words, their tags as states. The same for every seed."""
    read = read_treebank()[:n_sequences]
    tags = sorted({tag for sentence in read for _, tag in sentence})
    words = sorted({word for sentence in read for word, _ in sentence})
    place = {word: i for i, word in enumerate(words)}
    rows = [np.array([[place[word]] for word, _ in sentence]) for sentence in read]
    truth = [np.array([tags.index(tag) for _, tag in sentence]) for sentence in read]
    return Problem(rows, truth, lambda: sb.HDPHMM(family=sb.Categorical(prior)))


def sparse_sentences(seed: int) -> Problem:
    """The same with a prior that expects fewer words of each state."""
    return sentences(seed, prior=0.1)


PROBLEMS: Mapping[str, Callable[[int], Problem]] = {
    "symbols": symbols,
    "few symbols": few_symbols,
    "overlapping": overlapping,
    "rare": rare,
    "covariances": covariances,
    "fast": fast,
    "fast, concentration 0.001": fast_and_sparse,
    "two symbols": two_symbols,
    "sentences": sentences,
    "sentences, prior 0.1": sparse_sentences,
}
