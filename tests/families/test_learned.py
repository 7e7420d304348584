"""Learned priors: what `learn` climbs to is what a general optimizer finds, it never lowers, and
empty components have no say.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from estimator_cases import CASES, NAMES
from hypothesis import given, settings
from hypothesis import strategies as st
from registers import FAMILIES, FamilyCase, collect, random_shares
from scipy.optimize import minimize
from scipy.special import betaln, gammaln

from stickbreak import families
from stickbreak.data import Table, measure
from stickbreak.families import learning

every_family = pytest.mark.parametrize("case", FAMILIES.values(), ids=FAMILIES.keys())
every_name = pytest.mark.parametrize("name", NAMES)
CLASSES = {
    "gaussian": families.Gaussian,
    "diagonal": families.DiagonalGaussian,
    "zero-mean": families.ZeroMeanGaussian,
    "fixed-variance": families.FixedVarianceGaussian,
    "categorical": families.Categorical,
    "multinomial": families.Multinomial,
    "bernoulli": families.Bernoulli,
    "poisson": families.Poisson,
    "autoregressive": families.AutoregressiveGaussian,
}


def total(family: Any, counts: Any) -> float:
    return float(family.log_marginal(counts).sum())


def grouped(name: str, n_components: int = 3) -> tuple[Any, dict[str, np.ndarray]]:
    """The default family for a table of three clear groups, and counts of six halves of them that
    blur into each other.
    """
    case = CASES[name]
    family = CLASSES[name]().resolve(measure(Table(case.rows)))
    rng = np.random.default_rng(11)
    labels = case.groups + 3 * rng.integers(0, 2, len(case.groups))
    shares = 0.9 * np.eye(6)[labels] + 0.1 / 6
    return family, collect(
        family, case.rows, np.c_[shares, np.zeros((len(shares), n_components - 3))]
    )


def settle(family: Any, counts: Any, calls: int = 60) -> Any:
    for _ in range(calls):
        better = family.learn(counts)
        if better is family:
            break
        assert total(better, counts) > total(family, counts)
        family = better
    return family


# ---- against a general optimizer -----------------------------------------------------------------
def pack(family: Any) -> np.ndarray:
    """Free parameters: logs of positive numbers, means as they are, covariances by the logs of
    their Cholesky factors.
    """
    parts = []
    for name, value in family.hyperparameters().items():
        if name == "covariance":
            L = np.linalg.cholesky(value)
            parts += [np.log(np.diag(L)), L[np.tril_indices(len(L), -1)]]
        else:
            parts.append(np.ravel(value) if name == "mean" else np.log(np.ravel(value)))
    return np.concatenate(parts)


def unpack(family: Any, free: np.ndarray) -> Any:
    values, at = {}, 0
    for name, value in family.hyperparameters().items():
        part = free[at : at + value.size]
        if name == "covariance":
            D = len(value)
            L = np.diag(np.exp(part[:D]))
            L[np.tril_indices(D, -1)] = part[D : D * (D + 1) // 2]
            values[name], at = L @ L.T, at + D * (D + 1) // 2
        else:
            values[name], at = (
                (part if name == "mean" else np.exp(part)).reshape(value.shape),
                at + value.size,
            )
    return family.with_hyperparameters(values)


@pytest.mark.slow
@every_name
def test_learning_reaches_what_a_general_optimizer_finds(name: str) -> None:
    family, counts = grouped(name)
    learned = settle(family, counts)
    goal = lambda free: -total(unpack(family, np.clip(free, -40, 40)), counts)
    found = minimize(
        goal, pack(family), method="L-BFGS-B", options={"maxiter": 500, "ftol": 1e-15, "gtol": 1e-9}
    )
    for _ in range(3):  # its differences are coarse: begin again where it stopped
        found = minimize(
            goal, found.x, method="L-BFGS-B", options={"maxiter": 500, "ftol": 1e-15, "gtol": 1e-9}
        )
    best = unpack(family, found.x)
    assert total(learned, counts) > total(family, counts)
    # what its differences let it see
    assert total(learned, counts) == pytest.approx(-found.fun, abs=1e-7)
    for key, value in learned.hyperparameters().items():
        # At a maximum with curvature of order 1, values good to 1e-9 give arguments good to about
        # 3e-5.
        np.testing.assert_allclose(
            value, best.hyperparameters()[key], rtol=0, atol=1e-4 * np.abs(value).max(), err_msg=key
        )


def test_every_name_of_the_library_learns() -> None:
    assert set(CLASSES) == set(NAMES)
    for cls in CLASSES.values():
        assert cls().can_learn
        assert set(cls.learned) <= set(cls().get_params())


# ---- laws ----------------------------------------------------------------------------------------
@pytest.mark.few(6)
@every_family
@given(seed=st.integers(0, 2**32 - 1), factor=st.sampled_from([1e-6, 0.3, 1.0, 1e4]))
@settings(max_examples=6, deadline=None, derandomize=True)
def test_learning_never_lowers(case: FamilyCase, seed: int, factor: float) -> None:
    """From counts of next to no rows to many; the result is again a family that can judge rows."""
    counts = collect(case.family, case.rows, factor * random_shares(case.rows.shape[0], 3, seed))
    learned = case.family.learn(counts)
    assert total(learned, counts) >= total(case.family, counts)
    assert np.isfinite(learned.mean_log(counts).evidence(learned.prepare(case.rows))).all()
    assert learned.n_columns == case.family.n_columns


@every_family
def test_nothing_is_learned_from_nothing(case: FamilyCase) -> None:
    assert case.family.learn(case.family.zeros(4)) is case.family


@every_name
def test_empty_components_have_no_say(name: str) -> None:
    family, counts = grouped(name)
    more = grouped(name, n_components=23)[1]
    assert len(family.log_marginal(more)) == len(family.log_marginal(counts)) + 20
    learned, same = settle(family, counts, 5), settle(family, more, 5)
    for key, value in learned.hyperparameters().items():
        # The same steps up to rounding of sums with more terms, which a climb may stretch where M
        # is flat.
        np.testing.assert_allclose(
            same.hyperparameters()[key],
            value,
            rtol=1e-5,
            atol=1e-7 * np.abs(value).max(),
            err_msg=key,
        )


@pytest.mark.few(3)
@every_name
def test_components_with_next_to_no_rows_do_not_hold_it_up(name: str) -> None:
    """A handful of laps is enough, also when most components have a hundredth of a row."""
    case = CASES[name]
    family = CLASSES[name]().resolve(measure(Table(case.rows)))
    shares = np.c_[np.eye(3)[case.groups] * 0.999, np.full((len(case.rows), 20), 0.001 / 20)]
    counts = collect(family, case.rows, shares)
    soon, late = settle(family, counts, 8), settle(family, counts, 80)
    assert (
        total(late, counts) - total(soon, counts)
        < 0.02 * (total(late, counts) - total(family, counts)) + 1e-6
    )


@every_family
def test_hyperparameters_can_be_carried_over(case: FamilyCase) -> None:
    counts = collect(case.family, case.rows, random_shares(case.rows.shape[0], 3, 5))
    learned = case.family.learn(counts)
    again = case.family.with_hyperparameters(learned.hyperparameters())
    np.testing.assert_array_equal(again.log_marginal(counts), learned.log_marginal(counts))
    assert {n: np.ndim(v) for n, v in again.hyperparameters().items()} == {
        n: np.ndim(v) for n, v in case.family.hyperparameters().items()
    }


# ---- where the maximum is at the edge ------------------------------------------------------------
@pytest.mark.parametrize("name", ["gaussian", "diagonal", "fixed-variance", "poisson"])
def test_one_component_cannot_tell_how_strong_its_mean_is(name: str) -> None:
    case = CASES[name]
    family = CLASSES[name]().resolve(measure(Table(case.rows)))
    counts = collect(family, case.rows, np.c_[np.ones(len(case.rows)), np.zeros(len(case.rows))])
    learned = settle(family, counts)
    strength = "rate" if name == "poisson" else "mean_strength"
    assert getattr(learned, strength) == getattr(family, strength)


def test_components_that_are_all_alike_leave_room_for_others() -> None:
    """Their prior would like to be worth infinitely many rows."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(400, 2))
    family = families.Gaussian().resolve(measure(Table(rows)))
    counts = collect(family, rows, np.full((400, 4), 0.25))
    assert settle(family, counts).mean_strength == learning.STRONGEST


@pytest.mark.parametrize("cls", [families.Gaussian, families.DiagonalGaussian])
def test_a_component_without_spread_does_not_take_the_prior_along(cls: Any) -> None:
    """300 equal rows: M grows without limit as the prior variance goes to zero."""
    rng = np.random.default_rng(1)
    rows = np.r_[rng.normal(size=(40, 2)), np.tile([[3.0, 1.0]], (300, 1))]
    family = cls().resolve(measure(Table(rows)))
    counts = collect(family, rows, np.eye(2)[(np.arange(340) >= 40).astype(int)])
    learned = settle(family, counts, 40)
    spread = (
        np.linalg.eigvalsh(learned.covariance / np.outer(learned.scale, learned.scale))
        if cls is families.Gaussian
        else None
    )
    narrowest = spread[0] if spread is not None else (learned.variance / learned.scale**2).min()
    assert narrowest == pytest.approx(learning.NARROWEST, rel=1e-6)
    assert np.isfinite(learned.mean_log(counts).evidence(learned.prepare(rows))).all()


@pytest.mark.parametrize("concentration", [1e-9, 1e5])
def test_a_prior_beyond_the_limits_comes_back(concentration: float) -> None:
    assert not learning.WEAKEST <= concentration <= learning.STRONGEST
    family, counts = grouped("multinomial")
    learned = settle(replace(family, concentration=concentration), counts)
    assert learned.concentration == pytest.approx(settle(family, counts).concentration, rel=1e-5)


# ---- the climb -----------------------------------------------------------------------------------
def test_a_climb_finds_the_maximum_of_each_element() -> None:
    goal = np.array([0.02, 1.0, 30.0, 1e6])
    found = learning.climb(lambda x: -(np.log(x / goal) ** 2), np.ones(4))
    np.testing.assert_allclose(found, [0.02, 1.0, 30.0, learning.STRONGEST], rtol=1e-5)


def test_a_climb_never_goes_down() -> None:
    """Also where the function is convex, flat, or has two maxima."""
    for value in (
        lambda x: np.log(x) ** 2,
        lambda x: 0.0 * x,
        lambda x: np.sin(3 * np.log(x)),
        lambda x: np.abs(np.log(x)),
    ):
        for start in (0.01, 1.0, 3.0):
            assert value(learning.climb(value, start)) >= value(np.asarray(start))


def test_bernoulli_and_dirichlet_objectives_are_the_textbook_ones() -> None:
    family, counts = grouped("bernoulli")
    ones, rows = counts["ones"], counts["rows"][:, None]
    assert total(family, counts) == pytest.approx(
        (betaln(0.5 + ones, 0.5 + rows - ones) - betaln(0.5, 0.5)).sum(), rel=1e-12
    )
    family, counts = grouped("multinomial")
    n, V, a = counts["emission"], 6, family.concentration
    polya = (gammaln(n + a) - gammaln(a)).sum() + (gammaln(V * a) - gammaln(n.sum(0) + V * a)).sum()
    assert total(family, counts) == pytest.approx(polya + counts["base"].sum(), rel=1e-12)
