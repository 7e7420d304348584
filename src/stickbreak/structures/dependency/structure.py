"""Dependency trees: a unit is a sentence, a row a word, a component its tag, which is given.

What is hidden is the tree, which labels of rows cannot hold: `parse` gives the head of every word,
and heads that are known come as the companion of the batch, one for each row, 0 for the root and -1
where unknown.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stickbreak.data import Batch, Companion
from stickbreak.kernels.dependency.charts import Charts, Weights
from stickbreak.kernels.dependency.logs import join_trees, pick_tree
from stickbreak.kernels.dependency.sentences import (
    Tables,
    count_heads,
    infer_sentences,
    longest_of,
    pick_sentences,
    sum_sentences,
)
from stickbreak.protocols import Array, Local, Out, Potentials
from stickbreak.stats import Fields

from ..base import one_hot
from ..tree_units import ParsedUnits, require_trees, unit_times
from .collapsed import known_heads
from .hastings import DrawnDependency

__all__ = ["Dependency", "most_expected_heads"]

NAMES = ("root", "stop", "attach")
WORK = 1 / 14  # of n^3, in rows of a chain: measured


@dataclass(frozen=True)
class Dependency(ParsedUnits, DrawnDependency):
    """q(tree) of every sentence by the inside-outside algorithm for split heads, n^3.

    max_length : most words of a sentence, which collapsed sweeps make room for
    """

    max_length: int = 60

    names_components = True
    n_uniforms = 2

    def unit_work(self, batch: Batch) -> Array:
        """(units,) n^3 of each sentence, and its words."""
        assert batch.offsets is not None
        n = np.diff(batch.offsets).astype(float)
        return n + WORK * n**3

    def infer(self, potentials: Potentials, block: Batch, warm: Fields | None, out: Out) -> Local:
        """Expected counts by inside and outside sums."""
        return self._infer(potentials, block, out, np.zeros((0, 0)))

    def _infer(self, potentials: Potentials, block: Batch, out: Out, heads: Array) -> Local:
        times, logs = unit_times(block), _tables(potentials)
        log_z = np.empty(block.n_spans)
        linear = Tables(*(np.exp(table) for table in logs))
        tables = Tables(*(out[name] for name in NAMES))
        infer_sentences(linear, logs, *_words(block), times, tables, heads, log_z)
        require_trees(log_z, block)
        return Local(float(times @ log_z), one_hot(block.rows, self.n_labels(potentials), block))

    def labels_in(self, trees: Companion, block: Batch) -> Array:
        """(n,) the tags that were given."""
        return np.asarray(block.rows)

    # ------------------------------------------------------------------------------ trees

    def parse(
        self, potentials: Potentials, block: Batch, uniforms: Array | None = None
    ) -> tuple[Companion, Array]:
        """Heads (n,) of the best trees, or of drawn ones, and the logs (units,) of their weights.

        For drawn trees, those of the sums over all.
        """
        heads, log_z = np.zeros(block.n_rows, dtype=np.int64), np.empty(block.n_spans)
        drawn = np.zeros((0, 2)) if uniforms is None else np.ascontiguousarray(uniforms)
        pick_sentences(_tables(potentials), *_words(block), drawn, heads, log_z)
        require_trees(log_z, block)
        assert block.offsets is not None
        return Companion(heads, block.offsets), log_z

    def tree_shares(self, potentials: Potentials, block: Batch) -> Companion:
        """q(head) of every word: (n, n + 1) of each sentence, the root first, flattened."""
        assert block.offsets is not None
        longest, sizes = longest_of(block.offsets), np.diff(block.offsets)
        heads, none = np.zeros((block.n_rows, longest + 1)), dict(potentials.empty.empty().arrays)
        self._infer(potentials, block, none, heads)
        widths = np.repeat(sizes + 1, sizes)
        is_used = np.arange(longest + 1) < widths[:, None]
        return Companion(heads[is_used], np.r_[0, np.cumsum(sizes * (sizes + 1))])

    def count_trees(self, trees: Companion, block: Batch, out: Out) -> None:
        """Add the counts of given trees, heads (n,); of unknown ones (-1), those of the others."""
        tags, offsets, _ = _words(block)
        heads = np.ascontiguousarray(trees.rows, dtype=np.int64)
        count_heads(tags, offsets, heads, unit_times(block), Tables(*(out[n] for n in NAMES)))

    # ------------------------------------------------------------------------------ labels, scores

    def count(self, labels: Array, block: Batch, out: Out) -> None:
        """Nothing: tags say nothing of the tree."""

    def log_evidence(self, potentials: Potentials, block: Batch) -> Array:
        """(units,) logs of the sums over all trees."""
        log_z = np.empty(block.n_spans)
        sum_sentences(_tables(potentials), *_words(block), log_z)
        return log_z

    def decode(self, potentials: Potentials, block: Batch) -> Array:
        """(n,) the tags that were given."""
        return np.asarray(block.rows)

    best = decode

    def sample(self, potentials: Potentials, block: Batch, rng: np.random.Generator) -> Array:
        """(n,) the tags that were given."""
        return np.asarray(block.rows)


def _tables(potentials: Potentials) -> Tables:
    """Log potentials."""
    return Tables(*(np.ascontiguousarray(potentials[name]) for name in NAMES))


def _words(block: Batch) -> tuple[Array, Array, Array]:
    """Tags (n,), offsets (units + 1,) and known heads (n,), or (0,)."""
    assert block.offsets is not None
    return block.rows, block.offsets, known_heads(block)


def most_expected_heads(shares: Array) -> Array:
    """(n,) heads of the projective tree with the largest sum of posteriors (n, n + 1)."""
    n, free = len(shares), np.zeros((len(shares), 2, 2, 2))
    root, attach = np.ascontiguousarray(shares[:, 0]), np.ascontiguousarray(shares[:, 1:].T)
    weights, heads = Weights(root, attach, free), np.zeros(n, dtype=np.int64)
    charts = Charts(*(np.empty(size) for size in ((n, n), (2, n, n), (2, n, n), (n, n))))
    join_trees(weights, n, True, charts)
    pick_tree(weights, n, charts, np.full(2 * n, -1.0), heads)
    return heads
