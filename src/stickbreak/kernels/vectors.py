"""Vectors of eight doubles: a kernel works on eight slots at once, independent of the compiler.

In compiled code a vector is a value in the registers of the machine; + - * / work on it, and a
number stands for eight equal ones. Eight floats, for what may be rounded, take half of a vector:
`load_floats`, `floats` and `doubles` lead from one kind to the other; `store`, `fma`, `larger` and
the signs take both. With compilation switched off, a vector is an array of eight, and the bodies of
the functions below run as written. Arrays are C-contiguous and indexed as if flat; the index is not
checked.
"""

from __future__ import annotations

import numpy as np

from .compile import operation

__all__ = [
    "EIGHT",
    "at_least",
    "doubles",
    "exponent",
    "fill",
    "first_float",
    "first_four",
    "floats",
    "fma",
    "gather",
    "larger",
    "last_four",
    "load",
    "load_floats",
    "mantissa",
    "prefetch",
    "scatter",
    "single",
    "spread",
    "spread_sum",
    "store",
    "store_some",
    "times_power",
    "turn",
]  # fmt: skip

EIGHT = 8
# bits of 1.0, and of the fraction of a double
ONE, FRACTION = 0x3FF0000000000000, 0xFFFFFFFFFFFFF
# bits of 2 ** 52: put before an integer they make it a double that is 2 ** 52 too large
SHIFTED = 0x4330000000000000


# ---- memory --------------------------------------------------------------------------------------
@operation(lambda code, array, at: code.load(array, at), gives="eight")
def load(array, at):
    """Eight numbers of array, starting at `at`; floats become doubles."""
    return array.reshape(-1)[at : at + EIGHT].astype(np.float64)


@operation(lambda code, array, at: code.load_floats(array, at), gives="floats")
def load_floats(array, at):
    """Eight numbers of array, starting at `at`, as floats; doubles are rounded."""
    return array.reshape(-1)[at : at + EIGHT].astype(np.float32)


@operation(lambda code, array, at, value: code.store(array, at, value), gives="none")
def store(array, at, value):
    """Write eight numbers to array, starting at `at`; an array of floats rounds them."""
    array.reshape(-1)[at : at + EIGHT] = value


def _store_some(code, array, at, value, count):
    """Four of them, then two, then one: as many stores as the count has bits."""
    for size in (4, 2, 1):
        has = code.builder.icmp_signed(
            "!=", code.builder.and_(count, code.whole(size)), code.whole(0)
        )
        with code.builder.if_then(has):
            code.store_first(array, at, value, size)
        later = code.shuffle(value, value, [(i + size) % EIGHT for i in range(EIGHT)])
        value = code.builder.select(has, later, value)
        at = code.builder.select(has, code.builder.add(at, code.whole(size)), at)


@operation(_store_some, gives="none")
def store_some(array, at, value, count):
    """Write the first numbers of a vector of floats, fewer than eight, to an array of floats."""
    array.reshape(-1)[at : at + count] = value[:count]


@operation(
    lambda code, array, at: code.spread(code.builder.load(code.pointer(array, at))), gives="eight"
)
def spread(array, at):
    """The number at `at`, eight times."""
    return np.full(EIGHT, array.reshape(-1)[at])


@operation(lambda code, array, at: code.prefetch(array, at), gives="none")
def prefetch(array, at):
    """Bring what is at `at` closer to the processor. Nothing else changes."""


@operation(lambda code, value: code.spread(value), gives="eight")
def fill(value):
    """The same number, eight times."""
    return np.full(EIGHT, value)


def _turned(code, sources, targets):
    """Transpose eight lines of eight by swaps of 1 x 1, 2 x 2 and 4 x 4 squares."""
    lines = [code.builder.load(source, align=8) for source in sources]
    for size in (1, 2, 4):
        low = [c if c & size == 0 else c - size + EIGHT for c in range(EIGHT)]
        high = [c + size if c & size == 0 else c + EIGHT for c in range(EIGHT)]
        for s in (s for s in range(EIGHT) if s & size == 0):
            upper, lower = lines[s], lines[s + size]
            lines[s], lines[s + size] = (
                code.shuffle(upper, lower, low),
                code.shuffle(upper, lower, high),
            )
    for line, target in zip(lines, targets, strict=True):
        code.builder.store(line, target, align=8)


@operation(
    lambda code, source, at, step, target, out, out_step: _turned(
        code, code.steps(source, at, step), code.steps(target, out, out_step)
    ),
    gives="none",
)
def turn(source, at, step, target, out, out_step):
    """Transpose lines of eight numbers, `step` apart, into lines that are `out_step` apart."""
    gather(source, at, np.arange(EIGHT) * step, target, out, out_step)


@operation(
    lambda code, source, at, places, target, out, out_step: _turned(
        code, code.places(source, at, places), code.steps(target, out, out_step)
    ),
    gives="none",
)
def gather(source, at, places, target, out, out_step):
    """Transpose lines of eight numbers at `at` + places (8,) into lines `out_step` apart."""
    lines = np.array([load(source, at + place) for place in places])
    for s in range(EIGHT):
        store(target, out + s * out_step, lines[:, s])


@operation(
    lambda code, source, at, step, target, out, places: _turned(
        code, code.steps(source, at, step), code.places(target, out, places)
    ),
    gives="none",
)
def scatter(source, at, step, target, out, places):
    """Transpose lines of eight numbers, `step` apart, into lines at `out` + places (8,)."""
    lines = np.array([load(source, at + s * step) for s in range(EIGHT)])
    for s, place in enumerate(places):
        store(target, out + place, lines[:, s])


# ---- arithmetic: of vectors, or of floats --------------------------------------------------------
@operation(lambda code, a, b, c: code.intrinsic("llvm.fmuladd", a, b, c))
def fma(a, b, c):
    """A * b + c, rounded once on machines that can (all of the last ten years)."""
    return a * b + c


@operation(lambda code, a, b: code.builder.select(code.builder.fcmp_ordered(">", a, b), a, b))
def larger(a, b):
    """The larger of a and b; b if either is NaN."""
    return np.where(a > b, a, b)


@operation(
    lambda code, x, limit, yes, no: code.builder.select(
        code.builder.fcmp_ordered(">=", x, limit), yes, no
    )
)
def at_least(x, limit, yes, no):
    """`yes` where x >= limit, else `no`, also for NaN."""
    return np.where(x >= limit, yes, no)


@operation(lambda code, x: code.single(x), gives="eight")
def single(x):
    """Eight numbers, rounded as an array of floats would."""
    return x.astype(np.float32).astype(np.float64)


@operation(lambda code, x: code.floats(x), gives="floats")
def floats(x):
    """Eight doubles rounded to floats; one number, eight times."""
    return np.full(EIGHT, x, dtype=np.float32)


@operation(lambda code, x: code.doubles(x), gives="eight")
def doubles(x):
    """Eight floats as doubles."""
    return x.astype(np.float64)


def _times_power(code, x, power):
    shifted = code.builder.shl(code.as_int(power), code.bits(52, power))
    return code.as_float(code.builder.add(code.as_int(x), shifted))


@operation(_times_power)
def times_power(x, power):
    """X times two to an integer, which is in the low bits of `power`.

    Adding 1.5 * 2 ** 52 to a double puts it there.
    """
    return (np.asarray(x).view(np.int64) + (np.asarray(power).view(np.int64) << 52)).view(
        np.float64
    )


def _exponent(code, x):
    shifted = code.builder.or_(
        code.builder.lshr(code.as_int(x), code.bits(52, x)), code.bits(SHIFTED, x)
    )
    return code.builder.fsub(code.as_float(shifted), code.number(2.0**52 + 1023, x))


@operation(_exponent)
def exponent(x):
    """The integer e of x = m * 2 ** e, for a normal x > 0."""
    return (np.asarray(x).view(np.int64) >> 52) - 1023.0


@operation(
    lambda code, x: code.as_float(
        code.builder.or_(
            code.builder.and_(code.as_int(x), code.bits(FRACTION, x)), code.bits(ONE, x)
        )
    )
)
def mantissa(x):
    """The number m in [1, 2) of x = m * 2 ** e, for a normal x > 0."""
    return ((np.asarray(x).view(np.int64) & FRACTION) | ONE).view(np.float64)


def _four(code, x, first):
    pairs = [
        code.builder.fadd(code.item(x, first + i), code.item(x, first + i + 1)) for i in (0, 2)
    ]
    return code.builder.fadd(*pairs)


@operation(lambda code, x: _four(code, x, 0), gives="one")
def first_four(x):
    """Sum of the first four numbers, in pairs."""
    return (x[0] + x[1]) + (x[2] + x[3])


def _spread_sum(code, x):
    for step in (4, 2, 1):
        turned = code.shuffle(x, x, [(i + step) % EIGHT for i in range(EIGHT)])
        x = code.builder.fadd(x, turned)
    return x


@operation(_spread_sum)
def spread_sum(x):
    """The sum of eight numbers, in pairs, eight times."""
    for step in (4, 2, 1):
        x = x + np.roll(x, -step)
    return x


@operation(lambda code, x: code.double(code.item(x, 0)), gives="one")
def first_float(x):
    """The first of eight floats, as a double."""
    return float(x[0])


@operation(lambda code, x: _four(code, x, 4), gives="one")
def last_four(x):
    """Sum of the last four numbers, in pairs."""
    return (x[4] + x[5]) + (x[6] + x[7])
