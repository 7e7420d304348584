"""Collapsed inference: what data and settings cannot be, each with its value and a remedy; and what
weights mean.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import stickbreak as sb
from docs.skeletons.family import Exponential
from stickbreak.data import Documents, Table, measure
from stickbreak.families import Categorical
from stickbreak.families.names import make_family
from stickbreak.inference import ExcludeOwn, count_own
from stickbreak.initialize import from_local
from stickbreak.models import dp_mixture, finite_mixture, hdp_topics, lda
from stickbreak.stats import SERIAL, Fields

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(20, 2))
SYMBOLS = [RNG.integers(0, 4, 8) for _ in range(6)]
WORDS = [["the", "dog"], ["a", "cat", "dog"], ["the", "cat"]]
COUNTS = RNG.integers(0, 3, (10, 6))


def collapsed(**given: Any) -> sb.CollapsedVB:
    return sb.CollapsedVB(**{"max_iter": 3, **given})


def hmm(**given: Any) -> sb.HMM:
    return sb.HMM(2, **{"family": "categorical", "inference": collapsed(), **given})


def topics(**given: Any) -> sb.LatentDirichletAllocation:
    return sb.LatentDirichletAllocation(2, **{"inference": collapsed(), **given})


REFUSED = {
    "a word without a state": (
        lambda: hmm(allowed={"dog": []}).fit(WORDS),
        r"allowed\['dog'\] is empty; list at least one state",
    ),
    "a line of a table without a state": (
        lambda: hmm(allowed=np.eye(4, 2, dtype=bool)).fit(WORDS),
        r"allowed\['dog'\] is empty; list at least one state",
    ),
    "a seed word that is unknown": (
        lambda: topics(seeds={0: ["dog", "unicorn"]}).fit(WORDS),
        r"seeds\[0\] has the word 'unicorn', which is not in",
    ),
    "a numbered seed word that is unknown": (
        lambda: topics(seeds={0: [6]}).fit(COUNTS),
        r"seeds\[0\] has the word 6, .*words 0 to 5",
    ),
    "words of chains": (
        lambda: hmm(inference=collapsed(granularity="word")).fit(SYMBOLS),
        "granularity='word' is not for Chain; choose one of auto, sequence, token, subsequence",
    ),
    "rows of documents": (
        lambda: topics(inference=collapsed(granularity="row")).fit(COUNTS),
        "granularity='row' is not for Document; choose one of auto, word, batch",
    ),
    "sequences of mixtures": (
        lambda: sb.Mixture(2, inference=collapsed(granularity="sequence")).fit(ROWS),
        "granularity='sequence' is not for Independent; choose one of auto, row, batch",
    ),
    "no word at all": (
        lambda: topics(inference=collapsed(granularity=7)).fit(COUNTS),
        "granularity=7 is not for Document",
    ),
    "tokens of a plain family": (
        lambda: hmm(family=Exponential(), inference=collapsed(granularity="token")).fit(
            [np.abs(ROWS)] * 2
        ),
        "granularity='token' is not for Exponential; use 'sequence'",
    ),
    "rows of a plain family": (
        lambda: sb.Mixture(2, family=Exponential(), inference=collapsed(granularity="row")).fit(
            np.abs(ROWS)
        ),
        "granularity='row' is not for Exponential; use 'batch'",
    ),
    "one sequence of symbols": (
        lambda: hmm().fit(SYMBOLS[:1]),
        r"there is one sequence.*use CollapsedVB\(granularity='subsequence'\)",
    ),
    "one sequence of numbers": (
        lambda: hmm(family="gaussian").fit([ROWS]),
        r"there is one sequence.*use CollapsedVB\(granularity='subsequence'\)",
    ),
    "one sequence of a plain family": (
        lambda: hmm(family=Exponential()).fit([np.abs(ROWS)]),
        r"there is one sequence.*use StochasticCollapsedVB\(granularity='subsequence'\)",
    ),
    "blocks of a plain family": (
        lambda: hmm(family=Exponential(), inference=collapsed(granularity="subsequence")).fit(
            [np.abs(ROWS)]
        ),
        r"use 'sequence', or StochasticCollapsedVB\(granularity='subsequence'\)",
    ),
    "one sequence that counts": (
        lambda: hmm().fit(SYMBOLS, sample_weight=[1, 0, 0, 0, 0, 0]),
        "there is one sequence",
    ),
    "one sequence, and tables": (
        lambda: sb.HDPHMM(2, family="categorical", root="tables").fit(SYMBOLS[:1]),
        r"there is one sequence.*use CollapsedVB\(granularity='subsequence'\)",
    ),
    "one sequence of numbers, and tables": (  # which have no other engine
        lambda: sb.HDPHMM(2, root="tables").fit([ROWS]),
        r"there is one sequence.*use CollapsedVB\(granularity='subsequence'\)",
    ),
    "one block": (
        lambda: hmm(inference=collapsed(granularity="subsequence")).fit(SYMBOLS[:1]),
        "subchain_length=100 leaves the one sequence of 8 rows in one block.*use a smaller one",
    ),
    "all sequences in a block": (
        lambda: hmm(inference=collapsed(block=6)).fit(SYMBOLS),
        "block=6: all 6 sequences would leave together.*use at most 5",
    ),
    "one batch of rows": (
        lambda: sb.Mixture(2, inference=collapsed(granularity="batch", n_batches=1)).fit(ROWS),
        r"n_batches=1 leaves all data in one batch.*use n_batches=2 or more, or BatchVB",
    ),
    "one batch of one sequence": (
        lambda: hmm(inference=collapsed(granularity="batch")).fit(SYMBOLS[:1]),
        "n_batches='auto' leaves all data in one batch.*use BatchVB",
    ),
    "sequences that count twice": (
        lambda: hmm().fit(SYMBOLS, sample_weight=[1, 2, 1, 1, 0, 1]),
        r"sample_weight has 2: .*once or not at all; repeat sequences.*granularity='batch'",
    ),
    "sequences that count by half": (
        lambda: hmm().fit(SYMBOLS, sample_weight=[1, 0.5, 1, 1, 0, 1]),
        "sample_weight has 0.5: .*once or not at all",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_is_refused(case):
    fit, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        fit()


BATCHES = {
    "rows": (20, lambda engine: sb.Mixture(2, inference=engine, random_state=0).fit(ROWS)),
    "sequences": (6, lambda engine: hmm(inference=engine, random_state=0).fit(SYMBOLS)),
    "documents": (10, lambda engine: topics(inference=engine, random_state=0).fit(COUNTS)),
}


@pytest.mark.filterwarnings("ignore::stickbreak.errors.ConvergenceWarning")
@pytest.mark.parametrize("units", BATCHES)
@pytest.mark.parametrize("engine", [sb.StochasticCollapsedVB, sb.StochasticVB])
def test_steps_that_ask_for_more_than_there_is_take_all_and_say_so(engine, units):
    """As in scikit-learn: folds of a cross-validation may be smaller than a batch."""
    n, fit = BATCHES[units]
    message = f"batch_size=1000, but there are {n} {units}: .*use a smaller batch_size"
    with pytest.warns(sb.DataWarning, match=message):
        found = fit(engine(batch_size=1000, max_iter=3))
    assert found.lower_bound_ == fit(engine(batch_size=n, max_iter=3)).lower_bound_


@pytest.mark.filterwarnings("ignore::stickbreak.errors.ConvergenceWarning")
@pytest.mark.parametrize("granularity", ["sequence", "token"])
def test_words_that_a_collapsed_fit_has_not_seen_may_have_any_state(granularity):
    model = hmm(
        allowed={"the": [0], "a": [0], "dog": [1]}, random_state=0,
        inference=collapsed(granularity=granularity),
    ).fit(WORDS)  # fmt: skip
    with pytest.warns(sb.DataWarning, match="'xylophone'"):
        shares = model.predict_proba([["the", "xylophone"]])[0]
    assert shares[0, 0] == pytest.approx(1.0)
    assert (shares[1] > 0).all()
    with pytest.warns(sb.DataWarning, match="'xylophone'"):
        assert model.predict([["the", "xylophone", "dog"]])[0][2] == 1


# ---- weights -------------------------------------------------------------------------------------
def settled(model, data, seed: int = 1) -> tuple[Any, Fields]:
    """Parameters and shares after sweeps that no longer change anything."""
    start = from_local(model, data, 2, np.random.default_rng(seed))
    counts, own, rule = start.seed, start.warm, ExcludeOwn()
    for _ in range(300):
        counts, own = rule.visit(model, counts, start.params, data.whole(), own, (), SERIAL)
    return start.params, own


def assert_same_when_repeated(model, data, repeated, at) -> None:
    """Shares that are settled under weights are so if each is there as often as it counts; and the
    bound is the same. at : which row each repeated one is.
    """
    params, own = settled(model, data)
    every = Fields(own.layout, {"shares": np.array(own["shares"][at])})
    assert np.ptp(np.asarray(every["shares"]), axis=0).max() > 0.1  # not all alike
    weighted = count_own(model, params, data.whole(), own, SERIAL)
    counts = count_own(model, params, repeated.whole(), every, SERIAL)
    bounds = [model.bound(found, params) for found in (weighted, counts)]
    assert bounds[0] == pytest.approx(bounds[1], rel=1e-9)
    _, after = ExcludeOwn().visit(model, counts, params, repeated.whole(), every, (), SERIAL)
    # float32 shares, each swept after those before it have changed by as much
    np.testing.assert_allclose(after["shares"], every["shares"], atol=2e-6)


@pytest.mark.parametrize("make", [finite_mixture, dp_mixture])
@pytest.mark.parametrize("name", ["gaussian", "categorical"])
def test_weights_of_rows_are_repeats(name, make):
    rng, times = np.random.default_rng(3), np.array([1, 3, 2, 0, 1, 1, 2, 5, 1, 1])
    X = rng.normal(size=(10, 2)) + 2.0 * (np.arange(10) % 2)[:, None]
    if name == "categorical":
        X = rng.integers(0, 3, (10, 3)) % (1 + np.arange(10) % 3)[:, None]
    family = make_family(name).locate(None, X.shape[1])
    at = np.repeat(np.arange(10), times)
    model = make(family.resolve(measure(Table(X[at]), family.check_rows)))
    assert_same_when_repeated(model, Table(X, times.astype(float)), Table(X[at]), at)


@pytest.mark.parametrize("make", [lda, hdp_topics])
def test_weights_of_words_and_documents_are_repeats(make):
    words = np.array([0, 1, 2, 0, 3, 4, 5, 1, 4])
    counts, times = np.array([2.0, 1, 3, 1, 1, 2, 1, 4, 1]), np.array([2, 1, 3])
    offsets = np.array([0, 3, 6, 9])
    data = Documents(words[:, None], counts, offsets=offsets, times=times.astype(float))
    rows_of = [np.repeat(np.arange(a, b), counts[a:b].astype(int)) for a, b in pairwise(offsets)]
    copies = [rows for rows, n in zip(rows_of, times, strict=True) for _ in range(n)]
    at = np.concatenate(copies)
    repeated = Documents(
        words[at][:, None], np.ones(len(at)), offsets=np.r_[0, np.cumsum(list(map(len, copies)))]
    )
    model = make(Categorical(0.05, (6,)), concentration=0.05)
    assert_same_when_repeated(model, data, repeated, at)
