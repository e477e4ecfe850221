"""Which committed offsets still mean something. Pure.

The metadata of an offset is the id of the topic it was taken on. An empty one is what a tool writes
(`--reset-offsets`) and counts as said; another id is void: the topic was created again.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from bus.client.followed_topics import UnreadRecords
from bus.client.model import OffsetAndMetadata, TopicAndPartition, TopicPartition
from bus.contracts.alarms import Incident


def valid_offsets(
    committed: Mapping[TopicPartition, OffsetAndMetadata], topic_ids: Mapping[str, str]
) -> tuple[dict[TopicAndPartition, int], list[TopicAndPartition]]:
    """Offsets that still mean something, and the partitions of those that are void."""
    valid: dict[TopicAndPartition, int] = {}
    void: list[TopicAndPartition] = []
    for place, found in committed.items():
        if found.metadata in ("", topic_ids.get(place.topic)):
            valid[place] = found.offset
        else:
            void.append(place)
    return valid, sorted(void)


def unread_records(
    application: str, topic: str, topic_id: str, unread: UnreadRecords, now_ms: int
) -> list[Incident]:
    """Beginning and end at once: a topic was made anew under a reader that goes on with the new one
    (of this id). Nothing where everything was read. The id is that of `void_position`: one loss is
    told once, by whom it may be."""
    count = sum(unread.counts.values())
    if not count and unread.is_all:
        return []
    detail = {"lost": str(count), "topics": topic}
    if not unread.is_all:
        detail["end_unseen"] = topic
    return _at_once(application, topic, topic_id, detail, now_ms)


def void_position(application: str, topic: str, topic_id: str, now_ms: int) -> list[Incident]:
    """Beginning and end at once, the same for every process: the position of an application is
    void, because its topic was made anew. How much of the old one it had not read nobody knows."""
    return _at_once(application, topic, topic_id, {"replaced": topic}, now_ms)


def _at_once(
    application: str, topic: str, topic_id: str, detail: Mapping[str, str], now_ms: int
) -> list[Incident]:
    opened = Incident(
        incident_id=f"lost:{application}:{topic}:{topic_id}", kind="lost", state="open",
        opened_at_ms=now_ms, severity="critical",
        detail={"subject": application, "stage": application, **detail},
    )  # fmt: skip
    return [opened, msgspec.structs.replace(opened, state="closed", closed_at_ms=now_ms)]
