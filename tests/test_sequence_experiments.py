"""What the experiments on sequences are made of: toy data, readers of files, how labels and
held-out rows are judged.
"""

from __future__ import annotations

import gzip
import mmap
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.special import gammaln

import stickbreak as sb
from benchmarks.anonymous import AnonymousPeak
from experiments import (
    chromatin,
    cmu_mocap,
    durations,
    earthquakes,
    mocap6,
    one_pass,
    subchains,
    surrogate,
    toy_states,
    vowels,
)
from experiments.asterisk import hamming
from experiments.sequences import (
    TOY_MEANS,
    as_sequences,
    draw_toy,
    finite,
    infinite,
    labels_of,
    log_scores,
    log_steps,
)
from stickbreak.inference import Gibbs
from stickbreak.initialize import from_blocks, from_plusplus
from stickbreak.priors import BetaRoot, PointRoot

pytestmark = pytest.mark.slow  # what experiments print, not what the library does


def test_the_toy_is_that_of_the_anchors() -> None:
    data, truth = draw_toy(3, 40, 0.8)
    for i in range(3):
        rng = np.random.default_rng(i)
        u, z = rng.random(40), [i % 8]
        for t in range(1, 40):
            z.append(z[-1] if u[t] < 0.8 else (z[-1] + 1) % 8)
        np.testing.assert_array_equal(truth[40 * i : 40 * i + 40], z)
        np.testing.assert_array_equal(
            data.rows[40 * i : 40 * i + 40], TOY_MEANS[z] + rng.standard_normal((40, 2))
        )
    assert data.offsets is not None
    assert data.offsets.tolist() == [0, 40, 80, 120]


@pytest.mark.parametrize(("stickiness", "size"), [(0.0, 1), (50.0, 16)])
def test_moves_find_the_eight_states_of_a_small_toy(stickiness: float, size: int) -> None:
    data, truth = draw_toy(8, 150, 0.98)
    setting = toy_states.make(data, stickiness)
    engine = sb.MemoizedVB(n_batches=4, max_iter=40, tol=1e-6, moves=toy_states.MOVES)
    fit = setting.fit(engine, setting.start(size, 0, from_blocks))
    assert len(fit.result.ids) == fit.n_effective == 8
    assert hamming(truth, labels_of(fit, data.whole())) < 0.01


def test_a_sampler_need_not_rise_and_says_which_states_it_uses() -> None:
    data, _ = draw_toy(8, 60, 0.95)
    setting = toy_states.make(data, 50.0)
    fit = setting.fit(Gibbs(max_iter=12), setting.start(12, 0, from_blocks))
    assert np.diff(fit.result.trace.bound).min() < 0
    used = toy_states.n_used(fit)
    assert len(used) == 12
    assert used[-1] == fit.n_effective <= 12


def test_rows_given_those_before_them_make_up_the_score_of_a_sequence() -> None:
    data, _ = draw_toy(5, 30, 0.9)
    setting = toy_states.make(data, 0.0)
    fit = setting.fit(sb.BatchVB(max_iter=5), setting.start(4, 0, from_blocks))
    new, _ = draw_toy(7, 20, 0.9)
    steps = log_steps(fit, new.whole())
    assert steps.shape == (140,)
    np.testing.assert_allclose(
        steps.reshape(7, 20).sum(1), log_scores(fit, new.whole()), rtol=1e-10
    )  # the same sums in another order


def test_states_are_matched_to_the_exercise_that_most_of_their_rows_have() -> None:
    truth, labels = np.array([0, 0, 0, 1, 1, 2]), np.array([5, 5, 1, 1, 1, 5])
    np.testing.assert_array_equal(mocap6.match(truth, labels), [0, 0, 1, 1, 1, 0])


def test_the_prior_of_motion_captures_is_scaled_by_the_variances_of_a_step() -> None:
    rng = np.random.default_rng(0)
    rows, offsets = sb.lag_rows(
        np.cumsum(rng.normal(size=(60, 2)) * [1.0, 5.0], axis=0), np.array([0, 30, 60])
    )
    data = as_sequences(np.split(rows, offsets[1:-1]))
    setting = mocap6.make(data)
    family, variances = setting.model.family, (rows[:, :2] - rows[:, 2:]).var(0)
    np.testing.assert_allclose(np.diagonal(family.covariance), variances)
    np.testing.assert_allclose(np.diagonal(family.context), variances)
    assert family.dof == 4.0
    fit = mocap6.fit_moves(setting, 1, 0)
    parts = cmu_mocap.usage(fit, data)
    assert parts.shape == (2, len(fit.result.ids))
    np.testing.assert_allclose(parts.sum(1), 1.0)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(gzip.compress(text.encode()))


def test_chromatin_is_read_as_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STICKBREAK_DATA", str(tmp_path))
    path = tmp_path / "sequences" / "chromatin" / "GM12878_chr11_binary.txt.gz"
    write(path, "GM12878\tchr11\nCTCF\tWCE\tH3\n0\t1\t0\n1\t1\t0\n")
    marks, names = chromatin.load()
    assert marks.tolist() == [[0, 1, 0], [1, 1, 0]]
    assert names == ["CTCF", "WCE", "H3"]


def test_utterances_are_read_with_rows_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STICKBREAK_DATA", str(tmp_path))
    path = tmp_path / "sequences" / "japanese_vowels" / "JapaneseVowels_TEST.ts.gz"
    write(path, "#words\n@data\n1.5,2,3:4,5,6:2\n7,8:9,-1:1\n")
    utterances, speakers = vowels.load("TEST")
    assert [u.tolist() for u in utterances] == [[[1.5, 4], [2, 5], [3, 6]], [[7, 9], [8, -1]]]
    assert speakers.tolist() == [1, 0]


def test_utterances_go_to_the_speaker_who_is_likeliest() -> None:
    rng = np.random.default_rng(0)

    def speak(who: int) -> np.ndarray:
        """Speakers differ in the order of their two sounds."""
        first, second = ((-2, 2), (2, -2))[who]
        return np.r_[rng.normal(first, 1, (5, 2)), rng.normal(second, 1, (5, 2))]

    fits = [vowels.fit_speaker([speak(who) for _ in range(12)], 2, 0) for who in (0, 1)]
    known = np.arange(20) % 2
    assert vowels.accuracy(fits, [speak(who) for who in known], known) == 1.0


def test_the_bound_chooses_two_rates_where_there_are_two() -> None:
    rng = np.random.default_rng(0)
    counts = rng.poisson(np.repeat([8.0, 30.0, 8.0], 25))[:, None].astype(float)
    fits = [earthquakes.fit_finite(as_sequences([counts]), size, 2) for size in (1, 2, 3)]
    assert int(np.argmax([fit.result.bound for fit in fits])) == 1
    low, high = (float(rate) for rate in earthquakes.rates(fits[1]).split(", "))
    assert low == pytest.approx(8, abs=2)  # five standard errors of 50 counts
    assert high == pytest.approx(30, abs=5)


def test_chains_follow_their_rows() -> None:
    chains = one_pass.draw_chains(40, 100, 0)
    rng = np.random.default_rng([0, 12])
    means, factors, rows = one_pass.draw_parameters(rng)
    assert chains.shape == (40, 100, 2)
    start = rows[-1] @ means
    spread = np.sqrt(rows[-1] @ ((means - start) ** 2 + (factors**2).sum(2)))
    assert (np.abs(chains[:, 0].mean(0) - start) < 5 * spread / np.sqrt(40)).all()
    train, test = one_pass.split(chains)
    assert (train.n_spans, test.n_spans) == (38, 2)
    np.testing.assert_array_equal(np.r_[train.rows, test.rows], chains.reshape(-1, 2))


def test_one_pass_comes_near_many_sweeps() -> None:
    train, test = one_pass.split(one_pass.draw_chains(60, 120, 1))
    setting = infinite(train, one_pass.FAMILY)
    start = setting.start(one_pass.TRUNCATION, 0, from_plusplus)
    first, many = (setting.fit(sb.BatchVB(max_iter=laps), start) for laps in (1, 30))
    once, seconds = one_pass.fit_pass(
        setting, start, {"batch_size": 4, "kappa": 0.6, "delay": 0.0}, 0
    )
    scores = [one_pass.per_row(fit, test) for fit in (first, once, many)]
    assert scores[0] < scores[1] < scores[2] + 0.02
    assert scores[2] - scores[1] < 0.1
    assert seconds > 0


def test_figures_of_a_pass_count_the_starts_that_did_both() -> None:
    near, late = (dict.fromkeys(one_pass.PASSES, value) for value in (-2.005, 1.4))
    fast = dict.fromkeys(one_pass.PASSES, 0.6)
    found = [
        one_pass.Comparison(-2.1, -2.0, -2.0, 0.5, near, near, fast),
        one_pass.Comparison(-2.1, -2.0, -2.0, 0.5, near, near, late),
    ]
    assert "both as wanted in 1 of 2" in one_pass.rows_of("any", found)[-1].ours


def test_rows_around_short_windows_help() -> None:
    """Marks come in runs, so windows of two rows say little of where they are."""
    rng = np.random.default_rng(0)
    state = np.repeat(rng.integers(3, size=2000), rng.integers(5, 40, size=2000))
    marks = (
        rng.random((len(state), 4))
        < np.array([[0.1, 0.1, 0.2, 0.1], [0.5, 0.3, 0.2, 0.1], [0.1, 0.3, 0.6, 0.5]])[state]
    ).astype(float)
    setting = finite(chromatin.one_chain(marks), sb.Bernoulli(on=0.5, off=0.5))
    bare, helped = (subchains.fit_windows(setting, 2, buffer, 0) for buffer in (0, 10))
    assert helped.result.bound > bare.result.bound + 20
    fit = setting.fit(sb.BatchVB(max_iter=20), setting.start(3, 0, from_plusplus))
    assert subchains.row_of("batch", [fit], [-1.0]).ours.startswith(
        "held-out a bin -1.0000; bound -"
    )


def test_the_surrogate_lies_below_and_is_tight_for_small_concentrations() -> None:
    for concentration in surrogate.CONCENTRATIONS:
        exact, bound = surrogate.both(6, concentration)
        u = surrogate.prior_sticks(6)
        shares = np.append(u * np.r_[1.0, np.cumprod(1 - u)[:-1]], np.prod(1 - u))
        assert exact == pytest.approx(
            gammaln(concentration) - gammaln(concentration * shares).sum(), rel=1e-12
        )
        assert 0 <= exact - bound < 2.1 * concentration**2 + 1e-12  # the gap is of second order


def test_empty_topics_cost_under_the_surrogate_and_pay_under_a_point() -> None:
    counts = surrogate.draw_counts(0)
    assert counts.shape == (surrogate.DOCUMENTS, surrogate.TOPICS)
    assert (np.diff([0.0, *surrogate.changes(BetaRoot(surrogate.TOP), counts)]) < -2.5).all()
    assert (
        np.diff([0.0, *surrogate.changes(PointRoot(surrogate.TOP), counts)])
        > np.log(surrogate.TOP) - 1e-3
    ).all()


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="anonymous memory is read from /proc"
)
def test_the_peak_of_anonymous_memory_is_noticed() -> None:
    with AnonymousPeak() as memory:
        # new pages, where an array may be given those of one that was freed
        held = mmap.mmap(-1, 1 << 26, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        held.write(bytes(1 << 26))
    assert memory.peak - memory.before > 50


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="anonymous memory is read from /proc"
)
def test_a_lap_is_measured_in_a_process_of_its_own() -> None:
    marks = (np.random.default_rng(0).random((20_000, 10)) < 0.1).astype(float)
    found = chromatin.measure_lap(marks)
    assert 0 < found["before"] < found["peak"] < chromatin.MOST_MEGABYTES
    assert found["cpu"] > 0


def test_drawn_segments_have_the_lengths_of_their_law() -> None:
    """States of regular lengths by Poisson; all states of the data that are taken are there."""
    drawn = durations.draw(3, 4000, 0, "poisson")
    assert len(drawn.train) == 3
    assert len(drawn.test) == durations.HELD_OUT
    ends = np.flatnonzero(np.diff(drawn.states[0]))
    lengths = np.diff(ends)
    assert 10 < lengths.mean() < 32  # 1 + rates about 20
    assert lengths.std() < 12
    for data in durations.complete(2, 500, 2).values():
        rows = np.bincount(np.concatenate(data.states[: -durations.HELD_OUT]), minlength=6)
        assert rows.min() > durations.LEAST * rows.sum()


def test_all_forms_of_durations_are_compared_from_tiny_data() -> None:
    rows = durations.forms({60: 2})
    assert [row.what.split(", ")[-1] for row in rows] == list(durations.FORMS)
