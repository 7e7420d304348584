"""A component has one number in all that users see, its position; ids are in `component_ids_`."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from cli.running import command  # noqa: F401
from topics import corpus

import stickbreak as sb

pytest.importorskip("matplotlib")

GROUPS = np.repeat([0, 1, 2, 1], [60, 50, 40, 30])
X = np.array([[-8.0, 0.0], [8.0, 1.0], [0.0, 9.0]])[GROUPS] + np.random.default_rng(0).normal(
    size=(len(GROUPS), 2)
)
COUNTS = corpus(3, 80, 20, 3, 40)


@pytest.fixture(scope="module")
def fitted():
    """Fits whose ids are not their positions: births replace a component, deletes leave gaps."""
    moves = (sb.Birth(), sb.Merge(), sb.Delete())
    engine = sb.MemoizedVB(moves=moves)
    found = {
        "mixture": sb.DPMixture(init="k-means++", random_state=0).fit(X),
        "chain": sb.HDPHMM(6, inference=engine, random_state=0).fit(X),
        "topics": sb.HDPTopicModel(init="documents", random_state=0).fit(COUNTS),
    }
    for model in found.values():
        assert model.n_components_ > 1
        assert set(model.component_ids_.tolist()) != set(range(model.n_components_))
    return found


def numbers_of(labels) -> set[int]:
    """The first number of each label that has one."""
    found = (re.match(r"(\d+)", label.get_text()) for label in labels)
    return {int(match[1]) for match in found if match}


def shown(model) -> set[int]:
    return set(np.flatnonzero(model.counts_ >= 1.0).tolist())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mixture", "chain", "topics"])
def test_pictures_show_positions(name, fitted):
    from matplotlib import pyplot as plt

    model = fitted[name]
    ax = model.plot("weights")
    assert numbers_of(ax.get_xticklabels()) == shown(model)
    assert ax.get_xlabel() == model._noun
    if name == "mixture":
        marks = model.plot("components", X=X)
        assert numbers_of(marks.texts) == shown(model)
    if name == "chain":
        assert numbers_of(model.plot("segmentation", X=X).get_legend().get_texts()) >= shown(model)
        assert numbers_of(model.plot("transitions").get_yticklabels()) == shown(model)
        stays = model.plot("durations")
        assert numbers_of(stays.get_xticklabels()) == shown(model)
        assert stays.get_xlabel() == "state"
    if name == "topics":
        cells = model.plot("topics", n_words=3).child_axes
        assert {int(cell.get_title(loc="left").split()[0]) for cell in cells} == shown(model)
    plt.close("all")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mixture", "chain", "topics"])
def test_data_sets_and_names_of_columns_have_positions(name, fitted):
    pytest.importorskip("xarray")
    model = fitted[name]
    found = model.to_xarray()
    axis = model._require_fitted().model.axis
    np.testing.assert_array_equal(found[axis], np.arange(model.n_components_))
    if f"next_{axis}" in found.coords:
        np.testing.assert_array_equal(found[f"next_{axis}"], np.arange(model.n_components_))
    if name == "topics":
        names = [f"topic{k}" for k in range(model.n_components_)]
        assert model.get_feature_names_out().tolist() == names


@pytest.mark.parametrize("name", ["mixture", "chain", "topics"])
def test_the_command_line_shows_positions(name, fitted, command, tmp_path):  # noqa: F811
    model = fitted[name]
    model.save("m.stickbreak")
    lines = command("show", "m.stickbreak").out.splitlines()
    heads = [line.split()[0] for line in lines[2 : 2 + len(shown(model))]]
    assert set(map(int, heads)) == shown(model)
    found = json.loads(command("show", "m.stickbreak", "--json").out)
    assert found["component_ids"] == model.component_ids_.tolist()
    inner = found.get("components") or found["topics"]
    assert {part[model._noun if name == "topics" else "component"] for part in inner} >= shown(
        model
    )
    assert all("id" not in part for part in inner)
    if name == "topics":
        lines = [
            " ".join([str((row > 0).sum()), *(f"{v}:{n}" for v, n in enumerate(row) if n)])
            for row in COUNTS
        ]
        (tmp_path / "d.ldac").write_text("\n".join(lines) + "\n")
    else:
        np.save(tmp_path / "d.npy", X)
    data = "d.ldac" if name == "topics" else "d.npy"
    head, *labels = command("predict", "m.stickbreak", data).out.split()
    assert head == model._noun
    assert set(map(int, labels)) <= set(range(model.n_components_))
    head = command("predict", "m.stickbreak", data, "--proba").out.splitlines()[0]
    assert head == ",".join(f"{model._noun}_{k}" for k in range(model.n_components_))


def test_moves_say_that_they_speak_of_ids(fitted):
    text = fitted["mixture"].explain_moves()
    kept = [line for line in text.splitlines() if line.startswith("lap")]
    assert kept
    assert all(re.search(r"\bids? \d", line) for line in kept)
    K = fitted["mixture"].n_components_
    assert f"{K} components, 0 to {K - 1}, with ids" in text
