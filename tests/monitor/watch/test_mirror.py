"""Replicas at the second site that differ from the first."""

from __future__ import annotations

import random
from zoneinfo import ZoneInfo

import msgspec
import pytest

from bus.contracts.mirror_status import (
    MirrorReport,
    MirrorStatus,
    PartitionStatus,
    PictureStatus,
    ProofStatus,
    ReplicaDifference,
    TopicStatus,
)
from monitor.watch.judge import WatchBounds, WatchJudge
from monitor.watch.mirror import ANOTHER_LOG, MAX_KNOWN, MAX_RANGES, MirrorJudge

START_MS = 1_790_000_000_000


def differing(*offsets: int, broker: int = 2, topic: str = "data.face") -> list[ReplicaDifference]:
    return [
        ReplicaDifference(
            topic=topic, partition=0, broker=broker, directory="/disk2", first_offset=at,
            end_offset=at + 10, found_ms=START_MS, detail="the batch differs",
        )
        for at in offsets
    ]  # fmt: skip


def shown(*found: ReplicaDifference) -> MirrorReport:
    status = MirrorStatus(
        at_ms=START_MS, source_cluster_id="a", target_cluster_id="b", generation=1, unreachable="",
        buffered_bytes=0, rpo_s=0.0, topics=(), partitions=(), groups_not_copied={}, proof=ProofStatus(differences=found),
    )  # fmt: skip
    return MirrorReport(status=status, states=(), curve=())


def test_a_replica_that_differs_is_one_incident_with_broker_directory_and_offsets_until_it_is_repaired() -> (
    None
):
    """It opens at once and ends with the comparison that finds it well."""
    judge, at_ms = WatchJudge(START_MS, ZoneInfo("Asia/Shanghai"), WatchBounds()), START_MS
    changes = []
    for second in range(40):
        at_ms += 1_000
        judge.on_mirror(shown(*differing(40, 90)) if second < 20 else shown())
        changes += judge.tick(at_ms)
    opened, closed = changes
    assert (opened.kind, opened.state, opened.severity) == ("differs", "open", "critical")
    assert opened.detail["subject"] == "data.face-0 broker 2"
    assert (opened.detail["directory"], opened.detail["offsets"]) == ("/disk2", "40-49, 90-99")
    assert (closed.state, closed.incident_id) == ("closed", opened.incident_id)


def test_pictures_that_are_not_what_was_copied_are_one_condition_with_their_names() -> None:
    judge = MirrorJudge()
    whole = shown()
    altered = PictureStatus(policy="all", differing=("20261010/c/r-vehicle.jpg",), other=("20261010/c/x.jpg",))
    status = msgspec.structs.replace(whole.status, pictures=altered)
    (told,) = judge.observe(msgspec.structs.replace(whole, status=status))
    assert (told.kind, told.subject, told.is_bad) == ("differs", "pictures", True)
    assert told.detail["names"] == "20261010/c/r-vehicle.jpg, 20261010/c/x.jpg"
    (ended,) = judge.observe(whole)
    assert (ended.subject, ended.is_bad) == ("pictures", False)


@pytest.mark.parametrize("state", sorted(ANOTHER_LOG))
@pytest.mark.parametrize("of_topic", [True, False])
def test_a_topic_of_which_both_sites_hold_another_log_is_an_incident_that_names_the_command(
    state: str, of_topic: bool
) -> None:
    """A topic that was deleted and made anew at the source: nobody was told, the mirror stood."""
    judge, at_ms = WatchJudge(START_MS, ZoneInfo("Asia/Shanghai"), WatchBounds()), START_MS
    topics = [TopicStatus(topic="data.face", state="copying", detail="")]
    partitions: list[PartitionStatus] = []
    if of_topic:
        topics.append(TopicStatus(topic="data.vehicle", state=state, detail="topic id 01 was"))
    else:
        partitions.append(PartitionStatus(
            topic="data.vehicle", partition=3, state=state, detail="topic id 01 was",
            lag_records=-1, lag_bytes=0, lag_s=-1.0, missing=0, source_end=0, target_end=0,
                copied_records=0, copied_bytes=0,
        ))  # fmt: skip
    well = shown()
    status = msgspec.structs.replace(
        well.status, topics=tuple(topics), partitions=tuple(partitions)
    )
    changes = []
    for second in range(40):
        at_ms += 1_000
        judge.on_mirror(msgspec.structs.replace(well, status=status) if second < 20 else well)
        changes += judge.tick(at_ms)
        assert len(changes) > 0, "it opens at once"
    opened, closed = changes
    assert (opened.kind, opened.detail["subject"]) == ("differs", "data.vehicle")
    assert "topic id 01 was" in opened.detail["why"]
    assert opened.detail["remedy"] == "databus mirror copy-anew data.vehicle"
    assert (closed.state, closed.incident_id) == ("closed", opened.incident_id)


def test_what_is_told_and_remembered_is_bounded(dice: random.Random) -> None:
    """A lost disk differs everywhere."""
    judge = MirrorJudge()
    many = [one for n in range(3 * MAX_KNOWN) for one in differing(n, topic=f"data.{n}")]
    dice.shuffle(many)
    assert len(judge.observe(shown(*many))) == MAX_KNOWN
    assert len(judge.observe(shown())) == MAX_KNOWN
    [condition, *_] = judge.observe(shown(*differing(*range(0, 1_000, 20))))
    assert condition.detail["offsets"].endswith(f"+{50 - MAX_RANGES}")
    assert judge.observe(None) == []
