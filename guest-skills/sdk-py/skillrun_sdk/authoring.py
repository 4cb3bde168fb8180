"""From a function on values to what the world `skill` asks for: texts of JSON, and errors that are
records.
"""

import dataclasses
import inspect
import json
import sys
import typing
from collections.abc import Callable
from typing import Any, TypeVar

from componentize_py_types import Err
from wit_world import exports
from wit_world.imports import types

from .encoding import encode
from .errors import Failure, skill_error

Work = TypeVar("Work", bound=Callable[[Any], Any])


def skill(
    *,
    name: str,
    version: str,
    description: str,
    input_schema: dict | None = None,
    output_schema: dict | None = None,
) -> Callable[[Work], Work]:
    """Makes a function in the module `app` the skill of this component. Once per component.

    The function gets the input object as a dict or, if its parameter is annotated with a dataclass, as
    one; fields that are missing or too many are refused with the code `invalid_input`. The host refuses what does
    not fit the schemas, input before the function is called and result after it. The result is any value that
    JSON has, or a dataclass of such values.
    """
    descriptor = types.Descriptor(
        name=name,
        version=version,
        description=description,
        input_schema=encode(input_schema) if input_schema else "",
        output_schema=encode(output_schema) if output_schema else "",
    )

    def export(work: Work) -> Work:
        read = _reader(work)

        class Handler(exports.Handler):
            def describe(self) -> types.Descriptor:
                return descriptor

            def run(self, input: str) -> str:
                # An Err is the answer of the call. Any other exception would end the run as a panic,
                # with a message from inside the runtime.
                try:
                    return _encoded(work(read(json.loads(input))))
                except Exception as error:
                    failed = skill_error(error)
                finally:
                    # A last line without a break would stay in the buffers.
                    sys.stdout.flush()
                    sys.stderr.flush()
                raise Err(failed)

        # This is the name that the component is made of.
        sys.modules[work.__module__].Handler = Handler
        return work

    return export


def _reader(work: Callable[[Any], Any]) -> Callable[[dict], Any]:
    """From the input object to what the function takes."""
    parameter = next(iter(inspect.signature(work).parameters), "")
    wanted = typing.get_type_hints(work).get(parameter)
    if not dataclasses.is_dataclass(wanted):
        return lambda input: input

    def read(input: dict) -> Any:
        try:
            return wanted(**input)
        except (TypeError, ValueError) as error:
            raise Failure(f"the input does not fit: {error}", "invalid_input") from None

    return read


def _encoded(output: Any) -> str:
    try:
        return encode(output)
    except (TypeError, ValueError) as error:
        raise Failure(f"cannot encode the result: {error}", "invalid_output") from None
