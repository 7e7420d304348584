"""A checkpoint's contents, compared with the model and the data, before a kernel sees them.

Kernels trust shapes and positions: a wrong one would end the process, not raise an error.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from stickbreak.data import Batch
from stickbreak.protocols import Array, Watch
from stickbreak.stats import SYMBOL, Fields, Summary

from .accumulate import Accumulator
from .engine import Visits
from .rules import BaseRule
from .state import State

if TYPE_CHECKING:
    from stickbreak.models import Model

    from .checkpoints import Snapshot

__all__ = ["check_array", "check_fields", "check_sides", "check_snapshot"]

MOST_STEPS = 1 << 53  # whole numbers that a float holds exactly
LARGEST = 1e154  # of a count: its square is still a number


def check_snapshot(
    model: Model, rule: BaseRule, accumulator: Accumulator, plan: Visits, snapshot: Snapshot
) -> None:
    """Raise ValueError if the state of a checkpoint is not one of this model and these batches."""
    state, batches = snapshot.state, {batch.id: batch for batch in plan.fixed()}
    _check_counters(state, plan, snapshot)
    if accumulator.is_exact and batches:
        _check_progress(state)
    strangers = {*state.memory, *state.warm, *state.settled} - set(batches)
    if strangers:
        raise ValueError(f"there is no batch {min(strangers)}")
    zeros = model.zeros(state.n_components)
    for name, summary in _totals(state):
        _check_counts(summary, zeros, None, name)
    legal = state.params.arrays.get("legal")
    check_fields(state.params, model.start_params(state.n_components, legal), "the parameters")
    if legal is not None and legal.shape[1:] != (state.n_components,):
        raise ValueError(f"legal has shape {legal.shape} for {state.n_components} components")
    for batch_id in state.memory:
        visit = state.memory.recall(batch_id)
        assert visit is not None
        name, batch = f"batch {batch_id}", batches[batch_id]
        _check_counts(visit.summary, zeros, batch, name)
        if visit.warm is not None:
            _check_warm(model, rule, state, batch, visit.warm)
    for batch_id, warm in state.warm.items():
        _check_warm(model, rule, state, batches[batch_id], warm)


def _totals(state: State) -> Iterator[tuple[str, Summary]]:
    yield "the total", state.total.view()
    if state.seed is not None:
        yield "the seed", state.seed
    if state.lap_total is not None:
        yield "the total of the lap", state.lap_total.view()


def _check_counters(state: State, plan: Visits, snapshot: Snapshot) -> None:
    ids = state.ids
    if not ids or len(set(ids)) != len(ids) or min(ids) < 0 or max(ids) >= state.next_id:
        raise ValueError(f"ids {ids[:9]} of components with next_id={state.next_id}")
    if state.n_batches != plan.n_batches:
        raise ValueError(f"n_batches is {state.n_batches}, and there are {plan.n_batches}")
    if not 0 <= state.position <= state.n_batches or len(snapshot.visits) != state.position:
        raise ValueError(f"{len(snapshot.visits)} visits at position {state.position}")
    if state.lap != len(snapshot.trace) or not 0 <= state.n_steps <= MOST_STEPS:
        raise ValueError(f"lap {state.lap} after {state.n_steps} steps")
    if not all(math.isfinite(number) for visit in snapshot.visits for number in visit):
        raise ValueError("visits with numbers that are not finite")
    if not np.isfinite([lap.bound for lap in snapshot.trace if lap.bound is not None]).all():
        raise ValueError("laps with bounds that are not finite")


def _check_progress(state: State) -> None:
    """The seed stands in for the total until every batch is remembered; a lap's sum grows in it.

    The total of a single batch is that of the lap.
    """
    if (state.seed is None) != (len(state.memory) == state.n_batches):
        raise ValueError(f"{len(state.memory)} of {state.n_batches} batches are remembered")
    is_sum = state.position > 0 and (state.n_batches > 1 or state.lap_total is not None)
    if (state.lap_total is not None) != is_sum:
        raise ValueError(f"the total of the lap at position {state.position}")


def _check_counts(found: Summary, zeros: Summary, batch: Batch | None, what: str) -> None:
    """Counts of all data (batch None), or of a batch, which may have only its own symbols."""
    symbols = None if batch is None else batch.symbols
    _check_index(found, symbols, what)
    check_fields(found, zeros, what, found.index)
    _check_numbers(found, what)


def _check_index(found: Summary, symbols: Array | None, what: str) -> None:
    own = found.index
    if own is None or (
        symbols is not None and own.dtype.kind in "iu" and np.array_equal(own, symbols)
    ):
        return
    raise ValueError(f"{what} counts other symbols than it has")


def _check_numbers(found: Summary, what: str) -> None:
    numbers = found.local_bound, found.log_z, found.n_units
    if not all(map(math.isfinite, numbers)) or found.n_units < 0:
        raise ValueError(f"{what} has local_bound, log_z, n_units = {numbers}")


def _check_warm(model: Model, rule: BaseRule, state: State, batch: Batch, warm: Fields) -> None:
    what = f"what batch {batch.id} keeps"
    expected = rule.keeps(model, batch, state.n_components)
    if expected is not None:
        check_fields(warm, expected, what)
        return
    # A rule of its own keeps them: all that is known is how long these axes are.
    sizes = {model.axis: state.n_components, "unit": batch.n_spans, "row": batch.n_rows}
    for name, field in warm.layout.items():
        array = warm[name]
        if len(field.axes) != array.ndim or not np.isfinite(array).all():
            raise ValueError(f"{name} of {what} has shape {array.shape}, or is not finite")
        for axis, n in zip(field.axes, array.shape, strict=True):
            if axis is not None and sizes.get(axis, n) != n:
                raise ValueError(f"{name} of {what} has shape {array.shape}")


def check_fields(found: Fields, expected: Fields, what: str, index: Array | None = None) -> None:
    """Raise ValueError if names, meanings, shapes, types, signs or numbers are not as expected.

    index : the symbols of a compact Summary; None if it has all that are expected
    """
    if dict(found.layout) != dict(expected.layout):
        raise ValueError(f"{what} has the fields {sorted(found.layout)}, of another model")
    for name, array in expected.arrays.items():
        shape = array.shape
        if index is not None:
            axes = expected.layout[name].axes
            shape = tuple(
                len(index) if axis == SYMBOL else n for axis, n in zip(axes, shape, strict=True)
            )
        nonnegative = expected.layout[name].nonnegative
        check_array(
            found[name], shape, f"{name} of {what}", nonnegative=nonnegative, dtype=array.dtype
        )


def check_array(
    array: Array,
    shape: tuple[int, ...],
    what: str,
    *,
    nonnegative: bool = False,
    largest: float = LARGEST,
    dtype: Any = np.float64,
) -> None:
    """Raise ValueError unless the array has this shape, and finite numbers of this type."""
    if array.shape != shape or array.dtype != dtype:
        raise ValueError(
            f"{what} has shape {array.shape} of {array.dtype}; expected {shape} of "
            f"{np.dtype(dtype).name}"
        )
    if not np.isfinite(array).all():
        raise ValueError(f"{what} holds values that are not finite")
    if array.size and float(np.abs(array).max()) > largest:
        raise ValueError(f"{what} holds {np.abs(array).max()}, of which nothing can be computed")
    if nonnegative and (array < 0).any():
        raise ValueError(f"{what} holds negative values")


def check_sides(model: Model, rule: BaseRule, state: State, watches: Sequence[Watch]) -> None:
    """Raise ValueError if what a lap collected beside the counts is not what these watches do."""
    held = [*_totals(state)]
    for batch_id in state.memory:
        visit = state.memory.recall(batch_id)
        assert visit is not None
        held.append((f"batch {batch_id}", visit.summary))
    if not any(summary.sides for _, summary in held):
        return
    potentials = rule.potentials(model, state.counts, state.params)
    expected = {watch.name: watch.empty_side(model, potentials) for watch in watches}
    for name, summary in held:
        for side, found in summary.sides.items():
            if side not in expected:
                raise ValueError(f"{name} has the side {side!r}, which no move watches")
            _check_side(found, expected[side], summary.index, f"side {side!r} of {name}")


def _check_side(found: Summary, expected: Summary, index: Array | None, what: str) -> None:
    if found.sides:
        raise ValueError(f"{what} has sides of its own")
    _check_index(found, index, what)
    check_fields(found, expected, what, found.index)
    _check_numbers(found, what)
