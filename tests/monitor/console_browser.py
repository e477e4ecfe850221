"""A console process and Chromium before it, for the tests that look at pages as a person does."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx
from playwright.sync_api import Page

FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
PAGES = (
    "live", "map", "records", "alarms", "watch", "register", "latency", "quality", "bus", "cluster",
    "metadata", "system",
)  # fmt: skip
PATIENCE_MS = 30_000


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class ConsoleProcess:
    """A console process with its address and data."""

    def __init__(self, data_path: Path, bootstrap: str, started_ms: int, mirror: str = "") -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url, self.data_path, self.bootstrap = f"http://127.0.0.1:{port}", data_path, bootstrap
        self.log = data_path / "console.log"
        script = Path(__file__).parent / "console_process.py"
        words = [str(port), bootstrap, str(data_path), str(started_ms), mirror]
        self.process = subprocess.Popen(
            [sys.executable, str(script), *words],
            stdout=self.log.open("w"),
            stderr=subprocess.STDOUT,
        )
        self._wait()

    def _wait(self) -> None:
        end = time.monotonic() + 60
        while True:
            try:
                httpx.get(self.url + "/healthz", timeout=1)
                return
            except httpx.TransportError:
                assert self.process.poll() is None, self.log.read_text()
                assert time.monotonic() < end, self.log.read_text()

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(20)


OpenPage = Callable[..., Page]


def shoot(page: Page, console: ConsoleProcess, name: str) -> None:
    folder = console.data_path / "screenshots"
    folder.mkdir(exist_ok=True)
    page.screenshot(path=str(folder / f"{name}.png"))
