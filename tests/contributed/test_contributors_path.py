"""A new contributor's path: a family, a structure, a prior and an estimator from the skeletons.

Each is one file in this folder. The library knows nothing of them: what makes them known, to files
of models, is a decorator in their own file.
"""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fitting import StopAt, StoppedError, assert_never_drops
from scipy.integrate import quad

import stickbreak as sb
from contributed.coin import Coin
from contributed.coin_flips import CoinFlips
from contributed.uniform import Uniform
from contributed.von_mises import VonMises, log_i0
from stickbreak.checks import check_estimator, check_family, check_model, check_structure
from stickbreak.data import Sequences, Table, measure
from stickbreak.inference import MeanLog
from stickbreak.initialize import from_plusplus
from stickbreak.models import Model

ROOT = Path(__file__).resolve().parent.parent.parent
DIRECTIONS = np.array([[0.0, 0.5], [2.0, -1.0], [-2.0, 2.5]])
ALL_MOVES = (sb.Birth(), sb.Merge(), sb.Delete())


def flip_units(n_units: int, seed: int = 0) -> tuple[list[np.ndarray], np.ndarray]:
    """Units of two to six angles of two columns, and the face of each unit's coin."""
    rng = np.random.default_rng(seed)
    faces = np.arange(n_units) % 3
    return [rng.vonmises(DIRECTIONS[f], 4.0, (rng.integers(2, 7), 2)) for f in faces], faces


UNITS, FACES = flip_units(60)
ROWS = np.concatenate(UNITS)
DATA = Sequences(ROWS, offsets=np.r_[0, np.cumsum([len(u) for u in UNITS])].astype(np.int64))


def coin_flips(n_components: int = 3, **settings: Any) -> CoinFlips:
    return CoinFlips(n_components, family=VonMises(4.0), random_state=0, **settings)


def coin_model() -> Model:
    return Model(Coin(), VonMises(4.0).resolve(measure(Table(ROWS))), Uniform())


# ---- what is touched -----------------------------------------------------------------------------
def test_the_library_names_none_of_them() -> None:
    own = re.compile(
        r"VonMises|CoinFlips|class (Coin|Uniform)\b|import .*(Coin|Uniform)\b|contributed"
    )
    texts = {path: path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py")}
    assert [path for path, text in texts.items() if own.search(text)] == []


# ---- laws ----------------------------------------------------------------------------------------
def test_the_family_passes_its_battery() -> None:
    check_family(VonMises(4.0), ROWS)
    check_family(VonMises(0.3, strength=2.0, direction=1.0), ROWS[:, :1])


def test_the_marginal_of_angles_is_the_integral_over_their_direction() -> None:
    x, kappa, strength = np.array([0.3, -2.0, 1.4]), 1.7, 0.6
    family = VonMises(kappa, strength, 0.8).resolve(measure(Table(x[:, None])))
    counts = family.zeros(1)
    family.mean_log(counts).collect(family.prepare(x[:, None]), np.ones((3, 1)), counts)
    density = lambda z, at, k: np.exp(k * np.cos(z - at) - np.log(2 * np.pi) - log_i0(k))
    joint = lambda at: density(at, 0.8, strength) * density(x, at, kappa).prod()
    exact = np.log(quad(joint, -np.pi, np.pi, epsabs=1e-13)[0])
    assert family.log_marginal(counts)[0] == pytest.approx(exact, abs=1e-10)


def enumerate_faces(potentials: Any, block: Any) -> float:
    """log_z by summing over the faces of all coins."""
    evidence, K = potentials.scores.evidence(block.rows), len(potentials["share"])
    unit = np.repeat(np.arange(block.n_spans), np.diff(block.offsets))
    values = []
    for faces in product(range(K), repeat=block.n_spans):
        chosen = np.array(faces)[unit]
        values.append(evidence[np.arange(len(unit)), chosen].sum())
        values[-1] += potentials["share"][list(faces)].sum()
    return float(np.logaddexp.reduce(values))


def test_structure_and_prior_pass_their_batteries() -> None:
    model = coin_model()
    start = from_plusplus(model, DATA, 3, np.random.default_rng(0))
    potentials = model.potentials(start.seed, start.params, MeanLog())
    check_structure(model, potentials, DATA.take(np.arange(4)), enumerate_faces)
    check_model(model, DATA, start)


def test_the_estimator_passes_its_battery() -> None:
    found = check_estimator(CoinFlips(2, family=VonMises(), random_state=0), ROWS[:60])
    assert not [check for check in found if check["status"] == "failed"]


# ---- fits ----------------------------------------------------------------------------------------
ENGINES = {
    "batch": sb.BatchVB(),
    "memoized": sb.MemoizedVB(n_batches=3),
    "stochastic": sb.StochasticVB(batch_size=20),
    "em": sb.EM(),
    "hard-em": sb.HardEM(),
    "gibbs": sb.Gibbs(max_iter=20),
}


@pytest.mark.parametrize("name", ENGINES)
def test_every_engine_that_the_parts_declare_fits_them(name: str) -> None:
    model = coin_flips(inference=ENGINES[name]).fit(UNITS)
    assert all((labels == labels[0]).all() for labels in model.labels_)  # one face a unit
    assert model.score(UNITS) > coin_flips(1).fit(UNITS).score(UNITS)
    if name != "hard-em":  # which ends in the nearest optimum
        faces = np.array([labels[0] for labels in model.labels_])
        assert len(set(zip(faces, FACES, strict=True))) == 3


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"inference": sb.SubchainVB()}, "Uniform has no windows: .* use StochasticVB"),
        ({"inference": sb.BatchVB(max_active=2)}, "max_active=2 is not for Coin; use None"),
        ({"learn_prior": True}, "VonMises has no method `learn`"),
    ],
)
def test_all_else_is_refused_in_a_sentence(settings: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        coin_flips(**settings).fit(UNITS)
    assert "\n" not in str(caught.value)


@pytest.mark.covering
@pytest.mark.parametrize("n_batches", [1, 3])
@pytest.mark.parametrize(
    ("n_components", "moves"),
    [(1, (sb.Birth(),)), (7, (sb.Merge(),)), (7, (sb.Delete(),)), (1, ALL_MOVES), (7, ALL_MOVES)],
    ids=["birth", "merge", "delete", "all-from-one", "all-from-seven"],
)
def test_moves_change_the_number_of_components(
    n_components: int, moves: Any, n_batches: int
) -> None:
    engine = sb.MemoizedVB(n_batches=n_batches, moves=moves)
    model = coin_flips(n_components, inference=engine).fit(UNITS)
    assert_never_drops(model.trace_.bound)
    assert any(found.is_accepted for found in model.trace_.moves)
    assert abs(model.n_components_ - 3) < abs(n_components - 3)
    if moves == ALL_MOVES:
        assert model.n_components_ == 3


def test_units_that_do_not_count_have_labels_too() -> None:
    weights = np.ones(len(UNITS))
    weights[[4, 17]] = 0.0
    model = coin_flips().fit(UNITS, sample_weight=weights)
    for found, expected in zip(model.labels_, model.predict(UNITS), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_streams_add_up_to_all_units() -> None:
    model = coin_flips()
    for at in range(0, 60, 15):
        model.partial_fit(UNITS[at : at + 15])
    assert model.counts_.sum() == pytest.approx(60.0)
    assert model.score(UNITS) == pytest.approx(coin_flips().fit(UNITS).score(UNITS), abs=0.1)


# ---- files, readers ------------------------------------------------------------------------------
def test_files_give_it_back(tmp_path: Path) -> None:
    model = coin_flips(inference=sb.MemoizedVB(moves=ALL_MOVES)).fit(UNITS)
    model.save(tmp_path / "model")
    again = sb.load(tmp_path / "model")
    assert type(again) is CoinFlips
    assert again.score(UNITS) == model.score(UNITS)
    for found, expected in zip(again.predict_proba(UNITS), model.predict_proba(UNITS), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_an_interrupted_fit_resumes_bit_for_bit(tmp_path: Path) -> None:
    settings = {"n_batches": 3, "moves": ALL_MOVES, "checkpoint_every": 0.0}
    make = lambda *callbacks: coin_flips(
        1, inference=sb.MemoizedVB(checkpoint=tmp_path / "c", callbacks=callbacks, **settings)
    )
    whole = make().fit(UNITS)
    with pytest.raises(StoppedError):
        make(StopAt(8)).fit(UNITS)
    resumed = make().resume(UNITS)
    assert resumed.lower_bound_ == whole.lower_bound_
    np.testing.assert_array_equal(resumed.component_ids_, whole.component_ids_)


def test_it_is_drawn_labeled_and_sampled() -> None:
    from matplotlib import pyplot as plt

    model = coin_flips().fit(UNITS)
    figure = model.plot()
    titles = [ax.get_title(loc="left") for ax in figure.axes]
    assert {"trace", "weights, with expected rows"} <= set(titles)
    plt.close(figure)
    plt.close(model.plot("components", UNITS).figure)
    assert model.to_xarray()["direction"].sizes["component"] == 3
    rows, faces = model.sample(lengths=[4, 1, 3], random_state=0)
    assert [part.shape for part in rows] == [(4, 2), (1, 2), (3, 2)]
    assert all((part == part[0]).all() for part in faces)


def test_chains_of_the_family_are_filtered_and_forecast() -> None:
    """Angles in a hidden Markov model of the library."""
    model = sb.HMM(3, family=VonMises(4.0), random_state=0).fit(UNITS)
    now = model.online_filter()
    for row, shares in zip(UNITS[3], model.filter_proba(UNITS)[3], strict=True):
        np.testing.assert_allclose(now.update(row).probabilities, shares, atol=1e-9)
    ahead = model.forecast(UNITS, 2)
    assert ahead.rows.shape == (60, 2, 2)
    sure = ahead.states[:, 0].max(1) > 0.95
    place = ahead.states[sure, 0].argmax(1)
    # a mean direction, which the other states pull away by little
    apart = ahead.rows[sure, 0] - model.posterior_["direction"][place]
    assert (np.cos(apart) > 0.99).all()
