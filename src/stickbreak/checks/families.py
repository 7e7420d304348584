"""The battery that every family must pass."""

from __future__ import annotations

from typing import Any

import numpy as np

from stickbreak.data import Table, is_sparse, measure
from stickbreak.families.base import BaseFamily, BaseScores
from stickbreak.protocols import Array
from stickbreak.stats import Fields, SparseShares

from .requirements import FAMILY, SCORES, defines, require_methods

__all__ = ["check_family"]


def check_family(family: Any, rows: Any, *, n_components: int = 3, seed: int = 0) -> None:
    """Check a family on some rows; an AssertionError says what fails.

    It must define what `BaseFamily` says; what it leaves to the base class is not checked.

    Three laws: the derivative of log_marginal along a row's statistic is its mean_log evidence; its
    difference is the log_mean evidence; the derivative of log_mode is the mode evidence.

    Statistics add up, merge by axis name and pair with the potentials, also for sparse shares.
    Divergences are those of smoothed means. Samples and summaries have the right shapes. Learned
    priors (`learn`) never make the counts less probable, and can be transferred.

    A family that accepts missing entries must treat them as `family.missing` says. A row without
    entries has no evidence and no statistics. An entry that is left out keeps all laws, and its
    term is missing from the evidence. An entry that is completed is integrated out, and adds its
    expected statistics.

    Parameters
    ----------
    family : the family; open priors are set from the rows.
    rows : array or CSR (n, D), n at least 4, complete.
    n_components, seed : for the random counts at which the laws are checked.

    Examples
    --------
    >>> import numpy as np, stickbreak as sb
    >>> from stickbreak.checks import check_family
    >>> check_family(sb.Poisson(), np.random.default_rng(0).poisson(3.0, (20, 2)))
    """
    require_methods(family, BaseFamily, FAMILY)
    family = family.resolve(measure(Table(rows)))
    for rule in ("mean_log", "log_mean", "mode"):
        require_methods(getattr(family, rule)(family.zeros(1)), BaseScores, SCORES)
    rng = np.random.default_rng(seed)
    n = int(rows.shape[0])
    shares = rng.dirichlet(np.ones(n_components), n)
    counts = _collect(family, rows, shares, n_components)
    for i in rng.choice(n, min(n, 4), replace=False):
        _check_laws(family, counts, rows[i : i + 1], n_components)
    _check_sums(family, rows, shares, counts, n_components)
    _check_pairing(family, rows, shares, counts)
    _check_merge(family, rows, shares, counts, n_components)
    _check_sparse(family, rows, counts, n_components, rng)
    _check_divergence(family, rows)
    _check_readers(family, counts, n_components, rng)
    if family.can_learn:
        _check_learning(family, counts)
    if family.missing != "refused":
        whole = np.asarray(rows.toarray() if is_sparse(rows) else rows, dtype=float)
        _check_nothing(family, counts, np.full_like(whole[:1], np.nan), n_components)
        if family.missing == "exact":
            _check_left_out(family, whole, shares, n_components, rng)
        if family.missing == "completed" and whole.shape[1] > 1:
            _check_completed(family, whole, counts, shares, n_components, rng)


def _collect(family: Any, rows: Any, shares: Array, n_components: int) -> dict[str, Array]:
    counts = family.zeros(n_components)
    family.mean_log(family.zeros(n_components)).collect(
        family.prepare(rows), np.asfortranarray(shares), counts
    )
    return dict(counts)


def _plus(
    family: Any, counts: dict[str, Array], row: Any, weight: float, n_components: int
) -> dict[str, Array]:
    more = {name: array.copy() for name, array in counts.items()}
    family.mean_log(counts).collect(family.prepare(row), np.full((1, n_components), weight), more)
    return more


def _check_laws(family: Any, counts: dict[str, Array], row: Any, n_components: int) -> None:
    prepared, h = family.prepare(row), 1e-4
    for value, rule in (("log_marginal", "mean_log"), ("log_mode", "mode")):
        f = getattr(family, value)
        at = {
            step: f(_plus(family, counts, row, step, n_components))
            for step in (-h, -h / 2, h / 2, h)
        }
        slope = (8 * (at[h / 2] - at[-h / 2]) - (at[h] - at[-h])) / (6 * h)
        found = getattr(family, rule)(counts).evidence(prepared)[0]
        # tolerance: rounding of the values over the step of the extrapolated differences
        _assert_close(slope, found, 1e-6, f"the derivative of {value} must be the {rule} evidence")
    difference = family.log_marginal(
        _plus(family, counts, row, 1.0, n_components)
    ) - family.log_marginal(counts)
    found = family.log_mean(counts).evidence(prepared)[0]
    _assert_close(
        difference, found, 1e-8, "the difference of log_marginal must be the log_mean evidence"
    )


def _check_sums(
    family: Any, rows: Any, shares: Array, counts: dict[str, Array], n_components: int
) -> None:
    half = int(rows.shape[0]) // 2
    first = _collect(family, rows[:half], shares[:half], n_components)
    second = _collect(family, rows[half:], shares[half:], n_components)
    additive = {name for name, field in family.fields("component").items() if field.additive}
    for name in additive:
        _assert_close(
            first[name] + second[name], counts[name], 1e-9, f"{name} must add up over rows"
        )


def _check_pairing(family: Any, rows: Any, shares: Array, counts: dict[str, Array]) -> None:
    scores, prepared = family.mean_log(counts), family.prepare(rows)
    evidence = scores.evidence(prepared)
    assert evidence.shape == shares.shape, (
        f"evidence has shape {evidence.shape}; expected {shares.shape}"
    )
    assert evidence.T.flags.c_contiguous, "the transpose of evidence must be C-contiguous"
    _assert_close(
        scores.pair(counts),
        float((shares * evidence).sum()),
        1e-8,
        "pair must be the sum of shares * evidence",
    )


def _check_sparse(
    family: Any, rows: Any, counts: dict[str, Array], n_components: int, rng: np.random.Generator
) -> None:
    scores, prepared, n = family.mean_log(counts), family.prepare(rows), int(rows.shape[0])
    index = rng.permuted(np.tile(np.arange(n_components, dtype=np.int32), (n, 1)), axis=1)[
        :, : max(1, n_components - 1)
    ]
    few = SparseShares(
        rng.dirichlet(np.ones(index.shape[1]), n), np.ascontiguousarray(index), n_components
    )
    found, expected = family.zeros(n_components), family.zeros(n_components)
    family.mean_log(found).collect(prepared, few, found)
    family.mean_log(expected).collect(prepared, np.asarray(few), expected)
    for name in found:
        _assert_close(
            found[name],
            expected[name],
            1e-10,
            f"{name} of SparseShares must be that of the dense table",
        )
    evidence = scores.evidence(prepared)
    chosen = np.take_along_axis(evidence, few.index, axis=1)
    _assert_close(
        scores.evidence_at(prepared, few.index),
        chosen,
        1e-9,
        "evidence_at must be the evidence of those components",
    )
    rough, scale = scores.rough(prepared), max(1.0, float(np.abs(evidence).max()))
    apart = (rough - rough[:, :1]) - (evidence - evidence[:, :1])
    _assert_close(
        apart / scale,
        np.zeros_like(apart),
        1e-3,
        "rough evidence must differ from evidence by a constant of each row",
    )


def _check_merge(
    family: Any, rows: Any, shares: Array, counts: dict[str, Array], n_components: int
) -> None:
    merged = Fields(family.fields("component"), counts).merge("component", 0, 1)
    joined = np.delete(shares, 1, axis=1)
    joined[:, 0] += shares[:, 1]
    expected = family.log_marginal(_collect(family, rows, joined, n_components - 1))
    _assert_close(
        family.log_marginal(merged),
        expected,
        1e-8,
        "merged counts must be the counts of merged shares",
    )


def _check_divergence(family: Any, rows: Any) -> None:
    n = min(int(rows.shape[0]), 6)
    own = _collect(family, rows[:n], np.eye(n), n)
    means = family.smoothed_mean(own)
    between = family.bregman(means, means)
    assert (between > -1e-9).all(), f"a divergence is negative: {between.min()}"
    _assert_close(
        np.diag(between), np.zeros(n), 1e-9, "the divergence of a mean from itself must be zero"
    )
    found = family.divergence(family.prepare(rows[:n]), 1)
    _assert_close(found, between[:, 1], 1e-8, "divergence must be that of the rows' smoothed means")


def _check_readers(
    family: Any, counts: dict[str, Array], n_components: int, rng: np.random.Generator
) -> None:
    if defines(family, BaseFamily, "sample"):
        labels = np.arange(n_components).repeat(2)
        drawn = family.sample(counts, labels, rng)
        assert len(drawn) == len(labels), f"sample gave {len(drawn)} rows for {len(labels)} labels"
    assert family.draws == defines(family, BaseFamily, "draw"), (
        f"draws is {family.draws}; it must say whether there is a method `draw`"
    )
    if family.draws:
        require_methods(family.draw(counts, rng), BaseScores, SCORES)
    for name, value in family.describe(counts).items():
        assert len(value) == n_components, (
            f"describe()[{name!r}] must have the component axis first"
        )
        assert np.isfinite(value).all(), f"describe()[{name!r}] is not finite"


def _check_learning(family: Any, counts: dict[str, Array]) -> None:
    learned = family.learn(counts)
    before, after = (
        float(family.log_marginal(counts).sum()),
        float(learned.log_marginal(counts).sum()),
    )
    assert after >= before, f"learn must not lower the sum of log_marginal: {before} became {after}"
    again = family.with_hyperparameters(learned.hyperparameters())
    same = np.array_equal(again.log_marginal(counts), learned.log_marginal(counts))
    assert same, "with_hyperparameters(hyperparameters()) must give the learned family back"


# ---------------------------------------------------------------------------------- missing entries


def _check_nothing(
    family: Any, counts: dict[str, Array], nothing: Array, n_components: int
) -> None:
    prepared = family.prepare(nothing)
    for rule in ("mean_log", "log_mean", "mode"):
        _assert_close(
            getattr(family, rule)(counts).evidence(prepared),
            0.0,
            1e-9,
            f"a missing row must have no {rule} evidence",
        )
    after = family.log_marginal(_plus(family, counts, nothing, 1.0, n_components))
    _assert_close(after, family.log_marginal(counts), 1e-9, "a missing row must not count")


def _check_left_out(
    family: Any, rows: Array, shares: Array, n_components: int, rng: np.random.Generator
) -> None:
    partly = np.where(rng.random(rows.shape) < 0.3, np.nan, rows)
    counts = _collect(family, partly, shares, n_components)
    for i in rng.choice(len(rows), min(len(rows), 4), replace=False):
        _check_laws(family, counts, partly[i : i + 1], n_components)
    _check_sums(family, partly, shares, counts, n_components)
    _check_pairing(family, partly, shares, counts)
    _check_merge(family, partly, shares, counts, n_components)
    for rule in ("mean_log", "log_mean", "mode"):
        scores, total = getattr(family, rule)(counts), np.zeros((1, n_components))
        for d in range(rows.shape[1]):
            alone = np.where(np.arange(rows.shape[1]) == d, rows[:1], np.nan)
            total += scores.evidence(family.prepare(alone))
        whole = scores.evidence(family.prepare(rows[:1]))
        _assert_close(
            total,
            whole,
            1e-9,
            f"the {rule} evidence of a row must be the sum over its columns alone",
        )


def _check_completed(
    family: Any,
    rows: Array,
    counts: dict[str, Array],
    shares: Array,
    n_components: int,
    rng: np.random.Generator,
) -> None:
    partly = np.where(rng.random(rows.shape) < 0.3, np.nan, rows)
    collected = _collect(family, partly, shares, n_components)
    _check_sums(family, partly, shares, collected, n_components)
    _check_merge(family, partly, shares, collected, n_components)
    for d in range(rows.shape[1]):
        hole = rows[:1].copy()
        hole[:, d] = np.nan
        dense, log_step = _fill_densely(rows, d)
        for rule in ("mean_log", "log_mean", "mode"):
            scores = getattr(family, rule)(counts)
            log_mass = scores.evidence(family.prepare(dense)) + log_step[:, None]
            integral = np.logaddexp.reduce(log_mass, axis=0)
            found = scores.evidence(family.prepare(hole))[0]
            _assert_close(
                found,
                integral,
                1e-6,
                f"a missing entry must be integrated over in the {rule} evidence",
            )
            if rule != "log_mean":  # its moments need not exist
                expected, completed = _zeros_like(family, counts), _zeros_like(family, counts)
                scores.collect(
                    family.prepare(dense), np.asfortranarray(np.exp(log_mass - integral)), expected
                )
                scores.collect(family.prepare(hole), np.ones((1, n_components)), completed)
                for name, value in completed.items():
                    _assert_close(
                        value,
                        expected[name],
                        1e-6,
                        f"{name} must be what is expected of a missing entry under {rule}",
                    )


def _fill_densely(rows: Array, column: int, n_points: int = 400) -> tuple[Array, Array]:
    """The first row with many values in a column, and their log weights.

    The values are x = mean + sd tan(pi t / 2), with weights by Gauss-Legendre in t.
    """
    at, weight = np.polynomial.legendre.leggauss(n_points)
    width, dense = rows[:, column].std() + 1e-3, np.repeat(rows[:1], n_points, axis=0)
    dense[:, column] = rows[:, column].mean() + width * np.tan(0.5 * np.pi * at)
    return dense, np.log(weight * 0.5 * np.pi * width / np.cos(0.5 * np.pi * at) ** 2)


def _zeros_like(family: Any, counts: dict[str, Array]) -> dict[str, Array]:
    layout = family.fields("component")
    return {
        name: np.zeros_like(array) if layout[name].additive else array
        for name, array in counts.items()
    }


def _assert_close(found: Any, expected: Any, tolerance: float, what: str) -> None:
    """Assert equality within tolerance times the larger of 1 and the value."""
    gap = np.abs(np.asarray(found) - expected) / np.maximum(1.0, np.abs(expected))
    assert gap.size == 0 or gap.max() <= tolerance, f"{what}: off by {gap.max():.2e}"
