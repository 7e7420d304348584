"""Learned priors as users ask for them: bounds never drop, files and checkpoints keep them, and
what cannot be learned is said.
"""

from __future__ import annotations

import numpy as np
import pytest
from estimator_cases import CASES, NAMES, blobs
from fitting import assert_never_drops
from sklearn.base import clone

import stickbreak as sb
from stickbreak.data import Table, measure
from stickbreak.families.base import BaseFamily
from stickbreak.families.names import make_family

X = blobs(120, n_groups=3)
BOTH = {"concentration": sb.GammaPrior(), "learn_prior": True}
STILL = {"inference": sb.MemoizedVB(moves=None), "random_state": 0}
VB = {
    "batch": sb.BatchVB(max_iter=10, tol=0.0, trace_visits=True, moves=None),
    "memoized": sb.MemoizedVB(n_batches=3, max_iter=10, tol=0.0, trace_visits=True, moves=None),
}
quiet = pytest.mark.filterwarnings("ignore::stickbreak.ConvergenceWarning")


def assert_same(a: sb.Mixture, b: sb.Mixture, rows: np.ndarray) -> None:
    assert a.lower_bound_ == b.lower_bound_
    assert a.concentration_ == b.concentration_
    np.testing.assert_array_equal(a.score_samples(rows), b.score_samples(rows))
    np.testing.assert_array_equal(a.predict_proba(rows), b.predict_proba(rows))
    mine, theirs = a.family_.hyperparameters(), b.family_.hyperparameters()
    assert set(mine) == set(theirs)
    for name in mine:
        np.testing.assert_array_equal(mine[name], theirs[name])


# ---- fits ----------------------------------------------------------------------------------------
@pytest.mark.few(4)
@quiet
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("engine", VB)
@pytest.mark.parametrize("cls", [sb.Mixture, sb.DPMixture])
def test_bound_never_drops(cls, engine, name):
    rows = CASES[name].rows
    model = cls(6, family=name, inference=VB[engine], random_state=0, **BOTH).fit(rows)
    assert_never_drops(model.trace_.bound)
    assert_never_drops(model.trace_.visits)
    assert model.lower_bound_ == model.trace_.bound[-1]
    start = make_family(name).resolve(measure(Table(rows))).hyperparameters()
    moved = model.family_.hyperparameters()
    assert any((np.abs(moved[n] - start[n]) > 1e-3 * np.abs(start[n])).any() for n in start)


@pytest.mark.parametrize("name", NAMES)
def test_a_learned_prior_has_the_higher_bound(name):
    rows = CASES[name].rows
    given = sb.Mixture(3, family=name, random_state=0).fit(rows)
    learned = sb.Mixture(3, family=name, random_state=0, learn_prior=True).fit(rows)
    assert learned.lower_bound_ > given.lower_bound_ - 1e-9
    # clear groups stay what they are; those of zero-mean overlap
    assert (learned.labels_ == given.labels_).mean() > 0.85


def test_the_prior_is_where_the_components_are():
    model = sb.Mixture(3, family="diagonal", random_state=0, learn_prior=True).fit(X)
    given = sb.Mixture(3, family="diagonal", random_state=0).fit(X)
    # Rows have precision 1; a prior with 4 degrees of freedom and mean precision 1 has an expected
    # variance of 4 / (4 - 2).
    assert given.family_.variance.mean() > 15
    assert model.family_.variance == pytest.approx(np.full(2, 2.0), rel=0.3)
    # weighted by precision; means are 10 apart
    assert model.family_.mean == pytest.approx(model.means_.mean(0), abs=3.0)
    assert model.family_.mean_strength == pytest.approx(1.0 / model.means_.var(0).mean(), rel=0.3)


def test_without_the_option_nothing_is_learned():
    model = sb.DPMixture(4, random_state=0, concentration=2.5).fit(X)
    resolved = sb.Gaussian().resolve(measure(Table(X)))
    for name, value in model.family_.hyperparameters().items():
        np.testing.assert_array_equal(value, resolved.hyperparameters()[name])
    assert model.concentration_ == 2.5
    assert model.concentration_interval_.tolist() == [2.5, 2.5]


def test_stochastic_fits_learn_too():
    engine = sb.StochasticVB(batch_size=40, max_iter=60)
    model = sb.DPMixture(5, family="diagonal", inference=engine, random_state=0, **BOTH).fit(X)
    batch = sb.DPMixture(5, family="diagonal", **STILL, **BOTH).fit(X)
    assert model.family_.variance == pytest.approx(batch.family_.variance, rel=0.3)
    assert model.lower_bound_ <= batch.lower_bound_ + 1e-6
    assert model.lower_bound_ > batch.lower_bound_ - 25.0


def test_partial_fits_learn_too():
    model = sb.Mixture(3, family="diagonal", random_state=0, **BOTH)
    for part in np.array_split(X, 4):
        model.partial_fit(part)
    assert model.family_.variance == pytest.approx(np.full(2, 2.0), rel=0.5)
    model.set_params(learn_prior=False)
    before = model.family_.hyperparameters()
    model.partial_fit(X)
    for name, value in model.family_.hyperparameters().items():
        np.testing.assert_array_equal(value, before[name])


def test_a_warm_start_goes_on_with_what_was_learned():
    model = sb.DPMixture(4, warm_start=True, **STILL, **BOTH).fit(X)
    first, bound = model.family_.hyperparameters(), model.lower_bound_
    model.fit(X)
    assert model.lower_bound_ >= bound - 1e-9
    assert model.family_.mean_strength == pytest.approx(float(first["mean_strength"]), rel=1e-2)
    learned = model.family_
    model.set_params(learn_prior=False).fit(X)
    assert model.family_ is learned


def test_threads_do_not_change_what_is_learned():
    one, two = (sb.DPMixture(5, n_jobs=n, **STILL, **BOTH).fit(X) for n in (1, 2))
    assert_same(one, two, X)


# ---- the concentration ---------------------------------------------------------------------------
def clusters(sizes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Rows of well separated clusters of these sizes: centers on a grid, ten widths apart."""
    centers = 10.0 * np.stack(np.meshgrid(*[np.arange(4)] * 3), -1).reshape(-1, 3)
    labels = np.repeat(np.arange(len(sizes)), sizes)
    return centers[rng.permutation(len(centers))][labels] + rng.normal(size=(len(labels), 3))


def stick_sizes(concentration: float, n: int, rng: np.random.Generator) -> np.ndarray:
    """Sizes of the clusters of n draws from sticks."""
    u = rng.beta(1.0, concentration, 60)
    shares = u * np.r_[1.0, np.cumprod(1 - u)[:-1]]
    drawn = rng.multinomial(n, np.r_[shares, 1 - shares.sum()])[:60]
    return drawn[drawn > 0]


@pytest.mark.parametrize(("truth", "low", "high"), [(0.5, 0.1, 1.5), (5.0, 2.5, 8.5)])
def test_the_learned_concentration_is_near_the_truth(truth, low, high):
    rng, found = np.random.default_rng(5), []
    for _ in range(3):
        rows = clusters(stick_sizes(truth, 500, rng), rng)
        model = sb.DPMixture(
            40,
            family=sb.FixedVarianceGaussian(variance=1.0),
            concentration=sb.GammaPrior(1.0, 0.2),
            inference=sb.BatchVB(tol=1e-3, moves=None),
            random_state=0,
        ).fit(rows)
        found.append(model.concentration_)
        assert model.concentration_interval_[0] < found[-1] < model.concentration_interval_[1]
    # Three tables of some four (0.5) or twenty (5) clusters, some of them found in two pieces; the
    # prior's mean is 5.
    assert low < np.mean(found) < high


@pytest.mark.slow
def test_the_learned_concentration_prunes_or_grows_as_a_known_one_would():
    """The bound with a Gamma prior is an average over known concentrations: below the best of them,
    above the worst.
    """
    rows = CASES["fixed-variance"].rows
    learned = sb.DPMixture(
        3, family="fixed-variance", concentration=sb.GammaPrior(), random_state=0
    ).fit(rows)
    known = [
        sb.DPMixture(3, family="fixed-variance", concentration=c, random_state=0).fit(rows)
        for c in (1e-3, 0.4, 50.0)
    ]
    assert known[0].lower_bound_ < learned.lower_bound_ < known[1].lower_bound_
    assert known[2].lower_bound_ < learned.lower_bound_


# ---- files, checkpoints, scikit-learn ------------------------------------------------------------
@pytest.mark.few(3)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("cls", [sb.Mixture, pytest.param(sb.DPMixture, marks=pytest.mark.slow)])
def test_model_files_keep_what_was_learned(cls, name, tmp_path):
    case = CASES[name]
    model = cls(3, family=name, random_state=0, **BOTH).fit(case.rows)
    model.save(tmp_path / "m.stickbreak")
    loaded = sb.load(tmp_path / "m.stickbreak")
    assert_same(loaded, model, case.new)
    assert loaded.learn_prior is True
    assert repr(loaded.concentration) == "GammaPrior()"
    # and goes on alike
    assert_same(loaded.partial_fit(case.new), model.partial_fit(case.new), case.new)


class StopAt(sb.Callback):
    def __init__(self, step):
        self.step = step

    def on_step(self, info):
        if info.step == self.step:
            raise RuntimeError("stopped")


@pytest.mark.slow
@quiet
@pytest.mark.parametrize("cls", [sb.Mixture, sb.DPMixture])
def test_resumed_fits_learn_the_same(cls, tmp_path):
    path = tmp_path / "fit.checkpoint"
    settings = {"n_batches": 3, "max_iter": 4, "tol": 0.0}
    make = lambda **more: cls(
        4, inference=sb.MemoizedVB(**settings, **more), random_state=0, **BOTH
    )
    whole = make().fit(X)
    for step in (2, 4, 8) if cls is sb.Mixture else (4,):  # moves take long
        with pytest.raises(RuntimeError, match="stopped"):
            make(checkpoint=path, checkpoint_every=0.0, callbacks=[StopAt(step)]).fit(X)
        assert_same(sb.resume(path, X), whole, X)
        with pytest.raises(sb.CheckpointError, match="learn_prior=True"):
            make(checkpoint=path).set_params(learn_prior=False).resume(X)


def test_scikit_learn_reads_and_sets_the_prior():
    model = sb.DPMixture(3, **BOTH)
    assert model.get_params()["concentration__rate"] == 1.0
    copy = clone(model).set_params(concentration__shape=2.0)
    assert (copy.concentration.shape, model.concentration.shape) == (2.0, 1.0)
    assert (
        repr(copy)
        == "DPMixture(n_components=3, concentration=GammaPrior(shape=2.0), learn_prior=True)"
    )


# ---- refusals ------------------------------------------------------------------------------------
class Stubborn(BaseFamily):
    """A family that cannot learn."""

    def log_marginal(self, counts):
        return counts


REFUSED = {
    "not a bool": ({"learn_prior": "yes"}, "learn_prior must be True or False; got 'yes'"),
    "family": (
        {"learn_prior": True, "family": Stubborn()},
        "Stubborn has no method `learn`.*use learn_prior=False",
    ),
    "em": (
        {"learn_prior": True, "inference": "em"},
        r"learn_prior=True needs a variational engine "
        r".*got EM\(\)",
    ),
    "hard em": (
        {"concentration": sb.GammaPrior(), "inference": "hard-em"},
        r"concentration=GammaPrior\(\) needs a variational",
    ),
    "shape": ({"concentration": sb.GammaPrior(shape=0)}, "shape must be a positive number; got 0"),
    "rate": ({"concentration": sb.GammaPrior(rate="1")}, "rate must be a positive number; got '1'"),
    "far": (
        {"concentration": sb.GammaPrior(1e9, 1e9)},
        "GammaPrior takes a shape from 1e-3 to 1e6 .*got shape=1000000000.0",
    ),
    "class": (
        {"concentration": sb.GammaPrior},
        "concentration must be a positive number; got <class",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("cls", [sb.Mixture, sb.DPMixture])
def test_what_cannot_be_learned_is_said(cls, case):
    settings, message = REFUSED[case]
    for method in ("fit", "partial_fit"):
        with pytest.raises(ValueError, match=message) as caught:
            getattr(cls(2, **settings), method)(X)
        assert "\n" not in str(caught.value)
