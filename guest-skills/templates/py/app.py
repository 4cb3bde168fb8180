"""Finds the words that a text uses most and, where there is a dictionary, says what the first one means."""

import re
from collections import Counter
from dataclasses import dataclass

from skillrun_sdk import Failure, HostCallError, log, skill, step, tools

INPUT_SCHEMA = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "minLength": 1, "maxLength": 100_000},
        "top": {
            "type": "integer",
            "minimum": 1,
            "maximum": 100,
            "description": "How many words are wanted.",
        },
    },
    "required": ["text"],
    "additionalProperties": False,
}

OUTPUT_SCHEMA = {
    "type": "object",
    "properties": {
        "words": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"word": {"type": "string"}, "count": {"type": "integer"}},
                "required": ["word", "count"],
            },
        },
        "definition": {"type": ["string", "null"]},
    },
    "required": ["words", "definition"],
}


@dataclass
class Input:
    text: str
    top: int = 3


@dataclass
class Word:
    word: str
    count: int


@dataclass
class Output:
    words: list[Word]
    #: What the first word means; None where nobody can say.
    definition: str | None


@skill(
    name="new-skill",
    version="0.1.0",
    description="Finds the words that a text uses most.",
    input_schema=INPUT_SCHEMA,
    output_schema=OUTPUT_SCHEMA,
)
def top_words(input: Input) -> Output:
    with step("count"):
        words = count(input.text, input.top)
    if not words:
        raise Failure("the text has no words", "no_words")
    log.info("counted the words", first=words[0].word)
    return Output(words, define(words[0].word))


def count(text: str, top: int) -> list[Word]:
    """The words that are used most, the most frequent first."""
    counts = Counter(re.findall(r"[^\W_]+", text.lower()))
    # Those that are used equally often stay in the order of the alphabet.
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return [Word(*pair) for pair in ordered[:top]]


def define(word: str) -> str | None:
    """What a word means. The skill is of use without it, so neither a dictionary that was not granted
    nor one that fails stops it.
    """
    try:
        answer = tools.invoke("dictionary__define", {"word": word})
    except HostCallError as error:
        if error.kind in ("denied", "not-found", "failed"):
            return None
        raise
    if not answer.is_error:
        return answer.text
    log.warn("no definition", error=answer.text)
    return None
