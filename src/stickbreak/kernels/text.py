"""Numbers from separated text: whole records, exact decimals; other cells are left to the caller.

The text may be malicious: no byte is read outside it, and nothing is written beyond the arrays.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import numpy as np

from .compile import inline, kernel

__all__ = [
    "COMPLETE",
    "RAGGED",
    "SKIPPED",
    "UNCLOSED",
    "WORDS",
    "decimal_powers",
    "find_changes",
    "parse_records",
]

COMPLETE, RAGGED, UNCLOSED = 0, 1, 2
# instead of a column: fields that are not wanted, and fields whose cells are wanted as text
SKIPPED, WORDS = -1, -2
SPACE, TAB, NEWLINE, RETURN, QUOTE = 32, 9, 10, 13, 34
PLUS, MINUS, POINT, ZERO, NINE, LETTER_E, LETTER_N, LETTER_A = 43, 45, 46, 48, 57, 101, 110, 97
TO_LOWER = 32
MOST_DIGITS = 18  # decimal digits that fit an int64
EXACT = 1 << 53
EXACT_POWER = 22  # 10**22 is the largest power of ten that is a double
MOST_POWER = 250  # with 18 digits: far from overflow and from numbers that lose bits
# above the relative error of a product of two pairs of doubles (a few 2**-104)
SLACK = 2.0**-100
SPLITTER = 134217729.0  # 2**27 + 1 splits a double into halves whose products are exact


@cache
def decimal_powers():
    """(2, 501) powers 10**-250 to 10**250 as unevaluated sums of two doubles."""
    exact = [Fraction(10) ** power for power in range(-MOST_POWER, MOST_POWER + 1)]
    high = [float(value) for value in exact]
    return np.array(
        [high, [float(value - Fraction(h)) for value, h in zip(exact, high, strict=True)]]
    )


@kernel
def scale_decimal(digits, power, powers):
    """The double nearest to digits * 10**power, and whether that is certain.

    It is not certain near the middle of two doubles. digits < 10**18, |power| <= 250. The product
    has about 104 bits.
    """
    if digits < EXACT and -EXACT_POWER <= power <= EXACT_POWER:
        whole, factor = np.float64(digits), powers[0, abs(power) + MOST_POWER]
        return (whole * factor if power >= 0 else whole / factor), True
    high = np.float64(digits)
    low = np.float64(digits - np.int64(high))
    power_high, power_low = powers[0, power + MOST_POWER], powers[1, power + MOST_POWER]
    product = high * power_high
    cut = SPLITTER * high
    a = cut - (cut - high)
    cut = SPLITTER * power_high
    b = cut - (cut - power_high)
    error = ((a * b - product) + a * (power_high - b) + (high - a) * b) + (high - a) * (
        power_high - b
    )
    rest = error + (high * power_low + low * power_high)
    value = product + rest
    left = rest - (value - product)
    slack = value * SLACK
    return value, value + (left - slack) == value and value + (left + slack) == value


@kernel
def scan_number(text, begin, end, powers):
    """The decimal number at the start of text[begin:end]: value, whether valid, and its end.

    It is valid if it is a number and its rounding is certain.
    """
    at, sign = begin, 1.0
    if at < end and (text[at] == PLUS or text[at] == MINUS):
        sign = -1.0 if text[at] == MINUS else 1.0
        at += 1
    digits, n_digits, n_seen, power = np.int64(0), 0, 0, np.int64(0)
    is_fraction = False
    while at < end:
        symbol = np.int64(text[at])
        if ZERO <= symbol <= NINE:
            digits = 10 * digits + (symbol - ZERO)
            n_seen += 1
            if digits > 0:
                n_digits += 1
            if is_fraction:
                power -= 1
            if n_digits > MOST_DIGITS:
                return 0.0, False, at
        elif symbol == POINT and not is_fraction:
            is_fraction = True
        else:
            break
        at += 1
    if n_seen == 0:
        return 0.0, False, at
    if at < end and text[at] | TO_LOWER == LETTER_E:
        at += 1
        direction, shift = 1, np.int64(0)
        if at < end and (text[at] == PLUS or text[at] == MINUS):
            direction = -1 if text[at] == MINUS else 1
            at += 1
        first = at
        while at < end and at - first < 4 and ZERO <= text[at] <= NINE:
            shift = 10 * shift + np.int64(text[at] - ZERO)
            at += 1
        if at == first:
            return 0.0, False, at
        power += direction * shift
    if digits == 0:
        return sign * 0.0, True, at
    if power < -MOST_POWER or power > MOST_POWER:
        return 0.0, False, at
    value, is_certain = scale_decimal(digits, power, powers)
    return sign * value, is_certain, at


@kernel
def parse_number(text, begin, end, powers):
    """The number in text[begin:end], and whether it is one; NaN for an empty cell, "na", "nan"."""
    if begin == end:
        return np.nan, True
    if text[begin] | TO_LOWER == LETTER_N:
        is_na = end - begin == 2 and text[begin + 1] | TO_LOWER == LETTER_A
        is_nan = (
            end - begin == 3
            and text[begin + 1] | TO_LOWER == LETTER_A
            and text[begin + 2] | TO_LOWER == LETTER_N
        )
        return np.nan, is_na or is_nan
    value, is_number, stop = scan_number(text, begin, end, powers)
    return value, is_number and stop == end


@inline
def is_blank(symbol):
    """Whether a byte is white space within a line."""
    return symbol in (SPACE, TAB, RETURN)


@kernel
def skip_blanks(text, at, separator):
    """Index of the first byte from `at` on that is not blank, or the length of the text."""
    while at < len(text) and is_blank(text[at]) and text[at] != separator:
        at += 1
    return at


@kernel
def find_field(text, at, separator):
    """The field that starts at `at`, and its cell: (next, begin, end, is_plain, is_closed).

    next : index of the separator or newline after the field, or the length of the text.
    begin, end : the cell, without surrounding quotes and blanks; the whole field if something
        follows a closing quote.
    is_plain : no quotes inside.
    """
    n, begin = len(text), skip_blanks(text, at, separator)
    is_plain, end = True, begin
    if begin < n and text[begin] == QUOTE:
        begin += 1
        end = begin
        while end < n and (text[end] != QUOTE or (end + 1 < n and text[end + 1] == QUOTE)):
            is_plain = is_plain and text[end] != QUOTE
            end += 2 if text[end] == QUOTE else 1
        if end >= n:
            return n, begin, n, False, False
        after, is_junk = end + 1, False
        while after < n and text[after] != separator and text[after] != NEWLINE:
            is_junk = is_junk or not is_blank(text[after])
            after += 1
        if is_junk:
            return after, begin - 1, after, False, True
        return after, begin, end, is_plain, True
    while end < n and text[end] != separator and text[end] != NEWLINE:
        end += 1
    after = end
    while end > begin and is_blank(text[end - 1]):
        end -= 1
    return after, begin, end, True, True


@kernel
def parse_record(text, at, row, separator, slots, is_last, powers, out, odd, n_odd):
    """One record, from byte `at` on: its end, its fields, odd cells so far, and its state.

    Arguments as in `parse_records`. The end is -1 if the record cannot be read: it is incomplete or
    `odd` is full (COMPLETE, to be read again), it has an open quote, or it is ragged.
    """
    n, n_fields, field = len(text), len(slots), 0
    while True:
        # most cells are a number up to the next separator: read them once
        if field < n_fields and slots[field] >= 0:
            value, is_number, after = scan_number(text, at, n, powers)
            if is_number and after < n and (text[after] == separator or text[after] == NEWLINE):
                out[row, slots[field]] = value
                field += 1
                if text[after] == NEWLINE:
                    break
                at = after + 1
                continue
        after, begin, end, is_plain, is_closed = find_field(text, at, separator)
        if after == n and not is_last:
            return -1, 0, n_odd, COMPLETE  # the rest of the record is still to come
        if not is_closed:
            return -1, field + 1, n_odd, UNCLOSED
        if field < n_fields and slots[field] != SKIPPED:
            is_usual = False
            if slots[field] >= 0:
                value, is_number = parse_number(text, begin, end, powers)
                out[row, slots[field]] = value
                is_usual = is_number and is_plain
            if not is_usual:
                if n_odd == len(odd):
                    return -1, 0, n_odd, COMPLETE
                odd[n_odd, 0], odd[n_odd, 1] = row, field
                odd[n_odd, 2], odd[n_odd, 3] = begin, end
                n_odd += 1
        field += 1
        if after == n or text[after] == NEWLINE:
            break
        at = after + 1
    return (after, field, n_odd, COMPLETE) if field == n_fields else (-1, field, n_odd, RAGGED)


@kernel
def parse_records(text, at, separator, slots, is_last, powers, out, odd):
    """Numbers in the records of a text, from byte `at` on.

    text (n,) : bytes. slots (n_fields,) : the column of `out` for each field, SKIPPED or WORDS.
    is_last : whether the text ends the file, so that its last record needs no newline.
    powers : `decimal_powers()`. out (m, D).
    odd (p, 4) : receives row, field, first byte and end of cells that are no plain numbers, and of
        all WORDS; p must be at least the number of wanted fields.

    Blank lines are skipped. It stops when `out` or `odd` is full, and at a record that is
    incomplete, ragged or has an open quote.

    Returns the number of rows, the number of odd cells, where the first unread record starts,
    COMPLETE or what is wrong with it, and its number of fields.
    """
    n, row, n_odd = len(text), 0, 0
    while at < n and row < len(out):
        first = skip_blanks(text, at, separator)
        if first == n:
            return row, n_odd, n if is_last else at, COMPLETE, 0
        if text[first] == NEWLINE:
            at = first + 1
            continue
        end, n_fields, n_found, state = parse_record(
            text, at, row, separator, slots, is_last, powers, out, odd, n_odd
        )
        if end < 0:
            return row, n_odd, at, state, n_fields
        at, n_odd, row = min(end + 1, n), n_found, row + 1
    return row, n_odd, at, COMPLETE, 0


@kernel
def find_changes(text, cells, out):
    """Out (n,): whether cell text[cells[i, 0]:cells[i, 1]] differs from the one before.

    True for the first cell.
    """
    for i in range(len(cells)):
        begin, size = cells[i, 0], cells[i, 1] - cells[i, 0]
        before = cells[i - 1, 0] if i else begin
        out[i] = i == 0 or cells[i - 1, 1] - before != size
        for k in range(size):
            if out[i]:
                break
            out[i] = text[begin + k] != text[before + k]
