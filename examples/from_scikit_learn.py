"""For those who come from scikit-learn's BayesianGaussianMixture: the same prior, argument by argument.

Both find local optima. With these rows and three starts they find the same one; fewer starts or rows can part them.
"""

from __future__ import annotations

import numpy as np
from sklearn.mixture import BayesianGaussianMixture
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import stickbreak as sb


def generate(seed: int) -> np.ndarray:
    """Rows (600, 3) of three clusters."""
    rng = np.random.default_rng(seed)
    centers = np.array([[0.0, 0.0, 0.0], [5.0, 1.0, -2.0], [-3.0, 4.0, 3.0]])
    return centers[rng.integers(3, size=600)] + rng.normal(size=(600, 3))


def main() -> None:
    rows, held_out = generate(0), generate(1)
    D, n_components, dof, scatter = rows.shape[1], 6, 6.0, np.eye(3)

    theirs = BayesianGaussianMixture(
        n_components=n_components,
        weight_concentration_prior_type="dirichlet_process",
        weight_concentration_prior=1.0,
        mean_precision_prior=0.5,
        mean_prior=rows.mean(axis=0),
        degrees_of_freedom_prior=dof,
        covariance_prior=scatter,
        reg_covar=0.0,
        max_iter=500,
        tol=1e-6,
        n_init=3,
        random_state=0,
    ).fit(rows)

    ours = sb.DPMixture(  # sb.Mixture for weight_concentration_prior_type="dirichlet_distribution", there
        n_components,  #     concentration = n_components * weight_concentration_prior
        concentration=1.0,  # weight_concentration_prior
        family=sb.Gaussian(
            mean_strength=0.5,  # mean_precision_prior
            mean=rows.mean(axis=0),  # mean_prior
            dof=dof,  # degrees_of_freedom_prior
            covariance=scatter / (dof - D - 1),  # covariance_prior is the Wishart's inverse scale; ours is the mean
        ),
        inference=sb.BatchVB(max_iter=500, tol=1e-7),  # tol: nats per row
        n_init=3,
        random_state=0,
    ).fit(rows)

    order = np.argsort(-theirs.weights_)[:3]  # here the largest component comes first
    print("weights:", ours.weights_[:3].round(3), "here,", theirs.weights_[order].round(3), "there")
    print("largest difference of the means:", f"{np.abs(ours.means_[:3] - theirs.means_[order]).max():.1e}")
    print(f"held-out score: {ours.score(held_out):.4f} here, {theirs.score(held_out):.4f} there")
    print("(here parameters are integrated out; scikit-learn takes expected logs, which is a little less)")
    print(f"bound: {ours.lower_bound_:.1f} nats with all constants; scikit-learn's leaves constants out: {theirs.lower_bound_:.1f}")

    pipeline = make_pipeline(StandardScaler(), sb.Mixture(3, random_state=0))
    print("in a pipeline:", np.unique(pipeline.fit_predict(rows)).size, "components in use")


if __name__ == "__main__":
    main()
