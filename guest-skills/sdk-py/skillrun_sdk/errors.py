"""Why a skill has no result, and why the host did not do what was asked."""

import traceback
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from componentize_py_types import Err
from wit_world.imports import recorder, types

from .encoding import encode

P = ParamSpec("P")
T = TypeVar("T")


class Failure(Exception):
    """Ends the run as a skill error."""

    def __init__(self, message: str, code: str = "", details: Any = None) -> None:
        """`code` is a stable word for a program, `details` any value that JSON has."""
        super().__init__(message)
        self.code = code
        self.details = details


class HostCallError(Exception):
    """The host did not do what was asked. It can be caught, and the skill may go on; what is not caught
    ends the run, with the kind as its code.

    `kind` is `denied`, `not-found`, `invalid`, `ambiguous`, `failed`, `timed-out`, `exhausted`, `cancelled`
    or, of the recorder only, `too-large`. `value` is what came with it: a capability, a name, the names
    to choose from, a time in milliseconds.
    """

    def __init__(self, kind: str, message: str, value: str | int | list[str] | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.value = value


def ask(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Calls the host. A refusal becomes a HostCallError."""
    try:
        return call(*args, **kwargs)
    except Err as error:
        refused = refusal(error.value)
    raise refused


def refusal(error: types.HostError | recorder.RecordError) -> HostCallError:
    """The exception for what the host answered instead of a result."""
    match error:
        case types.HostError_Denied(capability):
            return HostCallError("denied", f"denied: {capability} is not granted", capability)
        case types.HostError_NotFound(name):
            return HostCallError("not-found", f"{name} does not exist", name)
        case types.HostError_Invalid(what) | recorder.RecordError_Invalid(what):
            return HostCallError("invalid", f"invalid arguments: {what}", what)
        case types.HostError_Ambiguous(names):
            return HostCallError("ambiguous", f"ambiguous name: one of {', '.join(names)}", names)
        case types.HostError_Failed(message):
            return HostCallError("failed", message, message)
        case types.HostError_TimedOut(limit_ms):
            return HostCallError("timed-out", f"no answer within {limit_ms} ms", limit_ms)
        case types.HostError_Exhausted(limit):
            return HostCallError("exhausted", limit, limit)
        case types.HostError_Cancelled():
            return HostCallError("cancelled", "the run is being cancelled")
        case recorder.RecordError_TooLarge(limit_bytes):
            message = f"the event is larger than {limit_bytes} bytes"
            return HostCallError("too-large", message, limit_bytes)
        case recorder.RecordError_Exhausted():
            return HostCallError("exhausted", "this run may write no more events")
    return HostCallError("failed", str(error))


def skill_error(error: Exception) -> types.SkillError:
    """What ends the run, for anything that was raised."""
    match error:
        case Failure():
            return types.SkillError(str(error), error.code, encode(error.details))
        case HostCallError():
            return types.SkillError(str(error), error.kind.replace("-", "_"), "null")
    details = encode({"traceback": traceback.format_exception(error)})
    return types.SkillError(f"{type(error).__name__}: {error}", "exception", details)
