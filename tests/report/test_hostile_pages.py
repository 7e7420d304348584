"""Names and texts of users cannot run, ask for anything, or become an element in a browser."""

from __future__ import annotations

import numpy as np
import pytest
from cli.running import command  # noqa: F401
from report.subjects import (
    HOSTILE,
    make_chain,
    make_pairs,
    make_rows,
    make_topics,
    make_trees,
)
from report.test_comparing import make_flow

import stickbreak as sb
from stickbreak.report import write_page
from stickbreak.report.comparing import write_comparison
from stickbreak.report.markup import clean

pytestmark = pytest.mark.slow
RNG = np.random.default_rng(0)
ROWS = np.concatenate([RNG.normal(-5, 1, (60, 2)), RNG.normal(5, 1, (40, 2))])


def _hostile_pages(bad):
    """The text as everything that a user or a file may give."""
    named = {"names": {0: bad, 1: bad}, "title": bad, "settings": {"family": bad}}
    return [
        make_rows(columns=[bad, f"{bad}2"], groups_named=bad, **named),
        make_chain(columns=[bad, f"{bad}2"], sequences=(clean(bad), "b"), **named),
        make_topics(words=(bad, "dog", "salt", "pan"), **named),
        make_trees(words=(bad, "b", "c"), **named),
        make_pairs(words=(bad, bad), **named),
    ]


def check_harmless(page, told):
    """Click through: all clicks land, no element of a text is there, nothing is asked for."""
    clicks, landed = page.evaluate(CLICKS)
    assert clicks > 5
    assert landed == clicks, "a click did not land"
    bad_parts = "img, iframe, base, object, embed, [onload], [onerror], [onfocus], [style]"
    assert page.locator(bad_parts).count() == 0
    assert page.evaluate("document.querySelectorAll('script').length") == 2
    assert page.evaluate("document.querySelectorAll('meta').length") == 4
    assert told[0].startswith("file:")
    assert len(told) == 1, told


@pytest.mark.parametrize("at", range(len(HOSTILE)))
def test_no_hostile_text_runs_or_asks_for_anything(at, opened):
    bad = HOSTILE[at]
    pages = [write_page(subject) for subject in _hostile_pages(bad)]
    for report in (*pages, write_comparison(make_flow(bad))):
        check_harmless(*opened(report))


@pytest.mark.parametrize("at", range(len(HOSTILE)))
def test_no_hostile_category_symbol_or_word_of_real_fits_does(at, opened):
    """Where the texts come through a fit: categories of columns, symbols, sentences, documents."""
    bad = HOSTILE[at]
    other = [f"{bad} 2", "plain"]
    chain = [[bad, *other] * 8, [*other, bad] * 5]
    mixture = sb.Mixture(2, family="categorical", random_state=0)
    table = np.array([[bad, "b"], *([o, "c"] for o in other)] * 10, dtype=object)
    words = [[bad.replace(" ", "_"), "dog", "salt"], ["salt", "pan"]] * 10
    for model, data, more in (
        (mixture, table, {"by": [bad, "x", "y"] * 10}),
        (sb.HMM(2, family="categorical", random_state=0), chain, {"sequence_names": [bad, "b"]}),
        (sb.LatentDirichletAllocation(2, random_state=0), words, {}),
        (sb.PCFG(2, random_state=0), words, {}),
    ):
        page = model.fit(data).report(data, names={0: bad}, title=bad, **more)
        check_harmless(*opened(page))


@pytest.mark.parametrize("at", range(len(HOSTILE)))
def test_no_hostile_name_of_a_file_runs_or_asks_for_anything(at, command, opened, tmp_path):  # noqa: F811
    """Files of models, data and pages; a slash and NUL cannot be in a name."""
    bad = HOSTILE[at].replace("/", "\u2215").replace("\0", "").replace("\ud800", "\udcff")[:80]
    for n, name in enumerate((bad, "other")):
        sb.Mixture(n + 1, random_state=0).fit(ROWS).save(tmp_path / f"{name}.stickbreak")
    np.save(tmp_path / f"{bad}.npy", ROWS)
    model, data, page = (f"./{bad}.{suffix}" for suffix in ("stickbreak", "npy", "html"))
    out = tmp_path / page
    done = command("report", model, data, "--out", page)
    assert done.code == 0, done.err
    check_harmless(*opened(out))
    assert clean(bad) not in out.read_text(encoding="utf-8")
    done = command("compare", model, "other.stickbreak", data, "--html", page, "--force")
    assert done.code == 0, done.err
    check_harmless(*opened(out))


# Clicks all that can be clicked, twice where that changes it; counts those that arrive.
CLICKS = """() => {
  let clicks = 0, landed = 0;
  document.addEventListener('click', () => { landed += 1; }, true);
  for (const e of document.querySelectorAll(
      'nav a, summary, thead button, button.plain, tbody tr[data-k], svg g[data-k]')) {
    if (!e.isConnected || !e.getClientRects().length) continue;
    clicks += 1;
    e.dispatchEvent(new MouseEvent('click', {bubbles: true, cancelable: true}));
  }
  for (const e of document.querySelectorAll('select, input')) {
    if (e.type === 'search') e.value = 'script';
    else if (e.options) e.selectedIndex = e.options.length - 1;
    else e.value = e.max;
    e.dispatchEvent(new Event('input', {bubbles: true}));
    e.dispatchEvent(new Event('change', {bubbles: true}));
  }
  return [clicks, landed];
}"""
