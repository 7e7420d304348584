"""Data frames with names, strings, categories and booleans, from pandas and from polars."""

from __future__ import annotations

import datetime
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import stickbreak as sb
from stickbreak.persist import read_file, write_file
from stickbreak.reading.frame_columns import frame_kind, read_frame

MAKE = {"pandas": pd.DataFrame, "polars": pl.DataFrame}
both = pytest.mark.parametrize("make", MAKE.values(), ids=MAKE.keys())
GOLDEN = Path(__file__).parent.parent / "golden" / "mixture_v1.stickbreak"
COLORS = ["blue", "green", "red"]


def columns(n: int = 90, seed: int = 0) -> dict[str, np.ndarray]:
    """Two groups: people by height, weight, color, whether they smoke, and visits."""
    rng = np.random.default_rng(seed)
    z = rng.permutation(np.arange(n) % 2)
    color = np.where(rng.random(n) < 0.8, 2 * z, rng.integers(0, 3, n))
    return {
        "height": 165.0 + 20 * z + 4 * rng.normal(size=n),
        "weight": 60.0 + 25 * z + 5 * rng.normal(size=n),
        "color": np.array(COLORS)[color],
        "smoker": rng.random(n) < 0.2 + 0.5 * z,
        "visits": rng.poisson(2 + 9 * z),
    }


PEOPLE = columns()
CODES = np.column_stack(
    [
        PEOPLE["height"],
        PEOPLE["weight"],
        np.searchsorted(COLORS, PEOPLE["color"]),
        PEOPLE["smoker"],
        PEOPLE["visits"],
    ]
)
BY_NAME = {
    "gaussian": ["height", "weight"],
    "categorical": ["color"],
    "bernoulli": "smoker",
    "poisson": "visits",
}
BY_POSITION = {"gaussian": [0, 1], "categorical": [2], "bernoulli": 3, "poisson": 4}


def mixture(members=BY_NAME, **settings) -> sb.Mixture:
    return sb.Mixture(2, family=sb.Product(members), random_state=0, **settings)


# ---- names and categories ------------------------------------------------------------------------
@both
def test_names_are_positions_and_strings_are_numbers(make):
    named = mixture().fit(make(PEOPLE))
    assert named.lower_bound_ == mixture(BY_POSITION).fit(make(PEOPLE)).lower_bound_
    numbered = mixture(BY_POSITION).fit(CODES)
    # a frame's columns are added up in another order
    assert named.lower_bound_ == pytest.approx(numbered.lower_bound_, rel=1e-12)
    np.testing.assert_array_equal(named.labels_, numbered.labels_)
    np.testing.assert_allclose(
        named.score_samples(make(PEOPLE)), numbered.score_samples(CODES), rtol=1e-12
    )
    assert named.categories_ == {"color": COLORS, "smoker": [False, True]}
    assert numbered.categories_ == {}


@both
def test_summaries_are_named_with_their_columns(make):
    model = mixture().fit(make(PEOPLE))
    assert list(model.posterior_) == [
        "mean of height, weight",
        "covariance of height, weight",
        "probability of color",
        "probability of smoker",
        "rate of visits",
    ]
    by_name = dict(
        zip(model.categories_["color"], model.posterior_["probability of color"][0, 0], strict=True)
    )
    assert set(by_name) == set(COLORS)
    assert sum(by_name.values()) == pytest.approx(1.0, abs=1e-12)
    wide = sb.Product({"diagonal": [f"x{d}" for d in range(9)]})
    rows = pd.DataFrame(
        np.random.default_rng(0).normal(size=(20, 9)), columns=[f"x{d}" for d in range(9)]
    )
    assert "mean of x0, ..., x8" in sb.Mixture(1, family=wide).fit(rows).posterior_
    with pytest.raises(
        AttributeError,
        match=r"Product has no mean; posterior_ holds .*mean of "
        r"height, weight",
    ):
        _ = model.means_


@both
def test_one_family_for_all_columns_reads_categories_too(make):
    answers = {"color": PEOPLE["color"], "smoker": np.where(PEOPLE["smoker"], "yes", "no")}
    model = sb.Mixture(2, family="categorical", random_state=0).fit(make(answers))
    assert model.categories_ == {"color": COLORS, "smoker": ["no", "yes"]}
    assert (
        model.lower_bound_
        == sb.Mixture(2, family="categorical", random_state=0).fit(CODES[:, [2, 3]]).lower_bound_
    )
    binary = sb.Mixture(2, family="bernoulli", random_state=0).fit(
        make({"smoker": answers["smoker"]})
    )
    assert (
        binary.lower_bound_
        == sb.Mixture(2, family="bernoulli", random_state=0).fit(CODES[:, [3]]).lower_bound_
    )


def test_a_model_of_one_library_reads_frames_of_the_other():
    for fit, use in (MAKE.values(), reversed(MAKE.values())):
        model = mixture().fit(fit(PEOPLE))
        np.testing.assert_array_equal(model.predict(use(PEOPLE)), model.labels_)


ORDERED = ["red", "violet", "green", "blue"]
DECLARED = {
    "pandas": lambda values: pd.DataFrame({"color": pd.Categorical(values, categories=ORDERED)}),
    "pandas ordered": lambda values: pd.DataFrame(
        {"color": pd.Categorical(values, categories=ORDERED, ordered=True)}
    ),
    "polars": lambda values: pl.DataFrame({"color": pl.Series(values, dtype=pl.Enum(ORDERED))}),
}


@pytest.mark.parametrize("make", DECLARED.values(), ids=DECLARED.keys())
def test_a_dtype_gives_the_order_and_categories_that_were_not_seen(make):
    frame = make(list(PEOPLE["color"]))
    model = sb.Mixture(2, family="categorical", random_state=0).fit(frame)
    assert model.categories_ == {"color": ORDERED}
    assert model.posterior_["probability"].shape == (2, 1, 4)
    assert np.isfinite(model.score(make(["violet", "red"])))
    numbers = np.array([[ORDERED.index(c)] for c in PEOPLE["color"]])
    family = sb.Categorical(n_symbols=4)
    assert (
        model.lower_bound_ == sb.Mixture(2, family=family, random_state=0).fit(numbers).lower_bound_
    )


def test_categoricals_of_polars_are_sorted_by_what_was_seen():
    # may share its table of strings
    other = pl.Series("noise", ["zebra", "apple"], dtype=pl.Categorical)
    frame = pl.DataFrame({"color": pl.Series(PEOPLE["color"], dtype=pl.Categorical)})
    model = sb.Mixture(2, family="categorical", random_state=0).fit(frame)
    assert model.categories_ == {"color": COLORS}
    assert other.len() == 2


def test_categories_may_be_numbers_and_of_two_kinds():
    answers = pd.DataFrame(
        {
            "grade": pd.Categorical([10, 30, 20, 10]),
            "any": pd.Series(["b", 2, True, "a"], dtype=object),
        }
    )
    model = sb.Mixture(1, family="categorical").fit(answers)
    assert model.categories_ == {"grade": [10, 20, 30], "any": [True, 2, "a", "b"]}
    plain = sb.Mixture(1, family="categorical").fit(pd.DataFrame({"symbol": [0, 3, 1, 0]}))
    assert plain.categories_ == {}
    assert plain.posterior_["probability"].shape == (1, 1, 4)


@both
def test_a_truth_that_is_always_false_may_be_true_later(make):
    model = sb.Mixture(1, family="bernoulli").fit(make({"smoker": [False] * 6}))
    assert model.categories_ == {"smoker": [False, True]}
    assert model.score(make({"smoker": [True]})) < model.score(make({"smoker": [False]}))
    symbols = sb.Mixture(1, family="categorical").fit(make({"smoker": [False] * 6}))
    assert symbols.score(make({"smoker": [True]})) < symbols.score(make({"smoker": [False]}))
    assert symbols.score(make({"smoker": [1]})) == symbols.score(make({"smoker": [True]}))


# ---- missing -------------------------------------------------------------------------------------
@both
def test_missing_categories_are_missing_symbols(make):
    color = [None if i % 5 == 0 else c for i, c in enumerate(PEOPLE["color"])]
    symbols = np.where(np.arange(90) % 5 == 0, -1, np.searchsorted(COLORS, PEOPLE["color"]))[
        :, None
    ]
    model = sb.Mixture(2, family="categorical", random_state=0).fit(make({"color": color}))
    assert model.categories_ == {"color": COLORS}
    assert (
        model.lower_bound_
        == sb.Mixture(2, family="categorical", random_state=0).fit(symbols).lower_bound_
    )
    nothing = make(
        {"color": pd.Series([None, None], dtype=object) if make is pd.DataFrame else [None, None]}
    )
    # nothing said, nothing to pay
    np.testing.assert_allclose(model.score_samples(nothing), 0.0, atol=1e-12)


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
def test_every_kind_of_missing_value_counts(missing):
    frame = pd.DataFrame({"color": pd.Series(["red", missing, "blue"], dtype=object)})
    read, found = read_frame(frame, sb.Categorical().readers(1), None)
    assert found == {"color": ["blue", "red"]}
    assert read["color"].tolist() == [1.0, -1.0, 0.0]
    declared, _ = read_frame(frame.astype("category"), sb.Categorical().readers(1), None)
    assert declared["color"].tolist() == [1.0, -1.0, 0.0]


@both
def test_a_missing_truth_is_not_a_number(make):
    frame = make({"smoker": ["yes", None, "no"], "ill": [True, None, False]})
    read, found = read_frame(frame, sb.Bernoulli().readers(2), None)
    assert found == {"smoker": ["no", "yes"], "ill": [False, True]}
    np.testing.assert_array_equal(np.asarray(read["smoker"], dtype=float), [1.0, np.nan, 0.0])
    np.testing.assert_array_equal(np.asarray(read["ill"], dtype=float), [1.0, np.nan, 0.0])


@both
def test_a_column_of_nothing_has_no_categories(make):
    nothing = pd.Series([None] * 3, dtype=object) if make is pd.DataFrame else [None] * 3
    model = sb.Mixture(1, family="categorical").fit(
        make({"color": ["a", "b", "a"], "empty": nothing})
    )
    assert model.categories_ == {"color": ["a", "b"], "empty": []}
    assert np.isfinite(model.lower_bound_)


# ---- refusals ------------------------------------------------------------------------------------
@both
@pytest.mark.parametrize("use", ["predict", "predict_proba", "score_samples", "partial_fit"])
def test_an_unknown_category_is_named_with_its_row_and_column(make, use):
    model = mixture().fit(make(PEOPLE))
    before = model.score(make(PEOPLE))
    strange = {**PEOPLE, "color": np.where(np.arange(90) == 7, "pink", PEOPLE["color"])}
    with pytest.raises(
        ValueError,
        match=r"row 7, column 'color' is 'pink'; the model knows the "
        r"categories 'blue', 'green', 'red'",
    ):
        getattr(model, use)(make(strange))
    assert model.score(make(PEOPLE)) == before
    assert model.categories_["color"] == COLORS


@both
def test_words_for_a_family_of_numbers_are_named(make):
    with pytest.raises(
        ValueError,
        match=r"row 0, column 'color' is '(red|blue)', which is not a "
        r"number; .*Categorical",
    ):
        sb.Mixture(2).fit(make({"height": PEOPLE["height"], "color": PEOPLE["color"]}))
    words = ["1.5", "2", "n/a", "3"]
    with pytest.raises(ValueError, match="row 2, column 'size' is 'n/a'"):
        sb.Mixture(1, family="poisson").fit(make({"size": words}))
    readable = sb.Mixture(1, family="diagonal").fit(make({"size": ["1.5", "2", "4", "3"]}))
    assert readable.means_[0, 0] == pytest.approx(2.625, abs=0.01)
    dates = [datetime.date(2024, 1, day) for day in (1, 2, 3)]
    with pytest.raises(ValueError, match=r"row 0, column 'day' is .*2024, 1, 1"):
        sb.Mixture(1).fit(make({"day": dates}))


@both
def test_frames_that_do_not_fit_the_members_are_refused(make):
    frame = make(PEOPLE)
    cases = {
        r"no column 'hight', 'colour'; it has 'height', 'weight', 'color', 'smoker', 'visits'": {
            "gaussian": ["hight", "weight"],
            "categorical": "colour",
        },
        r"no family for columns 'color', 'smoker', 'visits'": {"gaussian": ["height", "weight"]},
        r"column 'weight' is used twice, by Gaussian and Poisson": {
            **BY_NAME,
            "poisson": ["visits", "weight"],
        },
        r"column 'weight' is used twice, by Gaussian and Diagonal": {**BY_NAME, "diagonal": 1},
        r"row 0, column 'height' is [\d.]+; Poisson counts are whole": {
            **BY_NAME,
            "gaussian": "weight",
            "poisson": ["height", "visits"],
        },
        r"column 'color' has 3 categories \(.*'red'.*\); "
        r"Bernoulli has room for 2: use Categorical": {
            "diagonal": ["height", "weight", "visits"],
            "bernoulli": ["color", "smoker"],
        },
    }
    for message, members in cases.items():
        with pytest.raises(ValueError, match=message):
            mixture(members).fit(frame)
    with pytest.raises(
        ValueError,
        match=r"names the columns 'height', 'weight', 'color', "
        r"'smoker', .*the data have no names",
    ):
        mixture().fit(CODES)
    with pytest.raises(ValueError, match=r"(?s)feature names should match.*height"):
        mixture().fit(frame).predict(make({name: PEOPLE[name] for name in list(PEOPLE)[::-1][:4]}))


@both
def test_messages_quote_only_the_start_of_a_long_category(make):
    frame = make({"word": ["a" * 500, "b", "c"] * 4})
    with pytest.raises(ValueError, match="has room for 2") as caught:
        sb.Mixture(2, family="bernoulli").fit(frame)
    assert len(str(caught.value)) < 200


@both
def test_messages_about_rows_name_the_column(make):
    fractions = make({"size": [0.0, 1.0, 2.0, 0.5], "kind": [0, 1, 1, 0]})
    message = (
        r"row 3, column 'size' is 0\.5; symbols are whole numbers, -1 for missing; .* strings of a "
        r"data frame"
    )
    with pytest.raises(ValueError, match=message):
        sb.Mixture(1, family="categorical").fit(fractions)
    with pytest.warns(sb.DataWarning, match="column 'flat': constant"):
        sb.Mixture(1).fit(make({"size": [0.0, 1.0, 2.0], "flat": [5.0, 5.0, 5.0]}))
    with pytest.raises(ValueError, match=r"Gaussian of height, weight: mean has shape \(3,\)"):
        sb.Mixture(
            1,
            family=sb.Product(
                [(sb.Gaussian(mean=[1, 2, 3]), ["height", "weight"])], rest="categorical"
            ),
        ).fit(make({k: PEOPLE[k] for k in ("height", "weight", "color")}))


@both
def test_a_model_of_numbers_refuses_words(make):
    model = sb.Mixture(1, family="categorical").fit(make({"kind": [0, 1, 2]}))
    with pytest.raises(
        ValueError,
        match="row 0, column 'kind' is 'red', which is not a number; "
        "the model was fitted on numbers",
    ):
        model.predict(make({"kind": ["red", "blue"]}))
    model.predict(make({"kind": [True, False]}))  # booleans are 0 and 1 where nobody said otherwise


def test_what_cannot_be_a_category_is_refused():
    days = pd.DataFrame({"day": pd.to_datetime(["2024-01-01", "2024-01-02"])})
    with pytest.raises(
        ValueError,
        match=r"column 'day' holds Timestamp.*convert the column to "
        r"strings",
    ):
        sb.Mixture(1, family="categorical").fit(days)
    with pytest.raises(ValueError, match="column 'list' holds values that cannot be categories"):
        sb.Mixture(1, family="categorical").fit(pd.DataFrame({"list": [[1], [2]]}))
    twice = pd.DataFrame([["a", "b"], ["b", "a"]], columns=["kind", "kind"])
    with pytest.raises(ValueError, match="several columns 'kind'"):
        sb.Mixture(1, family="categorical").fit(twice)
    with pytest.raises(ValueError, match="several columns 'kind'"):
        sb.Mixture(1, family=sb.Product({"categorical": "kind"}, rest="categorical")).fit(twice)


# ---- manners -------------------------------------------------------------------------------------
@both
def test_the_frame_is_left_as_it_was(make):
    frame, copy = make(PEOPLE), make(PEOPLE)
    mixture().fit(frame).predict(frame)
    assert frame.equals(copy)
    numbers = make({"height": PEOPLE["height"], "visits": PEOPLE["visits"]})
    assert read_frame(numbers, sb.Gaussian().readers(2), None)[0] is numbers


def test_columns_without_names_are_known_by_position():
    frame = pd.DataFrame({0: PEOPLE["height"], 1: PEOPLE["color"]})
    model = sb.Mixture(2, family=sb.Product({"gaussian": 0, "categorical": 1}), random_state=0).fit(
        frame
    )
    assert model.categories_ == {1: COLORS}
    assert not hasattr(model, "feature_names_in_")
    np.testing.assert_array_equal(model.predict(frame), model.labels_)
    assert frame_kind(CODES) is None
    assert frame_kind(model) is None


def test_a_fit_of_an_array_forgets_the_categories():
    model = mixture().fit(pd.DataFrame(PEOPLE))
    model.set_params(family="diagonal").fit(CODES)
    assert model.categories_ == {}
    assert not hasattr(model, "feature_names_in_")


@both
def test_files_keep_names_and_categories(make, tmp_path):
    model = mixture().fit(make(PEOPLE))
    model.save(tmp_path / "m.stickbreak")
    loaded = sb.load(tmp_path / "m.stickbreak")
    assert loaded.categories_ == model.categories_
    assert repr(loaded.family) == repr(
        sb.Product({**BY_NAME, "gaussian": ("height", "weight"), "categorical": ("color",)})
    )
    assert list(loaded.posterior_) == list(model.posterior_)
    np.testing.assert_array_equal(
        loaded.predict_proba(make(PEOPLE)), model.predict_proba(make(PEOPLE))
    )
    with pytest.raises(ValueError, match="column 'color' is 'pink'"):
        loaded.predict(make({**PEOPLE, "color": ["pink"] * 90}))
    refitted = clone(loaded).fit(make(PEOPLE))
    assert refitted.lower_bound_ == model.lower_bound_
    assert sb.load(GOLDEN).categories_ == {}


SPOILED = {
    "no such column": [["shape", ["a"]]],
    "twice the same": [["color", ["a", "a", "b"]]],
    "not a value": [["color", [["a"], "b"]]],
    "not a list": [["color", 3]],
    "not pairs": ["color"],
    "not at all": 7,
}


@pytest.mark.parametrize("case", SPOILED)
def test_damaged_categories_are_refused(case, tmp_path):
    path = tmp_path / "m.stickbreak"
    mixture().fit(pd.DataFrame(PEOPLE)).save(path)
    header, arrays = read_file(path, "model")
    header["fitted"]["categories"] = SPOILED[case]
    write_file(path, "model", header, arrays)
    with pytest.raises(sb.ModelFileError, match="damaged"):
        sb.load(path)


@both
def test_streams_learn_the_categories_from_the_first_part(make):
    enum = pl.Enum(COLORS)
    parts = [
        {k: v[at] for k, v in PEOPLE.items()} for at in (slice(0, 30), slice(30, 60), slice(60, 90))
    ]
    stream = mixture()
    for part in parts:
        frame = make(part)
        frame = (
            frame.assign(color=pd.Categorical(part["color"], COLORS))
            if make is pd.DataFrame
            else frame.cast({"color": enum})
        )
        stream.partial_fit(frame)
    assert stream.counts_.sum() == pytest.approx(90.0, rel=1e-12)
    assert stream.categories_["color"] == COLORS
    first = mixture().partial_fit(make({**parts[0], "color": ["red"] * 30}))
    with pytest.raises(ValueError, match=r"row 0, column 'color' is .*list.* all categories"):
        first.partial_fit(make({**parts[1], "color": ["blue"] * 30}))


@both
def test_searches_and_resumed_fits_take_frames(make, tmp_path):
    frame = make(PEOPLE)
    search = GridSearchCV(mixture(), {"n_components": [1, 2]}, cv=3, error_score="raise").fit(frame)
    assert search.best_params_ == {"n_components": 2}
    engine = sb.MemoizedVB(n_batches=3, checkpoint=tmp_path / "c", checkpoint_every=0.0)
    whole = mixture(inference=engine).fit(frame)
    again = sb.resume(tmp_path / "c", frame)
    assert again.lower_bound_ == whole.lower_bound_
    assert again.categories_ == whole.categories_
    assert list(again.posterior_) == list(whole.posterior_)


@both
def test_samples_are_numbers_of_categories(make):
    model = mixture().fit(make(PEOPLE))
    rows, _ = model.sample(200, random_state=0)
    assert rows.shape == (200, 5)
    assert set(rows[:, 2]) == {0.0, 1.0, 2.0}
    assert set(rows[:, 3]) == {0.0, 1.0}
    assert abs(rows[:, 0].mean() - PEOPLE["height"].mean()) < 3.0
    assert np.isfinite(mixture(BY_POSITION).fit(CODES).score(rows))
