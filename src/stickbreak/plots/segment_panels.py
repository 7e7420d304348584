"""Panels of semi-Markov models: as those of chains, with the laws of durations."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from stickbreak.protocols import Array
from stickbreak.structures import SemiMarkov

from .chain_panels import draw_strips, draw_transitions
from .components import draw_components
from .panels import Panel, draw_trace, draw_weights, panels_of
from .style import MUTED, color_of, color_ticks, line_of, set_titles, tidy
from .view import View

__all__ = ["draw_laws"]

MAX_LAWS = 7  # states in a picture
MOST_BINS = 40  # of a histogram
COVERED = 0.995  # share of the lengths that the axis covers


@panels_of.register
def _(structure: SemiMarkov) -> dict[str, Panel]:
    return {
        "segmentation": Panel(draw_strips, is_wide=True),
        "trace": Panel(draw_trace),
        "weights": Panel(draw_weights),
        "transitions": Panel(draw_transitions),
        "durations": Panel(draw_laws),
        "components": Panel(
            lambda fitted, ax: draw_components(fitted.family, fitted, ax), is_large=True
        ),
    }


def lengths_by_state(paths: list[Array], n_states: int) -> list[Array]:
    """Lengths of the segments of each state; the last of a sequence, which goes on, is left out."""
    found: list[list[Array]] = [[] for _ in range(n_states)]
    for path in paths:
        ends = np.r_[np.flatnonzero(np.diff(path)) + 1]
        lengths = np.diff(np.r_[0, ends])
        for k in np.unique(path[ends - 1]):
            found[k].append(lengths[path[ends - 1] == k])
    return [np.concatenate(parts) if parts else np.zeros(0, int) for parts in found]


def draw_laws(fitted: View, ax: Axes) -> None:
    """The fitted law of the durations of each state, over the histogram of its segments."""
    if fitted.laws is None:
        raise ValueError("this picture needs the laws of durations, which the view lacks")
    shown = fitted.shown[:MAX_LAWS]
    laws = fitted.laws[shown]
    counted = lengths_by_state(list(fitted.paths), len(fitted.weights))
    seen = [counted[k] for k in shown]
    end = _axis_end(laws, seen)
    width = max(1, -(-end // MOST_BINS))
    edges = np.arange(1, end + 1 + width, width)
    for rank, (law, lengths) in enumerate(zip(laws, seen, strict=True)):
        bars = np.histogram(lengths, edges)[0] / max(1, len(lengths)) / width
        top = max(float(law[:end].max()), float(bars.max())) / 0.85
        low = -rank
        middles = edges[:-1] + (width - 1) / 2
        ax.bar(middles, bars / top, 0.9 * width, bottom=low, color=color_of(rank), alpha=0.3)
        x = np.arange(1, min(end, len(law)) + 1)
        ax.plot(x, low + law[: len(x)] / top, line_of(rank), color=color_of(rank), linewidth=1.6)
        ax.axhline(low, color=MUTED, linewidth=0.5)
    ax.set_yticks([-rank for rank in range(len(shown))], [str(k) for k in shown])
    color_ticks(ax.yaxis, len(shown))
    ax.set_xlim(0.5, end + 0.5)
    ax.set_ylabel(fitted.noun, fontsize=9)
    ax.set_xlabel("rows", fontsize=9)
    tidy(ax)
    note = "lines: fitted laws; bars: segments found" if any(map(len, seen)) else ""
    set_titles(ax, "durations", fitted.missing(len(shown)), note)


def _axis_end(laws: Array, seen: list[Array]) -> int:
    """A length that nearly all segments stay below."""
    ends = laws.cumsum(1) / laws.sum(1, keepdims=True)
    longest = int((ends < COVERED).sum(1).max()) + 1
    found = [int(np.quantile(lengths, COVERED)) for lengths in seen if len(lengths)]
    most = max(found, default=longest)
    return max(3, min(longest, 2 * most), most)
