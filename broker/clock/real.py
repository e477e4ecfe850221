"""The clock of production: the system's time and random numbers, the running asyncio loop."""

from __future__ import annotations

import random
import secrets
import uuid

from bus.client.wire.loop_ports import LoopClock
from bus.runtime import wall_clock


class RealClock(LoopClock):
    """Implements ``clock.port.Clock`` on the running event loop."""

    def __init__(self, seed: int | None = None) -> None:
        super().__init__(random.Random(seed) if seed is not None else None)

    now_ms = staticmethod(wall_clock.now_ms)

    secret_bytes = staticmethod(secrets.token_bytes)

    def new_uuid(self) -> bytes:
        return uuid.UUID(int=self.random.getrandbits(128), version=4).bytes
