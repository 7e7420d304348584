"""What sets a component apart, in the terms of its family."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Any

import numpy as np

from stickbreak.families import (
    AutoregressiveGaussian,
    Bernoulli,
    Categorical,
    DiagonalGaussian,
    FixedVarianceGaussian,
    Gaussian,
    Multinomial,
    Poisson,
    Product,
    ZeroMeanGaussian,
)
from stickbreak.protocols import Array

from .subject import Subject

__all__ = [
    "Profile", "columns_to_check", "has_spread", "labels_for", "profile_of", "variance_of",
]  # fmt: skip

FLOOR = 1e-12
MOST_CHECKED = 60  # columns that are compared with draws, of wide tables
UP, DOWN = "\u2191", "\u2193"
MOST_ASPECTS = 2000  # kept of a long vocabulary, the most telling


@dataclass(frozen=True)
class Profile:
    """How far components are from the average of all.

    aspects : (P,) what is compared: columns, categories, words
    values : (K, P) distances: standard deviations, or logs of ratios
    kind : (P,) "sd" or "ratio"
    telling : (P,) how much an aspect tells components apart
    """

    aspects: tuple[str, ...]
    values: Array
    kinds: tuple[str, ...]
    telling: Array

    def words(self, k: int, most: int = 3) -> str:
        """What sets a component apart, as text."""
        size = np.abs(self.values[k])
        order = [p for p in np.argsort(-size, kind="stable")[:most] if size[p] > 0.05]
        return ", ".join(self.phrase(k, p) for p in order) or "like the average of all"

    def phrase(self, k: int, p: int) -> str:
        """One aspect of a component."""
        value = float(self.values[k, p])
        if self.kinds[p] == "sd":
            return f"{self.aspects[p]} {UP if value > 0 else DOWN} {abs(value):.1f} sd"
        return f"{self.aspects[p]} \u00d7 {_ratio(value)}"

    def cell(self, k: int, p: int) -> str:
        """The same for a table."""
        value = float(self.values[k, p])
        if self.kinds[p] == "sd":
            return f"{round(value, 1) + 0.0:+.1f}".replace("-", "\u2212").replace("+0.0", "0.0")
        return f"\u00d7 {_ratio(value)}"


def _ratio(log_value: float) -> str:
    value = float(np.exp(np.clip(log_value, -20, 20)))
    return f"{value:.0f}" if value >= 9.5 else f"{value:.1f}" if value >= 0.95 else f"{value:.2f}"


@singledispatch
def profile_of(family: Any, subject: Subject) -> Profile | None:
    """Profile of the components; None for a family that registered nothing."""
    return None


for _cls in (Gaussian, DiagonalGaussian, FixedVarianceGaussian):

    @profile_of.register(_cls)
    def _(family: Any, subject: Subject) -> Profile | None:
        posterior = subject.posterior
        mean, variance = posterior["mean"], variance_of(posterior)
        return _deviations(subject, mean, variance, subject.columns)


@profile_of.register(AutoregressiveGaussian)
def _(family: Any, subject: Subject) -> Profile | None:
    posterior = subject.posterior
    mean = posterior["context_mean"]
    variance = np.diagonal(posterior["context_covariance"], axis1=1, axis2=2)
    names = [f"before: {name}" for name in subject.columns[-mean.shape[1] :]]
    return _deviations(subject, mean, variance, names) if len(names) == mean.shape[1] else None


@profile_of.register(ZeroMeanGaussian)
def _(family: Any, subject: Subject) -> Profile | None:
    variance = variance_of(subject.posterior)
    return _ratios(subject, np.sqrt(variance), [f"spread of {c}" for c in subject.columns])


@profile_of.register(Poisson)
def _(family: Any, subject: Subject) -> Profile | None:
    return _ratios(subject, subject.posterior["rate"], subject.columns)


@profile_of.register(Bernoulli)
@profile_of.register(Multinomial)
def _(family: Any, subject: Subject) -> Profile | None:
    return _ratios(subject, subject.posterior["probability"], subject.columns)


@profile_of.register(Categorical)
def _(family: Any, subject: Subject) -> Profile | None:
    probability = subject.posterior["probability"]
    K = len(probability)
    tables, names = [], []
    for d, n in enumerate(family.n_symbols):
        own = subject.columns[d] if d < len(subject.columns) else str(d)
        labels = labels_for(subject, d)
        labels = range(n) if labels is None else labels
        alone = len(family.n_symbols) == 1
        names += [str(v) if alone else f"{own} = {v}" for v in list(labels)[:n]]
        tables.append(probability[:, d, :n])
    joined = np.concatenate(tables, axis=1)
    if joined.shape[1] != len(names):
        names = [str(v) for v in range(joined.shape[1])]
    return _ratios(subject, joined.reshape(K, -1), names)


@profile_of.register(Product)
def _(family: Any, subject: Subject) -> Profile | None:
    found = []
    summaries = family.member_summaries(subject.posterior)
    for (member, columns), posterior in zip(family.members, summaries, strict=True):
        names = [subject.columns[int(c)] for c in columns]
        part = replace(subject, family=member, posterior=posterior, columns=names)
        own = profile_of(member, part)
        found += [] if own is None else [own]
    if not found:
        return None
    return Profile(
        tuple(name for own in found for name in own.aspects),
        np.concatenate([own.values for own in found], axis=1),
        tuple(kind for own in found for kind in own.kinds),
        np.concatenate([own.telling for own in found]),
    )


def labels_for(subject: Subject, d: int) -> Sequence[Any] | None:
    """Names of the categories of a column; None for numbers, and for symbols without names."""
    if d < len(subject.columns) and subject.columns[d] in subject.labels_of:
        return subject.labels_of[subject.columns[d]]
    known = list(subject.labels_of.values())
    return known[d] if len(known) == len(subject.columns) else None


def columns_to_check(subject: Subject, n: int) -> Array:
    """Positions of the columns, of n, whose fit is looked at: of many, those that tell most."""
    profile = profile_of(subject.family, subject) if n > MOST_CHECKED else None
    if n <= MOST_CHECKED or profile is None or len(profile.telling) != n:
        return np.arange(min(n, MOST_CHECKED))
    return np.sort(np.argsort(-profile.telling, kind="stable")[:MOST_CHECKED])


def has_spread(posterior: Any) -> bool:
    """Whether components have variances."""
    return "variance" in posterior or "covariance" in posterior


def variance_of(posterior: Any) -> Array:
    """(K, D) variances of the columns within components."""
    if "variance" in posterior:
        return np.asarray(posterior["variance"])
    return np.diagonal(posterior["covariance"], axis1=1, axis2=2)


def _deviations(subject: Subject, mean: Array, variance: Array, names: Any) -> Profile:
    """Means in standard deviations of all rows."""
    weights = _weights(subject)
    center = weights @ mean
    spread = np.sqrt(np.maximum(weights @ (variance + (mean - center) ** 2), FLOOR))
    values = (mean - center) / spread
    telling = weights @ values**2
    return Profile(tuple(map(str, names)), values, ("sd",) * len(telling), telling)


def _ratios(subject: Subject, amounts: Array, names: Any) -> Profile:
    """Logs of ratios to the average; rare aspects count less, so that they do not come first."""
    weights = _weights(subject)
    center = np.maximum(weights @ amounts, FLOOR)
    values = np.log(np.maximum(amounts, FLOOR) / center)
    telling = weights @ (np.maximum(amounts, FLOOR) * values - amounts + center)
    names = tuple(map(str, names))
    if len(names) > MOST_ASPECTS:
        keep = np.sort(np.argsort(-telling, kind="stable")[:MOST_ASPECTS])
        names, values = tuple(names[p] for p in keep), values[:, keep]
        telling, amounts, center = telling[keep], amounts[:, keep], center[keep]
    return Profile(names, values, ("ratio",) * len(names), telling)


def _weights(subject: Subject) -> Array:
    """(K,) shares of the rows of the fit; empty components count nothing."""
    held = np.where(subject.counts >= 1.0, subject.counts, 0.0)
    return held / held.sum() if held.sum() > 0 else np.asarray(subject.weights)
