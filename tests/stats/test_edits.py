"""Edits replayed later on what is remembered give what they gave at once on the total."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from registers import assert_same, birth_side, make_summary, merge_side, with_sides

from stickbreak.stats import (
    AddSide,
    Compose,
    Edit,
    EditLog,
    Field,
    Fields,
    Forget,
    Insert,
    LinearFiller,
    Merge,
    Permute,
    Remove,
    Summary,
    adopt,
)

LAW = settings(max_examples=40, deadline=None, derandomize=True)
FUZZ = settings(max_examples=60, deadline=None, derandomize=True)
seeds = st.integers(0, 2**32 - 1)
FILL = {
    "entropy": LinearFiller(0.25, {"log_rest": 2.0}),
    "log_rest": LinearFiller(-0.5, {"log_rest": 1.0}),
}
# Counts are multiples of 1/4 (see `quarters`): every comparison in this file is exact.


def add_all(parts: list[Summary]) -> Summary:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


# ---- single edits --------------------------------------------------------------------------------
@pytest.mark.parametrize(("keep", "drop"), [(2, 1), (1, 1), (-1, 2)])
def test_merge_keeps_the_lower_slot(keep: int, drop: int) -> None:
    with pytest.raises(ValueError, match=f"keep={keep}"):
        Merge("state", keep, drop)


@given(seed=seeds, target=st.integers(0, 3), count=st.integers(1, 3))
@LAW
def test_adopt_replaces_the_target_by_newborns(seed: int, target: int, count: int) -> None:
    a = make_summary(seed)
    side = birth_side(seed + 1, a, target, count)
    born = adopt("state", 4, target, count, "birth", FILL)(with_sides(a, birth=side))
    others = [k for k in range(4) if k != target]
    assert born.size("state") == 3 + count
    np.testing.assert_array_equal(born["share"], np.r_[a["share"][others], side["share"][1:]])
    np.testing.assert_array_equal(
        born["emission"], np.c_[a["emission"][:, others], side["emission"][:, 1:]]
    )
    np.testing.assert_array_equal(
        born["transition"][:3, :3], a["transition"][np.ix_(others, others)]
    )
    np.testing.assert_array_equal(born["transition"][3:, 3:], side["transition"][1:, 1:])
    assert (born["transition"][:3, 3:] == 0).all()
    np.testing.assert_array_equal(born["anchor"][3:], 0.0)
    np.testing.assert_array_equal(born["entropy"][3:], 0.25 * a.n_units + 2.0 * a["log_rest"])
    assert born.local_bound == a.local_bound + side.local_bound


@given(seed=seeds, target=st.integers(0, 3))
@LAW
def test_adopt_of_a_batch_without_the_side_only_pads(seed: int, target: int) -> None:
    a = make_summary(seed)
    born = adopt("state", 4, target, 2, "birth")(a)
    assert_same(born, a.insert("state", 2).remove("state", target))


@given(seed=seeds)
@LAW
def test_compose_is_one_after_the_other(seed: int) -> None:
    a = make_summary(seed)
    edits = (
        Insert("state", 2, FILL),
        Permute("state", (5, 0, 1, 2, 3, 4)),
        Merge("state", 1, 3),
        Remove("state", 0),
    )
    one_by_one = a
    for edit in edits:
        one_by_one = edit(one_by_one)
    assert_same(Compose(edits)(a), one_by_one)
    assert Compose(())(a) is a


@given(seed=seeds)
@LAW
def test_edits_act_on_plain_fields_too(seed: int) -> None:
    legal = np.random.default_rng(seed).integers(0, 2, (3, 4)).astype(float)
    params = Fields({"legal": Field((None, "state"), merge="max", insert=1.0)}, {"legal": legal})
    edit = Compose((adopt("state", 4, 1, 2, "birth", FILL), Merge("state", 0, 2), Forget()))
    expected = np.c_[np.maximum(legal[:, 0], legal[:, 3]), legal[:, 2], np.ones((3, 2))]
    np.testing.assert_array_equal(edit(params)["legal"], expected)


# ---- permanent ids -------------------------------------------------------------------------------
RENAMED = [
    (Merge("state", 1, 2), (7, 2, 9), 10, (7, 2)),
    (Merge("state", 0, 2), (7, 2, 3), 10, (3, 2)),  # the elder's id survives, wherever it stood
    (Remove("state", 1), (7, 2, 9), 10, (7, 9)),
    (Insert("state", 2), (7, 2), 10, (7, 2, 10, 11)),
    (Permute("state", (2, 0, 1)), (7, 2, 9), 10, (9, 7, 2)),
    (AddSide("state", (0, 1), "birth"), (7, 2), 10, (7, 2)),
    (Forget(), (7, 2), 10, (7, 2)),
    (adopt("state", 3, 1, 2, "birth"), (7, 2, 9), 10, (7, 9, 10, 11)),
    (Compose((Insert("state", 1), Insert("state", 1))), (0,), 5, (0, 5, 6)),
]


@pytest.mark.parametrize(
    ("edit", "ids", "fresh", "expected"), RENAMED, ids=lambda value: type(value).__name__
)
def test_rename(edit: Edit, ids: tuple[int, ...], fresh: int, expected: tuple[int, ...]) -> None:
    assert edit.rename(ids, fresh) == expected


# ---- replay --------------------------------------------------------------------------------------
class Run:
    """A memoized run: batches are remembered with the length of the log they have seen; the total
    is edited at once.
    """

    def __init__(self, rng: np.random.Generator, n_batches: int) -> None:
        self.rng, self.log = rng, EditLog()
        self.memory = [(make_summary(int(seed)), 0) for seed in rng.integers(0, 2**32, n_batches)]
        self.total = add_all([batch for batch, _ in self.memory])
        self.ids: tuple[int, ...] = (0, 1, 2, 3)
        self.fresh = 4

    @property
    def size(self) -> int:
        return self.total.size("state")

    def apply(self, edit: Edit) -> None:
        self.total, self.log = edit(self.total), self.log.then(edit)
        self.ids = edit.rename(self.ids, self.fresh)
        self.fresh = max((self.fresh, *(i + 1 for i in self.ids)))

    def visit(self, b: int, sides: str = "") -> None:
        """Bring a batch up to date, take it out, put its new counts (and this lap's sides) in."""
        old, seen = self.memory[b]
        old = self.log.replay(old, seen)
        anchor = self.total["anchor"]
        new = make_summary(int(self.rng.integers(0, 2**32)), n_states=self.size, anchor=anchor)
        if sides == "merge":
            new = with_sides(new, merge=merge_side(b, 3))
        elif sides == "birth":
            new = with_sides(new, birth=birth_side(b, new, self.size - 1, 2))
        self.total, self.memory[b] = self.total - old + new, (new, len(self.log))

    def lap(self) -> None:
        """Some visits or all; then this lap's edits, which use sides only if every batch
        was asked.
        """
        kind = self.rng.choice(["merge", "birth", "plain"])
        if kind == "plain":
            for b in self.rng.permutation(len(self.memory))[
                : self.rng.integers(0, len(self.memory) + 1)
            ]:
                self.visit(int(b))
        for b in range(len(self.memory)) if kind != "plain" else ():
            self.visit(b, kind)
        if kind == "merge":
            self.merge_twice()
        elif kind == "birth":
            self.apply(adopt("state", self.size, self.size - 1, 2, "birth", FILL))
        self.apply(Forget())
        self.reshape()

    def merge_twice(self) -> None:
        if self.size >= 5:
            self.apply(Merge("state", 0, self.size - 1, pair=1))
            self.apply(Merge("state", 1, 2, pair=2, earlier=(1,)))

    def reshape(self) -> None:
        """Edits that need no side."""
        for _ in range(self.rng.integers(0, 4)):
            kind, K = self.rng.integers(0, 4), self.size
            if kind == 0:
                self.apply(Insert("state", int(self.rng.integers(1, 3)), FILL))
            elif kind == 1:
                self.apply(Permute("state", tuple(int(i) for i in self.rng.permutation(K))))
            elif K > 3:
                at = int(self.rng.integers(1, K))
                self.apply(Remove("state", at) if kind == 2 else Merge("state", at - 1, at))


@given(seed=seeds, n_batches=st.integers(1, 4), n_laps=st.integers(1, 5))
@FUZZ
def test_replayed_batches_add_up_to_the_edited_total(
    seed: int, n_batches: int, n_laps: int
) -> None:
    run = Run(np.random.default_rng(seed), n_batches)
    for _ in range(n_laps):
        run.lap()
    remembered = [run.log.replay(batch, seen).forget() for batch, seen in run.memory]
    assert_same(add_all(remembered), run.total.forget())
    assert len(run.ids) == run.size == len(set(run.ids))
    assert run.fresh > max(run.ids)


@given(seed=seeds, stop=st.integers(0, 8))
@LAW
def test_replay_in_two_parts_is_replay_at_once(seed: int, stop: int) -> None:
    rng, log, size = np.random.default_rng(seed), EditLog(), 4
    for number in range(8):
        if number % 2:
            log, size = log.then(Insert("state", 1, FILL)), size + 1
        else:
            log, size = log.then(Merge("state", 0, int(rng.integers(1, size)))), size - 1
    a = make_summary(seed)
    early = EditLog(log.edits[:stop]).replay(a, 0)
    assert_same(log.replay(early, stop), log.replay(a, 0))
    assert log.replay(a, len(log)) is a
    assert len(EditLog()) == 0


@given(seed=seeds)
@LAW
def test_two_merges_of_a_lap_take_their_cross_term(seed: int) -> None:
    a = with_sides(make_summary(seed, n_states=5), merge=merge_side(seed, 3))
    side = a.sides["merge"]
    merged = Merge("state", 1, 2, pair=2, earlier=(1,))(Merge("state", 0, 4, pair=1)(a))
    gain = side["gain"][1] + side["gain"][2] + side["cross"][2, 1]
    assert merged.local_bound == a.local_bound + gain
    np.testing.assert_array_equal(
        merged["entropy"], [side["entropy"][1], side["entropy"][2], a["entropy"][3]]
    )
