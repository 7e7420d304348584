"""The battery that every estimator must pass."""

from __future__ import annotations

import pickle
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator as check_with_sklearn

from stickbreak.errors import StickbreakWarning
from stickbreak.estimators import load
from stickbreak.estimators.groups import HDPMixture
from stickbreak.estimators.sequence_fits import SequenceEstimator
from stickbreak.families.base import BaseFamily

from .requirements import defines

__all__ = ["DRAWN_CHECKS", "SAMPLE_WEIGHT_CHECKS", "SEQUENCE_CHECKS", "check_estimator"]

SAMPLE_WEIGHT_CHECKS = dict.fromkeys(
    (
        "check_sample_weight_equivalence_on_dense_data",
        "check_sample_weight_equivalence_on_sparse_data",
    ),
    "random starts draw other rows when weights replace repeats, as in scikit-learn's KMeans",
)
SEQUENCE_CHECKS = {
    "check_sample_weights_not_overwritten": "a weight is of a whole sequence; the check gives the "
    "rows of one different weights",
    "check_sample_weight_equivalence_on_dense_data": "the check repeats and shuffles rows, which "
    "makes another sequence of them",
}  # cannot hold for rows of units that count as a whole
ORDER = "rows are scored given those before them, which shows where a fit has several states"
DRAWN_CHECKS = {
    "check_methods_sample_order_invariance": ORDER,
    "check_methods_subset_invariance": ORDER,
}  # cannot hold where segments are drawn


def check_estimator(estimator: Any, X: Any) -> list[dict[str, Any]]:
    """Check an estimator on some rows; an AssertionError says what fails.

    First scikit-learn's own checks. Only the equivalence of weights and repeats may fail, for more
    than one component, and for sequences and groups whatever cannot hold for these. Then: labels_
    equals predict, score is the mean of score_samples, probabilities sum to one, results do not
    depend on n_jobs, and files and pickles restore the same model.

    Parameters
    ----------
    estimator : unfitted, with a fixed random_state.
    X : rows it can fit.

    Returns
    -------
    Results of scikit-learn's checks, one dict for each.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the checks use tiny data on purpose
        has_units = isinstance(estimator, SequenceEstimator | HDPMixture)
        expected = SEQUENCE_CHECKS if has_units else SAMPLE_WEIGHT_CHECKS
        if getattr(estimator, "duration_inference", None) == "sampled":
            expected = {**expected, **DRAWN_CHECKS}
        found = check_with_sklearn(clone(estimator), expected_failed_checks=expected, on_skip=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StickbreakWarning)
        fitted = clone(estimator).fit(X)
        _check_answers(fitted, X)
        other = clone(estimator).set_params(n_jobs=2).fit(X)
        assert other.lower_bound_ == fitted.lower_bound_, "n_jobs must not change the bound"
        assert np.array_equal(other.labels_, fitted.labels_), "n_jobs must not change the labels"
    _check_copies(fitted, X)
    return list(found)


def _check_answers(fitted: Any, X: Any) -> None:
    assert np.array_equal(fitted.labels_, fitted.predict(X)), "labels_ must equal predict(X)"
    samples = fitted.score_samples(X)
    assert np.isclose(fitted.score(X), samples.mean()), "score must be the mean of score_samples"
    shares = fitted.predict_proba(X)
    assert np.allclose(shares.sum(1), 1.0), "probabilities must sum to one"
    if defines(fitted.family_, BaseFamily, "sample"):
        rows, labels = fitted.sample(5, random_state=0)
        assert len(rows) == len(labels) == 5, "sample must give as many rows as asked"


def _check_copies(fitted: Any, X: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.stickbreak"
        fitted.save(path)
        copies = {"a file": load(path), "a pickle": pickle.loads(pickle.dumps(fitted))}
    for how, copy in copies.items():
        assert np.array_equal(copy.score_samples(X), fitted.score_samples(X)), (
            f"{how} must give the same scores back"
        )
        assert np.array_equal(copy.predict(X), fitted.predict(X)), (
            f"{how} must give the same labels back"
        )
