"""Restarts of documents, which try to do without their smallest topics."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import stickbreak as sb


def corpus() -> sparse.csr_array:
    """200 documents of 40 words from four topics over 30 words."""
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(30, 0.1), 4)
    shares = rng.dirichlet(np.full(4, 0.3), 200)
    return sparse.csr_array(np.array([rng.multinomial(40, mixed @ topics) for mixed in shares]))


@pytest.mark.filterwarnings("ignore::stickbreak.ConvergenceWarning")
@pytest.mark.parametrize("init", ["documents", "collapsed"])
def test_restarts_wait_until_documents_go_on_from_their_counts_and_are_recorded(init: str) -> None:
    """Earlier ones, while topics still move, take rare topics away from documents for good."""
    engine = sb.MemoizedVB(n_batches=2, max_iter=60, tol=0.0, moves=None)
    how = {"init": init, "inference": engine, "random_state": 0}
    plain, better = (
        sb.LatentDirichletAllocation(4, restarts=n, **how).fit(corpus()).trace_ for n in (0, 3)
    )
    assert np.isnan(plain.acceptance).all()
    tried = np.flatnonzero(~np.isnan(better.acceptance))
    assert len(tried)
    first = int(tried[0])
    assert (first > 0) == (init == "documents")  # sweeps leave counts to go on from
    np.testing.assert_array_equal(better.bound[:first], plain.bound[:first])
    assert (np.diff(better.bound) >= -1e-10 * abs(better.bound[-1])).all()
    assert 0.0 <= np.nanmin(better.acceptance) <= np.nanmax(better.acceptance) <= 1.0
