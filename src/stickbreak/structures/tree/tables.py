"""Trees that also count the rules they do not use, for priors with expected table counts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stickbreak.data import Batch
from stickbreak.kernels.tree.absent import LEAST
from stickbreak.kernels.tree.sentences import absent_sentences
from stickbreak.protocols import Array, Local, Out, Potentials, SweptLane
from stickbreak.stats import Field, Fields

from ..tree_units import unit_times
from .collapsed import KEPT
from .structure import Tree, log_grammar, sentences_of, weights_of

__all__ = ["TableTree"]


@dataclass(frozen=True)
class TableTree(Tree):
    """A tree with counts log_absent, log_absent_row and log_absent_root, see `TableRules`.

    Own counts: `absent` (units, K, K, K) and `absent_rows` (units, K) besides those of a tree.
    """

    least_held = None  # log probabilities that rules are absent are no sums over components
    lingers = True
    draws = False
    drawn_granularity = ""

    def own_counts(
        self, batch: Batch, n_components: int, axis: str, granularity: str = ""
    ) -> Fields:
        """Those of a tree, and that no rule has been missed yet."""
        K, own = n_components, super().own_counts(batch, n_components, axis, granularity)
        layout = {
            "absent": Field(("unit", axis, axis, axis), nonnegative=False),
            "absent_rows": Field(("unit", axis), nonnegative=False),
        }
        shapes = {"absent": (batch.n_spans, K, K, K), "absent_rows": (batch.n_spans, K)}
        arrays = {name: np.zeros(shape, KEPT) for name, shape in shapes.items()}
        return Fields({**own.layout, **layout}, {**own.arrays, **arrays})

    def absent_of(self, own: Fields) -> tuple[Array, Array]:
        """Where sentences keep that rules (units, K, K K) and rows (units, K) are not used."""
        n_units, K = own["roots"].shape
        return own["absent"].reshape(n_units, K, K * K), own["absent_rows"]

    def keep_own(self, shares: Array, found: Out, own: Fields) -> None:
        """Keep the posterior of one sentence."""
        super().keep_own(shares, found, own)
        own["absent"][0], own["absent_rows"][0] = found["log_absent"], found["log_absent_row"]

    def count_own(self, block: Batch, own: Fields, out: Out) -> Array:
        """Roots, kinds, rules and missing rules of sentences, as they are kept."""
        _add_absent(own, out)
        return super().count_own(block, own, out)

    def sweep(self, lane: SweptLane) -> tuple[float, float]:
        """Every sentence once, given all others; then the rules that they do not use."""
        found = super().sweep(lane)
        _add_absent(lane.own, lane.out)
        return found

    def infer(self, potentials: Potentials, block: Batch, warm: Fields | None, out: Out) -> Local:
        """Expected counts by inside and outside sums, and the rules that are missed."""
        local, K = super().infer(potentials, block, warm, out), len(potentials["root"])
        logs, rules = log_grammar(potentials), np.zeros((K, K * K))
        absent_sentences(
            weights_of(logs), logs, *sentences_of(potentials, block), unit_times(block), rules,
            out["log_absent_row"], out["log_absent_root"],
        )  # fmt: skip
        out["log_absent"] += rules.reshape(K, K, K)
        return local


def _add_absent(own: Fields, out: Out) -> None:
    """Add what sentences keep; their roots say which of those are missing."""
    out["log_absent"] += own["absent"].sum(0, dtype=float)
    out["log_absent_row"] += own["absent_rows"].sum(0, dtype=float)
    rest = 1.0 - own["roots"].astype(float)
    out["log_absent_root"] += np.log(np.clip(rest, np.exp(LEAST), 1.0)).sum(0)
