"""`state.lists` read once, by who keeps nothing of it: command line, importer, backup, workers.

In: the bus. Out: what the topic says, with the lines that are wanted. Never: a wait without a
limit.
"""

from __future__ import annotations

from collections.abc import Iterator

from alarm.lists.stored_lists import ListBase, StoredLists
from bus.client.kafka.compacted_topic import CatchUpTimeout, CompactedTopic
from bus.client.kafka.config import FOLLOWS_LEADERS
from bus.client.kafka.topic_reader import CATCH_UP_TIMEOUT_S
from bus.client.wire.partition_leaders import PartitionLeaders
from bus.contracts.plate_lists import FaceLine, ListLine, ListRecord
from bus.contracts.topics import STATE_LISTS
from bus.settings import BusSettings

__all__ = ["CatchUpTimeout", "base_faces", "base_lines", "read_lists"]


def read_lists(
    bus: BusSettings,
    client_id: str,
    wanted: frozenset[ListBase] | None = frozenset(),
    timeout_s: float = CATCH_UP_TIMEOUT_S,
) -> StoredLists:
    """The topic as it stands, read once, with the lines of `wanted`; None: of all. Raises
    `CatchUpTimeout`, BusError."""
    with CompactedTopic(
        bus, STATE_LISTS, lambda: StoredLists(wanted), client_id=client_id,
        leaders=PartitionLeaders(bus, f"{client_id}-ends"), overrides=FOLLOWS_LEADERS,
        timeout_s=timeout_s,
    ) as topic:  # fmt: skip
        topic.catch_up()
        return topic.state


def base_lines(
    bus: BusSettings, client_id: str, record: ListRecord, timeout_s: float = CATCH_UP_TIMEOUT_S
) -> Iterator[ListLine]:
    """The lines of a list's base, from the topic. Raises `CatchUpTimeout`, BusError, and as they
    are taken `ListChunkError`."""
    wanted = frozenset([ListBase(record.list_id, record.base)])
    return read_lists(bus, client_id, wanted, timeout_s).base_lines(record)


def base_faces(
    bus: BusSettings, client_id: str, record: ListRecord, timeout_s: float = CATCH_UP_TIMEOUT_S
) -> Iterator[FaceLine]:
    """The faces of a gallery's base, as `base_lines`."""
    wanted = frozenset([ListBase(record.list_id, record.base)])
    return read_lists(bus, client_id, wanted, timeout_s).base_faces(record)
