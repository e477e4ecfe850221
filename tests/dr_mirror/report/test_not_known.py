"""A command of the mirror that has nothing to say yet says so, with exit status 1."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import typer
from typer.testing import CliRunner, Result

from bus.contracts.mirror_status import MirrorStatus, PictureStatus, ProofStatus, TopicStatus
from bus.contracts.site_epoch import EpochKind, SiteEpoch
from bus.runtime.wall_clock import now_ms
from bus.settings import BusSettings
from deploy.settings.composed import load
from dr_mirror import cli
from dr_mirror.proof.verify import PartitionComparison
from dr_mirror.report import counts_cli, gaps_cli
from dr_mirror.report.plan.switch_loss import switch_loss
from dr_mirror.report.plan.switch_report import (
    EDGE,
    FORCED,
    REJOINED,
    PartitionStatement,
    SwitchStatement,
    encode_statement,
    statement,
)
from dr_mirror.report.report_file import reports_folder
from dr_mirror.report.sequence_reader import ReadRecords
from dr_mirror.status.plan.status import mirror_status
from dr_mirror.status.status_file import status_path, write_status
from dr_mirror.topics.topics import ClusterPair

EPOCH = SiteEpoch(7, EpochKind.FORCED, "b" * 22, "a" * 22, 1_000, "ops")
WORDS = {"en": "not known yet", "zh": "尚不可知"}


class ConfiguredSite:
    """A machine with a mirror configured, and its commands."""

    def __init__(self, folder: Path, language: str = "en") -> None:
        self.settings = load(environment={}, flags=[
            f"site.data_dir={folder}", f"site.language={language}",
            "mirror.source_bootstrap_servers=127.0.0.1:1",
            "mirror.target_bootstrap_servers=127.0.0.1:2",
        ])  # fmt: skip
        self.language = language
        self._app = typer.Typer()
        cli.mount(self._app)

    def run(self, *words: str) -> Result:
        return CliRunner().invoke(self._app, ["mirror", *words], obj=self.settings)

    def assert_not_known(self, *words: str) -> None:
        for more in ((), ("--json",)):
            done = self.run(*words, *more)
            assert done.exit_code == 1, done.output
            assert WORDS[self.language] in done.stderr, done.output
            assert "┃" not in done.stdout, "a table of nothing"

    def say(self, *statements: SwitchStatement) -> None:
        folder = reports_folder(self.settings.site)
        folder.mkdir(parents=True)
        (folder / "000007.jsonl").write_bytes(b"".join(map(encode_statement, statements)))


@pytest.fixture(params=["en", "zh"])
def site(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> ConfiguredSite:
    monkeypatch.setenv("DATABUS_CONSOLE_PASSWORD", "secret")
    return ConfiguredSite(tmp_path, request.param)


def a_status(**changes: Any) -> MirrorStatus:
    found = mirror_status(
        ClusterPair("A", "B", 1), {}, [], now_ms=now_ms(), unreachable="", buffered_bytes=0,
        groups_not_copied={}, proof=ProofStatus(),
    )  # fmt: skip
    return msgspec.structs.replace(found, pictures=PictureStatus(), **changes)


def test_a_status_of_a_mirror_that_has_just_begun_is_not_that_all_is_well(site: ConfiguredSite):
    """It showed an empty table, with status 0."""
    write_status(status_path(site.settings.site), a_status())
    site.assert_not_known("status")
    topic = TopicStatus(topic="data.face", state="copying", detail="")
    write_status(status_path(site.settings.site), a_status(topics=(topic,)))
    assert site.run("status").exit_code == 0


@pytest.mark.parametrize(
    ("words", "rows"),
    [
        ((), []),
        (("--topic", "data.face"), []),
        (("--topic", "data.face", "--topic", "data.other"),
         [PartitionComparison(topic="data.other", partition=0)]),
        ((), [PartitionComparison(topic="data.face", partition=0, skipped="no answer")]),
    ],
)  # fmt: skip
def test_a_comparison_of_nothing_is_not_that_nothing_differs(
    site: ConfiguredSite, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...],
    rows: list[PartitionComparison],
):  # fmt: skip
    """Right after a mirror's restart it printed an empty table with status 0."""

    async def compared(*_: object, **__: object) -> list[PartitionComparison]:
        return rows

    monkeypatch.setattr(cli, "verify", compared)
    for more in ((), ("--json",)):
        done = site.run("verify", *words, *more)
        assert done.exit_code == 1, done.output
        assert WORDS[site.language] in done.stderr
    if not rows:
        site.assert_not_known("verify", *words)


def test_no_hour_counted_at_either_site_is_not_that_both_counted_the_same(
    site: ConfiguredSite, monkeypatch: pytest.MonkeyPatch
):
    async def nothing(*_: object) -> tuple[int, list[object]]:
        return 0, []

    monkeypatch.setattr(counts_cli, "_compare", nothing)
    site.assert_not_known(
        "counts", "--source-console", "http://a", "--target-console", "http://b", "--user", "ops"
    )


def test_no_numbered_record_is_not_that_no_number_is_missing(
    site: ConfiguredSite, monkeypatch: pytest.MonkeyPatch
):
    site.say(statement(FORCED, EPOCH, 1, []))
    monkeypatch.setattr(gaps_cli, "_bus_of", lambda *_: BusSettings())
    monkeypatch.setattr(gaps_cli, "_read", lambda *_: ReadRecords(900, [], is_whole=True))
    site.assert_not_known("gaps")


@pytest.mark.parametrize("words", [("report",), ("gaps",)])
def test_where_there_was_no_switch_nothing_is_reported(
    site: ConfiguredSite, words: tuple[str, ...]
):
    for more in ((), ("--json",)):
        done = site.run(*words, *more)
        assert done.exit_code == 1
        assert done.stderr
        assert not done.stdout


def test_the_last_line_of_a_report_is_the_last_truth(site: ConfiguredSite):
    """After the way back it said what had been heard of once, beside what was counted since."""
    forced = PartitionStatement(topic="data.face", partition=0, end=100, heard_end=8_677,
                                heard_ms=5, known_missing=8_577)  # fmt: skip
    final = msgspec.structs.replace(forced, former_end=9_277, records=9_177)
    again = msgspec.structs.replace(forced, sent_again=70, sent_again_beyond=7)
    site.say(statement(FORCED, EPOCH, 1, [forced]), statement(REJOINED, EPOCH, 2, [final]))
    last = site.run("report").stdout.splitlines()[-1]
    assert "9177" in last
    assert "8577" not in last
    loss = switch_loss([
        statement(FORCED, EPOCH, 1, [forced]), statement(EDGE, EPOCH, 1, [again]),
        statement(REJOINED, EPOCH, 2, [final]),
    ])  # fmt: skip
    assert loss is not None
    assert (loss.own, loss.missing) == (9_177, 9_100)
    lost_for_good = switch_loss([
        statement(FORCED, EPOCH, 1, [forced]), statement(REJOINED, EPOCH, 2, [forced]),
    ])  # fmt: skip
    assert lost_for_good is not None
    assert (lost_for_good.own, lost_for_good.missing) == (-1, 8_577)
