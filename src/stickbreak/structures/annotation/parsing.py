"""Sentences without trees: charts over listed rules with subtypes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from stickbreak.data import BAR, Batch, Companion, Listing
from stickbreak.kernels.annotation.charts import (
    ChartWeights,
    draw_sentences,
    parse_sentences,
    share_sentences,
    sum_sentences,
)
from stickbreak.kernels.annotation.coarse import CoarseWeights, RuleIndex
from stickbreak.kernels.annotation.skeletons import AnnotatedTables
from stickbreak.protocols import Array, Potentials

from .collapsed import SweptAnnotation, exponentials, has_underflown, tables_of

__all__ = ["ParsedAnnotation"]

METHODS = ("max-rule", "viterbi")
NAMES = "root", "binary_rule", "unary_rule", "word_rule"
LEAST_SHARE = 1e-6


@dataclass(frozen=True, eq=False)
class ParsedAnnotation(SweptAnnotation):
    """The part of annotated trees that parses sentences."""

    listing: Listing
    prune: float = 1e-5
    method: str = "max-rule"

    @cached_property
    def index(self) -> tuple[RuleIndex, tuple[Array, Array, Array]]:
        """The rules in the order that charts look them up, and these orders."""
        found, S = self.listing, len(self.listing.symbols)
        orders = (
            np.argsort(found.binary[:, 1], kind="stable"),
            np.argsort(found.unary[:, 1], kind="stable"),
            np.argsort(found.emits[:, 1], kind="stable"),
        )
        keys = found.binary[:, 1], found.unary[:, 1], found.emits[:, 1]
        sizes = S, S, len(found.words)
        left_ends, down_ends, word_ends = (
            np.r_[0, np.cumsum(np.bincount(key, minlength=n))]
            for key, n in zip(keys, sizes, strict=True)
        )
        by_left, by_down, by_word = orders
        binary, unary, emits = found.binary[by_left], found.unary[by_down], found.emits[by_word]
        made = RuleIndex(
            np.ascontiguousarray(binary[:, 0]), np.ascontiguousarray(binary[:, 2]), by_left,
            left_ends, np.ascontiguousarray(unary[:, 0]), by_down, down_ends,
            np.ascontiguousarray(emits[:, 0]), by_word, word_ends, found.tops,
        )  # fmt: skip
        return made, orders

    def _weights(self, potentials: Potentials) -> ChartWeights:
        coarse = [potentials[f"coarse_{name}"] for name in NAMES]
        orders = slice(None), *self.index[1]
        logs = tables_of(potentials)
        pairs = zip(coarse, orders, strict=True)
        ordered = CoarseWeights(*(np.exp(log)[order] for log, order in pairs))
        shapes = (-1, 1), (-1, 1, 1, 1), (-1, 1, 1), (-1, 1)
        alone = AnnotatedTables(*(log.reshape(n) for log, n in zip(coarse, shapes, strict=True)))
        tables = exponentials(logs)
        return ChartWeights(ordered, tables, alone, logs, has_underflown(tables, logs))

    def parse(
        self, potentials: Potentials, block: Batch, uniforms: Array | None = None
    ) -> tuple[Companion, Array]:
        """Trees (n, 6), see `number_trees`, and the logs of their weights.

        With uniforms (n, 3), drawn trees, and the logs of the sums over all. A sentence that no
        rules cover has -1 throughout, and -inf.
        """
        assert block.offsets is not None
        nodes, found = np.full((block.n_rows, 6), -1, dtype=np.int64), np.empty(block.n_spans)
        symbols, prune = (self.listing.binary, self.listing.unary), float(self.prune)
        given = self.index[0], symbols, self._weights(potentials), block.rows, block.offsets, prune
        if uniforms is None:
            parse_sentences(*given, self.method == "max-rule", nodes, found)
        else:
            draw_sentences(*given, np.ascontiguousarray(uniforms), nodes, found)
        return Companion(nodes, block.offsets), found

    def tree_shares(self, potentials: Potentials, block: Batch) -> Companion:
        """Posteriors of labeled spans: (m, 4) begin, end, symbol and posterior of each sentence.

        Only those above 1e-6, and none of nodes that binarization has made.
        """
        is_kept = np.array([BAR not in name for name in self.listing.symbols])
        weights, words, offsets = self._weights(potentials), block.rows, block.offsets
        rows, ends, _ = share_sentences(
            self.index[0], weights, words, offsets, float(self.prune), is_kept, LEAST_SHARE
        )
        return Companion(rows, ends)

    def log_evidence(self, potentials: Potentials, block: Batch) -> Array:
        """(units,) logs of the sums over all trees that pruning leaves."""
        weights, found = self._weights(potentials), np.empty(block.n_spans)
        sum_sentences(self.index[0], weights, block.rows, block.offsets, float(self.prune), found)
        return found
