"""DMV, PCFG and HDPPCFG: answers, files, known trees, resumption, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

import stickbreak as sb
from stickbreak.data import parse_brackets

SENTENCES = ["DET NOUN VERB", "NOUN VERB DET NOUN", "DET NOUN VERB NOUN", "NOUN VERB"] * 4
QUICK: dict[str, Any] = {"random_state": 0, "max_iter": 5, "tol": 0.0}
pytestmark = pytest.mark.filterwarnings("ignore::stickbreak.errors.ConvergenceWarning")


def models() -> list[Any]:
    return [sb.DMV(**QUICK), sb.PCFG(3, **QUICK)]


@pytest.mark.parametrize("model", models(), ids=["dmv", "pcfg"])
def test_a_saved_model_gives_the_same_answers(model: Any, tmp_path) -> None:
    model.fit(SENTENCES)
    model.save(tmp_path / "m")
    again = sb.load(tmp_path / "m")
    assert again.score(SENTENCES) == model.score(SENTENCES)
    assert str(again.parse(SENTENCES[:2])) == str(model.parse(SENTENCES[:2]))
    np.testing.assert_array_equal(model.labels_[1], again.predict(SENTENCES[1:2])[0])
    assert len(model.sample(3, random_state=1)[0]) == 3
    words = [sentence.split() for sentence in SENTENCES]
    total = model.score_sequences(words).sum()
    assert model.score(words) == pytest.approx(total / sum(map(len, words)))


@pytest.mark.parametrize("model", models(), ids=["dmv", "pcfg"])
def test_drawn_sentences_are_as_frequent_as_their_scores_say(model: Any) -> None:
    model.set_params(max_length=3).fit(["a b", "b", "a b b", "a"] * 3)
    sentences = [list(words) for n in (1, 2, 3) for words in product("ab", repeat=n)]
    chances = np.exp(model.score_sequences(sentences))
    assert chances.sum() < 1.0
    expected = chances / chances.sum()  # longer ones are drawn again
    drawn = [" ".join(words) for words in model.sample(3000, random_state=0)[0]]
    found = np.array([drawn.count(" ".join(words)) for words in sentences]) / len(drawn)
    # four standard errors
    assert (np.abs(found - expected) < 4 * np.sqrt(expected / len(drawn)) + 1e-3).all()


def test_a_file_with_other_tags_than_components_is_refused(tmp_path) -> None:
    model = sb.DMV(**QUICK).fit(SENTENCES)
    schema = replace(model._fitted.schema, categories={0: model.tags_[:-1]})
    model._fitted = replace(model._fitted, schema=schema)
    model.save(tmp_path / "m")
    with pytest.raises(sb.ModelFileError, match=r"categories for \d+ components"):
        sb.load(tmp_path / "m")


@pytest.mark.parametrize("model", models(), ids=["dmv", "pcfg"])
def test_an_interrupted_fit_resumes_bit_for_bit(model: Any, tmp_path) -> None:
    class Stop(sb.Callback):
        def on_step(self, info: Any) -> None:
            if info.step == 3:
                raise KeyboardInterrupt

    whole = model.set_params(inference=sb.CollapsedVB()).fit(SENTENCES)
    place = {"checkpoint": tmp_path / "c", "checkpoint_every": 0.0}
    broken = type(model)(**model.get_params(deep=False))
    broken.set_params(inference=sb.CollapsedVB(callbacks=(Stop(),), **place))
    with pytest.raises(KeyboardInterrupt):
        broken.fit(SENTENCES)
    resumed = sb.resume(tmp_path / "c", SENTENCES)
    assert resumed.lower_bound_ == whole.lower_bound_
    for name in whole._fitted.counts:
        np.testing.assert_array_equal(resumed._fitted.counts[name], whole._fitted.counts[name])


def test_the_number_of_threads_does_not_matter() -> None:
    # enough work for two lanes
    words = [("DET NOUN VERB DET NOUN " * 7).split()] * 40
    one, two = (
        sb.DMV(inference=sb.BatchVB(max_iter=2), init="harmonic", n_jobs=n, random_state=0).fit(
            words
        )
        for n in (1, 2)
    )
    assert len(one._fitted.model.lanes(sb.data.Sequences(
        np.zeros((1400, 1)), offsets=np.arange(0, 1401, 35)).whole())) > 1  # fmt: skip
    assert one.lower_bound_ == two.lower_bound_


def test_known_heads_stay() -> None:
    heads = [[2, 3, 0], [2, 0, 4, 2], [-1] * 4, [2, 0]] * 4
    model = sb.DMV(**QUICK).fit(SENTENCES, heads=heads)
    assert model.predict(["DET NOUN VERB"])[0].tolist() == [2, 3, 0]
    shares = model.parse_proba(["DET NOUN VERB"])[0]
    assert shares.shape == (3, 4)
    np.testing.assert_allclose(shares.sum(1), 1.0)
    found = model.predict(["DET NOUN VERB"], method="posterior")
    assert found[0].tolist() == [2, 3, 0]
    assert model.top_rules(1)[0].text in ("DET <- NOUN", "NOUN <- VERB")
    assert model.attach_.shape == (3, 2, 3)
    assert model.stop_.shape == (3, 2, 2)
    assert model.root_.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("heads", [[-1, -1, 1], [-1, 1, -1], [3, -1, -1]])
def test_one_sentence_with_known_heads_has_a_collapsed_bound(heads: list[int]) -> None:
    for seed in range(3):
        model = sb.DMV(random_state=seed, max_iter=3, tol=0.0).fit(["a b c"], heads=[heads])
        assert np.isfinite(model.lower_bound_)
        found = model.labels_[0]
        assert [f for f, h in zip(found, heads, strict=True) if h >= 0] == [max(heads)]


def test_brackets_may_be_arrays() -> None:
    first, second = (
        sb.PCFG(2, **QUICK).fit(["a b c"] * 3, brackets=[given] * 3)
        for given in (np.array([[0, 2]]), [(np.int64(0), np.int64(2))])
    )
    assert first.lower_bound_ == second.lower_bound_


def test_known_brackets_and_categories_stay() -> None:
    tree = parse_brackets("(S (NP (D the) (N cat)) (V sleeps))")[0]
    words = ["the cat sleeps", "sleeps"] * 5
    model = sb.PCFG(3, **QUICK)
    model.fit(words, brackets=[tree, []] * 5, labels=[[0, 1, 2], [-1]] * 5)
    best = model.parse(["the cat sleeps"])[0]
    assert (0, 2) in [(begin, end) for begin, end, _ in best.spans()]
    assert [labels.tolist() for labels in model.predict(["the cat sleeps"])] == [[0, 1, 2]]
    most = model.parse(["the cat sleeps"], method="max-constituents")[0]
    assert most.words == ["the", "cat", "sleeps"]
    spans = model.parse_proba(["the cat sleeps"])[0]
    assert spans.shape == (3, 4, 3)
    assert spans[0, 3].sum() == pytest.approx(1.0)
    assert spans[0, 2].sum() + spans[1, 3].sum() == pytest.approx(1.0)


def test_a_right_branching_start_ends_in_trees_that_branch_to_the_right() -> None:
    words, brackets = ["a b a c b", "b c a a", "c b", "a"] * 5, [[], [(0, 2)], [], []] * 5
    model = sb.PCFG(4, init="right-branching", random_state=0, max_iter=3, tol=0.0).fit(words)
    spans = [(begin, end) for begin, end, _ in model.parse(words[:1])[0].spans()]
    assert spans == [(0, 5), (1, 5), (2, 5), (3, 5)]
    model.fit(words, brackets=brackets)  # known brackets stay as they are
    assert (model.parse_proba(words[:1])[0][3, 5].sum()) > 0.5
    batch = sb.HDPPCFG(4, init="right-branching", inference="batch", random_state=0, max_iter=3)
    assert np.isfinite(batch.fit(words).lower_bound_)


def test_rules_are_a_table() -> None:
    model = sb.DMV(**QUICK).fit(SENTENCES)
    assert len(model.rules_) == 3 * 2 * 3
    assert model.rules_[:2] == model.top_rules(2)
    assert sum(rule.times for rule in model.rules_) == pytest.approx(13 * 4 - 16, rel=1e-5)
    strings = sb.TemplateGrammar(random_state=0, max_iter=3).fit(["abab", "ab"] * 4)
    assert [rule.text for rule in strings.rules_][:1] == [strings.top_rules(1)[0].text]
    assert len(sb.PCFG(2, **QUICK).fit(SENTENCES).top_rules(-1)) == 8


def test_unknown_words_have_the_mass_of_the_prior() -> None:
    for model in models():
        model.fit(SENTENCES)
        with pytest.warns(sb.DataWarning, match="'ADJ'"):
            found = model.score(["DET ADJ VERB"])
        assert found < model.score(["DET NOUN VERB"])
        with pytest.warns(sb.DataWarning, match="'ADJ'"):
            assert len(model.parse(["DET ADJ VERB"])) == 1


@pytest.mark.filterwarnings("ignore::stickbreak.errors.StickbreakWarning")
@pytest.mark.parametrize("root", ["beta", "point"])
def test_a_grammar_finds_its_categories(root: str) -> None:
    engine = sb.MemoizedVB(max_iter=4, moves=[sb.Delete(start=1)] if root == "beta" else None)
    model = sb.HDPPCFG(3, root=root, inference=engine, random_state=0, init="local")
    model.fit(SENTENCES)
    assert 1 <= model.n_components_ <= 3
    assert np.isfinite(model.lower_bound_)
    assert model.rules_.sum((1, 2)) == pytest.approx(1.0)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["batch", "memoized", "stochastic", "em", "hard-em", "gibbs",
                                  "stochastic-collapsed"])  # fmt: skip
def test_every_engine_fits(name: str) -> None:
    for cls, first in ((sb.DMV, ()), (sb.PCFG, (3,))):
        model = cls(*first, inference=name, random_state=0, max_iter=5).fit(SENTENCES)
        assert np.isfinite(model.score(SENTENCES))


@pytest.mark.parametrize(
    ("X", "given", "message"),
    [
        (["a b", ""], {}, "sentence 1 is empty"),
        ("a b", {}, "one string"),
        (["a b"], {"heads": [[0, 5]]}, "word 2 has head 5"),
        (["a b"], {"heads": [[0, 0]]}, "2 roots"),
        (["a b c"], {"heads": [[2, 1, 0]]}, "cycle"),
        (["a b"], {"heads": [[2, 1]]}, "no root"),
        (["a b c d"], {"heads": [[3, 4, 0, 3]]}, "not projective"),
        (["a b"], {"heads": [[0]]}, "2 words, but heads of shape"),
        (["a b"], {"heads": [[2.0, 0.0]]}, "expected whole numbers"),
        ([], {}, "X has no sentences"),
        ([" ".join("a" * 61)], {}, "61 words, and max_length=60"),
    ],
)
def test_bad_sentences_and_heads_are_refused(X: Any, given: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sb.DMV().fit(X, **given)


@pytest.mark.parametrize(
    ("brackets", "message"),
    [
        ([[(0, 9)]], r"bracket \(0, 9\)"),
        ([[(0, 2), (1, 3)]], "cross each other"),
        ([[(0, 1, 2)]], r"bracket \(0, 1, 2\); expected \(begin, end\)"),
        ([[(0.0, 2.0)]], "whole numbers"),
        ([[1, 2]], "bracket 1; expected"),
        ([None], "brackets of sentence 0 are None"),
        ([parse_brackets("(S (A a) (B b))")[0]], "2 words; it has 3"),
        ([parse_brackets("(S (A a) (B x) (C c))")[0]], "'a b c', but its tree has the words 'a x"),
        ([], "list with an entry for each of 1"),
    ],
)
def test_bad_brackets_are_refused(brackets: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sb.PCFG(2).fit(["a b c"], brackets=brackets)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (sb.DMV(concentration=0.0), "concentration"),
        (sb.DMV(max_length=0), "max_length"),
        (sb.DMV(init="blocks"), "unknown init"),
        (sb.PCFG(0), "n_components"),
        (sb.HDPPCFG(root="tree"), "root must be"),
    ],
)
def test_bad_settings_are_refused(model: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        model.fit(SENTENCES)
