"""Segments on the command line: fits, lines of segments, one clear error."""

from __future__ import annotations

import csv
import json

import numpy as np
import pandas as pd
import pytest
from cli.running import command, files_in, write_csv  # noqa: F401

import stickbreak as sb

LENGTHS = (8, 12, 8)
PATH = np.repeat([-5.0, 5.0, -5.0], LENGTHS)
ROWS = np.concatenate([PATH + np.random.default_rng(s).normal(size=28) for s in range(3)])
IDS = np.repeat([3, 1, 2], 28)
FIT = ("--n-components", 2, "--seed", 0, "--sequence-id", "who", "--max-duration", 20)


@pytest.fixture
def data(tmp_path):
    return write_csv(tmp_path / "rows.csv", np.column_stack([ROWS, IDS]), "x,who")


def test_segments_are_lines_of_a_table(data, command):  # noqa: F811
    done = command("fit", "hsmm", data, *FIT, "--duration", "poisson", "--out", "m.stickbreak")
    assert done.code == 0, done.err
    assert sb.load("m.stickbreak").max_duration == 20
    use = ("--sequence-id", "who", "--segments")
    shown = command("predict", "m.stickbreak", data, *use)
    lines = shown.out.splitlines()
    assert lines[0] == "sequence,start,end,state,length"
    assert [line.split(",")[-1] for line in lines[1:]] == [str(n) for n in LENGTHS * 3]
    assert [line.split(",")[0] for line in lines[1:]] == list("333111222")  # as in the file
    found = json.loads(command("predict", "m.stickbreak", data, *use, "--json").out)
    assert found["n_segments"] == len(found["segments"]) == 9
    assert [segment[0] for segment in found["segments"]] == [3, 3, 3, 1, 1, 1, 2, 2, 2]
    assert command("predict", "m.stickbreak", data, *use, "--out", "s.npy").code == 0
    np.testing.assert_array_equal(np.load(data.parent / "s.npy")[:, 0], np.repeat([0, 1, 2], 3))
    done = command("predict", "m.stickbreak", data, *use, "--proba")
    assert done.code == 2
    assert "--segments" in done.err


def test_a_model_that_finds_its_states_is_fitted_by_name(data, command):  # noqa: F811
    done = command("fit", "hdp-hsmm", data, *FIT, "--max-iter", 5, "--out", "h.stickbreak")
    assert done.code == 0, done.err
    assert isinstance(sb.load("h.stickbreak"), sb.HDPHSMM)
    shown = command("predict", "h.stickbreak", data, "--sequence-id", "who", "--segments")
    assert len(shown.out.splitlines()) == 1 + 9


def test_segments_of_a_chain_and_bad_settings_are_one_line(data, command):  # noqa: F811
    plain = ("--n-components", 2, "--seed", 0, "--sequence-id", "who")
    assert command("fit", "hmm", data, *plain, "--out", "c.stickbreak").code == 0
    done = command("predict", "c.stickbreak", data, "--sequence-id", "who", "--segments")
    assert (done.code, done.out) == (2, "")
    assert "semi-Markov" in done.err
    assert done.err.count("\n") == 1
    for bad in (("--max-duration", 0), ("--duration", "weibull"), ("--inference", "subchain")):
        done = command("fit", "hsmm", data, *plain, *bad, "--out", "bad.stickbreak")
        assert done.code == 2, bad
        assert done.err.count("\n") == 1
    assert "bad.stickbreak" not in files_in(data.parent)


def test_sequences_are_called_by_their_names(data, command):  # noqa: F811
    names = np.repeat(["b", "a, the first", "c"], 28)
    text = "".join(f'{x!r},"{who}"\n' for x, who in zip(ROWS.tolist(), names, strict=True))
    data.write_text("x,who\n" + text)
    assert command("fit", "hsmm", data, *FIT, "--out", "n.stickbreak").code == 0
    lines = command("predict", "n.stickbreak", data, "--sequence-id", "who", "--segments").out
    read = list(csv.reader(lines.splitlines()))
    assert [line[0] for line in read[1:]] == [*"bbb", *["a, the first"] * 3, *"ccc"]


def test_segments_begin_where_a_column_says(data, command):  # noqa: F811
    may = np.tile(np.isin(np.arange(28), (0, 8, 20)), 3).astype(int)
    noisy = ROWS + np.random.default_rng(9).normal(0, 6, len(ROWS))
    write_csv(data, np.column_stack([noisy, IDS, may]), "x,who,may")
    given = ("--change-points", "may")
    done = command("fit", "hsmm", data, *FIT, *given, "--out", "p.stickbreak")
    assert done.code == 0, done.err
    model = sb.load("p.stickbreak")
    points = [np.array([0, 8, 20])] * 3
    rows = {"X": pd.DataFrame({"x": noisy}), "lengths": [28] * 3}
    use = ("--sequence-id", "who", *given)
    shown = command("predict", "p.stickbreak", data, *use, "--segments").out.splitlines()[1:]
    assert {int(line.split(",")[1]) for line in shown} <= {0, 8, 20}
    states = [int(line) for line in command("predict", "p.stickbreak", data, *use).out.split()[1:]]
    np.testing.assert_array_equal(states, model.predict(**rows, change_points=points))
    score = float(command("score", "p.stickbreak", data, *use).out)
    assert score == pytest.approx(model.score(**rows, change_points=points), rel=1e-12)
    assert score < model.score(**rows)
    # without ids it is one sequence
    alone = ("--change-points", "may", "--seed", 0, "--n-components", 2, "--columns", "x")
    assert command("fit", "hsmm", data, *alone, "--out", "q.stickbreak").code == 0


def test_a_column_of_change_points_that_does_not_suit_is_one_line(data, command):  # noqa: F811
    write_csv(data, np.column_stack([ROWS, IDS, np.full(len(ROWS), 2)]), "x,who,may")
    plain = ("--n-components", 2, "--seed", 0, "--sequence-id", "who", "--columns", "x")
    assert command("fit", "hmm", data, *plain, "--out", "c.stickbreak").code == 0
    points = ("--change-points", "may")
    for args, named in (
        (("fit", "hsmm", data, *plain, *points, "--out", "d.stickbreak"), "holds 2"),
        (("fit", "hmm", data, *plain, *points, "--out", "d.stickbreak"), "change-points"),
        (("predict", "c.stickbreak", data, "--sequence-id", "who", *points), "semi-Markov"),
    ):
        done = command(*args)
        assert done.code == 2
        assert named in done.err
    assert "d.stickbreak" not in files_in(data.parent)
