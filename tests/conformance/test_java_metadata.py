"""Kafka's own readers of our metadata log and its snapshots: dump tool (4.4), metadata shell (4.3)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from broker.controller.decisions import cluster
from broker.controller.kraft.raft.voters import ReplicaKey, Voter, VoterEndpoint, VoterSet
from broker.controller.kraft.storage.format import write_initial_voters
from broker.disk.real import RealDisk
from broker.metadata.versions import MAX_LEVEL
from bus.records.batch import iter_batches
from bus.records.read import read_records
from deploy.errors import Unavailable
from deploy.servers.kafka import SHELL, new_cluster_id, run_tool
from deploy.setup.server_jars import metadata_shell_jars
from tests.broker.controller.kraft.node_world import NodeWorld, write

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(300)]
TOOL_TIMEOUT_S = 120
SHELL_LEVEL = 30
"""4.3-IV0: of Kafka 4.4 there is no shell in Maven Central."""
SHELL_ATTEMPTS = 8
SHELL_TIMEOUT_S = 30
"""A start of the shell takes one to five seconds here; what takes longer hangs for ever."""


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A metadata directory with a log and a snapshot."""
    return written(tmp_path_factory.mktemp("metadata"), MAX_LEVEL)


@pytest.fixture(scope="module")
def directory_for_the_shell(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same at a level that the newest shell there is knows."""
    return written(tmp_path_factory.mktemp("shell"), SHELL_LEVEL)


def written(root: Path, level: int) -> Path:
    """Make a directory at a level of metadata.version."""
    world = NodeWorld(root)

    async def story() -> None:
        node = await world.alone()
        node.write(lambda image: cluster.bootstrap(image, level=level), lambda _: None)
        for number in range(5):
            last = write(node, "retention.ms", str(1000 + number))
        await world.until(lambda: last, "the last change is committed")
        node.maintenance.snapshot_soon()
        await world.until(lambda: node.log.latest_snapshot, "the snapshot is written")
        await node.stop()
        del world.nodes[1]

    world.run(story())
    return root / "1" / "__cluster_metadata-0"


def ran(tool: str, *words: str, folder: Path, timeout_s: float = TOOL_TIMEOUT_S) -> str:
    """Runs a tool; returns its output. It must succeed."""
    done = run_tool(tool, words, folder=folder, timeout_s=timeout_s)
    text = done.stdout.decode() + done.stderr.decode()
    assert done.returncode == 0, text
    return text


def test_the_dump_tool_reads_a_snapshot(directory: Path, tmp_path: Path) -> None:
    """It shows header, kraft version, voters, the image's records and footer, with correct CRCs."""
    [snapshot] = directory.glob("*.checkpoint")
    text = ran(
        "kafka-dump-log", "--cluster-metadata-decoder", "--files", str(snapshot), folder=tmp_path
    )
    for found in ("SnapshotHeader", "KRaftVersion", "KRaftVoters", "SnapshotFooter",
                  '"name":"retention.ms","value":"1004"', "Snapshot end offset"):  # fmt: skip
        assert found in text, text
    assert "isvalid: false" not in text


def shown(file: Path, words: tuple[str, ...], wanted: str, folder: Path) -> str:
    """Runs the shell until `wanted` is in its output, which it returns.

    Two races of Apache Kafka's tool, with its own files, too, are no finding about ours:
    it runs its command as soon as it has loaded the file, but builds its tree up to 100 ms later
    (`waitUntilCaughtUp` does not wait for the publisher), so it sometimes prints only the roots;
    and if its loader takes the last data batch of a snapshot before its reader has come to the
    footer, which is what gives it a high watermark, no offset is ever applied and it waits for one
    for ever.
    """
    text = ""
    for _ in range(SHELL_ATTEMPTS):
        try:
            text = ran(
                SHELL, "--snapshot", str(file), *words, folder=folder, timeout_s=SHELL_TIMEOUT_S
            )
        except subprocess.TimeoutExpired as hung:
            text = f"the shell hung: {hung}"
        if wanted in text:
            break
    return text


@pytest.mark.parametrize("pattern", ["*.log", "*.checkpoint"])
def test_the_metadata_shell_reads_the_log_and_its_snapshot(
    pattern: str, directory_for_the_shell: Path, tmp_path: Path
) -> None:
    """It shows a tree with the values of the last records."""
    try:
        metadata_shell_jars()
    except Unavailable as missing:
        pytest.skip(str(missing))
    [file] = directory_for_the_shell.glob(pattern)
    node = "/image/configs/TOPIC:t/retention.ms"
    assert node in shown(file, ("find", "/image"), node, tmp_path)
    assert "1004" in shown(file, ("cat", node), "1004", tmp_path)


def test_the_first_snapshot_is_laid_out_as_kafkas_own(tmp_path: Path) -> None:
    """`0-0.checkpoint`, written by format, has header, kraft version and voters in one control
    batch and the footer in another. Between them Kafka writes the first levels of its features
    since 4.4; here they are the first records of the log, as the active controller's."""
    theirs = tmp_path / "theirs"
    properties = tmp_path / "server.properties"
    properties.write_text(
        "process.roles=controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\n"
        "controller.quorum.bootstrap.servers=127.0.0.1:9093\n"
        f"listeners=CONTROLLER://127.0.0.1:9093\nlog.dirs={theirs}\n"
    )
    ran("kafka-storage", "format", "--standalone", "-t", new_cluster_id(), "-c", str(properties),
        folder=tmp_path)  # fmt: skip
    [first] = theirs.glob("*/*.checkpoint")
    voters = VoterSet.of([Voter(ReplicaKey(1, bytes(15) + b"x"), (VoterEndpoint("127.0.0.1", 9093),))])
    write_initial_voters(RealDisk(), str(tmp_path / "ours"), voters, 0)
    own = tmp_path / "ours" / "__cluster_metadata-0" / first.name
    header, levels, footer = _shape(first)
    first_offset, _, is_control, *_ = levels
    assert not is_control
    assert _shape(own) == [header, (first_offset, first_offset, *footer[2:])]


def _shape(file: Path) -> list[tuple[object, ...]]:
    """Describes each batch without times, ids and CRC."""
    data = file.read_bytes()
    return [
        (header.base_offset, header.last_offset, header.is_control, header.partition_leader_epoch,
         [(record.key, len(record.value or b"")) for record in read_records(data, at)])
        for at, header in iter_batches(data)
    ]  # fmt: skip
