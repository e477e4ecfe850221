"""Latency and quality over the API."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from console_city import CLOCKS_OFF_MS, CREEPING, PLANTED, plant_clock, plant_disagreement
from hypothesis import given
from hypothesis import strategies as st

from bus.domain.times import MINUTE_MS
from bus.runtime.wall_clock import now_ms
from monitor.api.latency_totals import LatencyScope
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
            def latency_sums(self, **span: int) -> Any:
                asked.append(span)
                return reader.latency_sums(**span)

        return services.latency_totals.query(
            Counting(),  # type: ignore[arg-type]
            from_ms=now - 20 * 3_600_000,
            until_ms=now,
            whose=LatencyScope(),
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


async def test_offset_drift_and_jumps_of_wrong_clocks_are_told(as_role: Any) -> None:
    """As far as the latencies tell: of three hours they are too coarse for a drift."""
    body = (await as_role().get("/api/latency")).json()
    found = {row["camera_ip"]: row for row in body["clocks"]}
    assert set(found) == set(CLOCKS_OFF_MS)
    for camera_ip, off_ms in CLOCKS_OFF_MS.items():
        row = found[camera_ip]
        assert abs(row["offset_ms"] - off_ms) < max(3_000, abs(off_ms) * 0.04)
        assert (row["jumps"], bool(row["checkpoint"]), row["minutes"] > 100) == ([], True, True)
    assert found["10.7.0.1"]["drift_ppm"] is None
    assert (await as_role().get("/api/latency?kind=face")).json()["clocks"] == []


async def test_a_clock_that_is_set_and_gains_is_told_with_the_time(
    services: ConsoleServices, as_role: Any, filled: tuple[Path, int]
) -> None:
    """In the list of all, and of the device alone; a right clock has neither jump nor offset."""
    set_at_ms = plant_clock(services.site.data_path, filled[1])
    one = (await as_role().get(f"/api/latency?scope=device&scope_id={CREEPING}")).json()
    everybody = (await as_role().get("/api/latency")).json()
    assert {row["camera_ip"] for row in everybody["clocks"]} == {*CLOCKS_OFF_MS, CREEPING}
    [row] = one["clocks"]
    assert row in everybody["clocks"]
    [jump] = row["jumps"]
    assert (jump["at_ms"], row["since_ms"]) == (set_at_ms, set_at_ms)
    assert jump["by_ms"] == pytest.approx(12_000, abs=600)
    assert row["offset_ms"] == pytest.approx(13_400, abs=600)
    assert row["drift_ppm"] == pytest.approx(100, abs=25)
    [right] = (await as_role().get("/api/latency?scope=device&scope_id=10.1.0.5")).json()["clocks"]
    assert (right["jumps"], abs(right["offset_ms"]) < 3_000) == ([], True)


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


async def test_four_numbers_that_disagree_are_told_by_device_and_slot(
    services: ConsoleServices, as_role: Any, filled: tuple[Path, int]
) -> None:
    """Duplicates were what valid exceeds stored by: whatever a store lost looked like one."""
    client, slot_ms = as_role(), (filled[1] - 20 * 3_600_000) // MINUTE_MS * MINUTE_MS
    before = (await client.get("/api/quality")).json()
    assert before["total"]["disagree"] == {"arrived": 0, "valid": 0}
    plant_disagreement(services.site.data_path, slot_ms)
    body = (await client.get("/api/quality")).json()
    assert body["total"]["disagree"] == {"arrived": 1, "valid": 2}
    rows = {row["camera_ip"]: row for row in body["devices"]}
    assert rows[PLANTED]["disagree"] == {"arrived": 1, "valid": 2}
    others = [row for camera, row in rows.items() if camera != PLANTED]
    assert all(row["disagree"] == {"arrived": 0, "valid": 0} for row in others)
    own = (await client.get(f"/api/quality?camera={PLANTED}")).json()
    assert own["columns"] == [
        "slot_ms", "sent", "arrived", "valid", "accepted", "rejected", "stored", "duplicates",
        "missing", "in_flight",
    ]  # fmt: skip
    assert own["curve"] == [[slot_ms, 13, 9, 6, 12, 2, 3, 1, 3, 0]]
    assert own["total"]["entered"] == 12


async def test_what_an_edge_took_a_moment_ago_is_in_flight_and_not_missing(
    services: ConsoleServices, as_role: Any
) -> None:
    """In the slot, in the device's row and in the sum."""
    slot_ms = now_ms() // MINUTE_MS * MINUTE_MS
    plant_disagreement(services.site.data_path, slot_ms)
    own = (await as_role().get(f"/api/quality?camera={PLANTED}&until={now_ms() + 1000}")).json()
    (row,) = own["devices"]
    assert (row["missing"], row["in_flight"]) == (0, 3)
    assert own["curve"][0][-2:] == [0, 3]
    assert (own["total"]["missing"], own["total"]["in_flight"]) == (0, 3)


async def test_a_week_is_drawn_by_hours(as_role: Any, filled: tuple[Path, int]) -> None:
    """Latency and quality; the sums are those of the same span by minute."""
    client, week = as_role(), f"?from={filled[1] - 7 * 86_400_000}"
    for chart in ("latency", "quality"):
        by_hour = (await client.get(f"/api/{chart}{week}")).json()
        by_minute = (await client.get(f"/api/{chart}")).json()
        assert by_hour["total"] == by_minute["total"]
    assert by_hour["slot_ms"] == 3_600_000
    assert len(by_hour["curve"]) <= 8


async def test_spans_have_a_bound_and_an_order(as_role: Any) -> None:
    """A year by minute is not a chart."""
    client = as_role()
    assert (await client.get("/api/latency?from=2020-01-01")).status_code == 422
    assert (await client.get("/api/quality?from=2020-01-01")).status_code == 422
    assert (await client.get("/api/latency?scope=district")).status_code == 422
    assert (await client.get("/api/quality?from=2026-02-01&until=2026-01-01")).status_code == 422


def test_a_curve_never_has_more_points_than_a_screen() -> None:
    """For any span, up to five years."""
    for minutes in (1, 59, 1440, 1501, 10_080, 44_640, 2_000_000):
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
