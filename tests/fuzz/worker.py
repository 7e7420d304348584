"""One long-lived process that runs commands as a shell would, and says how each ended.

Reads a line of JSON for each attack, a list of command lines; they run one after the other until
one ends with an error. Answers with one line of JSON.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import os
import resource
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import typer

MOST_ADDRESSES = 6 << 30  # so that a mistake costs this process, not the machine


def peak_memory() -> int:
    """Largest memory of this process, in the units of ru_maxrss.

    On Linux that number begins with the memory of the process that started this one.
    """
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def run(arguments: list[str]) -> dict[str, Any]:
    from stickbreak import progress
    from stickbreak.cli import main

    progress.PAUSE = 1e9  # what a busy machine says of its progress is no complaint
    out, err = io.StringIO(), io.StringIO()
    code, trace = 0, ""
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(arguments)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        except BaseException:  # noqa: BLE001
            trace = traceback.format_exc()
    return {"code": code, "error": err.getvalue()[-4000:], "traceback": trace[-4000:]}


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MOST_ADDRESSES, MOST_ADDRESSES))
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what compiled code prints is no answer
    # the tree of commands is the same each time, and most of the time of a refused file
    typer.main.get_command = functools.cache(typer.main.get_command)
    for line in sys.stdin:
        ends, began = [], time.process_time()
        for arguments in json.loads(line):
            ends.append(run(arguments))
            if ends[-1]["code"] or ends[-1]["traceback"]:
                break
        peak = peak_memory()
        seconds = time.process_time() - began
        answers.write(json.dumps({"ends": ends, "peak": peak, "seconds": seconds}) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
