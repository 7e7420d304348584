"""Small corpora, topic models of them, and their bound with every share of every word held."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import digamma, gammaln, xlogy

from stickbreak.data import Documents
from stickbreak.families import Categorical
from stickbreak.inference import Start
from stickbreak.models import hdp_topics, lda

N_SYMBOLS = 12
MODELS = {"lda": lda, "hdp": hdp_topics}


def corpus(
    seed: int = 0,
    n_documents: int = 20,
    n_symbols: int = N_SYMBOLS,
    n_topics: int = 3,
    tokens: int = 30,
) -> np.ndarray:
    """(S, V) counts of documents that mix a few topics."""
    rng = np.random.default_rng(seed)
    topics, shares = (
        rng.dirichlet(np.full(n_symbols, 0.2), n_topics),
        rng.dirichlet(np.full(n_topics, 0.3), n_documents),
    )
    return rng.multinomial(tokens, shares @ topics)


def make_model(kind: str, n_symbols: int = N_SYMBOLS, concentration: float = 0.4, **settings):
    return MODELS[kind](Categorical(0.2, n_symbols=(n_symbols,)), concentration, **settings)


def random_start(model, n_components: int, n_symbols: int = N_SYMBOLS, seed: int = 0) -> Start:
    """Random counts of every topic's words."""
    table = np.random.default_rng(seed).gamma(0.5, 2.0, (n_symbols, n_components))
    seed_counts = model.zeros(n_components)
    arrays = {
        **seed_counts.arrays,
        "emission": table,
        "emission_total": table.sum(0)[None],
        "share": table.sum(0),
    }
    return Start(replace(seed_counts, arrays=arrays, n_units=1.0), model.start_params(n_components))


def plain_bound(
    model, documents: Documents, shares: np.ndarray, prior_of_documents: np.ndarray, params
) -> float:
    """The bound of shares (n, K), their documents' posteriors made with prior counts (K + 1,) or
    (K,); topics at their best.
    """
    K = shares.shape[1]
    pseudo = model.prior.pseudo(params, K)
    now = np.append(pseudo.topics, pseudo.rest) if pseudo.rest else pseudo.topics
    c, symbols, value = documents.repeats, documents.rows[:, 0], 0.0
    emission = np.zeros((model.family.n_symbols[0], K))
    np.add.at(emission, symbols, shares * c[:, None])
    for s in range(documents.n_spans):
        at = slice(documents.offsets[s], documents.offsets[s + 1])
        counts = c[at] @ shares[at]
        theta = prior_of_documents + (np.append(counts, 0.0) if pseudo.rest else counts)
        log_share = digamma(theta) - digamma(theta.sum())
        value += (
            counts @ log_share[:K]
            + gammaln(theta).sum()
            - gammaln(theta.sum())
            + (now - theta) @ log_share
        )
        if not pseudo.rest:
            value += gammaln(now.sum()) - gammaln(now).sum()
    value -= (c[:, None] * xlogy(shares, shares)).sum()
    a, V = model.family.concentration, len(emission)
    value += (gammaln(emission + a) - gammaln(a)).sum() - (
        gammaln(emission.sum(0) + V * a) - gammaln(V * a)
    ).sum()
    if pseudo.rest:  # normalizers of the documents' priors are the root's
        groups = model.prior._groups(float(documents.n_spans), params)
        value += model.prior._root().bound(params["root"], groups)
    return float(value)
