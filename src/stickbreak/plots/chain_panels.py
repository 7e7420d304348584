"""Panels of hidden Markov models: states over time, transitions, durations."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, PowerNorm, to_rgb
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from stickbreak.protocols import Array
from stickbreak.structures import Chain

from .components import draw_components
from .panels import Panel, crowd_ticks, draw_trace, draw_weights, panels_of
from .style import HEAT, MUTED, PALETTE, REST, color_of, color_ticks, set_titles, tidy
from .view import View, plural

__all__ = ["draw_durations", "draw_strips", "draw_transitions"]

MAX_STRIPS = 20  # sequences in a picture
MAX_COLUMNS = 4000  # positions along a strip: more than a screen has
MAX_ANNOTATED = 8  # up to this many states, transitions have room for their numbers
WIDE_RANGE = 30.0  # durations that differ by more than this factor need a logarithmic scale


@panels_of.register
def _(structure: Chain) -> dict[str, Panel]:
    return {
        "segmentation": Panel(draw_strips, is_wide=True),
        "trace": Panel(draw_trace),
        "weights": Panel(draw_weights),
        "transitions": Panel(draw_transitions),
        "durations": Panel(draw_durations),
        "components": Panel(
            lambda fitted, ax: draw_components(fitted.family, fitted, ax), is_large=True
        ),
    }


def strip_color(rank: int) -> tuple[float, float, float]:
    """Color of a state in a strip; the second round of colors is paler, as strips have no lines."""
    color = np.array(to_rgb(color_of(rank)))
    return tuple(color if rank < len(PALETTE) else 0.5 + 0.5 * color)


def draw_strips(fitted: View, ax: Axes) -> None:
    """The state of every row of some sequences, one strip per sequence."""
    paths = fitted.paths
    if not paths:
        ax.set_axis_off()
        text = "no sequences to draw: give them as plot(X=...)"
        ax.text(0.5, 0.5, text, ha="center", va="center", color=MUTED, transform=ax.transAxes)
        return
    shown, longest = paths[:MAX_STRIPS], max(len(path) for path in paths[:MAX_STRIPS])
    stride = -(-longest // MAX_COLUMNS)
    table = np.full((len(shown), -(-longest // stride)), np.nan)
    for s, path in enumerate(shown):
        ranks = fitted.ranks[path[::stride]]
        table[s, : len(ranks)] = np.where(ranks < 0, len(fitted.shown), ranks)
    colors = ListedColormap(
        [*(strip_color(rank) for rank in range(len(fitted.shown))), to_rgb(REST)]
    )
    ax.imshow(
        table, aspect="auto", cmap=colors, vmin=-0.5, vmax=len(fitted.shown) + 0.5,
        interpolation="nearest",
        extent=(0, table.shape[1] * stride, len(shown) - 0.5, -0.5),
    )  # fmt: skip
    for s in range(1, len(shown)):
        ax.axhline(s - 0.5, color="white", linewidth=2.0)
    ax.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=10))
    ax.set_ylabel("sequence", fontsize=9)
    ax.set_xlabel("row", fontsize=9)
    tidy(ax)
    left_out = (
        f"the first {len(shown)} of {len(paths):,} sequences" if len(shown) < len(paths) else ""
    )
    set_titles(ax, "states over time", left_out, f"one row of {stride}" if stride > 1 else "")
    _draw_key(fitted, ax)


def _draw_key(fitted: View, ax: Axes) -> None:
    """Numbers of the states in their colors, on the right."""
    keys = [Patch(color=strip_color(rank), label=str(k)) for rank, k in enumerate(fitted.shown)]
    if len(fitted.shown) < len(fitted.weights):
        keys.append(Patch(color=REST, label="others"))
    columns = 1 if len(keys) <= 8 else 2
    ax.legend(handles=keys, title="state", fontsize=8, title_fontsize=8, ncols=columns,
    frameon=False, handlelength=1.0,
              loc="upper left", bbox_to_anchor=(1.0, 1.05), borderaxespad=0.2,
              labelspacing=0.3)  # fmt: skip


def draw_transitions(fitted: View, ax: Axes) -> None:
    """Probability of each transition, from line to column.

    Colors follow the square root, so that rare transitions are visible.
    """
    transition = _require(fitted.transition)
    values = transition[np.ix_(fitted.shown, fitted.shown)]
    image = ax.imshow(values, cmap=HEAT, norm=PowerNorm(0.5, 0.0, 1.0), interpolation="nearest")
    names = [str(k) for k in fitted.shown]
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_ticks(range(len(names)), names)
        color_ticks(axis, len(names))
    if len(names) <= MAX_ANNOTATED:
        for (i, j), value in np.ndenumerate(values):
            color = "black" if value > 0.3 else "white"
            ax.text(j, i, _write_chance(value), ha="center", va="center", fontsize=7, color=color)
    else:
        ax.figure.colorbar(image, ax=ax, fraction=0.045, pad=0.03).ax.tick_params(labelsize=7)
    ax.set_ylabel("from", fontsize=9)
    ax.set_xlabel("to", fontsize=9)
    ax.tick_params(labelsize=8, length=0)
    crowd_ticks(ax, len(names))
    set_titles(ax, "transition probabilities", fitted.left_out)


def _write_chance(value: float) -> str:
    """Two digits after the point, none before it; a dot for almost zero."""
    if value < 0.005:
        return "·"
    return "1" if value > 0.995 else f"{value:.2f}".lstrip("0")


def draw_durations(fitted: View, ax: Axes) -> None:
    """Expected duration of each state, in rows."""
    lengths = _require(fitted.durations)[fitted.shown]
    places = np.arange(len(lengths))
    finite = np.where(np.isfinite(lengths), lengths, np.nan)
    bars = ax.bar(places, finite, color=[color_of(rank) for rank in range(len(lengths))], width=0.7)
    for bar in bars[len(PALETTE) :]:
        bar.set_hatch("//")  # marks the second round of colors
        bar.set_edgecolor("white")
    if np.nanmax(finite) > WIDE_RANGE * np.nanmin(finite):
        ax.set_yscale("log")
    words = [f"{n:.0f}" if n >= 9.95 else f"{n:.1f}" for n in lengths]
    ax.bar_label(bars, words, fontsize=8, padding=2, color=MUTED, rotation=90 * (len(lengths) > 9))
    ax.set_xticks(places, [str(k) for k in fitted.shown])
    ax.set_xlabel(fitted.noun, fontsize=9)
    ax.set_ylabel(plural("row", 2), fontsize=9)
    ax.margins(y=0.2)
    tidy(ax)
    crowd_ticks(ax, len(lengths))
    set_titles(ax, "expected length of a stay", fitted.left_out)


def _require(values: Array | None) -> Array:
    if values is None:
        raise ValueError(
            "this picture needs the transitions of a fitted chain, which the view lacks"
        )
    return values
