"""Comparisons and labeled data sets say what the models say."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from estimator_cases import CASES, NAMES, blobs

import stickbreak as sb
from stickbreak.estimators.views import summary_axes


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    return blobs(120)


@pytest.fixture(scope="module")
def models(rows: np.ndarray) -> list[Any]:
    return [
        sb.Mixture(1, random_state=0).fit(rows),
        sb.DPMixture(5, inference=sb.MemoizedVB(moves=None), random_state=0).fit(rows),
    ]


def test_a_line_says_what_the_model_says(models: list[Any], rows: np.ndarray) -> None:
    held_out = blobs(40, seed=1)
    found = sb.compare(models, held_out)
    assert len(found) == 2
    for line, model in zip(found, models, strict=True):
        assert (line.model, line.family) == (type(model).__name__, "Gaussian")
        assert (line.n_components, line.n_effective) == (model.n_components_, model.n_effective_)
        assert (line.bound, line.score) == (model.lower_bound_, model.score(held_out))
        assert line.bound_per_row == model.lower_bound_ / len(rows)
        assert (line.n_iter, line.seconds) == (model.n_iter_, model.trace_.seconds[-1])
        assert (line.objective, line.rows) == ("bound", len(rows))
    assert found[0].name == "Mixture(1)"
    assert found.notes == ()
    assert found.best == {"bound": 1, "score": 1}


def test_it_prints_as_an_aligned_table_with_the_best_marked(
    models: list[Any], rows: np.ndarray
) -> None:
    common, *text = repr(sb.compare(models, rows, names=["one", "many"])).splitlines()
    assert common == "Gaussian, 120 rows"
    assert text[0].split() == [
        "name",
        "model",
        "K",
        "in",
        "use",
        "bound",
        "bound/row",
        "held-out",
        "laps",
        "seconds",
    ]
    assert [line.count("*") for line in text] == [0, 0, 0, 2]
    assert text[2].startswith("one ")
    ends = {
        line.index(number) + len(number)
        for line, m in zip(text[2:], models, strict=True)
        if (number := f"{m.lower_bound_:,.2f}")
    }
    assert len(ends) == 1
    assert "held-out" not in repr(sb.compare(models))


def test_it_fits_a_terminal_and_a_single_model_has_all_columns(models: list[Any]) -> None:
    engine = sb.MemoizedVB(moves=None)
    many = [sb.DPMixture(k, inference=engine, random_state=0).fit(blobs(120)) for k in (2, 3)]
    text = repr(sb.compare(many, blobs(30))).splitlines()
    assert text[0] == "DPMixture, Gaussian, 120 rows"
    assert max(map(len, text)) <= 80
    assert repr(sb.compare(models[:1])).split()[:4] == ["name", "model", "family", "rows"]


def test_html_escapes_names(models: list[Any]) -> None:
    html = sb.compare(models, names=["<b>", "&"])._repr_html_()
    assert "<td>&lt;b&gt;</td>" in html
    assert "<td>&amp;</td>" in html
    assert html.count("<tr>") == 3


def test_it_becomes_a_data_frame(models: list[Any]) -> None:
    frame = sb.compare(models, names=["a", "b"]).to_pandas()
    assert isinstance(frame, pd.DataFrame)
    assert list(frame.index) == ["a", "b"]
    assert frame.loc["b", "bound"] == models[1].lower_bound_
    assert frame["score"].isna().all()


def test_names_of_equal_models_are_numbered(models: list[Any]) -> None:
    found = sb.compare([models[0], models[1], models[0]])
    assert [line.name for line in found] == ["Mixture(1) #1", "DPMixture(5)", "Mixture(1) #2"]


def test_bounds_that_cannot_be_compared_are_noted_and_have_no_best(
    models: list[Any], rows: np.ndarray
) -> None:
    fewer = sb.Mixture(1, random_state=0).fit(rows[:50])
    with pytest.warns(
        sb.DataWarning,
        match=r"Bounds of all \(120 rows\) and some \(50 rows\) "
        r"cannot be compared",
    ):
        found = sb.compare([models[0], fewer], rows, names=["all", "some"])
    assert "bound" not in found.best
    assert "score" in found.best  # the same rows are scored
    assert repr(found).endswith(found.notes[0])
    mode = sb.Mixture(2, inference="em", random_state=0).fit(rows)
    with pytest.warns(sb.DataWarning, match=r"\(the bound\) and Mixture\(2\) \(the log joint\)"):
        assert "objective" in repr(sb.compare([models[0], mode])).splitlines()[1]


def test_densities_and_probabilities_cannot_be_compared_at_all() -> None:
    X = CASES["poisson"].rows
    kinds = [
        sb.Mixture(2, family=name, random_state=0).fit(X)
        for name in ("gaussian", "poisson", "multinomial")
    ]
    with pytest.warns(
        sb.DataWarning,
        match=r"Bounds and scores of a \(densities\) and b "
        r"\(probabilities\)",
    ):
        assert sb.compare(kinds[:2], X, names=["a", "b"]).best == {}
    with pytest.warns(sb.DataWarning, match="probabilities given the row totals"):
        assert sb.compare(kinds[1:], X).best == {}


def test_a_model_without_a_bound_has_none_in_the_table(models: list[Any], rows: np.ndarray) -> None:
    stream = sb.Mixture(2, random_state=0).partial_fit(rows, total_samples=1000)
    found = sb.compare([models[0], stream])
    assert found.notes == ()
    assert math.isnan(found[1].bound)
    assert (found[1].objective, found[1].n_iter) == ("", 0)
    assert "nan" not in repr(found)


def test_bad_arguments_are_refused(models: list[Any]) -> None:
    with pytest.raises(ValueError, match="models is empty"):
        sb.compare([])
    with pytest.raises(ValueError, match="names has 1 entries for 2 models"):
        sb.compare(models, names=["a"])
    with pytest.raises(ValueError, match="not fitted"):
        sb.compare([sb.Mixture()])
    with pytest.raises(ValueError, match="fitted estimators of stickbreak; got 3"):
        sb.compare([3])


# ---- to_xarray -----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_data_set_holds_all_summaries_with_named_axes(name: str) -> None:
    pytest.importorskip("xarray")
    case = CASES[name]
    model = sb.DPMixture(4, family=name, random_state=0).fit(case.rows)
    found = model.to_xarray()
    for key, array in model.posterior_.items():
        first = (
            "feature"
            if name != "autoregressive"
            else "context"
            if key.startswith("context")
            else "value"
        )
        assert found[key].dims[:2] == ("component", first)
        np.testing.assert_array_equal(found[key], array)
    np.testing.assert_array_equal(found["component"], np.arange(model.n_components_))
    np.testing.assert_array_equal(found["weight"].sel(component=2), model.weights_[2])
    np.testing.assert_array_equal(found["count"], model.counts_)
    np.testing.assert_array_equal(found["bound"], model.trace_.bound)
    assert found.sizes["lap"] == model.n_iter_
    assert found.attrs["lower_bound"] == model.lower_bound_


def test_a_data_set_has_the_names_of_the_columns() -> None:
    pytest.importorskip("xarray")
    frame = pd.DataFrame(blobs(), columns=["width", "height"])
    model = sb.Mixture(2, random_state=0).fit(frame)
    found = model.to_xarray()
    assert found["covariance"].dims == ("component", "feature", "other_feature")
    np.testing.assert_array_equal(found["mean"].sel(feature="height"), model.means_[:, 1])


def test_summaries_of_some_columns_have_axes_of_their_own() -> None:
    assert summary_axes("covariance of a, b", (2, 2), 3) == (
        "feature of a, b",
        "other_feature of a, b",
    )
    assert summary_axes("probability", (3,), 3) == ("feature",)
    assert summary_axes("time", (3, 4), 3) == ("time_0", "time_1")
    assert summary_axes("covariance", (2, 2), 4) == ("value", "other_value")


def test_a_stream_has_a_data_set_without_laps() -> None:
    pytest.importorskip("xarray")
    found = sb.Mixture(2, random_state=0).partial_fit(blobs()).to_xarray()
    assert found.sizes["lap"] == 0
    assert found.sizes["component"] == 2


def test_a_data_set_of_topics_has_words() -> None:
    pytest.importorskip("xarray")
    model = sb.LatentDirichletAllocation(2, random_state=0).fit(
        [["cat", "dog", "cat"], ["salt", "soup"]] * 20
    )
    found = model.to_xarray()
    assert found["probability"].dims == ("topic", "word")
    np.testing.assert_array_equal(found["topic"], [0, 1])
    np.testing.assert_array_equal(found["probability"].sel(word="soup"), model.topic_word_[:, 3])
    np.testing.assert_array_equal(found["weight"], model.weights_)
    numbered = sb.LatentDirichletAllocation(2, random_state=0).fit(np.eye(5)).to_xarray()
    np.testing.assert_array_equal(numbered["word"], np.arange(5))
