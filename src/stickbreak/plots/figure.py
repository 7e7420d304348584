"""One panel, or all of a model's panels as one figure."""

from __future__ import annotations

from typing import Any

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from .panels import Panel, panels_of
from .view import Fitted

__all__ = ["draw_figure", "draw_panel"]


def draw_panel(fitted: Fitted, name: str, ax: Axes | None = None) -> Axes:
    """Draw one panel into `ax`, or into a new figure; returns its Axes."""
    panel = panels_of(fitted.structure)[name]
    if ax is None:
        _, ax = plt.subplots(figsize=(6.5, 5.5) if panel.is_large else (5.0, 3.2), layout="constrained")
    panel.draw(fitted, ax)
    return ax


def draw_figure(fitted: Fitted) -> Figure:
    """Small panels in a column at the left, large ones beside it."""
    panels = panels_of(fitted.structure).values()
    small, large = [p for p in panels if not p.is_large], [p for p in panels if p.is_large]
    figure = plt.figure(
        figsize=(4.2 + 6.3 * len(large), max(5.6, 2.8 * len(small))), layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.08)
    )
    grid = figure.add_gridspec(1, 1 + len(large), width_ratios=[4.0] + [6.3] * len(large))
    _draw_all(figure, grid[0].subgridspec(len(small), 1), small, fitted)
    for at, panel in enumerate(large, start=1):
        panel.draw(fitted, figure.add_subplot(grid[at]))
    return figure


def _draw_all(figure: Figure, grid: Any, panels: list[Panel], fitted: Fitted) -> None:
    for at, panel in enumerate(panels):
        panel.draw(fitted, figure.add_subplot(grid[at]))
