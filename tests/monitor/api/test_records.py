"""Records over the API, from a real SQLite store filled through its port."""

from __future__ import annotations

import csv
import io
from typing import Any

import msgspec
import pytest

from bus.contracts.diverged_ranges import DivergedRange
from bus.domain.look_alikes import is_near
from bus.domain.visibility import EVERYTHING
from ingest.store.open import open_store
from ingest.store.port import RecordRow, StoreBatch
from monitor.api.services import ConsoleServices
from monitor.questions.question_log import QuestionFilter


async def all_pages(client: Any, address: str, **parameters: Any) -> list[dict[str, Any]]:
    rows, cursor = [], ""
    while True:
        reply = await client.get(address, params={**parameters, "limit": 100, "cursor": cursor})
        page = reply.json()
        rows += page["rows"]
        cursor = page["cursor"]
        if not cursor:
            return rows


async def test_pages_follow_each_other_without_gap_or_repetition(as_role: Any) -> None:
    """Newest first, each record once, as many as the count says."""
    client = as_role()
    rows = await all_pages(client, "/api/records")
    times = [r["captured_at_ms"] for r in rows]
    assert times == sorted(times, reverse=True)
    assert len({r["record_id"] for r in rows}) == len(rows) == 450
    assert (await client.get("/api/records/count")).json() == {"count": 450}


async def test_a_search_by_kind_plate_and_checkpoint_finds_what_a_scan_finds(as_role: Any) -> None:
    """`*` matches anything."""
    client = as_role()
    rows = await all_pages(client, "/api/records")
    for wanted, matches in (
        ({"kind": "face"}, lambda r: r["kind"] == "face"),
        (
            {"plate": "浙A*7"},
            lambda r: r["plate_number"].startswith("浙A") and r["plate_number"].endswith("7"),
        ),
        ({"checkpoint": "330100#1#2#0"}, lambda r: r["checkpoint_id"] == "330100#1#2#0"),
    ):
        found = await all_pages(client, "/api/records", **wanted)
        assert found
        assert found == [r for r in rows if matches(r)]


async def test_a_plate_is_found_as_it_may_have_been_read_and_only_a_whole_one_is(as_role: Any) -> None:
    """The page, the count and the table answer the same; a pattern has no distance, in words."""
    client = as_role()
    rows = await all_pages(client, "/api/records")
    plate = next(r["plate_number"] for r in rows if len(r["plate_number"]) == 7)
    near = f"{plate[:-1]}{'X' if plate[-1] != 'X' else 'Y'}"
    asked = {"plate": near, "tolerance": "distance 1"}
    found = await all_pages(client, "/api/records", **asked)
    assert found == [r for r in rows if is_near(near, r["plate_number"])] != []
    assert (await client.get("/api/records/count", params=asked)).json() == {"count": len(found)}
    table = (await client.get("/api/records.jsonl", params=asked)).text.splitlines()
    assert [msgspec.json.decode(line)["record_id"] for line in table] == [r["record_id"] for r in found]
    assert not await all_pages(client, "/api/records", plate=near)
    misread = await all_pages(client, "/api/records", plate=plate, tolerance="misread")
    assert misread == await all_pages(client, "/api/records", plate=f"~{plate}")
    assert plate in {r["plate_number"] for r in misread}
    for address, params in (
        ("/api/records", {"plate": "*345", "tolerance": "misread"}), ("/api/records", {"plate": "~浙A1"}),
        ("/api/records", {"tolerance": "distance 1"}), ("/api/evidence/records", {"plate": "~浙A1"}),
    ):  # fmt: skip
        refused = await client.get(address, params=params)
        assert refused.status_code == 422
        assert "a whole plate of at least 6 letters and digits" in refused.text
    assert (await client.get("/api/records?plate=浙A12345&tolerance=2")).status_code == 422


async def test_times_are_the_sites_and_bad_ones_are_told(as_role: Any) -> None:
    """A span given in the site's clock cuts where the rows say."""
    client = as_role()
    rows = await all_pages(client, "/api/records")
    middle = rows[100]["captured_at"][:19].replace(" ", "T")
    found = await all_pages(client, "/api/records", **{"from": middle})
    assert found == [r for r in rows if r["captured_at"] >= middle.replace("T", " ")]
    assert (await client.get("/api/records?from=yesterday")).status_code == 422


async def test_one_record_shows_all_the_device_wrote_and_its_pictures(as_role: Any) -> None:
    """The picture's address is this console's, not the edge's."""
    detail = (await as_role().get("/api/records/r-000001")).json()
    assert detail["body"]["卡口编号"] == detail["checkpoint_id"]
    assert detail["pictures"][0]["picture"].startswith("/pictures/car-")
    assert (await as_role().get("/api/records/none")).status_code == 404


async def test_the_table_holds_every_row_and_no_formula(as_role: Any, services: ConsoleServices) -> None:
    """A device's text must not become a spreadsheet's formula."""
    store = open_store(f"sqlite://{services.site.data_path}/store/records.db", "write")
    evil = RecordRow(
        record_id="evil",
        kind="vehicle",
        checkpoint_id="=1+1",
        district_id="",
        camera_ip="",
        recognizer_ip="",
        captured_at_ms=1,
        received_at_ms=1,
        plate_number='=cmd|"x"',
        body=b"{}",
    )
    store.apply(StoreBatch(rows=[evil]), [])
    store.close()
    reply = await as_role().get("/api/records.csv")
    assert reply.text.startswith("\ufeffrecord_id")
    rows = list(csv.DictReader(io.StringIO(reply.text.lstrip("\ufeff"))))
    assert len(rows) == 451
    assert rows[-1]["plate_number"] == '\'=cmd|"x"'


async def test_rejected_records_are_shown_with_reason_and_original(as_role: Any) -> None:
    """Q-4."""
    rows = await all_pages(as_role(), "/api/rejected", reason="bad-time")
    assert rows
    assert {r["reason"] for r in rows} == {"bad-time"}
    assert rows[0]["body"] == '{"抓拍时间": "昨天"}'
    assert rows[0]["checkpoint"] != rows[0]["checkpoint_id"]


async def test_rows_of_this_site_s_own_tail_have_its_site_epoch_in_list_detail_and_table(
    as_role: Any, services: ConsoleServices
) -> None:
    """All others have 0; so have rejected ones."""
    rejected = (await all_pages(as_role(), "/api/rejected"))[0]["record_id"]
    own = {"r-000001", "r-000007", rejected}
    services.hub.live.diverged_ids.apply(
        DivergedRange(
            epoch=3, topic="data.vehicle", partition=0, offset=0, end_offset=9, ids=(*own, "not-stored")
        )
    )
    client = as_role()
    rows = await all_pages(client, "/api/records") + await all_pages(client, "/api/rejected")
    assert {r["record_id"] for r in rows if r["tail_epoch"] == 3} == own
    assert {r["tail_epoch"] for r in rows} == {0, 3}
    assert (await client.get("/api/records/r-000007")).json()["tail_epoch"] == 3
    assert (await client.get("/api/records/r-000008")).json()["tail_epoch"] == 0
    table = csv.DictReader(io.StringIO((await client.get("/api/records.csv")).text.lstrip("\ufeff")))
    assert {r["record_id"] for r in table if r["tail_epoch"] == "3"} == own - {rejected}


@pytest.mark.parametrize("limit", ["0", "1001", "x"])
async def test_no_page_without_a_bound(as_role: Any, limit: str) -> None:
    """A limit outside the bounds is an error, not corrected in silence."""
    assert (await as_role().get(f"/api/records?limit={limit}")).status_code == 422


async def test_an_absent_store_is_told_and_comes_back_by_itself(
    as_role: Any, services: ConsoleServices
) -> None:
    """503 with the reason while it is away; no restart needed."""
    client, path = as_role(), services.site.data_path / "store" / "records.db"
    saved = path.read_bytes()
    path.write_bytes(b"this is not a database" * 100)
    for extra in path.parent.glob("records.db-*"):
        extra.unlink()
    reply = await client.get("/api/records")
    assert reply.status_code == 503
    assert "records" in reply.json()["error"]
    assert (await client.get("/api/status")).json()["away"]["records"]
    path.write_bytes(saved)
    assert (await client.get("/api/records")).status_code == 200
    assert not (await client.get("/api/status")).json()["away"]["records"]


async def test_a_store_that_nobody_has_made_yet_is_empty(as_role: Any, services: ConsoleServices) -> None:
    """The console may start first."""
    for path in (services.site.data_path / "store").glob("records.db*"):
        path.unlink()
    assert (await as_role().get("/api/records")).json() == {"rows": [], "cursor": ""}


def test_rows_are_json_of_plain_values(services: ConsoleServices) -> None:
    """For any bytes of a device, the answer is valid JSON."""
    from monitor.api.views import record_detail

    for body in (b"\xff\xfe", b"[1]", b'{"a": NaN}', b"{" * 5000, b""):
        row = RecordRow(
            record_id="x",
            kind="face",
            checkpoint_id="",
            district_id="",
            camera_ip="",
            recognizer_ip="",
            captured_at_ms=0,
            received_at_ms=0,
            body=body,
        )
        msgspec.json.decode(
            msgspec.json.encode(record_detail(row, services.register.read(), services.site.tz))
        )


async def test_a_part_of_a_plate_finds_whole_plates_the_latest_first(as_role: Any) -> None:
    """A plate in exact search finds nothing by a part of it; this is what is offered instead."""
    client = as_role()
    rows = (await client.get("/api/records?kind=vehicle&limit=1")).json()["rows"]
    plate = rows[0]["plate_number"]
    part = plate[2:6].lower()
    assert (await client.get(f"/api/records/count?plate={part}")).json() == {"count": 0}
    found = (await client.get(f"/api/plates?contains={part}")).json()
    assert plate in found["plates"]
    assert found["since_ms"] is None
    assert len((await client.get("/api/plates?contains=浙&limit=3")).json()["plates"]) == 3
    for bad in ("", "?contains=", f"?contains={'A' * 33}", "?contains=A&limit=0"):
        assert (await client.get(f"/api/plates{bad}")).status_code == 422


async def test_an_area_on_the_map_keeps_what_the_register_has_there(
    as_role: Any, services: ConsoleServices
) -> None:
    """The page, the count and the file answer the same, with other filters, too."""
    client = as_role()
    rows = await all_pages(client, "/api/records")
    area = "120.115 30.215, 120.145 30.215, 120.145 30.24, 120.115 30.24"
    there = {
        one.checkpoint_id for one in services.register.read().checkpoints
        if 120.115 < one.longitude < 120.145 and 30.215 < one.latitude < 30.24
    }  # fmt: skip
    assert len(there) == 4
    found = await all_pages(client, "/api/records", area=area)
    assert found == [r for r in rows if r["checkpoint_id"] in there] != []
    assert (await client.get("/api/records/count", params={"area": area})).json() == {"count": len(found)}
    table = (await client.get("/api/records.jsonl", params={"area": area, "kind": "face"})).text.splitlines()
    assert [msgspec.json.decode(line)["record_id"] for line in table] == [
        r["record_id"] for r in found if r["kind"] == "face"
    ]
    for wrong, words in (("120 30, 121 30", "3 to 50 corners"), ("x", "write longitude and latitude"),
                         ("120 30, 121 31, 121 30, 120 31", "crosses")):  # fmt: skip
        refused = await client.get("/api/records", params={"area": wrong})
        assert refused.status_code == 422
        assert words in refused.text


async def test_an_area_is_kept_with_a_question_that_names_a_plate(
    as_role: Any, services: ConsoleServices
) -> None:
    """By its corners, not by all that stands there."""
    area = "120.1 30.2, 120.3 30.2, 120.3 30.4"
    await as_role().get("/api/records", params={"plate": "浙A12345", "area": area})
    [one], _ = services.questions.kept.page(QuestionFilter(), viewer=EVERYTHING, limit=1)
    assert one.subject == {"plate": "浙A12345", "area": area}
