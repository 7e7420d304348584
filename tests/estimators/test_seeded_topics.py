"""Seed words: topics that own some words, in fits, answers, files and moves."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import sparse

import stickbreak as sb
from stickbreak.data import Documents
from stickbreak.inference import MeanLog
from stickbreak.reading import words_of_topics
from stickbreak.structures.document.evidence import word_evidence

KINDS = (
    ["cat", "dog", "fur", "paw"],
    ["oven", "pan", "salt", "soup"],
    ["ball", "fans", "goal", "team"],
    ["rain", "snow", "sun", "wind"],
)
WORDS = sorted({word for kind in KINDS for word in kind} | {"of", "the"})
SEEDS = {2: ["cat", "dog"], 0: ["salt"], 1: ["goal", "salt"]}
LEGAL = {"cat": [2], "dog": [2], "salt": [0, 1], "goal": [1]}
ENGINES = {
    "batch": "batch",
    "memoized": sb.MemoizedVB(n_batches=3),
    "collapsed": "collapsed",
    "em": "em",
    "stochastic": sb.StochasticVB(max_iter=5, batch_size=20),
}


def draw_documents(n: int, seed: int = 0) -> list[list[str]]:
    """Two kinds of words in each document, and two words that all have."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(n):
        a, b = rng.choice(len(KINDS), 2, replace=False)
        words = [*rng.choice(KINDS[a], 12), *rng.choice(KINDS[b], 6), *rng.choice(["the", "of"], 4)]
        found.append([str(word) for word in words])
    return found


X = draw_documents(80)
COUNTS = np.array([[page.count(word) for word in WORDS] for page in X])


def make(kind=sb.LatentDirichletAllocation, n=5, **more):
    return kind(n, **({"seeds": SEEDS, "random_state": 0} | more))


def fit(model, X=X):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sb.StickbreakWarning)  # few laps
        return model.fit(X)


def illegal(model) -> float:
    """Expected words in topics that are closed to them."""
    counts = model.components_ - model.family_.concentration
    return sum(
        counts[k, WORDS.index(word)]
        for word, topics in LEGAL.items()
        for k in range(len(counts))
        if k not in topics
    )


@pytest.mark.covering
@pytest.mark.parametrize("kind", [sb.LatentDirichletAllocation, sb.HDPTopicModel])
@pytest.mark.parametrize("name", ENGINES)
def test_seed_words_have_their_topics_only(kind, name):
    model = fit(make(kind, inference=ENGINES[name]))
    assert illegal(model) == pytest.approx(0.0, abs=1e-9)  # differences of counts and prior
    assert model.component_ids_[:3].tolist() == [0, 1, 2]
    top = [{WORDS[v] for v in np.argsort(-model.topic_word_[k])[:4]} for k in range(3)]
    assert top[2] >= {"cat", "dog"}
    assert "goal" in top[1]
    pets, alone = model.transform([["cat"] * 20])[0], model.transform([["goal"] * 20])[0]
    assert pets.argmax() == 2
    assert alone.argmax() == 1


@pytest.mark.parametrize("init", ["random", "local", "collapsed"])
def test_every_start_has_the_seeds(init):
    assert illegal(fit(make(init=init))) == pytest.approx(0.0, abs=1e-9)
    sampled = fit(make(init="local", inference=sb.CollapsedVB(max_iter=3)))
    assert illegal(sampled) == pytest.approx(0.0, abs=1e-9)


def test_topics_begin_with_the_documents_of_their_seeds():
    """Clusters are numbered by seed words, so that whole kinds get the numbers asked for."""
    for shift in range(4):
        seeds = {(k + shift) % 4: kind[0] for k, kind in enumerate(KINDS)}
        model = fit(make(n=4, seeds=seeds))
        found = [
            int(model.topic_word_[:, [WORDS.index(w) for w in kind]].sum(1).argmax())
            for kind in KINDS
        ]
        assert found == [(k + shift) % 4 for k in range(4)]


@pytest.mark.parametrize("n_components", [4, 9])
def test_moves_leave_seeded_topics_alone(n_components):
    model = fit(make(sb.HDPTopicModel, n_components))
    moves = [record for record in model.trace_.moves if record.is_accepted]
    touched = {i for record in moves for i in record.parents}
    assert not touched & {0, 1, 2}
    assert model.component_ids_[:3].tolist() == [0, 1, 2]
    assert illegal(model) == pytest.approx(0.0, abs=1e-9)
    assert "No move may touch ids 0, 1 and 2" in model.explain_moves()


@pytest.mark.slow
def test_births_find_topics_beside_the_seeded_one():
    model = fit(make(sb.HDPTopicModel, 2, seeds={0: ["cat", "dog"]}))
    assert model.n_components_ > 2
    assert model.component_ids_[0] == 0
    counts = model.components_[1:, [WORDS.index("cat"), WORDS.index("dog")]]
    np.testing.assert_allclose(counts, model.family_.concentration)


def test_bounds_of_seeded_fits_rise_lap_by_lap():
    for kind, start in ((sb.LatentDirichletAllocation, 5), (sb.HDPTopicModel, 9)):
        bounds = fit(make(kind, start)).trace_.bound
        # from the second lap: before it the counts are those of the start
        assert (np.diff(bounds[1:]) >= -1e-8 * np.abs(bounds[-1])).all()


def test_seeds_that_name_every_topic_change_nothing():
    plain, seeded = fit(make(n=3, seeds=None)), fit(make(n=3, seeds=dict.fromkeys(range(3), "the")))
    # words with a legal set of topics are summed in another order
    assert plain.lower_bound_ == pytest.approx(seeded.lower_bound_, rel=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [sb.LatentDirichletAllocation, sb.HDPTopicModel])
def test_tables_and_mappings_say_the_same_as_seeds(kind):
    table = np.array([[k in LEGAL.get(w, range(5)) for k in range(5)] for w in WORDS])
    seeds = {2: ["cat", "dog"], 1: ["goal", "salt"], 0: ["salt"]}
    quick = {"inference": sb.BatchVB(moves=None, max_iter=5)}
    first = fit(make(kind, seeds=seeds, **quick))
    for allowed in (table, {word: LEGAL[word] for word in sorted(LEGAL)} | {"absent": [0]}):
        other = fit(make(kind, seeds=None, allowed=allowed, **quick))
        assert other.lower_bound_ == first.lower_bound_
    numbers = {k: [WORDS.index(word) for word in words] for k, words in seeds.items()}
    for counts in (COUNTS, sparse.csr_array(COUNTS)):
        assert fit(make(kind, seeds=numbers, **quick), counts).lower_bound_ == first.lower_bound_
        unnamed = fit(make(kind, seeds=None, allowed=table, **quick), counts)
        assert unnamed.lower_bound_ == first.lower_bound_


@pytest.mark.slow
def test_files_streams_and_checkpoints_keep_the_seeds(tmp_path):
    model = fit(make(sb.HDPTopicModel, 6))
    model.save(tmp_path / "m.stickbreak")
    again = sb.load(tmp_path / "m.stickbreak")
    assert again.seeds == {topic: tuple(words) for topic, words in SEEDS.items()}
    np.testing.assert_array_equal(again.transform(X), model.transform(X))
    np.testing.assert_array_equal(again.score_samples(X), model.score_samples(X))
    again.partial_fit([["cat", "newword", "dog"], *draw_documents(20, 1)])
    assert "newword" in again.feature_names_in_
    table = again.components_[:, list(again.feature_names_in_).index("cat")]
    assert np.delete(table, 2) == pytest.approx(again.family_.concentration)

    class Stop(sb.Callback):
        def on_step(self, info):
            if info.lap >= 2:
                raise KeyboardInterrupt

    path = tmp_path / "c.stickbreak"
    engine = sb.MemoizedVB(n_batches=3, checkpoint=path, checkpoint_every=0.0, callbacks=[Stop()])
    with pytest.raises(KeyboardInterrupt):
        make(inference=engine).fit(X)
    whole = fit(make(inference=sb.MemoizedVB(n_batches=3)))
    assert sb.resume(path, X).lower_bound_ == whole.lower_bound_


def test_new_documents_obey_the_seeds():
    """A document of a seed word and words of another kind: the seed word counts for its topic."""
    model = fit(make(seeds={0: ["cat"]}, n=4))
    page = [["cat", *KINDS[1] * 3]]
    share, closed = model.transform(page)[0, 0], model.set_params(seeds=None).transform(page)[0, 0]
    assert share > 0.03
    assert share >= closed - 1e-12


def test_limited_words_have_lines_of_their_own_in_the_table(monkeypatch):
    """The table of words and the evidence word by word give the same documents."""
    model = fit(make())
    fitted, documents = model._use(model._given(X))
    potentials = fitted.model.potentials(fitted.counts, fitted.params, MeanLog())
    # sets that are no function of the word either
    sets = np.random.default_rng(0).integers(0, len(potentials.log_legal), documents.n_rows)
    for chosen in (documents.sets, sets):
        batch = Documents.whole(documents)
        block = type(batch)(0, batch.rows, batch.offsets, batch.repeats, chosen)
        found = fitted.model.structure.log_evidence(potentials, block)
        with monkeypatch.context() as patch:
            patch.setattr(type(potentials.scores), "symbol_table", None)
            by_rows = fitted.model.structure.log_evidence(potentials, block)
        np.testing.assert_allclose(found, by_rows, rtol=1e-12)
    table, index, _ = word_evidence(potentials, block)
    assert len(table) > len(WORDS)
    assert len(index) == documents.n_rows


@pytest.mark.parametrize("kind", [sb.LatentDirichletAllocation, sb.HDPTopicModel])
@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"seeds": {0: ["cat", "unicorn"]}}, r"seeds\[0\] has the word 'unicorn', which is not in"),
        ({"seeds": {5: ["cat"]}}, "seeds names topic 5; with n_components=5 topics are 0 to 4"),
        ({"seeds": {"pets": ["cat"]}}, "seeds names topic 'pets'"),
        ({"seeds": {0: []}}, r"seeds\[0\] is empty; list at least one word"),
        ({"seeds": {0: None}}, r"seeds\[0\] has the word None"),
        ({"seeds": ["cat"]}, r"seeds must map topics to lists of words; got \['cat'\]"),
        ({"seeds": None, "allowed": np.eye(len(WORDS), 5)}, r"allowed\['goal'\] is empty"),
        ({"seeds": None, "allowed": {"cat": []}}, r"allowed\['cat'\] is empty; list at least one"),
        ({"seeds": None, "allowed": {"cat": [7]}}, r"allowed\['cat'\] holds 7; .*topics are 0"),
        ({"seeds": None, "allowed": np.ones((3, 5))}, r"has shape \(3, 5\); the data have 18 word"),
        ({"allowed": {"cat": [0]}}, "seeds and allowed say the same in two ways"),
    ],
)
def test_seeds_that_cannot_be_are_refused(kind, more, message):
    assert WORDS[5] == "goal"
    with pytest.raises(ValueError, match=message):
        make(kind, **more).fit(X)


def test_numbered_words_are_seeded_by_number():
    with pytest.raises(ValueError, match=r"seeds\[0\] has the word 'cat', .*words 0 to 17"):
        make(seeds={0: ["cat"]}).fit(COUNTS)
    with pytest.raises(ValueError, match=r"seeds\[0\] has the word 18, .*words 0 to 17"):
        make(seeds={0: [18]}).fit(COUNTS)
    with pytest.raises(ValueError, match="allowed has the word 'cat', but the data are numbered"):
        make(seeds=None, allowed={"cat": [0]}).fit(COUNTS)


def test_a_word_of_several_topics_has_them_all():
    assert words_of_topics(SEEDS, WORDS, 18, 5) == {
        "cat": [2], "dog": [2], "salt": [0, 1], "goal": [1],
    }  # fmt: skip
