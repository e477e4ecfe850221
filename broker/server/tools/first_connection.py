"""A tool waits for its session with ZooKeeper: until it is connected, or refused, or too late.

In: a session that has not been started. Out: nothing. Raises StartError with the reason.
"""

from __future__ import annotations

import asyncio

from broker.clock.port import Clock
from broker.controller.zk.port import SessionState, WatchEvent, ZooKeeperSession
from broker.server.control_plane import StartError


class FirstConnection:
    """Waits until a session is connected, or its login refused."""

    def __init__(self, session: ZooKeeperSession) -> None:
        self._session = session
        self._ended = asyncio.Event()

    def on_session(self, state: SessionState, session_id: int) -> None:
        """The listener's."""
        if state is SessionState.CONNECTED or self._session.is_refused:
            self._ended.set()

    def on_watch(self, event: WatchEvent) -> None:
        """Nothing is watched."""

    async def wait(self, clock: Clock, timeout_ms: int) -> None:
        """Raises StartError."""
        timer = clock.call_later(timeout_ms / 1000, self._ended.set)
        await self._ended.wait()
        timer.cancel()
        session = self._session
        if session.state is SessionState.CONNECTED:
            return
        reason = session.last_failure
        if session.is_refused:
            raise StartError(f"ZooKeeper does not let us in: {reason}")
        raise StartError(
            f"ZooKeeper did not answer within {timeout_ms} ms; check the address"
            + (f" (the last attempt: {reason})" if reason else "")
        )
