"""Components as heat maps: one line for each component, with rows of data below if given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from scipy.special import xlogy

from stickbreak.data import is_sparse
from stickbreak.families import Bernoulli, Categorical, Multinomial, Poisson
from stickbreak.protocols import Array

from .style import HEAT, MUTED, color_of, color_ticks, inner_axes, set_titles
from .view import View, choose_columns

__all__ = ["Grid", "draw_grid", "grid_of"]

ALL_COLUMNS = 64  # up to this number, all columns are drawn
CHOSEN_COLUMNS = 32  # if there are more, only the most telling are drawn
MAX_TICKS = 32
WIDE_RANGE = 50.0  # rates that differ by more than this factor need a logarithmic scale
MAX_ANNOTATED = 60  # up to this many cells, there is room for numbers


@dataclass(frozen=True)
class Grid:
    """A heat map: values (K, C), column labels, what a value is, a note; rows (m, C) or None.

    Rows have the same units as values.

    edges : where a new column of the data starts, if it takes several columns of the grid.
    """

    values: Array
    labels: list[str]
    quantity: str
    note: str = ""
    rows: Array | None = None
    edges: tuple[int, ...] = ()
    limits: tuple[float, float] | None = None


def telling(fitted: View, values: Array, convex: Callable[[Array], Array]) -> Array:
    """(C,) Jensen's gap of each column: how much the component tells about it. values (K, C)."""
    weight = fitted.weights / fitted.weights.sum()
    return weight @ convex(values) - convex((weight @ values)[None])[0]


def _entropy(p: Array) -> Array:
    """Minus the entropy of a binary value."""
    return xlogy(p, p) + xlogy(1 - p, 1 - p)


def _log_product(x: Array) -> Array:
    return xlogy(x, x)


def _choose(fitted: View, score: Array) -> tuple[Array, str]:
    return choose_columns(
        fitted, score, ALL_COLUMNS if len(score) <= ALL_COLUMNS else CHOSEN_COLUMNS
    )


def _take(rows: Any, columns: Array) -> Array | None:
    """(m, C) the columns as a dense array of floats."""
    if rows is None:
        return None
    found = rows[:, columns]
    return np.asarray(found.toarray() if is_sparse(found) else found, dtype=float)


@singledispatch
def grid_of(family: Any, fitted: View) -> Grid:
    """The table to draw for a family; default: its first summary with one value per column."""
    D = len(fitted.names)
    tables = {name: array for name, array in fitted.posterior.items() if array.shape[1:] == (D,)}
    if not tables:
        shapes = {name: array.shape for name, array in fitted.posterior.items()}
        raise ValueError(
            f"{type(family).__name__} has no picture: none of its summaries {shapes} has one value "
            f"for each of the {D} columns; "
            "register one with stickbreak.plots.grid_of or draw_components"
        )
    name, values = next(iter(tables.items()))
    columns, note = _choose(fitted, telling(fitted, values, np.square))
    return Grid(values[:, columns], [fitted.names[d] for d in columns], name, note)


@grid_of.register
def _(family: Bernoulli, fitted: View) -> Grid:
    values = fitted.posterior["probability"]
    columns, note = _choose(fitted, telling(fitted, values, _entropy))
    names = [fitted.names[d] for d in columns]
    return Grid(
        values[:, columns],
        names,
        "probability of a one",
        note,
        _take(fitted.rows, columns),
        limits=(0.0, 1.0),
    )


@grid_of.register
def _(family: Multinomial, fitted: View) -> Grid:
    values = fitted.posterior["probability"]
    columns, note = _choose(fitted, telling(fitted, values, _log_product))
    rows = _take(fitted.rows, columns)
    if rows is not None:  # shares of each row's total, in the units of the components
        total = np.asarray(fitted.rows.sum(axis=1), dtype=float).reshape(-1, 1)
        rows = rows / np.where(total > 0, total, 1.0)
    return Grid(values[:, columns], [fitted.names[d] for d in columns], "probability", note, rows)


@grid_of.register
def _(family: Poisson, fitted: View) -> Grid:
    values = fitted.posterior["rate"]
    columns, note = _choose(fitted, telling(fitted, values, _log_product))
    return Grid(
        values[:, columns],
        [fitted.names[d] for d in columns],
        "rate",
        note,
        _take(fitted.rows, columns),
    )


@grid_of.register
def _(family: Categorical, fitted: View) -> Grid:
    """The symbols of a column side by side."""
    values = fitted.posterior["probability"]  # (K, D, V)
    score = (
        telling(fitted, values.reshape(len(values), -1), _log_product)
        .reshape(values.shape[1:])
        .sum(1)
    )
    sizes = np.array(family.n_symbols)
    fits = int((np.cumsum(sizes[np.argsort(-score)]) <= ALL_COLUMNS).sum())
    columns, note = choose_columns(fitted, score, max(1, fits))
    parts = [values[:, d, : sizes[d]] for d in columns]
    labels = [f"{fitted.names[d]} = {v}" for d in columns for v in range(sizes[d])]
    rows = None
    if fitted.rows is not None:
        found = _take(fitted.rows, columns)
        assert found is not None
        rows = np.concatenate(
            [found[:, [i]] == np.arange(sizes[d]) for i, d in enumerate(columns)], axis=1
        ).astype(float)
    edges = tuple(int(e) for e in np.cumsum([p.shape[1] for p in parts])[:-1])
    return Grid(np.concatenate(parts, axis=1), labels, "probability", note, rows, edges, (0.0, 1.0))


def draw_grid(grid: Grid, fitted: View, ax: Axes) -> None:
    """Components as lines of a heat map, the largest first.

    Rows, if given, are below, sorted by component.
    """
    values = grid.values[fitted.shown]
    count = (
        "" if grid.rows is None else f"below: {len(grid.rows):,} rows, by component; same colors"
    )
    set_titles(ax, fitted.title(), fitted.left_out, grid.note, count)
    norm = _norm(values, grid.limits)
    if grid.rows is None:
        upper = inner_axes(ax, [(0, 0, 0.92, 1)])[0]
    else:
        upper, lower = inner_axes(ax, [(0, 0.52, 0.92, 0.48), (0, 0, 0.92, 0.46)])
        _draw_rows(grid, fitted, norm, lower)
    image = upper.imshow(values, aspect="auto", cmap=HEAT, norm=norm, interpolation="nearest")
    upper.set_yticks(range(len(values)), [fitted.label(int(k)) for k in fitted.shown])
    color_ticks(upper.yaxis, len(values))
    _label_columns(upper if grid.rows is None else lower, grid)
    if grid.rows is not None:
        upper.set_xticks([])
    _annotate(upper, values, norm)
    for edge in grid.edges:
        upper.axvline(edge - 0.5, color="white", linewidth=1.5)
    bar = upper.figure.colorbar(image, cax=ax.inset_axes((0.94, 0, 0.025, 1)))
    bar.set_label(grid.quantity, fontsize=9)
    bar.ax.tick_params(labelsize=8)
    upper.tick_params(labelsize=8, length=0)


def _norm(values: Array, limits: tuple[float, float] | None) -> Normalize:
    if limits is not None:
        return Normalize(*limits)
    low, high = float(values.min()), float(values.max())
    return LogNorm(low, high) if 0 < low * WIDE_RANGE < high else Normalize(min(0.0, low), high)


def _label_columns(ax: Axes, grid: Grid) -> None:
    step = -(-len(grid.labels) // MAX_TICKS)
    places = range(0, len(grid.labels), step)
    longest = max(len(grid.labels[i]) for i in places)
    upright = len(places) * longest > 50
    ax.set_xticks(
        list(places), [grid.labels[i] for i in places], rotation=90 if upright else 0, fontsize=8
    )
    ax.tick_params(axis="x", length=0)


def _annotate(ax: Axes, values: Array, norm: Normalize) -> None:
    """Numbers in the cells of a small table."""
    if values.size > MAX_ANNOTATED or values.shape[1] > 12:
        return
    for (i, j), value in np.ndenumerate(values):
        color = "black" if norm(value) > 0.55 else "white"
        ax.text(
            j,
            i,
            f"{value:.2g}" if value < 100 else f"{value:,.0f}",
            ha="center",
            va="center",
            fontsize=8,
            color=color,
        )


def _draw_rows(grid: Grid, fitted: View, norm: Normalize, ax: Axes) -> None:
    """Rows sorted by component, with a strip of the components' colors on the left."""
    assert grid.rows is not None
    assert fitted.labels is not None
    rank = fitted.ranks[fitted.labels]
    place = np.where(rank < 0, len(fitted.shown), rank)
    order = np.argsort(place, kind="stable")
    low = norm.vmin if isinstance(norm, LogNorm) else None
    # zeros have no logarithm
    rows = grid.rows[order] if low is None else np.maximum(grid.rows[order], low)
    ax.imshow(rows, aspect="auto", cmap=HEAT, norm=norm, interpolation="nearest")
    starts = np.searchsorted(place[order], np.arange(len(fitted.shown) + 2)) - 0.5
    strip = ax.inset_axes((-0.03, 0, 0.02, 1), sharey=ax)
    for at in range(len(fitted.shown) + 1):
        color = color_of(at if at < len(fitted.shown) else -1)
        strip.axhspan(starts[at], starts[at + 1], color=color, linewidth=0)
        ax.axhline(starts[at], color="white", linewidth=0.8)
    strip.set_axis_off()
    ax.set_yticks([])
    ax.set_ylabel("rows", fontsize=9, color=MUTED, labelpad=14)
