"""Puts entries on `control.register`, for the command line, the console and a restore."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from bus.client.kafka.send_all import KeyedValue, send_all
from bus.contracts import headers
from bus.contracts.register_entry import RegisterEntry
from bus.contracts.topics import CONTROL_REGISTER, TOPICS
from bus.settings import BusSettings, SiteSettings

SEND_S = 60.0


def send_entries(
    site: SiteSettings,
    bus: BusSettings,
    entries: Iterable[RegisterEntry],
    author: str,
    client_id: str,
    timeout_s: float = SEND_S,
) -> None:
    """All, in their order. Raises `BusError` that says how many are not known to be there; the same
    call again is safe."""
    named = (msgspec.structs.replace(one, author=author) for one in entries)
    send_all(
        bus,
        client_id,
        CONTROL_REGISTER,
        (KeyedValue(one.key.encode(), msgspec.json.encode(one)) for one in named),
        headers=[(headers.SCHEMA, TOPICS[CONTROL_REGISTER].schema), (headers.SITE, site.name)],
        timeout_s=timeout_s,
        what="entries",
    )
