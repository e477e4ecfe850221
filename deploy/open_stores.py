"""Opening the stores for reading, as settings say where they are.

In: settings. Out: readers; the caller closes them. Never: writing.
"""

from __future__ import annotations

from functools import cache

from alarm.dispatch.reader import OperationsReader
from bus.confusion_file import source_of
from deploy.settings.composed import Settings
from ingest.store.open import open_store
from ingest.store.port import RecordReader
from monitor.ports import ReadPicture


def open_records(settings: Settings) -> RecordReader:
    """The record store; its searches go by the site's table of misreadings. Raises `StoreError`
    while there is none."""
    url, site = settings.store.records_url(settings.site), settings.site
    return open_store(url, "read", read_confusion=source_of(site).read)


def picture_reader(url: str) -> ReadPicture:
    """What reads the picture store at an fsspec URL; opened with the first picture."""
    # Imported here: three megabytes, of which the watch, which opens stores too, needs none.
    from ingest.pictures.store import PictureStore

    store = cache(lambda: PictureStore(url, ""))
    return lambda name: store().serve(name)


def open_operations(settings: Settings) -> OperationsReader:
    """Alarms and incidents. Raises `StoreError` while there are none."""
    return OperationsReader(settings.dispatcher.operations_path(settings.site))
