"""One assembly, structure + family + prior, serves every model: a model is the line that names its
parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from stickbreak.data import Batch
from stickbreak.errors import CheckpointError, NumericalError
from stickbreak.kernels.rows import pairing
from stickbreak.protocols import (
    Array,
    DrawingFamily,
    DrawingPrior,
    DrawingStructure,
    Family,
    LearningFamily,
    Limiting,
    Local,
    Ordered,
    Piecewise,
    Pool,
    Prior,
    Rule,
    Scores,
    Structure,
    Watch,
    WindowPrior,
)  # fmt: skip
from stickbreak.stats import SYMBOL, Edit, Field, Fields, Permute, Summary, Tally, join
from stickbreak.structures import BestOnly, DrawOnly

__all__ = ["Model", "ModelPotentials", "gather_lanes"]

BLOCK_NUMBERS = 1 << 19  # numbers that a block's features and evidence may take: about 4 MB
RESERVED_AXES = {SYMBOL, "row", "unit", "slot", "pair"}
# larger blocks spend less time in Python, where threads wait for each other
MIN_BLOCK, MAX_BLOCK = 64, 4096


@dataclass(frozen=True)
class ModelPotentials:
    """Log potentials of one step: the prior's tables by name, and the family's Scores. Made once,
    used for every block.
    """

    tables: Mapping[str, Any]
    scores: Scores
    empty: Summary  # zeros of the shape that a visit fills
    log_legal: Array | None = None

    def __getitem__(self, name: str) -> Any:
        return self.tables[name]

    def pair(self, counts: Mapping[str, Array]) -> float:
        """<potentials, counts>, from the sums and not row by row: also right when a family
        completes missing entries.
        """
        tables = sum(
            float(pairing(np.ravel(w)[None], np.ravel(counts[n])[None]))
            for n, w in self.tables.items()
            if n in counts
        )
        return tables + self.scores.pair(counts)


@dataclass(frozen=True)
class Model:
    """Latent structure over conjugate tables. Holds hyperparameters only; the number of components
    is read off the counts.

    learns : whether `learn` changes the family's hyperparameters
    """

    structure: Structure
    family: Family
    prior: Prior
    axis: str = "component"
    learns: bool = False

    def __post_init__(self) -> None:
        if self.axis in RESERVED_AXES:
            raise ValueError(
                f"axis={self.axis!r} is a name of our own; choose another than "
                f"{', '.join(sorted(RESERVED_AXES))}"
            )

    def layout(self) -> dict[str, Field]:
        """Every field that is counted."""
        return {**self.prior.fields(self.axis), **self.family.fields(self.axis)}

    def zeros(self, n_components: int) -> Summary:
        """Counts of nothing."""
        return Summary(
            self.layout(), {**self.prior.zeros(n_components), **self.family.zeros(n_components)}
        )

    def start_params(self, n_components: int, legal: Array | None = None) -> Fields:
        """Global values that are not a function of the counts: a root's shares, and which
        components a legal set may use.
        """
        return self.with_legal(self.prior.start(n_components, self.axis), legal)

    def with_legal(self, params: Fields, legal: Array | None) -> Fields:
        """The same parameters with these legal sets (S, K), or with none."""
        layout = {name: field for name, field in params.layout.items() if name != "legal"}
        arrays = {name: params[name] for name in layout}
        if legal is not None:
            layout["legal"] = Field((None, self.axis), merge="max")
            arrays["legal"] = np.asarray(legal, dtype=float)
        return Fields(layout, arrays)

    def potentials(self, counts: Summary, params: Fields, rule: Rule) -> ModelPotentials:
        """The rule applied to every table, once a step; evidence is computed later, block
        by block.
        """
        log_legal = None
        if "legal" in params:
            log_legal = np.where(params["legal"] > 0, 0.0, -np.inf)
        tables = self.prior.potentials(counts, params, rule)
        return ModelPotentials(tables, rule.pick(self.family)(counts), counts.empty(), log_legal)

    def window_potentials(self, counts: Summary, params: Fields, rule: Rule) -> ModelPotentials:
        """Potentials for windows of sequences, which begin anywhere."""
        if not isinstance(self.prior, WindowPrior):
            raise ValueError(
                f"{type(self.prior).__name__} has no windows: SubchainVB is for hidden Markov "
                "models; use StochasticVB"
            )
        whole = self.potentials(counts, params, rule)
        return replace(whole, tables={**whole.tables, **self.prior.window_tables(counts, params)})

    def predictive(self, counts: Summary, params: Fields) -> ModelPotentials:
        """Potentials for held-out scores: the family's parameters integrated out, the prior at its
        posterior means.
        """
        return ModelPotentials(
            self.prior.predictive(counts, params), self.family.log_mean(counts), counts.empty()
        )

    def best_only(self) -> Model:
        """The same model whose local step takes the best labelling."""
        return (
            self
            if isinstance(self.structure, BestOnly)
            else replace(self, structure=BestOnly(self.structure))
        )

    def for_draws(self) -> Model:
        """The same model with a prior whose parameters can be drawn; ValueError where a part has no
        draws.
        """
        methods = (
            (self.structure, DrawingStructure, "infer_drawn"),
            (self.prior, DrawingPrior, "redraw"),
        )
        for part, protocol, method in (*methods, (self.family, DrawingFamily, "draw")):
            if not isinstance(part, protocol):
                raise ValueError(
                    f"{type(part).__name__} has no method `{method}`, which Gibbs needs; use "
                    "BatchVB or another engine"
                )
        assert isinstance(self.prior, DrawingPrior)
        return replace(self, prior=self.prior.for_draws())

    def drawing(self, rng: np.random.Generator) -> Model:
        """The same model whose local step draws a labelling."""
        return replace(self, structure=DrawOnly(self.structure, rng))

    def redraw(self, total: Summary, params: Fields, rng: np.random.Generator) -> Fields:
        """Parameters that are not functions of the counts, drawn."""
        assert isinstance(self.prior, DrawingPrior)
        return self.prior.redraw(total, params, rng)

    def n_used(self, total: Summary) -> int:
        """Components that hold at least one row."""
        return int((self.prior.sizes(total) > 0.5).sum())

    def limited(self, max_active: int | None, candidates: int | None = None) -> Model:
        """The same model whose rows use the max_active best components each (None: all), chosen
        among so many candidates.
        """
        if isinstance(self.structure, Limiting):
            return replace(self, structure=self.structure.limited(max_active, candidates))
        if max_active is not None:
            raise ValueError(
                f"max_active={max_active} is not for {type(self.structure).__name__}, which has no "
                "limited form; use None"
            )
        return self

    def block_rows(self, n_components: int) -> int:
        """Rows of a block: as many as keep features and evidence near the cache."""
        width = self.family.width() + n_components
        # isinstance(..., Piecewise) is slow, and this is every block
        own: int | None = getattr(self._inner, "block_numbers", None)
        if own is not None:
            return max(MIN_BLOCK, own // width)
        return max(MIN_BLOCK, min(MAX_BLOCK, BLOCK_NUMBERS // width))

    @property
    def _inner(self) -> Structure:
        return (
            self.structure.inner
            if isinstance(self.structure, BestOnly | DrawOnly)
            else self.structure
        )

    def local_step(
        self,
        potentials: ModelPotentials,
        batch: Batch,
        warm: Fields | None = None,
        watches: Sequence[Watch] = (),
        pool: Pool = map,
    ) -> tuple[Summary, Fields | None]:
        """Infer one batch. Lanes run in any order on any worker and are added up in one order."""
        if warm is None:
            warm = self.structure.cold_start(batch, potentials.empty.size(self.axis), self.axis)
        jobs = [
            (lane.alone(), None if warm is None else warm.cut(**lane.cut)) for lane in batch.lanes()
        ]
        return gather_lanes(pool(partial(_infer_lane, self, potentials, tuple(watches)), jobs))

    def global_step(self, total: Summary, params: Fields) -> Fields:
        """Parameters that are not functions of the counts, refreshed."""
        return self.prior.update(total, params)

    def bound(self, total: Summary, params: Fields) -> float:
        """Whole-data bound in nats, exact right after `global_step`: sum of log-partition rises
        plus the local part.
        """
        return (
            self.prior.bound(total, params)
            + float(self.family.log_marginal(total).sum())
            + total.local_bound
        )

    def bound_at(
        self, counts: Summary, params: Fields, potentials: ModelPotentials, found: Summary
    ) -> float:
        """The bound for globals that are not optimal, made from `counts`: `found` are all data's
        counts under `potentials`.

        The local part with its pairing, less KL(q(globals) || prior) = <potentials, counts> -
        log-partition rise. Fields that have no potentials (documents' E[log share]) are the data's
        own.
        """
        paired = {*potentials.tables, *self.family.fields(self.axis)}
        mixed = replace(
            counts,
            arrays={n: (counts if n in paired else found)[n] for n in counts},
            n_units=found.n_units,
        )
        rise = self.prior.bound(mixed, params) + float(self.family.log_marginal(counts).sum())
        return (
            rise
            + found.local_bound
            + potentials.pair(found.arrays)
            - potentials.pair(counts.arrays)
        )

    def log_mode(self, total: Summary, params: Fields) -> float:
        """EM's objective: largest log joint over the global parameters, plus the local part."""
        return (
            self.prior.log_mode(total, params)
            + float(self.family.log_mode(total).sum())
            + total.local_bound
        )

    def upkeep(self, total: Summary) -> list[Edit]:
        """Edits that keep the statistics accurate."""
        edit = self.family.refine(total)
        return [] if edit is None else [edit]

    def order(self, total: Summary) -> Edit | None:
        """Components in the order that the bound likes best."""
        order = self.prior.order(total)
        return None if order is None else Permute(self.axis, tuple(int(i) for i in order))

    def learn(self, total: Summary) -> Model:
        """The model with hyperparameters that raise the bound of these counts; itself when it
        learns none.

        Of the bound only sum(log_marginal) depends on them: counts and local parts are those of
        given shares.
        """
        if not self.learns:
            return self
        assert isinstance(self.family, LearningFamily)
        family = self.family.learn(total)
        return self if family is self.family else replace(self, family=family)

    def learned(self) -> Fields:
        """Hyperparameters that `learn` changes, by name, without a component axis."""
        if not self.learns:
            return Fields({}, {})
        assert isinstance(self.family, LearningFamily)
        values = self.family.hyperparameters()
        return Fields(
            {
                n: Field((None,) * v.ndim, nonnegative=False, additive=False)
                for n, v in values.items()
            },
            values,
        )

    def with_learned(self, values: Fields) -> Model:
        """The model with hyperparameters that were learned before, by the fit that a checkpoint is
        of.
        """
        own, found = (
            {n: a.shape for n, a in fields.arrays.items()} for fields in (self.learned(), values)
        )
        if own != found or not all(np.isfinite(a).all() for a in values.arrays.values()):
            raise CheckpointError(
                "the checkpoint holds learned hyperparameters of shapes "
                f"{found}; this model has {own}"
            )
        if not self.learns:
            return self
        assert isinstance(self.family, LearningFamily)
        return replace(self, family=self.family.with_hyperparameters(values.arrays))

    def decode(self, potentials: ModelPotentials, batch: Batch, pool: Pool = map) -> Array:
        """(n,) best component of each row."""
        return np.concatenate(list(pool(partial(_decode_lane, self, potentials), batch.lanes())))

    def shares(self, potentials: ModelPotentials, batch: Batch, pool: Pool = map) -> Array:
        """(n, K) posterior shares of each row, for whoever asks for the whole table."""
        return np.concatenate(list(pool(partial(_shares_lane, self, potentials), batch.lanes())))

    def unit_shares(self, potentials: ModelPotentials, batch: Batch, pool: Pool = map) -> Array:
        """(units, K) posterior mean shares of each unit: for documents, which have shares of their
        own.
        """
        return np.concatenate(
            list(pool(partial(_unit_shares_lane, self, potentials), batch.lanes()))
        )

    def impute(
        self, potentials: ModelPotentials, counts: Summary, batch: Batch, pool: Pool = map
    ) -> Array:
        """(n, D) rows with missing entries replaced by their means under the components, weighted
        by the rows' shares.
        """
        return np.concatenate(
            list(pool(partial(_impute_lane, self, potentials, counts), batch.lanes()))
        )

    def filter(self, potentials: ModelPotentials, batch: Batch, pool: Pool = map) -> Array:
        """(n, K) what the rows up to each row, and itself, say of its component: for
        ordered rows.
        """
        return np.concatenate(
            list(pool(partial(_filter_lane, self, potentials, _all_shares), batch.lanes()))
        )

    def filter_last(self, potentials: ModelPotentials, batch: Batch, pool: Pool = map) -> Array:
        """(units, K) what all rows of a unit say of the component of its last row: for ordered
        rows.
        """
        return np.concatenate(
            list(pool(partial(_filter_lane, self, potentials, _last_shares), batch.lanes()))
        )

    def log_steps(self, potentials: ModelPotentials, batch: Batch, pool: Pool = map) -> Array:
        """(n,) log predictive density of each row given those before it: for ordered rows."""
        found = np.concatenate(
            list(pool(partial(_filter_lane, self, potentials, _all_steps), batch.lanes()))
        )
        _require_finite(float(found.sum()), potentials)
        return found

    def best_paths(
        self, potentials: ModelPotentials, batch: Batch, pool: Pool = map
    ) -> tuple[Array, Array]:
        """The most probable labelling (n,) of each unit as a whole, and its log weight (units,):
        for ordered rows.
        """
        found = list(pool(partial(_paths_lane, self, potentials), batch.lanes()))
        paths, values = (np.concatenate(parts) for parts in zip(*found, strict=True))
        _require_finite(float(values.sum()), potentials)
        return paths, values

    def log_evidence(self, potentials: ModelPotentials, batch: Batch, pool: Pool = map) -> Array:
        """(units,) log normalizer of each unit: log predictive density under predictive
        potentials.
        """
        return np.concatenate(list(pool(partial(_evidence_lane, self, potentials), batch.lanes())))


# Jobs are module-level functions of plain values: they pickle, so any executor can run them.


def _prepared(
    model: Model, potentials: ModelPotentials, lane: Batch
) -> Iterable[tuple[Batch, Batch]]:
    """The blocks of a lane, as the user gave them and as the family reads them."""
    for block in lane.blocks(model.block_rows(potentials.empty.size(model.axis))):
        yield block, block.with_rows(model.family.prepare(block.rows))


def _inferred(
    model: Model,
    potentials: ModelPotentials,
    lane: Batch,
    warm: Fields | None,
    out: dict[str, Array],
) -> Iterable[tuple[Batch, Batch, Local]]:
    """The blocks of a lane, as given and as prepared, with their posteriors; a unit that no block
    can hold comes in pieces.
    """
    max_rows = model.block_rows(potentials.empty.size(model.axis))
    for block in lane.blocks(max_rows):
        if (
            block.n_rows > 2 * max_rows
            and block.windows is None
            and isinstance(model._inner, Piecewise)
        ):
            yield from _infer_units(model, potentials, block, warm, max_rows, out)
            continue
        prepared = block.with_rows(model.family.prepare(block.rows))
        own = None if warm is None else warm.cut(**block.cut)
        yield block, prepared, model.structure.infer(potentials, prepared, own, out)


def _infer_units(
    model: Model,
    potentials: ModelPotentials,
    block: Batch,
    warm: Fields | None,
    max_rows: int,
    out: dict[str, Array],
) -> Iterable[tuple[Batch, Batch, Local]]:
    """A block that holds a unit which is too long: unit by unit."""
    structure: Any = model.structure  # piecewise, or wraps one that is
    for u in range(block.n_spans):
        unit = block.part(u, u + 1)
        own = None if warm is None else warm.cut(**unit.cut)
        if unit.n_rows > 2 * max_rows:
            yield from structure.infer_pieces(model, potentials, unit, own, max_rows, out)
        else:
            prepared = unit.with_rows(model.family.prepare(unit.rows))
            yield unit, prepared, structure.infer(potentials, prepared, own, out)


def _infer_lane(
    model: Model,
    potentials: ModelPotentials,
    watches: tuple[Watch, ...],
    job: tuple[Batch, Fields | None],
) -> tuple[Summary, Fields | None]:
    """Counts of one lane. The local bound is taken once, from the sums."""
    lane, warm = job[0], None if job[1] is None else job[1].copy()
    summary = potentials.empty.empty()
    out = dict(summary.arrays)
    sides = {w.name: w.empty_side(model, potentials) for w in watches}
    log_z = own_bound = 0.0
    for raw, block, local in _inferred(model, potentials, lane, warm, out):
        potentials.scores.collect(block.rows, local.shares, out)
        log_z, own_bound = log_z + local.log_z, own_bound + local.own_bound
        for w in watches:
            sides[w.name] = w.observe(model, potentials, block, raw, local, sides[w.name])
    local_bound = log_z + own_bound - potentials.pair(out)
    _require_finite(log_z, potentials)
    return replace(
        summary, arrays=out, sides=sides, local_bound=local_bound, log_z=log_z, n_units=lane.n_units
    ), warm


def _require_finite(log_z: float, potentials: ModelPotentials) -> None:
    if not math.isfinite(log_z):
        what = (
            "not a number"
            if potentials.log_legal is None
            else "not a number, or a row without a legal component"
        )
        raise NumericalError(
            f"the local step gave log_z = {log_z} ({what}); check the data's "
            "scale and the family's prior"
        )


def _decode_lane(model: Model, potentials: ModelPotentials, lane: Batch) -> Array:
    if isinstance(model.structure, BestOnly) and isinstance(model._inner, Ordered):
        return _paths_lane(model, potentials, lane)[0]
    # by the posterior of each row, of which no more than a piece is held
    if isinstance(model.structure, Piecewise):
        best, tables = np.empty(lane.n_rows, dtype=np.int64), dict(potentials.empty.empty().arrays)
        # rows that do not count have a best component too
        lane = replace(lane.alone(), repeats=None)
        for block, _, local in _inferred(model, potentials, lane, None, tables):
            best[block.row_at : block.row_at + block.n_rows] = np.asarray(local.shares).argmax(1)
        return best
    return np.concatenate(
        [
            model.structure.decode(potentials, block)
            for _, block in _prepared(model, potentials, lane)
        ]
    )


def _shares_lane(model: Model, potentials: ModelPotentials, lane: Batch) -> Array:
    if isinstance(model._inner, Piecewise) and lane.repeats is None:
        out, tables = (
            np.empty((lane.n_rows, potentials.empty.size(model.axis))),
            dict(potentials.empty.empty().arrays),
        )
        for block, _, local in _inferred(model, potentials, lane.alone(), None, tables):
            out[block.row_at : block.row_at + block.n_rows] = local.shares
        return out
    return np.concatenate(
        [_shares(model, potentials, block) for _, block in _prepared(model, potentials, lane)]
    )


def _unit_shares_lane(model: Model, potentials: ModelPotentials, lane: Batch) -> Array:
    structure: Any = model.structure
    return np.concatenate(
        [
            structure.shares_of_units(potentials, block)
            for _, block in _prepared(model, potentials, lane)
        ]
    )


def _shares(model: Model, potentials: ModelPotentials, block: Batch) -> Array:
    out = dict(potentials.empty.empty().arrays)
    block = block.alone()
    warm = model.structure.cold_start(block, potentials.empty.size(model.axis), model.axis)
    local = model.structure.infer(potentials, block, warm, out)
    _require_finite(local.log_z, potentials)
    shares = np.ascontiguousarray(local.shares)
    return shares if block.repeats is None else shares / block.repeats[:, None]


def _filter_lane(
    model: Model, potentials: ModelPotentials, pick: Callable[..., Array], lane: Batch
) -> Array:
    """What `pick` takes of a filter, block by block; a unit that no block can hold comes
    in pieces.
    """
    structure, max_rows = model._inner, model.block_rows(potentials.empty.size(model.axis))
    assert isinstance(structure, Ordered)
    parts: list[Array] = []
    for block in lane.blocks(max_rows):
        if block.n_rows <= 2 * max_rows:
            prepared = block.with_rows(model.family.prepare(block.rows))
            parts.append(pick(structure.filter(potentials, prepared), block, True))
            continue
        for u in range(block.n_spans):
            unit = block.part(u, u + 1)
            for piece, found in structure.filter_pieces(model, potentials, unit, max_rows):
                parts.append(
                    pick(found, piece, piece.row_at + piece.n_rows == unit.row_at + unit.n_rows)
                )
    return np.concatenate(parts)


def _all_shares(found: tuple[Array, Array], part: Batch, is_end: bool) -> Array:
    return found[0]


def _all_steps(found: tuple[Array, Array], part: Batch, is_end: bool) -> Array:
    return found[1]


def _last_shares(found: tuple[Array, Array], part: Batch, is_end: bool) -> Array:
    """Of the last row of each unit that ends here."""
    assert part.offsets is not None
    return found[0][part.offsets[1:] - 1] if is_end else found[0][:0]


def _paths_lane(model: Model, potentials: ModelPotentials, lane: Batch) -> tuple[Array, Array]:
    structure, max_rows = model._inner, model.block_rows(potentials.empty.size(model.axis))
    assert isinstance(structure, Ordered)
    found: list[tuple[Array, Array]] = []
    for block in lane.blocks(max_rows):
        if block.n_rows <= 2 * max_rows:
            found.append(
                structure.viterbi(potentials, block.with_rows(model.family.prepare(block.rows)))
            )
            continue
        units = (block.part(u, u + 1) for u in range(block.n_spans))
        found += (structure.viterbi_pieces(model, potentials, unit, max_rows) for unit in units)
    return np.concatenate([path for path, _ in found]), np.concatenate(
        [value for _, value in found]
    )


def _impute_lane(model: Model, potentials: ModelPotentials, counts: Summary, lane: Batch) -> Array:
    parts = []
    for raw, block in _prepared(model, potentials, lane):
        parts.append(model.family.impute(counts, raw.rows, _shares(model, potentials, block)))
    return np.concatenate(parts)


def _evidence_lane(model: Model, potentials: ModelPotentials, lane: Batch) -> Array:
    found = np.concatenate(
        [
            model.structure.log_evidence(potentials, block)
            for _, block in _prepared(model, potentials, lane)
        ]
    )
    _require_finite(float(found.sum()), potentials)
    return found


def gather_lanes(results: Iterable[tuple[Summary, Fields | None]]) -> tuple[Summary, Fields | None]:
    """Sum in the order of the lanes, whoever computed them."""
    first: Summary | None = None
    total: Tally | None = None
    kept: list[Fields] = []
    for summary, warm in results:
        if first is None:
            first = summary
        else:
            total = (Tally(first) if total is None else total).add(summary)
        if warm is not None:
            kept.append(warm)
    assert first is not None
    return first if total is None else total.summary(), join(kept) if kept else None
