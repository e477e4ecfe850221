"""All logs of a broker: directories, identity, start and stop, deletion, checkpoints."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.clock.real import RealClock
from broker.config.views import BrokerConfig, TopicConfig
from broker.disk.port import DirectoryLocked
from broker.disk.real import RealDisk
from broker.log.errors import LogError
from broker.log.log import Log
from broker.log.log_dir_files import (
    KRAFT_VERSION,
    ZOOKEEPER_VERSION,
    WrongDirectory,
    decode_uuid,
    encode_uuid,
)
from broker.log.manager import LogManager
from bus.errors import ErrorCode
from bus.records.build import build_batch
from bus.records.record import Record

NOW_MS = 1_760_000_000_000
ID = bytes(range(16))
Batch = Callable[..., bytearray]


def manager(directory: str, **settings: str) -> LogManager:
    config = BrokerConfig.from_mapping(
        {"log.dirs": f"{directory}/a,{directory}/b", "node.id": "1"} | _dotted(settings)
    )
    return LogManager(config=config, disk=RealDisk(), clock=RealClock())


def _dotted(settings: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "."): value for name, value in settings.items()}


def start(directory: str, cluster_id: str | None = None, **settings: str) -> LogManager:
    logs = manager(directory, **settings)
    logs.prepare(cluster_id)
    logs.load(lambda topic: TopicConfig.of(logs.config, {}))
    return logs


def put(log: Log, data: bytearray) -> None:
    log.append(data, leader_epoch=0, now_ms=NOW_MS)


def stop(logs: LogManager, epoch: int = 7) -> None:
    asyncio.run(logs.stop(epoch))


def crash(logs: LogManager) -> None:
    """The process dies: locks go, nothing is written."""
    for lock in logs.dirs._locks:
        lock.release()


def test_new_directories_get_one_cluster_id_and_an_id_each(fast_dir: str) -> None:
    logs = start(fast_dir)
    properties = [Path(f"{fast_dir}/{d}/meta.properties").read_text() for d in "ab"]
    assert all(
        f"cluster.id={logs.cluster_id}" in text and "version=1" in text for text in properties
    )
    assert all("node.id=1" in text for text in properties)
    assert len(set(logs.directory_ids.values())) == 2
    stop(logs)
    again = start(fast_dir)
    assert again.cluster_id == logs.cluster_id
    assert again.directory_ids == logs.directory_ids
    stop(again)


def test_the_directory_of_another_cluster_or_node_is_refused_and_left_as_it_is(
    fast_dir: str,
) -> None:
    stop(start(fast_dir, "cluster-one"))
    before = Path(f"{fast_dir}/a/meta.properties").read_bytes()
    for wrong, settings in (("cluster-two", {}), (None, {"node_id": "2"})):
        logs = manager(fast_dir, **settings)
        with pytest.raises(WrongDirectory, match="nothing was changed"):
            logs.prepare(wrong)
        crash(logs)
    Path(f"{fast_dir}/a/meta.properties").write_text("version=1\n")
    with pytest.raises(WrongDirectory, match="damaged"):
        manager(fast_dir).prepare()
    Path(f"{fast_dir}/a/meta.properties").write_bytes(before)


def test_a_cordoned_directory_gets_nothing_new_unless_all_are(fast_dir: str) -> None:
    """A replica assigned before the controller knew must be stored somewhere."""
    logs = start(fast_dir)
    for cordoned, wanted in ((f"{fast_dir}/a", "b"), ("*", "a")):
        logs.config = logs.config.with_dynamic({}, {"cordoned.log.dirs": cordoned})
        made = [logs.create(f"to-{wanted}", index, ID, TopicConfig()) for index in range(4)]
        assert {Path(log.directory).parent.name for log in made} == {wanted}
    stop(logs)


KAFKAS = "#\n#Sun Nov 22 02:40:11 UTC 2026\nbroker.id=1\nversion=0\ncluster.id=cluster-one\n"
"""As a broker of Kafka 3.9 in ZooKeeper mode leaves it."""


def test_the_directory_of_a_broker_in_zookeeper_mode_is_taken_over_and_stays_its_own(
    fast_dir: str,
) -> None:
    """It gets a directory id, which Kafka understands in this version too."""
    path = Path(f"{fast_dir}/a/meta.properties")
    path.parent.mkdir()
    path.write_text(KAFKAS)
    logs = manager(fast_dir)
    logs.prepare("cluster-one", version=ZOOKEEPER_VERSION)
    crash(logs)
    for directory in "ab":
        text = Path(f"{fast_dir}/{directory}/meta.properties").read_text()
        assert "version=0\n" in text
        assert "broker.id=1\n" in text
        assert "cluster.id=cluster-one\n" in text
        assert "directory.id=" in text
        assert "node.id" not in text


def test_the_directory_of_another_broker_in_zookeeper_mode_is_refused(fast_dir: str) -> None:
    """Another cluster, another id, or a node of KRaft: each with its remedy, nothing changed."""
    path = Path(f"{fast_dir}/a/meta.properties")
    path.parent.mkdir()
    for text, version, remedy in (
        (KAFKAS.replace("one", "two"), ZOOKEEPER_VERSION, "name the right log.dirs"),
        (KAFKAS.replace("id=1", "id=7"), ZOOKEEPER_VERSION, "set broker.id or name"),
        (KAFKAS, KRAFT_VERSION, "databus broker migrate"),
        ("version=2\nnode.id=1\ncluster.id=cluster-one\n", KRAFT_VERSION, "damaged"),
        ("version=0\ncluster.id=cluster-one\n", ZOOKEEPER_VERSION, "damaged"),
    ):
        path.write_text(text)
        logs = manager(fast_dir)
        with pytest.raises(WrongDirectory, match=remedy):
            logs.prepare("cluster-one", version=version)
        crash(logs)
        assert path.read_text() == text


def test_a_directory_in_use_is_refused_with_the_remedy(fast_dir: str) -> None:
    logs = start(fast_dir)
    with pytest.raises(DirectoryLocked, match="in use by another broker"):
        manager(fast_dir).prepare()
    stop(logs)


def test_logs_come_back_after_a_clean_stop_and_the_mark_is_gone_while_running(
    fast_dir: str, batch: Batch
) -> None:
    logs = start(fast_dir)
    put(logs.create("camera.one", 3, ID, TopicConfig()), batch(5))
    stop(logs, epoch=42)
    mark = Path(f"{fast_dir}/a/.kafka_cleanshutdown")
    assert json.loads(mark.read_text()) == {"version": 0, "brokerEpoch": 42}
    again = start(fast_dir)
    assert not mark.exists()
    assert (again.was_clean, again.broker_epoch_at_shutdown) == (True, 42)
    log = again.get("camera.one", 3)
    assert log is not None
    assert (log.end_offset, log.topic_id, log.recovery_point) == (5, ID, 5)
    crash(again)
    third = start(fast_dir)
    assert not third.was_clean
    found = third.get("camera.one", 3)
    assert found is not None
    assert found.end_offset == 5
    stop(third)


def test_partitions_are_spread_over_the_directories_and_named_with_their_topic_id(
    fast_dir: str,
) -> None:
    logs = start(fast_dir)
    for index in range(4):
        logs.create("t", index, ID, TopicConfig())
    assert sorted(len([n for n in os.listdir(f"{fast_dir}/{d}") if n.startswith("t-")])
                  for d in "ab") == [2, 2]  # fmt: skip
    text = next(Path(fast_dir).glob("*/t-0/partition.metadata")).read_text()
    assert text == f"version: 0\ntopic_id: {encode_uuid(ID)}\n"
    with pytest.raises(LogError) as caught:
        logs.create("t", 0, bytes(16), TopicConfig())
    assert caught.value.code is ErrorCode.INCONSISTENT_TOPIC_ID
    stop(logs)


def test_a_deleted_log_is_put_aside_at_once_and_removed_after_its_delay(
    fast_dir: str, batch: Batch
) -> None:
    async def story() -> None:
        logs = manager(fast_dir)
        logs.prepare()
        logs.load(lambda topic: TopicConfig())
        logs.start()
        put(logs.create("t", 0, ID, TopicConfig(file_delete_delay_ms=20)), batch(1))
        logs.delete("t", 0)
        assert logs.get("t", 0) is None
        fresh = logs.create("t", 0, bytes(reversed(ID)), TopicConfig())
        assert fresh.end_offset == 0
        for _ in range(500):
            if not list(Path(fast_dir).glob("*/*-delete")):
                break
            await asyncio.sleep(0.01)
        assert not list(Path(fast_dir).glob("*/*-delete"))
        await logs.stop()

    asyncio.run(story())


def test_what_a_crash_left_of_a_deletion_is_removed_at_the_next_start(fast_dir: str) -> None:
    logs = start(fast_dir)
    logs.create("t", 0, ID, TopicConfig())
    logs.delete("t", 0)
    crash(logs)

    async def story() -> None:
        again = start(fast_dir)
        again.start()
        for _ in range(500):
            if not list(Path(fast_dir).glob("*/*-delete")):
                break
            await asyncio.sleep(0.01)
        assert not list(Path(fast_dir).glob("*/*-delete"))
        assert again.get("t", 0) is None
        await again.stop()

    asyncio.run(story())


def test_a_log_that_ends_before_its_stored_recovery_point_waits_for_that_to_be_gone(
    fast_dir: str, batch: Batch
) -> None:
    """Found by the simulation: a process cut a log and died before it had written that down. The
    next one appended; after a loss of power the old point covered what was never flushed."""
    logs = start(fast_dir)
    log = logs.create("t", 0, ID, TopicConfig())
    for _ in range(3):
        put(log, batch(2))
    log.flush()
    logs.checkpoints.write_recovery_points()
    points = Path(f"{log.directory}/../recovery-point-offset-checkpoint")
    assert points.read_text() == "0\n1\nt 0 6\n"
    log.begin_truncate_to(2, NOW_MS)
    crash(logs)

    async def story() -> None:
        again = start(fast_dir)
        found = again.get("t", 0)
        assert found is not None
        again.start()
        with pytest.raises(LogError) as refused:
            put(found, batch(1))
        assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        for _ in range(500):
            if not found.guard.is_blocked:
                break
            await asyncio.sleep(0.01)
        assert points.read_text() == "0\n1\nt 0 2\n"
        put(found, batch(1))
        await again.stop()

    asyncio.run(story())


def test_the_metadata_log_and_strange_names_are_left_alone(fast_dir: str) -> None:
    for name in ("__cluster_metadata-0", "notes", "t-x", "-3"):
        os.makedirs(f"{fast_dir}/a/{name}")
    logs = start(fast_dir)
    assert logs.logs() == []
    stop(logs)


def test_dirty_logs_are_flushed_in_the_background_and_their_points_written(
    fast_dir: str, batch: Batch
) -> None:
    async def story() -> None:
        logs = start(fast_dir)
        log = logs.create("t", 0, ID, TopicConfig())
        put(log, batch(3))
        assert log.recovery_point == 0
        await logs._maintenance.flush_and_checkpoint()
        assert log.recovery_point == 3
        text = next(Path(fast_dir).glob("*/recovery-point-offset-checkpoint")).read_text()
        assert text.splitlines()[0] == "0"
        found = "".join(p.read_text() for p in Path(fast_dir).glob("*/recovery-point-offset-*"))
        assert "t 0 3" in found
        await logs.stop()

    asyncio.run(story())


def test_flush_ms_and_flush_messages_are_honoured(fast_dir: str, batch: Batch) -> None:
    async def story() -> None:
        logs = start(fast_dir)
        logs.start()
        every = logs.create("every", 0, ID, TopicConfig(flush_messages=2))
        put(every, batch(1))
        assert every.recovery_point == 0
        put(every, batch(1))
        assert (every.needs_flush, every.acknowledgeable_end_offset) == (True, 1)
        await logs.flush_soon(every)
        assert every.recovery_point == 2
        assert (every.needs_flush, every.acknowledgeable_end_offset) == (False, 2)
        timed = logs.create("timed", 0, bytes(16), TopicConfig(flush_ms=1))
        put(timed, batch(1))
        for _ in range(500):
            if timed.recovery_point == 1:
                break
            await asyncio.sleep(0.01)
        assert timed.recovery_point == 1
        await logs.stop()

    asyncio.run(story())


def test_retention_runs_over_all_logs_and_remembers_their_starts(
    fast_dir: str, batch: Batch
) -> None:
    async def story() -> None:
        logs = start(fast_dir)
        log = logs.create("t", 0, ID, TopicConfig(retention_ms=1000, file_delete_delay_ms=0))
        put(log, batch(4, timestamp_ms=5))
        log.advance_high_watermark(4)
        await logs._maintenance.delete_old_segments()
        assert log.log_start_offset == 4
        await logs.stop()

    asyncio.run(story())
    again = start(fast_dir)
    found = again.get("t", 0)
    assert found is not None
    assert (found.log_start_offset, found.end_offset) == (4, 4)
    stop(again)


def test_logs_the_metadata_does_not_know_are_named(fast_dir: str) -> None:
    logs = start(fast_dir)
    logs.create("known", 0, ID, TopicConfig())
    logs.create("gone", 0, bytes(16), TopicConfig())
    assert [p.topic for p in logs.unknown_logs(lambda topic, index, topic_id: topic == "known")] == [
        "gone"
    ]
    stop(logs)


def test_uuids_are_printed_as_kafka_prints_them() -> None:
    assert encode_uuid(bytes(16)) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert decode_uuid(encode_uuid(ID)) == ID
    for bad in ("", "AAAA", "*" * 22):
        with pytest.raises(ValueError, match="no UUID"):
            decode_uuid(bad)


def test_the_last_partition_of_a_deletion_writes_the_checkpoints_even_if_it_was_not_here(
    fast_dir: str, batch: Batch
) -> None:
    """A recovery point of a deleted log would cover unflushed records of the next of its
    name; the last partition of a topic may not have been made yet when the topic goes."""
    logs = start(fast_dir)
    put(logs.create("t", 0, ID, TopicConfig()), batch())
    for log in logs.logs():
        log.flush()
    logs.checkpoints.write_recovery_points()
    logs.delete("t", 0, is_last=False)
    logs.delete("t", 1, is_last=True)
    points = [path.read_text() for path in Path(fast_dir).glob("*/recovery-point-*")]
    assert points
    assert not any("t 0" in text for text in points)
    stop(logs)


class CountingDisk(RealDisk):
    """The real disk, with the name of each call."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    def __getattribute__(self, name: str) -> object:
        if name in ("open", "mkdirs", "listdir", "exists", "size_of", "remove", "rename"):
            self.calls.append(name)
        return super().__getattribute__(name)


def test_a_new_log_asks_no_more_of_the_disk_than_its_files(fast_dir: str) -> None:
    """A directory, a look into it, a file of batches, the topic id: a topic has thousands of
    these, made while others wait."""
    disk = CountingDisk()
    config = BrokerConfig.from_mapping({"log.dirs": f"{fast_dir}/a", "node.id": "1"})
    logs = LogManager(config=config, disk=disk, clock=RealClock())
    logs.prepare()
    logs.load(lambda topic: TopicConfig())
    disk.calls.clear()
    logs.create("t", 0, ID, TopicConfig())
    assert sorted(disk.calls) == ["listdir", "mkdirs", "open", "open"]
    stop(logs)


def test_a_log_whose_making_was_cut_short_is_made_whole(fast_dir: str) -> None:
    """The process died between the directory and the topic id."""
    stop(start(fast_dir))
    for left in ("t-0", "t-1"):
        (Path(fast_dir) / "a" / left).mkdir(parents=True)
    (Path(fast_dir) / "a" / "t-1" / f"{0:020d}.log").touch()
    logs = start(fast_dir)
    for index in (0, 1):
        found = logs.create("t", index, ID, TopicConfig())
        assert found.topic_id == ID
        assert encode_uuid(ID) in Path(found.directory, "partition.metadata").read_text()
    stop(logs)


def test_all_logs_share_one_pool_of_open_files(tmp_path: Path) -> None:
    """Also those opened while it was empty. A log with a pool of its own went on reading the file
    of a segment that had been replaced under its name."""
    config = BrokerConfig.from_mapping({"log.dirs": str(tmp_path)})
    logs = LogManager(config=config, disk=RealDisk(), clock=RealClock())
    logs.prepare()
    made = logs.create("t", 0, b"t" * 16, TopicConfig())
    for _ in range(2):
        made.append(build_batch([Record(b"k", b"v")]), leader_epoch=0, now_ms=1)
        made.roll(1)
    made.read(0, 100)
    assert len(logs.files) > 0
