"""Panels of a model, and the two that all models share: trace of the bound, and weights."""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from .components import draw_components
from .style import MUTED, PALETTE, color_of, set_titles, tidy
from .view import View, plural

__all__ = ["Panel", "crowd_ticks", "draw_trace", "draw_weights", "panels_of"]


class Panel(NamedTuple):
    """A part of the figure.

    A wide panel takes the figure's full width, at the top; a large one the height below; small ones
    share the rest.

    size : preferred width and height in inches of a large panel; default: the same for all
    needs : the part of View that it draws, if that is data and not a learned value; without it,
        the figure has no such panel
    """

    draw: Callable[[View, Axes], None]
    is_large: bool = False
    is_wide: bool = False
    size: Callable[[View], tuple[float, float]] | None = None
    needs: str | None = None

    def can_draw(self, fitted: View) -> bool:
        """Whether the data it draws are present."""
        return self.needs is None or getattr(fitted, self.needs) is not None


@singledispatch
def panels_of(structure: Any) -> dict[str, Panel]:
    """Panels by name, in order; a structure with more panels registers a longer dict."""
    return {
        "trace": Panel(draw_trace),
        "weights": Panel(draw_weights),
        "components": Panel(
            lambda fitted, ax: draw_components(fitted.family, fitted, ax), is_large=True
        ),
    }


def draw_trace(fitted: View, ax: Axes) -> None:
    """The bound after each lap.

    Without a bound, the mean local log normalizer per row (per word, for documents).
    """
    trace = fitted.trace
    tidy(ax)
    if len(trace) == 0:
        ax.set_axis_off()
        ax.text(
            0.5,
            0.5,
            "no laps: fitted by partial_fit",
            ha="center",
            va="center",
            color=MUTED,
            transform=ax.transAxes,
        )
        return
    laps = np.arange(1, len(trace) + 1)
    has_bound = bool(np.isfinite(trace.bound).any())
    values = trace.bound if has_bound else trace.log_z
    ax.plot(
        laps,
        values,
        color=PALETTE[0],
        marker="o" if len(laps) <= 30 else None,
        markersize=3.5,
        linewidth=1.5,
    )
    ax.set_xlabel("lap", fontsize=9)
    ax.set_ylabel(
        f"{fitted.objective} (nats)" if has_bound else f"log normalizer per {fitted.unit} (nats)",
        fontsize=9,
    )
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    ax.yaxis.set_major_formatter(_write_nats)
    low, high = np.nanmin(values), np.nanmax(values)
    if has_bound and high - low < 1.0:  # do not magnify rounding errors
        ax.set_ylim((low + high) / 2 - 0.6, (low + high) / 2 + 0.6)
    end = "converged" if fitted.is_converged else "not converged"
    shown = f"{values[-1]:,.1f} nats" if has_bound else f"{values[-1]:,.4f} nats per {fitted.unit}"
    set_titles(ax, "trace", f"{end} after {len(laps)} {plural('lap', len(laps))}, at {shown}")
    if np.ptp(trace.n_components) > 0:
        _draw_sizes(ax, laps, trace.n_components, fitted.noun)


def _write_nats(value: float, _: Any) -> str:
    """All digits that a tick needs, without an offset in the corner."""
    return f"{value:,.10g}"


def _draw_sizes(ax: Axes, laps: Any, sizes: Any, noun: str) -> None:
    """Components after each lap, on a second axis, if moves change their number."""
    other = ax.twinx()
    other.step(laps, sizes, where="mid", color=PALETTE[1], linewidth=1.2)
    other.set_ylabel(plural(noun, 2), fontsize=9, color=PALETTE[1])
    other.tick_params(labelsize=8, colors=PALETTE[1])
    other.yaxis.set_major_locator(MaxNLocator(integer=True))
    other.spines[["top", "left"]].set_visible(False)


def draw_weights(fitted: View, ax: Axes) -> None:
    """A bar for each component in use, largest first, with its expected rows."""
    shown = fitted.shown
    places = np.arange(len(shown))
    bars = ax.bar(
        places,
        fitted.weights[shown],
        color=[color_of(rank) for rank in range(len(shown))],
        width=0.7,
    )
    for bar in bars[7:]:
        bar.set_hatch("//")  # marks the second round of colors
        bar.set_edgecolor("white")
    ax.bar_label(
        bars,
        [_round_rows(n) for n in fitted.counts[shown]],
        fontsize=8,
        padding=2,
        color=MUTED,
        rotation=90 * (len(shown) > 9),
    )
    ax.set_xticks(places, [str(k) for k in shown])
    ax.set_xlabel(fitted.noun, fontsize=9)
    ax.set_ylabel("weight", fontsize=9)
    ax.margins(y=0.2)
    tidy(ax)
    crowd_ticks(ax, len(shown))
    set_titles(ax, f"weights, with expected {plural(fitted.unit, 2)}", fitted.left_out)


def crowd_ticks(ax: Axes, n: int) -> None:
    """Names of n components below an axis: if many, smaller and vertical."""
    ax.tick_params(axis="x", labelsize=8 if n <= 9 else 7, labelrotation=0 if n <= 9 else 90)


def _round_rows(n: float) -> str:
    """Rows in at most four characters."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if n >= size:
            scaled = n / (1e3 if letter == "k" else size)
            return f"{scaled:.0f}{letter}" if scaled >= 10 else f"{scaled:.1f}{letter}"
    return f"{n:.0f}"
