"""Documents that keep their posteriors while topics that they hold nothing of come and go.

q(pi_d) is a Dirichlet. Of a topic without words in d it has the prior's count only, the same in all
such documents, so these counts can be dealt out anew among such topics and the unused rest, for all
documents at once: as long as their sum stays, nothing else changes. The words that they do hold,
at most `LEAST` each, are counted to first order; the next is below rounding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import digamma, gammaln, zeta

from stickbreak.protocols import Array
from stickbreak.stats import Regroup, Summary

__all__ = ["LEAST", "RegroupDocuments", "regroup_documents"]

LEAST = 1e-6  # words of a topic up to which a document may keep its posterior when it is divided


def trigamma(x: float) -> float:
    """Derivative of digamma."""
    return float(zeta(2.0, x))


@dataclass(frozen=True)
class RegroupDocuments:
    """Regroups counts of documents, with their E[log pi] and their own part of the bound.

    pseudo (K,), rest : prior counts of the documents before; new, new_rest : after
    """

    how: Regroup
    pseudo: Array
    rest: float
    new: Array
    new_rest: float

    def __call__(self, fields: Any) -> Any:
        """The edited Fields; a Summary with its part of the bound."""
        found = self.how(fields)
        if not isinstance(fields, Summary):
            return found
        n, words = fields.n_units, fields["share"]
        log_share, log_rest = found["log_share"].copy(), fields["log_rest"]
        gain = self.rest * log_rest - n * gammaln(self.rest)
        for k in self.how.taken:
            gain += self.pseudo[k] * fields["log_share"][k] - n * gammaln(self.pseudo[k])
        for i in self.how.free:
            source, v = self.how.sources[i], self.new[i]
            if source:  # first order in its words, of which there are next to none
                k, a = source[0], self.pseudo[source[0]]
                rise = n * (digamma(v) - digamma(a)) + words[k] * (trigamma(v) - trigamma(a))
                log_share[i] = fields["log_share"][k] + rise
                gain += words[k] * (digamma(v) - digamma(a))
            else:
                log_share[i] = log_rest + n * (digamma(v) - digamma(self.rest))
            gain += n * gammaln(v) - v * log_share[i]
        log_rest = log_rest + n * (digamma(self.new_rest) - digamma(self.rest))
        gain += n * gammaln(self.new_rest) - self.new_rest * log_rest
        arrays = {**found.arrays, "log_share": log_share, "log_rest": np.asarray(log_rest)}
        return replace(found, arrays=arrays, local_bound=found.local_bound + float(gain))

    def rename(self, ids: tuple[int, ...], fresh: int) -> tuple[int, ...]:
        """As of the components."""
        return self.how.rename(ids, fresh)


def regroup_documents(
    tables: Mapping[str, Any], wanted: Mapping[str, Any], how: Regroup
) -> tuple[RegroupDocuments, Mapping[str, Any]] | None:
    """See `BaseStructure.regroup`. None without an unused rest, which newborns are cut from."""
    pseudo, rest = np.asarray(tables["pseudo"], dtype=float), float(tables["rest"])
    if rest <= 0:
        return None
    free, wish = list(how.free), np.asarray(wanted["pseudo"], dtype=float)
    if not how.taken:
        # Newborns and the new rest divide the old one by a Dirichlet of their own, as the root
        # wants it, independent of the rest's share: so nothing need be known of that.
        rest = float(wish[free].sum() + wanted["rest"])
    total = pseudo[list(how.taken)].sum() + rest
    scale = total / (wish[free].sum() + float(wanted["rest"]))
    kept = np.array([pseudo[source[0]] if source else 0.0 for source in how.sources])
    kept[free] = scale * wish[free]
    new_rest = scale * float(wanted["rest"])
    edit = RegroupDocuments(how, pseudo, rest, kept, new_rest)
    return edit, {"pseudo": kept, "rest": new_rest}
