"""Settings of the dispatcher: verdicts, once-only alarms, notifiers."""

from __future__ import annotations

from pathlib import Path

import msgspec

from bus.settings import Positive, Seconds, Secret, SiteSettings


class DispatcherSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`databus.toml` [dispatcher]."""

    operations: str = ""  # the SQLite file; empty: store/operations.db of the data directory
    alarm_log: str = ""  # one line per alarm and incident; empty: log/alarms.log, "-" for none
    # POSTed the JSON of every alarm and incident; empty for none. Secret: chat services put the
    # key into the address.
    webhook_url: Secret = ""
    webhook_timeout_s: Seconds = 5.0
    notify_attempts: Positive = 6  # with doubling pauses: about half a minute, then it is given up
    notify_pause_s: Seconds = 0.5
    max_batch: Positive = 500  # candidates per decision, records per transaction
    records: bool = True  # store and notify; of dispatchers on several machines only one may

    def __post_init__(self) -> None:
        """Refuse an address to which nothing could be sent: every alarm's notice would be lost."""
        if self.webhook_url and not self.webhook_url.startswith(("http://", "https://")):
            raise ValueError("webhook_url: an address begins with http:// or https://")

    def operations_path(self, site: SiteSettings) -> Path:
        """The operations database."""
        if self.operations:
            return Path(self.operations)
        return site.data_path / "store" / "operations.db"

    def alarm_log_path(self, site: SiteSettings) -> Path | None:
        """The alarm log, None if there is to be none."""
        if self.alarm_log == "-":
            return None
        return Path(self.alarm_log) if self.alarm_log else site.data_path / "log" / "alarms.log"
