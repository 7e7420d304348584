"""Which cases of a test the default suite tries. The others become `slow`, and none is lost.

    @pytest.mark.covering        every value of every parameter, in as few cases as that takes
    @pytest.mark.covering(2)     every pair of values of two parameters
    @pytest.mark.few(3)          three cases

Where there is a choice the name of the test decides, so that tests of the same register take
different cases, and a new family or engine comes into some of them without a change.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import pytest

PLAIN = (str, int, float, bool, type, type(None))
Case = frozenset[tuple[str, Hashable]]  # what each parameter is


def mark_the_rest_slow(items: Iterable[pytest.Item]) -> None:
    """Mark the cases slow that the test's own marker leaves out."""
    groups: dict[str, list[pytest.Item]] = {}
    for item in items:
        is_asked = item.get_closest_marker("covering") or item.get_closest_marker("few")
        if is_asked and hasattr(item, "callspec") and not item.get_closest_marker("slow"):
            groups.setdefault(item.nodeid.split("[")[0], []).append(item)
    for name, cases in groups.items():
        taken = set(select(name, cases))
        for i, item in enumerate(cases):
            if i not in taken:
                item.add_marker(pytest.mark.slow)


def select(name: str, items: Sequence[pytest.Item]) -> list[int]:
    """Positions of the cases that stay."""
    order = in_turn(name, len(items))
    few = items[0].get_closest_marker("few")
    if few is not None:
        return order[: int(few.args[0])]
    covering = items[0].get_closest_marker("covering")
    assert covering is not None
    strength = int(covering.args[0]) if covering.args else 1
    return cover([case_of(item) for item in items], strength, order)


def in_turn(name: str, n: int) -> list[int]:
    """All positions, from one that the name decides, far from each other at the beginning."""
    first = zlib.crc32(name.encode()) % n
    step = next(s for s in range(max(1, round(0.38 * n)), n + 2) if _are_coprime(s, n))
    return [(first + i * step) % n for i in range(n)]


def _are_coprime(a: int, b: int) -> bool:
    while b:
        a, b = b, a % b
    return a == 1


def case_of(item: Any) -> Case:
    """The value of each parameter, or which object it is if it is no plain value."""
    return frozenset(
        (name, value if isinstance(value, PLAIN) else id(value))
        for name, value in item.callspec.params.items()
    )


def cover(cases: Sequence[Case], strength: int, order: Sequence[int]) -> list[int]:
    """Few cases that hold every combination of so many values: the best next one, repeatedly."""
    held = [
        set(itertools.combinations(sorted(case, key=repr), min(strength, len(case))))
        for case in cases
    ]
    missing = set().union(*held)
    taken: list[int] = []
    while missing:
        best = max(order, key=lambda i: len(held[i] & missing))
        taken.append(best)
        missing -= held[best]
    return taken
