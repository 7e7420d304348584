"""Equality with scikit-learn's BayesianGaussianMixture (full covariance, reg_covar=0), for both
priors on the weights.

Our prior: mean, mean_strength, dof, covariance = E[Sigma] = B / (dof - D - 1); theirs holds B
itself. Our Dirichlet has the total mass `concentration`, theirs the mass of one component.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from registers import random_shares
from sklearn.cluster import KMeans
from sklearn.mixture import BayesianGaussianMixture
from threadpoolctl import threadpool_limits

import stickbreak as sb
from stickbreak.data import Table, measure
from stickbreak.inference import Start, run
from stickbreak.models import dp_mixture, finite_mixture
from stickbreak.stats import Summary

D, K, CONCENTRATION = 3, 5, 1.7
MEAN, STRENGTH, DOF = np.array([0.5, -1.0, 2.0]), 0.3, 5.5
B = np.array([[2.0, 0.3, -0.1], [0.3, 1.5, 0.2], [-0.1, 0.2, 0.9]])
KINDS = ("dirichlet_distribution", "dirichlet_process")


def make_rows(n: int, seed: int) -> np.ndarray:
    """Five overlapping groups: responsibilities stay soft."""
    rng = np.random.default_rng(seed)
    centers = np.array([[0, 0, 0], [3, 0, 1], [0, 4, -1], [-3, 2, 3], [2, -3, 2.0]])
    skew = np.array([[1.0, 0.4, 0.0], [0.0, 0.8, -0.3], [0.2, 0.0, 1.2]])
    return centers[rng.integers(0, 5, n)] + rng.normal(size=(n, 3)) @ skew


X, X_NEW = make_rows(400, 1), make_rows(2000, 2)
SHARES = random_shares(len(X), K, 3)


def make_ours(kind: str):
    """The model with the same prior, resolved on X."""
    family = sb.Gaussian(
        mean=MEAN, mean_strength=STRENGTH, dof=DOF, covariance=B / (DOF - D - 1)
    ).resolve(measure(Table(X)))
    return (dp_mixture if kind == "dirichlet_process" else finite_mixture)(family, CONCENTRATION)


def make_theirs(kind: str) -> BayesianGaussianMixture:
    """Their estimator, ready for `_m_step`."""
    weight = CONCENTRATION if kind == "dirichlet_process" else CONCENTRATION / K
    theirs = BayesianGaussianMixture(
        n_components=K, covariance_type="full", reg_covar=0.0,
        weight_concentration_prior_type=kind, weight_concentration_prior=weight,
        mean_precision_prior=STRENGTH, mean_prior=MEAN, degrees_of_freedom_prior=DOF,
        covariance_prior=B,
    )  # fmt: skip
    theirs._check_parameters(X)
    return theirs


def count(model, shares: np.ndarray) -> Summary:
    """Counts of X under responsibilities (n, K)."""
    empty = model.zeros(shares.shape[1])
    out = dict(empty.arrays)
    model.family.mean_log(empty).collect(model.family.prepare(X), np.asfortranarray(shares), out)
    out["share"] += shares.sum(0)
    return Summary(empty.layout, out, n_units=float(len(X)))


def our_posterior(model, counts: Summary) -> SimpleNamespace:
    """Posterior parameters under scikit-learn's names, in the user's units."""
    family = model.family
    q = family._posterior(counts)
    scatter = q.factor @ q.factor.transpose(0, 2, 1) * np.outer(family.scale, family.scale)
    return SimpleNamespace(
        means_=(q.anchor + q.mean) * family.scale + family.center,
        mean_precision_=q.strength,
        degrees_of_freedom_=q.dof,
        covariances_=scatter / q.dof[:, None, None],
    )


def our_weights(model, counts: Summary, kind: str) -> np.ndarray:
    if kind == "dirichlet_process":
        return np.stack(model.prior._beta(counts))
    return counts["share"] + CONCENTRATION / K


def counts_of(model, theirs: BayesianGaussianMixture, kind: str) -> Summary:
    """scikit-learn's posterior parameters as our counts: what the data must have added to the
    prior.
    """
    family, zeros = model.family, model.zeros(K)
    prior_mean, scales = (MEAN - family.center) / family.scale, np.outer(family.scale, family.scale)
    mean = (theirs.means_ - family.center) / family.scale
    strength, n = theirs.mean_precision_, theirs.degrees_of_freedom_ - DOF
    first = strength[:, None] * mean - STRENGTH * prior_mean
    grown = (theirs.covariances_ * theirs.degrees_of_freedom_[:, None, None] - B) / scales
    second = (
        grown
        + np.einsum("k,kd,ke->kde", strength, mean, mean)
        - STRENGTH * np.outer(prior_mean, prior_mean)
    )
    packed = second[:, *np.triu_indices(D)]
    weight = theirs.weight_concentration_
    share = weight[0] - 1.0 if kind == "dirichlet_process" else weight - CONCENTRATION / K
    arrays = {**zeros.arrays, "moments": np.column_stack([n, first, packed]), "share": share}
    return Summary(zeros.layout, arrays, n_units=float(len(X)))


def held_out(model, counts: Summary) -> float:
    """Mean log predictive density of new rows: the one function that scores both."""
    potentials = model.predictive(counts, model.start_params(K))
    return float(model.log_evidence(potentials, Table(X_NEW).whole()).mean())


@pytest.mark.parametrize("kind", KINDS)
def test_same_responsibilities_give_the_same_posterior(kind):
    theirs, model = make_theirs(kind), make_ours(kind)
    theirs._m_step(X, np.log(SHARES))
    counts = count(model, SHARES)
    ours = our_posterior(model, counts)
    for name, value in vars(ours).items():
        np.testing.assert_allclose(value, getattr(theirs, name), rtol=1e-8, atol=1e-8, err_msg=name)
    np.testing.assert_allclose(
        our_weights(model, counts, kind), theirs.weight_concentration_, rtol=1e-8, atol=1e-8
    )


@pytest.mark.parametrize("kind", KINDS)
def test_their_posterior_as_our_counts_is_the_same_counts(kind):
    theirs, model = make_theirs(kind), make_ours(kind)
    theirs._m_step(X, np.log(SHARES))
    mine, converted = count(model, SHARES), counts_of(model, theirs, kind)
    for name in ("share", "moments"):
        np.testing.assert_allclose(converted[name], mine[name], rtol=1e-8, atol=1e-8, err_msg=name)
    assert held_out(model, converted) == pytest.approx(held_out(model, mine), abs=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_same_posterior_gives_the_same_responsibilities(kind):
    theirs, model = make_theirs(kind), make_ours(kind)
    theirs._m_step(X, np.log(SHARES))
    _, log_shares = theirs._e_step(X)
    rule = sb.BatchVB().rule()
    potentials = model.potentials(count(model, SHARES), model.start_params(K), rule)
    np.testing.assert_allclose(
        model.shares(potentials, Table(X).whole()), np.exp(log_shares), rtol=1e-8, atol=1e-10
    )


def start_shares(seed: int) -> np.ndarray:
    """(n, K) responsibilities of a k-means labelling, as scikit-learn starts; never zero, since it
    takes their logarithm.
    """
    labels = KMeans(K, n_init=1, random_state=seed).fit(X).labels_
    shares = np.full((len(X), K), 1e-12)
    shares[np.arange(len(X)), labels] = 1.0
    return shares / shares.sum(1, keepdims=True)


def converge_theirs(kind: str, shares: np.ndarray) -> BayesianGaussianMixture:
    theirs = make_theirs(kind)
    theirs._m_step(X, np.log(shares))
    before = -np.inf
    with threadpool_limits(1):  # tiny products: more threads only wait for each other
        for _ in range(2000):
            _, log_shares = theirs._e_step(X)
            theirs._m_step(X, log_shares)
            now = theirs._compute_lower_bound(log_shares, None)
            if abs(now - before) < 1e-12:
                return theirs
            before = now
    raise AssertionError("scikit-learn's steps did not settle")


def converge_ours(model, shares: np.ndarray, *, reorder: bool = False):
    start = Start(count(model, shares), model.start_params(K))
    result = run(model, sb.BatchVB(max_iter=2000, tol=1e-14, reorder=reorder), Table(X), start)
    assert result.is_converged
    return result


@pytest.mark.slow
@pytest.mark.parametrize("start", ["random", "k-means 0"])
@pytest.mark.parametrize("kind", KINDS)
def test_converged_from_the_same_start_ours_predicts_no_worse(kind, start):
    shares = SHARES if start == "random" else start_shares(int(start[-1]))
    model = make_ours(kind)
    theirs = counts_of(model, converge_theirs(kind, shares), kind)
    ours = converge_ours(model, shares).counts
    assert held_out(model, ours) >= held_out(model, theirs) - 1e-6
    # the same optimum, not just a good one
    assert held_out(model, ours) == pytest.approx(held_out(model, theirs), abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_sticks_in_order_of_size_reach_a_better_bound(seed):
    """What ours adds: from a labelling, the same steps with the largest stick first."""
    model, shares = make_ours("dirichlet_process"), start_shares(seed)
    assert converge_ours(model, shares, reorder=True).bound > converge_ours(model, shares).bound


@pytest.mark.parametrize("kind", KINDS)
def test_the_estimator_scores_new_rows_as_the_model_does(kind):
    """The public path: the same prior given to the estimator, fitted from its own start."""
    cls = sb.DPMixture if kind == "dirichlet_process" else sb.Mixture
    family = sb.Gaussian(mean=MEAN, mean_strength=STRENGTH, dof=DOF, covariance=B / (DOF - D - 1))
    model = cls(
        K,
        family=family,
        concentration=CONCENTRATION,
        inference=sb.BatchVB(moves=None),
        random_state=0,
    ).fit(X)
    assert model.score(X_NEW) == pytest.approx(
        held_out(make_ours(kind), model._fitted.counts), abs=1e-10
    )
