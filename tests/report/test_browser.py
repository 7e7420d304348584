"""Pages in a real browser: one request, no message, selection, scripts off, axe.

Needs the extra `browser` and a Chromium: `pip install stickbreak[browser]`, `apt-get install
chromium`. Without them the tests are skipped, or fail with STICKBREAK_REQUIRE_BROWSER=1.
"""

from __future__ import annotations

import os
import shutil

import pytest
from report.subjects import HOSTILE, KINDS, make_rows, make_topics

from stickbreak.report import write_page

pytestmark = pytest.mark.slow
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
VIEWS = [(1280, "light"), (1280, "dark"), (400, "light"), (400, "dark")]


def _skip(reason):
    if os.environ.get("STICKBREAK_REQUIRE_BROWSER") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="module")
def browser():
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _skip('no playwright: pip install "stickbreak[browser]"')
    if CHROMIUM is None:
        _skip("no Chromium: apt-get install chromium")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def opened(browser, tmp_path):
    """A function that opens a page, and the messages and requests that it made."""
    contexts = []

    def open_page(report, width=1280, theme="light", scripts=True):
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme=theme,
            java_script_enabled=scripts,
        )
        contexts.append(context)
        page, told = context.new_page(), []
        page.on("console", lambda message: told.append(message.text))
        page.on("pageerror", lambda error: told.append(str(error)))
        page.on("request", lambda request: told.append(request.url))
        page.on("dialog", lambda dialog: told.append("dialog") or dialog.dismiss())
        file = report.save(tmp_path / "page.html", force=True)
        page.goto(file.as_uri())
        return page, told

    yield open_page
    for context in contexts:
        context.close()


@pytest.mark.parametrize("kind", KINDS)
def test_one_request_no_message_no_scroll_and_no_rule_of_axe_violated(kind, opened):
    report = write_page(KINDS[kind]())
    for width, theme in VIEWS:
        page, told = opened(report, width, theme)
        assert len(told) == 1
        wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, f"{wide} px too wide at {width}"
        sizes = page.evaluate(
            "[...document.querySelectorAll('svg text')].map(e => "
            "e.textContent ? e.getBoundingClientRect().height : 99)"
        )
        assert min(sizes, default=99) >= 9
        _check_axe(page)
        page.evaluate("document.querySelector('a[data-pick=\"1\"]').click()")
        _check_axe(page)
        assert len(told) == 1


def _check_axe(page):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    found = axe.Axe().run(page).response["violations"]
    assert [(v["id"], [n["html"][:120] for n in v["nodes"][:3]]) for v in found] == []


@pytest.mark.parametrize("kind", KINDS)
def test_same_figures_without_scripts(kind, opened):
    report = write_page(KINDS[kind]())
    # counted by locators: evaluate needs scripts
    page, _ = opened(report, scripts=False)
    plain = page.locator("svg").count(), page.locator("tr").count()
    page, _ = opened(report)
    assert (page.locator("svg").count(), page.locator("tr").count()) == plain


def test_selection_marks_a_component_everywhere_and_escape_ends_it(opened):
    page, told = opened(write_page(make_rows()))
    page.locator('nav a[data-pick="1"]').click()
    assert page.url.endswith("#k=1")
    marked = "[...document.querySelectorAll('.on')].map(e => e.dataset.k)"
    assert set(page.evaluate(marked)) == {"1"}
    n_all = page.evaluate("document.querySelectorAll('[data-k=\"1\"]').length")
    assert len(page.evaluate(marked)) == n_all
    page.keyboard.press("Escape")
    assert page.evaluate(marked) == []
    page.locator('nav a[data-pick="2"]').focus()
    page.keyboard.press("Enter")
    assert set(page.evaluate(marked)) == {"2"}
    page.goto(page.url.split("#")[0] + "#k=0")
    assert set(page.evaluate(marked)) == {"0"}
    assert not [t for t in told if "error" in t.lower()]


def test_tables_sort_axes_and_relevance_change(opened):
    page, _ = opened(write_page(make_rows()))
    head = page.locator("#chapter-found table").first.locator("th button", has_text="share")
    first = "document.querySelector('#chapter-found tbody tr').dataset.k"
    head.click()
    head.click()
    assert page.evaluate(first) == "2"
    before = page.locator("#scatter polyline").first.get_attribute("points")
    page.locator("#scatter-axes select").first.select_option("1")
    assert page.locator("#scatter polyline").first.get_attribute("points") != before
    page, _ = opened(write_page(make_topics()))
    page.locator("#relevance input").evaluate(
        "e => { e.value = 1; e.dispatchEvent(new Event('input')); }"
    )
    assert page.locator("#words-0").inner_text().startswith("cat, dog")


@pytest.mark.parametrize("at", range(len(HOSTILE)))
def test_no_hostile_text_runs_or_asks_for_anything(at, opened):
    bad = HOSTILE[at]
    pages = (
        make_rows(columns=[bad, f"{bad}2"], names={0: bad}, title=bad),
        make_topics(words=(bad, "dog", "salt", "pan"), names={1: bad}, title=bad),
    )
    for subject in pages:
        page, told = opened(write_page(subject))
        clicks = 0
        for link in page.locator("nav a, summary, thead button, button.plain").all():
            if link.is_visible():
                link.click()
                clicks += 1
        assert clicks > 5
        assert told[0].startswith("file:")
        assert len(told) == 1


def test_policy_stops_a_script_that_was_slipped_in(opened):
    report = write_page(make_rows())
    bad = report.html.replace("</h1>", "</h1><script>document.title = 'run'</script>", 1)
    page, told = opened(type(report)(bad))
    assert page.title() != "run"
    assert any("Content Security Policy" in t or "script-src" in t for t in told)
