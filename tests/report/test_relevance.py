"""Words by relevance are those of pyLDAvis for the same counts, which a file keeps.

`PYTHONPATH=tests python tests/report/test_relevance.py` writes the file anew, with pyLDAvis.
"""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from report.subjects import make_topics

from stickbreak.estimators.observed_documents import topic_values
from stickbreak.report.topics import word_data

FILE = Path(__file__).resolve().parents[1] / "golden" / "relevance_pyldavis.json"
RELEVANCES = (0.0, 0.3, 0.6, 1.0)
MOST = 12


def draw_counts():
    """(4, 60) words of topics, every one of them there."""
    rng = np.random.default_rng(0)  # the twelve first words have no ties
    return 1 + np.stack([rng.multinomial(40000, p) for p in rng.dirichlet(np.full(60, 0.4), 4)])


def ask_pyldavis(counts):
    """Words by topic and relevance. Each topic is a document, so that its words are the counts."""
    import pyLDAvis

    made = pyLDAvis.prepare(
        counts / counts.sum(1, keepdims=True), np.eye(len(counts)), counts.sum(1),
        [f"word{v}" for v in range(counts.shape[1])], counts.sum(0),
        R=MOST, lambda_step=0.1, n_jobs=1, sort_topics=False,
    )  # fmt: skip
    return {
        str(r): [made.sorted_terms(k + 1, r).Term.tolist()[:MOST] for k in range(len(counts))]
        for r in RELEVANCES
    }


def test_words_by_relevance_are_those_of_pyldavis():
    kept = json.loads(FILE.read_text(encoding="utf-8"))
    counts = np.array(kept["counts"])
    words = tuple(f"word{v}" for v in range(counts.shape[1]))
    n = len(counts)
    subject = replace(
        make_topics(), columns=list(words), weights=counts.sum(1) / counts.sum(),
        counts=counts.sum(1), ids=tuple(range(n)),
    )  # fmt: skip
    model = SimpleNamespace(
        topic_word_=counts / counts.sum(1, keepdims=True), word_concentration=0.01
    )
    given = word_data(topic_values(model, subject))
    for r in RELEVANCES:
        for k in range(n):
            rank = sorted(
                ((r * lp + (1 - r) * (lp - given["overall"][w]), given["names"][w])
                 for w, lp in given["topics"][str(k)]),
                reverse=True,
            )  # fmt: skip
            assert [word for _, word in rank[:MOST]] == kept["words"][str(r)][k]


def test_file_is_what_pyldavis_says():
    pytest.importorskip("pyLDAvis", reason="pip install pyLDAvis")
    kept = json.loads(FILE.read_text(encoding="utf-8"))
    assert kept["words"] == ask_pyldavis(np.array(kept["counts"]))


if __name__ == "__main__":
    found = {"by": f"pyLDAvis {version('pyLDAvis')}", "counts": draw_counts().tolist()}
    found["words"] = ask_pyldavis(draw_counts())
    FILE.write_text(json.dumps(found, separators=(",", ":")) + "\n", encoding="utf-8")
