"""Sections of tables: rows and components, certainty, overlap, fit of columns, worst rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from stickbreak.protocols import Array
from stickbreak.structures import Group, Independent

from .columns import FEWEST, write_fit
from .drawing import (
    Scale,
    axis_below,
    axis_left,
    color_of,
    draw,
    figure,
    number,
    percent,
    table,
)
from .markup import Markup, clean, join, tag
from .profiles import has_spread, profile_of
from .sections import Section, data_of, facts_of, sections_of
from .subject import Observed, Subject

__all__ = [
    "scatter_columns", "write_certainty", "write_groups", "write_overlap", "write_scatter",
    "write_worst",
]  # fmt: skip

SIZE, MARGIN = 460, 54
N_TICKS = 6
MOST_AXES, MOST_POINTS, MOST_ELLIPSES = 8, 2000, 40


@sections_of.register(Independent)
@sections_of.register(Group)
def _(structure: Any) -> tuple[Section, ...]:
    return (
        Section("found", write_scatter),
        Section("found", write_groups),
        Section("sure", write_certainty),
        Section("sure", write_overlap),
        Section("fit", write_fit),
        Section("fit", write_worst),
    )


@data_of.register(Independent)
@data_of.register(Group)
def _(structure: Any, subject: Subject) -> dict[str, Any]:
    return {"scatter": scatter_data(subject)}


facts_of.register(Group)(facts_of.dispatch(object))  # a document has facts of its words


def scatter_columns(subject: Subject) -> Array | None:
    """Positions of the columns that tell most, for families with means; else None."""
    mean = subject.posterior.get("mean")
    if mean is None or mean.ndim != 2 or mean.shape[1] < 2 or not has_spread(subject.posterior):
        return None
    profile = profile_of(subject.family, subject)
    if profile is None or len(profile.telling) != mean.shape[1]:
        return None
    return np.argsort(-profile.telling, kind="stable")[:MOST_AXES]


def _covariances(subject: Subject, columns: Array) -> Array:
    posterior = subject.posterior
    if "covariance" in posterior:
        return posterior["covariance"][:, columns][:, :, columns]
    return np.stack([np.diag(v) for v in posterior["variance"][:, columns]])


def scatter_data(subject: Subject) -> dict[str, Any] | None:
    """Values that the page's script redraws the scatter from, rounded."""
    columns = scatter_columns(subject)
    if columns is None:
        return None
    mean, covariance = subject.posterior["mean"][:, columns], _covariances(subject, columns)
    observed = subject.observed
    shown = None if observed is None or subject.keeps == "none" else observed.rows
    rows = mean[:0]
    if observed is not None and shown is not None:
        rows = shown[_by_component(observed)][:, columns]
    ks = subject.shown[:MOST_ELLIPSES]
    spread = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
    low = (mean - 2.5 * spread)[ks].min(0)
    high = (mean + 2.5 * spread)[ks].max(0)
    if len(rows):
        with np.errstate(all="ignore"):
            low = np.fmin(low, np.nanquantile(rows, 0.002, axis=0))
            high = np.fmax(high, np.nanquantile(rows, 0.998, axis=0))
    return {
        "columns": [clean(str(subject.columns[c])) for c in columns],
        "ranges": [[_rounded(a), _rounded(b)] for a, b in zip(low, high, strict=True)],
        "left": MARGIN, "right": SIZE - 10, "bottom": SIZE - MARGIN, "top": 10,
        "rows": [[_rounded(v) for v in row] for row in rows],
        "components": {
            str(k): {
                "mean": [_rounded(v) for v in mean[k]],
                "cov": [[_rounded(v) for v in line] for line in covariance[k]],
            }
            for k in map(int, ks)
        },
    }  # fmt: skip


def _by_component(observed: Observed) -> Array:
    """Positions of the rows shown, those of a component together."""
    assert observed.labels is not None
    return np.argsort(observed.labels, kind="stable")


def _rounded(value: float) -> float | None:
    return float(f"{value:.4g}") if np.isfinite(value) else None


def write_scatter(subject: Subject) -> Markup | None:
    """Rows and ellipses of two deviations over the two columns that tell most."""
    given = scatter_data(subject)
    if given is None:
        return None
    (x_low, x_high), (y_low, y_high) = given["ranges"][:2]
    x = Scale(x_low, x_high, given["left"], given["right"])
    y = Scale(y_low, y_high, given["bottom"], given["top"])
    observed = subject.observed
    parts: list[Any] = [_frame(x, y, given)]
    if observed is not None and len(given["rows"]):
        parts += _points(subject, observed, given["rows"], x, y)
    for k in map(int, subject.shown[:MOST_ELLIPSES]):
        own = given["components"][str(k)]
        points = ellipse(own["mean"][:2], np.array(own["cov"])[:2, :2])
        line = " ".join(f"{x(a)},{y(b)}" for a, b in points)
        label = tag("text", str(k), x=x(own["mean"][0]), y=y(own["mean"][1]) + 4,
                    text_anchor="middle", class_="halo")  # fmt: skip
        inner = [tag("polyline", points=line, class_="outline"), label]
        look = color_of(subject.ranks[k])
        parts.append(tag("g", *inner, class_=f"component {look}", data_k=k))
    a, b = given["columns"][:2]
    n = len(given["rows"])
    k = int(subject.shown[0])
    alt = f"{n:,} rows and {len(given['components'])} ellipses over {a} and {b}; the largest is "
    alt += f"around {' and '.join(number(v) for v in given['components'][str(k)]['mean'][:2])}."
    image = draw(SIZE, SIZE, alt, parts, id_="scatter")
    axes = tag("div", id="scatter-axes", hidden=True)
    note = "Ellipses are two standard deviations. "
    note += f"{n:,} of {observed.n_rows:,} rows. " if observed is not None and n else ""
    more = len(subject.columns) - len(given["columns"])
    note += "The two columns that tell most come first"
    note += f", and {more:,} that tell less cannot be chosen." if more > 0 else "."
    numbers = _ellipse_table(subject, given)
    return figure("Rows and components", join([axes, image]), note, numbers, kind="scatter")


def _ellipse_table(subject: Subject, given: dict[str, Any]) -> Markup:
    """Means and deviations of the components in all columns that can be chosen."""
    rows = [
        [subject.name(k), name, own["mean"][c], float(np.sqrt(max(own["cov"][c][c] or 0.0, 0.0)))]
        for k, own in ((int(k), own) for k, own in given["components"].items())
        for c, name in enumerate(given["columns"])
    ]
    keys = [int(k) for k in given["components"] for _ in given["columns"]]
    header = [subject.noun, "column", "mean", "deviation"]
    return table(header, rows, caption="Centers of the ellipses", keys=keys)


def _frame(x: Scale, y: Scale, given: dict[str, Any]) -> Markup:
    parts = [tag("rect", x=x.begin, y=y.end, width=x.end - x.begin, height=y.begin - y.end,
                 class_="axis")]  # fmt: skip
    for at in range(N_TICKS):  # those that are not used may be after another choice of columns
        value = x.ticks()[at] if at < len(x.ticks()) else None
        parts.append(tag("text", None if value is None else number(value), y=y.begin + 16,
                         x=x.begin if value is None else x(value), class_="tick-x",
                         text_anchor="middle"))  # fmt: skip
    for at in range(N_TICKS):
        value = y.ticks()[at] if at < len(y.ticks()) else None
        parts.append(tag("text", None if value is None else number(value), x=x.begin - 6,
                         y=y.begin if value is None else y(value) + 4, class_="tick-y",
                         text_anchor="end"))  # fmt: skip
    across, up = (str(c)[:40] for c in given["columns"][:2])
    middle = (x.begin + x.end) / 2
    parts.append(
        tag("text", across, x=middle, y=y.begin + 38, text_anchor="middle", class_="title-x")
    )
    turned = f"rotate(-90 12 {(y.begin + y.end) / 2})"
    parts.append(tag("text", up, x=12, y=(y.begin + y.end) / 2, text_anchor="middle",
                     transform=turned, class_="title-y"))  # fmt: skip
    return join(parts)


def _points(
    subject: Subject, observed: Observed, rows: list[Any], x: Scale, y: Scale
) -> list[Markup]:
    """Rows as points, in a group for each component."""
    order = _by_component(observed)
    labels = np.asarray(observed.labels)[order]
    numbers = order if observed.numbers is None else np.asarray(observed.numbers)[order]
    found = []
    for k in map(int, np.unique(labels)):
        points = [_point(rows[i], int(numbers[i]), k, x, y) for i in np.flatnonzero(labels == k)]
        look = color_of(subject.ranks.get(k, 6))
        found.append(tag("g", *points, class_=f"points {look}", data_k=k))
    return found


def _point(row: list[Any], number_of: int, k: int, x: Scale, y: Scale) -> Markup:
    if row[0] is None or row[1] is None:
        return tag("circle", class_="gone", r="2.2")
    title = tag("title", f"row {number_of} in {k}")
    return tag("circle", title, cx=x(row[0]), cy=y(row[1]), r="2.2")


def ellipse(center: Any, covariance: Array, n: int = 48) -> Array:
    """(n + 1, 2) points at two standard deviations."""
    angle = np.linspace(0, 2 * np.pi, n + 1)
    first = np.sqrt(max(covariance[0, 0], 1e-300))
    slope = covariance[0, 1] / first
    rest = np.sqrt(max(covariance[1, 1] - slope**2, 0.0))
    c, s = np.cos(angle), np.sin(angle)
    return np.column_stack([center[0] + 2 * first * c, center[1] + 2 * (slope * c + rest * s)])


def write_groups(subject: Subject) -> Markup | None:
    """Shares of components in each group of `by=`."""
    observed = subject.observed
    if observed is None or not observed.groups:
        return None
    header = ["group", *[subject.name(int(k)) for k in subject.shown[:20]]]
    rows = [
        [name, *[(percent(float(share[k])), float(share[k])) for k in subject.shown[:20]]]
        for name, share in observed.groups.items()
    ]
    title = tag("h3", "By group")
    columns = [None, *[int(k) for k in subject.shown[:20]]]
    caption = f"Shares of {subject.several} by group"
    inside = table(header, rows, caption=caption, columns=columns)
    told = None
    if not subject.shows_texts:
        few = f", those of fewer than {FEWEST} left out" if subject.keeps == "none" else ""
        told = tag("p", f"Groups without their names, the largest first{few}.", class_="note")
    return tag("figure", tag("figcaption", title), told, inside)


def write_certainty(subject: Subject) -> Markup | None:
    """Rows by their largest posterior probability."""
    observed = subject.observed
    if observed is None or observed.certainty is None:
        return None
    bins, n = observed.certainty, len(observed.certainty)
    x, y = Scale(0, 1, 56, 440), Scale(0, max(int(bins.max()), 1), 190, 20)
    width = (x.end - x.begin) / n
    parts = [axis_left(y, 56, 440, f"{subject.unit}s")]
    for i, count in enumerate(bins):
        if count:
            top = min(y(count), 189.0)
            parts.append(tag("rect", x=round(x.begin + width * i + 1, 1), y=top,
                             width=round(width - 2, 1), height=round(190 - top, 1),
                             class_="bar c0"))  # fmt: skip
    parts.append(axis_below(x, 190, f"largest probability of a {subject.noun}"))
    alt = (
        f"{percent(observed.sure)} of the {subject.unit}s have a {subject.noun} with more than "
        f"95 % probability; the mean of the largest is {observed.mean_certainty:.2f}."
    )
    rows = [[f"{i / n:.2f} to {(i + 1) / n:.2f}", int(c)] for i, c in enumerate(bins) if c]
    numbers = table(["largest probability", f"{subject.unit}s"], rows, caption="Certainty")
    return figure("Certainty", draw(460, 232, alt, parts), alt, numbers)


def write_overlap(subject: Subject) -> Markup | None:
    """Pairs of components that share most."""
    observed = subject.observed
    if observed is None or observed.overlap is None or observed.sizes is None:
        return None
    if len(subject.shown) < 2:
        return None
    ks = [int(k) for k in subject.shown]
    rows = []
    for at, i in enumerate(ks):
        for j in ks[at + 1 :]:
            sizes = observed.sizes[[i, j]].astype(float)
            mixed = sizes[0] * observed.overlap[i, j] + sizes[1] * observed.overlap[j, i]
            share = float(mixed / max(sizes.sum(), 1.0))
            rows.append((share, i, j))
    rows.sort(key=lambda row: (-row[0], row[1], row[2]))
    lines = [
        [f"{subject.name(i)} and {subject.name(j)}", (percent(share), share)]
        for share, i, j in rows[:10]
    ]
    share, i, j = rows[0]
    told = f"Least apart are {subject.name(i)} and {subject.name(j)}: {percent(share)} of the "
    told += f"probability of their {subject.unit}s is with the other."
    keys = [(i, j) for _, i, j in rows[:10]]
    inside = table(["pair", "shared"], lines, caption="The pairs that share most", keys=keys)
    return tag("figure", tag("figcaption", tag("h3", "Overlap")), tag("p", told), inside)


def write_worst(subject: Subject) -> Markup | None:
    """Rows explained worst, with the columns that make them so."""
    observed = subject.observed
    if observed is None or not observed.worst:
        return None
    rows = [[row, (number(score), score), told] for row, score, told in observed.worst]
    why = "where, and because of" if observed.paths else "because of"
    header = [subject.unit, "log density", why]
    keys = [k if k in subject.ranks else None for k in observed.worst_in] or None
    return tag(
        "div",
        tag("h3", f"{subject.unit.capitalize()}s explained worst"),
        table(header, rows, caption="The least probable under the model", keys=keys),
        class_="wide",
    )
