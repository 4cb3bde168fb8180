"""A person decides. Needs the capability `approval`."""

from typing import Any

from wit_world.imports import approval as host
from wit_world.imports.approval import Decision

from .encoding import encode
from .errors import Failure, ask


def request(prompt: str, payload: Any = None, timeout_ms: int | None = None) -> Decision:
    """Asks and waits, by default as long as the host does. `payload` is what exactly is approved. A
    rejection is a decision, not an error.
    """
    return ask(host.request, host.Question(prompt, encode(payload), timeout_ms))


def require(prompt: str, payload: Any = None, timeout_ms: int | None = None) -> Decision:
    """Asks and waits. A rejection is a Failure with the code `rejected`."""
    decision = request(prompt, payload, timeout_ms)
    if decision.approved:
        return decision
    message = f"rejected: {prompt}"
    raise Failure(f"{message}: {decision.reason}" if decision.reason else message, "rejected")
