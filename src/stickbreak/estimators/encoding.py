"""Constructor arguments as plain values for files, and back; only registered classes are made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from stickbreak import families, inference, moves
from stickbreak.errors import ModelFileError
from stickbreak.families.listed import ListedWords
from stickbreak.families.shared_symbols import SharedCategorical
from stickbreak.families.tags import Letters, Tags
from stickbreak.inference import Engine
from stickbreak.parameters import Parameters
from stickbreak.priors import GammaPrior, TableRoot
from stickbreak.priors.durations import DURATIONS
from stickbreak.stats import Array

__all__ = ["PARTS", "decode", "encode", "register_part"]

PARTS: dict[str, type[Any]] = {
    cls.__name__: cls
    for cls in (
        *(getattr(families, name) for name in families.__all__),
        *inference.ENGINES.values(),
        moves.Birth,
        moves.Delete,
        moves.Loosen,
        moves.Merge,
        GammaPrior,
        *DURATIONS.values(),
        Letters,
        ListedWords,
        SharedCategorical,
        TableRoot,
        Tags,
    )
}
# Of an engine: objects of the running program, and where it writes, which no file may choose.
LEFT_OUT = {"callbacks", "checkpoint"}


def register_part(cls: type[Any]) -> type[Any]:
    """Make your own family or engine known to files by its class name; usable as a decorator."""
    PARTS[cls.__name__] = cls
    return cls


def encode(value: Any, name: str, arrays: dict[str, Array]) -> Any:
    """A constructor argument as JSON; arrays go to `arrays` under `name`."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
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
    if isinstance(value, set | frozenset):
        return encode(sorted(value), name, arrays)
    if isinstance(value, list | tuple | range):
        return [encode(v, f"{name}.{i}", arrays) for i, v in enumerate(value)]
    if isinstance(value, Parameters):
        if PARTS.get(type(value).__name__) is not type(value):
            raise ValueError(
                f"{type(value).__name__} is not known to files; make it so with "
                "estimators.register_part"
            )
        kept = _without_left_out(type(value), value.get_params(deep=False))
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
    """The inverse of `encode`. Makes only registered classes, from checked names."""
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
    made = PARTS[value["class"]]
    params = _without_left_out(made, value["params"])
    return made(**{str(k): decode(v, arrays) for k, v in params.items()})


def _without_left_out(cls: type[Any], params: Mapping[str, Any]) -> Mapping[str, Any]:
    if not issubclass(cls, Engine):
        return params
    return {name: value for name, value in params.items() if name not in LEFT_OUT}
