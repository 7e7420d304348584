"""Sections of sequences: states over time, what follows what, stays, use by sequence."""

from __future__ import annotations

from typing import Any

import numpy as np

from stickbreak.protocols import Array
from stickbreak.structures import Chain, SemiMarkov

from .columns import FEWEST, write_fit
from .drawing import (
    Scale,
    axis_below,
    axis_left,
    color_of,
    draw,
    figure,
    number,
    path_of,
    percent,
    plural,
    shortened,
    table,
)
from .markup import Markup, clean, join, tag
from .replicas import stays_of
from .sections import Fact, Section, data_of, facts_of, sections_of
from .subject import Observed, Subject
from .tables import write_certainty, write_groups, write_overlap, write_worst

__all__ = ["write_followers", "write_stays", "write_strips", "write_use"]

WIDTH, MOST_STRIPS, MOST_LAWS = 1000, 20, 12
MOST_STAYS, MOST_DOTS = 3500, 500  # marks of all strips: 4,000 together
NARROW, LETTER, MOST_LETTERS = 64, 7.5, 16  # of the names beside the strips, and their letters


@sections_of.register(Chain)
@sections_of.register(SemiMarkov)
def _(structure: Any) -> tuple[Section, ...]:
    return (
        Section("found", write_strips),
        Section("found", write_onsets),
        Section("found", write_followers),
        Section("found", write_use),
        Section("found", write_groups),
        Section("sure", write_certainty),
        Section("sure", write_overlap),
        Section("fit", write_stays),
        Section("fit", write_laws),
        Section("fit", write_fit),
        Section("fit", write_worst),
    )


@facts_of.register(Chain)
@facts_of.register(SemiMarkov)
def _(structure: Any, subject: Subject) -> list[Fact]:
    observed = subject.observed
    if observed is None:
        n = round(float(subject.counts.sum()))
        return [Fact("Rows", number(n), "of the fit, expected")]
    columns = len(subject.columns)
    lengths = np.concatenate([stays_of(path)[1] for path in observed.paths])
    about = f"{observed.n_rows:,} rows, {columns:,} {plural('column', columns)}"
    return [
        Fact("Sequences", number(observed.n_units), about),
        Fact("Median stay", number(float(np.median(lengths))), f"rows, of {len(lengths):,} stays"),
        Fact("Certainty", f"{observed.mean_certainty:.2f}", "mean largest probability"),
    ]


def write_strips(subject: Subject) -> Markup | None:
    """States over time, a strip for each sequence, with one column below."""
    observed = subject.observed
    if observed is None or not observed.paths:
        return None
    if subject.keeps == "none":
        missing = "States over time are left out: they are those of single rows."
        return tag("p", missing, class_="note wide")
    paths = observed.paths[:MOST_STRIPS]
    longest = max(len(path) for path in paths)
    n_stays = sum(len(stays_of(path)[1]) for path in paths)
    every = 1
    if n_stays > MOST_STAYS:
        every = -(-sum(len(p) for p in paths) // (MOST_STAYS - len(paths)))
    courses = subject.more.get("courses")
    step = 64 if courses else 34
    names = [shortened(str(observed.sequence(s)), MOST_LETTERS) for s in range(len(paths))]
    left = max(NARROW, 12 + round(LETTER * max(map(len, names))))
    unit = (WIDTH - left - 8) / longest
    parts: list[Any] = []
    n_dots = MOST_DOTS // len(paths)
    for s, path in enumerate(paths):
        y = 8 + step * s
        parts.append(tag("text", names[s], x=left - 8, y=y + 16, text_anchor="end"))
        parts.append(_strip(subject, _binned(path, every), left, unit * every, y))
        parts.append(_unsure(observed.unsure[s], n_dots, left, unit, y))
        if courses and s < len(courses[1][0]):
            parts += [
                _line(lines, s, left, unit * len(path), y + 28, at)
                for at, lines in enumerate(courses[1])
            ]
    states, lengths = (np.concatenate(p) for p in zip(*map(stays_of, paths), strict=True))
    common = int(np.bincount(states, lengths).argmax())
    alt = (
        f"States over time in {len(paths)} of {observed.n_units} sequences, {n_stays:,} stays; "
        f"state {common} takes most of the rows."
    )
    note = "Numbers are states as predict gives them. Dots mark rows whose state is unsure. "
    note += f"Below each strip: {courses[0][0]}. " if courses else ""
    note += f"Long sequences: the commonest state of every {every} rows. " if every > 1 else ""
    if max(map(len, observed.unsure[: len(paths)])) > n_dots:
        note += f"At most {n_dots} dots in a strip. "
    more = observed.n_units - len(paths)
    note += f"{more} more sequences are not drawn." if more > 0 else ""
    header = ["sequence", "state", "begin", "rows"]
    stays = _stay_rows(observed, paths)
    keys = [k if k in subject.ranks else None for _, k, *_ in stays]
    numbers = table(header, stays, caption="The first 200 stays", keys=keys)
    image = draw(WIDTH, 16 + step * len(paths), alt, parts, id_="strips")
    controls = tag("div", id="strip-controls", hidden=True, data_left=left)
    return figure("States over time", join([controls, image]), note, numbers, True)


@data_of.register(Chain)
@data_of.register(SemiMarkov)
def _(structure: Any, subject: Subject) -> dict[str, Any]:
    courses = subject.more.get("courses")
    return {"courses": [clean(name) for name in courses[0]] if courses else []}


def write_onsets(subject: Subject) -> Markup | None:
    """The mean course of each state from its beginning on."""
    courses = subject.more.get("courses")
    if courses is None or not np.isfinite(courses[2]).any():
        return None
    names, _, values = courses
    ks = [int(k) for k in subject.shown if np.isfinite(values[0, k]).sum() > 1][:12]
    if not ks:
        return None
    low, high = float(np.nanmin(values[0, ks])), float(np.nanmax(values[0, ks]))
    length = values.shape[2]
    x, y = Scale(0, length - 1, 70, 440), Scale(low, high, 190, 26)
    parts = [axis_left(y, 70, 440, str(names[0])[:50])]
    for k in ks:
        known = np.flatnonzero(np.isfinite(values[0, k]))
        line = path_of(known, values[0, k, known], x, y)
        look = color_of(subject.ranks[k])
        end = int(known[-1])
        inner = [tag("polyline", points=line, class_="outline")]
        inner.append(tag("text", str(k), x=min(x(end) + 4, 444), y=y(values[0, k, end]) + 4,
                         class_="halo"))  # fmt: skip
        parts.append(tag("g", *inner, class_=look, data_k=k))
    parts.append(axis_below(x, 190, "rows after the state began", whole=True))
    k = max(ks, key=lambda k: float(np.ptp(values[0, k][np.isfinite(values[0, k])])))
    own = values[0, k][np.isfinite(values[0, k])]
    alt = f"Mean {names[0]} after a state begins. State {subject.name(k)} changes most: from "
    alt += f"{number(float(own[0]))} to {number(float(own[-1]))} in {len(own)} rows."
    places = [t for t in (0, 1, 2, 5, 10, 19) if t < length]
    header = ["state", "column", *[f"+{t}" for t in places]]
    rows = [
        [subject.name(k), names[d], *[float(values[d, k, t]) for t in places]]
        for k in ks
        for d in range(len(names))
    ]
    keys = [k for k in ks for _ in names]
    numbers = table(header, rows, caption="Means so many rows after the beginning", keys=keys)
    note = "Averages over stays that were seen to begin, of at least three. The first stay of a "
    return figure(
        "From the beginning of a state", draw(470, 232, alt, parts),
        alt + " " + note + "sequence is left out.", numbers,
    )  # fmt: skip


def write_laws(subject: Subject) -> Markup | None:
    """Laws of duration over the stays that were seen."""
    observed, laws = subject.observed, subject.more.get("laws")
    if observed is None or not observed.paths or laws is None:
        return None
    pairs = [stays_of(path) for path in observed.paths]
    states, lengths = (np.concatenate(part) for part in zip(*pairs, strict=True))
    figures = []
    for k in [int(k) for k in subject.shown if (states == k).sum() >= 3][:MOST_LAWS]:
        figures.append(_law(subject, k, lengths[states == k], np.asarray(laws[k])))
    if not figures:
        return None
    text = "Bars: stays that were seen. Line: the law of duration of the state."
    return tag("div", tag("h3", "How long states last"), tag("p", text, class_="note"),
               tag("div", *figures, class_="grid-of-figures"), class_="wide")  # fmt: skip


def _law(subject: Subject, k: int, own: Array, law: Array) -> Markup:
    n = min(len(law), max(int(np.quantile(own, 0.98)) + 1, 4))
    every = max(1, -(-n // 24))
    n_bars = -(-n // every)
    seen = np.bincount(np.minimum((own - 1) // every, n_bars - 1), minlength=n_bars) / len(own)
    padded = np.pad(law[: n_bars * every], (0, max(0, n_bars * every - len(law))))
    expected = padded.reshape(n_bars, every).sum(1)
    x = Scale(0.5, n_bars * every + 0.5, 56, 440)
    y = Scale(0, float(max(seen.max(), expected.max())) or 1.0, 130, 14)
    marks, line = [], ""
    for i in range(n_bars):
        a, b = x(i * every + 0.5), x((i + 1) * every + 0.5)
        marks.append(tag("rect", x=a, y=y(seen[i]), width=round(b - a, 1),
                         height=round(130 - y(seen[i]), 1), class_="seen"))  # fmt: skip
        line += f"{'L' if i else 'M'}{a} {y(expected[i])}H{b}"
    marks.append(tag("path", d=line, class_="expected"))
    parts = [tag("g", *marks, data_k=k), axis_below(x, 130, "rows", whole=True)]
    mean = float((law * np.arange(1, len(law) + 1)).sum() / max(law.sum(), 1e-300))
    alt = f"State {subject.name(k)}: {len(own)} stays of {number(float(own.mean()))} rows on "
    alt += f"average; the law has {number(mean)}."
    begins = 1 + every * np.arange(n_bars)
    ends = [f" to {b + every - 1}" if every > 1 else "" for b in begins[:-1]]
    rows = [
        [(f"{b}{end}", b), *[(percent(float(p)), float(p)) for p in both]]
        for b, end, *both in zip(begins, [*ends, " or more"], seen, expected, strict=True)
        if any(p > 0 for p in both)
    ]
    caption = f"Stays of state {subject.name(k)} by their rows"
    numbers = table(["rows", "stays seen", "law"], rows, caption=caption)
    return figure(f"State {subject.name(k)}", draw(460, 172, alt, parts), alt, numbers)


def _stay_rows(observed: Observed, paths: Any) -> list[list[Any]]:
    rows: list[list[Any]] = []
    for s, path in enumerate(paths):
        states, lengths = stays_of(path)
        begins = np.concatenate([[0], np.cumsum(lengths)[:-1]])
        for k, b, n in zip(states, begins, lengths, strict=True):
            rows.append([observed.sequence(s), int(k), int(b), int(n)])
        if len(rows) > 200:
            break
    return rows[:200]


def _binned(path: Array, every: int) -> Array:
    """The commonest state of each `every` rows."""
    if every == 1:
        return path
    return np.array([np.bincount(path[i : i + every]).argmax() for i in range(0, len(path), every)])


def _strip(subject: Subject, path: Array, left: float, unit: float, y: float) -> Markup:
    states, lengths = stays_of(path)
    x, parts = float(left), []
    for k, n in zip(map(int, states), lengths, strict=True):
        width = n * unit
        rank = subject.ranks.get(k, 6)
        inner = [tag("rect", x=round(x, 1), y=y, width=round(max(width, 0.4), 1), height=22,
                     class_=f"bar {color_of(rank)}", fill_opacity="0.62")]  # fmt: skip
        if width > 9 * len(str(k)) + 4:
            inner.append(tag("text", str(k), x=round(x + width / 2, 1), y=y + 16, class_="halo",
                             text_anchor="middle"))  # fmt: skip
        else:  # color is not all that tells it
            inner.append(tag("title", f"state {k}"))
        parts.append(tag("g", *inner, data_k=k))
        x += width
    return join(parts)


def _unsure(places: Array, most: int, left: float, unit: float, y: float) -> Markup:
    every = max(1, -(-len(places) // most))
    return join(
        tag(
            "circle", cx=round(left + unit * (int(i) + 0.5), 1), cy=y + 25, r="1.6", class_="unsure"
        )
        for i in places[::every]
    )


def _line(lines: Any, s: int, left: float, width: float, y: float, at: int) -> Markup:
    values = lines[s]
    every = [v for line in lines for v in (line[np.isfinite(line)],) if len(v)]
    if not every:
        return Markup("")
    low, high = min(v.min() for v in every), max(v.max() for v in every)
    span = (high - low) or 1.0
    step = width / max(len(values), 1)
    points = " ".join(
        f"{left + step * (i + 0.5):.1f},{y + 24 - 22 * (v - low) / span:.1f}"
        for i, v in enumerate(values)
        if np.isfinite(v)
    )
    look = f"curve course course-{at}" + (" gone" if at else "")
    return tag("polyline", points=points, class_=look, stroke_width="1")


def write_followers(subject: Subject) -> Markup | None:
    """What follows what, stays left out."""
    transition = subject.more.get("transition")
    if transition is None or len(subject.shown) < 2:
        return None
    leaving = np.array(transition, dtype=float)
    np.fill_diagonal(leaving, 0.0)
    leaving = leaving / np.maximum(leaving.sum(1, keepdims=True), 1e-300)
    rows = []
    for k in map(int, subject.shown):
        order = [int(j) for j in np.argsort(-leaving[k], kind="stable")[:4] if leaving[k, j] > 0.02]
        text = ", ".join(f"{subject.name(j)} ({percent(float(leaving[k, j]))})" for j in order)
        rows.append([subject.name(k), text, (f"{transition[k, k]:.3f}", float(transition[k, k]))])
    header = ["after state", "comes, when it is left", "probability to stay"]
    keys = [int(k) for k in subject.shown]
    inside = table(header, rows, caption="Posterior mean transitions", keys=keys)
    return tag("figure", tag("figcaption", tag("h3", "What follows what")), inside)


def write_use(subject: Subject) -> Markup | None:
    """Shares of the states in each sequence."""
    observed = subject.observed
    if observed is None or len(observed.paths) < 2:
        return None
    K, ks = len(subject.weights), [int(k) for k in subject.shown[:14]]
    fewest = FEWEST if subject.keeps == "none" else 1
    rows = []
    for s, path in enumerate(observed.paths[:120]):
        if len(path) < fewest:
            continue
        share = np.bincount(path, minlength=K) / len(path)
        cells = [(percent(float(share[k])), float(share[k])) for k in ks]
        rows.append([observed.sequence(s), len(path), *cells])
    if not rows:
        return None
    header = ["sequence", "rows", *[subject.name(k) for k in ks]]
    columns = [None, None, *ks]
    inside = table(header, rows, caption="Shares of the states by sequence", columns=columns)
    return tag("figure", tag("figcaption", tag("h3", "Use by sequence")), inside, class_="wide")


def write_stays(subject: Subject) -> Markup | None:
    """Stays seen and expected."""
    observed, expected = subject.observed, subject.more.get("durations")
    if observed is None or not observed.paths or expected is None:
        return None
    pairs = [stays_of(path) for path in observed.paths]
    states, lengths = (np.concatenate(part) for part in zip(*pairs, strict=True))
    rows = []
    for k in map(int, subject.shown):
        own = lengths[states == k]
        if len(own):
            rows.append([subject.name(k), len(own), float(own.mean()), float(np.median(own)),
                         int(own.max()), float(expected[k])])  # fmt: skip
    header = ["state", "stays", "mean rows", "median", "longest", "expected by the model"]
    keys = [int(k) for k in subject.shown if (states == k).any()]
    told = f"{len(lengths):,} stays, of {number(float(lengths.mean()))} rows on average. Stays at "
    told += "the ends of sequences are cut and so shorter than expected."
    inside = table(header, rows, caption="Stays", keys=keys)
    return tag(
        "figure", tag("figcaption", tag("h3", "Stays")), tag("p", told), inside, class_="wide"
    )
