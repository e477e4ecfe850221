"""The commands of `ingest`, as a person types them."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from bus.client.kafka.admin import Admin
from bus.contracts.register import Checkpoint, District, Register, encode_register
from bus.contracts.topics import CONTROL_REGISTER, TOPICS
from bus.domain.confusion_fit import JudgedReading, fitted
from bus.domain.confusion_table import PACKAGED, file_of
from bus.domain.times import local_time
from bus.settings import BusSettings, SiteSettings
from deploy.servers.databus import start_broker
from ingest.cli import mount
from ingest.settings import EdgeSettings, PictureSettings, StoreSettings
from ingest.store.open import open_store
from ingest.store.port import RecordRow, RejectedRow, StoreBatch


class CliSettings:
    """The parts of the composed settings that these verbs read."""

    def __init__(self, data_dir: Path, bootstrap: str, confusion_table: str = "") -> None:
        self.site = SiteSettings(data_dir=str(data_dir), confusion_table=confusion_table)
        self.edge, self.pictures, self.store = EdgeSettings(), PictureSettings(), StoreSettings()
        self.bus = BusSettings(bootstrap_servers=bootstrap)


NO_BUS = "127.0.0.1:1"
AREA = "120.1 30.1, 120.2 30.1, 120.2 30.2"


def run(
    data_dir: Path, *words: str, stdin: bytes = b"", bootstrap: str = NO_BUS, confusion_table: str = ""
) -> Result:
    app = typer.Typer()
    mount(app)
    settings = CliSettings(data_dir, bootstrap, confusion_table)
    return CliRunner().invoke(app, list(words), obj=settings, input=stdin)


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """A store with three records and a rejected one."""
    noon = local_time("Asia/Shanghai").to_ms("2017-08-24 12:00:00")
    rows = [
        RecordRow(
            record_id=f"r{hour}", kind="vehicle" if hour else "person", checkpoint_id="c1",
            district_id="", camera_ip="10.0.0.1", recognizer_ip="",
            captured_at_ms=noon + hour * 3_600_000, received_at_ms=noon,
            plate_number=f"浙A0000{hour}", plate_key=f"浙A0000{hour}",
            picture_url="http://127.0.0.1:8650/pictures/20170824/c1/r-vehicle.jpg", body=b'{"a": 1}',
        )
        for hour in range(3)
    ]  # fmt: skip
    bad = RejectedRow(
        record_id="b", kind="vehicle", reason="not-utf8", field="", camera_ip="10.0.0.9",
        recognizer_ip="", checkpoint_id="", source="10.0.1.1", received_at_ms=noon, body=b"\xff{",
    )  # fmt: skip
    store = open_store(StoreSettings().records_url(SiteSettings(data_dir=str(tmp_path))), "write")
    store.apply(StoreBatch(rows=rows, rejected=[bad]), [])
    store.close()
    return tmp_path


def lines(result: Result) -> list[dict[str, object]]:
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_records_lists_newest_first_with_the_path_of_the_picture(data_dir: Path):
    """As a table and as JSON lines."""
    found = lines(run(data_dir, "records", "--json"))
    assert [one["record_id"] for one in found] == ["r2", "r1", "r0"]
    assert found[0]["record"] == {"a": 1}
    assert found[0]["picture_path"] == str(data_dir / "pictures/20170824/c1/r-vehicle.jpg")
    table = run(data_dir, "records").stdout
    assert "浙A00002" in table
    assert "2017-08-24 14:00:00.000" in table


@pytest.mark.parametrize(
    ("words", "ids"),
    [
        (["--kind", "person"], ["r0"]),
        (["--plate", "浙a*2"], ["r2"]),
        (["--plate", "*a00*"], ["r2", "r1", "r0"]),
        (["--plate", "浙A00002", "--tolerance", "distance 1"], ["r2", "r1", "r0"]),
        (["--plate", "浙B00012", "--tolerance", "distance 1"], []),
        (["--plate", "~浙AD0002"], ["r2"]),  # a D read as 0
        (["--from", "2017-08-24 13", "--until", "2017-08-24 13:30"], ["r1"]),
        (["--checkpoint", "c1", "--limit", "1"], ["r2"]),
        (["--camera", "10.9.9.9"], []),
    ],
)
def test_records_are_filtered(data_dir: Path, words: list[str], ids: list[str]):
    """By what an operator knows, times as short as one likes to type them."""
    assert [one["record_id"] for one in lines(run(data_dir, "records", "--json", *words))] == ids


def test_misreadings_go_by_the_table_that_the_site_has_fitted(data_dir: Path) -> None:
    judged = [JudgedReading(f"浙AT{number:04}", f"浙A0{number:04}", is_confirmed=True) for number in range(3_000)]
    table = file_of(fitted(judged, PACKAGED.counts).counts, fitted_at="", confirmed=1, false=0, letters=1)
    (data_dir / "confusion.json").write_bytes(table)
    asked = ("records", "--json", "--plate", "~0.6:浙AT0002", "--tolerance", "misread")
    assert lines(run(data_dir, *asked)) == []
    own = lines(run(data_dir, *asked, confusion_table="confusion.json"))
    assert [one["record_id"] for one in own] == ["r2"]


@pytest.mark.parametrize(("words", "said"), [
    (["--plate", "*345", "--tolerance", "distance 1"], "a whole plate of at least 6"),
    (["--plate", "浙A00002", "--tolerance", "distance 2"], "is not one of distance 1, misread"),
])  # fmt: skip
def test_a_tolerance_that_cannot_be_is_told(data_dir: Path, words: list[str], said: str) -> None:
    """And nothing is listed."""
    result = run(data_dir, "records", *words)
    assert result.exit_code == 2
    assert said in " ".join(result.output.replace("│", " ").split())


@pytest.mark.slow
def test_records_of_an_area_are_those_of_what_the_register_has_there(data_dir: Path) -> None:
    """As it is on the bus; of an area where nothing stands that is said."""
    at = Checkpoint(checkpoint_id="c1", name="", name_en="", district_id="d", latitude=30.12, longitude=120.18)
    whole = Register(districts=(District(district_id="d", name="", name_en=""),), checkpoints=(at,))
    (data_dir / "register.json").write_bytes(encode_register(whole))
    broker = start_broker(data_dir / "broker")
    try:
        with closing(Admin(BusSettings(bootstrap_servers=broker.bootstrap), client_id="test")) as admin:
            admin.ensure_topics([TOPICS[CONTROL_REGISTER]])
        words = ("records", "--json", "--plate", "浙A0000*", "--area")
        found = lines(run(data_dir, *words, AREA, bootstrap=broker.bootstrap))
        assert [one["record_id"] for one in found] == ["r2", "r1", "r0"]
        elsewhere = run(data_dir, *words, "1 1, 2 1, 2 2", bootstrap=broker.bootstrap)
        assert (elsewhere.exit_code, elsewhere.stdout) == (0, "")
        assert "nothing of the register stands in this area" in elsewhere.stderr
    finally:
        broker.stop()


@pytest.mark.parametrize(("area", "said"), [
    ("120 30, 121 30", "3 to 50 corners, not 2"), ("here", "write longitude and latitude"),
    (AREA, "the register could not be read"),
])  # fmt: skip
def test_an_area_that_cannot_be_asked_for_is_told(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch, area: str, said: str
) -> None:
    """And nothing is listed: what it left out would look like an answer."""
    monkeypatch.setattr("ingest.cli._REGISTER_READ_S", 0.1)
    result = run(data_dir, "records", "--area", area)
    assert result.exit_code == 2
    assert said in " ".join(result.output.replace("│", " ").split())


def test_a_time_that_is_none_is_told(data_dir: Path):
    """With the option's name."""
    result = run(data_dir, "records", "--from", "yesterday")
    assert result.exit_code == 2
    assert "yesterday" in result.output


def test_rejected_shows_reason_and_bytes(data_dir: Path):
    """Bytes that are no text are escaped, not lost."""
    (one,) = lines(run(data_dir, "rejected", "--json"))
    assert (one["reason"], one["bytes"], one["source"]) == ("not-utf8", "\\xff{", "10.0.1.1")
    assert "not UTF-8" in run(data_dir, "rejected").stdout


def test_an_empty_store_is_said_not_guessed(tmp_path: Path):
    """Before anything was stored."""
    assert "nothing stored" in run(tmp_path, "records").stdout


def test_check_message_explains_every_fault_at_once(tmp_path: Path):
    """Errors and warnings of every message, in both languages; exit status 1."""
    message = [
        {"卡口号": "1", "抓拍时间": "24.08.2017", "车牌号码": "浙A**", "车速": "fast"},
        {"卡口编号": "1", "抓拍时间": "2017-08-24 17:25:34.123", "抓拍设备地址": "10.0.0.1"},
    ]
    file = tmp_path / "m.json"
    file.write_text(json.dumps(message, ensure_ascii=False), encoding="utf-8")
    result = run(tmp_path, "check-message", str(file), "--json")
    assert result.exit_code == 1
    first, second = (json.loads(line) for line in result.stdout.splitlines())
    faults = {(f["level"], f["reason"] or f["field"]) for f in first["faults"]}
    assert faults == {
        ("error", "no-checkpoint"), ("error", "bad-time"), ("warning", "车牌号码"),
        ("warning", "车速"), ("warning", "卡口号"), ("warning", "抓拍设备地址"),
    }  # fmt: skip
    assert second["faults"] == []
    people = run(tmp_path, "check-message", str(file))
    assert "卡口编号" in people.output
    assert "did you mean 卡口编号" in people.output


def test_check_message_names_the_place_of_the_damage(tmp_path: Path):
    """It prints line and column for JSON, the likely encoding for bytes, and continues with the
    rest."""
    broken = run(tmp_path, "check-message", "-", stdin=b'{"a": 1,\n "b": }')
    assert "line 2, column 7" in broken.output
    foreign = json.dumps({"卡口编号": "1", "抓拍时间": "x"}, ensure_ascii=False).encode("gb18030")
    result = run(tmp_path, "check-message", "-", "--json", stdin=foreign)
    reasons = [fault["reason"] for fault in json.loads(result.stdout)["faults"]]
    assert reasons[:2] == ["not-utf8", "bad-time"]
    assert "GB18030" in result.stdout
