"""Files that claim, or expand to, more than they hold are refused. Users may raise the limits."""

from __future__ import annotations

import gzip
import zipfile
from pathlib import Path

import numpy as np
import pytest
from fuzz.mutations import npy_bytes, npz_bytes
from timing import time_limit

import stickbreak as sb
from stickbreak.data.limits import LIMITS, limit

LONGEST = 10.0  # seconds for one small file


def pack(path: Path, part: bytes, times: int) -> str:
    """A compressed file of so many equal parts, without holding them."""
    with gzip.open(path, "wb") as file:
        for _ in range(times):
            file.write(part)
    return path.name


MB = 1 << 20
CLAIMS = {
    "documents": (lambda f: "1000000000000\n5\n1\n1 1 1\n",
    "docword.txt has 999,999,999,999 or more documents without words; the limit is 100,000"),
    "words": (lambda f: "1\n1000000000000\n1\n1 1 1\n",
    "docword.txt, line 2 has a vocabulary of 1,000,000,000,000 words; the limit is 1,000,000"),
    "entries": (lambda f: "1\n5\n1000000000000\n1 1 1\n",
    "says that it has 1000000000000 entries, but has 1"),
    "a count": (lambda f: "1\n5\n1\n1 1 100000000000000000000\n",
    "docword.txt, line 4 has a count of 9,223,372,036,854,775,807 or more; the limit is 1,000,000"),
    "digits": (lambda f: "9" * 5000 + "\n5\n1\n1 1 1\n", "or more documents without words"),
}  # fmt: skip


@pytest.mark.parametrize("case", CLAIMS)
def test_headers_of_docword_files_are_not_believed(case, tmp_path):
    make, message = CLAIMS[case]
    (tmp_path / "docword.txt").write_text(make(tmp_path))
    with time_limit(LONGEST), pytest.raises(ValueError, match=message.replace(".", r"\.")):
        sb.read_corpus(tmp_path / "docword.txt")


BOMBS = {
    "one line of numbers": ("d.ldac.gz", b"1 0:1 ", "d.ldac.gz, line 1 has more than 1,048,576"),
    "one line of words": ("d.txt.gz", b"ab cd ", "d.txt.gz, line 1 has more than 1,048,576 bytes"),
    "no lines": ("docword.d.txt.gz", b"1", "line 1 has more than 1,048,576 bytes"),
    "many documents": ("d.ldac.gz", b"1 0:1\n", "expand to more than .* STICKBREAK_MAX_EXPANSION"),
    "empty documents": ("d.txt.gz", b"\n", "documents without words; the limit is 100,000"),
}


@pytest.mark.parametrize("case", BOMBS)
def test_small_files_do_not_expand_without_limit(case, tmp_path, monkeypatch):
    """Some 5 kB that expand to 5 MB; a limit of 1 MB a line, for speed."""
    import tracemalloc

    monkeypatch.setenv("STICKBREAK_MAX_LINE", str(MB))

    name, part, message = BOMBS[case]
    pack(tmp_path / name, part * (MB // len(part)), 5)
    assert (tmp_path / name).stat().st_size < 40_000
    tracemalloc.start()
    try:
        with time_limit(LONGEST), pytest.raises(ValueError, match=message):
            sb.read_corpus(tmp_path / name)
        assert tracemalloc.get_traced_memory()[1] < 300 * MB
    finally:
        tracemalloc.stop()


def test_vocabularies_do_not_expand_without_limit(tmp_path):
    pack(tmp_path / "v.txt.gz", b"a\n" * MB, 5)
    with pytest.raises(ValueError, match=r"v.txt.gz has .* or more words; the limit is 1,000,000"):
        sb.data.read_words(tmp_path / "v.txt.gz")


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_ids_and_symbols_are_limited(tmp_path):
    (tmp_path / "d.ldac").write_text("1 0:1\n1 50000000:1\n")
    with pytest.raises(ValueError, match=r"d.ldac, line 2 has the word 50,000,000; the limit is"):
        sb.read_corpus(tmp_path / "d.ldac")
    (tmp_path / "d.ldac").write_text("1 0:1\n1 3:100000000000000000000\n")
    for vocabulary in (None, 4):
        with pytest.raises(ValueError, match=r"line 2 has a count of .* STICKBREAK_MAX_COUNT"):
            sb.read_corpus(tmp_path / "d.ldac", n_words=vocabulary)
    for symbol in ("50000000", "1e20", "1e300"):
        (tmp_path / "s.csv").write_text(f"a,b\n1,2\n{symbol},1\n0,1\n")
        with pytest.raises(ValueError, match=r"column 'a' has symbol .* STICKBREAK_MAX_SYMBOLS"):
            sb.Mixture(2, family="categorical").fit(tmp_path / "s.csv")


def test_headers_of_arrays_are_not_believed(tmp_path):
    sound = npy_bytes(np.zeros((4, 2)))
    wide = sound.replace(b"(4, 2)", b"(1, %d)" % 10**12).replace(b" " * 20 + b"\n", b"\n", 1)
    (tmp_path / "x.npy").write_bytes(wide)
    (tmp_path / "x.npz").write_bytes(npz_bytes(zipfile.ZIP_DEFLATED, x=wide))
    for name in ("x.npy", "x.npz"):
        with time_limit(LONGEST), pytest.raises(ValueError, match=name):
            sb.open_table(tmp_path / name)


@pytest.mark.parametrize("name", LIMITS)
def test_each_limit_is_raised_by_its_variable(name, monkeypatch):
    assert limit(name) == LIMITS[name][0]
    monkeypatch.setenv(f"STICKBREAK_MAX_{name}", "12345")
    assert limit(name) == 12345
    for bad in ("", "0", "-1", "many", "1e9", "9" * 30):
        monkeypatch.setenv(f"STICKBREAK_MAX_{name}", bad)
        with pytest.raises(ValueError, match=f"STICKBREAK_MAX_{name} must be a whole number"):
            limit(name)


def test_raised_limits_let_files_pass(tmp_path, monkeypatch):
    (tmp_path / "d.ldac").write_text("1 0:1\n1 1500000:2000000000\n")
    monkeypatch.setenv("STICKBREAK_MAX_SYMBOLS", "2000000")
    monkeypatch.setenv("STICKBREAK_MAX_COUNT", "3000000000")
    assert sb.read_corpus(tmp_path / "d.ldac").counts.shape == (2, 1500001)
    monkeypatch.setenv("STICKBREAK_MAX_LINE", "10000")
    pack(tmp_path / "d.txt.gz", b"cat dog\n" * 1000, 100)
    with pytest.raises(ValueError, match="STICKBREAK_MAX_EXPANSION"):
        sb.read_corpus(tmp_path / "d.txt.gz")
    monkeypatch.setenv("STICKBREAK_MAX_EXPANSION", "2000")
    assert sb.read_corpus(tmp_path / "d.txt.gz").n_documents == 100_000
