"""Trials of moves run where laps do."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import stickbreak as sb
from stickbreak.data import batches
from stickbreak.inference.remote import pool

N_SEQUENCES, LENGTH = 60, 100


def sequences() -> np.ndarray[Any, Any]:
    """Rows of chains whose states stay for a while."""
    rng = np.random.default_rng(0)
    means, rows = 4.0 * rng.standard_normal((5, 3)), []
    for _ in range(N_SEQUENCES):
        begins = np.cumsum(rng.random(LENGTH) < 0.1)
        rows.append(means[rng.integers(0, 5, LENGTH)[begins]] + rng.standard_normal((LENGTH, 3)))
    return np.concatenate(rows)


@pytest.mark.filterwarnings("ignore::stickbreak.ConvergenceWarning")
def test_workers_infer_at_least_95_percent_of_all_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of all lanes, of laps and of trials. Samples stay on the driver: they are no passes."""
    monkeypatch.setattr(batches, "ORDERED_ROWS", 1000)
    monkeypatch.setattr(batches, "LANE_UNITS", 2)
    rows: Counter[bool] = Counter()
    is_worth = pool._is_worth

    def watched(jobs: list[Any]) -> bool:
        found = is_worth(jobs)
        rows[found] += sum(b.n_rows for b in map(pool._batch_of, jobs) if b is not None)
        return found

    monkeypatch.setattr(pool, "_is_worth", watched)
    engine = sb.MemoizedVB(n_batches=2, max_iter=40)
    with sb.workers(lambda: ThreadPoolExecutor(2)):
        model = sb.HDPHMM(random_state=0, inference=engine)
        model.fit(sequences(), lengths=[LENGTH] * N_SEQUENCES)
    passes = (rows[True] + rows[False]) / (N_SEQUENCES * LENGTH)
    assert any(move.is_accepted for move in model.trace_.moves)
    assert passes > 1.5 * len(model.trace_)  # trials take many
    assert rows[True] >= 0.95 * (rows[True] + rows[False])
