"""Compiled kernels on disk: what is damaged there is compiled anew, with a warning."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numba.core import config

from stickbreak.kernels.compile import kernel


def total(values):
    """The sum, as a loop."""
    found = 0.0
    for value in values:
        found += value
    return found


def cut(whole: bytes) -> bytes:
    return whole[: len(whole) // 2]


def flip(whole: bytes) -> bytes:
    """One bit in the middle: in the machine code of a data file, which would still unpickle."""
    at = len(whole) // 2
    return whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "cut": cut,
    "empty": lambda whole: b"",
    "noise": lambda whole: bytes(np.random.default_rng(0).integers(0, 256, 500, dtype=np.uint8)),
    "flip": flip,
    "zeros": lambda whole: bytes(len(whole)),
}


@pytest.mark.parametrize("suffix", [".nbi", ".nbc"])
def test_a_damaged_cache_is_made_anew(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    values = np.arange(5.0)

    def call() -> int:
        """Calls the kernel as a new process would; returns how often the cache had it."""
        made = kernel(total)
        assert made(values) == 10.0
        return sum(made.stats.cache_hits.values())

    assert call() == 0
    assert call() == 1
    for damage in DAMAGE.values():
        (path,) = tmp_path.rglob(f"*{suffix}")
        path.write_bytes(damage(path.read_bytes()))
        with pytest.warns(RuntimeWarning, match=f"damaged.*{suffix}"):
            assert call() == 0
        assert call() == 1  # it is whole again


def test_a_cache_without_its_data_is_made_anew_in_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    for _ in range(2):
        assert kernel(total)(np.arange(5.0)) == 10.0
        for path in tmp_path.rglob("*.nbc"):
            path.unlink()


PROGRAM = """
import numpy as np
from stickbreak.kernels.rows import pairing
print(pairing(np.ones((1, 3)), np.ones((1, 3))))
"""


@pytest.mark.slow
def test_a_kernel_of_the_library_in_a_fresh_process(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "NUMBA_CACHE_DIR": str(tmp_path),
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
    }
    said = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env=environment,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert (done.returncode, done.stdout.strip()) == (0, "3.0"), done.stderr
        said.append(done.stderr)
        for path in [*tmp_path.rglob("*.nbi"), *tmp_path.rglob("*.nbc")]:
            path.write_bytes(path.read_bytes()[:100])
    assert said[0] == ""
    assert "RuntimeWarning: a file of compiled kernels is damaged" in said[1]
    assert "Traceback" not in said[1]
