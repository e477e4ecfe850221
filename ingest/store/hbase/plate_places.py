"""Under which entries a plate is found. Pure.

In: a plate, or what was asked for. Out: facets with their values. Never: HBase.

A whole plate has an entry of its key. A partly read one has an entry of each of its readings, in
which `?` stands for each character that was not read: a whole plate that is asked for is looked up
as it is and with each one and two of its characters unread. Readings with more of them fit so many
plates that they lie together, by time.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from bus.domain.former_plates import former_key
from bus.domain.plate_search import asks_as_written, whole_plate
from bus.domain.plates import UNREAD, is_whole, readings
from ingest.store.hbase.keys import Facet

MAX_UNREAD = 2  # characters of a reading that has an entry of its own; 36 look-ups for a plate of 8

Place = tuple[Facet, str]


def places_of(form: str) -> Iterator[Place]:
    """Where a plate has its entries, whole or partly read; nowhere if it has no form."""
    found = readings(form)
    if is_whole(form):
        yield from ((Facet.PLATE, one) for one in found if one)
    elif any(one.count(UNREAD) > MAX_UNREAD for one in found):
        yield Facet.HARDLY_READ, ""
    else:
        yield from ((Facet.PARTLY_READ, one) for one in found)


def places_asked(text: str) -> tuple[Place, ...]:
    """Where to look for one whole plate; empty where only a walk by time finds all: for a pattern,
    and for what an earlier version of this program took for a masked plate and gave no entry."""
    plate, former = whole_plate(text), former_key(text)
    if asks_as_written(text) or not plate or not former:
        return ()
    whole = dict.fromkeys((plate, former))
    return (
        *((Facet.PLATE, one) for one in whole),
        *((Facet.PARTLY_READ, one) for one in _as_read(plate)),
        (Facet.HARDLY_READ, ""),
    )


def _as_read(plate: str) -> Iterator[str]:
    """The plate with none, one … of its characters unread."""
    for count in range(MAX_UNREAD + 1):
        for places in combinations(range(len(plate)), count):
            yield "".join(UNREAD if at in places else sign for at, sign in enumerate(plate))
