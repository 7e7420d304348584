"""The contract, as types. Read top to bottom.

A family judges rows, a prior shares out components, a structure infers units, a model assembles the
three, a rule turns counts into potentials, an accumulator changes the total, a move edits
everything by axis name. Hyperparameters carry no component axis; the number of components is read
off the counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from stickbreak.data import Batch, Scale
    from stickbreak.stats import Edit, Field, Fields, Shares, Summary

__all__ = [
    "Array", "Counts", "DrawingFamily", "DrawingPrior", "DrawingStructure", "Family",
    "LearningFamily", "Limiting", "LiveFamily",
    "Local", "Mergeable", "Model", "Movable", "Ordered", "Piecewise", "Pool", "Potentials",
    "Prior", "PseudoCounts", "QuickScores",
    "Rule", "Scores", "Structure", "Sweeping", "TableLike", "Watch", "WindowPrior",
]  # fmt: skip

Array = npt.NDArray[Any]
Pool = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
"""`map`, or an executor's: results come in the order of the jobs."""


class Counts(Protocol):
    """Anything that gives arrays by name: a Summary, or a dict of the family's own fields."""

    def __getitem__(self, name: str, /) -> Array: ...


# ---------------------------------------------------------------------------------------------- fam


@runtime_checkable
class Scores(Protocol):
    """A family's potentials under one rule. Made once a step; judges and collects block by block;
    picklable.
    """

    def evidence(self, rows: Any) -> Array:
        """Log evidence (n, K) of prepared rows, constants of the data included. Its transpose is
        C-contiguous.
        """

    def collect(self, rows: Any, shares: Shares, out: dict[str, Array]) -> None:
        """Add the statistics of rows weighted by shares (n, K), an array or SparseShares,
        to `out`.
        """

    def pair(self, counts: Counts) -> float:
        """<potentials, counts>; NaN for rules without a bound."""


@runtime_checkable
class QuickScores(Scores, Protocol):
    """Scores that can tell quickly which components a row may belong to, and judge those alone."""

    def rough(self, rows: Any) -> Array:
        """(n, K) evidence up to a constant of each row, in single precision: to choose by. Its
        transpose is C-contiguous.
        """

    def evidence_at(self, rows: Any, index: Array) -> Array:
        """(n, M) evidence of the components index (n, M) as `evidence` has it; -inf where the index
        is -1.
        """


@runtime_checkable
class TableLike(Scores, Protocol):
    """Scores of one symbol a row, which are the rows of a table: documents need no table of their
    own.
    """

    @property
    def linear(self) -> tuple[Array, Array]:
        """exp(log_table - top) (V, width), zero beyond K, width a multiple of eight; and top (V,),
        the largest of each symbol.
        """


@runtime_checkable
class Family(Protocol):
    """A likelihood with its conjugate prior.

    Three laws test any family. The derivative of log_marginal along a row's statistic is that row's
    mean_log evidence; its difference is the log_mean evidence; the derivative of log_mode is the
    mode evidence. (For a row whose missing part is completed: the evidence is the log of the
    integral over it of exp(evidence), the statistic is what its factor expects.)
    """

    @property
    def sparse(self) -> bool:
        """Whether rows may be a CSR matrix."""

    @property
    def missing(self) -> str:
        """What NaN means: "refused", "rows" (a row counts as a whole or not at all), "exact" (an
        entry that does not count), "completed" (one with a factor), or "mixed" (by column).
        """

    @property
    def lags(self) -> int:
        """How many of the rows before it a row must carry as context: models of sequences make such
        rows from theirs.
        """

    @property
    def max_categories(self) -> int:
        """How many categories (strings, booleans) a column of a data frame may have."""

    @property
    def missing_category(self) -> float:
        """What stands for a missing category among those numbered 0, 1, 2, ..."""

    @property
    def measure(self) -> str:
        """What log evidence is the logarithm of: "densities", "probabilities", ..."""

    @property
    def n_columns(self) -> int:
        """Columns of a row, once resolved."""

    def locate(self, names: Sequence[str] | None, n_columns: int) -> Self:
        """The same family with columns that are given by name found among `names`; None: the data
        have no names.
        """

    def readers(self, n_columns: int) -> Sequence[Any]:
        """The family that reads each column; itself unless it is made of several."""

    def resolve(self, scale: Scale) -> Self:
        """The same family with every prior that was left open set from the data's scale."""

    def fields(self, axis: str) -> dict[str, Field]:
        """What is counted."""

    def zeros(self, n_components: int) -> dict[str, Array]:
        """Counts of nothing."""

    def prepare(self, rows: Any) -> Any:
        """Rows of the user in the form that Scores read (features, symbols); made once a block."""

    def coarse(self) -> Family:
        """A family of fewer parameters that tells rows apart in the same units, for starts; itself
        where there is none.
        """

    def prepare_seeding(self, rows: Any) -> Any:
        """The part of `prepare` that `divergence` reads: a start holds it for all rows that it
        looks at.
        """

    def check_rows(self, rows: Any, first: int = 0) -> None:
        """Raise ValueError for rows that the family cannot read; `first` is the number of the first
        row.
        """

    def has_values(self, rows: Any) -> Array:
        """(n,) whether a row has any entry that is not missing."""

    def width(self) -> int:
        """Numbers that a prepared row takes: what bounds the size of a block."""

    def log_marginal(self, counts: Counts) -> Array:
        """(K,) log-partition of the posterior minus that of the prior, constants of the data
        included.
        """

    def log_mode(self, counts: Counts) -> Array:
        """(K,) largest log joint density over the natural parameters, up to a constant of the
        prior.
        """

    def mean_log(self, counts: Counts) -> Scores:
        """Expected log likelihood: variational Bayes."""

    def log_mean(self, counts: Counts) -> Scores:
        """Posterior predictive: collapsed inference and held-out scores."""

    def mode(self, counts: Counts) -> Scores:
        """Log likelihood at the mode in natural coordinates: EM."""

    def smoothed_mean(self, counts: Counts) -> Mapping[str, Array]:
        """Mean parameters (S + tau) / (N + nu), strictly inside the mean space, slot by slot."""

    def bregman(self, first: Mapping[str, Array], second: Mapping[str, Array]) -> Array:
        """(J, K) divergence of mean parameters: KL from each of `first` to each of `second`."""

    def divergence(self, rows: Any, index: int) -> Array:
        """(n,) divergence of every prepared row's smoothed mean from that of row `index`: what
        seeding needs.
        """

    def divergences(self, rows: Any, indices: Array) -> Array:
        """(m, n) `divergence` from each row of `indices` (m,): what seeding from all rows of a
        large table needs.
        """

    def sample(self, counts: Counts, labels: Array, rng: np.random.Generator) -> Array:
        """One row for each label, drawn from the posterior predictive."""

    def impute(self, counts: Counts, rows: Any, shares: Array) -> Any:
        """Rows (n, D) of the user with missing entries as expected, averaged over components by
        shares (n, K).
        """

    def expected_rows(self, counts: Counts, shares: Array) -> Array:
        """(n, D) what to expect of rows of which only the shares (n, K) are known."""

    def describe(self, counts: Counts) -> dict[str, Array]:
        """Posterior summaries in the user's units, component axis first."""

    def refine(self, counts: Counts) -> Edit | None:
        """An edit that keeps the statistics accurate (a new reference point), or None when they
        are.
        """


@runtime_checkable
class LearningFamily(Protocol):
    """A family whose prior can be learned from the counts (empirical Bayes)."""

    def learn(self, counts: Counts) -> Self:
        """The family with hyperparameters that raise sum(log_marginal(counts)); itself where none
        were found.
        """

    def hyperparameters(self) -> Mapping[str, Array]:
        """What `learn` changes, by name: for checkpoints."""

    def with_hyperparameters(self, values: Mapping[str, Array]) -> Self:
        """The family with those of another."""


@runtime_checkable
class DrawingFamily(Protocol):
    """A family whose parameters can be drawn from their posterior: Gibbs sampling.

    Two laws: over many draws, the average of the evidence is that of mean_log; the log of the
    average of its exponential, for one row at a time, is that of log_mean.
    """

    def draw(self, counts: Counts, rng: np.random.Generator) -> Scores:
        """Log likelihood at parameters drawn from the posterior given whole rows; `collect` counts
        rows as they are.
        """


# ---------------------------------------------------------------------------------------------- pri


@runtime_checkable
class Prior(Protocol):
    """How components are shared out: finite, sticks, rows, rows under a root, documents under a
    root.
    """

    def fields(self, axis: str) -> dict[str, Field]: ...

    def zeros(self, n_components: int) -> dict[str, Array]: ...

    def start(self, n_components: int, axis: str) -> Fields:
        """Parameters that are not a function of the counts (a root's mean shares), in a form in
        which merge is addition.
        """

    def potentials(self, counts: Counts, params: Fields, rule: Rule) -> Mapping[str, Any]:
        """Log potentials by name; a name shared with a count field is paired with it in
        the bound.
        """

    def update(self, total: Summary, params: Fields) -> Fields:
        """New parameters; never lowers `bound(total, .)`."""

    def bound(self, total: Summary, params: Fields) -> float:
        """The prior's part of the bound, tables at their optimum given params."""

    def log_mode(self, total: Summary, params: Fields) -> float:
        """The prior's part of EM's objective."""

    def sizes(self, counts: Counts) -> Array:
        """(K,) expected rows of each component."""

    def mean(self, counts: Counts, params: Fields) -> Array:
        """(K,) expected share of each component; less than one in all where some mass is unused."""

    def predictive(self, counts: Counts, params: Fields) -> Mapping[str, Any]:
        """Log potentials at posterior means, unused mass renormalized away: for held-out scores."""

    def order(self, total: Summary) -> Array | None:
        """The order of components that the bound likes best, or None when it does not care."""


@runtime_checkable
class WindowPrior(Protocol):
    """A prior of chains that knows where a window of a long sequence begins."""

    def window_tables(self, counts: Counts, params: Fields) -> Mapping[str, Any]:
        """Potentials besides those of whole sequences: window_start (K,), logs."""


@runtime_checkable
class DrawingPrior(Protocol):
    """A prior whose parameters can be drawn; its tables have `draw` beside `mean_log`, `log_mean`
    and `mode`.
    """

    def for_draws(self) -> Any:
        """The prior that Gibbs uses: this one, or one with parameters that can be drawn."""

    def redraw(self, total: Summary, params: Fields, rng: np.random.Generator) -> Fields:
        """Stored parameters, drawn given the counts of a labelling and the present ones."""


# ---------------------------------------------------------------------------------------------- str


class Local(NamedTuple):
    """What a block's local step found.

    log_z : sum of log normalizers. shares (n, K): row posteriors times repeats, an array or
        SparseShares.
    own_bound : what units add to the bound besides log_z - <potentials, counts> (documents only).
    memo : whatever watches need again.
    """

    log_z: float
    shares: Shares
    own_bound: float = 0.0
    memo: tuple[Any, ...] = ()


class Potentials(Protocol):
    """Log potentials of one step: the prior's tables by name, and the family's Scores."""

    @property
    def scores(self) -> Scores: ...

    @property
    def log_legal(self) -> Array | None: ...

    @property
    def empty(self) -> Summary: ...

    def __getitem__(self, name: str) -> Any: ...


@runtime_checkable
class Structure(Protocol):
    """Units to expected counts, a block of units at a time."""

    def cold_start(self, batch: Batch, n_components: int, axis: str) -> Fields | None:
        """Values per unit to start from, or None when the local optimum is unique."""

    def infer(
        self, potentials: Potentials, block: Batch, warm: Fields | None, out: dict[str, Array]
    ) -> Local:
        """Adds the prior's counts to `out` (the lane's), writes `warm` (the lane's copy); the model
        collects the family's.
        """

    def infer_best(
        self, potentials: Potentials, block: Batch, warm: Fields | None, out: dict[str, Array]
    ) -> Local:
        """As `infer`, with the posterior replaced by its best single labelling."""

    def count(self, labels: Array, block: Batch, out: dict[str, Array]) -> None:
        """Adds to `out` what a labelling (n,) of the rows determines of the prior's counts; -1
        counts for nobody.

        Labels of words do not determine a tree, nor a document's own shares: such counts stay as
        they are.
        """

    def decode(self, potentials: Potentials, block: Batch) -> Array:
        """(n,) best component of each row."""

    def best(self, potentials: Potentials, block: Batch) -> Array:
        """(n,) the best single labelling of each unit: what `infer_best` counts."""

    def log_evidence(self, potentials: Potentials, block: Batch) -> Array:
        """(units,) log normalizer of each unit: under predictive potentials, its log predictive
        density.
        """

    def sample(self, potentials: Potentials, block: Batch, rng: np.random.Generator) -> Array:
        """(n,) components drawn from the posterior."""


@runtime_checkable
class DrawingStructure(Protocol):
    """A structure whose labels can be drawn, counts and all."""

    def infer_drawn(
        self, potentials: Potentials, block: Batch, uniforms: Array, out: dict[str, Array]
    ) -> Local:
        """As `infer`, with the posterior replaced by a labelling drawn from it; uniforms (n,) in
        [0, 1), one a row.
        """


@runtime_checkable
class Mergeable(Protocol):
    """A structure that can tell during a lap what joining two components would do."""

    def merge_terms(
        self,
        potentials: Potentials,
        block: Batch,
        local: Local,
        pairs: Array,
        out: dict[str, Array],
    ) -> None:
        """Adds to `out` what merging each pair (M, 2) of components would do: gain (M,) of the
        local bound, cross (M, M).
        """


@runtime_checkable
class Movable(Mergeable, Protocol):
    """A structure that can also deal the rows of some components out anew during a lap: births and
    deletes are tracked.
    """

    def redistribute(
        self,
        model: Any,
        potentials: Potentials,
        proposal: Any,
        raw: Batch,
        local: Local,
        side: Summary,
    ) -> float:
        """Deals the mass of `proposal.taken` out anew; adds the difference of counts to `side`,
        returns that of the local bound.
        """


@runtime_checkable
class Limiting(Protocol):
    """A structure whose rows can be held to a few components each."""

    def limited(self, max_active: int | None, candidates: int | None) -> Any:
        """The same structure whose rows use the max_active best components (None: all), chosen
        among so many candidates.
        """

    def n_missed(
        self, model: Any, potentials: Potentials, raw: Batch, local: Local, n_rows: int
    ) -> tuple[int, float]:
        """Of at most n_rows rows of a block: how many were judged by all components, and for how
        many of them the components that they may use are not the right ones, in expectation; 0 and
        0 where a limit misses nothing.
        """


@runtime_checkable
class Piecewise(Protocol):
    """A structure whose units may be too long to be held: they are inferred a piece at a time."""

    @property
    def block_numbers(self) -> int:
        """Numbers that the features and the evidence of a block may take."""

    def infer_pieces(
        self,
        model: Any,
        potentials: Potentials,
        raw: Batch,
        warm: Fields | None,
        n_rows: int,
        out: dict[str, Array],
    ) -> Iterable[tuple[Batch, Batch, Local]]:
        """One long unit: its pieces as given and as prepared, in any order, and their posteriors;
        counts are added to `out`.
        """

    def infer_best_pieces(
        self, model: Any, potentials: Potentials, raw: Batch, n_rows: int, out: dict[str, Array]
    ) -> Iterable[tuple[Batch, Batch, Local]]:
        """As `infer_pieces`, with the posterior replaced by the best single labelling."""

    def infer_drawn_pieces(
        self,
        model: Any,
        potentials: Potentials,
        raw: Batch,
        uniforms: Array,
        n_rows: int,
        out: dict[str, Array],
    ) -> Iterable[tuple[Batch, Batch, Local]]:
        """As `infer_pieces`, with the posterior replaced by a labelling drawn from it; uniforms
        (n,) in [0, 1).
        """

    def infer(
        self, potentials: Potentials, block: Batch, warm: Fields | None, out: dict[str, Array]
    ) -> Local: ...


@runtime_checkable
class Ordered(Protocol):
    """A structure whose rows have an order: each can be judged by those before it."""

    def filter(self, potentials: Potentials, block: Batch) -> tuple[Array, Array]:
        """What the rows up to each row say of its component (n, K), and log p(row | rows before it)
        (n,).
        """

    def filter_pieces(
        self, model: Any, potentials: Potentials, raw: Batch, n_rows: int
    ) -> Iterable[tuple[Batch, tuple[Array, Array]]]:
        """One long unit as the user gave it: its pieces, first to last, and what `filter` says of
        each.
        """

    def viterbi(self, potentials: Potentials, block: Batch) -> tuple[Array, Array]:
        """The best labelling (n,) of each unit, and its log weight (units,)."""

    def viterbi_pieces(
        self, model: Any, potentials: Potentials, raw: Batch, n_rows: int
    ) -> tuple[Array, Array]:
        """As `viterbi`, one long unit as the user gave it, n_rows at a time."""

    def walk(self, potentials: Potentials, offsets: Array, rng: np.random.Generator) -> Array:
        """(n,) components of units that are not seen yet, offsets (units + 1,)."""


@runtime_checkable
class LiveFamily(Protocol):
    """A family that a compiled sweep can use: its counts as a NamedTuple, whose type selects the
    compiled functions.
    """

    def live(self, counts: Counts) -> Any:
        """A copy of the counts, with the prior, that a sweep may change."""

    def settle(self, live: Any) -> dict[str, Array]:
        """Fields back from live counts."""


@runtime_checkable
class PseudoCounts(Protocol):
    """A prior that a compiled sweep can use: all that a predictive potential needs of it is
    pseudo-counts.
    """

    def pseudo(self, params: Fields, n_components: int) -> Any:
        """Prior counts of each table, unused mass apart."""


@runtime_checkable
class Sweeping(Protocol):
    """A structure with a compiled collapsed sweep: one kernel per structure, all families join
    through a NamedTuple.
    """

    def own_counts(self, batch: Batch, n_components: int, axis: str) -> Fields:
        """Zero counts of every unit, with axes "row" and "unit": edited by moves like everything
        else.
        """

    def sweep(
        self,
        live: Any,
        tables: dict[str, Array],
        pseudo: Any,
        lane: Batch,
        legal: Array | None,
        own: Fields,
        out_live: Any,
        out: dict[str, Array],
    ) -> float:
        """Every unit of a lane: counts out, potentials, infer, counts in. Returns the sum of
        leave-one-out log predictives.
        """


# ---------------------------------------------------------------------------------------------- mod


class Model(Protocol):
    """Structure + family + prior."""

    axis: str

    def zeros(self, n_components: int) -> Summary: ...

    def start_params(self, n_components: int, legal: Array | None = None) -> Fields: ...

    def potentials(self, counts: Summary, params: Fields, rule: Rule) -> Potentials: ...

    def best_only(self) -> Model:
        """The same model whose local step takes the best labelling instead of the expectation."""

    def for_draws(self) -> Model:
        """The same model with a prior whose parameters can be drawn."""

    def drawing(self, rng: np.random.Generator) -> Model:
        """The same model whose local step draws a labelling."""

    def redraw(self, total: Summary, params: Fields, rng: np.random.Generator) -> Fields:
        """As `global_step`, with parameters that are drawn."""

    def n_used(self, total: Summary) -> int:
        """Components that hold at least one row."""

    def local_step(
        self,
        potentials: Potentials,
        batch: Batch,
        warm: Fields | None,
        watches: Sequence[Watch],
        pool: Pool,
    ) -> tuple[Summary, Fields | None]: ...

    def global_step(self, total: Summary, params: Fields) -> Fields: ...

    def bound(self, total: Summary, params: Fields) -> float: ...

    def log_mode(self, total: Summary, params: Fields) -> float: ...

    def upkeep(self, total: Summary) -> list[Edit]:
        """Edits that keep statistics accurate; the bound does not change."""

    def order(self, total: Summary) -> Edit | None:
        """The edit that puts components in the order the bound likes best, or None."""

    def learn(self, total: Summary) -> Model:
        """The model with hyperparameters that raise the bound of these counts; itself when it
        learns none.
        """

    def learned(self) -> Fields:
        """Hyperparameters that `learn` changes, by name; none where it does nothing."""

    def with_learned(self, values: Fields) -> Model:
        """The model with hyperparameters that were learned before."""


class Rule(Protocol):
    """Counts to potentials, and with it which local step a visit takes and whether there is a
    bound.
    """

    @property
    def objective(self) -> str:
        """What `bound` gives ("bound", "log joint"), for readers; empty for rules without one."""

    def at(self, seed: int, step: int) -> Rule:
        """The rule for one visit, the step-th of a fit: with random numbers of its own, if it uses
        any.
        """

    def pick(self, table: Any) -> Callable[..., Any]:
        """The method of a family or table that makes this rule's potentials."""

    def global_step(self, model: Any, total: Summary, params: Fields) -> Fields:
        """Parameters that are not functions of the counts, refreshed."""

    def n_used(self, model: Any, total: Summary) -> int | None:
        """Components that hold rows, where the rule gives each row to one; None elsewhere."""

    def local_model(self, model: Any) -> Any:
        """The model whose local step the rule takes: the given one, or the one that decodes."""

    def visit(
        self,
        model: Any,
        counts: Summary,
        params: Fields,
        batch: Batch,
        warm: Fields | None,
        watches: Sequence[Watch],
        pool: Pool,
    ) -> tuple[Summary, Fields | None]: ...

    def bound(self, model: Any, total: Summary, params: Fields) -> float | None: ...

    def learn(self, model: Any, total: Summary) -> Any:
        """The model for the next lap, with learned hyperparameters where the rule's bound is one
        for them too.
        """


class Watch(Protocol):
    """What a move wants collected during a lap: a side Summary that adds, subtracts and travels
    with the batch's.
    """

    @property
    def name(self) -> str: ...

    def at(self, model: Any, counts: Summary, batch: Batch, rule: Rule) -> Watch:
        """The watch for one visit, under the potentials of `counts`: what it needs of its own is
        made once here.
        """

    def empty_side(self, model: Any, potentials: Potentials) -> Summary: ...

    def observe(
        self,
        model: Any,
        potentials: Potentials,
        block: Batch,
        raw: Batch,
        local: Local,
        side: Summary,
    ) -> Summary:
        """Adds what a block says. `block` has its rows prepared, `raw` as the user gave them."""
