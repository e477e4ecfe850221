"""`evidence`: the evidence of an alarm, a record or the way of a plate, as one file.

In: words, the composed settings in `ctx.obj`. Out: a ZIP. Never: a file that is half written under
the name that was asked for.
"""

from __future__ import annotations

import getpass
import os
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from alarm.shell_asker import CaseOption, ReasonOption
from bus.client.register_follower import RegisterFollower
from bus.contracts.register import Register
from bus.domain.alarm_life import no_state
from bus.domain.visibility import EVERYTHING
from deploy.open_stores import open_operations, open_records, picture_reader
from deploy.product.shell_question import note_question
from deploy.roles.run import console_settings
from deploy.settings.composed import Settings
from ingest.store.port import PageRequest, Query, RecordRow, StoreError
from monitor.api.views import parse_time
from monitor.evidence.archive import MOST_RECORDS, EvidenceRequest, write_archive
from monitor.evidence.manifest import (
    EvidenceAlarm,
    EvidenceManifest,
    RecordSource,
    evidence_alarm,
    of_alarm,
    of_record,
)
from monitor.i18n import LANGUAGES, texts

CLIENT_ID = "databus-evidence"
_FROM_HELP = "Captured since, in the site's time: 2026-11-29T08:00."


class FoundEvidence(NamedTuple):
    """What is packed; `alarm`: why, if it is about one."""

    alarm: EvidenceAlarm | None
    sources: list[RecordSource]


def mount(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command("evidence")(evidence)


def evidence(
    ctx: typer.Context,
    alarm: Annotated[str, typer.Option(help="An alarm's id, as `alarms list --json` says.")] = "",
    record: Annotated[str, typer.Option(help="A record's id, as `records --json` says.")] = "",
    plate: Annotated[str, typer.Option(help="A plate: wherever it was seen.")] = "",
    since: Annotated[str, typer.Option("--from", help=_FROM_HELP)] = "",
    until: Annotated[str, typer.Option(help="Captured before.")] = "",
    to: Annotated[Path, typer.Option(help="The file to write.")] = Path("evidence.zip"),
    language: Annotated[str, typer.Option(help="Of the page to print: zh or en.")] = "zh",
    reason: ReasonOption = "",
    case: CaseOption = "",
) -> None:
    """Pack pictures, the devices' own messages, both clocks and hashes, with a page to print."""
    asked = {"alarm": alarm, "record": record, "plate": plate}
    if sum(map(bool, asked.values())) != 1:
        raise typer.BadParameter("give one of --alarm, --record, --plate")
    if language not in LANGUAGES:
        raise typer.BadParameter("zh or en", param_hint="--language")
    about = {name: text for name, text in (asked | {"from": since, "until": until}).items() if text}
    note_question(ctx, "evidence", about, reason, case)
    try:
        found = _found(ctx.obj, about)
        made = _write(ctx.obj, about, found, to, language)
    except (StoreError, OSError) as error:
        typer.echo(f"databus: no evidence was written: {error}", err=True)
        raise typer.Exit(1) from error
    missing = sum(bool(one.missing) for record in made.records for one in record.pictures)
    pictures = sum(len(record.pictures) for record in made.records) - missing
    typer.echo(
        f"{to}: {len(made.records)} records, {pictures} pictures"
        + (f", {missing} pictures are not there (the manifest says why)" if missing else "")
    )


def _found(settings: Settings, about: dict[str, str]) -> FoundEvidence:
    register = RegisterFollower(
        settings.bus, settings.site.data_path / "register.json", CLIENT_ID
    ).read()
    if alarm_id := about.get("alarm"):
        return _of_alarm(settings, alarm_id, register)
    zone = settings.site.tz
    question = Query(
        record_id=about.get("record", ""),
        plate=about.get("plate", ""),
        captured_from_ms=_moment(about, "from", settings),
        captured_until_ms=_moment(about, "until", settings),
    )
    rows = _rows(settings, question, MOST_RECORDS + 1)
    if not rows:
        raise typer.BadParameter("no such record is stored")
    if len(rows) > MOST_RECORDS:
        raise typer.BadParameter(f"more than {MOST_RECORDS} records: give --from and --until")
    return FoundEvidence(None, [of_record(row, register, zone) for row in reversed(rows)])


def _of_alarm(settings: Settings, alarm_id: str, register: Register) -> FoundEvidence:
    """With the alarm's own copy of the record, also where the store has none."""
    with closing(open_operations(settings)) as reader:
        alarm = reader.alarm(alarm_id, viewer=EVERYTHING)
        states = reader.alarm_states([alarm_id])
    if alarm is None:
        raise typer.BadParameter(f"no alarm {alarm_id}", param_hint="--alarm")
    try:
        stored = _rows(settings, Query(record_id=alarm.record_id), 1)
    except StoreError:
        stored = []
    zone = settings.site.tz
    source = of_alarm(alarm, stored[0] if stored else None, register, zone)
    state = states.get(alarm_id) or no_state(alarm_id)
    return FoundEvidence(evidence_alarm(alarm, zone, state), [source])


def _rows(settings: Settings, question: Query, limit: int) -> list[RecordRow]:
    with closing(open_records(settings)) as reader:
        return reader.query(question, PageRequest(limit=limit))[0]


def _moment(about: dict[str, str], name: str, settings: Settings) -> int:
    try:
        return parse_time(about.get(name, ""), settings.site.tz)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=f"--{name}") from error


def _write(
    settings: Settings, about: dict[str, str], found: FoundEvidence, to: Path, language: str
) -> EvidenceManifest:
    """Beside the file, then under its name."""
    site = settings.site
    asked = EvidenceRequest(site.name, getpass.getuser(), datetime.now(site.tz), about)
    read_picture = picture_reader(console_settings(settings).pictures)
    part = to.with_name(f"{to.name}.part")
    try:
        with part.open("wb") as target:
            made = write_archive(
                target, asked, found.alarm, found.sources, read_picture, texts(language)
            )
        os.replace(part, to)
    finally:
        part.unlink(missing_ok=True)
    return made
