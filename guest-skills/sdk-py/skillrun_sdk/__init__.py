"""Write skills for skillrun in Python.

    from skillrun_sdk import skill

    @skill(name="greet", version="1.0.0", description="Greets by name")
    def greet(input: dict) -> dict:
        return {"greeting": f"Hello, {input['name']}!"}
"""

from . import approval, handoff, llm, log, recorder, run, tools
from .authoring import skill
from .errors import Failure, HostCallError
from .recorder import custom, step
from .results import values

__all__ = [
    "Failure",
    "HostCallError",
    "approval",
    "custom",
    "handoff",
    "llm",
    "log",
    "recorder",
    "run",
    "skill",
    "step",
    "tools",
    "values",
]
