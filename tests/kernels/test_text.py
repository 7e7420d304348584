"""Numbers out of text against the standard library: every double exactly, every way to cut the
text, quotes, blanks, nonsense.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import kernels as slow

from stickbreak.kernels.text import (
    COMPLETE,
    RAGGED,
    UNCLOSED,
    WORDS,
    decimal_powers,
    find_changes,
    parse_number,
    parse_records,
)

LAW = settings(max_examples=150, deadline=None, derandomize=True)


def parse(
    text: bytes,
    n_fields: int,
    wanted: Any = None,
    *,
    separator: str = ",",
    is_last: bool = True,
    rows: int = 100,
    odd: int = 9,
):
    """Rows, odd cells, where it stopped, status, fields of the record it stopped at."""
    wanted = range(n_fields) if wanted is None else wanted
    slots = np.full(n_fields, -1)
    slots[list(wanted)] = np.arange(len(wanted))
    out, cells = np.full((rows, len(wanted)), -7.0), np.zeros((odd, 4), dtype=np.int64)
    symbols = np.frombuffer(text, dtype=np.uint8)
    n, n_odd, end, status, fields = parse_records(
        symbols, 0, ord(separator), slots, is_last, decimal_powers(), out, cells
    )
    assert (out[n + 1 :] == -7.0).all()  # nothing is written beyond the record in progress
    return (
        out[:n],
        [(r, f, text[a:b]) for r, f, a, b in cells[:n_odd].tolist()],
        end,
        status,
        fields,
    )


def number(text: bytes) -> tuple[float, bool]:
    return parse_number(np.frombuffer(text, dtype=np.uint8), 0, len(text), decimal_powers())


def assert_exact(text: bytes) -> bool:
    """The nearest double, or "not certain"; returns which."""
    value, is_certain = number(text)
    if is_certain:
        expected = float(text)
        assert value == expected, text
        assert np.signbit(value) == np.signbit(expected), text
    return is_certain


@LAW
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_doubles_are_read_back_exactly(value: float) -> None:
    certain = [
        assert_exact(text.encode())
        for text in (repr(value), f"{value:.16e}", f"{value:.6g}", f"{value:+.3E}")
    ]
    assert all(certain) or not 1e-230 < abs(value) < 1e230  # the far ends are left to Python


def test_many_doubles_of_all_sizes_are_exact_and_almost_all_are_certain() -> None:
    rng = np.random.default_rng(0)
    values = np.concatenate(
        [rng.normal(size=4000), rng.normal(size=4000) * 10.0 ** rng.integers(-200, 200, 4000)]
    )
    assert all(assert_exact(repr(float(v)).encode()) for v in values)
    digits = rng.integers(10**17, 10**18, 4000)
    found = [
        assert_exact(f"{d}e{p}".encode())
        for d, p in zip(digits, rng.integers(-60, 60, 4000), strict=True)
    ]
    assert np.mean(found) > 0.999


def test_numbers_in_the_middle_of_two_doubles_are_right_or_not_certain() -> None:
    """2**53 + 1 and its like: a tie of exact decimals, which only exact arithmetic decides."""
    for power in range(54, 60):
        for odd in range(1, 2000, 2):
            half = 2**power + odd * 2 ** (power - 53)
            assert_exact(str(half).encode())
            assert_exact(f"{half}0e-1".encode())


@pytest.mark.parametrize("text", ["", "NA", "na", "nan", "NaN", "NAN"])
def test_missing_values(text: str) -> None:
    value, is_number = number(text.encode())
    assert np.isnan(value)
    assert is_number


@pytest.mark.parametrize(
    "text",
    [
        "-",
        "+",
        ".",
        "-.",
        "e5",
        "1e",
        "1e+",
        "1e5x",
        "1.2.3",
        "--1",
        "1 2",
        "0x10",
        "n",
        "nab",
        "nana",
        "inf",
        "1_0",
        "\xff",
        "1" * 19,
    ],
)
def test_what_is_not_a_plain_number_is_left_to_the_caller(text: str) -> None:
    assert not number(text.encode("latin1"))[1]


CELLS = st.sampled_from(
    ["1", "-2.5", "3e2", "", "NA", " 4 ", '"5"', '""', "0.001", "1234567890123456", "\t7"]
)


@LAW
@given(
    st.lists(st.lists(CELLS, min_size=3, max_size=3), min_size=1, max_size=6),
    st.sampled_from(["\n", "\r\n", "\n\n", "\n \n"]),
    st.data(),
)
def test_records_equal_the_standard_library_however_the_text_is_cut(
    table: list[list[str]], newline: str, data: Any
) -> None:
    text = newline.join(",".join(row) for row in table).encode() + data.draw(
        st.sampled_from([b"", b"\n"])
    )
    wanted = data.draw(st.permutations(range(3)))[: data.draw(st.integers(1, 3))]
    expected = slow.parse_records(text, ",", wanted)
    whole, odd, end, status, _ = parse(text, 3, wanted)
    assert (odd, end, status) == ([], len(text), COMPLETE)
    np.testing.assert_array_equal(whole, np.array(expected).reshape(-1, len(wanted)))
    cut = data.draw(st.integers(0, len(text)))
    first, _, end, status, _ = parse(text[:cut], 3, wanted, is_last=False)
    assert status == COMPLETE
    rest, _, _, status, _ = parse(text[end:], 3, wanted)
    assert status == COMPLETE
    np.testing.assert_array_equal(np.concatenate([first, rest]), whole)


def test_cells_that_are_no_numbers_are_named_by_row_field_and_text() -> None:
    _, odd, _, status, _ = parse(b'1,abc\n"x,""y",2\n3,"4"z\n', 2)
    assert status == COMPLETE
    assert odd == [(0, 1, b"abc"), (1, 0, b'x,""y'), (2, 1, b'"4"z')]


def test_fields_that_are_not_wanted_may_hold_anything() -> None:
    found, odd, _, _, _ = parse(b'1,"a,\nb",2\n3,\xff"q",4\n', 3, [2, 0])
    np.testing.assert_array_equal(found, [[2.0, 1.0], [4.0, 3.0]])
    assert odd == []


def test_a_record_with_other_fields_or_an_open_quote_is_where_it_stops() -> None:
    assert parse(b"1,2\n3,4,5\n6,7\n", 2)[1:] == ([], 4, RAGGED, 3)
    assert parse(b"1,2\n3\n", 2)[1:] == ([], 4, RAGGED, 1)
    assert parse(b'1,2\n3,"4\n5,6\n', 2)[1:] == ([], 4, UNCLOSED, 2)
    # it may be closed later
    assert parse(b'1,2\n3,"4\n5,6\n', 2, is_last=False)[1:] == ([], 4, COMPLETE, 0)


def test_full_arrays_stop_it_at_a_record() -> None:
    text = b"1,2\n3,4\n5,6\n"
    assert parse(text, 2, rows=2)[2] == 8
    words = b"a,1\nb,c\nd,2\n"
    found, odd, end, status, _ = parse(words, 2, odd=2)
    # the second record needs two more cells
    assert (len(found), odd, end, status) == (1, [(0, 0, b"a")], 4, COMPLETE)


@LAW
@given(st.binary(max_size=200), st.integers(1, 4), st.booleans())
def test_any_bytes_are_survived(text: bytes, n_fields: int, is_last: bool) -> None:
    found, odd, end, status, _ = parse(text, n_fields, is_last=is_last, rows=5, odd=4)
    assert len(found) <= 5
    assert len(odd) <= 4
    assert 0 <= end <= len(text)
    assert status in (COMPLETE, RAGGED, UNCLOSED)


@LAW
@given(
    cells=st.lists(
        st.sampled_from(["a", "ab", "b", "1", '"a"', ' "a,b" ', "", "ä"]), min_size=1, max_size=12
    ),
    cut=st.integers(0, 60),
    size=st.integers(1, 12),
)
def test_cells_of_words_come_as_they_are_and_changes_are_found(
    cells: list[str], cut: int, size: int
) -> None:
    """A column of words between two of numbers; the text may be cut anywhere, and `odd` be of any
    size.
    """
    text = "".join(f"1,{cell},2\n" for cell in cells).encode()
    symbols, slots = np.frombuffer(text[: max(cut, 1)], dtype=np.uint8), np.array([-1, WORDS, -1])
    odd, at, found = np.empty((size, 4), dtype=np.int64), 0, []
    while True:
        n, n_odd, end, status, _ = parse_records(
            symbols, at, 44, slots, False, decimal_powers(), np.empty((99, 0)), odd
        )
        assert (status, n) == (COMPLETE, n_odd)
        found += odd[:n_odd, 2:].tolist()
        if end == at:
            break
        at = end
    words = [text[a:b].decode() for a, b in found]
    n_whole = text[: max(cut, 1)].count(b"\n")
    assert words == [cell.strip().strip('"') for cell in cells[:n_whole]]
    is_new = np.empty(len(found), dtype=np.bool_)
    find_changes(symbols, np.array(found, dtype=np.int64).reshape(-1, 2), is_new)
    assert is_new.tolist() == [i == 0 or word != words[i - 1] for i, word in enumerate(words)]
