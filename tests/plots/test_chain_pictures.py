"""Pictures of chains show states over time, transitions and stays as they are."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib
import numpy as np
import pytest
from matplotlib import pyplot as plt
from sequence_cases import make_sequences

import stickbreak as sb
from stickbreak.plots.chain_panels import MAX_COLUMNS, MAX_STRIPS, strip_color

matplotlib.use("Agg")
CASE = make_sequences("gaussian")


@pytest.fixture(autouse=True)
def no_figure_left() -> Iterator[None]:
    """Every test closes what it opened, and no picture changes the user's settings."""
    before = dict(matplotlib.rcParams)
    yield
    plt.close("all")
    assert dict(matplotlib.rcParams) == before


@pytest.fixture(scope="module")
def model() -> sb.HMM:
    return sb.HMM(3, random_state=0).fit(CASE.sequences)


def words(figure) -> str:
    return "\n".join(t.get_text() for t in figure.findobj(matplotlib.text.Text))


def strips(ax) -> np.ndarray:
    """(S, T) ranks of states, NaN after the end."""
    return np.asarray(ax.images[0].get_array().filled(np.nan))


@pytest.mark.slow
def test_the_whole_picture_has_all_panels(model):
    figure = model.plot(X=CASE.sequences)
    text = words(figure)
    for title in (
        "states over time",
        "trace",
        "weights, with expected rows",
        "transition probabilities",
        "expected length of a stay",
    ):
        assert title in text
    assert "3 states, by weight" in text
    figure.canvas.draw()  # nothing is wrong with the layout


def test_strips_show_the_states_of_every_row(model):
    order = np.argsort(-model.weights_, kind="stable")
    rank = np.argsort(order)
    for ax in (
        model.plot("segmentation"),
        model.plot("segmentation", X=CASE.stacked, lengths=CASE.lengths),
    ):
        found = strips(ax)
        for s, states in enumerate(model.labels_):
            np.testing.assert_array_equal(found[s, : len(states)], rank[states])
            assert np.isnan(found[s, len(states) :]).all()
        assert [text.get_text() for text in ax.get_legend().get_texts()] == [str(k) for k in order]


def test_many_and_long_sequences_are_cut_with_a_note():
    case = make_sequences("gaussian", (20,) * (MAX_STRIPS + 5))
    ax = sb.HMM(3, random_state=0).fit(case.sequences).plot("segmentation")
    assert len(strips(ax)) == MAX_STRIPS
    assert f"the first {MAX_STRIPS} of {MAX_STRIPS + 5} sequences" in words(ax.figure)
    long = make_sequences("gaussian", (2 * MAX_COLUMNS + 1,))
    ax = sb.HMM(3, random_state=0).fit(long.sequences).plot("segmentation")
    assert strips(ax).shape[1] <= MAX_COLUMNS
    assert "one row of 3" in words(ax.figure)


@pytest.mark.slow
def test_a_model_from_a_file_asks_for_sequences(model, tmp_path):
    model.save(tmp_path / "m.stickbreak")
    copy = sb.load(tmp_path / "m.stickbreak")
    assert "no sequences to draw: give them as plot(X=...)" in words(
        copy.plot("segmentation").figure
    )
    assert len(strips(copy.plot("segmentation", X=CASE.sequences))) == len(CASE.sequences)
    assert "states over time" in words(copy.plot(X=CASE.sequences[0]))


def test_transitions_and_stays_are_those_of_the_model(model):
    order = np.argsort(-model.weights_, kind="stable")
    ax = model.plot("transitions")
    np.testing.assert_allclose(ax.images[0].get_array(), model.transmat_[np.ix_(order, order)])
    assert [t.get_text() for t in ax.get_yticklabels()] == [str(k) for k in order]
    bars = model.plot("durations").patches
    np.testing.assert_allclose([bar.get_height() for bar in bars], model.durations_[order])


def test_many_states_have_colors_of_their_own():
    colors = [strip_color(rank) for rank in range(14)]
    assert len(set(colors)) == 14
    model = sb.HDPHMM(12, random_state=0).fit(make_sequences("gaussian", (200, 100)).sequences)
    assert model.plot() is not None


@pytest.mark.slow
def test_autoregressions_are_drawn_with_their_past():
    case = make_sequences("autoregressive", (80, 60))
    model = sb.HMM(2, family="autoregressive", random_state=0).fit(case.sequences)
    text = words(model.plot(X=case.sequences))
    assert "x1 1 before" in text
    assert model.plot("components", columns=["x0", "x0 1 before"]).get_ylabel() == "x0 1 before"


def test_an_unknown_panel_is_refused(model):
    with pytest.raises(
        ValueError, match="panel must be one of 'segmentation', 'trace', 'weights', 'transitions'"
    ):
        model.plot("strips")
