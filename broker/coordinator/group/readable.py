"""Records of `__consumer_offsets` as a person reads them. Pure.

In: key and value as they are stored. Out: a dict of names and values; None for a key of a kind that
is not known here (a later Kafka's). Never: an exception, whatever the bytes.
"""

from __future__ import annotations

import base64
from dataclasses import asdict

from msgspec import structs

from broker.coordinator.group.records import CoordinatorRecord, OffsetRecord, StoredMember, decode
from bus.protocol.wire import ProtocolError


def readable(key: bytes | None, value: bytes | None) -> dict[str, object] | None:
    """What the record says; ``tombstone`` where it removes what was said before."""
    if key is None:
        return None
    try:
        record = decode(key, value)
    except (ProtocolError, UnicodeDecodeError) as error:
        return {"fault": str(error)}
    return None if record is None else _described(record)


def _described(record: CoordinatorRecord) -> dict[str, object]:
    line: dict[str, object] = {"group": record.group_id}
    if isinstance(record, OffsetRecord):
        line |= {"topic": record.topic, "partition": record.partition}
        return line | (_TOMBSTONE if record.value is None else structs.asdict(record.value))
    if record.value is None:
        return line | {"metadata_of_group": True} | _TOMBSTONE
    value = {name: one for name, one in asdict(record.value).items() if name != "members"}
    return line | value | {"members": [_member(one) for one in record.value.members]}


_TOMBSTONE: dict[str, object] = {"tombstone": True}


def _member(member: StoredMember) -> dict[str, object]:
    line = asdict(member)
    for name in ("subscription", "assignment"):
        line[f"{name}_base64"] = base64.b64encode(line.pop(name)).decode()
    return line
