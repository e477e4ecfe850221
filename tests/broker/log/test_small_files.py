"""One flipped bit, a cut or a loss in the small files of a data directory deletes no record.

`faults.md` D2: the topic id in `partition.metadata` stayed readable and was another; the partition
became a stray and was deleted.
"""

from __future__ import annotations

import asyncio
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker.clock.real import RealClock
from broker.config.views import BrokerConfig, TopicConfig
from broker.disk.real import RealDisk
from broker.log.checkpoint import write_offsets
from broker.log.errors import LogError
from broker.log.log_checkpoints import RECOVERY_POINTS
from broker.log.log_dir_files import WrongDirectory
from broker.log.manager import LogManager
from broker.metadata.image import MetadataImage, PartitionImage, TopicImage, frozen
from broker.replica.logdir.watermarks import WatermarkCheckpoint
from broker.replica.partition import Partition
from tests.broker.one_broker import opened_logs, replicas_of

NOW_MS = 1_760_000_000_000
ID = bytes(range(16))
OTHER_ID = bytes(range(1, 17))
Batch = Callable[..., bytearray]
CONFIG = TopicConfig()


def image(topic_id: bytes = ID, replicas: tuple[int, ...] = (1,)) -> MetadataImage:
    """Topic `t` with one partition, led by its first replica."""
    partition = PartitionImage(0, replicas, replicas, replicas[0], 0, 0)
    topic = TopicImage("t", topic_id, (partition,))
    return MetadataImage(topics=frozen({"t": topic}), topic_names=frozen({topic_id: "t"}))


class BrokerRun:
    """A broker's replicas, from the start on as the server makes them."""

    def __init__(self, directory: Path, known: MetadataImage) -> None:
        clock = RealClock()
        self.logs = opened_logs(str(directory / "a"), clock, CONFIG)
        self.replicas = replicas_of(self.logs, clock)
        self.replicas.remove_strays(known)

    def create_partition(self, topic_id: bytes = ID) -> Partition:
        """The partition as the image has it."""
        return self.replicas.create_partition(
            "t", topic_id, 0, leader_id=1, leader_epoch=3, partition_epoch=0, replicas=[1],
            isr=[1], config=CONFIG,
        )  # fmt: skip

    def end(self) -> None:
        """Clean stop, with all that is written at that time."""
        self.replicas.checkpoint_high_watermarks()
        asyncio.run(self.logs.stop(7))


def records(directory: Path) -> bytes:
    """All batches of all segments, under any present name of their directory."""
    return b"".join(path.read_bytes() for path in sorted((directory / "a").rglob("*.log")))


@pytest.fixture
def lived(fast_dir: str, batch: Batch) -> Path:
    """A directory with one partition of nine records in three segments, five of them deleted."""
    directory = Path(fast_dir) / "lived"
    life = BrokerRun(directory, image())
    partition = life.create_partition()
    for number in range(3):
        partition.log.append(batch(3), leader_epoch=number, now_ms=NOW_MS)
        partition.log.flush()
    partition.log.advance_high_watermark(9)
    partition.log.advance_log_start_offset(2)
    life.end()
    return directory


def again(directory: Path) -> str:
    """A start on it: what happens is said in a word or two."""
    try:
        life = BrokerRun(directory, image())
    except WrongDirectory:
        return "refused"
    try:
        partition = life.create_partition()
    except LogError:
        life.end()
        return "offline"
    served = partition.log.end_offset
    life.end()
    assert served == 9
    return "served"


def damaged(path: Path, sample: int) -> Iterator[bytes]:
    """The file with each bit flipped, or `sample` of them, and each length it can be cut to."""
    data = path.read_bytes()
    bits = range(8 * len(data))
    for bit in bits if not sample else sorted(random.Random(1).sample(bits, sample)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        yield bytes(flipped)
    lengths = range(len(data))
    yield from (data[:n] for n in (lengths if not sample else lengths[:: len(data) // 10 + 1]))


SMALL_FILES = {
    "t-0/partition.metadata": 120,
    "t-0/partition.metadata.checked": 40,
    "log-start-offset-checkpoint": 80,
    "log-start-offset-checkpoint.checked": 30,
    "recovery-point-offset-checkpoint": 60,
    "recovery-point-offset-checkpoint.checked": 20,
    "replication-offset-checkpoint": 60,
    "replication-offset-checkpoint.checked": 20,
    "t-0/leader-epoch-checkpoint": 60,
    "t-0/leader-epoch-checkpoint.checked": 20,
    "meta.properties": 100,
    ".kafka_cleanshutdown": 60,
}


@pytest.mark.parametrize("name", SMALL_FILES)
def test_no_damage_to_a_small_file_deletes_a_record(lived: Path, name: str) -> None:
    """It is served, or the partition is offline, or the start is refused; the records stay."""
    before = records(lived)
    seen = set()
    for content in damaged(lived / "a" / name, SMALL_FILES[name]):
        directory = lived.parent / "again"
        shutil.copytree(lived, directory)
        (directory / "a" / name).write_bytes(content)
        seen.add(again(directory))
        assert records(directory) == before, content
        shutil.rmtree(directory)
    assert seen & {"served", "offline"}


@pytest.mark.parametrize("name", [*SMALL_FILES, "t-0"])
def test_no_loss_of_a_small_file_or_of_the_directory_deletes_a_record(
    lived: Path, name: str
) -> None:
    """What is missing is replaced, or an error is reported."""
    before = records(lived)
    lost = lived / "a" / name
    outcome = {"meta.properties": "refused", "t-0": "offline"}.get(name, "served")
    kept = lost.rename(lived / "kept")
    assert again(lived) == outcome
    if outcome != "served":
        assert again(lived) == outcome, "nor by starting twice"
        kept.rename(lost)
        assert again(lived) == "served"
    assert records(lived) == before


def test_the_file_and_its_copy_name_different_topics(lived: Path) -> None:
    """Offline, by name; removing the wrong file brings the partition back."""
    path = lived / "a" / "t-0" / "partition.metadata"
    text = path.read_text()
    path.write_text(text.replace("AAEC", "AAED"))
    life = BrokerRun(lived, image())
    with pytest.raises(LogError, match="name different topics"):
        life.create_partition()
    assert life.replicas.offline_count == 1
    life.end()
    path.unlink()
    assert again(lived) == "served"
    assert path.read_text() == text


def test_a_directory_of_an_earlier_version_gets_its_copy_when_the_metadata_confirm_it(
    lived: Path,
) -> None:
    """Kafka's file alone is believed, as ever; afterwards a flipped bit is found in it."""
    for path in (lived / "a").rglob("*.checked"):
        path.unlink()
    assert again(lived) == "served"
    assert (lived / "a" / "t-0" / "partition.metadata.checked").exists()


def test_a_log_of_an_id_the_metadata_do_not_know_is_kept(lived: Path) -> None:
    """`faults.md` D1: it was deleted. The topic may be gone, or the metadata."""
    before = records(lived)
    for unknown in (MetadataImage(), image(OTHER_ID)):
        directory = lived.parent / "again"
        shutil.copytree(lived, directory)
        life = BrokerRun(directory, unknown)
        life.end()
        [kept] = (directory / "a").glob("t-0.*-stray")
        assert records(directory) == before
        kept.rename(directory / "a" / "t-0")
        assert again(directory) == "served"
        shutil.rmtree(directory)


@pytest.mark.parametrize(("in_sync", "suffix"), [((2, 3), "delete"), ((2,), "stray")])
def test_a_log_that_has_moved_is_deleted_only_if_the_others_are_whole(
    lived: Path, in_sync: tuple[int, ...], suffix: str
) -> None:
    """Else this may be the only other copy of something."""
    moved = image(replicas=(2, 3))
    partition = PartitionImage(0, (2, 3), in_sync, 2, 0, 0)
    topics = frozen({"t": TopicImage("t", ID, (partition,))})
    life = BrokerRun(lived, MetadataImage(topics=topics, topic_names=moved.topic_names))
    assert [path.name.rpartition("-")[2] for path in (lived / "a").glob("t-0*")] == [suffix]
    life.end()


def test_a_topic_made_anew_while_it_was_in_doubt_begins_empty(lived: Path) -> None:
    """The old directory is set aside under a name of its own, and kept."""
    path = lived / "a" / "t-0" / "partition.metadata"
    path.write_text(path.read_text().replace("AAEC", "AAED"))
    before = records(lived)
    life = BrokerRun(lived, image())
    with pytest.raises(LogError):
        life.create_partition()
    life.replicas.delete_partition("t", 0)
    assert life.create_partition(OTHER_ID).log.end_offset == 0
    life.end()
    assert records(lived) == before


@pytest.mark.parametrize("copy", ["", ".checked"], ids=["file", "copy"])
def test_damaged_leader_epochs_are_read_again_from_the_batches(lived: Path, copy: str) -> None:
    """By a wrong epoch a leader made its followers cut off what they had acknowledged."""
    path = lived / "a" / "t-0" / f"leader-epoch-checkpoint{copy}"
    original = path.read_bytes()
    for content in [*damaged(path, 0), None]:
        path.unlink() if content is None else path.write_bytes(content)
        manager = opened(lived)
        log = manager.get("t", 0)
        assert log is not None
        epochs = log.leader_epochs
        assert [epochs.epoch_for_offset(n) for n in range(2, 9)] == [0, 1, 1, 1, 2, 2, 2], content
        assert [epochs.end_of(epoch, 9)[1] for epoch in range(3)] == [3, 6, 9], content
        manager.release()
        path.write_bytes(original)


@pytest.mark.parametrize("copy", ["", ".checked"], ids=["file", "copy"])
@pytest.mark.parametrize("name", ["replication-offset-checkpoint", RECOVERY_POINTS])
def test_no_damage_makes_an_offset_larger_than_it_was(lived: Path, name: str, copy: str) -> None:
    """A leader showed, and acknowledged to those who tried again, what its followers did not have;
    a loss of power was not looked for where it had been."""
    write_offsets(RealDisk(), str(lived / "a" / name), {("t", 0): 5})
    path = lived / "a" / f"{name}{copy}"
    original = path.read_bytes()
    for content in damaged(path, 0):
        path.write_bytes(content)
        manager = opened(lived, clean=False)
        log = manager.get("t", 0)
        assert log is not None
        WatermarkCheckpoint(manager).restore(log)
        offset = log.recovery_point if name == RECOVERY_POINTS else log.high_watermark
        assert offset <= 5, content
        manager.release()
        path.write_bytes(original)


def opened(directory: Path, *, clean: bool = True) -> LogManager:
    """The logs of a copy of the directory."""
    again = directory.parent / "again"
    shutil.rmtree(again, ignore_errors=True)
    shutil.copytree(directory, again)
    if not clean:
        (again / "a" / ".kafka_cleanshutdown").unlink()
    config = BrokerConfig.from_mapping({"log.dirs": str(again / "a"), "node.id": "1"})
    manager = LogManager(config=config, disk=RealDisk(), clock=RealClock())
    manager.prepare()
    manager.load(lambda topic: CONFIG)
    return manager
