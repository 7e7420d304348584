"""Where links go: NULL or a word, and from word to word by jumps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from stickbreak.parameters import require_prior_count, require_whole
from stickbreak.protocols import Array, Counts, Out, Rule
from stickbreak.stats import Field, Fields, Summary

from .base import BasePrior
from .dirichlet import ROWS

__all__ = ["FertileJumps", "Jumps", "PositionPseudo", "UniformPositions"]


class PositionPseudo(NamedTuple):
    """What sweeps need: prior counts, or fixed shares of NULL and words.

    null (2,), jump (2 W + 1,), fertility (M + 1,) : prior counts; the last two may be ()
    chance (2,) : fixed shares; () where NULL is one more position
    learns : whether shares of NULL and words are learned instead
    is_open : whether jumps may leave the sentence
    """

    null: Array
    jump: Array
    fertility: Array
    chance: Array
    learns: bool
    is_open: bool


@dataclass(frozen=True)
class UniformPositions(BasePrior):
    """Links to NULL with a Beta prior, and to all positions of a source sentence alike.

    null (2,) : counts of links to NULL, and to words

    Parameters
    ----------
    null : share of target words that are linked to NULL before these are seen: a number, "learned",
        or "position", which makes NULL one more position of the source sentence
    null_prior : prior counts of links to NULL, and to words, where the share is learned
    """

    null: str | float = 0.2
    null_prior: tuple[float, float] = (1.0, 4.0)

    draws = False

    def __post_init__(self) -> None:
        if isinstance(self.null, str):
            if self.null not in ("learned", "position"):
                raise ValueError(
                    f"null must be 'learned', 'position', or a number; got {self.null!r}"
                )
        elif (
            isinstance(self.null, bool)
            or not isinstance(self.null, Real)
            or not 0 < float(self.null) < 1
        ):
            raise ValueError(f"null must lie between 0 and 1; got {self.null!r}")
        pair = np.asarray(self.null_prior, dtype=float)
        if pair.shape != (2,):
            raise ValueError(f"null_prior must be two numbers; got {self.null_prior!r}")
        for count in pair:
            require_prior_count(null_prior=float(count))
        object.__setattr__(self, "null_prior", (float(pair[0]), float(pair[1])))

    @property
    def learns_null(self) -> bool:
        """Whether the share of NULL is learned."""
        return isinstance(self.null, str) and self.null == "learned"

    def _chance(self) -> Array:
        """Fixed shares of NULL and words; () where NULL is one more position."""
        if isinstance(self.null, str):
            return np.zeros(0)
        return np.array([float(self.null), 1.0 - float(self.null)])

    def _rows(self) -> dict[str, Array]:
        """Prior counts of what is learned."""
        return {"null": np.array(self.null_prior)} if self.learns_null else {}

    # ------------------------------------------------------------------------------ the contract

    def fields(self, axis: str) -> dict[str, Field]:
        """Links to NULL and to words."""
        return {"null": Field(("kind",))}

    def zeros(self, n_components: int) -> Out:
        """Empty counts."""
        return {"null": np.zeros(2)}

    def sizes(self, counts: Counts) -> Array:
        """(K,) target words of each source word."""
        return np.asarray(counts["total"])

    def mean(self, counts: Counts, params: Fields) -> Array:
        """(K,) share of each source word, as the pairs have them."""
        sizes = self.sizes(counts) + 1.0 / len(self.sizes(counts))
        return np.asarray(sizes / sizes.sum())

    def potentials(self, counts: Counts, params: Fields, rule: Rule) -> Mapping[str, Any]:
        """Log shares by name; `chance` for the structure, which may be fixed."""
        found = {n: rule.pick(ROWS)(counts[n], prior) for n, prior in self._rows().items()}
        with np.errstate(divide="ignore"):
            return {**found, "chance": found.get("null", np.log(self._chance()))}

    def predictive(self, counts: Counts, params: Fields) -> Mapping[str, Any]:
        """The same at posterior means."""
        found = {n: ROWS.log_mean(counts[n], prior) for n, prior in self._rows().items()}
        return {**found, "chance": found.get("null", np.log(self._chance()))}

    def bound(self, total: Summary, params: Fields) -> float:
        """Log-partition rises."""
        return sum(float(ROWS.log_rise(total[n], prior)) for n, prior in self._rows().items())

    def log_mode(self, total: Summary, params: Fields) -> float:
        """Log joint at the mode."""
        return sum(float(ROWS.log_best(total[n], prior)) for n, prior in self._rows().items())

    def pseudo(self, params: Fields, n_components: int) -> PositionPseudo:
        """Prior counts, and fixed shares."""
        prior = np.array(self.null_prior)
        none = np.zeros(0)
        return PositionPseudo(prior, none, none, self._chance(), self.learns_null, True)


@dataclass(frozen=True)
class Jumps(UniformPositions):
    """As UniformPositions, where a word after another is reached by a jump; widths ~ Dirichlet.

    A word linked to NULL keeps the position of the last one. The first position is uniform.

    jump (2 W + 1,) : counts of widths from -W to W; the outermost are also those of wider jumps

    Parameters
    ----------
    null, null_prior : see UniformPositions
    jump_concentration : prior count of each width
    width : W
    jumps : "open" if jumps may leave the sentence, whose mass is lost: conjugate, with a bound;
        "renormalised" if those inside the sentence sum to one: neither
    """

    jump_concentration: float = 1.0
    width: int = 50
    jumps: str = "open"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_prior_count(jump_concentration=self.jump_concentration)
        require_whole(width=self.width)
        if self.jumps not in ("open", "renormalised"):
            raise ValueError(f"jumps must be 'open' or 'renormalised'; got {self.jumps!r}")

    def _rows(self) -> dict[str, Array]:
        prior = np.full(2 * int(self.width) + 1, float(self.jump_concentration))
        return {**super()._rows(), "jump": prior}

    def fields(self, axis: str) -> dict[str, Field]:
        """Links to NULL and to words, and jumps."""
        return {**super().fields(axis), "jump": Field(("width",))}

    def zeros(self, n_components: int) -> Out:
        """Empty counts."""
        return {**super().zeros(n_components), "jump": np.zeros(2 * int(self.width) + 1)}

    def potentials(self, counts: Counts, params: Fields, rule: Rule) -> Mapping[str, Any]:
        """As UniformPositions, with those of jumps."""
        return {**super().potentials(counts, params, rule), "is_open": self.jumps == "open"}

    def predictive(self, counts: Counts, params: Fields) -> Mapping[str, Any]:
        """The same at posterior means."""
        return {**super().predictive(counts, params), "is_open": self.jumps == "open"}

    def pseudo(self, params: Fields, n_components: int) -> PositionPseudo:
        """Prior counts, and fixed shares."""
        found = super().pseudo(params, n_components)
        return found._replace(jump=self._rows()["jump"], is_open=self.jumps == "open")


@dataclass(frozen=True)
class FertileJumps(Jumps):
    """As Jumps, where the number of links to a source word has a distribution of the word's own.

    fertility (K, M + 1) : positions of each source word with 0, 1, ... links; M and more are one

    Such a distribution multiplies the weights of alignments; it is not normalized with the rest, so
    that there is no bound, and links of a sentence no longer form a chain. For collapsed sweeps,
    which weigh a link by the fertilities of other sentences, given the other links of its own.

    Parameters
    ----------
    null, null_prior, jump_concentration, width, jumps : see Jumps
    fertility_concentration : prior count of each number of links
    max_fertility : M
    """

    fertility_concentration: float = 0.5
    max_fertility: int = 6

    def __post_init__(self) -> None:
        super().__post_init__()
        require_prior_count(fertility_concentration=self.fertility_concentration)
        require_whole(max_fertility=self.max_fertility)

    def fields(self, axis: str) -> dict[str, Field]:
        """Links to NULL and to words, jumps, and fertilities."""
        return {**super().fields(axis), "fertility": Field((axis, "fertility"))}

    def zeros(self, n_components: int) -> Out:
        """Empty counts."""
        none = np.zeros((n_components, int(self.max_fertility) + 1))
        return {**super().zeros(n_components), "fertility": none}

    def pseudo(self, params: Fields, n_components: int) -> PositionPseudo:
        """Prior counts, and fixed shares."""
        prior = np.full(int(self.max_fertility) + 1, float(self.fertility_concentration))
        return super().pseudo(params, n_components)._replace(fertility=prior)
