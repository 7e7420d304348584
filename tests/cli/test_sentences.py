"""Sentences on the command line: the same answers as Python's, in CoNLL-U and in brackets."""

from __future__ import annotations

import gzip
import json
import zipfile

import numpy as np
import pytest
from cli.running import command  # noqa: F401

import stickbreak as sb

LINES = ["DET NOUN VERB", "NOUN VERB DET NOUN", "NOUN VERB"] * 4
ROWS = "1\tThe\t_\tDET\t_\t_\t_\t_\t_\t_\n2\tcat\t_\tNOUN\t_\t_\t_\t_\t_\t_\n\n"


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "tags.txt"
    path.write_text("\n".join(LINES) + "\n\n")
    return path


def test_heads_are_those_of_python(data, tmp_path, command):  # noqa: F811
    done = command("fit", "dmv", data, "--seed", 0, "--out", "m", "--json")
    assert done.code == 0, done.err
    model = sb.DMV(random_state=0).fit(LINES)
    found = json.loads(done.out)
    assert found["lower_bound"] == pytest.approx(model.lower_bound_, rel=1e-12)
    assert found["n_sentences"] == 12
    assert found["rules"][0]["text"] == model.top_rules(1)[0].text
    assert command("predict", "m", data, "--out", "h.conllu").code == 0
    heads = [s.heads for s in sb.read_conllu("h.conllu")]
    np.testing.assert_array_equal(np.concatenate(heads), np.concatenate(model.predict(LINES)))
    assert float(command("score", "m", data).out.split()[0]) == pytest.approx(model.score(LINES))
    assert len(command("score", "m", data, "--per-row").out.split()) == 13
    assert model.top_rules(1)[0].text in command("show", "m").out
    (tmp_path / "a.conllu").write_text(ROWS)
    written = command("predict", "m", "a.conllu")
    assert written.out.splitlines()[0].split("\t")[:2] == ["1", "The"]


def test_trees_are_those_of_python(data, tmp_path, command):  # noqa: F811
    fit = ("fit", "pcfg", data, "--n-components", 2, "--seed", 0, "--max-iter", 3, "--out", "m")
    assert command(*fit).code == 0
    assert command("predict", "m", data, "--out", "t.mrg").code == 0
    trees = sb.read_trees("t.mrg")
    assert [tree.words for tree in trees] == [line.split() for line in LINES]
    assert trees == sb.load("m").parse(LINES)


def test_a_treebank_teaches_a_parser(tmp_path, command):  # noqa: F811
    assert command("example", "--trees", "bank.mrg").code == 0
    fit = ("fit", "latent-pcfg", "bank.mrg", "--n-subtypes", 2, "--max-iter", 3, "--seed", 0)
    assert command(*fit, "--out", "m").code == 0
    (tmp_path / "new.txt").write_text("she sees the cat .\n")
    assert command("predict", "m", "new.txt", "--out", "t.mrg").code == 0
    expected = "(ROOT (S (NP (PRP she)) (VP (VBZ sees) (NP (DT the) (NN cat))) (. .)))"
    assert (tmp_path / "t.mrg").read_text() == expected + "\n"
    assert "DT -> the" in command("show", "m").out
    assert float(command("score", "m", "new.txt").out.split()[0]) < 0
    refused = command("fit", "latent-pcfg", "bank.mrg", "--column", "word")
    assert refused.code != 0
    assert "reads whole trees" in refused.err


def test_strings_are_cut_as_in_python(tmp_path, command):  # noqa: F811
    strings = ["thedogsees", "thecat", "adog", "thecatsees", "acatsees", "thedog"] * 5
    (tmp_path / "s.txt").write_text("\n".join(["the dog sees", *strings[1:]]) + "\n")
    fit = ("fit", "template-grammar", "s.txt", "--seed", 0, "--concentration", 1, "--out", "m")
    assert command(*fit).code == 0
    model = sb.TemplateGrammar(concentration=1.0, random_state=0, inference="collapsed")
    wanted = model.fit(strings).predict(strings)
    assert command("predict", "m", "s.txt", "--out", "w.txt").code == 0
    assert (tmp_path / "w.txt").read_text().splitlines() == [" ".join(own) for own in wanted]
    found = json.loads(command("predict", "m", "s.txt", "--json").out)
    assert [part["text"] for part in found["segments"][0]] == wanted[0]
    assert found["segments"][0][0]["name"] == "Word"
    score = command("score", "m", "s.txt").out
    assert score.endswith("nats per letter\n")
    assert float(score.split()[0]) == pytest.approx(model.score(strings))
    assert "Word -> " in command("show", "m").out
    refused = command("fit", "template-grammar", "s.txt", "--templates", "A ||")
    assert refused.code == 2
    assert len(refused.err.splitlines()) == 1


def test_files_are_packed_or_members_of_archives(tmp_path, command):  # noqa: F811
    trees = "(S (A a) (B b))\n" * 4
    (tmp_path / "t.mrg.gz").write_bytes(gzip.compress(trees.encode()))
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as archive:
        archive.writestr("bank/x.mrg", trees)
        archive.writestr("bank/y.mrg", trees)
        archive.writestr("c.conllu", ROWS * 3)
    quick = ("--max-iter", 2, "--seed", 0, "--out", "m")
    for file, n in (("t.mrg.gz", 4), ("t.zip/bank/*.mrg", 8)):
        done = command("fit", "latent-pcfg", file, *quick, "--json")
        assert done.code == 0, done.err
        assert json.loads(done.out)["n_sentences"] == n
    assert command("fit", "dmv", "t.zip/c.conllu", *quick).code == 0
    assert len(sb.read_conllu("t.zip", member="c.conllu")) == 3
    assert command("predict", "m", "t.zip/c.conllu").out.count("\tcat\t") == 3
    assert "name one, or a pattern: t.zip/NAME" in command("fit", "dmv", "t.zip").err
    assert "no member 'z.mrg'" in command("fit", "pcfg", "t.zip/z.mrg").err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("fit", "dmv", "none.txt"), "none.txt"),
        (("fit", "dmv", "tags.txt", "--column", "upos"), "--column is for CoNLL-U"),
        (("fit", "pcfg", "bad.mrg"), "not closed"),
        (("fit", "dmv", "tags.txt", "--max-length", "2"), "max_length=2"),
    ],
)
def test_bad_input_is_one_line(arguments, message, data, tmp_path, command):  # noqa: F811
    (tmp_path / "bad.mrg").write_text("(S (A a)\n")
    done = command(*arguments)
    assert done.code == 2
    assert message in done.err
    assert len(done.err.splitlines()) == 1
