"""Starts of chains from drawn states: what they find, and what they do with unusual data."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import stickbreak as sb
from stickbreak.checks import check_estimator
from stickbreak.data import Sequences
from stickbreak.initialize import drawn


def draw_symbols(seed=0, n_sequences=12, length=100):
    """Four states in a circle, three symbols each of their own; a state changes at every row."""
    rng = np.random.default_rng(seed)
    rows, paths = [], []
    for _ in range(n_sequences):
        moves = rng.choice(4, size=length, p=[0.05, 0.8, 0.1, 0.05])
        path = np.cumsum(moves) % 4
        noise = rng.random(length) < 0.05
        words = np.where(
            noise, rng.integers(12, size=length), 3 * path + rng.integers(3, size=length)
        )
        rows.append(words[:, None])
        paths.append(path)
    return rows, paths


SYMBOLS, PATHS = draw_symbols()
PLANE = [np.random.default_rng(s).normal(size=(30, 2)) for s in range(4)]


def fit(model, rows, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sb.StickbreakWarning)
        return model.fit(rows, **more)


@pytest.mark.slow
def test_states_of_symbols_are_found_where_blocks_find_one():
    found = fit(sb.HDPHMM(8, family="categorical", random_state=0), SYMBOLS)
    before = fit(sb.HDPHMM(8, family="categorical", init="blocks", random_state=0), SYMBOLS)
    assert found.n_effective_ == 4
    # steps say most of the state, which tells four symbols from twelve: about a nat a row of 1,200
    assert found.lower_bound_ > before.lower_bound_ + 300


@pytest.mark.slow
def test_em_leaves_the_saddle_of_one_state():
    def make(init):
        return sb.HMM(2, family=sb.Categorical(1e-3), inference="em", concentration=1e-3, init=init)

    rng = np.random.default_rng(4)
    words = np.cumsum([(0.4, 0.3, 0.2, 0.1), (0.1, 0.2, 0.3, 0.4)], axis=1)
    rows = []
    for _ in range(20):
        path = np.cumsum(rng.random(100) < 0.2) % 2
        rows.append(np.array([[np.searchsorted(words[k], rng.random())] for k in path]))
    single = fit(make("collapsed").set_params(n_components=1), rows).lower_bound_
    for seed in range(3):
        found = fit(make("auto").set_params(random_state=seed), rows).lower_bound_
        # two states gain 10 nats or more on such data; at the saddle hardly one
        assert found > single + 5


@pytest.mark.slow
def test_fast_states_are_all_used():
    means = 3.0 * np.array([(0, 0), (1, 0), (0, 1), (1, 1)])
    n_used = {"auto": [], "blocks": []}
    for seed in range(4):
        rng = np.random.default_rng(seed)
        steps = np.cumsum(rng.dirichlet(np.ones(4), size=4), axis=1)
        rows = []
        for _ in range(10):
            path = [0]
            for u in rng.random(199):
                path.append(min(3, int(np.searchsorted(steps[path[-1]], u))))
            rows.append(means[path] + rng.normal(size=(200, 2)))
        for init, found in n_used.items():
            found.append(fit(sb.HMM(4, init=init, random_state=seed), rows).n_effective_)
    assert n_used["auto"] == [4, 4, 4, 4]
    assert min(n_used["blocks"]) < 4


def test_blocks_that_are_better_are_kept_as_they_were():
    rng = np.random.default_rng(0)
    path = np.repeat([-6.0, 0.0, 6.0], 30)[:, None]
    rows = [path + rng.normal(size=(90, 1)) for _ in range(4)]
    bounds = [fit(sb.HMM(3, init=i, random_state=0), rows).lower_bound_ for i in ("auto", "blocks")]
    assert bounds[0] == bounds[1]


@pytest.mark.slow
def test_starts_differ_and_threads_do_not():
    bounds = set()
    for n_jobs in (1, 2):
        model = sb.HMM(4, family="categorical", init="collapsed", n_jobs=n_jobs, random_state=3)
        bounds.add(fit(model, SYMBOLS).lower_bound_)
    assert len(bounds) == 1
    table = Sequences(np.concatenate(SYMBOLS), offsets=np.arange(13) * 100)
    model = fit(sb.HMM(4, family="categorical", max_iter=1), SYMBOLS)._fitted.model
    seeds = [drawn.from_drawn(model, table, 4, np.random.default_rng([5, i])).seed for i in (0, 1)]
    assert not np.array_equal(seeds[0]["transition"], seeds[1]["transition"])


@pytest.mark.slow
@pytest.mark.parametrize("model", [sb.HMM, sb.HDPHMM])
@pytest.mark.parametrize(
    "rows",
    [
        [np.zeros((1, 1), int)],
        [np.zeros((1, 1), int), np.zeros((1, 1), int)],
        [np.concatenate(SYMBOLS)],
        [np.where(np.arange(100)[:, None] % 7 == 0, np.nan, part) for part in SYMBOLS[:3]],
    ],
    ids=["one row", "two rows", "one sequence", "gaps"],
)
def test_unusual_symbols_are_fitted(model, rows):
    found = fit(model(3, family="categorical", init="collapsed", random_state=0), rows)
    assert np.isfinite(found.lower_bound_)


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("more", "rows"),
    [
        ({"transition_prior": np.triu(np.ones((3, 3)))}, SYMBOLS),
        ({"concentration": 1e-6, "start_concentration": 1e-6}, SYMBOLS),
        ({"allowed": {0: [0], 3: [1, 2]}}, SYMBOLS),
        ({"family": "gaussian", "transition_prior": np.triu(np.ones((3, 3)))}, PLANE),
        ({"family": "gaussian"}, [np.zeros((1, 2))]),
        ({"family": "gaussian"}, [np.where(part > 1, np.nan, part) for part in PLANE]),
        ({"family": "diagonal"}, [np.where(part > 1, np.nan, part) for part in PLANE]),
        ({"family": "autoregressive"}, PLANE),
    ],
    ids=["zeros", "tiny", "allowed", "zeros, plane", "one row", "missing", "left out", "lags"],
)
def test_unusual_chains_are_fitted(more, rows):
    model = sb.HMM(3, **{"family": "categorical", **more}, init="collapsed", random_state=0)
    found = fit(model, rows)
    assert np.isfinite(found.lower_bound_)
    if "transition_prior" in more:
        assert np.array_equal(np.tril(found.transmat_, -1), np.zeros((3, 3)))
    if "allowed" in more:
        states, words = np.concatenate(found.labels_), np.concatenate(rows)[:, 0]
        assert (states[words == 0] == 0).all()
        assert np.isin(states[words == 3], (1, 2)).all()


def test_weights_count_in_the_fit_and_not_in_the_sweeps():
    weights = np.r_[2.5, np.ones(10), 0.0]
    model = sb.HMM(4, family="categorical", init="collapsed", random_state=0)
    found = fit(model, SYMBOLS, sample_weight=weights)
    assert found.counts_.sum() == pytest.approx(100 * weights.sum())


def test_learned_concentrations_begin_without_sweeps():
    prior = sb.GammaPrior(2.0, 2.0)
    engine = sb.BatchVB(moves=None, max_iter=5)
    model = sb.HDPHMM(
        4, family="categorical", concentration=prior, inference=engine, random_state=0
    )
    assert np.isfinite(fit(model, SYMBOLS).lower_bound_)


def test_many_rows_are_sampled(monkeypatch):
    monkeypatch.setattr(drawn, "MOST_ROWS", 400)
    found = fit(sb.HMM(4, family="categorical", random_state=0), SYMBOLS)
    assert found.counts_.sum() == pytest.approx(1200)


def test_the_sweeps_of_a_start_are_reported(caplog, monkeypatch):
    monkeypatch.setattr("stickbreak.progress.PAUSE", 0.0)
    with caplog.at_level("INFO", logger="stickbreak.progress"):
        fit(sb.HMM(2, random_state=0, max_iter=1), PLANE)
    assert any(line.startswith("drawing states: 100 %") for line in caplog.messages)


@pytest.mark.slow
@pytest.mark.parametrize("model", [sb.HMM(2, init="collapsed"), sb.HDPHMM(2, init="collapsed")])
def test_collapsed_starts_keep_scikit_learns_rules(model):
    found = check_estimator(model.set_params(random_state=0), np.concatenate(PLANE))
    assert {r["check_name"] for r in found if r["status"] == "failed"} == set()
    assert sum(r["status"] == "passed" for r in found) >= 40
