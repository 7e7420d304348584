"""Starts of topics that some words are limited to."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from stickbreak.inference import Start
from stickbreak.protocols import Array

if TYPE_CHECKING:
    from stickbreak.models import Model

__all__ = ["place_words"]


def place_words(model: Model, start: Start, sets: Array, legal: Array) -> Start:
    """The start with legal sets (S, K), its clusters numbered by the words that are limited.

    A component that words are limited to begins with the cluster that has the largest share of
    them. These words begin in no other component.

    sets (V,) : legal set of each word
    """
    from scipy.optimize import linear_sum_assignment

    words, limited = start.seed["emission"], np.flatnonzero(sets > 0)
    may = legal[sets[limited]]
    shares = words[limited] / np.maximum(words.sum(0), 1.0)
    clusters = linear_sum_assignment(-(may.T @ shares))[1]
    seed = start.seed.permute(model.axis, clusters.tolist())
    words = seed["emission"].copy()
    kept, totals = words[limited] * may, words[limited].sum(1, keepdims=True)
    kept = np.where(kept.sum(1, keepdims=True) > 0, kept, may)
    words[limited] = kept * (totals / kept.sum(1, keepdims=True))
    arrays = {**seed.arrays, "emission": words, "emission_total": words.sum(0, keepdims=True)}
    params = model.with_legal(start.params, legal)
    return replace(start, seed=replace(seed, arrays=arrays), params=params)
