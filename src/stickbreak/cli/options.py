"""Tables of all options."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

__all__ = [
    "ALIGNERS", "ALIGNER_ENGINE", "BITEXT", "CHECKS", "COMPARED", "DATA", "ENGINE", "ESTIMATOR",
    "OUTPUT", "PAGE", "RESUME", "SENTENCES", "SEQUENCES", "SYMMETRIZE", "TOPICS", "TOPIC_ENGINE",
    "USE", "VOCABULARY", "WORKERS", "Option", "Stopped", "with_options",
]  # fmt: skip


class Stopped(Exception):  # noqa: N818
    """Ctrl-C or a closed pipe, as an exception that typer has no message for."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(str(cause))
        self.cause = cause


@dataclass(frozen=True)
class Option:
    """One option. flags : other names; the first is made from the name of the Python argument."""

    kind: Any
    help: str
    flags: tuple[str, ...] = ()
    default: Any = None
    metavar: str | None = None


FAMILIES = (
    "gaussian, diagonal, zero-mean, fixed-variance, categorical, multinomial, bernoulli, poisson "
    "or autoregressive"
)

ESTIMATOR = {
    "n_components": Option(int, "Number of components"),
    "family": Option(str, f"Likelihood: {FAMILIES}; or gaussian:x,y;poisson:*. Default gaussian."),
    "concentration": Option(
        float, "Of the prior on the weights, on the rows of transitions, or on rules"
    ),
    "stop_concentration": Option(float, "Prior count of a head's stopping, and of its going on"),
    "kind_concentration": Option(float, "Prior count of emitting a word, and of splitting"),
    "root_concentration": Option(float, "Of the prior on the categories of whole sentences"),
    "max_length": Option(int, "Most words of a sentence; longer ones are refused"),
    "n_subtypes": Option(int, "Subtypes of each symbol"),
    "horizontal": Option(
        str, 'Sisters that a symbol made by binarization remembers: 0, 1 or "full"'
    ),
    "rare": Option(int, "Words seen up to so many times are known by their shape"),
    "prune": Option(float, "Posterior of a span's symbol up to which parses leave it out"),
    "word_concentration": Option(float, "Prior count of each word that a tag has"),
    "templates": Option(
        str,
        'Sequences of slots, | between them: "Stem | Prefix Stem | Prefix+ Stem". + marks a slot '
        "for one or more segments",
    ),
    "base": Option(
        str,
        'Prior of substrings: "spelling", letter by letter, or "uniform", all those of the data '
        "alike",
    ),
    "stop": Option(float, "Chance that a substring ends after a letter, for --base spelling"),
    "template_concentration": Option(float, "Prior count of each template"),
    "repeat_concentration": Option(
        float, "Prior count of using a slot with + again, and of leaving it"
    ),
    "max_segment": Option(int, "Most letters of a segment"),
    "start_concentration": Option(float, "Of the prior on the first state"),
    "top_concentration": Option(float, "Of the root that all rows of transitions share"),
    "stickiness": Option(float, "Extra prior count of staying in a state"),
    "duration": Option(
        str, "Law of the lengths of segments: negative-binomial, poisson, geometric or free"
    ),
    "max_duration": Option(int, "The longest segment, in rows; less is faster"),
    "duration_inference": Option(
        str,
        "exact (all lengths); or for negative-binomial and geometric, in linear time, embedded "
        "(sub-states) or sampled (drawn segmentations)",
    ),
    "n_samples": Option(int, "Segmentations that sampled durations draw in each step"),
    "right_censored": Option(
        bool,
        "Whether sequences may end within a segment. Default yes.",
        ("--no-right-censored",),
    ),
    "left_censored": Option(
        bool,
        "Whether sequences may begin within a segment. Default no.",
        ("--no-left-censored",),
    ),
    "root": Option(str, 'What is known of the root: "beta", "point", or "tables"'),
    "learn_prior": Option(
        bool,
        "Whether the family's prior is learned from the data. Default no.",
        ("--no-learn-prior",),
    ),
    "init": Option(str, "Where fits begin"),
    "random_state": Option(
        int, "Seed, a whole number. Default: a new one each time, which `show` tells.", ("--seed",)
    ),
    "n_init": Option(int, "Starts to try; the best bound wins. Default 1."),
    "n_jobs": Option(int, "Threads; -1 is all. Results do not depend on it. Default 1."),
}

ENGINE = {
    "inference": Option(
        str,
        "Algorithm: batch, memoized, stochastic, collapsed, stochastic-collapsed, em, hard-em or "
        "gibbs; for sequences also subchain; for tables and sequences of symbols also "
        "collapsed-gibbs. Default memoized.",
    ),
    "moves": Option(
        bool, "Whether births, merges and deletes change the number of components", ("--no-moves",)
    ),
    "max_iter": Option(int, "Laps (passes over the data) at most. Default 200."),
    "tol": Option(float, "Nats per row; a lap that gains less ends the fit. Default 1e-5."),
    "n_batches": Option(int, "Batches of memoized inference. Default: about 20,000 rows each."),
    "batch_size": Option(
        int,
        "Rows, or sequences, of a step of stochastic inference. Default 1024 rows; 64 "
        "sequences, or fewer of 8192 rows.",
    ),
    "temperature": Option(
        str,
        "Of collapsed-gibbs: a number, or two with a comma between, for the first and the last "
        "sweep. Default 1, the posterior.",
        metavar="T[,T]",
    ),
    "slices": Option(
        bool,
        "Whether gibbs draws paths of sequences within slices of the last ones. Default no.",
        ("--no-slices",),
    ),
    "checkpoint": Option(
        Path, "File to save the state of the fit to; `stickbreak resume` continues from it."
    ),
    "checkpoint_every": Option(float, "Seconds between checkpoints. Default 60."),
}

TOPICS = {
    "n_components": Option(int, "Number of topics"),
    "concentration": Option(
        str,
        "Of the prior on a document's topics; small values give documents of few topics. lda: also "
        "one number for each topic, with commas between, or auto to learn these",
        metavar="C[,C...]",
    ),
    "top_concentration": Option(
        float, "Of the shares that all documents have in common; large values expect many topics"
    ),
    "root": Option(
        str,
        'What is known of those shares: "beta", which can choose the number of topics, or "point"',
    ),
    "word_concentration": Option(float, "Prior count of each word in a topic"),
    "restarts": Option(
        int,
        "How often a document may try to do without one of its topics at every "
        "visit; slower, and better",
    ),
    "learn_prior": replace(
        ESTIMATOR["learn_prior"],
        help="Whether --word-concentration is learned from the data. Default no.",
    ),
    **{name: ESTIMATOR[name] for name in ("init", "random_state", "n_init", "n_jobs")},
}

TOPIC_ENGINE = {
    **{name: option for name, option in ENGINE.items() if name != "slices"},
    "inference": Option(
        str,
        "Algorithm: batch, memoized, stochastic, collapsed, stochastic-collapsed, em, gibbs or "
        "collapsed-gibbs. Default memoized.",
    ),
    "moves": Option(
        bool, "Whether births, merges and deletes change the number of topics", ("--no-moves",)
    ),
    "max_iter": Option(int, "Laps (passes over the documents) at most. Default 200."),
    "tol": Option(float, "Nats per word; a lap that gains less ends the fit. Default 1e-5."),
    "n_batches": Option(
        int,
        "Batches of memoized inference. Default: documents of about 100,000 distinct words each.",
    ),
    "batch_size": Option(int, "Documents of a step of stochastic inference. Default 256."),
}

ALIGNERS = {
    "directions": Option(
        str, 'What to fit: "both" directions, which predict joins, or "forward" alone'
    ),
    "word_concentration": Option(
        float, "Prior count of each target word in the translations of a source word"
    ),
    "null": Option(str, 'Share of target words without a counterpart: a number, or "learned"'),
    "jumps": Option(
        str, 'Jumps of the position: "open", with a bound, or "renormalised" for each length'
    ),
    "jump_concentration": Option(float, "Prior count of each width of a jump"),
    "ibm1_laps": Option(int, "Laps of model 1 to begin with"),
    "fertility": Option(
        bool,
        "Whether laps follow in which source words differ in how many links they have. Default no.",
        ("--no-fertility",),
    ),
    "lowercase": Option(
        bool,
        "Whether capitals become small letters, here and in later calls. Default no.",
        ("--no-lowercase",),
    ),
    "max_length": Option(int, "Words of a sentence; pairs with more are left out"),
    **{name: ESTIMATOR[name] for name in ("random_state", "n_jobs")},
}

ALIGNER_ENGINE = {
    **{name: ENGINE[name] for name in ("checkpoint", "checkpoint_every", "temperature")},
    "inference": Option(
        str,
        "Algorithm: batch, memoized, stochastic, collapsed, stochastic-collapsed, em, hard-em or "
        "collapsed-gibbs. Default collapsed.",
    ),
    "max_iter": Option(int, "Laps (passes over the data). Default 5."),
    "tol": ENGINE["tol"],
    "n_batches": Option(int, "Batches of memoized inference. Default: about 20,000 words each."),
    "batch_size": Option(int, "Pairs of a step of stochastic inference."),
}

BITEXT = {
    "target": Option(
        Path,
        "Target sentences, one on each line, if the first file has the source sentences alone.",
        metavar="FILE",
    ),
    "encoding": Option(str, "Of the text of sentence pairs, such as latin-1. Default utf-8."),
}

SYMMETRIZE = {
    "symmetrize": Option(
        str,
        "How an aligner joins its two directions: intersection, union, grow-diag, grow-diag-final, "
        "grow-diag-final-and; or forward, reverse for one. Default grow-diag-final-and.",
        metavar="RULE",
    )
}

VOCABULARY = {
    "words": Option(
        Path,
        "The vocabulary: a file with a word on each line, in the order of their ids. For a .txt: "
        "the words to keep. Default: words "
        "are numbers; for a .txt they are its own.",
        metavar="FILE",
    )
}

DATA = {
    "columns": Option(
        str,
        "Columns to read, by name (by position from 0 in files without names), with commas "
        "between.",
        metavar="A,B,...",
    ),
    "array": Option(str, "Which array of a .npz file. Default: its only table."),
    "header": Option(
        bool,
        "Whether the first row of text holds names. Default: if it has words and no number.",
        ("--no-header",),
    ),
}

SEQUENCES = {
    "sequence_id": Option(
        str,
        "Column (numbers or words) that names the sequence of each row; its rows stand together, "
        "in order. Default: one sequence.",
        metavar="COLUMN",
    )
}

SENTENCES = {
    "column": Option(
        str,
        "What to read of a CoNLL-U file (form, upos, xpos, ...) or of brackets (word, tag). "
        "Default: tags for dmv, words for grammars.",
        metavar="COLUMN",
    )
}

WORKERS = {
    "workers": Option(
        str,
        "Run on a dask cluster: the address of its scheduler, such as tls://host:8786, or its "
        "scheduler file. DATA may then be a quoted pattern of shards that all workers see.",
        metavar="ADDRESS",
    ),
    "tls_ca_file": Option(Path, "Of --workers: the authority that signed all certificates."),
    "tls_cert": Option(Path, "Of --workers: your certificate."),
    "tls_key": Option(Path, "Of --workers: the key of your certificate."),
}

RESUME = {
    "n_jobs": ESTIMATOR["n_jobs"],
    **SEQUENCES,
    **SENTENCES,
    "array": DATA["array"],
    "header": DATA["header"],
    **BITEXT,
}

USE = {
    **RESUME,
    "words": replace(
        VOCABULARY["words"],
        help="The vocabulary of a corpus whose words are not numbered as those of the fit were.",
    ),
}

CHECKS = {
    "checks": Option(bool, "Also what looks wrong with the fit, and what to do.", default=False)
}

PAGE = {
    "title": Option(str, "Heading of the page."),
    "force": Option(bool, "Replace a file that exists.", default=False),
    "no_data": Option(bool, "No row of the data may be in the page: only sums.", default=False),
    "no_texts": Option(bool, "No words of documents may be in the page.", default=False),
}

COMPARED = {name: PAGE[name] for name in ("title", "force")}

OUTPUT = {
    "json": Option(bool, "Print one JSON object on stdout, and nothing else there.", default=False),
    "quiet": Option(bool, "Show no progress.", ("-q",), default=False),
    "verbose": Option(bool, "Log more on stderr: checkpoints, too.", ("-v",), default=False),
}


def with_options(
    function: Callable[..., Any],
    tables: Iterable[dict[str, Option]],
    words: dict[str, str] | None = None,
) -> Any:
    """The function with one keyword argument for each option, as typer reads them.

    The function takes the options as `**options`. words : additions to the help of options.
    """
    own = [
        p
        for p in inspect.signature(function, eval_str=True).parameters.values()
        if p.kind is not p.VAR_KEYWORD
    ]
    added = []
    for name, option in (item for table in tables for item in table.items()):
        text = (
            option.help
            if words is None or name not in words
            else f"{option.help}. Default {words[name]}."
        )
        flag = f"--{name.replace('_', '-')}"
        names = (
            (f"{flag}/{option.flags[0]}",)
            if option.kind is bool and option.default is None
            else (flag, *option.flags)
        )
        kind: Any = option.kind if option.default is not None else option.kind | None
        annotation: Any = Annotated[
            kind, typer.Option(*names, help=text, metavar=option.metavar, show_default=False)
        ]
        added.append(
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=option.default, annotation=annotation
            )
        )

    def command(*arguments: Any, **options: Any) -> Any:
        place = {name: options.pop(name) for name in WORKERS if name in options}
        try:
            if not place:
                return function(*arguments, **options)
            from .places import on_workers

            with on_workers(place):
                return function(*arguments, **options)
        except (KeyboardInterrupt, BrokenPipeError) as cause:
            raise Stopped(cause) from None

    command.__doc__ = function.__doc__
    command.__signature__ = inspect.Signature([*own, *added])  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in (*own, *added)}
    return command
