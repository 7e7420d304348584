"""Sentences without trees: charts over listed rules with subtypes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from stickbreak.data import BAR, Batch, Companion, Listing
from stickbreak.kernels.annotation.charts import parse_sentences, share_sentences, sum_sentences
from stickbreak.kernels.annotation.coarse import CoarseWeights, RuleIndex
from stickbreak.kernels.annotation.skeletons import AnnotatedTables
from stickbreak.protocols import Array, Potentials

from .collapsed import SweptAnnotation, tables_of

__all__ = ["ParsedAnnotation"]

METHODS = ("max-rule", "viterbi")
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

    def _coarse(self, potentials: Potentials) -> CoarseWeights:
        by_left, by_down, by_word = self.index[1]
        orders = slice(None), by_left, by_down, by_word
        names = "root", "binary_rule", "unary_rule", "word_rule"
        pairs = zip(names, orders, strict=True)
        return CoarseWeights(*(np.exp(potentials[f"coarse_{n}"])[order] for n, order in pairs))

    def parse(
        self, potentials: Potentials, block: Batch, uniforms: Array | None = None
    ) -> tuple[Companion, Array]:
        """Trees (n, 6), see `number_trees`, and the logs of their weights.

        A sentence that no rules cover has -1 throughout, and -inf.
        """
        if uniforms is not None:
            self._refuse("drawing trees", "parse without uniforms")
        assert block.offsets is not None
        nodes, found = np.full((block.n_rows, 6), -1, dtype=np.int64), np.empty(block.n_spans)
        logs = tables_of(potentials)
        parse_sentences(
            self.index[0], (self.listing.binary, self.listing.unary), self._coarse(potentials),
            _weights(logs), logs, block.rows, block.offsets, float(self.prune),
            self.method == "max-rule", nodes, found,
        )  # fmt: skip
        return Companion(nodes, block.offsets), found

    def tree_shares(self, potentials: Potentials, block: Batch) -> Companion:
        """Posteriors of labeled spans: (m, 4) begin, end, symbol and posterior of each sentence.

        Only those above 1e-6, and none of nodes that binarization has made.
        """
        is_kept = np.array([BAR not in name for name in self.listing.symbols])
        index, coarse, weights, words, offsets = self._given(potentials, block)
        rows, ends, _ = share_sentences(
            index, coarse, weights, words, offsets, float(self.prune), is_kept, LEAST_SHARE
        )
        return Companion(rows, ends)

    def log_evidence(self, potentials: Potentials, block: Batch) -> Array:
        """(units,) logs of the sums over all trees that pruning leaves."""
        index, coarse, weights, words, offsets = self._given(potentials, block)
        found = np.empty(block.n_spans)
        sum_sentences(index, coarse, weights, words, offsets, float(self.prune), found)
        return found

    def _given(self, potentials: Potentials, block: Batch) -> tuple[Any, ...]:
        """Rules, weights without subtypes and with them, words and offsets."""
        weights = _weights(tables_of(potentials))
        return self.index[0], self._coarse(potentials), weights, block.rows, block.offsets


def _weights(logs: AnnotatedTables) -> AnnotatedTables:
    return AnnotatedTables(*(np.exp(table) for table in logs))
