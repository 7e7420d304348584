"""Grammars of treebanks with hidden subtypes: fits, parses, files, and bad input."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracles import annotation

import stickbreak as sb
from stickbreak.checks import check_structure
from stickbreak.data import as_trees, binarize, find_words, list_rules, make_tree, number_trees
from stickbreak.data.word_classes import coarser, word_class
from stickbreak.errors import DataWarning, NumericalError
from stickbreak.families.listed import ListedWords
from stickbreak.inference import MeanLog, run
from stickbreak.initialize import from_guess
from stickbreak.models import annotated_grammar
from stickbreak.reading import Stack

NOUNS, VERBS = ("cat", "dog", "bird"), ("sees", "hears")


def treebank(n: int, seed: int = 0) -> list[str]:
    """Sentences whose subjects are pronouns and whose objects are nouns with a determiner."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(n):
        noun, other = (f"(NP (DT the) (NN {NOUNS[i]}))" for i in rng.integers(0, 3, 2))
        subject = "(NP (PRP she))" if rng.random() < 0.7 else noun
        inner = other if rng.random() < 0.8 else f"(NP {other} (PP (IN of) {noun}))"
        found.append(f"( (S {subject} (VP (VBZ {VERBS[rng.integers(2)]}) {inner}) (. .)))")
    return found


TREES = treebank(40)


def model_of(n: int, H: int, seed: int = 0) -> tuple[Any, Stack, Any]:
    trees = [binarize(tree) for tree in as_trees(treebank(n, 1))]
    found = list_rules(trees)
    names = ("symbols", "words", "tops", "binary", "unary", "emits")
    family = ListedWords(**{name: getattr(found, name) for name in names})
    model = annotated_grammar(family, concentration=0.3, word_concentration=0.2)
    known = number_trees(trees, found)
    rows = found.emits[known.rows[:, 0], 1][:, None]
    data = Stack(rows, offsets=known.offsets, companion=known)
    return model, data, from_guess(model, data, H, np.random.default_rng(seed), jitter=0.4)


# ------------------------------------------------------------------------------------ trees, words


@pytest.mark.parametrize("horizontal", [0, 1, "full"])
def test_binarized_trees_come_back(horizontal: Any) -> None:
    trees = as_trees([*TREES, "(S (A a) (B b) (C c) (D d) (X (E e)))", "(NP (NN dog))"])
    binary = [binarize(tree, horizontal) for tree in trees]
    listing = list_rules(binary, rare=0)
    given = number_trees(binary, listing)
    for s, tree in enumerate(trees):
        found, inner = make_tree(given.of(s), listing, tree.words), tree
        inner = tree.children[0] if tree.label == "" else tree
        assert str(found) == f"(ROOT {inner})"


def test_unary_chains_keep_their_ends() -> None:
    binary = binarize(as_trees("(S (VP (VP (NP (NN a)))))")[0])
    assert (binary.tags, binary.above, binary.top) == (["NN"], ["S"], "S")
    assert binarize(as_trees("(NP (NP (NN a)))")[0]).above == ["NP"]
    assert binarize(as_trees("(NP (NP (NN a) (NN b)))")[0]).nodes == [("NP", 0, 1, "")]


def test_histories_name_sisters() -> None:
    tree = as_trees("(S (A a) (B b) (C c) (D d))")[0]
    names = [[node[0] for node in binarize(tree, h).nodes] for h in (0, 1, "full")]
    assert names == [["S|", "S|", "S"], ["S|B", "S|A", "S"], ["S|A-B", "S|A", "S"]]


def test_unknown_words_fall_to_the_nearest_class() -> None:
    assert word_class("NASA") == "<unk>-caps"
    assert word_class("The", True) == "<unk>-first"
    assert word_class("half-baked") == "<unk>-dash"
    assert word_class("glass") == "<unk>"
    assert coarser("<unk>-cap-s") == "<unk>-cap"
    assert coarser("<unk>") == "<unk>"
    listing = list_rules([binarize(tree) for tree in as_trees(TREES)])
    found = find_words([["zzz", "Walking", "dog"]], listing)
    assert [listing.words[v] for v in found] == ["<unk>", "<unk>", "dog"]


# ------------------------------------------------------------------------------------ the model


def test_the_structure_obeys_the_laws() -> None:
    model, data, start = model_of(2, 2)
    potentials = model.potentials(start.seed, start.params, MeanLog())

    def enumerated(tables: Any, block: Any) -> float:
        names = ("root", "binary_rule", "unary_rule", "word_rule")
        logs = {name: tables[name] for name in names}
        return sum(annotation.infer(logs, block.companion.of(s))[0] for s in range(block.n_spans))

    short = data.whole().part(0, 1).alone()
    check_structure(model, potentials, short, enumerated)


@pytest.mark.parametrize("engine", [sb.BatchVB, sb.EM, sb.HardEM])
def test_the_objective_never_drops(engine: Any) -> None:
    model, data, start = model_of(20, 3)
    found = run(model, engine(max_iter=15, tol=0.0), data, start).trace.bound
    assert (np.diff(found) > -1e-10 * np.abs(found[:-1])).all()
    assert found[-1] > found[0]


def test_collapsed_sweeps_equal_enumeration_given_all_others() -> None:
    model, data, start = model_of(3, 2)
    names = ("root", "binary_rule", "unary_rule", "word_rule")
    result = run(model, sb.CollapsedVB(max_iter=2, tol=0.0), data, start)
    given, total = data.companion, {name: start.seed[name].copy() for name in names}
    kept = [own_counts(start.warm, given, s, total) for s in range(data.n_spans)]
    for _ in range(2):
        entropy = 0.0
        for s in range(data.n_spans):
            others = {name: total[name] - kept[s][name] for name in names}
            logs = model.prior.log_mean(others)
            log_z, kept[s], *_ = annotation.infer(logs, given.of(s))
            entropy += log_z - sum(float((logs[name] * kept[s][name]).sum()) for name in names)
            total = {name: others[name] + kept[s][name] for name in names}
    expected = model.prior.log_rise(total, start.params) + entropy
    # own counts are kept in single precision
    assert result.bound == pytest.approx(expected, abs=1e-4)
    for name in names:
        np.testing.assert_allclose(result.counts[name], total[name], atol=1e-5)


def own_counts(own: Any, given: Any, s: int, like: dict[str, Any]) -> dict[str, Any]:
    """Counts that a tree keeps."""
    out = {name: np.zeros_like(table) for name, table in like.items()}
    lo, nodes = int(given.offsets[s]), given.of(s)
    out["root"][nodes[0, 2]] += own["roots"][s]
    for i, row in enumerate(nodes):
        out["word_rule"][row[0]] += own["rows"][lo + i]
        if i:
            out["binary_rule"][row[2]] += own["pairs"][lo + i]
        for side in range(2):
            if row[1 + 2 * side] >= 0:
                out["unary_rule"][row[1 + 2 * side]] += own["chains"][lo + i, side]
    return out


def test_the_bound_is_below_the_exact_evidence_of_one_subtype() -> None:
    model, data, start = model_of(10, 1)
    found = run(model, sb.BatchVB(max_iter=5), data, start)
    exact = model.prior.log_rise(found.counts, found.params)
    assert found.bound == pytest.approx(exact, rel=1e-12)


def test_one_subtype_gives_relative_frequencies() -> None:
    """C34: whatever the start."""
    settings = {"concentration": 1e-9, "word_concentration": 1e-9, "root_concentration": 1e-9}
    first, second = (
        sb.LatentPCFG(1, inference="em", random_state=seed, **settings).fit(TREES)
        for seed in (0, 1)
    )
    assert first.rules_ == second.rules_
    parents: dict[str, float] = {}
    for rule in first.rules_:
        parent = rule.text.split(" -> ")[0]
        parents[parent] = parents.get(parent, 0.0) + rule.times
    for rule in first.rules_:
        expected = rule.times / parents[rule.text.split(" -> ")[0]]
        assert rule.probability == pytest.approx(expected, abs=1e-7)


# ------------------------------------------------------------------------------------ estimators


@pytest.fixture(scope="module")
def fitted() -> sb.LatentPCFG:
    return sb.LatentPCFG(2, random_state=0, max_iter=60, tol=1e-4).fit(TREES)


def test_it_parses_what_it_has_seen(fitted: sb.LatentPCFG) -> None:
    sentences = ["she sees the dog .", "the cat hears the dog of the bird ."]
    for method in ("max-rule", "viterbi"):
        trees = fitted.parse(sentences, method=method)
        assert str(trees[0]) == (
            "(ROOT (S (NP (PRP she)) (VP (VBZ sees) (NP (DT the) (NN dog))) (. .)))"
        )
        assert trees[1].words == sentences[1].split()
    assert fitted.predict(sentences)[0].tolist() == ["PRP", "VBZ", "DT", "NN", "."]
    spans = fitted.parse_proba(sentences)[0]
    assert spans[0, 5, "S"] == pytest.approx(1.0)
    assert spans[0, 1, "NP"] == pytest.approx(1.0)
    assert len(fitted.labels_) == len(TREES)
    assert max(map(max, fitted.labels_)) <= 1


def test_scores_are_probabilities(fitted: sb.LatentPCFG) -> None:
    found = fitted.score_sequences(["she sees the dog .", "she hears the walrus ."])
    assert (found < 0).all()
    assert found[0] > found[1]
    assert fitted.score(["she sees the dog ."]) == pytest.approx(found[0] / 5)
    exact = sb.LatentPCFG(2, random_state=0, max_iter=60, tol=1e-4, prune=0.0).fit(TREES)
    assert found[0] == pytest.approx(exact.score_sequences(["she sees the dog ."])[0], rel=1e-4)


def test_drawn_trees_are_parsed_with_positive_probability(fitted: sb.LatentPCFG) -> None:
    words, trees = fitted.sample(5, random_state=1)
    assert [tree.words for tree in trees] == words
    assert np.isfinite(fitted.score_sequences(words)).all()


def test_drawn_sentences_are_as_frequent_as_their_scores_say() -> None:
    trees = ["(S (A a) (B b))", "(S (A a) (S (A b) (B b)))", "(S (A b) (B a))"] * 3
    settings = {"prune": 0.0, "rare": 0, "max_length": 4, "random_state": 0}
    model = sb.LatentPCFG(2, **settings).fit(trees)
    drawn = [" ".join(words) for words in model.sample(3000, random_state=0)[0]]
    known = sorted(set(drawn))
    chances = np.exp(model.score_sequences(known))
    expected = chances / chances.sum()  # longer ones are drawn again
    found = np.array([drawn.count(words) for words in known]) / len(drawn)
    assert chances.sum() < 1.0
    # four standard errors
    assert (np.abs(found - expected) < 4 * np.sqrt(expected / len(drawn)) + 1e-3).all()


def test_rules_are_told(fitted: sb.LatentPCFG) -> None:
    rules = {rule.text: rule for rule in fitted.rules_}
    assert rules["NP -> DT NN"].times > 20
    assert "S|NP" in fitted.symbols_
    assert fitted.top_rules(1)[0].times == max(rule.times for rule in rules.values())


def test_a_saved_model_answers_alike(fitted: sb.LatentPCFG, tmp_path: Path) -> None:
    fitted.save(tmp_path / "trees.stickbreak")
    again = sb.load(tmp_path / "trees.stickbreak")
    sentence = ["the walrus sees the dog ."]
    assert str(again.parse(sentence)[0]) == str(fitted.parse(sentence)[0])
    assert again.score(sentence) == fitted.score(sentence)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "engine",
    ["em", "batch", "memoized", "stochastic", "collapsed", "stochastic-collapsed", "hard-em"],
)
def test_every_engine_fits(engine: str) -> None:
    with np.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = sb.LatentPCFG(2, inference=engine, max_iter=5, random_state=0).fit(TREES)
    assert model.parse(["she sees the dog ."])[0].tags == ["PRP", "VBZ", "DT", "NN", "."]


@pytest.mark.parametrize(
    "engine", [sb.Gibbs(max_iter=20), sb.CollapsedGibbs(max_iter=20, temperature=(2.0, 0.5))]
)
def test_samplers_draw_subtypes(engine: Any) -> None:
    model = sb.LatentPCFG(2, inference=engine, random_state=0).fit(TREES)
    counts = model._fitted.counts.arrays
    assert all((array == np.round(array)).all() for array in counts.values())
    assert counts["root"].sum() == len(TREES)
    assert model.parse(["she sees the dog ."])[0].tags == ["PRP", "VBZ", "DT", "NN", "."]
    again = sb.LatentPCFG(2, inference=engine, random_state=0, n_jobs=2).fit(TREES)
    np.testing.assert_array_equal(again._fitted.counts["binary_rule"], counts["binary_rule"])
    if isinstance(engine, sb.CollapsedGibbs):
        assert 0.3 < np.nanmean(model.trace_.acceptance) <= 1.0


@pytest.mark.parametrize("engine", ["gibbs", "collapsed-gibbs"])
def test_samplers_fit_a_treebank_without_binary_rules(engine: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = sb.LatentPCFG(2, inference=engine, max_iter=2, random_state=0).fit(["(X (N b))"])
    assert str(model.parse(["b"])[0]) == "(ROOT (X (N b)))"


def test_pages_show_drawn_trees(fitted: sb.LatentPCFG) -> None:
    sentence = "the cat hears the dog of the bird ."
    drawn = fitted._draw_trees([sentence], 20, np.random.default_rng(0))[0]
    assert {str(tree.words) for tree in drawn} == {str(sentence.split())}
    assert "drawn from the posterior" in fitted.report([sentence]).html


def test_more_trees_of_known_rules(fitted: sb.LatentPCFG) -> None:
    model = sb.LatentPCFG(2, inference="batch", random_state=0).partial_fit(TREES[:20])
    before = model.counts_.sum()
    model.partial_fit(TREES[20:])
    assert model.counts_.sum() > 1.5 * before
    with pytest.raises(ValueError, match=r"tree 0 uses a rule that the first call had not"):
        model.partial_fit(["(S (X a) (Y b))"])


def test_trees_of_new_rules_are_left_out_of_a_stream() -> None:
    settings = {"inference": "batch", "random_state": 0}
    more, weight = ["(S (X a) (Y b))", *TREES[20:]], np.arange(1, 22)
    model, other = (sb.LatentPCFG(2, **settings).partial_fit(TREES[:20]) for _ in range(2))
    with pytest.warns(
        DataWarning, match=r"1 tree\(s\) \(0\) use rules that the first call had not"
    ):
        model.partial_fit(more, sample_weight=weight)
    other.partial_fit(TREES[20:], sample_weight=weight[1:])
    np.testing.assert_array_equal(model.counts_, other.counts_)
    with pytest.raises(ValueError, match=r"sample_weight must hold .* each of 21 trees"):
        model.partial_fit(more, sample_weight=weight[1:])


def test_weights_are_repeats() -> None:
    few = sb.LatentPCFG(1, inference="em", random_state=0, rare=0).fit(TREES[:6])
    weights = [1.0] * 5 + [3.0]
    twice = sb.LatentPCFG(1, inference="em", random_state=0, rare=0)
    twice.fit(TREES[:6], sample_weight=weights)
    assert twice.counts_.sum() > few.counts_.sum()


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ({"n_subtypes": 0}, "n_subtypes must be"),
        ({"horizontal": 2}, "horizontal must be"),
        ({"rare": -1}, "rare must be"),
        ({"prune": 1.0}, "prune must be"),
        ({"concentration": 0.0}, "concentration"),
        ({"init": "random"}, "unknown init"),
    ],
)
def test_bad_settings_are_named(argument: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sb.LatentPCFG(**argument).fit(TREES[:2])


@pytest.mark.parametrize(
    ("trees", "message"),
    [
        (["(S (-NONE- *))"], "tree 0 has no words"),
        (["(S (A a)", "(S (A a))"], "entry 0 of X is no tree"),
        (["a b c"], "entry 0 of X is no tree"),
        ([], "X must be trees"),
        (["(S (A a) b)"], "every word needs a tag of its own"),
    ],
)
def test_bad_trees_are_named(trees: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sb.LatentPCFG(2).fit(trees)


def test_sentences_without_a_tree_are_named(fitted: sb.LatentPCFG) -> None:
    with pytest.warns(DataWarning, match=r"no rules of the treebank cover 1 sentence\(s\) \(1\)"):
        trees = fitted.parse(["she sees the dog .", "the the of"])
    assert str(trees[1]) == "(ROOT (DT the) (DT the) (IN of))"
    with pytest.raises(NumericalError, match="no rules of the treebank cover sentence 1"):
        fitted.score(["she sees the dog .", "the the of"])
    with pytest.raises(ValueError, match="sentence 0 is empty"):
        fitted.parse([[]])
    with pytest.raises(ValueError, match="sentence 0 has 130 words, and max_length=120"):
        fitted.parse(["she " * 130])
    with pytest.raises(ValueError, match="unknown method"):
        fitted.parse(["she"], method="best")


def test_a_treebank_without_unary_rules() -> None:
    trees = ["(S (DT the) (NN cat))", "(S (DT a) (NN dog))"] * 3
    model = sb.LatentPCFG(2, random_state=0).fit(trees)
    assert str(model.parse(["the dog"])[0]) == "(ROOT (S (DT the) (NN dog)))"
    assert np.isfinite(model.lower_bound_)
    assert model.top_rules(1)[0].text == "S -> DT NN"
