"""The components that a row may have: known labels, and dictionaries of symbols."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from stickbreak.stats import Array

from .schema import Categories

__all__ = ["Dictionary", "join_sets", "legal_sets", "make_dictionary"]


def legal_sets(
    labels: ArrayLike, n_rows: int, n_ids: int, ids: Sequence[int] | None = None
) -> tuple[Array, Array]:
    """Row sets (n,) and legal (S, K) from labels.

    Set 0 (label -1) allows all components, set c + 1 only the one with id c.

    ids : of the components; None for 0 to n_ids - 1
    """
    found = np.asarray(labels)
    if found.shape != (n_rows,):
        raise ValueError(f"labels has shape {found.shape} but X has {n_rows} rows")
    is_number = found.dtype.kind in "iubf"
    if not is_number or not (np.isfinite(found) & (found == np.floor(found))).all():
        raise ValueError("labels must be whole numbers, -1 for unknown")
    found = found.astype(np.int64)
    if found.min() < -1 or found.max() >= n_ids:
        bad = found.min() if found.min() < -1 else found.max()
        raise ValueError(
            f"labels holds {bad}; with n_components={n_ids} labels are -1 (unknown) to {n_ids - 1}"
        )
    n_labels = int(found.max()) + 1
    legal = np.concatenate([np.ones((1, n_ids)), np.eye(n_labels, n_ids)])
    if ids is not None:
        legal = legal[:, list(ids)]
        gone = np.flatnonzero(legal.sum(1) == 0)
        if np.isin(gone, found + 1).any():
            raise ValueError(
                f"labels holds {gone[0] - 1}, but the model has no component with that id any more"
            )
    return found + 1, legal


def join_sets(first: tuple[Array, Array], second: tuple[Array, Array]) -> tuple[Array, Array]:
    """Row sets (n,) and legal (S, K) that satisfy both of two such pairs; set 0 allows all."""
    (sets, legal), (others, limits) = first, second
    found, joined = np.unique(sets * len(limits) + others, return_inverse=True)
    both = legal[found // len(limits)] * limits[found % len(limits)]
    return joined + 1, np.concatenate([np.ones((1, legal.shape[1])), both])


@dataclass(frozen=True)
class Dictionary:
    """States that each symbol may come from.

    set_of : (V + 1,) legal set of each symbol, 0 at the end for a missing one
    legal : (S, K) set 0 allows all states
    """

    set_of: Array
    legal: Array

    def sets(self, rows: Array) -> Array:
        """(n,) legal set of each row (n, 1)."""
        symbols = np.asarray(rows[:, 0], dtype=float)
        known = (symbols >= 0) & (symbols < len(self.set_of) - 1)
        return self.set_of[np.where(known, symbols, -1).astype(np.int64)]

    def limit(self, rows: Array, known: tuple[Array, Array] | None) -> tuple[Array, Array]:
        """Row sets (n,) and legal (S, K) of rows (n, 1), joined with those of labels."""
        own = self.sets(rows), self.legal
        if known is None:
            return own
        sets, legal = join_sets(known, own)
        barred = np.flatnonzero(legal[sets].sum(1) == 0)
        if len(barred):
            raise ValueError(
                f"row {barred[0]} has a label that allowed does not give to its symbol"
            )
        return sets, legal

    @property
    def log_legal(self) -> Array:
        """(S, K) 0, or -inf for a state that is not allowed."""
        return np.where(self.legal > 0, 0.0, -np.inf)


def make_dictionary(allowed: Any, categories: Categories, n_states: int) -> Dictionary:
    """Dictionary from a mapping of symbols to states. Symbols not listed allow all.

    Symbols are numbers, or words if the data are words.
    """
    if not isinstance(allowed, Mapping):
        raise ValueError(f"allowed must map symbols to lists of states; got {allowed!r}")
    number_of = {word: i for values in categories.values() for i, word in enumerate(values)}
    legal, numbers = [np.ones(n_states)], []
    for symbol, states in allowed.items():
        legal.append(_legal_row(symbol, states, n_states))
        # words that the data lack are ignored
        numbers.append(number_of.get(symbol, -1) if categories else _number(symbol))
    set_of = np.zeros(max(numbers, default=-1) + 2, dtype=np.int64)
    for s, number in enumerate(numbers, start=1):
        if number >= 0:
            set_of[number] = s
    return Dictionary(set_of, np.stack(legal))


def _legal_row(symbol: Any, states: Any, n_states: int) -> Array:
    row = np.zeros(n_states)
    is_list = isinstance(states, list | tuple | set | frozenset | range | np.ndarray)
    listed = list(states) if is_list else [states]
    for state in listed:
        if not isinstance(state, Integral) or not 0 <= int(state) < n_states:
            raise ValueError(
                f"allowed[{symbol!r}] holds {state!r}; with n_components={n_states} "
                f"states are 0 to {n_states - 1}"
            )
        row[int(state)] = 1.0
    if not listed:
        raise ValueError(
            f"allowed[{symbol!r}] is empty; list at least one state, or leave the "
            "symbol out to allow all"
        )
    return row


def _number(symbol: Any) -> int:
    if not isinstance(symbol, Integral) or symbol < 0:
        raise ValueError(
            f"allowed has the symbol {symbol!r}, but the data are numbered symbols 0, 1, 2, ..."
        )
    return int(symbol)
