"""Pages that were left are freed in the end, and not one by one."""

from __future__ import annotations

import asyncio
import gc

from monitor.console.page_garbage import PAGES_LEFT, PageGarbage


async def test_pages_that_were_left_are_freed_together() -> None:
    """A full collection stops the loop for all others: one for `PAGES_LEFT` pages."""
    full: list[str] = []

    def on_collection(phase: str, info: dict[str, int]) -> None:
        if phase == "stop" and info["generation"] == 2:
            full.append(phase)

    thresholds = gc.get_threshold()
    gc.set_threshold(thresholds[0], thresholds[1], 1_000_000)
    gc.callbacks.append(on_collection)
    try:
        garbage = PageGarbage()
        for _ in range(PAGES_LEFT - 1):
            garbage._on_left()
        await asyncio.sleep(0)
        assert not full
        garbage._on_left()
        assert not full, "the page is still being left"
        await asyncio.sleep(0)
        assert len(full) == 1
    finally:
        gc.callbacks.remove(on_collection)
        gc.set_threshold(*thresholds)
