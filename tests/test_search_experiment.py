"""The generators of hard chains, and the table of searches on a tiny one."""

from __future__ import annotations

import numpy as np
import pytest

from experiments import search_chains
from experiments.chain_problems import PROBLEMS, fast, symbols

pytestmark = pytest.mark.slow  # what experiments print, not what the library does

GENERATED = [name for name in PROBLEMS if not name.startswith("sentences")]


@pytest.mark.parametrize("name", GENERATED)
def test_problems_are_the_same_for_a_seed_and_differ_between_seeds(name: str) -> None:
    first, again, other = (PROBLEMS[name](seed) for seed in (0, 0, 1))
    assert np.array_equal(np.concatenate(first.rows), np.concatenate(again.rows))
    assert not np.array_equal(np.concatenate(first.rows), np.concatenate(other.rows))
    assert [len(part) for part in first.rows] == [len(path) for path in first.truth]
    assert all(np.isfinite(part).all() for part in first.rows)


def test_symbols_have_the_sizes_that_the_table_names() -> None:
    problem = symbols(0)
    assert len(problem.rows) == 40
    assert {len(part) for part in problem.rows} == {500}
    assert problem.n_states == 8
    assert np.concatenate(problem.rows).max() < 200


def test_a_tiny_table_has_our_starts_and_the_peer() -> None:
    pytest.importorskip("hmmlearn")
    rows = search_chains.rows_of("fast", 1, lambda seed: fast(seed, 4, 60))
    kinds = ["auto", "blocks", "collapsed", "hmmlearn's GaussianHMM"]
    assert [row.what for row in rows] == [f"fast: {kind}" for kind in kinds]
    assert "of 1; gap" in rows[0].ours
