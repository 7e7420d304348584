"""Structures of segments: the laws, bounds against exact evidence, labels, bad input."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
from oracles import semimarkov as oracle
from oracles.chain import all_paths

from stickbreak.checks import check_structure
from stickbreak.data import Batch, Sequences, Table, measure
from stickbreak.errors import NumericalError
from stickbreak.families import Categorical
from stickbreak.inference.rules import LogMean, MeanLog
from stickbreak.models import Model
from stickbreak.priors import DirichletSegments
from stickbreak.priors.durations import Geometric, NegativeBinomial
from stickbreak.structures import EmbeddedSemiMarkov, SemiMarkov, semimarkov
from stickbreak.structures.semimarkov import check_change_points, segments_of
from stickbreak.structures.semimarkov import structure as exact

D = 6
ROWS = np.array([0, 1, 1, 3, 0, 2, 2, 1, 0, 0, 3])[:, None]
DATA = Sequences(ROWS, offsets=np.array([0, 5, 6, 11]))


def family():
    return Categorical(0.5, n_symbols=(4,)).resolve(measure(Table(ROWS)))


def exact_model(right=True, left=False, law="negative-binomial", n_lengths=D):
    prior = DirichletSegments(duration=law, max_duration=n_lengths)
    return Model(SemiMarkov(right, left, n_lengths), family(), prior, "state")


def embedded_model(right=True, law=None):
    prior = DirichletSegments(duration=law or NegativeBinomial(), duration_inference="embedded")
    shapes = prior.duration.shapes if prior.duration.learns_shape else ()
    return Model(EmbeddedSemiMarkov(right_censored=right, shapes=shapes), family(), prior, "state")


def potentials(model, K=3, seed=0, rule=None):
    rng, counts = np.random.default_rng(seed), model.zeros(K)
    counts = replace(counts, arrays={n: a + rng.random(a.shape) for n, a in counts.arrays.items()})
    return model.potentials(counts, model.start_params(K), rule or MeanLog())


@pytest.mark.parametrize(
    ("right", "left"), [(True, False), (False, False), (True, True), (False, True)]
)
def test_exact_segments_keep_the_laws_of_a_structure(right, left):
    model = exact_model(right, left)

    def enumerate_log_z(given, block):
        evidence = given.scores.evidence(block.rows)
        tables = given["start"], given["transition"], given["duration"]
        return sum(
            oracle.smooth(evidence[a:b], *tables, right=right, left=left).log_z
            for a, b in ((0, 5), (5, 6), (6, 11))
        )

    check_structure(model, potentials(model), DATA.whole(), enumerate_log_z)


@pytest.mark.parametrize("right", [True, False])
def test_embedded_segments_keep_the_laws_of_a_structure(right):
    for law in (None, Geometric()):
        model = embedded_model(right, law)
        given = potentials(model)
        # which r is the best is decided before, so log_z does not depend on log_ways
        tables = {name: table for name, table in given.tables.items() if name != "log_ways"}
        check_structure(model, replace(given, tables=tables), DATA.whole())


@pytest.mark.parametrize("law", ["free", "poisson"])
def test_the_bound_rises_and_stays_below_the_exact_evidence(law):
    rows = np.array([0, 0, 1, 1, 0])[:, None]
    data, K = Sequences(rows, offsets=np.array([0, 3, 5])), 2
    prior = DirichletSegments(duration=law, max_duration=4)
    kind = Categorical(0.5, n_symbols=(2,)).resolve(measure(Table(rows)))
    model = Model(SemiMarkov(n_lengths=4), kind, prior, "state")
    evidence = log_evidence(model, data, K)
    counts, params, bounds = model.zeros(K), model.start_params(K), []
    rng = np.random.default_rng(0)
    counts = replace(counts, arrays={n: a + rng.random(a.shape) for n, a in counts.arrays.items()})
    for _ in range(30):
        counts, _ = model.local_step(model.potentials(counts, params, MeanLog()), data.whole())
        bounds.append(model.bound(counts, params))
    assert np.diff(bounds).min() > -1e-10
    assert bounds[-1] < evidence
    assert bounds[-1] > evidence - 5.0
    collapsed, _ = model.local_step(model.potentials(counts, params, LogMean()), data.whole())
    assert model.bound(collapsed, params) < evidence


def log_evidence(model, data, K):
    """The exact log evidence: the sum over all labelings and complete lengths of last segments."""
    values, ends = [], data.offsets
    per_unit = []
    for a, b in pairwise(ends):
        choices = []
        for path in all_paths(b - a, K):
            seen = oracle.segments(path)[-1][1]
            choices += [(path, d) for d in range(seen, model.prior.max_duration + 1)]
        per_unit.append(choices)
    for chosen in product(*per_unit):
        out = model.zeros(K)
        arrays, labels = dict(out.arrays), np.concatenate([path for path, _ in chosen])
        model.structure.count(labels, data.whole(), arrays)
        for path, d in chosen:  # from the seen length to the complete one
            state, seen = oracle.segments(path)[-1]
            arrays["duration"][state, seen - 1] -= 1.0
            arrays["duration"][state, d - 1] += 1.0
        shares = np.eye(K)[labels]
        scores = model.family.mean_log(out)
        scores.collect(model.family.prepare(data.rows), np.asfortranarray(shares), arrays)
        total = replace(out, arrays=arrays)
        rise = model.family.log_marginal(total).sum()
        values.append(model.prior.bound(total, model.start_params(K)) + float(rise))
    return float(np.logaddexp.reduce(values))


def test_segments_are_read_off_labels():
    labels = np.array([2, 2, 0, 0, 0, 1, 1, -1, 2, 2, 0])
    found = segments_of(labels, DATA.offsets)
    assert found.begin.tolist() == [0, 2, 5, 6, 7, 8, 10]
    assert found.unit.tolist() == [0, 0, 1, 2, 2, 2, 2]
    assert found.is_first.tolist() == [True, False, True, True, False, False, False]
    assert found.is_last.tolist() == [False, True, True, False, False, False, True]
    model = exact_model()
    out = dict(model.zeros(3).arrays)
    model.structure.count(labels, DATA.whole(), out)
    assert out["start"].tolist() == [0, 2, 1]
    assert out["rows"].tolist() == [4, 2, 4]
    # next to the row without a label, lengths and steps are not known
    assert out["transition"][2, 0] == out["transition"].sum() == 2
    expected = np.zeros((3, D))
    expected[2, 1], expected[0, 2], expected[1, 0], expected[0, 0] = 1, 1, 1, 1
    np.testing.assert_array_equal(out["duration"], expected)


def test_labels_count_the_same_for_stages():
    labels = np.array([2, 2, 0, 0, 0, 1, 1, 1, 2, 2, 0])
    model = embedded_model()
    out = dict(model.zeros(3).arrays)
    model.structure.count(labels, DATA.whole(), out)
    assert out["segments"].tolist() == [2, 2, 2]
    assert out["stays"].tolist() == [2, 1, 2]
    # r = 1 has one way, r = 2 has d
    expected = [[0, np.log(3)], [0, np.log(2)], [0, np.log(4)]]
    np.testing.assert_allclose(out["log_ways"][:, :2], expected)


def test_a_run_of_labels_longer_than_any_segment_has_no_length():
    model = exact_model(n_lengths=2)
    out = dict(model.zeros(3).arrays)
    model.structure.count(np.array([0, 0, 1, 1, 2, 0, 0, 1, 1, 1, 2]), DATA.whole(), out)
    assert out["duration"].tolist() == [[2, 1], [0, 1], [2, 0]]
    assert out["rows"].tolist() == [4, 5, 2]


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ([[0], [0]], "given for 2 sequences, but there are 3"),
        ([[0], [0], [1, 2]], "sequence 2 begin with 1; the first segment begins at 0"),
        ([[0, 5], [0], [0]], "sequence 0 has a change point at 5, but only 5 rows"),
        ([[0, 3, 2], [0], [0]], "sequence 0 must increase"),
        ([[0], [], [0]], "sequence 1 must be whole numbers"),
        ([[0], [0.5], [0]], "sequence 1 must be whole numbers"),
    ],
)
def test_bad_change_points_are_refused(points, message):
    with pytest.raises(ValueError, match=message):
        check_change_points(points, np.array([5, 1, 5]))


@pytest.mark.parametrize("model", [exact_model(), embedded_model()], ids=["exact", "embedded"])
def test_known_change_points_are_kept(model):
    companion = check_change_points([[0, 3], [0], [0]], np.array([5, 1, 5]))
    batch = replace(DATA.whole(), companion=companion)
    block = batch.with_rows(model.family.prepare(batch.rows))
    given = potentials(model)
    assert not semimarkov.change_points.free_rows(block)[[1, 2, 4, 7, 10]].any()
    for path in (
        model.structure.best(given, block),
        model.structure.sample(given, block, np.random.default_rng(0)),
    ):
        changes = np.flatnonzero(path[1:] != path[:-1]) + 1
        assert set(changes) <= {3, 5, 6}
    shares = model.structure.infer(given, block, None, dict(given.empty.empty().arrays)).shares
    np.testing.assert_allclose(np.diff(shares[6:], axis=0), 0.0, atol=1e-12)


def test_impossible_sequences_and_too_much_work_are_named(monkeypatch):
    model = exact_model(n_lengths=2)
    with pytest.raises(NumericalError, match=r"sequence 0 is zero: no segments.*max_duration"):
        model.local_step(potentials(model, K=1), DATA.whole())
    monkeypatch.setattr(exact, "MAX_WORK", 20)
    with pytest.raises(ValueError, match=r"5 rows, segments of up to 2 rows and 3.*embedded"):
        model.local_step(potentials(model), DATA.whole())
    stages = embedded_model()
    with pytest.raises(ValueError, match=r"best segmentation is found by lengths.*marginal"):
        stages.best_paths(potentials(stages), DATA.whole())
    with pytest.raises(ValueError, match="left_censored=True is not for EmbeddedSemiMarkov"):
        EmbeddedSemiMarkov(left_censored=True)


@pytest.mark.parametrize("model", [exact_model(), embedded_model()], ids=["exact", "embedded"])
def test_units_keep_what_they_count(model):
    batch, rng = DATA.whole(), np.random.default_rng(0)
    own = model.structure.random_own(batch, 3, "state", rng)
    out = dict(model.zeros(3).arrays)
    rows = model.structure.count_own(batch, own, out)
    np.testing.assert_allclose(rows.sum(1), 1.0, atol=1e-6)
    assert out["rows"].sum() == pytest.approx(11, abs=1e-5)
    n_segments = out["duration"].sum() if "duration" in out else out["segments"].sum()
    # segments are one more than the steps of each sequence; own counts are single precision
    assert n_segments == pytest.approx(3 + out["transition"].sum(), abs=1e-5)


def test_long_units_in_pieces_are_the_whole():
    model = embedded_model()
    given = potentials(model)
    rows = np.random.default_rng(1).integers(0, 4, (200, 1))
    whole = Batch(0, rows, np.array([0, 200]))
    expected, _ = model.local_step(given, whole)

    class Short(EmbeddedSemiMarkov):
        def block_rows(self, width: int) -> int:
            return 64

    structure = Short(shapes=model.structure.shapes)
    found, _ = replace(model, structure=structure).local_step(given, whole)
    assert found.log_z == pytest.approx(expected.log_z, rel=1e-13)
    for name in found.arrays:
        if name != "log_ways":  # of a path that is drawn by other numbers
            np.testing.assert_allclose(found[name], expected[name], atol=1e-11, err_msg=name)
    rng = np.random.default_rng(0)
    drawn, _ = replace(model, structure=structure).drawing(rng).local_step(given, whole)
    assert drawn["rows"].sum() == 200
    assert drawn["segments"].sum() == 1 + drawn["transition"].sum()


def test_ages_are_the_state_of_the_filter():
    model = exact_model()
    block = DATA.whole().with_rows(model.family.prepare(ROWS))
    given = potentials(model)
    ages = model.structure.ages(given, block)
    shares, _ = model.structure.filter(given, block)
    assert ages.shape == (3, 3, D)
    np.testing.assert_allclose(ages.sum(2), shares[[4, 5, 10]], atol=1e-12)


def test_starts_of_very_long_sequences_do_without_the_best_segmentation():
    stages, lengths = embedded_model().structure, exact_model().structure
    rows = np.zeros((20_000, 1), dtype=int)
    short, long = (Batch(0, rows[:n], np.array([0, n])) for n in (500, 20_000))
    assert stages.starts_by_best(short, 3)
    assert not stages.starts_by_best(long, 3)
    assert lengths.starts_by_best(long, 3)
