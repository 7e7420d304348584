"""Documents: each unit has its own shares of the components, found by a fixed point that starts
where its last visit ended.

q(shares of unit d) = Dirichlet(counts_d + pseudo, rest): pseudo are prior counts of the components,
rest is the prior mass of all components not in use. log_share sums E[log share] over units,
log_rest that of the remainder.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import digamma, expit, gammaln, logit

from stickbreak.data import Batch
from stickbreak.priors import BasePrior
from stickbreak.protocols import Local
from stickbreak.stats import Compose, Field, Fields, Insert, LinearFiller, Summary
from stickbreak.structures import BaseStructure, row_evidence

from .chain import to_linear

Array = np.ndarray
TINY = 1e-8  # stick fractions stay inside (TINY, 1 - TINY): digamma of zero is infinite


# ------------------------------------------------------------------------------------------- priors


@dataclass(frozen=True)
class FiniteTopics(BasePrior):
    """Each unit's shares ~ Dirichlet(concentration / K)."""

    concentration: float = 1.0

    def fields(self, axis: str) -> dict[str, Field]:
        return {
            "log_share": Field((axis,), nonnegative=False, merge="tracked"),
            "log_rest": Field((), nonnegative=False),
        }

    def zeros(self, n_components: int) -> dict[str, Array]:
        return {"log_share": np.zeros(n_components), "log_rest": np.zeros(())}

    def start(self, n_components: int, axis: str) -> Fields:
        return Fields({}, {})

    def pseudo(self, params: Fields, n_components: int) -> tuple[Array, float]:
        """Prior counts (K,) of each component, and of those not in use."""
        return np.full(n_components, self.concentration / n_components), 0.0

    def potentials(self, counts: Any, params: Fields, rule: Any) -> dict[str, Any]:
        """Documents make their own log potentials; these names are no count fields, so nothing is
        paired with them.
        """
        pseudo, rest = self.pseudo(params, len(counts["log_share"]))
        return {"pseudo": pseudo, "rest": rest}

    def update(self, total: Summary, params: Fields) -> Fields:
        return params

    def bound(self, total: Summary, params: Fields) -> float:
        """Sum over units of E[log Dirichlet(shares | pseudo, rest)], without the -1 that q's own
        density cancels.
        """
        pseudo, rest = self.pseudo(params, len(total["log_share"]))
        normalizer = (
            gammaln(pseudo).sum()
            - gammaln(self.concentration)
            + (gammaln(rest) if rest > 0 else 0.0)
        )
        return float(
            pseudo @ total["log_share"] + rest * total["log_rest"] - total.n_units * normalizer
        )

    def log_mode(self, total: Summary, params: Fields) -> float:
        raise NotImplementedError("documents have no EM objective here")

    def sizes(self, counts: Any) -> Array:
        return np.asarray(counts["emission"]).sum(0)

    def mean(self, counts: Any, params: Fields) -> Array:
        pseudo, _ = self.pseudo(params, len(counts["log_share"]))
        return pseudo / pseudo.sum()

    def predictive(self, counts: Any, params: Fields) -> dict[str, Any]:
        return {"pseudo": self.concentration * self.mean(counts, params), "rest": 0.0}


@dataclass(frozen=True)
class RestTopics(FiniteTopics):
    """Units share one set of mean shares, the parameter `root` (K,), which leaves a remainder;
    sticks ~ Beta(1, decay).
    """

    decay: float = 2.0

    def start(self, n_components: int, axis: str) -> Fields:
        return Fields(
            {"root": Field((axis,))}, {"root": np.full(n_components, 1.0 / (n_components + 1))}
        )

    def pseudo(self, params: Fields, n_components: int) -> tuple[Array, float]:
        return self.concentration * params["root"], self.concentration * (
            1.0 - float(params["root"].sum())
        )

    def bound(self, total: Summary, params: Fields) -> float:
        """Also the log prior of the sticks, as a density of their logits."""
        left = 1.0 - np.r_[0.0, params["root"].cumsum()[:-1]]
        u = params["root"] / left
        sticks = float((np.log(self.decay) + np.log(u) + self.decay * np.log1p(-u)).sum())
        return super().bound(total, params) + sticks

    def update(self, total: Summary, params: Fields) -> Fields:
        """A few quasi-Newton steps on the sticks' logits; the old value stays when they find no
        better one.
        """
        n_units, size = total.n_units, max(total.n_units, 1.0)

        def at(u: Array) -> Fields:
            return replace(params, arrays={"root": u * np.r_[1.0, np.cumprod(1.0 - u)[:-1]]})

        def loss(x: Array) -> tuple[float, Array]:
            u = np.clip(expit(x), TINY, 1.0 - TINY)
            tried = at(u)
            pseudo, rest = self.pseudo(tried, len(u))
            mass, log_mass = np.r_[pseudo, rest], np.r_[total["log_share"], total["log_rest"]]
            pulled = mass * (log_mass - n_units * digamma(mass))
            later = pulled[::-1].cumsum()[::-1][1:]
            slope = (1.0 + pulled[:-1]) * (1.0 - u) - (self.decay + later) * u
            return -self.bound(total, tried) / size, -slope / size

        left = 1.0 - np.r_[0.0, params["root"].cumsum()[:-1]]
        found = minimize(
            loss, logit(params["root"] / left), jac=True, method="L-BFGS-B", options={"maxiter": 5}
        )
        tried = at(np.clip(expit(found.x), TINY, 1.0 - TINY))
        return tried if self.bound(total, tried) > self.bound(total, params) else params


class FixedRoot(RestTopics):
    """The root stays where it is."""

    def update(self, total: Summary, params: Fields) -> Fields:
        return params


# ---------------------------------------------------------------- new components, cut from the rest


@dataclass(frozen=True)
class Constant:
    """A filler that is the same everywhere: a parameter has no units to count."""

    value: float

    def __call__(self, fields: Fields) -> float:
        return self.value


@dataclass(frozen=True)
class AddBound:
    """Adds per_unit * n_units to the local bound of a Summary: what units gain when their q gets
    new entries.
    """

    per_unit: float

    def __call__(self, fields: Any) -> Any:
        if not isinstance(fields, Summary):
            return fields
        return replace(fields, local_bound=fields.local_bound + self.per_unit * fields.n_units)

    def rename(self, ids: tuple[int, ...], fresh: int) -> tuple[int, ...]:
        return ids


def cut_from_rest(
    prior: RestTopics, params: Fields, axis: str, share: float, count: int
) -> Compose:
    """The edit that gives `count` new components `share` each of the remainder, in every unit's q
    as in the prior.

    A unit's remainder r becomes (r w_1, ..., r w_J, r w_0) with w ~ Dirichlet(masses), the same for
    all units: E[log r w_j] = E[log r] + constant, so the fillers are linear and the edited total is
    the sum of the edited batches. The local bound gains the entropy of w, a constant for each unit.
    When the unit's q had the remainder at today's mass, the new q is again the Dirichlet of the
    file's first lines.
    """
    _, rest = prior.pseudo(params, params.size(axis))
    masses = np.r_[
        np.full(count, prior.concentration * share), rest - count * prior.concentration * share
    ]
    shift = digamma(masses) - digamma(rest)
    gained = gammaln(masses).sum() - gammaln(rest) - masses @ shift
    fill = {
        "log_share": LinearFiller(float(shift[0]), {"log_rest": 1.0}),
        "log_rest": LinearFiller(float(shift[-1]), {"log_rest": 1.0}),
        "root": Constant(share),
    }
    return Compose((Insert(axis, count, fill), AddBound(float(gained))))


# ------------------------------------------------------------------------------------ the structure


class Unit(NamedTuple):
    """One unit's fixed point: shares (n, K) times repeats, counts (K,), and its parts of
    the bound.
    """

    shares: Array
    counts: Array
    log_z: float
    own_bound: float
    log_share: Array
    log_rest: float


@dataclass(frozen=True)
class Document(BaseStructure):
    """Mean-field step of every unit. repeats: how often each word occurs in its unit."""

    tracks = frozenset({"merge"})
    has_best = True

    max_steps: int = 30
    tolerance: float = 1e-6

    def cold_start(self, batch: Batch, n_components: int, axis: str) -> Fields:
        """Each unit's words, shared out evenly."""
        words = np.array(
            [batch.repeats_or_ones()[lo:hi].sum() for lo, hi in pairwise(batch.offsets)]
        )
        return Fields(
            {"counts": Field(("unit", axis))},
            {"counts": np.repeat(words[:, None] / n_components, n_components, 1)},
        )

    def infer(
        self, potentials: Any, block: Batch, warm: Fields | None, out: dict[str, Array]
    ) -> Local:
        return self._infer(potentials, block, warm, out, lambda weights: weights)

    def infer_best(
        self, potentials: Any, block: Batch, warm: Fields | None, out: dict[str, Array]
    ) -> Local:
        best_alone = lambda weights: (
            weights * (np.arange(weights.shape[1]) == weights.argmax(1)[:, None])
        )
        return self._infer(potentials, block, warm, out, best_alone)

    def _infer(
        self, potentials: Any, block: Batch, warm: Fields | None, out: dict[str, Array], choose: Any
    ) -> Local:
        evidence, top = to_linear(row_evidence(potentials, block))
        repeats, starts = block.repeats_or_ones(), self._starts(block, warm, evidence.shape[1])
        shares, log_z, own_bound = np.empty_like(evidence), float(repeats @ top), 0.0
        for d, (lo, hi) in enumerate(pairwise(block.offsets)):
            unit = self._unit(potentials, evidence[lo:hi], repeats[lo:hi], starts[d], choose)
            shares[lo:hi], starts[d] = unit.shares, unit.counts
            log_z, own_bound = log_z + unit.log_z, own_bound + unit.own_bound
            out["log_share"] += unit.log_share
            out["log_rest"] += unit.log_rest
        return Local(log_z, shares, own_bound, memo=(starts, repeats))

    def _starts(self, block: Batch, warm: Fields | None, n_components: int) -> Array:
        return (
            self.cold_start(block, n_components, "")["counts"] if warm is None else warm["counts"]
        )

    def _unit(
        self, potentials: Any, evidence: Array, repeats: Array, counts: Array, choose: Any
    ) -> Unit:
        pseudo, rest = potentials["pseudo"], potentials["rest"]
        total = digamma(repeats.sum() + pseudo.sum() + rest)
        for _ in range(self.max_steps):
            used, before = digamma(counts + pseudo) - total, counts
            weights = choose(np.exp(used) * evidence)
            normalizer = weights.sum(1)
            shares = weights * (repeats / normalizer)[:, None]
            counts = shares.sum(0)
            if np.abs(counts - before).max() < self.tolerance:
                break
        log_share = digamma(counts + pseudo) - total
        own = (gammaln(counts + pseudo) - pseudo * log_share).sum() - gammaln(
            counts.sum() + pseudo.sum() + rest
        )
        log_rest = digamma(rest) - total if rest > 0 else 0.0
        own += gammaln(rest) - rest * log_rest if rest > 0 else 0.0
        return Unit(
            shares,
            counts,
            float(repeats @ np.log(normalizer)),
            float(own - counts @ used),
            log_share,
            float(log_rest),
        )

    def count(self, labels: Array, block: Batch, out: dict[str, Array]) -> None:
        """Shares of units are no function of labels alone; the first visit finds them."""

    def log_evidence(self, potentials: Any, block: Batch) -> Array:
        """(units,) a lower bound: the sum over all labellings has no closed form."""
        pseudo, rest = potentials["pseudo"], potentials["rest"]
        normalizer = (
            gammaln(pseudo).sum()
            + (gammaln(rest) if rest > 0 else 0.0)
            - gammaln(pseudo.sum() + rest)
        )
        found = []
        for d in range(block.n_spans):
            out = self._empty(potentials)
            local = self.infer(potentials, block.part(d, d + 1).alone(), None, out)
            found.append(
                local.log_z
                + local.own_bound
                + pseudo @ out["log_share"]
                + rest * out["log_rest"]
                - normalizer
            )
        return np.array(found)

    def decode(self, potentials: Any, block: Batch) -> Array:
        return self.infer_best(potentials, block, None, self._empty(potentials)).shares.argmax(1)

    best = decode

    def sample(self, potentials: Any, block: Batch, rng: np.random.Generator) -> Array:
        shares = self.infer(potentials, block, None, self._empty(potentials)).shares
        return (
            shares.cumsum(1) < rng.random(len(shares))[:, None] * shares.sum(1, keepdims=True)
        ).sum(1)

    @staticmethod
    def _empty(potentials: Any) -> dict[str, Array]:
        return {"log_share": np.zeros(len(potentials["pseudo"])), "log_rest": np.zeros(())}

    def merge_terms(
        self, potentials: Any, block: Batch, local: Local, pairs: Array, out: dict[str, Array]
    ) -> None:
        """gain: entropy of the words and the units' own part; log_share: value of the merged entry.
        Two merges do not interact.
        """
        counts, repeats = local.memo
        pseudo, rest = potentials["pseudo"], potentials["rest"]
        total = digamma(counts.sum(1) + pseudo.sum() + rest)[:, None]
        part = lambda n, p: (gammaln(n + p) - p * (digamma(n + p) - total)).sum(0)
        a, b = pairs.T
        both, both_pseudo = counts[:, a] + counts[:, b], pseudo[a] + pseudo[b]
        out["gain"] += (
            part(both, both_pseudo) - part(counts[:, a], pseudo[a]) - part(counts[:, b], pseudo[b])
        )
        out["log_share"] += (digamma(both + both_pseudo) - total).sum(0)
        r = local.shares / repeats[:, None]
        for p, (k, j) in enumerate(pairs):
            words = [repeats @ _cells(x) for x in (r[:, k] + r[:, j], r[:, k], r[:, j])]
            out["gain"][p] += words[0] - words[1] - words[2]


def _cells(r: Array) -> Array:
    return -r * np.log(np.where(r > 0, r, 1.0))
