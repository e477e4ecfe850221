"""Kafka's own readers (4.3) of our metadata log and its snapshots: dump tool and metadata shell."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.controller.decisions import cluster
from broker.controller.kraft.format import write_initial_voters
from broker.controller.kraft.voters import Endpoint, ReplicaKey, Voter, VoterSet
from broker.disk.real import RealDisk
from bus.records.batch import iter_batches
from bus.records.read import read_records
from deploy.errors import Unavailable
from deploy.testservers.kafka import SHELL, new_cluster_id, run_tool, shell_jars
from tests.broker.controller.kraft.node_world import Nodes, write

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(300)]
TOOL_TIMEOUT_S = 120
SHELL_ATTEMPTS = 8


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A metadata directory with a log and a snapshot."""
    root = tmp_path_factory.mktemp("metadata")
    world = Nodes(root)

    async def story() -> None:
        node = await world.alone()
        node.write(cluster.bootstrap, lambda _: None)
        for number in range(5):
            last = write(node, "retention.ms", str(1000 + number))
        await world.until(lambda: last, "the last change is committed")
        node.housekeeping.snapshot_soon()
        await world.until(lambda: node.log.latest_snapshot, "the snapshot is written")
        await node.stop()
        del world.nodes[1]

    world.run(story())
    return root / "1" / "__cluster_metadata-0"


def ran(tool: str, *words: str, folder: Path) -> str:
    """What a tool says; it must end well."""
    done = run_tool(tool, words, folder=folder, timeout_s=TOOL_TIMEOUT_S)
    text = done.stdout.decode() + done.stderr.decode()
    assert done.returncode == 0, text
    return text


def test_the_dump_tool_reads_a_snapshot(directory: Path, tmp_path: Path) -> None:
    """Header, kraft version, voters, the records of the image, footer; every CRC right."""
    [snapshot] = directory.glob("*.checkpoint")
    text = ran(
        "kafka-dump-log", "--cluster-metadata-decoder", "--files", str(snapshot), folder=tmp_path
    )
    for found in ("SnapshotHeader", "KRaftVersion", "KRaftVoters", "SnapshotFooter",
                  '"name":"retention.ms","value":"1004"', "Snapshot end offset"):  # fmt: skip
        assert found in text, text
    assert "isvalid: false" not in text


def shown(file: Path, words: tuple[str, ...], wanted: str, folder: Path) -> str:
    """What the shell prints, asked again until `wanted` is in it.

    The tool itself runs its command as soon as it has loaded the file, while its tree is made up to
    100 ms later (`waitUntilCaughtUp` does not wait for the publisher): now and then it prints the
    bare roots, of Apache Kafka's files too.
    """
    text = ""
    for _ in range(SHELL_ATTEMPTS):
        text = ran(SHELL, "--snapshot", str(file), *words, folder=folder)
        if wanted in text:
            break
    return text


@pytest.mark.parametrize("pattern", ["*.log", "*.checkpoint"])
def test_the_metadata_shell_reads_the_log_and_its_snapshot(
    pattern: str, directory: Path, tmp_path: Path
) -> None:
    """As a tree, with the values of the last records."""
    try:
        shell_jars()
    except Unavailable as missing:
        pytest.skip(str(missing))
    [file] = directory.glob(pattern)
    node = "/image/configs/TOPIC:t/retention.ms"
    assert node in shown(file, ("find", "/image"), node, tmp_path)
    assert "1004" in shown(file, ("cat", node), "1004", tmp_path)


def test_the_first_snapshot_is_laid_out_as_kafkas_own(tmp_path: Path) -> None:
    """`0-0.checkpoint` of a format: header, kraft version and voters in one control batch, the
    footer in another, no data (which is why Kafka's shell waits for ever on its own one too)."""
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
    voters = VoterSet.of([Voter(ReplicaKey(1, bytes(15) + b"x"), (Endpoint("127.0.0.1", 9093),))])
    write_initial_voters(RealDisk(), str(tmp_path / "ours"), voters, 0)
    own = tmp_path / "ours" / "__cluster_metadata-0" / first.name
    assert _shape(own) == _shape(first)


def _shape(file: Path) -> list[tuple[object, ...]]:
    """Each batch without times, ids and CRC."""
    data = file.read_bytes()
    return [
        (header.base_offset, header.last_offset, header.is_control, header.partition_leader_epoch,
         [(record.key, len(record.value or b"")) for record in read_records(data, at)])
        for at, header in iter_batches(data)
    ]  # fmt: skip
