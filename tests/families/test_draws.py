"""Parameters drawn from posteriors: the two laws of every family's `draw`, and what draws of rows
and shares average to.
"""

from __future__ import annotations

import numpy as np
import pytest
from registers import FAMILIES, INCOMPLETE, FamilyCase, collect, random_shares
from scipy.special import digamma, logsumexp, polygamma

from stickbreak import families
from stickbreak.data import Table, measure
from stickbreak.priors import ROWS, GammaPrior, Sticks, SymmetricDirichlet, UncertainConcentration
from stickbreak.stats import Fields, draw_log_dirichlet, log_gamma_draws

DRAWS = {name: case for name, case in FAMILIES.items() if case.family.draws}
every_family = pytest.mark.parametrize("case", DRAWS.values(), ids=DRAWS.keys())
# standard errors: one in two million, and there are some thousand numbers, which hang together
ERRORS = 5.0


def drawn_evidence(
    case: FamilyCase, n_draws: int, seed: int
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Evidence (draws, n, K) of the rows, and the counts that parameters are drawn given: many
    copies of them, drawn at once.
    """
    counts = collect(case.family, case.rows, random_shares(case.rows.shape[0], 3, seed))
    many = Fields(case.family.fields("component"), counts).permute(
        "component", np.tile(np.arange(3), n_draws)
    )
    found = case.family.draw(many, np.random.default_rng(seed)).evidence(
        case.family.prepare(case.rows)
    )
    return found.reshape(len(found), n_draws, 3).transpose(1, 0, 2), counts


def assert_near(values: np.ndarray, expected: np.ndarray) -> None:
    """The average over the first axis within some standard errors."""
    error = values.std(0) / np.sqrt(len(values))
    assert (np.abs(values.mean(0) - expected) <= ERRORS * error + 1e-9).all()


def test_every_family_of_the_library_draws() -> None:
    drawn = {type(case.family).__name__ for case in DRAWS.values()}
    assert drawn == set(families.__all__) - {"Lexicon"}  # which is not sampled by rows


@pytest.mark.parametrize("name", [name for name in FAMILIES if name not in DRAWS])
def test_families_that_do_not_draw_say_so(name: str) -> None:
    family = FAMILIES[name].family
    with pytest.raises(ValueError, match=r"has no method `draw\(counts, rng\)`, which Gibbs needs"):
        family.draw(family.zeros(2), np.random.default_rng(0))


@every_family
def test_average_evidence_of_draws_is_that_of_variational_bayes(case: FamilyCase) -> None:
    found, counts = drawn_evidence(case, 2000, 3)
    assert_near(found, case.family.mean_log(counts).evidence(case.family.prepare(case.rows)))


@every_family
def test_average_likelihood_of_draws_is_the_predictive(case: FamilyCase) -> None:
    found, counts = drawn_evidence(case, 2000, 4)
    expected = case.family.log_mean(counts).evidence(case.family.prepare(case.rows))
    assert_near(np.exp(found - expected), np.ones_like(expected))


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, case in INCOMPLETE.items()
        if name in DRAWS and case.family.missing in ("exact", "rows")
    ],
)
def test_laws_hold_for_rows_that_lack_entries(name: str) -> None:
    found, counts = drawn_evidence(INCOMPLETE[name], 2000, 5)
    assert_near(
        found,
        INCOMPLETE[name]
        .family.mean_log(counts)
        .evidence(INCOMPLETE[name].family.prepare(INCOMPLETE[name].rows)),
    )


@pytest.mark.parametrize("name", ["gaussian", "zero_mean"])
def test_missing_entries_that_would_have_to_be_drawn_are_refused(name: str) -> None:
    case = INCOMPLETE[name]
    counts = collect(case.family, case.rows, random_shares(len(case.rows), 3, 0))
    rows = case.family.prepare(case.rows)
    with pytest.raises(ValueError, match="lack some; use DiagonalGaussian"):
        case.family.draw(counts, np.random.default_rng(0)).collect(
            rows, random_shares(len(case.rows), 3, 0), case.family.zeros(3)
        )


def test_moments_of_normal_wishart_draws() -> None:
    """E[precision] = dof inverse(B), Cov(mean) = B / (dof - D - 1) / strength; 20,000 draws of
    components without data.
    """
    B = np.array([[2.0, 0.3], [0.3, 1.5]])
    rows = np.random.default_rng(0).normal(size=(30, 2)) * [1.0, 5.0]
    family = families.Gaussian(
        mean=[1.0, -2.0], mean_strength=0.5, dof=9.0, covariance=B / 6.0
    ).resolve(measure(Table(rows)))
    form = family.draw(family.zeros(20_000), np.random.default_rng(1)).form
    covariance = form.factor @ form.factor.transpose(0, 2, 1) * np.outer(family.scale, family.scale)
    mean = (form.anchor + form.mean) * family.scale + family.center
    assert_near(np.linalg.inv(covariance), 9.0 * np.linalg.inv(B))
    assert_near(covariance, B / 6.0)
    assert_near(mean, np.array([1.0, -2.0]))
    away = mean - [1.0, -2.0]
    assert_near(away[:, :, None] * away[:, None, :], B / 6.0 / 0.5)


def test_log_gamma_draws_have_the_moments_of_log_gamma_variables() -> None:
    for shape in (1e-3, 0.3, 1.0, 50.0):
        draws = log_gamma_draws(np.full(40_000, shape), np.random.default_rng(2))
        assert_near(draws, digamma(shape))
        assert_near((draws - digamma(shape)) ** 2, polygamma(1, shape))
    assert log_gamma_draws(np.zeros(3), np.random.default_rng(0)).tolist() == [-np.inf] * 3
    assert np.isfinite(log_gamma_draws(np.full(100, 1e-290), np.random.default_rng(0))).all()


def test_dirichlet_draws_sum_to_one_with_their_rest() -> None:
    alpha, rest = np.array([[0.2, 1.0, 3.0], [2.0, 0.0, 0.5]]), np.array([1.5, 0.7])
    draws = draw_log_dirichlet(np.tile(alpha, (4000, 1, 1)), rest, np.random.default_rng(3))
    assert_near(np.exp(draws), alpha / (alpha.sum(1) + rest)[:, None])
    assert (draws[:, 1, 1] == -np.inf).all()
    whole = draw_log_dirichlet(alpha, None, np.random.default_rng(0))
    np.testing.assert_allclose(logsumexp(whole, axis=1), 0.0, atol=1e-12)


def test_rows_have_impossible_outcomes_and_expected_logs() -> None:
    counts, pseudo = np.array([3.0, 0.0, 7.0]), np.array([0.5, 0.0, 0.5])
    draws = ROWS.draw(np.tile(counts, (3000, 1)), pseudo, 0.4, rng=np.random.default_rng(4))
    assert (draws[:, 1] == -np.inf).all()
    assert_near(draws[:, [0, 2]], ROWS.mean_log(counts, pseudo, 0.4)[[0, 2]])


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "prior",
    [SymmetricDirichlet(1.5), Sticks(2.0), UncertainConcentration(Sticks, GammaPrior(2.0, 1.0))],
    ids=["dirichlet", "sticks", "learned"],
)
def test_shares_have_expected_logs_and_means(prior: object) -> None:
    counts = {"share": np.array([5.0, 0.0, 11.0, 2.0])}
    rng = np.random.default_rng(5)
    draws = np.array([prior.draw(counts, rng) for _ in range(1500)])
    assert_near(draws, prior.mean_log(counts))
    assert_near(np.exp(draws), np.exp(prior.log_mean(counts)))
