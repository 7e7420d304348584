"""One panel, or all of a model's panels as one figure."""

from __future__ import annotations

from typing import Any

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from .panels import Panel, panels_of
from .view import View

__all__ = ["draw_figure", "draw_panel"]


def draw_panel(fitted: View, name: str, ax: Axes | None = None) -> Axes:
    """Draw one panel into `ax`, or into a new figure; returns its Axes."""
    panel = panels_of(fitted.structure)[name]
    if not panel.can_draw(fitted):
        raise ValueError(f"panel {name!r} shows data; give them: plot({name!r}, X=...)")
    if ax is None:
        size = (
            (10.0, 3.2)
            if panel.is_wide
            else _large_size(panel, fitted, (6.5, 5.5))
            if panel.is_large
            else (5.0, 3.2)
        )
        _, ax = plt.subplots(figsize=size, layout="constrained")
    panel.draw(fitted, ax)
    return ax


def draw_figure(fitted: View) -> Figure:
    """Draw all panels: wide ones at the top, then small ones on the left, large ones beside them.

    Small panels are in columns of two or three.
    """
    panels = [p for p in panels_of(fitted.structure).values() if p.can_draw(fitted)]
    wide = [p for p in panels if p.is_wide]
    large = [p for p in panels if p.is_large]
    small = [p for p in panels if not p.is_wide and not p.is_large]
    height = 3 if len(small) == 3 else 2
    columns = [small[i : i + height] for i in range(0, len(small), height)]
    sizes = [_large_size(p, fitted, (6.3, 5.6)) for p in large]
    rows = [2.6] * len(wide) + [
        max(5.6, 2.8 * max(len(c) for c in columns), *(height for _, height in sizes))
    ]
    widths = [width for width, _ in sizes]
    size = (4.2 * len(columns) + sum(widths), sum(rows))
    figure = plt.figure(figsize=size, layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.08))
    outer = figure.add_gridspec(len(rows), 1, height_ratios=rows)
    for at, panel in enumerate(wide):
        panel.draw(fitted, figure.add_subplot(outer[at]))
    grid = outer[len(wide)].subgridspec(
        1, len(columns) + len(large), width_ratios=[4.0] * len(columns) + widths
    )
    for at, column in enumerate(columns):
        _draw_all(figure, grid[at].subgridspec(len(column), 1), column, fitted)
    for at, panel in enumerate(large, start=len(columns)):
        panel.draw(fitted, figure.add_subplot(grid[at]))
    return figure


def _large_size(panel: Panel, fitted: View, usual: tuple[float, float]) -> tuple[float, float]:
    """Size of a large panel in inches: its own, else the usual one."""
    return usual if panel.size is None else panel.size(fitted)


def _draw_all(figure: Figure, grid: Any, panels: list[Panel], fitted: View) -> None:
    for at, panel in enumerate(panels):
        panel.draw(fitted, figure.add_subplot(grid[at]))
