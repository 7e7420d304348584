"""Segments on the command line: fits, lines of segments, one clear error."""

from __future__ import annotations

import json

import numpy as np
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
    assert [line.split(",")[0] for line in lines[1:]] == list("000111222")
    found = json.loads(command("predict", "m.stickbreak", data, *use, "--json").out)
    assert found["n_segments"] == len(found["segments"]) == 9
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
