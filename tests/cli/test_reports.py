"""`report` writes one page, or says why not and leaves nothing; `show --checks` tells findings."""

from __future__ import annotations

import json

import pytest
from cli.running import command, write_csv  # noqa: F401
from estimator_cases import blobs

import stickbreak as sb

X = blobs(120, n_groups=2, seed=1)


@pytest.fixture
def model(tmp_path):
    fitted = sb.Mixture(2, random_state=0).fit(X)
    fitted.save(tmp_path / "m.stickbreak")
    write_csv(tmp_path / "x.csv", X)
    return fitted


def test_page_of_the_command_is_that_of_python(command, model, tmp_path):  # noqa: F811
    done = command("report", "m.stickbreak", "x.csv", "--out", "page.html", "--title", "Blobs")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("wrote page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page == model.report(X, title="Blobs").html
    assert str(tmp_path) not in page
    assert "x.csv" not in page


def test_page_without_data_and_as_json(command, model, tmp_path):  # noqa: F811
    done = command("report", "m.stickbreak", "--json")
    assert done.code == 0
    found = json.loads(done.out)
    assert found["bytes"] == (tmp_path / "report.html").stat().st_size


@pytest.mark.parametrize(
    ("out", "words"),
    [
        ("m.stickbreak", "expected a .html or .htm file"),
        ("old.html", "exists; give another name, or --force"),
        ("folder.html", "is a folder"),
        ("none/page.html", "no such folder"),
    ],
)
def test_bad_target_is_refused_and_nothing_is_left(command, model, tmp_path, out, words):  # noqa: F811
    (tmp_path / "old.html").write_text("old")
    (tmp_path / "folder.html").mkdir()
    before = sorted(p.name for p in tmp_path.iterdir())
    done = command("report", "m.stickbreak", "x.csv", "--out", out)
    assert done.code != 0
    assert words in done.err
    assert sorted(p.name for p in tmp_path.iterdir()) == before
    assert (tmp_path / "old.html").read_text() == "old"


def test_force_replaces_a_page(command, model, tmp_path):  # noqa: F811
    (tmp_path / "old.html").write_text("old")
    assert command("report", "m.stickbreak", "--out", "old.html", "--force").code == 0
    assert (tmp_path / "old.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_other_columns_are_named(command, model, tmp_path):  # noqa: F811
    write_csv(tmp_path / "wide.csv", blobs(20, n_groups=2, seed=1).repeat(2, axis=1))
    done = command("report", "m.stickbreak", "wide.csv", "--out", "page.html")
    assert done.code != 0
    assert "columns" in done.err or "features" in done.err
    assert not (tmp_path / "page.html").exists()


def test_show_tells_checks(command, model):  # noqa: F811
    assert "fine: The fit settled" in command("show", "m.stickbreak", "--checks").out
    found = json.loads(command("show", "m.stickbreak", "--checks", "--json").out)
    assert found["checks"][0]["level"] == "fine"
    assert "checks" not in json.loads(command("show", "m.stickbreak", "--json").out)


# ---- two models --------------------------------------------------------------------------------


@pytest.fixture
def other(model, tmp_path):
    fitted = sb.Mixture(1, random_state=0).fit(X)
    fitted.save(tmp_path / "one.stickbreak")
    return fitted


def test_two_models_are_compared_and_the_page_is_that_of_python(command, model, other, tmp_path):  # noqa: F811
    done = command("compare", "m.stickbreak", "one.stickbreak", "x.csv", "--html", "both.html")
    assert (done.code, done.err) == (0, "")
    assert "held-out" in done.out
    page = (tmp_path / "both.html").read_text(encoding="utf-8")
    assert page == sb.compare([model, other], X, names=["m", "one"]).report().html
    assert "1 of one is" not in page
    assert "0 of one joins 0, 1 of m" in page
    assert str(tmp_path) not in page


def test_table_alone_and_as_json(command, model, other, tmp_path):  # noqa: F811
    assert "held-out" not in command("compare", "m.stickbreak", "one.stickbreak").out
    found = json.loads(command("compare", "m.stickbreak", "one.stickbreak", "--json").out)
    assert found["models"] == ["m", "one"]
    assert not list(tmp_path.glob("*.html"))


def test_comparison_is_refused_in_a_sentence(command, model, other, tmp_path):  # noqa: F811
    (tmp_path / "old.html").write_text("old")
    done = command("compare", "m.stickbreak", "one.stickbreak", "x.csv", "--html", "old.html")
    assert done.code == 2
    assert "exists; give another name, or --force" in done.err
    assert command("compare", "m.stickbreak", "one.stickbreak", "--force").code == 2
    wide = sb.Mixture(1, random_state=0).fit(X.repeat(2, axis=1))
    wide.save(tmp_path / "wide.stickbreak")
    done = command("compare", "m.stickbreak", "wide.stickbreak", "x.csv", "--html", "new.html")
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert not (tmp_path / "new.html").exists()


def test_sequences_are_compared(command, tmp_path):  # noqa: F811
    import numpy as np

    rng = np.random.default_rng(0)
    path = np.tile(np.repeat([0.0, 8.0], 20), 4)
    rows = np.column_stack([np.repeat([0, 1, 2], 160), np.tile(path, 3) + rng.normal(size=480)])
    np.savetxt(tmp_path / "s.csv", rows, delimiter=",", header="who,x", comments="")
    for name, n in (("two", 2), ("one", 1)):
        made = command("fit", "hmm", "s.csv", "--n-components", n, "--seed", 0,
                       "--sequence-id", "who", "--out", f"{name}.stickbreak")  # fmt: skip
        assert made.code == 0, made.err
    done = command("compare", "two.stickbreak", "one.stickbreak", "s.csv", "--sequence-id", "who",
                   "--html", "both.html")  # fmt: skip
    assert done.code == 0, done.err
    assert "joins" in (tmp_path / "both.html").read_text(encoding="utf-8")


def test_a_file_whose_name_is_no_text_is_named_by_escapes(command, model, tmp_path):  # noqa: F811
    name = "a\udcffb"
    (tmp_path / f"{name}.stickbreak").write_bytes((tmp_path / "m.stickbreak").read_bytes())
    done = command("report", f"{name}.stickbreak", "--out", f"{name}.html")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("wrote a\\udcffb.html")
    done = command("compare", f"{name}.stickbreak", "m.stickbreak", "x.csv", "--html", "b.html")
    assert done.code == 0, done.err
    assert "\ufffd" in (tmp_path / "b.html").read_text(encoding="utf-8")
