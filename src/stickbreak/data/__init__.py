"""Containers: tables cut into batches, lanes and blocks."""

from .batches import Batch
from .table import Scale, Table, check_table, compact, is_on_disk, is_sparse, measure, name_columns

__all__ = ["Batch", "Scale", "Table", "check_table", "compact", "is_on_disk", "is_sparse", "measure", "name_columns"]
