"""Every estimator gives a page; its numbers are those that the estimator gives."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import warnings

import numpy as np
import pytest
from report.test_pages import parse
from sklearn.exceptions import NotFittedError

import stickbreak as sb

RNG = np.random.default_rng(0)
ROWS = np.concatenate([RNG.normal(-5, 1, (60, 2)), RNG.normal(5, 1, (40, 2))])
SEQUENCES = [
    np.repeat([[0.0], [5.0], [0.0]], 15, axis=0) + RNG.normal(size=(45, 1)) for _ in range(3)
]
DOCUMENTS = [["cat", "dog", "fur"] * 3, ["salt", "soup", "pan"] * 3] * 10
PAIRS = [("a house", "ein Haus"), ("the house", "das Haus"), ("a book", "ein Buch")] * 4
SENTENCES = ["DET NOUN VERB", "NOUN VERB DET NOUN"] * 5
CASES = {
    "mixture": (sb.Mixture(2, random_state=0), ROWS),
    "dp": (sb.DPMixture(random_state=0), ROWS),
    "poisson": (sb.Mixture(2, family="poisson", random_state=0), RNG.poisson(3, (50, 2))),
    "bernoulli": (sb.Mixture(2, family="bernoulli", random_state=0), RNG.integers(0, 2, (50, 3))),
    "categorical": (sb.Mixture(2, family="categorical", random_state=0),
                    RNG.integers(0, 3, (50, 2))),
    "multinomial": (sb.Mixture(2, family="multinomial", random_state=0),
                    RNG.integers(0, 3, (50, 4))),
    "diagonal": (sb.Mixture(2, family="diagonal", random_state=0), ROWS),
    "fixed-variance": (sb.Mixture(2, family="fixed-variance", random_state=0), ROWS),
    "zero-mean": (sb.Mixture(2, family="zero-mean", random_state=0), ROWS),
    "em": (sb.Mixture(2, inference="em", random_state=0), ROWS),
    "hmm": (sb.HMM(2, random_state=0), SEQUENCES),
    "ar": (sb.HMM(2, family="autoregressive", random_state=0), SEQUENCES),
    "hdp-hmm": (sb.HDPHMM(random_state=0), SEQUENCES),
    "hsmm": (sb.HSMM(2, random_state=0), SEQUENCES),
    "lda": (sb.LatentDirichletAllocation(2, random_state=0), DOCUMENTS),
    "hdp-topics": (sb.HDPTopicModel(random_state=0), DOCUMENTS),
    "ibm1": (sb.IBM1(), PAIRS),
    "hmm-aligner": (sb.HMMAligner(), PAIRS),
    "dmv": (sb.DMV(random_state=0), SENTENCES),
    "pcfg": (sb.PCFG(3, random_state=0), SENTENCES),
}  # fmt: skip
QUICK = ("mixture", "hmm", "lda")


def fitted(name):
    """A fitted estimator, and its data."""
    model, data = CASES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sb.StickbreakWarning)
        return model.fit(data), data


def block(html):
    """The values that a page holds for programs."""
    return json.loads(re.search(r'id="data">([^<]*)<', html)[1])


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in CASES]
)
def test_every_estimator_gives_a_page_with_and_without_data(name):
    model, data = fitted(name)
    for page in (model.report(data), model.report()):
        tree = parse(page.html)
        assert tree.find("body/header/h1").text == type(model).__name__
        assert len(page.html) < 450_000
        values = block(page.html)["page"]
        shown = values["components"]
        assert values["weights"] == pytest.approx(model.weights_[shown], abs=1e-6)
        assert values["counts"] == pytest.approx(model.counts_[shown], abs=1e-3)


def test_numbers_are_those_that_the_estimator_gives():
    model, X = fitted("mixture")
    found = block(model.report(X).html)["page"]
    sizes = np.bincount(model.predict(X), minlength=2)
    assert found["sizes"] == sizes[found["components"]].tolist()
    assert found["certainty"] == pytest.approx(model.predict_proba(X).max(1).mean())
    assert found["score"] == pytest.approx(model.score(X))


def test_states_are_those_of_predict_and_topics_those_of_transform():
    from stickbreak.estimators.reports import make_subject

    model, X = fitted("hmm")
    for own, other in zip(make_subject(model, X).observed.paths, model.predict(X), strict=True):
        np.testing.assert_array_equal(own, other)
    model, docs = fitted("lda")
    np.testing.assert_array_equal(make_subject(model, docs).observed.shares, model.transform(docs))


def test_words_by_relevance_are_those_of_top_words():
    from stickbreak.estimators.reports import make_subject
    from stickbreak.report.topics import word_data

    model, docs = fitted("lda")
    subject = make_subject(model, docs)
    given = word_data(subject)
    for relevance in (0.0, 0.3, 0.6, 1.0):
        for k, expected in zip(subject.used, model.top_words(3, relevance=relevance), strict=True):
            own = given["topics"][str(k)]
            rank = [relevance * p + (1 - relevance) * (p - given["overall"][w]) for w, p in own]
            values = {given["names"][w]: r for (w, _), r in zip(own, rank, strict=True)}
            best = sorted(values.values(), reverse=True)[:3]
            assert [values[word] for word in expected] == pytest.approx(best, abs=2e-4)


def test_same_bytes_again_and_after_save_and_load(tmp_path):
    model, X = fitted("mixture")
    page = model.report(X)
    assert page.html == model.report(X).html
    model.save(tmp_path / "m.stickbreak")
    assert sb.load(tmp_path / "m.stickbreak").report(X).html == page.html
    for word in (str(tmp_path), "0x", "/home/"):
        assert word not in page.html


@pytest.mark.slow
def test_same_bytes_in_two_processes(tmp_path):
    code = (
        "import numpy as np, stickbreak as sb\n"
        "X = np.random.default_rng(0).normal(size=(60, 2))\n"
        "m = sb.Mixture(2, random_state=0).fit(X)\n"
        "import hashlib; print(hashlib.sha256(m.report(X).html.encode()).hexdigest())"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True,
            env={**__import__("os").environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(found) == 1


def test_data_none_leaves_no_row_and_texts_false_no_document():
    model, X = fitted("mixture")
    found = block(model.report(X, data="none").html)
    assert found["scatter"]["rows"] == []
    model, docs = fitted("lda")
    assert "its commonest words" in model.report(docs).html
    for page in (model.report(docs, texts=False), model.report(docs, data="none")):
        assert "its commonest words" not in page.html


def test_bad_input_is_a_sentence():
    model, X = fitted("mixture")
    with pytest.raises(ValueError, match="names has 7, but the components are 0 to 1"):
        model.report(names={7: "x"})
    with pytest.raises(ValueError, match="by has 3 entries for 100 rows"):
        model.report(X, by=[1, 2, 3])
    with pytest.raises(ValueError, match="give X too"):
        model.report(by=[1])
    with pytest.raises(ValueError, match="data must be one of"):
        model.report(data="all")
    with pytest.raises(ValueError, match="3 features"):
        model.report(np.zeros((4, 3)))
    with pytest.raises(NotFittedError):
        sb.Mixture().report()


def test_one_row_one_component_and_missing_values_give_a_page():
    model, X = fitted("mixture")
    parse(model.report(X[:1]).html)
    holes = X.copy()
    holes[3, 1] = np.nan
    parse(model.report(holes).html)
    parse(sb.Mixture(1, random_state=0).fit(X).report(X).html)


def test_groups_and_names_are_told():
    model, X = fitted("mixture")
    html = model.report(X, by=["left"] * 60 + ["right"] * 40, names={1: "the others"}).html
    assert "the others" in html
    assert ">left</th>" in html
