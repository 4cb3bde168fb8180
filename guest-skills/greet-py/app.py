"""Greets by name: the smallest skill that still shows a step, an event and a log line."""

import json

from componentize_py_types import Err
from wit_world.imports import log, recorder, run

from authoring import Failure, Skill, Step

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


class Handler(Skill):
    name = "greet-py"
    version = "0.1.0"
    description = "Greets by name"
    input_schema = INPUT_SCHEMA
    output_schema = OUTPUT_SCHEMA

    def answer(self, input: dict) -> dict:
        with Step("compose"):
            name = name_in(input)
            greeting = f"Hello, {name}!"
        log.write(log.Level.INFO, "composed a greeting", [])
        # The greeting is the same whether or not it is on the record.
        try:
            recorder.emit(recorder.Event_Custom(recorder.Custom("greeted", json.dumps(name))))
        except Err as error:
            log.write(log.Level.WARN, f"cannot record: {error.value}", [])
        return {"greeting": greeting, "run_id": run.id()}


def name_in(input: dict) -> str:
    name = input.get("name")
    if not isinstance(name, str) or not name:
        raise Failure("name is missing, empty or not a text", "invalid_input")
    for key in input:
        if key != "name":
            raise Failure(f"{json.dumps(key)} is not known", "invalid_input")
    return name
