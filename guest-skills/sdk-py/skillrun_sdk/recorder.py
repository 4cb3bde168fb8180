"""What a skill puts into the run's ledger itself. The host records its own calls without being told."""

from typing import Any

from wit_world.imports import recorder as host

from .encoding import encode
from .errors import ask


class step:
    """A step, as `with step("name"):`, recorded as entered before and as left after its block, with its
    success. As `with step("name") as id:` it gives the step's id.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> str:
        self._node = host.Node(self._name)
        return self._node.id()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # A node used as a context manager of its own would never be told that it succeeded.
        with self._node:
            self._node.end(kind is None)


def custom(name: str, payload: Any = None) -> int:
    """Records an event of the skill's own; gives its number in the ledger, as all below do."""
    return _emit(host.Event_Custom(host.Custom(name, encode(payload))))


def error(message: str) -> int:
    """Records that something went wrong and the skill goes on."""
    return _emit(host.Event_Error(message))


def tool_call(call_id: str, name: str, arguments: Any) -> int:
    """Records a call that the skill makes on its own, under an id that the result repeats."""
    return _emit(host.Event_ToolCall(host.ToolCall(call_id, name, encode(arguments))))


def tool_result(call_id: str, output: str, is_error: bool = False) -> int:
    """Records the answer to such a call."""
    return _emit(host.Event_ToolResult(host.ToolResult(call_id, output, is_error)))


def llm_call(
    model: str, provider: str, prompt_tokens: int, output_tokens: int, cost_usd: float = 0.0
) -> int:
    """Records a use of a language model that did not go through `llm`."""
    call = host.LlmCall(model, provider, prompt_tokens, output_tokens, cost_usd)
    return _emit(host.Event_LlmCall(call))


def structured_output(schema_digest: str, output: Any) -> int:
    """Records a result that fits a schema, named by the SHA-256 of its text in hexadecimal."""
    output = host.StructuredOutput(schema_digest, encode(output))
    return _emit(host.Event_StructuredOutput(output))


def _emit(event: host.Event) -> int:
    return ask(host.emit, event)
