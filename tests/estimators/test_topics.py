"""Topic models as users call them: any kind of document, words that come and go, files, streams,
checks of scikit-learn.
"""

from __future__ import annotations

import warnings
from collections import Counter

import numpy as np
import pytest
from fitting import StopAt, StoppedError
from scipy import sparse
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator
from topics import corpus

import stickbreak as sb

MODELS = {"lda": sb.LatentDirichletAllocation, "hdp": sb.HDPTopicModel}
TOPICS = {
    "pets": ["cat", "dog", "fur", "paw"],
    "food": ["salt", "soup", "pan", "oven"],
    "sea": ["ship", "wave", "sail", "tide"],
}


def texts(n: int = 60, length: int = 20, seed: int = 0) -> list[list[str]]:
    """Documents of one or two of three topics, as lists of words."""
    rng = np.random.default_rng(seed)
    names, made = list(TOPICS), []
    for _ in range(n):
        own = rng.choice(names, size=rng.integers(1, 3), replace=False)
        made.append([str(rng.choice(TOPICS[rng.choice(own)])) for _ in range(length)])
    return made


def as_counts(documents: list[list[str]]) -> tuple[np.ndarray, list[str]]:
    words = sorted({word for document in documents for word in document})
    return np.array([[Counter(document)[word] for word in words] for document in documents]), words


@pytest.fixture(scope="module")
def fitted():
    return {name: model(3, random_state=0).fit(texts()) for name, model in MODELS.items()}


# ---- what is found -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_topics_are_found(name, fitted):
    found = {frozenset(words) for words in fitted[name].top_words(4)}
    assert found == {frozenset(words) for words in TOPICS.values()}


@pytest.mark.slow
@pytest.mark.parametrize("init", ["documents", "collapsed"])
def test_the_number_of_topics_is_found_from_one(init):
    model = sb.HDPTopicModel(init=init, random_state=0).fit(texts(120))
    assert model.n_components_ == 3
    assert {frozenset(words) for words in model.top_words(4)} == {
        frozenset(words) for words in TOPICS.values()
    }
    if init == "documents":  # a ladder may need no births
        assert "birth" in model.explain_moves()


@pytest.mark.parametrize("name", MODELS)
def test_shares_say_what_documents_are_about(name, fitted):
    model = fitted[name]
    shares = model.transform([["cat", "dog", "paw"] * 5, ["ship", "wave", "tide"] * 5, []])
    np.testing.assert_allclose(shares.sum(1), 1.0)
    top = model.topic_word_ @ np.array([word in TOPICS["pets"] for word in model.feature_names_in_])
    assert shares[0].argmax() == top.argmax()
    assert shares[0].max() > 0.8
    assert model.predict([["cat", "dog", "paw"] * 5])[0] == top.argmax()
    assert shares[2].max() < 0.9  # an empty document has the shares of the prior


@pytest.mark.parametrize("name", MODELS)
def test_learned_values_agree_with_each_other(name, fitted):
    model = fitted[name]
    np.testing.assert_allclose(model.topic_word_.sum(1), 1.0)
    np.testing.assert_allclose(
        model.components_ / model.components_.sum(1, keepdims=True), model.topic_word_
    )
    np.testing.assert_allclose(model.counts_.sum(), 60 * 20)
    assert model.labels_.shape == (60,)
    assert model.weights_.shape == (model.n_components_,)
    assert len(model.get_feature_names_out()) == model.n_components_
    assert model.trace_.bound[-1] == pytest.approx(model.lower_bound_)


def test_relevance_prefers_words_of_one_topic():
    """A word that every topic has is probable, but says nothing of the topic."""
    documents = [[*document, *["the"] * 20] for document in texts()]
    model = sb.LatentDirichletAllocation(3, random_state=0).fit(documents)
    assert all("the" in words for words in model.top_words(1))
    assert not any("the" in words for words in model.top_words(4, relevance=0.0))


# ---- kinds of documents --------------------------------------------------------------------------


def kinds(tmp_path) -> dict[str, object]:
    import pandas

    documents = texts()
    counts, words = as_counts(documents)
    ldac = tmp_path / "docs.ldac"
    bags = [[(int(v), int(c)) for v, c in enumerate(row) if c] for row in counts]
    ldac.write_text("".join(f"{len(bag)} {' '.join(f'{v}:{c}' for v, c in bag)}\n" for bag in bags))
    docword = tmp_path / "docword.txt"
    entries = [(d + 1, v + 1, c) for d, bag in enumerate(bags) for v, c in bag]
    lines = [str(n) for n in (len(bags), len(words), len(entries))] + [
        " ".join(map(str, entry)) for entry in entries
    ]
    docword.write_text("\n".join(lines) + "\n")
    return {
        "words": documents,
        "counts": counts,
        "csr": sparse.csr_array(counts),
        "frame": pandas.DataFrame(counts, columns=words),
        "bags": bags,
        "LDA-C": str(ldac),
        "docword": docword,
        "corpus": sb.read_corpus(ldac),
    }


@pytest.mark.parametrize("kind", ["counts", "csr", "frame", "bags", "LDA-C", "docword", "corpus"])
def test_all_kinds_of_documents_are_the_same(kind, tmp_path):
    given = kinds(tmp_path)
    expected = sb.LatentDirichletAllocation(3, random_state=0).fit(given["words"])
    found = sb.LatentDirichletAllocation(3, random_state=0).fit(given[kind])
    assert found.lower_bound_ == expected.lower_bound_
    assert found.n_features_in_ == 12
    assert hasattr(found, "feature_names_in_") == (kind == "frame")
    np.testing.assert_array_equal(found.transform(given[kind]), expected.transform(given["words"]))
    if kind != "frame":
        assert all(isinstance(word, np.integer) for words in found.top_words(2) for word in words)


def test_a_file_of_words_is_a_list_of_lists(tmp_path):
    path = tmp_path / "docs.txt"
    path.write_text("\n".join(map(" ".join, texts())))
    expected = sb.LatentDirichletAllocation(3, random_state=0).fit(texts())
    found = sb.LatentDirichletAllocation(3, random_state=0).fit(path)
    assert found.lower_bound_ == expected.lower_bound_
    assert found.feature_names_in_.tolist() == expected.feature_names_in_.tolist()
    np.testing.assert_array_equal(found.transform(path), expected.transform(texts()))


@pytest.mark.parametrize("name", MODELS)
def test_words_of_a_corpus_are_found_by_name(name, fitted, tmp_path):
    path = tmp_path / "few.txt"
    path.write_text("wave tide zebra\n\ncat cat\n")
    with pytest.warns(
        sb.DataWarning, match="1 words are not in the vocabulary and are left out: 'zebra'"
    ):
        found = fitted[name].transform(path)
    np.testing.assert_array_equal(
        found, fitted[name].transform([["wave", "tide"], [], ["cat", "cat"]])
    )


def test_files_of_words_bring_new_ones_to_a_stream(tmp_path):
    path = tmp_path / "more.txt"
    path.write_text("cat dog kitten\n" * 10)
    found = sb.LatentDirichletAllocation(3, random_state=0).partial_fit(texts()).partial_fit(path)
    expected = (
        sb.LatentDirichletAllocation(3, random_state=0)
        .partial_fit(texts())
        .partial_fit([["cat", "dog", "kitten"]] * 10)
    )
    assert found.feature_names_in_[-1] == "kitten"
    np.testing.assert_array_equal(found.components_, expected.components_)


def test_the_users_matrix_is_left_as_it_is():
    matrix = sparse.csr_array(np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 1.0]]))
    matrix.data[0] = 0.0  # an explicit zero
    before = matrix.copy()
    sb.LatentDirichletAllocation(2, random_state=0).fit(matrix).score(matrix)
    np.testing.assert_array_equal(matrix.indptr, before.indptr)
    np.testing.assert_array_equal(matrix.data, before.data)


def test_new_words_are_left_out_with_a_warning(fitted):
    with pytest.warns(
        sb.DataWarning,
        match=r"2 words are not in the vocabulary and are left out: "
        r"'harbour', 'zebra'",
    ):
        shares = fitted["lda"].transform([["cat", "dog", "zebra", "harbour"]])
    np.testing.assert_array_equal(shares, fitted["lda"].transform([["cat", "dog"]]))


BAD = {
    "texts": (["the cat sat", "on the mat"], "document 0 is a text, 'the cat sat'"),
    "a negative count": (np.array([[1, -2], [1, 1]]), "row 0, column 1|has the count -2"),
    "NaN": (np.array([[1, np.nan], [1, 1]]), "NaN"),
    "infinity": (np.array([[1, np.inf], [1, 1]]), "infinity"),
    "no documents": (np.zeros((0, 3)), "0 sample"),
    "no words": ([[], []], "no words"),
    "mixed lists": ([["cat"], [3]], "document 1 is not a list of words"),
    "a bag of strings": ([[(0, 1)], [("a", 2)]], "a bag is a list of pairs"),
    "a negative id": ([[(-1, 1)]], "names word -1"),
    "a broken id": ([[(0.5, 1)]], "names word 0.5"),
    "a file that is not there": ("nowhere.ldac", "nowhere.ldac does not exist"),
    "a number": (3, "got a int"),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("name", MODELS)
def test_bad_documents(name, case):
    given, words = BAD[case]
    model = MODELS[name](2, random_state=0)
    with pytest.raises(ValueError, match=words):
        model.fit(given)
    assert not hasattr(model, "_counts")


ARGUMENTS = {
    "n_components": (0, "n_components"),
    "concentration": (-1.0, "concentration"),
    "word_concentration": (0.0, "word_concentration"),
    "restarts": (-2, "restarts"),
    "init": ("k-means++", "documents, random"),
    "inference": ("nothing", "unknown inference"),
    "learn_prior": (3, "learn_prior"),
}


@pytest.mark.parametrize("argument", ARGUMENTS)
def test_bad_arguments(argument):
    value, words = ARGUMENTS[argument]
    with pytest.raises(ValueError, match=words):
        sb.LatentDirichletAllocation(**{argument: value}).fit(texts(5))


def test_bad_documents_for_a_fitted_model(fitted):
    model = fitted["lda"]
    with pytest.raises(ValueError, match="7 features"):
        model.transform(np.ones((2, 7)))
    with pytest.raises(ValueError, match="document 1 has word 12"):
        model.transform([[(0, 1)], [(12, 1)]])
    numbered = sb.LatentDirichletAllocation(2, random_state=0).fit(as_counts(texts())[0])
    with pytest.raises(ValueError, match="numbered words"):
        numbered.transform([["cat"]])
    with pytest.raises(ValueError, match="relevance"):
        model.top_words(relevance=2)


# ---- scores --------------------------------------------------------------------------------------


def test_score_tells_models_apart():
    counts, _ = as_counts(texts())
    model = sb.LatentDirichletAllocation(3, random_state=0).fit(counts)
    # a topic has four words, and a document may mix two topics
    best, worst = np.log(1 / 4), np.log(1 / 12)
    assert worst < model.score(as_counts(texts(seed=1))[0]) < best + 0.05
    assert model.perplexity(counts) == pytest.approx(np.exp(-model.score(counts)))
    alone = sb.LatentDirichletAllocation(1).fit(counts)
    assert alone.score(counts) < model.score(counts)


def test_score_samples_are_below_the_probability_of_a_document():
    """One word: p(w) = sum_k E[pi_k] p(w | k), known exactly."""
    counts, _ = as_counts(texts())
    model = sb.LatentDirichletAllocation(3, random_state=0).fit(counts)
    exact = np.log(np.full(3, 1 / 3) @ model.topic_word_)
    found = model.score_samples(np.eye(12))
    assert (found <= exact + 1e-9).all()
    assert (found > exact - 3.0).all()


def test_score_needs_words():
    model = sb.LatentDirichletAllocation(2, random_state=0).fit(as_counts(texts())[0])
    with pytest.raises(ValueError, match="no document has 5 distinct words"):
        model.score(np.zeros((1, 12)))


@pytest.mark.parametrize("name", MODELS)
def test_samples_are_documents_of_the_topics(name, fitted):
    counts, shares = fitted[name].sample(20, length=50, random_state=1)
    assert counts.shape == (20, 12)
    np.testing.assert_array_equal(counts.sum(1), 50)
    np.testing.assert_allclose(shares.sum(1), 1.0)
    again, _ = fitted[name].sample(20, length=50, random_state=1)
    np.testing.assert_array_equal(counts.toarray(), again.toarray())


# ---- engines, streams, files ---------------------------------------------------------------------


@pytest.mark.covering
@pytest.mark.parametrize(
    "inference", ["batch", "memoized", "stochastic", "em", sb.MemoizedVB(n_batches=4)]
)
@pytest.mark.parametrize("name", MODELS)
def test_every_engine_finds_the_topics(name, inference):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sb.ConvergenceWarning)
        model = MODELS[name](3, inference=inference, random_state=0).fit(texts(150))
    assert {frozenset(words) for words in model.top_words(4)} == {
        frozenset(words) for words in TOPICS.values()
    }


def test_hard_em_is_refused():
    with pytest.raises(ValueError, match="HardEM is not for documents"):
        sb.LatentDirichletAllocation(2, inference="hard-em").fit(texts(10))


@pytest.mark.few(1)
@pytest.mark.parametrize("name", MODELS)
def test_threads_do_not_change_anything(name):
    models = [MODELS[name](3, random_state=0, n_jobs=n).fit(texts(150)) for n in (1, 2)]
    assert models[0].lower_bound_ == models[1].lower_bound_
    np.testing.assert_array_equal(models[0].components_, models[1].components_)


def test_documents_may_count_several_times():
    counts, _ = as_counts(texts(30))
    weights = np.random.default_rng(0).integers(1, 4, 30)
    start = {"random_state": 0, "warm_start": True}
    first = sb.LatentDirichletAllocation(3, **start).fit(counts)
    again = sb.LatentDirichletAllocation(3, **start).fit(counts)
    weighted = first.fit(counts, sample_weight=weights)
    repeated = again.fit(np.repeat(counts, weights, axis=0))
    assert weighted.lower_bound_ == pytest.approx(repeated.lower_bound_, rel=1e-9)


@pytest.mark.parametrize("name", MODELS)
def test_streams_bring_new_words(name):
    model = MODELS[name](3, random_state=0).partial_fit(texts(60))
    assert model.n_features_in_ == 12
    model.partial_fit([["cat", "dog", "kitten"] * 4] * 10)
    assert model.n_features_in_ == 13
    assert model.feature_names_in_[-1] == "kitten"
    assert model.components_.shape == (model.n_components_, 13)
    np.testing.assert_allclose(model.counts_.sum(), 60 * 20 + 120)
    pets = model.transform([["kitten", "kitten", "kitten"]])[0].argmax()
    assert pets == model.transform([["cat", "dog"] * 5])[0].argmax()


def test_steps_of_stochastic_inference():
    model = sb.LatentDirichletAllocation(3, inference="stochastic", random_state=0)
    for part in range(12):
        model.partial_fit(texts(20, seed=part), total_samples=240)
    assert {frozenset(words) for words in model.top_words(4)} == {
        frozenset(words) for words in TOPICS.values()
    }


@pytest.mark.parametrize("name", MODELS)
def test_files_give_the_same_model_back(name, fitted, tmp_path):
    fitted[name].save(tmp_path / "m.stickbreak")
    again = sb.load(tmp_path / "m.stickbreak")
    assert again.top_words(3) == fitted[name].top_words(3)
    np.testing.assert_array_equal(
        again.transform(texts(5, seed=3)), fitted[name].transform(texts(5, seed=3))
    )
    assert again.score(texts(20, seed=4)) == fitted[name].score(texts(20, seed=4))


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_killed_and_resumed_is_the_same(name, tmp_path):
    def make(*callbacks):
        engine = sb.MemoizedVB(
            n_batches=3,
            max_iter=8,
            tol=0,
            checkpoint=tmp_path / "fit",
            checkpoint_every=0,
            callbacks=callbacks,
        )
        return MODELS[name](4, inference=engine, random_state=0)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sb.ConvergenceWarning)
        expected = make().fit(texts())
        with pytest.raises(StoppedError):
            make(StopAt(4)).fit(texts())
        found = make().resume(texts())
    assert found.lower_bound_ == expected.lower_bound_
    np.testing.assert_array_equal(found.components_, expected.components_)


@pytest.mark.slow
@pytest.mark.parametrize("laps", [4, 12])
def test_a_fit_with_moves_is_resumed_to_the_same_bits(laps, tmp_path):
    moves = sb.Birth(), sb.Merge(), sb.Delete()

    def make(*callbacks):
        path = tmp_path / "fit"
        engine = sb.MemoizedVB(
            n_batches=3,
            max_iter=40,
            moves=moves,
            checkpoint=path,
            checkpoint_every=0,
            callbacks=callbacks,
        )
        return sb.HDPTopicModel(inference=engine, init="documents", random_state=0)

    expected = make().fit(texts(60))
    with pytest.raises(StoppedError):
        make(StopAt(laps)).fit(texts(60))
    found = make().resume(texts(60))
    assert found.lower_bound_ == expected.lower_bound_
    assert found.n_components_ == expected.n_components_
    np.testing.assert_array_equal(found.components_, expected.components_)


def test_priors_can_be_learned():
    counts = corpus(0, 300, 30, 4, 60)
    model = sb.LatentDirichletAllocation(
        4, concentration=sb.GammaPrior(), learn_prior=True, random_state=0
    ).fit(counts)
    fixed = sb.LatentDirichletAllocation(4, random_state=0).fit(counts)
    assert model.concentration_ != 0.1
    assert model.lower_bound_ > fixed.lower_bound_
    assert np.diff(model.trace_.bound).min() > -1e-6


# ---- scikit-learn --------------------------------------------------------------------------------

EXPECTED = {
    "check_sample_weight_equivalence_on_dense_data": "a random start draws other documents when "
    "some are repeated, as for KMeans",
    "check_sample_weight_equivalence_on_sparse_data": "a random start draws other documents when "
    "some are repeated, as for KMeans",
}


@pytest.mark.slow  # `test_sklearn.py` does it for mixtures in every run
@pytest.mark.parametrize("inference", [sb.MemoizedVB(max_iter=5), "collapsed"])
@pytest.mark.parametrize("name", ["lda", "hdp"])
def test_check_estimator_passes(name, inference):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MODELS[name](2, inference=inference)  # fits are many, and small
        found = check_estimator(model, expected_failed_checks=EXPECTED, on_skip=None, on_fail=None)
    status = Counter(result["status"] for result in found)
    assert status["failed"] == 0, [
        result["check_name"] for result in found if result["status"] == "failed"
    ]
    assert status["passed"] >= 45


def test_pipelines_and_searches():
    counts, _ = as_counts(texts(90))
    search = GridSearchCV(
        sb.LatentDirichletAllocation(random_state=0), {"n_components": [1, 3]}, cv=3
    ).fit(counts)
    assert search.best_params_ == {"n_components": 3}
    pipeline = make_pipeline(FunctionTransformer(), sb.LatentDirichletAllocation(3, random_state=0))
    assert pipeline.fit_transform(counts).shape == (90, 3)


def test_a_learned_root_can_be_read():
    counts = corpus(0, 200, 30, 4, 40)
    settings = {"inference": sb.MemoizedVB(moves=None), "random_state": 0}
    model = sb.HDPTopicModel(6, top_concentration=sb.GammaPrior(), **settings).fit(counts)
    low, high = model.top_concentration_interval_
    assert 0 < low < model.top_concentration_ < high
    assert sb.HDPTopicModel(2, **settings).fit(counts).top_concentration_ == 10.0


def test_more_restarts_than_topics_are_one_for_each():
    """A number beyond 64 bits made an array of objects, which no kernel takes."""
    X = np.random.default_rng(0).poisson(1.0, (12, 8))
    few, many = (
        sb.LatentDirichletAllocation(2, restarts=n, random_state=0).fit(X).lower_bound_
        for n in (2, 10**30)
    )
    assert few == many
