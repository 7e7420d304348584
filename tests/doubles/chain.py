"""A Markov chain over the rows of each unit, with a Dirichlet start row and Dirichlet transition
rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from stickbreak.data import Batch
from stickbreak.priors import ROWS, BasePrior
from stickbreak.protocols import Local
from stickbreak.stats import Field, Fields, Summary
from stickbreak.structures import BaseStructure, row_evidence

Array = np.ndarray


@dataclass(frozen=True)
class ChainRows(BasePrior):
    """Start row and transition rows, each a symmetric Dirichlet."""

    concentration: float = 0.5

    def fields(self, axis: str) -> dict[str, Field]:
        return {"initial": Field((axis,)), "transition": Field((axis, axis))}

    def zeros(self, n_components: int) -> dict[str, Array]:
        return {
            "initial": np.zeros(n_components),
            "transition": np.zeros((n_components, n_components)),
        }

    def pseudo(self, params: Fields, n_components: int) -> dict[str, Array]:
        """Prior counts of every row: what a compiled sweep needs of a prior."""
        return {n: np.full_like(a, self.concentration) for n, a in self.zeros(n_components).items()}

    def potentials(self, counts: Any, params: Fields, rule: Any) -> dict[str, Any]:
        log_of = rule.pick(ROWS)
        return {
            n: log_of(counts[n], pseudo)
            for n, pseudo in self.pseudo(params, len(counts["initial"])).items()
        }

    def bound(self, total: Summary, params: Fields) -> float:
        rows = self.pseudo(params, len(total["initial"]))
        return float(sum(ROWS.log_rise(total[n], p).sum() for n, p in rows.items()))

    def log_mode(self, total: Summary, params: Fields) -> float:
        rows = self.pseudo(params, len(total["initial"]))
        return float(sum(((total[n] + p) * ROWS.mode(total[n], p)).sum() for n, p in rows.items()))

    def sizes(self, counts: Any) -> Array:
        return counts["initial"] + counts["transition"].sum(0)

    def mean(self, counts: Any, params: Fields) -> Array:
        """Shares of rows: how often each state is entered."""
        entered = counts["initial"] + counts["transition"].sum(0) + self.concentration
        return entered / entered.sum()

    def predictive(self, counts: Any, params: Fields) -> dict[str, Any]:
        return {
            n: ROWS.log_mean(counts[n], pseudo)
            for n, pseudo in self.pseudo(params, len(counts["initial"])).items()
        }


def to_linear(evidence: Array) -> tuple[Array, Array]:
    """exp(evidence - top) (n, K) and top (n,), the largest of each row."""
    top = evidence.max(1)
    return np.exp(evidence - top[:, None]), top


def entropy(part: Array, whole: Any = 1.0) -> float:
    """Sum of -part log(part / whole)."""
    used = part > 0
    return float(-(part * np.log(np.where(used, part, 1.0) / np.where(used, whole, 1.0))).sum())


def forward(initial: Array, transition: Array, evidence: Array) -> tuple[Array, Array]:
    """Filtered (T, K), each row summing to one, and the scale (T,) of each step; linear
    potentials.
    """
    filtered, scale = np.empty_like(evidence), np.empty(len(evidence))
    for t in range(len(evidence)):
        filtered[t] = (initial if t == 0 else filtered[t - 1] @ transition) * evidence[t]
        scale[t] = filtered[t].sum()
        filtered[t] /= scale[t]
    return filtered, scale


def backward(transition: Array, evidence: Array, scale: Array) -> tuple[Array, Array]:
    """beta (T, K), and future (T, K) = evidence * beta / scale: what the step into t is worth."""
    beta, future = np.ones_like(evidence), np.empty_like(evidence)
    for t in range(len(evidence) - 1, -1, -1):
        future[t] = evidence[t] * beta[t] / scale[t]
        if t > 0:
            beta[t - 1] = transition @ future[t]
    return beta, future


def viterbi(log_initial: Array, log_transition: Array, log_evidence: Array) -> tuple[Array, float]:
    """Best path (T,) and its log weight."""
    best, came_from = log_initial + log_evidence[0], []
    for t in range(1, len(log_evidence)):
        reach = best[:, None] + log_transition
        came_from.append(reach.argmax(0))
        best = reach.max(0) + log_evidence[t]
    path = [int(best.argmax())]
    for back in reversed(came_from):
        path.append(int(back[path[-1]]))
    return np.array(path[::-1]), float(best.max())


@dataclass(frozen=True)
class Chain(BaseStructure):
    """q(path) of every unit by forward-backward in the scaled linear domain."""

    tracks = frozenset({"merge"})
    has_best = True

    def infer(
        self, potentials: Any, block: Batch, warm: Fields | None, out: dict[str, Array]
    ) -> Local:
        evidence, top = to_linear(row_evidence(potentials, block))
        initial, transition = np.exp(potentials["initial"]), np.exp(potentials["transition"])
        shares, log_z, memo = np.empty_like(evidence), float(top.sum()), []
        for lo, hi in pairwise(block.offsets):
            filtered, scale = forward(initial, transition, evidence[lo:hi])
            beta, future = backward(transition, evidence[lo:hi], scale)
            shares[lo:hi] = filtered * beta
            pairs = filtered[:-1, :, None] * transition * future[1:, None, :]
            log_z += float(np.log(scale).sum())
            out["initial"] += shares[lo]
            out["transition"] += pairs.sum(0)
            memo.append((shares[lo], pairs))
        return Local(log_z, shares, memo=tuple(memo))

    def infer_best(
        self, potentials: Any, block: Batch, warm: Fields | None, out: dict[str, Array]
    ) -> Local:
        evidence = row_evidence(potentials, block)
        shares, log_z = np.zeros_like(evidence), 0.0
        for lo, hi in pairwise(block.offsets):
            path, value = viterbi(potentials["initial"], potentials["transition"], evidence[lo:hi])
            shares[np.arange(lo, hi), path] = 1.0
            out["initial"][path[0]] += 1.0
            np.add.at(out["transition"], (path[:-1], path[1:]), 1.0)
            log_z += value
        return Local(log_z, shares)

    def count(self, labels: Array, block: Batch, out: dict[str, Array]) -> None:
        for lo, hi in pairwise(block.offsets):
            path = labels[lo:hi]
            if path[0] >= 0:
                out["initial"][path[0]] += 1.0
            known = (path[:-1] >= 0) & (path[1:] >= 0)
            np.add.at(out["transition"], (path[:-1][known], path[1:][known]), 1.0)

    def log_evidence(self, potentials: Any, block: Batch) -> Array:
        evidence, top = to_linear(row_evidence(potentials, block))
        initial, transition = np.exp(potentials["initial"]), np.exp(potentials["transition"])
        scales = [
            forward(initial, transition, evidence[lo:hi])[1] for lo, hi in pairwise(block.offsets)
        ]
        return np.array([np.log(s).sum() for s in scales]) + np.add.reduceat(
            top, block.offsets[:-1]
        )

    def decode(self, potentials: Any, block: Batch) -> Array:
        evidence, tables = (
            row_evidence(potentials, block),
            (potentials["initial"], potentials["transition"]),
        )
        return np.concatenate(
            [viterbi(*tables, evidence[lo:hi])[0] for lo, hi in pairwise(block.offsets)]
        )

    best = decode

    def sample(self, potentials: Any, block: Batch, rng: np.random.Generator) -> Array:
        """Forward filter, backward sample."""
        evidence, _ = to_linear(row_evidence(potentials, block))
        initial, transition = np.exp(potentials["initial"]), np.exp(potentials["transition"])
        path = np.empty(block.n_rows, dtype=np.int64)
        for lo, hi in pairwise(block.offsets):
            filtered, _ = forward(initial, transition, evidence[lo:hi])
            for t in range(hi - 1, lo - 1, -1):
                weight = filtered[t - lo] * (1.0 if t == hi - 1 else transition[:, path[t + 1]])
                path[t] = rng.choice(len(weight), p=weight / weight.sum())
        return path

    def merge_terms(
        self, potentials: Any, block: Batch, local: Local, pairs: Array, out: dict[str, Array]
    ) -> None:
        """Entropy of the chain with the pairs folded: alone (gain), and what two at once add to
        that (cross).
        """
        folded = lambda *chosen: sum(
            folded_entropy(*unit, pairs[list(chosen)]) for unit in local.memo
        )
        none, alone = folded(), [folded(p) for p in range(len(pairs))]
        out["gain"] += np.array(alone) - none
        for p in range(len(pairs)):
            for q in range(p):
                # pairs that share a state are never merged together
                if not set(pairs[p].tolist()) & set(pairs[q].tolist()):
                    term = folded(p, q) - alone[p] - alone[q] + none
                    out["cross"][p, q] += term
                    out["cross"][q, p] += term


def folded_entropy(first: Array, pairs: Array, merged: Array) -> float:
    """Entropy of the Markov chain with start `first` (K,) and steps `pairs` (T - 1, K, K), each
    pair of `merged` made one state.
    """
    fold = np.eye(len(first))
    for a, b in merged:
        fold[b] = fold[a]
    steps = fold.T @ pairs @ fold
    return entropy(first @ fold) + entropy(steps, steps.sum(2, keepdims=True))
