"""Pages in a real browser: one request, no message, selection, scripts off, axe.

Needs the extra `browser` and a Chromium: `pip install stickbreak[browser]`, `apt-get install
chromium`. Without them the tests are skipped, or fail with STICKBREAK_REQUIRE_BROWSER=1.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from report.browsing import (
    CONTRAST,
    FOCUSABLE,
    FOCUSED,
    PAGES,
    PRINTED,
    TARGETS,
    TEXTS,
    UNFOLD,
    n_sheets,
    skip,
)  # fmt: skip
from report.subjects import make_rows, make_topics

from stickbreak.report import write_page

pytestmark = pytest.mark.slow
RULES = {
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    "rules": {"target-size": {"enabled": True}},  # of WCAG 2.2, off unless asked for
}
VIEWS = [(1280, "light"), (1280, "dark"), (400, "light"), (400, "dark")]


@pytest.mark.parametrize("kind", PAGES)
def test_one_request_no_message_no_scroll_and_no_rule_of_axe_violated(kind, opened):
    report = PAGES[kind]()
    for width, theme in VIEWS:
        page, told = opened(report, width, theme)
        check_views(page)
        assert len(told) == 1, told


def check_views(page):
    """Nothing too wide, small, faint or cut, also of what is folded, with and without a selection;
    no rule of axe violated.
    """
    check_boxes(page)
    page.evaluate(UNFOLD)
    for pick in (False, True):
        if pick:
            page.evaluate("document.querySelectorAll('[data-pick]')[1].click()")
        check_boxes(page)
        check_axe(page)


def check_boxes(page):
    """The page does not scroll sideways; texts are in their figures, seen and large enough."""
    wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert wide <= 0, f"{wide} px too wide"
    assert page.evaluate(TEXTS) == []
    n, bad = page.evaluate(CONTRAST)
    assert n > 20
    assert bad == []
    assert page.evaluate(TARGETS) == []


def check_axe(page):
    """No rule is violated; what axe leaves undecided is contrast, which `CONTRAST` computes."""
    try:
        from axe_playwright_python.sync_playwright import Axe
    except ImportError:
        skip('no axe: pip install "stickbreak[browser]"')
    found = Axe().run(page, options=RULES).response
    told = [(v["id"], [n["html"][:120] for n in v["nodes"][:3]]) for v in found["violations"]]
    assert told == []
    assert {v["id"] for v in found["incomplete"]} <= {"color-contrast"}


@pytest.mark.parametrize("kind", PAGES)
def test_same_figures_without_scripts(kind, opened):
    report = PAGES[kind]()
    # counted by locators: evaluate needs scripts
    page, _ = opened(report, scripts=False)
    plain = page.locator("svg").count(), page.locator("tr").count(), page.locator("path").count()
    page, _ = opened(report)
    assert (page.locator("svg").count(), page.locator("tr").count(),
            page.locator("path").count()) == plain  # fmt: skip


@pytest.mark.parametrize("kind", PAGES)
def test_every_figure_has_words_and_a_table(kind, opened):
    page, _ = opened(PAGES[kind]())
    assert (
        page.evaluate("""() => [...document.querySelectorAll('svg[role=img]')]
        .filter(e => !/[0-9]/.test(e.getAttribute('aria-label')) || !e.querySelector('title'))
        .map(e => e.outerHTML.slice(0, 99))""")
        == []
    )
    alone = page.evaluate("""() => [...document.querySelectorAll('svg[role=img]')]
        .filter(e => !e.closest('figure').querySelector('table tbody tr'))
        .map(e => e.getAttribute('aria-label'))""")
    assert alone == []


@pytest.mark.parametrize("kind", PAGES)
def test_keyboard_reaches_all_in_order_and_focus_is_seen(kind, opened):
    page, _ = opened(PAGES[kind]())
    n = page.evaluate(f"{FOCUSABLE}.length")
    assert n > 8
    reached = []
    for _ in range(n + 5):
        page.keyboard.press("Tab")
        name, at, is_seen = page.evaluate(FOCUSED)
        if not name:
            break
        assert is_seen, name
        reached.append(at)
    assert reached == list(range(n))
    places = "[...document.querySelectorAll('[tabindex]')].map(e => e.tabIndex)"
    assert set(page.evaluate(places)) <= {0}


@pytest.mark.parametrize("kind", PAGES)
def test_all_that_is_done_by_mouse_is_done_by_keys(kind, opened):
    """Chips select, heads sort, titles unfold, sliders and lists change: each by its own keys."""
    page, _ = opened(PAGES[kind]())
    focus = "e => { e.scrollIntoView(); e.focus(); }"
    for chip in page.locator("nav a[data-pick]").all()[:4]:
        chip.evaluate(focus)
        page.keyboard.press("Enter")
        assert chip.get_attribute("aria-current") == "true"
    page.keyboard.press("Escape")
    assert page.locator(".on").count() == 0
    for button in page.locator("thead button:visible").all()[:6]:
        button.evaluate(focus)
        page.keyboard.press("Space")
        assert button.evaluate("e => e.closest('th').ariaSort") == "descending"
    for title in page.locator("summary:visible").all():
        title.evaluate(focus)
        page.keyboard.press("Enter")
        assert title.evaluate("e => e.parentElement.open")
    for slider in page.locator("input[type=range]").all():
        before = slider.input_value()
        slider.evaluate(focus)
        page.keyboard.press("ArrowRight")
        assert float(slider.input_value()) > float(before)
    for chosen in page.locator("select").all():
        before = chosen.input_value()
        chosen.evaluate(focus)
        page.keyboard.press("ArrowDown" if before == "0" else "ArrowUp")
        assert chosen.input_value() != before
    theme = page.locator("#theme")
    theme.evaluate(focus)
    page.keyboard.press("Enter")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


@pytest.mark.parametrize("kind", PAGES)
def test_prints_to_few_sheets_without_cut_figures(kind, opened):
    page, _ = opened(PAGES[kind](), width=718)  # A4 less margins, at 96 dots an inch
    page.emulate_media(media="print")
    over = page.evaluate("""() => [...document.querySelectorAll('svg, table, pre')]
        .filter(e => e.getClientRects().length)
        .map(e => [e.getBoundingClientRect().right - innerWidth, e.outerHTML.slice(0, 99)])
        .filter(([px]) => px > 1)""")
    assert over == []
    assert page.evaluate(PRINTED) == []
    heads = page.locator("thead th:visible")
    assert heads.count() > 1
    assert all(text.strip() for text in heads.all_inner_texts()), "a column without its title"
    assert page.locator("label:visible, button:visible:not(th button)").count() == 0
    assert n_sheets(page) <= 8


def test_what_is_measured_finds_faint_small_and_cut_text(opened):
    page, _ = opened(PAGES["rows"]())
    page.evaluate("""() => {
        document.querySelector('.lead').style.color = '#999';
        const text = document.querySelector('#scatter text');
        text.style.fontSize = '7px'; text.setAttribute('x', '-40');
        document.querySelector('.profiles text.halo').style.stroke = 'none';
        document.querySelector('summary').style.cssText = 'min-height: 0; height: 9px; padding: 0';
    }""")
    assert len(page.evaluate(CONTRAST)[1]) == 1
    assert {told[0].split()[0] for told in page.evaluate(TEXTS)} == {"small", "outside", "on"}
    assert len(page.evaluate(TARGETS)) == 1


def page_of(n_topics):
    """A page of topics over 40 words, the table of 30 higher than its frame."""
    if n_topics == 3:
        return PAGES["topics"]()
    topics = np.random.default_rng(0).dirichlet(np.full(40, 0.1), n_topics)
    weights = np.full(n_topics, 1 / n_topics)
    words = [f"word{v}" for v in range(40)]
    apart = dict.fromkeys(range(n_topics), "word0, word1")
    more = {"topic_word": topics, "overall": np.log(weights @ topics), "apart": apart}
    subject = make_topics()
    return write_page(replace(
        subject, weights=weights, counts=100 * weights, ids=range(n_topics), columns=words,
        observed=None, more=more,
    ))  # fmt: skip


@pytest.mark.parametrize("n_topics", [3, 30])
def test_slider_orders_words_exactly_at_each_step(n_topics, opened):
    """As the data block has them; Python tests compare that with the formula."""
    page, _ = opened(page_of(n_topics))
    wrong = page.evaluate("""async () => {
        const given = JSON.parse(document.getElementById('data').textContent).words;
        const slider = document.querySelector('#relevance input'), bad = [];
        for (let r = 0; r <= 1.0001; r += given.step) {
            slider.value = r;
            slider.dispatchEvent(new Event('input'));
            await new Promise(done => setTimeout(done, 120));  // what is out of sight
            if (Math.abs(slider.value - r) > 1e-6) bad.push(['step', r, slider.value]);
            for (const [k, own] of Object.entries(given.topics)) {
                const rank = own.map(([w, p]) => [r * p + (1 - r) * (p - given.overall[w]), w]);
                rank.sort((x, y) => y[0] - x[0] || x[1] - y[1]);
                const words = rank.slice(0, given.most).map(([, w]) => given.names[w]).join(', ');
                const shown = document.getElementById('words-' + k).textContent;
                if (words !== shown) bad.push([r, k, words, shown]);
            }
        }
        return bad;
    }""")
    assert wrong == []


def test_a_word_is_found_in_the_topics_that_use_it(opened):
    page, _ = opened(PAGES["topics"]())
    page.locator("[data-find] input").fill("dog")
    assert page.locator("[data-find] output").inner_text().startswith("used by 0 (")
    page.locator("[data-find] input").fill("nowhere")
    assert page.locator("[data-find] output").inner_text() == "0 lines: not among the words shown"
    assert page.locator("#components tbody tr:not(.gone)").count() == 0
    page.locator("[data-find] input").fill("")
    assert page.locator("#components tbody tr:not(.gone)").count() == 3


def test_strips_zoom_and_the_column_below_can_be_chosen(opened):
    page, told = opened(PAGES["chain"]())
    wide = "document.getElementById('strips').getBoundingClientRect().width"
    before = page.evaluate(wide)
    page.evaluate("""() => { const zoom = document.querySelector('#strip-controls input');
        zoom.value = 3; zoom.dispatchEvent(new Event('input')); }""")
    assert page.evaluate(wide) > 2 * before
    check_boxes(page)
    page.locator("#strip-controls select").select_option("1")
    assert page.locator("#strips polyline.course-0:not(.gone)").count() == 0
    assert page.locator("#strips polyline.course-1:not(.gone)").count() == 2
    assert len(told) == 1


def test_nothing_moves_for_those_who_asked_and_forced_colors_show_text(browser, tmp_path):
    file = PAGES["rows"]().save(tmp_path / "page.html")
    context = browser.new_context(reduced_motion="reduce", forced_colors="active")
    page = context.new_page()
    page.goto(file.as_uri())
    everything = "[...document.querySelectorAll('*')].map(e => getComputedStyle(e))"
    moving = f"{everything}.filter(s => s.transitionDuration !== '0s').length"
    assert page.evaluate(moving) == 0
    inks = "[...document.querySelectorAll('svg text')].map(e => getComputedStyle(e).fill)"
    assert page.evaluate(f"new Set({inks}).size") == 1
    context.close()


def test_selection_marks_a_component_everywhere_and_escape_ends_it(opened):
    page, told = opened(write_page(make_rows()))
    page.locator('nav a[data-pick="1"]').click()
    assert page.url.endswith("#k=1")
    marked = "[...document.querySelectorAll('.on')].map(e => e.dataset.k || e.dataset.ks)"
    assert set(page.evaluate(marked)) == {"1", "0 1", "1 2"}  # itself, and pairs with it
    own = 'document.querySelectorAll(\'[data-k="1"], [data-ks~="1"]\').length'
    assert len(page.evaluate(marked)) == page.evaluate(own)
    page.keyboard.press("Escape")
    assert page.evaluate(marked) == []
    page.locator('nav a[data-pick="2"]').focus()
    page.keyboard.press("Enter")
    assert set(page.evaluate(marked)) == {"2", "0 2", "1 2"}
    page.goto(page.url.split("#")[0] + "#k=0")
    assert set(page.evaluate(marked)) == {"0", "0 1", "0 2"}
    assert not [t for t in told if "error" in t.lower()]


def test_a_touch_selects_too(browser, tmp_path):
    file = PAGES["rows"]().save(tmp_path / "page.html")
    context = browser.new_context(viewport={"width": 400, "height": 900}, has_touch=True)
    page = context.new_page()
    page.goto(file.as_uri())
    marked = "[...new Set([...document.querySelectorAll('[data-k].on')].map(e => e.dataset.k))]"
    page.locator('nav a[data-pick="1"]').tap()
    assert page.evaluate(marked) == ["1"]
    page.locator('#components tr[data-k="2"] td').nth(1).tap()
    assert page.evaluate(marked) == ["2"]
    page.locator('nav a[data-pick="all"]').tap()
    assert page.evaluate(marked) == []
    context.close()


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
    check_boxes(page)
    page, _ = opened(write_page(make_topics()))
    page.locator("#relevance input").evaluate(
        "e => { e.value = 1; e.dispatchEvent(new Event('input')); }"
    )
    assert page.locator("#words-0").inner_text().startswith("cat, dog")


def test_policy_stops_a_script_that_was_slipped_in(opened):
    report = write_page(make_rows())
    bad = report.html.replace("</h1>", "</h1><script>document.title = 'run'</script>", 1)
    page, told = opened(type(report)(bad))
    assert page.title() != "run"
    assert any("Content Security Policy" in t or "script-src" in t for t in told)
