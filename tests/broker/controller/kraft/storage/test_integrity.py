"""A metadata directory with lost data is refused with the remedy and stays unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.controller.kraft.bootstrap import MetadataLogMissing
from broker.controller.kraft.storage.integrity import MetadataLogDamaged
from broker.controller.kraft.storage.snapshots import MetadataSnapshotDamaged
from broker.controller.kraft.storage.state_file import (
    QuorumStateData,
    QuorumStateError,
    decode,
    encode,
    write_state,
)
from broker.disk.real import RealDisk
from bus.records.batch import iter_batches
from tests.broker.controller.kraft.node_world import NodeWorld, keep, settings

ALONE = {"controller.quorum.voters": "1@node:1"}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """The metadata directory of a node that ran twice and wrote five records each time."""
    world = NodeWorld(tmp_path, ALONE)

    async def story() -> None:
        for life in range(2):
            node = await world.alone()
            for number in range(5):
                await keep(world, node, f"life{life}-{number}")
            world.kill(1)

    world.run(story())
    return tmp_path / "1" / "__cluster_metadata-0"


def contents(directory: Path) -> dict[str, bytes]:
    """The content of every file."""
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


def start(directory: Path) -> dict[str, str]:
    """Starts the node on the directory; returns what it knows."""
    world = NodeWorld(directory.parents[1], ALONE)

    async def story() -> dict[str, str]:
        return settings(world.start(1))

    found: dict[str, str] = world.run(story())
    return found


def refused(directory: Path, error: type[Exception], words: str) -> None:
    """Checks that it does not start, names the remedy and leaves every byte unchanged."""
    before = contents(directory)
    with pytest.raises(error, match=words) as refusal:
        start(directory)
    assert "nothing was changed" in str(refusal.value)
    assert contents(directory) == before


def log_of(directory: Path) -> Path:
    return directory / "00000000000000000000.log"


def test_an_undamaged_directory_starts(directory: Path) -> None:
    """Without this test the others would prove nothing."""
    assert len(start(directory)) == 10


def test_a_torn_tail_is_what_a_crash_leaves_and_is_cut(directory: Path) -> None:
    """The last append was never acknowledged."""
    with log_of(directory).open("ab") as file:
        file.write(b"\0" * 40)
    assert len(start(directory)) == 10


def test_a_log_that_ends_before_an_epoch_it_had_flushed(directory: Path) -> None:
    """Half of the file is gone."""
    log = log_of(directory)
    log.write_bytes(log.read_bytes()[: log.stat().st_size // 3])
    refused(directory, MetadataLogDamaged, "was flushed from")


def test_a_log_of_which_nothing_is_left(directory: Path) -> None:
    """The file is there, and empty."""
    log_of(directory).write_bytes(b"")
    refused(directory, MetadataLogMissing, "is missing or empty, but this node has had metadata")


def test_a_log_that_ends_before_what_the_last_stop_had_flushed(directory: Path) -> None:
    """Whole batches are missing at its end, all of one epoch: no crash can cause that after a clean
    stop."""
    world = NodeWorld(directory.parents[1], ALONE)

    async def story() -> None:
        node = await world.alone()
        await keep(world, node, "last")
        await node.stop()
        del world.nodes[1]

    world.run(story())
    log = log_of(directory)
    data = log.read_bytes()
    batches = [at for at, _ in iter_batches(data)]
    log.write_bytes(data[: batches[-1]])
    refused(directory, MetadataLogDamaged, "was closed at")
    log.write_bytes(data)
    assert "last" in start(directory)


def test_a_log_that_was_cut_as_its_leader_wanted_starts(tmp_path: Path) -> None:
    """The truncation also removed the mark of the last stop."""
    world = NodeWorld(tmp_path, ALONE)

    async def story() -> None:
        node = await world.alone()
        await keep(world, node, "a")
        await node.stop()
        del world.nodes[1]

    world.run(story())
    directory = tmp_path / "1" / "__cluster_metadata-0"
    [stop] = directory.glob("*.snapshot")
    world = NodeWorld(tmp_path, ALONE)

    async def cut() -> None:
        node = world.start(1)
        node.log.truncate_to(int(stop.stem) - 1)
        assert not stop.exists()
        world.kill(1)

    world.run(cut())
    assert start(directory) == {}


def test_a_log_whose_cut_was_interrupted_starts(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression, found by the simulation: the log was truncated, the epoch that began there was
    still in the epoch file, and the node refused to start."""
    world = NodeWorld(directory.parents[1], ALONE)

    async def cut() -> None:
        log = world.start(1).log
        [*_, (_, began)] = log._log.leader_epochs.entries

        def dies() -> None:
            raise InterruptedError

        monkeypatch.setattr(log._log, "flush", dies)
        with pytest.raises(InterruptedError):
            log.truncate_to(began)
        world.kill(1)

    world.run(cut())
    assert start(directory)


def test_damage_in_front_of_sound_batches(directory: Path) -> None:
    """Recovery would truncate everything after the damage."""
    log = log_of(directory)
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 0xFF
    log.write_bytes(data)
    refused(directory, MetadataLogDamaged, "with sound batches behind it")


def test_an_empty_log_beside_the_memory_of_a_leader(directory: Path) -> None:
    """A voter that lost its log would elect a leader without records it helped to commit."""
    for path in directory.glob("*.log"):
        path.unlink()
    with pytest.raises(MetadataLogMissing):
        start(directory)
    (directory.parent / ".databus_metadata").unlink()
    refused(directory, MetadataLogDamaged, "followed a leader in epoch 2")


def test_no_log_where_there_was_one(directory: Path) -> None:
    """The whole directory was moved away: with an empty one every replica would become stray."""
    aside = directory.rename(directory.with_name("aside"))
    with pytest.raises(MetadataLogMissing, match=r"only voter.*nothing was changed"):
        start(directory)
    assert not directory.exists()
    aside.rename(directory)
    assert len(start(directory)) == 10


def test_the_only_voter_is_not_told_to_move_its_damaged_log_away(directory: Path) -> None:
    """No other voter could send the log to it."""
    log_of(directory).rename(directory / "00000000000000000007.log")
    with pytest.raises(MetadataLogDamaged, match="keep the directory where it is") as refusal:
        start(directory)
    assert "move the directory away" not in str(refusal.value)


def test_a_log_whose_beginning_is_gone(directory: Path) -> None:
    """No snapshot covers it."""
    log_of(directory).rename(directory / "00000000000000000007.log")
    refused(directory, MetadataLogDamaged, "no snapshot covers")


@pytest.mark.parametrize("text", ["", "{}", '{"data_version":7}'])
def test_a_quorum_state_that_cannot_be_read(directory: Path, text: str) -> None:
    """Two leaders in one epoch would be worse than a refused start."""
    (directory / "quorum-state").write_text(text)
    refused(directory, QuorumStateError, "quorum-state")


def test_a_flipped_bit_in_the_epoch_of_a_vote(directory: Path) -> None:
    """The node does not return to epochs in which it may have voted."""
    path = directory / "quorum-state"
    write_state(RealDisk(), str(path), encode(QuorumStateData(-1, 58, 2)))
    path.write_text(path.read_text().replace("58", "18"))
    world = NodeWorld(directory.parents[1], ALONE)
    world.run(world.alone())
    assert decode(path.read_text()).leader_epoch == 59


def test_damaged_leader_epochs_stop_nothing(directory: Path) -> None:
    """The log itself contains them. Regression: a start offset beyond the log's end counted as a
    loss."""
    path = directory / "leader-epoch-checkpoint"
    lines = path.read_text().splitlines()
    lines[-1] = f"{lines[-1].split()[0]} 99"
    path.write_text("\n".join([*lines, ""]))
    assert len(start(directory)) == 10


def test_a_snapshot_that_was_cut_off(directory: Path) -> None:
    """Its footer is missing."""
    (directory / "00000000000000000008-0000000001.checkpoint").write_bytes(
        log_of(directory).read_bytes()[:200]
    )
    refused(directory, MetadataSnapshotDamaged, "checkpoint")


def test_a_snapshot_that_was_fetched_just_before_the_process_died_is_taken(directory: Path) -> None:
    """The log was not restarted after the snapshot yet; the start does that."""
    world = NodeWorld(directory.parents[1], ALONE)

    async def story() -> None:
        node = await world.alone()
        node.maintenance.snapshot_soon()
        await world.until(lambda: node.log.latest_snapshot, "the snapshot is written")
        world.kill(1)

    world.run(story())
    [snapshot] = directory.glob("*.checkpoint")
    snapshot.rename(directory / "00000000000000000500-0000000003.checkpoint")
    assert len(start(directory)) == 10
    assert (directory / "00000000000000000500.log").exists()
    assert not log_of(directory).exists()


def test_what_was_being_fetched_when_the_process_died_is_thrown_away(directory: Path) -> None:
    """A snapshot exists only once it has its final name."""
    part = directory / "00000000000000000008-0000000001.checkpoint.part"
    part.write_bytes(b"half")
    assert len(start(directory)) == 10
    assert not part.exists()
