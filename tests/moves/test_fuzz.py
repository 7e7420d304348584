"""Random sequences of random moves on random batches of random data: memory, totals, bound and ids
equal brute force.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from moving import (
    ACCUMULATOR,
    CASES,
    Twin,
    apply_all,
    assert_exact,
    birth_proposal,
    delete_proposal,
    gains,
    lap,
    make_twin,
    pair_proposals,
    upkeep,
    watched_lap,
)

from stickbreak.inference import MoveRecord

QUICK = (
    "gaussian",
    "gaussian_far",
    "zero_mean",
    "categorical",
    "multinomial_wide",
    "bernoulli",
    "poisson",
    "product",
)
MAX_COMPONENTS = 9  # a fit that only grows would test little else


def propose(twin: Twin, kind: str, rng: np.random.Generator) -> tuple[list, dict]:
    """Random proposals of a kind; they may overlap with others of the lap."""
    K = len(twin.state.ids)
    if kind == "birth" and K <= MAX_COMPONENTS:
        taken = rng.permutation(K)[: rng.integers(1, min(K, 3) + 1)].tolist()
        proposal, deal = birth_proposal(twin, taken, int(rng.integers(2, 5)), rng)
        return [proposal], {proposal.watch.name: deal}
    if kind == "delete" and K > 1:
        target, *absorbers = rng.permutation(K)[: rng.integers(2, min(K, 4) + 1)].tolist()
        proposal, deal = delete_proposal(twin, target, absorbers, rng)
        return [proposal], {proposal.watch.name: deal}
    if kind == "merge" and K > 1:
        pairs = {
            tuple(sorted(rng.choice(K, 2, replace=False).tolist()))
            for _ in range(rng.integers(1, 4))
        }
        return pair_proposals(sorted(pairs)), {}
    return [], {}


def round_of_moves(twin: Twin, kinds: list[str], rng: np.random.Generator) -> list[MoveRecord]:
    """A watched lap in a random order of batches, decided in favour of everybody who does not come
    too late.
    """
    proposed, deals = [], {}
    for kind in kinds:
        found, dealt = propose(twin, kind, rng)
        # a watch has one name in a lap
        if not {p.watch.name for p in found} & {p.watch.name for p in proposed}:
            proposed += found
            deals |= dealt
    mover = watched_lap(twin, proposed, order=rng.permutation(len(twin.batches)))
    return apply_all(twin, mover, deals)


def assert_genealogy(
    records: list[MoveRecord], first: tuple[int, ...], last: tuple[int, ...]
) -> None:
    """Following parents and children from the first ids leads to the last; an id is born once, and
    dead ones stay dead.
    """
    alive, born = set(first), set(first)
    for record in records:
        assert alive.issuperset(record.parents)
        assert len(set(record.parents)) == len(record.parents)
        assert len(set(record.children)) == len(record.children)
        fresh = set(record.children) - set(record.parents)
        assert fresh.isdisjoint(born)
        born |= fresh
        alive = (alive - set(record.parents)) | set(record.children)
    assert alive == set(last)


def play(
    name: str,
    allocation: str,
    n_batches: int,
    repeated: bool,
    rounds: list[tuple[list[str], bool]],
    seed: int,
    max_active: int | None = None,
) -> Twin:
    rng = np.random.default_rng(seed)
    n = CASES[name].rows.shape[0]
    repeats = rng.integers(0, 4, n).astype(float) if repeated else None
    n_components = int(rng.integers(1, 8))
    twin = make_twin(
        name,
        allocation,
        n_components=n_components,
        n_batches=n_batches,
        repeats=repeats,
        max_active=max_active,
        seed=seed,
    )
    for kinds, is_reordered in rounds:
        round_of_moves(twin, kinds, rng)
        assert_exact(twin)
        if is_reordered:
            upkeep(twin)
            assert_exact(twin)
    lap(twin)
    ACCUMULATOR.end_lap(twin.state)
    assert_exact(twin)
    assert_genealogy(twin.log, tuple(range(n_components)), twin.ids)
    return twin


KINDS = st.lists(st.sampled_from(["birth", "merge", "delete"]), min_size=1, max_size=4)
SEQUENCES = {
    "allocation": st.sampled_from(["dp", "finite"]),
    "n_batches": st.integers(1, 5),
    "repeated": st.booleans(),
    "rounds": st.lists(st.tuples(KINDS, st.booleans()), min_size=1, max_size=3),
    "seed": st.integers(0, 10_000),
}
fuzz = settings(
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[Phase.explicit, Phase.generate],  # shrinking would take minutes
)


@pytest.mark.few(2)
@pytest.mark.parametrize("name", QUICK)
@settings(fuzz, max_examples=4)
@given(**SEQUENCES)
def test_random_moves_keep_everything_exact(name, allocation, n_batches, repeated, rounds, seed):
    play(name, allocation, n_batches, repeated, rounds, seed)


@pytest.mark.few(2)
@pytest.mark.parametrize("name", QUICK)
@settings(fuzz, max_examples=2)
@given(**SEQUENCES, max_active=st.integers(1, 3))
def test_random_moves_of_rows_with_few_components_keep_everything_exact(
    name, allocation, n_batches, repeated, rounds, seed, max_active
):
    """No move gives a row more components than it may use, so that the next local step cannot lower
    the bound.
    """
    play(name, allocation, n_batches, repeated, rounds, seed, max_active)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
@settings(fuzz, max_examples=100)
@given(**SEQUENCES, max_active=st.sampled_from([None, 1, 2, 3]))
def test_many_random_moves_keep_everything_exact(
    name, allocation, n_batches, repeated, rounds, seed, max_active
):
    play(name, allocation, n_batches, repeated, rounds, seed, max_active)


@pytest.mark.few(2)
@pytest.mark.parametrize("seed", range(4))
def test_gains_of_random_proposals_do_not_depend_on_what_else_is_watched(seed):
    rng = np.random.default_rng(seed)
    together, alone = (make_twin("gaussian", n_components=5, seed=seed) for _ in range(2))
    proposed = [p for kind in ("birth", "delete", "merge") for p in propose(together, kind, rng)[0]]
    found = gains(together, proposed)
    merges = [p for p in proposed if p.kind == "merge"]
    assert gains(alone, merges) == [
        g for p, g in zip(proposed, found, strict=True) if p.kind == "merge"
    ]


def test_the_sequences_do_something():
    """Births, merges and deletes all occur, also in the same lap."""
    rounds = [(["birth", "merge"], True), (["delete"], False), (["delete", "merge"], True)]
    counts = [
        [r.kind for r in play("bernoulli", "dp", 3, False, rounds, seed).log] for seed in range(4)
    ]
    assert all(
        sum(kinds.count(kind) for kinds in counts) >= 2 for kind in ("birth", "merge", "delete")
    )
    assert max(len(kinds) for kinds in counts) > 3
