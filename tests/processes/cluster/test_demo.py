"""The demo on three brokers, one of them killed in the middle, and that of two sites, one of which
is lost: the account balances exactly."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.paths import PROJECT_ROOT
from deploy.servers.process import free_port, free_range
from tests.processes.cluster.stories import CONTROLLERS
from tests.processes.cluster.test_cli import first_port


@pytest.mark.slow
@pytest.mark.java
@pytest.mark.timeout(900)
@pytest.mark.rotates("controller of the demo")
@pytest.mark.parametrize("controller", CONTROLLERS)
def test_the_account_balances_though_a_broker_was_killed(
    controller: str, tmp_path: Path, dice: random.Random
) -> None:
    """No record is missing or stored twice; the supervisor has restarted the broker."""
    command = [sys.executable, "-m", "deploy", "--data-dir", str(tmp_path / "data")]
    for setting in (f"edge.port={free_port()}", f"console.port={free_port()}"):
        command += ["--set", setting]
    command += ["demo", "--brokers=3", f"--controller={controller}", f"--port={first_port(dice)}"]
    command += [f"--zookeeper-port={free_port()}", "--for=40s", "--kill-broker-at=15s"]
    done = subprocess.run(
        [*command, "--rate=100", "--city-hour=8", "--json"], cwd=PROJECT_ROOT, timeout=800,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.strip(), done.stderr[-3000:]
    account = json.loads(done.stdout.splitlines()[-1])
    assert account["faults"] == []
    assert account["balanced"]
    assert account["killed"].startswith("broker-")
    assert account["restarts"] >= 1
    assert done.returncode == 0


@pytest.mark.slow
@pytest.mark.java
@pytest.mark.timeout(900)
def test_demos_of_different_arrangements_balance_one_after_the_other(
    tmp_path: Path, dice: random.Random
) -> None:
    """The second one found the first one's records in its store, and never balanced again. The
    plain one goes on with its own data afterwards."""
    command = [sys.executable, "-m", "deploy", "--data-dir", str(tmp_path / "data")]
    port = free_port()
    for setting in (
        f"edge.port={free_port()}", f"console.port={free_port()}", "broker.metrics.port=0",
        f"broker.listeners=PLAINTEXT://127.0.0.1:{port}", f"bus.bootstrap_servers=127.0.0.1:{port}",
    ):  # fmt: skip
        command += ["--set", setting]
    arrived = []
    for words in ([], ["--brokers=3", f"--port={first_port(dice)}"], []):
        done = subprocess.run(
            [*command, "demo", *words, "--for=10s", "--rate=100", "--city-hour=8", "--json"],
            cwd=PROJECT_ROOT, timeout=280, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        assert done.stdout.strip(), done.stderr[-3000:]
        account = json.loads(done.stdout.splitlines()[-1])
        assert account["faults"] == [], words
        assert done.returncode == 0
        arrived.append(sum(flow["arrived"] for flow in account["flows"]))
    assert arrived[2] > arrived[0] > 0


@pytest.mark.slow
@pytest.mark.java
@pytest.mark.timeout(1200)
def test_after_a_site_is_lost_the_account_is_that_of_the_report_to_the_record(tmp_path: Path) -> None:
    """It ended with 0 whatever was lost without an edge, and never looked at its report."""
    ports, brokers = free_range(140), free_range(140)
    names = ("edge.port", "console.port", "dispatcher.metrics_port", "mirror.metrics_port",
             "streams.metrics_port")  # fmt: skip
    command = [sys.executable, "-m", "deploy", "--data-dir", str(tmp_path / "data")]
    for number, name in enumerate(names):
        command += ["--set", f"{name}={ports + number}"]
    command += ["demo", "--sites=2", f"--port={brokers}", "--for=40s", "--rate=100", "--json"]
    done = subprocess.run(
        command, cwd=PROJECT_ROOT, timeout=1100, stdin=subprocess.DEVNULL, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.stdout.strip(), done.stderr[-3000:]
    account = json.loads(done.stdout.splitlines()[-1])
    assert account["faults"] == []
    assert account["balanced"]
    assert done.returncode == 0
    assert account["known_missing"] is not None, "the switch was forced"
    assert account["by_edge"] > 0
    assert account["directly"] > 0
    assert account["lost_known"] + account["lost_unheard"] == len(account["lost"])
    assert account["lost_through_edge"] == []
