"""Waiting until nothing is on its way any more: edge → topics → store, candidates → alarms.

In: settings of a running product whose senders have stopped. Out: True when everything has arrived,
False at the bound. Never: stopping or starting anything.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable
from contextlib import closing

import httpx
import msgspec

from bus.contracts.topics import (
    DATA_FACE,
    DATA_TOPICS,
    DATA_VEHICLE,
    EVENT_CANDIDATE,
    METER_SENT,
    QUARANTINE_RECORDS,
)
from deploy import bus_books
from deploy.books import open_operations, open_records
from deploy.errors import OperatorError
from deploy.settings import Settings, edge_url
from ingest.store.port import StoreError

POLL_S = 0.4
EDGE_TIMEOUT_S = 3.0
# Which application must have passed which topics before the books are closed.
READERS = {
    "ingest": (*DATA_TOPICS, QUARANTINE_RECORDS),
    "quality": (METER_SENT,),
    "watchlist": (DATA_VEHICLE, DATA_FACE),
}
DISPATCHER = "dispatcher"
TOPICS = (*DATA_TOPICS, QUARANTINE_RECORDS, METER_SENT, EVENT_CANDIDATE)


class Left(msgspec.Struct, frozen=True, kw_only=True):
    """What is still on its way, by place; None where nobody answered."""

    places: dict[str, int | None]

    @property
    def nothing(self) -> bool:
        """Whether all has arrived."""
        return all(count == 0 for count in self.places.values())

    def __str__(self) -> str:
        left = [f"{place} {'?' if n is None else n}" for place, n in self.places.items() if n != 0]
        return ", ".join(left) or "nothing"


async def drain(
    settings: Settings, timeout_s: float, tell: Callable[[str], None], hurry: asyncio.Event
) -> bool:
    """Poll until nothing is left, twice in a row: a record may be between two books; or until
    somebody sets `hurry`."""
    deadline, quiet = time.monotonic() + timeout_s, 0
    left = Left(places={})
    while time.monotonic() < deadline and not hurry.is_set():
        left = await asyncio.to_thread(what_is_left, settings)
        quiet = quiet + 1 if left.nothing else 0
        if quiet == 2:
            return True
        tell(f"draining: {left}")
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(hurry.wait(), POLL_S)
    tell(f"not drained{'' if hurry.is_set() else f' within {timeout_s:g} s'}: {left}")
    return False


def what_is_left(settings: Settings) -> Left:
    """Ask every place once."""
    places: dict[str, int | None] = {"edge": edge_backlog(settings)}
    try:
        bus = bus_books.read(settings.bus.bootstrap_servers, TOPICS)
        with closing(open_records(settings)) as reader:
            for application, topics in READERS.items():
                positions = reader.positions(application)
                places[application] = bus.behind(application, positions, topics)
    except (OperatorError, StoreError):
        return Left(places={**places, "bus or store": None})
    places[DISPATCHER] = dispatcher_backlog(settings, bus)
    return Left(places=places)


PLACES_OF_ROLE = {"edge": ("edge",), "streams": tuple(READERS), DISPATCHER: (DISPATCHER,)}


def behind_by_role(settings: Settings, roles: Iterable[str]) -> dict[str, dict[str, int | None]]:
    """How many records wait for each of these roles, by place; None where nobody could say."""
    places = what_is_left(settings).places
    return {
        role: {place: places.get(place) for place in PLACES_OF_ROLE.get(role, ())}
        for role in roles
    }


def edge_backlog(settings: Settings) -> int | None:
    """Records in the edge's spool that the bus has not acknowledged."""
    try:
        answer = httpx.get(
            f"{edge_url(settings)}/v1/status", timeout=EDGE_TIMEOUT_S, trust_env=False
        )
        answer.raise_for_status()
        return int(answer.json()["backlog"])
    except (httpx.HTTPError, ValueError, KeyError):
        return None


def dispatcher_backlog(settings: Settings, bus: bus_books.BusBooks) -> int | None:
    """Candidates without a verdict."""
    try:
        with closing(open_operations(settings)) as reader:
            positions = list(reader.positions(DISPATCHER))
    except StoreError:
        return None
    return bus.behind(DISPATCHER, positions, [EVENT_CANDIDATE])
