"""scikit-learn's checks of chains that are fitted by collapsed sweeps.

The checks give rows and nothing else. For chains these are one sequence, which sweeps refuse: they
learn each sequence from the others. So they are run twice: as they are, where all that fails must
fail by this refusal or by one of weights; and on the same rows cut into sequences.
"""

from __future__ import annotations

import warnings
from collections import Counter
from typing import Any

import numpy as np
import pytest
from sklearn.utils.estimator_checks import check_estimator

import stickbreak as sb
from stickbreak.checks.estimators import DRAWN_CHECKS, ORDER, SEQUENCE_CHECKS

REFUSED = (
    "there is one sequence, and collapsed inference learns each from the others",
    "collapsed inference takes out one sequence at a time, which counts once or not at all",
    "a sequence counts as a whole: give one weight for each sequence",
)
WEIGHTS = "a sequence counts once or not at all, and the check gives other weights"
EXPECTED = {
    **SEQUENCE_CHECKS,
    "check_sample_weights_list": WEIGHTS,
    "check_sample_weight_equivalence_on_dense_data": WEIGHTS,
    "check_fit2d_1sample": "one row is one sequence, and the refusal says so",
}
SEVERAL = {name: ORDER for name in DRAWN_CHECKS if "invariance" in name}  # and 25 states at first


class InPieces:
    """Fits of rows cut into sequences of five."""

    def fit(self, X: Any, y: Any = None, *, sample_weight: Any = None) -> Any:
        """Fit to sequences of five rows; few rows are cut in two."""
        n = (*(X if hasattr(X, "shape") else np.asarray(X)).shape, 0)[0]
        lengths = np.diff([*range(0, n, 5 if n > 5 else max(1, (n + 1) // 2)), n])
        given = {"lengths": lengths} if n > 1 else {}
        return super().fit(X, y, sample_weight=sample_weight, **given)  # type: ignore[misc]

    def fit_predict(self, X: Any, y: Any = None) -> Any:
        """Labels of the rows of a fit."""
        return self.fit(X, y).labels_


class HMMOfPieces(InPieces, sb.HMM):
    """See InPieces."""


class HDPHMMOfPieces(InPieces, sb.HDPHMM):
    """See InPieces."""


def checked(model: Any, **settings: Any) -> list[dict[str, Any]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return list(check_estimator(model, on_skip=None, on_fail=None, **settings))


def causes(error: BaseException | None) -> str:
    """Messages of an error and of those behind it."""
    found = []
    while error is not None:
        found.append(str(error))
        error = error.__cause__ or error.__context__
    return "\n".join(found)


@pytest.mark.slow
@pytest.mark.parametrize("cls", [sb.HMM, sb.HDPHMM])
def test_rows_as_one_sequence_are_refused_and_nothing_else_fails(cls):
    found = checked(cls(2, inference="collapsed", random_state=0))
    for result in found:
        if result["status"] == "failed":
            assert any(text in causes(result["exception"]) for text in REFUSED), result
    assert Counter(result["status"] for result in found)["passed"] >= 18


@pytest.mark.slow
@pytest.mark.parametrize(("cls", "more"), [(HMMOfPieces, {}), (HDPHMMOfPieces, SEVERAL)])
def test_check_estimator_passes_on_rows_cut_into_sequences(cls, more):
    """Columns that leave each other out take missing entries, which one of the checks gives."""
    engine = sb.CollapsedVB(max_iter=5)  # fits are many
    model = cls(2, family="diagonal", inference=engine, random_state=0)
    found = checked(model, expected_failed_checks={**EXPECTED, **more})
    status = Counter(result["status"] for result in found)
    failed = [result["check_name"] for result in found if result["status"] == "failed"]
    assert not failed
    assert status["passed"] >= 40, status
