"""The loggers of this broker: names, levels, and how an operator changes them (KIP-412).

Levels have Kafka's names; changes apply at once and end with the process, as in Kafka. One logger
per module; `root` is all of them.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from broker.controller.decisions.config_values import (
    Alteration,
    AlterOperation,
    check_alterations,
)
from broker.controller.decisions.decision import RefusedError
from bus.errors import ErrorCode

ROOT = "root"
PREFIX = "broker"
MODULES = (
    "broker.authorizer",
    "broker.cleaner_process",
    "broker.config",
    "broker.controller",
    "broker.controller.state_change",
    "broker.controller.zk",
    "broker.coordinator",
    "broker.handlers",
    "broker.log",
    "broker.metadata",
    "broker.network",
    "broker.peer",
    "broker.replica",
    "broker.server",
)
"""Loggers that operators may set; `broker.handlers` is the request log, `broker.log` also the
cleaner."""

TRACE = 5
LEVELS = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": TRACE,
}


OPERATIONS = frozenset(AlterOperation)


def levels() -> dict[str, str]:
    """The effective level of every logger, inherited ones included."""
    names = {name: _word(logging.getLogger(name).getEffectiveLevel()) for name in MODULES}
    return {**names, ROOT: _word(logging.getLogger(PREFIX).getEffectiveLevel())}


def alter_levels(
    changes: Sequence[Alteration], validate_only: bool
) -> tuple[ErrorCode, str | None]:
    """Apply all changes or none. SET sets a level, DELETE restores that of the parent."""
    try:
        check_alterations(changes)
    except RefusedError as error:
        return error.refusal.error, error.refusal.message
    for change in changes:
        fault = _fault(change)
        if fault is not None:
            return fault
    if not validate_only:
        for change in changes:
            level = LEVELS[change.value or ""] if change.operation == AlterOperation.SET else 0
            logging.getLogger(PREFIX if change.name == ROOT else change.name).setLevel(level)
    return ErrorCode.NONE, None


def _fault(change: Alteration) -> tuple[ErrorCode, str] | None:
    if change.operation not in OPERATIONS:
        return (
            ErrorCode.INVALID_REQUEST,
            f"Unknown operation type {change.operation} is not allowed for the BROKER_LOGGER "
            "resource",
        )
    if change.name not in (*MODULES, ROOT):
        return ErrorCode.INVALID_CONFIG, f"Logger {change.name} does not exist!"
    if change.operation == AlterOperation.SET:
        if change.value in LEVELS:
            return None
        known = ", ".join(sorted(LEVELS))
        return (
            ErrorCode.INVALID_CONFIG,
            f"Cannot set the log level of {change.name} to {change.value} as it is not a "
            f"supported log level. Valid log levels are {known}",
        )
    if change.operation != AlterOperation.DELETE:
        word = AlterOperation(change.operation).name
        return (
            ErrorCode.INVALID_REQUEST,
            f"{word} operation is not allowed for the BROKER_LOGGER resource",
        )
    if change.name == ROOT:
        return (
            ErrorCode.INVALID_REQUEST,
            f"Removing the log level of the {ROOT} logger is not allowed",
        )
    return None


def _word(level: int) -> str:
    """The nearest of Kafka's level names at or above."""
    for word, value in sorted(LEVELS.items(), key=lambda item: item[1]):
        if level <= value:
            return word
    return "FATAL"
