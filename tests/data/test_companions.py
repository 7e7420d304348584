"""A second table travels with its units through every cut and container."""

from __future__ import annotations

import numpy as np
import pytest

from stickbreak.data import Batch, Companion, Documents, Sequences

LENGTHS, SIZES = (3, 1, 4, 2, 5, 1), (2, 0, 3, 1, 4, 2)


def offsets_of(lengths) -> np.ndarray:
    return np.r_[0, np.cumsum(lengths)]


def companion() -> Companion:
    """Unit u has SIZES[u] rows (u, u)."""
    return Companion(np.repeat(np.arange(6), SIZES)[:, None] * [1, 1], offsets_of(SIZES))


def sequences(container=Sequences, **more) -> Sequences:
    """Rows of unit u are u."""
    rows = np.repeat(np.arange(6), LENGTHS)[:, None]
    return container(rows, offsets=offsets_of(LENGTHS), companion=companion(), **more)


def assert_goes_along(batch: Batch) -> None:
    """Each unit has the companion of the unit that its rows are of."""
    assert len(batch.companion.offsets) == len(batch.offsets)
    symbols = batch.rows if batch.symbols is None else batch.symbols[batch.rows]
    for u in range(batch.n_spans):
        (unit,) = np.unique(symbols[batch.offsets[u] : batch.offsets[u + 1]])
        np.testing.assert_array_equal(batch.companion.of(u), np.full((SIZES[unit], 2), unit))


def test_units_are_cut_with_their_side():
    whole = sequences().whole()
    parts = [whole.part(1, 4), whole.part(1, 5).part(1, 3), whole.part(2, 3).rows_between(1, 3)]
    parts += [
        *whole.lanes(3),
        *whole.blocks(4),
        whole.part(3, 6).alone(),
        whole.with_rows(whole.rows),
    ]
    for part in parts:
        assert_goes_along(part)
    assert np.shares_memory(whole.part(1, 4).companion.rows, whole.companion.rows)


@pytest.mark.parametrize("container", [Sequences, Documents])
def test_containers_carry_the_side(container):
    data, rng = sequences(container), np.random.default_rng(0)
    found = [data.whole(), *data.batches(1), *data.batches(3), data.take(np.array([4, 1, 3]))]
    found += [data.sample(100, rng), data.sample(6, rng), data.take(np.array([1]))]
    for batch in found:
        assert_goes_along(batch)
    assert sum(len(batch.companion.rows) for batch in data.batches(3)) == sum(SIZES)


def test_parts_and_windows_carry_the_side():
    data = sequences()
    (part,) = data.parts()
    assert_goes_along(part.whole())
    bounds = data.cut_windows(2, np.random.default_rng(0))
    assert_goes_along(data.take_windows(bounds, 0, n_windows=len(bounds), pair_share=0.5))


def test_units_with_a_side_are_sampled_whole():
    data = sequences().take(np.array([2, 4]))
    long = Sequences(data.rows, offsets=data.offsets, companion=data.companion)
    batch = long.sample(2, np.random.default_rng(0))
    assert batch.n_rows in (4, 5)
    assert_goes_along(batch)


def test_a_companion_of_other_units_is_refused():
    with pytest.raises(ValueError, match="the companion has 5 units but there are 6"):
        Sequences(sequences().rows, offsets=offsets_of(LENGTHS), companion=companion().part(0, 5))


def test_fingerprints_tell_sides_apart():
    plain = Sequences(sequences().rows.astype(np.int64), offsets=offsets_of(LENGTHS))
    assert plain.fingerprint() == "922a90c711b13759e2d2b24554e782b3"  # checkpoints hold it
    other = Companion(companion().rows[::-1].copy(), companion().offsets)
    moved = Companion(companion().rows, offsets_of((0, 2, 3, 1, 4, 2)))
    found = [
        Sequences(plain.rows, offsets=plain.offsets, companion=s)
        for s in (None, companion(), other, moved)
    ]
    assert len({data.fingerprint() for data in found}) == 4
    assert found[1].fingerprint() == sequences().fingerprint()
