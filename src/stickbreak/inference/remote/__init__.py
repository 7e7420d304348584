"""Jobs on the workers of others: an executor's processes, or a dask cluster."""

from .context import current_place, workers
from .pool import RemotePool

__all__ = ["RemotePool", "current_place", "workers"]
