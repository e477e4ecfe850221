"""Requests as they stand on their topic. Pure.

In: records of `control.watchlist`. Out: `CommandRequest`s, or `UnreadableRequest`, and which of
them may be decided together. Never: a request without an id: its place on the topic is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from bus.client.model import ConsumedRecord
from bus.contracts.commands import WatchCommand
from bus.contracts.mirror_origin import MIRROR_ORIGIN
from bus.domain.rule_demand import RuleDemand, demand_of

MAX_REQUEST_BYTES = 256 * 1024
"""A decision is a little longer than its request and has to be taken by the brokers, too."""

MAX_ID_CHARACTERS = 200
"""A longer id is none: it would not fit into an answer."""

_decode = msgspec.json.Decoder(WatchCommand).decode


class UnreadableRequest(ValueError):
    """No request of ours: nobody can be answered."""


class CommandRequest(NamedTuple):
    """A command, and where it stands. `command_id` is what it is answered under."""

    command: WatchCommand
    command_id: str
    topic: str
    offset: int
    size: int


def decode_request(record: ConsumedRecord, topic_id: str) -> CommandRequest:
    """Raises `UnreadableRequest`. `topic_id`: a topic that was made again begins with the same
    offsets."""
    if record.value is None:
        raise UnreadableRequest("a tombstone asks for nothing; a removal is a command")
    if record.header(MIRROR_ORIGIN) is not None:
        raise UnreadableRequest("an earlier version's mirror has carried it from the other site")
    try:
        command = _decode(record.value)
        msgspec.json.encode(command)  # text that cannot be written cannot be decided on either
    except (msgspec.DecodeError, UnicodeError, RecursionError, OverflowError) as error:
        raise UnreadableRequest(str(error)) from error
    place = f"{record.topic}-{record.partition}-{record.offset}:{topic_id}"
    is_usable = 0 < len(command.command_id) <= MAX_ID_CHARACTERS
    command_id = command.command_id if is_usable else place
    return CommandRequest(command, command_id, record.topic, record.offset, len(record.value))


def independent(requests: Iterable[CommandRequest]) -> Iterator[list[CommandRequest]]:
    """In their order, in groups that have each rule and each id once, one rule that costs more than
    a look-up and one emergency: of a rule only its newest decision can lack an answer then."""
    group: list[CommandRequest] = []
    named: set[str] = set()
    for one in requests:
        names = {f"rule {one.command.rule_id}", f"command {one.command_id}"}
        if one.command.op == "approve" or demand_of(one.command) != RuleDemand():
            names.add("demand")  # judged beside all that are in force
        if one.command.op == "put" and one.command.emergency_hours:
            names.add("emergency")  # judged by those before it
        if not named.isdisjoint(names):
            yield group
            group, named = [], set()
        group.append(one)
        named |= names
    if group:
        yield group
