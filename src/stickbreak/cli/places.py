"""`--workers`: where a command's fits and answers run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import stickbreak as sb
from stickbreak.errors import WorkersLostError
from stickbreak.extras import require_extra

__all__ = ["on_workers"]

TIMEOUT = 20  # seconds to wait for a scheduler
TLS = {"tls_ca_file": "tls_ca_file", "tls_cert": "tls_client_cert", "tls_key": "tls_client_key"}


@contextmanager
def on_workers(options: Mapping[str, Any]) -> Iterator[Any]:
    """Run what follows on the cluster that the options name; on none without --workers.

    Yields its client, or None.
    """
    where = options.get("workers")
    if where is None:
        for name in TLS:
            if options.get(name) is not None:
                raise ValueError(f"{_flag(name)} is for --workers: name its scheduler too")
        yield None
        return
    try:
        distributed = require_extra("distributed", "dask", "--workers")
    except ImportError as error:
        raise ValueError(str(error)) from None
    with _connect(distributed, where, _security(where, options)) as client, sb.workers(client):
        try:
            yield client
        except WorkersLostError as error:
            raise ValueError(str(error)) from None


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _security(where: str, options: Mapping[str, Any]) -> Any:
    """Certificates of both sides; None if no file is given, so that dask's own settings hold."""
    files = {name: options[name] for name in TLS if options.get(name) is not None}
    if not files:
        return None
    missing = [_flag(name) for name in TLS if name not in files]
    if missing:
        raise ValueError(f"TLS needs {', '.join(map(_flag, TLS))}; {missing[0]} is missing")
    for name, path in files.items():
        if not Path(path).is_file():
            raise ValueError(f"{_flag(name)}: {path} is no file")
    if "://" in where and not where.startswith("tls://"):
        raise ValueError(f"--workers {where} is not encrypted: use tls:// with {_flag('tls_cert')}")
    from distributed.security import Security

    given = {TLS[name]: str(path) for name, path in files.items()}
    return Security(**given, require_encryption=True)


def _connect(distributed: Any, where: str, security: Any) -> Any:
    """A client of the scheduler at an address, or in a scheduler file."""
    how: dict[str, Any] = {"address": where}
    if "://" not in where:
        if not Path(where).is_file():
            raise ValueError(
                f"--workers {where}: expected an address such as tls://host:8786, or the file that "
                "a scheduler wrote (--scheduler-file); there is no such file"
            )
        how = {"scheduler_file": _checked_file(where)}
    try:
        return distributed.Client(**how, security=security, timeout=TIMEOUT, set_as_default=False)
    except (OSError, ValueError, TypeError, KeyError) as error:
        what = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(f"--workers {where}: no answer from a dask scheduler ({what})") from None


def _checked_file(path: str) -> str:
    """A scheduler file, if it has an address."""
    try:
        found = json.loads(Path(path).read_text())
    except (ValueError, OSError) as error:
        raise ValueError(f"--workers {path} is no scheduler file: {error}") from None
    if not isinstance(found, dict) or not isinstance(found.get("address"), str):
        raise ValueError(f"--workers {path} is no scheduler file: it has no address")
    return path
