"""Runs a row against one broker: its requests in sequence, its answers as plain values.

In: a row, an address. Out: the answers. Never: a comparison; the test does that.
"""

from __future__ import annotations

import itertools
import os
import re
import time
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from tests.conformance.answers.case import Ask, Deviation, Hang, ReceiveLate, Step
from tests.conformance.answers.normalise import BY_NAME, kept, plain, unordered
from tests.conformance.answers.wire import Closed, KioConnection, request_of

CLOSED = "the connection is closed"
NOT_ANSWERED = "no answer"
UNTIL_TIMEOUT_S = 20.0
"""Long enough for what rows wait for (a leader, an expired session of 6 s)."""
ASK_AGAIN_S = 0.05

_NAME = re.compile(r"\{(\w+)\}")
_numbers = itertools.count(1)


def answers(row: Deviation, address: str) -> list[Any]:
    """This broker's answers to the row's steps."""
    return _Conversation(row, address).run()


class _Conversation:
    """One row at one broker. Invariant: `_values` has every placeholder used or kept so far."""

    def __init__(self, row: Deviation, address: str) -> None:
        self._row = row
        self._address = address
        self._suffix = f"{os.getpid()}x{next(_numbers)}"
        self._values: dict[str, Any] = {}
        self._connections: dict[str, KioConnection] = {}
        self._left_out = {name for one in row.may_differ for name in BY_NAME[one]}

    def run(self) -> list[Any]:
        try:
            for step in self._row.given:
                _succeeded(step, self._step(step))
            said = [self._step(step) for step in self._row.steps]
            return [self._normal(one) for one in said if one is not None]
        finally:
            self._leave()

    def _leave(self) -> None:
        for step in self._row.afterwards:
            self._step(step)
        for connection in self._connections.values():
            connection.close()

    def _step(self, step: Step) -> Struct | str | None:
        match step:
            case Hang(on):
                self._connections.pop(on).close()
                return None
            case ReceiveLate(on, keep):
                return self._received(on, keep)
            case Ask(until=until) if until:
                return self._asked_until(step)
        return self._asked(step)

    def _asked_until(self, step: Ask) -> Struct | str | None:
        end = time.monotonic() + UNTIL_TIMEOUT_S
        while True:
            answer = self._asked(step)
            if all(_at(answer, path) == value for path, value in step.until.items()):
                return answer
            if time.monotonic() > end:
                return answer
            time.sleep(ASK_AGAIN_S)

    def _asked(self, step: Ask) -> Struct | str | None:
        assert step.version is not None, f"{step.api} has no version, nor has its row"
        request = request_of(step.key, self._with_values(step.fields))
        try:
            self._connection(step.on).send(step.key, step.version, request)
        except Closed:
            return self._closed(step.on)
        return None if step.later else self._received(step.on, step.keep)

    def _received(self, on: str, keep: Mapping[str, str]) -> Struct | str:
        try:
            answer = self._connection(on).receive()
        except Closed:
            return self._closed(on)
        except TimeoutError:
            return NOT_ANSWERED
        self._values.update({name: _at(answer, path) for name, path in keep.items()})
        return answer

    def _closed(self, on: str) -> str:
        self._connections.pop(on).close()
        return CLOSED

    def _connection(self, name: str) -> KioConnection:
        if name not in self._connections:
            self._connections[name] = KioConnection(self._address)
        return self._connections[name]

    def _with_values(self, value: Any) -> Any:
        """Replaces `{name}` alone by its kept value, and within a text by the value's text."""
        if isinstance(value, str):
            alone = _NAME.fullmatch(value)
            if alone:
                return self._value(alone[1])
            return _NAME.sub(lambda match: str(self._value(match[1])), value)
        if isinstance(value, Mapping):
            return {name: self._with_values(one) for name, one in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._with_values(one) for one in value]
        return value

    def _value(self, name: str) -> Any:
        return self._values.setdefault(name, f"{name}-{self._suffix}")

    def _normal(self, answer: Struct | str) -> Any:
        names = {
            value: f"{{{name}}}"
            for name, value in self._values.items()
            if isinstance(value, (str, bytes))
        }
        said = kept(plain(answer, names, self._left_out), self._row.only)
        return unordered(said) if "order" in self._row.may_differ else said


def _at(answer: Any, path: str) -> Any:
    """The value at a path such as `topics.0.topic_id`; None if the answer has no such path."""
    for part in path.split("."):
        if part.isdecimal() and isinstance(answer, list):
            answer = answer[int(part)] if int(part) < len(answer) else None
        else:
            answer = getattr(answer, part, None)
    return answer


def _succeeded(step: Step, answer: Struct | str | None) -> None:
    """Checks that the `given` steps succeeded; otherwise the row would compare two failures."""
    if answer is not None:
        assert not isinstance(answer, str), f"{step}: {answer}"
        assert not _errors(answer), f"{step}: {answer}"


def _errors(value: Any) -> list[int]:
    if isinstance(value, list):
        return [code for one in value for code in _errors(one)]
    if not isinstance(value, Struct):
        return []
    own = [value.error_code] if getattr(value, "error_code", 0) else []
    return own + [
        code for name in value.__struct_fields__ for code in _errors(getattr(value, name))
    ]
