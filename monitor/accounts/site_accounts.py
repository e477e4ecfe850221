"""Accounts of the primary site are those of the other one, too: a thread of the console.

In: the accounts' file, `control.accounts`, a secret that both sites have. Out: the newest snapshot
in the file; at the primary, another one on the topic whenever its accounts have changed. Never:
anything sent without the secret, or before a newer snapshot of another console is in the file; two
reasons told for one snapshot that cannot be opened.
"""

from __future__ import annotations

import logging
import threading
from contextlib import closing

import msgspec

from bus.client.kafka.compacted_topic import CatchUpTimeout, CompactedTopic, TopicMissing
from bus.client.kafka.send_all import send_all
from bus.client.kafka.site_role import SiteRole
from bus.client.model import ConsumedRecord, KeyedValue
from bus.contracts.account_snapshot import SNAPSHOT_KEY, SealedAccounts, decode_snapshot
from bus.contracts.headers import SCHEMA
from bus.contracts.topics import CONTROL_ACCOUNTS, TOPICS
from bus.errors import BusError
from bus.runtime.wall_clock import now_ms
from bus.settings import BusSettings
from monitor.accounts.errors import AccountsUnavailable
from monitor.accounts.replicated_accounts import ReplicatedAccounts
from monitor.accounts.sealing import AccountRow, AccountSealing, SealingError

log = logging.getLogger(__name__)

CLIENT_ID = "console-accounts"
POLL_S = 1.0
RETRY_S = 5.0
TIMEOUT_S = 10.0


class NewestSnapshot:
    """The newest snapshot of the topic as far as it was read, whoever wrote it."""

    def __init__(self) -> None:
        self.snapshot: SealedAccounts | None = None

    def apply(self, record: ConsumedRecord) -> None:
        """Consoles of two sites may have written in any order."""
        found = decode_snapshot(record.value)
        if found is not None and (self.snapshot is None or found.version > self.snapshot.version):
            self.snapshot = found


class SiteAccounts:
    """`start`, `close`. Invariant: `_newest` is the newest snapshot of the topic as far as it was
    read, or written since."""

    def __init__(self, bus: BusSettings, secret: str, accounts: ReplicatedAccounts) -> None:
        self._bus = bus
        self._sealing = AccountSealing(secret)
        self._accounts = accounts
        self._newest = NewestSnapshot()
        self._refused = -1
        self.problem = ""
        """Why the two sites' accounts may differ; empty: nothing is known."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="site accounts", daemon=True)

    def start(self) -> SiteAccounts:
        """Begin."""
        self._thread.start()
        return self

    def close(self) -> None:
        """End."""
        self._stopping.set()
        self._thread.join(TIMEOUT_S)

    def _run(self) -> None:
        with closing(SiteRole(self._bus, f"{CLIENT_ID}-role").start()) as role:
            while not self._stopping.is_set():
                try:
                    self._follow(role)
                except TopicMissing:
                    self._stopping.wait(RETRY_S)
                except (BusError, CatchUpTimeout, AccountsUnavailable) as error:
                    log.info("accounts are carried later: %s", error)
                    self.problem = str(error)
                    self._stopping.wait(RETRY_S)

    def _follow(self, role: SiteRole) -> None:
        """Read the topic, and write to it or from it. Raises BusError, CatchUpTimeout,
        AccountsUnavailable."""
        with CompactedTopic(
            self._bus, CONTROL_ACCOUNTS, NewestSnapshot,
            client_id=CLIENT_ID, timeout_s=TIMEOUT_S, stopping=self._stopping,
        ) as topic:  # fmt: skip
            while not self._stopping.is_set():
                topic.follow(POLL_S)
                if topic.is_at_end and role.is_known:
                    self._newest = topic.state
                    is_secondary = role.secondary_since_ms is not None
                    (self._follow_primary if is_secondary else self._publish)()

    def _take_newest(self) -> str:
        """Write the newest snapshot if the file is older. Returns why it is refused; empty: it is
        not. Raises AccountsUnavailable."""
        newest = self._newest.snapshot
        if newest is None or newest.version <= self._accounts.version():
            return ""
        try:
            before = {row.name for row in self._accounts.rows()}
            if self._accounts.write(self._sealing.open(newest), newest.version):
                gone = sorted(before - {row.name for row in self._accounts.rows()})
                log.info("console: the other site's accounts are here, as of %d", newest.version)
                if gone:
                    log.warning("console: removed, as at the other site: %s", ", ".join(gone))
        except (SealingError, ValueError) as error:
            if self._refused != newest.version:
                log.error("the other site's accounts are not taken: %s", error)
            self._refused = newest.version
            return str(error)
        return ""

    # -- at the primary ---------------------------------------------------------------------

    def _publish(self) -> None:
        """What has changed since the newest snapshot. Raises BusError, AccountsUnavailable.

        A snapshot newer than the file is taken first: a lost primary's, of which this console was
        not up to hear, or this site's own before its file was lost. One that cannot be opened is
        replaced: this site's key counts.
        """
        self._take_newest()
        rows = self._accounts.rows()
        if rows == self._known():
            self.problem = ""
            return
        before = self._newest.snapshot.version if self._newest.snapshot is not None else -1
        version = max(now_ms(), before + 1, self._accounts.version() + 1)
        try:
            snapshot = self._sealing.seal(rows, version)
        except SealingError as error:
            self.problem = str(error)
            return
        # Before it is sent: after a crash in between it is known as this console's own, and does
        # not undo what was changed since.
        self._accounts.note_version(version)
        send_all(
            self._bus, CLIENT_ID, CONTROL_ACCOUNTS,
            [KeyedValue(SNAPSHOT_KEY.encode(), msgspec.json.encode(snapshot))],
            headers=[(SCHEMA, TOPICS[CONTROL_ACCOUNTS].schema)], timeout_s=TIMEOUT_S,
            what="accounts",
        )  # fmt: skip
        self._accounts.note_published(rows, version)
        self._newest.snapshot = snapshot
        self.problem = ""
        log.info("console: %d accounts are on %s", len(rows), CONTROL_ACCOUNTS)

    def _known(self) -> list[AccountRow] | None:
        if self._newest.snapshot is None:
            return None
        try:
            return self._sealing.open(self._newest.snapshot)
        except SealingError:
            return None  # of another key: that of this site counts from now on

    # -- at the secondary -------------------------------------------------------------------

    def _follow_primary(self) -> None:
        """Raises AccountsUnavailable."""
        why = self._take_newest()
        self.problem = f"the other site's accounts are not taken: {why}" if why else ""
