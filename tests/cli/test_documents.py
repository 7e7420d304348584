"""Documents on the command line: the same answers as Python's, for every kind of file; one line for
each thing that is wrong.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cli.running import command, files_in, write_csv  # noqa: F401
from data.test_corpora import as_docword, as_ldac, as_words

import stickbreak as sb
from stickbreak.cli import warmup

ROOT = Path(__file__).resolve().parents[2]
WORDS = tuple(
    sorted(
        ["cat", "dog", "fur", "paw", "salt", "soup", "pan", "oven", "ship", "wave", "sail", "tide"]
    )
)
TOPICS = [
    ["cat", "dog", "fur", "paw"],
    ["salt", "soup", "pan", "oven"],
    ["ship", "wave", "sail", "tide"],
]
FIT = ("--n-components", 3, "--seed", 0)
MODELS = {"lda": sb.LatentDirichletAllocation, "hdp-topics": sb.HDPTopicModel}


def make_counts(n: int = 60, length: int = 20, seed: int = 0) -> np.ndarray:
    """(S, 12) counts of documents of one or two of three topics, the fifth without words."""
    rng = np.random.default_rng(seed)
    groups = np.array([[WORDS.index(word) for word in words] for words in TOPICS])
    made = np.zeros((n, 12), dtype=int)
    for row in made:
        own = rng.choice(3, size=rng.integers(1, 3), replace=False)
        np.add.at(row, groups[rng.choice(own, length), rng.integers(0, 4, length)], 1)
    made[4] = 0
    return made


COUNTS = make_counts()


@pytest.fixture
def folder(tmp_path, command) -> Path:  # noqa: F811
    (tmp_path / "docs.ldac").write_text(as_ldac(COUNTS))
    (tmp_path / "docword.txt").write_text(as_docword(COUNTS))
    (tmp_path / "docs.txt").write_text(as_words(COUNTS, WORDS))
    (tmp_path / "docs.ldac.gz").write_bytes(gzip.compress(as_ldac(COUNTS).encode()))
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    return tmp_path


@pytest.fixture
def fitted(folder, command) -> str:  # noqa: F811
    done = command(
        "fit", "lda", "docs.ldac", "--words", "vocab.txt", *FIT, "--out", "m.stickbreak", "--quiet"
    )
    assert (done.code, done.out, done.err) == (0, "", "")
    return "m.stickbreak"


def python_fit(name: str, **more):
    moves = () if name == "lda" else (sb.Birth(), sb.Merge(), sb.Delete())
    return MODELS[name](3, random_state=0, inference=sb.MemoizedVB(moves=moves), **more).fit(
        sb.read_corpus("docs.ldac", words=WORDS)
    )


# ---- fit and show --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_fit_is_the_python_fit(name, folder, command):  # noqa: F811
    done = command(
        "fit", name, "docs.ldac", "--words", "vocab.txt", *FIT, "--out", "m.stickbreak", "--json"
    )
    assert done.code == 0, done.err
    assert done.out.count("\n") == 1
    found, model = json.loads(done.out), python_fit(name)
    assert found["lower_bound"] == model.lower_bound_ == sb.load("m.stickbreak").lower_bound_
    expected = {
        "model": type(model).__name__,
        "n_words": 12,
        "n_documents": 60,
        "n_components": 3,
        "out": "m.stickbreak",
    }
    assert expected.items() <= found.items()
    assert "columns" not in found
    assert [topic["top_words"] for topic in found["topics"]] == model.top_words(10)
    assert {frozenset(topic["top_words"][:4]) for topic in found["topics"]} == set(
        map(frozenset, TOPICS)
    )
    for topic in found["topics"]:
        k = topic["topic"]
        assert topic["words"] == pytest.approx(model.counts_[k])
        np.testing.assert_allclose(topic["probabilities"], np.sort(model.topic_word_[k])[::-1][:10])


@pytest.mark.parametrize(
    ("text", "value"), [("auto", "auto"), ("0.5,0.1,0.2", (0.5, 0.1, 0.2)), ("0.3", 0.3)]
)
def test_topics_may_have_prior_counts_of_their_own(text, value, folder, command):  # noqa: F811
    asked = ("--words", "vocab.txt", "--concentration", text, *FIT, "--out", "m.stickbreak")
    done = command("fit", "lda", "docs.ldac", *asked)
    assert done.code == 0, done.err
    found = sb.load("m.stickbreak")
    assert found.lower_bound_ == python_fit("lda", concentration=value).lower_bound_


@pytest.mark.parametrize("name", ["docword.txt", "docs.txt", "docs.ldac.gz"])
def test_every_kind_of_file_gives_the_same_model(name, folder, command):  # noqa: F811
    words = [] if name == "docs.txt" else ["--words", "vocab.txt"]
    found = json.loads(command("fit", "lda", name, *words, *FIT, "--json").out)
    model = python_fit("lda")
    assert found["lower_bound"] == model.lower_bound_
    assert [topic["top_words"] for topic in found["topics"]] == model.top_words(10)


def test_a_fit_tells_the_words_of_the_largest_topics(folder, command, monkeypatch):  # noqa: F811
    done = command(
        "fit", "lda", "docs.txt", *FIT, "--quiet", "--out", "m.stickbreak", "--n-components", 3
    )
    assert (done.code, done.out) == (0, "")
    done = command("fit", "lda", "docs.txt", *FIT, "--out", "m.stickbreak")
    lines, model = done.out.splitlines(), sb.load("m.stickbreak")
    assert (
        lines[0]
        == "LatentDirichletAllocation of 3 topics with words (3 in all); 12 words in the vocabulary"
    )
    assert lines[1].split() == ["topic", "words", "weight", "top", "words"]
    k = int(np.argmax(model.weights_))
    assert lines[2].split() == [
        str(k),
        f"{model.counts_[k]:.1f}",
        f"{model.weights_[k]:.4f}",
        *model.top_words(10)[0],
    ]
    assert lines[5].startswith(f"bound {model.lower_bound_:.2f} nats, converged after")
    assert lines[6].startswith("60 documents in ")
    assert lines[6].endswith("saved to m.stickbreak")
    assert "words/s" in done.err
    shown = command("show", "m.stickbreak", "--top-words", 2).out.splitlines()
    assert shown[2].split()[3:] == model.top_words(2)[0]
    assert shown[-1] == "settings: inference=MemoizedVB(), n_components=3, random_state=0"
    found = json.loads(command("show", "m.stickbreak", "--json", "--top-words", 1).out)
    assert [topic["top_words"] for topic in found["topics"]] == model.top_words(1)
    assert found["settings"]["n_components"] == 3
    monkeypatch.setattr("stickbreak.cli.showing.MOST_COMPONENTS", 2)
    assert command("show", "m.stickbreak").out.splitlines()[4] == "1 more topics: see --json"


def test_words_without_names_are_numbers(folder, command):  # noqa: F811
    found = json.loads(command("fit", "lda", "docs.ldac", *FIT, "--json").out)
    named = {frozenset(WORDS.index(word) for word in words) for words in TOPICS}
    assert {frozenset(topic["top_words"][:4]) for topic in found["topics"]} == named


def test_all_options_reach_the_model(folder, command):  # noqa: F811
    done = command(
        "fit", "hdp-topics", "docs.ldac", "--n-components", 4, "--concentration", 0.4,
        "--top-concentration", 5, "--root", "point",
        "--word-concentration", 0.2, "--restarts", 1, "--learn-prior", "--init", "random",
        "--seed", 3, "--n-init", 2,
        "--n-jobs", 1, "--max-iter", 150, "--tol", 1e-4, "--n-batches", 2, "--out", "m.stickbreak",
        "--quiet",
    )  # fmt: skip
    assert done.code == 0, done.err
    assert done.err.count("the bound of a point estimate") == 1
    with pytest.warns(sb.StickbreakWarning, match="the bound of a point estimate"):
        model = sb.load("m.stickbreak")
    assert model.get_params(deep=False) | {"inference": None, "verbose": 0} == {
        "n_components": 4, "inference": None, "concentration": 0.4, "top_concentration": 5.0,
        "root": "point",
        "word_concentration": 0.2, "learn_prior": True, "restarts": 1, "random_state": 3,
        "init": "random", "n_init": 2,
        "max_iter": None, "tol": None, "n_jobs": 1, "warm_start": False, "verbose": 0,
        "allowed": None, "seeds": None,
    }  # fmt: skip
    assert repr(model.inference) == "MemoizedVB(max_iter=150, tol=0.0001, n_batches=2)"
    done = command(
        "fit",
        "lda",
        "docs.ldac",
        *FIT,
        "--inference",
        "stochastic",
        "--batch-size",
        20,
        "--max-iter",
        3,
        "--json",
        "-q",
    )
    assert done.code == 0
    assert done.err.startswith("stickbreak: warning: stopped at max_iter=3")


@pytest.mark.parametrize("inference", ["gibbs", "collapsed-gibbs"])
def test_samplers_draw_as_python_does(inference, folder, command):  # noqa: F811
    is_annealed = inference == "collapsed-gibbs"
    options = ("--temperature", "2,0.5") if is_annealed else ()
    done = command(
        "fit", "lda", "docs.ldac", *FIT, "--inference", inference, "--max-iter", 5, *options,
        "--out", "m.stickbreak", "--quiet",
    )  # fmt: skip
    assert (done.code, done.err) == (0, "")
    model = sb.load("m.stickbreak")
    expected = "CollapsedGibbs(max_iter=5, temperature=(2.0, 0.5))"
    assert repr(model.inference) == (expected if is_annealed else "Gibbs(max_iter=5)")
    again = type(model)(**model.get_params(deep=False)).fit("docs.ldac")
    assert again.lower_bound_ == model.lower_bound_


# ---- predict, score, resume ----------------------------------------------------------------------


def test_predict_and_score_answer_as_python_does(fitted, command, monkeypatch):  # noqa: F811
    monkeypatch.setattr("stickbreak.cli.using.PART_DOCUMENTS", 17)
    model = sb.load(fitted)
    labels, shares = model.predict(COUNTS), model.transform(COUNTS)
    lines = command("predict", fitted, "docs.ldac").out.splitlines()
    assert lines[0] == "topic"
    np.testing.assert_array_equal([int(label) for label in lines[1:]], labels)
    assert json.loads(command("predict", fitted, "docs.ldac", "--json").out) == {
        "n_documents": 60,
        "labels": labels.tolist(),
    }
    table = command(
        "predict", fitted, "docs.ldac", "--proba", "--out", "shares.csv", "--json", "--n-jobs", 1
    )
    assert json.loads(table.out) == {"n_documents": 60, "out": "shares.csv"}
    opened = sb.open_table("shares.csv")
    assert opened.names == ("topic_0", "topic_1", "topic_2")
    np.testing.assert_allclose(opened.rows, shares, rtol=1e-12)
    assert command("predict", fitted, "docs.ldac", "--proba", "--out", "shares.npy").code == 0
    np.testing.assert_array_equal(np.load("shares.npy"), opened.rows)
    found = json.loads(command("score", fitted, "docs.ldac", "--json").out)
    assert found == {
        "score": model.score(COUNTS),
        "perplexity": pytest.approx(model.perplexity(COUNTS)),
        "n_documents": 60,
    }
    line = command("score", fitted, "docs.ldac").out
    assert (
        line
        == f"{model.score(COUNTS)!r} nats per word, perplexity {model.perplexity(COUNTS):.6g}\n"
    )
    rows = command("score", fitted, "docs.ldac", "--per-row").out.splitlines()
    assert rows[0] == "log_bound"
    np.testing.assert_allclose(
        [float(row) for row in rows[1:]], model.score_samples(COUNTS), rtol=1e-12
    )


def test_words_are_found_by_name_in_other_files(fitted, folder, command):  # noqa: F811
    expected = command("predict", fitted, "docs.ldac", "--proba").out
    for name in ("docword.txt", "docs.txt", "docs.ldac.gz"):
        assert command("predict", fitted, name, "--proba").out == expected
    order = np.random.default_rng(0).permutation(12)
    (folder / "other.ldac").write_text(as_ldac(COUNTS[:, order]))
    (folder / "other.vocab.txt").write_text("\n".join(WORDS[i] for i in order) + "\n")
    assert (
        command("predict", fitted, "other.ldac", "--words", "other.vocab.txt", "--proba").out
        == expected
    )
    (folder / "more.txt").write_text(as_words(COUNTS, WORDS).replace("\n", " zebra\n"))
    done = command("predict", fitted, "more.txt", "--proba")
    assert done.out == expected
    assert (
        done.err
        == "stickbreak: warning: 1 words are not in the vocabulary and are left out: 'zebra'\n"
    )


@pytest.mark.slow
@pytest.mark.parametrize("words", [[], ["--words", "vocab.txt"]], ids=["numbers", "words"])
@pytest.mark.parametrize("name", MODELS)
def test_a_fit_is_resumed(name, words, folder, command):  # noqa: F811
    fit = ("fit", name, "docs.ldac", *words, *FIT, "--n-batches", 2, "--quiet")
    assert (
        command(*fit, "--checkpoint", "c", "--checkpoint-every", 0, "--out", "a.stickbreak").code
        == 0
    )
    done = command("resume", "c", "docs.ldac", "--out", "b.stickbreak", "--json", "--quiet")
    assert done.code == 0, done.err
    before, after = sb.load("a.stickbreak"), sb.load("b.stickbreak")
    assert json.loads(done.out)["n_documents"] == 60
    assert before.lower_bound_ == after.lower_bound_
    assert before.top_words() == after.top_words()
    assert sb.resume("c", "docs.ldac").lower_bound_ == after.lower_bound_
    with pytest.raises(ValueError, match="labels is not for documents"):
        sb.resume("c", "docs.ldac", labels=[0] * 60)


def test_the_example_says_what_it_wrote(command, tmp_path):  # noqa: F811
    done = command("example", "--documents", "docs.ldac")
    corpus = sb.read_corpus("docs.ldac", words="docs.vocab.txt")
    n_words = len(corpus.words)
    assert (
        done.out
        == f"{corpus.n_documents} documents written to docs.ldac, their {n_words} words to "
        "docs.vocab.txt\n"
    )
    assert corpus.n_documents > 100
    assert 100 < n_words < 1000
    assert files_in(tmp_path) == {"docs.ldac", "docs.vocab.txt"}
    found = json.loads(command("example", "--documents", "again.ldac", "--json").out)
    assert found == {
        "out": "again.ldac",
        "words": "again.vocab.txt",
        "n_documents": corpus.n_documents,
        "n_words": n_words,
    }
    assert (tmp_path / "again.ldac").read_bytes() == (tmp_path / "docs.ldac").read_bytes()


def test_an_example_is_written_whole_or_not_at_all(command, tmp_path, monkeypatch):  # noqa: F811
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    assert (
        command("example", "--documents", "docs.ldac").err
        == "stickbreak: No space left on device\n"
    )
    assert files_in(tmp_path) == set()


@pytest.mark.slow
@pytest.mark.parametrize("what", ["documents", "segments", "groups", "pairs", "sentences"])
def test_warmup_compiles_what_other_models_need(what):
    getattr(warmup, f"_use_{what}")()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals")
def test_on_a_terminal_there_is_one_live_line(folder):
    import pty

    ours, theirs = pty.openpty()
    fit = [
        "fit",
        "lda",
        "docs.ldac",
        "--n-components",
        "3",
        "--seed",
        "0",
        "--tol",
        "0",
        "--max-iter",
        "200",
        "--n-batches",
        "9",
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "120"}
    words = [sys.executable, "-m", "stickbreak", *fit, "--json"]
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=theirs, env=environment, text=True
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        shown += part
    out, _ = process.communicate(timeout=600)
    os.close(ours)
    assert process.returncode == 0
    assert json.loads(out)["n_documents"] == 60
    assert b"lap " in shown
    assert b"words/s" in shown


# ---- whatever is wrong ---------------------------------------------------------------------------

BAD = {
    "no such file": (("fit", "lda", "none.ldac"), "none.ldac does not exist"),
    "a folder": (("fit", "lda", "."), "is not a file"),
    "a csv": (("fit", "hdp-topics", "rows.csv"), "rows.csv is neither LDA-C"),
    "a wrong line": (("fit", "lda", "bad.ldac"),
    "bad.ldac, line 2 is '2 0:1'; expected `n id:count id:count ...`"),
    "a damaged archive": (("fit", "lda", "bad.ldac.gz"), "bad.ldac.gz cannot be read"),
    "no words": (("fit", "lda", "zeros.ldac"), "the documents have no words"),
    "no vocabulary": (("fit", "lda", "docs.ldac", "--words", "none.txt"),
    "none.txt does not exist"),
    "a small vocabulary": (("fit", "lda", "docs.ldac", "--words", "small.txt"),
    "is not in a vocabulary of 2"),
    "a vocabulary of another size": (("fit", "lda", "docword.txt", "--words", "small.txt"),
    "has a vocabulary of 12 words; got 2"),
    "LDA-C as words": (("fit", "lda", "ldac.txt"), "rename it to .ldac"),
    "columns": (("fit", "lda", "docs.ldac", "--columns", "a"), "No such option: --columns"),
    "a family": (("fit", "lda", "docs.ldac", "--family", "gaussian"), "No such option: --family"),
    "sequences": (("fit", "lda", "docs.ldac", "--sequence-id", "a"),
    "No such option: --sequence-id"),
    "a header": (("fit", "hdp-topics", "docs.ldac", "--header"), "No such option: --header"),
    "a root": (("fit", "lda", "docs.ldac", "--root", "beta"), "No such option: --root"),
    "no topics": (("fit", "lda", "docs.ldac", "--n-components", "0"), "n_components"),
    "a concentration": (("fit", "lda", "docs.ldac", "--word-concentration", "-1"),
    "word_concentration must be"),
    "restarts": (("fit", "lda", "docs.ldac", "--restarts", "-1"),
    "restarts must be a whole number of at least 0"),
    "an init": (("fit", "lda", "docs.ldac", "--init", "k-means++"),
    "unknown init 'k-means++'; choose one of documents, random"),
    "another root": (("fit", "hdp-topics", "docs.ldac", "--root", "leaf"), "root"),
    "hard EM": (("fit", "lda", "docs.ldac", "--inference", "hard-em"),
    "HardEM is not for documents"),
    "slices": (("fit", "lda", "docs.ldac", "--inference", "gibbs", "--slices"),
    "No such option: --slices"),
    "a temperature": (("fit", "lda", "docs.ldac", "--inference", "collapsed-gibbs",
    "--temperature", "hot"), "--temperature is a number, or two like 2,0.08; got hot"),
    "three temperatures": (("fit", "lda", "docs.ldac", "--inference", "collapsed-gibbs",
    "--temperature", "3,2,1"), "temperature must be a positive number, or a pair"),
    "a temperature of EM": (("fit", "lda", "docs.ldac", "--inference", "em", "--temperature", "1"),
    "--temperature does not apply to --inference em"),
    "subchains": (("fit", "lda", "docs.ldac", "--inference", "subchain"),
    "SubchainVB is for hidden Markov models"),
    "out": (("fit", "lda", "docs.ldac", "--out", "none/m.stickbreak"), "no such folder"),
    "a word beyond": (("predict", "m.stickbreak", "beyond.ldac"),
    "beyond.ldac, line 1: word 12 is not in a vocabulary of 12"),
    "a smaller corpus": (("score", "m.stickbreak", "small.docword"),
    "has a vocabulary of 2 words; got 12"),
    "a table": (("predict", "m.stickbreak", "rows.csv"), "rows.csv is neither LDA-C"),
    "an array": (("predict", "m.stickbreak", "docs.ldac", "--array", "X"),
    "--array is for tables; m.stickbreak is of a model of"),
    "a sequence": (("score", "m.stickbreak", "docs.ldac", "--sequence-id", "X"),
    "--sequence-id is for tables"),
    "texts for numbers": (("predict", "numbered.stickbreak", "docs.txt"),
    "the model was fitted to numbered words"),
    "words for a mixture": (("predict", "mixture.stickbreak", "rows.csv", "--words", "vocab.txt"),
    "--words is for topic models"),
    "top words of a mixture": (("show", "mixture.stickbreak", "--top-words", "3"),
    "--top-words is for topic models"),
    "no top words": (("show", "m.stickbreak", "--top-words", "0"), "top_words"),
    "documents for a mixture": (("predict", "mixture.stickbreak", "docs.ldac"),
    "files of kind '.ldac' are not read"),
    "nothing to score": (("score", "m.stickbreak", "zeros.ldac"),
    "no document has 5 distinct words"),
    "out without rows": (("score", "m.stickbreak", "docs.ldac", "--out", "a.csv"),
    "give --per-row too"),
    "other documents": (("resume", "c", "beyond.ldac"), "is not in a vocabulary of 12"),
    "fewer documents": (("resume", "c", "one.ldac"), "c was written for other data"),
    "a header to resume": (("resume", "c", "docs.ldac", "--header"),
    "--header is for tables; c is of a model of documents"),
    "an example of another kind": (("example", "--documents", "docs.csv"), "expected a .ldac file"),
    "two examples": (("example", "--documents", "--sequences", "a.csv"), "contradict"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_calls_are_one_line_and_write_nothing(case, folder, command):  # noqa: F811
    (folder / "bad.ldac").write_text("1 0:1\n2 0:1\n")
    (folder / "bad.ldac.gz").write_bytes(gzip.compress(as_ldac(COUNTS).encode())[:-9])
    (folder / "zeros.ldac").write_text("0\n0\n")
    (folder / "one.ldac").write_text("1 3:1\n")
    (folder / "beyond.ldac").write_text("1 12:4\n")
    (folder / "small.docword").write_text("1\n2\n1\n1 1 1\n")
    (folder / "small.txt").write_text("cat\ndog\n")
    (folder / "ldac.txt").write_text(as_ldac(COUNTS))
    write_csv(folder / "rows.csv", COUNTS[:, :2], "x,y")
    arguments, message = BAD[case]
    if "mixture.stickbreak" in arguments:
        sb.Mixture(1).fit("rows.csv").save(folder / "mixture.stickbreak")
    if "numbered.stickbreak" in arguments:
        sb.LatentDirichletAllocation(2, random_state=0).fit(COUNTS).save(
            folder / "numbered.stickbreak"
        )
    if {"m.stickbreak", "c"} & set(arguments):
        saving = ("--checkpoint", "c", "--checkpoint-every", 0, "--quiet", "--out", "m.stickbreak")
        assert command("fit", "lda", "docs.ldac", "--words", "vocab.txt", *FIT, *saving).code == 0
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    done = command(
        *arguments,
        *(
            ["--out", "n.stickbreak"]
            if arguments[0] in ("fit", "resume") and "--out" not in arguments
            else []
        ),
    )
    assert done.code == 2
    assert done.out == ""
    assert message in done.err
    assert done.err.count("\n") == 1
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
