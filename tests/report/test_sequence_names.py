"""Sequences have the user's names in a page, and none in a private one."""

from __future__ import annotations

import numpy as np
import pytest
from cli.running import command  # noqa: F401
from report.subjects import HOSTILE, make_chain
from report.test_pages import parse, text_of

import stickbreak as sb
from stickbreak.report import write_page
from stickbreak.report.markup import clean

RNG = np.random.default_rng(0)
SEQUENCES = [
    np.repeat([[0.0], [5.0], [0.0]], 15, axis=0) + RNG.normal(size=(45, 1)) for _ in range(3)
]
NAMES = ["Anna-left", "Anna-right", "Ben"]


@pytest.fixture(scope="module")
def model():
    return sb.HMM(2, random_state=0).fit(SEQUENCES)


def rows_headed(tree, caption):
    """The first cells of the table with a caption."""
    table = next(t for t in tree.iter("table") if "".join(t.find("caption").itertext()) == caption)
    return ["".join(row[0].itertext()) for row in table.find("tbody")]


def test_names_are_in_strips_tables_and_worst_rows(model):
    html = model.report(SEQUENCES, sequence_names=NAMES).html
    tree = parse(html)
    assert rows_headed(tree, "Shares of the states by sequence") == NAMES
    assert rows_headed(tree, "The first 200 stays")[0] == "Anna-left"
    strips = next(e for e in tree.iter() if e.get("id") == "strips")
    texts = [e.text for e in strips.iter() if e.get("text-anchor") == "end"]
    assert texts[:3] == NAMES
    assert "sequence Ben, row" in text_of(tree)
    assert "names of sequences (left out with texts=False)" in html


def test_ids_of_rows_are_names_and_numbers_without_them(model):
    ids = np.repeat(NAMES, 45)
    page = model.report(np.concatenate(SEQUENCES), sequence_id=ids)
    assert page.html == model.report(SEQUENCES, sequence_names=NAMES).html
    plain = parse(model.report(SEQUENCES).html)
    assert rows_headed(plain, "Shares of the states by sequence") == ["0", "1", "2"]


def test_a_private_page_has_no_name(model):
    for how in ({"data": "none"}, {"texts": False}):
        html = model.report(SEQUENCES, sequence_names=NAMES, **how).html
        assert not any(name in html for name in NAMES)


def test_names_of_other_sequences_are_refused(model):
    with pytest.raises(ValueError, match="sequence_names has 2 entries for 3 sequences"):
        model.report(SEQUENCES, sequence_names=NAMES[:2])
    with pytest.raises(ValueError, match="give X too"):
        model.report(sequence_names=NAMES)


def test_long_names_are_cut_beside_the_strips_alone(model):
    long = ["a recording of the left hand, take 1", "b", "c"]
    tree = parse(model.report(SEQUENCES, sequence_names=long).html)
    assert rows_headed(tree, "Shares of the states by sequence") == long
    strips = next(e for e in tree.iter() if e.get("id") == "strips")
    assert next(e.text for e in strips.iter("{http://www.w3.org/2000/svg}text")) == (
        "a recording of \u2026"
    )


@pytest.mark.parametrize("at", range(len(HOSTILE)))
def test_hostile_names_of_sequences_stay_text(at):
    bad = HOSTILE[at]
    tree = parse(write_page(make_chain(sequences=(clean(bad), "b"))).html)
    told = rows_headed(tree, "Shares of the states by sequence")[0]
    assert told[:1999] == clean(bad)[:1999]


def test_command_takes_names_from_the_column_of_ids(command, tmp_path, model):  # noqa: F811
    lines = [f"{name},{v:.17g}" for name, part in zip(NAMES, SEQUENCES, strict=True)
             for v in part[:, 0]]  # fmt: skip
    (tmp_path / "s.csv").write_text("\n".join(["who,x", *lines]))
    made = command("fit", "hmm", "s.csv", "--n-components", 2, "--seed", 0, "--sequence-id", "who",
                   "--out", "m.stickbreak")  # fmt: skip
    assert made.code == 0, made.err
    done = command("report", "m.stickbreak", "s.csv", "--sequence-id", "who", "--out", "p.html")
    assert done.code == 0, done.err
    tree = parse((tmp_path / "p.html").read_text(encoding="utf-8"))
    assert rows_headed(tree, "Shares of the states by sequence") == NAMES
    command("report", "m.stickbreak", "s.csv", "--sequence-id", "who", "--out", "q.html",
            "--no-texts")  # fmt: skip
    assert "Anna" not in (tmp_path / "q.html").read_text(encoding="utf-8")
