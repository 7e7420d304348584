"""From what users pass (arrays, frames, lists, files) to data containers and a schema of columns.

Every function takes the schema of the fit, or None to learn it, and returns (data, schema). None of
them knows an estimator.
"""

from .dask_collections import collected, collection_kind, require_whole_rows
from .document_counts import count_documents, open_documents, read_documents
from .frame_columns import check_categories, read_row, read_text
from .grouped_rows import Groups, read_groups
from .legal_components import Dictionary, Names, legal_sets, make_dictionary, words_of_topics
from .schema import Categories, Given, Rows, Schema, Values
from .sentence_pairs import SentencePairs, open_pairs, read_pairs
from .sentences import read_sentences, split_sentences
from .sequence_ids import offsets_of_runs
from .sequence_rows import Shape, Stack, lagged_names, read_sequences, stack_values
from .table_rows import check_weights, open_rows, open_words, read_table
from .unknown_words import Unknown, unknown_in_documents, unknown_in_pairs, unknown_in_sentences

__all__ = [
    "Categories", "Dictionary", "Given", "Groups", "Names", "Rows", "Schema", "SentencePairs",
    "Shape", "Stack", "Unknown", "Values", "check_categories", "check_weights", "collected",
    "collection_kind", "count_documents", "lagged_names", "legal_sets", "make_dictionary",
    "offsets_of_runs", "open_documents", "open_pairs", "open_rows", "open_words",
    "read_documents", "read_groups", "read_pairs", "read_row", "read_sentences",
    "read_sequences", "read_table", "read_text", "require_whole_rows", "split_sentences",
    "stack_values", "unknown_in_documents", "unknown_in_pairs", "unknown_in_sentences",
    "words_of_topics",
]  # fmt: skip
