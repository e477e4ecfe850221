"""Settings of the dispatcher: verdicts, once-only alarms, notifiers."""

from __future__ import annotations

from pathlib import Path

import msgspec

from bus.settings import Name, PageOfMetrics, Positive, SiteSettings


class DispatcherSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`databus.toml` [dispatcher]."""

    operations: str = ""  # the SQLite file; empty: store/operations.db of the data directory
    max_batch: Positive = 500  # candidates per decision, records per transaction
    records: bool = True  # store and notify; of dispatchers on several machines only one may
    metrics_host: Name = "127.0.0.1"
    metrics_port: PageOfMetrics = 8652

    def operations_path(self, site: SiteSettings) -> Path:
        """The operations database."""
        if self.operations:
            return Path(self.operations)
        return site.data_path / "store" / "operations.db"
