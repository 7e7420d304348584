"""The experiments on numbers of states, at tiny sizes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest

from experiments import absent_steps, frame, learned_bases, many_states, state_counting

pytestmark = pytest.mark.slow  # what experiments print, not what the library does


def test_data_are_those_of_the_published_chains() -> None:
    data = state_counting.draw_data("stays", 0, 50, 200)
    symbols = data.rows.reshape(50, 200)
    # the state is told by two symbols in a row that only one state has both of
    alike = [np.isin(pair, state_counting.WORDS[k]).all() for pair in
             pairwise(symbols[0]) for k in range(4)]  # fmt: skip
    assert np.reshape(alike, (199, 4)).any(1).mean() > 0.9
    assert np.bincount(data.rows[:, 0], minlength=8).min() > 0
    grammar = state_counting.draw_data("grammar", 0, 60, 30).rows.reshape(60, 30)
    cycles = [len(set(row[:3])) == 3 and (row[3:] == row[:-3]).all() for row in grammar]
    coins = [row.max() == 1 for row in grammar]
    assert all(a or b for a, b in zip(cycles, coins, strict=True))
    assert 10 <= sum(coins) <= 30  # a third of 60, three standard deviations


@pytest.mark.slow  # half a minute to compile
@pytest.mark.parametrize("name", ["tables", "tables after 50 draws, merges", "beam"])
def test_states_are_counted(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_counting, "LAPS", (2, 3))
    task = state_counting.Task(state_counting.draw_data("stays", 0, 6, 20), 3, 0)
    found = state_counting.timed(state_counting.PLAN[name][0], task)
    assert 1 <= found.states[-1] <= 3
    assert np.isfinite(found.log_z)
    assert "stays" in state_counting.row_of(name, "stays", [found]).what


def test_absent_steps_of_a_short_chain_are_those_of_all_paths() -> None:
    rng = np.random.default_rng(0)
    first, steps = absent_steps.random_chain(4, 3, rng)
    found, wanted = absent_steps.infer_absent(first, steps, rng), np.zeros((3, 3))
    for path in product(range(3), repeat=4):
        weight = first[path[0]] * np.prod([s[a, b] for s, (a, b) in
                                           zip(steps, pairwise(path), strict=True)])  # fmt: skip
        lacks = np.ones((3, 3))
        for a, b in pairwise(path):
            lacks[a, b] = 0.0
        wanted += weight * lacks
    np.testing.assert_allclose(np.exp(found.exact), wanted, rtol=1e-12)
    assert found.errors()["independent"] < found.errors()["100 draws"] + 0.1


@pytest.mark.slow  # kernels of four ways are compiled
def test_every_way_is_taken_at_the_same_posteriors(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "sequences" / "misc"  # type: ignore[operator]
    folder.mkdir(parents=True)
    (folder / "alice.txt").write_text("title\n*** START OF IT ***\nAlice was, in Wonder-\nland!")
    monkeypatch.setenv("STICKBREAK_DATA", str(tmp_path))
    data = absent_steps.read_letters(20)
    assert data.rows[:7, 0].tolist() == [1, 12, 9, 3, 5, 0, 23]
    found = absent_steps.follow_letters(data, 2, (1, 2))
    assert set(found) == {1, 2}
    assert set(found[2].errors()) == {"independent", "mean-field", "100 draws", "1000 draws"}
    assert max(found[2].errors().values()) < 0.2


@pytest.mark.parametrize(("plan", "n"), [(many_states.plan, 4), (many_states.stochastic_plan, 2)])
def test_many_states_are_measured(plan: Callable[[int], dict[str, Any]], n: int) -> None:
    rows = many_states.compare(6, 4, plan)
    assert len(rows) == n
    assert all("symbols a CPU second" in row.ours for row in rows)


def test_bases_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(frame.QUICK, "1")
    train, test, n = learned_bases.encode([["a", "b", "a"], ["b", "c"]] * 3, [["c", "new", "a"]])
    assert n == 4
    assert test[0][:, 0].tolist() == [3, 0, 1]
    rows = learned_bases.compare(train, test, n, 2, 3)
    assert all("nats a word" in row.ours for row in rows)
    assert len(rows) == 3 + 2 + 3
    assert ["strength" in row.ours for row in rows].count(True) == 1
