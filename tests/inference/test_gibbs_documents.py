"""Samplers of documents, blocked and collapsed: the exact posterior of a tiny corpus by
enumeration, repeatability, refusals.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from enumeration import assert_average, log_dirichlet_multinomial
from scipy.special import logsumexp

import stickbreak as sb
import stickbreak.inference.loop as loop_of
from stickbreak.data import Documents
from stickbreak.families import Categorical
from stickbreak.inference import run
from stickbreak.initialize import from_local
from stickbreak.models import hdp_topics, lda

Array = np.ndarray
V, K, BASE, CONCENTRATION, TOP = 3, 2, 0.4, 1.2, 3.0
# word and document of each of seven tokens: two words occur three and two times in a document
WORDS, OWNERS = np.array([0, 0, 0, 1, 1, 1, 2]), np.array([0, 0, 0, 0, 1, 1, 1])
ENGINES = pytest.mark.parametrize("engine", [sb.Gibbs, sb.CollapsedGibbs])
LENGTHS = pytest.mark.parametrize("n_sweeps", [450, pytest.param(4050, marks=pytest.mark.slow)])


def tiny() -> Documents:
    return Documents(
        np.array([[0], [1], [1], [2]]), np.array([3.0, 1.0, 2.0, 1.0]), offsets=np.array([0, 2, 4])
    )


LABELINGS = np.array(list(product(range(K), repeat=len(WORDS))))
ONE_HOT = np.eye(K)[LABELINGS]  # (128, tokens, K)
TOPICS = np.stack([ONE_HOT[:, v == WORDS].sum(1) for v in range(V)], axis=2)  # (128, K, V)
HELD = np.stack([ONE_HOT[:, d == OWNERS].sum(1) for d in range(2)], axis=1)  # (128, docs, K)
LOG_WORDS = log_dirichlet_multinomial(TOPICS, np.full((K, V), BASE)).sum(-1)


def tiny_model(kind: str) -> Any:
    family = replace(Categorical(BASE), n_symbols=(V,))
    if kind == "lda":
        return lda(family, concentration=CONCENTRATION)
    return hdp_topics(family, concentration=CONCENTRATION, top_concentration=TOP)


def long_run(kind: str, engine: type, n_sweeps: int, monkeypatch: Any) -> list[dict[str, Array]]:
    """Counts, root and log joint after each sweep, the first 50 left out."""
    found: list[dict[str, Array]] = []
    model, data = tiny_model(kind), tiny()
    settled = loop_of._Loop._settle

    def settle(loop: Any) -> Any:
        record = settled(loop)
        total = loop.state.total.snapshot()
        found.append({**total.arrays, **loop.state.params.arrays, "log joint": record.bound})
        return record

    monkeypatch.setattr(loop_of._Loop, "_settle", settle)
    start = from_local(model, data, K, np.random.default_rng(0))
    run(model, engine(max_iter=n_sweeps), data, replace(start, warm=None))
    return found[50:]


def chances(prior: Array) -> tuple[Array, Array]:
    """Log joint (128,) of labels and words, and posterior chances, for prior counts (K,)."""
    joint = LOG_WORDS + log_dirichlet_multinomial(HELD, np.tile(prior, (2, 1))).sum(-1)
    return joint, np.exp(joint - logsumexp(joint))


@ENGINES
@LENGTHS
def test_long_run_of_topics_has_the_posterior_of_all_labelings(
    engine: type, n_sweeps: int, monkeypatch: Any
) -> None:
    """Means and squares of counts; five standard errors of block averages, see `assert_average`."""
    joint, chance = chances(np.full(K, CONCENTRATION))
    seen = long_run("lda", engine, n_sweeps, monkeypatch)
    flat = TOPICS.transpose(0, 2, 1).reshape(len(joint), -1)
    assert_average([s["emission"].ravel() for s in seen], chance @ flat)
    assert_average([s["emission"].ravel() ** 2 for s in seen], chance @ flat**2)
    assert_average([s["share"] ** 2 for s in seen], chance @ HELD.sum(1) ** 2)
    assert_average([s["log joint"] for s in seen], chance @ joint)


@ENGINES
@LENGTHS
def test_long_run_of_an_hdp_of_topics_has_the_posterior_of_labels_and_roots(
    engine: type, n_sweeps: int, monkeypatch: Any
) -> None:
    """Two topics: the root has one number, over which a fine grid integrates."""
    grid = (np.arange(400) + 0.5) / 400
    each = [chances(CONCENTRATION * np.array([u, 1 - u]))[0] for u in grid]
    own = (TOP / K - 1) * (np.log(grid) + np.log1p(-grid))
    joint = np.array(each) + own[:, None]
    chance = np.exp(joint - logsumexp(joint))
    seen = long_run("hdp", engine, n_sweeps, monkeypatch)
    assert_average([s["root"][0] for s in seen], chance.sum(1) @ grid)
    assert_average([s["root"][0] ** 2 for s in seen], chance.sum(1) @ grid**2)
    flat = TOPICS.transpose(0, 2, 1).reshape(len(LABELINGS), -1)
    assert_average([s["emission"].ravel() ** 2 for s in seen], chance.sum(0) @ flat**2)
    # given the root that the labels were drawn with
    assert_average([s["log joint"] for s in seen], (chance * np.array(each)).sum())
