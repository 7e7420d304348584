"""Topics of newsgroups: the figures of `ap_topics` on messages with many words that training never
has.
"""

from __future__ import annotations

from .ap_topics import draw, follow, row
from .corpora import read_news
from .frame import Experiment, seeds

PEERS = {
    "LDA, K=50": "scikit-learn, batch, 25 passes: -8.516 / -8.507, 19 CPU s; collapsed Gibbs "
    "(tomotopy, 300 sweeps): "
    "-8.328 / -8.318, 9.4 CPU s",
    "LDA, K=50, stochastic, 8 passes": "scikit-learn, online: -8.522 / -8.547, 8.0 CPU s; gensim: "
    "-8.515 / -8.520, 11 CPU s",
    "HDP, births, merges and deletes from 1": "tomotopy, collapsed Gibbs: 16 topics, -8.475 / "
    "-8.474, 13 CPU s",
}


def run() -> Experiment:
    """One seed."""
    split = read_news()
    runs = [follow(split, seed) for seed in seeds(1)]
    rows = [row(name, [run[name] for run in runs], split, PEERS.get(name, "")) for name in runs[0]]
    setting = (
        f"{split.train.shape[0]:,} messages, {split.train.sum():,.0f} words, "
        f"V={split.train.shape[1]:,}; {len(split.test)} held "
        "out. Settings and score as for the news of the Associated Press."
    )
    best = runs[0]["HDP, births, merges and deletes from 1"][0]
    return Experiment(
        "Topics of newsgroups", setting, rows, "", draw(best, split.words, "news_topics")
    )
