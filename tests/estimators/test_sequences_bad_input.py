"""Bad sequences and settings of chains: one clear error that names the value, and nothing
changed.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sequence_cases import make_sequences

import stickbreak as sb

CASE = make_sequences("gaussian")
X, STACKED, LENGTHS = CASE.sequences, CASE.stacked, CASE.lengths
N = len(STACKED)
SYMBOLS = [np.array([0, 1, 2, 1]), np.array([2, 0])]


def assert_refused(match: str, act) -> None:
    with pytest.raises(ValueError, match=match) as caught:
        act()
    assert 10 < len(str(caught.value).split("\n")[0]) < 400


WHERE = {
    "lengths that are too short": (
        {"lengths": LENGTHS[:-1]},
        f"lengths sums to {N - 33} but X has {N} rows",
    ),
    "lengths that are too long": (
        {"lengths": [*LENGTHS, 5]},
        f"lengths sums to {N + 5} but X has {N} rows",
    ),
    "an empty sequence": (
        {"lengths": [*LENGTHS, 0]},
        "sequence 5 has length 0; every sequence needs at least one row",
    ),
    "a negative length": ({"lengths": [-1, N + 1]}, "sequence 0 has length -1"),
    "fractional lengths": ({"lengths": [0.5, N - 0.5]}, "lengths must be a list of whole numbers"),
    "one number": ({"lengths": N}, "lengths must be a list of whole numbers"),
    "no lengths": ({"lengths": []}, "lengths must be a list of whole numbers"),
    "lengths and ids": (
        {"lengths": LENGTHS, "sequence_id": CASE.ids},
        "lengths and sequence_id say the same",
    ),
    "ids that are too few": (
        {"sequence_id": CASE.ids[1:]},
        rf"sequence_id has shape \({N - 1},\) "
        rf"but X has {N} rows",
    ),
    "ids that come back": (
        {"sequence_id": np.arange(N) % 2},
        "sequence_id .*0.* begins again at row 2; .*sort them",
    ),
    "an id that is missing": (
        {"sequence_id": np.where(np.arange(N) == 7, np.nan, 1.0)},
        "row 7 has no sequence_id",
    ),
    "a column of an array": (
        {"sequence_id": "who"},
        "sequence_id='who' names a column, but X is neither",
    ),
    "weights of neither": (
        {"lengths": LENGTHS, "sample_weight": np.ones(3)},
        "sample_weight has shape .*each of the 5 sequences",
    ),
    "uneven weights": (
        {"lengths": LENGTHS, "sample_weight": np.r_[np.ones(70), np.full(N - 70, 2.0)]},
        "sample_weight holds 1 and 2 within sequence 1; a sequence counts as a whole",
    ),
    "negative weights": ({"lengths": LENGTHS, "sample_weight": [1, 1, -1, 1, 1]}, "[Nn]egative"),
    "no weight": ({"lengths": LENGTHS, "sample_weight": np.zeros(5)}, "at least one"),
    "labels that are too few": (
        {"lengths": LENGTHS, "labels": np.zeros(3)},
        rf"labels has shape \(3,\) but X has {N} rows",
    ),
    "labels that are too large": ({"labels": np.full(N, 3)}, "labels holds 3; with n_components=3"),
    "context of a family without": (
        {"context": STACKED},
        "context is for autoregressive families; Gaussian has none",
    ),
}


@pytest.mark.parametrize("case", WHERE)
def test_bad_places_are_refused(case):
    settings, message = WHERE[case]
    for method in ("fit", "partial_fit"):
        assert_refused(
            message, lambda m=method: getattr(sb.HMM(3, random_state=0), m)(STACKED, **settings)
        )


USED = [name for name in WHERE if not {"sample_weight", "labels"} & set(WHERE[name][0])]


@pytest.mark.parametrize("case", USED)
def test_bad_places_are_refused_by_a_fitted_model(case):
    settings, message = WHERE[case]
    model = sb.HMM(3, random_state=0).fit(X)
    for method in (
        "predict",
        "predict_proba",
        "score",
        "score_samples",
        "score_sequences",
        "filter_proba",
        "forecast",
        "decode",
    ):
        assert_refused(message, lambda m=method: getattr(model, m)(STACKED, **settings))


LISTS = {
    "an empty sequence": ("gaussian", [X[0], X[1][:0]], "sequence 1 has no rows"),
    "other columns": ("gaussian", [X[0], X[1][:, :1]], "sequence 1 has 1 columns, the first has 2"),
    "three dimensions": ("gaussian", [X[0], X[1][None]], r"sequence 1 has shape \(1, 45, 2\)"),
    "rows or sequences": (
        "gaussian",
        [X[0][0], X[0][1]],
        "X is a list of arrays of one dimension, which may be rows or sequences",
    ),
    "an infinite value": (
        "poisson",
        [np.ones((3, 2)), np.array([[1.0, -2.0]])],
        "sequence 1, row 0, column 1 is -2.0",
    ),
    "ragged lists": ("categorical", [[0, 1], [1]], "X is a list of lists of different lengths"),
    "words and numbers": (
        "categorical",
        [["a", "b"], [0, 1]],
        "sequence 0 holds words, sequence 1 numbers",
    ),
    "words among numbers": ("categorical", [["a", 1]], "X holds both strings and numbers"),
    "words for vectors": ("gaussian", [["a", "b"]], "could not convert string to float: .*'a'"),
    "frames and arrays": (
        "gaussian",
        [pd.DataFrame(X[0]), X[1]],
        "sequence 1 is a ndarray, the first is a DataFrame",
    ),
    "sparse and dense": (
        "multinomial",
        [sparse.csr_array(np.eye(2)), np.eye(2)],
        "sequence 1 is a ndarray",
    ),
}


@pytest.mark.parametrize("case", LISTS)
def test_bad_lists_are_refused(case):
    family, rows, message = LISTS[case]
    assert_refused(message, lambda: sb.HMM(2, family=family, random_state=0).fit(rows))


def test_lists_go_with_lists():
    assert_refused(
        "X is a list of sequences, so labels must be a list too",
        lambda: sb.HMM(2).fit(X, labels=np.zeros(N)),
    )
    assert_refused(
        "labels has 4 entries but X has 5 sequences",
        lambda: sb.HMM(2).fit(X, labels=CASE.states[:4]),
    )
    labels = [z[1:] for z in CASE.states]
    assert_refused(
        "labels of sequence 0 has shape .59,., but the sequence has 60 rows",
        lambda: sb.HMM(3).fit(X, labels=labels),
    )


def test_an_unknown_symbol_is_named():
    model = sb.HMM(2, family="categorical", random_state=0).fit(SYMBOLS)
    message = "sequence 1, row 2, column 0 is 7.0; symbols are whole numbers below 3"
    for method in ("predict", "score", "forecast", "partial_fit"):
        assert_refused(
            message, lambda m=method: getattr(model, m)([SYMBOLS[0], np.array([0, 1, 7])])
        )
    assert_refused("row 2, column 0 is 7.0", lambda: model.predict(np.array([0, 1, 7])))
    assert_refused(
        "is 7.0; symbols are whole numbers below 3", lambda: model.online_filter().update(7)
    )
    words = sb.HMM(2, family="categorical", random_state=0).fit([["a", "b"], ["b"]])
    assert_refused(
        "is 'z'; the model knows the categories 'a', 'b'", lambda: words.predict([["a", "z"]])
    )
    assert_refused(
        "is 'z'; the model knows the categories 'a', 'b'", lambda: words.online_filter().update("z")
    )
    assert_refused(
        "column 0 holds words such as 'a', but the model was fitted on numbers",
        lambda: model.predict([["a"]]),
    )


def test_sequences_that_are_shorter_than_the_order():
    model = sb.HMM(2, family=sb.AutoregressiveGaussian(order=2))
    assert_refused("sequence 2 has 1 rows, but order=2 needs at least 3", lambda: model.fit(X))
    fitted = model.fit([part for part in X if len(part) > 2])
    assert_refused(
        "sequence 0 has 2 rows, but order=2 needs at least 3", lambda: fitted.predict([X[0][:2]])
    )
    assert_refused(
        "lengths must be above the order 2 of the autoregression; got 2", lambda: fitted.sample(2)
    )
    wrong = r"context has shape \(60, 2\); expected \(60, 4\): for every row the 2 before it"
    assert_refused(wrong, lambda: fitted.predict(X[0], context=X[0]))
    assert_refused("so context must be a list too", lambda: fitted.predict([X[0]], context=X[0]))
    assert_refused(
        "context holds infinity", lambda: fitted.predict(X[0], context=np.full((60, 4), np.inf))
    )


PRIORS = {
    "start of another shape": (
        {"start_prior": np.ones(2)},
        "start_prior and transition_prior are for 2 states, but there are 3",
    ),
    "table of another shape": (
        {"transition_prior": np.ones((3, 2))},
        r"transition_prior must have "
        r"shape \(K, K\); got \(3, "
        r"2\)",
    ),
    "table for start": (
        {"start_prior": np.ones((3, 3))},
        r"start_prior must have shape \(K,\); "
        r"got \(3, 3\)",
    ),
    "negative": (
        {"start_prior": [1.0, -1.0, 1.0]},
        "start_prior must hold numbers of at least zero; entry 1 is -1.0",
    ),
    "not a number": (
        {"transition_prior": np.full((3, 3), np.nan)},
        "transition_prior must hold numbers of at least zero",
    ),
    "nothing possible": (
        {"transition_prior": np.diag([1.0, 0.0, 1.0])},
        "leaves nothing possible in row 1",
    ),
    "stickiness twice": (
        {"transition_prior": np.ones((3, 3)), "stickiness": 2.0},
        "stickiness=2.0 is not used with",
    ),
    "concentration": ({"concentration": 0.0}, "concentration must be a positive number; got 0.0"),
    "start concentration": (
        {"start_concentration": -1},
        "start_concentration must be a positive number; got -1",
    ),
    "stickiness": ({"stickiness": -1.0}, "stickiness must be zero or a positive number; got -1.0"),
    "init": (
        {"init": "k-means"},
        "unknown init 'k-means'; choose one of auto, collapsed, blocks, random-blocks, k-means",
    ),
    "dictionary of vectors": (
        {"allowed": {0: [1]}},
        "allowed is for families of symbols such as Categorical",
    ),
    "dictionary": (
        {"allowed": [1], "family": "categorical"},
        "allowed must map symbols to lists of states",
    ),
    "state of a dictionary": (
        {"allowed": {0: [3]}, "family": "categorical"},
        r"allowed\[0\] holds 3; .*states are 0 to 2",
    ),
    "empty dictionary": ({"allowed": {1: []}, "family": "categorical"}, r"allowed\[1\] is empty"),
    "word for a number": (
        {"allowed": {"a": [1]}, "family": "categorical"},
        "allowed has the symbol 'a', but the data are numbered",
    ),
}


@pytest.mark.parametrize("case", PRIORS)
def test_bad_settings_of_a_finite_chain(case):
    settings, message = PRIORS[case]
    rows = SYMBOLS if settings.get("family") == "categorical" else X
    assert_refused(message, lambda: sb.HMM(3, **settings).fit(rows))


UNBOUNDED = {
    "root": ({"root": "gamma"}, "root must be 'beta', 'point' or 'tables'; got 'gamma'"),
    "concentration": ({"concentration": 0}, "concentration must be a positive number; got 0"),
    "top": (
        {"top_concentration": "many"},
        "top_concentration must be a positive number; got 'many'",
    ),
    "start": (
        {"start_concentration": np.inf},
        "start_concentration must be a positive number; got inf",
    ),
    "stickiness": ({"stickiness": 1e-9}, "stickiness=1e-09 is too small"),
    "learned by EM": (
        {"stickiness": sb.GammaPrior(1.0, 1.0), "inference": "em"},
        "stickiness=.* needs a variational engine",
    ),
    "gamma": ({"concentration": sb.GammaPrior(-1.0, 1.0)}, "must be a positive number; got -1.0"),
}


@pytest.mark.parametrize("case", UNBOUNDED)
def test_bad_settings_of_an_unbounded_chain(case):
    settings, message = UNBOUNDED[case]
    assert_refused(message, lambda: sb.HDPHMM(3, **settings).fit(X))


def test_bad_questions():
    model = sb.HMM(2, random_state=0).fit(X)
    assert_refused(
        "unknown method 'best'; choose one of marginal, viterbi",
        lambda: model.predict(X, method="best"),
    )
    assert_refused(
        "unknown parameters 'mode'; choose one of fitted, mean",
        lambda: model.predict(X, parameters="mode"),
    )
    assert_refused(
        "horizon must be a whole number of at least 1; got 0", lambda: model.forecast(X, 0)
    )
    assert_refused("n_samples must be a whole number of at least 1; got 0", lambda: model.sample(0))
    assert_refused(
        "length must be a whole number of at least 1; got 0", lambda: model.sample(lengths=[3, 0])
    )
    assert_refused(
        "the row has 3 values, but the model expects 2",
        lambda: model.online_filter().update(np.ones(3)),
    )
    assert_refused(
        "the row holds inf; values must be finite",
        lambda: model.online_filter().update([np.inf, 0.0]),
    )
    few = sb.BatchVB(max_active=1, candidates=2)
    assert_refused(
        "candidates=2 is not for Chain, .* use candidates=None",
        lambda: sb.HMM(2, inference=few).fit(X),
    )


def test_a_refused_fit_leaves_the_model_as_it_was():
    model = sb.HMM(2, random_state=0).fit(X)
    before, labels = model.score(X), model.labels_
    assert_refused("lengths sums to", lambda: model.fit(STACKED, lengths=[3]))
    assert model.score(X) == before
    np.testing.assert_array_equal(model.labels_[0], labels[0])


METHODS = ("fit", "fit_predict", "partial_fit", "resume", "score")


@pytest.mark.parametrize("method", METHODS)
def test_lengths_in_the_place_of_targets_are_refused_with_the_remedy(method):
    model = sb.HMM(2, random_state=0, inference=sb.BatchVB(max_iter=2, tol=1e9)).fit(STACKED)
    remedy = rf"by name: lengths=\[{LENGTHS[0]}, {LENGTHS[1]}, "
    assert_refused(remedy, lambda: getattr(model, method)(STACKED, list(LENGTHS)))
    assert_refused(remedy, lambda: getattr(model, method)(STACKED, np.array(LENGTHS)))
    assert_refused(rf"lengths=\[{N}\]", lambda: getattr(model, method)(STACKED, [N]))
    assert_refused("lengths of sequences by name", lambda: getattr(model, method)(STACKED, 0.5))
    assert_refused(
        "lengths of sequences by name", lambda: getattr(model, method)(STACKED, np.zeros(N - 1))
    )


def test_targets_are_ignored():
    make = lambda: sb.HMM(2, random_state=0, inference=sb.BatchVB(max_iter=2, tol=1e9))
    plain, listed = make().fit(STACKED), make().fit(X)
    for y in (None, np.zeros(N), list("ab" * N)[:N], np.ones((N, 2)), pd.Series(np.ones(N))):
        assert make().fit(STACKED, y).lower_bound_ == plain.lower_bound_
        assert plain.score(STACKED, y) == plain.score(STACKED)
    for y in (np.zeros(len(X)), [np.zeros(len(x)) for x in X], np.zeros(N)):
        assert make().fit(X, y).lower_bound_ == listed.lower_bound_
    apart = make().fit(STACKED, np.zeros(len(X)), lengths=LENGTHS)
    assert apart.lower_bound_ == listed.lower_bound_
