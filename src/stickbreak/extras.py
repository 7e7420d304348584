"""Packages that only some features need."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["require_extra"]


def require_extra(module: str, extra: str | None, feature: str) -> Any:
    """Import a package that `feature` needs, or raise an ImportError that names what to install.

    extra : the extra of stickbreak that installs it; None if it is installed by its own name.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.split(".")[0] != module.split(".")[0]:
            raise  # the package is installed, but fails to import
        wanted = module if extra is None else f"'stickbreak[{extra}]'"
        raise ImportError(f"{feature} needs {module}: pip install {wanted}", name=module) from None
