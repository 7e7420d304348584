"""Why a row is improbable: its columns that are furthest from what its component says."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import singledispatch
from typing import Any, NamedTuple

import numpy as np

from stickbreak.families import (
    Bernoulli,
    Categorical,
    DiagonalGaussian,
    FixedVarianceGaussian,
    Gaussian,
    Poisson,
    Product,
)
from stickbreak.protocols import Array

from .drawing import number, percent
from .profiles import labels_for, variance_of
from .subject import Subject

__all__ = ["Reason", "reasons_of", "why"]

LEAST, MOST = 1.125, 3  # nats: 1.5 standard deviations; columns that are told


class Reason(NamedTuple):
    """How far an entry is from what its component says.

    nats : how much less probable it is than the most probable value, nearly
    """

    nats: float
    text: str


@singledispatch
def reasons_of(family: Any, subject: Subject, values: Array, k: int) -> list[Reason]:
    """Reasons of the columns of a row (D,) in component k; none for a family without any."""
    return []


def why(subject: Subject, values: Array, k: int) -> str:
    """The columns that make a row improbable in its component, as text; may be empty."""
    found = [r for r in reasons_of(subject.family, subject, values, k) if r.nats > LEAST]
    found.sort(key=lambda reason: -reason.nats)
    told = ", ".join(reason.text for reason in found[:MOST])
    return f"{told} from {subject.name(k)}" if told else ""


def _by_distance(subject: Subject, values: Array, mean: Array, spread: Array) -> list[Reason]:
    away = (values - mean) / spread
    return [
        Reason(z * z / 2, f"{name} {number(float(v))} ({z:+.1f} sd)".replace("-", "\u2212"))
        for name, v, z in zip(subject.columns, values, away.tolist(), strict=False)
        if math.isfinite(z)
    ]


for _cls in (Gaussian, DiagonalGaussian, FixedVarianceGaussian):

    @reasons_of.register(_cls)
    def _(family: Any, subject: Subject, values: Array, k: int) -> list[Reason]:
        posterior = subject.posterior
        return _by_distance(
            subject, values, posterior["mean"][k], np.sqrt(variance_of(posterior)[k])
        )


@reasons_of.register(Poisson)
def _(family: Any, subject: Subject, values: Array, k: int) -> list[Reason]:
    rate = subject.posterior["rate"][k]
    return _by_distance(subject, values, rate, np.sqrt(np.maximum(rate, 1e-12)))


@reasons_of.register(Bernoulli)
def _(family: Any, subject: Subject, values: Array, k: int) -> list[Reason]:
    yes = subject.posterior["probability"][k]
    return _by_table(subject, values, np.stack([1 - yes, yes], axis=1))


@reasons_of.register(Categorical)
def _(family: Any, subject: Subject, values: Array, k: int) -> list[Reason]:
    return _by_table(subject, values, subject.posterior["probability"][k])


def _by_table(subject: Subject, values: Array, table: Array) -> list[Reason]:
    """By probabilities (D, V) of the values 0, 1, ... of each column."""
    found = []
    for d, (value, p) in enumerate(zip(values.tolist(), table, strict=False)):
        if not 0 <= value < len(p):
            continue
        v, labels = int(value), labels_for(subject, d)
        own = str(labels[v]) if labels is not None and v < len(labels) else str(v)
        nats = math.log(max(float(p.max()), 1e-300) / max(float(p[v]), 1e-300))
        found.append(Reason(nats, f"{subject.columns[d]} {own} ({percent(float(p[v]))})"))
    return found


@reasons_of.register(Product)
def _(family: Any, subject: Subject, values: Array, k: int) -> list[Reason]:
    found = []
    summaries = family.member_summaries(subject.posterior)
    for (member, columns), posterior in zip(family.members, summaries, strict=True):
        at = [int(c) for c in columns]
        names = [subject.columns[c] for c in at]
        part = replace(subject, family=member, posterior=posterior, columns=names)
        found += reasons_of(member, part, values[at], k)
    return found
