"""Two sides, and named axes that no move edits: what pairs of sentences and given trees need."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from doubles import brute
from doubles.cases import CASES, bitext
from doubles.data import random_seed, random_start

from stickbreak.data import Companion
from stickbreak.inference import MeanLog, MemoizedVB, run, workers
from stickbreak.moves.little_fits import side_by_side
from stickbreak.moves.trials import _share_out
from stickbreak.persist import (
    pack_fields,
    pack_summary,
    read_file,
    unpack_fields,
    unpack_summary,
    write_file,
)
from stickbreak.stats import Field, Insert, Merge, Permute, Remove, Summary


@pytest.fixture(autouse=True)
def one_blas_thread():
    """Tables are tiny: threads of BLAS would only wait for each other."""
    with workers(1):
        yield


def potentials_of(name):
    case = CASES[name]
    counts = random_seed(case.model, [case.data.whole()], case.n_components)
    return (
        case.model,
        case.data,
        case.model.potentials(counts, case.model.start_params(1), MeanLog()),
    )


# ----------------------------------------------------------------------------------------- the side


@pytest.mark.parametrize("name", ["alignment", "annotation"])
def test_small_blocks_and_lanes_change_nothing(name, monkeypatch):
    model, data, potentials = potentials_of(name)
    whole, _ = model.local_step(potentials, data.whole())
    shares = model.shares(potentials, data.whole())
    monkeypatch.setattr(type(model.structure), "block_rows", lambda self, width: 5)
    monkeypatch.setattr("stickbreak.data.batches.ORDERED_ROWS", 12)
    monkeypatch.setattr("stickbreak.data.batches.LANE_UNITS", 2)
    assert len(data.whole().lanes()) > 1
    cut, _ = model.local_step(potentials, data.whole())
    for field in whole:
        np.testing.assert_allclose(cut[field], whole[field], rtol=1e-12, atol=1e-12)
    assert cut.log_z == pytest.approx(whole.log_z, rel=1e-12)
    np.testing.assert_allclose(model.shares(potentials, data.whole()), shares, rtol=1e-12)


def test_rows_use_the_source_words_of_their_own_sentence():
    model, data, potentials = potentials_of("alignment")
    shares = model.shares(potentials, data.whole())
    for u in range(data.n_spans):
        rows = slice(data.offsets[u], data.offsets[u + 1])
        used = np.flatnonzero(shares[rows].sum(0))
        np.testing.assert_array_equal(used, np.union1d([0], data.companion.of(u)))


def test_a_word_twice_in_its_sentence_has_two_positions():
    """Which is the same as one position of twice the weight."""
    case = CASES["alignment"]
    model, pair = case.model, bitext((3,), 6, 0)
    counts = random_seed(model, [pair.whole()], 6)
    potentials = model.potentials(counts, model.start_params(6), MeanLog())
    batch = replace(pair.whole(), companion=Companion(np.array([2, 4, 2]), np.array([0, 3])))
    shares = model.shares(potentials, batch)
    rows = brute.prepared(model, batch).rows
    weights = np.exp(potentials.scores.evidence(rows)[:, [0, 2, 4]])
    weights *= np.exp(potentials["kind"])[[0, 1, 1]] * [1.0, 2.0 / 3.0, 1.0 / 3.0]
    np.testing.assert_allclose(
        shares[:, [0, 2, 4]], weights / weights.sum(1, keepdims=True), rtol=1e-12
    )


def test_another_side_is_other_data():
    """The same words under other trees, and beside other sentences: other bounds and prints."""
    for name in ("alignment", "annotation"):
        case = CASES[name]
        units = np.flatnonzero(np.diff(case.data.offsets) == np.diff(case.data.offsets)[0])
        first, last = (case.data.take(units[[at]]) for at in (0, -1))
        found = [
            run(
                case.model,
                MemoizedVB(n_batches=1, max_iter=3),
                type(case.data)(first.rows, offsets=first.offsets, companion=companion),
                random_start(case.model, [first], case.n_components),
            ).bound
            for companion in (first.companion, last.companion)
        ]
        assert found[0] != found[1]


# ---------------------------------------------------------------------------------- axes that stay


def test_edits_of_one_axis_leave_other_named_axes():
    model, data, potentials = potentials_of("annotation")
    before, _ = model.local_step(potentials, data.whole())
    fold = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    merged = Merge("subtype", 0, 2)(before)
    rule = np.einsum("labc,ai,bj,ck->lijk", before["binary_rule"], fold, fold, fold)
    np.testing.assert_allclose(merged["binary_rule"], rule)
    np.testing.assert_allclose(merged["tag"], before["tag"] @ fold)
    grown = Insert("subtype", 2)(before)
    assert grown["binary_rule"].shape == (2, 5, 5, 5)
    assert grown["binary_rule"].sum() == before["binary_rule"].sum()
    again = Remove("subtype", 3)(Remove("subtype", 4)(grown))
    turned = Permute("subtype", (2, 0, 1))(before)
    np.testing.assert_array_equal(
        turned["binary_rule"], before["binary_rule"][:, [2, 0, 1]][:, :, [2, 0, 1]][..., [2, 0, 1]]
    )
    np.testing.assert_array_equal(turned["tag"], before["tag"][:, [2, 0, 1]])
    for field in before:
        np.testing.assert_array_equal(again[field], before[field])
    part = before.restrict(np.array([1, 3]))
    assert part["emission"].shape == (2, 3)
    np.testing.assert_array_equal(part["tag"], before["tag"])
    total = before + part
    np.testing.assert_array_equal(total["binary_rule"], 2.0 * before["binary_rule"])


def test_the_bound_of_a_permuted_state_is_the_same():
    model, data, potentials = potentials_of("annotation")
    counts, _ = model.local_step(potentials, data.whole())
    params = model.start_params(3)
    turned = Permute("subtype", (2, 0, 1))(counts)
    assert model.bound(turned, params) == pytest.approx(model.bound(counts, params), rel=1e-13)


def test_fields_without_the_axis_are_not_edited():
    model, data, potentials = potentials_of("alignment")
    before, _ = model.local_step(potentials, data.whole())
    for edit in (
        Merge("word", 0, 2),
        Insert("word", 1),
        Permute("word", (1, 0)),
        Remove("word", 0),
    ):
        np.testing.assert_array_equal(edit(before)["kind"], before["kind"])


@pytest.mark.parametrize("name", ["alignment", "annotation"])
def test_counts_and_parameters_survive_a_file(name, tmp_path):
    case = CASES[name]
    start = random_start(case.model, case.data.batches(2), case.n_components)
    result = run(case.model, MemoizedVB(n_batches=2, max_iter=5), case.data, start)
    arrays = {}
    header = {
        "counts": pack_summary(result.counts, "counts", arrays),
        "params": pack_fields(result.params, "params", arrays),
    }
    write_file(tmp_path / "fit", "model", header, arrays)
    saved, stored = read_file(tmp_path / "fit", "model")
    counts = unpack_summary(saved["counts"], "counts", stored)
    params = unpack_fields(saved["params"], "params", stored)
    assert counts.layout == result.counts.layout
    assert all((counts[field] == result.counts[field]).all() for field in result.counts)
    assert case.model.bound(counts, params) == result.bound
    scores = [
        case.model.log_evidence(case.model.predictive(c, p), case.data.whole())
        for c, p in ((counts, params), (result.counts, result.params))
    ]
    np.testing.assert_array_equal(*scores)


def test_steps_are_divided_for_each_entry_of_a_fixed_axis():
    """Both ends along the axis: most steps of a target to itself stay with the newborn."""
    tables = np.random.default_rng(0).random((3, 4, 4))
    tables[:, :, 3], tables[:, 3] = tables[:, :, 2], tables[:, 2]  # the target, once a newborn
    shares = np.array([0.25, 0.75])
    found = _share_out(tables, ("label", "state", "state"), "state", shares)
    alone = [_share_out(table, ("state", "state"), "state", shares) for table in tables]
    np.testing.assert_array_equal(found, alone)
    np.testing.assert_allclose(found[:, 2:, 2:].sum((1, 2)), tables[:, 2, 2])


def test_components_stand_side_by_side_along_their_axis_alone():
    layout = {"size": Field(("label", "state")), "rest": Field(())}
    parts = [
        Summary(layout, {"size": np.full((2, n), float(n)), "rest": np.array(float(n))})
        for n in (1, 3)
    ]
    both = side_by_side(parts, "state")
    np.testing.assert_array_equal(both["size"], [[1.0, 3.0, 3.0, 3.0]] * 2)
    assert both["rest"] == 1.0
