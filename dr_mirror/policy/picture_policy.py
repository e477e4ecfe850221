"""Which pictures of records come to the other site. Pure.

In: a word of the settings. Out: the topics whose records say what is copied. Never: more than that:
every process of the product reads the settings.
"""

from __future__ import annotations

from enum import StrEnum

from bus.contracts.topics import DATA_TOPICS, EVENT_ALARM


class PicturePolicy(StrEnum):
    """Which pictures of records come to the other site; `HITS`: of alarms only."""

    NONE = "none"
    HITS = "hits"
    ALL = "all"

    @property
    def topics(self) -> tuple[str, ...]:
        """Whose records say what is copied. Alarms are those of both sites: the other one decides
        in shadow."""
        if self is PicturePolicy.NONE:
            return ()
        return (EVENT_ALARM,) if self is PicturePolicy.HITS else (*DATA_TOPICS, EVENT_ALARM)
