"""The number of BLAS threads changes no bit: sums that depend on it are made by one thread."""

from __future__ import annotations

import numpy as np
import pytest
import threadpoolctl
from scipy import sparse

import stickbreak as sb


def rows(n: int = 40_000, n_columns: int = 1) -> np.ndarray:
    """Enough rows that BLAS divides its sums among threads."""
    rng = np.random.default_rng(0)
    return 3.0 * rng.normal(size=(3, n_columns))[np.arange(n) // 100 % 3] + rng.normal(
        size=(n, n_columns)
    )


def counts(n: int = 3_000) -> sparse.csr_array:
    return sparse.csr_array(np.random.default_rng(1).poisson(0.5, (n, 40)))


def of_mixture() -> dict[str, np.ndarray]:
    model = sb.Mixture(3, random_state=0, inference=sb.BatchVB(max_iter=2, tol=1.0)).fit(rows())
    return {
        "center": model.family_.center,
        "scale": model.family_.scale,
        "bound": model.lower_bound_,
        "means": model.means_,
        "covariances": model.covariances_,
        "score": model.score(rows()),
        "shares": model.predict_proba(rows()),
    }


def of_regression() -> dict[str, np.ndarray]:
    engine = sb.BatchVB(max_iter=2, tol=1.0)
    model = sb.HMM(2, family="autoregressive", random_state=0, inference=engine).fit(rows())
    return {
        "center": model.family_.center,
        "scale": model.family_.scale,
        "bound": model.lower_bound_,
        "score": model.score(rows()),
        "forecast": model.forecast(rows(), 3).states,
    }


def of_topics() -> dict[str, np.ndarray]:
    engine = sb.BatchVB(max_iter=2, tol=1.0)
    model = sb.LatentDirichletAllocation(4, random_state=0, inference=engine).fit(counts())
    return {
        "bound": model.lower_bound_,
        "topics": model.topic_word_,
        "score": model.score(counts()),
        "perplexity": model.perplexity(counts()),
        "shares": model.transform(counts()),
    }


def of_stream() -> dict[str, np.ndarray]:
    model = sb.Mixture(3, random_state=0).partial_fit(rows())
    return {"center": model.family_.center, "means": model.means_}


@pytest.mark.few(2)
@pytest.mark.parametrize("answers", [of_mixture, of_regression, of_topics, of_stream])
def test_same_bits_for_one_and_two_threads(answers):
    found = []
    for n_threads in (1, 2):
        with threadpoolctl.threadpool_limits(n_threads, user_api="blas"):
            found.append(answers())
    for name, value in found[0].items():
        np.testing.assert_array_equal(value, found[1][name], err_msg=name)
