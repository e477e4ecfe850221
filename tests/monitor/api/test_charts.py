"""Latency and quality over the API."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from console_city import CLOCKS_OFF_MS
from hypothesis import given
from hypothesis import strategies as st

from bus.domain.times import MINUTE_MS
from bus.wall_clock import now_ms
from monitor.api.series import (
    JOINED_MS,
    MAX_POINTS,
    latency_histograms,
    percentiles_of,
    slot_ms,
    with_gaps,
)
from monitor.api.services import ConsoleServices
from monitor.models.clock_faults import sound_cells


async def test_latency_is_by_minute_for_vehicles_and_faces(as_role: Any) -> None:
    """Ascending, ordered percentiles, and the whole span's own percentiles beside them."""
    body = (await as_role().get("/api/latency")).json()
    assert set(body["curves"]) == {"vehicle", "face"}
    for curve in body["curves"].values():
        minutes = [row[0] for row in curve]
        assert minutes == sorted(set(minutes))
        assert all(0 < p50 <= p95 <= p99 and count > 0 for _, p50, p95, p99, count in curve)
    assert sum(t["count"] for t in body["total"].values()) == 450


async def test_latency_of_a_district_and_a_device_is_theirs_alone(as_role: Any) -> None:
    """L-2; the districts' counts add up to the whole."""
    client, counted = as_role(), 0
    for district in ("d0", "d1", "d2"):
        body = (await client.get(f"/api/latency?scope=district&scope_id={district}")).json()
        counted += sum(t["count"] for t in body["total"].values())
        assert sum(r[4] for c in body["curves"].values() for r in c) == sum(
            t["count"] for t in body["total"].values()
        )
    assert counted == 450
    one = (await client.get("/api/latency?scope=device&scope_id=10.1.0.5")).json()
    assert 0 < sum(t["count"] for t in one["total"].values()) < 450


async def test_the_totals_of_hours_that_are_over_are_read_once_and_stay_exact(
    services: ConsoleServices,
) -> None:
    """The second answer equals the first and that of one great merge, with fewer questions."""
    now, asked = now_ms(), []

    def ask(reader: Any) -> Any:
        class Counting:
            def latency_cells(self, **span: int) -> Any:
                asked.append(span)
                return reader.latency_cells(**span)

        return services.latency_totals.query(
            Counting(),  # type: ignore[arg-type]
            from_ms=now - 20 * 3_600_000,
            until_ms=now,
            scope="all",
            scope_id="",
            now_ms=now,
        )

    first = await services.records.run(ask)
    questions = len(asked)
    second = await services.records.run(ask)
    assert first == second
    assert len(asked) - questions <= 4 < questions
    cells = await services.records.run(lambda r: r.latency_cells(from_ms=0, until_ms=0))
    sound, _ = sound_cells(cells)
    whole = {k: percentiles_of(b) for k, b in latency_histograms(sound).items()}
    assert first.totals == whole


async def test_a_device_whose_clock_is_off_is_told_apart_and_blinds_no_curve(as_role: Any) -> None:
    """One clock three hours behind made a P99 of 11,000 s; one that is ahead, a negative P50."""
    body = (await as_role().get("/api/latency")).json()
    assert all(p99 < 60_000 for curve in body["curves"].values() for *_, p99, _ in curve)
    assert all(total["p99_ms"] < 60_000 for total in body["total"].values())
    found = {row["camera_ip"]: row for row in body["clock_off"]}
    assert set(found) == set(CLOCKS_OFF_MS)
    for camera_ip, off_ms in CLOCKS_OFF_MS.items():
        row = found[camera_ip]
        assert abs(row["clock_off_ms"] - off_ms) < max(3_000, abs(off_ms) * 0.04)
        assert (row["count"], bool(row["checkpoint"])) == (120, True)
    faces = (await as_role().get("/api/latency?kind=face")).json()
    assert (set(faces["curves"]), faces["clock_off"]) == ({"face"}, [])


async def test_the_tile_of_the_latency_leaves_wrong_clocks_out(
    services: ConsoleServices, filled: tuple[Path, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last five minutes hold records of both kinds of wrong clock."""
    _, made_ms = filled  # for the whole run, which may be longer than those five minutes
    monkeypatch.setattr(services.kpis, "_now_ms", lambda: made_ms)
    kpis = await services.kpis.poll()
    assert kpis.latency_p99_ms is not None
    assert 0 < kpis.latency_p99_ms < 60_000


async def test_quality_shows_the_gap_and_the_device_behind_it_with_its_place(as_role: Any) -> None:
    """Q-1, Q-3: two curves, and the worst device first."""
    body = (await as_role().get("/api/quality")).json()
    assert body["total"]["sent"] == sum(row[1] for row in body["curve"])
    assert body["total"]["valid"] == sum(row[3] for row in body["curve"])
    assert body["total"]["sent"] - body["total"]["valid"] == body["total"]["rejected"]["not-json"]
    worst = [d["camera_ip"] for d in body["devices"][:2]]
    assert set(worst) == {"10.1.0.1", "10.1.0.7"}
    assert body["devices"][0]["checkpoint"] != body["devices"][0]["checkpoint_id"]
    assert body["devices"][0]["gap"] > 0 == body["devices"][2]["gap"]


async def test_spans_have_a_bound_and_an_order(as_role: Any) -> None:
    """A year by minute is not a chart."""
    client = as_role()
    assert (await client.get("/api/latency?from=2020-01-01")).status_code == 422
    assert (await client.get("/api/quality?from=2020-01-01")).status_code == 422
    assert (await client.get("/api/latency?scope=district")).status_code == 422
    assert (await client.get("/api/quality?from=2026-02-01&until=2026-01-01")).status_code == 422


def test_a_curve_never_has_more_points_than_a_screen() -> None:
    """For any span, up to what the API takes."""
    for minutes in (1, 59, 1440, 1501, 10_080, 44_640):
        assert minutes * MINUTE_MS / slot_ms(0, minutes * MINUTE_MS) <= MAX_POINTS


async def test_the_numbers_on_top_come_from_the_store(services: ConsoleServices) -> None:
    """None of them is invented: with an empty store they are unknown."""
    kpis = await services.kpis.poll()
    assert kpis.stored_today is not None
    assert kpis.valid_percent is not None
    assert 90 < kpis.valid_percent < 100
    for path in (services.site.data_path / "store").glob("records.db*"):
        path.write_bytes(b"damaged" * 1000)
    kpis = await services.kpis.poll()
    assert (kpis.stored_today, kpis.valid_percent) == (None, None)


@given(st.lists(st.integers(1, 400), max_size=60), st.sampled_from([1, 5, 30]))
def test_a_curve_is_interrupted_exactly_where_nothing_was_counted(
    steps: list[int], slot_minutes: int
) -> None:
    """Every point is drawn once as it is; a line joins two points only if no gap lies between."""
    slot, at, points = slot_minutes * MINUTE_MS, 0, []
    for step in steps:
        at += step * slot
        points.append([at, step, -step])
    drawn = with_gaps(points, slot)
    assert [row[0] for row in drawn] == sorted(row[0] for row in drawn)
    assert [row for row in drawn if row in points] == points
    joined = {
        (a[0], b[0])
        for a, b in pairwise(drawn)
        if a[1] is not None and b[1] is not None
    }
    for a, b in pairwise(points):
        assert ((a[0], b[0]) in joined) == (b[0] - a[0] <= max(slot, JOINED_MS))
    assert all(
        end in [row[0] for row in points] or end - start == slot for start, end in joined
    )
