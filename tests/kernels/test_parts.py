"""Kernels inside kernels: same results, found on disk, and usable from Python all the same."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from numba.core import config

SOURCE = """
from stickbreak.kernels.compile import inline, kernel


@inline
def twice(x):
    return 2.0 * x


@kernel
def pick(values, i, names=None):
    if i >= values.shape[0]:
        raise ValueError("too far")
    return twice(values[i])


@kernel
def total(values, n):
    found = 0.0
    for i in range(n):
        found += pick(values, i)
    return found


@kernel
def mean(values, n):
    return total(values, n) / n
"""


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "some_kernels.py"
    path.write_text(SOURCE)
    return path


def fresh(source: Path) -> ModuleType:
    """The kernels as a new process has them."""
    module = ModuleType("some_kernels")
    module.__file__ = str(source)
    sys.modules["some_kernels"] = module
    exec(compile(source.read_text(), str(source), "exec"), module.__dict__)
    return module


def hits(kernel) -> tuple[int, int]:
    """How often a kernel was found on disk: as Python calls it, and as a part of others."""
    return sum(kernel.stats.cache_hits.values()), sum(kernel._part.stats.cache_hits.values())


VALUES = np.arange(4.0)


def test_a_kernel_of_kernels_is_found_on_disk(source: Path) -> None:
    for n_found in (0, 1):
        made = fresh(source)
        assert made.mean(VALUES, 4) == 3.0
        assert hits(made.mean) == (n_found, 0)
        assert not made.total.overloads  # nothing was made ready for Python


def test_another_kernel_finds_the_parts_on_disk(source: Path) -> None:
    fresh(source).total(VALUES, 4)
    made = fresh(source)
    assert made.mean(VALUES, 4) == 3.0
    assert (hits(made.mean), hits(made.total), hits(made.pick)) == ((0, 0), (0, 0), (0, 1))


def test_a_part_is_called_from_python_as_well(source: Path) -> None:
    made = fresh(source)
    assert (made.total(VALUES, 4), made.pick(VALUES, 3), made.twice(1.5)) == (12.0, 6.0, 3.0)
    assert (made.twice(1.5), made.pick(VALUES, 3), made.total(VALUES, 4)) == (3.0, 6.0, 12.0)


def test_errors_of_parts_are_raised(source: Path) -> None:
    """Compiled, from disk, and by a kernel that took the part from disk."""
    for _ in range(2):
        made = fresh(source)
        with pytest.raises(ValueError, match="too far"):
            made.mean(VALUES, 5)
    made = fresh(source)
    with pytest.raises(ValueError, match="too far"):
        made.total(VALUES, 5)
