"""The default suite takes some cases of the tests that say so, long files first.

See `selecting` and `ordering`.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest
from ordering import rank, scope
from places import left_behind
from selecting import mark_the_rest_slow


@pytest.hookimpl(tryfirst=True)  # before `-m` looks at the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark_the_rest_slow(items)
    items.sort(key=lambda item: rank(item.path.as_posix()))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Half a million objects are made, and all are kept: looking for garbage takes a fifth.

    Nor is it looked for among them later, which would take a tenth of the time of the tests.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session", autouse=True)
def _nothing_outlives_the_tests() -> Iterator[None]:
    """Begun before all other fixtures and ended after them, in each process that runs tests."""
    yield
    left = left_behind()
    assert not left, f"left behind by tests: {left}"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """One process for the tests of a file, as `--dist loadfile` does, or of a group of files."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class ByScope(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return scope(nodeid)

    return ByScope(config, log)
