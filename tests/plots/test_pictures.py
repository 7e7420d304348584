"""Pictures have the marks, names and notes that they promise, and leave matplotlib as it was."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
import pytest
from estimator_cases import CASES, NAMES
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse
from scipy import sparse

import stickbreak as sb
from stickbreak import plots
from stickbreak.families.base import BaseFamily
from stickbreak.inference import Trace
from stickbreak.inference.trace import LapRecord
from stickbreak.plots.gaussians import DEVIATIONS, ellipse_axes
from stickbreak.plots.panels import _round_rows
from stickbreak.plots.style import PALETTE
from stickbreak.plots.view import MAX_COMPONENTS
from stickbreak.structures import Independent

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def no_figure_left() -> Iterator[None]:
    """Every test closes what it opened, and no picture changes the user's settings."""
    before = dict(matplotlib.rcParams)
    yield
    plt.close("all")
    assert dict(matplotlib.rcParams) == before


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.concatenate([rng.normal((-6, 0), 1, (120, 2)), rng.normal((6, 3), 1, (60, 2))])


@pytest.fixture(scope="module")
def model(rows: np.ndarray) -> sb.DPMixture:
    return sb.DPMixture(
        6, inference=sb.MemoizedVB(moves=None), init="k-means++", n_init=3, random_state=0
    ).fit(rows)


def words(figure: Any) -> str:
    """All that is written in a figure, also in axes inside axes."""
    return "\n".join(t.get_text() for t in figure.findobj(matplotlib.text.Text))


def test_the_whole_picture_has_a_panel_for_each_part(model: sb.DPMixture, rows: np.ndarray) -> None:
    figure = model.plot(X=rows)
    # the layout has room for everything: constrained layout warns when it has not
    figure.canvas.draw()
    assert isinstance(figure, Figure)
    assert len(figure.axes) == 3
    found = words(figure)
    for text in (
        "trace",
        "converged after",
        "weights, with expected rows",
        "2 components, by weight",
        "180 rows",
    ):
        assert text in found


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_family_has_a_picture_with_and_without_rows(name: str) -> None:
    case = CASES[name]
    model = sb.Mixture(3, family=name, random_state=0).fit(case.rows)
    for X in (None, case.rows):
        found = words(model.plot(X=X))
        assert "3 components, by weight" in found
        assert ("150 rows" in found) == (X is not None)


def test_the_trace_is_the_bound_after_each_lap(model: sb.DPMixture) -> None:
    ax = model.plot("trace")
    (line,) = ax.get_lines()
    np.testing.assert_array_equal(line.get_xdata(), 1 + np.arange(model.n_iter_))
    np.testing.assert_array_equal(line.get_ydata(), model.trace_.bound)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("lap", "bound (nats)")


@pytest.mark.parametrize(
    ("engine", "label"),
    [
        ("em", "log joint (nats)"),
        ("hard-em", "log joint of the best labels (nats)"),
        ("stochastic", "log normalizer per row (nats)"),
    ],
)
def test_the_trace_names_what_it_shows(engine: str, label: str, rows: np.ndarray) -> None:
    ax = sb.Mixture(2, inference=engine, random_state=0).fit(rows).plot("trace")
    assert ax.get_ylabel() == label


def test_a_stream_has_no_trace_and_says_so(rows: np.ndarray) -> None:
    assert "fitted by partial_fit" in words(sb.Mixture(2, random_state=0).partial_fit(rows).plot())


def test_weights_are_bars_in_order_with_numbers_and_a_note_on_the_rest(model: sb.DPMixture) -> None:
    ax = model.plot("weights")
    heights = [bar.get_height() for bar in ax.patches]
    np.testing.assert_allclose(heights, np.sort(model.weights_)[::-1][:2])
    assert [t.get_text() for t in ax.get_xticklabels()] == [
        str(k) for k in np.argsort(-model.weights_)[:2]
    ]
    assert "not drawn: 4 components with" in words(ax.figure)
    assert [bar.get_facecolor() for bar in ax.patches] == [
        matplotlib.colors.to_rgba(c) for c in PALETTE[:2]
    ]


def test_ellipses_lie_at_two_deviations_of_the_posterior(
    model: sb.DPMixture, rows: np.ndarray
) -> None:
    ax = model.plot("components", rows)
    found = [p for p in ax.patches if isinstance(p, Ellipse)]
    order = np.argsort(-model.weights_)[:2][::-1]  # the largest is drawn last, on top
    np.testing.assert_allclose([p.get_center() for p in found], model.means_[order])
    for patch, k in zip(found, order, strict=True):
        edge = (
            patch.get_patch_transform().transform([[1, 0], [0, 1], [-0.6, 0.8]]) - model.means_[k]
        )
        distance = np.einsum("ni,ij,nj->n", edge, np.linalg.inv(model.covariances_[k]), edge)
        np.testing.assert_allclose(distance, DEVIATIONS**2, rtol=1e-9)  # rounding only


def test_rows_have_the_color_of_their_component(model: sb.DPMixture, rows: np.ndarray) -> None:
    ax = model.plot("components", rows)
    colors = ax.collections[0].get_facecolors()[:, :3]
    largest = model.predict(rows) == model.weights_.argmax()
    np.testing.assert_allclose(
        colors[largest], np.tile(matplotlib.colors.to_rgb(PALETTE[0]), (largest.sum(), 1))
    )
    np.testing.assert_allclose(
        colors[~largest], np.tile(matplotlib.colors.to_rgb(PALETTE[1]), ((~largest).sum(), 1))
    )


def test_a_large_table_is_sampled(model: sb.DPMixture, rows: np.ndarray) -> None:
    ax = model.plot("components", np.tile(rows, (20, 1)))
    assert len(ax.collections[0].get_offsets()) == 2000


def test_an_ellipse_of_a_diagonal_covariance_has_its_axes() -> None:
    assert ellipse_axes(np.diag([9.0, 1.0])) == pytest.approx((12.0, 4.0, 0.0))
    width, height, angle = ellipse_axes(np.diag([1.0, 9.0]))
    assert (width, height, abs(angle)) == pytest.approx((12.0, 4.0, 90.0))


def test_one_column_is_a_density_that_integrates_to_one() -> None:
    rng = np.random.default_rng(1)
    X = np.concatenate([rng.normal(-4, 1, (80, 1)), rng.normal(4, 0.5, (40, 1))])
    ax = sb.Mixture(2, random_state=0).fit(X).plot("components")
    x, y = ax.get_lines()[-1].get_data()
    assert np.trapezoid(y, x) == pytest.approx(1.0, abs=0.06)  # the view ends at two deviations
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x0", "density")


def test_columns_are_named_and_chosen_by_what_they_tell() -> None:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(200, 7))
    X[:100, [1, 3, 4, 6]] += 8
    frame = pd.DataFrame(X, columns=list("abcdefg"))
    model = sb.Mixture(2, random_state=0).fit(frame)
    found = words(model.plot("components", frame).figure)
    assert "the 4 most telling of 7 columns" in found
    labels = {t for t in found.splitlines() if t in list("abcdefg")}
    assert labels == {"b", "d", "e", "g"}
    ax = model.plot("components", columns=["a", 6])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("a", "g")


def test_a_pair_plot_has_a_cell_for_each_pair_and_a_key() -> None:
    rng = np.random.default_rng(3)
    X = np.concatenate([rng.normal(-5, 1, (60, 3)), rng.normal(5, 1, (60, 3))])
    ax = sb.Mixture(2, random_state=0).fit(X).plot("components", X)
    cells = ax.child_axes
    assert len(cells) == 6  # three pairs and three densities
    assert sum(isinstance(p, Ellipse) for cell in cells for p in cell.patches) == 6
    assert sum("(50 %)" in t.get_text() for t in ax.texts) == 2


@pytest.mark.parametrize("name", ["bernoulli", "multinomial", "poisson"])
def test_a_heat_map_shows_the_table_with_the_largest_component_first(name: str) -> None:
    case = CASES[name]
    model = sb.Mixture(3, family=name, random_state=0).fit(case.rows)
    ax = model.plot("components", case.rows)
    upper, lower = (cell for cell in ax.child_axes if cell.images)
    (table,) = model.posterior_.values()
    np.testing.assert_allclose(
        upper.images[0].get_array(), table[np.argsort(-model.weights_, kind="stable")]
    )
    assert upper.images[0].get_array().shape[1] == lower.images[0].get_array().shape[1]
    assert len(lower.images[0].get_array()) == 150


def test_a_categorical_heat_map_names_columns_and_symbols() -> None:
    case = CASES["categorical"]
    ax = sb.Mixture(3, family="categorical", random_state=0).fit(case.rows).plot("components")
    cell = ax.child_axes[0]
    assert [t.get_text() for t in cell.get_xticklabels()][:4] == [
        "x0 = 0",
        "x0 = 1",
        "x0 = 2",
        "x1 = 0",
    ]
    np.testing.assert_allclose(cell.images[0].get_array()[:, :3].sum(1), 1.0)


def test_many_words_are_cut_to_the_most_telling_also_from_sparse_rows() -> None:
    rng = np.random.default_rng(4)
    p = np.full((2, 200), 1.0)
    p[0, :10] += 40
    p[1, 100:110] += 40
    X = sparse.csr_array(np.concatenate([rng.multinomial(60, q / q.sum(), 40) for q in p]))
    model = sb.Mixture(2, family="multinomial", random_state=0).fit(X)
    ax = model.plot("components", X)
    assert "the 32 most telling of 200 columns" in words(ax.figure)
    labels = {t.get_text() for cell in ax.child_axes for t in cell.get_xticklabels()}
    assert {f"x{d}" for d in (*range(10), *range(100, 110))} <= labels


def test_more_components_than_can_be_told_apart_are_left_out_with_a_note() -> None:
    fitted = plots.View(
        structure=Independent(),
        family=sb.Poisson(),
        trace=Trace([LapRecord(1, -5.0, -1.0, 20, 0.1), LapRecord(2, -4.0, -1.0, 18, 0.2)]),
        weights=np.full(20, 0.05),
        counts=np.full(20, 10.0),
        posterior={"rate": np.arange(40.0).reshape(20, 2) + 1},
        names=["a", "b"],
        is_converged=False,
    )
    found = words(plots.draw_figure(fitted))
    assert f"not drawn: {20 - MAX_COMPONENTS} components with 30.0 % of the weight" in found
    assert "not converged after 2 laps" in found
    # their number changed, so the trace shows it
    assert "components" in [ax.get_ylabel() for ax in plt.gcf().axes]


def test_a_model_without_rows_in_any_component_still_draws_the_largest() -> None:
    X = CASES["poisson"].rows
    model = sb.Mixture(3, family="poisson", random_state=0).fit(
        X, sample_weight=np.full(len(X), 1e-3)
    )
    assert "1 component, by weight" in words(model.plot())


def test_a_panel_is_drawn_where_it_is_asked_for(model: sb.DPMixture) -> None:
    figure, (left, right) = plt.subplots(1, 2)
    assert model.plot("trace", ax=left) is left
    assert model.plot("components", ax=right) is right
    assert plt.get_fignums() == [figure.number]


class Sheets(Independent):
    """A structure with one more thing to show."""


class Volume(BaseFamily):
    """A family without a picture of its own."""


def test_structures_and_families_can_register_their_own() -> None:
    drawn = []
    plots.panels_of.register(
        Sheets,
        lambda s: {
            **plots.panels_of(Independent()),
            "sheets": plots.Panel(lambda f, ax: drawn.append(f)),
        },
    )
    names, half = ["a", "b"], np.array([0.5, 0.5])
    fitted = plots.View(Sheets(), Volume(), Trace(), half, 9 * half, {"size": np.eye(2)}, names)
    figure = plots.draw_figure(fitted)
    assert drawn == [fitted]
    assert "size" in words(figure)  # a value for each column: a heat map
    odd = plots.View(Sheets(), Volume(), Trace(), half, 9 * half, {"size": np.ones(2)}, names)
    with pytest.raises(ValueError, match=r"Volume has no picture.*register one"):
        plots.draw_figure(odd)


def make_fitted(
    family: object, posterior: dict[str, np.ndarray], names: list[str], rows: object = None
) -> plots.View:
    """Two equal components; rows belong to them in turn."""
    half = np.array([0.5, 0.5])
    labels = None if rows is None else np.arange(len(rows)) % 2  # type: ignore[arg-type]
    return plots.View(
        Independent(),
        family,
        Trace(),
        half,
        90 * half,
        posterior,
        names,
        rows=rows,
        labels=labels,
    )


def test_members_of_a_family_are_drawn_one_below_the_other() -> None:
    gaussian = make_fitted(
        sb.Gaussian(),
        {"mean": np.eye(2), "covariance": np.stack([np.eye(2)] * 2)},
        ["height", "weight"],
    )
    rates = make_fitted(sb.Poisson(), {"rate": np.ones((2, 3))}, ["a", "b", "c"])
    _, ax = plt.subplots()
    plots.draw_members([gaussian, rates], ax)
    upper, lower = ax.child_axes
    assert (upper.get_xlabel(), upper.get_ylabel()) == ("height", "weight")
    assert [t.get_text() for t in lower.child_axes[0].get_xticklabels()] == ["a", "b", "c"]
    assert upper.get_position().y0 > lower.get_position().y0


@pytest.mark.slow
def test_rows_with_missing_values_are_drawn_as_far_as_they_go() -> None:
    rows = np.array([[0.0, np.nan], [1.0, 2.0], [np.nan, np.nan], [3.0, 1.0]])
    shape = {"mean": np.eye(2), "covariance": np.stack([np.eye(2)] * 2)}
    for columns in ((0, 1), (0,)):
        fitted = replace(make_fitted(sb.Gaussian(), shape, ["a", "b"], rows), columns=columns)
        ax = plots.draw_panel(fitted, "components")
        ax.figure.canvas.draw()
        assert np.isfinite(ax.get_xlim()).all()
        assert ax.get_xlim()[1] > 3.0
    ax = plots.draw_panel(
        make_fitted(sb.Poisson(), {"rate": np.ones((2, 2))}, ["a", "b"], rows), "components"
    )
    ax.figure.canvas.draw()
    lower = [cell for cell in ax.child_axes if cell.images][1]
    assert np.ma.count_masked(np.ma.masked_invalid(lower.images[0].get_array())) == 3


def test_bad_arguments_name_the_value_and_the_remedy(model: sb.DPMixture, rows: np.ndarray) -> None:
    with pytest.raises(
        ValueError,
        match="panel must be one of 'trace', 'weights', 'components', or None for all; got 'bars'",
    ):
        model.plot("bars")
    with pytest.raises(ValueError, match=r"got a ndarray: rows are given as plot\(X=...\)"):
        model.plot(rows)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="ax takes one panel; name it"):
        model.plot(ax=plt.figure().add_subplot())
    with pytest.raises(ValueError, match="columns holds 7; positions are 0 to 1, names 'x0', 'x1'"):
        model.plot("components", columns=[7])
    with pytest.raises(ValueError, match="columns must be a list"):
        model.plot("components", columns="x0")
    with pytest.raises(ValueError, match="X has 1 features"):
        model.plot("components", rows[:, :1])
    wide = sb.Mixture(2, random_state=0).fit(np.random.default_rng(0).normal(size=(50, 5)))
    with pytest.raises(
        ValueError, match="columns has 5 entries; a picture of Gaussian components takes 1 to 4"
    ):
        wide.plot("components", columns=[0, 1, 2, 3, 4])
    with pytest.raises(ValueError, match="not fitted"):
        sb.Mixture().plot()


def test_rows_in_words_take_at_most_four_characters() -> None:
    assert [_round_rows(n) for n in (0.4, 12.2, 9999, 12_345, 1_234_567, 2.5e9)] == [
        "0",
        "12",
        "9999",
        "12k",
        "1.2M",
        "2.5G",
    ]


@pytest.mark.slow  # a process of its own
def test_without_matplotlib_the_error_names_the_extra() -> None:
    code = """
import sys
sys.modules["matplotlib"] = None
import numpy as np, stickbreak as sb
model = sb.Mixture(1).fit(np.arange(8.0).reshape(4, 2))
try:
    model.plot()
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "plot needs matplotlib: pip install 'stickbreak[plot]'"
