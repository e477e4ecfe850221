"""Kafka's own tools (4.4) turn a static quorum of ours into a dynamic one and change its voters."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deploy.servers.databus import spawn_broker
from deploy.servers.databus_cluster import RunningCluster, free_port, start_cluster
from deploy.servers.kafka import run_tool

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(400)]
TOOL_TIMEOUT_S = 120
SETTLED_S = 90.0
NEW_ID = 103


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RunningCluster]:
    """One broker, and three controllers that the configuration names as voters."""
    with start_cluster(tmp_path / "cluster", 1, separate_controllers=3) as running:
        yield running


Tool = Callable[..., tuple[int, str]]


@pytest.fixture
def tool(cluster: RunningCluster, tmp_path: Path) -> Tool:
    """Runs a tool against the broker; returns its exit status and output."""

    def run(name: str, *words: str) -> tuple[int, str]:
        address = ("--bootstrap-server", cluster.bootstrap)
        done = run_tool(name, [*address, *words], folder=tmp_path, timeout_s=TOOL_TIMEOUT_S)
        return done.returncode, done.stdout.decode() + done.stderr.decode()

    return run


def until(ask: Callable[[], tuple[int, str]], found: Callable[[str], bool]) -> str:
    """Repeats the tool until it succeeds with the expected answer."""
    end = time.monotonic() + SETTLED_S
    while True:
        status, text = ask()
        if status == 0 and found(text):
            return text
        assert time.monotonic() < end, text


def voters(tool: Tool) -> dict[int, tuple[str, str]]:
    """(directory id, endpoint) of each voter, as the leader reports."""
    text = until(lambda: tool("kafka-metadata-quorum", "describe", "--status"), lambda _: True)
    line = next(one for one in text.splitlines() if one.startswith("CurrentVoters"))
    found = re.findall(
        r'"id": (\d+)(?:, "directoryId": "([^"]+)")?, "endpoints": \["([^"]+)"', line
    )
    return {int(number): (directory, place) for number, directory, place in found}


def until_voters(tool: Tool, wanted: set[int], said: str) -> dict[int, tuple[str, str]]:
    """Waits until the voters are these: a tool whose answer was lost in an election reports a
    failure although it succeeded. `said` is for the failure's message."""
    end = time.monotonic() + SETTLED_S
    while set(found := voters(tool)) != wanted:
        assert time.monotonic() < end, said
    return found


def new_controller(cluster: RunningCluster, folder: Path) -> tuple[dict[str, str], Path]:
    """The properties, for itself and the tool, of a fourth controller that knows only the bootstrap
    servers."""
    own = {
        "node.id": str(NEW_ID),
        "process.roles": "controller",
        "listeners": f"CONTROLLER://127.0.0.1:{free_port()}",
        "controller.quorum.bootstrap.servers": cluster.controller_bootstrap,
    }
    told = own | {
        "controller.listener.names": "CONTROLLER",
        "advertised.listeners": own["listeners"],
        "log.dirs": str(folder / "logs"),
    }
    path = folder.with_suffix(".properties")
    path.write_text("".join(f"{key}={value}\n" for key, value in told.items()))
    return own | {"cluster.id": cluster.cluster_id, "metrics.port": "-1"}, path


def test_the_voters_move_into_the_log_and_change_there(
    cluster: RunningCluster, tool: Tool, tmp_path: Path
) -> None:
    """kafka-features raises kraft.version and cannot lower it; a controller that restarts on
    another port is found there; kafka-metadata-quorum adds one and removes one."""
    assert set(voters(tool)) == {100, 101, 102}
    status, text = tool("kafka-metadata-quorum", "remove-controller", "--controller-id", "100",
                        "--controller-directory-id", "A" * 22)  # fmt: skip
    assert status == 1
    assert "kraft.version 0" in text
    # Each voter sends a new leader its supported versions within about a second.
    until(lambda: tool("kafka-features", "upgrade", "--feature", "kraft.version=1"),
          lambda text: "kraft.version was upgraded to 1" in text)  # fmt: skip
    described = until(lambda: tool("kafka-features", "describe"), lambda _: True)
    assert re.search(r"kraft\.version.*FinalizedVersionLevel: 1", described)
    status, text = tool("kafka-features", "downgrade", "--feature", "kraft.version=0")
    assert status == 1
    assert "Can't downgrade the version of this feature" in text

    moved = cluster.plan[101]
    moved.controller_port = free_port()
    moved.properties["listeners"] = f"CONTROLLER://127.0.0.1:{moved.controller_port}"
    cluster.terminate(101)
    cluster.restart(101)
    end = time.monotonic() + SETTLED_S
    while voters(tool)[101][1] != moved.properties["listeners"]:
        assert time.monotonic() < end, cluster.logs()

    properties, config = new_controller(cluster, tmp_path / "new")
    new = spawn_broker(
        tmp_path / "new", properties, node_id=NEW_ID, role="controller"
    ).wait_until_ready()
    try:
        _, text = tool("kafka-metadata-quorum", "--command-config", str(config), "add-controller")
        before = until_voters(tool, {100, 101, 102, NEW_ID}, text)
        _, text = tool("kafka-metadata-quorum", "remove-controller", "--controller-id", "100",
                       "--controller-directory-id", before[100][0])  # fmt: skip
        until_voters(tool, {101, 102, NEW_ID}, text)
    finally:
        new.stop()
