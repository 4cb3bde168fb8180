"""Tools of upstream servers and of the embedding host. They need `tool:` capabilities."""

import json
from dataclasses import dataclass
from typing import Any

from wit_world.imports import tools as host

from .encoding import encode
from .errors import Failure, HostCallError, ask
from .results import outcomes


@dataclass
class Tool:
    """One tool that may be called."""

    name: str
    description: str
    #: JSON Schema of the arguments.
    input_schema: dict
    #: Calling it changes nothing.
    read_only: bool
    #: Calling it twice is like calling it once.
    idempotent: bool


@dataclass
class Answer:
    """What a tool answered."""

    #: MCP content blocks, as they came.
    content: list
    #: The tool itself says that it failed.
    is_error: bool

    @property
    def text(self) -> str:
        """The texts of the text blocks, one below the other."""
        blocks = [block for block in self.content if isinstance(block, dict)]
        texts = [block.get("text") for block in blocks if block.get("type") == "text"]
        return "\n".join(text for text in texts if isinstance(text, str))

    def check(self) -> "Answer":
        """The answer itself. One that says that the tool failed is a Failure with the code
        `tool_error`.
        """
        if self.is_error:
            raise Failure(self.text, "tool_error")
        return self


def available() -> list[Tool]:
    """The tools that this run may call, in order of their names."""
    return [
        Tool(
            tool.name,
            tool.description,
            json.loads(tool.input_schema),
            tool.read_only,
            tool.idempotent,
        )
        for tool in host.available()
    ]


def invoke(name: str, arguments: Any = None) -> Answer:
    """Calls a tool with an object and waits for its answer. A name without its server works when only
    one tool has it.
    """
    return _read(ask(host.invoke, name, _object(arguments)))


def invoke_all(
    calls: list[tuple[str, Any]], parallel_max: int = 0
) -> list[Answer | HostCallError]:
    """Calls several tools, each a name and its arguments, at most `parallel_max` at a time (0: the host's
    default); what became of each, in the order of the calls.
    """
    encoded = [host.Call(name, _object(arguments)) for name, arguments in calls]
    return outcomes(ask(host.invoke_all, encoded, parallel_max), _read)


def _object(arguments: Any) -> str:
    return encode({} if arguments is None else arguments)


def _read(answer: host.Answer) -> Answer:
    return Answer(json.loads(answer.content), answer.is_error)
