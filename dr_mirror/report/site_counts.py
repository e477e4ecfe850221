"""What the consoles of both sites say of each device and hour, fetched and compared.

In: their addresses, a person who may look at both. Out: an hour's counts of each. Raises
`CountsUnavailable`. Core: `dr_mirror.report.plan.counts`. Never: a number of the mirror's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from dr_mirror.report.plan.counts import (
    CountDifference,
    DeviceLack,
    HourCounts,
    differing_counts,
    lacking_devices,
)

if TYPE_CHECKING:
    import httpx

PATH = "/api/quality/hour"
TIMEOUT_S = 30.0


class CountsUnavailable(Exception):
    """A console did not answer; the text says which, and why."""


async def counts_of(client: httpx.AsyncClient, hour_ms: int) -> HourCounts:
    """One site's hour. Raises CountsUnavailable."""
    import httpx  # a tenth of a second of CPU, which other commands of the mirror do not need

    where = str(client.base_url)
    try:
        reply = await client.get(PATH, params={"at": str(hour_ms)})
    except httpx.HTTPError as error:
        raise CountsUnavailable(f"{where}: {type(error).__name__}: {error}") from None
    if reply.status_code in (401, 403):
        raise CountsUnavailable(f"{where}: name or password are not accepted there")
    if not reply.is_success:
        raise CountsUnavailable(f"{where}: HTTP {reply.status_code}")
    try:
        found = msgspec.json.decode(reply.content, type=HourCounts)
    except msgspec.MsgspecError as error:
        raise CountsUnavailable(f"{where}: {error}") from None
    if not found.is_whole:
        raise CountsUnavailable(
            f"{where}: it names {len(found.rows)} of {found.total} devices only; a part of an "
            "hour is not compared"
        )
    return found


async def compare_counts(
    source: httpx.AsyncClient, target: httpx.AsyncClient, hours: list[int]
) -> tuple[int, list[CountDifference]]:
    """How many devices' hours were compared, and what differs. Raises CountsUnavailable."""
    compared, found = 0, list[CountDifference]()
    for hour_ms in hours:
        theirs, ours = await counts_of(source, hour_ms), await counts_of(target, hour_ms)
        compared += max(len(theirs.rows), len(ours.rows))
        found += differing_counts(theirs, ours)
    return compared, found


async def lacking_at(console: httpx.AsyncClient, hours: list[int]) -> list[DeviceLack]:
    """The devices of which a site lacks records. Raises CountsUnavailable."""
    return lacking_devices([await counts_of(console, hour_ms) for hour_ms in hours])


def console_client(url: str, user: str, password: str) -> httpx.AsyncClient:
    """A client of one console; it goes through no proxy."""
    import httpx

    return httpx.AsyncClient(
        base_url=url, auth=(user, password), timeout=TIMEOUT_S, trust_env=False
    )
