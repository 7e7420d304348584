"""Pictures of grammars say what they show."""

from __future__ import annotations

import pytest
from matplotlib import pyplot as plt

import stickbreak as sb

SENTENCES = ["DET NOUN VERB", "NOUN VERB DET NOUN", "NOUN VERB"] * 4
pytestmark = pytest.mark.filterwarnings("ignore::stickbreak.errors.ConvergenceWarning")


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


def test_arcs_and_rules_of_a_dependency_model() -> None:
    model = sb.DMV(random_state=0, max_iter=3).fit(SENTENCES)
    ax = model.plot("dependencies", "DET NOUN VERB")
    texts = [text.get_text() for text in ax.texts]
    assert [text for text in texts if text.isupper()] == ["DET", "NOUN", "VERB"]
    assert texts.count("root") == 1
    assert len(ax.patches) == 2  # an arc for each word but the root
    rules = model.plot("rules")
    assert rules.get_yticklabels()[0].get_text() == model.top_rules(1)[0].text
    assert len(model.plot(X=["DET", "NOUN", "VERB"]).axes) == 4
    with pytest.raises(ValueError, match="give them"):
        model.plot("dependencies")


def test_a_tree_has_its_words_and_categories() -> None:
    model = sb.PCFG(3, random_state=0, max_iter=3).fit(SENTENCES)
    tree = model.parse(["DET NOUN VERB"])[0]
    ax = model.plot("tree", "DET NOUN VERB")
    texts = [text.get_text() for text in ax.texts if text.get_text()]
    assert sorted(texts) == sorted(str(tree).replace("(", "").replace(")", "").split())
    assert len(ax.lines) == 7  # to two children of each inner node, and to each word


def test_trees_of_a_treebank_parser_have_its_symbols() -> None:
    trees = ["( (S (NP (PRP she)) (VP (VBZ sees) (NP (DT a) (NN dog))) (. .)))"] * 4
    model = sb.LatentPCFG(2, random_state=0, max_iter=2).fit(trees)
    texts = [text.get_text() for text in model.plot("tree", "she sees a dog .").texts]
    assert {"ROOT", "NP", "VBZ", "dog"} <= set(texts)
    assert model.plot("rules").get_yticklabels()[0].get_text() == model.top_rules(1)[0].text
    assert len(model.plot(X="she sees a dog .").axes) == 4


def test_segments_are_boxes_around_letters() -> None:
    strings = ["thedogsees", "thecat", "adog", "thecatsees"] * 3
    model = sb.TemplateGrammar("A B+", random_state=0, max_iter=3).fit(strings)
    ax, found = model.plot("segments", "thedog"), model.parse(["thedog"])[0]
    assert len(ax.patches) == len(found)
    texts = [text.get_text() for text in ax.texts]
    assert "".join(text for text in texts if text.islower()) == "thedog"
    assert [text for text in texts if text.isupper()] == [part.name for part in found]
    assert len(model.plot(X="thedog").axes) == 4
    assert len(model.plot().axes) == 3
