"""Where fits of topics begin: clusters of documents, or collapsed sweeps from random shares.

Five seeds. Loss is minus the bound per word; completion as `score` has it, in nats per word.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import stickbreak as sb

from .corpora import Split, completion, read_ap, read_news
from .frame import Experiment, Row, seeds, span

SWEEPS = 100


def plan(size: int) -> dict[str, Any]:
    """What is fitted, by name."""
    sweeps = sb.CollapsedVB(max_iter=SWEEPS, tol=0.0)
    steps = sb.StochasticCollapsedVB(max_iter=8)
    lda = sb.LatentDirichletAllocation
    return {
        "variational Bayes from documents": lda(size, init="documents"),
        "120 collapsed sweeps, then variational Bayes": lda(size, init="collapsed"),
        f"{SWEEPS} collapsed sweeps alone": lda(size, init="local", inference=sweeps),
        "stochastic collapsed, 8 passes": lda(size, init="local", inference=steps),
    }


def fit(model: Any, split: Split, seed: int) -> tuple[float, float, float]:
    """Loss, completion, CPU seconds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sb.ConvergenceWarning)
        began = time.process_time()
        model.set_params(random_state=seed).fit(split.train)
        seconds = time.process_time() - began
    return -model.lower_bound_ / split.train.sum(), completion(model, split)[0], seconds


def rows_of(name: str, split: Split, size: int) -> list[Row]:
    """One corpus."""
    rows = []
    for what, model in plan(size).items():
        loss, score, seconds = zip(*(fit(model, split, s) for s in seeds(5)), strict=True)
        ours = f"loss {span(loss, 3)}, completion {span(score, 3)}, {span(seconds, 1)} CPU s"
        rows.append(Row(f"{name}: {what}", ours))
        print(f"{rows[-1].what}: {ours}", flush=True)
    return rows


def run() -> Experiment:
    """Two corpora."""
    ap, news = read_ap(), read_news()
    rows = rows_of("AP, K=50", ap, 50) + rows_of("20 newsgroups, K=50", news, 50)
    setting = (
        "Latent Dirichlet allocation with 50 topics, prior counts 0.1 (documents) and 0.1 (words); "
        f"AP {ap.train.shape[0]:,} documents, newsgroups {news.train.shape[0]:,} messages; five "
        "seeds, one thread of a busy machine; smallest and largest figures. Samplers beside: Topic "
        "models and peers."
    )
    return Experiment("Starts of topic models", setting, rows)
