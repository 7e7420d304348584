"""Chains that also count the steps they do not take, for priors with expected table counts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from stickbreak.data import Batch
from stickbreak.kernels.chain.absent import (
    EXACT,
    INDEPENDENT,
    LEAST,
    MEAN_FIELD,
    SAMPLED,
    AbsentOwn,
    absent_edges,
    absent_sequences,
    independent_states,
    make_absent,
)
from stickbreak.kernels.chain.single import linear_tables
from stickbreak.kernels.vectors import EIGHT
from stickbreak.protocols import Array, Local, Out, Potentials, SweptLane
from stickbreak.stats import Field, Fields

from ..base import row_evidence
from ..sequences import unit_weights
from .collapsed import KEPT, require_possible, used_units
from .structure import Chain
from .windows import closed_windows

__all__ = ["TableChain"]

WAYS = {
    "independent": INDEPENDENT,
    "mean-field": MEAN_FIELD,
    "exact": EXACT,
    "sampled": SAMPLED,
}
N_UNIFORMS = 4093  # of every drawn path, used in turn; a prime, so that sequences do not share them


@lru_cache(maxsize=4)
def _uniforms(n_draws: int) -> Array:
    """(n_draws, N_UNIFORMS) random numbers, the same in every lap: estimates then settle."""
    found = np.random.default_rng(0).random((n_draws, N_UNIFORMS))
    found.flags.writeable = False
    return found


@dataclass(frozen=True)
class TableChain(Chain):
    """A chain with counts log_absent, log_absent_row and log_absent_start, see `TableRows`.

    Own counts: `absent` (units, K, K) and `absent_rows` (units, K) besides those of a chain. Blocks
    of a sequence lack a step if each of them does, and the steps between them do, which count as
    independent.

    existence : how probabilities that a path lacks a step are found, see `TableRoot`
    n_draws : paths drawn of every sequence, if they are "sampled"
    """

    granularities = ("sequence", "subsequence")  # type: ignore[assignment]
    tracks = frozenset()
    least_held = None  # log probabilities that steps are absent are no sums over components
    cuts_units = False  # what a piece says of missing steps does not add up
    lingers = True

    existence: str = "independent"
    n_draws: int = 20

    @property
    def _uniforms(self) -> Array:
        return _uniforms(self.n_draws if self.existence == "sampled" else 0)

    def own_counts(
        self, batch: Batch, n_components: int, axis: str, granularity: str = ""
    ) -> Fields:
        """Those of a chain, and that no step has been missed yet."""
        K, own = n_components, super().own_counts(batch, n_components, axis, granularity)
        layout = {
            "absent": Field(("unit", axis, axis), nonnegative=False),
            "absent_rows": Field(("unit", axis), nonnegative=False),
        }
        shapes = {"absent": (batch.n_spans, K, K), "absent_rows": (batch.n_spans, K)}
        arrays = {name: np.zeros(shape, KEPT) for name, shape in shapes.items()}
        return Fields({**own.layout, **layout}, {**own.arrays, **arrays})

    def random_own(
        self,
        batch: Batch,
        n_components: int,
        axis: str,
        rng: np.random.Generator,
        legal: Array | None = None,
    ) -> Fields:
        """Random chains. The steps that they miss are those of independent states."""
        own = super().random_own(batch, n_components, axis, rng, legal)
        _take_as_independent(batch, own)
        return own

    def own_of(self, batch: Batch, own: Fields, axis: str, granularity: str) -> Fields:
        """Posteriors of rows, and the steps that they miss, as of independent states."""
        found = super().own_of(batch, own, axis, granularity)
        _take_as_independent(batch, found)
        return found

    def keep_own(self, shares: Array, found: Out, own: Fields) -> None:
        """Keep the posterior of one sequence."""
        super().keep_own(shares, found, own)
        own["absent"][0], own["absent_rows"][0] = found["log_absent"], found["log_absent_row"]

    def count_own(self, block: Batch, own: Fields, out: Out) -> Array:
        """Starts, steps and missing steps of sequences, as they are kept."""
        _add_absent(block, own, out)
        return super().count_own(block, own, out)

    def sweep(self, lane: SweptLane) -> tuple[float, float]:
        """Every sequence once, given all others; then the steps that they do not take."""
        found, in_blocks = super().sweep(lane), lane.batch.windows is not None
        if in_blocks and lane.how.moves and not lane.how.is_part:  # swept as whole sequences
            _take_as_independent(lane.batch, lane.own)
        _add_absent(lane.batch, lane.own, lane.out)
        return found

    def absent_of(self, own: Fields, lane: Batch) -> AbsentOwn:
        """Where a sweep keeps the steps that sequences do not take."""
        way, K = WAYS[self.existence], own["rows"].shape[1]
        work = make_absent(K, -(-K // EIGHT) * EIGHT, way, self.n_draws)
        return AbsentOwn(
            way, self._uniforms, int(lane.row_at), work, own["absent"], own["absent_rows"]
        )

    def infer(self, potentials: Potentials, block: Batch, warm: Fields | None, out: Out) -> Local:
        """Posterior shares of every row, expected starts and steps, and those that are missed."""
        assert block.offsets is not None
        evidence, offsets, windows = row_evidence(potentials, block), block.offsets, block.windows
        log_start, has_start = potentials["start"], np.ones(len(offsets) - 1, dtype=np.bool_)
        if windows is not None:
            closed, offsets = closed_windows(evidence.T, potentials, block, windows)
            evidence, log_start, has_start = closed.T, np.zeros(len(closed)), windows.has_start
        tables = linear_tables(log_start, potentials["transition"])
        bad = absent_sequences(
            np.ascontiguousarray(evidence), tables.start, tables.transition, tables.transposed,
            offsets, has_start, unit_weights(block), WAYS[self.existence], self._uniforms,
            out["log_absent"], out["log_absent_row"], out["log_absent_start"],
        )  # fmt: skip
        if bad >= 0:
            require_possible(np.array([-np.inf]), block.unit_at + bad)
        return super().infer(potentials, block, warm, out)


def _take_as_independent(batch: Batch, own: Fields) -> None:
    """Set the steps that units miss to those of independent states."""
    K = own["rows"].shape[1]
    work = make_absent(K, K, MEAN_FIELD, 0)
    independent_states(own["rows"], batch.offsets, work, own["absent"], own["absent_rows"])


def _add_absent(lane: Batch, own: Fields, out: Out) -> None:
    """Add what units keep; the first state of each sequence says which starts are missing."""
    assert lane.offsets is not None
    out["log_absent"] += own["absent"].sum(0, dtype=float)
    out["log_absent_row"] += own["absent_rows"].sum(0, dtype=float)
    begins = lane.offsets[:-1]
    if lane.windows is not None:
        joins = ~lane.windows.is_first
        absent_edges(
            own["rows"], lane.offsets, joins, used_units(lane), out["log_absent"],
            out["log_absent_row"],
        )  # fmt: skip
        begins = begins[lane.windows.is_first]
    first = 1.0 - own["rows"][begins].astype(float)
    out["log_absent_start"] += np.log(np.clip(first, np.exp(LEAST), 1.0)).sum(0)
