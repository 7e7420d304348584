"""What the commands answer is what Python answers, for every kind of file, on a terminal, in a
pipe, and after a kill.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from cli.running import command, files_in, write_csv  # noqa: F401
from estimator_cases import CASES, NAMES, blobs

import stickbreak as sb

ROOT = Path(__file__).resolve().parents[2]
X = blobs(300, n_groups=3, seed=1)


@pytest.fixture
def data(tmp_path) -> Path:
    return write_csv(tmp_path / "rows.csv", X, "x,y")


@pytest.fixture
def fitted(data, command) -> Path:  # noqa: F811
    done = command(
        "fit", "mixture", data, "--n-components", 3, "--seed", 0, "--out", "m.stickbreak", "--quiet"
    )
    assert (done.code, done.err, done.out) == (0, "", "")
    return Path("m.stickbreak")


def python_fit(cls=sb.Mixture, path="rows.csv", **arguments):
    return cls(3, random_state=0, inference=sb.MemoizedVB(), **arguments).fit(path)


@pytest.mark.parametrize("name", ["mixture", "dp-mixture"])
def test_fit_is_the_python_fit_and_json_is_all_that_is_on_stdout(name, data, command):  # noqa: F811
    done = command(
        "fit", name, data, "--n-components", 3, "--seed", 0, "--out", "m.stickbreak", "--json"
    )
    assert done.code == 0
    found = json.loads(done.out)
    assert done.out.count("\n") == 1
    # which has moves
    model = python_fit() if name == "mixture" else sb.DPMixture(3, random_state=0).fit("rows.csv")
    assert found["lower_bound"] == model.lower_bound_ == sb.load("m.stickbreak").lower_bound_
    expected = {
        "n_rows": 300,
        "columns": ["x", "y"],
        "n_components": 3,
        "n_effective": model.n_effective_,
        "out": "m.stickbreak",
    }
    assert expected.items() <= found.items()
    assert (found["converged"], found["n_iter"]) == (model.converged_, model.n_iter_)


@pytest.mark.parametrize("kind", ["csv", "tsv", "npy", "npz", "parquet"])
def test_every_kind_of_file_gives_the_same_model(kind, data, command, tmp_path):  # noqa: F811
    frame, path = pl.DataFrame(X, schema=["x", "y"]), tmp_path / f"rows.{kind}"
    make = {
        "csv": lambda: None,
        "tsv": lambda: frame.write_csv(path, separator="\t"),
        "npy": lambda: np.save(path, X),
        "npz": lambda: np.savez(path, X=X, other=X[:1]),
        "parquet": lambda: frame.write_parquet(path),
    }
    make[kind]()
    chosen = ["--array", "X"] if kind == "npz" else []
    fit = ["fit", "mixture", path, "--n-components", 3, "--seed", 0, "--json", *chosen]
    assert json.loads(command(*fit).out)["lower_bound"] == python_fit().lower_bound_
    swapped = ["1", "0"] if kind in ("npy", "npz") else ["y", "x"]
    found = json.loads(command(*fit, "--columns", ",".join(swapped)).out)
    np.save(tmp_path / "swapped.npy", X[:, ::-1])
    assert found["lower_bound"] == python_fit(path="swapped.npy").lower_bound_


def test_all_options_reach_the_model(data, command):  # noqa: F811
    done = command(
        "fit", "dp-mixture", data, "--n-components", 4, "--family", "diagonal", "--concentration",
        2.5, "--init", "k-means||",
        "--random-state", 3, "--n-init", 2, "--n-jobs", 2, "--inference", "memoized", "--max-iter",
        150, "--tol", 1e-4,
        "--n-batches", 2, "--no-moves", "--out", "m.stickbreak", "--quiet",
    )  # fmt: skip
    assert done.code == 0
    model = sb.load("m.stickbreak")
    assert repr(model) == (
        "DPMixture(n_components=4, family='diagonal', inference=MemoizedVB(max_iter=150, "
        "tol=0.0001, moves=None, n_batches=2), "
        "concentration=2.5, random_state=3, init='k-means||', n_init=2, n_jobs=2)"
    )
    inference = sb.MemoizedVB(max_iter=150, tol=1e-4, moves=None, n_batches=2)
    again = sb.DPMixture(
        4,
        family="diagonal",
        concentration=2.5,
        init="k-means||",
        random_state=3,
        n_init=2,
        inference=inference,
    )
    assert again.fit(data).lower_bound_ == model.lower_bound_
    done = command(
        "fit",
        "mixture",
        data,
        "--inference",
        "stochastic",
        "--batch-size",
        50,
        "--max-iter",
        3,
        "--json",
        "--quiet",
        "--seed",
        0,
    )
    assert done.code == 0
    assert done.err.count("\n") == 1  # one warning, one line
    assert done.err.startswith("stickbreak: warning: stopped at max_iter=3")


@pytest.mark.few(3)
@pytest.mark.parametrize("family", NAMES)
def test_every_family_goes_all_the_way(family, command, tmp_path):  # noqa: F811
    path = write_csv(tmp_path / "rows.csv", CASES[family].rows)
    done = command(
        "fit",
        "mixture",
        path,
        "--family",
        family,
        "--n-components",
        2,
        "--seed",
        0,
        "--out",
        "m.stickbreak",
        "--quiet",
    )
    assert done.code == 0, done.err
    model = sb.load("m.stickbreak")
    assert float(command("score", "m.stickbreak", path).out) == pytest.approx(
        model.score(CASES[family].rows), rel=1e-12
    )
    shown = command("show", "m.stickbreak")
    assert shown.code == 0
    assert f"{model.lower_bound_:.2f}" in shown.out
    components = json.loads(command("show", "m.stickbreak", "--json").out)["components"]
    for name, values in model.posterior_.items():
        np.testing.assert_allclose([c[name] for c in components], values, rtol=1e-15)


def test_predict_and_score_answer_as_python_does(fitted, data, command, monkeypatch):  # noqa: F811
    monkeypatch.setattr("stickbreak.cli.using.PART_ROWS", 70)
    model = sb.load(fitted)
    labels, shares, densities = (
        model.predict(data),
        model.predict_proba(data),
        model.score_samples(data),
    )
    lines = command("predict", fitted, data).out.splitlines()
    assert lines[0] == "component"
    np.testing.assert_array_equal([int(v) for v in lines[1:]], labels)
    assert command("predict", fitted, data, "--out", "labels.csv").out == ""
    assert Path("labels.csv").read_text().splitlines() == lines
    assert command("predict", fitted, data, "--out", "labels.npy", "--n-jobs", 2).code == 0
    np.testing.assert_array_equal(np.load("labels.npy"), labels)
    np.testing.assert_array_equal(
        json.loads(command("predict", fitted, data, "--json").out)["labels"], labels
    )
    table = command("predict", fitted, data, "--proba", "--out", "shares.csv", "--json")
    assert json.loads(table.out) == {"n_rows": 300, "out": "shares.csv"}
    opened = sb.open_table("shares.csv")
    assert opened.names == ("component_0", "component_1", "component_2")
    np.testing.assert_allclose(opened.rows, shares, rtol=1e-12)
    assert command("predict", fitted, data, "--proba", "--out", "shares.npy").code == 0
    np.testing.assert_array_equal(np.load("shares.npy"), opened.rows)
    assert float(command("score", fitted, data).out) == pytest.approx(model.score(data), rel=1e-13)
    assert json.loads(command("score", fitted, data, "--json").out)["score"] == pytest.approx(
        model.score(data), rel=1e-13
    )
    rows = [float(v) for v in command("score", fitted, data, "--per-row").out.splitlines()[1:]]
    np.testing.assert_allclose(rows, densities, rtol=1e-12)
    np.testing.assert_allclose(
        json.loads(command("score", fitted, data, "--per-row", "--json").out)["log_densities"], rows
    )


def test_columns_are_found_by_name_in_other_files(fitted, data, command, tmp_path):  # noqa: F811
    lines = [f"{i},{y!r},name,{x!r}" for i, (x, y) in enumerate(X.tolist())]
    (tmp_path / "more.csv").write_text("\n".join(["id,y,who,x", *lines]) + "\n")
    assert command("predict", fitted, "more.csv").out == command("predict", fitted, data).out
    np.save(tmp_path / "rows.npy", X)
    assert command("predict", fitted, "rows.npy").out == command("predict", fitted, data).out


def test_show_is_readable(fitted, command, monkeypatch):  # noqa: F811
    lines = command("show", fitted).out.splitlines()
    model = sb.load(fitted)
    assert lines[0] == "Mixture of 3 components with rows (3 in all), Gaussian; mean ± deviation"
    assert lines[1].split() == ["component", "rows", "weight", "x", "y"]
    k = int(np.argmax(model.counts_))
    cells = lines[2].split()
    assert cells[:3] == [str(k), f"{model.counts_[k]:.1f}", f"{model.weights_[k]:.4f}"]
    assert float(cells[3]) == pytest.approx(model.means_[k, 0], rel=1e-3)
    assert lines[-1] == "settings: inference=MemoizedVB(), n_components=3, random_state=0"
    monkeypatch.setattr("stickbreak.cli.showing.MOST_COMPONENTS", 2)
    monkeypatch.setattr("stickbreak.cli.showing.MOST_COLUMNS", 1)
    lines = command("show", fitted).out.splitlines()
    assert lines[1].split() == ["component", "rows", "weight", "x"]
    assert lines[4] == "1 more components and 1 more columns: see --json"


def test_a_stream_is_seen_once_and_settings_of_laps_are_refused(data, command, monkeypatch):  # noqa: F811
    monkeypatch.setattr("stickbreak.data.text.CHUNK", 3000)
    done = command(
        "fit",
        "mixture",
        data,
        "--stream",
        "--n-components",
        3,
        "--seed",
        0,
        "--out",
        "m.stickbreak",
        "--json",
    )
    assert json.loads(done.out)["n_rows"] == 300
    model = sb.Mixture(3, random_state=0)
    pieces = list(sb.read_pieces(data))
    assert len(pieces) > 2
    for piece in pieces:
        model.partial_fit(piece)
    np.testing.assert_array_equal(sb.load("m.stickbreak").counts_, model.counts_)
    refused = command("fit", "mixture", data, "--stream", "--max-iter", 3)
    assert (refused.code, refused.err) == (
        2,
        "stickbreak: --max-iter does not apply to --stream, which sees each row once\n",
    )


@pytest.mark.slow
def test_progress_is_logged_line_by_line_without_a_terminal(data, command, monkeypatch):  # noqa: F811
    fit = ["fit", "dp-mixture", data, "--n-components", 5, "--seed", 0, "--n-init", 2]
    lines = command(*fit).err.splitlines()
    assert lines[0].startswith("start 1/2, lap 1/200  bound ")
    assert any(line.startswith("start 2/2, lap ") for line in lines)
    assert all("components" in line for line in lines)
    assert all("rows/s  at most" in line or "  trial " in line for line in lines)
    assert len(lines) <= 6  # at most one a second
    assert command(*fit, "--quiet").err == ""
    monkeypatch.setattr("stickbreak.progress.PAUSE", -1.0)
    every = command(*fit[:-2], "--init", "k-means||").err
    for words in (
        "reading rows.csv: 100 %",
        "seeding by k-means||: 100 %",
        "lap 1/200",
        "lap 2/200",
    ):
        assert words in every
    saved = command(*fit[:-2], "--checkpoint", "c", "--checkpoint-every", 0, "--verbose").err
    assert "checkpoint written to c at lap 1" in saved
    assert command("predict", "--help").err == ""


# ---- processes of their own ----------------------------------------------------------------------

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONWARNINGS": "default"}


def start(*arguments: object, **options) -> subprocess.Popen:
    words = [sys.executable, "-m", "stickbreak", *(str(a) for a in arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(words, env=ENVIRONMENT, text=True, **{**pipes, **options})


@pytest.fixture
def long_fit(tmp_path, monkeypatch) -> list[object]:
    """A fit of many laps."""
    monkeypatch.chdir(tmp_path)
    write_csv(tmp_path / "rows.csv", blobs(8_000, seed=2), "x,y")
    return [
        "fit",
        "mixture",
        "rows.csv",
        "--n-components",
        6,
        "--seed",
        1,
        "--tol",
        0,
        "--n-batches",
        4,
        "--max-iter",
        150,
    ]


def wait_for(path: Path, process: subprocess.Popen, times: int = 1) -> None:
    """Until the file was seen to be replaced so many times, however slow the machine is."""
    seen: set[int] = set()
    until = time.monotonic() + 600
    while len(seen) < times:
        assert time.monotonic() < until, "no checkpoint"
        with contextlib.suppress(FileNotFoundError):
            seen.add(path.stat().st_mtime_ns)
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.005)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_a_killed_fit_is_resumed_to_the_same_bits(long_fit, tmp_path, command):  # noqa: F811
    saving = ["--checkpoint", "fit.checkpoint", "--checkpoint-every", 0, "--out", "m.stickbreak"]
    process = start(*long_fit, "--columns", "y,x", *saving)
    wait_for(tmp_path / "fit.checkpoint", process, times=10)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    left = {
        name for name in files_in(tmp_path) if not name.startswith(".fit.checkpoint.")
    }  # killed while writing: its temporary name
    assert left == {"rows.csv", "fit.checkpoint"}
    # the columns are in the file
    done = command("resume", "fit.checkpoint", "rows.csv", "--json", "--out", "m.stickbreak")
    assert done.code == 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sb.ConvergenceWarning)
        engine = sb.MemoizedVB(n_batches=4, tol=0.0, max_iter=150)
        undisturbed = sb.Mixture(6, inference=engine, random_state=1).fit(
            sb.open_table("rows.csv", columns=["y", "x"])
        )
    assert json.loads(done.out)["lower_bound"] == undisturbed.lower_bound_
    assert sb.load("m.stickbreak").feature_names_in_.tolist() == ["y", "x"]


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_ctrl_c_writes_no_model_and_says_how_to_go_on(long_fit, tmp_path):
    process = start(
        *long_fit, "--max-iter", 100_000, "--checkpoint", "c", "--checkpoint-every", 0,
        "--out", "m.stickbreak", "--quiet",
    )  # fmt: skip
    wait_for(tmp_path / "c", process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=600)
    assert process.returncode == 130
    assert (out, err) == (
        "",
        "stickbreak: interrupted; no model was written. Continue with: "
        "stickbreak resume c rows.csv\n",
    )
    assert files_in(tmp_path) == {"rows.csv", "c"}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals")
def test_on_a_terminal_there_is_one_live_line(long_fit, tmp_path):
    import pty

    ours, theirs = pty.openpty()
    process = start(*long_fit, "--max-iter", 60, "--json", stderr=theirs)
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        shown += part
    out, _ = process.communicate(timeout=600)
    os.close(ours)
    assert process.returncode == 0
    assert json.loads(out)["n_iter"] == 60
    text = shown.decode()
    assert "lap " in text
    assert "bound " in text
    assert "rows/s" in text
    assert "left" in text
    assert "\x1b[?25l" in text  # the cursor is hidden meanwhile,
    assert text.rstrip().endswith("raise max_iter or tol, or check trace_")
    assert "\x1b[?25h" in text  # and shown again


@pytest.mark.slow
def test_whoever_reads_only_the_beginning_gets_no_complaint(fitted, data):
    with start("predict", fitted, data, "--quiet") as process:
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(timeout=600) == 0
