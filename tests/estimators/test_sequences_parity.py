"""Equality with hmmlearn: likelihoods, posteriors, best paths of the same parameters, and EM from
the same start.

Its priors and floors are switched off, ours are next to nothing: modes are then maximum likelihood.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import stickbreak as sb

hmm = pytest.importorskip("hmmlearn.hmm", reason="needs hmmlearn (extra test)")

K, TINY = 4, 1e-250
LENGTHS = [40, 1, 25, 60, 7]
FLAT: dict[str, Any] = {
    "gaussian": sb.Gaussian(mean=0.0, mean_strength=1e-15, dof=4.0, covariance=1e-15),
    "diagonal": sb.DiagonalGaussian(mean=0.0, mean_strength=1e-15, dof=3.0, variance=1e-15),
    "categorical": sb.Categorical(concentration=TINY),
    "poisson": sb.Poisson(shape=TINY, rate=TINY),
}


def make_rows(name: str, seed: int) -> np.ndarray:
    """Rows of a chain whose states overlap, so that posteriors stay soft."""
    rng = np.random.default_rng(seed)
    stays = np.concatenate([np.repeat(rng.integers(K, size=n), 5)[:n] for n in LENGTHS])
    if name == "categorical":
        return np.where(rng.random(len(stays)) < 0.6, stays, rng.integers(6, size=len(stays)))[
            :, None
        ]
    if name == "poisson":
        return rng.poisson(np.array([[6.0, 20.0], [12.0, 8.0], [20.0, 22.0], [8.0, 30.0]])[stays])
    return np.array([[0.0, 0.0], [2.0, 0.5], [0.0, 3.0], [-2.0, 1.0]])[stays] + rng.normal(
        size=(len(stays), 2)
    )


def fit_ours(name: str, rows: np.ndarray, laps: int) -> sb.HMM:
    engine = sb.EM(max_iter=laps, tol=0.0)
    model = sb.HMM(
        K,
        family=FLAT[name],
        inference=engine,
        concentration=TINY,
        start_concentration=TINY,
        init="k-means++",
        random_state=0,
    )
    with pytest.warns(sb.ConvergenceWarning):
        return model.fit(rows, lengths=LENGTHS)


def modes(ours: sb.HMM) -> np.ndarray:
    """Covariances, or variances, where the posterior is highest: scatter over rows, as maximum
    likelihood has them.
    """
    rows = ours.counts_[:, None, None] if ours.covariances_.ndim == 3 else ours.counts_[:, None]
    return ours.covariances_ * (rows + 1.0) / rows  # expectations have one more row


def make_theirs(name: str, ours: sb.HMM, n_iter: int = 1) -> Any:
    """hmmlearn's model with our parameters."""
    settings = {"init_params": "", "n_iter": n_iter, "tol": -np.inf}
    summary = ours.posterior_
    if name == "categorical":
        theirs = hmm.CategoricalHMM(K, **settings)
        theirs.emissionprob_ = summary["probability"][:, 0]
    elif name == "poisson":
        theirs = hmm.PoissonHMM(K, lambdas_prior=0.0, lambdas_weight=0.0, **settings)
        theirs.lambdas_ = summary["rate"]
    else:
        kind = "full" if name == "gaussian" else "diag"
        theirs = hmm.GaussianHMM(
            K,
            covariance_type=kind,
            means_weight=0.0,
            covars_prior=0.0,
            covars_weight=0.0,
            **settings,
        )
        theirs.means_ = summary["mean"]
        theirs.covars_ = modes(ours)
    theirs.startprob_, theirs.transmat_ = ours.startprob_, ours.transmat_
    return theirs


@pytest.mark.parametrize("name", FLAT)
def test_likelihoods_posteriors_and_best_paths_are_the_same(name):
    rows, new = make_rows(name, 1), make_rows(name, 2)
    ours = fit_ours(name, rows, 4)
    theirs = make_theirs(name, ours)
    if name == "categorical":
        theirs.n_features = theirs.emissionprob_.shape[1]
    log_z, shares = theirs.score_samples(new, LENGTHS)
    fitted, table = ours._use(ours._given(new, lengths=LENGTHS))
    assert fitted.model.log_evidence(fitted.potentials(), table.whole()).sum() == pytest.approx(
        log_z, rel=1e-8
    )
    np.testing.assert_allclose(ours.predict_proba(new, lengths=LENGTHS), shares, atol=1e-8)
    value, path = theirs.decode(new, LENGTHS)
    found = ours.decode(new, lengths=LENGTHS)
    assert found[0] == pytest.approx(value, rel=1e-8)
    np.testing.assert_array_equal(found[1], path)
    np.testing.assert_array_equal(
        ours.predict(new, lengths=LENGTHS), theirs.predict_proba(new, LENGTHS).argmax(1)
    )


@pytest.mark.parametrize("name", FLAT)
def test_em_from_the_same_start_gives_the_same_parameters(name):
    rows = make_rows(name, 1)
    ours = fit_ours(name, rows, 11)
    theirs = make_theirs(name, fit_ours(name, rows, 1), n_iter=10).fit(rows, LENGTHS)
    np.testing.assert_allclose(ours.startprob_, theirs.startprob_, atol=1e-8)
    np.testing.assert_allclose(ours.transmat_, theirs.transmat_, atol=1e-8)
    if name == "categorical":
        np.testing.assert_allclose(
            ours.posterior_["probability"][:, 0], theirs.emissionprob_, atol=1e-8
        )
    elif name == "poisson":
        np.testing.assert_allclose(ours.posterior_["rate"], theirs.lambdas_, rtol=1e-8)
    else:
        np.testing.assert_allclose(ours.means_, theirs.means_, rtol=1e-8, atol=1e-8)
        covariance = theirs.covars_ if name == "gaussian" else np.einsum("kdd->kd", theirs.covars_)
        np.testing.assert_allclose(modes(ours), covariance, rtol=1e-7, atol=1e-8)
