"""Mixed columns: a family for each group of columns, independent given the component.

The evidence of a row is a sum over the members, and every statistic belongs to one member. Fields
are the members' own, with the member's number before the name ("0.moments", "0.anchor", "1.ones").
Axes other than the component's are numbered too, so that two alphabets are not mixed up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from stickbreak.data import Scale, is_sparse
from stickbreak.errors import columns_named
from stickbreak.protocols import Array, Counts
from stickbreak.stats import Compose, Edit, Field, Shares, Within

from .assignment import MAX_SHOWN, member_objects, pick, place_members
from .base import BaseScores
from .live_members import LiveMembers
from .member_names import divide_fields, member_prefix, number_fields, select_fields

__all__ = ["Product", "ProductScores"]

# ------------------------------------------------------------------------------------------- scores


@dataclass(frozen=True)
class ProductScores(BaseScores):
    """Scores of the members and the names of their fields; rows are tuples of prepared rows."""

    members: tuple[BaseScores, ...]
    names: tuple[tuple[str, ...], ...]

    def evidence(self, rows: tuple[Any, ...]) -> Array:
        """(n, K) sum of the members' evidence."""
        total = np.asfortranarray(self.members[0].evidence(rows[0]))
        for scores, own in zip(self.members[1:], rows[1:], strict=True):
            total += scores.evidence(own)
        return total

    def rough(self, rows: tuple[Any, ...]) -> Array:
        """(n, K) sum of the members' rough evidence; exact for members that have none."""
        total = self.members[0].rough(rows[0])
        for scores, own in zip(self.members[1:], rows[1:], strict=True):
            total = total + scores.rough(own)
        return np.asfortranarray(total)

    def evidence_at(self, rows: tuple[Any, ...], index: Array) -> Array:
        """(n, M) sum of the members' evidence for components index (n, M)."""
        pairs = zip(self.members, rows, strict=True)
        return np.sum([scores.evidence_at(own, index) for scores, own in pairs], axis=0)

    def collect(self, rows: tuple[Any, ...], shares: Shares, out: dict[str, Array]) -> None:
        """Add each member's statistics to its own fields."""
        for i, (scores, own) in enumerate(zip(self.members, rows, strict=True)):
            scores.collect(own, shares, select_fields(out, i, self.names[i]))

    def pair(self, counts: Counts) -> float:
        """<potentials, counts>; NaN if a member has none."""
        pairs = enumerate(zip(self.members, self.names, strict=True))
        return float(
            sum(scores.pair(select_fields(counts, i, names)) for i, (scores, names) in pairs)
        )


# --------------------------------------------------------------------------------------- the family


@dataclass(frozen=True, eq=False, repr=False)
class Product(LiveMembers):
    """A family for each group of columns, independent given the component: for mixed columns.

    Parameters
    ----------
    members : dict of family name to columns, `{"gaussian": ["height", "weight"], "categorical":
        ["color"]}`, or list of (family, columns) pairs, where the family is a name or an object
        with its prior. Columns are names of a data frame or positions; a single column need not be
        a list. Columns of one Gaussian are correlated, columns of different members are not.
    rest : family of all other columns, a name or an object. Default: a column without a family is
        an error.
    names : names of the columns; set from the data frame.

    Examples
    --------
    >>> import stickbreak as sb
    >>> sb.Product({"gaussian": ["height", "weight"], "poisson": "visits"}, rest="categorical")
    Product(members={'gaussian': ['height', 'weight'], 'poisson': 'visits'}, rest='categorical')
    """

    draws = True

    members: Any
    rest: Any = None
    names: Any = None

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Arguments by name.

        With `deep`, also arguments of members given as objects: `0__dof` is one of the first.
        """
        found = super().get_params(deep)
        for number, family in member_objects(self.members).items() if deep else ():
            found.update(
                {f"{number}__{name}": value for name, value in family.get_params().items()}
            )
        return found

    def set_params(self, **params: Any) -> Self:
        """Set arguments by name; `0__dof` reaches into the first member."""
        nested = {key: value for key, value in params.items() if key.partition("__")[0].isdigit()}
        super().set_params(**{key: value for key, value in params.items() if key not in nested})
        families = member_objects(self.members)
        for key, value in nested.items():
            number, _, inner = key.partition("__")
            if number not in families or not inner:
                raise ValueError(
                    f"Product has no parameter {key!r}; members that were given as "
                    f"objects: {sorted(families)}"
                )
            families[number].set_params(**{inner: value})
        return self

    # -------------------------------------------------------------------------------------- columns

    def locate(self, names: Sequence[str] | None, n_columns: int) -> Self:
        """The same family with members as objects and columns as positions.

        Each column must have one family.
        """
        known = self.names if names is None else tuple(str(name) for name in names)
        if known is not None and len(known) != n_columns:
            raise ValueError(
                f"names has {len(known)} entries but the data have {n_columns} columns"
            )
        return replace(
            self,
            members=place_members(self.members, self.rest, known, n_columns),
            rest=None,
            names=known,
        )

    def readers(self, n_columns: int) -> Sequence[Any]:
        """The member that reads each column."""
        by_column = {
            c: family for family, columns in self.locate(None, n_columns).members for c in columns
        }
        return tuple(by_column[c] for c in range(n_columns))

    def _labels(self, columns: Sequence[int]) -> list[Any]:
        return list(columns) if self.names is None else [self.names[c] for c in columns]

    def _heading(self, columns: Sequence[int]) -> str:
        """What the user calls these columns."""
        labels = [str(label) for label in self._labels(columns)]
        few = labels if len(labels) <= MAX_SHOWN else [labels[0], "...", labels[-1]]
        return (
            f"column{'s' if len(labels) > 1 else ''} " if self.names is None else ""
        ) + ", ".join(few)

    @contextmanager
    def _within(self, family: Any, columns: Sequence[int]) -> Iterator[None]:
        """Errors of a member, reworded with the column names of the whole table."""
        try:
            with columns_named(self._labels(columns)):
                yield
        except ValueError as error:
            error.args = (f"{type(family).__name__} of {self._heading(columns)}: {error.args[0]}",)
            raise

    def resolve(self, scale: Scale) -> Product:
        """Every member, with open priors set from the scale of its own columns."""
        here = self.locate(None, scale.n_features)
        members = []
        for family, columns in here.members:
            with here._within(family, columns):
                members.append((family.resolve(scale.take(columns)), columns))
        return replace(here, members=tuple(members))

    def _parts(self, rows: Any) -> Iterator[tuple[Any, Any]]:
        """Each member with its columns of the rows."""
        if is_sparse(rows):
            raise ValueError("Product reads dense rows; got a sparse matrix: use rows.toarray()")
        values = np.asarray(rows)
        return ((family, values[:, pick(columns)]) for family, columns in self.members)

    def check_rows(self, rows: Any, first: int = 0) -> None:
        """Check each member's columns."""
        here = self.locate(None, int(rows.shape[1]))
        for (family, columns), (_, own) in zip(here.members, here._parts(rows), strict=True):
            with columns_named(here._labels(columns)):
                family.check_rows(own, first)

    @property
    def n_columns(self) -> int:
        """Columns of a row."""
        return sum(len(columns) for _, columns in self.members)

    missing = "mixed"

    @property
    def measure(self) -> str:  # type: ignore[override]
        """What the members' log evidence is the logarithm of, each named once."""
        return " and ".join(dict.fromkeys(family.measure for family, _ in self.members))

    def has_values(self, rows: Any) -> Array:
        """(n,) whether any member has an entry."""
        return np.any([family.has_values(own) for family, own in self._parts(rows)], axis=0)

    def misfit(self, rows: Any, shares: Array, followed: Array | None = None) -> Array | None:
        """(K,) the largest of the members'; None if one of them cannot tell."""
        found = [family.misfit(own, shares, followed) for family, own in self._parts(rows)]
        return None if any(own is None for own in found) else np.max(found, axis=0)

    def impute(self, counts: Counts, rows: Any, shares: Array) -> Array:
        """Rows with missing entries replaced by each member in its own columns."""
        out = np.array(rows, dtype=float)
        for (family, own), (_, columns) in zip(self._own(counts), self.members, strict=True):
            out[:, pick(columns)] = family.impute(own, np.asarray(rows)[:, pick(columns)], shares)
        return out

    def expected_rows(self, counts: Counts, shares: Array) -> Array:
        """By member; see the base."""
        out = np.empty((len(shares), self.n_columns))
        for (family, own), (_, columns) in zip(self._own(counts), self.members, strict=True):
            out[:, pick(columns)] = family.expected_rows(own, shares)
        return out

    def width(self) -> int:
        """Numbers in a row as prepared by all members."""
        return sum(family.width() for family, _ in self.members)

    def prepare(self, rows: Any) -> tuple[Any, ...]:
        """Each member's columns, prepared by the member."""
        return tuple(family.prepare(own) for family, own in self._parts(rows))

    def prepare_seeding(self, rows: Any) -> tuple[Any, ...]:
        """Each member's columns, prepared by the member for seeding."""
        return tuple(family.prepare_seeding(own) for family, own in self._parts(rows))

    # --------------------------------------------------------------------------------------- counts

    def fields(self, axis: str) -> dict[str, Field]:
        """The members' fields, numbered."""
        found: dict[str, Field] = {}
        for i, (family, _) in enumerate(self.members):
            rename = _renaming(i, axis)
            found |= {
                rename(name): field.renamed(rename) for name, field in family.fields(axis).items()
            }
        return found

    def zeros(self, n_components: int) -> dict[str, Array]:
        """Empty counts."""
        return number_fields(family.zeros(n_components) for family, _ in self.members)

    def _own(self, counts: Counts) -> list[tuple[Any, dict[str, Array]]]:
        """Each member with its counts, by the member's own names."""
        return [
            (family, select_fields(counts, i, family.fields("component")))
            for i, (family, _) in enumerate(self.members)
        ]

    # ------------------------------------------------------------------------------------ posterior

    def log_marginal(self, counts: Counts) -> Array:
        """(K,) sum over members."""
        return np.sum([family.log_marginal(own) for family, own in self._own(counts)], axis=0)

    def log_mode(self, counts: Counts) -> Array:
        """(K,) sum over members."""
        return np.sum([family.log_mode(own) for family, own in self._own(counts)], axis=0)

    def _scores(self, members: Iterable[BaseScores]) -> ProductScores:
        names = tuple(tuple(family.fields("component")) for family, _ in self.members)
        return ProductScores(tuple(members), names)

    def mean_log(self, counts: Counts) -> ProductScores:
        """Expected log likelihood of every member."""
        return self._scores(family.mean_log(own) for family, own in self._own(counts))

    def log_mean(self, counts: Counts) -> ProductScores:
        """Posterior predictive of every member; given the component, it is a product too."""
        return self._scores(family.log_mean(own) for family, own in self._own(counts))

    def mode(self, counts: Counts) -> ProductScores:
        """Log likelihood at every member's mode."""
        return self._scores(family.mode(own) for family, own in self._own(counts))

    def draw(self, counts: Counts, rng: np.random.Generator) -> ProductScores:
        """Log likelihood at parameters that each member draws."""
        return self._scores(family.draw(own, rng) for family, own in self._own(counts))

    # ------------------------------------------------------------------------------- means, seeding

    def smoothed_mean(self, counts: Counts) -> Mapping[str, Array]:
        """The members' mean parameters, numbered."""
        return number_fields(family.smoothed_mean(own) for family, own in self._own(counts))

    def bregman(self, first: Mapping[str, Array], second: Mapping[str, Array]) -> Array:
        """(J, K) sum of the members' divergences."""
        n = len(self.members)
        parts = zip(self.members, divide_fields(first, n), divide_fields(second, n), strict=True)
        return np.sum([family.bregman(a, b) for (family, _), a, b in parts], axis=0)

    def divergence(self, rows: tuple[Any, ...], index: int) -> Array:
        """(n,) sum of the members' divergences from row `index`."""
        pairs = zip(self.members, rows, strict=True)
        return np.sum([family.divergence(own, index) for (family, _), own in pairs], axis=0)

    # ---------------------------------------------------------------------------------- for readers

    def sample(self, counts: Counts, labels: Array, rng: np.random.Generator) -> Array:
        """(n, D) one row for each label, every member in its own columns."""
        parts = [family.sample(own, labels, rng) for family, own in self._own(counts)]
        out = np.empty((len(labels), self.n_columns), dtype=np.result_type(*parts))
        for (_, columns), part in zip(self.members, parts, strict=True):
            out[:, pick(columns)] = part
        return out

    def describe(self, counts: Counts) -> dict[str, Array]:
        """Summaries of the members, named with their columns.

        For example "mean of height, weight", "probability of column 3".
        """
        found: dict[str, Array] = {}
        for (family, own), (_, columns) in zip(self._own(counts), self.members, strict=True):
            found |= {
                f"{name} of {self._heading(columns)}": value
                for name, value in family.describe(own).items()
            }
        return found

    def member_summaries(self, described: Mapping[str, Array]) -> list[dict[str, Array]]:
        """The values of `describe` for each member, by the member's own names."""
        endings = [f" of {self._heading(columns)}" for _, columns in self.members]
        return [
            {n.removesuffix(end): v for n, v in described.items() if n.endswith(end)}
            for end in endings
        ]

    def coarse(self) -> Self:
        """The members' coarse forms; itself if none has another."""
        return self._with_families([family.coarse() for family, _ in self.members])

    @property
    def can_learn(self) -> bool:
        """Whether some member can."""
        return any(family.can_learn for family in member_objects(self.members).values())

    def learn(self, counts: Counts) -> Self:
        """Every member learns its own hyperparameters; members that cannot learn stay the same."""
        return self._with_families([family.learn(own) for family, own in self._own(counts)])

    def hyperparameters(self) -> dict[str, Array]:
        """What `learn` changes, by the member's number and the name of the argument."""
        return number_fields(family.hyperparameters() for family, _ in self.members)

    def with_hyperparameters(self, values: Mapping[str, Array]) -> Self:
        """The same family with these values for the arguments that `learn` changes."""
        parts = zip(self.members, divide_fields(values, len(self.members)), strict=True)
        return self._with_families(
            [family.with_hyperparameters(own) if own else family for (family, _), own in parts]
        )

    def _with_families(self, families: Sequence[Any]) -> Self:
        pairs = list(zip(families, self.members, strict=True))
        if all(new is old for new, (old, _) in pairs):
            return self
        return replace(self, members=tuple((family, columns) for family, (_, columns) in pairs))

    def refine(self, counts: Counts) -> Edit | None:
        """The members' edits, combined into one."""
        found = [(i, family.refine(own)) for i, (family, own) in enumerate(self._own(counts))]
        edits = tuple(Within(member_prefix(i), edit) for i, edit in found if edit is not None)
        return Compose(edits) if edits else None


def _renaming(member: int, axis: str) -> Callable[[str], str]:
    """How fields and axes of a member are renamed in the Product; components are common to all."""
    return lambda name: name if name == axis else member_prefix(member) + name
