"""Files of documents: every format, compressed or not, whole or damaged; complaints name
the line.
"""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import stickbreak as sb
from stickbreak.data import document_formats, lines, read_words

WORDS = ("cat", "dog", "pan", "soup")
COUNTS = np.array([[2, 1, 0, 0], [0, 0, 0, 0], [0, 0, 3, 1], [1, 0, 0, 2]])


def as_ldac(counts: np.ndarray) -> str:
    bags = [[f"{v}:{n}" for v, n in enumerate(row) if n] for row in counts.tolist()]
    return "".join(" ".join([str(len(bag)), *bag]) + "\n" for bag in bags)


def as_docword(counts: np.ndarray) -> str:
    entries = [f"{d + 1} {v + 1} {counts[d, v]}\n" for d, v in np.argwhere(counts)]
    return f"{counts.shape[0]}\n{counts.shape[1]}\n{len(entries)}\n" + "".join(entries)


def as_words(counts: np.ndarray, words=WORDS) -> str:
    return "".join(" ".join(np.repeat(words, row)) + "\n" for row in counts)


FORMATS = {
    "docs.ldac": as_ldac,
    "docword.kos.txt": as_docword,
    "docs.dat": as_docword,
    "docs.txt": as_words,
}


def write(path: Path, text: str | bytes) -> Path:
    data = text.encode() if isinstance(text, str) else text
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


# ---- whole files ---------------------------------------------------------------------------------

TWISTS = {
    "as it is": lambda text: text,
    "no newline at the end": lambda text: text.removesuffix("\n"),
    "Windows": lambda text: text.replace("\n", "\r\n"),
    "blanks at the ends of lines": lambda text: text.replace("\n", "  \n"),
    "tabs": lambda text: text.replace(" ", "\t"),
}


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("twist", TWISTS)
@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_counts(name, twist, suffix, tmp_path):
    path = write(tmp_path / (name + suffix), TWISTS[twist](FORMATS[name](COUNTS)))
    found = sb.read_corpus(path)
    np.testing.assert_array_equal(found.counts.toarray(), COUNTS)
    assert found.words == (WORDS if name == "docs.txt" else None)
    assert found.n_documents == 4


@pytest.mark.parametrize("name", FORMATS)
def test_pieces_are_joined_at_lines(name, tmp_path, monkeypatch):
    counts = np.random.default_rng(0).poisson(0.7, (60, 9))
    counts[-1] = 1
    words = [f"word{i}" for i in range(9)]
    text = as_words(counts, words) if name == "docs.txt" else FORMATS[name](counts)
    path, told = write(tmp_path / name, text), []
    for size in (7, 64, 1 << 20):
        monkeypatch.setattr(lines, "PIECE_BYTES", size)
        monkeypatch.setattr(document_formats, "WORD_BYTES", size)
        found = sb.read_corpus(path, report=lambda done, total: told.append((done, total)))
        np.testing.assert_array_equal(found.counts.toarray(), counts)
    assert told[-1] == (len(text), len(text))


@pytest.mark.parametrize("name", FORMATS)
def test_a_vocabulary_names_the_words(name, tmp_path):
    path = write(tmp_path / name, FORMATS[name](COUNTS))
    for suffix in ("", ".gz"):
        vocabulary = write(tmp_path / f"vocab.txt{suffix}", "\n".join(WORDS) + "\n")
        found = sb.read_corpus(path, words=vocabulary)
        assert found.words == WORDS
        np.testing.assert_array_equal(found.counts.toarray(), COUNTS)
    assert sb.read_corpus(path, words=list(WORDS)).words == WORDS


def test_a_vocabulary_may_be_larger_than_what_is_used(tmp_path):
    path = write(tmp_path / "docs.ldac", "1 0:1\n")
    assert sb.read_corpus(path, words=[*WORDS, "more"]).counts.shape == (1, 5)
    assert sb.read_corpus(path, n_words=7).counts.shape == (1, 7)


def test_word_lists_are_read_from_any_system(tmp_path):
    for text in (
        b"caf\xc3\xa9\ndog",
        b"\xef\xbb\xbfcaf\xc3\xa9\r\ndog\r\n",
        b"caf\xc3\xa9 \ndog\n",
    ):
        assert read_words(write(tmp_path / "vocab.txt", text)) == ("café", "dog")


def test_a_word_twice_in_a_document_of_ldac_counts_twice(tmp_path):
    path = write(tmp_path / "docs.ldac", "2 1:2 1:3\n")
    np.testing.assert_array_equal(sb.read_corpus(path).counts.toarray(), [[0, 5]])


# ---- words ---------------------------------------------------------------------------------------


def test_words_are_taken_as_they_are(tmp_path):
    path = write(tmp_path / "docs.TXT", "\ufeffThe cat, the CAT\n\n naïve\u00a0x  3:1 \u2028\n")
    found = sb.read_corpus(path)
    assert found.words == tuple(
        sorted(["The", "cat,", "the", "CAT", "naïve\u00a0x", "3:1", "\u2028"])
    )
    np.testing.assert_array_equal(found.counts.sum(1), [4, 0, 3])


def test_words_are_those_of_lists_of_words(tmp_path):
    rng = np.random.default_rng(1)
    documents = [[f"w{i}" for i in rng.integers(0, 30, 12)] for _ in range(20)]
    path = write(tmp_path / "docs.txt", "\n".join(map(" ".join, documents)))
    found = sb.read_corpus(path)
    assert list(found.words) == sorted({word for document in documents for word in document})
    for row, document in zip(found.counts.toarray(), documents, strict=True):
        assert {found.words[v]: n for v, n in enumerate(row) if n} == Counter(document)


def test_words_that_a_vocabulary_lacks_are_left_out(tmp_path):
    path = write(tmp_path / "docs.txt", "cat dog eel\nzoo yak\ncat ant\n")
    with pytest.warns(
        sb.DataWarning,
        match=r"4 words of .*docs\.txt are not in the vocabulary and are left out: "
        r"'ant', 'eel', 'yak', \.\.\.",
    ):
        found = sb.read_corpus(path, words=["dog", "cat", "owl"])
    np.testing.assert_array_equal(found.counts.toarray(), [[1, 1, 0], [0, 0, 0], [0, 1, 0]])


# ---- damaged files -------------------------------------------------------------------------------

BAD = {
    "a word": ("docs.ldac", "1 0:1\n2 0:1 x:2\n",
    r"docs\.ldac, line 2 is '2 0:1 x:2'; expected `n id:count id:count \.\.\.`"),
    "too few entries": ("docs.ldac", "1 0:1\n3 0:1 1:2\n1 0:1\n", "line 2 is '3 0:1 1:2'"),
    "no count": ("docs.ldac", "1 0:1\n1 0:1\n2 0:1 1\n", "line 3 is '2 0:1 1'"),
    "a negative id": ("docs.ldac", "1 0:1\n1 -1:1\n", "line 2 is '1 -1:1'"),
    "a negative count": ("docs.ldac", "1 0:1\n1 1:-1\n", "line 2 is '1 1:-1'"),
    "a broken count": ("docs.ldac", "1 0:1\n1 1:1.5\n", r"line 2 is '1 1:1\.5'"),
    "a huge id": ("docs.ldac", "1 0:1\n1 99999999999999999999:1\n",
    "line 2 has the word 9,223,372,036,854,775,807 or more; the limit is 1,000,000, and "
    "STICKBREAK_MAX_SYMBOLS"),
    "numbers of two lines of LDA-C": ("docs.ldac", "1 0:1 1\n0:1\n", "line 1 is '1 0:1 1'"),
    "an empty line": ("docs.ldac", "1 0:1\n\n1 0:1\n", "line 2 is ''"),
    "a Windows file": ("docs.ldac", "1 0:1\r\n2 0:1\r\n", "line 2 is '2 0:1'"),
    "a long line": ("docs.ldac", "1 0:1\n" + "1:1 " * 20 + "\n", r"line 2 is '1:1 1:1 .*\.\.\.'"),
    "nothing": ("docs.ldac", "", r"docs\.ldac is empty; expected a line for each document"),
    "a csv": ("rows.csv", "x,y\n1,2\n",
    r"rows\.csv is neither LDA-C .* nor docword .*: it begins with 'x,y'; .*\.txt file"),
    "numbers": ("rows.csv", "1.5,2\n1,2\n", "neither LDA-C"),
    "bytes": ("rows.npy", b"\x93NUMPY\x01\x00\xff\xfe\n", "neither LDA-C"),
    "a docword with a word": ("docword.txt", "2\n2\n2\n1 1 1\n2 a 1\n",
    r"docword\.txt, line 5 is '2 a 1'; expected `document "),
    "a docword with a gap": ("docword.txt", "2\n2\n2\n1 1 1\n2 1\n", "line 5 is '2 1'"),
    "numbers of two lines": ("docword.txt", "2\n2\n2\n1 1\n1 2 1 1\n", "line 4 is '1 1'"),
    "a docword cut short": ("docword.txt", "2\n2\n3\n1 1 1\n2 1 1\n",
    "says that it has 3 entries, but has 2: it is not complete"),
    "a document too many": ("docword.txt", "2\n2\n2\n1 1 1\n3 1 1\n",
    "line 5: document 3 is not between 1 and 2"),
    "a word too many": ("docword.txt", "2\n2\n2\n1 0 1\n2 1 1\n",
    "line 4: word 0 is not between 1 and 2"),
    "no header": ("docword.txt", "1 1 1\n1 2 1\n2 1 1\n", "neither LDA-C"),
    "a negative size": ("docword.txt", "2\n-2\n1\n1 1 1\n", "neither LDA-C"),
    "LDA-C as words": ("docs.txt", "2 0:1 3:2\n1 0:1\n",
    r"docs\.txt begins as LDA-C files do, with '2 0.* rename it to \.ldac"),
    "words of another code": ("docs.txt", b"cat\ncaf\xe9 dog\n",
    r"docs\.txt, line 2 holds the byte 0xe9, which is not UTF-8"),
    "no words": ("docs.txt", "\n \n", r"docs\.txt has no words"),
    "an empty text": ("docs.txt", "", r"docs\.txt is empty"),
}  # fmt: skip


@pytest.mark.parametrize("size", [5, 1 << 20])
@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("case", BAD)
def test_damaged_files_are_refused_by_line(case, suffix, size, tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "PIECE_BYTES", size)
    monkeypatch.setattr(document_formats, "WORD_BYTES", size)
    name, text, message = BAD[case]
    path = write(tmp_path / (name + suffix), text)
    with pytest.raises(
        ValueError,
        match=message.replace(name.replace(".", r"\."), (name + suffix).replace(".", r"\.")),
    ):
        sb.read_corpus(path)


def test_words_beyond_the_vocabulary_are_refused_by_line(tmp_path):
    ldac = write(tmp_path / "docs.ldac", "1 0:1\n0\n2 1:1 5:1\n")
    with pytest.raises(ValueError, match=r"docs\.ldac, line 3: word 5 is not in a vocabulary of 4"):
        sb.read_corpus(ldac, words=WORDS)
    docword = write(tmp_path / "docword.txt", as_docword(COUNTS))
    with pytest.raises(ValueError, match=r"docword\.txt has a vocabulary of 4 words; got 3"):
        sb.read_corpus(docword, words=WORDS[:3])
    with pytest.raises(ValueError, match="n_words=7 but `words` has 4 words"):
        sb.read_corpus(ldac, words=WORDS, n_words=7)
    texts = write(tmp_path / "docs.txt", as_words(COUNTS))
    with pytest.raises(ValueError, match="the vocabulary has 'cat' twice, as words 0 and 2"):
        sb.read_corpus(texts, words=["cat", "dog", "cat"])
    with (
        pytest.warns(sb.DataWarning),
        pytest.raises(ValueError, match="has no words of the vocabulary; capitals count"),
    ):
        sb.read_corpus(texts, words=["Cat", "Dog"])


def test_files_that_cannot_be_read(tmp_path):
    for name in ("docs.ldac.gz", "docword.txt.gz", "docs.txt.gz"):
        whole = gzip.compress(
            FORMATS.get(name.removesuffix(".gz"), as_docword)(COUNTS).encode() * 50
        )
        for damage in (whole[:-12], b"no archive", whole[:30] + b"????????" + whole[38:]):
            path = tmp_path / name
            path.write_bytes(damage)
            with pytest.raises(ValueError, match=f"{name} cannot be read"):
                sb.read_corpus(path)
    with pytest.raises(ValueError, match="nowhere does not exist"):
        sb.read_corpus(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="is not a file"):
        sb.read_corpus(tmp_path)
    path = write(tmp_path / "docs.ldac", "1 0:1\n")
    with pytest.raises(ValueError, match=r"none\.txt does not exist"):
        sb.read_corpus(path, words=tmp_path / "none.txt")
    with pytest.raises(ValueError, match=r"empty\.txt is empty; expected a word on each line"):
        sb.read_corpus(path, words=write(tmp_path / "empty.txt", ""))
    with pytest.raises(ValueError, match=r"bad\.txt cannot be read"):
        sb.read_corpus(path, words=write(tmp_path / "bad.txt", b"caf\xe9\n"))
