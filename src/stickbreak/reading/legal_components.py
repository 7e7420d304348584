"""The components that a row may have: known labels, and dictionaries of symbols."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from stickbreak.stats import Array

from .frame_columns import frame_kind

__all__ = ["Dictionary", "Names", "join_sets", "legal_sets", "make_dictionary", "words_of_topics"]


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
    """Components that each symbol may come from.

    set_of : (V + 1,) legal set of each symbol, 0 at the end for one that is missing or unknown
    legal : (S, K) set 0 allows all components, also those that are born later
    """

    set_of: Array
    legal: Array

    def sets(self, rows: Array) -> Array:
        """(n,) legal set of each row (n, 1)."""
        symbols = np.asarray(rows[:, 0], dtype=float)
        known = (symbols >= 0) & (symbols < len(self.set_of) - 1)
        return self.set_of[np.where(known, symbols, -1).astype(np.int64)]

    def at(self, ids: Sequence[int]) -> Dictionary:
        """The dictionary of components with these ids. Newborns are open to set 0 only."""
        n_named = self.legal.shape[1]
        columns = np.concatenate([self.legal, np.eye(len(self.legal), 1)], axis=1)
        legal = columns[:, [min(i, n_named) for i in ids]]
        gone = np.flatnonzero(legal.sum(1) == 0)
        if len(gone):
            raise ValueError(
                f"allowed gives some symbol {np.flatnonzero(self.legal[gone[0]]).tolist()} only, "
                "and the model has no component with such an id any more"
            )
        return replace(self, legal=legal)

    def limit(self, rows: Array, known: tuple[Array, Array] | None) -> tuple[Array, Array]:
        """Row sets (n,) and legal (S, K) of rows (n, 1), joined with those of labels."""
        own = self.sets(rows), self.legal
        if known is None:
            return own[0], self._with_prefix(own[1])
        sets, legal = join_sets(known, own)
        barred = np.flatnonzero(legal[sets].sum(1) == 0)
        if len(barred):
            raise ValueError(
                f"row {barred[0]} has a label that allowed does not give to its symbol"
            )
        return sets, self._with_prefix(legal)

    def _with_prefix(self, legal: Array) -> Array:
        """Legal sets (S, K), and one without rows that names all components up to the last named.

        Moves edit none that a set names. If they removed one before a named one, the numbers that
        the user gave to those after it would change.
        """
        named = np.flatnonzero((legal[1:] > 0).any(0))
        if not len(named) or len(named) == named[-1] + 1:
            return legal
        return np.vstack([legal, np.arange(legal.shape[1]) <= named[-1]])

    @property
    def log_legal(self) -> Array:
        """(S, K) 0, or -inf for a component that is not allowed."""
        return np.where(self.legal > 0, 0.0, -np.inf)


class Names(NamedTuple):
    """What messages call things. symbol, component : nouns; argument : of the estimator"""

    argument: str = "allowed"
    symbol: str = "symbol"
    component: str = "state"


STATES = Names()


def make_dictionary(
    allowed: Any, words: Sequence[Any] | None, n_components: int, names: Names = STATES
) -> Dictionary:
    """Dictionary from a mapping of symbols to components, or from a boolean table (V, K).

    Symbols not listed allow all, and so do those that list all components.

    words : (V,) the symbols, in the order of their numbers; None if they are numbers
    """
    if isinstance(allowed, Mapping):
        numbers, legal = _from_mapping(allowed, words, n_components, names)
    else:
        numbers, legal = _from_table(allowed, words, n_components, names)
    is_limit = (legal == 0).any(1)
    numbers, legal = numbers[is_limit], legal[is_limit]
    set_of = np.zeros(int(numbers.max(initial=-1)) + 2, dtype=np.int64)
    set_of[numbers[numbers >= 0]] = 1 + np.flatnonzero(numbers >= 0)
    return Dictionary(set_of, np.concatenate([np.ones((1, n_components)), legal]))


def words_of_topics(
    seeds: Any, words: Sequence[Any] | None, n_words: int, n_topics: int
) -> dict[Any, list[int]]:
    """Topics of each seed word, from a mapping of topics to words; see `make_dictionary`.

    words : (V,) the vocabulary; None if words are the numbers below n_words
    """
    if not isinstance(seeds, Mapping):
        raise ValueError(f"seeds must map topics to lists of words; got {_shown(seeds)}")
    known = range(n_words) if words is None else set(words)
    found: dict[Any, list[int]] = {}
    for topic, listed in seeds.items():
        if not isinstance(topic, Integral) or not 0 <= int(topic) < n_topics:
            raise ValueError(
                f"seeds names topic {topic!r}; with n_components={n_topics} topics are 0 to "
                f"{n_topics - 1}"
            )
        own = list(listed) if _is_list(listed) else [listed]
        if not own:
            raise ValueError(f"seeds[{topic!r}] is empty; list at least one word, or leave it out")
        for word in own:
            if not isinstance(word, Hashable) or word not in known:
                held = "" if words is not None else f", which have words 0 to {n_words - 1}"
                raise ValueError(
                    f"seeds[{topic!r}] has the word {word!r}, which is not in the documents{held}"
                )
            found.setdefault(word, []).append(int(topic))
    return found


def _from_mapping(
    allowed: Mapping[Any, Any], words: Sequence[Any] | None, n_components: int, names: Names
) -> tuple[Array, Array]:
    """(L,) number of each listed symbol, -1 for words that the data lack; (L, K) its components."""
    number_of = None if words is None else {word: i for i, word in enumerate(words)}
    numbers, legal = [], np.zeros((len(allowed), n_components))
    for row, (symbol, listed) in zip(legal, allowed.items(), strict=True):
        row[_listed(symbol, listed, n_components, names)] = 1.0
        numbers.append(_number(symbol, names) if number_of is None else number_of.get(symbol, -1))
    return np.array(numbers, dtype=np.int64), legal


def _from_table(
    allowed: Any, words: Sequence[Any] | None, n_components: int, names: Names
) -> tuple[Array, Array]:
    is_table = isinstance(allowed, list | tuple) or hasattr(allowed, "__array__")
    table = np.asarray(allowed) if is_table and frame_kind(allowed) is None else np.empty(0)
    if table.ndim != 2 or table.dtype.kind not in "biuf" or not np.isin(table, (0, 1)).all():
        raise ValueError(
            f"{names.argument} must map {names.symbol}s to lists of {names.component}s, or be a "
            f"boolean table ({names.symbol}s, {names.component}s); got {_shown(allowed)}"
        )
    wanted = table.shape[0] if words is None else len(words)
    if table.shape != (wanted, n_components):
        raise ValueError(
            f"{names.argument} has shape {table.shape}; the data have {wanted} {names.symbol}s, "
            f"and n_components={n_components}"
        )
    empty = np.flatnonzero(~table.any(1))
    if len(empty):
        raise ValueError(_empty(int(empty[0]) if words is None else words[empty[0]], names))
    return np.arange(wanted), table.astype(float)


def _listed(symbol: Any, given: Any, n_components: int, names: Names) -> list[int]:
    listed = list(given) if _is_list(given) else [given]
    for one in listed:
        if not isinstance(one, Integral) or not 0 <= int(one) < n_components:
            raise ValueError(
                f"{names.argument}[{symbol!r}] holds {one!r}; with n_components={n_components} "
                f"{names.component}s are 0 to {n_components - 1}"
            )
    if not listed:
        raise ValueError(_empty(symbol, names))
    return [int(one) for one in listed]


def _is_list(given: Any) -> bool:
    return isinstance(given, list | tuple | set | frozenset | range | np.ndarray)


def _empty(symbol: Any, names: Names) -> str:
    return (
        f"{names.argument}[{symbol!r}] is empty; list at least one {names.component}, or all of "
        f"them for a {names.symbol} that may have any"
    )


def _number(symbol: Any, names: Names) -> int:
    if not isinstance(symbol, Integral) or symbol < 0:
        raise ValueError(
            f"{names.argument} has the {names.symbol} {symbol!r}, but the data are numbered "
            f"{names.symbol}s 0, 1, 2, ..."
        )
    return int(symbol)


def _shown(value: Any) -> str:
    text = f"a {type(value).__name__}" if frame_kind(value) is not None else repr(value)
    return text if len(text) <= 60 else text[:60] + "..."
