"""`watch preview`: what a rule would have hit, from the store as it lies on the disk."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path

import msgspec
import pytest
import typer
from click.testing import Result
from typer.testing import CliRunner

from bus.domain.plates import plate_key
from bus.runtime import wall_clock
from deploy.product import watch_cli
from deploy.settings import composed
from ingest.store.open import open_store
from ingest.store.port import RecordRow, StoreBatch

HOUR_MS = 3_600_000
PLATES = ("浙A12345", "浙A12346", "沪B00001")
Ask = Callable[..., Result]


@pytest.fixture
def ask(tmp_path: Path) -> Ask:
    """Of yesterday's noon three records, of today none."""
    settings = composed.load(None, [f"site.data_dir={tmp_path}/var", "policy.requires_reason=false"], {})
    now = datetime.fromtimestamp(wall_clock.now_ms() / 1000, settings.site.tz)
    noon = now.replace(hour=12, minute=0, second=0, microsecond=0) - timedelta(1)
    at_ms = round(noon.timestamp() * 1000)
    with closing(open_store(settings.store.records_url(settings.site), "write")) as store:
        store.apply(StoreBatch(rows=[_row(n, plate, at_ms) for n, plate in enumerate(PLATES)]), [])
    app = typer.Typer()

    @app.callback()
    def settings_of(ctx: typer.Context) -> None:
        ctx.obj = settings

    watch_cli.mount(app)
    return lambda *words: CliRunner().invoke(app, ["watch", "preview", *words], terminal_width=500)


def _row(number: int, plate: str, at_ms: int) -> RecordRow:
    body = {"卡口编号": f"k-{number}", "车牌号码": plate, "车辆颜色": "白色", "车速": 40 + 30 * number}
    return RecordRow(
        record_id=f"r-{number}", kind="vehicle", checkpoint_id=f"k-{number}", district_id="d", camera_ip="10.0.0.1",
        recognizer_ip="", captured_at_ms=at_ms + number, received_at_ms=at_ms + 9, plate_number=plate,
        plate_key=plate_key(plate), body=msgspec.json.encode(body),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("words", "places"),
    [
        (("--plate", "浙A12345"), ["k-0"]),
        (("--plate", "浙A1234?", "--match", "vehicle_color=白色"), ["k-0", "k-1"]),
        (("--where", 'plate_number like "*1" or speed_kmh < 50'), ["k-0", "k-2"]),
        (("--plate", "浙A12345", "--days", "1"), []),
    ],
)
def test_hits_are_counted_by_day_and_place(
    ask: Ask, words: tuple[str, ...], places: list[str]
) -> None:
    said = ask(*words, "--json")
    assert said.exit_code == 0, said.output
    found = json.loads(said.output)
    assert sorted(found["places"]) == places
    assert sum(found["days"].values()) == len(places)
    assert len(found["days"]) == (1 if "--days" in words else 7)
    assert list(found["days"]) == sorted(found["days"], reverse=True)
    assert not found["is_partial"]
    shown = ask(*words)
    assert f"{len(places)} hits at {len(places)} places" in shown.output


def test_what_is_not_looked_at_is_said(ask: Ask) -> None:
    """Of a preview that stops early nobody takes the last day for whole."""
    words = ("--match", "vehicle_color=白色")
    assert not json.loads(ask(*words, "--json").output)["is_partial"]
    assert json.loads(ask(*words, "--most", "1", "--json").output)["is_partial"]
    assert "stopped before all days" in ask(*words, "--most", "1").output


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "at least one"),
        (("--plate", "浙*"), "at least 3"),
        (("--where", "speed_kmh >"), "^"),
        (("--plate", "浙A12345", "--kind", "film"), "--kind"),
    ],
)
def test_a_rule_that_cannot_be_meant_is_refused_as_by_add(
    ask: Ask, words: tuple[str, ...], says: str
) -> None:
    said = ask(*words)
    assert said.exit_code == 2
    assert says in said.output
