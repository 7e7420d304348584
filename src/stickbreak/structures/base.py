"""The contract of a structure: from potentials and a block of units to expected counts.

A structure must define how units are inferred (`infer`), what a labeling counts (`count`) and how
probable a unit is (`log_evidence`). Every other method has a working default, or one that names
what to use instead. Capabilities that others must know beforehand are declared as class attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Never

import numpy as np

from stickbreak.data import Batch, Companion
from stickbreak.protocols import Array, Local, Out, Potentials, Revisit, SweptLane
from stickbreak.stats import Edit, Fields, Regroup, Summary

from .evidence import mask_illegal, one_hot, row_evidence

if TYPE_CHECKING:
    from stickbreak.models import Model

    from .long_units import LongUnit
    from .steps import LocalStep

__all__ = [
    "MIN_BLOCK", "BaseStructure", "Division", "Piece", "mask_illegal", "one_hot", "row_evidence",
]  # fmt: skip

BLOCK_NUMBERS = 1 << 19  # in a block's features and evidence: about 4 MB
# Larger blocks spend less time in Python, where threads wait for each other.
MIN_BLOCK, MAX_BLOCK = 64, 4096

Piece = tuple[Batch, Batch, Local]
"""Rows as given, as prepared by the family, and their posterior."""


class Division(NamedTuple):
    """How a birth divides a component's rows among newborns.

    by : what stays together: single "rows", "blocks" of successive rows, or whole "units"; or
        "seeds", few rows each, where rows alone do not tell which newborn is theirs
    part : a trial makes n_newborn // part newborns
    n_more : number of nearest neighbors whose rows are divided as well
    keeps : whether the target survives as the first newborn
    """

    by: Literal["rows", "blocks", "units", "seeds"]
    part: int = 1
    n_more: int = 0
    keeps: bool = False


class BaseStructure:
    """Posterior of the units of a block under given potentials."""

    tracks: ClassVar[frozenset[str]] = frozenset()
    """What a lap can watch: "merge" (`merge_terms`), "redistribute" (births and deletes).

    Moves that are not tracked fit all data from a changed start instead.
    """

    lingers: ClassVar[bool] = False
    """Whether collapsed sweeps may stay near a saddle for long, where components are alike.

    Such a fit ends only when posteriors no longer change.
    """

    is_ordered: ClassVar[bool] = False
    """Whether the rows of a unit have an order: `filter`, `viterbi`, `walk`."""

    has_best: ClassVar[bool] = False
    """Whether the best labeling can be found: `infer_best`, `best`."""

    draws: ClassVar[bool] = False
    """Whether labels can be drawn and counted: `infer_drawn`."""

    labels_repeats: ClassVar[bool] = False
    """Whether each repeat of a row gets a label of its own, like occurrences of a word.

    If not, samplers take rows of weight 0 or 1 only.
    """

    cuts_units: ClassVar[bool] = False
    """Whether units too long for a block are inferred in pieces: `infer_long` and the like."""

    patience: ClassVar[float] = 3.0
    """How many times the gain extrapolated from its last two passes a trial may need.

    A trial that needs more ends early. inf for structures whose tables take some passes to tell
    newborns apart.
    """

    least_closed: ClassVar[float] = 0.0
    """Part of what the first pass of a trial without a component misses that the second closes.

    A trial that closes less ends after two passes. 0 for structures that do not say.
    """

    granularities: ClassVar[tuple[str, ...]] = ()
    """What collapsed sweeps can infer at a time, the usual one first: `own_counts`, `sweep`.

    If there are none, a whole batch is inferred given all others.
    """

    drawn_granularity: ClassVar[str] = ""
    """What sweeps draw at a time, if they can draw labels (`Sweep.seeds`); empty if not."""

    draws_symbols_only: ClassVar[bool] = False
    """Whether these are for one column of symbols; if not, for every family that sweeps."""

    loops: ClassVar[bool] = False
    """Whether units of families without compiled sweeps are excluded too: `keep_own`."""

    sweeps_symbols_only: ClassVar[bool] = False
    """Whether compiled sweeps are for one column of symbols; if not, for every family that can."""

    sweeps_in_place: ClassVar[bool] = False
    """Whether a sweep can leave its result in the live counts: `Sweep.in_place`."""

    swept_rows: ClassVar[float] = 500_000
    """Rows of a batch that is swept, unless users say how many batches: a visit copies its rows.

    inf if counts of all data are changed in place, and so batches would cost more than one.
    """

    n_sweeps: ClassVar[int] = 1
    """How often a new unit is swept: more than once if a sweep depends on the unit's last one."""

    names_components: ClassVar[bool] = False
    """Whether the data name the components, like words of a vocabulary. Then nothing edits them."""

    has_trees: ClassVar[bool] = False
    """Whether units have trees: `parse`, `tree_shares`, `count_trees`."""

    n_uniforms: ClassVar[int] = 1
    """Random numbers that a row needs for a draw: `infer_drawn` gets (n,), or (n, n_uniforms)."""

    births: ClassVar[tuple[Division, ...]] = (Division("rows"), Division("rows", 2, n_more=1))
    """How births divide a component: each failure moves on to the next entry."""

    least_held: ClassVar[float | None] = None
    """Rows of a component up to which a trial leaves a unit alone when it divides the component.

    See `regroup`; None if a trial must infer all units.
    """

    # ------------------------------------------------------------------------------ local step

    def infer(self, potentials: Potentials, block: Batch, warm: Fields | None, out: Out) -> Local:
        """Infer a prepared block. Adds the prior's counts to `out`, writes to `warm`.

        The model collects the family's counts by the shares. If warm is None, starts cold and keeps
        nothing.
        """
        raise NotImplementedError

    def infer_best(
        self, potentials: Potentials, block: Batch, warm: Fields | None, out: Out
    ) -> Local:
        """As `infer`, for the best single labeling of each unit."""
        self._refuse("HardEM", "EM, BatchVB or another engine")

    def starts_by_best(self, batch: Batch, n_components: int) -> bool:
        """Whether starts use the best labeling: not where it takes far longer than expectations."""
        return self.has_best

    def infer_drawn(self, potentials: Potentials, block: Batch, uniforms: Array, out: Out) -> Local:
        """As `infer`, for a labeling drawn from the posterior; uniforms (n,) in [0, 1)."""
        self._refuse("Gibbs", "BatchVB or another engine")

    def drawn_start(self, batch: Batch, n_components: int, axis: str) -> Fields | None:
        """Values that units keep from draw to draw, before the first; None for none."""
        return None

    def redraw(
        self, potentials: Potentials, block: Batch, warm: Fields, uniforms: Array, out: Out
    ) -> Local:
        """As `infer_drawn`, given what units keep of their last draw; writes to `warm`."""
        return self.infer_drawn(potentials, block, uniforms, out)

    def infer_long(
        self, step: LocalStep, unit: LongUnit, warm: Fields | None, out: Out
    ) -> Iterator[Piece]:
        """As the local step, for one unit in pieces, which may come in any order."""
        self._refuse("a unit in pieces", "shorter units")

    def cold_start(self, batch: Batch, n_components: int, axis: str) -> Fields | None:
        """Values per unit to start from; None when the local optimum is unique."""
        return None

    def revisit(self, visit: Revisit) -> tuple[Summary, Fields | None, bool]:
        """Counts and values of units seen before, and whether later visits continue from `kept`."""
        return *visit.infer(visit.kept), True

    def block_rows(self, width: int) -> int:
        """Rows of a block, if the features and evidence of a row take `width` numbers."""
        return max(MIN_BLOCK, min(MAX_BLOCK, BLOCK_NUMBERS // width))

    def blocks(self, batch: Batch, max_rows: int) -> list[Batch]:
        """Parts of a batch that are inferred at a time, of about `max_rows` rows."""
        return batch.blocks(max_rows)

    def unit_work(self, batch: Batch) -> Array | None:
        """(units,) cost of each unit by the data alone, in rows of a chain; None if it is rows."""
        return None

    # ------------------------------------------------------------------------------ labels, scores

    def count(self, labels: Array, block: Batch, out: Out) -> None:
        """Add to `out` the prior's counts that labels (n,) determine; rows labeled -1 are skipped.

        Labels of words determine neither a tree nor a document's own shares: such counts stay as
        they are.
        """
        raise NotImplementedError

    def log_evidence(self, potentials: Potentials, block: Batch) -> Array:
        """(units,) log normalizers; under predictive potentials, log predictive densities."""
        raise NotImplementedError

    def decode(self, potentials: Potentials, block: Batch) -> Array:
        """(n,) component with the largest share of each row; ties go to the first."""
        if block.repeats is not None:  # rows of weight zero need a label too
            block = replace(block, repeats=np.where(block.repeats > 0, block.repeats, 1.0))
        return np.asarray(self._infer_alone(potentials, block).shares).argmax(1)

    def best(self, potentials: Potentials, block: Batch) -> Array:
        """(n,) best single labeling of each unit: what `infer_best` counts."""
        self._refuse("the best labeling", "decode")

    def sample(self, potentials: Potentials, block: Batch, rng: np.random.Generator) -> Array:
        """(n,) components drawn from the posterior."""
        self._refuse("drawing labels", "decode")

    def unit_shares(self, potentials: Potentials, block: Batch) -> Array:
        """(units, K) mean shares of each unit's rows."""
        shares = np.asarray(self._infer_alone(potentials, block).shares)
        ends = np.arange(block.n_rows + 1) if block.offsets is None else block.offsets
        sums = np.add.reduceat(np.vstack([shares, 0.0 * shares[:1]]), ends[:-1])
        sums[np.diff(ends) == 0] = 1.0  # uniform shares for a unit without rows
        return np.asarray(sums / sums.sum(1, keepdims=True))

    def _infer_alone(self, potentials: Potentials, block: Batch) -> Local:
        """Infer one block and drop its counts."""
        return self.infer(potentials, block, None, dict(potentials.empty.empty().arrays))

    # ------------------------------------------------------------------------------ moves, sparsity

    def merge_terms(
        self, potentials: Potentials, block: Batch, local: Local, pairs: Array, out: Out
    ) -> None:
        """Add the change of the local bound if each pair (M, 2) were merged.

        out : gain (M,); cross (M, M) for two pairs at once; and the merged value (M,) of every
            tracked field
        """
        self._refuse("tracking merges", "trials")

    def redistribute(
        self,
        model: Model,
        potentials: Potentials,
        proposal: Any,
        raw: Batch,
        local: Local,
        side: Summary,
    ) -> float:
        """Redistribute the mass of `proposal.taken`. Adds the change of the counts to `side`.

        Returns the change of the local bound.
        """
        self._refuse("tracking births", "trials")

    def held(self, block: Batch, local: Local) -> Array:
        """(units, K) rows that each unit of a block has of each component."""
        shares = np.asarray(local.shares)
        if block.offsets is None:
            return shares
        return np.asarray(np.add.reduceat(shares.T, block.offsets[:-1], axis=1).T)

    def regroup(
        self, tables: Mapping[str, Any], wanted: Mapping[str, Any], how: Regroup
    ) -> tuple[Edit, Mapping[str, Any]] | None:
        """How the counts of units change that keep their posteriors in a trial.

        They hold nothing of the components `how.taken`, or next to nothing (`least_held`), and
        zeros of newborns. Returns an edit of their sums, exact for their part of the bound too, and
        what the prior's tables are for them then; None if a trial must infer all units.

        tables, wanted : the prior's potentials of these units, and those of the trial
        """
        return None

    def sparse(self, max_active: int | None, candidates: int | None) -> BaseStructure:
        """The same structure with at most max_active components per row (None: all).

        candidates : how many components, preselected in float32, to evaluate exactly
        """
        if max_active is None:
            return self
        self._refuse(f"max_active={max_active}", "None")

    def sliced(self) -> BaseStructure:
        """The same structure, whose draws stay within slices of the last ones."""
        self._refuse("slices=True", "slices=False: only hidden Markov models have slices")

    def n_missed(
        self,
        prepare: Callable[[Any], Any],
        potentials: Potentials,
        raw: Batch,
        local: Local,
        n_rows: int,
    ) -> tuple[int, float]:
        """(checked, missed): rows re-evaluated; expected number with wrong components.

        Re-evaluates at most n_rows rows of a block, under all components.
        """
        return 0, 0.0

    # ------------------------------------------------------------------------------ ordered rows

    def filter(self, potentials: Potentials, block: Batch) -> tuple[Array, Array]:
        """p(component | rows up to it) (n, K), and log p(row | rows before it) (n,)."""
        self._refuse("filtering", "predict_proba")

    def filter_long(self, unit: LongUnit) -> Iterator[tuple[Batch, tuple[Array, Array]]]:
        """As `filter`, for one unit in pieces, first to last."""
        self._refuse("filtering", "predict_proba")

    def viterbi(self, potentials: Potentials, block: Batch) -> tuple[Array, Array]:
        """Best labeling (n,) of each unit, and its log weight (units,)."""
        self._refuse("the best path", "decode")

    def viterbi_long(self, unit: LongUnit) -> tuple[Array, Array]:
        """As `viterbi`, for one unit in pieces."""
        self._refuse("the best path", "decode")

    def walk(self, potentials: Potentials, offsets: Array, rng: np.random.Generator) -> Array:
        """(n,) components of new units, drawn from the prior; offsets (units + 1,)."""
        self._refuse("drawing units", "a structure of ordered rows")

    # ------------------------------------------------------------------------------ trees

    def parse(
        self, potentials: Potentials, block: Batch, uniforms: Array | None = None
    ) -> tuple[Companion, Array]:
        """Best tree of each unit, or a drawn one, and the log (units,) of its weight.

        What a row of a tree says is the structure's own: the head of a word, a node.
        uniforms : for draws, as for `infer_drawn`; the logs are then those of the sums.
        """
        self._refuse("parsing", "a grammar")

    def tree_shares(self, potentials: Potentials, block: Batch) -> Companion:
        """Posterior of the parts that a tree of each unit may have: heads of words, spans."""
        self._refuse("parsing", "a grammar")

    def count_trees(self, trees: Companion, block: Batch, out: Out) -> None:
        """Add the prior's counts of given trees to `out`."""
        self._refuse("counting trees", "a grammar")

    # ------------------------------------------------------------------------------ sweeps

    def random_own(
        self,
        batch: Batch,
        n_components: int,
        axis: str,
        rng: np.random.Generator,
        legal: Array | None = None,
    ) -> Fields:
        """Random posteriors of every unit, as own counts. legal : see `sweep`."""
        self._refuse("collapsed inference", "BatchVB")

    def guess_own(
        self, batch: Batch, n_components: int, axis: str, rng: np.random.Generator, jitter: float
    ) -> Fields:
        """Own counts of a guess without potentials, each times U(1 - jitter, 1 + jitter)."""
        self._refuse("a guess", "another start")

    def own_counts(
        self, batch: Batch, n_components: int, axis: str, granularity: str = ""
    ) -> Fields:
        """Zero counts of every unit, with axes "row" and "unit", which moves edit too.

        granularity : what is inferred at a time; empty for the usual
        """
        self._refuse("collapsed inference", "BatchVB")

    def own_labels(self, batch: Batch, n_components: int, axis: str) -> Fields:
        """As `own_counts`, for sweeps that draw labels."""
        return self.own_counts(batch, n_components, axis)

    def own_of(self, batch: Batch, own: Fields, axis: str, granularity: str) -> Fields:
        """Own counts for another granularity, from those of the usual one."""
        return own

    def warm_of(self, batch: Batch, own: Fields, axis: str) -> Fields | None:
        """What local steps continue from, where sweeps ended with these own counts; see `warm`."""
        return None

    def sweep(self, lane: SweptLane) -> tuple[float, float]:
        """Visit the units of a lane in turn: counts out, potentials, infer, counts in.

        Returns the sum of leave-one-out log predictives, and the lane's part of the bound.
        """
        self._refuse("collapsed inference", "BatchVB")

    def keep_own(self, shares: Array, found: Out, own: Fields) -> None:
        """Keep one unit's posterior: shares (n, K) of its rows, and the prior's counts.

        With `count_own`, what families without compiled sweeps need.
        """
        self._refuse("collapsed inference of this family", "BatchVB")

    def count_own(self, block: Batch, own: Fields, out: Out) -> Array:
        """Add the prior's counts that units keep; returns the shares (n, K) of their rows."""
        self._refuse("collapsed inference of this family", "BatchVB")

    def _refuse(self, what: str, instead: str) -> Never:
        raise ValueError(f"{what} is not for {type(self).__name__}; use {instead}")
