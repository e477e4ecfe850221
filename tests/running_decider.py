"""A decider alone, for tests that ask for rules and raise no alarm."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from alarm.decisions.alarm_machine import AlarmMachine
from alarm.dispatch.decider import CommandDecider, machines_of
from alarm.dispatch.metrics import DispatcherMetrics
from bus.contracts.topics import EVENT_COMMAND
from bus.domain.policy import NO_POLICY, PolicySettings
from bus.settings import BusSettings, SiteSettings

_MACHINES = machines_of(NO_POLICY, AlarmMachine(lambda: 0))
READY_S, POLL_S = 60.0, 0.02
DECIDED = (*_MACHINES, *(one.state_topic for one in _MACHINES.values()), EVENT_COMMAND)
"""The topics without which nobody decides."""


@contextmanager
def running_decider(
    bootstrap: str, policy: PolicySettings = NO_POLICY, *, is_awaited: bool = True
) -> Iterator[None]:
    """For as long as the block lasts, and ready: whoever asks waits a few seconds only, which a
    group's first member may need beside other tests. Its topics have to be there. `is_awaited`:
    not where it has to wait itself."""
    stopping = threading.Event()
    decider = CommandDecider(
        SiteSettings(), BusSettings(bootstrap_servers=bootstrap), stopping, DispatcherMetrics(),
        policy,
    )  # fmt: skip
    thread = threading.Thread(target=decider.run, name="decider")
    thread.start()
    try:
        deadline = time.monotonic() + READY_S
        while is_awaited and not decider.decides:
            assert time.monotonic() < deadline, "the decider is not ready"
            thread.join(POLL_S)
        yield
    finally:
        stopping.set()
        thread.join(30)
