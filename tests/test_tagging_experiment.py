"""The pieces of the experiment on parts of speech, on a few sentences."""

from __future__ import annotations

import numpy as np
import pytest

from experiments import frame, part_of_speech
from experiments.part_of_speech import (
    baseline,
    choose_prior,
    cut,
    fit,
    make_dictionary,
    make_engines,
    read_trees,
    score,
    write_scores,
)

TREES = """
( (S (NP-SBJ (DT The) (NN dog) ) (VP (VBZ runs) (NP (-NONE- *T*-1) )) (. .) ))
((S (NP (NN dog)) (VP (VBZ eats) (NP (NN fish))) (. .)))
"""


def draw(n: int) -> list[part_of_speech.Sentence]:
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
    prior = choose_prior(data, make, 3)
    assert set(prior) <= set(part_of_speech.QUICK_GRID)
    model, seconds = fit(data, make(5), prior, 0)
    found = score(data, model.labels_)
    assert found["accuracy"] > baseline(data)[1]["accuracy"]
    assert seconds > 0
    free = cut(pool, pool, 30, None)
    assert score(free, fit(free, make(5), (0.1, 0.1), 0)[0].labels_)["states"] <= 3
    assert "accuracy" in write_scores([found, found])
