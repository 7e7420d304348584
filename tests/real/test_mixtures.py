"""Real data, where it is: set STICKBREAK_DATA to its folder. Figures are those that the best
existing tools reach.
"""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import stickbreak as sb

DATA = os.environ.get("STICKBREAK_DATA")
pytestmark = pytest.mark.skipif(
    not DATA or not Path(DATA).is_dir(), reason="STICKBREAK_DATA names no folder of real data"
)


def split(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Every tenth row is held out."""
    held_out = np.arange(len(X)) % 10 == 9
    return X[~held_out], X[held_out]


@pytest.mark.parametrize(
    "engine",
    [
        sb.BatchVB(max_iter=500, tol=1e-7, moves=None),
        sb.MemoizedVB(n_batches=10, max_iter=500, tol=1e-7, moves=None),
    ],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_asterisk_reaches_the_best_known_bound(engine: sb.BatchVB, seed: int) -> None:
    with np.load(Path(str(DATA)) / "mixtures" / "asterisk_k8.npz", allow_pickle=False) as found:
        train, test = split(found["X"])
    family = sb.Gaussian(mean=0.0, mean_strength=1e-4, dof=4.0, covariance=0.1)
    model = sb.DPMixture(
        25, family=family, concentration=5.0, inference=engine, random_state=seed
    ).fit(train)
    assert model.n_effective_ == 8
    # the anchor is printed to two digits
    assert model.lower_bound_ == pytest.approx(341.04, abs=0.01)
    # the Student t predictive, printed to four digits
    assert model.score(test) == pytest.approx(0.2392, abs=5e-4)
    assert np.diff(model.trace_.bound).min() >= -1e-10 * abs(model.lower_bound_)


def read_docword(path: Path) -> sparse.csr_array:
    """UCI docword: three header lines, then document, word, count from 1."""
    with gzip.open(path, "rt") as file:
        n_documents, n_words, _ = (int(next(file)) for _ in range(3))
        d, w, c = np.loadtxt(file, dtype=np.int64).T
    return sparse.csr_array((c.astype(float), (d - 1, w - 1)), shape=(n_documents, n_words))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::stickbreak.errors.ConvergenceWarning")
def test_documents_cluster_sparsely_as_they_do_densely() -> None:
    """KOS, 3,430 documents of 6,906 words: memoized batches with their own vocabulary; sparse and
    dense agree; the bound rises.
    """
    X = read_docword(Path(str(DATA)) / "topics" / "kos" / "docword.kos.txt.gz")
    engine = sb.MemoizedVB(n_batches=10, max_iter=6, trace_visits=True, moves=None)
    model = sb.DPMixture(10, family="multinomial", inference=engine, random_state=0).fit(X)
    visits = np.array(model.trace_.visits)
    assert (np.diff(visits) >= -1e-10 * np.abs(visits[1:])).all()
    one = sb.Mixture(1, family="multinomial", inference="memoized").fit(X)
    # clusters explain newswire far better than one bag of words
    assert model.lower_bound_ > one.lower_bound_ + 10_000
    dense = sb.DPMixture(10, family="multinomial", inference=engine, random_state=0).fit(
        X[:300].toarray()
    )
    again = sb.DPMixture(10, family="multinomial", inference=engine, random_state=0).fit(X[:300])
    # the same sums in another order
    assert again.lower_bound_ == pytest.approx(dense.lower_bound_, rel=1e-10)
