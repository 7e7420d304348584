"""A grammar with latent annotations: the tree of every sentence is given, its nodes have hidden
subtypes.

A unit is a sentence, a row a word. The companion has one row for each node: label, left child,
right child. Words come first, in order, with -1 for children; then inner nodes, each after its
children; the root is last. Children are numbered within their unit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from stickbreak.data import Batch
from stickbreak.priors import ROWS, BasePrior
from stickbreak.protocols import Local
from stickbreak.stats import Field, Fields, Summary
from stickbreak.structures import BaseStructure, row_evidence

from .chain import to_linear

Array = np.ndarray


@dataclass(frozen=True)
class AnnotationRows(BasePrior):
    """Dirichlet rows: root (K,), tag (L, K) of the label above a word given its subtype,
    binary_rule (L, K, K, K) of both children's subtypes given label and subtype.
    """

    concentration: float = 0.5
    n_labels: int = 2

    def fields(self, axis: str) -> dict[str, Field]:
        return {
            "root": Field((axis,)),
            "tag": Field(("label", axis)),
            "binary_rule": Field(("label", axis, axis, axis)),
        }

    def zeros(self, n_components: int) -> dict[str, Array]:
        K, L = n_components, self.n_labels
        return {"root": np.zeros(K), "tag": np.zeros((L, K)), "binary_rule": np.zeros((L, K, K, K))}

    def _rows(self, counts: Any) -> Iterator[tuple[str, Array, Array]]:
        K, L = len(counts["root"]), self.n_labels
        tables = {
            "root": counts["root"][None],
            "tag": counts["tag"].T,
            "binary_rule": counts["binary_rule"].reshape(L * K, K * K),
        }
        for name, table in tables.items():
            yield name, table, np.full(table.shape, self.concentration)

    def _shaped(self, name: str, rows: Array, shape: tuple[int, ...]) -> Array:
        return rows.T if name == "tag" else rows.reshape(shape)

    def potentials(self, counts: Any, params: Fields, rule: Any) -> dict[str, Any]:
        return self._shape(counts, rule.pick(ROWS))

    def bound(self, total: Summary, params: Fields) -> float:
        return float(sum(ROWS.log_rise(c, p).sum() for _, c, p in self._rows(total)))

    def log_mode(self, total: Summary, params: Fields) -> float:
        return float(sum(((c + p) * ROWS.mode(c, p)).sum() for _, c, p in self._rows(total)))

    def mean(self, counts: Any, params: Fields) -> Array:
        """Shares of words: how often each subtype is above one."""
        emits = self.sizes(counts) + self.concentration
        return emits / emits.sum()

    def predictive(self, counts: Any, params: Fields) -> dict[str, Any]:
        return self._shape(counts, ROWS.log_mean)

    def _shape(self, counts: Any, log_of: Any) -> dict[str, Any]:
        """Log tables in the shape of their counts."""
        return {n: self._shaped(n, log_of(c, p), counts[n].shape) for n, c, p in self._rows(counts)}

    def sizes(self, counts: Any) -> Array:
        return counts["tag"].sum(0)


@dataclass(frozen=True)
class Skeleton:
    """One sentence: nodes (m, 3), linear potentials of words with their tags (n, K), of rules
    (L, K, K, K) and of the root (K,).
    """

    nodes: Array
    words: Array
    rule: Array
    root: Array

    def inside(self, combine: Any = np.sum) -> tuple[Array, float]:
        """(m, K) weight of all annotations under a node (of the best one when combine is np.max),
        each row scaled to sum to one; the log factor taken out.
        """
        n, table = len(self.words), np.empty((len(self.nodes), len(self.root)))
        table[:n] = self.words
        factor = 0.0
        for v in range(len(self.nodes)):
            if v >= n:
                table[v] = combine(self.ways(table, v), axis=(1, 2))
            factor += float(np.log(table[v].sum()))
            table[v] /= table[v].sum()
        return table, factor

    def ways(self, inside: Array, v: int) -> Array:
        """(K, K, K) weight of each annotation of an inner node and its children."""
        label, left, right = self.nodes[v]
        return self.rule[label] * inside[left][None, :, None] * inside[right][None, None, :]

    def posterior(self, inside: Array) -> Iterator[tuple[int, Array]]:
        """Every node, the root first: (K, K, K) of an inner node and its children, (K,) of a
        word.
        """
        n, shares = len(self.words), np.zeros_like(inside)
        shares[-1] = self.root * inside[-1]
        shares[-1] /= shares[-1].sum()
        for v in range(len(self.nodes) - 1, -1, -1):
            if v < n:
                yield v, shares[v]
                continue
            ways = self.ways(inside, v)
            norm = ways.sum((1, 2))
            joint = ways * (shares[v] / np.where(norm > 0, norm, 1.0))[:, None, None]
            shares[self.nodes[v, 1]], shares[self.nodes[v, 2]] = (
                joint.sum((0, 2)),
                joint.sum((0, 1)),
            )
            yield v, joint

    def draw(self, inside: Array, choose: Callable[[Array], int]) -> Array:
        """(m,) subtypes from the top down. choose(weights) gives a flat index."""
        subtypes = np.empty(len(self.nodes), dtype=np.int64)
        subtypes[-1] = choose(self.root * inside[-1])
        for v in range(len(self.nodes) - 1, len(self.words) - 1, -1):
            ways = self.ways(inside, v)[subtypes[v]]
            subtypes[self.nodes[v, 1:]] = np.unravel_index(choose(ways.ravel()), ways.shape)
        return subtypes


def best_of(weights: Array) -> int:
    return int(np.argmax(weights))


@dataclass(frozen=True)
class Annotation(BaseStructure):
    """q(subtypes) of every sentence by message passing. Shares are of words: the subtype above."""

    has_best = True
    patience = np.inf

    def _skeletons(self, potentials: Any, block: Batch) -> Iterator[tuple[slice, Skeleton, float]]:
        """Rows, potentials, and the log factor taken out, of each sentence."""
        evidence, top = to_linear(row_evidence(potentials, block))
        tag, rule = np.exp(potentials["tag"]), np.exp(potentials["binary_rule"])
        root = np.exp(potentials["root"])
        for u, (lo, hi) in enumerate(pairwise(block.offsets)):
            nodes = block.companion.of(u)
            words = evidence[lo:hi] * tag[nodes[: hi - lo, 0]]
            yield slice(lo, hi), Skeleton(nodes, words, rule, root), float(top[lo:hi].sum())

    def infer(
        self, potentials: Any, block: Batch, warm: Fields | None, out: dict[str, Array]
    ) -> Local:
        shares, log_z = np.empty((block.n_rows, len(potentials["root"]))), 0.0
        for rows, skeleton, top in self._skeletons(potentials, block):
            inside, factor = skeleton.inside()
            log_z += top + factor + float(np.log(skeleton.root @ inside[-1]))
            for v, found in skeleton.posterior(inside):
                label = skeleton.nodes[v, 0]
                if found.ndim == 3:
                    out["binary_rule"][label] += found
                else:
                    out["tag"][label] += found
                    shares[rows.start + v] = found
                if v == len(skeleton.nodes) - 1:
                    out["root"] += found.reshape(len(found), -1).sum(1)
        return Local(log_z, shares)

    def infer_best(
        self, potentials: Any, block: Batch, warm: Fields | None, out: dict[str, Array]
    ) -> Local:
        shares, log_z = np.zeros((block.n_rows, len(potentials["root"]))), 0.0
        for rows, skeleton, top in self._skeletons(potentials, block):
            inside, factor = skeleton.inside(np.max)
            n, nodes, subtypes = len(skeleton.words), skeleton.nodes, skeleton.draw(inside, best_of)
            log_z += top + factor + float(np.log((skeleton.root * inside[-1]).max()))
            shares[np.arange(rows.start, rows.stop), subtypes[:n]] = 1.0
            out["root"][subtypes[-1]] += 1.0
            np.add.at(out["tag"], (nodes[:n, 0], subtypes[:n]), 1.0)
            children = subtypes[nodes[n:, 1]], subtypes[nodes[n:, 2]]
            np.add.at(out["binary_rule"], (nodes[n:, 0], subtypes[n:], *children), 1.0)
        return Local(log_z, shares)

    def count(self, labels: Array, block: Batch, out: dict[str, Array]) -> None:
        """Subtypes of words say nothing of the nodes above them: tags only."""
        for u, (lo, hi) in enumerate(pairwise(block.offsets)):
            known = labels[lo:hi] >= 0
            tags = block.companion.of(u)[: hi - lo, 0]
            np.add.at(out["tag"], (tags[known], labels[lo:hi][known]), 1.0)

    def log_evidence(self, potentials: Any, block: Batch) -> Array:
        found = []
        for _, skeleton, top in self._skeletons(potentials, block):
            inside, factor = skeleton.inside()
            found.append(top + factor + float(np.log(skeleton.root @ inside[-1])))
        return np.array(found)

    def decode(self, potentials: Any, block: Batch) -> Array:
        """Subtype above each word in the best annotation."""
        return self._draw(potentials, block, np.max, best_of)

    best = decode

    def sample(self, potentials: Any, block: Batch, rng: np.random.Generator) -> Array:
        choose = lambda w: int(rng.choice(len(w), p=w / w.sum()))
        return self._draw(potentials, block, np.sum, choose)

    def _draw(
        self, potentials: Any, block: Batch, combine: Any, choose: Callable[[Array], int]
    ) -> Array:
        return np.concatenate(
            [
                skeleton.draw(skeleton.inside(combine)[0], choose)[: rows.stop - rows.start]
                for rows, skeleton, _ in self._skeletons(potentials, block)
            ]
        )
