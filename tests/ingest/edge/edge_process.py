"""An edge in a process of its own, which a test may kill and start again."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import httpx

from deploy.servers.process import free_port

ROOT = Path(__file__).resolve().parents[3]
_SCRIPT = """
import sys, uvloop
from bus.settings import BusSettings, SiteSettings
from ingest.edge.app import serve
from ingest.settings import EdgeSettings, PictureSettings
bootstrap, port, data_dir = sys.argv[1:]
uvloop.run(serve(SiteSettings(data_dir=data_dir), BusSettings(bootstrap_servers=bootstrap),
                 EdgeSettings(port=int(port), spool_min_free_bytes=0), PictureSettings()))
"""


class EdgeProcess:
    """One edge process on a free port, which it keeps across restarts."""

    def __init__(self, bootstrap: str, data_dir: Path) -> None:
        self.url = f"http://127.0.0.1:{free_port()}"
        self._arguments = [bootstrap, self.url.rpartition(":")[2], str(data_dir)]
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen([sys.executable, "-c", _SCRIPT, *self._arguments], cwd=ROOT)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                if httpx.get(f"{self.url}/healthz").status_code == 200:
                    return
            except httpx.TransportError:
                time.sleep(0.05)
        raise AssertionError("the edge did not start")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(30)

    def __enter__(self) -> EdgeProcess:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.stop()

    def drained(self, timeout_s: float = 60) -> dict[str, object]:
        """Waits until no record waits for the bus; returns the status."""
        deadline = time.monotonic() + timeout_s
        while True:
            status: dict[str, object] = httpx.get(f"{self.url}/v1/status").json()
            if status["backlog"] == 0:
                return status
            assert time.monotonic() < deadline, status
            time.sleep(0.05)
