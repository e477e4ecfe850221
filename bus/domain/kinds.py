"""The kinds of data on the bus: one table, which every package reads.

A new kind of data is a row here, its keys and its schema in `bus.contracts`, what makes it valid in
`ingest.normalise`, and its page for vendors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bus.contracts import keys, topics
from bus.contracts.headers import RecordKind


@dataclass(frozen=True, slots=True)
class DataKind:
    """One kind of message that devices send.

    `keys` maps the keys of the wire to English attributes. Valid records are stored under one of
    `stored_as`. `has_rules`: the watch list may name its attributes.
    """

    name: str
    topic: str
    keys: Mapping[str, str]
    stored_as: tuple[str, ...]
    has_rules: bool = False


_ALL = (
    DataKind(
        "vehicle", topics.DATA_VEHICLE, keys.VEHICLE, (RecordKind.VEHICLE.value,), has_rules=True
    ),
    DataKind("face", topics.DATA_FACE, keys.FACE, (RecordKind.FACE.value,), has_rules=True),
    DataKind(
        "video", topics.DATA_VIDEO, keys.VIDEO, (RecordKind.PERSON.value, RecordKind.MOVER.value)
    ),
)

KINDS: dict[str, DataKind] = {kind.name: kind for kind in _ALL}
KIND_OF_TOPIC: dict[str, str] = {kind.topic: kind.name for kind in _ALL}
TOPIC_OF_KIND: dict[str, str] = {kind.name: kind.topic for kind in _ALL}
KEYS_OF_KIND: dict[str, Mapping[str, str]] = {kind.name: kind.keys for kind in _ALL}
# Kind -> English attribute -> wire key, of the kinds that the watch list matches.
WIRE_KEYS: dict[str, dict[str, str]] = {
    kind.name: {attribute: key for key, attribute in kind.keys.items()}
    for kind in _ALL
    if kind.has_rules
}
