"""What changes of the components have made of counts that trials kept."""

from __future__ import annotations

from typing import Any

import numpy as np

from stickbreak.stats import Regroup


def fold_of(layer: Any, K: int) -> np.ndarray:
    """(K, new K) which old components the new ones of a layer are."""
    fold = np.eye(K)
    for edit in layer.edits:
        how = edit if isinstance(edit, Regroup) else edit.how
        step = np.zeros((fold.shape[1], len(how.sources)))
        for new, source in enumerate(how.sources):
            step[list(source), new] = 1.0
        fold = fold @ step
    return fold


def folded(counts: np.ndarray, axes: tuple[str | None, ...], axis: str, fold: np.ndarray) -> Any:
    """Counts with every component put where it went, along each dimension of the components."""
    for dimension, name in enumerate(axes):
        if name == axis:
            counts = np.moveaxis(np.tensordot(counts, fold, (dimension, 0)), -1, dimension)
    return counts
