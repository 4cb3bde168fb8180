"""Other skills, as runs of their own below this one. They need `skill:` capabilities."""

import json
from typing import Any

from wit_world.imports import handoff as host

from .encoding import encode
from .errors import HostCallError, ask
from .results import outcomes


def invoke(skill: str, input: Any = None) -> Any:
    """Runs another skill on an object and waits for its result."""
    return json.loads(ask(host.invoke, skill, _object(input)))


def invoke_all(calls: list[tuple[str, Any]], parallel_max: int = 0) -> list[Any | HostCallError]:
    """Runs several, each a skill and its input, at most `parallel_max` at a time (0: the host's default);
    what became of each, in the order of the calls.
    """
    encoded = [host.Call(skill, _object(input)) for skill, input in calls]
    return outcomes(ask(host.invoke_all, encoded, parallel_max), json.loads)


def _object(input: Any) -> str:
    return encode({} if input is None else input)
