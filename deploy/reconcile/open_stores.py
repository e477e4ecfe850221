"""Opening the two stores for reading, as settings say where they are.

In: settings. Out: readers; the caller closes them. Never: writing.
"""

from __future__ import annotations

from alarm.dispatch.reader import OperationsReader
from deploy.settings import Settings
from ingest.store import open_store
from ingest.store.port import RecordReader


def open_records(settings: Settings) -> RecordReader:
    """The record store. Raises `StoreError` while there is none."""
    return open_store(settings.store.records_url(settings.site), "read")


def open_operations(settings: Settings) -> OperationsReader:
    """Alarms and incidents. Raises `StoreError` while there are none."""
    return OperationsReader(settings.dispatcher.operations_path(settings.site))
