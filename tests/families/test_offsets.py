"""Log densities of clusters and tables 1e3 to 1e7 standard deviations away, against 50-digit
arithmetic.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from oracles import conjugate

from stickbreak import families
from stickbreak.data import Table, measure
from stickbreak.stats import Reanchor, Summary

D, PER, K = 3, 12, 3
SD = np.array([1.0, 0.3, 20.0])  # of a cluster, column by column
OFFSETS = pytest.mark.parametrize(
    "offset", [*(pytest.param(x, marks=pytest.mark.slow) for x in (1e3, 1e5)), 1e7]
)
PLACES = pytest.mark.parametrize("place", ["clusters", "table", "both"])
NAMES = pytest.mark.parametrize("name", ["gaussian", "diagonal", "fixed_variance"])
RULES = {"mean_log": "expected_log_likelihood_mp", "log_mean": "log_predictive_mp"}
LABELS = np.repeat(np.arange(K), PER)

# The promise: within 1e-6 nats for rows of their own cluster.
OWN = 1e-6
# Other clusters are up to 1e14 nats away, where 1e-9 of the value is what separates it from any
# other decision.
OTHER = 1e-9


# A pull of the prior mean widens a far cluster along one direction by strength * offset**2: it must
# neither hide the cluster
# from `refine` nor bury the other directions.
DEFAULT_STRENGTH = [
    (name, place, offset)
    for name in ("gaussian", "diagonal", "fixed_variance")
    for place in ("clusters", "table", "both")
    for offset in (1e3, 1e5, 1e7)
]


def make_rows(offset: float, place: str) -> np.ndarray:
    """Three clusters of scale SD, moved apart and / or away from the origin by `offset` standard
    deviations.
    """
    rng = np.random.default_rng(31)
    apart = np.array([[0.0, 0.0, 0.0], [1.0, -0.4, 0.7], [-0.6, 1.0, 0.2]]) * (
        4.0 if place == "table" else offset
    )
    moved = np.zeros(D) if place == "clusters" else offset * np.array([1.0, -1.0, 1.0])
    mixing = np.array([[1.0, 0.0, 0.0], [0.5, 0.9, 0.0], [-0.3, 0.4, 0.8]])
    return (rng.normal(size=(K * PER, D)) @ mixing.T + apart[LABELS] + moved) * SD


def make_case(name: str, rows: np.ndarray, strength: float) -> tuple[Any, Any]:
    """A family with a prior of cluster scale about the table's centre, and its oracle."""
    mean, variance = np.round(rows.mean(0)), SD**2
    if name == "gaussian":
        family = families.Gaussian(
            mean=mean, mean_strength=strength, dof=D + 3.0, covariance=variance
        )
        oracle = conjugate.Gaussian(mean, strength, D + 3.0, 2.0 * np.diag(variance))
    elif name == "diagonal":
        family = families.DiagonalGaussian(
            mean=mean, mean_strength=strength, dof=4.0, variance=variance
        )
        oracle = conjugate.DiagonalGaussian(mean, strength, 4.0, 2.0 * variance)
    else:
        family = families.FixedVarianceGaussian(
            mean=mean, mean_strength=strength, variance=variance
        )
        oracle = conjugate.FixedVarianceGaussian(variance, mean, strength)
    return family.resolve(measure(Table(rows))), oracle


def gather(family: Any, rows: np.ndarray, start: Summary) -> Summary:
    """Counts of hard labels about the anchors of `start`, as a lap collects them."""
    out = {name: array.copy() for name, array in start.empty().arrays.items()}
    family.mean_log(start).collect(family.prepare(rows), np.asfortranarray(np.eye(K)[LABELS]), out)
    return Summary(start.layout, out)


def after_a_lap(family: Any, rows: np.ndarray) -> Summary:
    """Counts once the first lap's upkeep has moved the anchors and the next lap has collected about
    them.
    """
    total = gather(family, rows, Summary(family.fields("component"), family.zeros(K)))
    edit = family.refine(total)
    return total if edit is None else gather(family, rows, edit(total.empty()))


def assert_evidence(
    family: Any, oracle: Any, rows: np.ndarray, total: Summary, own: dict[str, float]
) -> None:
    """Two rows of every cluster under every component; `own` is the tolerance of approx for the own
    component.
    """
    picked = [0, 5, PER, PER + 5, 2 * PER, 2 * PER + 5]
    for rule, exact_rule in RULES.items():
        found = getattr(family, rule)(total).evidence(family.prepare(rows[picked]))
        for at, row in enumerate(picked):
            for k in range(K):
                exact = float(
                    getattr(oracle, exact_rule)(rows[row], rows[k == LABELS], np.ones(PER))
                )
                tolerance = own if LABELS[row] == k else {"rel": OTHER, "abs": OWN}
                assert found[at, k] == pytest.approx(exact, **tolerance), (rule, row, k)


def assert_marginal(family: Any, oracle: Any, rows: np.ndarray, total: Summary) -> None:
    exact = [float(oracle.log_marginal_mp(rows[k == LABELS], np.ones(PER))) for k in range(K)]
    # PER rows, each within OWN; values beyond 1e3 nats to 1e-9 of their size.
    np.testing.assert_allclose(family.log_marginal(total), exact, rtol=OTHER, atol=PER * OWN)


@pytest.mark.covering
@NAMES
@PLACES
@OFFSETS
def test_far_clusters_and_tables_with_a_vague_prior_mean(
    name: str, place: str, offset: float
) -> None:
    """A prior mean worth 1e-3 / offset**2 rows: it hardly widens a cluster, so that nothing hides
    an error.
    """
    rows = make_rows(offset, place)
    family, oracle = make_case(name, rows, 1e-3 / offset**2)
    total = after_a_lap(family, rows)
    assert_evidence(family, oracle, rows, total, {"rel": 0.0, "abs": OWN})
    assert_marginal(family, oracle, rows, total)


@pytest.mark.covering
@pytest.mark.parametrize(("name", "place", "offset"), DEFAULT_STRENGTH)
def test_far_clusters_and_tables_with_the_default_strength(
    name: str, place: str, offset: float
) -> None:
    """A prior mean worth 0.01 rows pulls a far cluster by many standard deviations."""
    rows = make_rows(offset, place)
    family, oracle = make_case(name, rows, 0.01)
    total = after_a_lap(family, rows)
    # A known variance does not widen with the pull: rows are then up to 1e4 sds from the pulled
    # mean, 1e8 nats.
    assert_evidence(family, oracle, rows, total, {"rel": 1e-12, "abs": OWN})
    assert_marginal(family, oracle, rows, total)


@OFFSETS
def test_zero_mean_components_of_very_different_scales(offset: float) -> None:
    """Component k is 1, sqrt(offset) and offset times as wide: a mean of zero leaves no other
    offset.
    """
    rows = make_rows(1.0, "clusters") * np.array([1.0, offset**0.5, offset])[LABELS][:, None]
    prior = np.diag(SD**2)
    family = families.ZeroMeanGaussian(dof=D + 2.0, covariance=prior).resolve(measure(Table(rows)))
    oracle = conjugate.ZeroMeanGaussian(D + 2.0, prior)
    total = after_a_lap(family, rows)
    assert_evidence(family, oracle, rows, total, {"rel": 0.0, "abs": OWN})
    assert_marginal(family, oracle, rows, total)


@NAMES
def test_new_anchors_settle_after_one_lap(name: str) -> None:
    rows = make_rows(1e5, "both")
    family, _ = make_case(name, rows, 1e-13)
    total = after_a_lap(family, rows)
    assert (total["anchor"] != 0).any()
    assert family.refine(total) is None


@NAMES
def test_moved_anchors_keep_marginals_evidence_and_descriptions(name: str) -> None:
    """An edit of what is remembered: the same statistics about other points a few standard
    deviations away.
    """
    rows = make_rows(4.0, "clusters")
    family, _ = make_case(name, rows, 0.01)
    total = gather(family, rows, Summary(family.fields("component"), family.zeros(K)))
    shift = np.random.default_rng(3).normal(size=(K, D))
    moved = Reanchor("anchor", shift)(total)
    again = gather(family, rows, Reanchor("anchor", shift)(total.empty()))
    prepared = family.prepare(rows)
    for other in (moved, again):
        # Squares of a few standard deviations, PER of them: 1e-13 of rounding, times a condition of
        # about 1e2.
        np.testing.assert_allclose(other["moments"], moved["moments"], rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(
            family.log_marginal(other), family.log_marginal(total), rtol=1e-10
        )
        for rule in RULES:
            expected = getattr(family, rule)(total).evidence(prepared)
            np.testing.assert_allclose(
                getattr(family, rule)(other).evidence(prepared), expected, rtol=1e-9
            )
        for key, value in family.describe(total).items():
            np.testing.assert_allclose(family.describe(other)[key], value, rtol=1e-9, atol=1e-10)


@NAMES
def test_moved_anchors_of_batches_add_up_to_those_of_the_total(name: str) -> None:
    rows = make_rows(4.0, "clusters")
    family, _ = make_case(name, rows, 0.01)
    empty = Summary(family.fields("component"), family.zeros(K))
    total, halves, hard = gather(family, rows, empty), [], np.eye(K)[LABELS]
    for at in (slice(0, 17), slice(17, None)):
        out = {field: array.copy() for field, array in empty.arrays.items()}
        family.mean_log(empty).collect(family.prepare(rows[at]), np.asfortranarray(hard[at]), out)
        halves.append(Summary(empty.layout, out))
    edit = Reanchor("anchor", np.random.default_rng(4).normal(size=(K, D)))
    found, expected = edit(halves[0]) + edit(halves[1]), edit(total)
    # rounding of 36 squares
    np.testing.assert_allclose(found["moments"], expected["moments"], rtol=1e-10, atol=1e-10)
    np.testing.assert_array_equal(found["anchor"], expected["anchor"])
