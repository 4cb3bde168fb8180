"""Calls everything that the SDK has, and says what came back."""

import os
import random
import time
import uuid

from skillrun_sdk import (
    Failure,
    HostCallError,
    approval,
    custom,
    handoff,
    llm,
    log,
    recorder,
    run,
    skill,
    step,
    tools,
    values,
)

REQUEST = llm.Request("acme/m", [llm.user("hello")])

FULL = llm.Request(
    "acme/m",
    [
        llm.user("hello"),
        llm.Message("assistant", [llm.ToolUse("1", "t", {"a": 1})]),
        llm.Message("tool", [llm.ToolAnswer("1", "done")]),
        llm.Message("user", [llm.Text("so?")]),
    ],
    system="Be brief.",
    tools=[llm.ToolOffer("t", "a tool", {"type": "object"})],
    output_tokens_max=5,
    temperature=0.5,
    stop=["."],
    output_schema={"type": "object"},
)

CALLS = [("a__b", {"x": 1}), ("a__c", {"x": 1})]

QUESTIONS = {
    "invoke": lambda: tools.invoke("a__b", {"x": 1}),
    "invoke_all": lambda: values(tools.invoke_all(CALLS, parallel_max=2)),
    "generate": lambda: llm.generate(REQUEST),
    "generate_full": lambda: llm.generate(FULL),
    "generate_as": lambda: llm.generate_as(REQUEST, {"type": "object"}),
    "stream": lambda: list(llm.stream(FULL)),
    "request": lambda: approval.request("May I?", {"a": 1}, timeout_ms=5),
    "require": lambda: approval.require("May I?"),
    "handoff": lambda: handoff.invoke("other", {"a": 1}),
    "handoff_all": lambda: values(handoff.invoke_all([("other", {})])),
    "custom": lambda: custom("n" * 129),
}


def refusal(question) -> str | None:
    try:
        question()
    except HostCallError as error:
        return f"{error.kind}: {error}"
    return None


KINDS = [
    "a__not-found",
    "a__invalid",
    "a__ambiguous",
    "a__failed",
    "a__timed-out",
    "a__exhausted",
    "a__cancelled",
]


def answers() -> dict:
    """What comes back where somebody answers."""
    answer = tools.invoke("a__b", {"x": "ü"})
    together = tools.invoke_all([("a__b", None), ("a__failed", None)])
    response = llm.generate(FULL)
    chunks = [shown(chunk) for chunk in llm.stream(FULL)]
    for _ in llm.stream(REQUEST):
        break
    decision = approval.request("May I?", {"a": 1}, timeout_ms=5)
    return {
        "available": [
            [tool.name, tool.input_schema, tool.read_only, tool.idempotent]
            for tool in tools.available()
        ],
        "invoke": [answer.content, answer.is_error, answer.text],
        "check": failure(lambda: tools.invoke("a__error").check()),
        "invoke_all": [
            one.kind if isinstance(one, HostCallError) else one.text for one in together
        ],
        "generate": [
            response.text,
            response.stop_reason,
            response.model,
            response.usage.output_tokens,
        ],
        "cost_usd": response.usage.cost_usd,
        "tool_uses": [shown(use) for use in response.tool_uses],
        "generate_as": llm.generate_as(llm.Request("json", REQUEST.messages), {"type": "object"}),
        "no_json": failure(lambda: llm.generate_as(REQUEST, {"type": "object"})),
        "chunks": chunks,
        "request": [decision.approved, decision.reason, decision.automatic],
        "require": approval.require("May I?").approved,
        "rejected": failure(lambda: approval.require("May I not?")),
        "handoff": handoff.invoke("other", {"a": 1}),
        "handoff_all": values(handoff.invoke_all([("other", {})])),
        "kinds": [refusal(lambda kind=kind: tools.invoke(kind)) for kind in KINDS],
    }


def shown(chunk) -> str | list:
    match chunk:
        case llm.Text(text):
            return text
        case llm.ToolUse(id, name, arguments):
            return [id, name, arguments]
        case llm.Done(response):
            return response.text


def failure(work) -> str | None:
    try:
        work()
    except Failure as error:
        return f"{error.code}: {error}"
    return None


def ask() -> dict:
    each = [outcome.value for outcome in tools.invoke_all(CALLS)]
    answers = {name: refusal(question) for name, question in QUESTIONS.items()}
    return {"available": tools.available(), "each": each, **answers}


def chance() -> dict:
    drawn = [random.random() for _ in range(500)]
    began = time.monotonic()
    before = time.monotonic() - began
    while time.monotonic() - began <= before:
        pass
    return {
        "drawn": drawn[:2],
        "different": len(set(drawn)),
        "in_range": all(0 <= one < 1 for one in drawn),
        "mean": sum(drawn) / len(drawn),
        "bytes": list(os.urandom(4)),
        "unique": str(uuid.uuid4()),
        "elapsed_ms": [before * 1000, (time.monotonic() - began) * 1000],
        "time_s": [time.time()],
    }


def record() -> list:
    with step("outer") as outer, step("inner") as inner:
        ids = [outer, inner]
    return [
        ids,
        custom("mine", {"a": [1, None]}),
        recorder.error("so so"),
        recorder.tool_call("c1", "own", {"a": 1}),
        recorder.tool_result("c1", "done"),
        recorder.llm_call("m", "p", 1, 2, 0.5),
        recorder.structured_output("0" * 64, {"a": 1}),
    ]


def write_log() -> None:
    log.trace("1")
    log.debug("2")
    log.info("3", text="a", count=1, list=[True])
    log.warn("4")
    log.error("5")
    print('6 {"a":1}', end="")


def facts() -> dict:
    return {
        "id": run.id(),
        "parent_id": run.parent_id(),
        "name": run.skill_name(),
        "body": run.skill_body(),
        "has_time": run.remaining_ms() > 0,
        "attempt": run.attempt(),
    }


def fail() -> None:
    raise Failure("on purpose", "some_code", {"a": [1]})


def blunder() -> None:
    raise TypeError("by accident")


WORK = {
    "answers": answers,
    "ask": ask,
    "chance": chance,
    "facts": facts,
    "fail": fail,
    "log": write_log,
    "output": lambda: float("nan"),
    "raise": blunder,
    "record": record,
}


@skill(
    name="surface-py",
    version="0.1.0",
    description="Calls everything that the SDK has",
)
def surface(input: dict):
    return WORK[input["do"]]()
