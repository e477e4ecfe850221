"""What it means that a job of Spark has failed, read from what Spark says of it. Pure.

Spark tells the cause as a text: the trace of a worker's Python, or Java's. In: that text. Out: a
`JobFailure` with a sentence that says what to do, or None for what nobody foresaw. Never: Spark.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from bus.errors import ErrorCode

STORE_AWAY = "StoreUnavailable"
UNREADABLE = "UnreadableVersion"
"""Names of our exceptions: of a worker's one nothing but its trace arrives here."""

FULL_DISK = (
    "the disk of an executor is full: make room where spark.local.dir (standalone: the"
    " folder of the worker) lies"
)
OTHER_PYTHON = "PYSPARK_PYTHON names another Python than the driver's: docs/spark-cluster.md"
LOST = "an executor or its Python was lost (Spark's log and the kernel's say why)"


class JobFailure(NamedTuple):
    """Why a job failed. `passing`: the same job may succeed later, by itself or when somebody does
    what the sentence says."""

    passing: bool
    sentence: str


class JobFailed(Exception):
    """A job of Spark failed for a reason that is known; the text says what to do."""


def failure_of(text: str) -> JobFailure | None:
    """The first reason that is found in the text."""
    for pattern, meaning in _REASONS:
        found = pattern.search(text)
        if found is not None:
            return meaning(found)
    return None


Meaning = Callable[[re.Match[str]], JobFailure]


def _ends(sentence: str) -> Meaning:
    return lambda _: JobFailure(False, sentence)


def _passes(sentence: str) -> Meaning:
    return lambda _: JobFailure(True, sentence)


def _python(found: re.Match[str]) -> JobFailure:
    there, here = found.groups()
    return JobFailure(
        False, f"the driver runs Python {here}, the executors run {there}: {OTHER_PYTHON}"
    )


def _bus(found: re.Match[str]) -> JobFailure:
    code = ErrorCode.__members__.get(found[1], ErrorCode.UNKNOWN_SERVER_ERROR)
    return JobFailure(code.retriable, f"the bus refuses what a task publishes: {found[0]}")


_REASONS: tuple[tuple[re.Pattern[str], Meaning], ...] = (
    (
        re.compile(r"SparkContext (?:was|has been) shut ?down|stopped SparkContext"),
        _ends("Spark has ended"),
    ),
    (
        re.compile(r"Master removed our application"),
        _ends("Spark's master has removed the application; its log says why"),
    ),
    (
        re.compile(r"different version: (\S+) than that in driver: (\d+\.\d+)"),
        _python,
    ),
    (
        re.compile(rf"{UNREADABLE}: ([^\n]+)"),
        lambda found: JobFailure(False, found[1].strip()),
    ),
    (
        re.compile(rf"{STORE_AWAY}: ([^\n]+)"),
        lambda found: JobFailure(True, f"the store is away: {found[1].strip()}"),
    ),
    (re.compile(r"No space left on device|Errno 28"), _passes(FULL_DISK)),
    (
        re.compile(r"DeliveryFailed: ([^\n]+)"),
        lambda found: JobFailure(True, f"the bus takes nothing: {found[1].strip()}"),
    ),
    (re.compile(r"(?:BusError|QueueFull|ClientFailed): (\w+)[^\n]*"), _bus),
    (
        re.compile(
            r"ExecutorLostFailure|FetchFailed|has failed the maximum allowable number of times"
            r"|Python worker exited unexpectedly|Executor heartbeat timed out"
        ),
        _passes(LOST),
    ),
)
