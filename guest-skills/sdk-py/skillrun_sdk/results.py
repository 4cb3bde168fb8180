"""Answers to several calls at once."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from componentize_py_types import Ok, Result
from wit_world.imports import types

from .errors import HostCallError, refusal

T = TypeVar("T")
U = TypeVar("U")


def outcomes(
    answered: Iterable[Result[T, types.HostError]], read: Callable[[T], U]
) -> list[U | HostCallError]:
    """What came back, turned into values, with an error in the place of each refusal."""
    return [read(one.value) if isinstance(one, Ok) else refusal(one.value) for one in answered]


def values(outcomes: list[T | HostCallError]) -> list[T]:
    """The values of all outcomes. The first error in the order of the calls is raised instead."""
    found: list[T] = []
    for outcome in outcomes:
        if isinstance(outcome, HostCallError):
            raise outcome
        found.append(outcome)
    return found
