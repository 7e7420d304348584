"""Tables cut into batches, lanes and blocks; scales for default priors; fingerprints."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from stickbreak.data import Batch, Sequences, Table, compact, is_on_disk, measure
from stickbreak.data import scale as scale_module
from stickbreak.data import table as table_module
from stickbreak.data.batches import LANE_ROWS, MAX_LANES


def numbered(n: int) -> np.ndarray:
    """(n, 1) rows that say where they were."""
    return np.arange(float(n))[:, None]


def ragged(lengths: list[int]) -> Batch:
    """One batch of units with these lengths."""
    offsets = np.r_[0, np.cumsum(lengths)]
    n = int(offsets[-1])
    return Batch(0, numbered(n), offsets=offsets, repeats=np.arange(float(n)), sets=np.arange(n))


def assert_covers(parts: list[Batch], whole: Batch) -> None:
    """Every row once, in order, with its own repeats and sets; no unit split; parts know where they
    begin.
    """
    assert all(part.n_rows > 0 for part in parts)
    np.testing.assert_array_equal(np.concatenate([p.rows for p in parts]), whole.rows)
    for name in ("repeats", "sets"):
        if getattr(whole, name) is not None:
            np.testing.assert_array_equal(
                np.concatenate([getattr(p, name) for p in parts]), getattr(whole, name)
            )
    at = unit = 0
    for part in parts:
        assert (part.row_at, part.unit_at) == (at, unit)
        assert part.cut == {
            "row": slice(at, at + part.n_rows),
            "unit": slice(unit, unit + part.n_spans),
        }
        if part.offsets is not None:
            assert part.offsets[0] == 0
            assert part.offsets[-1] == part.n_rows
            np.testing.assert_array_equal(
                part.offsets + at, whole.offsets[unit : unit + part.n_spans + 1]
            )
        at, unit = at + part.n_rows, unit + part.n_spans
    assert (at, unit) == (whole.n_rows, whole.n_spans)


# ---- cutting -------------------------------------------------------------------------------------
@pytest.mark.parametrize("n", [1, 2, 5, 100, 1013])
@pytest.mark.parametrize("n_batches", [1, 2, 7, 100, 5000])
def test_batches_cover_all_rows_once(n: int, n_batches: int) -> None:
    table = Table(numbered(n), repeats=np.arange(1.0, n + 1), sets=np.arange(n))
    batches = table.batches(n_batches)
    assert [b.id for b in batches] == list(range(min(n, n_batches)))
    np.testing.assert_array_equal(np.concatenate([b.rows for b in batches]), table.rows)
    np.testing.assert_array_equal(np.concatenate([b.repeats for b in batches]), table.repeats)
    np.testing.assert_array_equal(np.concatenate([b.sets for b in batches]), table.sets)
    sizes = [b.n_rows for b in batches]
    assert max(sizes) - min(sizes) <= 1
    assert all((b.row_at, b.unit_at) == (0, 0) for b in batches)
    assert sum(b.n_units for b in batches) == table.n_units


@pytest.mark.parametrize(("n", "expected"), [(1, 1), (29_999, 1), (30_001, 2), (100_000, 5)])
def test_auto_aims_at_twenty_thousand_rows(n: int, expected: int) -> None:
    assert len(Table(np.zeros((n, 1))).batches()) == expected


@pytest.mark.parametrize(
    "n", [1, 100, LANE_ROWS, 2 * LANE_ROWS, 5 * LANE_ROWS + 17, 40 * LANE_ROWS]
)
def test_lanes_cover_a_batch_and_depend_on_its_rows_alone(n: int) -> None:
    batch = Table(numbered(n), sets=np.arange(n)).whole()
    lanes = batch.lanes()
    assert len(lanes) == min(MAX_LANES, max(1, n // LANE_ROWS))
    assert_covers(lanes, batch)
    sizes = [lane.n_rows for lane in lanes]
    assert max(sizes) - min(sizes) <= 1
    again = Table(numbered(n) + 7.0).whole().lanes()
    assert [lane.n_rows for lane in again] == sizes


@pytest.mark.parametrize("count", [1, 3, 8, 500])
def test_any_number_of_lanes_covers_ragged_units(count: int) -> None:
    rng = np.random.default_rng(count)
    batch = ragged(rng.integers(1, 40, 200).tolist())
    assert_covers(batch.lanes(count), batch)
    assert len(batch.lanes(count)) <= count


@pytest.mark.parametrize("max_rows", [1, 7, 64, 10_000])
def test_blocks_never_split_a_unit(max_rows: int) -> None:
    rng = np.random.default_rng(max_rows)
    lengths = rng.integers(1, 50, 60).tolist()
    batch = ragged(lengths)
    blocks = batch.blocks(max_rows)
    assert_covers(blocks, batch)
    assert max(block.n_rows for block in blocks) < max_rows + 2 * max(lengths)
    rows = Table(numbered(100)).whole()
    assert_covers(rows.blocks(max_rows), rows)
    assert max(block.n_rows for block in rows.blocks(max_rows)) <= max_rows


def test_one_long_unit_is_one_block() -> None:
    batch = ragged([3, 1000, 2])
    assert [block.n_spans for block in batch.blocks(10) if block.n_rows >= 1000] != []
    assert_covers(batch.blocks(10), batch)
    assert_covers(batch.lanes(6), batch)


def test_parts_of_parts_know_where_they_begin() -> None:
    batch = ragged([5, 3, 4, 6, 2])
    part = batch.part(1, 4)
    inner = part.part(1, 3)
    assert (inner.row_at, inner.unit_at) == (8, 2)
    np.testing.assert_array_equal(inner.rows, batch.rows[8:18])
    assert (inner.alone().row_at, inner.alone().unit_at) == (0, 0)
    assert np.shares_memory(inner.rows, batch.rows)


def test_units_and_observations_count_repeats() -> None:
    assert Batch(0, numbered(3), repeats=np.array([2.0, 0.0, 1.5])).n_units == 3.5
    assert Batch(0, numbered(3)).n_units == 3.0
    assert ragged([2, 1]).n_units == 2.0
    assert ragged([2, 1]).n_observations == 3.0
    np.testing.assert_array_equal(Batch(0, numbered(3)).repeats_or_ones(), np.ones(3))


def test_take_gives_rows_in_the_order_of_the_table() -> None:
    table = Table(numbered(50), repeats=np.arange(50.0), sets=np.arange(50))
    batch = table.take(np.array([40, 3, 17]), 9)
    assert batch.id == 9
    for part in (batch.rows.ravel(), batch.repeats, batch.sets):
        assert part.tolist() == [3, 17, 40]


@pytest.mark.parametrize("length", [3, 100], ids=["row by row", "sequence by sequence"])
@pytest.mark.parametrize("chosen", [[4, 0, 2], [3]])
def test_take_gives_sequences_in_the_order_of_the_data(length: int, chosen: list[int]) -> None:
    n = 5 * length
    data = Sequences(numbered(n), np.arange(1.0, n + 1.0), np.arange(n), length * np.arange(6))
    batch = data.take(np.array(chosen), 9)
    at = np.concatenate([np.arange(s * length, (s + 1) * length) for s in sorted(chosen)])
    assert batch.id == 9
    assert batch.offsets is not None
    assert batch.offsets.tolist() == [length * i for i in range(len(chosen) + 1)]
    for part, first in ((batch.rows.ravel(), 0), (batch.repeats, 1), (batch.sets, 0)):
        np.testing.assert_array_equal(part, at + first)


# ---- sparse rows ---------------------------------------------------------------------------------
def wide(n: int = 30, n_columns: int = 500, seed: int = 0) -> sparse.csr_array:
    return (
        sparse.random_array(
            (n, n_columns), density=0.01, rng=np.random.default_rng(seed), format="csr"
        )
        * 10
    )


def test_compact_renames_columns_and_keeps_the_rows() -> None:
    rows = wide()
    batch = compact(Batch(0, rows))
    assert batch.symbols is not None
    np.testing.assert_array_equal(batch.symbols, np.unique(rows.indices))
    assert batch.rows.shape == (30, len(batch.symbols))
    np.testing.assert_array_equal(batch.rows.toarray(), rows.toarray()[:, batch.symbols])
    assert compact(batch) is batch
    assert batch.part(3, 9).symbols is batch.symbols


def test_compact_leaves_dense_rows_and_full_vocabularies_alone() -> None:
    for rows in (numbered(5), sparse.csr_array(np.ones((4, 6)))):
        batch = Batch(0, rows)
        assert compact(batch) is batch


def test_batches_of_a_sparse_table_have_their_own_vocabulary() -> None:
    rows = wide()
    batches = Table(rows).batches(3)
    for batch, lo in zip(batches, (0, 10, 20), strict=True):
        np.testing.assert_array_equal(
            batch.rows.toarray(), rows[lo : lo + 10].toarray()[:, batch.symbols]
        )


# ---- scales --------------------------------------------------------------------------------------
def moments(X: np.ndarray, w: np.ndarray) -> dict[str, Any]:
    mean = np.average(X, axis=0, weights=w)
    return {
        "mean": mean,
        "variance": np.average((X - mean) ** 2, axis=0, weights=w),
        "square": np.average(X**2, axis=0, weights=w),
        "largest": X.max(0),
    }


@pytest.mark.parametrize("kind", ["float64", "float32", "int64", "fortran", "csr", "memmap"])
@pytest.mark.parametrize("is_weighted", [False, True], ids=["plain", "weighted"])
def test_measure_equals_numpy(
    kind: str, is_weighted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scale_module, "SCAN_VALUES", 64)  # several pieces
    rng = np.random.default_rng(1)
    X = rng.poisson(2.0, (57, 4)).astype(float)
    rows: Any = X.astype(kind) if kind in ("float64", "float32", "int64") else X
    if kind == "fortran":
        rows = np.asfortranarray(X)
    elif kind == "csr":
        rows = sparse.csr_array(X)
    elif kind == "memmap":
        np.save(tmp_path / "x.npy", X)
        rows = np.load(tmp_path / "x.npy", mmap_mode="r")
    weights = rng.integers(0, 4, 57).astype(float) if is_weighted else np.ones(57)
    scale = measure(Table(rows, repeats=weights if is_weighted else None))
    assert (scale.n_features, scale.n_units) == (4, weights.sum())
    for name, expected in moments(X, weights).items():
        # sums of 57 small numbers
        np.testing.assert_allclose(getattr(scale, name), expected, rtol=1e-12, err_msg=name)


def test_measure_is_accurate_far_from_zero() -> None:
    X = np.random.default_rng(2).normal(size=(1000, 2)) + 1e8
    # Two passes: the variance loses only what the data themselves do not hold (1e8 in 53 bits).
    np.testing.assert_allclose(measure(Table(X)).variance, X.var(0), rtol=1e-7)


def test_measure_of_a_constant_column_is_zero() -> None:
    assert measure(Table(np.full((7, 1), 3.25))).variance.tolist() == [0.0]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_measure_names_the_row_and_column_that_are_not_finite(
    bad: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scale_module, "SCAN_VALUES", 64)
    X = np.zeros((100, 4))
    X[83, 2] = bad
    with pytest.raises(ValueError, match=rf"row 83, column 2 is {bad}"):
        measure(Table(X))


def test_measure_names_values_of_both_signs_without_a_warning() -> None:
    X = np.zeros((10, 2))
    X[4, 1], X[6, 0] = np.inf, -np.inf
    with pytest.raises(ValueError, match="row 4, column 1 is inf"):
        measure(Table(X))


def test_measure_refuses_sparse_values_that_are_not_finite() -> None:
    rows = wide()
    rows.data[3] = np.nan
    with pytest.raises(ValueError, match="nan"):
        measure(Table(rows))


def test_measure_takes_large_but_finite_values() -> None:
    X = np.array([[1e307, 1.0], [1e307, 2.0], [1e307, 0.0]] * 10)
    assert np.isfinite(measure(Table(X[:, 1:])).mean).all()
    assert measure(Table(X / 1e200)).mean[0] == pytest.approx(1e107)


# ---- memory maps ---------------------------------------------------------------------------------
def test_on_disk_sees_through_views(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", numbered(10))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert is_on_disk(mapped)
    assert is_on_disk(mapped[2:5])
    assert is_on_disk(np.asarray(mapped)[::2])
    assert not is_on_disk(numbered(10))
    assert not is_on_disk(np.array(mapped))


def test_batches_of_a_memory_map_are_views_of_it(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", numbered(100))
    for batch in Table(np.load(tmp_path / "x.npy", mmap_mode="r")).batches(4):
        assert is_on_disk(batch.rows)
        assert all(is_on_disk(block.rows) for block in batch.blocks(7))


# ---- fingerprints --------------------------------------------------------------------------------
def test_fingerprint_tells_data_weights_and_sets_apart() -> None:
    X = np.random.default_rng(0).normal(size=(40, 3))
    other = X.copy()
    other[33, 1] += 1e-12
    ones, sets = np.ones(40), np.zeros(40, dtype=np.int64)
    tables = [
        Table(X), Table(other), Table(X[::-1]), Table(X[:39]), Table(X.reshape(60, 2)),
        Table(X.astype(np.float32)),
        Table(X, repeats=ones), Table(X, repeats=2 * ones), Table(X, sets=sets), Table(X,
        sets=sets + 1),
        Table(X, repeats=ones, sets=sets), Table(sparse.csr_array(X)),
    ]  # fmt: skip
    found = [t.fingerprint() for t in tables]
    assert len(set(found)) == len(found)
    assert Table(X.copy(), repeats=ones.copy(), sets=sets.copy()).fingerprint() == found[10]


def test_fingerprint_does_not_care_where_the_rows_live(tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(40, 3))
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert (
        Table(X).fingerprint()
        == Table(mapped).fingerprint()
        == Table(np.asfortranarray(X)).fingerprint()
    )


def test_fingerprint_of_sparse_rows_sees_every_entry() -> None:
    """A wide matrix with few entries is small: all of it counts."""
    rows = wide(2000, 100_000, seed=3)
    before = Table(rows).fingerprint()
    for at in (0, rows.nnz // 3, rows.nnz // 2 + 1, rows.nnz - 1):
        changed = rows.copy()
        changed.data[at] += 1.0
        assert Table(changed).fingerprint() != before, at


def test_fingerprint_of_a_large_table_reads_spaced_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_module, "HASH_BYTES", 16 * 64)
    X = np.random.default_rng(0).normal(size=(5000, 1))
    before = Table(X).fingerprint()
    for at in (0, 4999):  # the ends are always read
        changed = X.copy()
        changed[at] += 1.0
        assert Table(changed).fingerprint() != before
    assert Table(X[:4999]).fingerprint() != before


def test_the_scale_of_some_columns_keeps_their_names() -> None:
    rows = np.random.default_rng(0).normal(size=(20, 4))
    whole, part = measure(Table(rows)), measure(Table(rows)).take([3, 1])
    expected = measure(Table(rows[:, [3, 1]]))
    assert (part.n_features, part.n_units) == (2, 20.0)
    for name in ("mean", "variance", "square", "largest"):
        np.testing.assert_allclose(getattr(part, name), getattr(expected, name), rtol=1e-14)
    assert [whole.name(2), part.name(0)] == ["2", "3"]
    named = replace(whole, names=("a", "b", "c", "d"))
    assert [named.name(2), named.take([3, 1]).name(0)] == ["'c'", "'d'"]


def test_long_sequences_are_lanes_of_their_own():
    long = Sequences(np.zeros((5 * 40_000, 1)), offsets=40_000 * np.arange(6))
    assert [lane.n_spans for lane in long.whole().lanes()] == [1] * 5
    short = Sequences(np.zeros((50_000, 1)), offsets=10_000 * np.arange(6))
    assert len(short.whole().lanes()) == 1
    many = Sequences(np.zeros((100 * 32_768, 1), np.int8), offsets=32_768 * np.arange(101))
    assert len(many.whole().lanes()) == 64
