"""Word alignment in miniature, IBM model 1: every target word is the translation of a source word
of its own sentence, or of NULL.

A unit is a sentence pair, a row a target word; the companion holds the source words. Components are
the source vocabulary, NULL first: their number is fixed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.special import logsumexp

from stickbreak.data import Batch
from stickbreak.priors import ROWS, BasePrior
from stickbreak.protocols import Local
from stickbreak.stats import Field, Fields, Summary
from stickbreak.structures import BaseStructure, row_evidence

Array = np.ndarray
NULL, WORD = 0, 1


@dataclass(frozen=True)
class NullOrWord(BasePrior):
    """kind (2,): links to NULL and to words, a Dirichlet row. Positions are uniform: nothing to
    learn.
    """

    concentration: float = 0.5

    def fields(self, axis: str) -> dict[str, Field]:
        return {"kind": Field(("kind",))}

    def zeros(self, n_components: int) -> dict[str, Array]:
        return {"kind": np.zeros(2)}

    def potentials(self, counts: Any, params: Fields, rule: Any) -> dict[str, Any]:
        return {"kind": rule.pick(ROWS)(counts["kind"], self._pseudo())}

    def predictive(self, counts: Any, params: Fields) -> dict[str, Any]:
        return {"kind": ROWS.log_mean(counts["kind"], self._pseudo())}

    def bound(self, total: Summary, params: Fields) -> float:
        pseudo = self._pseudo()
        rise = ROWS.log_rise(total["kind"], pseudo)
        return float(rise)

    def log_mode(self, total: Summary, params: Fields) -> float:
        pseudo = self._pseudo()
        return float(((total["kind"] + pseudo) * ROWS.mode(total["kind"], pseudo)).sum())

    def sizes(self, counts: Any) -> Array:
        """(K,) words that are translations of each source word."""
        return np.asarray(counts["emission"]).sum(0)

    def mean(self, counts: Any, params: Fields) -> Array:
        sizes = self.sizes(counts) + self.concentration
        return sizes / sizes.sum()

    def _pseudo(self) -> Array:
        return np.full(2, self.concentration)


@dataclass(frozen=True)
class Alignment(BaseStructure):
    """q(link) of every target word, all of them independent. A word that occurs twice in its
    sentence has two positions.
    """

    has_best = names_components = True

    def _links(
        self, potentials: Any, block: Batch, evidence: Array
    ) -> Iterator[tuple[slice, Array, Array]]:
        """Rows, source words (I + 1,) with NULL first, log weights (J, I + 1), of each pair."""
        kind = potentials["kind"]
        for u, (lo, hi) in enumerate(pairwise(block.offsets)):
            source = np.r_[NULL, block.companion.of(u)]
            position = np.r_[kind[NULL], np.full(len(source) - 1, kind[WORD])]
            position[1:] -= np.log(max(1, len(source) - 1))
            yield slice(lo, hi), source, evidence[lo:hi, source] + position

    def infer(
        self, potentials: Any, block: Batch, warm: Fields | None, out: dict[str, Array]
    ) -> Local:
        evidence = row_evidence(potentials, block)
        log_z, shares = 0.0, np.zeros_like(evidence)
        for rows, source, weights in self._links(potentials, block, evidence):
            norm = logsumexp(weights, axis=1, keepdims=True)
            log_z += float(norm.sum())
            self._count(np.exp(weights - norm), source, shares[rows], out)
        return Local(log_z, shares)

    def infer_best(
        self, potentials: Any, block: Batch, warm: Fields | None, out: dict[str, Array]
    ) -> Local:
        evidence = row_evidence(potentials, block)
        log_z, shares = 0.0, np.zeros_like(evidence)
        for rows, source, weights in self._links(potentials, block, evidence):
            log_z += float(weights.max(1).sum())
            self._count(np.eye(len(source))[weights.argmax(1)], source, shares[rows], out)
        return Local(log_z, shares)

    @staticmethod
    def _count(links: Array, source: Array, shares: Array, out: dict[str, Array]) -> None:
        """Adds links (J, I + 1) to shares (J, K) by source word, and to `out`."""
        np.add.at(shares.T, source, links.T)
        out["kind"] += links[:, 0].sum(), links[:, 1:].sum()

    def count(self, labels: Array, block: Batch, out: dict[str, Array]) -> None:
        known = labels[labels >= 0]
        out["kind"] += (known == NULL).sum(), (known != NULL).sum()

    def log_evidence(self, potentials: Any, block: Batch) -> Array:
        links = self._links(potentials, block, row_evidence(potentials, block))
        return np.array([logsumexp(weights, axis=1).sum() for _, _, weights in links])

    def decode(self, potentials: Any, block: Batch) -> Array:
        """(n,) source word of the best position."""
        links = self._links(potentials, block, row_evidence(potentials, block))
        return np.concatenate([source[weights.argmax(1)] for _, source, weights in links])

    best = decode

    def sample(self, potentials: Any, block: Batch, rng: np.random.Generator) -> Array:
        links = self._links(potentials, block, row_evidence(potentials, block))
        drawn = [(source, weights + rng.gumbel(size=weights.shape)) for _, source, weights in links]
        return np.concatenate([source[weights.argmax(1)] for source, weights in drawn])
