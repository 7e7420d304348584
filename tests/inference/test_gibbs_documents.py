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
from stickbreak.inference import read_checkpoint, run, workers
from stickbreak.initialize import from_local
from stickbreak.kernels.collapsed_draws import sweep_labels
from stickbreak.models import hdp_topics, lda
from stickbreak.priors import DirichletTopics, GammaPrior, HDPTopics

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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("power", [1.0, 0.5])
def test_long_runs_of_sweeps_have_the_posterior_of_all_labelings(power: float) -> None:
    """At a temperature, the posterior to the power of one over it, normalized. Words that occur
    three times tell whether occurrences are visited in an order that does not depend on labels.
    """
    joint, chance = chances(np.full(K, CONCENTRATION))
    chance = np.exp(power * joint - logsumexp(power * joint))
    rng, data, width, seen = np.random.default_rng(0), tiny(), 8, []
    pseudo, own = np.r_[np.full(K, CONCENTRATION), np.zeros(width - K)], np.zeros((4, K), "f4")
    table, totals, held = np.zeros((V, width)), np.zeros(width), np.zeros((2, width))
    given = data.rows[:, 0], data.repeats, data.offsets, np.ones(2), pseudo, 0.0
    for i in range(6000):
        seeds, out = rng.integers(0, 1 << 64, 4, dtype=np.uint64), np.zeros((V, width))
        sweep_labels(
            table, totals, BASE, V * BASE, *given, np.zeros(0, dtype=np.int64), np.ones((1, width)),
            own, i > 0, seeds, power, out, held,
        )  # fmt: skip
        if i == 0:  # counts that the first labels are not part of stay as they are
            assert not table.any()
            table, totals = out.copy(), out.sum(0)
        np.testing.assert_array_equal(table, out)
        seen.append(out[:, :K].ravel())
    flat = TOPICS.transpose(0, 2, 1).reshape(len(joint), -1)
    assert_average(np.array(seen[100:]) ** 2, chance @ flat**2)
    assert_average(np.array(seen[100:])[:, :1] * seen[100:], chance @ (flat[:, :1] * flat))


# ---- fits ----------------------------------------------------------------------------------------
TEXTS = [["cat", "dog", "cat", "fur"], ["salt", "soup", "salt", "pan"]] * 20


@pytest.mark.few(3)
@ENGINES
@pytest.mark.parametrize("init", ["documents", "local"])
@pytest.mark.parametrize("kind", [sb.LatentDirichletAllocation, sb.HDPTopicModel])
def test_topics_are_found_and_saved(engine: type, init: str, kind: type, tmp_path: Any) -> None:
    settings = {"inference": engine(max_iter=60), "init": init, "random_state": 0}
    model = kind(2, **settings).fit(TEXTS)
    assert sorted(sorted(words) for words in model.top_words(2)) == [
        ["cat", "dog"],
        ["pan", "salt"],
    ]
    assert model.converged_
    assert model.lower_bound_ == model.trace_.bound[-1]
    assert model.trace_.n_used[-1] == 2
    np.testing.assert_array_equal(model.counts_ % 1, 0.0)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(
        sb.load(tmp_path / "model").transform(TEXTS), model.transform(TEXTS)
    )


@ENGINES
@pytest.mark.parametrize("kind", ["lda", "hdp"])
def test_killed_fits_and_threads_draw_the_same(
    engine: type, kind: str, tmp_path: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr("stickbreak.inference.collapsed.SWEEP_ROWS", 30)
    monkeypatch.setattr("stickbreak.data.batches.ORDERED_ROWS", 30)
    monkeypatch.setattr("stickbreak.data.batches.LANE_UNITS", 2)
    rng = np.random.default_rng(0)
    words, ends = rng.integers(0, V, 120)[:, None], np.arange(0, 121, 4)
    data = Documents(words, rng.integers(1, 4, 120).astype(float), offsets=ends)
    model = tiny_model(kind)
    start = from_local(model, data, K, rng)
    whole = run(model, engine(max_iter=6), data, start, seed=3)
    with workers(2) as pool:
        threaded = run(model, engine(max_iter=6), data, start, seed=3, pool=pool)
    saving = engine(max_iter=3, checkpoint=tmp_path / "c", checkpoint_every=0.0)
    run(model, saving, data, start, seed=3)
    resumed = run(model, engine(max_iter=6), data, read_checkpoint(tmp_path / "c")[1], seed=3)
    for other in (threaded, resumed):
        assert [lap.bound for lap in other.trace] == [lap.bound for lap in whole.trace]
        np.testing.assert_array_equal(other.counts["emission"], whole.counts["emission"])
    assert run(model, engine(max_iter=6), data, start, seed=4).bound != whole.bound


@ENGINES
def test_documents_that_cannot_be_sampled_are_refused(engine: type) -> None:
    model = sb.LatentDirichletAllocation(2, inference=engine(max_iter=2), random_state=0)
    with pytest.raises(ValueError, match=r"counts must be whole numbers; got 0\.5"):
        model.fit(np.full((4, 3), 0.5))
    with pytest.raises(ValueError, match=r"weights of documents must be 0 or 1; got 2\.5"):
        model.fit(TEXTS, sample_weight=np.full(40, 2.5))
    with pytest.raises(ValueError, match="visits units again and again"):
        model.partial_fit(TEXTS)
    for prior, name in (
        (DirichletTopics(GammaPrior()), ""),
        (HDPTopics(0.5, GammaPrior()), "top_"),
    ):
        with pytest.raises(ValueError, match=f"samplers draw no {name}concentration"):
            prior.for_draws()
    found = model.fit(TEXTS, sample_weight=np.arange(40) % 2)
    assert found.counts_.sum() == 80


@pytest.mark.slow
def test_a_fit_goes_on_from_another_engine() -> None:
    """Counts of samplers have other fields than those of variational Bayes."""
    settings = {"warm_start": True, "random_state": 0, "max_iter": 100}
    model = sb.HDPTopicModel(2, inference=sb.BatchVB(moves=None), **settings).fit(TEXTS)
    first = model.lower_bound_
    model.set_params(inference=sb.Gibbs(), tol=None).fit(TEXTS)
    assert "log_labels" in model._fitted.counts
    model.set_params(inference=sb.BatchVB(moves=None)).fit(TEXTS)
    assert "log_labels" not in model._fitted.counts
    assert model.lower_bound_ == pytest.approx(first, rel=0.02)  # the same two topics


def test_words_whose_weights_underflow_are_drawn_in_logs() -> None:
    """Two topics, each with words that are all but impossible in the other."""
    family = replace(Categorical(1e-3), n_symbols=(4,))
    rows = np.array([[0], [1], [2], [3]] * 5)
    data = Documents(rows, np.full(20, 3.0), offsets=np.arange(0, 21, 2))
    model = lda(family, concentration=1e-4)
    start = from_local(model, data, 2, np.random.default_rng(0))
    found = run(model, sb.Gibbs(max_iter=40), data, start)
    assert np.isfinite([lap.bound for lap in found.trace]).all()
    assert found.counts["emission"].sum() == 60
