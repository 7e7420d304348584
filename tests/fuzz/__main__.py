"""`python -m tests.fuzz models --count 10000`: damaged files through the command line.

Prints how they ended, and the number of each bug; exit code 1 if there is any.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1])]  # tests, as pytest has it

from fuzz.campaign import run_campaign  # noqa: E402
from fuzz.kinds import KINDS  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("kind", choices=sorted(KINDS))
    parser.add_argument("--count", type=int, default=1000, help="files to try")
    parser.add_argument("--first", type=int, default=0, help="number of the first")
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    numbers = range(given.first, given.first + given.count)
    say = lambda text: print(text, file=sys.stderr, flush=True)  # noqa: T201
    report = run_campaign(KINDS[given.kind], numbers, given.workers, say)
    print(f"{given.kind}: {dict(report.ends)}; bugs: {report.n_bad}")  # noqa: T201
    return int(report.n_bad > 0)


if __name__ == "__main__":
    sys.exit(main())
