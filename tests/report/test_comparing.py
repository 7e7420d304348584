"""Pages of two models: the flow of rows, what split and joined, the difference of scores."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from report.subjects import HOSTILE
from report.test_pages import parse, text_of

import stickbreak as sb
from stickbreak.report.comparing import Compared, Flow, write_comparison


def make_flow(name="second"):
    counts = np.array([[30, 0, 0], [0, 20, 25]])
    return Compared(
        ["name", "K"], [["first", "2"], [name, "3"]], (), Flow(("first", name), counts, 0.5, 0.1)
    )


def test_split_is_told_and_rows_are_counted():
    html = write_comparison(make_flow()).html
    text = text_of(parse(html))
    assert "1 of first is split among 1, 2 of second" in text
    assert "second is better by 0.5 nats per row" in text
    values = json.loads(re.search(r'id="data">([^<]*)<', html)[1])
    assert values["flow"] == [[30, 0, 0], [0, 20, 25]]


@pytest.mark.parametrize("at", range(len(HOSTILE)))
def test_hostile_names_stay_text(at):
    parse(write_comparison(make_flow(HOSTILE[at])).html)


def test_comparison_of_two_models_has_the_flow_of_their_rows():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(-5, 1, (50, 2)), rng.normal(5, 1, (50, 2))])
    models = [sb.Mixture(k, random_state=0).fit(X) for k in (1, 2)]
    found = sb.compare(models, X)
    values = json.loads(re.search(r'id="data">([^<]*)<', found.report().html)[1])
    assert values["flow"] == [np.bincount(models[1].predict(X), minlength=2).tolist()]
    difference = models[1].score(X) - models[0].score(X)
    assert f"{abs(difference):.3g} nats" in found.report().html
    assert "needs data" in sb.compare(models).report().html
    gain = models[1].lower_bound_ - models[0].lower_bound_
    told = f"The bound of {found[1].name} is {gain:,.4g} nats above that of {found[0].name}. "
    assert told in text_of(parse(found.report().html))


def test_numbers_of_the_table_sort_as_numbers_and_no_time_is_told():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(-5, 1, (50, 2)), rng.normal(5, 1, (50, 2))])
    models = [sb.Mixture(k, random_state=0).fit(X) for k in (1, 2)]
    tree = parse(sb.compare(models, X).report().html)
    table = next(t for t in tree.iter("table") if "Models" in "".join(t.find("caption").itertext()))
    heads = ["".join(cell.itertext()) for cell in table.find("thead/tr")]
    assert "seconds" not in heads
    at = heads.index("bound")
    bounds = [float(row[at].get("data-v")) for row in table.find("tbody")]
    assert bounds == pytest.approx([model.lower_bound_ for model in models], rel=1e-4)
