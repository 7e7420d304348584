"""Model files and checkpoint settings: estimators as plain values and back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from stickbreak import families, inference, moves
from stickbreak.errors import ModelFileError, in_one_line
from stickbreak.parameters import Parameters
from stickbreak.persist import read_file, write_file
from stickbreak.priors import GammaPrior
from stickbreak.stats import Array

__all__ = [
    "PARTS",
    "decode",
    "encode",
    "load",
    "read_estimator",
    "register",
    "register_part",
    "save",
]

PARTS: dict[str, type[Any]] = {
    cls.__name__: cls
    for cls in (
        *(getattr(families, name) for name in families.__all__),
        *inference.ENGINES.values(),
        moves.Birth,
        moves.Delete,
        moves.Merge,
        GammaPrior,
    )
}
ESTIMATORS: dict[str, type[Any]] = {}
DAMAGE = (
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    ArithmeticError,
    AssertionError,
    RecursionError,
    MemoryError,
)
LEFT_OUT = {"callbacks"}  # objects of the running program


def register(cls: type[Any]) -> type[Any]:
    """Make an estimator known to `load` by its class name."""
    ESTIMATORS[cls.__name__] = cls
    return cls


def register_part(cls: type[Any]) -> type[Any]:
    """Make a family or engine of your own known to files by its class name; usable as a
    decorator.
    """
    PARTS[cls.__name__] = cls
    return cls


def encode(value: Any, name: str, arrays: dict[str, Array]) -> Any:
    """A constructor argument as JSON; arrays go to `arrays` under `name`."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, np.ndarray) and value.dtype.kind in "OU":
        return encode(value.tolist(), name, arrays)
    if isinstance(value, np.ndarray):
        arrays[name] = value
        return {"array": name}
    if isinstance(value, Mapping):
        return {
            "mapping": [
                [encode(k, name, arrays), encode(v, f"{name}.{k}", arrays)]
                for k, v in value.items()
            ]
        }
    if isinstance(value, list | tuple | range):
        return [encode(v, f"{name}.{i}", arrays) for i, v in enumerate(value)]
    if isinstance(value, Parameters):
        if PARTS.get(type(value).__name__) is not type(value):
            raise ValueError(
                f"{type(value).__name__} is not known to files; make it so with "
                "estimators.register_part"
            )
        kept = {k: v for k, v in value.get_params(deep=False).items() if k not in LEFT_OUT}
        return {
            "class": type(value).__name__,
            "params": {k: encode(v, f"{name}.{k}", arrays) for k, v in kept.items()},
        }
    if isinstance(value, np.random.RandomState | np.random.Generator):
        return None  # a loaded model draws afresh
    if hasattr(value, "__array__"):
        array = np.asarray(value)
        return encode(array if array.dtype.kind in "OU" else array.astype(float), name, arrays)
    raise ValueError(f"{name.rpartition('.')[2]}={value!r} cannot be written to a file")


def decode(value: Any, arrays: Mapping[str, Array]) -> Any:
    """The inverse of `encode`; only registered classes are made, from checked names."""
    if isinstance(value, list):
        return tuple(decode(v, arrays) for v in value)
    if not isinstance(value, dict):
        return value
    if set(value) == {"array"}:
        return arrays[value["array"]]
    if set(value) == {"mapping"}:
        return {decode(k, arrays): decode(v, arrays) for k, v in value["mapping"]}
    if value.get("class") not in PARTS:
        raise ModelFileError(
            f"the file names an unknown part {value.get('class')!r}; it may come "
            "from a later release"
        )
    return PARTS[value["class"]](**{str(k): decode(v, arrays) for k, v in value["params"].items()})


def save(estimator: Any, path: str | Path) -> None:
    """Write a fitted estimator."""
    if ESTIMATORS.get(type(estimator).__name__) is not type(estimator):
        raise ValueError(
            f"{type(estimator).__name__} is not known to files; only registered "
            "estimators can be saved"
        )
    arrays: dict[str, Array] = {}
    header = {
        "estimator": type(estimator).__name__,
        "params": {
            k: encode(v, f"init.{k}", arrays) for k, v in estimator.get_params(deep=False).items()
        },
        "fitted": estimator._pack(arrays),
    }
    write_file(path, "model", header, arrays)


def read_estimator(header: dict[str, Any], arrays: Mapping[str, Array]) -> Any:
    """An unfitted estimator from a header."""
    name = header["estimator"]
    if name not in ESTIMATORS:
        raise ModelFileError(
            f"the file holds an unknown estimator {name!r}; it may come from a later release"
        )
    return ESTIMATORS[name](**{str(k): decode(v, arrays) for k, v in header["params"].items()})


def load(path: str | Path) -> Any:
    """Read a fitted estimator that `save` wrote. A damaged, foreign or later file gives a
    ModelFileError.

    Parameters
    ----------
    path : file name.

    Returns
    -------
    The estimator, fitted: `Mixture` or `DPMixture`.
    """
    header, arrays = read_file(path, "model")
    try:
        estimator = read_estimator(header, arrays)
        estimator._check_arguments()
        estimator._unpack(header["fitted"], arrays)
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {in_one_line(error)}") from None
    except DAMAGE as error:
        raise ModelFileError(
            f"{path} is damaged: {type(error).__name__}: {in_one_line(error)}"
        ) from None
    return estimator
