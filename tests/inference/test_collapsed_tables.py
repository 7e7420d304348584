"""Collapsed inference with expected table counts: sweeps, totals, bound, number of states."""

import warnings
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import pytest

import stickbreak as sb
from stickbreak.data import Sequences
from stickbreak.families import Categorical
from stickbreak.inference import ExcludeOwn, Start, read_checkpoint, run, workers
from stickbreak.initialize import from_local
from stickbreak.models import Model, finite_hmm, hdp_hmm
from stickbreak.priors import TableRows
from stickbreak.priors.tables import EXISTENCE
from stickbreak.priors.transitions import RowPseudo
from stickbreak.stats import SERIAL
from stickbreak.structures import TableChain
from tests.table_cases import BASE, WORDS, log_evidence

K, V = 4, 5
LOGS = ("log_absent", "log_absent_row", "log_absent_start")
compiles = pytest.mark.slow  # half a minute for sweeps of tables


@contextmanager
def _quiet():
    """Fits that end before they have settled say so."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sb.StickbreakWarning)
        yield


def some_sequences(seed=0, n=12):
    rng = np.random.default_rng(seed)
    lengths = np.r_[1, rng.integers(2, 15, size=n - 1)]
    return Sequences(rng.integers(V, size=(lengths.sum(), 1)), offsets=np.r_[0, lengths.cumsum()])


def begin(model, data, seed=0):
    own = model.structure.random_own(data.whole(), K, model.axis, np.random.default_rng(seed))
    rule, params = ExcludeOwn(), model.start_params(K)
    return own, rule.count(model, params, data.whole(), own, SERIAL), params, rule


def family():
    return replace(Categorical(0.3), n_symbols=(V,))


@compiles
@pytest.mark.parametrize("existence", EXISTENCE)
def test_sweeps_and_local_steps_find_the_same_absences(existence):
    """Two ways through the code: the compiled sweep of symbols, and the step of any family."""
    model, data = hdp_hmm(family(), root=sb.TableRoot(existence)), some_sequences()
    _, counts, params, rule = begin(model, data)
    batch = data.whole()
    swept, _ = rule.visit(model, counts, params, batch, None, (), SERIAL)  # own counts stay in
    found, _ = model.local_step(rule.potentials(model, counts, params), batch)
    for name in (*LOGS, "start", "transition"):
        # sweeps keep float32
        np.testing.assert_allclose(swept[name], found[name], rtol=2e-5, atol=1e-6)
    assert all((found[name] <= 0).all() for name in LOGS)
    assert (found["log_absent"] >= found["log_absent_row"][:, None] - 1e-9).all()


@compiles
def test_totals_are_the_sums_of_what_sequences_keep():
    model, data = hdp_hmm(family(), root="tables"), some_sequences()
    own, counts, params, rule = begin(model, data)
    for _ in range(3):
        counts, own = rule.visit(model, counts, params, data.whole(), own, (), SERIAL)
        params = model.global_step(counts, params)
    np.testing.assert_allclose(counts["log_absent"], own["absent"].sum(0, dtype=float))
    np.testing.assert_allclose(counts["log_absent_row"], own["absent_rows"].sum(0, dtype=float))
    again = rule.count(model, params, data.whole(), own, SERIAL)
    for name in counts:
        np.testing.assert_allclose(again[name], counts[name], rtol=1e-12, atol=1e-12)
    is_step = -np.expm1(counts["log_absent"])
    assert (is_step <= counts["transition"] * (1 + 1e-5) + 1e-6).all()


@dataclass(frozen=True, eq=False)
class EvenRows(TableRows):
    """Prior counts of one half, and nothing left over."""

    def pseudo(self, params, n_components):
        return RowPseudo(np.full(n_components, 0.5), np.full((n_components, n_components), 0.5))


@compiles
def test_equal_prior_counts_are_those_of_a_finite_chain():
    """Bit for bit."""
    data, found = some_sequences(1), []
    for model in (Model(TableChain(), family(), EvenRows()), finite_hmm(family())):
        own, counts, params, rule = begin(model, data)
        for _ in range(3):
            counts, own = rule.visit(model, counts, params, data.whole(), own, (), SERIAL)
        found.append((own["rows"], own["pairs"], counts["emission"], counts["transition"]))
    for first, second in zip(*found, strict=True):
        np.testing.assert_array_equal(first, second)


@compiles
@pytest.mark.few(2)
@pytest.mark.parametrize(("c", "top"), [(0.5, 1.0), (3.0, 0.7)])
@pytest.mark.parametrize("existence", ["independent", "exact"])
def test_bound_of_a_fit_is_below_the_evidence(c, top, existence):
    model = sb.HDPHMM(
        2, family=sb.Categorical(BASE), concentration=c, top_concentration=top, init="local",
        root=sb.TableRoot(existence, learns=False), max_iter=20, tol=0.0, random_state=0,
    )  # fmt: skip
    with _quiet():
        model.fit([np.array(words)[:, None] for words in WORDS])
    exact = log_evidence(c, top)
    assert exact - 3.0 < model.lower_bound_ < exact  # three nats on five words: not next to nothing


def four_states(n=50, length=100):
    """Four states with two successors each, and three symbols of eight each."""
    rng = np.random.default_rng(0)
    steps = np.array([[0, 1, 1, 0], [0, 0, 1, 1], [1, 0, 0, 1], [1, 1, 0, 0]]) / 2
    words = np.zeros((4, 8))
    for k, some in enumerate(([0, 1, 2], [2, 3, 4], [4, 5, 6], [6, 7, 0])):
        words[k, some] = 1 / 3
    out = []
    for _ in range(n):
        z, row = rng.integers(4), []
        for _ in range(length):
            row.append(rng.choice(8, p=words[z]))
            z = rng.choice(4, p=steps[z])
        out.append(np.array(row)[:, None])
    return out


@compiles
def test_superfluous_states_die_out_before_a_fit_ends():
    """Defaults of a fit; states are alike for the first hundred laps, where log_z is flat."""
    model = sb.HDPHMM(
        10, family=sb.Categorical(1.0), root="tables", concentration=1.0, top_concentration=1.0,
        init="local", random_state=0,
    )  # fmt: skip
    model.fit(four_states())
    assert model.converged_
    assert model.n_iter_ > 100  # by log_z alone, it would end after seven laps
    flat = model.trace_.log_z[6] - model.trace_.log_z[1]
    assert flat < 1e-5 < model.trace_.moved[6]
    assert model.trace_.moved[-1] < 1e-6
    assert model.n_covering() == 4
    assert model.concentration_ < 1.0  # learned: two successors of four
    assert np.isfinite(model.trace_.laps[-1].bound)
    # the states that are left have two successors each
    is_used = model.counts_ > 1
    assert ((model.transmat_[np.ix_(is_used, is_used)] > 0.1).sum(1) == 2).all()


def ring(seed, n=100, length=100):
    """Four states, each followed by the next (0.99) or by itself; three of eight symbols each."""
    rng, rows = np.random.default_rng(seed), np.empty((n, length), dtype=int)
    symbols = np.array([[0, 6, 7], [0, 1, 2], [2, 3, 4], [4, 5, 6]])
    z = rng.integers(0, 4, n)
    for t in range(length):
        rows[:, t] = symbols[z, rng.integers(0, 3, n)]
        z = np.where(rng.random(n) < 0.01, z, (z + 1) % 4)
    return Sequences(rows.reshape(-1, 1), offsets=np.arange(0, n * length + 1, length))


def covering(seed, n_sweeps):
    """How many of ten states cover 99 % of the rows, after every sweep."""
    data, rule = ring(seed), ExcludeOwn()
    model = hdp_hmm(
        Categorical(1.0, (8,)), concentration=1.0, top_concentration=1.0,
        root=sb.TableRoot(learns=False),
    )  # fmt: skip
    own = model.structure.random_own(data.whole(), 10, model.axis, np.random.default_rng(seed))
    params = model.start_params(10)
    counts, found = rule.count(model, params, data.whole(), own, SERIAL), []
    for _ in range(n_sweeps):
        counts, own = rule.visit(model, counts, params, data.whole(), own, (), SERIAL)
        params = model.global_step(counts, params)
        rows = np.sort(counts["emission"].sum(0))[::-1].cumsum()
        found.append(int(np.searchsorted(rows, 0.99 * rows[-1])) + 1)
    return np.array(found)


@compiles
def test_states_of_a_ring_die_out_one_by_one():
    """Never more than one comes back, and four are left, or one more."""
    found = covering(7, 250)
    assert found[0] == 10
    assert (found - np.minimum.accumulate(found)).max() <= 1
    assert abs(found[-1] - 4) <= 1


@pytest.mark.slow
def test_most_starts_end_with_the_states_of_a_ring():
    """Ten seeds: 4 to 6 states after 300 sweeps in eight, 4 or 5 after 600 in nine. All states are
    alike for some hundred sweeps; one start has not left that after 900.
    """
    found = np.array([covering(seed, 600) for seed in range(10)])
    assert ((found - np.minimum.accumulate(found, axis=1)).max(1) <= 1).all()
    assert np.median(found[:, 299]) <= 6
    assert (np.abs(found[:, -1] - 4) <= 1).sum() >= 8


def drawn_counts(sequences, n_draws=50):
    """Counts of drawn paths: a start in which states differ."""
    rows = np.concatenate(sequences)
    data = Sequences(rows, offsets=np.r_[0, np.cumsum([len(s) for s in sequences])])
    model = hdp_hmm(sb.Categorical(1.0, (8,)), concentration=1.0, top_concentration=1.0)
    start = from_local(model, data, 10, np.random.default_rng(0))
    return data, run(model, sb.Gibbs(max_iter=n_draws), data, start).counts


def drawn_start(sequences):
    """Data, a model with tables, and counts of drawn paths to begin with."""
    data, drawn = drawn_counts(sequences)
    model = hdp_hmm(
        sb.Categorical(1.0, (8,)), root="tables", concentration=1.0, top_concentration=1.0
    )
    empty = model.zeros(10)
    arrays = {**empty.arrays, **{n: a for n, a in drawn.arrays.items() if n in empty}}
    counts = replace(empty, arrays=arrays, n_units=drawn.n_units)
    return data, model, Start(counts, model.start_params(10))


@compiles
@pytest.mark.parametrize("lap", [3, 7])  # before and after the first merges
def test_killed_spilled_and_threaded_merges_are_the_same_bits(lap, tmp_path):
    data, model, start = drawn_start(four_states(30, 60))
    engine = sb.CollapsedVB(max_iter=12, n_batches=2, moves=[sb.Merge()])
    whole = run(model, engine, data, start)
    assert min(record.lap for record in whole.trace.moves) == 7 < len(whole.trace)
    with workers(2) as pool:
        threaded = run(model, engine, data, start, pool=pool)
    spilled = run(model, replace(engine, memory_limit=0), data, start)

    class Stop(sb.Callback):
        def on_lap(self, record):
            if record.lap == lap:
                raise StopIteration

    path = tmp_path / "fit.checkpoint"
    saving = replace(engine, checkpoint=path, checkpoint_every=0.0)
    run(model, replace(saving, callbacks=(Stop(),)), data, start)
    resumed = run(model, engine, data, read_checkpoint(path)[1])
    for other in (threaded, spilled, resumed):
        assert other.bound == whole.bound
        assert other.ids == whole.ids
        for name in whole.counts:
            np.testing.assert_array_equal(other.counts[name], whole.counts[name])


@compiles
def test_merges_leave_the_states_that_there_are():
    data, model, start = drawn_start(four_states(30, 60))
    plain, merged = (
        run(model, sb.CollapsedVB(max_iter=200, moves=moves), data, start)
        for moves in (None, [sb.Merge()])
    )
    sizes = model.prior.sizes(merged.counts)
    assert (sizes > 0.01 * data.n_rows).sum() == 4
    assert merged.bound > plain.bound
    assert len(merged.trace) < len(plain.trace)
    assert all(record.gain > 0 for record in merged.trace.moves if record.is_accepted)
    # own counts were merged too: they add up to the total
    again = ExcludeOwn().count(merged.model, merged.params, data.whole(), merged.warm(), SERIAL)
    np.testing.assert_allclose(again["transition"], merged.counts["transition"], atol=1e-9)


def grammar(seed, n=100, length=60):
    """Sequences that repeat abc, or acb, or are fair coins of a and b: seven states."""
    rng, rows = np.random.default_rng(seed), []
    for _ in range(n):
        order = [[0, 1, 2], [0, 2, 1], None][rng.integers(3)]
        turns = (rng.integers(3) + np.arange(length)) % 3
        rows.append(rng.integers(2, size=length) if order is None else np.array(order)[turns])
    return Sequences(np.concatenate(rows)[:, None], offsets=np.arange(0, n * length + 1, length))


@compiles
@pytest.mark.parametrize(("data", "n_states"), [(ring, 4), (grammar, 7)])
def test_defaults_find_the_states(data, n_states):
    """Drawn states to begin with, and merges until none helps; fits end in a hundred laps."""
    found = []
    for seed in range(4):
        some = data(seed)
        model = sb.HDPHMM(12, family="categorical", root="tables", random_state=seed)
        model.fit(np.split(some.rows, some.offsets[1:-1]))
        assert model.converged_
        assert model.n_iter_ < 300
        found.append(model.n_covering())
    assert found.count(n_states) >= 3


@compiles
def test_defaults_reach_the_states_of_a_ring_where_plain_sweeps_do_not():
    """Four in ten of ten within 113 laps, after 200 drawn sweeps; plain sweeps have four or five
    after 300 in five of ten, and all ten in two: states that are alike stay so for long."""
    found = []
    for seed in range(10):
        some = np.split(ring(seed).rows, 100)
        model = sb.HDPHMM(10, family="categorical", root="tables", random_state=seed).fit(some)
        found.append((model.n_covering(), covering(seed, 300)[-1], model.n_iter_))
    states, plain, laps = np.array(found).T
    assert (np.abs(states - 4) <= 1).all()
    assert laps.max() < 300
    assert (np.abs(plain - 4) <= 1).sum() < 10


@compiles
def test_defaults_from_random_chains_do_not_merge():
    """States that are alike would all be merged."""
    model = sb.HDPHMM(4, family="categorical", root="tables", init="local", max_iter=2, tol=9.0)
    with _quiet():
        model.fit([np.array([0, 1, 0, 1])[:, None]] * 5)
    assert model.trace_.moves == []


@pytest.mark.slow  # 12 seconds to compile
def test_other_families_are_swept_too():
    rng = np.random.default_rng(0)
    path = np.repeat([-6.0, 0.0, 6.0], 5)[:, None]
    sequences = [path + rng.normal(size=(15, 1)) for _ in range(6)]
    with _quiet():
        model = sb.HDPHMM(6, root="tables", max_iter=20, random_state=0).fit(sequences)
    assert np.isfinite(model.lower_bound_)
    assert model.n_covering(0.9) == 3


@compiles
def test_settings_are_kept_in_files(tmp_path):
    given = sb.TableRoot("mean-field", learns=False)
    with _quiet():
        model = sb.HDPHMM(3, family="categorical", root=given, max_iter=3, random_state=0)
        model.fit([np.array([0, 1, 1, 0])[:, None]] * 4)
    model.save(tmp_path / "model.safetensors")
    loaded = sb.load(tmp_path / "model.safetensors")
    assert repr(loaded.root) == "TableRoot(existence='mean-field', learns=False)"
    np.testing.assert_array_equal(loaded.transmat_, model.transmat_)
    assert loaded.concentration_ == 0.5
    assert loaded.top_concentration_ == 10.0


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"inference": "batch"},
            "root='tables' needs inference='collapsed' or 'stochastic-collapsed'; got BatchVB",
        ),
        ({"inference": "memoized"}, "needs inference='collapsed'"),
        ({"inference": "em"}, "needs inference='collapsed'"),
        ({"inference": "stochastic"}, "needs inference='collapsed'"),
        ({"inference": "gibbs"}, "needs inference='collapsed'"),
        ({"inference": "collapsed-gibbs"}, "needs inference='collapsed'"),
        (
            {"inference": sb.CollapsedVB(granularity="subsequence", moves=[sb.Merge()])},
            "merges are tried on whole sequences",
        ),
        ({"stickiness": 1.0}, "root='tables' has no stickiness"),
        ({"start_concentration": 3.0}, "start_concentration=3.0 is not for root='tables'"),
        ({"concentration": sb.GammaPrior()}, "concentration"),
        ({"root": sb.TableRoot("never")}, "existence must be one of"),
        (
            {"inference": sb.CollapsedVB(granularity="token")},
            "granularity='token' is not for TableChain; choose one of auto, sequence, subsequence, "
            "batch",
        ),
        (
            {"inference": sb.CollapsedVB(moves=[sb.Birth()])},
            "collapsed sweeps can merge components only; got",
        ),
        ({"inference": sb.CollapsedVB(moves="merge")}, "moves must be None, or a list of objects"),
        (
            {"inference": sb.CollapsedVB(moves=[sb.Merge()]), "root": "beta"},
            r"merges of collapsed fits are for root='tables';",
        ),
    ],
)
def test_what_tables_cannot_do_is_refused(given, words):
    model = sb.HDPHMM(3, **{"family": "categorical", "root": "tables", **given})
    with pytest.raises(ValueError, match=words):
        model.fit([np.array([0, 1])[:, None]] * 3)


def test_number_of_states_that_cover_most_rows():
    with _quiet():
        model = sb.HMM(3, family="categorical", max_iter=2, random_state=0)
        model.fit([np.array([0, 1, 2])[:, None]] * 3)
    rows = np.sort(model.counts_)[::-1]
    assert model.n_covering(1.0) == 3
    assert model.n_covering(0.5 * rows[0] / rows.sum()) == 1
    assert model.n_covering(1.001 * rows[0] / rows.sum()) == 2
    with pytest.raises(ValueError, match="share must be above 0"):
        model.n_covering(0.0)
