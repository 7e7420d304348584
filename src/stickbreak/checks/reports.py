"""The battery that every page must pass."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

from stickbreak.report import CHAPTERS

__all__ = ["check_report", "read_page"]

REFUSED = ("style", "src", "srcdoc", "action", "formaction")
NO_PAGES = {"img", "iframe", "base", "object", "embed", "link", "form"}


def check_report(model: Any, X: Any = None, **more: Any) -> None:
    """Check the page of a fitted model; an AssertionError says what is wrong with it.

    It is well-formed, tells the chapters in their order, holds one script and one style, allowed
    by hash, and no handler or link to elsewhere. Names are unique, each figure has a text
    alternative. A second page has the same bytes, and the page of `data="none"` has fewer.

    Parameters
    ----------
    model : fitted estimator, ours or yours.
    X : data to show with it; without, the page is of the model alone.
    more : other arguments of `report`, such as `lengths`.

    Examples
    --------
    >>> import numpy as np, stickbreak as sb
    >>> from stickbreak.checks import check_report
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> check_report(sb.Mixture(1, random_state=0).fit(X), X)
    """
    html = model.report(X, **more).html
    tree = read_page(html)
    titles = [element.text for element in tree.iter("h2")]
    assert titles == list(CHAPTERS.values()), f"chapters are {titles}"
    for figure in tree.iter("{http://www.w3.org/2000/svg}svg"):
        if figure.get("role") == "img":
            assert figure.get("aria-label"), "a figure has no text alternative"
    assert model.report(X, **more).html == html, "a second page differs"
    if X is not None:
        private = model.report(X, data="none", **more).html
        read_page(private)
        for mark in ('class="point', 'id="strips"'):
            assert mark not in private, 'data="none" leaves rows, or their states, in the page'


def read_page(html: str) -> ElementTree.Element:
    """The tree of a page, by a strict reader; AssertionError for what no page may hold."""
    start = "<!DOCTYPE html>\n"
    assert html.startswith(start), "the page does not begin with its doctype"
    try:
        tree = ElementTree.fromstring(html.removeprefix(start))
    except ElementTree.ParseError as error:
        raise AssertionError(f"the page is not well-formed: {error}") from None
    for element in tree.iter():
        name = element.tag.rpartition("}")[2]
        assert name not in NO_PAGES, f"a page may not hold <{name}>"
        for key, value in element.attrib.items():
            assert not key.lower().startswith("on"), f"<{name}> has a handler {key}"
            assert key not in REFUSED, f"<{name}> has {key}"
            assert key != "href" or value.startswith("#"), f"a link to {value[:80]!r}"
    scripts = [element.get("type") for element in tree.iter("script")]
    assert scripts == ["application/json", None], f"scripts are {scripts}"
    assert len(list(tree.iter("style"))) == 1, "a page has one style"
    ids = [found for element in tree.iter() if (found := element.get("id"))]
    assert len(ids) == len(set(ids)), "an id is there twice"
    return tree
