"""What people change of the register in the console: a file's changes, tried or sent.

One at a time in this console; two consoles that change the same entry at once end with the later
one, as two commands do.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from bus.client.register_follower import RegisterFollower
from bus.client.register_writer import send_entries
from bus.domain.register_changes import Entries, entries_of
from bus.domain.register_formats import LineFault, read_file
from bus.domain.register_import import RegisterImport, plan_import
from bus.errors import BusError
from bus.settings import BusSettings, SiteSettings

CLIENT_ID = "databus-console-register"
SEND_SECONDS = 15.0  # an operator waits for it; ten thousand devices take about one
SEEN_SECONDS = 5.0  # until the change is in the register that this console shows


class RegisterUnavailable(Exception):
    """The bus has not said what stands on its topic, or did not take all changes."""


class ImportOutcome(NamedTuple):
    """The changes by key, which of them are new, or the faults; whether the changes were sent."""

    changes: Entries
    added: frozenset[str]
    faults: list[LineFault]
    written: bool


class RegisterWrites:
    """Reads the register through the console's one follower."""

    def __init__(self, site: SiteSettings, bus: BusSettings, register: RegisterFollower) -> None:
        self._site = site
        self._bus = bus
        self._register = register
        self._lock = asyncio.Lock()

    async def import_file(
        self, data: bytes, form: str, *, replace: bool, dry_run: bool, author: str
    ) -> ImportOutcome:
        """A file of one of `FORMATS`. Nothing is sent where anything is wrong. Raises
        `RegisterUnavailable`; the same file again is safe."""
        async with self._lock:
            if not self._register.wait_until_read(0):
                raise RegisterUnavailable("the register has not been read from the bus yet")
            plan = await asyncio.to_thread(self._plan, data, form, replace)
            if plan.faults or dry_run or not plan.changes:
                return ImportOutcome(plan.changes, plan.added, plan.faults, False)
            await asyncio.to_thread(self._send, plan.to_send, author)
            return ImportOutcome(plan.changes, plan.added, [], True)

    def _plan(self, data: bytes, form: str, replace: bool) -> RegisterImport:
        on_topic = self._register.entries()
        in_force = entries_of(self._register.read())
        return plan_import(read_file(data, form), on_topic, in_force, replace=replace)

    def _send(self, changes: Entries, author: str) -> None:
        before = self._register.version
        try:
            send_entries(
                self._site, self._bus, changes.values(), author, CLIENT_ID,
                self._register.next_version, SEND_SECONDS,
            )  # fmt: skip
        except BusError as error:
            raise RegisterUnavailable(str(error)) from error
        self._register.wait_for_change(before, SEEN_SECONDS)
