"""The lists of plates in force, with their lines: read from their topic for a backup, and put back
on a topic that lacks them.

A list whose id the topic knows, also as ended, is left as it is there. Sent twice they change
nothing: a list's chunks and its record are what they were, the record last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from alarm.lists.lists_topic import read_lists
from alarm.lists.stored_lists import StoredLists
from bus.client.kafka.compacted_topic import CatchUpTimeout, TopicMissing
from bus.client.kafka.send_all import send_all
from bus.client.model import KeyedValue
from bus.contracts.headers import SCHEMA, SITE
from bus.contracts.plate_lists import ListRecord, named_keys
from bus.contracts.topics import STATE_LISTS, TOPICS
from bus.contracts.version_floor import FLOOR_KEY
from bus.domain.list_chunks import ListChunkError
from bus.errors import BusError, ErrorCode
from deploy.settings.composed import Settings

LISTS = "lists.json"
CLIENT_ID = "databus-backup"
READ_S = 30.0
SEND_S = 120.0


class SavedList(msgspec.Struct, frozen=True, kw_only=True):
    """A list in force, or the version floor. `chunks`: by key, as they stand on the topic."""

    record: ListRecord
    chunks: dict[str, bytes] = {}


def read_saved_lists(settings: Settings) -> list[SavedList]:
    """Those in force, and the floor last. Raises BusError."""
    try:
        stored = read_lists(settings.bus, CLIENT_ID, wanted=None, timeout_s=READ_S)
        found = [
            SavedList(record=one, chunks=stored.named_values(one))
            for _, one in sorted(stored.in_force.items())
        ]
    except TopicMissing:
        return []
    except (CatchUpTimeout, ListChunkError) as error:
        raise BusError(ErrorCode.REQUEST_TIMED_OUT, f"{STATE_LISTS}: {error}") from error
    floor = stored.versions.floor
    if floor >= 0:
        found.append(
            SavedList(record=ListRecord(list_id=FLOOR_KEY, op="floor", version=floor))
        )
    return found


def encode_lists(lists: list[SavedList]) -> bytes:
    """As it lies in the file."""
    return msgspec.json.encode(lists)


def put_lists(settings: Settings, data: bytes) -> int:
    """What the topic lacks; how many lists. Raises BusError, `CatchUpTimeout`, and
    `msgspec.DecodeError` for a file that is none."""
    wanted = msgspec.json.decode(data, type=list[SavedList])
    stored = read_lists(settings.bus, CLIENT_ID, timeout_s=READ_S)
    missing = _lacking(wanted, stored)
    send_all(
        settings.bus, CLIENT_ID, STATE_LISTS, _records(missing),
        headers=[(SCHEMA, TOPICS[STATE_LISTS].schema), (SITE, settings.site.name)],
        timeout_s=SEND_S, what="records of lists",
    )  # fmt: skip
    return len(missing)


def _lacking(wanted: Iterable[SavedList], stored: StoredLists) -> list[SavedList]:
    """What the topic does not know, the floor last; at or below its own floor it knows all."""
    floor = stored.versions.floor
    found = [
        one for one in wanted
        if one.record.list_id not in stored.versions and one.record.version > floor
    ]  # fmt: skip
    return sorted(found, key=lambda one: one.record.op == "floor")


def _records(lists: Iterable[SavedList]) -> Iterator[KeyedValue]:
    for one in lists:
        for key in named_keys(one.record):
            if key in one.chunks:
                yield KeyedValue(key.encode(), one.chunks[key])
        key = FLOOR_KEY if one.record.op == "floor" else one.record.list_id
        yield KeyedValue(key.encode(), msgspec.json.encode(one.record))
