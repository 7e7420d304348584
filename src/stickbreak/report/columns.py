"""Data against draws from the model, column by column: numbers, counts, categories."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from stickbreak.protocols import Array

from .drawing import (
    Scale,
    axis_below,
    details,
    draw,
    figure,
    number,
    percent,
    shortened,
    table,
)
from .markup import Markup, join, tag
from .profiles import columns_to_check, labels_for
from .replicas import largest_gap
from .subject import Subject

__all__ = ["FEWEST", "write_fit"]

LEFT, RIGHT, BASE, TOP, N_BINS = 56, 440, 150, 14, 24
FEWEST = 10  # rows whose averages may be in a page without rows
MOST_BARS, MOST_LABELS, LETTER = 60, 10, 8  # of counts, of categories; pixels of a letter


class _Bars(NamedTuple):
    """Shares of the data and of draws between edges, and labels of categories; else none."""

    edges: Array
    seen: Array
    expected: Array
    labels: list[str]


def write_fit(subject: Subject) -> Markup | None:
    """Data against draws from the model, for the columns that differ most."""
    replica, drawn = subject.replica, subject.replicas
    if subject.observed is not None and subject.more.get("no_draws"):
        missing = f"Columns are not compared with draws from the model: {subject.more['no_draws']}."
        return tag("p", missing, class_="note wide")
    if replica is None or replica.rows is None or not len(drawn):
        return None
    rows = replica.rows
    if subject.keeps == "none" and len(rows) < FEWEST:
        missing = f"Columns are not compared: sums of fewer than {FEWEST} rows would tell them."
        return tag("p", missing, class_="note wide")
    pool = np.concatenate([r.rows for r in drawn if r.rows is not None])
    chosen = [int(d) for d in columns_to_check(subject, min(rows.shape[1], len(subject.columns)))]
    gaps = {d: largest_gap(rows[:, d], np.sort(pool[:, d])) for d in chosen}
    order = sorted(chosen, key=lambda d: -gaps[d])
    figures = [_draw_column(subject, rows[:, d], pool[:, d], d) for d in order[:6]]
    numbers = _numbers(subject, rows, pool, [(d, gaps[d]) for d in order])
    n = len(chosen)
    every = details(f"All {n} columns as numbers" if n > 1 else "The column as numbers", numbers)
    told = tag("p", _told(subject, len(figures), n), class_="note wide")
    return join([told, *figures, tag("div", every, class_="wide")])


def _told(subject: Subject, n_drawn: int, n: int) -> str:
    score, observed = "", subject.observed
    if observed is not None and np.isfinite(observed.score):
        score = (
            f"Mean log predictive density {number(observed.score, 5)} nats per {subject.unit} "
            f"(standard error {number(observed.score_error, 2)}). "
        )
    more = f" that tell most of {len(subject.columns):,}" if len(subject.columns) > n else ""
    return f"{score}The columns that fit worst come first; {n_drawn} of {n}{more}."


def _numbers(subject: Subject, rows: Array, pool: Array, gaps: list[tuple[int, float]]) -> Markup:
    """The largest gap, means and deviations of numbers, shares of categories."""
    lines: list[list[Any]] = []
    shares: list[list[Any]] = []
    for d, gap in gaps:
        own, model, name = rows[:, d], pool[:, d], str(subject.columns[d])[:60]
        labels, line = labels_for(subject, d), [name, (f"{gap:.3f}", gap)]
        if labels is None:
            lines.append([*line, *[float(v) for x in (own, model) for v in (x.mean(), x.std())]])
            continue
        lines.append([*line, *[float("nan")] * 4])
        bars = _categories(own, model, labels)
        shares += [
            [name, label, *[(percent(float(p)), float(p)) for p in both]]
            for label, *both in zip(bars.labels, bars.seen, bars.expected, strict=True)
        ]
    header = ["column", "largest gap", "mean of the data", "deviation", "mean of draws",
              "deviation"]  # fmt: skip
    parts = [table(header, lines, caption="Shares below a value: the largest gap between both")]
    if shares:
        header = ["column", "category", "data", "draws"]
        parts.append(table(header, shares, caption="Shares of categories"))
    return join(parts)


def _bars(own: Array, model: Array, labels: Any, is_private: bool = False) -> _Bars:
    if labels is not None:
        return _categories(own, model, labels)
    values = np.concatenate([own, model])
    low, high = np.quantile(values, [0.002, 0.998])
    if not is_private:  # extremes are values of single rows
        low, high = min(low, own.min()), max(high, own.max())
    if (values == np.round(values)).all():  # whole numbers: bars of as many each
        each = -(-int(high - low + 1) // MOST_BARS)
        edges = low - 0.5 + each * np.arange(-(-int(high - low + 1) // each) + 1)
    else:
        edges = np.linspace(low, high if high > low else low + 1.0, N_BINS + 1)
    seen, expected = (
        np.histogram(np.clip(v, edges[0], edges[-1]), edges)[0] / len(v) for v in (own, model)
    )
    return _Bars(edges, seen, expected, [])


def _categories(own: Array, model: Array, labels: Any) -> _Bars:
    """The commonest categories of the data, and the others together."""
    n = len(labels)
    codes = [np.clip(v, 0, n - 1).astype(int) for v in (own, model)]
    seen, expected = (np.bincount(c, minlength=n) / len(c) for c in codes)
    order, names = np.arange(n), [str(label) for label in labels]
    if n > MOST_LABELS:
        order = np.argsort(-seen, kind="stable")[: MOST_LABELS - 1]
    told = [names[v] for v in order]
    parts = [v[order] for v in (seen, expected)]
    if len(order) < n:
        told, parts = [*told, "others"], [np.append(v, 1 - v.sum()) for v in parts]
    return _Bars(np.arange(len(told) + 1) - 0.5, parts[0], parts[1], told)


def _draw_column(subject: Subject, own: Array, model: Array, d: int) -> Markup:
    name, labels = str(subject.columns[d]), labels_for(subject, d)
    bars = _bars(own, model, labels, subject.keeps == "none")
    x = Scale(bars.edges[0], bars.edges[-1], LEFT, RIGHT)
    y = Scale(0, max(bars.seen.max(), bars.expected.max()) or 1.0, BASE, TOP)
    gap = 3 if labels is not None else 0
    parts, line = [], ""
    for i, (share, draws) in enumerate(zip(bars.seen, bars.expected, strict=True)):
        a, b = x(bars.edges[i]), x(bars.edges[i + 1])
        parts.append(tag("rect", x=a + gap, y=y(share), height=round(BASE - y(share), 1),
                         width=round(b - a - 2 * gap, 1), class_="seen"))  # fmt: skip
        line += f"{'M' if gap or not i else 'L'}{a + gap:g} {y(draws)}H{b - gap:g}"
    parts.append(tag("path", d=line, class_="expected"))
    parts.append(_labels(bars, x) if bars.labels else axis_below(x, BASE))
    parts.append(tag("text", name[:60], x=(LEFT + RIGHT) / 2, y=BASE + 34, text_anchor="middle"))
    alt = f"{name}: {_compared(bars, own, model)}."
    image = draw(460, BASE + 42, alt, parts)
    told = f"Bars: data. Line{'s' * bool(gap)}: draws from the model. {alt}"
    return figure(name, image, told, _bar_table(name, bars))


def _bar_table(name: str, bars: _Bars) -> Markup:
    """Shares of the data and of draws, bar by bar; those without either are left out."""
    labels = bars.labels or [
        number(a) if b - a <= 1 and float(a + b).is_integer() else f"{number(a)} to {number(b)}"
        for a, b in pairwise(bars.edges.tolist())
    ]
    return table(
        ["value", "data", "draws"],
        [
            [label, *[(percent(float(p)), float(p)) for p in both]]
            for label, *both in zip(labels, bars.seen, bars.expected, strict=True)
            if any(p > 0 for p in both)
        ],
        caption=f"{name[:60]}: shares of the data and of draws",
    )


def _labels(bars: _Bars, x: Scale) -> Markup:
    """Names of the categories under their bars, cut to the room they have."""
    most = max(int((RIGHT - LEFT) / len(bars.labels) / LETTER), 2)
    axis = tag("line", x1=x.begin, x2=x.end, y1=BASE, y2=BASE, class_="axis")
    names = [
        tag("text", shortened(label, most), x=x(i), y=BASE + 17, text_anchor="middle")
        for i, label in enumerate(bars.labels)
    ]
    return join([axis, *names])


def _compared(bars: _Bars, own: Array, model: Array) -> str:
    if bars.labels:
        i = int(np.abs(bars.seen - bars.expected).argmax())
        told = f"{percent(float(bars.seen[i]))} of the data are {bars.labels[i]}"
        return f"{told}, {percent(float(bars.expected[i]))} of draws, the largest difference"
    mean, spread = number(float(own.mean())), number(float(own.std()))
    told = f"the data have mean {mean} and deviation {spread}"
    return f"{told}; draws {number(float(model.mean()))} and {number(float(model.std()))}"
