"""Starts from blocks of rows in succession: within sequences, apart from each other, and of
labelled rows where there are some.
"""

from __future__ import annotations

import numpy as np
import pytest
from sequence_cases import make_sequences

import stickbreak as sb
from stickbreak.data import Sequences, measure
from stickbreak.initialize import blocks as module
from stickbreak.initialize import choose_blocks, from_blocks
from stickbreak.models import finite_hmm

CASE = make_sequences("gaussian", (100,) * 4)
DATA = Sequences(CASE.stacked, offsets=np.r_[0, np.cumsum(CASE.lengths)])
MODEL = finite_hmm(sb.Gaussian().resolve(measure(DATA)))


def test_blocks_keep_to_their_sequences_and_do_not_overlap():
    found = choose_blocks(DATA.whole(), 12, 20, np.random.default_rng(0))
    taken = np.concatenate([np.arange(begin, end) for begin, end in found])
    assert len(np.unique(taken)) == len(taken)
    for begin, end in found:
        assert end - begin == 20
        assert begin // 100 == (end - 1) // 100


def test_each_component_begins_with_one_block():
    for candidates in (1, 10):
        start = from_blocks(MODEL, DATA, 5, np.random.default_rng(0), candidates=candidates)
        np.testing.assert_allclose(start.seed["moments"][:, 0], 20.0)
        assert start.seed["transition"].sum() == 5 * 19


def test_blocks_far_apart_see_more_states_than_random_ones():
    """Blocks within one state each: three sequences of one state, and many of another."""
    rng = np.random.default_rng(1)
    rows = np.concatenate(
        [rng.normal(place, 1.0, (40, 2)) for place in (0.0,) * 30 + (50.0, -50.0)]
    )
    data = Sequences(rows, offsets=np.arange(0, len(rows) + 1, 40))
    model = finite_hmm(sb.Gaussian().resolve(measure(data)))

    def places(candidates: int) -> list[int]:
        """How many of the three places three blocks see, for some seeds."""
        seeds = [
            from_blocks(model, data, 3, np.random.default_rng(s), candidates=candidates).seed
            for s in range(10)
        ]
        return [
            len(np.unique(np.round(model.family.describe(seed)["mean"][:, 0], -1)))
            for seed in seeds
        ]

    assert np.mean(places(10)) > np.mean(places(1))
    assert min(places(30)) == 3


def test_few_candidates_where_statistics_are_large(monkeypatch):
    monkeypatch.setattr(module, "MAX_NUMBERS", 10)
    few = from_blocks(MODEL, DATA, 5, np.random.default_rng(0), candidates=10)
    all_kept = from_blocks(MODEL, DATA, 5, np.random.default_rng(0))
    # as many as components: nothing to choose
    np.testing.assert_array_equal(few.seed["moments"], all_kept.seed["moments"])


@pytest.mark.parametrize("candidates", [1, 10])
def test_labelled_rows_seed_their_own_component(candidates):
    sets = np.zeros(len(CASE.stacked), dtype=np.int64)
    sets[5:15] = 1
    legal = np.array([[1.0, 1.0, 1.0], [0.0, 1.0, 0.0]])
    data = Sequences(DATA.rows, sets=sets, offsets=DATA.offsets)
    start = from_blocks(
        MODEL, data, 3, np.random.default_rng(0), legal=legal, candidates=candidates
    )
    assert start.seed["moments"][1, 0] == 10.0
    np.testing.assert_array_equal(start.params["legal"], legal)
