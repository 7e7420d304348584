"""Links are read, written, joined from two directions and refused outside of their sentences."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

import stickbreak as sb
from stickbreak.data import Links, as_links, number_pairs
from stickbreak.data.links import RULES
from tests.oracles.links import symmetrized

BITEXT = number_pairs([("a b c", "x y"), ("a", "x y z"), ("a b", "x")])


@pytest.mark.parametrize(
    ("forward", "reverse", "expected"),
    [
        # a lone link of each side: nothing grows, both are final, and 1-1 shares no word with 0-0
        ("0-0", "1-1", ["", "0-0 1-1", "", "0-0 1-1", "0-0 1-1"]),
        # 0-1 touches 0-0, and its target word is free; 3-1 touches nothing
        (
            "0-0 0-1",
            "0-0 3-1",
            ["0-0", "0-0 0-1 3-1", "0-0 0-1", "0-0 0-1 3-1", "0-0 0-1"],
        ),
        # a diagonal neighbor; 1-3 has a free target word only
        (
            "0-0 1-1",
            "0-0 1-3",
            ["0-0", "0-0 1-1 1-3", "0-0 1-1", "0-0 1-1 1-3", "0-0 1-1"],
        ),
        # 0-1 and 1-0 touch links of both, but have no free word
        (
            "0-0 0-1 1-1",
            "0-0 1-0 1-1",
            ["0-0 1-1", "0-0 0-1 1-0 1-1", "0-0 1-1", "0-0 1-1", "0-0 1-1"],
        ),
        ("", "", ["", "", "", "", ""]),
    ],
)
def test_rules_on_cases_made_by_hand(forward, reverse, expected):
    found = [next(sb.symmetrize([forward], [reverse], rule).lines()) for rule in RULES]
    assert found == expected


def test_rules_equal_their_definition_on_random_links():
    rng = np.random.default_rng(0)
    sides = [
        [{tuple(link) for link in rng.integers(0, 6, (rng.integers(0, 9), 2)).tolist()}
         for _ in range(200)]
        for _ in range(2)
    ]  # fmt: skip
    for rule in RULES:
        expected = [sorted(symmetrized(a, b, rule)) for a, b in zip(*sides, strict=True)]
        assert list(sb.symmetrize(*sides, rule)) == expected


def test_rules_take_links_of_the_same_pairs():
    with pytest.raises(ValueError, match="unknown symmetrization 'both'; choose one of inters"):
        sb.symmetrize([], [], "both")
    with pytest.raises(ValueError, match="forward has links of 1 pairs but reverse of 2"):
        sb.symmetrize([[]], [[], []])


def test_links_are_written_and_read_again(tmp_path):
    links = as_links([[(2, 1), (0, 0)], [], [(1, 0), (1, 0)]])
    assert links[0] == [(0, 0), (2, 1)]
    assert links[-1] == [(1, 0)]
    assert links[1:] == [[], [(1, 0)]]
    assert repr(links) == "<3 links of 3 sentence pairs>"
    assert list(links.swapped()) == [[(0, 0), (1, 2)], [], [(0, 1)]]
    path = tmp_path / "links.txt"
    path.write_text("".join(f"{line}\n" for line in links.lines()))
    assert path.read_text() == "0-0 2-1\n\n1-0\n"
    assert list(sb.read_links(path, BITEXT)) == list(links)
    packed = tmp_path / "links.txt.gz"
    packed.write_bytes(gzip.compress(b"1-1 0-0"))
    assert list(sb.read_links(packed)) == [[(0, 0), (1, 1)]]


def test_links_of_words():
    found = Links.of_words(np.array([1, -1, 0, 2, 2]), np.array([0, 2, 2, 5]))
    assert list(found) == [[(1, 0)], [], [(0, 0), (2, 1), (2, 2)]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0-0\n0-x\n\n", "line 2 is '0-x'; expected links like"),
        ("0-0\n0-0 1 2\n\n", "line 2 is"),
        ("0-0\n1-1\n\n", r"links words 1-1 \(from 0\) of pair 1, whose sentences have 1 and 3"),
        ("0-0\n", "has 1 lines but the bitext has 3 pairs"),
        ("0-10000\n\n\n", "line 1 has position 10000"),
        ("0-99999999999\n\n\n", "line 1 is"),
    ],
)
def test_links_outside_of_the_sentences_are_refused(tmp_path, text, message):
    path = tmp_path / "links.txt"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        sb.read_links(path, BITEXT)


def test_gold_has_sure_and_possible_links(tmp_path):
    path = tmp_path / "gold.txt"
    path.write_text("0001 1 1 S\n0001 3 2 P\n0003 2 1\n")
    numbered = sb.read_gold(path, BITEXT)
    assert numbered.pairs.tolist() == [0, 2]
    assert list(numbered.sure) == [[(0, 0)], [(1, 0)]]
    assert list(numbered.possible) == [[(0, 0), (2, 1)], [(1, 0)]]
    path.write_text("0-0 2?1\n\n1-0\n")
    pharaoh = sb.read_gold(path, BITEXT)
    assert pharaoh.pairs.tolist() == [0, 1, 2]
    assert list(pharaoh.sure) == [[(0, 0)], [], [(1, 0)]]
    path.write_text("0-0 2p1\n\n1-0\n")
    assert list(sb.read_gold(path).possible) == list(pharaoh.possible)
    assert pharaoh.swapped().possible[0] == [(0, 0), (1, 2)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 1 1 S\n4 1 1 S\n", "has links of pair 4 but the bitext has 3: is it the gold of other"),
        ("2 2 1 S\n", r"links words 1-0 \(from 0\) of pair 1, whose sentences have 1 and 3 words"),
        ("1 1 1 S\n1 x 1 S\n", "line 2 is '1 x 1 S'; expected `pair source target S` or P"),
        ("1 0 1 S\n", "counted from 1"),
        ("0-0\n1:1\n", "line 2 is '1:1'; expected links like `0-0 1"),
        ("\n\n", "has no links"),
        ("", "has no links"),
    ],
)
def test_gold_of_other_sentences_is_refused(tmp_path, text, message):
    path = tmp_path / "gold.txt"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        sb.read_gold(path, BITEXT)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("0-0", "must hold the links of each pair"),
        ([[(0, -1)]], r"hold \(0, -1\); positions are from 0"),
        ([[0, 1]], r"links of pair 0 are \[0, 1\]; expected pairs"),
        (["0-0", "a"], "links of pair 1 is 'a'; expected links like"),
    ],
)
def test_what_is_no_links_is_refused(given, message):
    with pytest.raises(ValueError, match=message):
        as_links(given)
