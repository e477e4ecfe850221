"""Both sites compared by what each counted of each device and hour."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dr_mirror.report.plan.counts import (
    HOUR_MS,
    SETTLED_MS,
    DeviceCount,
    HourCounts,
    differing_counts,
    hours_around,
    lacking_devices,
    settled_hours,
)
from dr_mirror.report.site_counts import CountsUnavailable, compare_counts, counts_of, lacking_at
from monitor.api.services import ConsoleServices
from tests.monitor.api.test_charts import PLANTED, plant_disagreement

DEVICES = st.lists(
    st.builds(
        DeviceCount, st.sampled_from(["face", "vehicle"]), st.sampled_from(["10.0.0.1", "10.0.0.2"]),
        st.just(""), *[st.integers(0, 9)] * 4,
    ),
    unique_by=lambda one: (one.kind, one.camera_ip), max_size=4,
)  # fmt: skip


@given(DEVICES, DEVICES)
def test_every_number_that_differs_is_named_and_no_other(
    one: list[DeviceCount], other: list[DeviceCount]
) -> None:
    """A device that one site does not know has zeros there."""
    found = differing_counts(HourCounts(0, 9, tuple(one)), HourCounts(0, 9, tuple(other)))
    said = {(each.kind, each.camera_ip, each.number): (each.source, each.target) for each in found}
    for kind in ("face", "vehicle"):
        for camera in ("10.0.0.1", "10.0.0.2"):
            for number in ("sent", "arrived", "valid", "stored"):
                sides = tuple(
                    sum(
                        getattr(row, number)
                        for row in rows
                        if (row.kind, row.camera_ip) == (kind, camera)
                    )
                    for rows in (one, other)
                )
                assert said.get((kind, camera, number)) == (sides if sides[0] != sides[1] else None)


@given(DEVICES, DEVICES)
def test_a_device_lacks_what_its_sender_has_counted_and_the_site_has_not(
    one: list[DeviceCount], other: list[DeviceCount]
) -> None:
    """By hour; a device that has more than was counted hides no other's lack."""
    found = lacking_devices([HourCounts(0, 9, tuple(one)), HourCounts(HOUR_MS, 9, tuple(other))])
    wanted = {
        (hour_ms, row.kind, row.camera_ip): row.sent - row.arrived
        for hour_ms, rows in ((0, one), (HOUR_MS, other))
        for row in rows
        if row.sent > row.arrived
    }
    assert {(each.hour_ms, each.kind, each.camera_ip): each.lacking for each in found} == wanted
    assert [each.lacking for each in found] == sorted(wanted.values(), reverse=True)


def test_the_hours_around_a_switch_begin_before_it_and_are_few() -> None:
    switch_ms = 1_000 * HOUR_MS + 5
    assert hours_around(switch_ms, switch_ms) == [999 * HOUR_MS, 1_000 * HOUR_MS]
    assert hours_around(switch_ms, switch_ms + 50 * HOUR_MS)[-1] == 1_001 * HOUR_MS


def test_only_hours_that_are_over_for_a_while_are_compared() -> None:
    """Records come late."""
    now_ms = 1_000 * HOUR_MS + SETTLED_MS
    assert settled_hours(now_ms, 2) == [998 * HOUR_MS, 999 * HOUR_MS]
    assert settled_hours(now_ms - 1, 1) == [998 * HOUR_MS]


async def test_an_hour_of_a_console_holds_every_device_and_is_equal_to_itself(
    as_role: Any, services: ConsoleServices, filled: tuple[Path, int]
) -> None:
    """Then one cell more at one of both times."""
    client = as_role()
    newest_ms = filled[1] // HOUR_MS * HOUR_MS
    hours = [await counts_of(client, newest_ms - back * HOUR_MS) for back in (0, 1)]
    before = max(hours, key=lambda one: len(one.rows))
    hour_ms = before.hour_ms
    assert before.is_whole
    assert before.rows
    compared, found = await compare_counts(client, client, [hour_ms, hour_ms - HOUR_MS])
    assert compared >= len(before.rows)
    assert found == []
    plant_disagreement(services.site.data_path, hour_ms)
    found = differing_counts(before, await counts_of(client, hour_ms))
    assert {(one.camera_ip, one.number, one.source, one.target) for one in found} == {
        (PLANTED, "sent", 0, 13), (PLANTED, "arrived", 0, 9), (PLANTED, "valid", 0, 6), (PLANTED, "stored", 0, 3),
    }  # fmt: skip
    lacking = {one.camera_ip: one.lacking for one in await lacking_at(client, [hour_ms])}
    assert lacking[PLANTED] == 4


async def test_a_console_that_does_not_answer_or_refuses_is_named(
    stranger: httpx.AsyncClient, as_role: Any
) -> None:
    """No part of an hour is taken for all of it."""
    with pytest.raises(CountsUnavailable, match="name or password"):
        await counts_of(stranger, 0)
    async with httpx.AsyncClient(base_url="http://127.0.0.1:1", trust_env=False) as nobody:
        with pytest.raises(CountsUnavailable, match="ConnectError"):
            await counts_of(nobody, 0)
    assert (await as_role().get("/api/quality/hour?at=never")).status_code == 422
