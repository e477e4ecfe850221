"""Fetch, ListOffsets: what Kafka answers to readers who request something that does not exist."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.conformance.answers.batches import batch, produce, writable
from tests.conformance.answers.case import Ask, Deviation, Step, ask, row
from tests.conformance.answers.steps import new_topic

FETCH_VERSIONS = (4, 7, 11, 12, 13, 18)
LIST_VERSIONS = (1, 4, 7, 11)
NOT_THERE = {"topic": "nobody-made-it", "topic_id": b"\7" * 16}
READY = (new_topic(), writable(), produce(9, batch(3)))


def fetch(partitions: list[dict[str, Any]], *, isolation_level: int = 0, **topic: Any) -> Ask:
    """One topic's partitions, without waiting and without a session."""
    named = {"topic": "{topic}", "topic_id": "{topic_id}", "partitions": partitions, **topic}
    return ask(
        "Fetch", None, replica_id=-1, max_bytes=1 << 20, session_epoch=-1, topics=[named],
        isolation_level=isolation_level,
    )  # fmt: skip


def part(index: int = 0, offset: int = 0, **more: int) -> dict[str, int]:
    """One partition of a fetch."""
    return {
        "partition": index, "fetch_offset": offset, "partition_max_bytes": 1 << 20,
        "current_leader_epoch": -1, "last_fetched_epoch": -1, "log_start_offset": -1, **more,
    }  # fmt: skip


def place(index: int = 0, timestamp: int = -1, epoch: int = -1) -> dict[str, int]:
    """One partition of ListOffsets."""
    return {"partition_index": index, "timestamp": timestamp, "current_leader_epoch": epoch}


def offsets(*topics: tuple[str, list[dict[str, int]]], isolation_level: int = 0) -> Ask:
    """ListOffsets of a consumer."""
    return ask(
        "ListOffsets", None, replica_id=-1, isolation_level=isolation_level,
        topics=[{"name": name, "partitions": partitions} for name, partitions in topics],
    )  # fmt: skip


def fetched(id: str, name: str, *steps: Step) -> list[Deviation]:
    """Fetches of a topic with three records; the records themselves are not compared."""
    return row(id, name, *steps, given=READY, versions=FETCH_VERSIONS, may_differ=["records"])


def listed(id: str, name: str, *steps: Step) -> list[Deviation]:
    """ListOffsets requests for a topic with three records."""
    return row(id, name, *steps, given=READY, versions=LIST_VERSIONS, may_differ=["times", "order"])


ROWS: list[Deviation] = [
    *fetched("10", "a topic that is not there", fetch([part()], **NOT_THERE)),
    *fetched("10", "a partition that is not there", fetch([part(9)]), fetch([part(-1)])),
    *fetched("10", "beyond the end", fetch([part(offset=9)]), fetch([part(offset=-5)])),
    *fetched("10", "another leader epoch", fetch([part(current_leader_epoch=7)]),
             fetch([part(current_leader_epoch=0)])),
    *fetched("fetch", "an isolation level that does not exist",
             fetch([part()], isolation_level=7)),
    *fetched("fetch", "an isolation level that does not exist, of what is not there",
             fetch([], isolation_level=7), fetch([part(9), part()], isolation_level=-1),
             fetch([part()], isolation_level=7, **NOT_THERE),
             replace(fetch([part()], isolation_level=2), fields={
                 **fetch([part()], isolation_level=2).fields, "topics": []})),
    *(one for version in (12, 13, 18) for one in row(
        "fetch", f"for another cluster, v{version}",
        *(replace(made, version=version, fields={**made.fields, "cluster_id": "another"})
          for made in (fetch([part()]), fetch([part(9)]), fetch([]))),
        given=READY, may_differ=["records"])),
    *fetched("fetch", "read_committed", fetch([part()], isolation_level=1)),
    *(one for version in (12, 13, 18) for one in row(
        "fetch", f"where a reader's log and the leader's part, v{version}",
        *(replace(fetch([part(offset=offset, last_fetched_epoch=epoch)]), version=version)
          for offset, epoch in ((3, 0), (3, 7), (5, 0))), given=READY, may_differ=["records"])),
    *fetched("fetch", "nothing", fetch([])),
    *fetched("fetch", "at the end", fetch([part(offset=3)])),
    *listed("9", "a partition twice", offsets(("{topic}", [place(), place()]))),
    *listed("9", "a partition twice, two questions",
            offsets(("{topic}", [place(), place(timestamp=-2)]))),
    *listed("9", "a topic twice", offsets(("{topic}", [place()]), ("{topic}", [place()]))),
    *listed("9", "one twice, one that is not there",
            offsets(("{topic}", [place(), place(9), place()]))),
    *listed("list offsets", "nothing of a topic", offsets(("{topic}", []))),
    *listed("list offsets", "an isolation level that does not exist",
            offsets(("{topic}", [place()]), isolation_level=7)),
    *listed("list offsets", "places", *(offsets(("{topic}", [place(timestamp=at)]))
                                        for at in (-1, -2, -3, -4, -5, -6, -7))),
    *listed("list offsets", "another leader epoch", offsets(("{topic}", [place(epoch=7)]))),
    *listed("list offsets", "not there", offsets(("{topic}", [place(9), place(-1)])),
            offsets(("nobody-made-it", [place()])), offsets(("", [place()])),
            offsets(("bad name", [place()]))),
]  # fmt: skip
