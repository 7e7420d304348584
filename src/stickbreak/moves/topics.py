"""Births of topics: what the documents have of one topic falls into clusters, each of them a topic
to begin with.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from stickbreak.data import Table
from stickbreak.families import Categorical, Multinomial
from stickbreak.inference import MeanLog
from stickbreak.inference.proposals import Scene
from stickbreak.initialize import from_plusplus, word_counts
from stickbreak.models import finite_mixture
from stickbreak.stats import Summary

from .trials import clusters_of

__all__ = ["topics_of"]

LEAST_WORDS = 3.0  # of a topic that a document must have to be heard
SAMPLE_WORDS = 500_000  # distinct words of documents that a birth looks at
SMOOTHING = 1.0  # prior count of a word while documents are compared


def topics_of(
    scene: Scene, target: int, n_newborn: int, n_passes: int
) -> tuple[Scene, Summary] | None:
    """The scene as it is, and counts of newborns: clusters of documents by the words that they have
    of the target.
    """
    model = scene.model
    if not isinstance(model.family, Categorical):
        return clusters_of(scene, target, n_newborn, n_passes)
    words = words_of(scene, target)
    if words.shape[0] < 2:
        return None
    mixture = finite_mixture(
        Multinomial(max(SMOOTHING, model.family.concentration), words.shape[1])
    )
    found = from_plusplus(
        mixture, Table(words), min(n_newborn, words.shape[0]), scene.rng, n_passes=2
    ).seed
    keep = np.flatnonzero(found["emission_total"] >= 1.0)
    if len(keep) < 2:
        return None
    table = np.ascontiguousarray(found["emission"][:, keep])
    arrays = {"emission": table, "emission_total": table.sum(0)[None], "share": table.sum(0)}
    return scene, Summary({name: model.layout()[name] for name in arrays}, arrays)


def words_of(scene: Scene, target: int) -> Any:
    """(S, V) expected counts of the words that some documents have of a topic; documents with
    hardly any are left out.
    """
    model = scene.model
    batch = scene.data.sample(SAMPLE_WORDS, scene.rng)
    potentials = model.potentials(scene.total.restrict(batch.symbols), scene.params, MeanLog())
    block = batch.with_rows(model.family.prepare(batch.rows))
    local = model.structure.infer(potentials, block, None, dict(potentials.empty.empty().arrays))
    words = word_counts(
        replace(batch, repeats=local.shares.columns([target])[:, 0]), model.family.n_symbols[0]
    )
    return words[np.flatnonzero(np.asarray(words.sum(1)).ravel() >= LEAST_WORDS)]
