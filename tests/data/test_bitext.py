"""Sentence pairs are read as they stand, from every form; what is wrong is named by its line."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

import stickbreak as sb
from stickbreak.data import number_pairs, spool

LINES = ["the house ||| das Haus", "the  book\t||| das Buch .", "||| leer", "a book ||| ein Buch"]
PAIRS = [
    (["the", "house"], ["das", "Haus"]),
    (["the", "book"], ["das", "Buch", "."]),
    ([], ["leer"]),
    (["a", "book"], ["ein", "Buch"]),
]


def write(path, lines, encoding="utf-8"):
    path.write_bytes("".join(f"{line}\n" for line in lines).encode(encoding))
    return path


def pairs_of(bitext):
    return [bitext[s] for s in range(len(bitext))]


def test_lines_lists_texts_and_two_files_are_the_same_pairs(tmp_path):
    one = write(tmp_path / "pairs.txt", LINES)
    packed = tmp_path / "pairs.txt.gz"
    packed.write_bytes(gzip.compress(one.read_bytes()))
    source = write(tmp_path / "pairs.en", [" ".join(e) for e, _ in PAIRS])
    target = write(tmp_path / "pairs.de", [" ".join(f) for _, f in PAIRS])
    texts = [(" ".join(e), " ".join(f)) for e, f in PAIRS]
    found = [
        sb.read_bitext(one), sb.read_bitext(packed), sb.read_bitext(source, target),
        number_pairs(PAIRS), number_pairs(texts), number_pairs(LINES),
    ]  # fmt: skip
    for bitext in found:
        assert pairs_of(bitext) == PAIRS
        np.testing.assert_array_equal(bitext.source.lengths, [2, 2, 0, 2])
        assert bitext.source.words == ("the", "house", "book", "a")
    assert pairs_of(found[0].swapped()) == [(f, e) for e, f in PAIRS]
    assert pairs_of(found[0].part(1, 3)) == PAIRS[1:3]
    assert (found[0].place(2), found[3].place(2)) == ("line 3", "pair 2")


def test_the_last_line_needs_no_end(tmp_path):
    path = tmp_path / "pairs.txt"
    path.write_bytes("\N{BOM}a ||| b\r\nc ||| d".encode())
    assert pairs_of(sb.read_bitext(path)) == [(["a"], ["b"]), (["c"], ["d"])]


def test_the_encoding_is_the_users(tmp_path):
    path = write(tmp_path / "pairs.txt", ["Ça va ||| CAFÉ"], "latin-1")
    found = sb.read_bitext(path, encoding="latin-1")
    assert pairs_of(found) == [(["Ça", "va"], ["CAFÉ"])]
    with pytest.raises(ValueError, match=r"line 1 holds the byte 0xc7, which is not utf-8: name"):
        sb.read_bitext(path)
    with pytest.raises(ValueError, match="unknown encoding 'klingon'"):
        sb.read_bitext(path, encoding="klingon")
    with pytest.raises(ValueError, match="'utf-16' does not write a line end as one byte"):
        sb.read_bitext(path, encoding="utf-16")


def test_other_blanks_are_part_of_words(tmp_path):
    path = write(tmp_path / "pairs.txt", ["10\N{NO-BREAK SPACE}000 ||| 10 000"])
    assert sb.read_bitext(path)[0] == (["10\N{NO-BREAK SPACE}000"], ["10", "000"])


def test_many_words_are_spooled(tmp_path, monkeypatch):
    path = write(tmp_path / "pairs.txt", [f"a{i} b ||| c{i}" for i in range(500)])
    held = sb.read_bitext(path)
    monkeypatch.setattr(spool, "HELD", 100)
    monkeypatch.setattr("stickbreak.data.bitext.WORD_BYTES", 200)
    found = sb.read_bitext(path)
    assert isinstance(found.source.numbers, np.memmap)
    np.testing.assert_array_equal(found.source.numbers, held.source.numbers)
    np.testing.assert_array_equal(found.target.offsets, held.target.offsets)
    assert found.source.words == held.source.words


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["a ||| b", "c d"], r"line 2 has no \|\|\|: 'c d'; expected `source \|\|\| target`"),
        (["a ||| b ||| c"], r"line 1 has \|\|\| 2 times"),
        (["a ||| b", "", "c ||| d"], r"line 2 has no \|\|\|"),
        (["a|||b"], r"line 1 has no \|\|\|.*with blanks around"),
    ],
)
def test_a_line_that_is_no_pair_is_named(tmp_path, monkeypatch, lines, message):
    path = write(tmp_path / "pairs.txt", lines)
    with pytest.raises(ValueError, match=message):
        sb.read_bitext(path)
    monkeypatch.setattr("stickbreak.data.bitext.WORD_BYTES", 4)  # several pieces
    with pytest.raises(ValueError, match=message):
        sb.read_bitext(path)


def test_files_of_unequal_length_are_refused(tmp_path):
    source = write(tmp_path / "a.en", ["a", "b", "c"])
    target = write(tmp_path / "a.de", ["a", "b"])
    with pytest.raises(ValueError, match=r"a\.en has 3 lines but .*a\.de has 2: parallel files"):
        sb.read_bitext(source, target)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty; expected a pair on each line"),
        (b"a ||| b\n\x00\x01\xff", "line 2 holds a zero byte: it is not a text"),
        (b"\x89PNG\r\n\x1a\n", "line 1 holds the byte 0x89, which is not utf-8"),
    ],
)
def test_what_is_no_bitext_is_refused(tmp_path, content, message):
    path = tmp_path / "pairs.txt"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        sb.read_bitext(path)


def test_a_damaged_archive_and_a_missing_file_are_refused(tmp_path):
    path = tmp_path / "pairs.txt.gz"
    path.write_bytes(gzip.compress(b"a ||| b\n" * 1000)[:-20])
    with pytest.raises(ValueError, match="cannot be read"):
        sb.read_bitext(path)
    with pytest.raises(ValueError, match="does not exist"):
        sb.read_bitext(tmp_path / "none.txt")


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([], "is empty; expected a list of pairs"),
        ([("a", "b"), ("c",)], r"pair 1 is of type tuple of 1; expected \(source, target\)"),
        ([3], r"pair 0 is of type int; expected"),
        ([("a", 3)], "the target of pair 0 is of type int; give a text or a list of words"),
        ([(["a", 1], "b")], "source word 1 of pair 0 is 1, not a text"),
        (["a b"], r"pair 0 has no \|\|\|"),
        ([("a", "\ud800")], "the target of pair 0 holds .*, not Unicode"),
    ],
)
def test_lists_that_are_no_pairs_are_refused(pairs, message):
    with pytest.raises(ValueError, match=message):
        number_pairs(pairs)
