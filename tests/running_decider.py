"""A decider alone, for tests that ask for rules and raise no alarm."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from alarm.decisions.alarm_machine import AlarmMachine
from alarm.dispatch.decider import CommandDecider, machines_of
from alarm.dispatch.metrics import DispatcherMetrics
from bus.contracts.topics import EVENT_COMMAND
from bus.domain.policy import NO_POLICY, PolicySettings
from bus.settings import BusSettings, SiteSettings

_MACHINES = machines_of(NO_POLICY, AlarmMachine(lambda: 0))
DECIDED = (*_MACHINES, *(one.state_topic for one in _MACHINES.values()), EVENT_COMMAND)
"""The topics without which nobody decides."""


@contextmanager
def running_decider(bootstrap: str, policy: PolicySettings = NO_POLICY) -> Iterator[None]:
    """For as long as the block lasts; it waits for its topics by itself."""
    stopping = threading.Event()
    decider = CommandDecider(
        SiteSettings(), BusSettings(bootstrap_servers=bootstrap), stopping, DispatcherMetrics(),
        policy,
    )
    thread = threading.Thread(target=decider.run, name="decider")
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join(30)
