"""Collapsed inference: sweeps equal the plain loop, the bound is the variational one, and fits are
the same for any threads, killed or spilled.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import digamma, gammaln, xlogy

import stickbreak as sb
from stickbreak.data import Documents
from stickbreak.families import Categorical
from stickbreak.inference import CollapsedVB, ExcludeOwn, count_own, run
from stickbreak.initialize import from_collapsed, from_local, from_plusplus
from stickbreak.models import dp_mixture, finite_hmm, finite_mixture, hdp_topics, lda
from stickbreak.stats import SERIAL

V, K = 7, 3


def corpus(n: int = 9, seed: int = 0) -> Documents:
    """Documents of about six distinct words, repeats and weights included."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(3, 7, n)
    words = np.concatenate([rng.permutation(V)[:size] for size in lengths])
    offsets = np.r_[0, lengths.cumsum()]
    repeats = rng.integers(1, 4, len(words)).astype(float)
    return Documents(words[:, None], repeats, offsets=offsets)


def model_of(kind: str):
    family = replace(Categorical(0.4), n_symbols=(V,))
    return {"lda": lda, "hdp": hdp_topics}[kind](family, concentration=0.6)


def begun(kind: str, data: Documents, seed: int = 1):
    model = model_of(kind)
    return model, from_local(model, data, K, np.random.default_rng(seed))


def plain_sweep(data: Documents, shares, pseudo, rest, base, only=None):
    """CVB0 word by word, as the formula has it; log predictives summed.

    One occurrence of a word leaves, or all of it if it counts less than once; and so with its
    document. Of all documents, or of `only` these.
    """
    words, repeats = data.rows[:, 0], data.repeats
    times = np.ones(data.n_spans) if data.times is None else data.times
    of_word, total = np.repeat(times, np.diff(data.offsets)), 0.0
    for s in range(data.n_spans) if only is None else only:
        at = range(data.offsets[s], data.offsets[s + 1])
        for n in at:
            one = min(1.0, repeats[n])
            counts = (repeats[:, None] * shares).astype(float)
            mine = counts[at.start : at.stop].sum(0) - one * shares[n]
            counts *= of_word[:, None]
            held = one * min(1.0, times[s]) * shares[n]
            word = counts[words == words[n]].sum(0) - held
            every = counts.sum(0) - held
            weight = (mine + pseudo) * (word + base) / (every + V * base)
            before = repeats[at.start : at.stop].sum() - one + pseudo.sum() + rest
            total += repeats[n] * times[s] * np.log(weight.sum() / before)
            shares[n] = weight / weight.sum()
    return total


WEIGHTS = {
    "occurrences": lambda data: data,
    "documents": lambda data: replace(data, times=np.linspace(0.2, 2.5, data.n_spans)),
    "fractions": lambda data: replace(data, repeats=0.3 * data.repeats),
    "both": lambda data: replace(
        data, repeats=0.3 * data.repeats, times=np.linspace(2.5, 0.2, data.n_spans)
    ),
}


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("kind", ["lda", "hdp"])
def test_a_sweep_equals_the_plain_loop(kind, weights):
    """Whatever words and documents count: no more leaves than has been added."""
    data = WEIGHTS[weights](corpus())
    model, start = begun(kind, data)
    shares = np.array(start.warm["shares"])
    pseudo = model.prior.pseudo(start.params, K)
    expected = plain_sweep(data, shares, *pseudo, 0.4)
    found, own = ExcludeOwn().visit(
        model, start.seed, start.params, data.whole(), start.warm, (), SERIAL
    )
    # shares are kept in float32
    np.testing.assert_allclose(own["shares"], shares, atol=2e-6)
    assert found.log_z == pytest.approx(expected, rel=1e-6)
    times = 1.0 if data.times is None else np.repeat(data.times, np.diff(data.offsets))
    held = (times * data.repeats)[:, None] * own["shares"]
    np.testing.assert_allclose(found["emission_total"][0], held.sum(0), rtol=1e-6)


@pytest.mark.parametrize("kind", ["lda", "hdp"])
def test_documents_seen_once_are_swept_beside_the_counts_of_earlier_ones(kind):
    """As the plain loop over the new documents alone; what is known of the earlier ones stays.

    The first sweep is given these alone.
    """
    data, n_known = corpus(), 5
    model, start = begun(kind, data)
    at = data.offsets[n_known]
    shares = np.array(start.warm["shares"])
    earlier = data.take(np.arange(n_known))
    own = start.warm.cut(row=slice(0, at), unit=slice(0, n_known))
    known = count_own(model, start.params, earlier, own, SERIAL)
    rule = ExcludeOwn().seen_once(model)
    assert rule.n_sweeps == model.structure.n_sweeps > 1
    new = data.take(np.arange(n_known, data.n_spans))
    mine = known.restrict(new.symbols)
    shares[at:] = ExcludeOwn().visit(model, mine, start.params, new, None, (), SERIAL)[1]["shares"]
    found, own = rule.visit(model, mine, start.params, new, None, (), SERIAL)
    pseudo = model.prior.pseudo(start.params, K)
    for _ in range(rule.n_sweeps - 1):
        plain_sweep(data, shares, *pseudo, 0.4, only=range(n_known, data.n_spans))
    np.testing.assert_allclose(own["shares"], shares[at:], atol=1e-5)  # kept in float32
    expected = (data.repeats[:, None] * shares)[at:].sum(0)
    np.testing.assert_allclose(found["emission_total"][0], expected, rtol=1e-5)


@pytest.mark.parametrize("n", [1, 5, 8, 11, 16])
def test_counts_changed_in_place_are_those_of_the_shares(n):
    """Of all data, the live counts are changed; of one batch of several, words are counted."""
    data = corpus()
    model = lda(Categorical(0.4, n_symbols=(V,)), 0.3)
    start = from_local(model, data, n, np.random.default_rng(0))
    args = model, start.seed, start.params, data.whole()
    swept, own = ExcludeOwn().visit(*args, start.warm, (), SERIAL)
    more = replace(start.seed, n_units=start.seed.n_units + 1.0)  # as if others had counts
    other, same = ExcludeOwn().visit(model, more, *args[2:], start.warm, (), SERIAL)
    np.testing.assert_array_equal(own["shares"], same["shares"])
    counted = count_own(model, start.params, data.whole(), own, SERIAL)
    for name in ("emission", "emission_total", "share", "log_share"):
        # differences of counts up to a hundred are rounded to 1e-14
        np.testing.assert_allclose(swept[name], counted[name], atol=1e-12)
        np.testing.assert_allclose(other[name], counted[name], atol=1e-12)
    assert swept.local_bound == pytest.approx(counted.local_bound, rel=1e-12)
    assert swept.log_z == other.log_z


def test_words_whose_weights_underflow_in_floats_are_weighed_in_doubles():
    """Words that hold what they may not have, and prior counts of 1e-40 for what they may."""
    data = replace(corpus(), sets=np.zeros(corpus().n_rows, dtype=np.int64))
    model = lda(Categorical(0.4, n_symbols=(V,)), 1e-40)
    legal = np.array([[0.0, 1.0, 1.0]])
    start = from_local(model, data, K, np.random.default_rng(0), legal=legal)
    start.warm["shares"][:] = [1.0, 0.0, 0.0]
    seed = count_own(model, start.params, data.whole(), start.warm, SERIAL)
    found, own = ExcludeOwn().visit(model, seed, start.params, data.whole(), start.warm, (), SERIAL)
    assert np.isfinite(found.log_z)
    np.testing.assert_allclose(own["shares"].sum(1), 1.0, rtol=1e-6)
    np.testing.assert_allclose(own["shares"][0], [0.0, 0.5, 0.5])  # both are empty
    assert own["shares"][:, 0].max() == 0.0


def test_a_start_may_give_up_its_shares():
    data = corpus()
    model, start = begun("lda", data)
    args = model, start.seed, start.params, data.whole()
    before = np.array(start.warm["shares"])
    _, own = ExcludeOwn().visit(*args, start.warm, (), SERIAL)
    np.testing.assert_array_equal(start.warm["shares"], before)
    _, given = ExcludeOwn(keeps_last=False).visit(*args, start.warm, (), SERIAL)
    assert given["shares"] is start.warm["shares"]
    np.testing.assert_array_equal(given["shares"], own["shares"])


@pytest.mark.parametrize("kind", ["lda", "hdp"])
def test_the_bound_is_the_variational_one_at_the_shares(kind):
    """-KL of every factor, written out: words, documents, topics (and the root's part)."""
    data = corpus()
    model, start = begun(kind, data)
    shares = np.asarray(start.warm["shares"], dtype=float)
    counts = data.repeats[:, None] * shares
    pseudo, rest = model.prior.pseudo(start.params, K)
    entropy = -(data.repeats[:, None] * xlogy(shares, shares)).sum()
    topics = np.zeros((V, K))
    np.add.at(topics, data.rows[:, 0], counts)
    rise = gammaln(topics + 0.4).sum() - gammaln((topics + 0.4).sum(0)).sum()
    rise += K * (gammaln(V * 0.4) - V * gammaln(0.4))
    units = np.repeat(np.arange(data.n_spans), np.diff(data.offsets))
    mine = np.zeros((data.n_spans, K))
    np.add.at(mine, units, counts)
    theta = np.column_stack([mine + pseudo, np.full(data.n_spans, rest)])[:, : K + (rest > 0)]
    prior = np.append(pseudo, rest)[: K + (rest > 0)]
    expected = entropy + rise + (gammaln(theta).sum(1) - gammaln(theta.sum(1))).sum()
    log_share = digamma(theta) - digamma(theta.sum(1))[:, None]
    own = model.prior.bound(start.seed, start.params)
    expected += own - (log_share @ prior).sum()
    assert model.bound(start.seed, start.params) == pytest.approx(expected, rel=1e-6)


def test_local_starts_are_random_and_complete():
    data = corpus()
    model, start = begun("lda", data)
    np.testing.assert_allclose(start.warm["shares"].sum(1), 1.0, atol=1e-6)
    assert start.seed["share"].sum() == pytest.approx(data.repeats.sum(), rel=1e-6)
    other = from_local(model, data, K, np.random.default_rng(2))
    assert not np.array_equal(other.warm["shares"], start.warm["shares"])


@pytest.mark.parametrize("n_batches", [1, 3])
def test_counts_stay_those_of_the_own_shares(n_batches):
    data = corpus(20)
    model, start = begun("hdp", data)
    result = run(model, CollapsedVB(max_iter=5, tol=0.0, n_batches=n_batches), data, start)
    own = result.warm()
    again = count_own(model, result.params, data.whole(), own, SERIAL)
    np.testing.assert_allclose(again["emission"], result.counts["emission"], rtol=1e-9, atol=1e-9)
    assert np.isfinite(result.bound)
    assert all(np.isfinite([lap.bound, lap.log_z]).all() for lap in result.trace)


def test_sweeps_raise_the_leave_one_out_predictive():
    data = corpus(60, seed=3)
    model, start = begun("lda", data)
    log_z = [lap.log_z for lap in run(model, CollapsedVB(max_iter=30), data, start).trace]
    assert log_z[-1] > log_z[0]


ENGINE = CollapsedVB(granularity="batch", n_batches=4, max_iter=25)
MODELS = {
    "finite": lambda family: finite_mixture(family, 1.0),
    "dp": lambda family: dp_mixture(family, 1.0),
}


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("name", ["autoregressive", "product"])
def test_batches_of_rows_are_left_out_in_turn(kind, name):
    from estimator_cases import CASES

    from stickbreak.data import Table, measure

    if name == "product":
        table = Table(np.column_stack([CASES["gaussian"].rows, CASES["bernoulli"].rows]))
        family = sb.Product({"gaussian": [0, 1]}, rest="bernoulli")
    else:
        table, family = Table(CASES[name].rows), sb.AutoregressiveGaussian()
    family = family.locate(None, table.rows.shape[1])
    model = MODELS[kind](family.resolve(measure(table, family.check_rows)))
    start = from_plusplus(model, table, 3, np.random.default_rng(0))
    result = run(model, ENGINE, table, start)
    # the plain loop: counts of all other batches, predictives, local step
    batches = table.batches(4)
    rule, counts = ENGINE.rule(), start.seed
    old = {}
    for _ in result.trace:
        for batch in batches:
            seen = sum(old.values(), start=counts.empty()) if len(old) == 4 else start.seed
            others = seen - old[batch.id] if len(old) == 4 else seen
            old[batch.id] = rule.visit(model, others, start.params, batch, None, (), SERIAL)[0]
        total = sum(old.values(), start=counts.empty())
        order = model.order(total)
        if order is not None:
            old = {i: order(summary) for i, summary in old.items()}
    total = sum(old.values(), start=counts.empty())
    np.testing.assert_allclose(
        model.prior.sizes(result.counts), model.prior.sizes(total), rtol=1e-8, atol=1e-8
    )
    # the bound is that of the shares: no higher than what variational Bayes makes of them
    later = run(model, sb.BatchVB(max_iter=200), table, replace(start, seed=result.counts))
    assert later.bound >= result.bound - 1e-8 * abs(result.bound)


def test_sequences_are_left_out_one_by_one():
    rng = np.random.default_rng(0)
    X = [rng.integers(0, 4, rng.integers(3, 9)) for _ in range(12)]
    family = replace(Categorical(0.5), n_symbols=(4,))
    from stickbreak.data import Sequences

    ends = np.r_[0, np.cumsum([len(x) for x in X])]
    data = Sequences(np.concatenate(X)[:, None], offsets=ends)
    model = finite_hmm(family)
    start = from_plusplus(model, data, 3, rng)
    result = run(model, CollapsedVB(n_batches=12, max_iter=10, tol=0.0), data, start)
    assert result.counts["emission_total"].sum() == pytest.approx(sum(map(len, X)))
    assert np.isfinite(result.bound)


# ---- as users meet it ----------------------------------------------------------------------------
WORDS = [["cat", "dog", "cat", "fur"], ["salt", "soup", "salt", "pan"]] * 20


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_topics_by_collapsed_inference(n_jobs, tmp_path):
    model = sb.LatentDirichletAllocation(
        2, inference="collapsed", init="local", random_state=0, n_jobs=n_jobs
    ).fit(WORDS)
    assert sorted(sorted(words) for words in model.top_words(2)) == [
        ["cat", "dog"],
        ["pan", "salt"],
    ]
    assert model.converged_
    model.save(tmp_path / "model")
    loaded = sb.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.transform(WORDS), model.transform(WORDS))
    whole = sb.LatentDirichletAllocation(2, inference="collapsed", init="local", random_state=0)
    assert whole.fit(WORDS).lower_bound_ == model.lower_bound_


def test_killed_spilled_and_resumed_fits_are_the_same_bits(tmp_path):
    data = corpus(200, seed=5)
    model, start = begun("hdp", data)
    engine = CollapsedVB(max_iter=12, tol=0.0, n_batches=3)
    whole = run(model, engine, data, start)
    spilled = run(model, replace(engine, memory_limit=0), data, start)
    np.testing.assert_array_equal(spilled.counts["emission"], whole.counts["emission"])

    class Stop(sb.Callback):
        def on_lap(self, record):
            if record.lap == 5:
                raise StopIteration

    from stickbreak.inference import read_checkpoint

    path = tmp_path / "fit.checkpoint"
    saving = replace(engine, checkpoint=path, checkpoint_every=0.0)
    run(model, replace(saving, callbacks=(Stop(),)), data, start)
    snapshot = read_checkpoint(path)[1]
    resumed = run(model, engine, data, snapshot)
    np.testing.assert_array_equal(resumed.counts["emission"], whole.counts["emission"])
    assert resumed.bound == whole.bound


def test_collapsed_starts_are_better_starts():
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(40, 0.1), 6)
    counts = np.array(
        [rng.multinomial(60, rng.dirichlet(np.full(6, 0.2)) @ topics) for _ in range(150)]
    )
    bounds = {
        init: sb.LatentDirichletAllocation(6, init=init, random_state=0).fit(counts).lower_bound_
        for init in ("documents", "collapsed")
    }
    assert bounds["collapsed"] > bounds["documents"] - 1.0


def test_a_number_of_batches_is_checked():
    with pytest.raises(ValueError, match='n_batches must be "auto" or at least 1; got 0'):
        sb.Mixture(2, inference=CollapsedVB(n_batches=0)).fit(np.zeros((4, 2)))


def test_sweeps_from_a_start_end_where_collapsed_fits_do():
    data = corpus(40)
    model, start = begun("lda", data, seed=4)
    ended = run(model, CollapsedVB(max_iter=7), data, start)
    found = from_collapsed(model, data, K, np.random.default_rng(4), n_sweeps=7)
    np.testing.assert_array_equal(found.seed["emission"], ended.counts["emission"])
