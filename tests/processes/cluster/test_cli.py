"""`cluster up`, `status` and `down` with real brokers, as a person types them."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deploy.paths import PROJECT_ROOT
from deploy.supervisor.child import ServiceEndpoint

PATIENCE_S = 180.0
PORTS_APART = 10  # of the three brokers; `--port` names the first


def first_port(dice: random.Random) -> int:
    """A port followed by enough free ones for the cluster, below those of outgoing connections."""
    while True:
        first = dice.randrange(10_000, 30_000, 40)
        wanted = [first + PORTS_APART * node + more for node in range(3) for more in range(3)]
        if all(ServiceEndpoint("127.0.0.1", port, "").is_free() for port in wanted):
            return first


class Words:
    """`databus` on a separate data directory."""

    def __init__(self, folder: Path, dice: random.Random) -> None:
        self.folder = folder
        self._command = [sys.executable, "-m", "deploy", "--data-dir", str(folder)]
        port = first_port(dice)
        self.bootstrap = f"127.0.0.1:{port}"
        self.options = [f"--port={port}", "--brokers=3"]
        self.secured: list[str] = []

    def say(self, *words: str, answer: str = "") -> subprocess.CompletedProcess[str]:
        """Runs one command to its end; `answer` is typed at its questions."""
        return subprocess.run(
            [*self._command, *words], cwd=PROJECT_ROOT, input=answer,
            capture_output=True, text=True, timeout=PATIENCE_S * 2, check=False,
        )  # fmt: skip

    def brokers(self) -> list[dict[str, Any]]:
        """`cluster status --json`."""
        done = self.say(*self.secured, "cluster", "status", *self.options, "--json")
        assert done.returncode == 0, done.stderr
        found: list[dict[str, Any]] = json.loads(done.stdout)
        return found

    def wait_for(self, condition: Callable[[list[dict[str, Any]]], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition(rows := self.brokers()):
            assert time.monotonic() < deadline, f"never: {what}: {rows}"


def all_registered(rows: list[dict[str, Any]]) -> bool:
    return all(row["state"] == "running" and row.get("registered") for row in rows)


PAGE = PROJECT_ROOT / "docs" / "operations-cluster.md"
ELSEWHERE = {
    "cluster": "this file",
    "run": "systemd's and compose's business; tests/deploy/roles/test_units.py",
    "broker": "tests of a directory before its first start",
    "quorum add": "tests/conformance/test_java_dynamic_quorum.py",
    "quorum remove": "tests/conformance/test_java_dynamic_quorum.py",
}
"""Commands of the page that do not apply to a running cluster of three, and where they are
tested."""


def commands_of_the_page() -> list[list[str]]:
    """The commands for a running cluster in the documentation page, in its order. A word alone
    names a group of them."""
    found = re.findall(r"`?\./databus ([^`\n]+)`?", PAGE.read_text(encoding="utf-8"))
    elsewhere = tuple(f"{verb} " for verb in ELSEWHERE)
    return [text.split() for text in found if " " in text and not text.startswith(elsewhere)]


def run_the_page(words: Words) -> None:
    """Runs every command of the page, as written, in a folder for its files."""
    bootstrap = f"--set=bus.bootstrap_servers={words.bootstrap}"
    uneven = "--assignment=" + ",".join(["1:2"] * 6)  # otherwise there is nothing to move
    made = words.say("topics", "create", "data.vehicle", uneven, bootstrap)
    assert made.returncode == 0, made.stderr
    directories = [str(words.folder / "cluster" / "kraft" / f"broker-{n}") for n in (1, 2, 3)]
    logs = f"--set=broker.log.dirs={','.join(directories)}"
    commands = commands_of_the_page()
    assert len(commands) > 15
    for command in commands:
        # broker 4 of the page is broker 3 here; a plan's file must not lie in the repository
        typed = [word.replace("plan.json", str(words.folder / "plan.json")) for word in command]
        typed = ["3" if before == "--exclude" else word
                 for before, word in zip(["", *typed], typed, strict=False)]  # fmt: skip
        here = [logs] if typed[0] == "log" else []
        done = words.say(*typed, bootstrap, *here, answer="y\n")
        assert done.returncode == 0, (" ".join(command), done.stdout, done.stderr)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_cluster_is_started_looked_at_hit_and_stopped(
    tmp_path: Path, dice: random.Random
) -> None:
    """Three brokers run; a killed one is restarted automatically; `down` leaves no process."""
    words = Words(tmp_path, dice)
    up = words.say("cluster", "up", *words.options, "--detach")
    assert up.returncode == 0, up.stderr
    try:
        words.wait_for(all_registered, "three brokers are registered")
        before = words.brokers()
        assert [row["name"] for row in before] == ["broker-1", "broker-2", "broker-3"]
        assert sum(row["controller"] for row in before) == 1
        victim = before[1]
        os.kill(victim["pid"], signal.SIGKILL)
        words.wait_for(
            lambda rows: rows[1]["pid"] not in (None, victim["pid"]) and all_registered(rows),
            "the killed broker is back",
        )
        assert words.brokers()[1]["restarts"] == 1
        table = words.say("cluster", "status", *words.options).stdout
        assert "0 without a leader" in table
        run_the_page(words)
    finally:
        assert words.say("cluster", "down").stdout == "stopped\n"
    assert all(row["state"] == "stopped" for row in words.brokers())
    assert not any(Path(f"/proc/{row['pid']}").exists() for row in before)
