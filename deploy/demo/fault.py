"""The one mishap of a demo on a cluster: a leading broker dies in the middle of it, by kill -9.

In: how long the demo has run. Out: one dead process, which the supervisor starts again. Never: a
process that the supervisor did not start.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable

from bus.contracts.topics import DATA_VEHICLE
from bus.errors import BusError
from deploy.cluster.status import fetch_status
from deploy.settings.composed import Settings
from deploy.supervisor.supervisor import Supervisor


class LeaderKill:
    """Kills the leader of the vehicles' first partition, once.

    Invariant: `victim` is empty until the signal was sent.
    """

    def __init__(self, supervisor: Supervisor, at_s: float, say: Callable[[str], None]) -> None:
        self._supervisor = supervisor
        self._at_s = at_s
        self._say = say
        self.victim = ""

    def strike_when_due(self, settings: Settings, passed_s: float) -> None:
        """Called again and again; strikes when the time has come and a leader is known."""
        if self.victim or passed_s < self._at_s:
            return
        try:
            seen = fetch_status(settings.bus)
        except BusError:
            return
        found = [topic for topic in seen.topics if topic.name == DATA_VEHICLE]
        if not found or found[0].partitions[0].leader < 0:
            return
        name = f"broker-{found[0].partitions[0].leader}"
        child = self._supervisor.children.get(name)
        if child is None or child.pid is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(child.pid, signal.SIGKILL)
            self.victim = name
            self._say(f"{name}, a leader, was killed after {passed_s:.0f} s; the flow goes on")
