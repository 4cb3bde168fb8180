"""Whether a value fits a JSON Schema, as far as the keywords below go: `type`, `enum`, `const`, `properties`,
`required`, `additionalProperties`, `items` and bounds of length, number and size. Others say nothing here; a
skill that needs them checks by itself.
"""

import math
from typing import Any

from .encoding import encode

_TYPES = {
    type(None): "null",
    bool: "boolean",
    int: "number",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}


def misfit(schema: dict, value: Any, place: str = "$") -> str | None:
    """The first thing about the value that does not fit, with its place; None when all of it does."""
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(_is_of_type(value, kind) for kind in kinds):
        return f"at {place}: expected {' or '.join(kinds)}, found {_TYPES[type(value)]}"
    allowed = [schema["const"]] if "const" in schema else schema.get("enum")
    if allowed is not None and not any(_same(one, value) for one in allowed):
        return f"at {place}: expected one of {encode(allowed)}"
    match value:
        case str():
            return _outside(schema, "Length", len(value), " characters", place)
        case bool():
            return None
        case int() | float():
            return _outside(schema, "imum", value, "", place)
        case list():
            return _misfit_of_items(schema, value, place)
        case dict():
            return _misfit_of_properties(schema, value, place)
    return None


def _misfit_of_items(schema: dict, items: list, place: str) -> str | None:
    count = _outside(schema, "Items", len(items), " items", place)
    if count or "items" not in schema:
        return count
    found = (misfit(schema["items"], item, f"{place}[{at}]") for at, item in enumerate(items))
    return next(filter(None, found), None)


def _misfit_of_properties(schema: dict, value: dict, place: str) -> str | None:
    for name in schema.get("required", []):
        if name not in value:
            return f"at {place}: {encode(name)} is missing"
    properties = schema.get("properties", {})
    for name, member in value.items():
        own = properties.get(name, schema.get("additionalProperties", True))
        if own is False:
            return f"at {place}: {encode(name)} is not known"
        found = misfit(own, member, f"{place}.{name}") if isinstance(own, dict) else None
        if found:
            return found
    return None


def _outside(schema: dict, of: str, found: float, unit: str, place: str) -> str | None:
    least = schema.get(f"min{of}", -math.inf)
    most = schema.get(f"max{of}", math.inf)
    if least <= found <= most:
        return None
    bound = f"at least {least}" if found < least else f"at most {most}"
    return f"at {place}: expected {bound}{unit}, found {found}"


def _is_of_type(value: Any, kind: str) -> bool:
    if kind == "integer":
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return is_number and value == value // 1
    return _TYPES[type(value)] == kind


def _same(one: Any, other: Any) -> bool:
    # To Python, True is 1.
    return _TYPES[type(one)] == _TYPES[type(other)] and one == other
