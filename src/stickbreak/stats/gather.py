"""Sums of ordered parts in one binary tree, and the pool that runs jobs one after another.

Additions of floats are not associative, so the order of a sum is part of its value. Neighbors are
added in pairs, then neighboring pairs, and so on. The tree depends on the number of parts alone: an
aligned group of 2^g parts is a subtree, which may be added up wherever its parts were made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from stickbreak.data import Batch

from .fields import Fields
from .summary import Summary, Tally

__all__ = ["SERIAL", "BasePool", "call_loaded", "gather", "split_off"]

Found = tuple[Summary, Fields | None]


def gather(parts: Iterable[Summary]) -> Summary:
    """The sum of at least one Summary, whose arrays it takes over; nothing else may use them.

    At most log2(n) + 1 of n partial sums are held at a time.
    """
    held: list[tuple[int, Summary]] = []
    for part in parts:
        size = 1
        while held and held[-1][0] == size:
            part, size = _add(held.pop()[1], part), 2 * size
        held.append((size, part))
    if not held:
        raise ValueError("nothing to add up: give one Summary or more")
    total = held.pop()[1]
    while held:  # the right edge of the tree, where groups are not full
        total = _add(held.pop()[1], total)
    return total


def _add(left: Summary, right: Summary) -> Summary:
    return Tally.taking(left).add(right).summary()


class BasePool:
    """Runs jobs here, one after another. A pool that runs them elsewhere overrides `map`."""

    @property
    def here(self) -> BasePool:
        """A pool of this process: for jobs of a few rows, or that cannot travel."""
        return self

    @property
    def processors(self) -> tuple[str, ...]:
        """Kinds of processors of workers elsewhere, and that of this process; () without."""
        return ()

    def telling(self, told: Callable[[int, int], None]) -> BasePool:
        """The pool itself; one whose jobs run elsewhere tells how many tasks of a visit are done.

        told : is given the number of those, and of all
        """
        return self

    def map(self, call: Callable[[Any], Any], jobs: Iterable[Any]) -> Iterable[Any]:
        """call(job) of every job, in the order of the jobs."""
        return map(partial(call_loaded, call), jobs)

    def total(
        self, call: Callable[[Any], Found], jobs: Iterable[Any]
    ) -> tuple[Summary, list[Fields]]:
        """The sum of the Summaries that `call` makes, in `gather`'s order, and what units keep."""
        kept: list[Fields] = []
        return gather(split_off(self.map(call, jobs), kept)), kept


def call_loaded(call: Callable[[Any], Any], job: Any) -> Any:
    """call(job) of a lane, or of a job that begins with one, with its rows read here and now."""
    if isinstance(job, Batch):
        return call(job.loaded())
    if isinstance(job, tuple) and job and isinstance(job[0], Batch):
        return call((job[0].loaded(), *job[1:]))
    return call(job)


def split_off(results: Iterable[Found], kept: list[Fields]) -> Iterator[Summary]:
    """The Summaries of some results; the values of their units are appended to `kept`."""
    for found, own in results:
        if own is not None:
            kept.append(own)
        yield found


SERIAL = BasePool()
