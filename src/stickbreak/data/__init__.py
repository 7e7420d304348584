"""Containers: tables cut into batches, lanes and blocks; files opened as tables."""

from .batches import Batch, Companion, Windows, join_companions
from .brackets import ConstituentTree, iter_trees, parse_brackets, read_trees, write_trees
from .conllu import ConlluSentence, check_heads, iter_conllu, read_conllu, write_conllu
from .corpora import Corpus, read_corpus, read_words
from .documents import Documents
from .lags import lag_rows
from .readers import FileTable, open_like, open_table, read_names, read_pieces, read_runs
from .runs import Runs, find_runs, join_runs
from .scale import Scale, check_table, measure, name_columns
from .sequences import Sequences, span_rows
from .spill import Shelf, Spill, Spilled
from .spool import scratch
from .table import Table, compact, is_on_disk, is_sparse
from .words import WordsError

__all__ = [
    "Batch",
    "Companion",
    "ConlluSentence",
    "ConstituentTree",
    "Corpus",
    "Documents",
    "FileTable",
    "Runs",
    "Scale",
    "Sequences",
    "Shelf",
    "Spill",
    "Spilled",
    "Table",
    "Windows",
    "WordsError",
    "check_heads",
    "check_table",
    "compact",
    "find_runs",
    "is_on_disk",
    "is_sparse",
    "iter_conllu",
    "iter_trees",
    "join_companions",
    "join_runs",
    "lag_rows",
    "measure",
    "name_columns",
    "open_like",
    "open_table",
    "parse_brackets",
    "read_conllu",
    "read_corpus",
    "read_names",
    "read_pieces",
    "read_runs",
    "read_trees",
    "read_words",
    "scratch",
    "span_rows",
    "write_conllu",
    "write_trees",
]  # fmt: skip
