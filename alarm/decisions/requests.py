"""Requests as they stand on their topics. Pure.

In: records of a topic of requests. Out: `CommandRequest`s, or `UnreadableRequest`, and which of
them may be decided together. Never: a request without an id: its place on the topic is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, NamedTuple, TypeVar

import msgspec

from bus.client.model import ConsumedRecord
from bus.contracts.commands import Command
from bus.contracts.mirror_origin import MIRROR_ORIGIN
from bus.domain.command_error import CommandError, check_length
from bus.domain.policy import MAX_CASE_CHARACTERS, MAX_REASON_CHARACTERS

MAX_REQUEST_BYTES = 256 * 1024
"""A decision is a little longer than its request and has to be taken by the brokers, too."""

MAX_ID_CHARACTERS = 200
"""A longer id is none: it would not fit into an answer."""

_LIMITS = {
    "issuer": MAX_ID_CHARACTERS, "account": MAX_ID_CHARACTERS, "session": MAX_ID_CHARACTERS,
    "case": MAX_CASE_CHARACTERS, "reason": MAX_REASON_CHARACTERS,
}  # fmt: skip

CommandT = TypeVar("CommandT", bound=Command)


class UnreadableRequest(ValueError):
    """No request of ours: nobody can be answered."""


class CommandRequest(NamedTuple, Generic[CommandT]):
    """A command, and where it stands since when. `command_id` is what it is answered under."""

    command: CommandT
    command_id: str
    topic: str
    offset: int
    size: int
    asked_at_ms: int = 0


def decode_request(
    record: ConsumedRecord, topic_id: str, decode: Callable[[bytes], CommandT]
) -> CommandRequest[CommandT]:
    """Raises `UnreadableRequest`. `topic_id`: a topic that was made again begins with the same
    offsets. `decode`: a msgspec decoder's."""
    if record.value is None:
        raise UnreadableRequest("a tombstone asks for nothing; a removal is a command")
    if record.header(MIRROR_ORIGIN) is not None:
        raise UnreadableRequest("an earlier version's mirror has carried it from the other site")
    try:
        command = decode(record.value)
        msgspec.json.encode(command)  # text that cannot be written cannot be decided on either
    except (msgspec.DecodeError, UnicodeError, RecursionError, OverflowError) as error:
        raise UnreadableRequest(str(error)) from error
    place = f"{record.topic}-{record.partition}-{record.offset}:{topic_id}"
    is_usable = 0 < len(command.command_id) <= MAX_ID_CHARACTERS
    command_id = command.command_id if is_usable else place
    return CommandRequest(
        command, command_id, record.topic, record.offset, len(record.value), record.timestamp_ms
    )


def check_lengths(request: CommandRequest[CommandT]) -> None:
    """Of what every command has. Raises `CommandError`."""
    if request.size > MAX_REQUEST_BYTES:
        raise CommandError("", f"a command has at most {MAX_REQUEST_BYTES} bytes", "too_large")
    for field, limit in _LIMITS.items():
        check_length(field, getattr(request.command, field), limit)


def independent(
    requests: Iterable[CommandRequest[CommandT]],
    names: Callable[[CommandRequest[CommandT]], Iterable[str]],
) -> Iterator[list[CommandRequest[CommandT]]]:
    """In their order, in groups that have each command id once, and once each name of what they
    concern: of each thing only its newest decision can lack an answer then."""
    group: list[CommandRequest[CommandT]] = []
    named: set[str] = set()
    for one in requests:
        own = {f"command {one.command_id}", *names(one)}
        if not named.isdisjoint(own):
            yield group
            group, named = [], set()
        group.append(one)
        named |= own
    if group:
        yield group
