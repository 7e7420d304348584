"""Text comes back from markup unchanged, but for control characters; nothing of it is markup."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stickbreak.report.markup import MOST_LETTERS, Markup, clean, data_block, raw_block, tag

TEXTS = st.text(max_size=200)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


@given(TEXTS, TEXTS)
def test_any_text_comes_back_unchanged_but_for_control_characters(text, value):
    made = tag("p", text, title=value)
    reader = _Reader()
    reader.feed(made)
    reader.close()
    assert reader.tags == [("p", {"title": clean(value)})]
    assert reader.text == clean(text)
    element = ElementTree.fromstring(made)
    assert (element.text or "") == clean(text)
    assert list(element) == []


@given(st.text(st.characters(exclude_categories=["Cc", "Cs", "Cf", "Cn"]), max_size=50))
def test_ordinary_text_is_not_touched(text):
    assert clean(text) == text


@given(st.recursive(TEXTS | st.integers() | st.none(), st.lists, max_leaves=5))
def test_values_of_the_data_block_come_back_and_hold_no_markup(values):
    block = data_block("data", values)
    inside = block[block.index(">") + 1 : block.rindex("<")]
    assert not set("<>&\u2028\u2029") & set(inside)
    assert json.loads(inside) == values


@pytest.mark.parametrize("name", ["onclick", "style", "src", "ONLOAD", 'a"b'])
def test_handlers_and_styles_are_refused(name):
    with pytest.raises(ValueError, match="may not hold an attribute"):
        tag("p", **{name: "x"})


@pytest.mark.parametrize("link", ["javascript:alert(1)", "https://example.org", "//x", ""])
def test_links_to_elsewhere_are_refused(link):
    with pytest.raises(ValueError, match="only link to itself"):
        tag("a", "x", href=link)


def test_markup_is_kept_and_other_text_escaped():
    assert tag("p", tag("b", "<i>"), Markup("<br/>"), None, 3) == "<p><b>&lt;i&gt;</b><br/>3</p>"
    assert tag("input", disabled=True, hidden=False) == '<input disabled="disabled"/>'


def test_long_text_is_cut():
    assert len(tag("p", "x" * 10000)) == MOST_LETTERS + len("<p></p>")


def test_scripts_with_markup_are_refused():
    with pytest.raises(ValueError, match="may not hold < or &"):
        raw_block("script", "a && b")
