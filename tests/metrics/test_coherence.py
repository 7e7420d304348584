"""Coherence of topics against its definition, pair by pair."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy import sparse
from topics import corpus

import stickbreak as sb
from stickbreak.metrics import npmi_coherence

COUNTS = corpus(0, 60, 40, 4, 50)
WORDS = [f"w{v:02d}" for v in range(COUNTS.shape[1])]
TEXTS = [[WORDS[v] for v in np.repeat(np.arange(len(WORDS)), line)] for line in COUNTS.astype(int)]
TOPICS = [[0, 1, 2, 3], [10, 3, 7], [39, 0]]


def by_the_book(topic: list[int]) -> float:
    scores = []
    for i, j in combinations(topic, 2):
        has_i, has_j = COUNTS[:, i] > 0, COUNTS[:, j] > 0
        both = (has_i & has_j).mean()
        assert 0 < both < 1 or both == 0
        pmi = np.log(both / (has_i.mean() * has_j.mean())) if both else None
        scores.append(-1.0 if pmi is None else pmi / -np.log(both))
    return float(np.mean(scores))


def test_coherence_is_its_definition() -> None:
    wanted = [by_the_book(topic) for topic in TOPICS]
    assert npmi_coherence(TOPICS, COUNTS) == pytest.approx(wanted, rel=1e-12)


def test_documents_come_in_every_form(tmp_path) -> None:
    wanted, named = npmi_coherence(TOPICS, COUNTS), [[WORDS[v] for v in t] for t in TOPICS]
    bags = [[(v, int(c)) for v, c in enumerate(line) if c] for line in COUNTS]
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(" ".join(text) for text in TEXTS))
    for documents in (sparse.csr_array(COUNTS), bags):
        assert npmi_coherence(TOPICS, documents).tolist() == wanted.tolist()
    for documents in (TEXTS, path, sb.read_corpus(path)):
        assert npmi_coherence(named, documents).tolist() == wanted.tolist()
    assert npmi_coherence(named, COUNTS, words=WORDS).tolist() == wanted.tolist()


def test_top_words_of_a_model_can_be_scored() -> None:
    model = sb.LatentDirichletAllocation(4, random_state=0).fit(TEXTS)
    found = npmi_coherence(model.top_words(5), TEXTS)
    mixed = npmi_coherence([WORDS[::8], WORDS[3::8]], TEXTS)
    assert found.shape == (4,)
    assert found.mean() > mixed.mean()


def test_limits_are_minus_one_nought_and_one() -> None:
    documents = [["a", "b", "all", "each"], ["a", "b", "all", "each"], ["c", "all", "each"]]
    topics = [["a", "b"], ["a", "c"], ["all", "each"], ["a", "lacks"]]
    found = npmi_coherence(topics, documents)
    assert found == pytest.approx([1.0, -1.0, 0.0, -1.0], abs=1e-12)  # logarithms, by rounding


@pytest.mark.parametrize(
    ("topics", "message"),
    [
        ([["w01"]], "topic 0 must be a list of at least two words"),
        ([["w01", "w02"], "w01"], "topic 1 must be a list of at least two words; got 'w01'"),
        ([["w01", "w02", "w01"]], "topic 0 has the word 'w01' twice"),
        ([[1, 2]], "topic 0 has 1, but the documents have words by name"),
        ([["x", "y"]], "the documents have none of the topics' words"),
    ],
)
def test_topics_that_cannot_be_scored_are_refused(topics, message) -> None:
    with pytest.raises(ValueError, match=message):
        npmi_coherence(topics, TEXTS)


def test_names_need_documents_with_names() -> None:
    for topic in (["w01", "w02"], [0, 40]):
        with pytest.raises(ValueError, match="by number, 0 to 39; give the names as words="):
            npmi_coherence([topic], COUNTS)
