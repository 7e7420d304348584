"""Frames that do not fit the data are refused; nearly collinear columns and huge counts keep their
digits.
"""

import mpmath
import numpy as np
import pytest

import stickbreak as sb
from stickbreak.data import Table, measure

ROWS = np.random.default_rng(0).normal(size=(20, 2))
FRAMED = [sb.Gaussian, sb.DiagonalGaussian, sb.FixedVarianceGaussian, sb.ZeroMeanGaussian]


@pytest.mark.parametrize("family", FRAMED)
@pytest.mark.parametrize("scale", [[1.0], [1.0, 1.0, 1.0], -1.0, [0.0, 1.0]])
def test_a_scale_that_does_not_fit_is_refused(family, scale):
    with pytest.raises(ValueError, match="scale"):
        family(scale=scale).resolve(measure(Table(ROWS)))


@pytest.mark.parametrize("family", FRAMED[:3])
def test_a_center_that_does_not_fit_is_refused(family):
    with pytest.raises(ValueError, match="center"):
        family(center=[0.0, 0.0, 0.0]).resolve(measure(Table(ROWS)))


@pytest.mark.parametrize("width", [1e-3, 1e-5, 1e-7])
def test_nearly_collinear_columns_keep_their_evidence(width):
    """Large terms of the quadratic form cancel although the mean is at the centre: such components
    are judged directly.
    """
    rng = np.random.default_rng(1)
    z = rng.normal(size=200)
    rows = np.c_[z, z + width * rng.normal(size=200)]
    family = sb.Gaussian(covariance=width**2).resolve(measure(Table(rows)))
    counts = family.zeros(1)
    family.mean_log(counts).collect(family.prepare(rows), np.ones((200, 1)), counts)
    scores = family.mean_log(counts)
    exact = scores.constant[0] - 0.5 * scores.form.direct(0, family.prepare(rows))
    np.testing.assert_allclose(scores.evidence(family.prepare(rows))[:, 0], exact, atol=1e-6)


def test_poisson_predictive_of_much_data_equals_extended_precision():
    family = sb.Poisson(shape=2.0, rate=1.0).resolve(measure(Table(np.ones((2, 1)))))
    n, mean, x = 1e6, 1e4, 10_100.0
    counts = {
        "events": np.array([[n * mean]]),
        "rows": np.array([n]),
        "base": np.zeros(1),
        "missing": np.zeros((1, 1)),
    }
    found = family.log_mean(counts).evidence(family.prepare(np.array([[x]])))[0, 0]
    with mpmath.workdps(50):
        a, b = mpmath.mpf(2.0 + n * mean), mpmath.mpf(1.0 + n)
        exact = (
            mpmath.loggamma(x + a)
            - mpmath.loggamma(a)
            - mpmath.loggamma(x + 1)
            + a * mpmath.log(b / (b + 1))
            - x * mpmath.log(b + 1)
        )
    assert found == pytest.approx(float(exact), abs=1e-8)  # terms of size 1e5 in double precision


def test_multinomial_predictive_of_much_data_equals_extended_precision():
    family = sb.Multinomial(concentration=0.1).resolve(measure(Table(np.ones((2, 3)))))
    seen, row = np.array([1e11, 3e11, 5.0]), np.array([7.0, 20.0, 1.0])
    counts = {
        "emission": seen[:, None],
        "emission_total": np.array([seen.sum()]),
        "rows": np.ones(1),
        "base": np.zeros(1),
    }
    found = family.log_mean(counts).evidence(family.prepare(row[None]))[0, 0]
    with mpmath.workdps(50):
        alpha = [mpmath.mpf(float(v)) + mpmath.mpf(0.1) for v in seen]
        total, tokens = sum(alpha), mpmath.mpf(row.sum())
        exact = (
            mpmath.loggamma(tokens + 1) + mpmath.loggamma(total) - mpmath.loggamma(total + tokens)
        )
        for a, x in zip(alpha, row, strict=True):
            exact += mpmath.loggamma(a + x) - mpmath.loggamma(a) - mpmath.loggamma(x + 1)
    assert found == pytest.approx(float(exact), abs=1e-10)
