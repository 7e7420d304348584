"""One Model class for every model: structure + family + prior."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from stickbreak.data import Batch
from stickbreak.errors import CheckpointError
from stickbreak.families.base import BaseFamily
from stickbreak.priors import BasePrior, Sticks, SymmetricDirichlet
from stickbreak.protocols import Array, Pool, Rule, Watch
from stickbreak.stats import SERIAL, SYMBOL, Edit, Field, Fields, Filler, Permute, Summary
from stickbreak.structures import (
    BaseStructure,
    Best,
    Drawn,
    DrawnPart,
    Expected,
    Independent,
    LocalStep,
)

from . import lanes
from .potentials import ModelPotentials

__all__ = ["Model", "ModelPotentials"]

EXPECTED = Expected()
RESERVED_AXES = {SYMBOL, "row", "unit", "slot", "pair", "companion", "link"}


@dataclass(frozen=True)
class _FreeSets:
    """Fills the legal sets of new components: only rows without a label (set 0) may use them."""

    def __call__(self, params: Fields) -> Array:
        return np.eye(len(params["legal"]), 1)


@dataclass(frozen=True)
class Model:
    """Latent structure over conjugate tables. Holds hyperparameters only; K is read off the counts.

    axis : the axis that moves edit. Fields may have other named axes: those are fixed.
    learns : whether `learn` changes the family's hyperparameters
    step : the local step: the expectation, the best labeling, or a drawn one
    n_drawn : labelings that variational engines draw and average in the place of the expectation,
        each under parameters drawn from their posterior; 0 for the expectation itself
    """

    structure: BaseStructure
    family: BaseFamily
    prior: BasePrior
    axis: str = "component"
    learns: bool = False
    step: LocalStep = EXPECTED
    n_drawn: int = 0

    def __post_init__(self) -> None:
        if self.axis in RESERVED_AXES:
            raise ValueError(
                f"axis={self.axis!r} is a name of our own; choose another than "
                f"{', '.join(sorted(RESERVED_AXES))}"
            )

    # ------------------------------------------------------------------------------ variants

    def best_only(self) -> Model:
        """The same model whose local step takes the best labeling."""
        return replace(self, step=Best())

    def drawing(self, rng: np.random.Generator) -> Model:
        """The same model whose local step draws a labeling."""
        return replace(self, step=Drawn(rng))

    def averaging(self, rng: np.random.Generator) -> Model:
        """The same model whose local step draws one of several labelings to average."""
        return replace(self, step=DrawnPart(rng))

    def for_draws(self) -> Model:
        """The same model with a prior whose parameters can be drawn."""
        parts: tuple[tuple[BaseStructure | BasePrior | BaseFamily, str], ...] = (
            (self.structure, "infer_drawn"),
            (self.prior, "redraw"),
            (self.family, "draw"),
        )
        for part, method in parts:
            if not part.draws:
                raise ValueError(
                    f"{type(part).__name__} has no method `{method}`, which Gibbs needs; use "
                    "BatchVB or another engine"
                )
        return replace(self, prior=self.prior.for_draws())

    def sparse(self, max_active: int | None, candidates: int | None = None) -> Model:
        """The same model whose rows use at most max_active components, see `BaseStructure`."""
        return replace(self, structure=self.structure.sparse(max_active, candidates))

    def mixture(self) -> Model:
        """Dirichlet process mixture of the same family: the rows without their structure."""
        return Model(Independent(), self.family, Sticks(), self.axis)

    def finite_mixture(self, family: BaseFamily | None = None) -> Model:
        """Finite mixture of the same family, or of another one; used for starts."""
        return Model(Independent(), family or self.family, SymmetricDirichlet(), self.axis)

    # ------------------------------------------------------------------------------ counts, params

    def layout(self) -> dict[str, Field]:
        """Every field that is counted."""
        return {**self.prior.fields(self.axis), **self.family.fields(self.axis)}

    def zeros(self, n_components: int) -> Summary:
        """Counts of nothing."""
        zeros = {**self.prior.zeros(n_components), **self.family.zeros(n_components)}
        return Summary(self.layout(), zeros)

    def adopt(self, counts: Summary) -> Summary:
        """Counts with the fields of this model: others are left out, missing ones are zero.

        Models of one kind, with priors for different engines, differ in some fields.
        """
        layout = self.layout()
        if layout.keys() == counts.layout.keys():
            return counts
        zeros = self.zeros(counts.size(self.axis))
        arrays = {name: counts[name] if name in counts else zeros[name] for name in layout}
        return replace(counts, layout=layout, arrays=arrays)

    def start_params(self, n_components: int, legal: Array | None = None) -> Fields:
        """Global values that are not a function of the counts: a root's shares, legal sets."""
        return self.with_legal(self.prior.start(n_components, self.axis), legal)

    def with_legal(self, params: Fields, legal: Array | None) -> Fields:
        """The same parameters with these legal sets (S, K), or with none."""
        layout = {name: field for name, field in params.layout.items() if name != "legal"}
        arrays = {name: params[name] for name in layout}
        if legal is not None:
            layout["legal"] = Field((None, self.axis), merge="max")
            arrays["legal"] = np.asarray(legal, dtype=float)
        return Fields(layout, arrays)

    def named(self, params: Fields) -> frozenset[int]:
        """Positions that labels name: no move touches them."""
        if "legal" not in params:
            return frozenset()
        named = (params["legal"][1:] > 0).any(0)  # set 0 is for rows without a label
        return frozenset(int(k) for k in np.flatnonzero(named))

    def newborn_fillers(self) -> dict[str, Filler]:
        """Fillers of new slots of the parameters, where they differ from the field's own."""
        return {"legal": _FreeSets()}

    @property
    def sweeps(self) -> bool:
        """Whether collapsed inference excludes single units; if not, whole batches."""
        family, structure = self.family, self.structure
        can = family.is_one_symbol if structure.sweeps_symbols_only else family.sweeps
        is_known = can and self.prior.sweeps
        return bool(self.structure.granularities) and is_known

    @property
    def begins_swept(self) -> bool:
        """Whether starts by default try collapsed sweeps."""
        return self.sweeps and self.family.begins_swept

    @property
    def sweeps_labels(self) -> bool:
        """Whether collapsed sweeps can draw labels."""
        structure, can = self.structure, self.sweeps
        if structure.draws_symbols_only:
            can = can and self.family.is_one_symbol
        return can and bool(structure.drawn_granularity)

    def block_rows(self, n_components: int) -> int:
        """Rows of a block, chosen to keep features and evidence near the cache."""
        return self.structure.block_rows(self.family.width() + n_components)

    def blocks(self, batch: Batch, n_components: int) -> list[Batch]:
        """Parts of a batch that are inferred at a time."""
        return self.structure.blocks(batch, self.block_rows(n_components))

    def n_held(self, own: Fields) -> int:
        """Number of components of units with these own counts, or of a family that names them."""
        named = self.family.n_named
        return own.size(self.axis) if named is None else named

    def lanes(self, batch: Batch, rows: int = 0, most: int = 1) -> list[Batch]:
        """The batch in parallel parts of nearly equal work.

        rows, most : one part for so many rows, or as much work, and at most so many; 0 for the
            usual number
        """
        work = self.structure.unit_work(batch)
        if not rows:
            return batch.lanes(work=work)
        total = batch.n_rows if work is None else int(work.sum())
        return batch.lanes(max(1, min(most, total // rows)), work)

    def n_used(self, total: Summary) -> int:
        """Components that hold at least one row."""
        return int((self.prior.sizes(total) > 0.5).sum())

    # ------------------------------------------------------------------------------ potentials

    def potentials(self, counts: Summary, params: Fields, rule: Rule) -> ModelPotentials:
        """The rule applied to every table; evidence is computed later, block by block."""
        log_legal = None
        if "legal" in params:
            log_legal = np.where(params["legal"] > 0, 0.0, -np.inf)
        tables = self.prior.potentials(counts, params, rule)
        return ModelPotentials(tables, rule.pick(self.family)(counts), counts.empty(), log_legal)

    def window_potentials(self, counts: Summary, params: Fields, rule: Rule) -> ModelPotentials:
        """Potentials for windows of sequences, which begin anywhere."""
        windows = self.prior.window_tables(counts, params)
        whole = self.potentials(counts, params, rule)
        return replace(whole, tables={**whole.tables, **windows})

    def predictive(self, counts: Summary, params: Fields) -> ModelPotentials:
        """Potentials for held-out scores: parameters integrated out, the prior at its means."""
        tables = self.prior.predictive(counts, params)
        return ModelPotentials(tables, self.family.log_mean(counts), counts.empty())

    # ------------------------------------------------------------------------------ steps

    def local_step(
        self,
        potentials: ModelPotentials,
        batch: Batch,
        warm: Fields | None = None,
        watches: Sequence[Watch] = (),
        pool: Pool = SERIAL,
    ) -> tuple[Summary, Fields | None]:
        """Infer one batch. Lanes run in any order on any worker; their sums have a fixed order."""
        return lanes.infer_batch(lanes.infer_lane, self, potentials, batch, warm, watches, pool)

    def held_step(
        self, potentials: ModelPotentials, batch: Batch, warm: Fields | None, pool: Pool
    ) -> tuple[Summary, Fields | None]:
        """As `local_step`; values of units include "held", their rows of each component."""
        return lanes.infer_batch(lanes.held_lane, self, potentials, batch, warm, (), pool)

    def global_step(self, total: Summary, params: Fields) -> Fields:
        """Parameters that are not functions of the counts, refreshed."""
        return self.prior.update(total, params)

    def redraw(self, total: Summary, params: Fields, rng: np.random.Generator) -> Fields:
        """Parameters that are not functions of the counts, drawn."""
        return self.prior.redraw(total, params, rng)

    def upkeep(self, total: Summary) -> list[Edit]:
        """Edits that keep statistics accurate; the bound does not change."""
        edit = self.family.refine(total)
        return [] if edit is None else [edit]

    def order(self, total: Summary) -> Edit | None:
        """Edit that sorts components into the order with the largest bound, or None."""
        order = None if self.structure.names_components else self.prior.order(total)
        return None if order is None else Permute(self.axis, tuple(int(i) for i in order))

    # ------------------------------------------------------------------------------ bounds

    def bound(self, total: Summary, params: Fields) -> float:
        """Whole-data bound in nats, exact right after `global_step`.

        Sum of log-partition rises plus the local part.
        """
        rise = self.prior.bound(total, params) + float(self.family.log_marginal(total).sum())
        return rise + total.local_bound

    def bound_at(
        self, counts: Summary, params: Fields, potentials: ModelPotentials, found: Summary
    ) -> float:
        """The bound for globals that are not optimal, made from `counts`.

        found : all data's counts under `potentials`

        It is the local part with its pairing, minus KL(q(globals) || prior) = <potentials, counts>
        - log-partition rise. Fields without potentials (documents' E[log share]) are the data's
        own.
        """
        paired = {*potentials.tables, *self.family.fields(self.axis)}
        arrays = {n: (counts if n in paired else found)[n] for n in counts}
        mixed = replace(counts, arrays=arrays, n_units=found.n_units)
        rise = self.prior.bound(mixed, params) + float(self.family.log_marginal(counts).sum())
        here = rise + found.local_bound + potentials.pair(found.arrays)
        return here - potentials.pair(counts.arrays)

    def log_mode(self, total: Summary, params: Fields) -> float:
        """EM's objective: largest log joint over the global parameters, plus the local part."""
        joint = self.prior.log_mode(total, params) + float(self.family.log_mode(total).sum())
        return joint + total.local_bound

    # ------------------------------------------------------------------------------ learned priors

    def learn(self, total: Summary) -> Model:
        """The model with hyperparameters that raise the bound; itself if it learns none.

        Only the term sum(log_marginal) of the bound depends on them: counts and local parts are for
        given shares.
        """
        family = self.family.learn(total) if self.learns else self.family
        return self if family is self.family else replace(self, family=family)

    def learned(self) -> Fields:
        """Hyperparameters that `learn` changes, by name, without a component axis."""
        values = self.family.hyperparameters() if self.learns else {}
        layout = {
            n: Field((None,) * v.ndim, nonnegative=False, additive=False) for n, v in values.items()
        }
        return Fields(layout, values)

    def with_learned(self, values: Fields) -> Model:
        """The model with learned hyperparameters from a checkpoint."""
        own, found = (
            {n: (a.shape, a.dtype.name) for n, a in fields.arrays.items()}
            for fields in (self.learned(), values)
        )
        if own != found or not all(np.isfinite(a).all() for a in values.arrays.values()):
            raise CheckpointError(
                f"the checkpoint holds learned hyperparameters of shapes {found}; this "
                f"model has {own}"
            )
        if not self.learns:
            return self
        return replace(self, family=self.family.with_hyperparameters(values.arrays))

    # ------------------------------------------------------------------------------ for readers

    def decode(self, potentials: ModelPotentials, batch: Batch, pool: Pool = SERIAL) -> Array:
        """(n,) best component of each row."""
        return self._over_lanes(lanes.decode_lane, potentials, batch, pool)

    def shares(self, potentials: ModelPotentials, batch: Batch, pool: Pool = SERIAL) -> Array:
        """(n, K) posterior shares of each row, as a full table."""
        return self._over_lanes(lanes.shares_lane, potentials, batch, pool)

    def unit_shares(self, potentials: ModelPotentials, batch: Batch, pool: Pool = SERIAL) -> Array:
        """(units, K) posterior mean shares of each unit."""
        return self._over_lanes(lanes.unit_shares_lane, potentials, batch, pool)

    def impute(
        self, potentials: ModelPotentials, counts: Summary, batch: Batch, pool: Pool = SERIAL
    ) -> Array:
        """(n, D) rows with missing entries replaced by their means, averaged over components."""
        return self._over_lanes(lanes.impute_lane, potentials, batch, pool, counts)

    def filter(self, potentials: ModelPotentials, batch: Batch, pool: Pool = SERIAL) -> Array:
        """(n, K) p(component | rows up to it): for ordered rows."""
        return self._over_lanes(lanes.filter_lane, potentials, batch, pool, lanes.all_shares)

    def filter_last(self, potentials: ModelPotentials, batch: Batch, pool: Pool = SERIAL) -> Array:
        """(units, K) p(component of the last row | all rows): for ordered rows."""
        return self._over_lanes(lanes.filter_lane, potentials, batch, pool, lanes.last_shares)

    def log_steps(self, potentials: ModelPotentials, batch: Batch, pool: Pool = SERIAL) -> Array:
        """(n,) log predictive density of each row given those before it: for ordered rows."""
        found = self._over_lanes(lanes.filter_lane, potentials, batch, pool, lanes.all_steps)
        lanes.require_finite(float(found.sum()), potentials)
        return found

    def best_paths(
        self, potentials: ModelPotentials, batch: Batch, pool: Pool = SERIAL
    ) -> tuple[Array, Array]:
        """Most probable labeling (n,) of each unit, and its log weight (units,): ordered rows."""
        found = list(pool.map(partial(lanes.paths_lane, self, potentials), self.lanes(batch)))
        paths, values = (np.concatenate(parts) for parts in zip(*found, strict=True))
        lanes.require_finite(float(values.sum()), potentials)
        return paths, values

    def log_evidence(self, potentials: ModelPotentials, batch: Batch, pool: Pool = SERIAL) -> Array:
        """(units,) log normalizers: log predictive densities under predictive potentials."""
        return self._over_lanes(lanes.evidence_lane, potentials, batch, pool)

    def _over_lanes(
        self,
        job: Callable[..., Array],
        potentials: ModelPotentials,
        batch: Batch,
        pool: Pool,
        *more: Any,
    ) -> Array:
        found: Iterable[Array] = pool.map(partial(job, self, potentials, *more), self.lanes(batch))
        return np.concatenate(list(found))
