"""Paths drawn within slices: posteriors of fixed tables by enumeration, underflow, repeatability.

Whole models with slices are in test_gibbs.py.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from enumeration import assert_average
from fitting import assert_same_fit
from scipy.special import logsumexp

import stickbreak as sb
from stickbreak.data import Sequences, measure
from stickbreak.families import Gaussian
from stickbreak.inference import read_checkpoint, run, workers
from stickbreak.initialize import from_blocks
from stickbreak.kernels.chain import slices
from stickbreak.models import hdp_hmm

Array = np.ndarray
K, OFFSETS = 3, np.array([0, 3, 5])
ALL = np.ones(2, dtype=np.bool_)


def tables() -> tuple[Array, Array, Array]:
    """Log start (K,), log transition (K, K), evidence (K, 5); a step and a state are impossible."""
    rng = np.random.default_rng(1)
    rows = rng.dirichlet(np.full(K, 2.0), K)
    rows[0, 1] = 0.0
    evidence = 0.7 * rng.normal(size=(K, 5))
    evidence[1, 2] = -np.inf
    with np.errstate(divide="ignore"):
        return np.log(rng.dirichlet(np.full(K, 2.0))), np.log(rows), evidence


@pytest.mark.slow
@pytest.mark.parametrize("shift", [0.0, 1000.0])
def test_long_runs_have_the_posterior_of_all_paths(shift: float) -> None:
    """With evidence as it is, and with one that shrinks by e**-1000 for two states in turn."""
    start, rows, evidence = tables()
    evidence[2, 3] -= shift
    evidence[:2, 4] -= shift
    paths = np.array(list(product(range(K), repeat=5)))
    weights = evidence[paths, np.arange(5)].sum(1) + start[paths[:, [0, 3]]].sum(1)
    weights += rows[paths[:, [0, 1, 3]], paths[:, [1, 2, 4]]].sum(1)
    chance, rng, seen = np.exp(weights - logsumexp(weights)), np.random.default_rng(0), []
    path = paths[chance.argmax()]
    for _ in range(3000):
        path = slices.draw_sliced(evidence.T, start, rows, OFFSETS, path, ALL, rng.random(5))
        seen.append(path)
    held = np.eye(K)[paths].reshape(len(paths), -1)
    assert_average(np.eye(K)[np.array(seen)].reshape(len(seen), -1), chance @ held)
    step = lambda z: z[:, 0] * K + z[:, 1]
    assert_average(np.eye(K * K)[step(np.array(seen))], chance @ np.eye(K * K)[step(paths)])


@pytest.mark.parametrize("gap", [100.0, 2000.0])
def test_weights_that_underflow_are_not_lost(gap: float) -> None:
    """Steps are so unlikely that the slices of a path that stays never open them. Its state is
    ruled out by the first row, if less than the other one is by the last.
    """
    rows = np.log(np.array([[1.0, 1e-12], [1e-12, 1.0]]))
    evidence = np.array([[0.0, 0.0, -gap], [0.4 - gap, 0.0, 0.0]])
    present, rng, seen = np.array([1, 1, 1]), np.random.default_rng(0), []
    for _ in range(400):
        found = slices.draw_sliced(
            evidence.T, np.log([0.5, 0.5]), rows, np.array([0, 3]), present, ALL[:1], rng.random(3)
        )
        assert (found == found[0]).all()
        seen.append(found[0])
    # 400 independent draws: within four standard errors
    chance = np.exp(0.4) / (1 + np.exp(0.4))
    assert np.mean(seen) == pytest.approx(chance, abs=4 * np.sqrt(chance * (1 - chance) / 400))


def toy() -> Sequences:
    rng = np.random.default_rng(0)
    states = (np.cumsum(rng.random((4, 60)) < 0.05, axis=1) % 3).ravel()
    rows = 6.0 * np.eye(3)[states] + rng.normal(size=(240, 3))
    return Sequences(rows, offsets=np.arange(0, 241, 60))


def test_killed_fits_and_threads_draw_the_same(tmp_path: Any) -> None:
    data = toy()
    model = hdp_hmm(Gaussian().resolve(measure(data)))
    start = from_blocks(model, data, 6, np.random.default_rng(0))
    engine = sb.Gibbs(max_iter=20, slices=True)
    whole = run(model, engine, data, start, seed=1)
    with workers(2) as pool:
        assert_same_fit(run(model, engine, data, start, seed=1, pool=pool), whole)
    half = sb.Gibbs(max_iter=7, slices=True, checkpoint=tmp_path / "c", checkpoint_every=0.0)
    run(model, half, data, start, seed=1)
    assert_same_fit(run(model, engine, data, read_checkpoint(tmp_path / "c")[1], seed=1), whole)
    assert whole.trace.n_used[-1] <= 5
    assert type(whole.model.structure).__name__ == "Chain"  # readers see whole chains


def test_sequences_without_weight_do_not_count() -> None:
    data = toy()
    X, weights = [data.rows[a : a + 60] for a in range(0, 240, 60)], np.array([1.0, 0.0, 1.0, 1.0])
    model = sb.HMM(3, inference=sb.Gibbs(max_iter=6, slices=True), random_state=0)
    assert model.fit(X, sample_weight=weights).counts_.sum() == 180


def test_only_chains_have_slices() -> None:
    rows = toy().rows
    with pytest.raises(ValueError, match="slices=True is not for Independent; use slices=False"):
        sb.Mixture(2, inference=sb.Gibbs(slices=True)).fit(rows)
    with pytest.raises(ValueError, match="slices=True is not for Document"):
        sb.LatentDirichletAllocation(2, inference=sb.Gibbs(slices=True)).fit(np.ones((4, 3)))
    with pytest.raises(ValueError, match="slices must be True or False; got 1"):
        sb.HMM(2, inference=sb.Gibbs(slices=1)).fit([rows])
