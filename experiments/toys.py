"""Synthetic data of the published experiments, rebuilt from their descriptions. Each is fixed by
its seed.
"""

from __future__ import annotations

import numpy as np

__all__ = [
    "bars",
    "draw_documents",
    "draw_mixed_documents",
    "draw_patches",
    "edges",
    "letters",
    "surface_covariances",
]

# Letters of 5 x 7 dots: seven rows from the top, the left dot is the highest of five bits.
LETTERS = {
    "A": "0E11111F111111", "B": "1E11111E11111E", "C": "0E11101010110E", "D": "1E11111111111E",
    "E": "1F10101E10101F",
    "F": "1F10101E101010", "G": "0E11101711110F", "H": "1111111F111111", "I": "0E04040404040E",
    "J": "0702020202120C",
    "K": "11121418141211", "L": "1010101010101F", "M": "111B1515111111", "N": "11191513111111",
    "O": "0E11111111110E",
    "P": "1E11111E101010", "Q": "0E11111115120D", "R": "1E11111E141211", "S": "0F10100E01011E",
    "T": "1F040404040404",
    "U": "1111111111110E", "V": "11111111110A04", "W": "11111115151B11", "X": "11110A040A1111",
    "Y": "11110A04040404",
    "Z": "1F01020408101F",
}  # fmt: skip


def edges(width: int = 5) -> np.ndarray:
    """(8, width, width) true on one side: an upright and a level edge, two diagonals, four
    corners.
    """
    row, column = np.indices((width, width))
    cut, corner = width // 2, 1 + width // 2
    regions = [column < cut, row < cut, row < column, row + column < width - 1]
    regions += [(row < corner) & (column < corner), (row < corner) & (column >= width - corner)]
    regions += [
        (row >= width - corner) & (column < corner),
        (row >= width - corner) & (column >= width - corner),
    ]
    return np.array(regions)


def letters(width: int = 8) -> np.ndarray:
    """(26, width, width) true on the strokes of a letter."""
    images = np.zeros((26, width, width), dtype=bool)
    for image, code in zip(images, LETTERS.values(), strict=True):
        for y, row in enumerate(bytes.fromhex(code)):
            image[y, 1:6] = [bool(row >> (4 - x) & 1) for x in range(5)]
    return images


def surface_covariances(regions: np.ndarray, noise: float) -> np.ndarray:
    """(K, D, D) covariances of patches that show two surfaces of independent brightness, as dead
    leaves do.

    regions (K, width, width) : true on one of them. noise : of a pixel, beside a surface's standard
        deviation of 1.
    """
    sides = regions.reshape(len(regions), 1, -1)
    both = np.concatenate([sides, ~sides], axis=1).astype(float)
    return both.transpose(0, 2, 1) @ both + noise**2 * np.eye(sides.shape[2])


def draw_patches(
    covariances: np.ndarray, weights: np.ndarray, n_rows: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Rows (n, D) with mean zero and the covariance of their cluster, and their clusters (n,), in
    random order.
    """
    rng = np.random.default_rng(seed)
    labels = rng.choice(len(weights), n_rows, p=weights / weights.sum())
    rows = rng.standard_normal((n_rows, covariances.shape[1]))
    for k, root in enumerate(np.linalg.cholesky(covariances)):
        mine = labels == k
        rows[mine] = rows[mine] @ root.T
    return rows, labels


def bars(width: int = 30, count: int = 10, contrast: float = 10.0) -> np.ndarray:
    """(count, width * width) word probabilities: half of the bars lie, half stand; a word of the
    bar is `contrast` times "
    "likelier."""
    topics = np.ones((count, width, width))
    thick = width // (count // 2)
    for k in range(count // 2):
        band = slice(k * thick, (k + 1) * thick)
        topics[k, band] = contrast
        topics[count // 2 + k, :, band] = contrast
    flat = topics.reshape(count, -1)
    return flat / flat.sum(1, keepdims=True)


def draw_documents(
    topics: np.ndarray, n_rows: int, n_words: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Word counts (n, V) of documents with one topic each, and their topics."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(len(topics), size=n_rows)
    return rng.multinomial(n_words, topics[labels]).astype(float), labels


def draw_mixed_documents(topics: np.ndarray, n_rows: int, n_words: int, seed: int) -> np.ndarray:
    """Word counts (n, V) of documents that mix one to three topics."""
    rng = np.random.default_rng(seed)
    shares = np.zeros((n_rows, len(topics)))
    for row in shares:
        own = rng.choice(len(topics), size=rng.integers(1, 4), replace=False)
        row[own] = rng.dirichlet(np.ones(len(own)))
    return rng.multinomial(n_words, shares @ topics)
