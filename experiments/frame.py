"""What an experiment gives, and where its data are."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path


class MissingDataError(Exception):
    """The experiment needs data that are not here."""


@dataclass(frozen=True)
class Row:
    """One figure: ours, the published one, and the best peer's."""

    what: str
    ours: str
    published: str = ""
    peer: str = ""


@dataclass(frozen=True)
class Experiment:
    """A title, a sentence of what was done, and its figures."""

    title: str
    setting: str
    rows: list[Row] = field(default_factory=list)


def data_folder() -> Path:
    """The folder of real data, named by STICKBREAK_DATA."""
    folder = os.environ.get("STICKBREAK_DATA")
    if not folder or not Path(folder).is_dir():
        raise MissingDataError("set STICKBREAK_DATA to the folder of real data")
    return Path(folder)
