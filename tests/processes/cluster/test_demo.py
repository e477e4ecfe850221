"""The demo on three brokers, one of them killed in the middle: the account balances exactly."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.paths import PROJECT_ROOT
from deploy.testservers.process import free_port
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
