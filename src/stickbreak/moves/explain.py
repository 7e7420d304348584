"""Moves in words and numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stickbreak.inference import MoveRecord

__all__ = ["explain"]


def explain(
    records: Sequence[MoveRecord],
    ids: Any,
    named: Sequence[int] = (),
    share_of_time: float | None = None,
) -> str:
    """A summary of all moves and of each kind, then every accepted one in order.

    Components come and go meanwhile, so they are called by their permanent ids.

    named : those that no move may touch
    share_of_time : what moves took of the time of the fit
    """
    lines = []
    looks = [record for record in records if record.on_sample]
    records = [record for record in records if not record.on_sample]
    if share_of_time is not None and (records or looks):
        lines.append(_summary(records, looks, share_of_time))
    if named:
        lines.append(f"No move may touch {_listed(named)}: labels or arguments name them.")
    if not records:
        lines.append(
            "No move was tried on all data: the engine has none, the fit ended before its second "
            "lap, or none paid on a sample. Merges of a start are not counted."
        )
        return "\n".join(lines)
    for kind in dict.fromkeys(record.kind for record in records):
        tried = [record for record in records if record.kind == kind]
        kept = [record for record in tried if record.is_accepted]
        gained = sum(record.gain for record in kept)
        lines.append(
            f"{kind}: {len(tried)} tried on all data, {len(kept)} accepted, {gained:+.2f} nats"
        )
    lines += [_sentence(record) for record in records if record.is_accepted]
    which = "1 component, 0" if len(ids) == 1 else f"{len(ids)} components, 0 to {len(ids) - 1}"
    lines.append(f"At the end: {which}, with {_listed(ids)}.")
    return "\n".join(lines)


def _summary(
    records: Sequence[MoveRecord], looks: Sequence[MoveRecord], share_of_time: float
) -> str:
    kept = [record for record in records if record.is_accepted]
    noun = "move" if len(records) == 1 else "moves"
    text = (
        f"{len(records)} {noun} tried, {len(kept)} accepted, "
        f"{sum(record.gain for record in kept):+.2f} nats, {share_of_time:.0%} of the time"
    )
    n_passes = sum(record.n_passes for record in records)
    text += f"; trials took {n_passes:.1f} passes over the data" if n_passes else ""
    return text + (f"; {len(looks)} more did not pay on a sample" if looks else "")


def _sentence(record: MoveRecord) -> str:
    parents, children = _listed(record.parents), _listed(record.children)
    what = {
        "birth": f"{parents} became {children}",
        "merge": f"{parents} joined into {children}",
        "delete": f"{_listed(record.parents[:1])} was shared out among {children}",
        "loosen": f"steps between {children} were weighed anew",
    }.get(record.kind, f"{parents} became {children}")
    return f"lap {record.lap}: {record.kind}, {what} ({record.gain:+.2f} nats)"


def _listed(ids: Sequence[int]) -> str:
    words = [str(int(i)) for i in ids]
    if len(words) == 1:
        return f"id {words[0]}"
    return f"ids {', '.join(words[:-1])} and {words[-1]}"
