"""The whole product as processes: it balances, it survives kill -9, it goes on where it was."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from deploy.paths import PROJECT_ROOT
from deploy.state_file import is_held, read_state
from deploy.testservers.process import free_port

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(600)]
STARTED_S = 180


def command_of(folder: Path) -> list[str]:
    """`databus` on a data directory and ports of its own."""
    broker = free_port()
    flags = [
        f"broker.listeners=PLAINTEXT://127.0.0.1:{broker}",
        "broker.metrics.port=0",
        f"bus.bootstrap_servers=127.0.0.1:{broker}",
        f"edge.port={free_port()}",
        f"console.port={free_port()}",
    ]
    command = [sys.executable, "-m", "deploy", "--data-dir", str(folder)]
    for flag in flags:
        command += ["--set", flag]
    return command


class Demo:
    """`databus demo` on ports and a data directory of its own."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.folder = folder
        command = command_of(folder)
        self._errors = open(folder.parent / "demo.err", "ab")  # noqa: SIM115
        self.process = subprocess.Popen(
            [*command, "demo", "--city-hour", "8", "--json", *words],
            cwd=PROJECT_ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=self._errors,
        )  # fmt: skip

    def role(self, name: str) -> dict:
        return (read_state(self.folder) or {}).get("roles", {}).get(name, {})

    def wait_until(self, condition: Callable[[], bool], timeout_s: float = STARTED_S) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert self.process.poll() is None, self.told
            assert time.monotonic() < deadline, self.told
            time.sleep(0.2)

    def kill(self, name: str) -> None:
        """kill -9, then wait until the supervisor has a new one."""
        pid = self.role(name)["pid"]
        os.kill(pid, signal.SIGKILL)
        self.wait_until(
            lambda: (
                self.role(name).get("pid") not in (None, pid)
                and self.role(name)["state"] == "running"
            )
        )

    @property
    def told(self) -> str:
        logs = sorted((self.folder / "log").glob("*.log"))
        ends = "\n".join(f"== {log.name}\n{log.read_text()[-700:]}" for log in logs)
        return (self.folder.parent / "demo.err").read_text()[-1500:] + ends

    def end(self) -> dict:
        output, _ = self.process.communicate(timeout=400)
        self._errors.close()
        assert output.strip(), self.told
        answer = json.loads(output.splitlines()[-1])
        assert answer["faults"] == [], self.told
        assert self.process.returncode == 0
        return answer

    def __enter__(self) -> Demo:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(120)


def stored(answer: dict) -> int:
    return sum(flow["stored"] for flow in answer["flows"])


def test_the_demo_balances_to_the_record_and_a_second_start_goes_on(tmp_path: Path):
    """Two runs on one data directory; the account covers both."""
    with Demo(tmp_path / "data", "--for", "25s", "--rate", "60") as demo:
        first = demo.end()
    vehicle = next(flow for flow in first["flows"] if flow["kind"] == "data.vehicle")
    assert vehicle["stored"] > 100
    assert vehicle["rejected"]
    assert not is_held(tmp_path / "data")
    with Demo(tmp_path / "data", "--for", "8s", "--rate", "60") as demo:
        second = demo.end()
    assert stored(second) > stored(first)
    assert second["alarms_raised"] >= first["alarms_raised"]


def test_the_account_balances_after_kill_9_of_broker_streams_and_console(tmp_path: Path):
    """Each while records flow; the supervisor restarts them and nothing is lost or doubled."""
    with Demo(tmp_path / "data", "--for", "75s", "--rate", "100") as demo:
        demo.wait_until(lambda: demo.role("city").get("state") == "running")
        for name in ("broker", "streams", "console", "dispatcher", "edge"):
            time.sleep(3)  # records must flow before the next blow
            demo.kill(name)
        answer = demo.end()
    assert answer["restarts"] >= 5
    assert stored(answer) > 500


def test_ctrl_c_stops_everything_and_leaves_nothing_behind(tmp_path: Path):
    """No process of the data directory survives, the lock is free."""
    with Demo(tmp_path / "data", "--rate", "20") as demo:
        demo.wait_until(lambda: demo.role("city").get("state") == "running")
        pids = [role["pid"] for role in read_state(demo.folder)["roles"].values()]
        demo.process.send_signal(signal.SIGINT)
        demo.process.wait(200)
    assert not is_held(tmp_path / "data")
    assert [pid for pid in pids if Path(f"/proc/{pid}").exists()] == []


def test_up_in_the_background_is_seen_by_status_refuses_a_second_and_ends_with_down(tmp_path: Path):
    """A day's work: up --detach, status, account, down."""
    command = command_of(tmp_path / "data")

    def databus(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*command, *words], cwd=PROJECT_ROOT, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=320, check=False,
        )  # fmt: skip

    up = databus("up", "--detach")
    try:
        assert up.returncode == 0, up.stderr
        roles = {role["role"]: role for role in json.loads(databus("status", "--json").stdout)}
        assert {role["state"] for role in roles.values()} == {"running"}
        again = databus("up")
        assert again.returncode == 1
        assert "is in use by process" in again.stderr
        account = databus("account", "--json")
        assert json.loads(account.stdout)["balanced"], account.stderr
        topics = databus("topics", "list")
        assert "data.vehicle" in topics.stdout
    finally:
        down = databus("down")
    assert down.stdout.strip() == "stopped"
    assert not is_held(tmp_path / "data")
    assert [r["pid"] for r in roles.values() if Path(f"/proc/{r['pid']}").exists()] == []
