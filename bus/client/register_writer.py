"""Puts entries on `control.register`, for the command line, the console and a restore."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

from bus.client.kafka.send_all import send_all
from bus.client.model import KeyedValue
from bus.contracts import headers
from bus.contracts.register_entry import RegisterEntry
from bus.contracts.topics import CONTROL_REGISTER, TOPICS
from bus.runtime.wall_clock import now_ms
from bus.settings import BusSettings, SiteSettings

SEND_S = 60.0
NextVersion = Callable[[str, int], int]
"""Of a key, at a time: `RegisterFollower.next_version`."""


def send_entries(
    site: SiteSettings,
    bus: BusSettings,
    entries: Iterable[RegisterEntry],
    author: str,
    client_id: str,
    next_version: NextVersion,
    timeout_s: float = SEND_S,
) -> None:
    """All, in their order, each newer than what its key has. Raises `BusError` that says how many
    are not known to be there; the same call again is safe."""
    named = _with_versions(entries, author, next_version)
    send_all(
        bus,
        client_id,
        CONTROL_REGISTER,
        (KeyedValue(one.key.encode(), msgspec.json.encode(one)) for one in named),
        headers=[(headers.SCHEMA, TOPICS[CONTROL_REGISTER].schema), (headers.SITE, site.name)],
        timeout_s=timeout_s,
        what="entries",
    )


def _with_versions(
    entries: Iterable[RegisterEntry], author: str, next_version: NextVersion
) -> Iterator[RegisterEntry]:
    """Of two messages about one key the later one is the newer."""
    at_ms, given = now_ms(), dict[str, int]()
    for one in entries:
        version = max(next_version(one.key, at_ms), given.get(one.key, -1) + 1)
        given[one.key] = version
        yield msgspec.structs.replace(one, author=author, version=version)
