"""Pages of fits of all estimators and families in a browser, and of the gallery on paper.

`test_browser.py` has the same for subjects made by hand, with more to click.
"""

from __future__ import annotations

import os
import runpy
from pathlib import Path

import pytest
from report.browsing import PRINTED, n_sheets
from report.test_browser import VIEWS, check_views
from report.test_estimators import CASES, fitted

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
IN_ALL_VIEWS = os.environ.get("STICKBREAK_ALL_VIEWS") == "1"
GALLERY = ("mixture", "chain", "topics", "comparison")


def check_page(report, opened, views=VIEWS):
    """One request and no message; all that `check_views` looks at; the same figures with scripts
    off.
    """
    for width, theme in views:
        page, told = opened(report, width, theme)
        check_views(page)
        counts = [page.locator(name).count() for name in ("svg", "tr", "path", "polyline")]
        assert len(told) == 1, told
    page, told = opened(report, scripts=False)
    assert [page.locator(name).count() for name in ("svg", "tr", "path", "polyline")] == counts
    assert len(told) == 1, told


@pytest.mark.parametrize("name", CASES)
def test_page_of_every_estimator_and_family_is_right_in_a_browser(name, opened):
    """Both widths and both themes of each, together in one way or the other, or in all."""
    model, data = fitted(name)
    views = VIEWS[::3] if list(CASES).index(name) % 2 == 0 else VIEWS[1:3]
    check_page(model.report(data), opened, VIEWS if IN_ALL_VIEWS else views)
    check_page(model.report(), opened, VIEWS if IN_ALL_VIEWS else [(400, "light")])


@pytest.fixture(scope="module")
def gallery(tmp_path_factory):
    """The pages that the gallery shows."""
    folder = tmp_path_factory.mktemp("gallery")
    script = ROOT / "examples" / "gallery" / "shared_pages.py"
    runpy.run_path(str(ROOT / "docs" / "build_gallery.py"))["run_script"](script, folder)
    return folder


@pytest.mark.parametrize("name", GALLERY)
def test_pages_of_the_gallery_are_right_and_print_on_at_most_eight_sheets(name, gallery, opened):
    file = gallery / f"shared_pages-{name}.html"
    assert file.stat().st_size <= 450_000
    check_page(file, opened)
    page, _ = opened(file, width=718)
    page.emulate_media(media="print")
    over = page.evaluate("""() => [...document.querySelectorAll('svg, table, pre')]
        .filter(e => e.getClientRects().length)
        .map(e => e.getBoundingClientRect().right - innerWidth).filter(px => px > 1)""")
    assert over == []
    assert page.evaluate(PRINTED) == []
    assert n_sheets(page) <= 8
