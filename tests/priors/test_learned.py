"""A concentration with a Gamma prior: the sum over nodes is the integral, and everything else
follows from the counts.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from fitting import assert_never_drops, blob_model, blobs, fit, random_start
from oracles import conjugate, mixture
from scipy.integrate import quad
from scipy.special import digamma, gammaln, logsumexp
from scipy.stats import gamma as gamma_distribution

from stickbreak.data import Table, measure
from stickbreak.families import FixedVarianceGaussian
from stickbreak.inference import EM, BatchVB, MeanLog, MemoizedVB
from stickbreak.models import dp_mixture, finite_mixture
from stickbreak.priors import GammaPrior, Sticks, SymmetricDirichlet, UncertainConcentration
from stickbreak.stats import Field, Fields, Summary

KINDS = {"sticks": Sticks, "dirichlet": SymmetricDirichlet}
GAMMAS = [(1.0, 1.0), (0.3, 0.1), (300.0, 100.0)]
COUNTS = [
    np.array(n)
    for n in ([3.2, 0.5, 4.1, 0.0, 1.7], [40.0], [60.0, 25.0, 3.0, 1e-9, 0.0], [6.0, 6.0, 1.0, 0.3])
]
NOTHING = Fields({}, {})
every_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
every_gamma = pytest.mark.parametrize(("shape", "rate"), GAMMAS)
every_counts = pytest.mark.parametrize("counts", COUNTS, ids=str)


def shares_of(counts: np.ndarray) -> Summary:
    return Summary({"share": Field(("component",))}, {"share": np.asarray(counts, dtype=float)})


def prior_of(kind: Any, shape: float = 1.0, rate: float = 1.0) -> UncertainConcentration:
    return UncertainConcentration(kind, GammaPrior(shape, rate))


def bound_of(kind: Any, counts: np.ndarray, shape: float = 1.0, rate: float = 1.0) -> float:
    return prior_of(kind, shape, rate).bound(shares_of(counts), NOTHING)


# ---- the nodes -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("shape", "rate"), [*GAMMAS, (1e-3, 1e-6), (2.0, 4.0), (2e4, 1e4), (1e6, 1e6)]
)
def test_nodes_are_the_gamma_distribution(shape: float, rate: float) -> None:
    values, log_weight = GammaPrior(shape, rate).nodes()
    weight = np.exp(log_weight)
    assert len(values) < 2000
    assert weight.sum() == pytest.approx(1.0, abs=1e-10)
    # Evenly spaced sums of a smooth density: errors far below rounding, which grows with shape.
    assert weight @ values == pytest.approx(shape / rate, rel=1e-9)
    assert weight @ values**2 == pytest.approx(shape * (shape + 1) / rate**2, rel=1e-9)
    for x in gamma_distribution(shape, scale=1 / rate).ppf([0.1, 0.5, 0.9]):
        # A step function: half a node's probability is the most that it can be off.
        assert (
            abs(weight[values <= x].sum() - gamma_distribution(shape, scale=1 / rate).cdf(x))
            <= weight.max()
        )


@pytest.mark.covering
@every_kind
@every_gamma
@every_counts
def test_bound_is_the_integral_over_the_concentration(
    kind: Any, shape: float, rate: float, counts: np.ndarray
) -> None:
    found = prior_of(kind, shape, rate).concentration_posterior(shares_of(counts))
    norm = shape * np.log(rate) - gammaln(shape)

    def density(log_c: float) -> float:
        c = np.exp(log_c)
        return np.exp(
            norm
            + shape * log_c
            - rate * c
            + kind(c).log_rise(shares_of(counts))
            - found.log_evidence
        )

    edges = np.linspace(np.log(found.values[0]) - 6.0, np.log(found.values[-1]) + 3.0, 20)
    pieces = [quad(density, a, b, epsabs=1e-10, epsrel=1e-9)[0] for a, b in pairwise(edges)]
    if shape * np.exp(edges[0]) < 1e-10 and shape < 1:  # what lies further left is a power of c
        pieces.append(density(edges[0]) / (shape + (counts > 1e-12).sum() - 1))
    assert sum(pieces) == pytest.approx(1.0, abs=1e-8)


@every_kind
def test_a_narrow_prior_is_a_known_concentration(kind: Any) -> None:
    for counts in COUNTS:
        known, narrow = kind(2.5), prior_of(kind, 1e6, 4e5)
        # A prior of relative width 1e-3: second derivatives of the rise, of order 1, times 1e-6.
        assert narrow.bound(shares_of(counts), NOTHING) == pytest.approx(
            float(known.log_rise(shares_of(counts))), abs=1e-4
        )
        np.testing.assert_allclose(
            narrow.mean_log(shares_of(counts)), known.mean_log(shares_of(counts)), rtol=1e-4
        )
        np.testing.assert_allclose(
            narrow.log_mean(shares_of(counts)),
            known.log_mean(shares_of(counts)),
            rtol=1e-4,
            atol=1e-12,  # the log of one component's share is zero
        )


# ---- laws ----------------------------------------------------------------------------------------
@every_kind
@every_gamma
@pytest.mark.parametrize("counts", [COUNTS[0] + 0.2, COUNTS[1], COUNTS[3]], ids=str)
def test_derivative_and_difference_of_the_bound_are_the_potentials(
    kind: Any, shape: float, rate: float, counts: np.ndarray
) -> None:
    prior, h = prior_of(kind, shape, rate), 1e-3
    for k in range(len(counts)):
        at = {
            s: bound_of(kind, counts + s * np.eye(len(counts))[k], shape, rate)
            for s in (-h, -h / 2, h / 2, h, 1.0)
        }
        slope = (8 * (at[h / 2] - at[-h / 2]) - (at[h] - at[-h])) / (6 * h)
        # Extrapolated differences: h**4 times a fifth derivative, and rounding over h.
        assert prior.mean_log(shares_of(counts))[k] == pytest.approx(slope, rel=1e-6, abs=1e-7)
        rise = at[1.0] - bound_of(kind, counts, shape, rate)
        assert prior.log_mean(shares_of(counts))[k] == pytest.approx(rise, abs=1e-9)


@every_gamma
@every_counts
def test_appending_empty_components_changes_nothing(
    shape: float, rate: float, counts: np.ndarray
) -> None:
    grown = bound_of(Sticks, np.r_[counts, np.zeros(20)], shape, rate)
    # For each node (K + 20) log c - 20 log c: rounding of logs of size up to 40.
    assert grown == pytest.approx(bound_of(Sticks, counts, shape, rate), abs=1e-12 * 40)


def test_largest_first_is_still_the_best_order() -> None:
    counts, prior = np.array([0.5, 9.0, 3.0, 3.5]), prior_of(Sticks)
    order = prior.order(shares_of(counts))
    assert order.tolist() == [1, 3, 2, 0]
    assert prior.order(shares_of(counts[order])) is None
    assert bound_of(Sticks, counts[order]) > bound_of(Sticks, counts)
    assert prior_of(SymmetricDirichlet).order(shares_of(counts)) is None


@every_kind
def test_shares_sum_to_at_most_one(kind: Any) -> None:
    for counts in COUNTS:
        total = prior_of(kind).mean(shares_of(counts), NOTHING).sum()
        assert total < 1.0 if kind is Sticks else total == pytest.approx(1.0, abs=1e-12)


# ---- against the factor that is independent of the sticks (Blei and Jordan, 2006) ----------------
def independent_bound(counts: np.ndarray, shape: float, rate: float) -> float:
    """Best bound with q(c) = Gamma(a, b) independent of the sticks, by coordinate ascent.

    q(u_k) = Beta(1 + n_k, E[c] + n_{>k}); a = shape + K, b = rate - sum E[log(1 - u_k)].
    """
    K, later, a, b = len(counts), mixture.counts_after(counts), shape, rate
    for _ in range(500):
        eta1, eta0 = 1.0 + counts, a / b + later
        a, b = shape + K, rate - (digamma(eta0) - digamma(eta1 + eta0)).sum()
    eta1, eta0, mean, mean_log = 1.0 + counts, a / b + later, a / b, digamma(a) - np.log(b)
    sticks = sum(mixture.log_beta(x, y) for x, y in zip(eta1, eta0, strict=True)) + K * mean_log
    cross = shape * np.log(rate) - gammaln(shape) + (shape - 1) * mean_log - rate * mean
    entropy = a - np.log(b) + gammaln(a) + (1 - a) * digamma(a)
    return float(sticks + cross + entropy)


@every_gamma
@every_counts
def test_bound_is_above_that_of_an_independent_factor(
    shape: float, rate: float, counts: np.ndarray
) -> None:
    joint, independent = (
        bound_of(Sticks, counts, shape, rate),
        independent_bound(counts, shape, rate),
    )
    assert joint >= independent - 1e-9
    # The other one pays for every empty component; this one does not.
    assert independent_bound(np.r_[counts, np.zeros(10)], shape, rate) < independent - 1e-4 / shape


# ---- exact evidence ------------------------------------------------------------------------------
ORACLE = conjugate.FixedVarianceGaussian(np.array([0.5]), np.array([0.0]), 0.2)
X = np.array([-2.0, -1.9, -1.0, 0.3, 1.6, 4.0])[:, None]
FAMILY = FixedVarianceGaussian(variance=0.5, mean=0.0, mean_strength=0.2).resolve(measure(Table(X)))


def exact_evidence(make: Any, rows: np.ndarray, n_components: int) -> float:
    """Labellings (or partitions) enumerated for each node of a Gauss-Laguerre rule for
    Gamma(1, 1).
    """
    nodes, weights = np.polynomial.laguerre.laggauss(16)
    cached = lru_cache(maxsize=None)(
        lambda chosen: ORACLE.log_marginal(rows[list(chosen)], np.ones(len(chosen)))
    )
    subset = lambda chosen: cached(tuple(chosen))
    at = {
        dp_mixture: lambda c: mixture.dp_log_evidence(subset, len(rows), c),
        finite_mixture: lambda c: mixture.finite_log_evidence(subset, len(rows), n_components, c),
    }[make]
    return float(logsumexp([np.log(w) + at(c) for c, w in zip(nodes, weights, strict=True)]))


@pytest.mark.few(1)
@pytest.mark.parametrize("make", [dp_mixture, finite_mixture])
def test_bound_is_below_the_evidence_and_never_drops(make: Any) -> None:
    table, model = Table(X), make(FAMILY, GammaPrior())
    for n_components in (2, 3):
        exact = exact_evidence(make, X, n_components)
        for seed in range(2):
            found = fit(
                model,
                BatchVB(max_iter=60, tol=0.0),
                table,
                random_start(model, table, n_components, seed),
            )
            assert_never_drops(found.trace.bound)
            assert found.bound <= exact + 1e-6  # the rule integrates c to about 1e-7


def test_one_component_is_the_joint_with_all_rows_in_it() -> None:
    model, table = dp_mixture(FAMILY, GammaPrior(2.0, 3.0)), Table(X)
    found = fit(model, BatchVB(max_iter=3, tol=0.0), table, random_start(model, table, 1))
    prior = gamma_distribution(2.0, scale=1 / 3)
    together = quad(
        lambda c: prior.pdf(c) * np.exp(gammaln(1 + c) + gammaln(7) - gammaln(7 + c)),
        0,
        np.inf,
        epsabs=1e-13,
    )[0]
    assert found.bound == pytest.approx(
        ORACLE.log_marginal(X, np.ones(6)) + np.log(together), abs=1e-9
    )


# ---- fits ----------------------------------------------------------------------------------------
@pytest.mark.few(1)
@pytest.mark.parametrize("make", [dp_mixture, finite_mixture])
def test_bound_of_any_globals_meets_that_of_the_best(make: Any) -> None:
    """At a fixed point both formulas name one number; a step earlier the general one is lower than
    what follows it.
    """
    rows = blobs(40, 5)
    model, table = make(blob_model(rows).family, GammaPrior()), Table(rows)
    for laps, gap in ((3, None), (150, 1e-6)):
        found = fit(model, BatchVB(max_iter=laps, tol=0.0, reorder=False), table, 3)
        potentials = model.potentials(found.counts, found.params, MeanLog())
        new = model.local_step(potentials, table.whole())[0]
        general, after = (
            model.bound_at(found.counts, found.params, potentials, new),
            model.bound(new, found.params),
        )
        assert found.bound - 1e-9 <= general <= after + 1e-9
        assert gap is None or after - found.bound < gap


@every_kind
@pytest.mark.parametrize("n_batches", [1, 3])
def test_bound_never_drops_at_a_visit(kind: Any, n_batches: int) -> None:
    rows = blobs(60, 6)
    model = (dp_mixture if kind is Sticks else finite_mixture)(
        blob_model(rows).family, GammaPrior(1.0, 0.1)
    )
    engine = MemoizedVB(n_batches=n_batches, max_iter=25, tol=0.0, trace_visits=True)
    found = fit(model, engine, rows, 6)
    assert_never_drops(found.trace.visits)
    assert_never_drops(found.trace.bound)


def test_em_says_that_it_cannot() -> None:
    rows = blobs(30, 7)
    model = dp_mixture(blob_model(rows).family, GammaPrior())
    with pytest.raises(ValueError, match="EM cannot learn a concentration"):
        fit(model, EM(max_iter=3), rows, 2)


# ---- the truth -----------------------------------------------------------------------------------
def restaurant(concentration: float, n: int, rng: np.random.Generator) -> np.ndarray:
    """Table sizes, largest first, of a Chinese restaurant with n guests."""
    sizes: list[int] = []
    for guest in range(n):
        at = rng.choice(len(sizes) + 1, p=np.r_[sizes, concentration] / (guest + concentration))
        sizes = [*sizes, 1] if at == len(sizes) else [s + (k == at) for k, s in enumerate(sizes)]
    return np.sort(sizes)[::-1].astype(float)


@pytest.mark.parametrize("truth", [0.5, 5.0])
def test_posterior_is_near_the_truth(truth: float) -> None:
    rng, prior, means, covered = np.random.default_rng(3), prior_of(Sticks, 1.0, 0.2), [], 0
    for _ in range(12):
        found = prior.concentration_posterior(shares_of(restaurant(truth, 400, rng)))
        low, high = found.quantile([0.025, 0.975])
        assert low < found.mean < high
        means.append(found.mean)
        covered += low < truth < high
    # Some four (truth 0.5) or twenty (5) tables in each of twelve draws: the average is good to
    # about a tenth. Sticks in order
    # of size, as the bound likes them, look as if the concentration were smaller: by about a fifth
    # at 5.
    assert np.mean(means) == pytest.approx(truth, rel=0.35)
    assert covered >= 8
