"""Pictures of aligners: words at the axes, frames where links are, arcs from word to word."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.patches import PathPatch, Rectangle

import stickbreak as sb

PAIRS = [("the house", "das Haus"), ("the book", "das Buch"), ("a book", "ein Buch")]
PAIR = ("a house", "ein $Haus$")


@pytest.fixture(scope="module")
def fitted():
    return sb.HMMAligner().fit(PAIRS)


@pytest.fixture(autouse=True)
def close():
    yield
    plt.close("all")


def test_the_grid_has_words_posteriors_and_frames(fitted):
    ax = fitted.plot("alignment", PAIR, symmetrize="union")
    assert [t.get_text() for t in ax.get_yticklabels()] == ["NULL", "a", "house"]
    assert [t.get_text() for t in ax.get_xticklabels()] == ["ein", r"\$Haus\$"]
    drawn = ax.get_images()[0].get_array()
    np.testing.assert_array_equal(drawn, fitted.predict_proba([PAIR])[0].T)
    frames = [p for p in ax.patches if isinstance(p, Rectangle)]
    assert len(frames) == len(fitted.align([PAIR], symmetrize="union")[0])


def test_arcs_join_words(fitted):
    ax = fitted.plot("arcs", PAIRS[0])
    words = {text.get_text() for text in ax.texts}
    assert {"the", "house", "das", "Haus"} <= words
    assert sum(isinstance(p, PathPatch) for p in ax.patches) >= 2


def test_all_panels_make_one_figure(fitted):
    figure = fitted.plot(X=PAIRS[0])
    titles = {ax.get_title(loc="left") for ax in figure.axes}
    assert {"trace", "jumps", "links, source above target"} <= titles
    assert len(fitted.plot().axes) < len(figure.axes)  # without a pair, no links


def test_bad_requests_are_refused(fitted):
    with pytest.raises(ValueError, match="shows data; give them"):
        fitted.plot("arcs")
    with pytest.raises(ValueError, match="a pair to draw needs words on both sides"):
        fitted.plot("arcs", ("", "das"))
    with pytest.raises(ValueError, match="panel must be one of 'arcs', 'trace', 'jumps'"):
        fitted.plot("weights")
