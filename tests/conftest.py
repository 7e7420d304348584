"""The default suite takes some cases of the tests that say so: see `selecting`."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from selecting import mark_the_rest_slow

# Files of a few tests that take long, most of it to compile kernels. Begun last, one of them would
# run while the other process has nothing left to do.
FIRST = (
    "inference/test_collapsed_tables.py",
    "fuzz/test_files.py",
    "inference/test_collapsed_families.py",
    "checks/test_checks.py",
    "cli/test_commands.py",
    "cli/test_help.py",
    "inference/test_collapsed_gibbs.py",
    "kernels/test_live.py",
    "inference/test_full_disk.py",
    "test_docs.py",
    "test_experiments.py",
)


@pytest.hookimpl(tryfirst=True)  # before `-m` looks at the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark_the_rest_slow(items)
    items.sort(key=lambda item: not item.path.as_posix().endswith(FIRST))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Half a million objects are made, and all are kept: looking for garbage takes a fifth."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
