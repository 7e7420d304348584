"""Every estimator gives a page; its numbers are those that the estimator gives."""

from __future__ import annotations

import getpass
import json
import os
import re
import socket
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from registers import FAMILIES
from report.browsing import skip
from report.test_pages import parse, text_of
from scipy import sparse
from sklearn.exceptions import NotFittedError

import stickbreak as sb
from docs.skeletons.family import Exponential
from stickbreak.checks import check_report
from stickbreak.estimators.model_files import ESTIMATORS
from stickbreak.report import stays_of

RNG = np.random.default_rng(0)
ROWS = np.concatenate([RNG.normal(-5, 1, (60, 2)), RNG.normal(5, 1, (40, 2))])
SEQUENCES = [
    np.repeat([[0.0], [5.0], [0.0]], 15, axis=0) + RNG.normal(size=(45, 1)) for _ in range(3)
]
DOCUMENTS = [["cat", "dog", "fur"] * 3, ["salt", "soup", "pan"] * 3] * 10
PAIRS = [("a house", "ein Haus"), ("the house", "das Haus"), ("a book", "ein Buch")] * 4
SENTENCES = ["DET NOUN VERB", "NOUN VERB DET NOUN"] * 5
TREES = ["( (S (NP (D the) (N cat)) (VP (V sleeps))))", "( (S (NP (N she)) (VP (V sees))))"] * 6
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
    "hdp-mixture": (sb.HDPMixture(random_state=0), SEQUENCES),
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
    "hdp-pcfg": (sb.HDPPCFG(3, random_state=0), SENTENCES),
    "latent-pcfg": (sb.LatentPCFG(1, random_state=0), TREES),
    "templates": (sb.TemplateGrammar("Word+", random_state=0), ["thecat", "thedog", "acat"] * 5),
    "hdp-hsmm": (sb.HDPHSMM(random_state=0), SEQUENCES),
    "mixed": (sb.Mixture(2, family=sb.Product([(sb.Gaussian(), [0, 1]), (sb.Poisson(), [2])]),
                         random_state=0), np.column_stack([ROWS, RNG.poisson(3, 100)])),
    "gibbs": (sb.Mixture(2, inference=sb.Gibbs(max_iter=10), random_state=0), ROWS),
    "collapsed": (sb.LatentDirichletAllocation(2, inference="collapsed", random_state=0),
                  DOCUMENTS),
    "stochastic": (sb.Mixture(2, inference=sb.StochasticVB(batch_size=20, max_iter=3),
                              random_state=0), ROWS),
    "skeleton": (sb.Mixture(2, family=Exponential(shape=2.5, rate=1.3), random_state=0),
                 RNG.exponential(2.0, (60, 2))),
    "sparse": (sb.Mixture(2, family="multinomial", random_state=0),
               sparse.csr_array(RNG.integers(0, 3, (50, 4)))),
    "hmm-categorical": (sb.HMM(2, family="categorical", random_state=0),
                        [["a", "b", "a"] * 8, ["b", "a"] * 6]),
    "hmm-poisson": (sb.HMM(2, family="poisson", random_state=0),
                    [RNG.poisson(5, (30, 2)) for _ in range(3)]),
}  # fmt: skip
GOLDEN = Path(__file__).resolve().parent.parent / "golden"
REPORTED = {"latent-pcfg": ["the cat sleeps", "she sees"] * 3}  # where fits are to something else
QUICK = ("mixture", "hmm", "lda")
PARTS = 4  # of the cases, each for two processes
DIGESTS = """
import hashlib, sys
import stickbreak as sb
from report.test_estimators import CASES, PARTS, ROWS, fitted
part = int(sys.argv[1])
pages = [model.report(data) for model, data in map(fitted, list(CASES)[part::PARTS])]
both = [fitted(name)[0] for name in (("mixture", "dp"), ("dp", "em"), ("em", "gibbs"))[part % 3]]
pages.append(sb.compare(both, ROWS).report())
for page in pages:
    print(hashlib.sha256(page.html.encode()).hexdigest())
"""


def read_html5(html):
    """The page by html5lib: AssertionError for an error of the page itself.

    `<title/>` and the like are those of SVG, where they are right.
    """
    try:
        import html5lib
    except ImportError:
        skip('no html5lib: pip install "stickbreak[browser]"')
    parser = html5lib.HTMLParser(strict=False)
    parser.parse(html)
    assert [error for _, error, _ in parser.errors] == []


def fitted(name):
    """A fitted estimator, and its data."""
    model, data = CASES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sb.StickbreakWarning)
        return model.fit(data), REPORTED.get(name, data)


def block(html):
    """The values that a page holds for programs."""
    return json.loads(re.search(r'id="data">([^<]*)<', html)[1])


def check_answers(tree, model, has_data):
    """Whoever reads the page as text finds: how many, which is largest, what sets two apart, where
    the model is unsure, what to try next.
    """
    parts = {section.get("id"): text_of(section) for section in tree.iter("section")}
    lead = tree.find(".//p[@class='lead']").text
    n = (model.counts_ >= 1).sum()
    assert lead.startswith(f"{max(n, 1):,} "), lead
    largest = int(np.argmax(np.where(model.counts_ >= 1, model.weights_, 0)))
    assert re.search(rf"The largest is [\w ]+ {largest}\b", lead), lead
    lines = components_of(tree)
    if len(lines) > 1:  # what sets the two largest apart
        one, other = (line["what sets it apart"] for line in lines[:2])
        assert one
        assert other
        assert one != other
    told = parts["chapter-sure"].replace("How sure it is", "")
    unsure = (
        r"(L|l)east (sure|apart)|mean of the largest is|A document has [\d.]+ topics? with more"
    )
    assert re.search(unsure if has_data else f"{unsure}|This needs data", told), told
    assert "sb.load(" in parts["chapter-next"]
    assert "again = clone(model)" in parts["chapter-next"]


def components_of(tree):
    """Lines of the table of components: texts by title."""
    table = next(e for e in tree.iter("table") if e.get("id") == "components")
    heads = ["".join(cell.itertext()) for cell in table.find("thead/tr")]
    return [
        dict(zip(heads, ("".join(cell.itertext()) for cell in row), strict=True))
        for row in table.find("tbody")
    ]


def test_every_registered_estimator_has_a_case():
    own = {cls for cls in ESTIMATORS.values() if cls.__module__.startswith("stickbreak.")}
    assert own == {type(model) for model, _ in CASES.values()}


def test_every_family_has_a_case():
    named = {
        name.replace("_", "-")
        for name in FAMILIES
        if name not in ("skeleton", "product", "multinomial_sparse")
    }
    assert named <= {*CASES, *("gaussian", "zero-mean", "autoregressive")}
    assert {"mixture", "mixed", "zero-mean", "ar", "skeleton", "sparse"} <= set(CASES)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_every_page_is_html5_and_the_same_after_save_and_load(name, tmp_path):
    model, data = fitted(name)
    html = model.report(data).html
    read_html5(html)
    assert model.report(data).html == html
    assert time.strftime("%Y-%m-%d") not in html
    user = {getpass.getuser()} - {"root"}  # which trees have, too
    for private in (socket.gethostname(), str(Path.home()), str(Path.cwd()), *user):
        assert private not in html
    if ESTIMATORS.get(type(model).__name__) is type(model) and name != "skeleton":
        model.save(tmp_path / "m.stickbreak")
        assert sb.load(tmp_path / "m.stickbreak").report(data).html == html
    if hasattr(model, "n_jobs"):
        model.n_jobs = 4
        assert model.report(data).html == html
        model.n_jobs = None
    check_report(model, data)


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in CASES]
)
def test_every_estimator_gives_a_page_with_and_without_data(name):
    model, data = fitted(name)
    for page, has_data in ((model.report(data), True), (model.report(), False)):
        tree = parse(page.html)
        check_answers(tree, model, has_data)
        assert not re.search(r"\b(nan|inf) ?%|\bnan\b", text_of(tree))
        assert tree.find("body/header/h1").text == type(model).__name__
        assert ("SHA-256 of the data" in page.html) == has_data
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
            assert [values[word] for word in expected] == pytest.approx(best, abs=2e-7)


def test_same_bytes_again_and_after_save_and_load(tmp_path):
    model, X = fitted("mixture")
    page = model.report(X)
    assert page.html == model.report(X).html
    model.save(tmp_path / "m.stickbreak")
    assert sb.load(tmp_path / "m.stickbreak").report(X).html == page.html
    for word in (str(tmp_path), " at 0x", "/home/"):  # a digest may hold 0x
        assert word not in page.html


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_same_bytes_in_two_processes_with_other_hash_seeds(part):
    """Pages of all cases, and of two of them compared."""
    found = {
        subprocess.run(
            [sys.executable, "-c", DIGESTS, str(part)], capture_output=True, text=True, check=True,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(found) == 1
    assert len(found.pop().split()) == len(list(CASES)[part::PARTS]) + 1


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
    with pytest.raises(ValueError, match="names is a dict from numbers of components"):
        model.report(names=["a", "b"])
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


def test_names_are_kept_by_save_and_forgotten_when_asked(tmp_path):
    model, X = fitted("mixture")
    model.report(X, names={1: "the others"})
    assert "the others" in model.report(X).html
    model.save(tmp_path / "m.stickbreak")
    again = sb.load(tmp_path / "m.stickbreak")
    assert again.report(X).html == model.report(X).html
    again.report(names={0: "the first"})
    assert {"the first", "the others"} <= set(again._require_fitted().names.values())
    assert "the others" not in again.report(X, names={}).html
    assert "the others" not in again.fit(X).report(X).html


def test_starts_are_told_and_kept(tmp_path):
    model = sb.Mixture(2, n_init=3, random_state=0).fit(ROWS)
    html = model.report().html
    assert "All starts" in html
    assert "The best starts agree" in html
    model.save(tmp_path / "m.stickbreak")
    assert sb.load(tmp_path / "m.stickbreak").report().html == html


def test_figures_of_the_tables_are_those_of_the_estimator():
    model, X = fitted("mixture")
    tree = parse(model.report(X).html)
    shares = model.predict_proba(X)
    lines = {int(row.get("data-k")): ["".join(c.itertext()) for c in row]
             for row in tree.find(".//table[@id='components']/tbody")}  # fmt: skip
    for k, cells in lines.items():
        assert float(cells[2].rstrip("%").strip()) == pytest.approx(
            100 * model.weights_[k], abs=0.5
        )
        assert int(cells[5]) == (model.predict(X) == k).sum()
    assert f"mean of the largest is {shares.max(1).mean():.2f}" in text_of(tree)
    own = [shares[shares.argmax(1) == k].mean(0) for k in (0, 1)]
    n = np.bincount(shares.argmax(1))
    mixed = (n[0] * own[0][1] + n[1] * own[1][0]) / n.sum()
    assert f"{100 * mixed:.1f}" in text_of(tree)
    assert f"{model.lower_bound_ / 100:.3f}".replace("-", "\u2212") in text_of(tree)


def test_stays_and_transitions_are_those_of_the_estimator():
    model, X = fitted("hmm")
    text = text_of(parse(model.report(X).html))
    for k in (0, 1):
        assert f"{model.transmat_[k, k]:.3f}" in text
    lengths = np.concatenate([stays_of(path)[1] for path in model.predict(X)])
    assert f"{len(lengths)} stays, of {np.mean(lengths):.3g} rows on average" in text
    assert f"{float(model.durations_[0]):.3g}" in text


def test_relevance_is_the_published_formula_on_the_model_s_own_counts():
    """lambda log p(w | k) + (1 - lambda) log(p(w | k) / p(w)), of Sievert and Shirley."""
    from stickbreak.estimators.reports import make_subject
    from stickbreak.report.topics import word_data

    model, docs = fitted("lda")
    subject = make_subject(model, docs)
    given, p = word_data(subject), model.topic_word_
    overall = model.weights_ @ p
    for relevance in np.arange(0, 1.01, given["step"]):
        for k in map(int, subject.shown):
            exact = relevance * np.log(p[k]) + (1 - relevance) * np.log(p[k] / overall)
            best = np.sort(exact)[::-1][:3]
            own = sorted(
                (relevance * lp + (1 - relevance) * (lp - given["overall"][w])
                 for w, lp in given["topics"][str(k)]),
                reverse=True,
            )[:3]  # fmt: skip
            assert own == pytest.approx(best, abs=2e-7)


def test_no_row_and_no_text_of_the_data_is_in_a_private_page():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(60, 2)) * [1, 1000] + [7, 12345]
    model = sb.Mixture(2, random_state=0).fit(X)
    shown = model.report(X).html
    private = model.report(X, data="none").html
    for a, b in X:
        one, other = float(f"{a:.4g}"), float(f"{b:.4g}")
        rows = f"[{one},{other}]", f"[{other},{one}]"  # the column that tells more comes first
        assert any(row in shown for row in rows)
        assert not any(row in private for row in rows)
    for value in X.ravel():
        assert repr(float(value)) not in private
    model, pairs = fitted("ibm1")
    for how in ({"texts": False}, {"data": "none"}):
        assert "Pair 0" not in model.report(pairs, **how).html
    model, sentences = fitted("pcfg")
    assert "Sentence 0" in model.report(sentences).html
    for how in ({"texts": False}, {"data": "none"}):
        assert "Sentence 0" not in model.report(sentences, **how).html


def test_a_page_needs_no_matplotlib():
    code = (
        "import sys, numpy as np, stickbreak as sb\n"
        "X = np.random.default_rng(0).normal(size=(60, 2))\n"
        "sb.Mixture(2, random_state=0).fit(X).report(X)\n"
        "assert 'matplotlib' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_bad_data_are_a_sentence_or_a_page_that_says_what_it_lacks():
    model, X = fitted("mixture")
    with pytest.raises(ValueError, match="infinit"):
        model.report(np.where(X[0, 0] == X, np.inf, X))
    with pytest.raises(ValueError, match=r"0 sample|no rows|at least"):
        model.report(X[:0])
    parse(model.report(np.full((20, 2), 3.0)).html)  # constant columns
    for name in ("mixture", "lda", "hmm", "pcfg"):
        with pytest.raises(ValueError, match="X is empty; give data to show"):
            fitted(name)[0].report([])
    model, sequences = fitted("hmm")
    parse(model.report(sequences[:1]).html)
    parse(model.report([s[:1] for s in sequences]).html)
    with pytest.raises(ValueError, match="by has 2 entries for 3 sequences"):
        model.report(sequences, by=[1, 2])
    model, docs = fitted("lda")
    parse(model.report([*docs, []]).html)
    told = text_of(parse(model.report([[], []]).html))
    assert "0 words" in told
    assert not re.search(r"\bnan\b", told)
    with pytest.warns(sb.DataWarning, match="2 words are not in the vocabulary"):
        parse(model.report([["unknown", "words"]]).html)


def test_columns_in_another_order_are_named():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(ROWS, columns=["a", "b"])
    model = sb.Mixture(2, random_state=0).fit(table)
    assert model.report(table).html
    with pytest.raises(ValueError, match=r"yet now missing:\n- b"):
        model.report(table.rename(columns={"b": "c"}))
    with pytest.raises(ValueError, match="Column 0 is 'b', in the fit it was 'a'; sort the col"):
        model.report(table[["b", "a"]])


def test_a_stream_and_an_older_file_give_pages():
    model = sb.Mixture(2, random_state=0).partial_fit(ROWS)
    assert "there are no laps to show" in model.report(ROWS).html
    for file in sorted(GOLDEN.rglob("*.stickbreak")):
        parse(sb.load(file).report().html)
