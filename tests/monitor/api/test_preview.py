"""What a rule would have hit, asked over the API."""

from __future__ import annotations

import os
import threading
from typing import Any

import pytest

from monitor.accounts.roles import AccountRole
from monitor.api.pool import LOWEST_PRIORITY
from monitor.api.services import ConsoleServices

HOUR_MS = 3_600_000


def question(now_ms: int, **changes: object) -> dict[str, object]:
    rule = {"name": "n", "match": {"vehicle_color": ["白色", "黑色", "银灰色"]}}
    window = {"from_ms": now_ms - 20 * HOUR_MS, "until_ms": now_ms + HOUR_MS}
    return {"rule": rule, **window, **changes}


async def test_hits_are_counted_by_place_and_no_record_is_shown(
    as_role: Any, filled: tuple[Any, int]
) -> None:
    """Most first, with the names of the register."""
    reply = await as_role().post("/api/watch/preview", json=question(filled[1]))
    assert reply.status_code == 200
    found = reply.json()
    assert found["read"] > 100
    assert found["cursor"] == ""
    counts = [row["hits"] for row in found["hits"]]
    assert counts == sorted(counts, reverse=True)
    assert 0 < sum(counts) <= found["read"]
    assert all(set(row) == {"checkpoint_id", "checkpoint", "hits"} for row in found["hits"])
    assert any(row["checkpoint"] for row in found["hits"])


@pytest.mark.parametrize(
    ("changes", "status", "says"),
    [
        ({"until_ms": 1 << 60}, 422, "a day at a time"),
        ({"from_ms": "x"}, 422, "from_ms"),
        ({"cursor": "9:"}, 422, "cursor"),
        ({"rule": {"name": "n", "match": {}}}, 422, "at least one attribute"),
        ({"rule": {"name": "n", "match": {"nothing": ["x"]}}}, 422, "not an attribute"),
        ({"more": 1}, 422, "more"),
    ],
)
async def test_what_cannot_be_meant_is_refused_with_its_reason(
    as_role: Any, filled: tuple[Any, int], changes: dict[str, object], status: int, says: str
) -> None:
    reply = await as_role().post("/api/watch/preview", json=question(filled[1], **changes))
    assert reply.status_code == status
    assert says in reply.text


async def test_who_may_put_no_rule_may_not_try_one(as_role: Any, filled: tuple[Any, int]) -> None:
    client = as_role(AccountRole.VIEWER)
    assert (
        await client.post("/api/watch/preview", json=question(filled[1]))
    ).status_code == 403


async def test_a_preview_takes_what_others_leave_of_the_processors(
    services: ConsoleServices,
) -> None:
    """Its thread alone: whoever opens a record does not wait for it."""

    def priority(_: object) -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    assert await services.previews.run(priority) == LOWEST_PRIORITY
    assert await services.records.run(priority) < LOWEST_PRIORITY
