"""Errors about a column speak of it by the name that the user knows."""

from __future__ import annotations

import pytest

from stickbreak.errors import NumericalError, columns_named


def test_columns_are_called_by_their_names():
    with (
        pytest.raises(ValueError, match=r"^row 7, column 'height' is 3; 2 columns$"),
        columns_named(["weight", "height"]),
    ):
        raise ValueError("row 7, column 1 is 3; 2 columns")
    with pytest.raises(NumericalError, match=r"^column 5 of the table$"), columns_named([4, 5]):
        raise NumericalError("column 1 of the table")


def test_names_of_members_are_found_through_the_table():
    with (
        pytest.raises(ValueError, match=r"^column 'c' is 0$"),
        columns_named("abc"),
        columns_named([2, 0]),
    ):
        raise ValueError("column 0 is 0")


def test_what_names_no_column_is_left_alone():
    for message in (
        "n_symbols has 3 entries but the data have 2 columns",
        "column 9 is strange",
        "columns 0, 1: constant",
    ):
        with pytest.raises(ValueError, match=rf"^{message}$"), columns_named(["a", "b"]):
            raise ValueError(message)
    with pytest.raises(ValueError, match=r"^column 0$"), columns_named(None):
        raise ValueError("column 0")
    with pytest.raises(KeyError), columns_named(["a"]):
        raise KeyError("column 0")
