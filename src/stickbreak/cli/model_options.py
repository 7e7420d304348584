"""Which options the models of `fit` take, and what these are by default."""

from __future__ import annotations

__all__ = [
    "ALIGNER_DEFAULTS",
    "ALIGNER_OPTIONS",
    "ANNOTATION_OPTIONS",
    "CHAIN_INITS",
    "CHAIN_OPTIONS",
    "GRAMMAR_OPTIONS",
    "GROUP_OPTIONS",
    "INITS",
    "MIXTURE_OPTIONS",
    "SEGMENT_DEFAULTS",
    "SEGMENT_OPTIONS",
    "STRING_OPTIONS",
    "TOPIC_INITS",
    "TOPIC_OPTIONS",
    "TREE_INITS",
    "TREE_OPTIONS",
]

INITS = (
    '"auto", the better of "k-means++" and "collapsed" (sweeps from random shares); others are '
    '"k-means||" (all rows, in a few passes), "random" and "local" (random shares)'
)
CHAIN_INITS = (
    '"auto": the best of "collapsed" (sweeps that draw states), soft sweeps and "blocks" (of rows '
    'in succession, far apart), or "blocks" alone; others are "random-blocks", '
    '"k-means++" (rows far apart), "random" and "local" (random chains)'
)
CHAIN_OPTIONS = (
    "n_components", "family", "concentration", "start_concentration", "stickiness", "learn_prior",
    "init", "random_state", "n_init",
    "n_jobs",
)  # fmt: skip
SEGMENT_OPTIONS = (
    "n_components", "family", "duration", "max_duration", "duration_inference", "n_samples",
    "right_censored", "left_censored", "concentration", "start_concentration", "learn_prior",
    "init", "random_state", "n_init", "n_jobs",
)  # fmt: skip
SEGMENT_DEFAULTS = {
    "duration": "negative-binomial",
    "max_duration": "no limit",
    "duration_inference": "exact",
    "n_samples": "10",
    "init": CHAIN_INITS,
}
GROUP_OPTIONS = (
    "n_components", "family", "concentration", "top_concentration", "root", "learn_prior", "init",
    "random_state", "n_init", "n_jobs",
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
    '"collapsed" (120 collapsed sweeps from random shares of every word); others are "documents" '
    '(clusters of documents by their words), "random" (documents far apart), "local" (random '
    'shares) and "anchors" (words that stand for a topic each)'
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
    "word_concentration": "0.003",
    "null": "0.05",
    "max_length": "500",
}

TREE_OPTIONS = ("max_length", "init", "random_state", "n_init", "n_jobs")
GRAMMAR_OPTIONS = (
    "n_components", "concentration", "kind_concentration", "root_concentration", "learn_prior",
    *TREE_OPTIONS,
)  # fmt: skip
ANNOTATION_OPTIONS = (
    "n_subtypes", "horizontal", "concentration", "word_concentration", "root_concentration",
    "rare", "prune",
    *TREE_OPTIONS,
)  # fmt: skip
TREE_INITS = (
    '"auto": "local" (random weights for every sentence) for collapsed inference, "collapsed" '
    '(sweeps from there) for all others; or "right-branching" (sweeps of trees that are)'
)

STRING_OPTIONS = (
    "templates", "base", "stop", "concentration", "template_concentration",
    "repeat_concentration", "max_segment", "init", "random_state", "n_init", "n_jobs",
)  # fmt: skip
