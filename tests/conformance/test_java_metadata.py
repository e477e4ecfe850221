"""Kafka's own readers (4.3) of our metadata log and its snapshots: dump tool and metadata shell."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.controller.decisions import cluster
from deploy.errors import Unavailable
from deploy.testservers.kafka import SHELL, run_tool, shell_jars
from tests.broker.controller.kraft.node_world import Nodes, write

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(300)]
TOOL_TIMEOUT_S = 120


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A metadata directory with a log and a snapshot."""
    root = tmp_path_factory.mktemp("metadata")
    world = Nodes(root)

    async def story() -> None:
        node = world.start(1)
        node.write(cluster.bootstrap, lambda _: None)
        for number in range(5):
            write(node, "retention.ms", str(1000 + number))
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


def test_the_metadata_shell_reads_the_log(directory: Path, tmp_path: Path) -> None:
    """As a tree, with the values of the last records."""
    try:
        shell_jars()
    except Unavailable as missing:
        pytest.skip(str(missing))
    log = str(directory / "00000000000000000000.log")
    tree = ran(SHELL, "--snapshot", log, "find", "/image", folder=tmp_path)
    assert "/image/configs/TOPIC:t/retention.ms" in tree
    value = ran(
        SHELL, "--snapshot", log, "cat", "/image/configs/TOPIC:t/retention.ms", folder=tmp_path
    )
    assert "1004" in value
