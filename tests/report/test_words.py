"""Pages about words: drawn trees, cuts of strings, words that the model does not know."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace

import numpy as np
import pytest
from cli.running import command  # noqa: F401
from report.subjects import make_trees
from report.test_estimators import block, fitted
from report.test_pages import parse, text_of

import stickbreak as sb
from stickbreak.estimators.reports import make_subject
from stickbreak.report import write_page

GRAMMARS = ("pcfg", "hdp-pcfg", "dmv", "templates")


@pytest.mark.parametrize("name", ["pcfg", pytest.param("dmv", marks=pytest.mark.slow),
                                  pytest.param("templates", marks=pytest.mark.slow)])  # fmt: skip
def test_trees_are_drawn_as_often_as_they_are_probable(name):
    """The share of draws with a part is its posterior, which sums over all trees give."""
    model, data = fitted(name)
    some, n = data[:2], 400
    drawn = model._draw_trees(some, n, np.random.default_rng(1))
    for own, shares in zip(drawn, model.parse_proba(some), strict=True):
        seen = np.zeros_like(shares)
        for tree in own:
            if name == "pcfg":
                for begin, end, label in spans_of(tree):
                    seen[begin, end, int(label)] += 1
            elif name == "dmv":
                seen[np.arange(len(tree)), tree] += 1
            else:
                seen[[part.begin for part in tree]] += 1
        # five standard errors of a share, and one tree
        np.testing.assert_array_less(
            np.abs(seen / n - shares), 5 * np.sqrt(shares * (1 - shares) / n) + 1.5 / n
        )


def spans_of(tree, begin=0):
    """(begin, end, label) of all brackets."""
    found, end = [], begin
    for child in tree.children:
        if isinstance(child, str):
            end += 1
        else:
            below = spans_of(child, end)
            found, end = found + below, below[-1][1]
    return [*found, (begin, end, tree.label)]


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) for n in GRAMMARS])
def test_best_and_drawn_trees_are_in_the_page(name):
    model, data = fitted(name)
    shown = make_subject(model, data).more["trees"]
    for tree in shown:
        assert tree["times"] + sum(other["times"] for other in tree["others"]) <= tree["n_drawn"]
    text = text_of(parse(model.report(data).html))
    assert re.search(rf"Of {shown[0]['n_drawn']} \w+s drawn from the posterior", text)
    for how in ({"texts": False}, {"data": "none"}):
        assert "drawn from the posterior" not in model.report(data, **how).html


@pytest.mark.slow
def test_cuts_of_strings_have_their_probabilities():
    model, data = fitted("templates")
    tree = parse(model.report(data).html)
    text = text_of(tree)
    for segment in model.predict(data[:1])[0]:
        assert segment in text
    table = next(
        t
        for t in tree.iter("table")
        if "".join(t.find("caption").itertext()).endswith(": posteriors of beginnings")
    )
    told = [float(row[3].get("data-v")) for row in table.find("tbody")]
    assert told == pytest.approx(model.parse_proba(data[:1])[0], rel=1e-5)


def report_of(model, data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sb.DataWarning)
        return model.report(data)


def test_unknown_words_of_documents_are_counted_and_told():
    model, docs = fitted("lda")
    page = report_of(model, [["cat", "new", "new", "other"], *docs])
    text = text_of(parse(page.html))
    assert "2 words of these data, at 3 places, are unknown to the model: they are left out" in text
    assert block(page.html)["page"]["unknown_words"] == 2
    assert "unknown to the model" not in model.report(docs).html
    assert block(model.report(docs).html)["page"]["unknown_words"] == 0
    alone = report_of(model, [["new"]])
    assert "1 word of these data, at 1 place, is unknown" in text_of(parse(alone.html))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "data", "told"),
    [
        ("dmv", ["DET NEW VERB", "NEW OTHER"], "2 words of these data, at 3 places"),
        ("pcfg", ["DET NEW VERB"], "1 word of these data, at 1 place"),
        ("templates", ["thexcat"], "1 letter of these data, at 1 place"),
        ("latent-pcfg", ["the dog sleeps"], "1 word of these data, at 1 place"),
        ("ibm1", [("a new house", "ein neues Haus")], "2 words of these data, at 2 places"),
    ],
)
def test_unknown_words_of_sentences_are_counted_and_told(name, data, told):
    model, _ = fitted(name)
    assert told in text_of(parse(report_of(model, data).html))


def test_command_tells_unknown_words_of_its_file(command, tmp_path):  # noqa: F811
    model, _ = fitted("lda")
    model.save(tmp_path / "m.stickbreak")
    (tmp_path / "new.txt").write_text("cat new\nsalt soup new\n")
    done = command("report", "m.stickbreak", "new.txt", "--out", "p.html")
    assert done.code == 0, done.err
    html = (tmp_path / "p.html").read_text(encoding="utf-8")
    assert "1 word of these data, at 2 places, is unknown to the model" in html
    assert html == report_of(model, tmp_path / "new.txt").html


def test_repeated_sentences_have_the_trees_that_they_have_alone():
    """Neighbors that are alike keep their chart; others, and known words apart, do not."""
    model, data = fitted("pcfg")
    one, other = data[:2]
    alone = [str(model.parse([s])[0]) for s in (one, other)]
    repeated = model.parse([one, one, other, other, other, one])
    expected = [alone[0]] * 2 + [alone[1]] * 3 + alone[:1]
    assert [str(tree) for tree in repeated] == expected


@pytest.mark.parametrize(("name", "other"), [
    ("pcfg", ["DET NOUN", "VERB"]), ("templates", ["thecat", "adog"]),
    ("hmm-aligner", [("a house", "das Haus"), ("the book", "ein Buch")]),
])  # fmt: skip
def test_digests_tell_data_of_words_apart(name, other):
    model, data = fitted(name)

    def digest(X, **how):
        return make_subject(model, X, **how).digests["data"]

    assert digest(data) == digest(list(data)) == digest(data, texts=False)
    assert len({digest(data), digest(data[:-1]), digest(other), digest(other[::-1])}) == 4
    hidden = make_subject(model, data, texts=False).more["holds"]
    assert hidden.endswith("; none of the data.")


@pytest.mark.parametrize(("name", "caption"), [
    ("ibm1", "The commonest source words"),
    pytest.param("dmv", "Sentence 0: heads of the words", marks=pytest.mark.slow),
])  # fmt: skip
def test_words_are_marked_as_the_components_that_they_are(name, caption):
    model, data = fitted(name)
    subject = make_subject(model, data)
    tables = parse(model.report(data).html).iter("table")
    lines = next(t for t in tables if "".join(t[0].itertext()) == caption).find("tbody")
    at = 0 if name == "ibm1" else 1
    keys = [row.get("data-k") for row in lines]
    assert len(set(keys)) > 2
    shown = {subject.names[k]: str(k) for k in subject.ranks}
    assert keys == [shown.get("".join(row[at].itertext())) for row in lines]


def test_trees_that_were_drawn_as_often_have_names_of_their_own():
    subject = make_trees()
    tree = subject.more["trees"][0]
    tree = {**tree, "others": tree["others"] * 3}
    more = {**subject.more, "trees": [tree, {**tree, "number": 1}]}
    page = parse(write_page(replace(subject, more=more)).html)
    labels = [e.get("aria-label") for e in page.iter() if e.get("role") == "region"]
    assert len(labels) > 16
    assert len(set(labels)) == len(labels)
