"""The product as processes, for the tests of this folder: started, observed, killed, stopped.

In: a folder. Out: what `databus` answers, what the stores contain. Never: a signal to a process
that the supervisor of this folder did not start.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deploy.paths import PROJECT_ROOT
from deploy.reconcile import collect
from deploy.reconcile.balance import Reconciliation
from deploy.servers.process import free_port
from deploy.settings.composed import load
from deploy.supervisor.state_file import is_held, read_state
from ingest.senders.simulator.ground_truth import read_truth, truth_files
from ingest.store.open import open_store
from ingest.store.port import Counts, RecordReader, StoreError

VERB_S = 500.0  # a whole film, beside other tests
STARTED_S = 240.0  # Spark on a machine that is busy with other tests
ACCOUNT_S = 1200.0  # the time of a demo, and until nothing more arrives
POLL_S = 0.2


@dataclass(frozen=True)
class RunningProduct:
    """A data directory and free ports; `databus` on them, and the directory's content. `data_dir`:
    what is given to the commands, where the data of the arrangement are in a folder below."""

    folder: Path
    data_dir: Path | None = None
    broker: int = field(default_factory=free_port)
    edge: int = field(default_factory=free_port)
    console: int = field(default_factory=free_port)

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.broker}"

    @property
    def edge_url(self) -> str:
        return f"http://127.0.0.1:{self.edge}"

    @property
    def flags(self) -> list[str]:
        settings = {
            "site.data_dir": self.data_dir or self.folder, "broker.metrics.port": 0,
            "broker.listeners": f"PLAINTEXT://{self.bootstrap}",
            "bus.bootstrap_servers": self.bootstrap, "edge.port": self.edge,
            "console.port": self.console,
        }  # fmt: skip
        return [f"{key}={value}" for key, value in settings.items()]

    @property
    def command(self) -> list[str]:
        words = [word for flag in self.flags for word in ("--set", flag)]
        return [sys.executable, "-m", "deploy", *words]

    def databus(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Runs one `databus` command to its end."""
        return subprocess.run(
            [*self.command, *words], cwd=PROJECT_ROOT, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=VERB_S, check=False,
        )  # fmt: skip

    def lines(self, *words: str) -> list[dict[str, Any]]:
        """Runs a command with `--json`; returns its lines."""
        done = self.databus(*words, "--json")
        assert done.stdout or not done.returncode, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def account(self) -> Reconciliation:
        """The current account."""
        return collect.reconcile(load(None, self.flags))

    @contextlib.contextmanager
    def records(self) -> Iterator[RecordReader]:
        """The record store, for reading."""
        reader = open_store(f"sqlite://{self.folder / 'store' / 'records.db'}")
        try:
            yield reader
        finally:
            reader.close()

    def counts(self) -> Counts:
        with self.records() as reader:
            return reader.counts()

    def stored(self) -> int:
        """The number of records in the store; 0 before the store exists."""
        try:
            return sum(self.counts().stored.values())
        except StoreError:
            return 0

    def sent(self) -> int:
        """The number of records that the simulated city has recorded as sent."""
        totals = read_truth(truth_files(self.folder / "city"))
        return sum(topic.sent for topic in totals.topics.values()) + len(totals.unconfirmed)

    def role(self, name: str) -> dict[str, Any]:
        return (read_state(self.folder) or {}).get("roles", {}).get(name, {})

    def pids(self) -> list[int]:
        roles = (read_state(self.folder) or {}).get("roles", {})
        return [role["pid"] for role in roles.values() if role["pid"]]

    @property
    def logs_end(self) -> str:
        """The ends of all logs, for a failure's message."""
        logs = sorted((self.folder / "log").glob("*.log"))
        return "\n".join(f"== {log.name}\n{log.read_text()[-1500:]}" for log in logs)


class Demo:
    """`databus demo` as a separate process; `started_s` bounds each wait."""

    def __init__(self, place: RunningProduct, *words: str, started_s: float = STARTED_S) -> None:
        self.place = place
        self._started_s = started_s
        self._errors = (place.data_dir or place.folder).parent / "demo.err"
        with self._errors.open("ab") as errors:
            self.process = subprocess.Popen(
                [*place.command, "demo", "--city-hour", "8", "--json", *words],
                cwd=PROJECT_ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors,
            )  # fmt: skip

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + self._started_s
        while not condition():
            assert self.process.poll() is None, f"the demo ended before {what}\n{self.logs_end}"
            assert time.monotonic() < deadline, f"never: {what}\n{self.logs_end}"
            time.sleep(POLL_S)

    def runs(self) -> None:
        """Waits until the city runs and its records are stored."""
        self.wait_until(lambda: self.place.role("city").get("state") == "running", "all run")
        self.flows("the first record is stored")

    def flows(self, what: str, records: int = 500) -> None:
        """Waits until so many more records are stored."""
        before = self.place.stored()
        self.wait_until(lambda: self.place.stored() >= before + records, what)

    def kill(self, names: Sequence[str]) -> float:
        """Kills all these at once with -9; returns the seconds until each is running again."""
        victims = {name: self.place.role(name)["pid"] for name in names}
        began = time.monotonic()
        for pid in victims.values():
            os.kill(pid, signal.SIGKILL)
        self.wait_until(
            lambda: all(self._succeeded(name, pid) for name, pid in victims.items()),
            f"{names} run again",
        )
        return time.monotonic() - began

    def _succeeded(self, name: str, pid: int) -> bool:
        now = self.place.role(name)
        return now.get("pid") not in (None, pid) and now["state"] == "running"

    def ctrl_c(self) -> dict[str, Any]:
        self.process.send_signal(signal.SIGINT)
        return self.end()

    def end(self) -> dict[str, Any]:
        """Waits for the end; returns the account, which must balance."""
        output, _ = self.process.communicate(timeout=ACCOUNT_S)
        assert output.strip(), self.logs_end
        account: dict[str, Any] = json.loads(output.splitlines()[-1])
        assert account["faults"] == [], f"{account}\n{self.logs_end}"
        assert account["balanced"]
        assert self.process.returncode == 0
        return account

    @property
    def logs_end(self) -> str:
        return self._errors.read_text()[-1500:] + self.place.logs_end

    def __enter__(self) -> Demo:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.communicate(timeout=300)


def stored_in(account: dict[str, Any]) -> int:
    return sum(flow["stored"] for flow in account["flows"])


def leaves_nothing(place: RunningProduct, pids: Sequence[int]) -> bool:
    """Whether no process of the data directory survives and the lock is free."""
    return not is_held(place.folder) and not any(Path(f"/proc/{pid}").exists() for pid in pids)


def eventually(condition: Callable[[], bool], what: Callable[[], str], bound_s: float = 60) -> None:
    """Polls until it holds; `what` is for the failure's message."""
    deadline = time.monotonic() + bound_s
    while not condition():
        assert time.monotonic() < deadline, what()
        time.sleep(POLL_S)
