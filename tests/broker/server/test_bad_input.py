"""What an operator got wrong: one sentence that names the remedy, exit status 1, nothing changed."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.servers.databus import PROJECT_ROOT, log_path, spawn_broker
from deploy.servers.databus_cluster import (
    RunningCluster,
    free_port,
    new_cluster_id,
    start_cluster,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

EXIT_TIMEOUT_S = 60


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    """One cluster for all that must not join it."""
    with start_cluster(
        tmp_path_factory.mktemp("cluster"), brokers=1, separate_controllers=1
    ) as running:
        yield running


def refused(directory: Path, properties: dict[str, str]) -> str:
    """Runs a broker that ends with status 1; returns its message of one line."""
    words = [sys.executable, "-m", "broker.server", "--data-dir", str(directory / "logs")]
    given = {
        "listeners": f"PLAINTEXT://127.0.0.1:{free_port()},CONTROLLER://127.0.0.1:{free_port()}",
        "metrics.port": "-1", **properties,
    }  # fmt: skip
    for key, value in given.items():
        words += ["--override", f"{key}={value}"]
    done = subprocess.run(
        words, cwd=PROJECT_ROOT, capture_output=True, text=True, timeout=EXIT_TIMEOUT_S, check=False
    )
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr.splitlines()[-1]


def files(directory: Path) -> dict[str, bytes]:
    """Every file with its bytes, locks and process logs aside."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.name != ".lock" and "logs-log" not in path.parts
    }


def joining(cluster: RunningCluster, node_id: int) -> dict[str, str]:
    return {
        "node.id": str(node_id),
        "process.roles": "broker",
        "listeners": f"PLAINTEXT://127.0.0.1:{free_port()}",
        "controller.quorum.voters": cluster.brokers[0].properties["controller.quorum.voters"],
        "cluster.id": cluster.cluster_id,
        "initial.broker.registration.timeout.ms": "2000",
    }


def test_a_node_of_a_cluster_wants_formatted_directories(tmp_path: Path) -> None:
    """A cluster id is never guessed."""
    said = refused(tmp_path, {"controller.quorum.voters": "1@127.0.0.1:1,2@127.0.0.1:2"})
    assert "cluster.id" in said
    assert "format" in said
    assert files(tmp_path) == {}


def test_a_directory_of_another_cluster_is_not_touched(tmp_path: Path) -> None:
    """Neither by another cluster's id nor by another node's."""
    running = spawn_broker(
        tmp_path, {"listeners": "PLAINTEXT://127.0.0.1:0", "metrics.port": "-1"}
    ).wait_until_ready()
    assert running.stop() == 0
    before = files(tmp_path / "logs")
    said = refused(tmp_path, {"cluster.id": new_cluster_id()})
    assert "belongs to cluster" in said
    assert "nothing was changed" in said
    said = refused(tmp_path, {"node.id": "7"})
    assert "belongs to node 1" in said
    assert files(tmp_path / "logs") == before


def test_a_broker_of_another_cluster_does_not_join(
    cluster: RunningCluster, tmp_path: Path
) -> None:
    """The controllers say so, and it says what to look at."""
    said = refused(tmp_path, joining(cluster, 9) | {"cluster.id": new_cluster_id()})
    assert "another" in said
    assert "log.dirs" in said


def test_a_second_broker_with_the_same_id_gives_up(
    cluster: RunningCluster, tmp_path: Path
) -> None:
    """And the first one serves on."""
    said = refused(tmp_path, joining(cluster, 1))
    assert "same node.id" in said
    assert cluster.node(1).process.poll() is None
    assert "is not registered" not in cluster.node(1).log_path.read_text()


def test_a_second_controller_with_the_same_id_gives_up(
    cluster: RunningCluster, tmp_path: Path
) -> None:
    """It would vote, and count, as the first one; alone in the quorum it would even lead a second
    cluster of the same id."""
    first = cluster.controllers[0]
    said = refused(
        tmp_path,
        joining(cluster, first.node_id)
        | {
            "process.roles": "controller",
            "listeners": f"CONTROLLER://127.0.0.1:{free_port()}",
        },
    )
    assert "duplicate node id" in said
    assert cluster.controller_bootstrap in said
    assert "node.id of its own" in said
    assert not list(tmp_path.rglob("quorum-state"))
    assert first.process.poll() is None


def test_a_broker_waits_for_its_controllers_and_can_be_stopped_meanwhile(tmp_path: Path) -> None:
    """It is not an error that they are not there yet."""
    begun = spawn_broker(
        tmp_path,
        {
            "node.id": "5", "process.roles": "broker", "cluster.id": new_cluster_id(),
            "listeners": "PLAINTEXT://127.0.0.1:0", "metrics.port": "-1",
            "controller.quorum.voters": f"1@127.0.0.1:{free_port()}",
        },
    )  # fmt: skip
    try:
        deadline = time.monotonic() + EXIT_TIMEOUT_S
        while "waits for its controllers" not in log_path(tmp_path).read_text():
            assert time.monotonic() < deadline
            assert begun.process.poll() is None
            time.sleep(0.05)
        begun.process.terminate()
        assert begun.process.wait(EXIT_TIMEOUT_S) == 0
    finally:
        begun.kill()
    assert "Traceback" not in log_path(tmp_path).read_text()
