"""Each unit flips one hidden coin, whose face is the component of all its rows."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.special import logsumexp

from stickbreak.data import Batch
from stickbreak.protocols import Array, Local, Out, Potentials
from stickbreak.stats import Fields
from stickbreak.structures import BaseStructure, row_evidence


@dataclass(frozen=True)
class Coin(BaseStructure):
    """q(face of a unit) = softmax(log share + the sum of its rows' evidence).

    The prior counts flips: one a unit.
    """

    is_ordered = has_best = draws = True

    def infer(self, potentials: Potentials, block: Batch, warm: Fields | None, out: Out) -> Local:
        logits = self._logits(potentials, block)
        log_z = logsumexp(logits, axis=1)
        return self._local(block, log_z, np.exp(logits - log_z[:, None]), out)

    def infer_best(
        self, potentials: Potentials, block: Batch, warm: Fields | None, out: Out
    ) -> Local:
        logits = self._logits(potentials, block)
        return self._local(block, logits.max(1), one_hot(logits.argmax(1), logits), out)

    def infer_drawn(self, potentials: Potentials, block: Batch, uniforms: Array, out: Out) -> Local:
        logits = self._logits(potentials, block)
        log_z = logsumexp(logits, axis=1)
        reached = np.exp(logits - log_z[:, None]).cumsum(1)
        # one flip a unit: the random number of its first row
        faces = (reached > (uniforms[_offsets(block)[:-1]] * reached[:, -1])[:, None]).argmax(1)
        return self._local(block, log_z, one_hot(faces, logits), out)

    def _logits(self, potentials: Potentials, block: Batch) -> Array:
        """(units, K) log weight of each face."""
        evidence = row_evidence(potentials, block)
        return np.add.reduceat(evidence, _offsets(block)[:-1], axis=0) + potentials["share"]

    def _local(self, block: Batch, log_z: Array, faces: Array, out: Out) -> Local:
        """From shares (units, K) of the faces."""
        repeats, offsets = block.repeats_or_ones(), _offsets(block)
        weights = repeats[offsets[:-1]]
        out["share"] += weights @ faces
        rows = np.repeat(faces, np.diff(offsets), axis=0) * repeats[:, None]
        return Local(float(weights @ log_z), rows)

    def count(self, labels: Array, block: Batch, out: Out) -> None:
        # rows that disagree share the flip of their unit
        known, lengths = labels >= 0, np.diff(_offsets(block))
        weights = (block.repeats_or_ones() / np.repeat(lengths, lengths))[known]
        out["share"] += np.bincount(labels[known], weights, minlength=len(out["share"]))

    def log_evidence(self, potentials: Potentials, block: Batch) -> Array:
        return np.asarray(logsumexp(self._logits(potentials, block), axis=1))

    def viterbi(self, potentials: Potentials, block: Batch) -> tuple[Array, Array]:
        logits = self._logits(potentials, block)
        return np.repeat(logits.argmax(1), np.diff(_offsets(block))), logits.max(1)

    def best(self, potentials: Potentials, block: Batch) -> Array:
        return self.viterbi(potentials, block)[0]

    def filter(self, potentials: Potentials, block: Batch) -> tuple[Array, Array]:
        shares, steps = np.array(row_evidence(potentials, block)), np.empty(block.n_rows)
        for lo, hi in pairwise(_offsets(block)):
            so_far = shares[lo:hi].cumsum(0) + potentials["share"]
            log_z = logsumexp(so_far, axis=1)
            shares[lo:hi] = np.exp(so_far - log_z[:, None])
            steps[lo:hi] = np.diff(log_z, prepend=0.0)
        return shares, steps

    def walk(self, potentials: Potentials, offsets: Array, rng: np.random.Generator) -> Array:
        share = np.exp(potentials["share"])
        faces = rng.choice(len(share), size=len(offsets) - 1, p=share / share.sum())
        return np.repeat(faces, np.diff(offsets))


def one_hot(faces: Array, like: Array) -> Array:
    return np.eye(like.shape[1])[faces]


def _offsets(block: Batch) -> Array:
    """(units + 1,) bounds of the units; without any, each row is one."""
    return np.arange(block.n_rows + 1) if block.offsets is None else block.offsets
