"""What an alarm shows when retention has taken its record and the pictures of it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from zoneinfo import ZoneInfo

import msgspec
import pytest
from console_services import client_of, make_services, signed

from alarm.dispatch.metrics import DispatcherMetrics
from alarm.dispatch.operations import BatchChanges, OperationsStore
from alarm.dispatch.picture_copier import PictureCopier
from alarm.dispatch.reader import OperationsReader
from bus.contracts.alarms import Alarm
from ingest.pictures.alarm_copies import AlarmCopies
from ingest.pictures.store import PictureStore
from monitor.accounts.roles import EVERYBODY, ConsolePrincipal
from monitor.api.app import create_api
from monitor.api.pool import ReaderPool
from monitor.api.services import ConsoleServices
from tests.ingest.store.made import row

JPEG = b"\xff\xd8\xff" + b"stolen" * 9
PICTURE = "20261010/c1/r-vehicle.jpg"
RECORD = {
    "车牌号码": "浙AWL999",
    "车辆图片地址": f"http://edge:8650/pictures/{PICTURE}",
    "备注": "北口",
}


def raise_alarm(data_path: Path, record_id: str, now_ms: int) -> PictureStore:
    """As the dispatcher does, with the picture that the edge has stored."""
    pictures = PictureStore((data_path / "pictures").as_uri(), "http://edge:8650")
    pictures.put(PICTURE, JPEG)
    alarm = Alarm(
        alarm_id=f"r:{record_id}", rule_id="r", rule_name="被盗", severity="critical",
        record_id=record_id, kind="vehicle", checkpoint_id="c1", captured_at_ms=now_ms,
        received_at_ms=now_ms, raised_at_ms=now_ms, picture_url=RECORD["车辆图片地址"],
        record=msgspec.json.encode(RECORD).decode(),
    )  # fmt: skip
    with closing(OperationsStore(data_path / "store" / "operations.db")) as operations:
        operations.apply(BatchChanges(alarms=[alarm]))
        PictureCopier(
            operations.pictures, AlarmCopies(pictures), ZoneInfo("UTC"), 0, DispatcherMetrics()
        ).copy_due(now_ms)
    return pictures


@pytest.fixture
def services(data_path: Path, filled: tuple[Path, int]) -> Iterator[ConsoleServices]:
    """With the dispatcher's own store, not a list."""
    made = make_services(data_path, filled[1])
    made.alarms.close()
    path = data_path / "store" / "operations.db"
    object.__setattr__(
        made, "alarms", ReaderPool("operations", lambda: OperationsReader(path), threads=1)
    )
    made.questions._alarms = made.alarms
    yield made
    made.records.close()
    made.alarms.close()
    made.account_writes.close()
    made.account_store.close()


async def test_an_alarm_shows_its_record_and_picture_when_retention_has_taken_both(
    data_path: Path, services: ConsoleServices, filled: tuple[Path, int]
) -> None:
    """It used to hold some fields and the picture's address only: with the record all was gone."""
    record_id = row(0).record_id
    pictures = raise_alarm(data_path, record_id, filled[1])
    with closing(sqlite3.connect(data_path / "store" / "records.db")) as db, db:
        db.execute("DELETE FROM records")
    assert pictures.forget("20261011", 10) == 1
    client = client_of(create_api(services))
    principal = ConsolePrincipal(name="guest", roles=EVERYBODY)
    sid = services.sessions.open(principal, guest=True)
    client.cookies.set("databus_console", signed({"sid": sid}, services.secret))
    async with client:
        assert (await client.get(f"/api/records/{record_id}")).status_code == 404
        assert (await client.get(f"/pictures/{PICTURE}")).status_code == 404
        alarm = (await client.get(f"/api/alarms/r:{record_id}")).json()
        assert alarm["body"] == RECORD
        (shown,) = alarm["pictures"]
        assert (shown["key"], shown["url"]) == ("", RECORD["车辆图片地址"]) or shown[
            "key"
        ] == "车辆图片地址"
        for address in (shown["picture"], alarm["picture"]):
            answer = await client.get(address)
            assert (answer.status_code, answer.content) == (200, JPEG)
        (listed,) = (await client.get("/api/alarms")).json()["rows"]
        assert listed["picture"] == alarm["picture"]
        assert "record" not in listed
