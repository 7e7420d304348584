"""Commands in this process, as a shell would see them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from stickbreak.cli.run import run


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """A function that runs a command in a folder of its own.

    Reading says nothing, however slow the machine is: after a second it would add a line to stderr.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("stickbreak.progress.PAUSE", 1e9)

    def act(*arguments: object) -> Done:
        capsys.readouterr()
        code = run([str(a) for a in arguments])
        return Done(code, *capsys.readouterr())

    return act


def write_csv(path: Path, rows: np.ndarray, names: str | None = None) -> Path:
    lines = [",".join(map(repr, row)) for row in np.asarray(rows).tolist()]
    path.write_text("\n".join([names] * (names is not None) + lines) + "\n")
    return path


def files_in(folder: Path) -> set[str]:
    return {p.name for p in folder.iterdir()}
