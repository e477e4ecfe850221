"""`alarms list` names the line of the list, or the face of the gallery, that an alarm is of."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
import typer
from typer.testing import CliRunner

from alarm.cli import mount
from alarm.dispatch.operations import BatchChanges, OperationsStore
from alarm.settings import DispatcherSettings
from bus.contracts.alarms import ListedFace, ListedPlate
from bus.settings import BusSettings, SiteSettings
from tests.alarm.dispatch.test_operations import alarm

PLATE = ListedPlate(list_id="stolen", name="Stolen", version=7, list_date="2026-11-01", line=12)
FACE = ListedFace(
    list_id="wanted", name="Wanted", version=7, entry="P7", score=0.87341, threshold=0.6, model="m/1",
    measure="cosine", line=4, is_overdue=True,
)  # fmt: skip


def test_list_line_and_date_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    site, dispatcher = SiteSettings(data_dir=str(tmp_path)), DispatcherSettings()
    found = [
        alarm(1, plate_number="浙A12345", listed=PLATE), alarm(2, resembled=FACE),
        alarm(3, plate_number="浙A3", listed=msgspec.structs.replace(PLATE, line=0, list_date="")),
        alarm(4, plate_number="浙A4"),
    ]  # fmt: skip
    with closing(OperationsStore(dispatcher.operations_path(site))) as operations:
        operations.apply(BatchChanges(alarms=found, now_ms=9))
    app = typer.Typer()
    mount(app)
    settings = SimpleNamespace(bus=BusSettings(), site=site, dispatcher=dispatcher)
    shown = CliRunner().invoke(app, ["alarms", "list"], obj=settings)
    assert shown.exit_code == 0, shown.output
    for text in (
        "浙A12345, line 12 of list stolen of 2026-11-01 ",
        "P7, score 0.873, line 4 of list wanted, which is overdue ", "浙A3, list stolen ", "浙A4 ",
    ):  # fmt: skip
        assert text in shown.stdout
    rows = CliRunner().invoke(app, ["alarms", "list", "--json"], obj=settings).stdout.splitlines()
    listed = [json.loads(row)["listed"] for row in rows]
    assert [one and one.get("line") for one in listed] == [None, None, None, 12]
