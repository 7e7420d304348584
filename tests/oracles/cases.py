"""One worked example of every minimal family: parameters, data, a prior, and the equal rich
conjugate model.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from oracles import conjugate, minimal
from oracles.minimal import svec


class Case(NamedTuple):
    """A family, three natural parameters, data, an interior prior (tau, nu), and an equal rich
    model if any.
    """

    family: minimal.Family
    phis: list[np.ndarray]
    X: list[Any]
    tau: np.ndarray
    nu: float
    rich: Any


def gaussian_phi(m: list[float], Sigma: list[list[float]]) -> np.ndarray:
    """(L m, -L/2) with L the inverse of Sigma."""
    L = np.linalg.inv(np.array(Sigma))
    return np.concatenate([L @ m, svec(-L / 2)])


POINTS = [np.array(p) for p in [(0.7, -1.2), (2.1, 0.4), (-0.3, -0.9), (1.0, 1.5), (0.2, 3.0)]]
SIGMAS = [[[1.5, 0.4], [0.4, 0.8]], [[0.5, -0.2], [-0.2, 2.0]], [[3.0, 1.0], [1.0, 1.0]]]
MEANS = [[0.5, -1.0], [-2.0, 0.3], [0.0, 4.0]]
DOCS = [np.array(x) for x in [(2, 0, 2), (0, 4, 0), (1, 1, 2), (3, 1, 0)]]
B2 = np.array([[2.0, 0.3], [0.3, 1.5]])
M2 = np.array([0.4, -0.6])


def cases() -> dict[str, Case]:
    """All families by name."""
    v1, nu = np.array([0.5]), 0.7
    zm = [svec(-np.linalg.inv(np.array(S)) / 2) for S in SIGMAS]
    full = [gaussian_phi(m, S) for m, S in zip(MEANS, SIGMAS, strict=True)]
    diag = [
        np.concatenate([np.array(m) / np.diag(S), -0.5 / np.diag(S)])
        for m, S in zip(MEANS, SIGMAS, strict=True)
    ]
    return {
        "categorical": Case(
            minimal.Categorical(4),
            [np.array(p) for p in [(0.3, -1.0, 2.0), (0.0, 0.0, 0.0), (-2.0, 1.0, 0.5)]],
            [0, 2, 2, 3, 1, 2],
            np.full(3, 0.4),
            1.6,
            conjugate.Categorical((4,), 0.4),
        ),
        "multinomial": Case(
            minimal.Multinomial(3, 4),
            [np.array(p) for p in [(0.3, -1.0), (0.0, 0.0), (-1.0, 1.2)]],
            DOCS,
            np.full(2, 0.6),
            0.45,
            conjugate.Multinomial(3, 0.6),
        ),
        "bernoulli": Case(
            minimal.Bernoulli(),
            [np.array([p]) for p in (-1.3, 0.2, 2.0)],
            [1, 0, 1, 1, 0],
            np.array([0.5]),
            1.2,
            conjugate.Bernoulli(0.5, 0.7),
        ),
        "fixed-variance": Case(
            minimal.FixedVarianceGaussian(0.5),
            [np.array([p]) for p in (-3.0, 0.4, 2.0)],
            [-2.0, 4.0, 1.0, 0.3],
            np.array([0.35]),
            nu,
            conjugate.FixedVarianceGaussian(v1, np.array([0.35 / nu]), nu),
        ),
        "zero-mean-1d": Case(
            minimal.ZeroMeanGaussian1D(),
            [np.array([p]) for p in (-0.2, -1.0, -3.0)],
            [1.0, -0.5, 2.0, 0.1],
            np.array([2.0]),
            3.0,
            conjugate.ZeroMeanGaussian(5.0, np.array([[2.0]])),
        ),
        "zero-mean": Case(
            minimal.ZeroMeanGaussian(2),
            zm,
            POINTS,
            svec(B2),
            1.3,
            conjugate.ZeroMeanGaussian(4.3, B2),
        ),
        "gaussian": Case(
            minimal.Gaussian(2),
            full,
            POINTS,
            np.concatenate([nu * M2, svec(B2 + nu * np.outer(M2, M2))]),
            nu,
            conjugate.Gaussian(M2, nu, nu + 4, B2),
        ),
        "diagonal": Case(
            minimal.DiagonalGaussian(2),
            diag,
            POINTS,
            np.concatenate([nu * M2, np.diag(B2) + nu * M2**2]),
            nu,
            conjugate.DiagonalGaussian(M2, nu, nu + 3, np.diag(B2)),
        ),
        "poisson": Case(
            minimal.Poisson(),
            [np.array([p]) for p in (-1.0, 0.6, 2.2)],
            [3, 0, 1, 7, 2],
            np.array([1.4]),
            0.6,
            conjugate.Poisson(1.4, 0.6),
        ),
    }


def as_rows(case: Case) -> np.ndarray:
    """The atoms as an (N, D) array."""
    return np.array([np.atleast_1d(x) for x in case.X])
