"""Every family against slow conjugate formulas and golden values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from registers import FAMILIES, FamilyCase, collect

from stickbreak import families
from stickbreak.data import Table, measure

TEXTBOOK = {name: case for name, case in FAMILIES.items() if case.textbook is not None}
every_family = pytest.mark.parametrize("case", TEXTBOOK.values(), ids=TEXTBOOK.keys())

# Sums of some hundred terms of size up to 1e3: rounding of a few 1e-12, with room for cancellation
# in scatters.
CLOSE = 1e-9
# Known to 16-17 digits; about ten terms of size <= 30, in a standardized frame that costs a few
# more roundings.
GOLDEN = 1e-12


def weights(n: int, n_components: int) -> np.ndarray:
    """(n, K) weights, some zero, rows not summing to one."""
    rng = np.random.default_rng(5)
    return rng.gamma(0.7, 1.5, (n, n_components)) * (rng.random((n, n_components)) < 0.7)


def resolved(family: Any, rows: np.ndarray) -> Any:
    return family.resolve(measure(Table(rows)))


def test_every_family_of_the_library_has_textbook_formulas() -> None:
    known = {type(case.family).__name__ for case in TEXTBOOK.values()}
    # a lexicon needs the words of source sentences: test_lexicon.py
    assert known == set(families.__all__) - {"Lexicon"}


@every_family
def test_log_marginal_equals_the_oracle(case: FamilyCase) -> None:
    w = weights(case.rows.shape[0], 4)
    expected = [case.oracle.log_marginal(case.dense, w[:, k]) for k in range(4)]
    np.testing.assert_allclose(
        case.family.log_marginal(collect(case.family, case.rows, w)), expected, rtol=CLOSE
    )


@every_family
@pytest.mark.parametrize(
    ("rule", "oracle_rule"),
    [("mean_log", "expected_log_likelihood"), ("log_mean", "log_predictive")],
)
def test_evidence_equals_the_oracle(case: FamilyCase, rule: str, oracle_rule: str) -> None:
    w = weights(case.rows.shape[0], 3)
    scores = getattr(case.family, rule)(collect(case.family, case.rows, w))
    judge = getattr(case.oracle, oracle_rule)
    expected = [[judge(x, case.dense, w[:, k]) for k in range(3)] for x in case.dense]
    evidence = scores.evidence(case.family.prepare(case.rows))
    np.testing.assert_allclose(evidence, expected, rtol=CLOSE, atol=CLOSE)


@every_family
def test_empty_component_is_the_prior(case: FamilyCase) -> None:
    nothing = np.zeros(case.rows.shape[0])
    counts = case.family.zeros(2)
    # a difference of two equal numbers
    np.testing.assert_allclose(case.family.log_marginal(counts), 0.0, atol=1e-12)
    evidence = case.family.log_mean(counts).evidence(case.family.prepare(case.rows))
    expected = [case.oracle.log_predictive(x, case.dense, nothing) for x in case.dense]
    np.testing.assert_allclose(
        evidence, np.column_stack([expected, expected]), rtol=CLOSE, atol=CLOSE
    )


# ---- golden values -------------------------------------------------------------------------------
WISHART_X = np.array([(1.0, 0.0), (0.0, 2.0), (1.0, -1.0)])


def log_marginal(family: Any, rows: np.ndarray) -> float:
    """Of all rows in one component."""
    return float(family.log_marginal(collect(family, rows, np.ones((len(rows), 1))))[0])


def first_mean_log(family: Any, rows: np.ndarray) -> float:
    """E[log p(x_1)] once all rows are counted."""
    counts = collect(family, rows, np.ones((len(rows), 1)))
    return float(family.mean_log(counts).evidence(family.prepare(rows))[0, 0])


def test_golden_multinomial() -> None:
    rows = np.array([[2, 0, 3, 1]])
    family = resolved(families.Multinomial(concentration=0.5), rows)
    assert log_marginal(family, rows) == pytest.approx(-4.783037392432665, abs=GOLDEN)


def test_golden_categorical() -> None:
    rows = np.array([0, 0, 2, 2, 2, 3])[:, None]
    family = resolved(families.Categorical(concentration=0.5), rows)
    assert log_marginal(family, rows) == pytest.approx(-8.877381954654766, abs=GOLDEN)


def test_golden_bernoulli() -> None:
    rows = np.array([1, 0, 1, 1])[:, None]
    family = resolved(families.Bernoulli(on=0.5, off=0.5), rows)
    assert log_marginal(family, rows) == pytest.approx(-3.2425923514855164, abs=GOLDEN)


def test_golden_fixed_variance() -> None:
    rows = np.array([-2.0, 4.0, 1.0])[:, None]
    family = resolved(
        families.FixedVarianceGaussian(variance=0.5, mean=0.0, mean_strength=0.2), rows
    )
    assert log_marginal(family, rows) == pytest.approx(-21.290889189893992, abs=GOLDEN)


def test_golden_zero_mean_one_dimension() -> None:
    # tau = 2, nu = 3: dof = nu + D + 1, expected variance tau / nu
    rows = np.array([1.0, -0.5, 2.0])[:, None]
    family = resolved(families.ZeroMeanGaussian(dof=5.0, covariance=2.0 / 3.0), rows)
    assert log_marginal(family, rows) == pytest.approx(-6.4011561540854345, abs=GOLDEN)


def test_golden_zero_mean_wishart() -> None:
    family = resolved(families.ZeroMeanGaussian(dof=4.0, covariance=1.0), WISHART_X)
    assert log_marginal(family, WISHART_X) == pytest.approx(-11.33553334120269, abs=GOLDEN)
    assert first_mean_log(family, WISHART_X) == pytest.approx(-2.783660187652712, abs=GOLDEN)


def test_golden_normal_wishart() -> None:
    family = resolved(
        families.Gaussian(mean=0.0, mean_strength=0.5, dof=4.0, covariance=1.0), WISHART_X
    )
    assert log_marginal(family, WISHART_X) == pytest.approx(-10.705190701788577, abs=GOLDEN)
    assert first_mean_log(family, WISHART_X) == pytest.approx(-1.8169214360639052, abs=GOLDEN)


def test_golden_zero_mean_divergence() -> None:
    family = families.ZeroMeanGaussian()
    first, second = {"covariance": np.array([[[0.25]]])}, {"covariance": np.array([[[2.0]]])}
    assert family.bregman(first, second)[0, 0] == pytest.approx(0.6022207708399179, abs=GOLDEN)


def test_golden_multinomial_divergence() -> None:
    """6 tokens times KL((2, 0, 3, 1) / 6, uniform), the zero approached from inside."""
    tiny = 1e-18  # moves the value by 6 * tiny * log(4 tiny), about 1e-15
    first = {"probability": np.array([[2.0, 6 * tiny, 3.0, 1.0]]) / 6, "weight": np.array([6.0])}
    second = {"probability": np.full((1, 4), 0.25), "weight": np.array([6.0])}
    assert families.Multinomial().bregman(first, second)[0, 0] == pytest.approx(
        2.2493405784752327, abs=GOLDEN
    )
