"""Documents that keep their posteriors while topics that they hold nothing of come and go.

q(pi_d) is a Dirichlet. Of a topic without words in d it has the prior's count only, the same in all
such documents, so these counts can be dealt out anew among such topics and the unused rest, for all
documents at once: as long as their sum stays, nothing else changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import digamma, gammaln

from stickbreak.protocols import Array
from stickbreak.stats import Regroup, Summary

__all__ = ["RegroupDocuments", "regroup_documents"]


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
        taken, free, n = list(self.how.taken), list(self.how.free), fields.n_units
        old_log = np.append(fields["log_share"][taken], fields["log_rest"])
        old, new = (
            np.append(self.pseudo[taken], self.rest),
            np.append(self.new[free], self.new_rest),
        )
        new_log = fields["log_rest"] + n * (digamma(new) - digamma(self.rest))
        gain = n * (gammaln(new).sum() - gammaln(old).sum()) - new @ new_log + old @ old_log
        log_share = found["log_share"].copy()
        log_share[free] = new_log[:-1]
        arrays = {**found.arrays, "log_share": log_share, "log_rest": np.asarray(new_log[-1])}
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
    total = pseudo[list(how.taken)].sum() + rest
    scale = total / (wish[free].sum() + float(wanted["rest"]))
    kept = np.array([pseudo[source[0]] if source else 0.0 for source in how.sources])
    kept[free] = scale * wish[free]
    new_rest = scale * float(wanted["rest"])
    edit = RegroupDocuments(how, pseudo, rest, kept, new_rest)
    return edit, {"pseudo": kept, "rest": new_rest}
