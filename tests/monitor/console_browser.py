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

PAGES = (
    "live", "map", "records", "faces", "alarms", "watch", "lists", "register", "latency", "quality", "bus", "cluster",
    "metadata", "system", "proposals", "questions",
)  # fmt: skip
PATIENCE_MS = 30_000


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class ConsoleProcess:
    """A console process with its address and data."""

    def __init__(
        self, data_path: Path, bootstrap: str, started_ms: int, mirror: str = "", *,
        has_policy: bool = False, most_faces: int = 0,
    ) -> None:
        """`most_faces`: records that one search for a face looks at; 0: as many as usual."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url, self.data_path, self.bootstrap = f"http://127.0.0.1:{port}", data_path, bootstrap
        self.started_ms = started_ms
        self.log = data_path / "console.log"
        script = Path(__file__).parent / "console_process.py"
        words = [str(port), bootstrap, str(data_path), str(started_ms), mirror, "1" * has_policy, str(most_faces)]
        self.process = subprocess.Popen(
            [sys.executable, str(script), *words],
            stdout=self.log.open("w"),
            stderr=subprocess.STDOUT,
        )
        try:
            self._wait()
        except BaseException:  # also a test's time limit: nobody else knows the process
            self.process.kill()
            self.process.wait(20)
            raise

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


WIDTHS = {390: 844, 768: 1024, 1024: 768, 1280: 720, 1440: 900, 1920: 1080}  # -> height
LEAST_GRID_PX, LEAST_ROWS = 240, 4
# What a person would not see: a grid lower than its least height or too low for four of its rows
# (or for all of them, where it has fewer and is as high as they are), a block over another one, a
# grid that sticks out of its panel.
NOT_SHOWN = """
([least, leastRows]) => {
  const shown = (selector) => [...document.querySelectorAll(selector)].filter(e => e.getClientRects().length);
  const name = (e) => e.getAttribute('aria-label') || e.className + ': ' + e.innerText.slice(0, 30);
  const faults = [];
  for (const grid of shown('.nicegui-aggrid')) {
    const box = grid.getBoundingClientRect(), rows = grid.querySelector('.ag-body');
    const one = grid.querySelector('.ag-center-cols-container .ag-row')?.getBoundingClientRect().height || 32;
    const count = Math.max(1, grid.querySelectorAll('.ag-center-cols-container .ag-row').length);
    const whole = rows.clientHeight >= count * one && rows.clientHeight < (count + 1) * one;
    const room = box.height >= least && rows.clientHeight >= leastRows * one;
    if (!whole && !room) faults.push(`${name(grid)}: ${box.height} px, ${rows.clientHeight} px for rows of ${one} px`);
    const panel = grid.closest('.panel, .q-dialog')?.getBoundingClientRect();
    if (panel && (box.top < panel.top - 1 || box.bottom > panel.bottom + 1)) faults.push(`${name(grid)}: out of its panel`);
  }
  const blocks = shown('.panel, .tile, .city-map, .nicegui-aggrid, .nicegui-echart, h1');
  blocks.forEach((one, i) => blocks.slice(i + 1).forEach(other => {
    if (one.contains(other) || other.contains(one)) return;
    const a = one.getBoundingClientRect(), b = other.getBoundingClientRect();
    const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left), high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    if (wide > 1 && high > 1 && !one.closest('.leaflet-container')) faults.push(`${name(one)} over ${name(other)}`);
  }));
  return faults;
}
"""


def not_shown(page: Page, width: int) -> list[str]:
    """What of this page's blocks a person does not see at this width."""
    page.set_viewport_size({"width": width, "height": WIDTHS[width]})
    page.wait_for_function("width => innerWidth === width", arg=width)
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return list(page.evaluate(NOT_SHOWN, [LEAST_GRID_PX, LEAST_ROWS]))
