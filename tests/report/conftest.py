"""A browser for tests of pages: what is missing is skipped, or fails where it is required."""

from __future__ import annotations

from pathlib import Path

import pytest
from report.browsing import ARGUMENTS, CHROMIUM, skip


@pytest.fixture(scope="module")
def playwright():
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        skip('no playwright: pip install "stickbreak[browser]"')
    if CHROMIUM is None:
        skip("no Chromium: apt-get install chromium")
    with sync_playwright() as started:
        yield started


@pytest.fixture(scope="module")
def browser(playwright):
    started = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
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
        is_file = isinstance(report, Path)
        file = report if is_file else report.save(tmp_path / "page.html", force=True)
        page.goto(file.as_uri())
        return page, told

    yield open_page
    for context in contexts:
        context.close()
