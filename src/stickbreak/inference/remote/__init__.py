"""Jobs on the workers of others: an executor's processes, or a dask cluster."""

from .context import current_place, place_beside, placed, workers
from .dask_cluster import DaskPlace
from .partitions import Partition
from .pool import RemotePool

__all__ = [
    "DaskPlace",
    "Partition",
    "RemotePool",
    "current_place",
    "place_beside",
    "placed",
    "workers",
]
