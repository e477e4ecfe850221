"""Groups and their offsets: what Kafka answers to members and administrators."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.conformance.answers.case import Ask, Deviation, ReceiveLate, Step, ask, row
from tests.conformance.answers.steps import led, new_topic

NO_GROUP = "nobody-made-it"


def coordinated() -> Ask:
    """Waits until `{group}` has a coordinator that has read its log."""
    found = ask("FindCoordinator", 3, key="{group}", key_type=0)
    return replace(found, until={"error_code": 0})


def join(instance: str | None = None, member: str = "", *, metadata: bytes = b"m",
         group: str = "{group}", on: str = "main", version: int | None = 5,
         **more: Any) -> Ask:  # fmt: skip
    """JoinGroup with one protocol."""
    fields = {
        "group_id": group, "session_timeout_ms": 30_000, "rebalance_timeout_ms": 5_000,
        "member_id": member, "group_instance_id": instance, "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": metadata}], **more,
    }  # fmt: skip
    return replace(ask("JoinGroup", version, **fields), on=on)


def sync(member: str, *, assignments: dict[str, bytes] | None = None, on: str = "main",
         version: int | None = 3, **more: Any) -> Ask:  # fmt: skip
    """SyncGroup of the generation kept as `generation`."""
    given = [{"member_id": name, "assignment": data} for name, data in (assignments or {}).items()]
    fields = {
        "group_id": "{group}", "generation_id": "{generation}", "member_id": member,
        "assignments": given, **more,
    }  # fmt: skip
    return replace(ask("SyncGroup", version, **fields), on=on)


def heartbeat(member: str, instance: str | None = None, on: str = "main") -> Ask:
    """Heartbeat of the generation kept as `generation`."""
    fields = {
        "group_id": "{group}", "generation_id": "{generation}", "member_id": member,
        "group_instance_id": instance,
    }  # fmt: skip
    return replace(ask("Heartbeat", 3, **fields), on=on)


def kept(step: Ask, **places: str) -> Ask:
    """The step, whose answer's values at these paths get these names."""
    return replace(step, keep=places)


def alone(metadata: bytes = b"m", **more: Any) -> list[Step]:
    """A group of one static member `a`, stable."""
    first = join("a", metadata=metadata, **more)
    return [
        coordinated(),
        replace(first, keep={"a": "member_id", "generation": "generation_id"},
                until={"error_code": 0}),
        sync("{a}", assignments={"{a}": b"A"}),
    ]  # fmt: skip


def two_static() -> list[Step]:
    """A stable group of the static members `a`, the leader, and `b`, on separate connections."""
    return [
        *alone(),
        replace(join("b", on="b"), later=True),
        replace(heartbeat("{a}", "a"), until={"error_code": 27}),
    ]


def rejoined() -> list[Step]:
    """The steps after `two_static`, whose last answer is an error on purpose."""
    return [
        kept(join("a", "{a}"), generation="generation_id"),
        ReceiveLate("b", keep={"b": "member_id"}),
        replace(sync("{a}", assignments={"{a}": b"A", "{b}": b"B"}), on="main"),
        sync("{b}", on="b"),
    ]


def comes_back(who: str, metadata: bytes, version: int) -> list[Deviation]:
    """Restart of a static member: its join and sync, then heartbeats of the other one and of
    itself."""
    other, on = ("b", "b") if who == "a" else ("a", "main")
    how = "as it was" if metadata == b"m" else "with other metadata"
    return row(
        "G1" if who == "a" else "G2",
        f"{'the leader' if who == 'a' else 'a follower'} restarts {how}, v{version}",
        *two_static(), *rejoined(),
        kept(join(who, on="new", metadata=metadata, version=version), new="member_id"),
        sync("{new}", on="new", version=3),
        heartbeat(f"{{{other}}}", other, on),
        heartbeat(f"{{{who}}}", who, "new"),
        heartbeat("{new}", who, "new"),
        may_differ=["order"],
    )  # fmt: skip


def commit(version: int | None, group: str, generation: int, member: str = "m", **part: Any) -> Ask:
    """OffsetCommit of one partition of `{topic}`."""
    partition = {"partition_index": 0, "committed_offset": 5, **part}
    topic = {"name": "{topic}", "topic_id": "{topic_id}", "partitions": [partition]}
    return ask(
        "OffsetCommit", version, group_id=group, generation_id_or_member_epoch=generation,
        member_id=member, topics=[topic],
    )  # fmt: skip


def committed(member: str | None, epoch: int, group: str = "{group}") -> Ask:
    """OffsetFetch that names a member, as KIP-848 consumers do."""
    topic = {"name": "{topic}", "topic_id": "{topic_id}", "partition_indexes": [0, 9]}
    asked = {"group_id": group, "member_id": member, "member_epoch": epoch, "topics": [topic]}
    return ask("OffsetFetch", None, groups=[asked])


def forget(group: str, *indexes: int, topic: str = "{topic}") -> Ask:
    """OffsetDelete."""
    partitions = [{"partition_index": index} for index in indexes]
    return ask(
        "OffsetDelete", 0, group_id=group, topics=[{"name": topic, "partitions": partitions}]
    )


SUBSCRIBED = b"\0\1\0\0\0\1\0\4read\xff\xff\xff\xff\0\0\0\0"
"""A consumer's metadata: it reads the topic `read_topic_totals`."""

ROWS: list[Deviation] = [
    *(one for who in "ab" for metadata in (b"m", b"n") for version in (5, 9)
      for one in comes_back(who, metadata, version)),
    *row("11", "a commit with a generation to a group that is not there",
         commit(None, "{nobody}", 3), given=[coordinated(), new_topic(), led()],
         versions=(2, 7, 8, 9, 10)),
    *row("commit", "commits that are refused", commit(None, "{group}", 9, "{a}"),
         commit(None, "{group}", -1, ""), commit(None, "{group}", 1, "x"),
         commit(None, "{other}", -1, "", partition_index=9),
         commit(None, "{other}", -1, "", committed_metadata="x" * 5000),
         given=[*alone(), new_topic(), led()], versions=(2, 8, 9, 10)),
    *row("commit", "a topic without partitions",
         ask("OffsetCommit", None, group_id="{group}", generation_id_or_member_epoch=-1,
             topics=[{"name": "{topic}", "topic_id": "{topic_id}", "partitions": []}]),
         given=[coordinated(), new_topic(), led()], versions=(2, 9, 10)),
    *row("11", "offsets asked in a member's name", committed("{a}", 1), committed("{a}", 0),
         committed("x", 1), committed(None, 3), committed("x", 1, "{nobody}"),
         given=[*alone(), new_topic(), led()], versions=(9, 10)),
    *row("12", "nobody leaves a group without name",
         ask("LeaveGroup", None, group_id="", members=[]),
         ask("LeaveGroup", None, group_id="", members=[{"member_id": "x"}]),
         given=[coordinated()], versions=(3, 4, 5)),
    *row("12", "offsets of a group without name are deleted", forget("", 0), forget(""),
         given=[coordinated(), new_topic(), led()]),
    *row("12", "offsets of a group with members", forget("{group}", 0, 9), forget("{group}"),
         given=[*alone(), new_topic(), led()], may_differ=["order"]),
    *row("12", "offsets of a topic that members do not read",
         forget("{group}", 0), forget("{group}", 0, topic="read"),
         given=[*alone(SUBSCRIBED), new_topic(), led()]),
    *row("12", "offsets of a group of other members", forget("{group}", 0),
         given=[*alone(protocol_type="connect"), new_topic(), led()]),
    *row("12", "a sync without the protocol's type, or its name",
         sync("{a}", version=5), sync("{a}", version=5, protocol_type="consumer"),
         sync("{a}", version=5, protocol_name="range"), sync("x", version=5),
         sync("{a}", version=5, protocol_type="consumer", protocol_name="range"),
         sync("{a}", version=5, protocol_type="connect", protocol_name="range"),
         sync("{a}", version=5, protocol_type="consumer", protocol_name="odd"), given=alone()),
    *row("12", "what may be done to a group that is not there",
         ask("DescribeGroups", None, groups=[NO_GROUP], include_authorized_operations=True),
         given=[coordinated()], versions=(3, 5, 6)),
    *row("13", "a coordinator is found", ask("FindCoordinator", None, key="{group}", key_type=0),
         given=[coordinated()], versions=(0, 1, 2, 3)),
    *row("13", "coordinators are found",
         ask("FindCoordinator", None, key_type=0, coordinator_keys=["{group}"]),
         given=[coordinated()], versions=(4, 5, 6)),
    *row("13", "a share group's coordinator", ask("FindCoordinator", 3, key="x", key_type=2),
         ask("FindCoordinator", 4, key_type=2, coordinator_keys=["x"]),
         ask("FindCoordinator", 5, key_type=2, coordinator_keys=["x"])),
    *row("13", "a kind of coordinator that does not exist",
         ask("FindCoordinator", 3, key="x", key_type=7),
         ask("FindCoordinator", 6, key_type=7, coordinator_keys=["x"])),
    *row("join", "a group is described while it rebalances",
         *two_static(), ask("DescribeGroups", 5, groups=["{group}"]), *rejoined()[:2],
         ask("DescribeGroups", 5, groups=["{group}"]), *rejoined()[2:],
         ask("DescribeGroups", 5, groups=["{group}"]), may_differ=["order"]),
    *row("4.4", "groups that are deleted or not",
         ask("DeleteGroups", None, groups_names=["{group}", NO_GROUP, ""]),
         given=alone(), versions=(0, 1, 2, 3), may_differ=["order"]),
    *row("join", "an empty instance id is one",
         kept(join(""), generation="generation_id", member="member_id"),
         given=[coordinated()], only=["error_code", "generation_id", "members"]),
]  # fmt: skip
