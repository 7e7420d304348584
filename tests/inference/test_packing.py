"""Bytes of a task's counts: words that do not occur in it stay at home."""

from __future__ import annotations

import numpy as np
import pytest

from stickbreak.inference.remote.packing import pack_total, unpack_total
from stickbreak.stats import SYMBOL, Field, Summary


def some_counts(n_words: int) -> Summary:
    """20 x 5,000 counts of words, of which some occur, and others that hold no words."""
    rng = np.random.default_rng(0)
    words = np.zeros((20, 5000))
    words[:, np.sort(rng.choice(5000, n_words, replace=False))] = rng.random((20, n_words)) + 0.1
    layout = {"word": Field(("topic", SYMBOL)), "share": Field(("topic",))}
    return Summary(layout, {"word": words, "share": words.sum(1)}, log_z=1.5)


@pytest.mark.parametrize("n_words", [0, 500, 5000])
def test_what_is_unpacked_is_what_was_packed(n_words: int) -> None:
    total = some_counts(n_words)
    side = some_counts(100)
    parcel = pack_total(Summary(**{**vars(total), "sides": {"merge": side}}), [])
    found, kept = unpack_total(parcel)
    assert kept == []
    assert found.log_z == 1.5
    for name, array in total.arrays.items():
        assert found[name].tobytes() == array.tobytes()
        assert found.sides["merge"][name].tobytes() == side[name].tobytes()
    assert sum(map(len, parcel)) < 8 * 20 * (n_words + 100) + 8 * (n_words + 100) + 5_000
