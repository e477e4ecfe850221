"""The deployment register as it stands on `control.register`, followed in a thread.

Reads the topic from its beginning; while nothing stands there, the site's own file is the register
(`RegisterFile`). A bus that is away leaves the last register in force.
"""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path

from bus.client.compacted_state import Change, KeyedValues, OnChange, struct_change
from bus.client.kafka.compacted_topic import CatchUpTimeout, CompactedTopic
from bus.client.model import ConsumedRecord
from bus.contracts.register import Register
from bus.contracts.register_entry import RegisterEntry
from bus.contracts.topics import CONTROL_REGISTER
from bus.domain.register_changes import Entries, entry_version, register_of, standing
from bus.domain.table_versions import TableVersions
from bus.errors import BusError
from bus.files.register_file import RegisterFile
from bus.settings import BusSettings

log = logging.getLogger(__name__)

POLL_S = 0.5
RETRY_S = 5.0
CHANGE_POLL_S = 0.05
# A register is small and changes seldom; sixty megabytes are all that the watch has.
_OVERRIDES: dict[str, object] = {
    "queued.max.messages.kbytes": 4096,
    # That the end is reached is known by an answer without records: a start waits for one.
    "fetch.wait.max.ms": 150,
    "log_level": 0,
    "reconnect.backoff.max.ms": 1000,
}
_entry_of = struct_change(RegisterEntry)


class RegisterTable(KeyedValues[RegisterEntry]):
    """Invariant: `values` has the entry of the greatest version of each key, without removed ones,
    in whatever order they came."""

    def __init__(self, on_change: OnChange[RegisterEntry]) -> None:
        super().__init__(self._change_of, on_change)
        self.versions = TableVersions()

    def _change_of(self, record: ConsumedRecord) -> Change[RegisterEntry] | None:
        """A removal is an entry, too; a tombstone, which anybody may write, removes only what the
        floor has made out of date."""
        change = _entry_of(record)
        if change is None:
            return None
        if (entry := change.value) is None:
            return change if self.versions.forget(change.key) else None
        version = entry_version(entry, record.timestamp_ms)
        if entry.op == "floor":
            self.versions.raise_floor(version)
            return None
        is_removal = entry.op == "remove"
        if not self.versions.accept(entry.key, version, is_removal=is_removal):
            return None
        return Change(entry.key, standing(entry))


class RegisterFollower:
    """Invariant: `_entries` is what the topic said up to where it was read, and is never changed,
    only replaced; a register is made of it when somebody asks after a change."""

    def __init__(self, bus: BusSettings, path: Path, client_id: str = "register") -> None:
        """`path`: the file that holds while the topic is empty."""
        self._bus = bus
        self._client_id = client_id
        self._file = RegisterFile(path)
        self._lock = threading.Lock()
        self._entries: Entries = {}
        self._versions = TableVersions()
        self._came = 0  # entries, by the newest look
        self._changes = 0
        self._made: tuple[int, Register] = (0, Register())
        self._at_end = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="register", daemon=True)

    def start(self) -> RegisterFollower:
        """Begin to follow."""
        self._thread.start()
        return self

    def wait_until_read(self, timeout_s: float) -> bool:
        """Whether the topic has been read to its end once."""
        return self._at_end.wait(timeout_s)

    def wait_for_change(self, version: int, timeout_s: float) -> bool:
        """Whether the register is another than that version now, or becomes so in time."""
        deadline = time.monotonic() + timeout_s
        while self.version == version and time.monotonic() < deadline:
            self._stopping.wait(CHANGE_POLL_S)
        return self.version != version

    def read(self) -> Register:
        """The register now."""
        with self._lock:
            if not self._changes:
                return self._file.read()
            if self._made[0] != self._changes:
                self._made = self._changes, register_of(self._entries)
            return self._made[1]

    @property
    def version(self) -> int:
        """Changes when the register does; pages use it in the address they load it from."""
        with self._lock:
            return self._changes or self._file.version

    def entries(self) -> Entries:
        """A copy of what stands on the topic."""
        with self._lock:
            return dict(self._entries)

    def next_version(self, key: str, now_ms: int) -> int:
        """What a message about this key needs to count, also when a clock went back."""
        with self._lock:
            return self._versions.next_version(key, now_ms)

    def close(self) -> None:
        """Stop following; what was read stays."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._follow()
            except (BusError, CatchUpTimeout) as error:
                log.warning("the register is not followed just now: %s", error)
                self._stopping.wait(RETRY_S)

    def _follow(self) -> None:
        """From the beginning; until the end was reached once, the former register holds. Raises
        BusError, CatchUpTimeout."""
        with CompactedTopic(
            self._bus, CONTROL_REGISTER, self._no_entries,
            client_id=self._client_id, first_offsets=None, overrides=_OVERRIDES,
            stopping=self._stopping,
        ) as topic:  # fmt: skip
            while not self._stopping.is_set():
                was_whole, before = topic.is_whole, topic.generation
                self._came = 0
                topic.follow(POLL_S)
                if topic.is_whole:
                    was_read_again = not was_whole or topic.generation != before
                    self._show(topic.state, was_read_again=was_read_again)

    def _no_entries(self) -> RegisterTable:
        return RegisterTable(self._count)

    def _count(self, _: Change[RegisterEntry]) -> None:
        self._came += 1

    def _show(self, table: RegisterTable, *, was_read_again: bool) -> None:
        """Who reads the same again, from the start, hears of no change."""
        entries = table.values
        with self._lock:
            self._versions = table.versions
            if entries != self._entries if was_read_again else self._came:
                self._entries = dict(entries)
                self._changes += 1
        self._at_end.set()
