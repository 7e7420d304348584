"""Compiled kernels on a full disk: they work, and no old code is left where new code was due."""

from __future__ import annotations

import errno
import os
import warnings
from pathlib import Path

import numpy as np
import pytest
from numba.core import config
from small_disks import mounted

from stickbreak.kernels import compile as compiling


def add(numbers, more):
    """A kernel; two signatures are compiled of it."""
    return numbers.sum() + more


def test_a_kernel_that_cannot_be_kept_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiling._warn_of_folder.cache_clear()
    with mounted(tmp_path / "small", 4096) as folder:  # room for folders, and one block
        (folder / "full").write_bytes(bytes(4096))
        monkeypatch.setattr(config, "CACHE_DIR", str(folder))
        added = compiling.kernel(add)
        with pytest.warns(RuntimeWarning, match=r"cannot be kept in .*NUMBA_CACHE_DIR") as caught:
            found = added(np.arange(3.0), 1.0), added(np.arange(3), 1)
        assert found == (4.0, 4)
        assert len(caught) == 1
        assert [name for _, _, names in os.walk(folder) for name in names] == ["full"]


def test_the_index_goes_with_what_it_could_not_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """numba writes an index of fresh code first; the file that it names may be of older code."""
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(compiling, "_warn_of_folder", lambda *_: None)
    added = compiling.kernel(add).compile()  # type: ignore[attr-defined]
    written = added._cache._cache_file

    def save_data(name: str, data: object) -> None:
        assert list(tmp_path.rglob("*.nbi"))
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(written, "_save_data", save_data)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert added(np.arange(3.0), 1.0) == 4.0
    assert not list(tmp_path.rglob("*.nbi"))
