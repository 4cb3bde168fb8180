"""Greets by name: the smallest skill that still shows a step, an event and a log line."""

from skillrun_sdk import HostCallError, custom, log, run, skill, step

INPUT_SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "minLength": 1}},
    "required": ["name"],
    "additionalProperties": False,
}

OUTPUT_SCHEMA = {
    "type": "object",
    "properties": {"greeting": {"type": "string"}, "run_id": {"type": "string"}},
    "required": ["greeting", "run_id"],
}


@skill(
    name="greet-py",
    version="0.1.0",
    description="Greets by name",
    input_schema=INPUT_SCHEMA,
    output_schema=OUTPUT_SCHEMA,
)
def greet(input: dict) -> dict:
    with step("compose"):
        greeting = f"Hello, {input['name']}!"
    log.info("composed a greeting")
    # The greeting is the same whether or not it is on the record.
    try:
        custom("greeted", input["name"])
    except HostCallError as error:
        log.warn(f"cannot record: {error}")
    return {"greeting": greeting, "run_id": run.id()}
