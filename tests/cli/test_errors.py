"""Whatever is wrong: one line on stderr, exit code 2, and nothing written."""

from __future__ import annotations

import os
import re

import numpy as np
import pytest
from cli.running import command, files_in, write_csv  # noqa: F401
from estimator_cases import CASES, blobs
from estimators.test_bad_input import FILES, ON_DISK, ROWS, write

import stickbreak as sb

X = blobs(60)


@pytest.fixture
def refused(command, tmp_path):  # noqa: F811
    """Runs a command that must fail, and gives the words of its one line."""

    def act(*arguments: object) -> str:
        before = files_in(tmp_path)
        done = command(*arguments)
        assert done.code == 2
        assert done.out == ""
        assert re.fullmatch(r"stickbreak: .{10,500}\n", done.err), done.err
        assert files_in(tmp_path) == before
        return done.err

    return act


@pytest.fixture
def data(tmp_path):
    return write_csv(tmp_path / "rows.csv", X, "x,y")


@pytest.fixture
def model(data, command):  # noqa: F811
    assert (
        command(
            "fit",
            "mixture",
            data,
            "--n-components",
            2,
            "--seed",
            0,
            "--out",
            "m.stickbreak",
            "--quiet",
        ).code
        == 0
    )
    return "m.stickbreak"


# ---- the bad input of the estimators -------------------------------------------------------------


@pytest.mark.parametrize("case", ON_DISK)
def test_bad_rows_as_text(case, refused, tmp_path):
    family, rows, _ = ON_DISK[case]
    path = write_csv(tmp_path / "bad.csv", rows)
    line = refused(
        "fit",
        "mixture",
        path,
        "--family",
        family,
        "--n-components",
        2,
        "--out",
        "m.stickbreak",
        "--json",
    )
    assert "is empty" in line if case == "no rows" else "row 7, column 1" in line


@pytest.mark.parametrize("case", ROWS)
@pytest.mark.parametrize("name", ["mixture", "dp-mixture"])
def test_bad_rows_as_an_array(name, case, refused, tmp_path):
    family, rows, _ = ROWS[case]
    np.save(tmp_path / "bad.npy", rows)
    np.savez(tmp_path / "bad.npz", rows)
    for path in ("bad.npy", "bad.npz"):
        for more in ((), ("--stream",)):
            assert refused(
                "fit",
                name,
                path,
                "--family",
                family,
                "--n-components",
                2,
                "--out",
                "m.stickbreak",
                *more,
            )


@pytest.mark.parametrize("case", FILES)
def test_bad_files(case, refused, tmp_path):
    write(tmp_path / "bad.npy", FILES[case][0])
    assert "bad.npy" in refused("fit", "mixture", "bad.npy", "--out", "m.stickbreak")


TEXT = {
    "a word": ("x,y\n1,2\n3,four\n", "bad.csv, row 3, column 'y': 'four' is not a number"),
    "header only": ("x,y\n", "bad.csv has a header but no rows"),
    "empty": ("", "bad.csv is empty"),
    "ragged": ("x,y\n1,2\n3\n", "bad.csv, row 3 has 1 columns"),
}


@pytest.mark.parametrize("case", TEXT)
@pytest.mark.parametrize("stream", [[], ["--stream"]], ids=["", "stream"])
def test_bad_text(case, stream, refused, tmp_path):
    content, message = TEXT[case]
    (tmp_path / "bad.csv").write_text(content)
    line = refused(
        "fit", "mixture", "bad.csv", "--n-components", 1, "--out", "m.stickbreak", *stream
    )
    assert message in line or (case == "header only" and stream and "bad.csv has no rows" in line)


def test_missing_columns_and_paths_that_cannot_be_read(refused, data, model, tmp_path):
    fit = ["fit", "mixture", "--out", "n.stickbreak"]
    assert "no column 'z'; it has 'x', 'y'" in refused(*fit, data, "--columns", "x,z")
    assert "no such file" in refused(*fit, "none.csv")
    assert "is a folder" in refused(*fit, tmp_path)
    assert "files of kind '.txt' are not read" in refused(*fit, write_csv(tmp_path / "rows.txt", X))
    if os.geteuid() != 0:
        data.chmod(0)
        assert "permission denied" in refused(*fit, data)
    (tmp_path / "other.csv").write_text("x,size\n1,2\n")
    for act in ("predict", "score"):
        assert "no column 'y'; it has 'x', 'size'" in refused(act, model, "other.csv")
        assert "no such file" in refused(act, model, "none.csv")
        assert "no such file: none.stickbreak" in refused(act, "none.stickbreak", "other.csv")
        assert "bad.stickbreak" in refused(
            act, write_csv(tmp_path / "bad.stickbreak", X), "other.csv"
        )


def test_rows_that_a_model_cannot_read_are_refused_before_anything_is_written(
    refused,
    command,  # noqa: F811
    tmp_path,
    monkeypatch,
):
    monkeypatch.setattr("stickbreak.cli.using.PART_ROWS", 10)
    rows = CASES["categorical"].rows
    write_csv(tmp_path / "rows.csv", rows)
    assert (
        command(
            "fit",
            "mixture",
            "rows.csv",
            "--family",
            "categorical",
            "--quiet",
            "--out",
            "m.stickbreak",
        ).code
        == 0
    )
    rows = rows.copy()
    rows[77, 1] = 9
    write_csv(tmp_path / "bad.csv", rows)
    line = "row 77, column 1 is 9.0; symbols are whole numbers below 3"
    assert line in refused("predict", "m.stickbreak", "bad.csv", "--out", "labels.csv")
    assert line in refused("predict", "m.stickbreak", "bad.csv")
    assert line in refused("score", "m.stickbreak", "bad.csv", "--per-row")
    write_csv(tmp_path / "narrow.csv", rows[:, :2])
    assert "X has 2 features, but Mixture is expecting 6 features" in refused(
        "predict", "m.stickbreak", "narrow.csv"
    )


# ---- settings ------------------------------------------------------------------------------------

SETTINGS = {
    "components": (["--n-components", "0"], "n_components must be a whole number of at least 1"),
    "half components": (["--n-components", "1.5"], "--n-components"),
    "starts": (["--n-init", "0"], "n_init must be"),
    "concentration": (["--concentration", "-1"], "concentration must be a positive number"),
    "family": (["--family", "cauchy"], "unknown family 'cauchy'; choose one of autoregressive"),
    "inference": (["--inference", "magic"], "unknown inference 'magic'; choose one of batch"),
    "init": (["--init", "magic"], "unknown init 'magic'; choose one of"),
    "laps": (["--max-iter", "0"], "max_iter must be"),
    "tolerance": (["--tol", "nan"], "tol must be zero or positive"),
    "jobs": (["--n-jobs", "0"], "n_jobs must be a whole number other than 0"),
    "batches": (["--n-batches", "0"], "n_batches must be"),
    "batches of batch": (
        ["--inference", "batch", "--n-batches", "3"],
        "--n-batches does not apply to --inference batch",
    ),
    "size of a batch": (
        ["--batch-size", "3"],
        "--batch-size does not apply to --inference memoized",
    ),
    "checkpoint": (["--checkpoint", "none/c"], "checkpoint='none/c': no such folder"),
    "checkpoint of many": (["--checkpoint", "c", "--n-init", "2"], "a checkpoint holds one start"),
    "out": (["--out", "none/m.stickbreak"], "--out none/m.stickbreak: no such folder"),
    "out is a folder": (["--out", "."], "is a folder"),
    "both": (["--quiet", "--verbose"], "contradict"),
    "option": (["--colour", "red"], "--colour"),
    "argument": (["more"], "more"),
    "no value": (["--family"], "--family"),
    "header": (["--header", "--columns", "0"], "no column '0'"),
    "array": (["--array", "x"], "array='x' does not apply to .csv files"),
}


@pytest.mark.parametrize("case", SETTINGS)
def test_bad_settings(case, refused, data):
    arguments, message = SETTINGS[case]
    chosen = [] if "--out" in arguments else ["--out", "m.stickbreak"]
    assert message in refused("fit", "mixture", data, *chosen, *arguments)


def test_bad_words(refused, model, data, command):  # noqa: F811
    assert "mixtur" in refused("fit", "mixtur", data)
    assert "fitt" in refused("fitt")
    assert "DATA" in refused("fit", "mixture")
    assert "expected a .csv or .npy file" in refused("predict", model, data, "--out", "labels.txt")
    assert "give --per-row too" in refused("score", model, data, "--out", "a.csv")
    assert "unknown family 'cauchy'" in refused("warmup", "--family", "cauchy")
    assert "expected a .csv file" in refused("example", "a.txt")


def test_bad_checkpoints(refused, command, model, data, tmp_path):  # noqa: F811
    assert "there is no checkpoint at none" in refused(
        "resume", "none", data, "--out", "n.stickbreak"
    )
    assert "is a 'model' file; expected a 'checkpoint' file" in refused("resume", model, data)
    saving = [
        "--checkpoint",
        "c",
        "--checkpoint-every",
        0,
        "--quiet",
        "--n-components",
        2,
        "--seed",
        0,
    ]
    assert command("fit", "mixture", data, *saving).code == 0
    assert "is a 'checkpoint' file; expected a 'model' file" in refused("show", "c")
    write_csv(tmp_path / "other.csv", X + 1.0, "x,y")
    assert "c was written for other data" in refused(
        "resume", "c", "other.csv", "--out", "n.stickbreak"
    )
    write_csv(tmp_path / "names.csv", X, "a,b")
    assert "names.csv has no column 'x'" in refused("resume", "c", "names.csv")


def test_a_model_that_cannot_be_saved_leaves_the_old_file(
    model,
    data,
    command,  # noqa: F811
    tmp_path,
    monkeypatch,
):
    before = (tmp_path / model).read_bytes()

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    done = command("fit", "mixture", data, "--n-components", 2, "--out", model, "--quiet")
    assert (done.code, done.err) == (2, "stickbreak: No space left on device\n")
    assert (tmp_path / model).read_bytes() == before
    assert files_in(tmp_path) == {model, "rows.csv"}
    assert sb.load(model).n_components_ == 2
