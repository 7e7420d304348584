"""Which family reads which column: turns what users give a Product into objects and positions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .base import BaseFamily
from .names import make_family

__all__ = ["MAX_SHOWN", "member_objects", "pick", "place_members"]

MAX_SHOWN = 5  # columns that a heading or an error lists

Members = tuple[tuple[Any, tuple[int, ...]], ...]


def place_members(members: Any, rest: Any, names: Sequence[str] | None, n_columns: int) -> Members:
    """(family, positions) for each member; `rest` takes the columns that no other member reads."""
    placed: list[tuple[Any, tuple[int, ...]]] = []
    pairs = _pairs(members)
    _check_names(
        [column for _, columns in pairs for column in columns if isinstance(column, str)], names
    )
    for family, columns in pairs:
        at = tuple(_find(column, names, n_columns) for column in columns)
        if not at:
            raise ValueError(f"{type(family).__name__} has no columns; leave it out or name some")
        placed.append((family, at))
    _check_once(placed, names)
    taken = {column for _, columns in placed for column in columns}
    left = tuple(column for column in range(n_columns) if column not in taken)
    if left and rest is None:
        plural, what = "s" if len(left) > 1 else "", _shown(_called(left, names))
        raise ValueError(
            f"no family for column{plural} {what}: name one, or give rest= (a family "
            "for all others), or drop them"
        )
    return (*placed, (_member(rest), left)) if left else tuple(placed)


def member_objects(members: Any) -> dict[str, BaseFamily]:
    """Families given as objects, by number: those that nested parameters can reach."""
    pairs = members if isinstance(members, list | tuple) else ()
    return {
        str(i): p[0]
        for i, p in enumerate(pairs)
        if isinstance(p, list | tuple) and p and isinstance(p[0], BaseFamily)
    }


def pick(columns: Sequence[int]) -> Any:
    """An index for the columns: a slice if they are neighbors, because it copies nothing."""
    first, last = columns[0], columns[-1] + 1
    return slice(first, last) if list(columns) == list(range(first, last)) else list(columns)


def _pairs(members: Any) -> list[tuple[Any, list[Any]]]:
    """(family, columns) for each member, columns as the user gave them."""
    if isinstance(members, Mapping):
        if not all(isinstance(name, str) for name in members):
            raise ValueError(
                "a dict of members has families by name; give family objects as a "
                "list of (family, columns) pairs"
            )
        members = list(members.items())
    is_list = isinstance(members, list | tuple) and len(members) > 0
    if not is_list or not all(
        isinstance(pair, list | tuple) and len(pair) == 2 for pair in members
    ):
        raise ValueError(
            "members must be a dict such as {'gaussian': ['height'], 'categorical': ['color']} or "
            "a list of (family, columns) "
            f"pairs; got {members!r}"
        )
    return [(_member(family), _as_list(columns)) for family, columns in members]


def _member(family: Any) -> Any:
    found = make_family(family)
    if hasattr(found, "members"):
        raise ValueError("a member of a Product cannot be a Product: list its members instead")
    return found


def _as_list(columns: Any) -> list[Any]:
    if isinstance(columns, str | int | np.integer):
        return [columns]
    if (
        not hasattr(columns, "__iter__")
        or not hasattr(columns, "__len__")
        or isinstance(columns, Mapping)
    ):
        raise ValueError(f"columns must be names or positions; got {columns!r}")
    return list(columns)


def _check_names(columns: Sequence[str], names: Sequence[str] | None) -> None:
    """Columns given by name must be in the table, once."""
    if columns and names is None:
        raise ValueError(
            f"Product names the columns {_shown(columns)}, but the data have no names: give a data "
            "frame, or positions"
        )
    known = names or ()
    unknown = [column for column in columns if column not in known]
    if unknown:
        raise ValueError(f"the data frame has no column {_shown(unknown)}; it has {_shown(known)}")
    for column in columns:
        if list(known).count(column) > 1:
            raise ValueError(f"the data frame has several columns {column!r}")


def _find(column: Any, names: Sequence[str] | None, n_columns: int) -> int:
    """The position of a column given by name or position."""
    if isinstance(column, str):
        assert names is not None
        return list(names).index(column)
    if isinstance(column, bool | np.bool_) or not isinstance(column, int | np.integer):
        raise ValueError(f"columns must be names or positions; got {column!r}")
    if not 0 <= column < n_columns:
        raise ValueError(
            f"Product reads column {column}, but the data have {n_columns} columns, 0 "
            f"to {n_columns - 1}"
        )
    return int(column)


def _check_once(placed: Sequence[tuple[Any, tuple[int, ...]]], names: Sequence[str] | None) -> None:
    readers: dict[int, str] = {}
    for family, columns in placed:
        for column in columns:
            if column in readers:
                what, who = (
                    _called([column], names)[0],
                    f"{readers[column]} and {type(family).__name__}",
                )
                raise ValueError(
                    f"column {what!r} is used twice, by {who}; a column has one family"
                )
            readers[column] = type(family).__name__


def _called(columns: Sequence[int], names: Sequence[str] | None) -> list[Any]:
    return list(columns) if names is None else [names[column] for column in columns]


def _shown(columns: Sequence[Any]) -> str:
    """Columns as shown in an error: all, or the first few and the last."""
    words = [repr(column) for column in columns]
    return ", ".join(
        words if len(words) <= MAX_SHOWN else [*words[: MAX_SHOWN - 1], "...", words[-1]]
    )
