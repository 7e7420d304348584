"""Pictures of topic models show words by their probability, and documents by their topics."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import matplotlib
import numpy as np
import pytest
from matplotlib import pyplot as plt
from topics import corpus

import stickbreak as sb
from stickbreak import plots
from stickbreak.estimators.views import MAX_DOCUMENTS, choose_evenly
from stickbreak.inference import Trace
from stickbreak.plots.topic_panels import MAX_TOPICS, count_cells, join_words, shorten
from stickbreak.structures import Document

matplotlib.use("Agg")
PETS, COOKING, SEA = (
    ["cat", "dog", "cat", "fur"],
    ["salt", "soup", "salt", "pan"],
    ["ship", "wave", "ship", "tide"],
)
TEXTS = [PETS * 3, COOKING * 3, SEA * 2, PETS + COOKING] * 10


@pytest.fixture(autouse=True)
def no_figure_left() -> Iterator[None]:
    """Every test closes what it opened, and no picture changes the user's settings."""
    before = dict(matplotlib.rcParams)
    yield
    plt.close("all")
    assert dict(matplotlib.rcParams) == before


@pytest.fixture(scope="module")
def model() -> sb.LatentDirichletAllocation:
    return sb.LatentDirichletAllocation(3, random_state=0).fit(TEXTS)


def words(figure) -> str:
    return "\n".join(t.get_text() for t in figure.findobj(matplotlib.text.Text))


def cell_words(cell) -> list[str]:
    return [text.get_text() for text in cell.texts if text.get_text()]


def many_topics(n: int, names: list[str], **more) -> plots.View:
    """A view of n topics of the same size, each with one word more than the others; documents of
    one topic each.
    """
    probability = np.full((n, 1, len(names)), 0.5 / len(names))
    probability[np.arange(n), 0, np.arange(n)] += 0.5
    return plots.View(
        Document(), sb.Categorical(), Trace(), np.full(n, 1 / n), np.full(n, 10.0),
        {"probability": probability},
        names, noun="topic", unit="word", **more,
    )  # fmt: skip


@pytest.mark.slow
def test_the_whole_picture_has_all_panels(model):
    figure = model.plot(X=TEXTS)
    text = words(figure)
    for title in (
        "topics: the most probable words",
        "shares of topics in documents",
        "trace",
        "weights, with expected words",
    ):
        assert title in text
    figure.canvas.draw()  # nothing is wrong with the layout


def test_without_documents_their_panel_is_left_out(model):
    figure = model.plot()
    assert len(figure.axes) == 3
    assert "shares of topics in documents" not in words(figure)


def test_asked_for_by_name_documents_are_needed(model):
    with pytest.raises(
        ValueError,
        match=r"panel 'documents' shows data; give them: "
        r"plot\('documents', X=...\)",
    ):
        model.plot("documents")
    assert plt.get_fignums() == []


def test_topics_show_their_most_probable_words_the_largest_first(model):
    ax = model.plot("topics", n_words=3)
    order = np.argsort(-model.weights_, kind="stable")
    assert len(ax.child_axes) == 3
    for cell, k, top in zip(ax.child_axes, order, model.top_words(3), strict=True):
        assert cell_words(cell) == top
        np.testing.assert_allclose(
            [bar.get_width() for bar in cell.patches], np.sort(model.topic_word_[k])[::-1][:3]
        )
        assert cell.get_title(loc="left") == f"{k}  ({100 * model.weights_[k]:.0f} %)"
    assert len({cell.get_xlim() for cell in ax.child_axes}) == 1  # one scale


def test_words_without_names_have_numbers():
    counts = corpus()
    model = sb.LatentDirichletAllocation(2, random_state=0).fit(counts)
    cell = model.plot("topics").child_axes[0]
    assert cell_words(cell) == [f"word {v}" for v in model.top_words(10)[0]]


def test_a_small_vocabulary_is_drawn_whole(model):
    found = [cell_words(cell) for cell in model.plot("topics", n_words=100).child_axes]
    assert [sorted(names) for names in found] == [sorted(model.feature_names_in_)] * 3


@pytest.mark.slow
def test_many_topics_are_left_out_with_a_note():
    fitted = many_topics(20, [f"w{v}" for v in range(30)])
    ax = plots.draw_panel(fitted, "topics")
    assert len(ax.child_axes) == MAX_TOPICS
    assert f"not drawn: {20 - MAX_TOPICS} topics with 40.0 % of the weight" in words(ax.figure)
    assert [cell_words(cell)[0] for cell in ax.child_axes] == [f"w{k}" for k in range(MAX_TOPICS)]
    plots.draw_figure(fitted).canvas.draw()


def test_in_a_small_ax_topics_are_lines_of_words():
    figure, ax = plt.subplots(figsize=(4, 3))
    plots.draw_panel(many_topics(12, [f"w{v}" for v in range(30)]), "topics", ax)
    figure.canvas.draw()
    assert not ax.child_axes
    lines = [text for text in cell_words(ax) if text.startswith("w")]
    assert [line.split()[0] for line in lines] == [f"w{k}" for k in range(12)]
    assert all(text.get_window_extent().x1 <= figure.bbox.x1 for text in ax.texts)


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 2, 3, 7, 12])
def test_cells_do_not_touch_each_other(n):
    ax = plots.draw_panel(many_topics(n, [f"w{v}" for v in range(30)]), "topics")
    ax.figure.canvas.draw()
    boxes = [cell.get_tightbbox() for cell in ax.child_axes]
    assert len(boxes) == n
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    assert not any(a.overlaps(b) for cell in ax.child_axes for a, b in _neighbours(cell))


def _neighbours(cell):
    """Places of words that follow each other."""
    places = [text.get_window_extent() for text in cell.texts]
    return pairwise(places)


@pytest.mark.slow
def test_long_and_odd_words_stay_in_their_cell():
    names = ["a_word_of_very_many_letters_that_goes_on_and_on", "$x_$", "<unk>", "50%", "\\alpha"]
    ax = plots.draw_panel(many_topics(5, names), "topics")
    ax.figure.canvas.draw()  # no mathematics is made of dollars
    for cell in ax.child_axes:
        assert all(text.get_window_extent().x1 <= cell.bbox.x1 for text in cell.texts)
    assert {"$x_$", "<unk>", "50%", "\\alpha"} < set(cell_words(ax.child_axes[0]))


def test_words_are_cut_and_joined_by_letters():
    assert [shorten("tomato", most) for most in (7, 6, 5, 1)] == ["tomato", "tomato", "toma…", "t…"]
    assert [join_words(["red", "wine"], most) for most in (9, 8, 1)] == ["red  wine", "red", "red"]
    assert [count_cells(n) for n in (1, 3, 4, 5, 12)] == [(1, 1), (1, 3), (2, 2), (2, 3), (3, 4)]


def test_documents_are_columns_by_their_largest_topic(model):
    ax = model.plot("documents", TEXTS[:8])
    shown = np.argsort(-model.weights_, kind="stable")
    found = np.asarray(ax.images[0].get_array())
    columns = [int(t.get_text()) for t in ax.get_xticklabels()]
    assert sorted(columns) == list(range(8))
    np.testing.assert_allclose(found, model.transform(TEXTS[:8])[columns][:, shown].T)
    assert (np.diff(found.argmax(0)) >= 0).all()


def test_topics_that_are_not_drawn_have_a_line_together():
    shares = np.full((4, 20), 0.0)
    shares[np.arange(4), [19, 0, 18, 1]] = 1.0
    fitted = many_topics(
        20, [f"w{v}" for v in range(20)], shares=shares, documents=np.arange(4), n_documents=4
    )
    ax = plots.draw_panel(fitted, "documents")
    assert [t.get_text() for t in ax.get_yticklabels()][-1] == "6 others  (30 %)"
    np.testing.assert_allclose(ax.images[0].get_array()[-1], [0, 0, 1, 1])


def test_many_documents_are_chosen_at_even_distances(model):
    ax = model.plot("documents", TEXTS * 3)
    assert ax.images[0].get_array().shape[1] == MAX_DOCUMENTS
    assert "60 of 120 documents, at even distances" in words(ax.figure)
    chosen = choose_evenly(1000, 60)
    assert (chosen[0], chosen[-1], len(set(chosen))) == (0, 999, 60)
    assert set(np.diff(chosen)) <= {16, 17}
    np.testing.assert_array_equal(choose_evenly(3, 60), np.arange(3))


@pytest.mark.slow
def test_the_number_of_topics_is_in_the_trace():
    found = words(sb.HDPTopicModel(init="documents", random_state=0).fit(TEXTS).plot(X=TEXTS))
    assert "topics" in found.splitlines()  # the second axis
    assert "topic" in found.splitlines()  # below the weights


@pytest.mark.slow
def test_streams_and_files_have_pictures(model, tmp_path):
    assert "fitted by partial_fit" in words(
        sb.LatentDirichletAllocation(2, random_state=0).partial_fit(TEXTS).plot(X=TEXTS)
    )
    model.save(tmp_path / "m.stickbreak")
    assert words(sb.load(tmp_path / "m.stickbreak").plot(X=TEXTS)) == words(model.plot(X=TEXTS))


@pytest.mark.parametrize("panel", ["topics", "documents", "trace", "weights"])
def test_a_panel_is_drawn_where_it_is_asked_for(model, panel):
    figure, ax = plt.subplots()
    assert model.plot(panel, TEXTS, ax=ax) is ax
    assert plt.get_fignums() == [figure.number]


def test_bad_arguments_name_the_value_and_the_remedy(model):
    with pytest.raises(
        ValueError,
        match="panel must be one of 'topics', 'documents', 'trace', 'weights', or None "
        "for all; got 'comp",
    ):
        model.plot("components")
    with pytest.raises(ValueError, match="n_words must be a whole number of at least 1; got 0"):
        model.plot("topics", n_words=0)
    with pytest.raises(ValueError, match="document 0 is a text"):
        model.plot("documents", ["a text"])
    with pytest.raises(ValueError, match="not fitted"):
        sb.HDPTopicModel().plot()
