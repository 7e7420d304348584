"""What structures of sequences share: weights of sequences, and memory for their kernels."""

from __future__ import annotations

import threading

import numpy as np

from stickbreak.data import Batch
from stickbreak.kernels.chain.smooth import Buffers
from stickbreak.protocols import Array

__all__ = ["own_buffers", "unit_weights"]


class _Own(threading.local):
    """Memory of one thread. Allocating it for every block costs more than the work on the block."""

    def __init__(self) -> None:
        self.buffers = Buffers()


_OWN = _Own()


def own_buffers() -> Buffers:
    """The memory of this thread."""
    return _OWN.buffers


def unit_weights(block: Batch) -> Array:
    """(S,) weight of each sequence."""
    assert block.offsets is not None
    return np.ones(block.n_spans) if block.repeats is None else block.repeats[block.offsets[:-1]]
