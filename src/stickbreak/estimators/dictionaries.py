"""Dictionaries of tags: which states a symbol may come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

from stickbreak.stats import Array

__all__ = ["Dictionary", "make_dictionary"]


@dataclass(frozen=True)
class Dictionary:
    """set_of (V + 1,): legal set of each symbol, 0 at the end for one that is missing; legal (S,
    K): set 0 allows all states.
    """

    set_of: Array
    legal: Array

    def sets(self, rows: Array) -> Array:
        """(n,) the legal set of each row (n, 1)."""
        symbols = np.asarray(rows[:, 0], dtype=float)
        known = (symbols >= 0) & (symbols < len(self.set_of) - 1)
        return self.set_of[np.where(known, symbols, -1).astype(np.int64)]

    @property
    def log_legal(self) -> Array:
        """(S, K) 0, or -inf for a state that is not allowed."""
        return np.where(self.legal > 0, 0.0, -np.inf)


def make_dictionary(allowed: Any, categories: Mapping[Any, list[Any]], n_states: int) -> Dictionary:
    """From a mapping of symbols to states. Symbols are numbers, or words where the data are words;
    others allow all states.
    """
    if not isinstance(allowed, Mapping):
        raise ValueError(f"allowed must map symbols to lists of states; got {allowed!r}")
    number_of = (
        {word: number for values in categories.values() for number, word in enumerate(values)}
        if categories
        else None
    )
    legal, numbers = [np.ones(n_states)], []
    for symbol, states in allowed.items():
        legal.append(_legal_row(symbol, states, n_states))
        # a word that the data lack is no harm
        numbers.append(_number(symbol) if number_of is None else number_of.get(symbol, -1))
    set_of = np.zeros(max(numbers, default=-1) + 2, dtype=np.int64)
    for s, number in enumerate(numbers, start=1):
        if number >= 0:
            set_of[number] = s
    return Dictionary(set_of, np.stack(legal))


def _legal_row(symbol: Any, states: Any, n_states: int) -> Array:
    row = np.zeros(n_states)
    listed = (
        list(states)
        if isinstance(states, list | tuple | set | frozenset | range | np.ndarray)
        else [states]
    )
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
