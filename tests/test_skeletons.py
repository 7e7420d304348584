"""What contributors copy works as it stands: fitted, moved, forecast, saved, loaded, resumed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fitting import StopAt, StoppedError, assert_never_drops
from registers import FAMILIES

import stickbreak as sb
from docs.skeletons.estimator import FlatMixture
from docs.skeletons.family import Exponential
from docs.skeletons.prior import FlatShares
from docs.skeletons.structure import Alone
from stickbreak import families
from stickbreak.checks import check_estimator, check_family, check_model, check_structure
from stickbreak.data import Table, measure
from stickbreak.inference import MeanLog, run
from stickbreak.initialize import from_plusplus
from stickbreak.models import Model
from stickbreak.structures import Independent

ALL_MOVES = (sb.Birth(), sb.Merge(), sb.Delete())
SCALES = np.array([[1.0, 20.0], [60.0, 60.0], [30.0, 0.5]])


def waiting_times(groups: np.ndarray, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).gamma(8.0, SCALES[groups] / 8.0)


X = waiting_times(np.arange(240) % 3)
SEQUENCES = [waiting_times(np.arange(40) // 8 % 3, seed) for seed in range(4)]


def flat_mixture(n_components: int = 3, **settings: Any) -> FlatMixture:
    return FlatMixture(n_components, family=Exponential(), random_state=0, **settings)


def own_model(rows: np.ndarray = X) -> Model:
    return Model(Alone(), Exponential().resolve(measure(Table(rows))), FlatShares(0.7))


# ---- laws ----------------------------------------------------------------------------------------
def test_the_family_passes_its_battery_and_is_a_plain_record_of_the_register() -> None:
    """The batteries of every family run on it: they look at what a family declares."""
    check_family(Exponential(), X)
    case = FAMILIES["skeleton"]
    assert isinstance(case.family, Exponential)
    assert (case.family.draws, case.family.can_learn, case.family.missing) == (
        False,
        False,
        "refused",
    )
    assert case.textbook is None
    assert "Exponential" not in families.__all__


def test_structure_and_prior_pass_their_batteries() -> None:
    model, table = own_model(), Table(X)
    start = from_plusplus(model, table, 3, np.random.default_rng(0))
    potentials = model.potentials(start.seed, start.params, MeanLog())
    check_structure(model, potentials, table.take(np.arange(5)))
    check_model(model, table, start)


def test_the_structure_infers_what_that_of_the_library_does() -> None:
    model, table = own_model(), Table(X)
    start = from_plusplus(model, table, 3, np.random.default_rng(0))
    mine = run(model, sb.BatchVB(), table, start)
    ours = run(Model(Independent(), model.family, model.prior), sb.BatchVB(), table, start)
    assert mine.bound == pytest.approx(ours.bound, rel=1e-9)  # the same algorithm with another exp


@pytest.mark.slow  # `test_plain_parts.py` has one in every run
def test_the_estimator_passes_its_battery() -> None:
    rows = np.random.default_rng(0).normal(size=(40, 2))
    found = check_estimator(FlatMixture(2, random_state=0), rows)
    assert not [check for check in found if check["status"] == "failed"]


# ---- fits ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("n_batches", [1, 3])
@pytest.mark.parametrize(
    ("n_components", "move"), [(1, sb.Birth()), (9, sb.Merge()), (9, sb.Delete())], ids=repr
)
def test_each_move_changes_the_number_of_components(
    n_components: int, move: Any, n_batches: int
) -> None:
    engine = sb.MemoizedVB(n_batches=n_batches, moves=(move,))
    model = flat_mixture(n_components, inference=engine).fit(X)
    assert_never_drops(model.trace_.bound)
    assert abs(model.n_components_ - 3) < abs(n_components - 3)
    assert any(found.is_accepted for found in model.trace_.moves)


@pytest.mark.parametrize("n_components", [1, 9])
@pytest.mark.parametrize("engine", [sb.BatchVB, sb.MemoizedVB])
def test_all_moves_find_the_components(engine: Any, n_components: int) -> None:
    model = flat_mixture(n_components, inference=engine(moves=ALL_MOVES)).fit(X)
    assert_never_drops(model.trace_.bound)
    assert model.n_components_ == 3
    np.testing.assert_allclose(model.counts_, 80.0, atol=8)  # the groups overlap a little


@pytest.mark.parametrize("inference", ["batch", "memoized", "stochastic", "em", "hard-em"])
def test_engines_fit_it(inference: str) -> None:
    model = flat_mixture(inference=inference).fit(X)
    assert model.score(X) > flat_mixture(1).fit(X).score(X) + 0.5


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"inference": "gibbs"}, "Alone has no method `infer_drawn`, which Gibbs needs; use"),
        ({"inference": sb.BatchVB(max_active=2)}, "max_active=2 is not for Alone; use None"),
        ({"learn_prior": True}, "Exponential has no method `learn`"),
    ],
)
def test_what_it_cannot_do_is_refused_in_a_sentence(settings: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        flat_mixture(**settings).fit(X)
    assert "\n" not in str(caught.value)


def test_streams_add_up_to_all_rows() -> None:
    model = flat_mixture()
    for part in np.split(X, 4):
        model.partial_fit(part)
    assert model.counts_.sum() == pytest.approx(len(X))
    assert model.score(X) == pytest.approx(flat_mixture().fit(X).score(X), abs=0.1)


# ---- files ---------------------------------------------------------------------------------------
def test_files_give_it_back(tmp_path: Path) -> None:
    model = flat_mixture(concentration=0.7).fit(X)
    model.save(tmp_path / "model")
    again = sb.load(tmp_path / "model")
    assert type(again) is FlatMixture
    assert again.concentration == 0.7
    np.testing.assert_array_equal(again.score_samples(X), model.score_samples(X))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert again.family_.n_columns == 2


def test_an_interrupted_fit_resumes_bit_for_bit(tmp_path: Path) -> None:
    engine = {"n_batches": 3, "max_iter": 8, "tol": 0.0, "checkpoint_every": 0.0}
    path = tmp_path / "checkpoint"
    make = lambda *callbacks: flat_mixture(
        inference=sb.MemoizedVB(checkpoint=path, callbacks=callbacks, **engine)
    )
    with pytest.warns(sb.ConvergenceWarning):
        whole = make().fit(X)
    with pytest.raises(StoppedError):
        make(StopAt(10)).fit(X)
    with pytest.warns(sb.ConvergenceWarning):
        found = [make().resume(X)]
    with pytest.raises(StoppedError):
        make(StopAt(10)).fit(X)
    with pytest.warns(sb.ConvergenceWarning):
        found.append(sb.resume(path, X))
    for resumed in found:
        assert type(resumed) is FlatMixture
        assert resumed.lower_bound_ == whole.lower_bound_
        np.testing.assert_array_equal(resumed.labels_, whole.labels_)


# ---- for readers ---------------------------------------------------------------------------------
def test_it_is_drawn_and_labeled() -> None:
    from matplotlib import pyplot as plt

    model = flat_mixture().fit(X)
    figure = model.plot(X=X)
    assert len(figure.axes) >= 3
    plt.close(figure)
    found = model.to_xarray()
    assert found["mean"].dims == ("component", "feature")
    drawn, labels = model.sample(3000, random_state=0)
    for k in range(3):  # 5 standard errors of exponential rows
        mean = drawn[labels == k].mean(0)
        np.testing.assert_allclose(mean, model.means_[k], rtol=5 / np.sqrt(900))


# ---- sequences -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "make",
    [
        lambda: sb.HMM(3, family=Exponential(), random_state=0),
        lambda: sb.HDPHMM(
            1, family=Exponential(), random_state=0, inference=sb.MemoizedVB(moves=ALL_MOVES)
        ),
    ],
    ids=["hmm", "hdp-hmm-moves"],
)
def test_chains_of_the_family_are_fitted_filtered_forecast_and_saved(
    make: Any, tmp_path: Path
) -> None:
    model = make().fit(SEQUENCES)
    assert model.n_effective_ == 3
    assert_never_drops(model.trace_.bound)
    ahead = model.forecast(SEQUENCES, 4)
    np.testing.assert_allclose(ahead.states.sum(2), 1.0)
    np.testing.assert_allclose(ahead.rows, ahead.states @ model.means_)
    now = model.online_filter()
    for row, shares in zip(SEQUENCES[0], model.filter_proba(SEQUENCES)[0], strict=True):
        np.testing.assert_allclose(now.update(row).probabilities, shares, atol=1e-9)
    model.save(tmp_path / "chain")
    again = sb.load(tmp_path / "chain")
    assert again.score(SEQUENCES) == model.score(SEQUENCES)
    np.testing.assert_array_equal(again.forecast(SEQUENCES, 4).states, ahead.states)
