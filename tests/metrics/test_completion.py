"""The held-out score of topic models against the published procedure, word by word."""

from __future__ import annotations

import numpy as np
import pytest
import threadpoolctl
from scipy import sparse
from scipy.special import psi
from topics import corpus

import stickbreak as sb
from stickbreak.data import Documents
from stickbreak.metrics import completion
from stickbreak.metrics.completion import Topics, document_completion, score_completion
from stickbreak.stats import SERIAL

TRAIN, HELD = corpus(0, 60, 40, 4, 50), corpus(0, 90, 40, 4, 50)[60:]
MODELS = {
    "lda": sb.LatentDirichletAllocation(4, random_state=0),
    "hdp": sb.HDPTopicModel(random_state=0),
    # nine is no multiple of the width of vectors
    "em": sb.LatentDirichletAllocation(
        9, concentration=2.0, inference=sb.EM(tol=1e-2), random_state=0
    ),
}


def by_the_book(phi, m, counts, a, numbers) -> float:
    """The score as it is written down: one document, one word, one step after another."""
    total, n_scored = 0.0, 0.0
    for d, line in zip(numbers, counts, strict=True):
        types = [v for v in range(len(line)) if line[v] > 0]
        n = len(types)
        if n < 5:
            continue
        p = np.random.RandomState(d).permutation(n)
        n_b = max(1, round(0.2 * n))
        known, held = [types[i] for i in p[n_b:]], [types[i] for i in p[:n_b]]
        gamma = a + sum(line[v] for v in known) * m
        for _ in range(100):
            new = np.array(a, dtype=float)
            for v in known:
                r = np.exp(psi(gamma)) * phi[:, v]
                new += line[v] * r / r.sum()
            change, gamma = np.mean(np.abs(new - gamma)), new
            if change < 1e-4:
                break
        pi = gamma / gamma.sum()
        for v in held:
            total += line[v] * np.log(sum(pi[k] * phi[k, v] for k in range(len(pi))))
            n_scored += line[v]
    return total / n_scored


def parts_of(model):
    used = model.counts_ > 0
    phi = np.maximum(model.topic_word_[used], 1e-12)
    return phi, model.counts_[used] / model.counts_[used].sum()


@pytest.mark.few(1)
@pytest.mark.parametrize("name", MODELS)
def test_score_is_the_published_one(name):
    model = MODELS[name].fit(TRAIN)
    phi, m = parts_of(model)
    wanted = by_the_book(phi, m, HELD, np.full(len(m), 0.1), range(len(HELD)))
    # both end their steps at the same one; what is left is the rounding of sums
    assert model.score(HELD) == pytest.approx(wanted, rel=1e-9)
    assert model.score(sparse.csr_array(HELD)) == model.score(HELD)
    assert model.perplexity(HELD) == pytest.approx(np.exp(-wanted), rel=1e-9)


def test_other_priors_and_numbers_are_those_of_the_published_figures():
    model = sb.LatentDirichletAllocation(4, random_state=0).fit(TRAIN)
    phi, m = parts_of(model)
    numbers = [7 * d + 3 for d in range(len(HELD))]
    found = score_completion(
        Documents.from_counts(HELD), Topics.of(model.topic_word_, model.counts_), SERIAL,
        prior=10.0 * m, numbers=numbers,
    )  # fmt: skip
    assert found == pytest.approx(by_the_book(phi, m, HELD, 10.0 * m, numbers), rel=1e-9)


def test_short_documents_are_left_out():
    model = sb.LatentDirichletAllocation(4, random_state=0).fit(TRAIN)
    short = np.zeros((3, 40))
    short[:, :4] = 9.0
    assert model.score(np.concatenate([HELD, short])) == model.score(HELD)
    with pytest.raises(ValueError, match="no document has 5 distinct words"):
        model.score(short)


def test_documents_of_a_tiny_vocabulary_are_scored():
    """No document can have five of three words; two are enough, one to learn from."""
    counts = np.array([[3, 2, 0], [0, 4, 1], [0, 0, 5]] * 10)
    model = sb.LatentDirichletAllocation(1).fit(counts)
    phi = model.topic_word_[0]
    held = [[[0, 1], [1, 2], [2]][d % 3] for d in range(30)]
    picked = [
        (d, types[np.random.RandomState(d).permutation(2)[0]])
        for d, types in enumerate(held)
        if len(types) == 2
    ]
    weights = np.array([counts[d, v] for d, v in picked])
    wanted = weights @ np.log([phi[v] for _, v in picked]) / weights.sum()
    assert model.score(counts) == pytest.approx(wanted, rel=1e-12)
    with pytest.raises(ValueError, match="no document has 2 distinct words"):
        model.score(counts[2:3])


def test_occurrences_of_a_word_go_together():
    """A hundred times as many of every word leave the split as it is."""
    model = sb.LatentDirichletAllocation(1).fit(TRAIN)  # no shares to learn
    assert model.score(100 * HELD) == pytest.approx(model.score(HELD), rel=1e-12)


def test_threads_and_parts_change_nothing(monkeypatch):
    model = sb.LatentDirichletAllocation(4, random_state=0).fit(TRAIN)
    whole = model.score(HELD)
    monkeypatch.setattr(completion, "PART", 4)
    parts = model.score(HELD)
    assert parts == pytest.approx(whole, rel=1e-13)  # sums of sums
    model.n_jobs = 2
    assert model.score(HELD) == parts


def test_scores_run_where_fits_run(monkeypatch):
    """BLAS has one thread meanwhile, so that results do not depend on the machine."""
    seen = []
    plain = completion._score

    def watched(*arguments):
        seen.extend(
            lib["num_threads"]
            for lib in threadpoolctl.threadpool_info()
            if lib["user_api"] == "blas"
        )
        return plain(*arguments)

    monkeypatch.setattr(completion, "_score", watched)
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        sb.LatentDirichletAllocation(2, random_state=0).fit(TRAIN).score(HELD)
    assert seen
    assert set(seen) == {1}


def test_topics_of_any_tool_are_scored_as_a_model_scores_itself():
    texts = [[f"w{v:02d}" for v in np.repeat(np.arange(40), line)] for line in HELD.astype(int)]
    words = [f"w{v:02d}" for v in range(40)]
    model = sb.LatentDirichletAllocation(4, random_state=0).fit(TRAIN)
    topics = model.topic_word_.tolist(), model.counts_.tolist()
    wanted = pytest.approx(model.score(HELD), rel=1e-12)
    assert document_completion(*topics, HELD) == wanted
    assert document_completion(*topics, texts, words=words, n_jobs=2) == wanted
    # an empty topic is left out, with its prior
    phi, m = np.vstack([model.topic_word_, np.eye(1, 40)]), np.r_[model.counts_, 0.0]
    assert document_completion(phi, m, HELD, prior=[0.1] * 4 + [0.0]) == wanted


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"topic_word": np.ones((2, 40))}, "topic 0 of topic_word has a sum of 40"),
        ({"topic_word": np.full((2, 40), np.nan)}, "topic 0 of topic_word has a sum of nan"),
        ({"topic_word": np.ones(40)}, r"topic_word has shape \(40,\) and weights \(2,\)"),
        ({"weights": [1.0]}, r"topic_word has shape \(2, 40\) and weights \(1,\)"),
        ({"weights": [0.0, 0.0]}, "some must be positive"),
        ({"weights": [-1.0, 2.0]}, "weights must not be negative"),
        ({"prior": 0.0}, "prior must be a positive count of each topic; got 0.0"),
        ({"prior": [0.1] * 3}, r"prior has shape \(3,\); give one number, or \(2,\)"),
        ({"words": ["a"]}, "words has 1 names but topic_word has 40 columns"),
        ({"numbers": [1]}, "numbers has 1 seeds for 30 documents"),
        ({"documents": HELD[:, :3]}, "X has 3 features, but topic_word is expecting 40"),
    ],
)
def test_topics_that_cannot_be_scored_are_refused(change, message):
    given = {"topic_word": np.full((2, 40), 1 / 40), "weights": [1.0, 1.0], "documents": HELD}
    with pytest.raises(ValueError, match=message):
        document_completion(**(given | change))
