"""Every unit has its own shares of the components: topic models, mixtures of grouped vectors.

q(pi_d) is a Dirichlet, and q(z_n) is computed for every word, at a joint fixed point. This is a
local optimum, so a document seen before continues from its counts. From the same counts a step
never lowers the bound, whatever the globals have become.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import digamma, gammaln, xlogy

from stickbreak.data import Batch
from stickbreak.errors import StickbreakWarning
from stickbreak.kernels.documents import infer_documents
from stickbreak.protocols import Array, Local, Out, Potentials, Revisit, SweptLane
from stickbreak.stats import Edit, Field, Fields, Regroup, Summary, WordShares

from ..base import MIN_BLOCK, BaseStructure, Division
from ..own_shares import no_shares, random_shares
from .collapsed import sweep_words
from .draws import draw_labels
from .evidence import word_evidence
from .regroup import LEAST, regroup_documents
from .rescue import rescue
from .sparse import settle_sparse

__all__ = ["Document"]

FINE = 1e-4  # convergence tolerance of documents that are not part of a fit
BLOCK_NUMBERS = 1 << 22  # size limit of a block's evidence, for evidence without a table
RESTARTS = ("tried", "accepted")  # values of documents, if there are restarts


class Found(NamedTuple):
    """Documents at their fixed points.

    shares : of the words
    log_z (S,) : the words' log normalizers, summed in each document
    own (S,) : what each document adds to the bound besides
    log_share (width + 1,) : sum of E[log pi], the rest last
    restarts (S, 2) : tried, and accepted
    """

    shares: WordShares
    log_z: Array
    own: Array
    log_share: Array
    restarts: Array


@dataclass(frozen=True)
class Document(BaseStructure):
    """Shares of a document's components, and the component of each of its words, by mean field.

    max_steps, tol : of the fixed point of a document, which ends when its counts change by less
        than tol on average
    restarts : component-removal restarts per document and visit, smallest component first; the
        better result is kept. In a fit only of documents that continue from their counts: while
        topics still move, a topic that few documents use would lose them for good
    least : smallest component, in words, worth a restart
    max_active : how many components a document may use, which it keeps; None for all
    exchanges : of those, tries per document and visit to put another in the place of the smallest
    """

    tracks = frozenset({"merge"})
    draws = labels_repeats = True
    granularities = ("word",)
    drawn_granularity = "word"
    sweeps_in_place = True
    swept_rows = math.inf
    n_sweeps = 5
    sweeps_symbols_only = draws_symbols_only = True
    least_held = LEAST
    births = (Division("units"), Division("units", 4), Division("units", 2, n_more=1))

    max_steps: int = 100
    tol: float = 1e-2
    restarts: int = 0
    least: float = 0.1
    max_active: int | None = None
    exchanges: int = 1

    def sparse(self, max_active: int | None, candidates: int | None) -> Document:
        """The same structure with at most max_active components in a document."""
        if candidates is not None:
            raise ValueError(
                f"candidates={candidates} is not for Document, whose documents keep their "
                "components; use candidates=None"
            )
        if max_active == 1:
            warnings.warn(
                "max_active=1 gives each document a single topic, which it hardly ever leaves: a "
                "mixture of documents, not a topic model; use max_active=8, for example",
                StickbreakWarning,
                stacklevel=4,
            )
        return replace(self, max_active=max_active)

    def _limit(self, potentials: Potentials) -> int | None:
        """How many components a document may use; None if all."""
        is_limit = self.max_active is not None and self.max_active < len(potentials["pseudo"])
        return self.max_active if is_limit else None

    def block_rows(self, width: int) -> int:
        """Large: a block of symbols has no features of its own."""
        return max(MIN_BLOCK, BLOCK_NUMBERS // width)

    def revisit(self, visit: Revisit) -> tuple[Summary, Fields | None, bool]:
        """Try a cold start first; keep it if the bound rises, else use the warm start.

        While topics still move, documents that continue from their counts can get stuck. Those that
        keep a few components exchange them instead.
        """
        if self.max_active is not None:
            return *visit.infer(visit.kept), True
        new, warm = visit.infer(None)
        if visit.improves(new):
            return new, warm, False
        return *visit.infer(visit.kept), True

    def cold_start(self, batch: Batch, n_components: int, axis: str) -> Fields:
        """Counts (S, K) of the documents' components. Zeros stand for the prior shares.

        With restarts also how many the last visit tried and took (S,).
        """
        counts = np.zeros((batch.n_spans, n_components))
        if not self.restarts:
            return Fields({"counts": Field(("unit", axis))}, {"counts": counts})
        layout = {"counts": Field(("unit", axis)), **dict.fromkeys(RESTARTS, Field(("unit",)))}
        none = {name: np.zeros(batch.n_spans) for name in RESTARTS}
        return Fields(layout, {"counts": counts, **none})

    def infer(self, potentials: Potentials, block: Batch, warm: Fields | None, out: Out) -> Local:
        """Shares of every word, E[log pi] of every document."""
        limit = self._limit(potentials)
        if limit is not None:
            return self._infer_sparse(potentials, block, warm, limit, out)
        start = None if warm is None else warm["counts"]
        begins = start is not None and not start.any()
        found = (replace(self, restarts=0) if begins else self)._settle(potentials, block, start)
        shares = found.shares
        if warm is not None:
            warm["counts"][...] = shares.counts[:, : shares.n_components]
            for at, name in enumerate(RESTARTS if self.restarts else ()):
                warm[name][...] = found.restarts[:, at]
        out["share"] += shares.sum(0)
        out["log_share"] += found.log_share[: shares.n_components]
        out["log_rest"] += found.log_share[-1]
        return Local(float(shares.times @ found.log_z), shares, float(shares.times @ found.own))

    def _infer_sparse(
        self, potentials: Potentials, block: Batch, warm: Fields | None, limit: int, out: Out
    ) -> Local:
        """As `infer`, within a few components of each document."""
        K = len(potentials["pseudo"])
        counts = np.zeros((block.n_spans, K)) if warm is None else warm["counts"]
        times = np.ones(block.n_spans) if block.times is None else block.times
        found = settle_sparse(
            potentials, block, limit, counts,
            max_steps=self.max_steps, tol=self.tol, n_exchanges=self.exchanges,
        )  # fmt: skip
        if (found.log_z == -np.inf).any():  # in logs, within all components
            return replace(self, max_active=None).infer(potentials, block, warm, out)
        out["share"] += times @ counts
        out["log_share"] += found.log_share[:K]
        out["log_rest"] += found.log_share[-1]
        log_z, own = float(times @ found.log_z), float(times @ found.own)
        return Local(log_z, found.shares, own, memo=(counts,))

    def _settle(self, potentials: Potentials, block: Batch, start: Array | None) -> Found:
        """The fixed point of every document, from counts (S, K)."""
        table, index, top = word_evidence(potentials, block)
        n_units, K, width = block.n_spans, len(potentials["pseudo"]), table.shape[1]
        counts, pseudo = np.zeros((n_units, width)), np.ones(width)
        pseudo[:K] = potentials["pseudo"]
        if start is not None:
            counts[:, :K] = start
        times, repeats = (
            np.ones(n_units) if block.times is None else block.times,
            block.repeats_or_ones(),
        )
        weights, scale, found = (
            np.empty((n_units, width)),
            np.empty(block.n_rows),
            np.zeros((n_units, 4)),
        )
        log_share = np.zeros(width + 1)
        assert block.offsets is not None
        infer_documents(
            table, index, repeats, block.offsets, times, pseudo, potentials["rest"], K,
            self.max_steps, self.tol,
            np.array([min(self.restarts, K), self.least]), counts, weights, scale, log_share, found,
        )  # fmt: skip
        shares = WordShares(table, index, block.offsets, weights, scale, counts, times, K)
        lost = np.flatnonzero(found[:, 0] == -np.inf)
        if len(lost):
            given = potentials, block, lost, shares, log_share, found
            shares = rescue(*given, max_steps=self.max_steps, tol=self.tol)
        units = np.repeat(np.arange(n_units), np.diff(block.offsets))
        log_z = found[:, 0] + np.bincount(units, repeats * top[index], n_units)
        return Found(shares, log_z, found[:, 1], log_share, found[:, 2:])

    def infer_best(
        self, potentials: Potentials, block: Batch, warm: Fields | None, out: Out
    ) -> Local:
        """Raise ValueError: a table of counts cannot hold a best labeling of documents."""
        raise ValueError(
            "HardEM is not for documents, whose shares are not labels; use EM, BatchVB or "
            "another engine"
        )

    def drawn_start(self, batch: Batch, n_components: int, axis: str) -> Fields:
        """Counts (S, K) of the labels of the documents' words; -1 before there are any."""
        counts = np.full((batch.n_spans, n_components), -1.0)
        return Fields({"counts": Field(("unit", axis), nonnegative=False)}, {"counts": counts})

    def infer_drawn(self, potentials: Potentials, block: Batch, uniforms: Array, out: Out) -> Local:
        """A label for each occurrence of a word, drawn given the prior's mean shares."""
        return draw_labels(
            potentials, block, word_evidence(potentials, block), None, uniforms, out
        )[0]

    def redraw(
        self, potentials: Potentials, block: Batch, warm: Fields, uniforms: Array, out: Out
    ) -> Local:
        """Labels given documents' shares, which are drawn given the last labels.

        Documents that have none yet have the prior's mean shares.
        """
        held, evidence = warm["counts"], word_evidence(potentials, block)
        given = None if (held < 0).any() else held
        local, held[...] = draw_labels(potentials, block, evidence, given, uniforms, out)
        return local

    def count(self, labels: Array, block: Batch, out: Out) -> None:
        """Words of each component. Labels do not determine E[log pi]."""
        known = labels >= 0
        weights = block.repeats_or_ones() * self._times(block)
        out["share"] += np.bincount(
            labels[known], weights=weights[known], minlength=len(out["share"])
        )

    @staticmethod
    def _times(block: Batch) -> Array:
        """(n,) weight of the document of each word."""
        assert block.offsets is not None
        return (
            np.ones(block.n_rows)
            if block.times is None
            else np.repeat(block.times, np.diff(block.offsets))
        )

    def unit_shares(self, potentials: Potentials, block: Batch) -> Array:
        """(S, K) posterior mean shares of each document, unused mass left out."""
        found = replace(self, tol=min(self.tol, FINE))._settle(potentials, block, None).shares
        theta = found.counts[:, : found.n_components] + potentials["pseudo"]
        return np.asarray(theta / theta.sum(1, keepdims=True))

    def sample(self, potentials: Potentials, block: Batch, rng: np.random.Generator) -> Array:
        """(n,) components drawn word by word from their shares."""
        shares = np.asarray(self._settle(potentials, block, None).shares).cumsum(1)
        return np.asarray((shares > (rng.random(block.n_rows) * shares[:, -1])[:, None]).argmax(1))

    def log_evidence(self, potentials: Potentials, block: Batch) -> Array:
        """(S,) lower bound on the log probability of each document, which has no closed form."""
        found, rest = (
            replace(self, tol=min(self.tol, FINE))._settle(potentials, block, None),
            float(potentials["rest"]),
        )
        prior = (
            np.append(potentials["pseudo"], rest) if rest > 0 else np.asarray(potentials["pseudo"])
        )
        counts = found.shares.counts[:, : found.shares.n_components]
        theta = np.pad(counts, ((0, 0), (0, len(prior) - counts.shape[1]))) + prior
        expected = digamma(theta) - digamma(theta.sum(1, keepdims=True))
        normalizer = gammaln(prior.sum()) - gammaln(prior).sum()
        return np.asarray(found.log_z + found.own + expected @ prior + normalizer)

    def own_counts(
        self, batch: Batch, n_components: int, axis: str, granularity: str = ""
    ) -> Fields:
        """Shares (n, K) of the words, none yet."""
        return no_shares(batch.n_rows, n_components, axis)

    def random_own(
        self,
        batch: Batch,
        n_components: int,
        axis: str,
        rng: np.random.Generator,
        legal: Array | None = None,
    ) -> Fields:
        """Uniformly random shares of every word, of the components that it may have."""
        return random_shares(batch, n_components, axis, rng, legal)

    def warm_of(self, batch: Batch, own: Fields, axis: str) -> Fields:
        """Counts (S, K) of the documents' components."""
        warm, parts = self.cold_start(batch, own.size(axis), axis), np.arange(batch.n_rows)
        words: Any = batch.repeats_or_ones(), parts, batch.offsets
        held = sparse.csr_array(words, shape=(batch.n_spans, batch.n_rows)) @ own["shares"]
        return replace(warm, arrays={**warm.arrays, "counts": np.asarray(held, dtype=float)})

    def sweep(self, lane: SweptLane) -> tuple[float, float]:
        """Every word once, given all others (CVB0); documents' posteriors follow from them."""
        return sweep_words(lane)

    def held(self, block: Batch, local: Local) -> Array:
        """(S, K) words of each component."""
        return _counts_of(local)

    def n_missed(
        self,
        prepare: Callable[[Any], Any],
        potentials: Potentials,
        raw: Batch,
        local: Local,
        n_rows: int,
    ) -> tuple[int, float]:
        """Missed: words of the checked documents that would go to components they do not use."""
        if not local.memo:
            return 0, 0.0
        assert raw.offsets is not None
        n_units = max(1, int(np.searchsorted(raw.offsets, n_rows, "right")) - 1)
        some = raw.part(0, n_units)
        kept = local.memo[0][:n_units]
        found = self._settle(potentials, some.with_rows(prepare(some.rows)), kept).shares
        counts = found.counts[:, : found.n_components]
        return round(float(counts.sum())), float(counts[kept == 0].sum())

    def regroup(
        self, tables: Mapping[str, Any], wanted: Mapping[str, Any], how: Regroup
    ) -> tuple[Edit, Mapping[str, Any]] | None:
        """Prior counts are dealt out anew. None without an unused rest: newborns have no shares."""
        return regroup_documents(tables, wanted, how)

    def merge_terms(
        self,
        potentials: Potentials,
        block: Batch,
        local: Local,
        pairs: Array,
        out: Out,
    ) -> None:
        """Gain (M,), and log_share (M,): E[log pi] of each pair as one component.

        The gain is the change of the words' entropy and of the documents' own part. All are sums
        over components, so merges of different pairs do not interact.
        """
        (a, b), shares, counts = pairs.T, local.shares, _counts_of(local)
        pseudo = np.asarray(potentials["pseudo"])
        times = np.ones(block.n_spans) if block.times is None else block.times
        total = digamma(counts.sum(1) + pseudo.sum() + potentials["rest"])[:, None]

        def own(n: Array, p: Array) -> Array:
            """What a component adds to the documents' own part."""
            return np.asarray(times @ (gammaln(n + p) - p * (digamma(n + p) - total)))

        both, both_pseudo = counts[:, a] + counts[:, b], pseudo[a] + pseudo[b]
        out["gain"] += (
            own(both, both_pseudo) - own(counts[:, a], pseudo[a]) - own(counts[:, b], pseudo[b])
        )
        out["log_share"] += times @ (digamma(both + both_pseudo) - total)
        x, y = shares[:, a], shares[:, b]
        out["gain"] += (xlogy(x, x) + xlogy(y, y) - xlogy(x + y, x + y)).sum(0)


def _counts_of(local: Local) -> Array:
    """(S, K) words of each component in documents that were inferred."""
    shares = local.shares
    if isinstance(shares, WordShares):
        return shares.counts[:, : shares.n_components]
    return np.asarray(local.memo[0])
