"""Pictures of semi-Markov models show laws of durations over the lengths found."""

from __future__ import annotations

import matplotlib
import numpy as np
import pytest
from matplotlib import pyplot as plt

import stickbreak as sb
from stickbreak.plots.segment_panels import lengths_by_state

matplotlib.use("Agg")
LENGTHS = (6, 10, 6, 10)
PATH = np.repeat([-5.0, 5.0, -5.0, 5.0], LENGTHS)[:, None]
X = [PATH + np.random.default_rng(s).normal(size=PATH.shape) for s in range(3)]


@pytest.mark.parametrize("form", ["exact", "embedded"])
def test_laws_are_drawn_over_the_segments_found(form):
    model = sb.HSMM(2, duration_inference=form, init="k-means++", random_state=0).fit(X)
    ax = model.plot("durations")
    assert ax.get_title(loc="left") == "durations"
    assert [text.get_text() for text in ax.get_yticklabels()] == [
        str(k) for k in np.argsort(-model.weights_)
    ]
    assert len(ax.patches) > 0
    assert len([line for line in ax.lines if len(line.get_xdata()) > 2]) == 2
    assert set(model.plot().axes) != set()
    plt.close("all")


def test_lengths_leave_out_what_the_end_cuts_off():
    found = lengths_by_state([np.array([0, 0, 1, 0, 0, 0]), np.array([1, 1])], 2)
    assert [part.tolist() for part in found] == [[2], [1]]
