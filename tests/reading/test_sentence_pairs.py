"""Sentence pairs become numbered words; empty and long ones are left out and named."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from stickbreak.data import number_pairs, spool
from stickbreak.errors import DataWarning
from stickbreak.reading import open_pairs, read_pairs, sentence_pairs

PAIRS = [("the house", "das Haus"), ("a house", "ein Haus"), ("the", "Das")]


def read(pairs, schema=None, **options):
    return read_pairs(number_pairs(pairs), schema, **{"max_length": 9, **options})


def test_words_are_numbered_with_null_first_and_unknown_words_last():
    found, schema = read(PAIRS)
    assert schema.names == ("das", "Haus", "ein", "Das")
    assert schema.source_names == ("the", "house", "a")
    assert found.table.rows.ravel().tolist() == [0, 1, 2, 1, 3]
    assert found.table.companion.rows.tolist() == [1, 2, 3, 2, 1]
    assert found.table.offsets.tolist() == [0, 2, 4, 5]
    new, same = read([("a cat", "eine Katze"), ("house", "Haus")], schema)
    assert same is schema
    assert new.table.rows.ravel().tolist() == [4, 4, 1]
    assert new.table.companion.rows.tolist() == [3, 4, 2]


def test_vocabularies_grow_at_their_ends():
    _, schema = read(PAIRS)
    found, grown = read([("the cat", "die Katze")], schema, grows=True)
    assert grown.names == (*schema.names, "die", "Katze")
    assert grown.source_names == (*schema.source_names, "cat")
    assert found.table.rows.ravel().tolist() == [4, 5]
    assert found.table.companion.rows.tolist() == [1, 4]


def test_small_letters_join_words():
    found, schema = read(PAIRS, lowercase=True)
    assert schema.names == ("das", "haus", "ein")
    assert found.table.rows.ravel().tolist() == [0, 1, 2, 1, 0]


def test_spooled_words_are_numbered_in_pieces(monkeypatch):
    expected, _ = read(PAIRS * 50, lowercase=True)
    monkeypatch.setattr(spool, "HELD", 10)
    monkeypatch.setattr(sentence_pairs, "PIECE", 7)
    found, _ = read(PAIRS * 50, lowercase=True)
    assert isinstance(found.table.companion.rows, np.memmap)
    np.testing.assert_array_equal(found.table.rows, expected.table.rows)
    assert found.table.fingerprint() == expected.table.fingerprint()


def test_spooled_words_stay_in_a_file_when_pairs_are_left_out(monkeypatch):
    pairs = [*PAIRS * 20, ("", "x"), *PAIRS * 20, ("a", ""), *PAIRS * 20]
    with pytest.warns(DataWarning):
        expected, _ = read(pairs, lowercase=True)
    monkeypatch.setattr(spool, "HELD", 100)
    monkeypatch.setattr(sentence_pairs, "PIECE", 7)
    with pytest.warns(DataWarning):
        found, _ = read(pairs, lowercase=True)
    for words in (found.table.rows, found.table.companion.rows):
        assert isinstance(words, np.memmap)
    assert found.kept.tolist() == expected.kept.tolist()
    np.testing.assert_array_equal(found.table.rows, expected.table.rows)
    assert found.table.fingerprint() == expected.table.fingerprint()


def test_empty_and_long_pairs_are_left_out_and_named():
    pairs = [("a", "b"), ("", "b"), ("a b c", "b"), ("a", "b"), ("a", "")]
    with pytest.warns(DataWarning) as caught:
        found, _ = read(pairs, max_length=2)
    assert [str(warning.message) for warning in caught] == [
        "2 of 5 pairs of the bitext without words on one side are left out: pair 1, pair 4",
        "1 of 5 pairs of the bitext with more than max_length=2 words on a side are left out: "
        "pair 2",
    ]
    assert found.kept.tolist() == [0, 3]
    assert found.table.offsets.tolist() == [0, 1, 2]
    assert found.spread(["x", "y"], None) == ["x", None, None, "y", None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        with pytest.raises(ValueError, match="has no pair with 1 to max_length=9 words on both"):
            read([("a", "")])


def test_what_is_no_bitext_is_refused():
    with pytest.raises(ValueError, match=r"sentence pairs are a list of .* got a ndarray"):
        open_pairs(np.zeros((2, 2)))
