"""Containers: tables cut into batches, lanes and blocks; files opened as tables."""

from .batches import Batch, Companion, Windows, join_companions, span_offsets
from .bitext import Bitext, Side, number_pairs, read_bitext
from .brackets import ConstituentTree, iter_trees, parse_brackets, read_trees, write_trees
from .conllu import ConlluSentence, check_heads, iter_conllu, read_conllu, write_conllu
from .corpora import Corpus, read_corpus, read_words
from .document_shards import DocumentShards
from .documents import Documents
from .lags import lag_rows
from .links import Gold, Links, as_links, read_gold, read_links, symmetrize
from .picked_rows import is_by_reference, load_rows
from .readers import FileTable, open_like, open_table, read_names, read_pieces, read_runs
from .runs import Runs, find_runs, join_runs
from .scale import Scale, check_table, measure, name_columns
from .sequences import Sequences, span_rows
from .shard_rows import ShardRows
from .shards import ShardTable, open_shards
from .spill import Shelf, Spill, Spilled
from .spool import GrowingColumn, scratch
from .table import Steps, Table, compact, is_on_disk, is_sparse
from .templates import Substrings, Template, no_substrings, parse_templates, substrings_of
from .treebank import (
    BAR,
    HISTORIES,
    Binarized,
    Listing,
    as_trees,
    binarize,
    covered_trees,
    find_words,
    list_rules,
    make_tree,
    number_trees,
)
from .words import WordsError

__all__ = [
    "BAR",
    "HISTORIES",
    "Batch",
    "Binarized",
    "Bitext",
    "Companion",
    "ConlluSentence",
    "ConstituentTree",
    "Corpus",
    "DocumentShards",
    "Documents",
    "FileTable",
    "Gold",
    "GrowingColumn",
    "Links",
    "Listing",
    "Runs",
    "Scale",
    "Sequences",
    "ShardRows",
    "ShardTable",
    "Shelf",
    "Side",
    "Spill",
    "Spilled",
    "Steps",
    "Substrings",
    "Table",
    "Template",
    "Windows",
    "WordsError",
    "as_links",
    "as_trees",
    "binarize",
    "check_heads",
    "check_table",
    "compact",
    "covered_trees",
    "find_runs",
    "find_words",
    "is_by_reference",
    "is_on_disk",
    "is_sparse",
    "iter_conllu",
    "iter_trees",
    "join_companions",
    "join_runs",
    "lag_rows",
    "list_rules",
    "load_rows",
    "make_tree",
    "measure",
    "name_columns",
    "no_substrings",
    "number_pairs",
    "number_trees",
    "open_like",
    "open_shards",
    "open_table",
    "parse_brackets",
    "parse_templates",
    "read_bitext",
    "read_conllu",
    "read_corpus",
    "read_gold",
    "read_links",
    "read_names",
    "read_pieces",
    "read_runs",
    "read_trees",
    "read_words",
    "scratch",
    "span_offsets",
    "span_rows",
    "substrings_of",
    "symmetrize",
    "write_conllu",
    "write_trees",
]  # fmt: skip
