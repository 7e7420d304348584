"""How components were found: the bound, the life of each of them, moves kept and refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .drawing import (
    Scale,
    axis_below,
    axis_left,
    color_of,
    details,
    draw,
    figure,
    number,
    plural,
    table,
)
from .markup import Markup, join, tag
from .subject import Subject

__all__ = ["Life", "lives_of", "write_history"]

WIDTH, LEAST_LIFE = 1000, 4  # pixels: a life of one lap is seen too
MOST_LINES = 88  # no higher than a sheet of paper
MARKS = {"birth": "\u25b2", "merge": "\u25bc", "delete": "\u00d7", "loosen": "\u25c7"}


class Life(NamedTuple):
    """A component over the laps of a fit.

    begin, end : laps; end is None if it is in the result
    came, went : ids of the component it was born from, and of the one that took it up; or None
    """

    id: int
    begin: int
    end: int | None
    came: int | None = None
    went: int | None = None


def _dying(record: Any) -> tuple[int, ...]:
    gone = record.parents[:1] if record.kind == "delete" else record.parents
    return tuple(int(i) for i in gone if i not in record.children)


def lives_of(moves: Sequence[Any], ids: Sequence[int]) -> list[Life]:
    """The life of each component, from the moves that were accepted and the ids at the end."""
    kept = [r for r in moves if r.is_accepted]
    died = {i: r for r in kept for i in _dying(r)}
    born: dict[int, Any] = {}
    for record in kept:
        for i in record.children:
            if i not in record.parents and record.kind == "birth":
                born.setdefault(int(i), record)
    everyone = dict.fromkeys([*map(int, ids), *born, *died])
    found = []
    for i in everyone:
        birth, death = born.get(i), died.get(i)
        took_up = death.children[0] if death is not None and death.children else None
        found.append(
            Life(
                i,
                0 if birth is None else int(birth.lap),
                None if death is None else int(death.lap),
                None if birth is None or not birth.parents else int(birth.parents[0]),
                None if took_up is None else int(took_up),
            )
        )
    return _by_family(found)


def _by_family(lives: list[Life]) -> list[Life]:
    """Children below those they came from."""
    below: dict[int | None, list[Life]] = {}
    known = {life.id for life in lives}
    for life in sorted(lives, key=lambda life: (life.begin, life.id)):
        below.setdefault(life.came if life.came in known else None, []).append(life)
    found, todo, seen = [], list(reversed(below.get(None, []))), set()
    while todo:
        life = todo.pop()
        if life.id in seen:
            continue
        seen.add(life.id)
        found.append(life)
        todo += reversed(below.get(life.id, []))
    return found + [life for life in lives if life.id not in seen]


def write_history(subject: Subject) -> Markup:
    """The section on how components were found."""
    trace = subject.trace
    if len(trace) == 0:
        return tag("p", "The model was updated by partial_fit: there are no laps to show.")
    return join([_curve(subject), _starts(subject), _evidence(subject), _all_moves(subject)])


def _starts(subject: Subject) -> Markup | None:
    """The starts of the fit side by side, the best first."""
    if not subject.starts:
        return None
    rows = [
        [i, (number(bound, 9), bound), K, n]
        for i, (bound, K, n) in sorted(enumerate(subject.starts), key=lambda item: -item[1][0])
    ]
    header = ["start", f"{subject.objective or 'bound'} (nats)", subject.several, "laps"]
    inside = table(header, rows, caption="All starts; the page shows the first of these")
    return tag("figure", tag("figcaption", tag("h3", "Starts")), inside)


def _curve(subject: Subject) -> Markup:
    trace = subject.trace
    has_bound = bool(np.isfinite(trace.bound).any())
    values = trace.bound if has_bound else trace.log_z
    what = subject.objective if has_bound else f"log normalizer per {subject.unit}"
    n = len(values)
    lives = lives_of(trace.moves, subject.ids) if any(r.is_accepted for r in trace.moves) else []
    across = Scale(1, max(n, 2), 96, WIDTH - 24)
    lo, hi = _range(values)
    up = Scale(lo, hi, 190, 26)
    shown = np.flatnonzero(values >= lo)
    points = " ".join(f"{across(int(i) + 1)},{up(values[i])}" for i in shown)
    parts = [axis_left(up, 96, WIDTH - 24, f"{what} (nats)")]
    parts.append(tag("polyline", points=points, class_="curve"))
    parts += _marks(trace, {lap: up(values[lap - 1]) for lap in (shown + 1).tolist()}, across)
    drawn, height = _draw_lives(subject, lives, across, 216, n)
    parts += [*drawn, axis_below(across, height, "lap", whole=True)]
    alt = (
        f"{what}, {number(float(values[0]), 6)} nats after the first lap and "
        f"{number(float(values[-1]), 6)} after {n} {plural('lap', n)}; "
        f"{trace.n_components[-1]} {subject.several} at the end."
    )
    note = _note(subject, lives, has_bound)
    return figure(
        "The fit, lap by lap", draw(WIDTH, int(height) + 44, alt, parts), note, _laps(subject), True
    )


def _marks(trace: Any, heights: dict[int, float], across: Scale) -> list[Markup]:
    """What was kept in each lap, on the curve; a number where a lap has several of a kind."""
    kept: dict[int, Counter[str]] = {}
    for record in trace.moves:
        if record.is_accepted and record.lap in heights:
            kept.setdefault(record.lap, Counter())[MARKS.get(record.kind, "\u25c7")] += 1
    found = []
    for lap, counts in kept.items():
        told = " ".join(f"{mark}{n if n > 1 else ''}" for mark, n in counts.items())
        x = min(across(lap), WIDTH - 8 - 5 * len(told))
        found.append(tag("text", told, x=x, y=heights[lap] + 4, text_anchor="middle",
                         class_="halo"))  # fmt: skip
    return found


def _range(values: Any) -> tuple[float, float]:
    """The part of the curve to draw: first laps that are far below are cut off."""
    finite = values[np.isfinite(values)]
    hi = float(finite.max())
    lo = float(finite.min())
    if len(finite) > 4:
        late = float(np.min(finite[len(finite) // 5 :]))
        lo = max(lo, late - 0.25 * max(hi - late, 1.0))
    pad = max(0.04 * (hi - lo), 0.5 if hi - lo < 1.0 else 0.0)
    return lo - pad, hi + pad


def _note(subject: Subject, lives: list[Life], has_bound: bool) -> str:
    text = ""
    if not has_bound:
        text = "This engine has no bound of all data, so the curve is the mean local log "
        text += "normalizer. "
    elif subject.objective != "bound":
        text = "This engine has no bound on the evidence, so there is no curve of it: shown is the "
        text += f"{subject.objective}, which is not to be compared with bounds. "
    if not lives:
        return text + "The number of components did not change by moves."
    text += "\u25b2 a birth, \u25bc two joined, \u00d7 one removed; a number: so many in one lap. "
    text += "Below, a line for the life of each: colored and thick if it is in the result. "
    text += "Numbers are those of predict, with the permanent id in brackets."
    more = len(lives) - MOST_LINES
    return text + (f" {more} shorter lives are not drawn." if more > 0 else "")


def _draw_lives(
    subject: Subject, lives: list[Life], across: Scale, top: float, n: int
) -> tuple[list[Markup], float]:
    place = {int(i): k for k, i in enumerate(subject.ids)}
    if len(lives) > MOST_LINES:
        order = sorted(lives, key=lambda x: (x.end or n + 1) - x.begin, reverse=True)
        keep = {life.id for life in order[:MOST_LINES]}
        lives = [life for life in lives if life.id in keep]
    step = 18.0 if len(lives) <= 60 else 13.0
    height = {life.id: top + 12 + step * at for at, life in enumerate(lives)}
    parts = []
    for life in lives:
        y, k = height[life.id], place.get(life.id)
        x1, x2 = across(max(life.begin, 1)), across(n if life.end is None else life.end)
        x2 = max(x2, x1 + LEAST_LIFE)
        rank = subject.ranks.get(k) if k is not None else None
        look = "gone-line" if rank is None else color_of(rank)
        width = 1.0 if rank is None or k is None else 2.0 + 6.0 * float(subject.weights[k]) ** 0.5
        inner = [
            tag("path", d=f"M{x1} {y}H{x2}", class_=f"life {look}", stroke_width=f"{width:.1f}")
        ]
        if life.came in height:
            inner.append(tag("path", d=f"M{x1} {height[life.came]}V{y}", class_="life gone-line"))
        if life.end is not None and life.went in height:
            inner.append(tag("path", d=f"M{x2} {y}V{height[life.went]}", class_="life gone-line"))
        elif life.end is not None:
            inner.append(tag("text", "\u00d7", x=x2, y=y + 4, text_anchor="middle"))
        if k is not None:
            text = f"{k} ({life.id})"
            inner.append(tag("text", text, x=across.begin - 8, y=y + 4, text_anchor="end"))
        parts.append(tag("g", *inner, data_k=k if rank is not None else None))
    return parts, top + 8 + step * max(len(lives), 0) + (8 if lives else -16)


def _laps(subject: Subject) -> Markup:
    trace, most = subject.trace, 200
    every = max(1, -(-len(trace) // most))
    chosen = [r for i, r in enumerate(trace) if i % every == 0 or i == len(trace) - 1]
    rows = [
        [
            r.lap,
            (number(r.bound, 9) if r.bound is not None else "\u2013", r.bound or float("nan")),
            (f"{r.log_z:.4f}", r.log_z),
            r.n_components,
        ]
        for r in chosen
    ]
    header = ["lap", f"{subject.objective or 'bound'} (nats)", "log normalizer", subject.several]
    return table(header, rows, caption="Laps" + (f", every {every}th" if every > 1 else ""))


def _evidence(subject: Subject) -> Markup | None:
    """Refused merges and deletes of components in the result."""
    place = {int(i): k for k, i in enumerate(subject.ids)}
    last = {}
    for r in subject.trace.judged:
        involved = r.parents if r.kind == "merge" else r.parents[:1]
        if not r.is_accepted and r.kind in ("merge", "delete") and np.isfinite(r.gain):
            last[r.kind, involved] = r
    rows: list[list[Any]] = []
    keys: list[tuple[int, ...]] = []
    for (kind, involved), r in last.items():
        if r.gain < 0 and all(int(i) in place for i in involved):
            which = " and ".join(subject.name(place[int(i)]) for i in involved)
            verb = "joining" if kind == "merge" else "removing"
            rows.append([f"{verb} {which}", (number(-r.gain), -r.gain), r.lap])
            keys.append(tuple(place[int(i)] for i in involved))
    order = sorted(range(len(rows)), key=lambda at: rows[at][1][1])
    rows, keys = [rows[at] for at in order], [keys[at] for at in order]
    if not rows:
        return None
    return tag(
        "div",
        tag("h3", "What it would cost to have fewer"),
        tag(
            "p",
            f"{rows[0][0].capitalize()} would cost {rows[0][1][0]} nats, the least of all changes "
            "that were tried and refused. A cost above 3 nats is strong evidence for both.",
            class_="note",
        ),
        table(
            ["change", "cost (nats)", "lap"],
            rows[:12],
            keys=keys[:12],
            caption="Refused, the cheapest first",
        ),
    )


def _all_moves(subject: Subject) -> Markup | None:
    moves = subject.trace.judged
    if not moves:
        return None
    most = 400
    rows = [
        [
            r.lap,
            r.kind,
            ", ".join(map(str, r.parents[:8])),
            ", ".join(map(str, r.children[:8])),
            (f"{r.gain:+.2f}".replace("-", "\u2212"), r.gain),
            "kept" if r.is_accepted else "refused",
        ]
        for r in moves[:most]
    ]
    header = ["lap", "move", "ids before", "ids after", "gain (nats)", "result"]
    more = f"; the first {most} of them" if len(moves) > most else ""
    title = f"All {len(moves)} moves that were judged on all data{more}"
    title = title if len(moves) > 1 else "The one move that was judged on all data"
    return details(title, table(header, rows, caption="Moves, by permanent ids"))
