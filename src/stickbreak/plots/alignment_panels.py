"""Panels of word aligners: the links of one sentence pair as a grid and as arcs, and jumps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import PathPatch, Rectangle
from matplotlib.path import Path

from stickbreak.protocols import Array
from stickbreak.structures import BagAlignment, ChainAlignment

from .panels import Panel, draw_trace, panels_of
from .style import HEAT, MUTED, PALETTE, set_titles, tidy
from .view import View

__all__ = ["AlignedPair", "draw_arcs", "draw_jumps", "draw_links"]

LEAST = 0.05  # posterior of a link that an arc is drawn for
LONGEST = 24  # letters of a word; the rest is cut off
MAX_WIDTH = 20.0  # inches


class AlignedPair(NamedTuple):
    """One sentence pair with its links.

    source, target : words
    posterior (J, I + 1) : of the links of target words; column 0 is NULL
    links : (i, j) of the links that were chosen
    rule : how they were chosen
    """

    source: list[str]
    target: list[str]
    posterior: Array
    links: list[tuple[int, int]]
    rule: str


@panels_of.register
def _(structure: BagAlignment) -> dict[str, Panel]:
    return {
        "arcs": Panel(draw_arcs, is_wide=True, needs="pair"),
        "trace": Panel(draw_trace),
        "alignment": Panel(draw_links, is_large=True, size=_grid_size, needs="pair"),
    }


@panels_of.register
def _(structure: ChainAlignment) -> dict[str, Panel]:
    return {
        "arcs": Panel(draw_arcs, is_wide=True, needs="pair"),
        "trace": Panel(draw_trace),
        "jumps": Panel(draw_jumps, needs="jumps"),
        "alignment": Panel(draw_links, is_large=True, size=_grid_size, needs="pair"),
    }


def _grid_size(fitted: View) -> tuple[float, float]:
    """Inches of the grid: enough for its words."""
    if fitted.pair is None:
        return 6.5, 5.5
    width = 2.6 + 0.32 * len(fitted.pair.target)
    height = 2.4 + 0.28 * len(fitted.pair.source)
    return float(np.clip(width, 5.0, MAX_WIDTH)), float(np.clip(height, 4.0, MAX_WIDTH))


def _short(words: list[str]) -> list[str]:
    """Words for a picture: cut off, and `$` is no formula."""
    cut = [w if len(w) <= LONGEST else w[: LONGEST - 1] + "…" for w in words]
    return [word.replace("$", r"\$") for word in cut]


def draw_links(fitted: View, ax: Axes) -> None:
    """Source words down, target words across: posteriors as colors, chosen links as frames."""
    pair = fitted.pair
    assert pair is not None
    image = ax.imshow(
        pair.posterior.T, cmap=HEAT, vmin=0.0, vmax=1.0, aspect="auto", interpolation="nearest"
    )
    ax.set_xticks(range(len(pair.target)), _short(pair.target), rotation=60, ha="right")
    ax.set_yticks(range(len(pair.source) + 1), ["NULL", *_short(pair.source)])
    ax.get_yticklabels()[0].set_color(MUTED)
    ax.tick_params(labelsize=9, length=0)
    for i, j in pair.links:
        frame = Rectangle(
            (j - 0.42, i + 1 - 0.42), 0.84, 0.84, fill=False, edgecolor="#D55E00", linewidth=2.0
        )
        ax.add_patch(frame)
    ax.axhline(0.5, color="white", linewidth=1.5)
    bar = ax.figure.colorbar(image, ax=ax, fraction=0.04, pad=0.02)
    bar.set_label("posterior of the link", fontsize=9)
    bar.ax.tick_params(labelsize=8)
    set_titles(ax, "links of target words (across) to source words", f"frames: {pair.rule}")


def draw_arcs(fitted: View, ax: Axes) -> None:
    """Source words above target words; a line for each link, as dark as its posterior."""
    pair = fitted.pair
    assert pair is not None
    tops, bottoms = _spread(pair.source), _spread(pair.target)
    width = max(tops[-1], bottoms[-1]) + 1.0
    tops, bottoms = tops + (width - tops[-1]) / 2, bottoms + (width - bottoms[-1]) / 2
    chosen = set(pair.links)
    for j, i in zip(*np.nonzero(pair.posterior[:, 1:] >= LEAST), strict=True):
        _arc(ax, tops[i], bottoms[j], float(pair.posterior[j, i + 1]), (int(i), int(j)) in chosen)
    for i, j in chosen:
        if pair.posterior[j, i + 1] < LEAST:
            _arc(ax, tops[i], bottoms[j], LEAST, True)
    of_null = pair.posterior.argmax(1) == 0
    for x, word in zip(tops, _short(pair.source), strict=True):
        ax.text(x, 1.06, word, ha="center", va="bottom", fontsize=_size(width))
    for x, word, null in zip(bottoms, _short(pair.target), of_null, strict=True):
        color = MUTED if null else "black"
        style = "italic" if null else "normal"
        ax.text(
            x, -0.06, word, ha="center", va="top", fontsize=_size(width), color=color, style=style
        )
    ax.set_xlim(0, width)
    ax.set_ylim(-0.35, 1.35)
    ax.set_axis_off()
    set_titles(
        ax,
        "links, source above target",
        f"dark: {pair.rule}; pale: others with posterior {LEAST:g} or more; italic: NULL",
    )


def _spread(words: list[str]) -> Array:
    """(I,) middle of each word, if they stand side by side; units are about two letters."""
    widths = np.array([1.2 + 0.5 * min(len(word), LONGEST) for word in words])
    return np.cumsum(widths) - widths / 2


def _size(width: float) -> float:
    """Letter size for a line of this width, in a picture that is ten inches wide."""
    return float(np.clip(10.0 * 44.0 / width, 4.0, 10.0))


def _arc(ax: Axes, top: float, bottom: float, posterior: float, is_chosen: bool) -> None:
    path = Path(
        [(top, 1.0), (top, 0.5), (bottom, 0.5), (bottom, 0.0)],
        [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4],
    )
    color = PALETTE[0] if is_chosen else MUTED
    alpha = 0.35 + 0.65 * posterior if is_chosen else 0.15 + 0.5 * posterior
    width = 0.6 + 1.8 * posterior
    ax.add_patch(PathPatch(path, fill=False, edgecolor=color, linewidth=width, alpha=alpha))


def draw_jumps(fitted: View, ax: Axes) -> None:
    """Probabilities of the widths of jumps from one target word to the next."""
    assert fitted.jumps is not None
    widths, probabilities = fitted.jumps
    shown = np.abs(widths) <= 10
    ax.bar(widths[shown], probabilities[shown], color=PALETTE[0], width=0.8)
    ax.set_xlabel("jump of the source position", fontsize=9)
    ax.set_ylabel("probability", fontsize=9)
    tidy(ax)
    rest = float(probabilities[~shown].sum())
    set_titles(ax, "jumps", f"not drawn: {100 * rest:.1f} % of wider ones")
