"""Table of the models that `fit` knows; a new model is one more entry."""

from __future__ import annotations

from dataclasses import dataclass, field

from .model_options import (
    ALIGNER_DEFAULTS,
    ALIGNER_OPTIONS,
    ANNOTATION_OPTIONS,
    CHAIN_INITS,
    CHAIN_OPTIONS,
    GRAMMAR_OPTIONS,
    GROUP_OPTIONS,
    INITS,
    MIXTURE_OPTIONS,
    SEGMENT_DEFAULTS,
    SEGMENT_OPTIONS,
    STRING_OPTIONS,
    TOPIC_INITS,
    TOPIC_OPTIONS,
    TREE_INITS,
    TREE_OPTIONS,
)

__all__ = ["MODELS", "ModelEntry", "reads", "reads_documents", "reads_pairs", "reads_sentences"]


@dataclass(frozen=True)
class ModelEntry:
    """A model that `fit` knows.

    estimator : its public name. options : names in ESTIMATOR, TOPICS or ALIGNERS. defaults :
    texts for options whose default differs.
    reads : "rows", "sequences" (rows of one or several sequences or groups), "documents", "pairs"
        (of sentences) or "sentences"
    engine : the algorithm, if none is named
    """

    name: str
    estimator: str
    help: str
    example: tuple[str, ...]
    options: tuple[str, ...]
    defaults: dict[str, str] = field(default_factory=dict)
    reads: str = "rows"
    engine: str = "memoized"


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
        {
            "n_components": "1, to begin with",
            "moves": "yes",
            "concentration": "1",
            "init": '"auto": the better of two starts, settled, if --n-components is 1; else '
            f"{INITS}",
        },
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
        "hdp-mixture",
        "HDPMixture",
        "Fit a hierarchical Dirichlet process mixture to rows in groups: finds the number of "
        "components, which all groups share.",
        (
            "stickbreak example --sequences walks.csv",
            "stickbreak fit hdp-mixture walks.csv --sequence-id sequence --seed 0 --out "
            "groups.stickbreak",
        ),
        GROUP_OPTIONS,
        {
            "n_components": "1, to begin with",
            "moves": "yes, unless --root point",
            "concentration": "1",
            "top_concentration": "10",
            "root": "beta",
            "init": '"auto" (a settled mixture of all rows); others are "k-means++" and "random"',
        },
        reads="sequences",
    ),
    ModelEntry(
        "hsmm",
        "HSMM",
        "Fit a hidden semi-Markov model, whose states have laws of duration, to sequences of rows.",
        (
            "stickbreak example --sequences walks.csv",
            "stickbreak fit hsmm walks.csv --sequence-id sequence --n-components 3 --seed 0 --out "
            "walks.stickbreak",
            "stickbreak predict walks.stickbreak walks.csv --sequence-id sequence --segments",
        ),
        SEGMENT_OPTIONS,
        {
            **SEGMENT_DEFAULTS,
            "n_components": "8",
            "moves": "no",
            "concentration": "0.5, of each entry",
            "start_concentration": "0.5, of each entry",
        },
        reads="sequences",
    ),
    ModelEntry(
        "hdp-hsmm",
        "HDPHSMM",
        "Fit an HDP semi-Markov model to sequences of rows: uses as many states as the data "
        "support, each with a law of duration.",
        (
            "stickbreak example --sequences walks.csv",
            "stickbreak fit hdp-hsmm walks.csv --sequence-id sequence --n-components 6 "
            "--max-duration 100 --seed 0 --out walks.stickbreak",
        ),
        (*SEGMENT_OPTIONS, "top_concentration", "root"),
        {
            **SEGMENT_DEFAULTS,
            "n_components": "25, to begin with",
            "moves": "yes, unless --root point or --duration-inference sampled",
            "concentration": "0.5",
            "start_concentration": "10",
            "top_concentration": "10",
            "root": "beta",
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
            "null": "0.2",
            "jumps": "open",
            "jump_concentration": "1",
            "ibm1_laps": "as many as of jumps, or 5 with --max-iter",
        },
        reads="pairs",
    ),
    ModelEntry(
        "dmv",
        "DMV",
        "Fit the dependency model with valence to sentences of tags: finds the heads of words.",
        (
            "stickbreak example --sentences tags.txt",
            "stickbreak fit dmv tags.txt --seed 0 --out heads.stickbreak",
            "stickbreak predict heads.stickbreak tags.txt --out heads.conllu",
        ),
        ("concentration", "stop_concentration", *TREE_OPTIONS),
        {
            "concentration": "0.1, of each tag",
            "stop_concentration": "0.1",
            "max_length": "60",
            "moves": "no",
            "init": '"auto": "harmonic" (near words are heads) for collapsed inference, '
            '"collapsed" (sweeps from there) for all others',
        },
        reads="sentences",
        engine="collapsed",
    ),
    ModelEntry(
        "pcfg",
        "PCFG",
        "Fit a context-free grammar with a fixed number of categories to sentences.",
        (
            "stickbreak example --sentences tags.txt",
            "stickbreak fit pcfg tags.txt --n-components 4 --seed 0 --out trees.stickbreak",
            "stickbreak predict trees.stickbreak tags.txt --out trees.mrg",
        ),
        GRAMMAR_OPTIONS,
        {
            "n_components": "8",
            "concentration": "0.1, of each pair of children",
            "kind_concentration": "1",
            "root_concentration": "1, of each category",
            "max_length": "60",
            "moves": "no",
            "init": TREE_INITS,
        },
        reads="sentences",
        engine="collapsed",
    ),
    ModelEntry(
        "hdp-pcfg",
        "HDPPCFG",
        "Fit a grammar with a hierarchical Dirichlet process to sentences: finds the number of "
        "categories.",
        (
            "stickbreak example --sentences tags.txt",
            "stickbreak fit hdp-pcfg tags.txt --n-components 4 --seed 0 --max-iter 20 --out "
            "trees.stickbreak",
        ),
        (*GRAMMAR_OPTIONS, "top_concentration", "root"),
        {
            "n_components": "12, to begin with",
            "concentration": "1",
            "kind_concentration": "1",
            "root_concentration": "1",
            "top_concentration": "1",
            "root": "beta",
            "max_length": "60",
            "moves": "yes, unless --root point or tables",
            "init": TREE_INITS,
        },
        reads="sentences",
    ),
    ModelEntry(
        "latent-pcfg",
        "LatentPCFG",
        "Fit a grammar with hidden subtypes of its symbols to a file of trees, to parse sentences.",
        (
            "stickbreak example --trees bank.mrg",
            "stickbreak fit latent-pcfg bank.mrg --n-subtypes 2 --seed 0 --out bank.stickbreak",
            "stickbreak predict bank.stickbreak bank.mrg --out parsed.mrg",
        ),
        ANNOTATION_OPTIONS,
        {
            "n_subtypes": "4",
            "horizontal": "1",
            "concentration": "0.01",
            "word_concentration": "0.01",
            "root_concentration": "0.1",
            "rare": "1",
            "prune": "0.00001",
            "max_length": "120",
            "moves": "no",
            "init": '"treebank" (its counts, with 1 % noise) or "collapsed" (sweeps from there)',
        },
        reads="sentences",
        engine="collapsed",
    ),
    ModelEntry(
        "template-grammar",
        "TemplateGrammar",
        "Fit templates of slots to strings without spaces: finds words or morphemes. Spaces in the "
        "file are left out.",
        (
            "stickbreak example --strings strings.txt",
            "stickbreak fit template-grammar strings.txt --seed 0 --out words.stickbreak",
            "stickbreak predict words.stickbreak strings.txt --out words.txt",
        ),
        STRING_OPTIONS,
        {
            "templates": "Word+",
            "base": "spelling",
            "stop": "0.5",
            "concentration": "20, of all substrings together; with --base uniform, of each",
            "template_concentration": "1",
            "repeat_concentration": "1",
            "max_segment": "10",
            "moves": "no",
            "init": '"auto": "cooled" (20 sweeps of collapsed-gibbs, whose temperature falls from '
            '5 to 1); for collapsed-gibbs itself "local" (random weights for every string)',
        },
        reads="sentences",
        engine="collapsed",
    ),
)


def reads(estimator: str | None) -> str | None:
    """What an estimator, given by its public name, is fitted to; see `ModelEntry`."""
    return next((entry.reads for entry in MODELS if entry.estimator == estimator), None)


def reads_documents(estimator: str | None) -> bool:
    """Whether an estimator, given by its public name, is a model of documents."""
    return reads(estimator) == "documents"


def reads_pairs(estimator: str | None) -> bool:
    """Whether an estimator, given by its public name, is a model of sentence pairs."""
    return reads(estimator) == "pairs"


def reads_sentences(estimator: str | None) -> bool:
    """Whether an estimator, given by its public name, is a model of sentences."""
    return reads(estimator) == "sentences"
