"""The pieces of the experiment on parts of speech, on a few sentences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import stickbreak as sb
from experiments import frame
from experiments.part_of_speech import (
    STEPS,
    WORDS,
    baseline,
    choose_prior,
    fit,
    make_engines,
    score,
    write_scores,
)
from experiments.random_counts import FromCounts, FromParameters
from experiments.tagged import Sentence, cut, make_dictionary, read_joined, read_trees

pytestmark = pytest.mark.slow  # what experiments print, not what the library does

TREES = """
( (S (NP-SBJ (DT The) (NN dog) ) (VP (VBZ runs) (NP (-NONE- *T*-1) )) (. .) ))
((S (NP (NN dog)) (VP (VBZ eats) (NP (NN fish))) (. .)))
"""


def draw(n: int) -> list[Sentence]:
    rng = np.random.default_rng(0)
    kinds = {"DT": ["the", "a"], "NN": ["dog", "cat", "fish"], "VB": ["runs", "eats", "fish"]}
    return [
        [(str(rng.choice(kinds[tag])), tag) for tag in ["DT", "NN", "VB"] * int(rng.integers(1, 4))]
        for _ in range(n)
    ]


def test_leaves_are_read_without_traces() -> None:
    assert list(read_trees(TREES)) == [
        [("The", "DT"), ("dog", "NN"), ("runs", "VBZ"), (".", ".")],
        [("dog", "NN"), ("eats", "VBZ"), ("fish", "NN"), (".", ".")],
    ]


def test_words_and_tags_are_parted_at_the_last_mark() -> None:
    assert read_joined("1/2/cd cat/nn / x", "/") == [("1/2", "cd"), ("cat", "nn")]


def test_rare_words_are_left_out_of_the_dictionary() -> None:
    pool = [[("a", "X"), ("b", "Y")], [("a", "Y")], [("b", "Y"), ("c", "X")]]
    assert make_dictionary(pool, pool[:2], ["X", "Y"], 1) == {"a": [0, 1], "b": [1]}
    assert make_dictionary(pool, pool[:2], ["X", "Y"], 2) == {"a": [0, 1]}


def test_baselines_need_no_model() -> None:
    pool = draw(40)
    name, scores = baseline(cut(pool, pool, 20, 1))
    words = [word for sentence in pool[:20] for word, _ in sentence]
    wanted = 100 * np.mean([0.5 if word == "fish" else 1.0 for word in words])
    assert name == "a random legal tag"
    assert scores["accuracy"] == pytest.approx(wanted)
    name, scores = baseline(cut(pool, pool, 20, None))
    assert name == "the 2 commonest words, and the rest"
    assert scores["states"] == 3


@pytest.mark.parametrize("engine", list(make_engines()))
def test_every_engine_tags_with_a_dictionary_and_without(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(frame.QUICK, "1")
    pool, make = [*draw(60), [("unseen", "NN")]], make_engines()[engine]
    data = cut(pool, pool, 30, 1)
    step, word = prior = choose_prior(data, make, 3)
    assert step in STEPS
    assert word in WORDS
    model, seconds = fit(data, make(5), prior, 0)
    found = score(data, model.labels_)
    assert found["accuracy"] > baseline(data)[1]["accuracy"]
    assert seconds > 0
    free = cut(pool, pool, 30, None)
    assert score(free, fit(free, make(5), (0.1, 0.1), 0)[0].labels_)["states"] <= 3
    assert "accuracy" in write_scores([found, found])


@pytest.mark.parametrize("kind", [FromParameters, FromCounts])
def test_random_counts_replace_those_of_the_start(kind: type) -> None:
    """Totals of words are sums of theirs; counts are those of all data, parameters are firm."""
    pool = draw(30)
    data = cut(pool, pool, 30, 1)
    starts: list[Any] = []

    class Kept(kind):  # type: ignore[misc]
        def _seed(self, *given: Any) -> Any:
            starts.append(super()._seed(*given))
            return starts[-1]

    model, _ = fit(data, sb.BatchVB(max_iter=2), (0.1, 0.1), 0, Kept)
    seed, n = starts[0].seed, sum(map(len, data.words))
    np.testing.assert_allclose(seed["emission"].sum(0), seed["emission_total"][0])
    if kind is FromCounts:
        assert seed["emission"].sum() == pytest.approx(n, rel=0.5)  # by chance
    else:
        table = seed["emission"] / seed["emission_total"]
        log_mean = model._fitted.model.family.mean_log(seed.arrays).log_table
        np.testing.assert_allclose(np.exp(log_mean), table, rtol=1e-5)
    assert np.isfinite(model.lower_bound_)
