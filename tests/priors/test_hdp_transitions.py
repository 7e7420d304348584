"""Rows under an HDP root: the bound is the explicit one, updates never lower it, and edits keep a
valid state.
"""

from __future__ import annotations

import pickle
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from doubles.cases import vectors
from doubles.chain import Chain
from doubles.data import Ragged
from fitting import assert_never_drops
from oracles import root as oracle
from scipy.stats import gamma as gamma_distribution

from stickbreak.data import Table, measure
from stickbreak.errors import StickbreakWarning
from stickbreak.families import Gaussian
from stickbreak.inference import (
    EM,
    BatchVB,
    LogMean,
    MeanLog,
    MemoizedVB,
    Mode,
    Start,
    StochasticVB,
    run,
)
from stickbreak.models import Model
from stickbreak.priors import BasePrior, DirichletRows, GammaPrior, HDPRows, linear_term
from stickbreak.stats import Fields, Insert, Merge, Permute, Remove, Summary

AXIS = "state"


def quiet(**settings: Any) -> HDPRows:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StickbreakWarning)
        return HDPRows(**settings)


PRIORS: dict[str, HDPRows] = {
    "plain": HDPRows(0.6, 4.0, 5.0),
    "sticky": HDPRows(0.6, 4.0, 5.0, 30.0),
    "best": HDPRows(0.6, 4.0, 5.0, 30.0, precision="best"),
    "point": quiet(concentration=0.6, start_concentration=4.0, top_concentration=5.0, root="point"),
    "sticky point": quiet(
        concentration=0.6,
        start_concentration=4.0,
        top_concentration=5.0,
        stickiness=30.0,
        root="point",
    ),
    "learned": HDPRows(
        GammaPrior(2.0, 4.0), GammaPrior(2.0, 0.5), GammaPrior(4.0, 0.5), GammaPrior(2.0, 0.1)
    ),
    "learned top": HDPRows(0.6, 4.0, GammaPrior(4.0, 0.5)),
}
every_prior = pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS.keys())


def random_counts(K: int, seed: int = 0, empty: int = 0, size: float = 200.0) -> Summary:
    """Counts of a chain with K states in use, the last `empty` of them not."""
    rng, used = np.random.default_rng(seed), K - empty
    start, transition = np.zeros(K), np.zeros((K, K))
    start[:used] = rng.gamma(0.5, 4.0, used)
    transition[:used, :used] = rng.gamma(0.3, size / used, (used, used)) + np.diag(
        rng.gamma(1.0, size, used)
    )
    return Summary(HDPRows().fields(AXIS), {"start": start, "transition": transition})


def settled(
    prior: HDPRows, counts: Summary, params: Fields | None = None, times: int = 6
) -> Fields:
    params = prior.start(counts.size(AXIS), AXIS) if params is None else params
    for _ in range(times):
        params = prior.update(counts, params)
    return params


# ---- the contract --------------------------------------------------------------------------------
@every_prior
def test_travels_to_other_processes(prior: HDPRows) -> None:
    for each in (prior, prior if prior.learned else prior.for_modes()):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            copy = pickle.loads(pickle.dumps(each))
        counts = random_counts(3)
        np.testing.assert_array_equal(settled(copy, counts)["root"], settled(each, counts)["root"])


@every_prior
def test_keeps_the_contract(prior: HDPRows) -> None:
    assert isinstance(prior, BasePrior)
    counts = random_counts(4)
    params = settled(prior, counts, times=1)
    for rule in (MeanLog(), LogMean(), Mode()):
        tables = prior.potentials(counts, params, rule)
        assert tables["start"].shape == (4,)
        assert tables["transition"].shape == (4, 4)
        assert (np.exp(tables["transition"]).sum(1) < 1.0).all()  # some mass is unused
    for table in prior.predictive(counts, params).values():
        np.testing.assert_allclose(np.exp(table).sum(-1), 1.0, rtol=1e-12)
    assert 0.5 < prior.mean(counts, params).sum() < 1.0
    assert prior.order(counts) is None


def test_pseudo_counts_are_those_of_the_model() -> None:
    prior, counts = PRIORS["sticky"], random_counts(4)
    params = settled(prior, counts)
    b, found = prior.shares(params), prior.pseudo(params, 4)
    assert b.sum() == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(b[:-1], params["root"], rtol=1e-9)
    np.testing.assert_allclose(found.start, 4.0 * b[:-1])
    np.testing.assert_allclose(found.transition, 0.6 * b[:-1] + 30.0 * np.eye(4))
    assert found.start_rest == pytest.approx(4.0 * b[-1])
    np.testing.assert_allclose(found.transition_rest, 0.6 * b[-1])


@pytest.mark.parametrize("name", ["plain", "sticky"])
def test_bound_is_the_explicit_one(name: str) -> None:
    """Term by term, with states by decreasing share; other posteriors of the rows give less."""
    prior, rng = PRIORS[name], np.random.default_rng(3)
    settings = {"alpha0": 4.0, "alpha": 0.6, "kappa": prior.stickiness, "gamma": 5.0}
    for K in (1, 2, 5):
        counts = random_counts(K, K)
        for params in (
            prior.start(K, AXIS),
            settled(prior, counts, times=1),
            settled(prior, counts),
        ):
            b = prior.shares(params)
            order = np.argsort(-b[:-1], kind="stable")
            sorted_counts = counts["start"][order], counts["transition"][np.ix_(order, order)]
            placed = np.append(b[:-1][order], b[-1])
            explicit = oracle.chain_bound(sorted_counts, placed, settings)
            assert prior.bound(counts, params) == pytest.approx(explicit, abs=1e-9 * abs(explicit))
            theta = rng.gamma(5.0, 2.0, size=(K + 1, K + 1))
            assert oracle.chain_bound(sorted_counts, placed, settings, theta) < explicit


@every_prior
def test_mean_log_is_the_derivative_of_the_bound(prior: HDPRows) -> None:
    counts = random_counts(3)
    params, h = settled(prior, counts, times=1), 1e-4
    for name, at in [("start", (1,)), ("transition", (0, 2)), ("transition", (1, 1))]:
        values = []
        for by in (h, -h):
            arrays = {n: a.copy() for n, a in counts.arrays.items()}
            arrays[name][at] += by
            values.append(prior.bound(Summary(counts.layout, arrays), params))
        assert prior.potentials(counts, params, MeanLog())[name][at] == pytest.approx(
            (values[0] - values[1]) / (2 * h), rel=1e-5
        )


# ---- updates -------------------------------------------------------------------------------------
@pytest.mark.few(4)
@every_prior
def test_update_never_lowers_the_bound(prior: HDPRows) -> None:
    for K, empty, seed in ((1, 0, 0), (2, 1, 1), (6, 2, 2), (15, 4, 3)):
        for size in (1.0, 1e4):
            counts = random_counts(K, seed, empty, size)
            params = prior.start(K, AXIS)
            values = [prior.bound(counts, params)]
            for _ in range(3):
                params = prior.update(counts, params)
                values.append(prior.bound(counts, params))
            assert_never_drops(values)
            assert values[1] > values[0]


@pytest.mark.parametrize("name", ["plain", "sticky"])
def test_update_reaches_where_rows_and_root_in_turn_end(name: str) -> None:
    """Alternating, as published, needs many turns; one climb of the same function ends at least as
    high.
    """
    prior, counts = PRIORS[name], random_counts(5, 8, 1)
    params = settled(prior, counts)
    groups, root, mean = prior.concentrations(params), prior._root(), prior.start(5, AXIS)["root"]
    in_turn = []
    for turn in range(300):
        b = root.shares(mean)
        mean_log = oracle.expected_log_rows(
            (counts["start"], counts["transition"]), b, 4.0, 0.6, prior.stickiness
        )
        slope = np.r_[4.0, np.full(5, 0.6)] @ mean_log
        mean = root.solve(mean, groups, lambda b, slope=slope: linear_term(slope, b))
        if turn in (0, 2, 299):
            in_turn.append(prior.bound(counts, Fields(params.layout, {"root": mean})))
    best = prior.bound(counts, params)
    assert in_turn[0] < in_turn[1] < in_turn[2]
    assert best >= in_turn[2] - 1e-5
    assert best - in_turn[2] < 0.05  # they agree in the end
    assert best - in_turn[1] > best - prior.bound(counts, settled(prior, counts, times=2))


@pytest.mark.parametrize("name", ["plain", "sticky", "point"])
def test_update_of_a_prior_for_modes_never_lowers_log_mode(name: str) -> None:
    prior = PRIORS[name].for_modes()
    counts, params = random_counts(6, 4, 1), prior.start(6, AXIS)
    values = [prior.log_mode(counts, params)]
    for _ in range(3):
        params = prior.update(counts, params)
        values.append(prior.log_mode(counts, params))
    assert_never_drops(values)
    h, arrays = 1e-4, {n: a.copy() for n, a in counts.arrays.items()}
    arrays["transition"][0, 1] += h
    slope = (prior.log_mode(Summary(counts.layout, arrays), params) - values[-1]) / h
    assert prior.potentials(counts, params, Mode())["transition"][0, 1] == pytest.approx(
        slope, abs=1e-4
    )


@pytest.mark.parametrize("name", ["plain", "sticky", "learned top"])
def test_empty_states_lower_the_bound(name: str) -> None:
    prior = PRIORS[name]
    values = []
    for empty in (0, 1, 2, 3):
        counts = random_counts(4, 5)
        grown = counts.insert(AXIS, empty) if empty else counts
        values.append(prior.bound(grown, settled(prior, grown)))
    assert (np.diff(values) < -0.5).all()


def test_empty_states_raise_the_bound_of_a_point() -> None:
    prior, counts = PRIORS["point"], random_counts(3, 5)
    grown = counts.insert(AXIS, 1)
    assert (
        prior.bound(grown, settled(prior, grown))
        > prior.bound(counts, settled(prior, counts)) + np.log(5.0) - 1e-3
    )


@pytest.mark.slow
def test_learned_concentrations_rise_to_a_maximum() -> None:
    prior, counts = PRIORS["learned"], random_counts(6, 9)
    params = settled(prior, counts, times=25)
    assert prior.learned == ("concentration", "start_concentration", "stickiness")
    best = prior.bound(counts, params)
    for name in prior.learned:
        assert params[name].shape == ()
        assert float(params[name]) != pytest.approx(
            getattr(prior, name).shape / getattr(prior, name).rate, rel=1e-3
        )
        for factor in (0.8, 1.25):
            other = Fields(params.layout, {**params.arrays, name: params[name] * factor})
            assert prior.bound(counts, other) < best
    narrow = HDPRows(GammaPrior(6e5, 1e6), 4.0, 5.0, GammaPrior(3e5, 1e4))
    known = PRIORS["sticky"]
    found = settled(narrow, counts)
    assert float(found["concentration"]) == pytest.approx(0.6, rel=1e-2)
    np.testing.assert_allclose(found["root"], settled(known, counts)["root"], rtol=1e-2)


def test_slopes_of_the_bound_vanish_at_learned_concentrations() -> None:
    """By differences in logs; steps of Brent's method are 1e-3, where the bound bends by about 10
    nats.
    """
    prior, counts, h = PRIORS["learned"], random_counts(6, 9), 1e-3
    params = settled(prior, counts, times=25)
    for name in prior.learned:
        at = [
            prior.bound(
                counts, Fields(params.layout, {**params.arrays, name: params[name] * np.exp(by)})
            )
            for by in (-h, 0, h)
        ]
        assert abs(at[2] - at[0]) / (2 * h) < 0.05
        assert at[0] + at[2] - 2 * at[1] < 0


@pytest.mark.parametrize("settings", [{"precision": "best"}, {"root": "point"}], ids=str)
def test_the_posterior_of_a_learned_top_concentration(settings: dict[str, Any]) -> None:
    """d bound / d rate of its prior is E[c] under the prior less that under q: the rest of q is at
    its best, or a point.
    """
    counts, h = random_counts(6, 9), 1e-5
    prior = lambda rate: quiet(
        concentration=0.6,
        start_concentration=4.0,
        top_concentration=GammaPrior(4.0, rate),
        **settings,
    )
    params = settled(prior(0.5), counts)
    slope = (prior(0.5 + h).bound(counts, params) - prior(0.5 - h).bound(counts, params)) / (2 * h)
    found = prior(0.5).top(None, params)
    assert isinstance(found, GammaPrior)
    assert found.shape == 10.0
    assert found.mean == pytest.approx(8.0 - slope, rel=1e-6)
    low, high = found.quantile([0.025, 0.975])
    assert gamma_distribution(found.shape, scale=1 / found.rate).cdf([low, high]) == pytest.approx(
        [0.025, 0.975]
    )


def test_a_given_top_concentration_is_as_given() -> None:
    prior = PRIORS["sticky"]
    assert prior.top(None, settled(prior, random_counts(4))) == 5.0
    assert prior.for_draws().top(None, prior.for_draws().start(4, AXIS)) == 5.0


def test_learned_concentrations_follow_the_counts() -> None:
    """Rows that all look alike ask for a large concentration, rows that differ for a small one.

    The surrogate is tight for small ones only, so it makes too little of large ones: 3 for a truth
    of 50.
    """
    rng, prior, K = np.random.default_rng(10), HDPRows(GammaPrior(1.0, 0.1), 4.0, 5.0), 8
    found = []
    for spread in (0.5, 50.0):
        rows = rng.dirichlet(np.full(K, spread / K), K)
        counts = Summary(prior.fields(AXIS), {"start": np.ones(K), "transition": 500.0 * rows})
        found.append(float(settled(prior, counts, times=15)["concentration"]))
    assert 0.25 < found[0] < 1.0
    assert 2.0 < found[1] < 50.0


# ---- edits ---------------------------------------------------------------------------------------
EDITS = {
    "merge": Merge(AXIS, 0, 2),
    "remove": Remove(AXIS, 1),
    "insert": Insert(AXIS, 3),
    "permute": Permute(AXIS, (2, 0, 3, 1)),
}


@pytest.mark.covering
@every_prior
@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS.keys())
def test_edits_keep_a_valid_state(prior: HDPRows, edit: Any) -> None:
    counts = random_counts(4, 6)
    params = settled(prior, counts)
    edited, changed = edit(counts), edit(params)
    b, K = prior.shares(changed), edited.size(AXIS)
    assert b.shape == (K + 1,)
    assert (b > 0).all()
    assert b.sum() == pytest.approx(1.0, abs=1e-12)
    values = [prior.bound(edited, changed)]
    for _ in range(2):
        changed = prior.update(edited, changed)
        values.append(prior.bound(edited, changed))
    assert_never_drops(values)
    for table in prior.potentials(edited, changed, MeanLog()).values():
        assert np.isfinite(table).all()


def test_a_merge_adds_rows_columns_and_shares() -> None:
    prior, counts = PRIORS["sticky"], random_counts(4, 6)
    params = settled(prior, counts)
    merged, kept = EDITS["merge"](counts), EDITS["merge"](params)
    T = counts["transition"]
    assert merged["transition"][0, 0] == pytest.approx(T[0, 0] + T[0, 2] + T[2, 0] + T[2, 2])
    assert merged["transition"].sum() == pytest.approx(T.sum())
    assert kept["root"][0] == pytest.approx(params["root"][0] + params["root"][2])
    assert prior.shares(kept)[-1] == pytest.approx(prior.shares(params)[-1])


@every_prior
def test_the_order_of_states_does_not_change_the_bound(prior: HDPRows) -> None:
    counts = random_counts(4, 7)
    params = settled(prior, counts)
    edit = EDITS["permute"]
    assert prior.bound(edit(counts), edit(params)) == pytest.approx(
        prior.bound(counts, params), abs=1e-9
    )


# ---- settings ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"concentration": 0.0}, "concentration must be a positive number; got 0.0"),
        ({"top_concentration": -1.0}, "top_concentration must be a positive number; got -1.0"),
        (
            {"stickiness": 1e-4},
            "stickiness=0.0001 is too small for its bound.*use 0 for none, or at least 0.001",
        ),
        ({"stickiness": -1.0}, "stickiness must be zero or a positive number; got -1.0"),
        ({"root": "tables"}, "root must be 'beta' or 'point'; got 'tables'"),
        ({"precision": "high"}, "precision must be 'rule' or 'best'; got 'high'"),
        ({"root": "point", "precision": "best"}, "a point estimate has none"),
        ({"concentration": GammaPrior(0.0)}, "shape must be a positive number"),
    ],
)
def test_bad_settings_name_the_value(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        HDPRows(**settings)


def test_a_point_warns_that_it_cannot_choose() -> None:
    with pytest.warns(StickbreakWarning, match="cannot choose their number; use root='beta'"):
        HDPRows(root="point")


def test_em_needs_a_prior_for_modes() -> None:
    counts = random_counts(3)
    with pytest.raises(ValueError, match="for_modes"):
        PRIORS["plain"].log_mode(counts, PRIORS["plain"].start(3, AXIS))
    with pytest.raises(
        ValueError, match="EM cannot learn concentration, start_concentration, stickiness"
    ):
        PRIORS["learned"].for_modes()


# ---- fits ----------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Renamed:
    """Potentials of a chain for the double, which says "initial" for "start"."""

    potentials: Any

    def __getattr__(self, name: str) -> Any:
        return getattr(self.potentials, name)

    def __getitem__(self, name: str) -> Any:
        return self.potentials["start" if name == "initial" else name]


@dataclass(frozen=True)
class StartChain(Chain):
    """The chain double over fields "start" and "transition"."""

    def infer(self, potentials: Any, block: Any, warm: Any, out: Any) -> Any:
        return super().infer(Renamed(potentials), block, warm, {**out, "initial": out["start"]})

    def count(self, labels: Any, block: Any, out: Any) -> None:
        super().count(labels, block, {**out, "initial": out["start"]})


ROWS, OFFSETS = vectors([12, 20, 7, 25, 16, 9], 3)
DATA = Ragged(ROWS, OFFSETS)
FAMILY = Gaussian().resolve(measure(Table(ROWS)))


def chain_fit(prior: Any, engine: Any, n_components: int = 5) -> Any:
    model = Model(StartChain(), FAMILY, prior, AXIS)
    labels = np.random.default_rng(0).integers(0, n_components, len(ROWS))
    seed = model.zeros(n_components)
    out = {n: a.copy() for n, a in seed.arrays.items()}
    model.structure.count(labels, DATA.whole(), out)
    FAMILY.mean_log(seed).collect(
        FAMILY.prepare(ROWS), np.asfortranarray(np.eye(n_components)[labels]), out
    )
    return run(
        model,
        engine,
        DATA,
        Start(Summary(seed.layout, out), model.start_params(n_components)),
        seed=1,
    )


FITTED = {
    "finite": DirichletRows(),
    "zeros": DirichletRows(transition_prior=np.eye(5) + np.eye(5, k=1)),
    **PRIORS,
}


@pytest.mark.few(4)
@pytest.mark.parametrize("prior", FITTED.values(), ids=FITTED.keys())
@pytest.mark.parametrize("n_batches", [1, 3])
def test_bound_never_drops_in_a_fit(prior: Any, n_batches: int) -> None:
    found = chain_fit(
        prior, MemoizedVB(n_batches=n_batches, max_iter=8, tol=0.0, trace_visits=True)
    )
    assert_never_drops(found.trace.visits)
    assert_never_drops(found.trace.bound)


@pytest.mark.parametrize(
    "prior", [FITTED["finite"], PRIORS["sticky"].for_modes()], ids=["finite", "hdp"]
)
def test_em_never_drops(prior: Any) -> None:
    assert_never_drops(chain_fit(prior, EM(max_iter=8, tol=0.0)).trace.bound)


@pytest.mark.parametrize(
    "engine",
    [BatchVB(max_iter=30), StochasticVB(batch_size=2, max_iter=6)],
    ids=["batch", "stochastic"],
)
def test_bound_of_a_sticky_fit_is_finite_and_general_bounds_agree(engine: Any) -> None:
    prior = PRIORS["sticky"]
    found = chain_fit(prior, engine)
    assert np.isfinite(found.bound)
    model = found.model
    potentials = model.potentials(found.counts, found.params, MeanLog())
    new = model.local_step(potentials, DATA.whole())[0]
    general, after = (
        model.bound_at(found.counts, found.params, potentials, new),
        model.bound(new, found.params),
    )
    assert general <= after + 1e-9
