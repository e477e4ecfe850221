"""Levels of logs while the broker runs (KIP-412)."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from broker.controller.decisions.configs import Alteration, AlterOperation
from broker.handlers.loggers import MODULES, alter_levels, levels
from bus.errors import ErrorCode

SET, DELETE, APPEND = AlterOperation.SET, AlterOperation.DELETE, AlterOperation.APPEND


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Levels are the process' own: put them back."""
    names = ["broker", *MODULES]
    kept = {name: logging.getLogger(name).level for name in names}
    yield
    for name, level in kept.items():
        logging.getLogger(name).setLevel(level)


def altered(name: str, operation: AlterOperation, value: str | None = None) -> ErrorCode:
    return alter_levels([Alteration(name, operation, value)], validate_only=False)[0]


def test_a_level_is_set_and_taken_back():
    altered("root", SET, "WARN")
    assert altered("broker.replica", SET, "DEBUG") is ErrorCode.NONE
    assert levels()["broker.replica"] == "DEBUG"
    assert logging.getLogger("broker.replica").isEnabledFor(logging.DEBUG)
    assert altered("broker.replica", DELETE) is ErrorCode.NONE
    assert levels()["broker.replica"] == "WARN"


def test_all_loggers_follow_the_root():
    altered("root", SET, "ERROR")
    assert set(levels().values()) == {"ERROR"}


def test_all_changes_or_none():
    before = levels()
    changes = [
        Alteration("broker.log", SET, "TRACE"),
        Alteration("no.such.logger", SET, "INFO"),
    ]
    assert alter_levels(changes, validate_only=False)[0] is ErrorCode.INVALID_CONFIG
    assert levels() == before


def test_a_question_changes_nothing():
    before = levels()
    alter_levels([Alteration("root", SET, "TRACE")], validate_only=True)
    assert levels() == before


@pytest.mark.parametrize(
    ("name", "operation", "value", "error"),
    [
        ("broker.log", SET, "LOUD", ErrorCode.INVALID_CONFIG),
        ("broker.log", SET, None, ErrorCode.INVALID_REQUEST),
        ("broker.log", APPEND, "DEBUG", ErrorCode.INVALID_REQUEST),
        ("root", DELETE, None, ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_cannot_be_done_is_refused_as_kafka_does(
    name: str, operation: AlterOperation, value: str | None, error: ErrorCode
):
    assert altered(name, operation, value) is error


def test_every_logger_of_the_source_has_its_module_here():
    """A logger that operators cannot set would not be found when it is needed."""
    import re

    from deploy.paths import PROJECT_ROOT

    named = set()
    for path in sorted((PROJECT_ROOT / "broker").rglob("*.py")):
        named |= set(re.findall(r'getLogger\("(broker[\w.]*)"\)', path.read_text("utf-8")))
    assert named - {"broker"} - set(MODULES) <= {"broker.zookeeper.client"}
