"""The default suite takes some cases of the tests that say so: see `selecting`."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from selecting import mark_the_rest_slow


@pytest.hookimpl(tryfirst=True)  # before `-m` looks at the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark_the_rest_slow(items)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Half a million objects are made, and all are kept: looking for garbage takes a fifth."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
