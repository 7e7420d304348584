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


def test_documents_and_sentences_are_called_so_and_their_difference_has_an_error():
    rng = np.random.default_rng(3)
    topics = rng.dirichlet(np.full(40, 0.1), 3)
    counts = np.stack([rng.multinomial(40, p @ topics)
                       for p in rng.dirichlet(np.full(3, 0.3), 40)])  # fmt: skip
    models = [sb.LatentDirichletAllocation(k, random_state=0).fit(counts) for k in (2, 3)]
    text = text_of(parse(sb.compare(models, counts).report().html))
    assert "of 40 documents stay together" in text
    assert "nats per document of these data (standard error" in text
    assert "Flow of documents" in text
    sentences = ["a b c", "b a", "c c a b"] * 4
    models = [sb.PCFG(k, random_state=0).fit(sentences) for k in (2, 3)]
    text = text_of(parse(sb.compare(models, sentences).report().html))
    first, second = (model.score_sequences(sentences).mean() for model in models)
    assert f"better by {abs(second - first):.3g} nats per sentence" in text
    assert "The bound of" in text  # expected words of single precision are 48 after all
    assert "needs data and two models with components of rows or documents" in text
