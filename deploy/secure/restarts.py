"""Restarts processes that the product's supervisor keeps alive on this machine.

In: the settings. Out: a process that has ended and is there again, ready. Raises OperatorError.
Never: a process that no supervisor would start again; SIGKILL.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress

from deploy.errors import OperatorError
from deploy.settings.composed import Settings, own_broker
from deploy.supervisor.child import RoleState
from deploy.supervisor.state_file import supervised
from monitor.ports import ProcessStatus

RESTART_TIMEOUT_S = 300.0
"""A driver of Spark on a busy machine takes its time."""
POLL_S = 0.1


class LocalRestarts:
    """Of one data directory."""

    def __init__(self, settings: Settings) -> None:
        self._folder = settings.site.data_path
        self._own_number = int(own_broker(settings))

    def has_broker(self, number: int) -> bool:
        """Whether that broker is kept alive here."""
        return self._status(self._role(number)) is not None

    def restart_broker(self, number: int) -> None:
        """Its leaderships move to others before it ends."""
        self.restart(self._role(number))

    def restart(self, role: str) -> None:
        """Ask it to end, and wait until its next process is ready."""
        before = self._status(role)
        if before is None or before.pid is None:
            raise OperatorError(f"{role} does not run on this machine")
        with suppress(ProcessLookupError):  # it has just ended by itself
            os.kill(before.pid, signal.SIGTERM)
        deadline_s = time.monotonic() + RESTART_TIMEOUT_S
        while time.monotonic() < deadline_s:
            now = self._status(role)
            if now is not None and now.state == RoleState.FAILED.value:
                raise OperatorError(f"{role} was given up; the reason is in its log")
            if now is not None and now.pid != before.pid and now.state == RoleState.RUNNING.value:
                return
            time.sleep(POLL_S)
        raise OperatorError(f"{role} does not come back; the reason is in its log")

    def _status(self, role: str) -> ProcessStatus | None:
        return next((one for one in supervised(self._folder) if one.role == role), None)

    def _role(self, number: int) -> str:
        """Of `cluster up`, else of `up`."""
        in_cluster = f"broker-{number}"
        if self._status(in_cluster) is None and number == self._own_number:
            return "broker"
        return in_cluster
