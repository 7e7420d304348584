"""What the default suite leaves out is slow, and every value, or pair of values, is left in."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from selecting import cover, in_turn

pytest_plugins = ["pytester"]

AXES = {"family": "abcdefg", "engine": "xyz", "n_batches": (1, 3)}
CASES = [frozenset(zip(AXES, values, strict=True)) for values in itertools.product(*AXES.values())]


@pytest.mark.parametrize("strength", [1, 2])
@pytest.mark.parametrize("name", ["test_bound", "test_files"])
def test_every_combination_of_values_is_held(name, strength):
    taken = cover(CASES, strength, in_turn(name, len(CASES)))
    held = {c for i in taken for c in itertools.combinations(sorted(CASES[i], key=repr), strength)}
    all_ = {c for case in CASES for c in itertools.combinations(sorted(case, key=repr), strength)}
    assert held == all_
    # 7 values, or 7 x 3 pairs, need as many cases; the greedy choice takes few more
    assert len(taken) <= {1: 7, 2: 24}[strength]
    assert len(set(taken)) == len(taken)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 12, 48])
def test_names_begin_at_different_places_and_visit_all(n):
    orders = [in_turn(name, n) for name in map(str, range(50))]
    assert all(sorted(order) == list(range(n)) for order in orders)
    assert len({order[0] for order in orders}) > n // 2
    assert in_turn("5", n) == in_turn("5", n)


SUITE = """
import pytest

@pytest.mark.few(2)
@pytest.mark.parametrize("name", "abcdef")
def test_few(name): ...

@pytest.mark.covering
@pytest.mark.parametrize("name", [[], {}, [], {}, [], {}])  # compared by what they are, not equal
@pytest.mark.parametrize("n", [1, 2, pytest.param(3, marks=pytest.mark.slow)])
def test_covering(name, n): ...

def test_plain(): ...
"""


def test_no_case_is_lost(pytester):
    pytester.makeconftest((Path(__file__).parent / "conftest.py").read_text())
    pytester.makepyfile(SUITE)
    seen = {}
    for marks in ("slow", "not slow"):
        result = pytester.runpytest_inprocess("-m", marks)
        seen[marks] = result.parseoutcomes()["passed"]
    assert seen == {"not slow": 2 + 6 + 1, "slow": 4 + 12}
