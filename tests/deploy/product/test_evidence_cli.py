"""`evidence`: a file by command, from the stores as they lie on the disk; no broker runs."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
import typer
from click.testing import Result
from typer.testing import CliRunner

from alarm.dispatch.operations import BatchChanges, OperationsStore
from bus.contracts.alarms import Alarm
from deploy.product.evidence_cli import mount
from deploy.settings import composed
from ingest.pictures.store import PictureStore
from ingest.store.open import open_store
from ingest.store.port import RecordRow, StoreBatch

NOW_MS = 1_760_000_000_000
NAME = "20261129/k-1/r-1-vehicle.jpg"
URL = f"http://edge:8650/pictures/{NAME}"
BODY = msgspec.json.encode({"卡口编号": "k-1", "车牌号码": "浙A12345", "车辆图片地址": URL})
Ask = Callable[..., Result]


@pytest.fixture
def ask(tmp_path: Path) -> Ask:
    settings = composed.load(None, [f"site.data_dir={tmp_path}/var", "policy.requires_reason=false"], {})
    rows = [_row(number) for number in (1, 2, 3)]
    with closing(open_store(settings.store.records_url(settings.site), "write")) as store:
        store.apply(StoreBatch(rows=rows), [])
    alarm = Alarm(
        alarm_id="w:gone", rule_id="w", rule_name="n", severity="critical", record_id="gone", kind="vehicle",
        checkpoint_id="k-1", captured_at_ms=NOW_MS, received_at_ms=NOW_MS, raised_at_ms=NOW_MS, picture_url=URL,
        record=BODY.decode(),
    )  # fmt: skip
    with closing(OperationsStore(settings.dispatcher.operations_path(settings.site))) as operations:
        operations.apply(BatchChanges(alarms=[alarm], now_ms=NOW_MS))
    picture = tmp_path / "var" / "pictures" / NAME
    picture.parent.mkdir(parents=True)
    picture.write_bytes(b"\xff\xd8\xff picture")
    assert PictureStore(str(tmp_path / "var" / "pictures"), "").serve(NAME) is not None
    app = typer.Typer()

    @app.callback()
    def settings_of(ctx: typer.Context) -> None:
        ctx.obj = settings

    mount(app)
    to = str(tmp_path / "out.zip")
    return lambda *words: CliRunner().invoke(
        app, ["evidence", "--to", to, *words], terminal_width=500
    )


def _row(number: int) -> RecordRow:
    return RecordRow(
        record_id=f"r-{number}", kind="vehicle", checkpoint_id="k-1", district_id="d", camera_ip="10.0.0.1",
        recognizer_ip="", captured_at_ms=NOW_MS + number, received_at_ms=NOW_MS + 9, plate_number="浙A12345",
        plate_key="浙A12345", picture_url=URL, body=BODY,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("words", "records"),
    [
        (("--plate", "浙a·12345"), ["r-1", "r-2", "r-3"]),
        (("--plate", "浙A12345", "--until", "2025-10-09T16:53:20.002"), ["r-1"]),
        (("--record", "r-2"), ["r-2"]),
        (("--alarm", "w:gone"), ["gone"]),
    ],
)
def test_what_is_asked_for_is_in_the_file(
    ask: Ask, tmp_path: Path, words: tuple[str, ...], records: list[str]
) -> None:
    """Of an alarm also what the store has forgotten."""
    said = ask(*words)
    assert said.exit_code == 0, said.output
    assert f"{len(records)} records, {len(records)} pictures" in said.output
    with zipfile.ZipFile(tmp_path / "out.zip") as packed:
        manifest = json.loads(packed.read("manifest.json"))
        assert [one["record_id"] for one in manifest["records"]] == records
        assert packed.read(manifest["records"][0]["message"]) == BODY
    assert [path.name for path in tmp_path.glob("out*")] == ["out.zip"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "give one of"),
        (("--plate", "x", "--record", "y"), "give one of"),
        (("--record", "none"), "no such record"),
        (("--alarm", "none"), "no alarm none"),
        (("--plate", "浙A12345", "--from", "soon"), "--from"),
        (("--record", "r-1", "--language", "fr"), "zh or en"),
        (("--record", "r-1", "--to", "/nowhere/x.zip"), "no evidence was written"),
    ],
)
def test_what_cannot_be_packed_is_said_and_no_file_is_left(
    ask: Ask, tmp_path: Path, words: tuple[str, ...], says: str
) -> None:
    said = ask(*words)
    assert said.exit_code != 0
    assert says in said.output
    assert list(tmp_path.glob("*.zip*")) == []
