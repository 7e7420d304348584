"""Registers of what the batteries run on: a new record here is tested by every law."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from oracles import conjugate, missing, regression
from scipy import sparse

from docs.skeletons.family import Exponential
from stickbreak import families
from stickbreak.data import Table, measure
from stickbreak.stats import Field, Summary

Array = np.ndarray


# ---- families ------------------------------------------------------------------------------------
@dataclass(frozen=True)
class FamilyCase:
    """A resolved family with a prior of its own, and some rows (n, D) that suit it.

    textbook : slow formulas with the same prior; without them, tests of fits and moves go by the
        family's own marginals, and tests of the formulas leave it out
    """

    family: Any
    rows: Any
    textbook: Any = None

    @property
    def dense(self) -> Array:
        """Rows as an array, for the oracle."""
        return self.rows.toarray() if sparse.issparse(self.rows) else self.rows

    @property
    def oracle(self) -> Any:
        """Log marginals and evidence of rows under weights (n,)."""
        return OwnFormulas(self.family) if self.textbook is None else self.textbook


@dataclass(frozen=True)
class OwnFormulas:
    """A family as its own oracle: for what is not about its formulas."""

    family: Any

    def log_marginal(self, X: Array, w: Array) -> float:
        return float(self.family.log_marginal(collect(self.family, X, w[:, None]))[0])

    def log_predictive(self, x: Array, X: Array, w: Array) -> float:
        return self._evidence("log_mean", x, X, w)

    def expected_log_likelihood(self, x: Array, X: Array, w: Array) -> float:
        return self._evidence("mean_log", x, X, w)

    def _evidence(self, rule: str, x: Array, X: Array, w: Array) -> float:
        scores = getattr(self.family, rule)(collect(self.family, X, w[:, None]))
        return float(scores.evidence(self.family.prepare(x[None]))[0, 0])


def collect(family: Any, rows: Any, shares: Array) -> dict[str, Array]:
    """Counts of rows under shares (n, K), about the anchors of nothing."""
    out = family.zeros(shares.shape[1])
    family.mean_log(family.zeros(shares.shape[1])).collect(
        family.prepare(rows), np.asfortranarray(shares), out
    )
    return out


def random_shares(n: int, n_components: int, seed: int) -> Array:
    """(n, K) positive shares that sum to one."""
    return np.random.default_rng(seed).dirichlet(np.ones(n_components), n)


def _case(family: Any, rows: Any, textbook: Any = None) -> FamilyCase:
    return FamilyCase(family.resolve(measure(Table(rows))), rows, textbook)


def _family_cases(n: int = 25) -> dict[str, FamilyCase]:
    rng = np.random.default_rng(20240817)
    mean, strength = np.array([0.4, -0.6, 1.1]), 0.7
    B = np.array([[2.0, 0.3, -0.1], [0.3, 1.5, 0.2], [-0.1, 0.2, 0.9]])
    real = rng.normal(size=(n, 3)) @ rng.normal(size=(3, 3)) + np.array([2.0, -1.0, 5.0])
    symbols = np.column_stack([rng.integers(0, 4, n), rng.integers(0, 3, n)])
    symbols[0] = 3, 2  # every symbol limit is reached, whatever the seed
    counts = rng.poisson(rng.gamma(0.6, 2.0, size=(n, 6)))
    counts[3] = 0  # a row without tokens
    binary = (rng.random((n, 4)) < 0.35).astype(int)
    events = rng.poisson([0.5, 3.0, 40.0], size=(n, 3))
    waits = np.random.default_rng(20250606).exponential([0.5, 30.0], (n, 2))
    v, b = np.array([0.5, 1.2, 2.0]), np.diag(B)
    return {
        "gaussian": _case(
            families.Gaussian(mean=mean, mean_strength=strength, dof=6.5, covariance=B / 2.5),
            real,
            conjugate.Gaussian(mean, strength, 6.5, B),
        ),
        "diagonal": _case(
            families.DiagonalGaussian(mean=mean, mean_strength=strength, dof=4.5, variance=b / 2.5),
            real,
            conjugate.DiagonalGaussian(mean, strength, 4.5, b),
        ),
        "zero_mean": _case(
            families.ZeroMeanGaussian(dof=5.5, covariance=B / 1.5),
            real,
            conjugate.ZeroMeanGaussian(5.5, B),
        ),
        "fixed_variance": _case(
            families.FixedVarianceGaussian(variance=v, mean=mean, mean_strength=strength),
            real,
            conjugate.FixedVarianceGaussian(v, mean, strength),
        ),
        "categorical": _case(
            families.Categorical(concentration=0.3, n_symbols=(4, 5)),
            symbols,
            conjugate.Categorical((4, 5), 0.3),
        ),
        "multinomial": _case(
            families.Multinomial(concentration=0.4), counts, conjugate.Multinomial(6, 0.4)
        ),
        "multinomial_sparse": _case(
            families.Multinomial(concentration=0.4),
            sparse.csr_array(counts),
            conjugate.Multinomial(6, 0.4),
        ),
        "bernoulli": _case(
            families.Bernoulli(on=0.8, off=1.7), binary, conjugate.Bernoulli(0.8, 1.7)
        ),
        "poisson": _case(
            families.Poisson(rate=0.7, shape=1.3), events, conjugate.Poisson(1.3, 0.7)
        ),
        "product": _product_case(real, binary, symbols, events),
        "autoregressive": _autoregressive_case(n),
        # a plain family: it draws no parameters, learns nothing, refuses missing entries
        "skeleton": _case(Exponential(shape=2.5, rate=1.3), waits),
    }


def _autoregressive_case(n: int) -> FamilyCase:
    """Two columns and the row before, far from zero, with an intercept."""
    rng = np.random.default_rng(20250101)
    context = np.array([3.0, -2.0]) + rng.normal(size=(n, 2))
    rows = np.column_stack(
        [
            context @ np.array([[0.7, 0.4], [-0.5, 0.8]]) + rng.normal(size=(n, 2)) * [0.5, 1.5],
            context,
        ]
    )
    M, offset, strength = np.array([[0.9, 0.1], [-0.2, 0.6]]), np.array([0.3, -1.0]), 0.7
    C, g, B = (
        np.array([[1.4, 0.2], [0.2, 0.8]]),
        np.array([2.5, -1.0]),
        np.array([[2.0, 0.3], [0.3, 1.5]]),
    )
    family = families.AutoregressiveGaussian(
        mean=M,
        mean_strength=0.4,
        context=C,
        context_mean=g,
        offset=offset,
        offset_strength=strength,
        dof=7.5,
        covariance=B / 4.5,
    )
    joined = regression.joined_prior(M, offset, 0.4 * C, g, strength)
    return _case(family, rows, regression.Regression(*joined, 7.5, B, intercept=True))


def _product_case(real: Array, binary: Array, symbols: Array, events: Array) -> FamilyCase:
    """Mixed columns in no order: two correlated reals (backwards), three binary ones, a symbol, an
    event count.
    """
    rows = np.column_stack(
        [
            real[:, 0],
            binary[:, 0],
            symbols[:, 0],
            binary[:, 1],
            real[:, 1],
            events[:, 1],
            binary[:, 2],
        ]
    )
    mean, B = np.array([0.4, -0.6]), np.array([[2.0, 0.3], [0.3, 1.5]])
    at = {"real": (4, 0), "binary": (1, 3, 6), "symbol": (2,), "events": (5,)}
    family = families.Product(
        [
            (
                families.Gaussian(mean=mean, mean_strength=0.7, dof=5.5, covariance=B / 2.5),
                at["real"],
            ),
            (families.Bernoulli(on=0.8, off=1.7), at["binary"]),
            (families.Categorical(concentration=0.3, n_symbols=5), at["symbol"]),
            (families.Poisson(rate=0.7, shape=1.3), at["events"]),
        ]
    )
    oracle = conjugate.Product(
        (
            (conjugate.Gaussian(mean, 0.7, 5.5, B), at["real"]),
            (conjugate.Bernoulli(0.8, 1.7), at["binary"]),
            (conjugate.Categorical((5,), 0.3), at["symbol"]),
            (conjugate.Poisson(1.3, 0.7), at["events"]),
        )
    )
    return _case(family, rows, oracle)


FAMILIES = _family_cases()


def _column_oracles(name: str, oracle: Any, n_columns: int) -> Any:
    """The oracle of each column alone."""
    for d in range(n_columns):
        if name == "diagonal":
            yield conjugate.DiagonalGaussian(oracle.m0[[d]], oracle.kappa, oracle.a, oracle.b[[d]])
        elif name == "fixed_variance":
            yield conjugate.FixedVarianceGaussian(oracle.v[[d]], oracle.m0[[d]], oracle.kappa)
        elif name == "categorical":
            yield conjugate.Categorical(oracle.sizes[d : d + 1], oracle.concentration)
        else:
            yield oracle


def remove_entries(rows: Any, share: float, seed: int, *, whole_rows: bool = False) -> Array:
    """The rows as floats with NaN in about `share` of the entries, row 2 as a whole; or in whole
    rows only.
    """
    rng, rows = np.random.default_rng(seed), np.asarray(rows, dtype=float)
    holes = rng.random((len(rows), 1) if whole_rows else rows.shape) < share
    holes = np.broadcast_to(holes, rows.shape).copy()
    holes[2] = True
    return np.where(holes, np.nan, rows)


def _incomplete_case(name: str, case: FamilyCase, share: float = 0.3) -> FamilyCase:
    """The same family on rows that lack entries; the oracle is exact, where one is known."""
    counts_whole_rows = case.family.missing == "rows"
    rows = remove_entries(case.dense, share, 41, whole_rows=counts_whole_rows)
    is_symbols = case.family.missing_category == -1
    if is_symbols:
        rows[(np.arange(len(rows)) % 2 == 0)[:, None] & np.isnan(rows)] = -1.0
    if case.textbook is None or case.family.missing == "completed":
        return FamilyCase(case.family, rows, case.textbook)
    if counts_whole_rows:
        return FamilyCase(case.family, rows, missing.Rows(case.textbook))
    parts = tuple(_column_oracles(name, case.textbook, rows.shape[1]))
    return FamilyCase(case.family, rows, missing.Columns(parts, is_symbols=is_symbols))


INCOMPLETE = {
    name: _incomplete_case(name, case)
    for name, case in FAMILIES.items()
    if case.family.missing != "refused" and not sparse.issparse(case.rows)
}


# ---- summaries -----------------------------------------------------------------------------------
LAYOUT = {
    "share": Field(("state",)),
    "transition": Field(("state", "state")),
    "emission": Field(("symbol", "state")),
    "moments": Field(("state", None), nonnegative=False),
    "anchor": Field(("state", None), nonnegative=False, merge="keep", additive=False),
    "entropy": Field(("state",), nonnegative=False, merge="tracked"),
    "log_rest": Field((), nonnegative=False),
}
"""Every kind of field: an axis once, twice, second; signed, tracked, not additive, without axes."""

SIDE_LAYOUT = {
    "share": Field(("slot",)),
    "transition": Field(("slot", "slot")),
    "emission": Field(("symbol", "slot")),
    "moments": Field(("slot", None), nonnegative=False),
    "anchor": Field(("slot", None), nonnegative=False, merge="keep", additive=False),
}

MERGE_LAYOUT = {
    "gain": Field(("pair",), nonnegative=False),
    "cross": Field(("pair", "pair"), nonnegative=False),
    "entropy": Field(("pair",), nonnegative=False),
}


def quarters(rng: np.random.Generator, *shape: int, signed: bool = False) -> Array:
    """Multiples of 1/4: sums of them are exact, so algebra may be compared bit for bit."""
    return rng.integers(-40 if signed else 0, 41, shape) / 4.0


def make_summary(
    seed: int, *, n_states: int = 4, n_symbols: int = 5, anchor: Array | None = None
) -> Summary:
    """Random counts of LAYOUT; summaries that are to be added describe the same anchors."""
    rng, K = np.random.default_rng(seed), n_states
    arrays = {
        "share": quarters(rng, K),
        "transition": quarters(rng, K, K),
        "emission": quarters(rng, n_symbols, K),
        "moments": quarters(rng, K, 3, signed=True),
        "anchor": np.arange(2.0 * K).reshape(K, 2) if anchor is None else anchor,
        "entropy": quarters(rng, K, signed=True),
        "log_rest": np.array(quarters(rng, 1, signed=True)[0]),
    }
    local_bound, log_z = (float(v) for v in quarters(rng, 2, signed=True))
    return Summary(
        LAYOUT, arrays, local_bound=local_bound, log_z=log_z, n_units=float(rng.integers(1, 30))
    )


def merge_side(seed: int, n_pairs: int) -> Summary:
    """What a merge watch collects: gain, cross and the tracked value of every pair."""
    rng = np.random.default_rng(seed)
    shapes = {"gain": (n_pairs,), "cross": (n_pairs, n_pairs), "entropy": (n_pairs,)}
    return Summary(
        MERGE_LAYOUT, {name: quarters(rng, *shape, signed=True) for name, shape in shapes.items()}
    )


def birth_side(seed: int, whole: Summary, target: int, count: int) -> Summary:
    """What a birth moves out of `target` into `count` newborns: never more than the target has."""
    rng, J = np.random.default_rng(seed), 1 + count
    arrays = {
        "share": quarters(rng, J),
        "transition": quarters(rng, J, J),
        "emission": quarters(rng, len(whole["emission"]), J),
        "moments": quarters(rng, J, 3, signed=True),
        "anchor": np.full((J, 2), 77.0),
    }
    arrays["share"][0] = -whole["share"][target]
    arrays["transition"][0, 0] = -whole["transition"][target, target]
    arrays["emission"][:, 0] = -whole["emission"][:, target]
    return Summary(SIDE_LAYOUT, arrays, local_bound=float(quarters(rng, 1, signed=True)[0]))


def with_sides(summary: Summary, **sides: Summary) -> Summary:
    """The same Summary with these sides."""
    return replace(summary, sides=sides)


def assert_same(a: Any, b: Any) -> None:
    """Bit for bit the same Fields; a missing side is zero."""
    assert set(a.arrays) == set(b.arrays)
    for name in a.arrays:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)
    for name in ("local_bound", "log_z", "n_units"):
        assert getattr(a, name, 0.0) == getattr(b, name, 0.0), name
    mine, theirs = getattr(a, "sides", {}), getattr(b, "sides", {})
    for name in {*mine, *theirs}:
        shape = mine.get(name, theirs.get(name)).empty()
        assert_same(mine.get(name, shape), theirs.get(name, shape))
