"""Files with columns of words: they become categories, as those of data frames do."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
from cli.running import command  # noqa: F401

import stickbreak as sb

RNG = np.random.default_rng(0)
GROUPS = np.arange(120) % 2
FRAME = pd.DataFrame({
    "height": np.array([1.0, 9.0])[GROUPS] + RNG.normal(0, 0.3, 120),
    "color": np.array(["red", "blue"])[np.where(RNG.random(120) < 0.9, GROUPS, 1 - GROUPS)],
    "visits": RNG.poisson([2.0, 7.0])[0] + RNG.poisson(np.array([1.0, 6.0])[GROUPS]),
    "old": GROUPS == 1,
})  # fmt: skip
MEMBERS = {"gaussian": ["height"], "categorical": ["color"], "poisson": "visits"}
FAMILY = "gaussian:height; categorical:color; poisson:visits; bernoulli:*"
FIT = ("--n-components", 2, "--seed", 0, "--out", "m.stickbreak", "-q")


def write(name: str, frame: pd.DataFrame = FRAME) -> str:
    if name.endswith("parquet"):
        pl.DataFrame(frame.astype(object).where(frame.notna(), None).to_dict("list")).write_parquet(
            name
        )
    else:
        frame.to_csv(name, index=False, sep="\t" if name.endswith("tsv") else ",")
    return name


@pytest.fixture(scope="module")
def expected():
    """The same model, fitted to the data frame."""
    family = sb.Product(MEMBERS, rest="bernoulli")
    return sb.Mixture(2, family=family, inference=sb.MemoizedVB(), random_state=0).fit(FRAME)


@pytest.mark.parametrize("name", ["rows.csv", "rows.tsv", "rows.parquet"])
def test_mixed_columns_are_fitted_as_those_of_a_data_frame(name, expected, command):  # noqa: F811
    done = command("fit", "mixture", write(name), "--family", FAMILY, *FIT)
    assert (done.code, done.err) == (0, "")
    found = sb.load("m.stickbreak")
    # truth values are numbers in parquet, and words in text
    old = {} if name.endswith("parquet") else {"old": [False, True]}
    assert found.categories_ == {"color": ["blue", "red"], **old}
    assert expected.categories_ == {"color": ["blue", "red"], "old": [False, True]}
    assert found.lower_bound_ == pytest.approx(expected.lower_bound_, rel=1e-12)
    lines = command("predict", "m.stickbreak", name).out.split()[1:]
    np.testing.assert_array_equal(np.array(lines, dtype=int), expected.predict(FRAME))
    score = json.loads(command("score", "m.stickbreak", name, "--json").out)["score"]
    assert score == pytest.approx(expected.score(FRAME), rel=1e-12)


def test_a_model_of_a_data_frame_reads_files(expected, command):  # noqa: F811
    expected.save("m.stickbreak")
    shuffled = FRAME[["old", "visits", "color", "height"]]
    for name in ("rows.csv", "rows.parquet"):
        lines = command("predict", "m.stickbreak", write(name, shuffled)).out.split()[1:]
        np.testing.assert_array_equal(np.array(lines, dtype=int), expected.predict(FRAME))
        np.testing.assert_array_equal(expected.predict(name), expected.predict(FRAME))


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet"])
def test_words_that_the_fit_has_not_seen_are_named(name, expected, command):  # noqa: F811
    expected.save("m.stickbreak")
    changed = FRAME.assign(color=FRAME["color"].where(np.arange(120) != 7, "green"))
    done = command("predict", "m.stickbreak", write(name, changed))
    row = 7 if name.endswith("parquet") else 9  # text: counted from 1, with the header
    assert done.code == 2
    assert done.err == (
        f"stickbreak: {name}, row {row}, column 'color': 'green' is not among the categories "
        "that the model knows: 'blue', 'red'\n"
    )


def test_missing_words_are_missing(expected, command):  # noqa: F811
    expected.save("m.stickbreak")
    gaps = FRAME.assign(color=FRAME["color"].where(np.arange(120) % 5 > 0))
    write("rows.csv", gaps)
    found = json.loads(command("score", "m.stickbreak", "rows.csv", "--json").out)["score"]
    assert found == pytest.approx(expected.score(gaps), rel=1e-12)
    fresh = sb.Mixture(2, family=sb.Product(MEMBERS, rest="bernoulli"), random_state=0)
    assert fresh.fit("rows.csv").categories_["color"] == ["blue", "red"]
    again = sb.Mixture(
        2, family=sb.Product(MEMBERS, rest="bernoulli"), inference="memoized", random_state=0
    )
    assert fresh.lower_bound_ == pytest.approx(again.fit(gaps).lower_bound_, rel=1e-12)


def test_words_without_names_are_found_by_position(command, tmp_path):  # noqa: F811
    FRAME[["height", "color"]].to_csv("rows.csv", index=False, header=False)
    done = command("fit", "mixture", "rows.csv", "--family", "gaussian:0;categorical:1", *FIT)
    assert (done.code, done.err) == (0, "")
    assert sb.load("m.stickbreak").categories_ == {1: ["blue", "red"]}
    assert command("predict", "m.stickbreak", "rows.csv").code == 0


def test_a_family_of_words_alone(command):  # noqa: F811
    write("rows.csv", FRAME[["color", "old"]])
    done = command("fit", "mixture", "rows.csv", "--family", "categorical", *FIT)
    assert (done.code, done.err) == (0, "")
    expected = sb.Mixture(2, family="categorical", inference=sb.MemoizedVB(), random_state=0)
    expected.fit(FRAME[["color", "old"]])
    assert sb.load("m.stickbreak").lower_bound_ == pytest.approx(expected.lower_bound_, rel=1e-12)


def test_sequences_with_words(command):  # noqa: F811
    frame = FRAME[["height", "color"]].assign(who=np.repeat(["ann", "bob"], 60))
    write("rows.csv", frame)
    family = "gaussian:height;categorical:color"
    options = (
        "--sequence-id",
        "who",
        "--family",
        family,
        "--checkpoint",
        "c",
        "--checkpoint-every",
        0,
    )
    done = command("fit", "hmm", "rows.csv", *options, *FIT)
    assert (done.code, done.err) == (0, "")
    product = sb.Product({"gaussian": "height", "categorical": "color"})
    made = lambda: sb.HMM(2, family=product, inference=sb.MemoizedVB(), random_state=0)
    expected = made().fit(frame, sequence_id="who")
    assert sb.load("m.stickbreak").lower_bound_ == pytest.approx(expected.lower_bound_, rel=1e-12)
    assert made().fit("rows.csv", sequence_id="who").lower_bound_ == pytest.approx(
        expected.lower_bound_, rel=1e-12
    )
    assert command("predict", "m.stickbreak", "rows.csv", "--sequence-id", "who").code == 0
    done = command("resume", "c", "rows.csv", "--sequence-id", "who", "-q")
    assert done.code == 0, done.err


BAD = {
    "words for numbers": ("gaussian", "column 'color': 'blue' is not a number; columns of words"),
    "words of another member": ("gaussian:height,color;poisson:visits;bernoulli:old",
    "columns of words need a family of categories"),
    "no such family": ("normal:height;categorical:*", "unknown family 'normal'"),
    "no such column": ("gaussian:width;categorical:*", "no column 'width'"),
    "no columns": ("gaussian:;categorical:*", "expected a name, or FAMILY:COLUMN"),
    "two rests": ("gaussian:*;categorical:*", "expected a name, or FAMILY:COLUMN"),
    "nothing": (":", "expected a name, or FAMILY:COLUMN"),
    "three words for two": ("gaussian:height,visits;bernoulli:*",
    "column 'color' has 3 categories"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_families_are_one_line(case, command):  # noqa: F811
    frame = FRAME
    if case == "three words for two":
        frame = FRAME.assign(color=FRAME["color"].where(np.arange(120) % 3 > 0, "green"))
    done = command("fit", "mixture", write("rows.csv", frame), "--family", BAD[case][0], *FIT)
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert BAD[case][1] in done.err


def test_a_stream_says_that_it_reads_no_words(command):  # noqa: F811
    done = command("fit", "mixture", write("rows.csv"), "--family", FAMILY, *FIT, "--stream")
    assert done.code == 2
    assert "column 'color': 'blue' is not a number; words need a fit without --stream" in done.err
