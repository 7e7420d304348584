"""Chains whose paths are drawn within slices of the present path: the beam sampler."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stickbreak.data import Batch
from stickbreak.kernels.chain.slices import draw_sliced
from stickbreak.protocols import Array, Local, Out, Potentials
from stickbreak.stats import Fields

from ..base import row_evidence
from ..labels import no_states
from .structure import Chain

__all__ = ["SlicedChain"]


@dataclass(frozen=True)
class SlicedChain(Chain):
    """A chain for `Gibbs(slices=True)`: sequences keep their paths, and are never cut."""

    cuts_units = False

    def drawn_start(self, batch: Batch, n_components: int, axis: str) -> Fields:
        """No paths yet."""
        return no_states(batch.n_rows)

    def redraw(
        self, potentials: Potentials, block: Batch, warm: Fields, uniforms: Array, out: Out
    ) -> Local:
        """A path of each sequence within the slices of its last one; the first without slices.

        log_z is the log weight of the paths.
        """
        assert block.offsets is not None
        state, first = warm["state"], block.offsets[:-1]
        tables = potentials["start"], potentials["transition"]
        if not state.any() or state.max() > len(tables[0]):
            local = self.infer_drawn(potentials, block, uniforms, out)
            path = np.asarray(local.shares).argmax(1)
        else:
            evidence, old = row_evidence(potentials, block), np.maximum(state - 1, 0)
            path = draw_sliced(evidence, *tables, block.offsets, old, state[first] > 0, uniforms)
            weights = evidence[np.arange(len(path)), path]
            weights[1:] += tables[1][path[:-1], path[1:]]
            weights[first] = evidence[first, path[first]] + tables[0][path[first]]
            value = np.add.reduceat(weights, first)
            value[state[first] == 0] = 0.0  # nobody's path
            value[np.logical_or.reduceat(np.isnan(evidence).any(1), first)] = np.nan
            self._require_possible(value, block)
            local = self._of_path(path, value, potentials, block, out)
        state[...] = np.where(block.repeats_or_ones() > 0, path + 1, 0)
        return local
