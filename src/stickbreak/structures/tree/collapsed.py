"""Collapsed sweeps of grammars: what sentences keep, and their counts without each other's.

Own counts: `rows` (n, K), the category above each word; `roots` (units, K); and `rules`
(units, K, K, K), K^3 numbers for each sentence. They are float32: what is added is what was kept.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stickbreak.data import Batch
from stickbreak.kernels.tree.sweeps import (
    Symbols,
    TreeCounts,
    TreeOwn,
    TreePrior,
    TreeUnits,
    count_sentences,
    random_trees,
    sweep_sentences,
)
from stickbreak.protocols import Array, Out, SweptLane
from stickbreak.stats import Field, Fields

from ..base import BaseStructure
from ..chain.collapsed import legal_rows, used_units
from ..tree_units import require_swept

__all__ = [
    "EMIT", "SPLIT", "SweptTree", "known_brackets", "tree_counts", "tree_prior", "tree_units",
]  # fmt: skip

EMIT, SPLIT = 0, 1
KEPT = np.float32


class SweptTree(BaseStructure):
    """The part of a grammar that collapsed inference needs."""

    granularities = ("sentence",)
    sweeps_symbols_only = loops = True

    def own_counts(
        self, batch: Batch, n_components: int, axis: str, granularity: str = ""
    ) -> Fields:
        """Categories of words, roots and rules of every sentence; none yet."""
        K, n_units = n_components, batch.n_spans
        layout = {
            "rows": Field(("row", axis)),
            "roots": Field(("unit", axis)),
            "rules": Field(("unit", axis, axis, axis)),
        }
        arrays = {
            "rows": np.zeros((batch.n_rows, K), KEPT),
            "roots": np.zeros((n_units, K), KEPT),
            "rules": np.zeros((n_units, K, K, K), KEPT),
        }
        return Fields(layout, arrays)

    def random_own(
        self,
        batch: Batch,
        n_components: int,
        axis: str,
        rng: np.random.Generator,
        legal: Array | None = None,
    ) -> Fields:
        """Trees of every sentence under random weights of rules and words."""
        own = self.own_counts(batch, n_components, axis)
        seeds = rng.integers(0, 1 << 64, batch.n_spans, dtype=np.uint64)
        none = np.full(batch.n_rows, -1, dtype=np.int64)
        random_trees(tree_units(batch, none, legal, n_components), seeds, self._own(own))
        return own

    def keep_own(self, shares: Array, found: Out, own: Fields) -> None:
        """Keep the posterior of one sentence."""
        own["rows"][...], own["roots"][0] = shares, found["root"]
        own["rules"][0] = found["binary_rule"]

    def count_own(self, block: Batch, own: Fields, out: Out) -> Array:
        """Roots, kinds and rules of sentences, as they are kept."""
        rules = own["rules"].sum(0, dtype=float)
        out["root"] += own["roots"].sum(0, dtype=float)
        out["binary_rule"] += rules
        out["kind"][:, EMIT] += own["rows"].sum(0, dtype=float)
        out["kind"][:, SPLIT] += rules.sum((1, 2))
        return np.asarray(own["rows"], dtype=float)

    def sweep(self, lane: SweptLane) -> tuple[float, float]:
        """Every sentence once, given all others. Its part of the bound is its tree's entropy."""
        batch, how, found = lane.batch, lane.how, np.zeros(2)
        words = np.ascontiguousarray(batch.rows[:, 0], dtype=np.int64)
        units = tree_units(batch, words, lane.legal, len(lane.live.totals))
        outs, own = (Symbols(*lane.out_live), tree_counts(lane.out)), self._own(lane.own)
        if not how.moves:
            count_sentences(units, own, *outs)
            return 0.0, 0.0
        bad = sweep_sentences(
            Symbols(*lane.live), tree_counts(lane.tables), tree_prior(lane.pseudo), units, own,
            how.block, how.is_part, how.is_measured, *outs, found,
        )  # fmt: skip
        require_swept(bad, batch)
        return float(found[0]), float(found[1])

    def absent_of(self, own: Fields) -> tuple[Array, Array]:
        """Where sentences keep that rules (units, K, K K) and rows (units, K) are not used."""
        K = own["roots"].shape[1]
        return np.zeros((0, K, K * K), KEPT), np.zeros((0, K), KEPT)

    def _own(self, own: Fields) -> TreeOwn:
        n_units, K = own["roots"].shape
        rules = own["rules"].reshape(n_units, K, K * K)
        return TreeOwn(own["rows"], own["roots"], rules, *self.absent_of(own))


def known_brackets(batch: Batch) -> tuple[Array, Array]:
    """Brackets (B, 2) that no span may cross, and offsets (units + 1,) of each sentence's."""
    if batch.companion is None:
        return np.zeros((0, 2), dtype=np.int64), np.zeros(batch.n_spans + 1, dtype=np.int64)
    brackets = np.ascontiguousarray(batch.companion.rows, dtype=np.int64)
    return brackets, batch.companion.offsets


def tree_units(batch: Batch, words: Array, legal: Array | None, width: int) -> TreeUnits:
    """Sentences, as kernels have them. width : of the legal sets."""
    sets, allowed = legal_rows(batch, legal, width)
    is_used, (brackets, ends) = used_units(batch), known_brackets(batch)
    return TreeUnits(words, batch.offsets, is_used, brackets, ends, sets, allowed)  # type: ignore[arg-type]


def tree_counts(arrays: Out) -> TreeCounts:
    """Counts of roots, kinds and rules, as kernels have them."""
    K = len(arrays["root"])
    return TreeCounts(arrays["root"], arrays["kind"], arrays["binary_rule"].reshape(K, K * K))


def tree_prior(tables: Any) -> TreePrior:
    """Prior counts, as kernels have them."""
    K = len(tables["root"].pseudo)
    rest, rule = tables["root"].rest, tables["binary_rule"]
    of_rules = np.zeros(K) if rule.rest is None else np.ascontiguousarray(rule.rest, dtype=float)
    return TreePrior(
        np.ascontiguousarray(tables["root"].pseudo), np.ascontiguousarray(tables["kind"].pseudo),
        np.ascontiguousarray(rule.pseudo).reshape(K, K * K), float(rest or 0.0), of_rules,
    )  # fmt: skip
