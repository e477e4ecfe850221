"""Checks of configuration values beyond their type. Each returns a reason, or None.

The reasons are in Kafka's words: people's tests and tools match them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple


class InvalidPart(NamedTuple):
    """An invalid part of a value, and the reason."""

    part: str
    reason: str


class InvalidConfig(NamedTuple):
    """A complete sentence, as Kafka reports an invalid configuration."""

    sentence: str


Check = Callable[[Any], str | InvalidPart | InvalidConfig | None]

_THROTTLED = re.compile(r"\d+:\d+")


def numbers_by_address(text: str) -> dict[str, int]:
    """`10.0.0.7:20,camera-1:5`; raises ValueError."""
    found: dict[str, int] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        address, _, number = item.rpartition(":")
        if not address or not number.isdecimal():
            raise ValueError(f"{item!r} is not address:number")
        found[address] = int(number)
    return found


def by_address(text: str) -> str | None:
    """`numbers_by_address` as a check."""
    try:
        numbers_by_address(text)
    except ValueError as error:
        return str(error)
    return None


def at_least(low: float) -> Check:
    """A number not below ``low``."""

    def check(value: float) -> str | None:
        return None if value >= low else f"Value must be at least {low}"

    return check


def all_or_some(values: Sequence[str]) -> InvalidConfig | None:
    """Directories, or `*` alone."""
    if "*" not in values or len(values) == 1:
        return None
    return InvalidConfig("When cordoned.log.dirs is set to *, it must not contain other values")


def requires_at_least(low: int, name: str) -> Check:
    """As `at_least`, in the words that Kafka has for some of a broker's keys."""

    def check(value: int) -> InvalidConfig | None:
        return (
            None
            if value >= low
            else InvalidConfig(f"{name} must be greater than or equal to {low}")
        )

    return check


def retains_something(value: int) -> InvalidConfig | None:
    """A retention time: 0 would delete everything closed; a negative one keeps it for ever."""
    if value:
        return None
    return InvalidConfig("log.retention.ms must be unlimited (-1) or, greater than or equal to 1")


def between(low: float, high: float, *, also: float | None = None) -> Check:
    """A number from ``low`` to ``high``, or the one exception."""

    def check(value: float) -> str | None:
        if low <= value <= high or value == also:
            return None
        if also is not None:
            return f"Value must be between {low} and {high} or equal to {also}"
        if value < low:
            return f"Value must be at least {low}"
        return f"Value must be no more than {high}"

    return check


def one_of(*allowed: str) -> Check:
    """One of the given words."""

    def check(value: str) -> str | None:
        return None if value in allowed else f"String must be one of: {', '.join(allowed)}"

    return check


def one_of_any_case(*allowed: str) -> Check:
    """One of the given words, in any case."""

    def check(value: str) -> str | None:
        fits = value.lower() in {word.lower() for word in allowed}
        return None if fits else f"String must be one of: {', '.join(allowed)}"

    return check


def each_one_of(*allowed: str) -> Check:
    """A list whose items are among the given words; it may be empty."""

    def check(values: Sequence[str]) -> InvalidPart | None:
        for value in values:
            if value not in allowed:
                return InvalidPart(value, f"String must be one of: {', '.join(allowed)}")
        return None

    return check


def not_empty(check: Check) -> Check:
    """A list that must hold something, and passes the check."""

    def checked(values: Sequence[str]) -> str | InvalidPart | InvalidConfig | None:
        return check(values) if values else "at least one value is needed"

    return checked


def throttled_replicas(name: str) -> Check:
    """``partition:broker`` pairs, or ``*`` alone."""

    def check(values: Sequence[str]) -> str | None:
        if list(values) == ["*"] or all(_THROTTLED.fullmatch(value) for value in values):
            return None
        return (
            f"{name} must be the literal '*' or a list of replicas in the following format: "
            "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
        )

    return check
