"""What tests of moves share: a memoized state beside the dense responsibilities that it sums up,
edited by both.

The state goes through the library (watches, sides, edits, lazily replayed memory); the
responsibilities go through `oracles.moves`. Whatever happens, `assert_exact` must hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from fitting import MODELS, random_start
from oracles import conjugate
from oracles import moves as brute
from registers import FAMILIES, FamilyCase
from scipy import sparse

from stickbreak import families
from stickbreak.data import Batch, Table, measure
from stickbreak.inference import MeanLog, Memoized, Mover, MoveRecord, State, step
from stickbreak.inference import mover as books
from stickbreak.models import Model
from stickbreak.moves.merge import MergeProposal, MergeWatch
from stickbreak.moves.redistribute import Redistribution, RedistributionProposal
from stickbreak.stats import Summary

Array = np.ndarray
RULE, ACCUMULATOR = MeanLog(), Memoized()
GAMMA = 1.7


# ---- cases ---------------------------------------------------------------------------------------
def _wide(n: int = 24) -> FamilyCase:
    """Counts over many more columns than a row has: each batch brings its own vocabulary."""
    rng = np.random.default_rng(5)
    rows = np.zeros((n, 60), dtype=int)
    for i in range(n):
        at = rng.choice(20, 4, replace=False) + 20 * (i // 8 % 3)
        rows[i, at] = rng.integers(1, 5, 4)
    family = families.Multinomial(concentration=0.4).resolve(measure(Table(sparse.csr_array(rows))))
    return FamilyCase(family, sparse.csr_array(rows), conjugate.Multinomial(60, 0.4))


def _far(n: int = 24) -> FamilyCase:
    """Groups so far apart for their width that their moments need reference points of their own."""
    rng = np.random.default_rng(6)
    rows = 1e3 * rng.normal(size=(4, 2))[np.arange(n) % 4] + rng.normal(size=(n, 2))
    mean, B = rows.mean(0), np.array([[2.0, 0.3], [0.3, 1.5]])
    family = families.Gaussian(mean=mean, mean_strength=0.7, dof=5.5, covariance=B / 2.5)
    return FamilyCase(
        family.resolve(measure(Table(rows))), rows, conjugate.Gaussian(mean, 0.7, 5.5, B)
    )


CASES = {**FAMILIES, "multinomial_wide": _wide(), "gaussian_far": _far()}
SEVERAL = (
    "gaussian",
    "zero_mean",
    "categorical",
    "multinomial_wide",
    "bernoulli",
    "poisson",
    "product",
    "gaussian_far",
)


# ---- a state and its responsibilities ------------------------------------------------------------
@dataclass
class Twin:
    """A memoized state, and the responsibilities of all rows as they were when each batch was last
    visited.
    """

    case: FamilyCase
    allocation: str
    model: Model
    table: Table
    batches: list[Batch]
    state: State
    shares: Array
    ids: tuple[int, ...]
    next_id: int
    log: list[MoveRecord] = field(default_factory=list)

    @property
    def X(self) -> Array:
        """Rows for oracles."""
        return self.case.dense

    @property
    def max_active(self) -> int | None:
        """Components that a row may use."""
        return self.model.structure.max_active

    @property
    def w(self) -> Array:
        """Repeats."""
        return self.table.whole().repeats_or_ones()

    @property
    def total(self) -> Summary:
        """The whole data's counts."""
        return self.state.total.view()

    @property
    def bound(self) -> float:
        """As the library has it."""
        return float(self.model.bound(self.total, self.state.params))

    def brute_bound(self, shares: Array | None = None) -> float:
        """As the definition has it."""
        r = self.shares if shares is None else shares
        return brute.bound(self.case.oracle, self.X, r, self.w, GAMMA, self.allocation)

    def rows_of(self, batch: Batch) -> slice:
        """Where a batch's rows are in the table: batches are contiguous, in the order of
        their ids.
        """
        lo = sum(b.n_rows for b in self.batches[: batch.id])
        return slice(lo, lo + batch.n_rows)

    def memory(self, batch: Batch) -> Summary:
        """What is remembered of a batch, edits replayed."""
        visit = self.state.recall(batch)
        assert visit is not None
        return visit.summary

    def count(self, batch: Batch, shares: Array, like: Summary) -> Summary:
        """A batch counted afresh under responsibilities, about the reference points of `like`."""
        empty = like.empty() if like.index is not None else like.restrict(batch.symbols).empty()
        weighted = np.asfortranarray(shares * batch.repeats_or_ones()[:, None])
        out = dict(empty.arrays)
        self.model.family.mean_log(empty).collect(
            self.model.family.prepare(batch.rows), weighted, out
        )
        out["share"] += weighted.sum(0)
        return replace(empty, arrays=out)


def make_twin(
    case: FamilyCase | str,
    allocation: str = "dp",
    *,
    n_components: int = 4,
    n_batches: int = 3,
    n_laps: int = 2,
    repeats: Array | None = None,
    labels: Array | None = None,
    max_active: int | None = None,
    seed: int = 0,
) -> Twin:
    """From random responsibilities, after some laps without moves.

    labels (n,): the component that a row must use, or -1. max_active: components that a row may
    use.
    """
    case = CASES[case] if isinstance(case, str) else case
    model = MODELS[allocation](case.family, GAMMA).sparse(max_active)
    table = Table(case.rows, repeats, None if labels is None else labels + 1)
    batches = table.batches(n_batches)
    legal = (
        None
        if labels is None
        else np.concatenate([np.ones((1, n_components)), np.eye(n_components)[: labels.max() + 1]])
    )
    start = random_start(model, table, n_components, seed, legal)
    ids = tuple(range(n_components))
    state = ACCUMULATOR.begin(start, ids, len(batches))
    for edit in model.upkeep(state.counts):
        state.edit(edit)
    shares = np.full((table.n_rows, n_components), np.nan)
    twin = Twin(case, allocation, model, table, batches, state, shares, ids, n_components)
    for _ in range(n_laps):
        lap(twin)
        ACCUMULATOR.end_lap(state)
    return twin


def lap(twin: Twin, watches: Sequence[Any] = (), order: Iterable[int] | None = None) -> None:
    """Visit every batch; the responsibilities of a visit are those of the potentials in force."""
    state, model = twin.state, twin.model
    if twin.shares.shape[1] != len(state.ids):
        raise AssertionError("responsibilities and state have parted")
    for at in range(len(twin.batches)) if order is None else order:
        batch = twin.batches[at]
        potentials = model.potentials(state.counts.restrict(batch.symbols), state.params, RULE)
        twin.shares[twin.rows_of(batch)] = model.shares(potentials, replace(batch, repeats=None))
        step(model, RULE, ACCUMULATOR, state, batch, watches)


# ---- proposals of our own ------------------------------------------------------------------------
def pair_proposals(pairs: Sequence[tuple[int, int]]) -> list[MergeProposal]:
    """Merges of these positions."""
    watch = MergeWatch(np.array(pairs, dtype=np.int64).reshape(-1, 2))
    return [MergeProposal(pair, at, watch, 0.0) for at, pair in enumerate(pairs)]


def _proposed(
    twin: Twin, n_proposed: int, rng: np.random.Generator
) -> tuple[Summary, Array, Array]:
    """Counts of some distributions, their log shares, and the (n, J) weights that made them."""
    q = rng.dirichlet(np.full(n_proposed, 0.3), twin.table.n_rows)
    model, batch = twin.model, twin.table.whole()
    counts = twin.count(batch, q, model.zeros(n_proposed))
    for edit in model.upkeep(counts):  # reference points of their own, as a fit would give them
        counts = twin.count(batch, q, edit(model.zeros(n_proposed)))
    return counts, np.log(rng.dirichlet(np.ones(n_proposed))), q * twin.w[:, None]


def birth_proposal(
    twin: Twin, taken: Sequence[int], n_newborn: int, rng: np.random.Generator
) -> tuple[Any, Array]:
    """A birth from random newborns, and p (n, J): how the definition deals mass out among them."""
    counts, log_share, weights = _proposed(twin, n_newborn, rng)
    name = f"birth {twin.state.ids[taken[0]]}"
    watch = Redistribution(name, tuple(taken), counts, log_share, len(taken), len(taken))
    return RedistributionProposal("birth", tuple(taken), watch, 0.0), _deal(
        twin, weights, log_share
    )


def delete_proposal(
    twin: Twin, target: int, absorbers: Sequence[int], rng: np.random.Generator
) -> tuple[Any, Array]:
    """A delete whose absorbers have become something else, and p (n, J)."""
    counts, log_share, weights = _proposed(twin, len(absorbers), rng)
    slots = (target, *absorbers)
    watch = Redistribution(f"delete {twin.state.ids[target]}", slots, counts, log_share, 1, 2)
    return RedistributionProposal("delete", slots, watch, 0.0), _deal(twin, weights, log_share)


def _deal(twin: Twin, weights: Array, log_share: Array) -> Array:
    return brute.restricted(twin.case.oracle, twin.X, twin.X, weights, log_share)


def _limited(twin: Twin, slots: Sequence[int], p: Array) -> Array:
    """p (n, J) held to what rows may use: as many components as they give, and those they have not
    used if they give their best.
    """
    if twin.max_active is None:
        return p
    given, used = (
        np.count_nonzero(twin.shares[:, list(slots)], axis=1),
        np.count_nonzero(twin.shares, axis=1),
    )
    return brute.keep_best(
        p, given + np.isin(twin.shares.argmax(1), slots) * (twin.max_active - used)
    )


def moved(
    twin: Twin,
    shares: Array,
    ids: tuple[int, ...],
    proposal: Any,
    planned: tuple[int, ...],
    p: Array | None,
) -> Array:
    """Responsibilities after a proposal, by its definition."""
    at = [ids.index(planned[k]) for k in proposal.slots]
    if proposal.kind == "merge":
        return brute.merge(shares, min(at), max(at))
    if proposal.kind == "birth":
        return brute.birth(shares, twin.w, at, p)
    return brute.delete(shares, twin.w, at[0], at[1:], p)


# ---- deciding ------------------------------------------------------------------------------------
@contextmanager
def accepting(everything: bool) -> Any:
    """All proposals are accepted, or none, whatever they gain."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(books, "is_worth", lambda gain, bound, is_idle: everything)
        yield


def watched_lap(twin: Twin, proposed: Sequence[Any], order: Iterable[int] | None = None) -> Mover:
    """A lap that watches proposals, up to the moment of decision."""
    mover = Mover(())
    mover.proposals, mover.planned_ids = list(proposed), twin.state.ids
    lap(twin, mover.watches, order)
    ACCUMULATOR.end_lap(twin.state)
    return mover


def gains(twin: Twin, proposed: Sequence[Any]) -> list[float]:
    """Exact gains of proposals that do not exclude each other by acceptance: all are rejected."""
    mover = watched_lap(twin, proposed)
    with accepting(False):
        records = mover.decide(twin.model, twin.state)
    assert len(records) == len(proposed)
    assert not any(record.is_accepted for record in records)
    by_slots = {(r.kind, r.parents): r.gain for r in records}
    return [by_slots[p.kind, tuple(mover.planned_ids[k] for k in p.slots)] for p in proposed]


def apply_all(twin: Twin, mover: Mover, deals: dict[str, Array]) -> list[MoveRecord]:
    """Decide, accepting everything, and follow on the responsibilities. deals: p of each birth and
    delete, by watch name.
    """
    by_key = {(p.kind, tuple(mover.planned_ids[k] for k in p.slots)): p for p in mover.proposals}
    deals = {
        p.watch.name: _limited(twin, p.slots, deals[p.watch.name])
        for p in mover.proposals
        if p.watch.name in deals
    }
    before = twin.bound
    with accepting(True):
        records = mover.decide(twin.model, twin.state)
    for record in records:
        assert record.is_accepted
        proposal = by_key[record.kind, record.parents]
        last = twin.brute_bound()
        twin.shares = moved(
            twin, twin.shares, twin.ids, proposal, mover.planned_ids, deals.get(proposal.watch.name)
        )
        _rename(twin, record, len(deals[proposal.watch.name][0]) if record.kind == "birth" else 0)
        after = twin.brute_bound()
        assert record.gain == pytest.approx(after - last, abs=1e-8 * max(1.0, abs(before)))
    twin.log += records
    return records


def _rename(twin: Twin, record: MoveRecord, n_newborn: int) -> None:
    """Ids by their rules: the elder of a merge survives where the earlier stood, newborns take
    fresh ones at the end.
    """
    ids = list(twin.ids)
    if record.kind == "merge":
        a, b = sorted(ids.index(i) for i in record.parents)
        ids[a] = min(record.parents)
        del ids[b]
        expected: tuple[int, ...] = (min(record.parents),)
    elif record.kind == "birth":
        ids = [i for i in ids if i not in record.parents]
        expected = tuple(range(twin.next_id, twin.next_id + n_newborn))
        ids += expected
        twin.next_id += n_newborn
    else:
        ids.remove(record.parents[0])
        expected = tuple(i for i in ids if i in record.parents)
    assert record.children == expected
    twin.ids = tuple(ids)


def assert_exact(twin: Twin, tolerance: float = 1e-8) -> None:
    """Ids, totals, lazily replayed memory and bound are those of the responsibilities; no side is
    left.
    """
    state = twin.state
    assert twin.max_active is None or np.count_nonzero(twin.shares, axis=1).max() <= twin.max_active
    assert state.ids == twin.ids
    assert len(set(state.ids)) == len(state.ids) == twin.total.size(twin.model.axis)
    assert state.next_id == twin.next_id
    assert dict(twin.total.sides) == {}
    found = twin.total.empty()
    for batch in twin.batches:
        remembered = twin.memory(batch)
        r = twin.shares[twin.rows_of(batch)]
        assert dict(remembered.sides) == {}
        fresh = twin.count(batch, r, remembered)
        _assert_close(remembered, fresh, tolerance)
        found = found + replace(
            fresh, local_bound=remembered.local_bound, n_units=remembered.n_units
        )
    _assert_close(twin.total, found, tolerance)
    expected = twin.brute_bound()
    assert twin.bound == pytest.approx(expected, abs=tolerance * max(1.0, abs(expected)))
    assert twin.total.local_bound == pytest.approx(
        found.local_bound, abs=tolerance * max(1.0, abs(expected))
    )
    # base measures, which no move changes
    local = twin.total.local_bound - brute.entropy(twin.shares, twin.w)
    assert local == pytest.approx(_base(twin), abs=tolerance * max(1.0, abs(expected)))


def _base(twin: Twin) -> float:
    """What the local part holds besides the entropy, from a state with a single component."""
    whole = twin.table.whole()
    one = twin.count(whole, np.ones((whole.n_rows, 1)), twin.model.zeros(1))
    return brute.data_term(twin.case.oracle, twin.X, np.ones((whole.n_rows, 1)), twin.w) - float(
        twin.model.family.log_marginal(one).sum()
    )


def _assert_close(found: Summary, expected: Summary, tolerance: float) -> None:
    for name, array in expected.arrays.items():
        scale = max(1.0, float(np.abs(array).max(initial=0.0)))
        np.testing.assert_allclose(found[name], array, rtol=0, atol=tolerance * scale, err_msg=name)


def upkeep(twin: Twin, reorder: Callable[[int], Sequence[int]] | None = None) -> None:
    """What the end of a lap does besides: reference points, and the order that the prior likes
    best.
    """
    for edit in twin.model.upkeep(twin.total):
        twin.state.edit(edit)
    order = twin.model.order(twin.total)
    if order is not None:
        twin.state.edit(order)
        at = [twin.ids.index(i) for i in twin.state.ids]
        twin.shares, twin.ids = twin.shares[:, at], twin.state.ids
