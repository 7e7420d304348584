"""Aligners: links of tiny bitexts, both directions, new words, streams, files, bad input."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import sparse

import stickbreak as sb
from stickbreak.cli.example import make_pairs
from stickbreak.data import number_pairs
from stickbreak.errors import DataWarning
from stickbreak.estimators import alignment_fits
from stickbreak.metrics import alignment_scores
from stickbreak.reading import sentence_pairs

MADE = make_pairs(120, np.random.default_rng(0))
PAIRS, GOLD = [(e, f) for e, f, _ in MADE], [links for _, _, links in MADE]
ALIGNERS = [sb.IBM1, sb.HMMAligner]
NEW = [("we have sold the house", "wir haben das Haus verkauft")]


@pytest.fixture(scope="module", params=ALIGNERS, ids=lambda cls: cls.__name__)
def fitted(request):
    return request.param(random_state=0).fit(PAIRS)


def test_links_of_words_in_another_order_are_found(fitted):
    scores = alignment_scores(fitted.align(PAIRS), GOLD)
    assert scores.aer < 0.1
    for rule in ("intersection", "forward", "reverse"):
        assert alignment_scores(fitted.align(PAIRS, symmetrize=rule), GOLD).aer < 0.2


def test_answers_agree_with_each_other(fitted):
    positions, posterior = fitted.predict(PAIRS[:5]), fitted.predict_proba(PAIRS[:5])
    links = fitted.align(PAIRS[:5], symmetrize="forward")
    for (source, target), found, shares, linked in zip(
        PAIRS[:5], positions, posterior, links, strict=True
    ):
        assert shares.shape == (len(target), len(source) + 1)
        np.testing.assert_allclose(shares.sum(1), 1.0, rtol=1e-12)
        np.testing.assert_array_equal(found, shares.argmax(1) - 1)
        assert linked == sorted((i, j) for j, i in enumerate(found.tolist()) if i >= 0)
    samples = fitted.score_samples(PAIRS[:5])
    n_words = sum(len(target) for _, target in PAIRS[:5])
    assert fitted.score(PAIRS[:5]) == pytest.approx(samples.sum() / n_words, rel=1e-12)
    assert (samples < 0).all()


def test_joined_links_are_those_of_the_two_directions(fitted):
    forward = fitted.align(PAIRS, symmetrize="forward")
    reverse = fitted.align(PAIRS, symmetrize="reverse")
    for rule in ("intersection", "union", "grow-diag", "grow-diag-final", "grow-diag-final-and"):
        found = fitted.align(PAIRS, symmetrize=rule)
        assert list(found) == list(sb.symmetrize(forward, reverse, rule))
    assert list(fitted.align(PAIRS)) == list(found)


def test_translations_are_probabilities(fitted):
    table = fitted.translations_
    assert sparse.issparse(table)
    assert table.shape == (len(fitted.source_words_), len(fitted.target_words_))
    sums = np.asarray(table.sum(1)).ravel()
    assert (sums <= 1 + 1e-12).all()
    assert fitted.top_translations("house", 1)[0][0] == "Haus"
    word, share = fitted.top_translations("book", 3)[0]
    row = fitted.source_words_.tolist().index("book")
    column = fitted.target_words_.tolist().index(word)
    assert table[row, column] == share
    assert len(fitted.top_translations(None, 2)) == 2
    with pytest.raises(ValueError, match=r"'cat' is not in the source vocabulary of .* words"):
        fitted.top_translations("cat")
    assert 0 <= fitted.null_share_ < 0.5


def test_a_trained_aligner_is_used_on_new_text_with_unknown_words(fitted):
    assert fitted.align(NEW)[0] == [(0, 0), (1, 1), (2, 4), (3, 2), (4, 3)]
    unknown = [("we have sold the zebra", "wir haben das Zebra verkauft"), ("x y", "z")]
    for shares in fitted.predict_proba(unknown):
        assert np.isfinite(shares).all()
        np.testing.assert_allclose(shares.sum(1), 1.0, rtol=1e-12)
    assert np.isfinite(fitted.score(unknown))
    assert {(0, 0), (1, 1), (2, 4), (3, 2)} <= set(fitted.align(unknown)[0])


def test_unknown_words_have_the_mass_of_the_prior_and_may_go_to_null():
    model = sb.IBM1(directions="forward").fit(PAIRS[:40])
    found = model.predict_proba([("house cat", "Zebra")])[0][0]
    house = model.source_words_.tolist().index("house")
    # NULL, a known word and an unknown one: prior counts over totals
    totals = np.array([*model._fitted.counts["total"][[0, house]], 0.0])
    weights = np.array([0.05, 0.475, 0.475]) / (totals + 0.003 * (len(model.target_words_) + 1))
    np.testing.assert_allclose(found, weights / weights.sum(), rtol=1e-9)


def test_pairs_that_are_left_out_keep_their_place(fitted):
    pairs = [PAIRS[0], ("", "das"), PAIRS[1]]
    with pytest.warns(DataWarning, match="pair 1"):
        found = fitted.align(pairs)
    assert list(found) == [fitted.align(PAIRS[:2])[0], [], fitted.align(PAIRS[:2])[1]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        assert fitted.predict(pairs)[1].tolist() == [-1]
        assert fitted.predict_proba(pairs)[1].shape == (1, 1)
        assert np.isnan(fitted.score_samples(pairs)[1])
        assert list(fitted.align([("", "")])) == [[]]


def test_files_keep_the_model(fitted, tmp_path):
    path = tmp_path / "model.stickbreak"
    fitted.save(path)
    loaded = sb.load(path)
    assert list(loaded.align(PAIRS)) == list(fitted.align(PAIRS))
    assert loaded.score(NEW) == fitted.score(NEW)
    assert loaded.top_translations("house") == fitted.top_translations("house")
    assert loaded.source_words_.tolist() == fitted.source_words_.tolist()


def test_one_direction_has_no_joined_links():
    model = sb.IBM1(directions="forward").fit(PAIRS[:20])
    assert list(model.align(PAIRS[:20])) == list(model.align(PAIRS[:20], symmetrize="forward"))
    with pytest.raises(ValueError, match="this aligner has one direction"):
        model.align(PAIRS, symmetrize="union")
    with pytest.raises(ValueError, match="unknown symmetrization 'all'"):
        model.align(PAIRS, symmetrize="all")


@pytest.mark.parametrize("cls", ALIGNERS)
def test_the_reverse_is_a_model_of_exchanged_sides(cls):
    both = cls().fit(PAIRS[:30])
    turned = cls(directions="forward").fit([(f, e) for e, f in PAIRS[:30]])
    found = turned.align([(f, e) for e, f in PAIRS[:30]]).swapped()
    assert list(both.align(PAIRS[:30], symmetrize="reverse")) == list(found)


@pytest.mark.parametrize("cls", ALIGNERS)
def test_threads_do_not_change_links(cls):
    one = cls().fit(PAIRS)
    two = cls(n_jobs=2).fit(PAIRS)
    assert list(one.align(PAIRS)) == list(two.align(PAIRS))
    assert one.score(PAIRS) == two.score(PAIRS)


@pytest.mark.parametrize("cls", ALIGNERS)
def test_a_stream_brings_new_words(cls):
    model = cls(inference=sb.MemoizedVB())
    for lo in range(0, 120, 40):
        model.partial_fit(PAIRS[lo : lo + 40])
    n_source = len(model.source_words_)
    model.partial_fit([("the zebra", "das Zebra")] * 5)
    assert len(model.source_words_) == n_source + 1
    assert model.top_translations("zebra", 1)[0][0] == "Zebra"
    assert alignment_scores(model.align(PAIRS), GOLD).aer < 0.4


def test_small_letters_are_remembered(tmp_path):
    model = sb.IBM1(lowercase=True).fit([("The House", "Das Haus"), ("the book", "das Buch")])
    assert "the" in model.source_words_
    assert model.top_translations("HOUSE") == model.top_translations("house")
    model.save(tmp_path / "m.stickbreak")
    loaded = sb.load(tmp_path / "m.stickbreak")
    assert list(loaded.align([("THE", "DAS")])) == list(loaded.align([("the", "das")]))


def test_lists_files_and_bitexts_are_the_same(tmp_path):
    path = tmp_path / "pairs.txt"
    path.write_text("".join(f"{' '.join(e)} ||| {' '.join(f)}\n" for e, f in PAIRS[:20]))
    expected = sb.IBM1().fit(PAIRS[:20]).score(PAIRS[:20])
    assert sb.IBM1().fit(path).score(str(path)) == expected
    assert sb.IBM1().fit(number_pairs(PAIRS[:20])).score(sb.read_bitext(path)) == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"directions": "back"}, "directions must be one of both, forward; got 'back'"),
        ({"word_concentration": 0.0}, "word_concentration"),
        ({"max_length": 0}, "max_length"),
        ({"lowercase": "yes"}, "lowercase must be True or False"),
        ({"inference": "magic"}, "unknown inference 'magic'"),
        ({"null": "never"}, "null"),
        ({"null": 1.5}, "null"),
        ({"max_iter": 0}, "max_iter"),
    ],
)
def test_bad_settings_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        sb.IBM1(**arguments).fit(PAIRS[:3])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"jumps": "wide"}, "jumps"), ({"jump_concentration": -1.0}, "jump_concentration"),
     ({"ibm1_laps": 0}, "ibm1_laps")],
)  # fmt: skip
def test_bad_settings_of_jumps_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        sb.HMMAligner(**arguments).fit(PAIRS[:3])


def test_a_model_that_is_not_fitted_says_so():
    with pytest.raises(ValueError, match="not fitted yet"):
        sb.IBM1().align(PAIRS)


def test_links_of_the_fit_come_from_what_pairs_kept(fitted):
    assert list(fitted.links_) == list(fitted.fit_links("grow-diag-final-and"))
    assert alignment_scores(fitted.links_, GOLD).aer < 0.1
    joined = sb.symmetrize(fitted.fit_links("forward"), fitted.fit_links("reverse"), "union")
    assert list(fitted.fit_links("union")) == list(joined)


def test_links_of_the_fit_are_those_of_align_without_sweeps():
    model = sb.HMMAligner(inference="batch")
    links = model.fit_align(PAIRS[:40], symmetrize="union")
    assert list(links) == list(model.align(PAIRS[:40], symmetrize="union"))


def test_files_have_no_links_of_the_fit(tmp_path):
    model = sb.IBM1().fit(PAIRS[:5])
    model.save(tmp_path / "m.stickbreak")
    with pytest.raises(AttributeError, match=r"not kept in files; use align\(pairs\)"):
        _ = sb.load(tmp_path / "m.stickbreak").links_


@pytest.mark.parametrize(
    "inference",
    ["em", "memoized", "stochastic", "stochastic-collapsed",
     pytest.param("collapsed-gibbs", marks=pytest.mark.slow)],  # kernels of its own
)  # fmt: skip
def test_every_engine_aligns(inference):
    model = sb.HMMAligner(inference=inference, random_state=0).fit(PAIRS)
    assert alignment_scores(model.links_, GOLD).aer < 0.35


FEW = [
    ("the house", "das Haus"), ("the book", "das Buch"), ("a book", "ein Buch"),
    ("a house", "ein Haus"), ("the small house", "das kleine Haus"),
    ("a small book", "ein kleines Buch"), ("the old man reads", "der alte Mann liest"),
    ("the man is old", "der Mann ist alt"), ("the house is small", "das Haus ist klein"),
    ("a man reads", "ein Mann liest"), ("the old house", "das alte Haus"),
    ("the book is old", "das Buch ist alt"),
]  # fmt: skip


@pytest.mark.parametrize("cls", ALIGNERS)
@pytest.mark.parametrize("inference", ["collapsed", "batch", "hard-em", "stochastic",
                                       "stochastic-collapsed", "collapsed-gibbs"])  # fmt: skip
def test_twelve_pairs_have_links_in_both_directions(cls, inference):
    model = cls(inference=inference, random_state=0).fit(FEW)
    n_words = sum(len(target.split()) for _, target in FEW)
    assert model.fit_links("intersection").n_links > n_words / 2


def test_laps_suit_the_engine_and_the_text_unless_they_are_given():
    laps = lambda inference, **more: sb.IBM1(inference=inference, **more).fit(FEW).n_iter_
    assert laps("em") == 5
    assert laps("stochastic") == 5  # six steps each
    assert laps("stochastic-collapsed") == 25  # one step each
    assert laps("stochastic", max_iter=3) == 3
    assert laps(sb.CollapsedGibbs(max_iter=4)) == 4
    assert laps("collapsed-gibbs") == 100


@pytest.mark.parametrize(("n_pairs", "laps"), [(8, 4), (12, 3), (30, 1)])
def test_more_pairs_are_swept_less_often_by_stochastic_collapsed_inference(
    n_pairs, laps, monkeypatch
):
    monkeypatch.setattr(sentence_pairs, "STEP_PAIRS", 1)  # a lap has a step for each pair
    model = sb.IBM1(inference="stochastic-collapsed", directions="forward")
    assert model.fit((FEW * 3)[:n_pairs]).n_iter_ == laps


def test_laps_of_model_1_are_as_many_as_of_the_chain_unless_either_is_said(monkeypatch):
    found = []

    def follow(self, model, engine, start, *rest):
        found.append(engine.max_iter)
        return start

    monkeypatch.setattr(sb.HMMAligner, "_follow", follow)
    monkeypatch.setattr(alignment_fits, "STEPS", 3)  # each lap of so few pairs is one step
    for given in (
        {},
        {"inference": "stochastic-collapsed"},
        {"ibm1_laps": 2},
        {"max_iter": 7},
        {"max_iter": 7, "ibm1_laps": 2},
    ):
        sb.HMMAligner(directions="forward", **given).fit(FEW)
    assert found == [5, 3, 2, 5, 2]


@pytest.mark.parametrize("inference", ["stochastic", "stochastic-collapsed"])
def test_stochastic_fits_hold_no_links(inference):
    model = sb.HMMAligner(inference=inference)
    task = model._prepare(model._given(PAIRS), None)
    assert task.table.companion.links is None
    assert task.table.companion.link_offsets is None
    assert sb.HMMAligner()._prepare(model._given(PAIRS), None).table.companion.links is not None


def test_a_fit_without_links_says_what_to_do():
    model = sb.IBM1(null=0.999, max_iter=1)
    with pytest.warns(sb.StickbreakWarning, match="no word of the bitext has a link in both") as w:
        model.fit(FEW[:4])
    assert "Use more laps (max_iter=)" in str(w[0].message)


@pytest.mark.parametrize("cls", ALIGNERS)
def test_a_flat_prior_makes_em_maximum_likelihood(cls):
    flat = dict.fromkeys(("word_concentration", "jump_concentration"), 1e-9)
    flat = {name: value for name, value in flat.items() if name in cls().get_params()}
    model = cls(inference="em", directions="forward", **flat).fit(FEW)
    sums = np.asarray(model.translations_.sum(1)).ravel()
    used = model.counts_[: len(sums)] > 1e-3
    np.testing.assert_allclose(sums[used], 1.0, atol=1e-4)  # no mass for what never occurs


class Stop(sb.Callback):
    """Ctrl-C after the second lap."""

    def on_lap(self, record):
        if record.lap == 2:
            raise KeyboardInterrupt


@pytest.mark.parametrize("cls", ALIGNERS)
def test_a_resumed_fit_has_the_same_links(cls, tmp_path):
    kept = {"checkpoint": str(tmp_path / "c"), "checkpoint_every": 0.0}
    make = lambda **more: cls(
        directions="forward", inference=sb.CollapsedVB(max_iter=5, tol=0.0, **more)
    )
    whole = make().fit(PAIRS)
    with pytest.raises(KeyboardInterrupt):
        make(**kept, callbacks=(Stop(),)).fit(PAIRS)
    resumed = make(**kept).resume(PAIRS)
    assert list(resumed.links_) == list(whole.links_)
    assert resumed.score(PAIRS) == whole.score(PAIRS)


@pytest.mark.slow
def test_hard_em_aligns_better_than_chance():
    model = sb.HMMAligner(inference="hard-em").fit(PAIRS)
    assert alignment_scores(model.links_, GOLD).aer < 0.7  # of links at random more than 0.8 err


@pytest.mark.parametrize("inference", ["collapsed", "collapsed-gibbs"])
def test_fertilities_follow_jumps(inference, tmp_path):
    model = sb.HMMAligner(inference=inference, fertility=True, random_state=0).fit(PAIRS)
    assert alignment_scores(model.links_, GOLD).aer < 0.2
    model.save(tmp_path / "m.stickbreak")
    assert list(sb.load(tmp_path / "m.stickbreak").align(PAIRS)) == list(model.align(PAIRS))
    with pytest.raises(ValueError, match="fertility=True needs inference='collapsed' or"):
        sb.HMMAligner(inference="em", fertility=True).fit(PAIRS)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"fertility": True, "inference": sb.CollapsedVB(granularity="token")},
            "fertilities are for whole sentences; got granularity='token': use 'sequence'",
        ),
        (
            {"fertility": True, "inference": sb.CollapsedVB(granularity="batch")},
            "fertilities are for whole sentences; got granularity='batch'",
        ),
        (
            {"jumps": "renormalised", "inference": "collapsed-gibbs"},
            "CollapsedGibbs draws open jumps; got jumps='renormalised': use jumps='open'",
        ),
    ],
)
def test_what_a_chain_cannot_do_is_refused_before_model_1_is_fitted(given, message, monkeypatch):
    monkeypatch.setattr(sb.HMMAligner, "_seed", None)  # where its laps are
    with pytest.raises(ValueError, match=message):
        sb.HMMAligner(**given).fit(PAIRS)


def test_moves_of_aligners_are_refused_by_name():
    for cls in ALIGNERS:
        with pytest.raises(ValueError, match=r"Alignment are named by the data: .*use moves=None"):
            cls(inference=sb.BatchVB(moves=[sb.Merge()])).fit(PAIRS)
