"""Table of the models that `fit` knows; a new model is one more entry."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["MODELS", "ModelEntry", "reads_documents", "reads_pairs"]


@dataclass(frozen=True)
class ModelEntry:
    """A model that `fit` knows.

    estimator : its public name. options : names in ESTIMATOR, TOPICS or ALIGNERS. defaults :
    texts for options whose default differs.
    reads : "rows", "sequences" (ordered rows, of one or several sequences), "documents" or "pairs"
    (of sentences)
    """

    name: str
    estimator: str
    help: str
    example: tuple[str, ...]
    options: tuple[str, ...]
    defaults: dict[str, str] = field(default_factory=dict)
    reads: str = "rows"


INITS = (
    '"k-means++"; others are "k-means||" (all rows, in a few passes), "random", "local" (random '
    'shares) and "collapsed" (sweeps from these)'
)
CHAIN_INITS = (
    '"auto": "collapsed" (sweeps that draw states) for symbols; else "blocks" (of rows in '
    'succession, far apart), or for hmm the better of both; others are "random-blocks", '
    '"k-means++" (rows far apart), "random" and "local" (random chains)'
)
CHAIN_OPTIONS = (
    "n_components", "family", "concentration", "start_concentration", "stickiness", "learn_prior",
    "init", "random_state", "n_init",
    "n_jobs",
)  # fmt: skip
MIXTURE_OPTIONS = (
    "n_components",
    "family",
    "concentration",
    "learn_prior",
    "init",
    "random_state",
    "n_init",
    "n_jobs",
)

TOPIC_INITS = (
    '"collapsed" (60 collapsed sweeps from random shares of every word); others are "documents" '
    '(clusters of documents by their words), "random" (documents far apart) and "local" (random '
    "shares)"
)
TOPIC_OPTIONS = (
    "n_components", "concentration", "word_concentration", "learn_prior", "restarts", "init",
    "random_state", "n_init", "n_jobs",
)  # fmt: skip

ALIGNER_OPTIONS = (
    "directions", "word_concentration", "null", "lowercase", "max_length", "random_state", "n_jobs",
)  # fmt: skip
ALIGNER_DEFAULTS = {
    "directions": "both",
    "word_concentration": "0.01",
    "null": "0.2",
    "max_length": "500",
}

MODELS = (
    ModelEntry(
        "mixture",
        "Mixture",
        "Fit a Bayesian mixture with a fixed number of components.",
        (
            "stickbreak example clusters.csv",
            "stickbreak fit mixture clusters.csv --n-components 3 --family gaussian --seed 0 --out "
            "clusters.stickbreak",
        ),
        MIXTURE_OPTIONS,
        {"n_components": "8", "moves": "no", "concentration": "1", "init": INITS},
    ),
    ModelEntry(
        "dp-mixture",
        "DPMixture",
        "Fit a Dirichlet process mixture: finds the number of components.",
        (
            "stickbreak example clusters.csv",
            "stickbreak fit dp-mixture clusters.csv --seed 0 --out clusters.stickbreak",
        ),
        MIXTURE_OPTIONS,
        {"n_components": "1, to begin with", "moves": "yes", "concentration": "1", "init": INITS},
    ),
    ModelEntry(
        "hmm",
        "HMM",
        "Fit a hidden Markov model with a fixed number of states to sequences of rows.",
        (
            "stickbreak example --sequences walks.csv",
            "stickbreak fit hmm walks.csv --sequence-id sequence --n-components 3 --seed 0 --out "
            "walks.stickbreak",
        ),
        CHAIN_OPTIONS,
        {
            "n_components": "8",
            "moves": "no",
            "concentration": "0.5, of each entry",
            "start_concentration": "0.5, of each entry",
            "stickiness": "0",
            "init": CHAIN_INITS,
        },
        reads="sequences",
    ),
    ModelEntry(
        "hdp-hmm",
        "HDPHMM",
        "Fit a sticky HDP hidden Markov model to sequences of rows: uses as many states as the "
        "data support.",
        (
            "stickbreak example --sequences walks.csv",
            "stickbreak fit hdp-hmm walks.csv --sequence-id sequence --stickiness 10 --seed 0 "
            "--out walks.stickbreak",
        ),
        (*CHAIN_OPTIONS, "top_concentration", "root"),
        {
            "n_components": "25, to begin with",
            "moves": "yes, unless --root point or tables",
            "concentration": "0.5",
            "start_concentration": "10",
            "top_concentration": "10",
            "stickiness": "0",
            "root": "beta",
            "init": CHAIN_INITS,
        },
        reads="sequences",
    ),
    ModelEntry(
        "lda",
        "LatentDirichletAllocation",
        "Fit latent Dirichlet allocation, a fixed number of topics, to documents.",
        (
            "stickbreak example --documents docs.ldac",
            "stickbreak fit lda docs.ldac --n-components 10 --words docs.vocab.txt --seed 0 --out "
            "docs.stickbreak",
        ),
        TOPIC_OPTIONS,
        {
            "n_components": "10",
            "moves": "no",
            "concentration": "0.1, of each topic",
            "word_concentration": "0.1",
            "restarts": "0",
            "init": TOPIC_INITS,
        },
        reads="documents",
    ),
    ModelEntry(
        "hdp-topics",
        "HDPTopicModel",
        "Fit a hierarchical Dirichlet process topic model to documents: finds the number of "
        "topics.",
        (
            "stickbreak example --documents docs.ldac",
            "stickbreak fit hdp-topics docs.ldac --words docs.vocab.txt --word-concentration 0.5 "
            "--seed 0 --out docs.stickbreak",
        ),
        (*TOPIC_OPTIONS, "top_concentration", "root"),
        {
            "n_components": "1, to begin with",
            "moves": "yes, unless --root point",
            "concentration": "0.5",
            "top_concentration": "10",
            "word_concentration": "0.1",
            "restarts": "0",
            "root": "beta",
            "init": TOPIC_INITS,
        },
        reads="documents",
    ),
    ModelEntry(
        "ibm1",
        "IBM1",
        "Fit IBM model 1, which links the words of sentence pairs, to a bitext.",
        (
            "stickbreak example --bitext pairs.txt",
            "stickbreak fit ibm1 pairs.txt --out pairs.stickbreak",
        ),
        ALIGNER_OPTIONS,
        ALIGNER_DEFAULTS,
        reads="pairs",
    ),
    ModelEntry(
        "hmm-aligner",
        "HMMAligner",
        "Fit the HMM word aligner to a bitext; it begins with laps of IBM model 1.",
        (
            "stickbreak example --bitext pairs.txt",
            "stickbreak fit hmm-aligner pairs.txt --links links.txt --out pairs.stickbreak",
        ),
        (*ALIGNER_OPTIONS, "jumps", "jump_concentration", "ibm1_laps", "fertility"),
        {
            **ALIGNER_DEFAULTS,
            "jumps": "open",
            "jump_concentration": "1",
            "ibm1_laps": "5",
        },
        reads="pairs",
    ),
)


def reads_documents(estimator: str | None) -> bool:
    """Whether an estimator, given by its public name, is a model of documents."""
    return _reads(estimator) == "documents"


def reads_pairs(estimator: str | None) -> bool:
    """Whether an estimator, given by its public name, is a model of sentence pairs."""
    return _reads(estimator) == "pairs"


def _reads(estimator: str | None) -> str | None:
    return next((entry.reads for entry in MODELS if entry.estimator == estimator), None)
