"""Topics that come piece by piece: births beside the counts of documents that are gone."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import digamma
from scipy.stats import beta

import stickbreak as sb
from stickbreak.stats import Regroup, Summary
from stickbreak.structures.document.regroup import regroup_documents

N_TOPICS, N_WORDS = 4, 40


def piece(topics: tuple[int, ...], seed: int, n: int) -> np.ndarray:
    """Documents of 100 words, each of one of some topics, which have ten words of their own."""
    rng = np.random.default_rng([seed, *topics])
    words = np.full((N_TOPICS, N_WORDS), 0.01)
    for k in range(N_TOPICS):
        words[k, 10 * k : 10 * (k + 1)] = 1.0
    words /= words.sum(1, keepdims=True)
    return np.array([rng.multinomial(100, words[k]) for k in rng.choice(topics, n)])


@pytest.mark.slow
def test_a_second_topic_is_born_when_it_comes_and_known_ones_bring_none():
    first, second, more = piece((0,), 0, 10), piece((1,), 0, 10), piece((0, 1), 0, 6)
    model = sb.HDPTopicModel(random_state=0).partial_fit(first)
    ids = model.component_ids_.tolist()
    assert len(ids) == 1
    model.partial_fit(second)
    assert model.n_components_ == 2
    assert model.component_ids_[0] == ids[0]
    assert [move.is_accepted for move in model.trace_.moves if move.kind == "birth"][-1]
    ids = model.component_ids_.tolist()
    model.partial_fit(more)
    assert model.component_ids_.tolist() == ids
    seen = np.concatenate([first, second, more])
    assert model.counts_.sum() == pytest.approx(seen.sum(), rel=1e-9)
    labels = model.predict(np.concatenate([first, second]))
    assert set(labels[:10]) != set(labels[10:])
    assert len(set(labels[:10])) == len(set(labels[10:])) == 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_each_piece_may_bring_a_topic_of_its_own(seed):
    """In any order the number of topics is that of a fit of all, the bound within 1 %."""
    order = np.random.default_rng(seed).permutation(N_TOPICS)
    pieces = [piece((int(k),), 0, 60) for k in order]
    whole = sb.HDPTopicModel(random_state=0).fit(np.concatenate(pieces))
    model = sb.HDPTopicModel(random_state=0)
    for part in pieces:
        model.partial_fit(part)
    assert model.n_components_ == whole.n_components_ == N_TOPICS
    assert model.lower_bound_ == pytest.approx(whole.lower_bound_, rel=0.01)


@pytest.mark.parametrize("cls", [sb.LatentDirichletAllocation, sb.HDPTopicModel])
def test_collapsed_topics_are_updated_by_documents_that_are_seen_once(cls):
    """The bound of five pieces is within 1 % of that of a fit of all, and counts are whole."""
    pieces = [piece((0, 1, 2, 3), seed, 40) for seed in range(5)]
    whole = cls(4, inference="collapsed", random_state=0).fit(np.concatenate(pieces))
    model = cls(4, inference="collapsed", random_state=0)
    for part in pieces:
        model.partial_fit(part)
    assert model.counts_.sum() == pytest.approx(20_000, rel=1e-6)  # own counts are float32
    assert model.lower_bound_ == pytest.approx(whole.lower_bound_, rel=0.01)
    assert model.score(pieces[0]) == pytest.approx(whole.score(pieces[0]), abs=0.02)


def test_the_unused_rest_of_documents_that_are_gone_is_divided_exactly():
    """A newborn takes a Beta share of the rest: its entropy, and E[log] of both parts."""
    n, log_rest = 7.0, -50.0
    fields = sb.HDPTopicModel()._make_model(sb.Categorical(0.1, n_symbols=(2,)), {
        "concentration": 0.5, "top_concentration": 10.0, "root": "beta"
    }).prior.fields("topic")  # fmt: skip
    arrays = {
        "share": np.array([9.0]), "log_share": np.array([-3.0]), "log_rest": np.array(log_rest)
    }  # fmt: skip
    past = Summary(fields, arrays, n_units=n)
    now = {"pseudo": np.array([0.45]), "rest": 0.05}
    new, rest = 0.1, 0.02
    wanted = {"pseudo": np.array([0.38, new]), "rest": rest}
    edit, _ = regroup_documents(now, wanted, Regroup("topic", ((0,), ()), ()))
    found = edit(past)
    logs = [digamma(part) - digamma(new + rest) for part in (new, rest)]
    np.testing.assert_allclose(found["log_share"], [-3.0, log_rest + n * logs[0]], rtol=1e-12)
    assert found["log_rest"] == pytest.approx(log_rest + n * logs[1], rel=1e-12)
    # E[log pi] of both less that of their sum is the part that the priors' exponents -1 cancel
    gain = n * (beta(new, rest).entropy() - sum(logs))
    assert found.local_bound == pytest.approx(gain, rel=1e-9)
