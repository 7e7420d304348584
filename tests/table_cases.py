"""A chain of two states small enough for all labelings, with the sticks on a grid."""

from itertools import product

import numpy as np
from scipy.special import gammaln

from stickbreak.stats import log_gamma_rise

WORDS = ([0, 1], [1, 1, 0])
BASE = 0.5  # prior count of each of two symbols


def of_labels(paths):
    """Steps (3, 2), start row first, and emissions (2, 2) of a path of every sequence."""
    steps, emitted = np.zeros((3, 2)), np.zeros((2, 2))
    for path, words in zip(paths, WORDS, strict=True):
        steps[0, path[0]] += 1
        np.add.at(steps, (1 + np.array(path[:-1]), np.array(path[1:])), 1)
        np.add.at(emitted, (np.array(path), np.array(words)), 1)
    return steps, emitted


def log_words(emitted):
    """Log probability of words given states, or its lower bound at expected counts."""
    rise = log_gamma_rise(BASE, emitted).sum(1) - log_gamma_rise(2 * BASE, emitted.sum(1))
    return rise.sum()


def log_evidence(c, top):
    """Log p(words, labels among the first two states)."""
    nodes, share = np.polynomial.legendre.leggauss(200)
    u = 1.0 - ((nodes + 1) / 2) ** (1.0 / top)  # quantiles of Beta(1, top)
    first, second = np.meshgrid(u, u, indexing="ij")
    b = np.maximum(np.stack([first, (1 - first) * second]), 1e-290)  # c b must not be zero
    weight = np.outer(share, share) / 4
    total = 0.0
    for labels in product(*(product(range(2), repeat=len(words)) for words in WORDS)):
        steps, emitted = of_labels(labels)
        rise = gammaln(c * b + steps[:, :, None, None]) - gammaln(c * b)
        log_p = rise.sum((0, 1)) - log_gamma_rise(c, steps.sum(1)).sum()
        total += (weight * np.exp(log_p)).sum() * np.exp(log_words(emitted))
    return np.log(total)
