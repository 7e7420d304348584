"""Bad input: one clear error that names the value, and nothing changed. Odd but usable input: one
warning, and a fit.
"""

from __future__ import annotations

import numpy as np
import pytest
from estimator_cases import CASES, blobs, fixed_dp
from scipy import sparse
from sklearn.exceptions import NotFittedError

import stickbreak as sb

X = blobs(60)
COUNTS = CASES["multinomial"].rows
BINARY = CASES["bernoulli"].rows
SYMBOLS = CASES["categorical"].rows
EVENTS = CASES["poisson"].rows


def with_value(rows, value, at=(7, 1)):
    changed = np.array(rows, dtype=float)
    changed[at] = value
    return changed


def assert_refused(match: str, act) -> None:
    """One ValueError whose first line says what is wrong."""
    with pytest.raises(ValueError, match=match) as caught:
        act()
    first = str(caught.value).split("\n")[0]
    assert 10 < len(first) < 400


# ---- rows ----------------------------------------------------------------------------------------
ROWS = {
    "infinite": ("gaussian", with_value(X, np.inf), "infinity"),
    "minus infinite": ("gaussian", with_value(X, -np.inf), "infinity"),
    "partly missing counts": (
        "multinomial",
        with_value(COUNTS, np.nan),
        "row 7, column 1 is missing, .*'poisson'",
    ),
    "no rows": ("gaussian", X[:0], r"0 sample\(s\)"),
    "no columns": ("gaussian", X[:, :0], r"0 feature\(s\)"),
    "one dimension": ("gaussian", X[:, 0], "Expected 2D array"),
    "three dimensions": ("gaussian", X[None], "dim 3"),
    "text": ("gaussian", np.array([["a", "b"]] * 5), "'a'"),
    "complex": ("gaussian", X + 1j, "Complex data"),
    "negative counts": (
        "multinomial",
        with_value(COUNTS, -3),
        "row 7, column 1 is -3.0; counts must not be negative",
    ),
    "negative events": (
        "poisson",
        with_value(EVENTS, -3),
        "row 7, column 1 is -3.0; counts must not be negative",
    ),
    "fractional events": ("poisson", with_value(EVENTS, 2.5), "row 7, column 1 is 2.5; .*whole"),
    "not binary": (
        "bernoulli",
        with_value(BINARY, 2),
        "row 7, column 1 is 2.0; Bernoulli columns hold 0 and 1",
    ),
    "fractional symbol": (
        "categorical",
        with_value(SYMBOLS, 0.5),
        "row 7, column 1 is 0.5; symbols are whole numbers",
    ),
    "negative symbol": (
        "categorical",
        with_value(SYMBOLS, -2),
        "row 7, column 1 is -2.0; symbols are whole numbers",
    ),
}


@pytest.mark.parametrize("cls", [sb.Mixture, sb.DPMixture])
@pytest.mark.parametrize("case", ROWS)
def test_bad_rows_are_refused(cls, case):
    family, rows, message = ROWS[case]
    model = cls(2, family=family, random_state=0)
    assert_refused(message, lambda: model.fit(rows))
    with pytest.raises(NotFittedError):
        model.predict(X)
    assert_refused(message, lambda: model.partial_fit(rows))


ON_DISK = {
    k: v
    for k, v in ROWS.items()
    if k not in ("one dimension", "three dimensions", "text", "complex", "no columns")
}


@pytest.mark.parametrize("case", ON_DISK)
def test_bad_rows_on_disk_are_refused_by_row(case, tmp_path):
    family, rows, message = ON_DISK[case]
    if case in ("infinite", "minus infinite"):
        message = "row 7, column 1 is -?inf; values must be finite"
    np.save(tmp_path / "rows.npy", rows)
    assert_refused(
        message, lambda: sb.Mixture(2, family=family, random_state=0).fit(tmp_path / "rows.npy")
    )
    assert_refused(
        message,
        lambda: sb.Mixture(2, family=family, random_state=0).partial_fit(tmp_path / "rows.npy"),
    )


def test_a_bad_row_far_down_a_file_is_named(tmp_path):
    rows = np.zeros((700_000, 2))
    rows[::2] = 1.0
    rows[612_345, 1] = np.inf
    np.save(tmp_path / "rows.npy", rows)
    assert_refused("row 612345, column 1 is inf", lambda: sb.Mixture(2).fit(tmp_path / "rows.npy"))
    rows[612_345, 1] = 3.0
    np.save(tmp_path / "rows.npy", rows)
    assert_refused(
        "row 612345, column 1 is 3.0",
        lambda: sb.Mixture(2, family="bernoulli").fit(tmp_path / "rows.npy"),
    )


USES = ("predict", "predict_proba", "score_samples", "score", "partial_fit")


@pytest.mark.parametrize("use", USES)
def test_a_fitted_model_refuses_other_rows(use, tmp_path):
    model = sb.Mixture(2, random_state=0).fit(X)
    symbols = sb.Mixture(2, family="categorical", random_state=0).fit(SYMBOLS)
    before = model.score_samples(X)
    assert_refused(
        "X has 1 features, but Mixture is expecting 2 features",
        lambda: getattr(model, use)(X[:, :1]),
    )
    assert_refused("infinity", lambda: getattr(model, use)(with_value(X, np.inf)))
    assert_refused(
        "row 7, column 1 is 9.0; symbols are whole numbers below 3",
        lambda: getattr(symbols, use)(with_value(SYMBOLS, 9)),
    )
    np.testing.assert_array_equal(model.score_samples(X), before)


@pytest.mark.parametrize("use", USES)
def test_a_fitted_model_refuses_other_rows_on_disk(use, tmp_path):
    model = sb.Mixture(2, random_state=0).fit(X)
    symbols = sb.Mixture(2, family="categorical", random_state=0).fit(SYMBOLS)
    for name, rows in {"wide": X[:, :1], "inf": with_value(X, np.inf)}.items():
        np.save(tmp_path / f"{name}.npy", rows)
    np.save(tmp_path / "symbols.npy", with_value(SYMBOLS, 9))
    assert_refused("1 features", lambda: getattr(model, use)(tmp_path / "wide.npy"))
    assert_refused(
        "row 7, column 1 is 9.0; symbols", lambda: getattr(symbols, use)(tmp_path / "symbols.npy")
    )
    assert_refused("row 7, column 1 is inf", lambda: getattr(model, use)(tmp_path / "inf.npy"))


def test_sparse_rows():
    model = sb.Mixture(2, family="multinomial", random_state=0)
    assert_refused(
        "row 7 has the count -3.0; counts must not be negative",
        lambda: model.fit(sparse.csr_array(with_value(COUNTS, -3))),
    )
    assert_refused("infinity", lambda: model.fit(sparse.csr_array(with_value(COUNTS, np.inf))))
    # as scikit-learn words and types it
    for family in ("gaussian", "diagonal", "poisson", "bernoulli", "categorical"):
        with pytest.raises(
            TypeError, match="Sparse data was passed for X, but dense data is required"
        ):
            sb.Mixture(2, family=family).fit(sparse.csr_array(BINARY))


# ---- files ---------------------------------------------------------------------------------------


def write(path, content) -> None:
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        np.save(path, content, allow_pickle=True)


FILES = {
    "text": (b"1,2\n3,4\n", "is not a .npy file of numbers"),
    "empty": (b"", "is not a .npy file of numbers"),
    "header only": (b"\x93NUMPY\x01\x00\x46\x00", "is not a .npy file of numbers"),
    "objects": (np.array([["a", 1], [None, 2]], dtype=object), "is not a .npy file of numbers"),
    "words": (np.array([["a", "b"]]), "table .* of numbers; got shape"),
    "one dimension": (np.arange(5.0), r"2 dimensions.* of numbers; got shape \(5,\)"),
    "complex": (X + 1j, "dtype complex128"),
    "no rows": (X[:0], r"0 sample\(s\)"),
}


@pytest.mark.parametrize("case", FILES)
def test_bad_files_are_refused(case, tmp_path):
    content, message = FILES[case]
    path = tmp_path / "rows.npy"
    write(path, content)
    assert_refused(message, lambda: sb.Mixture(2).fit(path))
    assert_refused(message, lambda: sb.Mixture(2).fit(str(path)))
    assert [p.name for p in tmp_path.iterdir()] == ["rows.npy"]


def test_a_file_that_is_not_there_or_cut_short_or_of_another_kind(tmp_path):
    assert_refused(
        r"X='.*none.npy': no such file; expected .*\.npy",
        lambda: sb.Mixture(2).fit(tmp_path / "none.npy"),
    )
    assert_refused("is a folder; expected .*npy", lambda: sb.Mixture(2).fit(tmp_path))
    np.save(tmp_path / "rows.npy", X)
    (tmp_path / "short.npy").write_bytes((tmp_path / "rows.npy").read_bytes()[:-100])
    assert_refused(
        "short.npy is not a .npy file of numbers", lambda: sb.Mixture(2).fit(tmp_path / "short.npy")
    )
    (tmp_path / "rows.txt").write_text("1,2")
    assert_refused(
        r"kind '.txt' are not read; expected .*\.npy",
        lambda: sb.Mixture(2).fit(tmp_path / "rows.txt"),
    )


# ---- odd but usable ------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["gaussian", "diagonal", "fixed-variance"])
@pytest.mark.parametrize("cls", [sb.Mixture, sb.DPMixture])
def test_a_constant_column_is_warned_about_and_fitted(cls, family):
    rows = np.column_stack([X, np.full(len(X), 1e3)])
    with pytest.warns(sb.DataWarning, match="column 2: constant"):
        model = cls(2, family=family, random_state=0).fit(rows)
    assert np.isfinite(model.score(rows))
    np.testing.assert_array_equal(
        model.labels_, cls(2, family=family, random_state=0).fit(X).labels_
    )


@pytest.mark.covering
@pytest.mark.parametrize("family", CASES)
@pytest.mark.parametrize("cls", [sb.Mixture, fixed_dp])
def test_fewer_rows_than_components_are_warned_about_and_fitted(cls, family):
    rows = CASES[family].rows[:3]
    with pytest.warns(sb.DataWarning, match="3 rows for 8 components"):
        model = cls(8, family=family, random_state=0).fit(rows)
    assert model.n_components_ == 8
    assert np.isfinite(model.score(rows))
    assert model.counts_.sum() == pytest.approx(3.0, rel=1e-12)


@pytest.mark.covering
@pytest.mark.filterwarnings("ignore::stickbreak.errors.DataWarning")
@pytest.mark.parametrize("n_components", [1, 4])
@pytest.mark.parametrize("family", CASES)
@pytest.mark.parametrize("cls", [sb.Mixture, sb.DPMixture])
def test_one_row_is_fitted(cls, family, n_components):
    rows = CASES[family].rows[:1]
    model = cls(n_components, family=family, random_state=0).fit(rows)
    assert np.isfinite(model.lower_bound_)
    assert np.isfinite(model.score(rows))


@pytest.mark.covering
def test_one_row_of_reals_is_warned_about():
    with pytest.warns(sb.DataWarning, match="columns 0, 1: constant"):
        sb.Mixture(1).fit(X[:1])


def test_equal_rows_and_rows_without_counts_are_fitted():
    with pytest.warns(sb.DataWarning, match="constant"):
        model = sb.Mixture(3, random_state=0).fit(np.ones((20, 2)))
    assert np.isfinite(model.lower_bound_)
    empty = sb.Mixture(2, family="multinomial", random_state=0).fit(np.zeros((5, 3)))
    assert np.isfinite(empty.lower_bound_)


def test_missing_symbols_are_allowed():
    rows = SYMBOLS.copy()
    rows[::3, 0] = -1
    model = sb.Mixture(3, family="categorical", random_state=0).fit(rows)
    assert np.isfinite(model.score(rows))
    # nothing said, nothing to pay
    assert model.score_samples(np.full((1, 6), -1))[0] == pytest.approx(0.0, abs=1e-12)
