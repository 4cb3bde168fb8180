"""Language models. They need `llm:` capabilities; keys stay in the host."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from wit_world.imports import llm as host
from wit_world.imports.llm import Usage

from .encoding import encode
from .errors import Failure, ask

Role: TypeAlias = Literal["user", "assistant", "tool"]
StopReason: TypeAlias = Literal["end-turn", "token-limit", "tool-use", "stop-sequence", "refusal"]


@dataclass
class Text:
    """A text, or a piece of one that is still coming."""

    text: str


@dataclass
class ToolUse:
    """The model asks for a tool."""

    #: Chosen by the model; ties the answer to the request.
    id: str
    name: str
    arguments: dict


@dataclass
class ToolAnswer:
    """What the tool said."""

    #: The id of the request.
    id: str
    content: str
    is_error: bool = False


Part: TypeAlias = Text | ToolUse | ToolAnswer


@dataclass
class Message:
    """One message of a conversation; its content is a text alone, or parts."""

    role: Role
    content: str | list[Part]


@dataclass
class ToolOffer:
    """A tool that the model may ask for. The skill calls it, not the host."""

    name: str
    description: str
    #: JSON Schema of the arguments.
    input_schema: dict


@dataclass
class Request:
    """A question to a model."""

    #: `provider/model`, or a model that the operator's configuration names.
    model: str
    #: The conversation so far, oldest first; at least one message.
    messages: list[Message]
    system: str | None = None
    tools: list[ToolOffer] = field(default_factory=list)
    #: None: the model's own bound, or what is left of the run's budget.
    output_tokens_max: int | None = None
    #: 0 to 2.
    temperature: float | None = None
    #: Texts at which the model stops.
    stop: list[str] = field(default_factory=list)
    #: JSON Schema for the answer; checked by the host.
    output_schema: dict | None = None


@dataclass
class Response:
    """A whole answer."""

    content: list[Part]
    stop_reason: StopReason
    usage: Usage
    #: The model that answered, as its provider names it.
    model: str

    @property
    def text(self) -> str:
        """The text of the answer."""
        return "".join(part.text for part in self.content if isinstance(part, Text))

    @property
    def tool_uses(self) -> list[ToolUse]:
        """The tools that the model asks for."""
        return [part for part in self.content if isinstance(part, ToolUse)]


@dataclass
class Done:
    """The end of a streamed answer."""

    response: Response


def user(content: str | list[Part]) -> Message:
    """A message of the user."""
    return Message("user", content)


def generate(request: Request) -> Response:
    """Asks and waits for the whole answer."""
    return _response(ask(host.generate, _encoded(request, request.output_schema)))


def generate_as(request: Request, output_schema: dict) -> Any:
    """Asks for an answer that fits a schema, and gives its value."""
    answer = _response(ask(host.generate, _encoded(request, output_schema)))
    try:
        return json.loads(answer.text)
    except ValueError as cause:
        message = f"the model stopped for {answer.stop_reason}, and its answer is not JSON: {cause}"
        raise Failure(message, "invalid_answer") from None


def stream(request: Request) -> Iterator[Text | ToolUse | Done]:
    """Asks when the first chunk is wanted, and gives the answer as it comes; the last chunk is Done. Closed
    before its end, it cancels the request.
    """
    with ask(host.start, _encoded(request, request.output_schema)) as completion:
        while (chunk := ask(completion.next)) is not None:
            match chunk:
                case host.Chunk_Text(text):
                    yield Text(text)
                case host.Chunk_ToolUse(use):
                    yield _tool_use(use)
                case host.Chunk_Done(response):
                    yield Done(_response(response))


def _encoded(request: Request, output_schema: dict | None) -> host.Request:
    return host.Request(
        model=request.model,
        system=request.system,
        messages=[
            host.Message(host.Role[message.role.upper()], _parts(message.content))
            for message in request.messages
        ],
        tools=[
            host.ToolOffer(tool.name, tool.description, encode(tool.input_schema))
            for tool in request.tools
        ],
        output_tokens_max=request.output_tokens_max,
        temperature=request.temperature,
        stop=request.stop,
        output_schema=None if output_schema is None else encode(output_schema),
    )


def _parts(content: str | list[Part]) -> list[host.Part]:
    if isinstance(content, str):
        return [host.Part_Text(content)]
    return [_part(part) for part in content]


def _part(part: Part) -> host.Part:
    match part:
        case Text(text):
            return host.Part_Text(text)
        case ToolUse(id, name, arguments):
            return host.Part_ToolUse(host.ToolUse(id, name, encode(arguments)))
        case ToolAnswer(id, content, is_error):
            return host.Part_ToolAnswer(host.ToolAnswer(id, content, is_error))
    raise TypeError(f"{type(part).__name__} is no part of a message")


def _response(response: host.Response) -> Response:
    stop_reason: Any = response.stop_reason.name.lower().replace("_", "-")
    content = [_read_part(part) for part in response.content]
    return Response(content, stop_reason, response.usage, response.model)


def _read_part(part: host.Part) -> Part:
    match part:
        case host.Part_Text(text):
            return Text(text)
        case host.Part_ToolUse(use):
            return _tool_use(use)
        case host.Part_ToolAnswer(answer):
            return ToolAnswer(answer.id, answer.content, answer.is_error)
    raise TypeError(f"{type(part).__name__} is no part of an answer")


def _tool_use(use: host.ToolUse) -> ToolUse:
    return ToolUse(use.id, use.name, json.loads(use.arguments))
