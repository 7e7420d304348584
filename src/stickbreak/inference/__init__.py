"""Rules, accumulators and the engine. Names no model."""

from .accumulate import Accumulator, Memoized, Stochastic, Streaming, Subchains
from .averaged import AveragedDraws
from .checkpoints import Checkpointer, Snapshot, read_checkpoint, require_place, require_same_fit
from .collapsed import ExcludeOwn, IncludeOwn, count_own
from .collapsed_gibbs import DrawOwn
from .engine import Callback, Data, Engine
from .engines import (
    EM,
    ENGINES,
    BatchVB,
    CollapsedGibbs,
    CollapsedVB,
    Gibbs,
    HardEM,
    MemoizedVB,
    StochasticCollapsedVB,
    StochasticVB,
    SubchainVB,
)
from .executors import count_workers, workers
from .loop import Result, run, step
from .memory import Memory, RamMemory, SpillingMemory, Visit
from .mover import Mover
from .proposals import BaseMove, Outcome, Proposal
from .records import MoveRecord
from .rules import BaseRule, Draw, Hard, LogMean, MeanLog, Mode, WindowMeanLog
from .scene import Sample, Scene
from .schedules import PowerDecay
from .state import Info, Start, State
from .stopping import AllLaps, BoundStopping, MonitorStopping, Stopping
from .trace import LapRecord, Trace

__all__ = [
    "EM",
    "ENGINES",
    "Accumulator",
    "AllLaps",
    "AveragedDraws",
    "BaseMove",
    "BaseRule",
    "BatchVB",
    "BoundStopping",
    "Callback",
    "Checkpointer",
    "CollapsedGibbs",
    "CollapsedVB",
    "Data",
    "Draw",
    "DrawOwn",
    "Engine",
    "ExcludeOwn",
    "Gibbs",
    "Hard",
    "HardEM",
    "IncludeOwn",
    "Info",
    "LapRecord",
    "LogMean",
    "MeanLog",
    "Memoized",
    "MemoizedVB",
    "Memory",
    "Mode",
    "MonitorStopping",
    "MoveRecord",
    "Mover",
    "Outcome",
    "PowerDecay",
    "Proposal",
    "RamMemory",
    "Result",
    "Sample",
    "Scene",
    "Snapshot",
    "SpillingMemory",
    "Start",
    "State",
    "Stochastic",
    "StochasticCollapsedVB",
    "StochasticVB",
    "Stopping",
    "Streaming",
    "SubchainVB",
    "Subchains",
    "Trace",
    "Visit",
    "WindowMeanLog",
    "count_own",
    "count_workers",
    "read_checkpoint",
    "require_place",
    "require_same_fit",
    "run",
    "step",
    "workers",
]
