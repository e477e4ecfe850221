"""Copies of pictures that belong to alarms: `alarms/day/alarm/0.jpg` in the same store.

They lie apart from the originals, whose days are deleted as a whole, and have days of their own.
"""

from __future__ import annotations

from bus.contracts.pictures import PICTURES_PREFIX
from ingest.pictures.names import ALARMS_FOLDER, alarm_picture_name
from ingest.pictures.store import PictureStore


class AlarmCopies:
    """One store. Raises what its file system raises."""

    def __init__(self, store: PictureStore) -> None:
        self._store = store

    def copy(self, alarm_id: str, day: str, number: int, url: str) -> str | None:
        """Where the copy is served; None while there is no such picture, empty if it is not
        ours."""
        name = self._store.name_of(url)
        if not name:
            return ""
        target = alarm_picture_name(day, alarm_id, number, name)
        return PICTURES_PREFIX + target if self._store.copy(name, target) else None

    def forget(self, before_day: str, limit: int) -> int:
        """Delete at most so many copies of alarms raised before that day; how many."""
        return self._store.forget(before_day, limit, ALARMS_FOLDER)
