"""Trees of a context-free grammar: a unit is a sentence, a row a word, a component a category.

Every category emits one word or splits into two categories. Shares of rows are those of the
category above each word, so emissions are of any family. Brackets that are known come as the
companion of the batch, rows (begin, end) of words, and no span may cross one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stickbreak.data import Batch, Companion
from stickbreak.kernels.tree.charts import Grammar
from stickbreak.kernels.tree.sentences import (
    LogGrammar,
    best_spans,
    count_nodes,
    infer_sentences,
    pick_sentences,
    sum_sentences,
)
from stickbreak.protocols import Array, Local, Out, Potentials
from stickbreak.stats import Fields

from ..base import Division, row_evidence
from ..tree_units import ParsedUnits, require_trees, unit_times
from .collapsed import EMIT, SPLIT, known_brackets
from .hastings import DrawnTree

__all__ = ["Tree", "log_grammar", "most_expected_spans", "sentences_of", "weights_of"]

WORK = 1 / 2  # of n^3, in rows of a chain: measured with ten categories


@dataclass(frozen=True)
class Tree(ParsedUnits, DrawnTree):
    """q(tree) of every sentence by the inside-outside algorithm, n^3 K^2 + n^2 K^3."""

    patience = np.inf
    births = (
        Division("seeds"), Division("seeds", 4), Division("seeds", 4),
        Division("seeds", 4, n_more=1),
    )  # fmt: skip

    def unit_work(self, batch: Batch) -> Array:
        """(units,) n^3 of each sentence, and its words."""
        assert batch.offsets is not None
        n = np.diff(batch.offsets).astype(float)
        return n + WORK * n**3

    def infer(self, potentials: Potentials, block: Batch, warm: Fields | None, out: Out) -> Local:
        """Expected counts by inside and outside sums."""
        return self._infer(potentials, block, out, np.zeros((0, len(potentials["root"]))))

    def _infer(self, potentials: Potentials, block: Batch, out: Out, spans: Array) -> Local:
        K, times, log_z = len(potentials["root"]), unit_times(block), np.empty(block.n_spans)
        logs, rows = log_grammar(potentials), np.zeros((block.n_rows, K))
        weights, gather, counts = weights_of(logs), np.zeros((K, K * K)), np.zeros((K, K * K))
        infer_sentences(
            weights, logs, *sentences_of(potentials, block), times, gather, counts, out["root"],
            rows, spans, log_z,
        )  # fmt: skip
        require_trees(log_z, block)
        counts += gather * weights.rule
        out["kind"][:, EMIT] += rows.sum(0)
        out["kind"][:, SPLIT] += counts.sum(1)
        out["binary_rule"] += counts.reshape(K, K, K)
        return Local(float(times @ log_z), np.asfortranarray(rows))

    # ------------------------------------------------------------------------------ trees

    def parse(
        self, potentials: Potentials, block: Batch, uniforms: Array | None = None
    ) -> tuple[Companion, Array]:
        """Best trees, or drawn ones, and the logs (units,) of their weights.

        A tree of n words is 2 n - 1 nodes in preorder: begin, end, where its right child begins (-1
        for a word) and category.
        """
        assert block.offsets is not None
        ends = 2 * block.offsets - np.arange(len(block.offsets))
        nodes, log_z = np.zeros((ends[-1], 4), dtype=np.int64), np.empty(block.n_spans)
        drawn = np.zeros(0) if uniforms is None else np.ascontiguousarray(uniforms)
        pick_sentences(
            log_grammar(potentials), *sentences_of(potentials, block), drawn, nodes, log_z
        )
        require_trees(log_z, block)
        return Companion(nodes, ends), log_z

    def tree_shares(self, potentials: Potentials, block: Batch) -> Companion:
        """q(category) of every span: (n (n + 1) / 2, K) of each sentence, short spans first."""
        assert block.offsets is not None
        sizes = np.diff(block.offsets)
        ends = np.r_[0, np.cumsum(sizes * (sizes + 1) // 2)]
        spans = np.zeros((ends[-1], len(potentials["root"])))
        self._infer(potentials, block, dict(potentials.empty.empty().arrays), spans)
        return Companion(spans, ends)

    def count_trees(self, trees: Companion, block: Batch, out: Out) -> None:
        """Add the counts of given trees, see `parse`."""
        nodes = np.ascontiguousarray(trees.rows, dtype=np.int64)
        tables = out["root"], out["kind"], out["binary_rule"]
        count_nodes(nodes, trees.offsets, unit_times(block), *tables)

    # ------------------------------------------------------------------------------ labels, scores

    def count(self, labels: Array, block: Batch, out: Out) -> None:
        """Labels of words say nothing of the tree above them: emissions only."""
        known = labels >= 0
        np.add.at(out["kind"][:, EMIT], labels[known], block.repeats_or_ones()[known])

    def log_evidence(self, potentials: Potentials, block: Batch) -> Array:
        """(units,) logs of the sums over all trees."""
        log_z, logs = np.empty(block.n_spans), log_grammar(potentials)
        sum_sentences(weights_of(logs), logs, *sentences_of(potentials, block), log_z)
        return log_z

    def labels_in(self, trees: Companion, block: Batch) -> Array:
        """(n,) category above each word: those of nodes without children, in order."""
        return np.ascontiguousarray(trees.rows[trees.rows[:, 2] < 0, 3])


def log_grammar(potentials: Potentials) -> LogGrammar:
    """Log weights; those of splitting are joined with the rules."""
    K = len(potentials["root"])
    rule = potentials["binary_rule"] + potentials["kind"][:, SPLIT, None, None]
    return LogGrammar(np.ascontiguousarray(potentials["root"]), rule.reshape(K, K * K))


def weights_of(logs: LogGrammar) -> Grammar:
    """Linear weights."""
    rule = np.exp(logs.rule)
    is_lossy = bool(((rule == 0.0) & (logs.rule > -np.inf)).any())
    return Grammar(np.exp(logs.root), rule, is_lossy)


def sentences_of(potentials: Potentials, block: Batch) -> tuple[Array, Array, Array, Array]:
    """Log evidence (n, K) with that of emitting, offsets, known brackets and their offsets."""
    assert block.offsets is not None
    evidence = row_evidence(potentials, block) + potentials["kind"][:, EMIT]
    return np.ascontiguousarray(evidence), block.offsets, *known_brackets(block)


def most_expected_spans(shares: Array, n: int) -> Array:
    """Nodes (2 n - 1, 4) of the tree whose spans have the largest sum of posteriors (m, K).

    Each node has its most probable category.
    """
    nodes = np.zeros((2 * n - 1, 4), dtype=np.int64)
    best_spans(np.ascontiguousarray(shares.sum(1)), n, nodes)
    nodes[:, 3] = shares[nodes[:, 3]].argmax(1)
    return nodes
