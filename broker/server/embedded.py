"""A real broker in a process of its own, for tests and tools of any room.

In: a data directory and properties. Out: a `RunningBroker` that serves.
Never: a stand-in; it is the same program that `databus run broker` starts. A port of 0 takes a
free one, and `start_again` keeps it, so that clients find a restarted broker.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from pathlib import Path

PROJECT_ROOT = Path(__file__).resolve().parents[2]
READY_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0
_READY = re.compile(r"broker (\d+) ready on (\S+) metrics (-?\d+) cluster (\S+)")


class BrokerDidNotStart(Exception):
    """The process ended or was silent; the text ends with its log."""


@dataclass(slots=True)
class RunningBroker:
    """A broker process that serves."""

    bootstrap: str
    data_dir: Path
    metrics_port: int
    cluster_id: str
    process: subprocess.Popen[str]
    properties: dict[str, str] = field(default_factory=dict)

    @property
    def pid(self) -> int:
        """The process' id."""
        return self.process.pid

    @property
    def log_path(self) -> Path:
        """What it logs."""
        return log_path(self.data_dir)

    def stop(self) -> int:
        """SIGTERM and wait; the exit status, 0 for a clean stop."""
        self.process.terminate()
        return self._wait()

    def kill(self) -> None:
        """SIGKILL and wait: what was acknowledged must survive it."""
        self.process.kill()
        self._wait()

    def start_again(self) -> RunningBroker:
        """The same broker on the same port and data."""
        listeners = {"listeners": f"PLAINTEXT://{self.bootstrap}"}
        return start_broker_process(self.data_dir, self.properties | listeners)

    def _wait(self) -> int:
        try:
            return self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()
        finally:
            if self.process.stdout is not None:
                self.process.stdout.close()


def start_broker_process(
    data_dir: Path | str, properties: Mapping[str, str] | None = None
) -> RunningBroker:
    """Start a broker on a free port of 127.0.0.1 (unless `listeners` is given); it serves when
    this returns. Raises `BrokerDidNotStart`."""
    directory = Path(data_dir).absolute()
    directory.mkdir(parents=True, exist_ok=True)
    given = {"listeners": "PLAINTEXT://127.0.0.1:0", "metrics.port": "0", **(properties or {})}
    words = [sys.executable, "-m", "broker.server", "--data-dir", str(directory / "logs")]
    for key, value in given.items():
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
    match = _READY.search(_first_line(process, directory))
    if match is None:
        raise _failure(process, directory)
    _, bootstrap, metrics_port, cluster_id = match.groups()
    return RunningBroker(
        bootstrap, directory, int(metrics_port), cluster_id, process, dict(given)
    )


def log_path(data_dir: Path) -> Path:
    """Where a broker started here logs to."""
    return data_dir / "broker.log"


def _first_line(process: subprocess.Popen[str], directory: Path) -> str:
    if process.stdout is None or not wait([process.stdout], READY_TIMEOUT_S):  # type: ignore[list-item]
        raise _failure(process, directory)
    return process.stdout.readline()


def _failure(process: subprocess.Popen[str], directory: Path) -> BrokerDidNotStart:
    process.kill()
    process.wait()
    tail = log_path(directory).read_text(encoding="utf-8")[-4000:]
    return BrokerDidNotStart(f"the broker did not start:\n{tail}")
