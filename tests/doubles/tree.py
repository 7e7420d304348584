"""A small context-free grammar in Chomsky normal form: every category emits one word or splits into
two categories.

A unit is a sentence. Spans are [i, j); inside and outside weights are tables (n + 1, n + 1, K),
linear, over plain loops.
"""

from __future__ import annotations

from collections.abc import Iterator
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
EMIT, SPLIT = 0, 1


@dataclass(frozen=True)
class GrammarRows(BasePrior):
    """Dirichlet rows: root (K,), kind (K, 2) of emit or split, binary_rule (K, K, K) over the two
    children at once.
    """

    concentration: float = 0.5

    def fields(self, axis: str) -> dict[str, Field]:
        return {
            "root": Field((axis,)),
            "kind": Field((axis, None)),
            "binary_rule": Field((axis, axis, axis)),
        }

    def zeros(self, n_components: int) -> dict[str, Array]:
        K = n_components
        return {"root": np.zeros(K), "kind": np.zeros((K, 2)), "binary_rule": np.zeros((K, K, K))}

    def _rows(self, counts: Any) -> Iterator[tuple[str, Array, Array]]:
        """Name, counts and prior counts of every table, one distribution a row."""
        K = len(counts["root"])
        for name, shape in {"root": (1, K), "kind": (K, 2), "binary_rule": (K, K * K)}.items():
            yield name, counts[name].reshape(shape), np.full(shape, self.concentration)

    def potentials(self, counts: Any, params: Fields, rule: Any) -> dict[str, Any]:
        return self._shape(counts, rule.pick(ROWS))

    def bound(self, total: Summary, params: Fields) -> float:
        return float(sum(ROWS.log_rise(c, p).sum() for _, c, p in self._rows(total)))

    def log_mode(self, total: Summary, params: Fields) -> float:
        return float(sum(((c + p) * ROWS.mode(c, p)).sum() for _, c, p in self._rows(total)))

    def sizes(self, counts: Any) -> Array:
        return counts["kind"][:, EMIT]

    def mean(self, counts: Any, params: Fields) -> Array:
        """Shares of words: how often each category emits."""
        emits = self.sizes(counts) + self.concentration
        return emits / emits.sum()

    def predictive(self, counts: Any, params: Fields) -> dict[str, Any]:
        return self._shape(counts, ROWS.log_mean)

    def _shape(self, counts: Any, log_of: Any) -> dict[str, Any]:
        """Log tables in the shape of their counts."""
        return {n: self._shaped(n, log_of(c, p), counts[n].shape) for n, c, p in self._rows(counts)}

    def _shaped(self, name: str, rows: Array, shape: tuple[int, ...]) -> Array:
        return rows.reshape(shape)


def spans(n: int) -> Iterator[tuple[int, int]]:
    """Spans of two words and more, short ones first."""
    return ((i, i + size) for size in range(2, n + 1) for i in range(n - size + 1))


@dataclass(frozen=True)
class Grammar:
    """Linear potentials: emit (n, K) of words, rule (K, K, K) of splits, root (K,)."""

    emit: Array
    rule: Array
    root: Array

    def inside(self, combine: Any = np.sum) -> Array:
        """Weight of all trees over a span (of the best one when combine is np.max)."""
        n, K = self.emit.shape
        table = np.zeros((n + 1, n + 1, K))
        for i in range(n):
            table[i, i + 1] = self.emit[i]
        for i, j in spans(n):
            ways = np.array([self.ways(table, i, m, j) for m in range(i + 1, j)])
            table[i, j] = combine(ways, axis=(0, 2, 3))
        return table

    def ways(self, inside: Array, i: int, m: int, j: int) -> Array:
        """(K, K, K) weight of each rule over [i, j) that splits at m."""
        return self.rule * inside[i, m][None, :, None] * inside[m, j][None, None, :]

    def outside(self, inside: Array) -> Array:
        """Weight of everything around a span."""
        n = len(self.emit)
        table = np.zeros_like(inside)
        table[0, n] = self.root
        for i, j in reversed(list(spans(n))):
            for m in range(i + 1, j):
                table[i, m] += np.einsum("a,abc,c->b", table[i, j], self.rule, inside[m, j])
                table[m, j] += np.einsum("a,abc,b->c", table[i, j], self.rule, inside[i, m])
        return table

    def draw(self, inside: Array, choose: Any) -> tuple[Array, list[tuple[int, int, int]]]:
        """One tree from the top down: the category of each word, and the rules used.
        choose(weights) gives a flat index.
        """
        n, K = self.emit.shape
        labels, rules = np.empty(n, dtype=np.int64), []
        todo = [(0, n, choose(self.root * inside[0, n]))]
        while todo:
            i, j, a = todo.pop()
            if j == i + 1:
                labels[i] = a
                continue
            weights = np.array([self.ways(inside, i, m, j)[a] for m in range(i + 1, j)])
            at, b, c = np.unravel_index(choose(weights.ravel()), (j - i - 1, K, K))
            rules.append((a, int(b), int(c)))
            todo += [(i, i + 1 + int(at), int(b)), (i + 1 + int(at), j, int(c))]
        return labels, rules


@dataclass(frozen=True)
class Tree(BaseStructure):
    """q(tree) of every sentence by inside-outside. Shares are of words: the category above each."""

    has_best = True
    patience = np.inf

    def _grammars(self, potentials: Any, block: Batch) -> Iterator[tuple[slice, Grammar, float]]:
        """Rows, linear potentials, and the log factor taken out, of each sentence."""
        evidence, top = to_linear(row_evidence(potentials, block))
        kind, root = np.exp(potentials["kind"]), np.exp(potentials["root"])
        rule = np.exp(potentials["binary_rule"]) * kind[:, SPLIT, None, None]
        for lo, hi in pairwise(block.offsets):
            yield (
                slice(lo, hi),
                Grammar(evidence[lo:hi] * kind[:, EMIT], rule, root),
                float(top[lo:hi].sum()),
            )

    def infer(
        self, potentials: Any, block: Batch, warm: Fields | None, out: dict[str, Array]
    ) -> Local:
        shares, log_z = np.empty((block.n_rows, len(potentials["root"]))), 0.0
        for rows, grammar, factor in self._grammars(potentials, block):
            n = rows.stop - rows.start
            inside = grammar.inside()
            outside = grammar.outside(inside)
            z = float(grammar.root @ inside[0, n])
            log_z += factor + np.log(z)
            shares[rows] = [outside[i, i + 1] * inside[i, i + 1] / z for i in range(n)]
            out["root"] += grammar.root * inside[0, n] / z
            out["kind"][:, EMIT] += shares[rows].sum(0)
            for i, j in spans(n):
                used = (
                    outside[i, j][:, None, None]
                    / z
                    * sum(grammar.ways(inside, i, m, j) for m in range(i + 1, j))
                )
                out["binary_rule"] += used
                out["kind"][:, SPLIT] += used.sum((1, 2))
        return Local(float(log_z), shares)

    def infer_best(
        self, potentials: Any, block: Batch, warm: Fields | None, out: dict[str, Array]
    ) -> Local:
        shares, log_z = np.zeros((block.n_rows, len(potentials["root"]))), 0.0
        for rows, grammar, factor in self._grammars(potentials, block):
            best = grammar.inside(np.max)
            labels, rules = grammar.draw(best, lambda w: int(np.argmax(w)))
            log_z += factor + float(np.log((grammar.root * best[0, len(labels)]).max()))
            shares[rows] = np.eye(shares.shape[1])[labels]
            out["root"][rules[0][0] if rules else labels[0]] += 1.0
            np.add.at(out["kind"], (labels, EMIT), 1.0)
            for rule in rules:
                out["kind"][rule[0], SPLIT] += 1.0
                out["binary_rule"][rule] += 1.0
        return Local(log_z, shares)

    def count(self, labels: Array, block: Batch, out: dict[str, Array]) -> None:
        """Labels of words say nothing of the tree above them: emissions only."""
        np.add.at(out["kind"], (labels[labels >= 0], EMIT), 1.0)

    def log_evidence(self, potentials: Any, block: Batch) -> Array:
        units = self._grammars(potentials, block)
        return np.array(
            [factor + np.log(g.root @ g.inside()[0, len(g.emit)]) for _, g, factor in units]
        )

    def decode(self, potentials: Any, block: Batch) -> Array:
        """Category of each word in the best tree."""
        best = [
            g.draw(g.inside(np.max), lambda w: int(np.argmax(w)))[0]
            for _, g, _ in self._grammars(potentials, block)
        ]
        return np.concatenate(best)

    best = decode

    def sample(self, potentials: Any, block: Batch, rng: np.random.Generator) -> Array:
        draw = lambda w: int(rng.choice(len(w), p=w / w.sum()))
        return np.concatenate(
            [g.draw(g.inside(), draw)[0] for _, g, _ in self._grammars(potentials, block)]
        )
