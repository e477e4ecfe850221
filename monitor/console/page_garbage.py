"""When the console looks for garbage among all of its objects: seldom, and not while pages wait.

A page is some thousand objects that refer to each other, so only a full collection frees one that
was left, and a full collection stops the loop for some milliseconds per open page. Python begins
one whenever a quarter is new: while fifty pages were opened, for up to 0.2 s each (ADR 0099).
"""

from __future__ import annotations

import asyncio
import gc

from nicegui import app as nicegui_app

PAGES_LEFT = 50  # pages that were left and are still held: some 50 MB
INTERVAL_SECONDS = 600.0  # for what is garbage besides pages
THRESHOLDS = (5_000, 20, 1_000_000)
"""Young objects nearly as usual; a full collection never by itself."""


def put_startup_aside() -> None:
    """What lives by now lives for ever; from here on only `PageGarbage` looks through all."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)


class PageGarbage:
    """One per process. Invariant: at most `PAGES_LEFT` pages that were left are held."""

    def __init__(self) -> None:
        self._left = 0

    def watch(self) -> None:
        """Count the pages that are left; called once."""
        nicegui_app.on_delete(self._on_left)
        nicegui_app.timer(INTERVAL_SECONDS, self._collect, immediate=False)

    def _on_left(self) -> None:
        self._left += 1
        if self._left == PAGES_LEFT:
            asyncio.get_running_loop().call_soon(self._collect)  # this page is still being left

    def _collect(self) -> None:
        self._left = 0
        gc.collect()
