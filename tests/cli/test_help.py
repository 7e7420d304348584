"""Help pages teach: every command has an example, and it runs as it is printed. They appear at
once.
"""

from __future__ import annotations

import inspect
import os
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import typer
from cli.running import command  # noqa: F401

import stickbreak as sb
from stickbreak.cli.commands import app
from stickbreak.cli.models import MODELS
from stickbreak.cli.options import ENGINE, FAMILIES, TOPIC_ENGINE
from stickbreak.families import names
from stickbreak.inference import ENGINES

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("numpy", "scipy", "numba", "sklearn", "safetensors", "rich", "pandas", "polars")


def commands(group=None, path=()):
    """Every command as the words that name it."""
    found = typer.main.get_command(app) if group is None else group
    if not hasattr(found, "commands"):
        return [path]
    return [
        words for name, inner in found.commands.items() for words in commands(inner, (*path, name))
    ]


def examples(page: str) -> list[list[str]]:
    """The command lines under "Example:", without the word stickbreak."""
    lines = page.split("Example:")[1].splitlines()
    return [shlex.split(line)[1:] for line in lines if line.strip().startswith("stickbreak ")]


def test_the_commands_are_these():
    assert {" ".join(words) for words in commands()} == {
        "fit mixture", "fit dp-mixture", "fit hmm", "fit hdp-hmm", "fit hsmm", "fit hdp-hsmm",
        "fit hdp-mixture",
        "fit lda", "fit hdp-topics", "fit ibm1", "fit hmm-aligner",
        "fit dmv", "fit pcfg", "fit hdp-pcfg", "fit latent-pcfg",
        "fit template-grammar",
        "predict", "score", "show", "report", "compare",
        "resume", "warmup", "example",
    }  # fmt: skip


# find the number of components or have kernels of their own, some ten seconds each; tests of the
# same commands fit less
LONG = (
    "hdp-mixture",
    "hdp-topics",
    "hsmm",
    "hdp-hsmm",
    "ibm1",
    "hmm-aligner",
    "dmv",
    "pcfg",
    "hdp-pcfg",
)


@pytest.mark.few(6)
@pytest.mark.parametrize(
    "words",
    [
        pytest.param(words, id=" ".join(words), marks=[pytest.mark.slow] * (words[-1] in LONG))
        for words in commands()
    ],
)
def test_the_example_of_every_help_page_runs_as_printed(words, command, tmp_path):  # noqa: F811
    page = command(*words, "--help")
    assert page.code == 0
    assert page.err == ""
    lines = examples(page.out)
    assert list(words) in [line[: len(words)] for line in lines]
    for line in lines:
        done = command(
            *line, *(["--quiet"] if "--quiet" in page.out and line[0] == "warmup" else [])
        )
        assert done.code == 0, done.err
        assert "warning" not in done.err
        for target in (
            line[line.index("--out") + 1 : line.index("--out") + 2] if "--out" in line else []
        ):
            assert (tmp_path / target).stat().st_size > 0


@pytest.mark.parametrize("words", [(), ("fit",)], ids=["stickbreak", "fit"])
def test_groups_have_a_page_of_their_own(words, command):  # noqa: F811
    page = command(*words, "--help")
    assert page.code == 0
    assert "Commands:" in page.out
    bare = command(*words)  # nothing asked for: the same page, as an error
    assert bare.code in (0, 2)
    assert "Commands:" in bare.err + bare.out


def test_options_have_the_names_of_the_python_arguments():
    for entry in MODELS:
        arguments = inspect.signature(getattr(sb, entry.estimator).__init__).parameters
        assert set(entry.options) <= set(arguments)
        # which have no place in a command line
        tables = {"start_prior", "transition_prior", "allowed", "seeds", "null_prior"}
        tables |= {"family"} if entry.reads == "sentences" else set()  # words are symbols
        elsewhere = {"inference", "max_iter", "tol", "warm_start", "verbose", "self"}
        assert set(entry.options) | tables | elsewhere >= set(arguments)  # and none is forgotten
        priors = {
            "concentration",
            "start_concentration",
            "top_concentration",
            "word_concentration",
            "stickiness",
            "root",
            "restarts",
            "directions",
            "null",
            "jumps",
            "jump_concentration",
            "max_length",
        }
        for name in set(entry.options) & priors:
            assert entry.defaults[name].split(",")[0] == str(arguments[name].default).removesuffix(
                ".0"
            )
        if entry.reads == "pairs":  # whose components are words
            continue
        assert f'"{arguments["init"].default}"' in entry.defaults["init"]
        if "n_components" in entry.options:
            default = str(arguments["n_components"].default)
            assert entry.defaults["n_components"].split(",")[0] == default
        assert entry.defaults["moves"].split(",")[0] == (
            "yes" if getattr(sb, entry.estimator)._is_unbounded else "no"
        )
    assert set(FAMILIES.replace(" or ", ", ").split(", ")) == set(names.FAMILIES)
    assert all(name in ENGINE["inference"].help for name in ENGINES)
    known = {name for engine in ENGINES.values() for name in engine().get_params()} | {"inference"}
    assert set(ENGINE) <= known
    assert set(TOPIC_ENGINE) == set(ENGINE) - {"slices"}  # documents have no paths


def test_help_imports_nothing_heavy():
    code = f"""
import sys
from stickbreak.cli.run import run
run(["fit", "mixture", "--help"])
print([m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True
    )
    assert done.stderr.strip() == "[]"
    assert "--n-components" in done.stdout


def test_the_command_is_installed_and_runs_as_a_module():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts == {"stickbreak": "stickbreak.cli:main"}
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-m", "stickbreak", "--version"],
        capture_output=True,
        text=True,
        env=environment,
        check=True,
    )
    assert done.stdout == f"stickbreak {sb.__version__}\n"
