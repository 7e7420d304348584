"""The root's surrogate bound: how tight it is, and what it says of components that nobody uses."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import digamma, gammaln, polygamma

from stickbreak.priors import BetaRoot, PointRoot, Term, TopicGroups

from .frame import Experiment, Row, save_picture, seeds, span

CONCENTRATIONS = (0.01, 0.1, 0.5, 1.0, 5.0, 50.0)
SIZES = (1, 2, 5, 10, 20, 50, 100, 200)
TOP = 10.0
DOCUMENTS, TOKENS, TOPICS, EXTRA = 100, 100, 10, (1, 2, 3)


def prior_sticks(n_topics: int) -> np.ndarray:
    """(K,) means of the sticks under the prior."""
    return np.full(n_topics, 1.0 / (1.0 + TOP))


def both(n_topics: int, concentration: float) -> tuple[float, float]:
    """A document's log normalizer at the prior's mean shares, exact and as the surrogate
    bounds it.
    """
    u = prior_sticks(n_topics)
    passed = np.cumprod(1.0 - u)
    shares = np.append(u * np.r_[1.0, passed[:-1]], passed[-1])
    groups = TopicGroups(concentration, np.eye(n_topics + 1)[n_topics])
    found = groups.surrogate(n_topics)
    bound = (
        found.constant + found.ones @ np.log(u) + found.zeros @ np.log1p(-u) + found.linear @ shares
    )
    return groups.normalizers(shares).value, float(bound)


def draw_counts(seed: int) -> np.ndarray:
    """(D, K) tokens of each document in each topic, every topic in use."""
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(TOPICS, 2.0))
    return np.array(
        [rng.multinomial(TOKENS, rng.dirichlet(0.5 * shares + 1e-6)) for _ in range(DOCUMENTS)],
        dtype=float,
    )


def document_term(counts: np.ndarray, concentration: float) -> Any:
    """What documents at their optimum add as a function of the root's shares b: log-partitions of
    Dirichlet(counts + c b).
    """

    def term(b: np.ndarray) -> Term:
        theta = np.pad(counts, ((0, 0), (0, 1))) + concentration * b
        total = theta.sum(1)
        slope = concentration * (digamma(theta) - digamma(total)[:, None]).sum(0)
        curvature = concentration**2 * polygamma(1, theta).sum(0)
        return Term(float(gammaln(theta).sum() - gammaln(total).sum()), slope, curvature)

    return term


def objective(root: Any, counts: np.ndarray, extra: int, concentration: float = 0.5) -> float:
    """The best value for given labels with so many topics that no token uses."""
    size = counts.shape[1] + extra
    term = document_term(np.pad(counts, ((0, 0), (0, extra))), concentration)
    groups = TopicGroups(concentration, len(counts) * np.eye(size + 1)[size])
    mean = np.append(counts.sum(0) / counts.sum() * size / (size + 1), np.zeros(extra))
    for _ in range(8):
        mean = root.solve(mean, groups, term)
    return float(root.bound(mean, groups) + term(root.shares(mean)).value)


def changes(root: Any, counts: np.ndarray) -> list[float]:
    """What 1, 2, 3 empty topics change."""
    without = objective(root, counts, 0)
    return [objective(root, counts, extra) - without for extra in EXTRA]


def draw(found: dict[str, np.ndarray]) -> str:
    """Exact normalizers and their bounds over the number of topics; what empty topics change, one
    line a seed.
    """
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    for i, concentration in enumerate(CONCENTRATIONS):
        values = np.array([both(size, concentration) for size in SIZES])
        left.plot(SIZES, values[:, 0], color=f"C{i}", label=f"{concentration:g}")
        left.plot(SIZES, values[:, 1], "--", color=f"C{i}")
    left.set(
        xscale="log",
        yscale="symlog",
        xlabel="topics",
        ylabel="log normalizer (nats)",
        title="Exact (line), bound (dashes)",
    )
    left.legend(title="concentration", fontsize=8)
    for i, (name, lines) in enumerate(found.items()):
        for j, line in enumerate(lines):
            right.plot(
                [0, *EXTRA], [0.0, *line], "o-", color=f"C{i}", alpha=0.5, label=None if j else name
            )
    right.axhline(0, color="0.5", linestyle=":")
    right.set(
        xticks=[0, *EXTRA],
        xlabel="empty topics",
        ylabel="change of the objective (nats)",
        title="Labels fixed, 10 topics in use",
    )
    right.legend()
    return save_picture(figure, "surrogate")


def run() -> Experiment:
    """The gap by concentration, and ten sets of documents with fixed labels."""
    gaps = {
        c: [exact - bound for exact, bound in (both(size, c) for size in SIZES)]
        for c in CONCENTRATIONS
    }
    assert min(min(gap) for gap in gaps.values()) > -1e-9, "the surrogate must lie below"
    documents = [draw_counts(seed) for seed in seeds(10)]
    roots = {"Beta posterior, surrogate": BetaRoot(TOP), "point estimate": PointRoot(TOP)}
    found = {
        name: np.array([changes(root, counts) for counts in documents])
        for name, root in roots.items()
    }
    rows = [
        Row(
            f"gap of the surrogate, concentration {c:g}: 1, 10, 200 topics",
            ", ".join(f"{gap[SIZES.index(size)]:.4f}" for size in (1, 10, 200)),
            "indistinguishable" if c < 1 else "",
        )
        for c, gap in gaps.items()
    ]
    other, sticks = (
        "own prototype, other documents: {}",
        "own prototype: {} with a density of sticks instead of shares",
    )
    numbers = {
        "Beta posterior, surrogate": [
            other.format(change) for change in ("-3.45", "-6.76", "-10.03")
        ],
        "point estimate": [sticks.format(change) for change in ("+2.30", "+4.61", "+6.91")],
    }
    signs = {"Beta posterior, surrogate": "falls", "point estimate": "rises"}
    rows += [
        Row(
            f"{name}: change by {extra} empty topic{'s' if extra > 1 else ''}",
            span(found[name][:, i], 2),
            signs[name],
            numbers[name][i],
        )
        for name in roots
        for i, extra in enumerate(EXTRA)
    ]
    text = (
        "Log normalizer of a document's Dirichlet at the prior's mean shares (top "
        f"concentration {TOP:g}) against its "
        f"lower bound. Then {DOCUMENTS} documents of {TOKENS} tokens with fixed labels in {TOPICS} "
        "topics, concentration 0.5: the "
        "objective at its best root, with empty topics and without; ten draws."
    )
    words = (
        "The bound of a Beta posterior pays for every empty topic, that of a point estimate is "
        "paid for it: only the first can "
        "choose how many there are. The gap grows with the concentration: above about 1 the "
        "surrogate is loose."
    )
    return Experiment("The surrogate bound", text, rows, words, draw(found))
