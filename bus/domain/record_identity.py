"""Under which id a record of the bus is stored. Pure.

In: a record's header, place and value. Out: its identity. Never: whether the record is valid. The
store's row has this id, so whoever names rows by what is on the bus (the way back of a former
primary) asks here as well.
"""

from __future__ import annotations

from contextlib import suppress

from bus.domain.device_message import DeviceMessage, Unreadable, read
from bus.domain.identity import bus_id, sender_scoped_id
from bus.domain.kinds import KIND_OF_TOPIC


def own_identity(wire: DeviceMessage, kind: str, sender: str = "") -> str:
    """The identity by the device's own number; empty where it has none."""
    number = wire.sender_record_id.strip()
    if not number:
        return ""
    return sender_scoped_id(sender, wire.camera_ip, kind, number, wire.captured_at.strip())


def identity_without_header(
    wire: DeviceMessage | None, kind: str, topic: str, partition: int, offset: int, body: bytes
) -> str:
    """By the device's own number, else by the place on the bus. `wire`: what was read of `body`;
    None where nothing was."""
    found = own_identity(wire, kind) if wire is not None else ""
    return found or bus_id(topic, partition, offset, body)


def identity_on_bus(
    record_id: str, topic: str, partition: int, offset: int, value: bytes | None
) -> str:
    """Of any record; `record_id` is its header, empty where it has none. What is in quarantine is
    not read."""
    if record_id:
        return record_id
    body, kind = value or b"", KIND_OF_TOPIC.get(topic, "")
    wire: DeviceMessage | None = None
    if kind:
        with suppress(Unreadable):
            wire = read(body, kind)
    return identity_without_header(wire, kind, topic, partition, offset, body)
