"""An alarm has copies of its pictures, whatever becomes of the originals and of their store."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alarm.dispatch import picture_copier, picture_queue
from alarm.dispatch.metrics import DispatcherMetrics
from alarm.dispatch.operations import BatchChanges, OperationsStore
from alarm.dispatch.picture_copier import GIVE_UP_MS, LAST_RETRY_MS, PictureCopier
from alarm.dispatch.picture_queue import MAX_PICTURES, picture_addresses
from alarm.dispatch.reader import OperationsReader
from bus.contracts.alarms import Alarm
from bus.contracts.pictures import PICTURES_PREFIX
from bus.contracts.topics import DAY_MS
from bus.domain.visibility import EVERYTHING
from ingest.pictures.alarm_copies import AlarmCopies
from ingest.pictures.store import PictureStore

ZONE = ZoneInfo("Asia/Shanghai")
RAISED_MS = 1_800_000_000_000
JPEG = b"\xff\xd8\xff" + b"x" * 40
BASE = "http://edge:8650"
CAR, SCENE = "20261010/c1/r-vehicle.jpg", "20261010/c1/r-scene.jpg"
RECORD = {
    "卡口编号": "c1", "车牌号码": "浙AWL999", "车辆图片地址": f"{BASE}/pictures/{CAR}",
    "场景图片地址": f"{BASE}/pictures/{SCENE}", "人脸图片地址": "http://elsewhere/x.jpg",
}  # fmt: skip


def alarm(number: int = 1, record: dict[str, str] = RECORD, raised_at_ms: int = RAISED_MS) -> Alarm:
    return Alarm(
        alarm_id=f"r:{number}", rule_id="r", rule_name="n", severity="warning",
        record_id=str(number), kind="vehicle", checkpoint_id="c1", captured_at_ms=1,
        received_at_ms=1, raised_at_ms=raised_at_ms, picture_url=record.get("车辆图片地址", ""),
        record=msgspec.json.encode(record).decode(),
    )  # fmt: skip


class CopyWorld:
    """The recorder's store and a folder of pictures."""

    def __init__(self, folder: Path, alarms_days: int = 0) -> None:
        self.operations = OperationsStore(folder / "operations.db")
        self._path = folder / "operations.db"
        self.folder = folder / "pictures"
        self.pictures = PictureStore(self.folder.as_uri(), BASE)
        self.metrics = DispatcherMetrics()
        self.copier = PictureCopier(
            self.operations.pictures, AlarmCopies(self.pictures), ZONE, alarms_days, self.metrics
        )

    def copies(self, number: int = 1) -> dict[str, str]:
        """Address -> the copy's bytes, as whoever opens the alarm gets them."""
        reader = OperationsReader(self._path)
        stored = reader.alarm(f"r:{number}", viewer=EVERYTHING)
        reader.close()
        assert stored is not None
        found = {}
        for url, address in stored.copies.items():
            data = self.pictures.get(address.removeprefix(PICTURES_PREFIX))
            assert data is not None, address
            found[url] = data.decode("latin-1")
        return found


@pytest.fixture
def world(tmp_path: Path) -> Iterator[CopyWorld]:
    made = CopyWorld(tmp_path)
    yield made
    made.operations.close()


def test_the_copies_are_there_when_the_originals_are_gone(world: CopyWorld) -> None:
    """Those of our own store, each; nobody else's is fetched."""
    world.pictures.put(CAR, JPEG + b"car")
    world.pictures.put(SCENE, JPEG + b"scene")
    world.operations.apply(BatchChanges(alarms=[alarm()]))
    assert world.copies() == {}, "an alarm does not wait for its pictures"
    world.copier.copy_due(RAISED_MS)
    assert world.pictures.forget("20261011", 100) == 2, "retention takes the originals only"
    assert world.pictures.get(CAR) is None
    assert {url: text[-3:] for url, text in world.copies().items()} == {
        RECORD["车辆图片地址"]: "car", RECORD["场景图片地址"]: "ene",
    }  # fmt: skip
    assert world.operations.pictures.due(RAISED_MS + DAY_MS, 10) == []


def test_a_picture_that_comes_late_is_copied_then(world: CopyWorld) -> None:
    """An edge whose picture store is away brings it later than the record; what is there already
    is shown meanwhile."""
    world.pictures.put(CAR, JPEG)
    world.operations.apply(BatchChanges(alarms=[alarm()]))
    world.copier.copy_due(RAISED_MS)
    assert list(world.copies()) == [RECORD["车辆图片地址"]]
    assert world.operations.pictures.due(RAISED_MS, 10) == [], "not at once again"
    world.pictures.put(SCENE, JPEG)
    world.copier.copy_due(RAISED_MS + LAST_RETRY_MS)
    assert len(world.copies()) == 2


def test_a_picture_that_never_comes_is_given_up_after_a_day(world: CopyWorld) -> None:
    """And counted; the alarm stays as it is."""
    world.operations.apply(BatchChanges(alarms=[alarm()]))
    world.copier.copy_due(RAISED_MS)
    assert world.operations.pictures.due(RAISED_MS + LAST_RETRY_MS, 10)
    world.copier.copy_due(RAISED_MS + GIVE_UP_MS)
    assert world.operations.pictures.due(RAISED_MS + 9 * DAY_MS, 10) == []
    assert world.metrics.pictures_given_up._value.get() == 2
    assert world.copies() == {}


def test_a_store_that_is_away_loses_no_copy_and_is_left_in_peace(
    world: CopyWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first failure ends the round: a hundred alarms do not wait for it one by one."""
    monkeypatch.setattr(picture_copier, "AWAY_S", 0.0)
    world.pictures.put(CAR, JPEG)
    world.pictures.put(SCENE, JPEG)
    (world.folder / "alarms").write_text("in the way, as where nothing may be written")
    world.operations.apply(BatchChanges(alarms=[alarm(1), alarm(2), alarm(3)]))
    world.copier.copy_due(RAISED_MS)
    assert len(world.operations.pictures.due(RAISED_MS, 10)) == 2
    (world.folder / "alarms").unlink()
    world.copier.copy_due(RAISED_MS + LAST_RETRY_MS)
    assert [len(world.copies(number)) for number in (1, 2, 3)] == [2, 2, 2]


def test_what_waits_survives_a_restart_and_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rule that matches every record fills no disk with what is to be done."""
    monkeypatch.setattr(picture_queue, "MAX_WAITING", 3)
    world = CopyWorld(tmp_path)
    world.operations.apply(BatchChanges(alarms=[alarm(number) for number in range(9)]))
    world.operations.close()
    again = CopyWorld(tmp_path)
    assert [one.alarm.alarm_id for one in again.operations.pictures.due(RAISED_MS, 99)] == [
        "r:0", "r:1", "r:2",
    ]  # fmt: skip
    again.pictures.put(CAR, JPEG)
    again.pictures.put(SCENE, JPEG)
    again.copier.copy_due(RAISED_MS)
    again.operations.apply(BatchChanges(alarms=[alarm(20)]))
    assert len(again.operations.pictures.due(RAISED_MS, 99)) == 1, "there is room again"
    again.operations.close()


def test_copies_are_deleted_with_the_days_of_alarms(tmp_path: Path) -> None:
    """By the day they were raised, in slices; the originals have days of their own."""
    world = CopyWorld(tmp_path, alarms_days=10)
    world.pictures.put(CAR, JPEG)
    world.pictures.put(SCENE, JPEG)
    world.operations.apply(
        BatchChanges(alarms=[alarm(1), alarm(2, raised_at_ms=RAISED_MS + 5 * DAY_MS)])
    )
    world.copier.copy_due(RAISED_MS + 5 * DAY_MS)
    assert world.copier.forget(RAISED_MS + 9 * DAY_MS) == 0
    assert world.copier.forget(RAISED_MS + 11 * DAY_MS) == 2
    assert len(world.copies(2)) == 2
    assert world.pictures.get(CAR) == JPEG
    assert [path.name for path in (world.folder / "alarms").iterdir()] == ["20270120"]
    world.operations.close()


def test_a_store_without_links_gets_real_copies(
    world: CopyWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a file system of another kind, or in an object store."""

    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.link", refuse)
    world.pictures.put(CAR, JPEG)
    assert world.pictures.copy(CAR, "alarms/20261010/a/0.jpg")
    shutil.rmtree(world.folder / "20261010")
    assert world.pictures.get("alarms/20261010/a/0.jpg") == JPEG
    assert not world.pictures.copy(CAR, "alarms/20261010/a/1.jpg"), "there is none"


def test_an_object_store_is_copied_and_shortened_alike() -> None:
    """fsspec's store in memory stands for every store that is no folder."""
    store = PictureStore("memory://alarm-copies", BASE)
    store.put(CAR, JPEG)
    store.put("20270101/c1/r.jpg", JPEG)
    assert store.copy(CAR, "alarms/20261010/a/0.jpg")
    assert not store.copy("20261010/c1/none.jpg", "alarms/20261010/a/1.jpg")
    assert store.forget("20261011", 100) == 1
    assert store.get(CAR) is None
    assert store.get("alarms/20261010/a/0.jpg") == store.get("20270101/c1/r.jpg") == JPEG


@given(st.one_of(st.text(), st.builds(lambda d: msgspec.json.encode(d).decode(), st.dictionaries(
    st.text(max_size=3).map(lambda name: name + "图片地址"),
    st.one_of(st.none(), st.integers(), st.text(alphabet="a/", max_size=4).map(lambda end: PICTURES_PREFIX + end)),
))))  # fmt: skip
def test_no_record_can_ask_for_more_than_some_pictures(record: str) -> None:
    """Whatever a device wrote: addresses of our own, each once, bounded."""
    found = picture_addresses(msgspec.structs.replace(alarm(), record=record, picture_url=""))
    assert len(found) == len(set(found)) <= MAX_PICTURES
    assert all(PICTURES_PREFIX in url for url in found)
