"""`faces`: stored faces that resemble one, by command, from a store on the disk; no broker runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
import typer
from click.testing import Result
from typer.testing import CliRunner

from alarm import face_search
from alarm.lists.importer import ListFile, ListImporter
from alarm.lists.wanted_model import WantedModel
from bus.domain.feature_models import FeatureSettings
from bus.domain.list_import import ListText
from bus.domain.visibility import EVERYTHING
from bus.settings import BusSettings
from deploy.product.faces_cli import mount
from deploy.settings import composed
from ingest.store.open import open_store
from ingest.store.port import RecordRow, StoreBatch
from monitor.questions.question_log import QuestionFilter, QuestionLog
from tests.alarm.dispatch.dispatch_world import running_broker
from tests.alarm.lists.excel_files import write_rows
from tests.alarm.lists.made_galleries import feature, text_of, unit
from tests.running_decider import running_decider

NOW_MS = 1_760_000_000_000
MODEL, DIMENSIONS, FACES = "city-face-128/1", 128, 12
Ask = Callable[..., Result]


def row(number: int, model: str = MODEL) -> RecordRow:
    """Each third one is of one person; the newest is number 0."""
    body = {"卡口编号": "k-1", "人脸特征": text_of(feature(unit(DIMENSIONS, number % 3))), "特征模型": model}
    return RecordRow(
        record_id=f"f-{number}", kind="face", checkpoint_id="k-1", district_id="d", camera_ip="10.0.0.1",
        recognizer_ip="", captured_at_ms=NOW_MS - number * 60_000, received_at_ms=NOW_MS,
        body=msgspec.json.encode(body),
    )  # fmt: skip


def asking(folder: Path, *said: str) -> Ask:
    settings = composed.load(None, [f"site.data_dir={folder}/var", *said], {})
    rows = [*map(row, range(FACES)), row(90, "nobody/1")]
    with closing(open_store(settings.store.records_url(settings.site), "write")) as store:
        store.apply(StoreBatch(rows=rows), [])
    app = typer.Typer()

    @app.callback()
    def settings_of(ctx: typer.Context) -> None:
        ctx.obj = settings

    mount(app)
    return lambda *words: CliRunner().invoke(app, ["faces", *words], terminal_width=500)


@pytest.fixture
def ask(tmp_path: Path) -> Ask:
    return asking(tmp_path, "policy.requires_reason=false")


def test_a_record_finds_the_other_faces_of_its_person(ask: Ask) -> None:
    said = ask("--record", "f-1", "--json")
    assert said.exit_code == 0, said.output
    found = json.loads(said.stdout)
    assert [one["record_id"] for one in found["faces"]] == ["f-4", "f-7", "f-10"]
    assert (found["faces"][0]["score"], found["read"], found["compared"]) == (1.0, FACES + 1, FACES - 1)
    assert (found["hits"], found["is_complete"], found["model"]["threshold"]) == (3, True, 0.6)
    table = ask("--record", "f-1", "--limit", "1", "--from", "2025-10-09T16:45")
    assert "f-4" in table.stdout
    assert "2 found by city-face-128/1 (cosine, threshold 0.6); 9 face records looked at" in table.stdout


def test_a_search_that_ends_at_its_limit_says_how_far_it_came(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(face_search, "PIECE_ROWS", 4)
    said = ask("--record", "f-1", "--most", "5")
    assert "8 face records looked at" in said.stdout
    assert "stopped before all were looked at: back to 2025-10-09 16:46:20" in said.stdout
    monkeypatch.setattr(face_search, "PIECE_ROWS", 5_000)
    assert "stopped" not in ask("--record", "f-1").stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "give either"), (("--record", "f-1", "--list", "x", "--entry", "y"), "give either"),
        (("--record", "f-1", "--list", "x"), "give either"), (("--entry", "y"), "give either"),
        (("--record", "none"), "no such record"), (("--record", "f-90"), "'nobody/1' is no such model"),
        (("--record", "f-1", "--threshold", "2"), "city-face-128/1 is compared by cosine"), (("--record", "f-1", "--from", "x"), "--from"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_said(ask: Ask, words: tuple[str, ...], says: str) -> None:
    said = ask(*words)
    assert (said.exit_code, says in said.output) == (2, True), said.output


def test_a_site_with_a_policy_asks_why_and_keeps_the_question(tmp_path: Path) -> None:
    ask = asking(tmp_path)
    refused = ask("--record", "f-1")
    assert (refused.exit_code, "--reason" in refused.output, "f-4" in refused.output) == (2, True, False)
    assert ask("--record", "f-1", "--reason", "wanted", "--case", "K-7").exit_code == 0
    [kept], _ = QuestionLog(tmp_path / "var", 400).page(QuestionFilter(), viewer=EVERYTHING, limit=5)
    assert (kept.kind, kept.subject, kept.reason, kept.case) == ("faces", {"record": "f-1"}, "wanted", "K-7")


@pytest.mark.slow
def test_an_entry_of_a_gallery_in_force_finds_its_person(tmp_path: Path) -> None:
    file = tmp_path / "wanted.xlsx"
    write_rows(file, [("entry", "feature"), *((f"P{at}", text_of(feature(unit(DIMENSIONS, at)))) for at in range(3))])
    with running_broker(tmp_path / "broker") as broker, running_decider(broker.bootstrap):
        bus = BusSettings(bootstrap_servers=broker.bootstrap)
        with closing(ListImporter(bus, "main", "test")) as importer:
            wanted = WantedModel(FeatureSettings().table(), MODEL, 0.9)
            tried = importer.try_file("w", ListFile(file, tmp_path / "r.csv", ListText(), wanted), lambda *_: None)
            assert importer.put(tried.command, tried.read, lambda *_: None).state == "accepted"
        ask = asking(tmp_path, "policy.requires_reason=false", f"bus.bootstrap_servers={broker.bootstrap}")
        found = json.loads(ask("--list", "w", "--entry", "P2", "--json").stdout)
        none = ask("--list", "w", "--entry", "P9")
    assert [one["record_id"] for one in found["faces"]] == ["f-2", "f-5", "f-8", "f-11"]
    assert found["model"]["threshold"] == 0.9, "the gallery's own"
    assert (none.exit_code, "no entry P9" in none.output) == (2, True)
