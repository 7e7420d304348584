"""CoNLL-U and Penn brackets: read, kept, written, and refused with the line."""

from __future__ import annotations

import gzip
import zipfile

import nltk
import pytest

import stickbreak as sb
from stickbreak.data import parse_brackets

CONLLU = """# sent_id = 1
# text = Vámonos al mar
1-2\tVámonos\t_\t_\t_\t_\t_\t_\t_\t_
1\tVamos\tir\tVERB\tV\t_\t0\troot\t_\t_
2\tnos\tnosotros\tPRON\tP\t_\t1\tobj\t_\t_
2.1\t_\t_\tVERB\t_\t_\t_\t_\t_\t_
3\tmar\tmar\tNOUN\tN\t_\t1\tobl\t_\t_

1\tSí\tsí\tINTJ\tI\t_\t0\troot\t_\t_

"""
TREES = """( (S (NP-SBJ-1 (DT The) (NN dog) ) (VP (VBZ runs) (NP (-NONE- *T*-1) )) (. .) ))
(S (NP=2 (NN dog)) (VP
   (VBZ eats) (PRN (-LRB- -LCB-) (NN fish)))) (X (Y z))
"""


def test_conllu_survives_unchanged(tmp_path) -> None:
    path = tmp_path / "a.conllu.gz"
    path.write_bytes(gzip.compress(CONLLU.encode()))
    found = sb.read_conllu(path)
    assert [s.words for s in found] == [["Vamos", "nos", "mar"], ["Sí"]]
    assert found[0].column("upos") == ["VERB", "PRON", "NOUN"]
    assert found[0].heads.tolist() == [0, 1, 1]
    sb.write_conllu(tmp_path / "b.conllu", found)
    assert (tmp_path / "b.conllu").read_text() == CONLLU
    other = found[0].with_heads([3, 1, 0])
    assert [row[6:8] for row in other.rows if row[0].isdigit()] == [
        ("3", "_"), ("1", "obj"), ("0", "root"),
    ]  # fmt: skip
    assert other.rows[0] == found[0].rows[0]
    with pytest.raises(ValueError, match="3 words, and 2 heads"):
        found[0].with_heads([0, 1])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1\ta\t_\n", "line 1 has 3 fields"),
        (CONLLU.replace("3\tmar", "4\tmar"), "line 7 is word 4 after word 2"),
        (CONLLU.replace("_\t1\tobl", "_\tx\tobl"), "line 7 has head 'x'"),
        (CONLLU.replace("1-2", "a-b"), "no number of a token"),
        (CONLLU.replace("_\t1\tobl", "_\t7\tobl"), r"line 7 has head 7; the sentence has 3 word"),
    ],
)
def test_bad_conllu_is_refused_with_its_line(text: str, message: str, tmp_path) -> None:
    (tmp_path / "a.conllu").write_text(text)
    with pytest.raises(ValueError, match=message):
        sb.read_conllu(tmp_path / "a.conllu")


def test_trees_are_read_cleaned_and_written(tmp_path) -> None:
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as archive:
        archive.writestr("x/a.mrg", TREES)
    trees = sb.read_trees(tmp_path / "t.zip", member="x/*.mrg")
    assert [tree.label for tree in trees] == ["", "S", "X"]
    clean = trees[0].cleaned({"."})
    assert str(clean) == "( (S (NP (DT The) (NN dog)) (VP (VBZ runs))))"
    assert clean.words == ["The", "dog", "runs"]
    assert clean.tags == ["DT", "NN", "VBZ"]
    assert clean.spans() == [(0, 3, ""), (0, 3, "S"), (0, 2, "NP"), (2, 3, "VP")]
    assert trees[1].cleaned().tags == ["NN", "VBZ", "-LRB-", "NN"]
    assert parse_brackets("(S (-NONE- *))")[0].cleaned() is None
    sb.write_trees(tmp_path / "b.mrg", trees)
    assert sb.read_trees(tmp_path / "b.mrg") == trees


def test_words_with_brackets_and_spaces_can_be_read_again() -> None:
    node = sb.ConstituentTree
    tree = node("(X", (node("-LRB-", ("(",)), node("NNP", ("New York",)), node("S", (":)",))))
    assert str(tree) == "(-LRB-X (-LRB- -LRB-) (NNP New_York) (S :-RRB-))"
    assert parse_brackets(str(tree))[0].words == ["-LRB-", "New_York", ":-RRB-"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(S (A a)\n\n", r"line 1: 1 bracket\(s\) not closed"),
        ("(S (A a)))", r"line 1 has '\)' outside"),
        ("(S (A a))\nword", "line 2 has 'word' outside"),
        ("(S ())", "without a word"),
    ],
)
def test_bad_brackets_are_refused_with_their_line(text: str, message: str, tmp_path) -> None:
    (tmp_path / "a.mrg").write_text(text)
    with pytest.raises(ValueError, match=message):
        sb.read_trees(tmp_path / "a.mrg")


def test_members_belong_to_archives(tmp_path) -> None:
    (tmp_path / "a.mrg").write_text(TREES)
    with pytest.raises(ValueError, match="no members"):
        sb.read_trees(tmp_path / "a.mrg", member="x")
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as archive:
        archive.writestr("a.mrg", TREES)
    with pytest.raises(ValueError, match="name one with member="):
        sb.read_trees(tmp_path / "t.zip")
    with pytest.raises(ValueError, match="no member 'b'"):
        sb.read_trees(tmp_path / "t.zip", member="b")


def test_trees_of_nltk_are_taken() -> None:
    tree = nltk.Tree.fromstring("(S (NP (DT the) (NN dog)) (VP (VBZ runs)))")
    found = sb.ConstituentTree.of(tree)
    assert str(found) == "(S (NP (DT the) (NN dog)) (VP (VBZ runs)))"
    assert sb.ConstituentTree.of(found) is found
    with pytest.raises(ValueError, match="expected a tree; got int"):
        sb.ConstituentTree.of(3)
