"""Vectors in compiled code against what the bodies of their operations say, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stickbreak.kernels import vectors
from stickbreak.kernels.compile import kernel
from stickbreak.kernels.vectors import (
    EIGHT,
    at_least,
    doubles,
    exponent,
    fill,
    first_float,
    first_four,
    floats,
    fma,
    gather,
    larger,
    last_four,
    load,
    load_floats,
    mantissa,
    prefetch,
    scatter,
    single,
    spread,
    spread_sum,
    store,
    store_some,
    times_power,
    turn,
)

LAW = settings(max_examples=60, deadline=None, derandomize=True)
numbers = st.floats(allow_nan=True, allow_infinity=True, width=64)
eights = st.lists(numbers, min_size=EIGHT, max_size=EIGHT).map(np.array)
positive = st.lists(st.floats(1e-300, 1e300), min_size=EIGHT, max_size=EIGHT).map(np.array)
finite = st.lists(st.floats(-1e3, 1e3), min_size=EIGHT, max_size=EIGHT).map(np.array)
ROUND = 6755399441055744.0  # 1.5 * 2 ** 52


@kernel
def arithmetic(x, y, out):
    a, b = load(x, 0), load(y, 0)
    store(out, 0, a + b)
    store(out, EIGHT, a - b)
    store(out, 2 * EIGHT, a * b)
    store(out, 3 * EIGHT, a / b)
    store(out, 4 * EIGHT, 2.0 * a - 1.0 / b)
    store(out, 5 * EIGHT, larger(a, b))
    store(out, 6 * EIGHT, at_least(a, b, a, 0.5))
    store(out, 7 * EIGHT, at_least(a, 0.0, 1.0, b))


@given(eights, eights)
@LAW
def test_arithmetic(x, y):
    out = np.empty((8, EIGHT))
    arithmetic(x, y, out)
    with np.errstate(all="ignore"):
        expected = [
            x + y,
            x - y,
            x * y,
            x / y,
            2.0 * x - 1.0 / y,
            np.where(x > y, x, y),
            np.where(x >= y, x, 0.5),
        ]
        np.testing.assert_array_equal(out, [*expected, np.where(x >= 0.0, 1.0, y)])
        np.testing.assert_array_equal(out[5], vectors.larger(x, y))
        np.testing.assert_array_equal(out[6], vectors.at_least(x, y, x, 0.5))


@kernel
def parts(x, steps, out):
    a = load(x, 0)
    store(out, 0, mantissa(a))
    store(out, EIGHT, exponent(a))
    store(out, 2 * EIGHT, times_power(mantissa(a), load(steps, 0) + ROUND))
    store(out, 3 * EIGHT, fill(first_four(a)))
    store(out, 4 * EIGHT, fill(last_four(a)))
    store(out, 5 * EIGHT, spread(x, 5))


@given(
    positive,
    st.lists(st.integers(-1000, 1000), min_size=EIGHT, max_size=EIGHT).map(
        lambda n: np.array(n, dtype=float)
    ),
)
@LAW
def test_parts_of_a_number(x, steps):
    out = np.empty((6, EIGHT))
    parts(x, steps, out)
    np.testing.assert_array_equal(np.ldexp(out[0], out[1].astype(int)), x)
    assert ((out[0] >= 1.0) & (out[0] < 2.0)).all()
    np.testing.assert_array_equal(out[2], np.ldexp(out[0], steps.astype(int)))
    expected = (
        vectors.mantissa(x),
        vectors.exponent(x),
        vectors.times_power(vectors.mantissa(x), steps + ROUND),
    )
    for found, theirs in zip(out, expected, strict=False):
        np.testing.assert_array_equal(found, theirs)
    assert out[3, 0] == vectors.first_four(x) == (x[0] + x[1]) + (x[2] + x[3])
    assert out[4, 0] == vectors.last_four(x)
    assert (out[5] == x[5]).all()


@kernel
def fused(x, y, z, out):
    store(out, 0, fma(load(x, 0), load(y, 0), load(z, 0)))
    for i in range(EIGHT):
        out[1, i] = fma(x[i], y[i], z[i])
    store(out, 2 * EIGHT, fma(x[0], load(y, 0), 1.0))


def test_a_product_and_a_sum():
    """Rounded once, or twice on old machines: the same for eight as for one."""
    x, y, z = np.random.default_rng(0).normal(size=(3, EIGHT))
    out = np.empty((3, EIGHT))
    fused(x, y, z, out)
    np.testing.assert_array_equal(out[0], out[1])
    np.testing.assert_allclose(out[0], vectors.fma(x, y, z), rtol=1e-14)
    np.testing.assert_allclose(out[2], x[0] * y + 1.0, rtol=1e-14)


@kernel
def turning(source, places, out, back):
    turn(source, 3, 11, out[0], 5, 9)
    gather(source, 2, places, out[1], 1, 10)
    scatter(out[1], 1, 10, back, 2, places)


def test_squares_are_turned():
    source, out, back = np.arange(120.0), np.zeros((2, 90)), np.zeros(120)
    places = np.array([0, 13, 26, 39, 52, 65, 78, 91])
    turning(source, places, out, back)
    for i in range(EIGHT):
        np.testing.assert_array_equal(out[0, 5 + 9 * i : 13 + 9 * i], 3 + i + 11 * np.arange(EIGHT))
        np.testing.assert_array_equal(out[1, 1 + 10 * i : 9 + 10 * i], 2 + i + places)
        np.testing.assert_array_equal(
            back[2 + places[i] : 10 + places[i]], source[2 + places[i] : 10 + places[i]]
        )
    theirs, theirs_back = np.zeros((2, 90)), np.zeros(120)
    vectors.turn(source, 3, 11, theirs[0], 5, 9)
    vectors.gather(source, 2, places, theirs[1], 1, 10)
    vectors.scatter(theirs[1], 1, 10, theirs_back, 2, places)
    np.testing.assert_array_equal(out, theirs)
    np.testing.assert_array_equal(back, theirs_back)


@kernel
def misuse(x):
    return load(x, 0) + 1.0


def test_arrays_that_are_not_contiguous_are_refused():
    with pytest.raises(Exception, match="load"):
        misuse(np.zeros((16, 2))[:, 0])


@kernel
def rounded(x, out):
    prefetch(x, 0)
    store(out, 0, single(load(x, 0)))


@given(eights)
@LAW
def test_single_rounds_to_floats(x):
    out = np.empty(EIGHT)
    rounded(x, out)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(out, x.astype(np.float32).astype(float))


@kernel
def in_floats(x, y, out, out_some):
    a, b = load_floats(x, 0), load_floats(y, 0)
    store(out, 0, a + b)
    store(out, EIGHT, 2.0 * a - b / 3.0)
    store(out, 2 * EIGHT, larger(a, b))
    store(out, 3 * EIGHT, doubles(a) * 3.0)
    store(out, 4 * EIGHT, floats(load(y, 0) * 0.1))
    store(out, 5 * EIGHT, spread_sum(a))
    store(out, 6 * EIGHT, fma(floats(2.0), a, 1.0))
    for count in range(EIGHT):
        store_some(out_some, count * EIGHT, a, count)
    return first_float(b)


@given(finite, finite)
@LAW
def test_floats_are_rounded_as_arrays_of_floats(x, y):
    out, some = np.empty((7, EIGHT), np.float32), np.zeros((EIGHT, EIGHT), np.float32)
    first = in_floats(x, y, out, some)
    a, b = x.astype(np.float32), y.astype(np.float32)
    third, two = np.float32(3.0), np.float32(2.0)
    sums = a
    for step in (4, 2, 1):
        sums = sums + np.roll(sums, -step)
    expected = [
        a + b, two * a - b / third, np.where(a > b, a, b), (a.astype(float) * 3.0), y * 0.1, sums,
        two * a + np.float32(1.0),
    ]  # fmt: skip
    # a product may be rounded with the sum
    np.testing.assert_allclose(out, np.array(expected, np.float32), rtol=1e-5, atol=1e-3)
    for row in (0, 2, 3, 4, 5):
        np.testing.assert_array_equal(out[row], np.float32(expected[row]))
    assert len(set(out[5].tolist())) == 1
    for count in range(EIGHT):
        np.testing.assert_array_equal(some[count], np.where(np.arange(EIGHT) < count, a, 0.0))
    assert first == b[0]
