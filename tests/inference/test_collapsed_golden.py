"""Collapsed inference of chains: numbers of small problems that were found by enumeration."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
from collapsed_chains import in_doubles
from scipy.special import gammaln

from stickbreak.data import Sequences
from stickbreak.families import Categorical
from stickbreak.inference import ExcludeOwn, LogMean
from stickbreak.initialize import from_local
from stickbreak.models import finite_hmm

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


# long to compile; `test_collapsed_chains.py` has the same sweeps against plain loops
in_doubles_of_their_own = pytest.mark.slow


def even_start(model, data, legal, rule=None):
    """Every row uniform over its legal states, independent of the others."""
    rule = rule or ExcludeOwn()
    batch = rule.units(data.whole())
    own = in_doubles(rule.keeps(model, batch, 2))
    shares = legal[data.sets] / legal[data.sets].sum(1, keepdims=True)
    own["rows"][...] = shares
    if "pairs" in own:
        for s in range(batch.n_spans):
            mine = shares[batch.offsets[s] : batch.offsets[s + 1]]
            own["pairs"][s] = mine[:-1].T @ mine[1:]
    params = model.start_params(2, legal)
    return own, rule.count(model, params, batch, own, map), params


def unsure(own) -> np.ndarray:
    return np.array([own["rows"][3 * s + t, 0] for s, t in UNSURE])


def laps(model, data, legal, rule, n_laps):
    own, counts, params = even_start(model, data, legal, rule)
    for _ in range(n_laps):
        counts, own = rule.visit(model, counts, params, rule.units(data.whole()), own, (), map)
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
    own, _, bound = laps(model, data, legal, ExcludeOwn(), 2000)
    last = [0.302612, 0.530402, 0.572951, 0.328349, 0.267735, 0.354510, 0.245310, 0.361468]
    np.testing.assert_allclose(unsure(own), last, atol=1e-6)
    assert bound == pytest.approx(-27.01697321, abs=1e-8)


@in_doubles_of_their_own
def test_golden_marginals_token_by_token():
    model, data, legal = golden()
    own, _, bound = laps(model, data, legal, ExcludeOwn("token"), 1)
    first = [0.423077, 0.587310, 0.647126, 0.469618, 0.357936, 0.458745, 0.390499, 0.450721]
    np.testing.assert_allclose(unsure(own), first, atol=1e-6)
    own, _, bound = laps(model, data, legal, ExcludeOwn("token"), 2000)
    last = [0.230615, 0.459512, 0.544126, 0.294022, 0.212364, 0.307736, 0.230615, 0.312834]
    np.testing.assert_allclose(unsure(own), last, atol=1e-6)
    assert bound < log_evidence(model, data, legal)


LONG = "012102112011210021"
LONG_UNSURE = [1, 3, 6, 7, 10, 11, 13, 17]
GOLDEN_BLOCKS = {
    (1, 1): [0.5, 0.5, 0.531250, 0.528321, 0.411374, 0.585133, 0.417357, 0.540247],
    (1, 3000): [0.596558, 0.596558, 0.623299, 0.620316, 0.446795, 0.681717, 0.526472, 0.640907],
    (2, 3000): [0.921927, 0.906702, 0.915072, 0.903782, 0.762520, 0.934215, 0.897865, 0.923809],
    (3, 1): [0.5, 0.505155, 0.423062, 0.475979, 0.445610, 0.544767, 0.397734, 0.505598],
    (3, 3000): [0.272731, 0.281356, 0.208602, 0.252359, 0.266773, 0.289260, 0.185720, 0.281627],
    (6, 3000): [0.758001, 0.758001, 0.794922, 0.785181, 0.634174, 0.781485, 0.741573, 0.810677],
    (18, 1): [0.5] * 8,
}


@in_doubles_of_their_own
@pytest.mark.parametrize(("length", "n_laps"), GOLDEN_BLOCKS)
def test_golden_marginals_block_by_block(length, n_laps):
    """One chain in blocks, the published guards; one block learns from nothing: all paths alike."""
    model, data, legal = golden((LONG,))
    rule = ExcludeOwn("subsequence", subchain_length=length, guards="counts")
    own, counts, bound = laps(model, data, legal, rule, n_laps)
    found = own["rows"][LONG_UNSURE, 0]
    np.testing.assert_allclose(found, GOLDEN_BLOCKS[length, n_laps], atol=1e-6)
    assert counts["transition"].sum() + counts["start"].sum() == pytest.approx(18)
    assert bound < -24.7642596757  # log p(x, legal)


def test_golden_bound_without_exclusion_is_that_of_batches():
    """Own counts stay in: MAP-EM with prior counts one larger, converged."""
    model, data, legal = golden()
    _, counts, params = even_start(model, data, legal)
    for _ in range(3000):
        potentials = model.potentials(counts, params, LogMean())
        counts = model.local_step(potentials, data.whole())[0]
    assert model.bound(counts, params) == pytest.approx(-26.83464754, abs=1e-7)


def log_evidence(model, data, legal) -> float:
    """log p(x, z legal), summed over all labelings."""
    rows, ends = data.rows[:, 0], data.offsets
    choices = [np.flatnonzero(legal[s]) for s in data.sets]
    found = []
    rise = lambda counts, a: gammaln(counts + a) - gammaln(a)
    for labels in product(*choices):
        z = np.array(labels)
        first, steps, words_of = np.zeros(2), np.zeros((2, 2)), np.zeros((2, 3))
        np.add.at(words_of, (z, rows), 1.0)
        for lo, hi in pairwise(ends):
            first[z[lo]] += 1
            np.add.at(steps, (z[lo : hi - 1], z[lo + 1 : hi]), 1.0)
        value = 0.0
        for table in (first[None], steps, words_of):
            value += rise(table, 0.5).sum() - rise(table.sum(1), 0.5 * table.shape[1]).sum()
        found.append(value)
    return float(np.logaddexp.reduce(found))


def test_the_bound_is_below_the_log_evidence():
    model, data, legal = golden()
    exact = log_evidence(model, data, legal)
    assert exact == pytest.approx(-24.9912761531, abs=1e-9)
    for n_laps in (1, 5, 50):
        assert laps(model, data, legal, ExcludeOwn(), n_laps)[2] < exact


def test_states_in_another_order_give_the_same_in_another_order():
    model, data, legal = golden()
    own, counts, params = even_start(model, data, legal)
    flipped = replace(own, arrays={n: np.flip(a, -1).copy() for n, a in own.arrays.items()})
    flipped["pairs"][...] = np.flip(own["pairs"], (1, 2))
    other = model.start_params(2, np.flip(legal, 1))
    again = ExcludeOwn().count(model, other, data.whole(), flipped, map)
    for _ in range(5):
        counts, own = ExcludeOwn().visit(model, counts, params, data.whole(), own, (), map)
        again, flipped = ExcludeOwn().visit(model, again, other, data.whole(), flipped, (), map)
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
        model, start.seed, start.params, data.whole(), start.warm, (), map
    )
    monkeypatch.setattr("stickbreak.inference.collapsed.SWEEP_ROWS", 100)
    found.append(visit())
    monkeypatch.setattr(Categorical, "own_symbols", lambda self, rows, counts: None)
    found.append(visit())
    for name in found[0][0]:
        np.testing.assert_array_equal(found[0][0][name], found[1][0][name])
    assert found[0][0].log_z == found[1][0].log_z
