"""JSON as the text that crosses to the host."""

import dataclasses
import json
from typing import Any


def encode(value: Any) -> str:
    """The text of a value, of a dataclass as of an object. Numbers that JSON lacks are a ValueError."""
    return json.dumps(
        value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_fields
    )


def _fields(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON")
