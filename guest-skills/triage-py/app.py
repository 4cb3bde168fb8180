"""Finds out how urgent a ticket is: asks a tool, a model and, where it matters, a person."""

from dataclasses import dataclass

from skillrun_sdk import Failure, approval, llm, log, run, skill, step, tools

PRIORITY = {"enum": ["low", "normal", "high"]}

INPUT_SCHEMA = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "minLength": 1, "maxLength": 64},
        "text": {"type": "string", "minLength": 1, "maxLength": 8000},
    },
    "required": ["id", "text"],
    "additionalProperties": False,
}

OUTPUT_SCHEMA = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "priority": PRIORITY,
        "summary": {"type": "string"},
        "approved": {"type": ["boolean", "null"]},
        "applied": {"type": "boolean"},
    },
    "required": ["id", "priority", "summary", "approved", "applied"],
    "additionalProperties": False,
}

ASSESSMENT_SCHEMA = {
    "type": "object",
    "properties": {"priority": PRIORITY, "summary": {"type": "string", "maxLength": 500}},
    "required": ["priority", "summary"],
    "additionalProperties": False,
}


@dataclass
class Ticket:
    id: str
    text: str


@dataclass
class Triaged:
    id: str
    priority: str
    summary: str
    #: None: nobody was asked.
    approved: bool | None = None
    applied: bool = False


@skill(
    name="triage-py",
    version="0.1.0",
    description="Sets the priority of a ticket",
    input_schema=INPUT_SCHEMA,
    output_schema=OUTPUT_SCHEMA,
)
def triage(ticket: Ticket) -> Triaged:
    with step("find-similar"):
        similar = find_similar(ticket.text)
    with step("assess"):
        triaged = Triaged(ticket.id, **assess(ticket, similar))
    log.info("assessed", id=triaged.id, priority=triaged.priority)

    if triaged.priority == "high":
        with step("approve"):
            triaged.approved = approve(triaged)
    if triaged.approved is False:
        return triaged
    with step("apply"):
        apply(triaged)
    triaged.applied = True
    return triaged


def find_similar(text: str) -> str:
    """The texts of similar tickets; empty if there are none, or if nobody can say."""
    answer = tools.invoke("tickets__search", {"query": text})
    if not answer.is_error:
        return answer.text
    log.warn("cannot search for similar tickets", error=answer.text)
    return ""


def assess(ticket: Ticket, similar: str) -> dict:
    similar = similar or "none"
    question = f"Ticket {ticket.id}:\n{ticket.text}\n\nSimilar tickets:\n{similar}"
    request = llm.Request(
        model="default",
        system=run.skill_body(),
        messages=[llm.user(question)],
        temperature=0,
        output_tokens_max=500,
    )
    return llm.generate_as(request, ASSESSMENT_SCHEMA)


def approve(triaged: Triaged) -> bool:
    change = {"id": triaged.id, "priority": triaged.priority, "summary": triaged.summary}
    return approval.request(f"Set ticket {triaged.id} to high priority?", change).approved


def apply(triaged: Triaged) -> None:
    change = {"id": triaged.id, "priority": triaged.priority}
    answer = tools.invoke("tickets__set_priority", change)
    if answer.is_error:
        raise Failure(answer.text, "not_applied")
