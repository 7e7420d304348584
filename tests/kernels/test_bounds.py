"""That `make boundscheck` checks bounds: a kernel that reads beyond its array is an error there."""

from __future__ import annotations

import os

import numpy as np
import pytest

from stickbreak.kernels.compile import kernel

is_checked = os.environ.get("NUMBA_BOUNDSCHECK") == "1"


@pytest.mark.skipif(not is_checked, reason="run by make boundscheck")
def test_reading_beyond_an_array_is_an_error(tmp_path, monkeypatch):
    from numba.core import config

    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))

    @kernel
    def read(values, at):
        return values[at]

    assert read(np.arange(3.0), 2) == 2.0
    with pytest.raises(IndexError):
        read(np.arange(3.0), 3)
