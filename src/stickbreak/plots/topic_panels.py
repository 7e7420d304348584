"""Panels of topic models: words of topics, shares in documents; of groups of rows, these alone."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.ticker import MaxNLocator

from stickbreak.protocols import Array
from stickbreak.structures import Document, Group

from .panels import Panel, draw_trace, draw_weights, panels_of
from .style import HEAT, MUTED, PALETTE, color_of, color_ticks, inner_axes, set_titles, tidy
from .view import View, plural

__all__ = ["draw_documents", "draw_groups", "draw_topics"]

MAX_TOPICS = 12  # topics for whose words there is room
LINE = 0.155  # inches per word, if the figure is ours
TITLE = 20.0  # points above a cell
# points per word: below the first, bars are replaced by plain lines of words
SMALLEST_LINE, LARGEST_LINE = 7.0, 30.0
LARGEST = 8.5  # largest font size in points
LETTER = 0.6  # width of a letter relative to its font size
TICK = 8.0  # points for the number of a document
MANY = 25  # with this many documents, their numbers are vertical


@panels_of.register
def _(structure: Document) -> dict[str, Panel]:
    return {
        "topics": Panel(draw_topics, is_large=True, size=size_of_topics),
        "documents": Panel(draw_documents, is_wide=True, needs="shares"),
        "trace": Panel(draw_trace),
        "weights": Panel(draw_weights),
    }


@panels_of.register
def _(structure: Group) -> dict[str, Panel]:
    plain = panels_of.dispatch(object)(structure)
    return {"groups": Panel(draw_groups, is_wide=True, needs="shares"), **plain}


def count_cells(n: int) -> tuple[int, int]:
    """Number of rows and columns for n small pictures."""
    columns = n if n <= 3 else math.ceil(math.sqrt(n))
    return -(-n // columns), columns


def size_of_topics(fitted: View) -> tuple[float, float]:
    """Width and height in inches at which all words are readable."""
    rows, columns = count_cells(min(len(fitted.shown), MAX_TOPICS))
    n_words = min(fitted.n_words, len(fitted.names))
    return max(4.2, 1.9 * columns), max(3.2, 0.9 + rows * (0.35 + LINE * n_words))


def draw_topics(fitted: View, ax: Axes) -> None:
    """The most probable words of each topic, the largest topic first.

    Words are on bars, or in lines if `ax` is too small for bars.
    """
    shown = fitted.shown[:MAX_TOPICS]
    probability = fitted.posterior["probability"][shown, 0]  # (topics, V)
    words = np.argsort(-probability, axis=1, kind="stable")[:, : fitted.n_words]
    names = [[fitted.names[v] for v in best] for best in words]
    labels = [fitted.label(int(k)) for k in shown]
    title, left_out = (
        f"topics: the most probable {plural('word', words.shape[1])}",
        fitted.missing(len(shown)),
    )
    if _line_height(ax, words.shape) < SMALLEST_LINE:
        set_titles(ax, title, left_out)
        _draw_lines(ax, labels, names)
    else:
        set_titles(
            ax, title, left_out, "bars: probability of a word in its topic, one scale for all"
        )
        _draw_bars(ax, labels, names, np.take_along_axis(probability, words, axis=1))


def _extent(ax: Axes) -> tuple[float, float]:
    """Width and height in points, before a layout engine moves things a little."""
    box = ax.get_window_extent()
    return box.width * 72.0 / ax.figure.dpi, box.height * 72.0 / ax.figure.dpi


def _line_height(ax: Axes, shape: tuple[int, ...]) -> float:
    """Points per word, if `ax` has bars for (topics, words)."""
    return (_extent(ax)[1] / count_cells(shape[0])[0] - TITLE) / shape[1]


def _draw_lines(ax: Axes, labels: list[str], names: list[list[str]]) -> None:
    """A line for each topic: its label, and the words that fit."""
    ax.set_axis_off()
    width, height = _extent(ax)
    font = min(LARGEST, 0.7 * height / len(labels))
    indent = 1.1 * LETTER * font * max(len(label) for label in labels)
    for rank, (label, words) in enumerate(zip(labels, names, strict=True)):
        place: Any = {
            "xy": (0.0, 1.0 - (rank + 0.5) / len(labels)),
            "xycoords": "axes fraction",
            "textcoords": "offset points",
        }
        style: Any = {"va": "center", "fontsize": font, "parse_math": False}
        ax.annotate(label, xytext=(0, 0), color=color_of(rank), fontweight="bold", **place, **style)
        ax.annotate(
            join_words(words, int((width - indent) / (LETTER * font))),
            xytext=(indent, 0),
            **place,
            **style,
        )


def join_words(words: list[str], most: int) -> str:
    """The first words that fit into `most` letters, at least one."""
    ends = np.cumsum([len(word) + 2 for word in words]) - 2
    return "  ".join(words[: max(1, int((ends <= most).sum()))])


def _draw_bars(ax: Axes, labels: list[str], names: list[list[str]], values: Array) -> None:
    """A cell with bars for each topic. values (topics, words) : probabilities."""
    cells, n_columns = _cells(ax, values.shape), count_cells(len(labels))[1]
    width, height = _extent(cells[0])
    font = min(LARGEST, 0.8 * height / values.shape[1])
    for rank, cell in enumerate(cells):
        short = [shorten(name, int(width / (LETTER * font))) for name in names[rank]]
        _draw_words(cell, rank, short, values[rank], font)
        cell.set_title(
            labels[rank], loc="left", fontsize=9, fontweight="bold", color=color_of(rank), pad=3
        )
        cell.set_xlim(0.0, 1.03 * float(values.max()))
        cell.tick_params(
            axis="x",
            labelbottom=rank + n_columns >= len(cells),
            labelsize=7,
            length=2,
            colors=MUTED,
        )


def _cells(ax: Axes, shape: tuple[int, ...]) -> list[Axes]:
    """Axes of topics inside `ax`, row by row, with room for a title above each.

    Few words take no more room than they need.
    """
    columns, height, gap = count_cells(shape[0])[1], _extent(ax)[1], 0.03
    line = min(LARGEST_LINE, _line_height(ax, shape))
    h, w, step = (
        line * shape[1] / height,
        (1.0 - gap * (columns - 1)) / columns,
        (line * shape[1] + TITLE) / height,
    )
    places = [divmod(i, columns) for i in range(shape[0])]
    return inner_axes(ax, [(j * (w + gap), 1.0 - (i + 1) * step, w, h) for i, j in places])


def shorten(word: str, most: int) -> str:
    """The word, cut to `most` letters."""
    return word if len(word) <= max(most, 2) else word[: max(most, 2) - 1] + "…"


def _draw_words(cell: Axes, rank: int, names: list[str], values: Array, font: float) -> None:
    """One topic: a pale bar for each word, with the word on it."""
    body = tuple(1.0 - 0.4 * (1.0 - np.array(to_rgb(color_of(rank)))))
    hatch = "////" if rank >= len(PALETTE) else None  # marks the second round of colors
    cell.barh(
        range(len(names)),
        values,
        height=0.84,
        color=body,
        hatch=hatch,
        edgecolor="white",
        linewidth=0.0,
    )
    for place, name in enumerate(names):
        # inside the cell
        style: Any = {
            "va": "center",
            "fontsize": font,
            "parse_math": False,
            "clip_on": True,
            "in_layout": False,
        }
        cell.annotate(name, (0.0, place), (3, 0), textcoords="offset points", **style)
    cell.set_ylim(len(names) - 0.4, -0.6)
    cell.set_yticks([])
    cell.xaxis.set_major_locator(MaxNLocator(3))
    cell.xaxis.set_major_formatter(_write_share)
    tidy(cell)
    for spine in cell.spines.values():
        spine.set_color(MUTED)


def _write_share(value: float, _: Any) -> str:
    return f"{100 * value:.4g} %"


def draw_documents(fitted: View, ax: Axes) -> None:
    """Shares of topics in some documents, one column each, sorted by their largest topics."""
    _draw_shares(fitted, ax, "document", "topic")


def draw_groups(fitted: View, ax: Axes) -> None:
    """Shares of components in some groups of rows, likewise."""
    _draw_shares(fitted, ax, "group", "component")


def _draw_shares(fitted: View, ax: Axes, unit: str, noun: str) -> None:
    assert fitted.shares is not None
    assert fitted.documents is not None
    shares, labels = _lines_of_shares(fitted, fitted.shares)
    order = np.lexsort((-shares.max(1), shares.argmax(1)))
    image = ax.imshow(
        shares[order].T, aspect="auto", cmap=HEAT, vmin=0.0, vmax=1.0, interpolation="nearest"
    )
    ax.set_yticks(range(len(labels)), labels)
    color_ticks(ax.yaxis, len(fitted.shown))
    step, n = math.ceil(len(order) * TICK / _extent(ax)[0]), len(order)
    ax.set_xticks(
        range(0, n, step),
        [str(s) for s in fitted.documents[order][::step]],
        rotation=90 * (n > MANY),
    )
    ax.set_xlabel(f"{unit}, by largest {noun}", fontsize=9)
    ax.tick_params(axis="x", labelsize=7, length=0)
    ax.tick_params(axis="y", labelsize=8 if len(labels) <= 9 else 7, length=0)
    bar = ax.figure.colorbar(image, ax=ax, fraction=0.03, pad=0.015)
    bar.set_label("share", fontsize=9)
    bar.ax.tick_params(labelsize=8)
    left_out = (
        f"{n} of {fitted.n_documents:,} {unit}s, at even distances"
        if n < fitted.n_documents
        else ""
    )
    set_titles(ax, f"shares of {noun}s in {unit}s", left_out)


def _lines_of_shares(fitted: View, shares: Array) -> tuple[Array, list[str]]:
    """Shares (m, topics) of the topics drawn, and their labels; the last sums all others."""
    labels, found = [fitted.label(int(k)) for k in fitted.shown], shares[:, fitted.shown]
    n = shares.shape[1] - len(labels)
    if n == 0:
        return found, labels
    rest = np.maximum(0.0, 1.0 - found.sum(1))
    weight = max(0.0, 1.0 - float(fitted.weights[fitted.shown].sum()))
    return np.c_[found, rest], [*labels, f"{n} {plural('other', n)}  ({100 * weight:.0f} %)"]
