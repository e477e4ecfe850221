"""Whether the watch lives, looked at every few seconds: a page asks four times a second."""

from __future__ import annotations

import asyncio

from monitor.ports import ReadWatch

REFRESH_S = 5.0


class WatchSign:
    """A service: `run` until cancelled. `unavailable` is empty while the watch lives."""

    def __init__(self, read: ReadWatch) -> None:
        self.unavailable = ""
        self._read = read

    async def run(self) -> None:
        """Look again and again."""
        while True:
            self.unavailable = await asyncio.to_thread(self._read)
            await asyncio.sleep(REFRESH_S)
