"""Sequences on the command line: the same answers as Python's, whole sequences in every part."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from cli.running import command, files_in, write_csv  # noqa: F401
from sequence_cases import make_sequences

import stickbreak as sb

CASE = make_sequences("gaussian")
FIT = ("--n-components", 3, "--seed", 0, "--sequence-id", "who")


@pytest.fixture
def data(tmp_path) -> Path:
    return write_csv(
        tmp_path / "rows.csv",
        np.column_stack([CASE.stacked[:, 0], CASE.ids, CASE.stacked[:, 1]]),
        "x,who,y",
    )


@pytest.mark.parametrize("name", ["hmm", "hdp-hmm"])
def test_fit_predict_and_score_are_those_of_python(name, data, command, monkeypatch):  # noqa: F811
    done = command("fit", name, data, *FIT, "--stickiness", 2, "--out", "m.stickbreak", "--json")
    assert done.code == 0, done.err
    cls = sb.HMM if name == "hmm" else sb.HDPHMM
    moves = () if name == "hmm" else (sb.Birth(), sb.Merge(), sb.Delete())
    model = cls(3, stickiness=2.0, random_state=0, inference=sb.MemoizedVB(moves=moves)).fit(
        CASE.sequences
    )
    found = json.loads(done.out)
    assert found["lower_bound"] == pytest.approx(model.lower_bound_, rel=1e-12)
    assert found["columns"] == ["x", "y"]
    np.testing.assert_allclose(found["transition"], model.transmat_, rtol=1e-9)
    # several parts, which must not cut a sequence
    monkeypatch.setattr("stickbreak.cli.using.PART_ROWS", 50)
    labels = command("predict", "m.stickbreak", data, "--sequence-id", "who").out.split()
    assert labels[0] == "state"
    np.testing.assert_array_equal(np.array(labels[1:], dtype=int), np.concatenate(model.labels_))
    assert (
        command(
            "predict", "m.stickbreak", data, "--sequence-id", "who", "--proba", "--out", "p.npy"
        ).code
        == 0
    )
    np.testing.assert_allclose(
        np.load("p.npy"), np.concatenate(model.predict_proba(CASE.sequences)), atol=1e-9
    )
    score = float(command("score", "m.stickbreak", data, "--sequence-id", "who").out)
    assert score == pytest.approx(model.score(CASE.sequences), rel=1e-10)
    shown = command("show", "m.stickbreak").out
    assert f"{model.n_effective_} states with rows" in shown
    assert "stay" in shown
    assert (
        json.loads(command("show", "m.stickbreak", "--json").out)["components"][0]["duration"] > 1
    )


def test_groups_are_whole_in_every_part(data, command, monkeypatch):  # noqa: F811
    done = command("fit", "hdp-mixture", data, *FIT, "--out", "m.stickbreak", "--json")
    assert done.code == 0, done.err
    moves = (sb.Birth(), sb.Merge(), sb.Delete())
    model = sb.HDPMixture(3, random_state=0, inference=sb.MemoizedVB(moves=moves))
    model.fit(CASE.sequences)
    assert json.loads(done.out)["lower_bound"] == pytest.approx(model.lower_bound_, rel=1e-12)
    monkeypatch.setattr("stickbreak.cli.using.PART_ROWS", 50)
    labels = command("predict", "m.stickbreak", data, "--sequence-id", "who").out.split()
    np.testing.assert_array_equal(np.array(labels[1:], dtype=int), np.concatenate(model.labels_))
    score = float(command("score", "m.stickbreak", data, "--sequence-id", "who").out)
    assert score == pytest.approx(model.score(CASE.sequences), rel=1e-10)


@pytest.mark.parametrize("kind", ["csv", "tsv", "parquet"])
def test_sequences_are_named_by_words(kind, data, command, tmp_path):  # noqa: F811
    names = np.array(["ann", "bob", "cy, jr.", 'd "dd"', "ärger"])[CASE.ids]
    frame = pl.DataFrame({"x": CASE.stacked[:, 0], "who": names, "y": CASE.stacked[:, 1]})
    path = tmp_path / f"words.{kind}"
    frame.write_parquet(path) if kind == "parquet" else frame.write_csv(
        path, separator="," if kind == "csv" else "\t"
    )
    for source, out in ((data, "a.stickbreak"), (path, "b.stickbreak")):
        done = command("fit", "hmm", source, *FIT, "--out", out, "--quiet")
        assert (done.code, done.err) == (0, "")
    assert sb.load("a.stickbreak").lower_bound_ == sb.load("b.stickbreak").lower_bound_
    found = [
        command("predict", "b.stickbreak", source, "--sequence-id", "who").out
        for source in (data, path)
    ]
    assert found[0] == found[1]


def test_autoregressions_are_scored_by_the_rows_that_they_model(command, tmp_path):  # noqa: F811
    case = make_sequences("autoregressive", (80, 60))
    path = write_csv(tmp_path / "rows.csv", np.column_stack([case.ids, case.stacked]), "who,x,y")
    done = command(
        "fit", "hmm", path, *FIT, "--family", "autoregressive", "--out", "m.stickbreak", "--quiet"
    )
    assert (done.code, done.err) == (0, "")
    score = float(command("score", "m.stickbreak", path, "--sequence-id", "who").out)
    expected = sb.HMM(3, family="autoregressive", random_state=0, inference=sb.MemoizedVB()).fit(
        case.sequences
    )
    assert score == pytest.approx(expected.score(case.sequences), rel=1e-10)


@pytest.mark.few(1)
@pytest.mark.parametrize("root", ["beta", "point"])
def test_the_number_of_states_is_found_where_the_bound_can_tell(root, data, command):  # noqa: F811
    done = command(
        "fit", "hdp-hmm", data, "--sequence-id", "who", "--root", root, "--seed", 0, "--json"
    )
    assert done.code == 0, done.err
    assert (json.loads(done.out)["n_components"] < 25) == (root == "beta")


@pytest.mark.slow  # `test_documents.py` has another
def test_a_fit_is_resumed(data, command):  # noqa: F811
    fit = ("fit", "hdp-hmm", data, *FIT, "--n-batches", 2, "--quiet")
    assert (
        command(*fit, "--checkpoint", "c", "--checkpoint-every", 0, "--out", "a.stickbreak").code
        == 0
    )
    done = command("resume", "c", data, "--sequence-id", "who", "--out", "b.stickbreak", "--quiet")
    assert done.code == 0, done.err
    assert sb.load("a.stickbreak").lower_bound_ == sb.load("b.stickbreak").lower_bound_


@pytest.mark.slow  # seconds to compile
def test_paths_are_drawn_within_slices(data, command):  # noqa: F811
    fit = ("fit", "hmm", data, *FIT, "--inference", "gibbs", "--max-iter", 4, "--quiet")
    assert command(*fit, "--slices", "--out", "a.stickbreak").code == 0
    assert repr(sb.load("a.stickbreak").inference) == "Gibbs(max_iter=4, slices=True)"
    assert command(*fit, "--no-slices", "--out", "b.stickbreak").code == 0
    assert sb.load("b.stickbreak").lower_bound_ != sb.load("a.stickbreak").lower_bound_


BAD = {
    "no such column": (
        ("fit", "hmm", "rows.csv", "--sequence-id", "when"),
        "has no column 'when'; it has 'x', 'who', 'y'",
    ),
    "a stream": (
        ("fit", "hmm", "rows.csv", "--sequence-id", "who", "--stream"),
        "No such option: --stream",
    ),
    "ids that come back": (
        ("fit", "hmm", "rows.csv", "--sequence-id", "x"),
        "sequence_id 0.0 begins again at row 2",
    ),
    "words that come back": (
        ("fit", "hmm", "words.csv", "--sequence-id", "who"),
        "sequence_id 'ann' begins again at row 3",
    ),
    "a word that is missing": (
        ("fit", "hmm", "holed.csv", "--sequence-id", "who"),
        "row 1 has no sequence_id",
    ),
    "no names": (
        ("fit", "hmm", "rows.npy", "--sequence-id", "who"),
        "the columns of rows.npy have no names",
    ),
    "a mixture": (
        ("predict", "m.stickbreak", "rows.csv", "--sequence-id", "who"),
        "--sequence-id is for models of sequences",
    ),
    "stickiness": (
        ("fit", "hmm", "rows.csv", "--stickiness", "-1"),
        "stickiness must be zero or a positive number",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_calls_are_one_line_and_write_nothing(case, data, command, tmp_path):  # noqa: F811
    sb.Mixture(1).fit(CASE.stacked).save(tmp_path / "m.stickbreak")
    if case == "ids that come back":
        write_csv(
            tmp_path / "rows.csv",
            np.column_stack([np.arange(10) % 2, np.arange(10.0), np.arange(10)]),
            "x,who,y",
        )
    (tmp_path / "words.csv").write_text("x,who\n1,ann\n2,ann\n3,bob\n4,ann\n")
    (tmp_path / "holed.csv").write_text("x,who\n1,ann\n2,\n3,bob\n")
    np.save(tmp_path / "rows.npy", CASE.stacked)
    before = files_in(tmp_path)
    arguments, message = BAD[case]
    done = command(*arguments, *(["--out", "n.stickbreak"] if arguments[0] == "fit" else []))
    assert done.code == 2
    assert message in done.err
    assert done.err.count("\n") == 1
    assert files_in(tmp_path) == before
