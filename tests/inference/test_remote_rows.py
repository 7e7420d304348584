"""Who reads the rows of shards: the workers; the driver reads samples alone."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stickbreak as sb
from stickbreak.data import ShardRows, batches, scale
from stickbreak.inference import collapsed
from stickbreak.inference.remote import pool

RNG = np.random.default_rng(0)
X = RNG.choice([-5.0, 0.0, 5.0], (3000, 1)) + RNG.standard_normal((3000, 2))
LENGTHS = [50] * 60
pytestmark = pytest.mark.filterwarnings("ignore::stickbreak.ConvergenceWarning")


@pytest.fixture
def shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Five files of 600 rows, in lanes of 150."""
    monkeypatch.setattr(batches, "SHARD_LANE_ROWS", 150)
    monkeypatch.setattr(scale, "SCAN_VALUES", 800)
    for i in range(5):
        np.save(tmp_path / f"rows{i}.npy", X[600 * i : 600 * i + 600])
    return sb.open_shards(str(tmp_path / "*.npy"))


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Rows that were read, "here" in the driver's thread and "there" by workers."""
    found: Counter[str] = Counter()
    load = ShardRows.load

    def watched(self: ShardRows) -> Any:
        is_here = threading.current_thread() is threading.main_thread()
        found["here" if is_here else "there"] += len(self)
        return load(self)

    monkeypatch.setattr(ShardRows, "load", watched)
    return found


FITS: dict[str, Callable[[Any], Any]] = {
    "mixture": lambda X: sb.Mixture(3, max_iter=3, random_state=0).fit(X),
    "k-means||": lambda X: sb.Mixture(3, max_iter=3, init="k-means||", random_state=0).fit(X),
    "missing": lambda X: sb.Mixture(
        3, family="diagonal", max_iter=2, init="k-means||", random_state=0
    ).fit(X),
    "stochastic": lambda X: sb.Mixture(
        3, inference=sb.StochasticVB(batch_size=300, max_iter=2), random_state=0
    ).fit(X),
    "chain": lambda X: sb.HMM(3, max_iter=3, random_state=0).fit(X, lengths=LENGTHS),
    "chain with trials": lambda X: sb.HDPHMM(max_iter=25, random_state=0).fit(X, lengths=LENGTHS),
}


@pytest.mark.parametrize("name", FITS)
def test_workers_read_all_rows_and_the_driver_samples_alone(
    name: str, shards: Any, read: Counter[str]
) -> None:
    with sb.workers(lambda: ThreadPoolExecutor(2)):
        found = FITS[name](shards)
    assert read["here"] <= 10  # the first row, to count columns
    assert read["there"] >= 3 * len(X)
    here = FITS[name](shards)
    assert found.lower_bound_ == here.lower_bound_


def test_answers_check_rows_where_they_are_read(shards: Any, read: Counter[str]) -> None:
    model = sb.Mixture(2, random_state=0, max_iter=2).fit(X)
    read.clear()
    with sb.workers(lambda: ThreadPoolExecutor(2)):
        labels = model.predict(shards)
    assert read["here"] <= 10
    np.testing.assert_array_equal(labels, model.predict(X))


def test_collapsed_sweeps_have_as_many_lanes_as_shards_give(
    shards: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collapsed, "SWEEP_ROWS", 150)
    lanes: list[int] = []
    sweep = collapsed._sweep_lane
    monkeypatch.setattr(
        collapsed,
        "_sweep_lane",
        lambda m, c, p, job: lanes.append(job[0].n_rows) or sweep(m, c, p, job),
    )
    engine = sb.CollapsedVB(max_iter=2, tol=0)
    fit = lambda rows: sb.Mixture(3, init="k-means++", random_state=0, inference=engine).fit(rows)
    here = fit(shards)
    assert lanes.count(150) == 2 * len(X) // 150
    lanes.clear()
    fit(X)
    assert len(lanes) == 2 * collapsed.MAX_LANES
    with sb.workers(lambda: ThreadPoolExecutor(2)):
        assert fit(shards).lower_bound_ == here.lower_bound_


@pytest.mark.parametrize("n_workers", [0, 2])
def test_a_refused_row_is_named_by_shard_and_row(
    n_workers: int, shards: Any, tmp_path: Path
) -> None:
    rows = X[1200:1800].copy()
    rows[123, 1] = np.inf
    np.save(tmp_path / "rows2.npy", rows)
    broken = sb.open_shards(str(tmp_path / "*.npy"))
    model = sb.Mixture(2, random_state=0, max_iter=2).fit(X)
    told = r"^shard \S*rows2\.npy, row 123, column 1 is inf"
    for act in (sb.Mixture(2).fit, model.predict):
        if n_workers:
            with sb.workers(lambda: ThreadPoolExecutor(2)), pytest.raises(ValueError, match=told):
                act(broken)
        else:
            with pytest.raises(ValueError, match=told):
                act(broken)


def test_scales_of_shards_are_those_of_the_table(shards: Any) -> None:
    for family in ("gaussian", "diagonal"):
        one = sb.Mixture(2, family=family, max_iter=1, random_state=0).fit(X).family_
        two = sb.Mixture(2, family=family, max_iter=1, random_state=0).fit(shards).family_
        assert repr(one) == repr(two)


def test_tasks_are_called_what_they_do(shards: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    names: set[str] = set()
    of = pool.Packed.of
    monkeypatch.setattr(
        pool.Packed, "of", lambda call: names.add((found := of(call)).name) or found
    )
    with sb.workers(lambda: ThreadPoolExecutor(2)):
        FITS["k-means||"](shards).predict(shards)
        FITS["chain with trials"](shards)
    assert {"measure", "measure_spread", "seed", "infer", "trial", "decode", "check"} <= names
