"""Chains in scikit-learn's company: cross-validation by sequences, searches, pipelines, routed ids,
data frames, imports.
"""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sequence_cases import make_sequences
from sklearn.base import BaseEstimator, DensityMixin, clone
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags

import stickbreak as sb

CASE = make_sequences("gaussian", (40, 30, 50, 20, 45, 35))
X, IDS, LENGTHS = CASE.stacked, CASE.ids, CASE.lengths
MODEL = sb.HMM(3, random_state=0)


@pytest.mark.parametrize("cls", [sb.HMM, sb.HDPHMM])
def test_no_tag_is_switched_off(cls):
    class Plain(DensityMixin, BaseEstimator):
        pass

    expected = get_tags(Plain())
    expected.input_tags.allow_nan = True  # on, not off: NaN is a missing entry
    assert get_tags(cls()) == expected


def by_hand(folds: int) -> list[float]:
    """Fit and score of each fold, sequence by sequence."""
    found = []
    for train, test in GroupKFold(folds).split(X, groups=IDS):
        model = clone(MODEL).fit([CASE.sequences[s] for s in np.unique(IDS[train])])
        found.append(model.score([CASE.sequences[s] for s in np.unique(IDS[test])]))
    return found


@pytest.mark.slow
def test_group_folds_split_sequences_by_their_ids():
    with sklearn.config_context(enable_metadata_routing=True):
        found = cross_validate(
            MODEL,
            X,
            cv=GroupKFold(3),
            params={"sequence_id": IDS, "groups": IDS},
            error_score="raise",
        )
    np.testing.assert_allclose(found["test_score"], by_hand(3), rtol=1e-12)


@pytest.mark.slow
def test_a_search_splits_sequences_by_their_ids():
    with sklearn.config_context(enable_metadata_routing=True):
        search = GridSearchCV(
            MODEL, {"n_components": [1, 3]}, cv=GroupKFold(3), error_score="raise"
        )
        search.fit(X, sequence_id=IDS, groups=IDS)
        assert search.score(X, sequence_id=IDS) == pytest.approx(
            search.best_estimator_.score(X, sequence_id=IDS)
        )
    assert search.best_params_ == {"n_components": 3}
    np.testing.assert_allclose(
        search.cv_results_["mean_test_score"][1], np.mean(by_hand(3)), rtol=1e-12
    )


@pytest.mark.slow
def test_without_routing_ids_reach_the_fit():
    found = cross_validate(
        MODEL,
        X,
        groups=IDS,
        cv=GroupKFold(3),
        params={"sequence_id": IDS},
        return_estimator=True,
        error_score="raise",
    )
    for model, (train, _) in zip(
        found["estimator"], GroupKFold(3).split(X, groups=IDS), strict=True
    ):
        direct = clone(MODEL).fit([CASE.sequences[s] for s in np.unique(IDS[train])])
        assert model.lower_bound_ == direct.lower_bound_


@pytest.mark.slow
def test_a_column_of_ids_travels_with_the_rows():
    frame = pd.DataFrame(X, columns=["x", "y"]).assign(who=IDS)
    found = cross_validate(MODEL, frame, groups=IDS, cv=GroupKFold(3),
    params={"sequence_id": "who"}, return_estimator=True,
                           scoring=lambda model, rows: model.score(rows, sequence_id="who"),
                           error_score="raise")  # fmt: skip
    np.testing.assert_allclose(found["test_score"], by_hand(3), rtol=1e-12)
    assert found["estimator"][0].feature_names_in_.tolist() == ["x", "y"]


def test_wrong_lengths_raise_in_cross_validation():
    with pytest.raises(ValueError, match="lengths sums to 220 but X has"):
        cross_validate(MODEL, X, cv=3, params={"lengths": LENGTHS})


def test_requests_can_be_set_by_hand():
    with sklearn.config_context(enable_metadata_routing=True):
        model = (
            sb.HMM(2).set_fit_request(lengths=True, labels=True).set_predict_request(lengths=True)
        )
        routed = clone(model).get_metadata_routing()
    assert routed.fit.requests["lengths"] is True
    assert routed.fit.requests["sequence_id"] is True  # without asking
    assert routed.predict.requests["lengths"] is True
    assert routed.score.requests["sequence_id"] is True


def test_pipeline_equals_the_steps_by_hand():
    pipe = make_pipeline(StandardScaler(), clone(MODEL)).fit(X, hmm__lengths=LENGTHS)
    scaled = StandardScaler().fit_transform(X)
    alone = clone(MODEL).fit(scaled, lengths=LENGTHS)
    np.testing.assert_array_equal(pipe.predict(X, lengths=LENGTHS), alone.labels_)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_data_frames_are_read_and_their_names_kept(make):
    parts = [make({"x": part[:, 0], "y": part[:, 1]}) for part in CASE.sequences]
    model = clone(MODEL).fit(parts)
    assert model.feature_names_in_.tolist() == ["x", "y"]
    expected = clone(MODEL).fit(CASE.sequences).lower_bound_
    # frames keep columns together: sums round in another order
    assert model.lower_bound_ == pytest.approx(expected, rel=1e-12)
    np.testing.assert_array_equal(model.predict(parts[:1])[0], model.labels_[0])
    whole = make({"who": [f"s{i}" for i in IDS], "x": X[:, 0], "y": X[:, 1]})
    by_column = clone(MODEL).fit(whole, sequence_id="who")
    assert by_column.lower_bound_ == pytest.approx(expected, rel=1e-12)
    np.testing.assert_array_equal(
        by_column.predict(whole, sequence_id="who"), np.concatenate(model.labels_)
    )
    with pytest.raises(
        ValueError, match="the data frame has no column 'when', which sequence_id names"
    ):
        clone(MODEL).fit(whole, sequence_id="when")
    with pytest.raises(ValueError, match="feature names"):
        model.predict([make({"x": X[:, 0], "z": X[:, 1]})])


def test_frames_of_words_as_sequences():
    frame = pd.DataFrame({"who": [1, 1, 1, 2, 2], "word": ["a", "b", "a", "c", "b"]})
    model = sb.HMM(2, family="categorical", random_state=0).fit(frame, sequence_id="who")
    assert model.categories_ == {"word": ["a", "b", "c"]}
    same = sb.HMM(2, family="categorical", random_state=0).fit([["a", "b", "a"], ["c", "b"]])
    assert model.lower_bound_ == same.lower_bound_


def test_names_of_an_autoregression_are_those_of_the_data():
    frame = pd.DataFrame({"x": X[:, 0], "flat": np.ones(len(X))})
    with pytest.warns(sb.DataWarning) as caught:
        model = sb.HMM(2, family="autoregressive", random_state=0).fit(frame, lengths=LENGTHS)
    assert any("'flat" in str(warning.message) for warning in caught)
    assert model.feature_names_in_.tolist() == ["x", "flat"]


def test_files_with_a_column_of_ids(tmp_path):
    table = np.column_stack([IDS, X])
    np.savetxt(
        tmp_path / "rows.csv", table, delimiter=",", header="who,x,y", comments="", fmt="%.17g"
    )
    model = clone(MODEL).fit(tmp_path / "rows.csv", sequence_id="who")
    same = clone(MODEL).set_params(inference="memoized").fit(X, lengths=LENGTHS)
    assert model.lower_bound_ == same.lower_bound_
    assert model.feature_names_in_.tolist() == ["x", "y"]
    np.testing.assert_array_equal(
        model.predict(tmp_path / "rows.csv", sequence_id="who"), same.labels_
    )
    with pytest.raises(ValueError, match="has no column 'when'"):
        clone(MODEL).fit(tmp_path / "rows.csv", sequence_id="when")


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_files_with_a_column_of_words_for_ids(kind, tmp_path):
    path, names = (
        tmp_path / f"rows.{kind}",
        np.array([f"sequence {i}" for i in range(len(LENGTHS))])[IDS],
    )
    frame = pl.DataFrame({"who": names, "x": X[:, 0], "y": X[:, 1]})
    write = pl.DataFrame.write_csv if kind == "csv" else pl.DataFrame.write_parquet
    write(frame, path)
    model = clone(MODEL).fit(path, sequence_id="who")
    assert (
        model.lower_bound_
        == clone(MODEL).set_params(inference="memoized").fit(X, lengths=LENGTHS).lower_bound_
    )
    np.testing.assert_array_equal(model.predict(path, sequence_id="who"), model.labels_)
    write(frame.vstack(frame[:1]), path)
    with pytest.raises(
        ValueError,
        match=rf"sequence_id 'sequence 0' begins again at row {len(X)}; "
        r".*sort them",
    ):
        clone(MODEL).fit(path, sequence_id="who")


def test_ids_that_pandas_calls_missing():
    frame = pd.DataFrame(
        {"who": pd.array(["a", "a", None, "b"], dtype="string"), "x": [1.0, 2.0, 3.0, 4.0]}
    )
    for ids in ("who", frame["who"]):
        with pytest.raises(ValueError, match="row 2 has no sequence_id"):
            clone(MODEL).fit(frame if isinstance(ids, str) else frame[["x"]], sequence_id=ids)


@pytest.mark.slow  # `test_sklearn.py` has it for mixtures
def test_a_fit_to_an_array_leaves_sklearn_alone():
    code = (
        "import sys, numpy as np, stickbreak as sb\n"
        "X = np.random.default_rng(0).normal(size=(50, 2))\n"
        "model = sb.HMM(2, random_state=0).fit([X, X])\n"
        "model.predict([X]), model.score(X, lengths=[20, 30]), model.sample(3), repr(model), "
        "model.forecast(X, 2)\n"
        "sys.exit('sklearn' in sys.modules or 'pandas' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=False).returncode == 0


def test_the_constructor_stores_and_computes_nothing():
    odd = object()
    for cls in (sb.HMM, sb.HDPHMM):
        model = cls("many", family=odd, inference=odd, concentration=-1, random_state=odd)
        assert set(vars(model)) == set(model.get_params(deep=False))
        assert clone(cls(3, stickiness=2.0)).get_params()["stickiness"] == 2.0
