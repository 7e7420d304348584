"""DP Gaussian mixtures at a fixed truncation of 25 on faithful and asterisk: what the best tools reach there."""

from __future__ import annotations

import warnings

import numpy as np

import stickbreak as sb

from .frame import Experiment, Row, data_folder

SEEDS = range(10)


def load_faithful() -> tuple[np.ndarray, np.ndarray]:
    """Standardized with the moments of all 272 rows; every tenth row is held out."""
    text = (data_folder() / "mixtures" / "faithful.csv").read_text().replace("\r", "\n")
    lines = [line.split(",") for line in text.splitlines() if line.strip()]
    X = np.array([[float(v) for v in line] for line in lines if _is_number(line[0])])[:, -2:]
    return _split((X - X.mean(0)) / X.std(0))


def _is_number(text: str) -> bool:
    return text.strip().strip('"').replace(".", "", 1).replace("-", "", 1).isdigit()


def load_asterisk() -> tuple[np.ndarray, np.ndarray]:
    """5,000 rows, 8 clusters; every tenth row is held out."""
    with np.load(data_folder() / "mixtures" / "asterisk_k8.npz", allow_pickle=False) as found:
        return _split(found["X"])


def _split(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    held_out = np.arange(len(X)) % 10 == 9
    return X[~held_out], X[held_out]


def fit_seeds(train: np.ndarray, test: np.ndarray, concentration: float, variance: float) -> list[tuple[float, float, int]]:
    """Bound, held-out score and components with a row, for each seed."""
    family = sb.Gaussian(mean=0.0, mean_strength=1e-4, dof=train.shape[1] + 2.0, covariance=variance)
    found = []
    for seed in SEEDS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", sb.ConvergenceWarning)
            engine = sb.MemoizedVB(max_iter=1000, tol=1e-7)
            model = sb.DPMixture(25, family=family, concentration=concentration, inference=engine, random_state=seed).fit(train)
        drop = -np.diff(model.trace_.bound).min() / max(1.0, abs(model.lower_bound_))
        assert drop <= 1e-10, f"the bound dropped by {drop:.2e}"
        found.append((model.lower_bound_, model.score(test), model.n_effective_))
    return found


def run() -> Experiment:
    """Ten seeds on each set; priors as the anchors have them."""
    rows = []
    for name, load, concentration, anchor, held_out in (
        ("faithful", load_faithful, 1.0, "-441.45 .. -402.62", "-1.3422 .. -1.3217"),
        ("asterisk", load_asterisk, 5.0, "341.04", "0.2392"),
    ):
        train, test = load()
        found = fit_seeds(train, test, concentration, 0.1)
        bounds, scores, used = (np.array(column) for column in zip(*found, strict=True))
        span = lambda values, digits: f"{values.min():.{digits}f} .. {values.max():.{digits}f}"
        rows.append(Row(f"{name}: bound (nats)", span(bounds, 2), "", f"scikit-learn {anchor}"))
        rows.append(Row(f"{name}: held-out log predictive per row", span(scores, 4), "", f"scikit-learn {held_out}"))
        rows.append(Row(f"{name}: components with a row", f"{used.min()} .. {used.max()}"))
    setting = (
        "Dirichlet process Gaussian mixture, truncation 25, ten seeds; Normal-Wishart prior with mean 0, strength 1e-4, "
        "D + 2 degrees of freedom, expected covariance 0.1 I. Peer: BayesianGaussianMixture with the same priors, three seeds."
    )
    return Experiment("DP Gaussian mixture at a fixed truncation", setting, rows)
