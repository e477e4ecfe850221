"""The kinds of data on the bus: one table, which every package reads.

A new kind of data is a row here, its topic and keys (and its place among the rules, if the watch
list may look for it) in `bus.contracts`, and its pages: the words of the console and the page for
vendors. What is valid of it beyond place and time is a function in `ingest.normalise`. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import get_args

from bus.contracts import keys, topics
from bus.contracts.commands import MatchedKind
from bus.contracts.headers import RecordKind


@dataclass(frozen=True, slots=True)
class DataKind:
    """One kind of message that devices send.

    `keys` maps the keys of the wire to English attributes. Valid records are stored under one of
    `stored_as`. `has_plate`: records are partitioned by their plate, else by their device.
    `is_live`: sent as things happen, so that its latency says something.
    """

    name: str
    topic: str
    keys: Mapping[str, str]
    stored_as: tuple[str, ...]
    has_plate: bool = False
    is_live: bool = True

    @property
    def has_rules(self) -> bool:
        """Whether the watch list may name its attributes."""
        return self.name in get_args(MatchedKind)


_ALL = (
    DataKind(
        "vehicle", topics.DATA_VEHICLE, keys.VEHICLE, (RecordKind.VEHICLE.value,), has_plate=True
    ),
    DataKind("face", topics.DATA_FACE, keys.FACE, (RecordKind.FACE.value,)),
    DataKind(
        "video", topics.DATA_VIDEO, keys.VIDEO,
        (RecordKind.PERSON.value, RecordKind.MOVER.value), is_live=False,
    ),
)  # fmt: skip

KINDS: dict[str, DataKind] = {kind.name: kind for kind in _ALL}
COMMON_KIND = _ALL[0].name
"""What most records are, and what one is taken for that says nothing of itself."""
KIND_OF_TOPIC: dict[str, str] = {kind.topic: kind.name for kind in _ALL}
TOPIC_OF_KIND: dict[str, str] = {kind.name: kind.topic for kind in _ALL}
KEYS_OF_KIND: dict[str, Mapping[str, str]] = {kind.name: kind.keys for kind in _ALL}
KIND_AS_STORED: dict[str, str] = {
    stored: kind.name for kind in _ALL for stored in kind.stored_as
}
KEYS_AS_STORED: dict[str, Mapping[str, str]] = {
    stored: kind.keys for kind in _ALL for stored in kind.stored_as
}
STORED_WITH_PLATE = frozenset(
    stored for kind in _ALL if kind.has_plate for stored in kind.stored_as
)
WIRE_KEYS: dict[str, dict[str, str]] = {
    kind.name: {attribute: key for key, attribute in kind.keys.items()}
    for kind in _ALL
    if kind.has_rules
}
"""Kind -> English attribute -> wire key, of the kinds that the watch list matches."""
MATCHED_TOPICS = tuple(TOPIC_OF_KIND[kind] for kind in WIRE_KEYS)


def _own_keys(kind: DataKind) -> frozenset[str]:
    """The keys that no other kind has, and the pictures inside a record that become one of them."""
    others = {key for other in _ALL if other is not kind for key in other.keys}
    own = kind.keys.keys() - others
    inline = {key for key, address in keys.INLINE_PICTURES.items() if address in own}
    return frozenset(own | inline)


_OWN_KEYS = {kind.name: _own_keys(kind) for kind in _ALL}


def guess_kind(names: Iterable[str]) -> str:
    """What a message with these keys seems to be: the kind of whose own keys it has most."""
    found = frozenset(names)
    return max(_OWN_KEYS, key=lambda kind: len(found & _OWN_KEYS[kind]))
