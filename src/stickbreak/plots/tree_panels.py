"""Panels of grammars: a sentence's tree, arcs or segments, and the rules most often used."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from stickbreak.data import ConstituentTree
from stickbreak.structures import Annotation, Dependency, SlotTemplates, Tree

from .components import draw_components
from .panels import Panel, draw_trace, draw_weights, panels_of
from .style import MUTED, PALETTE, color_of, set_titles, tidy
from .view import View

__all__ = ["draw_dependencies", "draw_rules", "draw_segments", "draw_tree"]


@panels_of.register
def _(structure: Dependency) -> dict[str, Panel]:
    return {
        "dependencies": Panel(draw_dependencies, is_wide=True, needs="heads"),
        "trace": Panel(draw_trace),
        "weights": Panel(draw_weights),
        "rules": Panel(draw_rules, is_large=True),
    }


@panels_of.register
def _(structure: Tree) -> dict[str, Panel]:
    return {
        "tree": Panel(draw_tree, is_wide=True, needs="tree"),
        "trace": Panel(draw_trace),
        "weights": Panel(draw_weights),
        "rules": Panel(draw_rules, is_large=True),
        "components": Panel(
            lambda fitted, ax: draw_components(fitted.family, fitted, ax), is_large=True
        ),
    }


@panels_of.register
def _(structure: Annotation) -> dict[str, Panel]:
    return {
        "tree": Panel(draw_tree, is_wide=True, needs="tree"),
        "trace": Panel(draw_trace),
        "weights": Panel(draw_weights),
        "rules": Panel(draw_rules, is_large=True),
    }


@panels_of.register
def _(structure: SlotTemplates) -> dict[str, Panel]:
    return {
        "segments": Panel(draw_segments, is_wide=True, needs="segments"),
        "trace": Panel(draw_trace),
        "weights": Panel(draw_weights),
        "rules": Panel(draw_rules, is_large=True),
    }


def draw_segments(fitted: View, ax: Axes) -> None:
    """The letters of a string in boxes, one for each segment, with the colors of their names."""
    assert fitted.segments is not None
    for k, segment in fitted.segments:
        color = color_of(int(fitted.ranks[k]))
        box = FancyBboxPatch(
            (segment.begin - 0.36, -0.3), segment.end - segment.begin - 0.28, 0.6,
            boxstyle="round,pad=0.0,rounding_size=0.12", facecolor=color, alpha=0.22,
            edgecolor=color, linewidth=1.2,
        )  # fmt: skip
        ax.add_patch(box)
        middle = (segment.begin + segment.end - 1) / 2
        ax.text(middle, -0.55, segment.name, ha="center", va="top", fontsize=8, color=color)
    for i, letter in enumerate(fitted.words):
        ax.text(i, 0.0, letter, ha="center", va="center", fontsize=11)
    ax.set_xlim(-0.6, len(fitted.words) - 0.4)
    ax.set_ylim(-1.2, 0.8)
    ax.set_axis_off()
    set_titles(ax, "segments")


def draw_dependencies(fitted: View, ax: Axes) -> None:
    """Arcs from heads to children above the words; longer ones are higher."""
    assert fitted.heads is not None
    heads, words = fitted.heads, fitted.words
    highest = 1.0
    for a, head in enumerate(heads.tolist()):
        if head == 0:
            ax.annotate("", (a, 0.25), (a, 1.6), arrowprops={"arrowstyle": "->", "color": MUTED})
            ax.text(a, 1.65, "root", ha="center", va="bottom", fontsize=8, color=MUTED)
            highest = max(highest, 1.9)
            continue
        h, width = head - 1, abs(a - head + 1)
        lean = -1.0 if h < a else 1.0
        arc = FancyArrowPatch(
            (h, 0.25), (a, 0.25), connectionstyle=f"arc3,rad={lean * 0.5}", arrowstyle="->",
            mutation_scale=9, color=PALETTE[0], linewidth=1.2,
        )  # fmt: skip
        ax.add_patch(arc)
        highest = max(highest, 0.3 + 0.27 * width)
    for a, word in enumerate(words):
        ax.text(a, 0.0, word, ha="center", va="center", fontsize=9)
    ax.set_xlim(-0.6, len(words) - 0.4)
    ax.set_ylim(-0.25, highest + 0.15)
    ax.set_axis_off()
    set_titles(ax, "heads of words")


def draw_tree(fitted: View, ax: Axes) -> None:
    """The tree above a sentence; categories have the colors of their weights."""
    assert fitted.tree is not None
    depth = _draw_node(fitted, ax, fitted.tree, 0, _depth(fitted.tree))[1]
    n = len(fitted.tree.words)
    ax.set_xlim(-0.6, n - 0.4)
    ax.set_ylim(-0.6, depth + 0.4)
    ax.set_axis_off()
    set_titles(ax, "best tree")


def _depth(tree: ConstituentTree) -> int:
    """Levels of nodes above the words."""
    return 1 + max((_depth(c) for c in tree.children if isinstance(c, ConstituentTree)), default=0)


def _draw_node(
    fitted: View, ax: Axes, tree: ConstituentTree, first: int, level: int
) -> tuple[float, int, int]:
    """Draw a node and all below; returns its place, its level, and the words that it covers."""
    places, n_words = [], 0
    for child in tree.children:
        if isinstance(child, str):
            places.append((float(first + n_words), 0.0))
            n_words += 1
            ax.text(*places[-1], child, ha="center", va="center", fontsize=9)
        else:
            where, height, n = _draw_node(fitted, ax, child, first + n_words, _depth(child))
            places.append((where, float(height)))
            n_words += n
    x = float(np.mean([place[0] for place in places]))
    for at, low in places:
        ax.plot([x, at], [level - 0.22, low + 0.22], color="#b0b0b0", linewidth=1.0, zorder=1)
    number = int(tree.label) if tree.label.isdigit() else -1
    rank = int(fitted.ranks[number]) if 0 <= number < len(fitted.ranks) else -1
    color = color_of(rank) if number >= 0 else MUTED
    ax.text(
        x, level, tree.label, ha="center", va="center", fontsize=9, fontweight="bold", color=color
    )
    return x, level, n_words


def draw_rules(fitted: View, ax: Axes) -> None:
    """Expected uses of the rules most often used."""
    rules = [rule for rule in fitted.rules if rule.times >= 0.1]
    places = np.arange(len(rules))
    bars = ax.barh(places, [rule.times for rule in rules], color=PALETTE[0], height=0.7)
    ax.bar_label(bars, [f"{r.probability:.2f}" for r in rules], fontsize=7, padding=3, color=MUTED)
    ax.set_yticks(places, [rule.text for rule in rules])
    ax.invert_yaxis()
    ax.margins(x=0.12)
    ax.set_xlabel("expected uses", fontsize=9)
    tidy(ax)
    set_titles(ax, "rules most often used", "numbers: probability of the rule given its left side")
