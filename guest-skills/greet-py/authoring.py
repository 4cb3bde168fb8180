"""From a method on objects to what the world `skill` asks for: texts of JSON, and errors that are
records. Nothing here is about greeting; a skill of your own can begin with a copy of this file.
"""

import json
import traceback
from typing import Any

from componentize_py_types import Err
from wit_world import exports
from wit_world.imports import recorder, types


class Failure(Exception):
    """Ends the run as a skill error."""

    def __init__(self, message: str, code: str = "", details: Any = None) -> None:
        """`code` is a stable word for a program, `details` any value that JSON has."""
        super().__init__(message)
        self.code = code
        self.details = details


class Skill(exports.Handler):
    """What a skill says about itself, and what it does. A subclass named `Handler` in the module
    `app` is what the component exports.
    """

    name: str
    version: str
    description: str
    input_schema: dict | None = None
    output_schema: dict | None = None

    def answer(self, input: dict) -> Any:
        """Does the work. The input is a JSON object, not yet checked against the schema; the result
        is any value that JSON has.
        """
        raise NotImplementedError

    def describe(self) -> types.Descriptor:
        return types.Descriptor(
            name=self.name,
            version=self.version,
            description=self.description,
            input_schema=json.dumps(self.input_schema) if self.input_schema else "",
            output_schema=json.dumps(self.output_schema) if self.output_schema else "",
        )

    def run(self, input: str) -> str:
        # An Err is the answer of the call. Any other exception would end the run as a panic, with a
        # message from inside the runtime.
        try:
            return json.dumps(self.answer(json.loads(input)), ensure_ascii=False, allow_nan=False)
        except Exception as error:
            failed = skill_error(error)
        raise Err(failed)


class Step:
    """A step, as `with Step("name"):`, recorded as entered before and as left after its block, with
    its success.
    """

    def __init__(self, name: str) -> None:
        self.node = recorder.Node(name)

    def __enter__(self) -> recorder.Node:
        return self.node

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # A node used as a context manager of its own would never be told that it succeeded.
        self.node.end(kind is None)


def skill_error(error: Exception) -> types.SkillError:
    match error:
        case Failure():
            return types.SkillError(str(error), error.code, json.dumps(error.details))
        case Err(types.HostError_Denied(capability)):
            return types.SkillError(f"denied: {capability}", "denied", "null")
        case Err(value):
            return types.SkillError(str(value), "", "null")
    details = json.dumps({"traceback": traceback.format_exception(error)})
    return types.SkillError(f"{type(error).__name__}: {error}", "exception", details)
