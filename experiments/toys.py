"""Synthetic data of the published experiments, rebuilt from their descriptions. Each is fixed by its seed."""

from __future__ import annotations

import numpy as np

__all__ = ["draw_patches", "edge_covariances"]

NOISE = 0.2  # standard deviation of a pixel beside that of its surface, which is 1


def edge_regions(width: int = 5) -> np.ndarray:
    """(8, width, width) true on one side: an upright and a level edge, two diagonals, four corners."""
    row, column = np.indices((width, width))
    cut = width // 2
    corner = 1 + cut
    regions = [column < cut, row < cut, row < column, row + column < width - 1]
    regions += [(row < corner) & (column < corner), (row < corner) & (column >= width - corner)]
    regions += [(row >= width - corner) & (column < corner), (row >= width - corner) & (column >= width - corner)]
    return np.array(regions)


def edge_covariances(width: int = 5, noise: float = NOISE) -> np.ndarray:
    """(8, D, D) two surfaces of independent brightness that meet in an edge or a corner, as dead leaves do."""
    sides = edge_regions(width).reshape(8, -1)[:, None, :]
    both = np.concatenate([sides, ~sides], axis=1).astype(float)
    return both.transpose(0, 2, 1) @ both + noise**2 * np.eye(width * width)


def draw_patches(covariances: np.ndarray, weights: np.ndarray, n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows (n, D) with mean zero and the covariance of their cluster, and their clusters (n,), in random order."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(len(weights), n_rows, p=weights / weights.sum())
    rows = rng.standard_normal((n_rows, covariances.shape[1]))
    for k, root in enumerate(np.linalg.cholesky(covariances)):
        mine = labels == k
        rows[mine] = rows[mine] @ root.T
    return rows, labels
