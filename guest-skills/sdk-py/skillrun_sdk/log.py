"""Log lines. Each is a `log` event in the run's ledger, and none ever fails."""

from typing import Any

from wit_world.imports import log as host
from wit_world.imports.log import Level

from .encoding import encode


def write(level: Level, message: str, **fields: Any) -> None:
    """Writes one line with names and values beside it. What is no text is written as JSON."""
    pairs = [
        (name, value if isinstance(value, str) else encode(value)) for name, value in fields.items()
    ]
    host.write(level, message, pairs)


def trace(message: str, **fields: Any) -> None:
    """Writes one line at the level `trace`."""
    write(Level.TRACE, message, **fields)


def debug(message: str, **fields: Any) -> None:
    """Writes one line at the level `debug`."""
    write(Level.DEBUG, message, **fields)


def info(message: str, **fields: Any) -> None:
    """Writes one line at the level `info`."""
    write(Level.INFO, message, **fields)


def warn(message: str, **fields: Any) -> None:
    """Writes one line at the level `warn`."""
    write(Level.WARN, message, **fields)


def error(message: str, **fields: Any) -> None:
    """Writes one line at the level `error`."""
    write(Level.ERROR, message, **fields)
