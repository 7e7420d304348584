"""Two sets of links of every sentence pair made into one."""

from __future__ import annotations

import numpy as np

from .compile import kernel

__all__ = ["join_links"]

FORWARD, REVERSE, CHOSEN, OLD = 1, 2, 4, 8  # bits of a cell of the grid
STEPS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


@kernel
def _grow(grid, has_row, has_column):
    """Add neighbors of chosen cells, in sweeps: see `join_links`."""
    n_rows, n_columns = grid.shape
    added = True
    while added:
        added = False
        for i in range(n_rows):
            for j in range(n_columns):
                if grid[i, j] & CHOSEN:
                    grid[i, j] |= OLD
        for i in range(n_rows):
            for j in range(n_columns):
                if not grid[i, j] & OLD:
                    continue
                for di, dj in STEPS:
                    y, x = i + di, j + dj
                    if y < 0 or x < 0 or y >= n_rows or x >= n_columns:
                        continue
                    cell = grid[y, x]
                    if cell and not cell & CHOSEN and not (has_row[y] and has_column[x]):
                        grid[y, x] |= CHOSEN
                        has_row[y] = has_column[x] = True
                        added = True


@kernel
def _finish(grid, has_row, has_column, side, needs_both):
    """Add cells of one side whose row or column (both: needs_both) has none yet."""
    for i in range(grid.shape[0]):
        for j in range(grid.shape[1]):
            if not grid[i, j] & side or grid[i, j] & CHOSEN:
                continue
            if needs_both:
                is_open = not has_row[i] and not has_column[j]
            else:
                is_open = not has_row[i] or not has_column[j]
            if is_open:
                grid[i, j] |= CHOSEN
                has_row[i] = has_column[j] = True


@kernel
def _mark(grid, links, lo, hi, side):
    for at in range(lo, hi):
        grid[links[at, 0], links[at, 1]] |= side


@kernel
def join_links(forward, forward_offsets, reverse, reverse_offsets, union, grow, final):
    """Links of both sets by one rule.

    forward (F, 2), reverse (R, 2) : positions (i, j); unit u owns offsets[u]:offsets[u + 1]
    union : all links of either set; else those of both, to which the others are added
    grow : sweeps over the links chosen so far, by row and column; of the eight neighbors of each,
        those of either set are chosen at once if their row or their column has no chosen link. A
        sweep goes over the links that were chosen before it; the last one adds none.
    final : 0 none; 1 then links of forward, and after them of reverse, by row and column, whose row
        or column has no chosen link; 2 whose row and column have none

    Returns links (L, 2), by row and column in each unit, and their offsets.
    """
    n_units = forward_offsets.shape[0] - 1
    found = np.empty((forward.shape[0] + reverse.shape[0], 2), dtype=np.int32)
    offsets = np.zeros(n_units + 1, dtype=np.int64)
    n = 0
    for u in range(n_units):
        a, b = forward_offsets[u], forward_offsets[u + 1]
        c, d = reverse_offsets[u], reverse_offsets[u + 1]
        n_rows = n_columns = 0
        for at in range(a, b):
            n_rows, n_columns = max(n_rows, forward[at, 0] + 1), max(n_columns, forward[at, 1] + 1)
        for at in range(c, d):
            n_rows, n_columns = max(n_rows, reverse[at, 0] + 1), max(n_columns, reverse[at, 1] + 1)
        grid = np.zeros((n_rows, n_columns), dtype=np.uint8)
        _mark(grid, forward, a, b, FORWARD)
        _mark(grid, reverse, c, d, REVERSE)
        has_row, has_column = np.zeros(n_rows, np.bool_), np.zeros(n_columns, np.bool_)
        for i in range(n_rows):
            for j in range(n_columns):
                if grid[i, j] == FORWARD | REVERSE or (union and grid[i, j]):
                    grid[i, j] |= CHOSEN
                    has_row[i] = has_column[j] = True
        if grow:
            _grow(grid, has_row, has_column)
        if final:
            _finish(grid, has_row, has_column, FORWARD, final == 2)
            _finish(grid, has_row, has_column, REVERSE, final == 2)
        for i in range(n_rows):
            for j in range(n_columns):
                if grid[i, j] & CHOSEN:
                    found[n, 0], found[n, 1] = i, j
                    n += 1
        offsets[u + 1] = n
    return found[:n].copy(), offsets
