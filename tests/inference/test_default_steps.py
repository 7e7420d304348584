"""Steps of stochastic inference that nobody has chosen: the data declare them."""

from __future__ import annotations

import numpy as np
import pytest

from stickbreak.data import Documents, Sequences, Table
from stickbreak.inference import PowerDecay, StochasticCollapsedVB, StochasticVB, SubchainVB

CAREFUL = PowerDecay(0.6, 10.0)


def sequences(n: int, length: int) -> Sequences:
    return Sequences(np.zeros((n * length, 1)), offsets=length * np.arange(n + 1))


@pytest.mark.parametrize(
    ("n", "length", "size"), [(250, 4000, 8), (100, 500, 64), (70, 128, 64)], ids=str
)
def test_steps_of_many_sequences_and_rows_are_large(n, length, size):
    data, engine = sequences(n, length), StochasticVB()
    assert engine.schedule_for(data) == PowerDecay(1.0, 80.0, 1.0)
    assert engine.plan(data).batch_size == size


@pytest.mark.parametrize(
    "data",
    [
        sequences(300, 20),  # sentences
        sequences(4, 20_000),  # a step holds one or two
        Documents.from_counts(np.ones((300, 200))),
        Table(np.zeros((5000, 2))),
    ],
    ids=["sentences", "long", "documents", "rows"],
)
def test_steps_that_show_little_are_careful(data):
    assert StochasticVB().schedule_for(data) == CAREFUL
    assert data.steps.size == data.step_size


def test_what_is_given_counts_and_other_engines_are_careful():
    data = sequences(250, 4000)
    assert StochasticVB(kappa=0.9).schedule_for(data) == PowerDecay(0.9, 10.0)
    assert StochasticVB(batch_size=4).schedule_for(data) == CAREFUL
    assert StochasticVB(batch_size=4).plan(data).batch_size == 4
    for engine in (StochasticCollapsedVB(), SubchainVB()):
        assert engine.schedule_for(data) == CAREFUL
    with pytest.raises(ValueError, match=r"kappa must lie in \[0, 1\]"):
        StochasticVB(kappa=2.0).check()
