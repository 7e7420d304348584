"""Names of the fields of a Product: a member's own, after its number and a dot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from stickbreak.protocols import Array, Counts

__all__ = ["divide_fields", "member_prefix", "number_fields", "select_fields"]


def member_prefix(member: int) -> str:
    """What stands before the names of a member."""
    return f"{member}."


def number_fields(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The members' values, by their names in the Product."""
    return {member_prefix(i) + name: own[name] for i, own in enumerate(parts) for name in own}


def select_fields(values: Counts, member: int, names: Iterable[str]) -> dict[str, Array]:
    """A member's values, by its own names."""
    return {name: values[member_prefix(member) + name] for name in names}


def divide_fields(values: Mapping[str, Array], n_members: int) -> list[dict[str, Array]]:
    """The values of each member, by its own names."""
    parts: list[dict[str, Array]] = [{} for _ in range(n_members)]
    for name, value in values.items():
        member, _, own = name.partition(".")
        parts[int(member)][own] = value
    return parts
