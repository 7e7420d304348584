"""Vectors of eight doubles: what a kernel does to eight slots at once, whatever the compiler makes
of its loops.

In compiled code a vector is a value in the registers of the machine; + - * / work on it, and a
float stands for eight of its kind. With compilation switched off, it is an array of eight, and the
functions below are what they look like. Arrays are C-contiguous and are indexed as if flat; nobody
checks the index.
"""

from __future__ import annotations

import numpy as np

from .compile import operation

__all__ = [
    "EIGHT",
    "at_least",
    "exponent",
    "fill",
    "first_four",
    "fma",
    "gather",
    "larger",
    "last_four",
    "load",
    "mantissa",
    "scatter",
    "spread",
    "store",
    "times_power",
    "turn",
]  # fmt: skip

EIGHT = 8
# bits of 1.0, and those of a double after the point
ONE, FRACTION = 0x3FF0000000000000, 0xFFFFFFFFFFFFF
# bits of 2 ** 52: put before an integer they make it a double, 2 ** 52 too large
SHIFTED = 0x4330000000000000


# ---- memory --------------------------------------------------------------------------------------
@operation(lambda code, array, at: code.builder.load(code.eight(array, at), align=8), gives="eight")
def load(array, at):
    """Eight numbers of array from `at` on."""
    return array.reshape(-1)[at : at + EIGHT].copy()


@operation(
    lambda code, array, at, value: code.builder.store(value, code.eight(array, at), align=8),
    gives="none",
)
def store(array, at, value):
    """Write eight numbers to array from `at` on."""
    array.reshape(-1)[at : at + EIGHT] = value


@operation(
    lambda code, array, at: code.spread(code.builder.load(code.pointer(array, at))), gives="eight"
)
def spread(array, at):
    """Eight times the number at `at`."""
    return np.full(EIGHT, array.reshape(-1)[at])


@operation(lambda code, value: code.spread(value), gives="eight")
def fill(value):
    """Eight times the same."""
    return np.full(EIGHT, value)


def _turned(code, sources, targets):
    """Eight lines of eight, turned by swaps of 1 x 1, 2 x 2 and 4 x 4 squares."""
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
    """Lines of eight numbers, `step` apart, become columns of lines `out_step` apart."""
    gather(source, at, np.arange(EIGHT) * step, target, out, out_step)


@operation(
    lambda code, source, at, places, target, out, out_step: _turned(
        code, code.places(source, at, places), code.steps(target, out, out_step)
    ),
    gives="none",
)
def gather(source, at, places, target, out, out_step):
    """Lines of eight numbers, at `at` + places (8,), become columns of lines `out_step` apart."""
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
    """Columns of lines of eight numbers, `step` apart, become lines at `out` + places (8,)."""
    lines = np.array([load(source, at + s * step) for s in range(EIGHT)])
    for s, place in enumerate(places):
        store(target, out + place, lines[:, s])


# ---- arithmetic: of vectors, or of floats --------------------------------------------------------
@operation(lambda code, a, b, c: code.intrinsic("llvm.fmuladd", a, b, c))
def fma(a, b, c):
    """A * b + c, rounded once by machines that can (all of the last ten years)."""
    return a * b + c


@operation(lambda code, a, b: code.builder.select(code.builder.fcmp_ordered(">", a, b), a, b))
def larger(a, b):
    """The larger; b, if one of them is not a number."""
    return np.where(a > b, a, b)


@operation(
    lambda code, x, limit, yes, no: code.builder.select(
        code.builder.fcmp_ordered(">=", x, limit), yes, no
    )
)
def at_least(x, limit, yes, no):
    """`yes` where x >= limit, `no` elsewhere, also where x is not a number."""
    return np.where(x >= limit, yes, no)


def _times_power(code, x, power):
    shifted = code.builder.shl(code.as_int(power), code.bits(52, power))
    return code.as_float(code.builder.add(code.as_int(x), shifted))


@operation(_times_power)
def times_power(x, power):
    """X times two to an integer: the one in the low bits of `power`, as adding 1.5 * 2 ** 52 leaves
    it there.
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
    """The integer e of x = m * 2 ** e, x a normal number above zero."""
    return (np.asarray(x).view(np.int64) >> 52) - 1023.0


@operation(
    lambda code, x: code.as_float(
        code.builder.or_(
            code.builder.and_(code.as_int(x), code.bits(FRACTION, x)), code.bits(ONE, x)
        )
    )
)
def mantissa(x):
    """The number m in [1, 2) of x = m * 2 ** e, x a normal number above zero."""
    return ((np.asarray(x).view(np.int64) & FRACTION) | ONE).view(np.float64)


def _four(code, x, first):
    pairs = [
        code.builder.fadd(code.item(x, first + i), code.item(x, first + i + 1)) for i in (0, 2)
    ]
    return code.builder.fadd(*pairs)


@operation(lambda code, x: _four(code, x, 0), gives="one")
def first_four(x):
    """Sum of the first four numbers, by pairs."""
    return (x[0] + x[1]) + (x[2] + x[3])


@operation(lambda code, x: _four(code, x, 4), gives="one")
def last_four(x):
    """Sum of the last four numbers, by pairs."""
    return (x[4] + x[5]) + (x[6] + x[7])
