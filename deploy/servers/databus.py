"""A real broker in its own process, for tests and tools of any package.

It is the same program that `databus run broker` starts. A port of 0 takes a free one, and `restart`
keeps it, so that clients find a restarted broker.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from pathlib import Path

PROJECT_ROOT = Path(__file__).resolve().parents[2]
READY_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0
_READY = re.compile(r"broker (\d+) ready on (\S+) metrics (-?\d+) cluster (\S+)")


class BrokerStartError(Exception):
    """The process ended or did not report ready; the text ends with its log."""


@dataclass(slots=True)
class RunningBroker:
    """A broker process that serves."""

    bootstrap: str
    data_dir: Path
    metrics_port: int
    cluster_id: str
    process: subprocess.Popen[str]
    properties: dict[str, str] = field(default_factory=dict)
    node_id: int = 1
    role: str = "broker,controller"

    @property
    def pid(self) -> int:
        """The process' id."""
        return self.process.pid

    @property
    def log_path(self) -> Path:
        """The log file of the process."""
        return log_path(self.data_dir)

    def stop(self) -> int:
        """SIGTERM and wait; the exit status, 0 for a clean stop."""
        self.process.terminate()
        return self._wait()

    def kill(self) -> None:
        """SIGKILL and wait: acknowledged records must survive it."""
        self.process.kill()
        self._wait()

    def restart(self) -> RunningBroker:
        """Start the same broker on the same port and data."""
        listeners = {"listeners": f"PLAINTEXT://{self.bootstrap}"}
        return start_broker(self.data_dir, self.properties | listeners)

    def _wait(self) -> int:
        try:
            return self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()
        finally:
            if self.process.stdout is not None:
                self.process.stdout.close()


@dataclass(slots=True)
class BrokerProcess:
    """A broker process that was started and may not serve yet."""

    directory: Path
    properties: dict[str, str]
    process: subprocess.Popen[str]
    node_id: int
    role: str

    def wait_until_ready(self, timeout_s: float = READY_TIMEOUT_S) -> RunningBroker:
        """Wait until it serves. Raises `BrokerStartError`; the process has ended then."""
        match = _READY.search(self._first_line(timeout_s))
        if match is None:
            raise self._failure()
        _, bootstrap, metrics_port, cluster_id = match.groups()
        return RunningBroker(
            bootstrap, self.directory, int(metrics_port), cluster_id, self.process,
            self.properties, self.node_id, self.role,
        )

    def kill(self) -> None:
        """Kill it, if it lives."""
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()

    def _first_line(self, timeout_s: float) -> str:
        out = self.process.stdout
        if out is None or not wait([out.fileno()], timeout_s):
            raise self._failure()
        return out.readline()

    def _failure(self) -> BrokerStartError:
        self.kill()
        tail = log_path(self.directory).read_text(encoding="utf-8", errors="replace")[-4000:]
        return BrokerStartError(f"node {self.node_id} did not start:\n{tail}")


def spawn_broker(
    data_dir: Path | str,
    properties: Mapping[str, str],
    *,
    prefix: Sequence[str] = (),
    node_id: int = 1,
    role: str = "broker,controller",
) -> BrokerProcess:
    """Start a process with these properties; it need not serve yet when this returns."""
    directory = Path(data_dir).absolute()
    directory.mkdir(parents=True, exist_ok=True)
    words = [*prefix, sys.executable, "-m", "broker.server"]
    words += ["--data-dir", str(directory / "logs")]
    for key, value in properties.items():
        words += ["--override", f"{key}={value}"]
    with open(log_path(directory), "a", encoding="utf-8") as log:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=PROJECT_ROOT,
            text=True,
        )
    return BrokerProcess(directory, dict(properties), process, node_id, role)


def start_broker(
    data_dir: Path | str, properties: Mapping[str, str] | None = None
) -> RunningBroker:
    """Start a broker on a free port of 127.0.0.1 (unless `listeners` is given); it serves when
    this returns. Raises `BrokerStartError`."""
    given = {"listeners": "PLAINTEXT://127.0.0.1:0", "metrics.port": "0", **(properties or {})}
    return spawn_broker(data_dir, given).wait_until_ready()


def log_path(data_dir: Path) -> Path:
    """Where a broker started here logs to."""
    return data_dir / "broker.log"
