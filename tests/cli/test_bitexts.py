"""Sentence pairs on the command line: the same links as Python's; one line for what is wrong."""

from __future__ import annotations

import json

import pytest
from cli.running import command, files_in  # noqa: F401

import stickbreak as sb

MODELS = {"ibm1": sb.IBM1, "hmm-aligner": sb.HMMAligner}
PAIRS = ["the house ||| das Haus", "the book ||| das Buch", "a book ||| ein Buch"]
FIT = ("fit", "ibm1", "pairs.txt", "--seed", 0, "--quiet", "--out", "m.stickbreak")


@pytest.fixture
def pairs(tmp_path):
    path = tmp_path / "pairs.txt"
    path.write_text("".join(f"{line}\n" for line in PAIRS))
    return path


@pytest.mark.parametrize("name", MODELS)
def test_links_are_those_of_python(command, pairs, tmp_path, name):  # noqa: F811
    done = command("fit", name, pairs, "--seed", 0, "--quiet", "--out", "m.stickbreak")
    assert (done.code, done.err) == (0, "")
    model = MODELS[name](random_state=0).fit(PAIRS)
    assert command("predict", "m.stickbreak", pairs).out.splitlines() == list(
        model.align(PAIRS).lines()
    )
    done = command("predict", "m.stickbreak", pairs, "--symmetrize", "union", "--out", "links.txt")
    assert (done.code, done.out) == (0, "")
    links = sb.read_links(tmp_path / "links.txt")
    assert list(links) == list(model.align(PAIRS, symmetrize="union"))
    assert command("score", "m.stickbreak", pairs).out == (
        f"{model.score(PAIRS)!r} nats per target word\n"
    )


def test_two_files_another_encoding_and_small_letters(command, tmp_path):  # noqa: F811
    (tmp_path / "a.fr").write_bytes("Été\nle Café\n".encode("latin-1"))
    (tmp_path / "a.en").write_text("Summer\nthe Café\n", encoding="latin-1")
    two = ("a.fr", "--target", "a.en", "--encoding", "latin-1")
    assert command("fit", "ibm1", *two, "--lowercase", "--out", "m.stickbreak").code == 0
    assert sb.load(tmp_path / "m.stickbreak").source_words_.tolist() == [
        "<NULL>", "été", "le", "café",
    ]  # fmt: skip
    assert len(command("predict", "m.stickbreak", *two).out.splitlines()) == 2


def test_scores_against_gold(command, pairs, tmp_path):  # noqa: F811
    command(*FIT)
    (tmp_path / "gold.txt").write_text("0-0 1-1\n" * 3)
    found = json.loads(command("score", "m.stickbreak", pairs, "--gold", "gold.txt", "--json").out)
    assert found["symmetrize"] == "grow-diag-final-and"
    assert 0 <= found["aer"] <= 1
    (tmp_path / "gold.txt").write_text("0-0 1-5\n" * 3)
    done = command("score", "m.stickbreak", pairs, "--gold", "gold.txt")
    assert (done.code, done.out) == (2, "")
    assert "links words 1-5 (from 0) of line 1" in done.err


def test_show_tells_translations(command, pairs):  # noqa: F811
    command(*FIT)
    assert "house" in command("show", "m.stickbreak").out
    found = json.loads(command("show", "m.stickbreak", "--word", "book", "--json").out)
    assert found["translations"]["book"][0][0] == "Buch"
    done = command("show", "m.stickbreak", "--word", "zebra")
    assert done.code == 2
    assert "'zebra' is not in the source vocabulary" in done.err


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["a ||| b", "c d"], "line 2 has no |||"),
        (["a ||| b ||| c"], "line 1 has ||| 2 times"),
        (["||| b"], "has no pair with 1 to max_length=500 words on both sides"),
    ],
)
def test_bad_lines_are_named_and_nothing_is_written(
    command,  # noqa: F811
    tmp_path,
    lines,
    message,
):
    (tmp_path / "bad.txt").write_text("".join(f"{line}\n" for line in lines))
    done = command("fit", "ibm1", "bad.txt", "--out", "m.stickbreak", "--quiet")
    assert done.code == 2
    assert message in done.err
    assert files_in(tmp_path) == {"bad.txt"}


def test_empty_and_long_pairs_are_named_and_keep_their_lines(command, pairs, tmp_path):  # noqa: F811
    command(*FIT)
    (tmp_path / "new.txt").write_text("the ||| das\n||| das\n" + "a " * 501 + "||| ein\n")
    done = command("predict", "m.stickbreak", "new.txt", "--quiet")
    assert (done.code, done.out.splitlines()) == (0, ["0-0", "", ""])
    assert "line 2" in done.err
    assert "max_length=500 words on a side are left out: line 3" in done.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("predict", "m.stickbreak", "pairs.txt", "--proba"), "--proba is not for aligners"),
        (("predict", "m.stickbreak", "pairs.txt", "--symmetrize", "x"), "unknown symmetrization"),
        (("predict", "m.stickbreak", "pairs.txt", "--words", "w"), "--words is for tables and doc"),
        (("fit", "ibm1", "pairs.txt", "--target", "none.txt"), "none.txt does not exist"),
        (("fit", "ibm1", "pairs.txt", "--null", "x"), "null"),
        (("fit", "ibm1", "pairs.txt", "--encoding", "x"), "unknown encoding"),
    ],
)
def test_bad_options_end_in_one_line(command, pairs, arguments, message):  # noqa: F811
    command(*FIT)
    done = command(*arguments)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert len(done.err.splitlines()) == 1


@pytest.mark.parametrize("directions", ["forward", "both"])
def test_a_killed_fit_is_resumed(command, pairs, tmp_path, directions):  # noqa: F811
    fit = ("fit", "ibm1", pairs, "--directions", directions, "--seed", 0)
    command(*fit, "--out", "whole.stickbreak")
    command(*fit, "--max-iter", 2, "--checkpoint", "c", "--checkpoint-every", 0)
    done = command("resume", "c", pairs, "--out", "resumed.stickbreak")
    assert done.code == 0
    whole, resumed = (sb.load(tmp_path / f"{name}.stickbreak") for name in ("whole", "resumed"))
    assert whole.n_iter_ >= resumed.n_iter_
    assert list(resumed.align(PAIRS)) == list(whole.align(PAIRS))


def test_a_fit_writes_the_links_of_its_pairs(command, pairs, tmp_path):  # noqa: F811
    options = ("--links", "links.txt", "--symmetrize", "intersection")
    assert command("fit", "hmm-aligner", pairs, "--seed", 0, "--quiet", *options).code == 0
    model = sb.HMMAligner(random_state=0).fit(PAIRS)
    found = sb.read_links(tmp_path / "links.txt")
    assert list(found) == list(model.fit_links("intersection"))
    done = command("fit", "ibm1", pairs, "--symmetrize", "union", "--quiet")
    assert done.code == 2
    assert "--symmetrize is for links; give a file with --links too" in done.err
