"""The tables of template grammars: templates, repetitions, and substrings of each name of slots."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from stickbreak.data import Substrings, parse_templates
from stickbreak.parameters import require_prior_count
from stickbreak.protocols import Array, Counts, Rule
from stickbreak.stats import Field, Fields

from .dirichlet import ROWS
from .rule_tables import RuleTables, Table

__all__ = ["BASES", "SlotTables"]

BASES = ("spelling", "uniform")
RARE = 1e-9  # as in the kernels


class PresentRows:
    """As `ROWS`, but collapsed weights know how probable it is that there is any count.

    absent : log of q(C = 0), of each entry
    """

    def log_mean(self, counts: Array, pseudo: Array, rest: Any, *, absent: Array) -> Array:
        """E[log(pseudo + C)], C zero or E[C] / q, less the log of the total."""
        seen = np.maximum(counts, 0.0)
        chance = np.minimum(-np.expm1(np.minimum(absent, 0.0)), seen)
        never = np.log(pseudo)
        given = np.log(pseudo + seen / np.maximum(chance, RARE))
        found = np.where(chance < RARE, never, never + chance * (given - never))
        total = counts.sum(-1) + pseudo.sum(-1) + (0.0 if rest is None else rest)
        return np.asarray(found - np.log(total)[..., None])

    def mean_log(self, counts: Array, pseudo: Array, rest: Any, *, absent: Array) -> Array:
        """E[log share]."""
        return ROWS.mean_log(counts, pseudo, rest)

    def mode(self, counts: Array, pseudo: Array, rest: Any, *, absent: Array) -> Array:
        """The mode in natural coordinates."""
        return ROWS.mode(counts, pseudo, rest)

    def draw(
        self, counts: Array, pseudo: Array, rest: Any, *, absent: Array, rng: np.random.Generator
    ) -> Array:
        """Log shares drawn from their posterior."""
        return ROWS.draw(counts, pseudo, rest, rng=rng)


SEGMENTS = PresentRows()


@dataclass(frozen=True, eq=False)
class SlotTables(RuleTables):
    """template (T,), repeat (Q, 2) of using a slot again or leaving it, segment (C, V).

    Counted besides: log_absent (C, V), the sum over places of log q(segment not there).
    Slots of a name share a row of substrings. Substrings that are not listed have the rest of the
    base.

    Parameters
    ----------
    templates : see `parse_templates`
    concentration : prior count of all substrings ("spelling"), or of each one ("uniform")
    base : "spelling", a geometric number of letters, each by its frequency; or "uniform"
    stop : chance that a substring ends after a letter, for "spelling"
    template_concentration, repeat_concentration : prior count of each template; of using a slot
        again, and of leaving it
    prefix, letter, prior_counts (V,) : the substrings, see `Substrings`, and their prior counts
    """

    templates: str = "Word+"
    concentration: float = 20.0
    base: str = "spelling"
    stop: float = 0.5
    template_concentration: float = 1.0
    repeat_concentration: float = 1.0
    prefix: Any = None
    letter: Any = None
    prior_counts: Any = None

    def __post_init__(self) -> None:
        parse_templates(self.templates)
        require_prior_count(
            concentration=self.concentration,
            template_concentration=self.template_concentration,
            repeat_concentration=self.repeat_concentration,
        )
        if self.base not in BASES:
            raise ValueError(f"unknown base {self.base!r}; choose one of {', '.join(BASES)}")
        if not 0.0 < self.stop < 1.0:
            raise ValueError(f"stop must be between 0 and 1; got {self.stop!r}")

    @property
    def substrings(self) -> Substrings:
        """What slots may emit."""
        return Substrings(np.asarray(self.prefix), np.asarray(self.letter))

    def listing(self, substrings: Substrings, shares: Array | None = None) -> SlotTables:
        """The same prior over these substrings, which begin with those that it has.

        shares (n_letters,) : of each letter, for "spelling"; None for those that it has
        """
        n, n_known = len(substrings.prefix), 0 if self.prefix is None else len(self.prefix)
        counts = np.full(n, float(self.concentration))
        if self.base == "spelling":
            if shares is None:
                shares = self.letter_shares()
            counts[:n_known] = self.prior_counts if n_known else 0.0
            prefix, letter, lengths = *substrings, substrings.lengths()
            for length in range(1, int(lengths.max(initial=0)) + 1):
                at = np.flatnonzero((lengths == length) & (np.arange(n) >= n_known))
                if length == 1:
                    counts[at] = float(self.concentration) * self.stop * shares[letter[at]]
                else:
                    counts[at] = counts[prefix[at]] * (1.0 - self.stop) * shares[letter[at]]
        return replace(
            self, prefix=substrings.prefix, letter=substrings.letter, prior_counts=counts
        )

    def letter_shares(self) -> Array:
        """(n_letters + 1,) shares of letters, and what is left for one that was never seen."""
        single = np.flatnonzero(np.asarray(self.prefix) < 0)
        shares = np.zeros(int(self.letter[single].max()) + 2)
        shares[self.letter[single]] = self.prior_counts[single] / (self.concentration * self.stop)
        shares[-1] = max(1.0 - shares.sum(), 0.0)
        return shares

    def fields(self, axis: str) -> dict[str, Field]:
        """What is counted."""
        return {
            "template": Field((None,)),
            "repeat": Field((None, None)),
            "segment": Field((axis, None)),
            "log_absent": Field((axis, None), nonnegative=False),
        }

    def zeros(self, n_components: int) -> dict[str, Array]:
        """Counts of nothing."""
        found = super().zeros(n_components)
        return {**found, "log_absent": np.zeros_like(found["segment"])}

    def _log_of(self, name: str, counts: Counts, rule: Rule) -> Callable[..., Array]:
        if name != "segment":
            return super()._log_of(name, counts, rule)
        return partial(rule.pick(SEGMENTS), absent=counts["log_absent"])

    def tables(self, params: Fields, n_components: int) -> Mapping[str, Table]:
        """Prior counts; a slot that does not repeat is left for certain."""
        slots, counts = parse_templates(self.templates), np.asarray(self.prior_counts, dtype=float)
        repeat = np.full((len(slots.name), 2), float(self.repeat_concentration))
        repeat[~slots.repeats, 0] = 0.0
        rest = None
        if self.base == "spelling":
            rest = max(float(self.concentration) - float(counts.sum()), 0.0)
        return {
            "template": Table(np.full(slots.n_templates, float(self.template_concentration))),
            "repeat": Table(repeat),
            "segment": Table(np.tile(counts, (n_components, 1)), rest),
        }

    def _n_components(self, counts: Counts) -> int:
        return len(counts["segment"])

    def predictive(self, counts: Counts, params: Fields) -> dict[str, Any]:
        """Logs of expected rows; what is not listed keeps its share, so that scores compare."""
        found = super().predictive(counts, params)
        table = self.tables(params, len(counts["segment"]))["segment"]
        return {**found, "segment": ROWS.log_mean(counts["segment"], table.pseudo, table.rest)}

    def sizes(self, counts: Counts) -> Array:
        """(C,) segments of each name."""
        return np.asarray(counts["segment"].sum(1))

    def mean(self, counts: Counts, params: Fields) -> Array:
        """(C,) shares of all segments."""
        held = self.sizes(counts) + 1.0
        return np.asarray(held / held.sum())
