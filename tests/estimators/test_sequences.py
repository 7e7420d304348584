"""Estimators of sequences: what goes in, what comes out, and that both forms of input mean the
same.
"""

from __future__ import annotations

import pickle
import warnings
from contextlib import nullcontext
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from estimator_cases import NAMES
from oracles import chain as brute
from scipy import sparse
from sequence_cases import N_STATES, agreement, make_sequences

import stickbreak as sb
from stickbreak.checks import check_estimator
from stickbreak.checks.estimators import SEQUENCE_CHECKS

CASE = make_sequences("gaussian")
X, STACKED, LENGTHS = CASE.sequences, CASE.stacked, CASE.lengths
ESTIMATORS = {
    "hmm": lambda **s: sb.HMM(3, random_state=0, **s),
    "hdp": lambda **s: sb.HDPHMM(5, random_state=0, **s),
}


@pytest.fixture(scope="module", params=ESTIMATORS)
def model(request):
    return ESTIMATORS[request.param]().fit(X)


def assert_same_model(a, b) -> None:
    assert a.lower_bound_ == b.lower_bound_
    np.testing.assert_array_equal(a.transmat_, b.transmat_)
    np.testing.assert_array_equal(a.weights_, b.weights_)


# ---- what goes in --------------------------------------------------------------------------------


@pytest.mark.few(1)
@pytest.mark.parametrize("name", NAMES)
def test_every_family_finds_the_states(name):
    case = make_sequences(name, (150, 120, 90, 1))
    best = sb.HMM(N_STATES, family=name, n_init=4, random_state=0).fit(case.sequences)
    assert agreement(best.labels_, case.states) > 0.93
    assert np.isfinite(best.score(case.sequences))
    unbounded = sb.HDPHMM(6, family=name, stickiness=5.0, n_init=3, random_state=0).fit(
        case.sequences
    )
    assert agreement(unbounded.labels_, case.states) > 0.9


@pytest.mark.parametrize("cls", [sb.HMM, sb.HDPHMM])
def test_lists_lengths_and_ids_mean_the_same(cls):
    make = lambda: cls(3, inference=sb.MemoizedVB(moves=None), random_state=0)
    by_list = make().fit(X)
    by_lengths = make().fit(STACKED, lengths=LENGTHS)
    names = np.array(["e", "a", "d", "b", "c"])[CASE.ids]
    by_ids = make().fit(STACKED, sequence_id=names)
    assert_same_model(by_list, by_lengths)
    assert_same_model(by_list, by_ids)
    for method in ("predict", "predict_proba", "score_samples", "filter_proba", "impute"):
        parts = getattr(by_list, method)(X)
        assert isinstance(parts, list)
        assert [len(part) for part in parts] == LENGTHS
        whole = np.concatenate(parts)
        np.testing.assert_array_equal(getattr(by_list, method)(STACKED, lengths=LENGTHS), whole)
        np.testing.assert_array_equal(getattr(by_list, method)(STACKED, sequence_id=names), whole)
    np.testing.assert_array_equal(
        by_list.score_sequences(X), by_list.score_sequences(STACKED, lengths=LENGTHS)
    )
    np.testing.assert_array_equal(np.concatenate(by_list.labels_), by_lengths.labels_)
    np.testing.assert_array_equal(by_lengths.labels_, by_lengths.predict(STACKED, lengths=LENGTHS))


def test_one_array_is_one_sequence():
    one, same = sb.HMM(2, random_state=0).fit(X[0]), sb.HMM(2, random_state=0).fit([X[0]])
    assert_same_model(one, same)
    assert one.predict(X[0]).shape == (len(X[0]),)
    assert one.score(X[0]) == same.score([X[0]])
    assert one.lower_bound_ != sb.HMM(2, random_state=0).fit(STACKED).lower_bound_


def test_symbols_as_arrays_of_one_dimension_and_as_words():
    numbers = [np.array([0, 1, 2, 1, 0, 0]), np.array([2, 2, 1])]
    words = [["a", "b", "c", "b", "a", "a"], ["c", "c", "b"]]
    settings = {"family": "categorical", "random_state": 0}
    by_number = sb.HMM(2, **settings).fit(numbers)
    by_word = sb.HMM(2, **settings).fit(words)
    by_table = sb.HMM(2, **settings).fit([part[:, None] for part in numbers])
    assert_same_model(by_number, by_word)
    assert_same_model(by_number, by_table)
    assert by_word.categories_ == {0: ["a", "b", "c"]}
    np.testing.assert_array_equal(
        by_word.predict([["c", "a"]])[0], by_number.predict([np.array([2, 0])])[0]
    )
    np.testing.assert_array_equal(by_word.predict(["c", "a"]), by_number.predict(np.array([2, 0])))
    np.testing.assert_array_equal(
        by_word.predict(np.array(["c", "a"])), by_number.predict(np.array([2, 0]))
    )
    missing = by_word.score_samples([["c", None, "a"]])[0]
    assert missing[1] == pytest.approx(0.0, abs=1e-12)  # a gap says nothing
    np.testing.assert_allclose(
        missing, by_number.score_samples([np.array([2, -1, 0])])[0], rtol=1e-12
    )


def test_words_are_kept_in_files(tmp_path):
    words = [["sun", "rain", "rain"], ["sun", "sun", "fog", "rain"]]
    model = sb.HMM(2, family="categorical", random_state=0).fit(words)
    model.save(tmp_path / "m.stickbreak")
    copy = sb.load(tmp_path / "m.stickbreak")
    assert copy.categories_ == model.categories_
    np.testing.assert_array_equal(copy.predict_proba(words)[1], model.predict_proba(words)[1])
    with pytest.raises(
        ValueError,
        match="sequence 1, row 0, column 0 is 'snow'; the model knows the categories "
        "'fog', 'rain', 'sun'",
    ):
        copy.predict([["sun"], ["snow", "sun"]])


def test_sequences_of_csr_matrices():
    case = make_sequences("multinomial")
    dense = sb.HMM(3, family="multinomial", random_state=0).fit(case.sequences)
    parts = [sparse.csr_array(part) for part in case.sequences]
    thin = sb.HMM(3, family="multinomial", random_state=0).fit(parts)
    assert thin.lower_bound_ == pytest.approx(dense.lower_bound_, rel=1e-10)
    np.testing.assert_array_equal(
        np.concatenate(thin.predict(parts)), np.concatenate(dense.labels_)
    )


def test_rows_on_disk(tmp_path):
    np.save(tmp_path / "rows.npy", STACKED)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    engine = sb.MemoizedVB()
    in_memory = sb.HMM(3, inference=engine, random_state=0).fit(STACKED, lengths=LENGTHS)
    for rows in (mapped, tmp_path / "rows.npy"):
        # the default is memoized there
        found = sb.HMM(3, random_state=0).fit(rows, lengths=LENGTHS)
        assert_same_model(found, in_memory)
        np.testing.assert_array_equal(found.labels_, in_memory.labels_)
        np.testing.assert_array_equal(found.predict(rows, lengths=LENGTHS), in_memory.labels_)


@pytest.mark.slow  # `test_moves.py` has the same of mixtures
def test_a_weight_is_a_repeat_count():
    weights = np.array([2.0, 1.0, 3.0, 1.0, 0.0])
    repeated = [part for part, w in zip(X, weights.astype(int), strict=True) for _ in range(w)]
    for engine in (sb.BatchVB(max_iter=200, tol=1e-12), sb.EM(max_iter=300, tol=1e-12)):
        weighted = sb.HMM(3, inference=engine, n_init=4, random_state=0).fit(
            X, sample_weight=weights
        )
        alike = sb.HMM(3, inference=engine, n_init=4, random_state=1, family=weighted.family_).fit(
            repeated
        )
        # other starts, the same optimum
        assert weighted.lower_bound_ == pytest.approx(alike.lower_bound_, rel=1e-7)
        assert weighted.counts_.sum() == pytest.approx(sum(map(len, repeated)), rel=1e-12)
        by_row = sb.HMM(3, inference=engine, n_init=4, random_state=0).fit(
            STACKED, lengths=LENGTHS, sample_weight=np.repeat(weights, LENGTHS)
        )
        assert_same_model(by_row, weighted)
        assert weighted.score(X, sample_weight=weights) == pytest.approx(
            weighted.score(repeated), rel=1e-12
        )


def test_known_states_stay_and_name_the_components():
    labels = [np.where(np.arange(len(z)) % 5 == 0, z, -1) for z in CASE.states]
    model = sb.HMM(3, random_state=0).fit(X, labels=labels)
    assert agreement(model.labels_, CASE.states) > 0.98
    # under their own names
    assert np.mean(np.concatenate(model.labels_) == np.concatenate(CASE.states)) > 0.98
    known = np.concatenate(labels) >= 0
    assert (np.concatenate(model.labels_)[known] == np.concatenate(CASE.states)[known]).all()
    stacked = sb.HMM(3, random_state=0).fit(STACKED, lengths=LENGTHS, labels=np.concatenate(labels))
    assert_same_model(model, stacked)


def test_all_known_states_are_counted():
    model = sb.HMM(3, random_state=0).fit(X, labels=CASE.states)
    starts = np.bincount([z[0] for z in CASE.states], minlength=3)
    np.testing.assert_allclose(model.startprob_, (starts + 0.5) / (starts + 0.5).sum(), rtol=1e-12)
    steps = np.zeros((3, 3))
    for z in CASE.states:
        np.add.at(steps, (z[:-1], z[1:]), 1)
    np.testing.assert_allclose(
        model.transmat_, (steps + 0.5) / (steps + 0.5).sum(1, keepdims=True), rtol=1e-12
    )


def test_gaps_and_a_sequence_without_any_value():
    rng = np.random.default_rng(0)
    holed = [np.where(rng.random(part.shape) < 0.2, np.nan, part) for part in X]
    holed[0][10:20] = np.nan
    empty = np.full((12, 2), np.nan)
    model = sb.HMM(3, random_state=0, n_init=3).fit([*holed, empty])
    assert agreement(model.labels_[:-1], CASE.states) > 0.9
    np.testing.assert_allclose(model.score_samples([empty])[0], 0.0, atol=1e-10)
    np.testing.assert_allclose(model.predict_proba([empty])[0].sum(1), 1.0, rtol=1e-12)
    assert model.score_sequences([empty])[0] == pytest.approx(0.0, abs=1e-10)
    filled = model.impute(holed)[0]
    there = ~np.isnan(holed[0])
    np.testing.assert_array_equal(filled[there], holed[0][there])
    assert np.isfinite(filled).all()


def test_a_dictionary_says_which_states_a_symbol_may_have(tmp_path):
    rng = np.random.default_rng(0)
    nouns, verbs, both = ["dog", "cat"], ["runs", "eats"], "fish"
    words = [[str(w) for pair in zip(rng.choice([*nouns, both], 4), rng.choice([*verbs, both], 4),
    strict=True) for w in pair]
             for _ in range(30)]  # fmt: skip
    allowed = {"dog": [0], "cat": [0], "runs": [1], "eats": [1], "bird": [0]}
    model = sb.HMM(2, family="categorical", allowed=allowed, random_state=0).fit(words)
    for sentence, states in zip(words, model.labels_, strict=True):
        for word, state in zip(sentence, states, strict=True):
            assert word == both or state == allowed[word][0]
    np.testing.assert_array_equal(
        np.concatenate(model.predict(words)), np.concatenate(model.labels_)
    )
    np.testing.assert_allclose(
        model.predict_proba([["runs", "dog"]])[0], [[0, 1], [1, 0]], atol=1e-12
    )
    now = model.online_filter()
    np.testing.assert_allclose(now.update("runs").probabilities, [0, 1], atol=1e-12)
    model.save(tmp_path / "m.stickbreak")
    np.testing.assert_array_equal(
        sb.load(tmp_path / "m.stickbreak").score_sequences(words), model.score_sequences(words)
    )
    with pytest.raises(
        ValueError, match="row 1 has a label that allowed does not give to its symbol"
    ):
        sb.HMM(2, family="categorical", allowed=allowed).fit([["dog", "runs"]], labels=[[-1, 0]])


# ---- what comes out ------------------------------------------------------------------------------


def predictive_tables(model, rows):
    """Log evidence (T, K), start and transition of held-out scores."""
    potentials = model._fitted.predictive()
    evidence = potentials.scores.evidence(model.family_.prepare(rows))
    return evidence, potentials["start"], potentials["transition"]


def fitted_tables(model, rows):
    potentials = model._fitted.potentials()
    return (
        potentials.scores.evidence(model.family_.prepare(rows)),
        potentials["start"],
        potentials["transition"],
    )


@pytest.mark.parametrize("name", ["gaussian", "categorical", "poisson"])
def test_answers_equal_enumeration_of_all_paths(name):
    case = make_sequences(name)
    model = sb.HMM(3, family=name, random_state=0).fit(case.sequences)
    new = case.sequences[0][:6].copy()
    new[3] = np.nan
    tables, own = predictive_tables(model, new), fitted_tables(model, new)
    shares, steps = brute.filtered(*tables)
    np.testing.assert_allclose(model.score_samples(new), steps, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(model.filter_proba(new), shares, rtol=1e-10, atol=1e-12)
    assert model.score(new) == pytest.approx(steps.mean(), rel=1e-10)
    assert model.score_sequences([new, new])[1] == pytest.approx(
        brute.smooth(*tables)[0], rel=1e-10
    )
    np.testing.assert_allclose(
        model.predict_proba(new), brute.smooth(*own)[1], rtol=1e-9, atol=1e-12
    )
    np.testing.assert_allclose(
        model.predict_proba(new, parameters="mean"), brute.smooth(*tables)[1], rtol=1e-9, atol=1e-12
    )
    for parameters, used in (("fitted", own), ("mean", tables)):
        path, value = brute.best_path(*used)
        found = model.decode(new, parameters=parameters)
        assert found[0] == pytest.approx(value, rel=1e-10)
        np.testing.assert_array_equal(found[1], path)
        np.testing.assert_array_equal(
            model.predict(new, method="viterbi", parameters=parameters), path
        )


def test_online_filter_equals_filter_proba(model):
    now = model.online_filter()
    np.testing.assert_allclose(now.probabilities, model.startprob_, rtol=1e-12)
    for _ in range(2):  # the second sequence begins afresh
        shares, steps = model.filter_proba(X[1]), model.score_samples(X[1])
        for t, row in enumerate(X[1]):
            found = now.update(row)
            np.testing.assert_allclose(found.probabilities, shares[t], rtol=1e-9, atol=1e-12)
            assert found.log_predictive == pytest.approx(steps[t], rel=1e-10)
        now.reset()


def test_tables_are_probabilities(model):
    np.testing.assert_allclose(model.transmat_.sum(1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(model.startprob_.sum(), 1.0, rtol=1e-12)
    np.testing.assert_allclose(model.stationary_ @ model.transmat_, model.stationary_, atol=1e-12)
    np.testing.assert_allclose(model.weights_.sum(), 1.0, rtol=1e-12)
    np.testing.assert_allclose(model.durations_, 1 / (1 - np.diag(model.transmat_)), rtol=1e-12)
    assert model.counts_.sum() == pytest.approx(len(STACKED), rel=1e-10)


def test_stationary_shares_of_a_chain_in_two_parts():
    prior = np.array(
        [[1.0, 1.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 1.0]]
    )
    model = sb.HMM(4, transition_prior=prior, random_state=0).fit(X)
    assert (model.transmat_[prior == 0] == 0).all()
    np.testing.assert_allclose(model.stationary_ @ model.transmat_, model.stationary_, atol=1e-6)
    assert model.stationary_[:2].sum() == pytest.approx(model.startprob_[:2].sum(), abs=1e-6)


def test_forecast_follows_the_chain(model):
    found = model.forecast(X, 4)
    last = np.stack([shares[-1] for shares in model.filter_proba(X)])
    K = model.n_components_
    assert found.states.shape == (len(X), 4, K)
    assert found.rows.shape == (len(X), 4, 2)
    for h in range(4):
        expected = last @ np.linalg.matrix_power(model.transmat_, h + 1)
        np.testing.assert_allclose(found.states[:, h], expected, rtol=1e-10)
        np.testing.assert_allclose(found.rows[:, h], expected @ model.means_, rtol=1e-8, atol=1e-10)
    far = model.forecast(X[0], 500).states[0, -1]
    np.testing.assert_allclose(far, model.stationary_, atol=1e-8)


@pytest.mark.parametrize("name", NAMES)
def test_every_family_samples_and_forecasts(name):
    case = make_sequences(name)
    model = sb.HMM(3, family=name, random_state=0).fit(case.sequences)
    drawn, states = model.sample(lengths=[5, 9], random_state=1)
    assert [part.shape for part in drawn] == [
        (5, case.stacked.shape[1]),
        (9, case.stacked.shape[1]),
    ]
    assert [len(z) for z in states] == [5, 9]
    rows, path = model.sample(7, random_state=1)
    assert (rows.shape, path.shape) == ((7, case.stacked.shape[1]), (7,))
    assert np.isfinite(model.score(drawn))
    assert np.isfinite(model.forecast(case.sequences, 3).rows).all()


def test_samples_have_the_steps_of_the_model():
    model = sb.HMM(3, random_state=0).fit(X)
    _, states = model.sample(20_000, random_state=0)
    steps = np.zeros((3, 3))
    np.add.at(steps, (states[:-1], states[1:]), 1)
    # four standard errors
    np.testing.assert_allclose(steps / steps.sum(1, keepdims=True), model.transmat_, atol=0.02)


# ---- autoregressions -----------------------------------------------------------------------------

LAGGED = make_sequences("autoregressive", (200, 150, 100))


@pytest.mark.parametrize("order", [1, 2])
def test_sequences_carry_their_own_past(order):
    family = sb.AutoregressiveGaussian(order=order)
    model = sb.HMM(3, family=family, random_state=0).fit(LAGGED.sequences)
    rows, offsets = sb.lag_rows(LAGGED.stacked, np.r_[0, np.cumsum(LAGGED.lengths)], order)
    values, contexts = rows[:, :2], rows[:, 2:]
    ready = sb.HMM(3, family=family, random_state=0).fit(
        values, context=contexts, lengths=np.diff(offsets)
    )
    assert_same_model(model, ready)
    assert model.n_features_in_ == ready.n_features_in_ == 2
    assert [len(z) for z in model.labels_] == LAGGED.lengths
    for states, (a, b) in zip(model.predict(LAGGED.sequences), pairwise(offsets), strict=True):
        np.testing.assert_array_equal(states[order:], ready.labels_[a:b])
        assert (states[:order] == states[order]).all()
    scores = model.score_samples(LAGGED.sequences)
    assert all(np.isnan(s[:order]).all() and np.isfinite(s[order:]).all() for s in scores)
    assert model.score(LAGGED.sequences) == pytest.approx(
        np.nanmean(np.concatenate(scores)), rel=1e-12
    )
    assert model.score(LAGGED.sequences) == ready.score(
        values, context=contexts, lengths=np.diff(offsets)
    )
    parts = [values[a:b] for a, b in pairwise(offsets)]
    before = [contexts[a:b] for a, b in pairwise(offsets)]
    assert model.score(parts, context=before) == model.score(LAGGED.sequences)


def test_labels_of_context_rows_are_left_out():
    labels = [z.copy() for z in LAGGED.states]
    for z in labels:
        z[0] = 2  # of a row that is context only
    model = sb.HMM(3, family="autoregressive", random_state=0).fit(LAGGED.sequences, labels=labels)
    found = np.concatenate([z[1:] for z in model.labels_])
    np.testing.assert_array_equal(found, np.concatenate([z[1:] for z in LAGGED.states]))


def test_online_filter_of_an_autoregression():
    model = sb.HMM(3, family=sb.AutoregressiveGaussian(order=2), random_state=0).fit(
        LAGGED.sequences
    )
    rows = LAGGED.sequences[2][:30]
    shares, steps, now = model.filter_proba(rows), model.score_samples(rows), model.online_filter()
    for t, row in enumerate(rows):
        found = now.update(row)
        if t < 2:
            assert np.isnan(found.log_predictive)
        else:
            np.testing.assert_allclose(found.probabilities, shares[t], rtol=1e-9, atol=1e-12)
            assert found.log_predictive == pytest.approx(steps[t], rel=1e-9)


def test_forecast_of_an_autoregression_is_the_mean_of_many_paths():
    model = sb.HMM(3, family="autoregressive", random_state=0).fit(LAGGED.sequences)
    found, K = model.forecast(LAGGED.sequences[:1], 3), 3
    last, P = model.filter_proba(LAGGED.sequences[0])[-1], model.transmat_
    A, b = model.posterior_["coefficients"], model.posterior_["intercept"]
    means = np.zeros((3, 2))
    for h in range(3):
        for path in brute.all_paths(h + 2, K):  # the state now, and those of the rows ahead
            chance, x = last[path[0]], LAGGED.sequences[0][-1]
            for before, k in pairwise(path):
                chance, x = chance * P[before, k], A[k] @ x + b[k]
            means[h] += chance * x
    np.testing.assert_allclose(found.rows[0], means, rtol=1e-9, atol=1e-12)


def test_gaps_in_an_autoregression():
    holed = [part.copy() for part in LAGGED.sequences]
    holed[0][50] = np.nan
    with pytest.warns(sb.DataWarning, match="2 of 447 rows lack an entry"):
        model = sb.HMM(3, family="autoregressive", random_state=0).fit(holed)
    steps = model.score_samples(holed)[0]
    np.testing.assert_allclose(steps[50:52], 0.0, atol=1e-10)
    filled = model.impute(holed)
    assert [part.shape for part in filled] == [part.shape for part in holed]
    assert np.isfinite(filled[0]).all()
    np.testing.assert_array_equal(filled[1], holed[1])


# ---- engines, streams, files ---------------------------------------------------------------------


@pytest.mark.few(3)
@pytest.mark.parametrize("engine", ["batch", "memoized", "stochastic", "em", "hard-em"])
@pytest.mark.parametrize("cls", [sb.HMM, sb.HDPHMM])
def test_every_engine_finds_the_states(cls, engine):
    case = make_sequences("gaussian", (80,) * 12, seed=1)
    if engine == "stochastic":
        engine = sb.StochasticVB(batch_size=4, tol=0.01)
    model = cls(3, inference=engine, random_state=0, n_init=3).fit(case.sequences)
    assert agreement(model.labels_, case.states) > 0.98
    assert np.isfinite(model.lower_bound_)
    np.testing.assert_array_equal(
        np.concatenate(model.labels_), np.concatenate(model.predict(case.sequences))
    )
    np.testing.assert_array_equal(
        model.predict_proba(case.sequences)[3].argmax(1), model.labels_[3]
    )


def test_hard_em_predicts_the_best_path():
    model = sb.HMM(3, inference="hard-em", random_state=0).fit(X)
    np.testing.assert_array_equal(
        np.concatenate(model.predict(X)), np.concatenate(model.decode(X)[1])
    )


@pytest.mark.parametrize(("lengths", "n_steps"), [((4,) * 200, 3), ((8000,) * 3, 3)])
def test_a_stochastic_step_takes_64_sequences_or_8192_rows_unless_told(lengths, n_steps):
    many = make_sequences("gaussian", lengths)
    steps = []
    engine = sb.StochasticVB(max_iter=1, callbacks=(StepCounter(steps),))
    with pytest.warns(sb.ConvergenceWarning):
        sb.HMM(2, inference=engine, random_state=0).fit(many.sequences)
    assert len(steps) == n_steps  # 200 / 64; 3 long sequences, one a step
    assert sum(steps) == sum(lengths)


class StepCounter(sb.Callback):
    """Rows of each step."""

    def __init__(self, steps: list[float]) -> None:
        self.steps = steps

    def on_step(self, info) -> None:
        self.steps.append(info.n_observations)


def test_results_do_not_depend_on_n_jobs():
    case = make_sequences("gaussian", (3000,) * 10)
    one, two = (sb.HMM(3, random_state=0, n_jobs=n).fit(case.sequences) for n in (1, 2))
    assert_same_model(one, two)
    for method in ("predict", "predict_proba", "score_samples", "filter_proba"):
        for a, b in zip(
            getattr(one, method)(case.sequences), getattr(two, method)(case.sequences), strict=True
        ):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("cls", [sb.HMM, sb.HDPHMM])
def test_a_stream_of_sequences(cls):
    case = make_sequences("gaussian", (80,) * 12, seed=1)
    model = cls(3, random_state=0)
    for part in (case.sequences[:6], case.sequences[6:9], case.sequences[9:]):
        model.partial_fit(part)
    assert model.counts_.sum() == pytest.approx(960, rel=1e-12)
    assert agreement(model.predict(case.sequences), case.states) > 0.97
    root = dict(model._fitted.params.arrays).get("root")
    # what was learned of the root stays: it begins with equal shares
    assert root is None or np.ptp(root) > 0.01
    steps = cls(3, random_state=0)
    for part in (case.sequences[:6], case.sequences[6:]):
        steps.partial_fit(part, total_samples=12)
    # the start, of blocks without their first rows, fades
    assert steps.counts_.sum() == pytest.approx(960, rel=0.05)


def test_warm_start_goes_on_from_where_it_was():
    engine = sb.BatchVB(max_iter=2)
    first = sb.HMM(3, random_state=0, init="blocks", inference=engine, warm_start=True)
    with pytest.warns(sb.ConvergenceWarning):
        first.fit(X)
    before = first.lower_bound_
    first.set_params(inference=sb.BatchVB()).fit(X)
    assert first.lower_bound_ > before


# ---- learned concentrations ----------------------------------------------------------------------

NUMBERS = ("concentration", "start_concentration", "top_concentration", "stickiness")


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "inference",
    [
        sb.BatchVB(moves=None),
        sb.MemoizedVB(n_batches=3, moves=(sb.Birth(), sb.Merge(), sb.Delete())),
    ],
)
def test_all_concentrations_are_learned_and_the_bound_never_drops(inference):
    model = sb.HDPHMM(
        5, inference=inference, random_state=0, **dict.fromkeys(NUMBERS, sb.GammaPrior(2.0, 1.0))
    ).fit(X)
    bounds = np.array([lap.bound for lap in model.trace_.laps if lap.bound is not None])
    assert (np.diff(bounds) >= -1e-10 * np.abs(bounds[1:])).all()
    for name in NUMBERS:
        assert getattr(model, f"{name}_") > 0
        # the prior's mean, where they begin
        assert getattr(model, f"{name}_") != pytest.approx(2.0, rel=1e-3)
    low, high = model.top_concentration_interval_
    assert low < model.top_concentration_ < high


def test_learned_concentrations_with_sure_priors_are_given_ones():
    """Gamma priors with a standard deviation of 0.3 % of their means."""
    given = {
        "concentration": 0.5,
        "start_concentration": 4.0,
        "top_concentration": 3.0,
        "stickiness": 5.0,
    }
    sure = {name: sb.GammaPrior(1e5, 1e5 / value) for name, value in given.items()}
    known, learned = (
        sb.HDPHMM(4, inference=sb.BatchVB(moves=None), random_state=0, **settings).fit(X)
        for settings in (given, sure)
    )
    for name, value in given.items():
        assert getattr(known, f"{name}_") == value
        assert getattr(learned, f"{name}_") == pytest.approx(value, rel=1e-2)
    np.testing.assert_array_equal(known.top_concentration_interval_, 3.0)
    np.testing.assert_allclose(learned.transmat_, known.transmat_, atol=1e-3)


def test_more_states_teach_a_larger_top_concentration():
    """The states of all rows are known: two of them, or twelve."""
    rng, found = np.random.default_rng(0), []
    for n_states in (2, 12):
        paths = [rng.integers(n_states, size=200) for _ in range(4)]
        rows = [path[:, None] + rng.normal(size=(200, 1)) for path in paths]
        model = sb.HDPHMM(
            n_states, top_concentration=sb.GammaPrior(1.0, 0.1), inference="batch"
        ).fit(rows, labels=paths)
        found.append(model.top_concentration_)
    assert found[0] < 1.5
    assert found[1] > 2.5


@pytest.mark.few(3)
@pytest.mark.parametrize(
    "name", ["hmm", "hdp", "autoregressive", "em", "point", "priors", "learned"]
)
def test_files_and_pickles_give_the_same_model_back(name, tmp_path):
    still = sb.MemoizedVB(moves=None)
    case = LAGGED if name == "autoregressive" else CASE
    with pytest.warns(sb.StickbreakWarning) if name == "point" else nullcontext():
        model = {
            "hmm": lambda: sb.HMM(3, stickiness=2.0, random_state=0),
            "hdp": lambda: sb.HDPHMM(4, stickiness=2.0, inference=still, random_state=0),
            "autoregressive": lambda: sb.HDPHMM(
                4, family=sb.AutoregressiveGaussian(order=2), inference=still, random_state=0
            ),
            "em": lambda: sb.HDPHMM(4, inference="em", random_state=0),
            "point": lambda: sb.HDPHMM(4, root="point", inference=still, random_state=0),
            "priors": lambda: sb.HMM(
                3, start_prior=np.ones(3), transition_prior=np.eye(3) + 0.1, random_state=0
            ),
            "learned": lambda: sb.HDPHMM(
                4,
                inference=still,
                random_state=0,
                **dict.fromkeys(NUMBERS, sb.GammaPrior(2.0, 1.0)),
            ),
        }[name]().fit(case.sequences)
        model.save(tmp_path / "m.stickbreak")
        copies = [sb.load(tmp_path / "m.stickbreak"), pickle.loads(pickle.dumps(model))]
    for copy in copies:
        assert_same_model(copy, model)
        for method in ("predict", "predict_proba", "score_samples", "filter_proba"):
            for a, b in zip(
                getattr(copy, method)(case.sequences),
                getattr(model, method)(case.sequences),
                strict=True,
            ):
                np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(
            copy.forecast(case.sequences, 2).rows, model.forecast(case.sequences, 2).rows
        )
        assert copy.n_features_in_ == 2
    if name == "learned":
        for number in NUMBERS:
            assert getattr(copies[0], f"{number}_") == getattr(model, f"{number}_") > 0
    with pytest.raises(AttributeError, match="labels_ are not kept in files"):
        _ = copies[0].labels_


@pytest.mark.slow  # `inference/test_checkpoints.py` has other models
def test_an_interrupted_fit_is_resumed_to_the_same_bits(tmp_path):
    settings = {"n_batches": 3, "checkpoint": str(tmp_path / "c"), "checkpoint_every": 0.0}
    whole = sb.HDPHMM(4, inference=sb.MemoizedVB(n_batches=3), random_state=0).fit(X)
    half = sb.HDPHMM(
        4, inference=sb.MemoizedVB(**settings, callbacks=(StopAfter(3),)), random_state=0
    )
    half.fit(X)
    assert half.n_iter_ == 3
    assert_same_model(sb.resume(tmp_path / "c", X), whole)
    assert_same_model(sb.resume(tmp_path / "c", STACKED, lengths=LENGTHS), whole)
    with pytest.raises(sb.CheckpointError, match="data"):
        sb.resume(tmp_path / "c", STACKED, lengths=[*LENGTHS[:-2], LENGTHS[-2] + LENGTHS[-1]])


class StopAfter(sb.Callback):
    """Ends a fit after some laps."""

    def __init__(self, laps: int) -> None:
        self.laps = laps

    def on_lap(self, record) -> None:
        if record.lap >= self.laps:
            raise StopIteration


@pytest.mark.slow
@pytest.mark.parametrize("cls", [sb.HMM, sb.HDPHMM])
def test_the_public_battery_passes(cls):
    found = check_estimator(cls(3, random_state=0), STACKED)
    by_status = {
        s: {r["check_name"] for r in found if r["status"] == s}
        for s in ("passed", "failed", "xfail", "skipped")
    }
    assert len(by_status["passed"]) >= 40
    assert by_status["failed"] == set()
    assert by_status["xfail"] <= set(SEQUENCE_CHECKS)  # by name, with their reasons
    assert by_status["skipped"] <= {"check_array_api_input"}  # it needs an environment variable


def test_very_long_sequences_are_filtered_in_pieces(monkeypatch):
    model = sb.HMM(3, random_state=0).fit(X)
    whole = {
        name: getattr(model, name)(STACKED)
        for name in ("filter_proba", "score_samples", "predict_proba", "predict")
    }
    ahead = model.forecast(STACKED, 2).states
    # blocks of 64 rows: the sequence takes four
    monkeypatch.setattr("stickbreak.structures.chain.structure.BLOCK_NUMBERS", 1)
    assert model._fitted.model.block_rows(3) == 64
    for name, expected in whole.items():
        np.testing.assert_allclose(
            getattr(model, name)(STACKED), expected, rtol=1e-9, atol=1e-11, err_msg=name
        )
    np.testing.assert_allclose(model.forecast(STACKED, 2).states, ahead, rtol=1e-9)
    np.testing.assert_allclose(
        model.forecast([STACKED, X[0]], 2).states[1], model.forecast(X[0], 2).states[0], rtol=1e-9
    )


@pytest.mark.slow
def test_n_init_keeps_the_best_bound():
    found = [sb.HMM(3, random_state=0, n_init=n).fit(X).lower_bound_ for n in (1, 4)]
    assert found[1] >= found[0]


def test_compare_puts_chains_beside_mixtures():
    table = sb.compare(
        [
            sb.Mixture(3, random_state=0).fit(STACKED),
            sb.HMM(3, random_state=0, n_init=4).fit(STACKED),
        ],
        STACKED,
    )
    assert table[1].bound > table[0].bound
    assert table[1].score > table[0].score


def test_xarray_names_the_transitions():
    found = sb.HMM(3, random_state=0).fit(X).to_xarray()
    assert found["transition"].dims == ("component", "next_component")
    np.testing.assert_allclose(found["transition"].sum("next_component"), 1.0)


def test_weights_do_not_change_answers_for_new_rows(model):
    table = model._use(model._given(X))[1]
    weighted = replace(table, repeats=np.full(table.n_rows, 2.0))
    shares = model._fitted.model.shares(model._fitted.potentials(), weighted.whole())
    np.testing.assert_allclose(shares, np.concatenate(model.predict_proba(X)), rtol=1e-12)


@pytest.mark.parametrize(
    "inference",
    [sb.Gibbs(max_iter=30), sb.SubchainVB(subchain_length=10, n_subchains=4, max_iter=8)],
)
@pytest.mark.parametrize("make", [sb.HMM, sb.HDPHMM])
def test_fits_by_draws_and_by_windows_are_kept_in_files(make, inference, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sb.ConvergenceWarning)
        model = make(3, inference=inference, random_state=0).fit(X)
    model.save(tmp_path / "m.stickbreak")
    again = sb.load(tmp_path / "m.stickbreak")
    assert again.score(X) == model.score(X)
    np.testing.assert_array_equal(again.transmat_, model.transmat_)
    np.testing.assert_allclose(model.transmat_.sum(1), 1.0)
