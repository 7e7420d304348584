"""`TemplateGrammar`: fits, answers, files and bad input."""

from __future__ import annotations

import warnings
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stickbreak as sb

pytestmark = [
    pytest.mark.filterwarnings("ignore::stickbreak.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:the fit has not seen"),
    pytest.mark.filterwarnings("ignore:the fit leaves strings nearly whole"),
]

STRINGS = ["thedogsees", "thecat", "adog", "thecatsees", "acatsees", "thedog", "adogsees"] * 4
ENGINES = ["collapsed", "collapsed-gibbs", "em", "batch", "hard-em", "gibbs", "memoized"]


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_cuts_strings(engine: str) -> None:
    model = sb.TemplateGrammar(concentration=1.0, random_state=0, max_iter=20, inference=engine)
    found = model.fit(STRINGS).predict(STRINGS)
    assert ["".join(parts) for parts in found] == STRINGS
    assert [mark.shape for mark in model.labels_] == [(len(string),) for string in STRINGS]
    assert np.isfinite(model.score(STRINGS))
    assert model.score_sequences(STRINGS[:2]).shape == (2,)


def test_segments_have_names_and_places(tmp_path: Path) -> None:
    model = sb.TemplateGrammar(
        "Stem | Prefix Stem",
        base="uniform",
        concentration=0.01,
        random_state=0,
        max_iter=20,
        max_segment=4,
    ).fit(["kato", "bato", "kama", "bama", "to", "ma", "kati", "bati", "ti"])
    assert model.names_ == ["Stem", "Prefix"]
    assert model.template_.sum() == pytest.approx(1.0)
    for own, string in zip(model.parse(["kato", "xyz"]), ["kato", "xyz"], strict=True):
        assert [string[part.begin : part.end] for part in own] == [part.text for part in own]
        assert own[0].begin == 0
        assert own[-1].end == len(string)
        assert own[-1].name == "Stem"
    begins = model.parse_proba(["kato"])[0]
    assert begins[0] == pytest.approx(1.0)
    assert ((begins >= 0) & (begins <= 1 + 1e-12)).all()
    rules = model.top_rules(3)
    assert rules[0].times >= rules[2].times
    assert " -> " in str(rules[0])
    model.save(tmp_path / "m.stickbreak")
    loaded = sb.load(tmp_path / "m.stickbreak")
    assert loaded.predict(["kato", "xyz"]) == model.predict(["kato", "xyz"])
    assert loaded.score(["bati"]) == model.score(["bati"])


def test_all_short_strings_have_a_probability_of_at_most_one() -> None:
    # one letter and no repetition: the base is a distribution over strings
    model = sb.TemplateGrammar("Word", random_state=0, max_iter=5).fit(["ab", "a", "b", "ba"])
    strings = ["a", "b", "c", "ab", "ba", "aa", "bb", "cb", "aba", "bab"]
    assert np.exp(model.score_sequences(strings)).sum() < 1.0


def test_drawn_strings_are_as_frequent_as_their_scores_say() -> None:
    settings = {"max_segment": 2, "random_state": 0, "max_iter": 5, "concentration": 3.0}
    model = sb.TemplateGrammar("V | V M", **settings).fit(["ab", "a", "b", "ba", "bba"])
    strings = ["".join(own) for n in range(1, 5) for own in product("ab", repeat=n)]
    chances = np.exp(model.score_sequences(strings))
    drawn, segments = model.sample(4000)
    found = np.array([drawn.count(string) for string in strings]) / len(drawn)
    expected = chances / chances.sum()  # without other letters and longer segments
    # four standard errors
    assert (np.abs(found - expected) < 4 * np.sqrt(expected / len(drawn)) + 1e-3).all()
    assert ["".join(part.text for part in own) for own in segments] == drawn
    assert {tuple(part.name for part in own) for own in segments} == {("V",), ("V", "M")}
    assert model.sample(3, random_state=1)[0] == model.sample(3, random_state=1)[0]


@pytest.mark.parametrize("base", ["spelling", "uniform"])
def test_drawn_strings_are_like_those_that_were_given(base: str) -> None:
    settings = {"base": base, "random_state": 0, "max_iter": 3}
    strings, _ = sb.TemplateGrammar("Word+", **settings).fit(STRINGS).sample(5)
    assert set("".join(strings)) <= set("".join(STRINGS))
    lists = sb.TemplateGrammar(**settings).fit([["aa", "b"], ["b"]]).sample(2)[0]
    assert set(lists[0]) <= {"aa", "b"}
    (numbers,), ((first, *_),) = sb.TemplateGrammar(**settings).fit([np.array([0, 1])] * 3).sample()
    assert numbers[: first.end].tolist() == first.text.tolist()


def test_numbers_are_letters_too() -> None:
    arrays = [np.array([0, 1, 0, 1]), np.array([1, 0]), np.array([0, 1])]
    found = sb.TemplateGrammar(random_state=0, max_iter=5).fit(arrays).predict(arrays)
    assert [len(np.concatenate(parts)) for parts in found] == [4, 2, 2]


@pytest.mark.parametrize(
    ("settings", "X", "match"),
    [
        ({"templates": ""}, ["ab"], "empty template"),
        ({"templates": "A | | B"}, ["ab"], "empty template"),
        ({"templates": "A*"}, ["ab"], "'A\\*' is no slot"),
        ({"templates": 3}, ["ab"], "templates must be a string"),
        ({"base": "words"}, ["ab"], "unknown base 'words'"),
        ({"stop": 1.0}, ["ab"], "stop must be between 0 and 1"),
        ({"concentration": 0.0}, ["ab"], "concentration"),
        ({"max_segment": 0}, ["ab"], "max_segment"),
        ({}, "ab", "X is one string"),
        ({}, ["ab", ""], "sentence 1 is empty"),
        ({"templates": "A", "max_segment": 2}, ["abc"], "sentence 0"),
    ],
)
def test_bad_input_is_named(settings: dict[str, Any], X: Any, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        sb.TemplateGrammar(**settings).fit(X)


def test_scores_of_segments() -> None:
    scores = sb.metrics.segment_scores([["the", "dog"], ["a"]], [["the", "do", "g"], ["a"]])
    assert scores.tokens == pytest.approx((2 / 4, 2 / 3, 4 / 7))
    assert scores.boundaries == pytest.approx((1 / 2, 1.0, 2 / 3))
    assert scores.lexicon == pytest.approx((2 / 4, 2 / 3, 4 / 7))
    with pytest.raises(ValueError, match="string 0"):
        sb.metrics.segment_scores([["ab"]], [["a"]])
    with pytest.raises(ValueError, match="1 true strings and 0"):
        sb.metrics.segment_scores([["ab"]], [])


def test_strings_that_no_template_covers_are_left_out_of_a_fit() -> None:
    strings, weight = ["ab", "abcabc", "aba", "bb"], np.array([1, 2, 3, 5])
    model = sb.TemplateGrammar("V M | V", max_segment=2, random_state=0, max_iter=3)
    with pytest.warns(sb.DataWarning, match=r"no template covers 1 string\(s\) \(1\)"):
        model.fit(strings, sample_weight=weight)
    other = sb.TemplateGrammar("V M | V", max_segment=2, random_state=0, max_iter=3)
    other.fit(["ab", "aba", "bb"], sample_weight=[1, 3, 5])
    assert model.lower_bound_ == other.lower_bound_
    assert len(model.labels_) == 3
    with pytest.raises(ValueError, match="sentence 1 is zero: no tree covers it"):
        model.predict(["ab", "abcabc"])
    with pytest.raises(ValueError, match="sentence 0"):
        model.fit(["abcabc"])
    repeated = sb.TemplateGrammar("P+ V", max_segment=2, random_state=0, max_iter=3)
    with pytest.warns(sb.DataWarning, match="no template covers 1"):
        repeated.fit(["a", "abcabc", "aba"])


def test_parts_of_a_stream_may_bring_new_substrings() -> None:
    others = ["acatsees", "thedogcat", "sees", "acowsees"]
    model = sb.TemplateGrammar(concentration=1.0, random_state=0).partial_fit([*STRINGS, "w"])
    before = model.counts_.sum()
    assert model.partial_fit(others).counts_.sum() > before + len(others) - 1
    assert ["".join(parts) for parts in model.predict(others)] == others
    assert model.score(others) > sb.TemplateGrammar(concentration=1.0, random_state=0).fit(
        [*STRINGS, "w"]
    ).score(others)
    assert [len(marks) for marks in model.labels_] == [len(string) for string in others]
    with pytest.raises(ValueError, match="'z'"):
        model.partial_fit(["zzz"])


def test_variational_streams_of_strings_are_exact_for_strings_that_cannot_be_cut() -> None:
    # segments of one letter: counts are those of the letters, whatever was seen when
    strings, settings = ["abba", "cab", "bcc"], {"max_segment": 1, "random_state": 0}
    whole = sb.TemplateGrammar(inference="batch", **settings).fit(strings)
    parts = sb.TemplateGrammar(inference="batch", **settings)
    parts.partial_fit(strings[:2]).partial_fit(strings[2:])
    assert parts.counts_ == pytest.approx(whole.counts_)
    assert [rule.times for rule in parts.top_rules()] == pytest.approx(
        [rule.times for rule in whole.top_rules()]
    )


def test_steps_of_streams_of_strings_scale_to_all_data() -> None:
    model = sb.TemplateGrammar(random_state=0)
    model.partial_fit(STRINGS[:7], total_samples=70).partial_fit(STRINGS[7:], total_samples=70)
    assert 70 <= model.counts_.sum() <= 10 * sum(map(len, STRINGS[:7]))


@pytest.mark.filterwarnings("default:the fit leaves strings nearly whole")
@pytest.mark.parametrize("engine", ["em", "collapsed"])
def test_fits_that_join_words_are_warned_about(engine: str) -> None:
    model = sb.TemplateGrammar(random_state=0, inference=engine, max_iter=20)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        model.fit(STRINGS)
    joined = [str(w.message) for w in found if "nearly whole: 28 segments" in str(w.message)]
    assert len(joined) == (engine == "em")
    assert all(w.filename == __file__ for w in found if "nearly whole" in str(w.message))
