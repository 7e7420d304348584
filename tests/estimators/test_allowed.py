"""Dictionaries: which states and topics a word may have, in fits, answers, files and moves."""

from __future__ import annotations

import numpy as np
import pytest

import stickbreak as sb
from stickbreak.reading import make_dictionary

NOUNS, VERBS, RARE, LATE = ["dog", "cat"], ["runs", "eats"], ["red", "blue"], ["so", "very"]
ALLOWED = {"a": 0, "the": [0], "cat": [1], "dog": [1], "eats": [3], "fish": [1, 3], "runs": [3]}
ENGINES = {
    "batch": "batch",
    "memoized": sb.MemoizedVB(n_batches=3),
    "collapsed": "collapsed",
    "em": "em",
    "hard-em": "hard-em",
    "gibbs": sb.Gibbs(max_iter=10),
    "stochastic": sb.StochasticVB(max_iter=3),
}


def draw_sentences(n: int, seed: int = 0) -> list[list[str]]:
    """Articles, words of two kinds that the dictionary lacks, nouns and verbs, in a fixed order."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(n):
        sentence = []
        for _ in range(rng.integers(2, 5)):
            sentence += [rng.choice(["the", "a"])]
            sentence += [rng.choice(RARE)] if rng.random() < 0.5 else []
            sentence += [rng.choice([*NOUNS, "fish"]), rng.choice([*VERBS, "fish"])]
            sentence += [rng.choice(LATE)] if rng.random() < 0.5 else []
        found.append([str(word) for word in sentence])
    return found


X = draw_sentences(60)
WORDS = sorted({word for sentence in X for word in sentence})


def illegal(model, sentences, states) -> int:
    return sum(
        word in ALLOWED and state not in np.atleast_1d(ALLOWED[word])
        for sentence, path in zip(sentences, states, strict=True)
        for word, state in zip(sentence, path, strict=True)
    )


def fit(model, X=X):
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sb.StickbreakWarning)  # few laps, few rows
        return model.fit(X)


@pytest.mark.few(3)
@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("kind", [sb.HMM, sb.HDPHMM])
def test_words_have_allowed_states_only(kind, name):
    model = kind(6, family="categorical", allowed=ALLOWED, inference=ENGINES[name], random_state=0)
    fit(model)
    assert illegal(model, X, model.labels_) == 0
    for states, labels in zip(model.predict(X), model.labels_, strict=True):
        np.testing.assert_array_equal(states, labels)
    assert illegal(model, X, model.decode(X)[1]) == 0


@pytest.mark.slow
def test_states_named_keep_their_numbers_and_others_are_found():
    """Three states are named, and two kinds of words are not listed."""
    model = fit(sb.HDPHMM(14, family="categorical", allowed=ALLOWED, random_state=0))
    moves = [record for record in model.trace_.moves if record.is_accepted]
    assert moves
    assert model.n_components_ < 14
    assert model.component_ids_[:4].tolist() == [0, 1, 2, 3]
    assert illegal(model, X, model.labels_) == 0
    flat = np.array([word for sentence in X for word in sentence])
    states = np.concatenate(model.labels_)
    found = {frozenset(states[np.isin(flat, kind)]) for kind in (RARE, LATE)}
    assert len(found) == 2
    assert all(len(own) == 1 and not own & {0, 1, 3} for own in found)


@pytest.mark.slow
def test_births_divide_states_that_are_not_named():
    model = fit(sb.HDPHMM(5, family="categorical", allowed={"the": 0, "a": 0}, random_state=0))
    taken = {k for k, c in enumerate(model.counts_) if c >= 1}
    assert 0 in taken
    assert model.component_ids_[0] == 0
    assert {"the", "a"} == {
        word
        for s, z in zip(X, model.labels_, strict=True)
        for word, k in zip(s, z, strict=True)
        if k == 0
    }


def test_a_gap_below_the_last_named_state_is_kept():
    dictionary = make_dictionary({0: [0], 1: [3]}, None, 6)
    sets, legal = dictionary.limit(np.array([[0.0], [1.0], [2.0]]), None)
    assert sets.tolist() == [1, 2, 0]
    assert (legal[1:] > 0).any(0).tolist() == [True] * 4 + [False] * 2
    known = (np.array([0, 0, 1]), np.vstack([np.ones(6), np.eye(1, 6)]))
    sets, legal = dictionary.limit(np.array([[0.0], [1.0], [2.0]]), known)
    assert (legal[1:] > 0).any(0).tolist() == [True] * 4 + [False] * 2
    # nothing is added where the named states are the first ones
    assert len(make_dictionary({0: [0], 1: [1]}, None, 6).limit(np.zeros((1, 1)), None)[1]) == 3


@pytest.mark.slow
@pytest.mark.parametrize("kind", [sb.HMM, sb.HDPHMM])
def test_a_table_says_the_same_as_a_mapping(kind, tmp_path):
    table = np.array([[k in np.atleast_1d(ALLOWED.get(w, range(6))) for k in range(6)]
                      for w in WORDS])  # fmt: skip
    ordered = {word: ALLOWED[word] for word in WORDS if word in ALLOWED}
    first, second = (
        fit(kind(6, family="categorical", allowed=allowed, random_state=0))
        for allowed in (ordered, table)
    )
    assert first.lower_bound_ == second.lower_bound_
    numbers = [np.array([WORDS.index(word) for word in sentence]) for sentence in X]
    third = fit(kind(6, family="categorical", allowed=table.tolist(), random_state=0), numbers)
    assert third.lower_bound_ == first.lower_bound_
    second.save(tmp_path / "m.stickbreak")
    again = sb.load(tmp_path / "m.stickbreak")
    assert again.score(X) == second.score(X) == first.score(X)
    assert again.allowed.dtype == bool


@pytest.mark.slow
def test_models_with_a_dictionary_go_on_from_files_and_streams(tmp_path):
    allowed = {word: set(np.atleast_1d(states).tolist()) for word, states in ALLOWED.items()}
    model = fit(sb.HDPHMM(9, family="categorical", allowed=allowed, random_state=0))
    model.save(tmp_path / "m.stickbreak")
    again = sb.load(tmp_path / "m.stickbreak")
    assert again.score(X) == model.score(X)
    more = draw_sentences(20, 1)
    again.partial_fit(more)
    assert illegal(again, more, again.labels_) == 0
    assert again.component_ids_[:4].tolist() == [0, 1, 2, 3]


@pytest.mark.slow
def test_a_checkpoint_keeps_the_dictionary(tmp_path):
    class Stop(sb.Callback):
        def on_step(self, info):
            if info.lap >= 2:
                raise KeyboardInterrupt

    def make(**more):
        engine = sb.MemoizedVB(n_batches=3, **more)
        return sb.HDPHMM(9, family="categorical", allowed=ALLOWED, inference=engine, random_state=0)

    path = tmp_path / "c.stickbreak"
    with pytest.raises(KeyboardInterrupt):
        make(checkpoint=path, checkpoint_every=0.0, callbacks=[Stop()]).fit(X)
    resumed, whole = sb.resume(path, X), make().fit(X)
    assert resumed.lower_bound_ == whole.lower_bound_
    assert illegal(resumed, X, resumed.labels_) == 0


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", [sb.HMM, sb.HDPHMM])
def test_words_that_the_fit_has_not_seen_may_have_any_state(kind):
    model = fit(kind(6, family="categorical", allowed=ALLOWED, random_state=0))
    with pytest.warns(sb.DataWarning, match="the fit has not seen 'xylophone'"):
        shares = model.predict_proba([["the", "xylophone", "runs"]])[0]
    with pytest.warns(sb.DataWarning, match="may have any state"):
        alone = model.predict_proba([["xylophone"]])[0]
    assert shares[0, 0] == pytest.approx(1.0)
    assert (shares[1] > 0).all()
    assert (alone > 0).all()
    missing = model.predict_proba([np.array(["the", None, "runs"], dtype=object)])[0]
    np.testing.assert_array_equal(shares, missing)
    with pytest.warns(sb.DataWarning, match="'xylophone'"):
        filtered = model.online_filter().update("xylophone").probabilities
    np.testing.assert_allclose(filtered, model.startprob_, rtol=1e-12)
    # without a dictionary, as before
    with pytest.raises(ValueError, match="'xylophone'; the model knows the categories"):
        fit(kind(2, family="categorical", random_state=0)).predict([["xylophone"]])


@pytest.mark.parametrize("kind", [sb.HMM, sb.HDPHMM])
@pytest.mark.parametrize(
    ("allowed", "message"),
    [
        ({"dog": []}, r"allowed\['dog'\] is empty; list at least one state"),
        ({"dog": [1, 6]}, r"allowed\['dog'\] holds 6; with n_components=6 states are 0 to 5"),
        ({"dog": "noun"}, r"allowed\['dog'\] holds 'noun'"),
        (np.ones((2, 6), bool), r"allowed has shape \(2, 6\); the data have 11 symbols"),
        (np.ones((11, 5), bool), r"allowed has shape \(11, 5\); .* n_components=6"),
        (np.full((11, 6), 2), "or be a boolean table"),
        (np.eye(11, 6, dtype=bool), rf"allowed\['{WORDS[6]}'\] is empty"),
    ],
)
def test_dictionaries_that_cannot_be_are_refused(kind, allowed, message):
    with pytest.raises(ValueError, match=message):
        kind(6, family="categorical", allowed=allowed).fit(X)


def test_tables_need_a_line_for_every_symbol():
    rows = [np.array([0, 1, 2, 3])]
    model = sb.HDPHMM(2, family="categorical", allowed=np.ones((3, 2), bool))
    with pytest.raises(ValueError, match="lines for symbols 0 to 2, but X holds 3"):
        model.fit(rows)
    empty = np.array([[True, False], [False, False]])
    with pytest.raises(ValueError, match=r"allowed\[1\] is empty"):
        sb.HMM(2, family="categorical", allowed=empty).fit(rows)


def test_frames_are_refused_since_their_index_would_be_lost():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(np.ones((11, 6), bool), index=WORDS)
    with pytest.raises(ValueError, match=r"or be a boolean table .*; got a DataFrame"):
        sb.HMM(6, family="categorical", allowed=frame).fit(X)


def test_other_families_have_no_dictionary():
    with pytest.raises(ValueError, match="allowed is for families of symbols"):
        sb.HDPHMM(2, allowed={0: [1]}).fit(np.zeros((5, 1)))


@pytest.mark.slow
def test_a_dictionary_that_was_changed_must_fit_the_states_left():
    model = fit(sb.HDPHMM(14, family="categorical", allowed=ALLOWED, random_state=0))
    gone = sorted(set(range(14)) - set(model.component_ids_.tolist()))[0]
    model.set_params(allowed={"dog": [gone]})
    with pytest.raises(ValueError, match=rf"some symbol \[{gone}\] only, and the model has no"):
        model.predict(X)
