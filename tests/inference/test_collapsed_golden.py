"""Collapsed inference of chains: numbers of small problems that were found by enumeration."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from collapsed_chains import in_doubles
from labelings import Labelings
from scipy.special import logsumexp

from stickbreak.data import Sequences
from stickbreak.families import Categorical
from stickbreak.inference import ExcludeOwn, LogMean, MeanLog, Mode
from stickbreak.initialize import count_labels, from_local
from stickbreak.models import finite_hmm
from stickbreak.stats import SERIAL

TEXTS = ("012", "102", "112", "011", "210", "021")
UNSURE = [(0, 1), (1, 0), (2, 0), (2, 1), (3, 1), (3, 2), (4, 1), (5, 2)]


def golden(texts=TEXTS):
    """Two states, three symbols; 0 is of the first state, 2 of the second, 1 of either."""
    rows = np.array([int(c) for text in texts for c in text])
    ends = np.r_[0, np.cumsum([len(text) for text in texts])]
    legal = np.array([[1.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    data = Sequences(rows[:, None], sets=rows + 1, offsets=ends)
    family = replace(Categorical(0.5), n_symbols=(3,))
    model = finite_hmm(family, concentration=0.5, start_concentration=0.5)
    return model, data, legal


# Own counts as fits keep them, each to 1e-7, or in doubles: kernels of their own, long to compile.
every_kept = pytest.mark.parametrize(
    "keep", [lambda own: own, pytest.param(in_doubles, marks=pytest.mark.slow)], ids=["32", "64"]
)


def even_start(model, data, legal, rule=None, keep=in_doubles, shares=None):
    """Every row uniform over its legal states, or as given, independent of the others."""
    rule = rule or ExcludeOwn()
    batch = rule.units(data.whole())
    own = keep(rule.keeps(model, batch, 2))
    if shares is None:
        shares = legal[data.sets] / legal[data.sets].sum(1, keepdims=True)
    own["rows"][...] = shares
    if "pairs" in own:
        for s in range(batch.n_spans):
            mine = shares[batch.offsets[s] : batch.offsets[s + 1]]
            own["pairs"][s] = mine[:-1].T @ mine[1:]
    params = model.start_params(2, legal)
    return own, rule.count(model, params, batch, own, SERIAL), params


def unsure(own) -> np.ndarray:
    return np.array([own["rows"][3 * s + t, 0] for s, t in UNSURE])


def laps(model, data, legal, rule, n_laps, keep=in_doubles):
    own, counts, params = even_start(model, data, legal, rule, keep)
    for _ in range(n_laps):
        counts, own = rule.visit(model, counts, params, rule.units(data.whole()), own, (), SERIAL)
    return own, counts, model.bound(counts, params)


def test_golden_marginals_and_bounds_sequence_by_sequence():
    """Marginals after a sweep and converged, and the variational bound at them; six digits are
    what the numbers are given with.
    """
    model, data, legal = golden()
    own, _, bound = laps(model, data, legal, ExcludeOwn(), 1)
    first = [0.458333, 0.625202, 0.664547, 0.486598, 0.391923, 0.481988, 0.366288, 0.476361]
    np.testing.assert_allclose(unsure(own), first, atol=1e-6)
    assert bound == pytest.approx(-27.17258068, abs=1e-8)
    own, _, bound = laps(model, data, legal, ExcludeOwn(), 600)
    last = [0.302612, 0.530402, 0.572951, 0.328349, 0.267735, 0.354510, 0.245310, 0.361468]
    np.testing.assert_allclose(unsure(own), last, atol=1e-6)
    assert bound == pytest.approx(-27.01697321, abs=1e-8)


@every_kept
def test_golden_marginals_token_by_token(keep):
    model, data, legal = golden()
    own, _, bound = laps(model, data, legal, ExcludeOwn("token"), 1, keep)
    first = [0.423077, 0.587310, 0.647126, 0.469618, 0.357936, 0.458745, 0.390499, 0.450721]
    np.testing.assert_allclose(unsure(own), first, atol=1e-6)
    assert lower(own["rows"]) == pytest.approx(-26.0071058907, abs=5e-6)
    own, _, bound = laps(model, data, legal, ExcludeOwn("token"), 600, keep)
    last = [0.230615, 0.459512, 0.544126, 0.294022, 0.212364, 0.307736, 0.230615, 0.312834]
    np.testing.assert_allclose(unsure(own), last, atol=2e-6)
    assert lower(own["rows"]) == pytest.approx(-25.8104780803, abs=5e-6)
    assert bound < -24.9912761531


def lower(rows) -> float:
    """E_q[log p(x, z)] + entropy of the golden problem, where rows are independent."""
    q, at = [], 0
    for text, paths in zip(FIRST.texts, FIRST.paths, strict=True):
        q.append(np.array([np.prod(rows[range(at, at + len(text)), z]) for z in paths]))
        at += len(text)
    return FIRST.lower([p / p.sum() for p in q])


LONG = "012102112011210021"
LONG_UNSURE = [1, 3, 6, 7, 10, 11, 13, 17]
GOLDEN_BLOCKS = {
    (1, 1): [0.5, 0.5, 0.531250, 0.528321, 0.411374, 0.585133, 0.417357, 0.540247],
    (1, 600): [0.596558, 0.596558, 0.623299, 0.620316, 0.446795, 0.681717, 0.526472, 0.640907],
    (2, 600): [0.921927, 0.906702, 0.915072, 0.903782, 0.762520, 0.934215, 0.897865, 0.923809],
    (3, 1): [0.5, 0.505155, 0.423062, 0.475979, 0.445610, 0.544767, 0.397734, 0.505598],
    (3, 600): [0.272731, 0.281356, 0.208602, 0.252359, 0.266773, 0.289260, 0.185720, 0.281627],
    (6, 600): [0.758001, 0.758001, 0.794922, 0.785181, 0.634174, 0.781485, 0.741573, 0.810677],
    (18, 1): [0.5] * 8,
}


@pytest.mark.few(1)
@every_kept
@pytest.mark.parametrize(("length", "n_laps"), GOLDEN_BLOCKS)
def test_golden_marginals_block_by_block(length, n_laps, keep):
    """One chain in blocks, the published guards; one block learns from nothing: all paths alike."""
    model, data, legal = golden((LONG,))
    rule = ExcludeOwn("subsequence", subchain_length=length, guards="counts")
    own, counts, bound = laps(model, data, legal, rule, n_laps, keep)
    found = own["rows"][LONG_UNSURE, 0]
    np.testing.assert_allclose(found, GOLDEN_BLOCKS[length, n_laps], atol=5e-6)
    assert counts["transition"].sum() + counts["start"].sum() == pytest.approx(18)
    assert bound < -24.7642596757  # log p(x, legal)


def test_golden_bound_without_exclusion_is_that_of_batches():
    """Own counts stay in: MAP-EM with prior counts one larger, converged."""
    model, data, legal = golden()
    _, counts, params = even_start(model, data, legal)
    for _ in range(600):
        potentials = model.potentials(counts, params, LogMean())
        counts = model.local_step(potentials, data.whole())[0]
    assert model.bound(counts, params) == pytest.approx(-26.83464754, abs=1e-7)


LEGAL = {0: [0], 1: [0, 1], 2: [1]}
FIRST = Labelings(TEXTS, 2, 3, 0.5, LEGAL)
THIRD = Labelings(("010", "112", "001", "221"), 2, 3, 0.5)
FOURTH = Labelings((LONG,), 2, 3, 0.5, LEGAL)
EVIDENCE = {"first": -24.9912761531, "third": -15.1062350520, "fourth": -24.7642596757}
PROBLEMS = {"first": FIRST, "third": THIRD, "fourth": FOURTH}


@pytest.mark.parametrize("name", PROBLEMS)
def test_golden_evidence_is_the_sum_over_all_labelings(name):
    """And so is that of the library, whose log joint of a labeling is the bound at its counts."""
    problem = PROBLEMS[name]
    joint = problem.log_joint()
    assert logsumexp(joint) == pytest.approx(EVIDENCE[name], abs=1e-9)
    model, data, _ = golden(["".join(map(str, text)) for text in problem.texts])
    params = model.start_params(2)
    some = range(0, len(joint), max(1, len(joint) // 64))
    shape = [len(paths) for paths in problem.paths]
    for i in some:
        picked = zip(problem.paths, np.unravel_index(i, shape), strict=True)
        z = np.concatenate([np.array(paths[int(at)]) for paths, at in picked])
        counts = count_labels(model, data.whole(), z, 2)
        assert model.bound(counts, params) == pytest.approx(joint[i], abs=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_predictives_one_by_one_make_up_the_log_joint(seed):
    """Sequences in any order, rows from first to last, each given all that was before it."""
    model, data, _ = golden(("010", "112", "001", "221"))
    rng, params, total = np.random.default_rng(seed), model.start_params(2), 0.0
    z, seen = rng.integers(0, 2, data.n_rows), np.full(data.n_rows, -1)
    for s in rng.permutation(4):
        for t in range(data.offsets[s], data.offsets[s + 1]):
            counts = count_labels(model, data.whole(), seen, 2)
            potentials = model.potentials(counts, params, LogMean())
            is_first = t == data.offsets[s]
            steps = potentials["start"] if is_first else potentials["transition"][z[t - 1]]
            word = model.family.prepare(data.rows[t : t + 1])
            total += steps[z[t]] + potentials.scores.evidence(word)[0, z[t]]
            seen[t] = z[t]
    whole = model.bound(count_labels(model, data.whole(), z, 2), params)
    assert total == pytest.approx(whole, abs=1e-10)


def test_the_bound_is_that_of_all_labelings_and_below_the_evidence():
    """Sweeps of whole paths in plain numpy: the same marginals, bound and, golden, its rival."""
    model, data, legal = golden()
    q = FIRST.independent({0: [1, 0], 1: [0.5, 0.5], 2: [0, 1]})
    q = [np.array(p) for p in q]
    for n_laps, value in ((1, -26.0507362801), (50, None), (300, -25.8939431183)):
        own, _, bound = laps(model, data, legal, ExcludeOwn(), n_laps)
        swept = [p.copy() for p in q]
        for _ in range(n_laps):
            FIRST.sweep(swept)
        np.testing.assert_allclose(own["rows"], FIRST.rows(swept), atol=1e-9)
        assert bound == pytest.approx(FIRST.bound(swept), abs=1e-8)
        assert bound <= FIRST.lower(swept) <= EVIDENCE["first"]
        if value is not None:
            assert FIRST.lower(swept) == pytest.approx(value, abs=1e-8)


def test_golden_variational_bayes():
    """First lap before and after its global step, converged, and what its q is worth."""
    model, data, legal = golden()
    _, counts, params = even_start(model, data, legal)
    potentials = model.potentials(counts, params, MeanLog())
    found = model.local_step(potentials, data.whole())[0]
    before = model.bound_at(counts, params, potentials, found)
    assert before == pytest.approx(-27.2073645352, abs=1e-8)
    assert model.bound(found, params) == pytest.approx(-27.1537882824, abs=1e-8)
    q, bounds = FIRST.independent({0: [1, 0], 1: [0.5, 0.5], 2: [0, 1]}), []
    for _ in range(600):
        potentials = model.potentials(counts, params, MeanLog())
        counts = model.local_step(potentials, data.whole())[0]
        bounds.append(model.bound(counts, params))
        q = FIRST.step(q, is_mean_log=True)
    assert np.diff(bounds).min() > -1e-10
    rows = model.shares(potentials, data.whole())
    last = [0.004703, 0.013770, 0.113665, 0.038819, 0.004561, 0.033715, 0.004703, 0.033853]
    np.testing.assert_allclose([rows[3 * s + t, 0] for s, t in UNSURE], last, atol=1e-6)
    np.testing.assert_allclose(rows, FIRST.rows(q), atol=1e-8)
    assert bounds[-1] == pytest.approx(-26.2842429180, abs=1e-8)
    assert FIRST.lower(q) == pytest.approx(-25.9638145204, abs=1e-8)
    assert bounds[-1] <= FIRST.lower(q) <= EVIDENCE["first"]


def test_without_exclusion_steps_are_those_of_a_mode_with_prior_counts_one_larger():
    """Iterate for iterate; the mode in natural coordinates is the same."""
    model, data, legal = golden()
    _, counts, params = even_start(model, data, legal)
    others, q = counts, FIRST.independent({0: [1, 0], 1: [0.5, 0.5], 2: [0, 1]})
    for _ in range(5):
        potentials = model.potentials(counts, params, LogMean())
        modes = model.potentials(others, params, Mode())
        q = FIRST.step(q)
        np.testing.assert_allclose(
            model.shares(potentials, data.whole()), FIRST.rows(q), atol=1e-12
        )
        np.testing.assert_allclose(model.shares(modes, data.whole()), FIRST.rows(q), atol=1e-12)
        counts = model.local_step(potentials, data.whole())[0]
        others = model.local_step(modes, data.whole())[0]
    for _ in range(600):
        q = FIRST.step(q)
    last = [0.176596, 0.375283, 0.509748, 0.239871, 0.156556, 0.244410, 0.176596, 0.262363]
    found = [FIRST.rows(q)[3 * s + t, 0] for s, t in UNSURE]
    np.testing.assert_allclose(found, last, atol=1e-6)
    assert FIRST.lower(q) == pytest.approx(-25.7354584920, abs=1e-8)


SYMMETRIC = {0: np.array([0.7, 0.3]), 1: np.array([0.4, 0.6]), 2: np.array([0.2, 0.8])}


@pytest.mark.slow
def test_golden_labels_that_may_be_exchanged():
    """Sweeps need not raise the bound, and on tiny data they end where all states are alike."""
    model, data, _ = golden(("010", "112", "001", "221"))
    shares, legal = np.array([SYMMETRIC[w] for w in data.rows[:, 0]]), np.ones((4, 2))
    q, rule = THIRD.independent(SYMMETRIC), ExcludeOwn()
    assert THIRD.lower(q) == pytest.approx(-16.9809172902, abs=1e-8)
    own, counts, params = even_start(model, data, legal, shares=shares)
    values = {1: -16.7522302341, 2: -16.7244058281, 600: -16.7508736568}
    for lap in range(1, 601):
        THIRD.sweep(q)
        counts, own = rule.visit(model, counts, params, data.whole(), own, (), SERIAL)
        if lap in values:
            assert THIRD.lower(q) == pytest.approx(values[lap], abs=1e-8)
            np.testing.assert_allclose(own["rows"], THIRD.rows(q), atol=1e-9)
            assert model.bound(counts, params) == pytest.approx(THIRD.bound(q), abs=1e-8)
            assert model.bound(counts, params) <= THIRD.lower(q) <= EVIDENCE["third"]
    np.testing.assert_allclose(own["rows"], 0.5, atol=1e-6)
    rule = ExcludeOwn("token")
    own, counts, params = even_start(model, data, legal, rule, lambda own: own, shares)
    for _ in range(600):
        counts, own = rule.visit(model, counts, params, data.whole(), own, (), SERIAL)
    np.testing.assert_allclose(own["rows"], 0.5, atol=1e-5)


@pytest.mark.slow
def test_golden_labels_that_may_be_exchanged_by_variational_bayes():
    model, data, _ = golden(("010", "112", "001", "221"))
    shares = np.array([SYMMETRIC[w] for w in data.rows[:, 0]])
    _, counts, params = even_start(model, data, np.ones((4, 2)), shares=shares)
    bounds, q = [], THIRD.independent(SYMMETRIC)
    for _ in range(600):
        potentials = model.potentials(counts, params, MeanLog())
        found = model.local_step(potentials, data.whole())[0]
        bounds.append(model.bound_at(counts, params, potentials, found))
        counts, q = found, THIRD.step(q, is_mean_log=True)
    assert bounds[0] == pytest.approx(-19.6754770233, abs=1e-8)
    assert bounds[-1] == pytest.approx(-18.6015885387, abs=1e-8)
    assert np.diff(bounds).min() > -1e-10
    assert bounds[-1] <= THIRD.lower(q) <= EVIDENCE["third"]


def test_states_in_another_order_give_the_same_in_another_order():
    model, data, legal = golden()
    own, counts, params = even_start(model, data, legal)
    flipped = replace(own, arrays={n: np.flip(a, -1).copy() for n, a in own.arrays.items()})
    flipped["pairs"][...] = np.flip(own["pairs"], (1, 2))
    other = model.start_params(2, np.flip(legal, 1))
    again = ExcludeOwn().count(model, other, data.whole(), flipped, SERIAL)
    for _ in range(5):
        counts, own = ExcludeOwn().visit(model, counts, params, data.whole(), own, (), SERIAL)
        again, flipped = ExcludeOwn().visit(model, again, other, data.whole(), flipped, (), SERIAL)
    np.testing.assert_allclose(flipped["rows"], np.flip(own["rows"], 1), atol=1e-12)


def test_many_copies_of_all_sequences_need_no_exclusion():
    """Own counts are lost among those of many copies: as without exclusion, within 1 / copies."""
    model, data, legal = golden(TEXTS * 40)
    own, _, _ = laps(model, data, legal, ExcludeOwn(), 60)
    _, counts, params = even_start(model, data, legal)
    for _ in range(60):
        potentials = model.potentials(counts, params, LogMean())
        counts = model.local_step(potentials, data.whole())[0]
    found = model.shares(potentials, data.whole())
    np.testing.assert_allclose(own["rows"], found, atol=1 / 40)


def test_lanes_with_few_of_many_symbols_copy_only_theirs(monkeypatch):
    """The table restricted to a lane's own words, missing ones included, gives the same bits."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 9, 60)
    rows = np.where(rng.random(lengths.sum()) < 0.1, -1, rng.integers(0, 900, lengths.sum()))
    data = Sequences(rows[:, None], offsets=np.r_[0, lengths.cumsum()])
    model = finite_hmm(replace(Categorical(0.5), n_symbols=(1000,)))
    start, found = from_local(model, data, 3, np.random.default_rng(0)), []
    visit = lambda: ExcludeOwn().visit(
        model, start.seed, start.params, data.whole(), start.warm, (), SERIAL
    )
    monkeypatch.setattr("stickbreak.inference.collapsed.SWEEP_ROWS", 100)
    found.append(visit())
    monkeypatch.setattr(Categorical, "own_symbols", lambda self, rows, counts: None)
    found.append(visit())
    for name in found[0][0]:
        np.testing.assert_array_equal(found[0][0][name], found[1][0][name])
    assert found[0][0].log_z == found[1][0].log_z
