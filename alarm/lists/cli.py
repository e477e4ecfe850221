"""The commands `lists`: put a file of plates into force, show lists, change lines, end one.

A list counts as in force, as proposed, or as ended, only when the site's decider has answered so.
Who approves or rejects needs an account, which `deploy` asks for (`deploy.product.lists_cli`).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Annotated, NamedTuple, cast

import msgspec
import typer
from rich.table import Table

from alarm.asked_answer import accepted, fail
from alarm.explain_rule import record_of
from alarm.lists.columns import NoPlateColumn, day_of
from alarm.lists.excel_rows import ExcelUnreadable
from alarm.lists.import_file import TooManyLines
from alarm.lists.importer import ListFile, ListImporter, TriedFile
from alarm.lists.list_file import ListFileError
from alarm.lists.lists_topic import CatchUpTimeout, read_lists
from alarm.lists.proposals_cli import list_proposed, withdraw
from alarm.lists.wanted_model import WantedModel
from alarm.rules import attributes_of
from alarm.shell_asker import ISSUER, CaseOption, shell_user
from bus.cli.show import AsJson, Yes, screen
from bus.contracts.commands import CommandAnswer
from bus.contracts.feature_models import FeatureModel
from bus.contracts.plate_lists import (
    GALLERY_KIND,
    SEVERITIES,
    TOLERANCES,
    FaceLine,
    ListCommand,
    ListLine,
    ListRecord,
    Severity,
    Tolerance,
)
from bus.domain.command_error import CommandError
from bus.domain.feature_models import feature_of
from bus.domain.list_check import (
    MANY_CHANGED_LINES,
    check_change,
    check_face_change,
    is_list_plate,
    removes_many,
)
from bus.domain.list_chunks import ListChunkError
from bus.domain.list_import import ListDifference, ListImport, ListText
from bus.domain.plates import wanted_vehicle
from bus.domain.rule_values import FEATURE, FEATURE_MODEL, normal
from bus.errors import BusError

CLIENT_ID = "lists"
READ_S = 10.0

ListId = Annotated[str, typer.Argument(metavar="LIST", help="The list's id.")]
Reason = Annotated[str, typer.Option(help="Why, for who asks later.")]
_TOLERANCE_HELP = "exact; look-alikes: 0 and O, 8 and B … are one; distance 1: one misread sign."
_FACE_ALARMS_HELP = "Each face that resembles one is an alarm; no: rules refer to it only."
_ALARMS_HELP = "Each passing plate of the list is an alarm; no: rules refer to it only."


def lists_commands() -> typer.Typer:
    """The group, without what asks for an account."""
    lists = typer.Typer(help="Lists of plates, galleries of faces.", no_args_is_help=True)
    lists.command("import")(import_list)
    lists.command("show")(show_lists)
    lists.command("add-line")(add_line)
    lists.command("remove-line")(remove_line)
    lists.command("end")(end_list)
    lists.command("import-faces")(import_faces)
    lists.command("add-face")(add_face)
    lists.command("remove-face")(remove_face)
    lists.command("proposed")(list_proposed)
    lists.command("withdraw")(withdraw)
    return lists


def import_list(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="CSV or Excel.")],
    list_id: Annotated[str, typer.Option("--list", help="The list's id; a new one makes a list.")],
    name: Annotated[str | None, typer.Option(help="What operators read on the alarm.")] = None,
    owner: Annotated[str | None, typer.Option(help="Who answers for it.")] = None,
    source: Annotated[str | None, typer.Option(help="Where its lines come from.")] = None,
    legal_ground: Annotated[str | None, typer.Option(help="What allows to look for them.")] = None,
    date: Annotated[str | None, typer.Option(help="Of its lines, 2026-01-31.")] = None,
    severity: Annotated[str | None, typer.Option(help="info, warning or critical.")] = None,
    tolerance: Annotated[str | None, typer.Option(help=_TOLERANCE_HELP)] = None,
    alarms: Annotated[bool | None, typer.Option(help=_ALARMS_HELP)] = None,
    renewal_days: Annotated[
        int | None, typer.Option(help="It is overdue when it was not imported within; 0: never.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would change.")] = False,
    report: Annotated[
        Path | None, typer.Option(help="Where refused lines go; else beside FILE.")
    ] = None,
    yes: Yes = False,
    reason: Reason = "",
    case: CaseOption = "",
    as_json: AsJson = False,
) -> None:
    """Put the plates of a file into force as a list, in the place of those that it has.

    Options that are left out stay as they are. Columns are known by their headings (车牌, 备注,
    日期; plate, note, date) or by what stands in them. Lines that are no plates are refused, and
    stand in a report with the reasons.
    """
    _check_one_of("--severity", severity, SEVERITIES)
    _check_one_of("--tolerance", tolerance, TOLERANCES)
    text = ListText(
        name=name, owner=owner, source=source, legal_ground=legal_ground, date=date,
        severity=cast("Severity | None", severity), tolerance=cast("Tolerance | None", tolerance),
        alarms=alarms, renewal_days=renewal_days,
    )  # fmt: skip
    how = _ImportOptions(dry_run, yes, reason, case, as_json)
    _import(ctx, list_id, ListFile(file, report or _report_of(file), text), how, "lines")


def import_faces(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="CSV or Excel, with features.")],
    list_id: Annotated[str, typer.Option("--list", help="The gallery's id; a new one makes one.")],
    model: Annotated[
        str, typer.Option(help="Of the features; else as the file or the gallery in force says.")
    ] = "",
    threshold: Annotated[
        float | None, typer.Option(help="Of a hit; else that of the gallery, or of the model.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="What operators read on the alarm.")] = None,
    owner: Annotated[str | None, typer.Option(help="Who answers for it.")] = None,
    source: Annotated[str | None, typer.Option(help="Where its faces come from.")] = None,
    legal_ground: Annotated[str | None, typer.Option(help="What allows to look for them.")] = None,
    date: Annotated[str | None, typer.Option(help="Of its faces, 2026-01-31.")] = None,
    severity: Annotated[str | None, typer.Option(help="info, warning or critical.")] = None,
    alarms: Annotated[bool | None, typer.Option(help=_FACE_ALARMS_HELP)] = None,
    renewal_days: Annotated[
        int | None, typer.Option(help="It is overdue when it was not imported within; 0: never.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would change.")] = False,
    report: Annotated[
        Path | None, typer.Option(help="Where refused lines go; else beside FILE.")
    ] = None,
    yes: Yes = False,
    reason: Reason = "",
    case: CaseOption = "",
    as_json: AsJson = False,
) -> None:
    """Put the faces of a file into force as a gallery, in the place of those that it has.

    The file has the headings entry and feature (编号, 特征), and perhaps note, date and model
    (备注, 日期, 特征模型). A feature is base64 as in records, or its numbers. Lines that are
    refused stand in a report with the reasons. Photos are not imported.
    """
    _check_one_of("--severity", severity, SEVERITIES)
    text = ListText(
        name=name, owner=owner, source=source, legal_ground=legal_ground, date=date,
        severity=cast("Severity | None", severity), alarms=alarms, renewal_days=renewal_days,
    )  # fmt: skip
    wanted = WantedModel(ctx.obj.features.table(), model, threshold)
    how = _ImportOptions(dry_run, yes, reason, case, as_json)
    _import(ctx, list_id, ListFile(file, report or _report_of(file), text, wanted), how, "faces")


def _report_of(file: Path) -> Path:
    """Where its refused lines go, if nobody says where."""
    return file.with_name(f"{file.name}.refused.csv")


class _ImportOptions(NamedTuple):
    """What was said beside the file and the list's text."""

    dry_run: bool
    yes: bool
    reason: str
    case: str
    as_json: bool


def _import(
    ctx: typer.Context, list_id: str, file: ListFile, how: _ImportOptions, lines_name: str
) -> None:
    as_json = how.as_json
    with _reading(), closing(_importer(ctx)) as importer:
        tried = _tried(importer, list_id, file)
        read, record, outcome = tried.read, tried.record, tried.outcome
        command = msgspec.structs.replace(
            tried.command, author=shell_user(), issuer=ISSUER, reason=how.reason, case=how.case
        )
        if how.dry_run:
            _say(outcome, as_json=as_json)
            return
        command = _confirmed(command, record, outcome.difference, yes=how.yes)
        if not as_json:
            _say(outcome, as_json=False)
        answer = accepted(ctx, lambda: importer.put(command, read, _progress), as_json=as_json)
    _progress("", 0)
    if as_json:
        _say(msgspec.structs.replace(outcome, answer=answer), as_json=True)
    else:
        _say_done(answer, f"{list_id} is in force: {read.line_count} {lines_name}")


def show_lists(
    ctx: typer.Context,
    list_id: Annotated[str, typer.Argument(metavar="LIST", help="One, in full.")] = "",
    as_json: AsJson = False,
) -> None:
    """Show the lists in force, as they were decided."""
    with _reading():
        in_force = read_lists(ctx.obj.bus, CLIENT_ID, timeout_s=READ_S).in_force
    if list_id and list_id not in in_force:
        raise typer.BadParameter(f"no list {list_id} is in force; see: databus lists show")
    records = [in_force[list_id]] if list_id else [one for _, one in sorted(in_force.items())]
    if as_json:
        for one in records:
            typer.echo(json.dumps(_visible_fields(one), ensure_ascii=False))
        return
    if list_id:
        for field, value in _visible_fields(records[0]).items():
            typer.echo(f"{field.replace('_', ' ')}: {value}")
        return
    table = Table("list", "name", "lines", "changed", "tolerance or model", "severity", "put", "by")
    for one in records:
        put = datetime.fromtimestamp(one.renewed_at_ms / 1000, ctx.obj.site.tz)
        table.add_row(
            one.list_id, one.name, str(one.base_lines), str(one.changed_lines),
            one.tolerance if one.model is None else f"{one.model.name} {one.model.threshold:g}",
            one.severity, put.strftime("%Y-%m-%d %H:%M"), one.decided_by,
        )  # fmt: skip
    screen().print(table if records else "no list is in force")


def add_line(
    ctx: typer.Context,
    list_id: ListId,
    plate: Annotated[str, typer.Argument(help="As it is written.")],
    note: Annotated[str, typer.Option(help="What operators read.")] = "",
    date: Annotated[str, typer.Option(help="Since when, 2026-01-31.")] = "",
    reason: Reason = "",
    case: CaseOption = "",
    as_json: AsJson = False,
) -> None:
    """Put one plate on a list, or change its note and date."""
    day = _day(date)
    line = ListLine(0, _plate(plate), note, day)
    command = ListCommand(
        list_id=list_id, op="change", put_lines=(line,), author=shell_user(), issuer=ISSUER,
        reason=reason, case=case,
    )  # fmt: skip
    _change(ctx, command, f"{line.plate} is on {list_id}", as_json=as_json)


def remove_line(
    ctx: typer.Context,
    list_id: ListId,
    plates: Annotated[list[str], typer.Argument(metavar="PLATE…", help="As they are written.")],
    yes: Yes = False,
    reason: Reason = "",
    case: CaseOption = "",
    as_json: AsJson = False,
) -> None:
    """Take plates off a list."""
    wanted = tuple(dict.fromkeys(map(_plate, plates)))
    with _reading(), closing(_importer(ctx)) as importer:
        found = importer.in_force(list_id)
        if found is None:
            raise typer.BadParameter(f"no list {list_id} is in force; see: databus lists show")
        record, stored = found
        missing = set(wanted) - {line.plate for line in stored.lines(record)}
    if missing:
        fail(f"not on {list_id}: {', '.join(sorted(missing))}")
    command = ListCommand(
        list_id=list_id, op="change", removed_plates=wanted, author=shell_user(), issuer=ISSUER,
        reason=reason, case=case, confirms_removal=yes, seen_version=record.version,
    )  # fmt: skip
    _change(ctx, command, f"{', '.join(wanted)} off {list_id}", as_json=as_json)


def add_face(
    ctx: typer.Context,
    list_id: ListId,
    entry: Annotated[str, typer.Argument(help="By what the face is known.")],
    record: Annotated[Path, typer.Option(help="A face record in JSON: its feature is taken.")],
    note: Annotated[str, typer.Option(help="What operators read.")] = "",
    date: Annotated[str, typer.Option(help="Since when, 2026-01-31.")] = "",
    reason: Reason = "",
    case: CaseOption = "",
    as_json: AsJson = False,
) -> None:
    """Put one face into a gallery, or another feature in the place of its own."""
    day = _day(date)
    model = _gallery_model(ctx, list_id)
    attributes = attributes_of(GALLERY_KIND, record_of("", record))
    feature = feature_of(attributes.get(FEATURE, ""), model)
    if attributes.get(FEATURE_MODEL) != normal(model.name) or feature is None:
        raise typer.BadParameter(
            f"{record} has no feature of {model.name}, which {list_id} compares",
            param_hint="--record",
        )
    command = ListCommand(
        list_id=list_id, op="change", put_faces=(FaceLine(0, entry, note, day, feature),),
        author=shell_user(), issuer=ISSUER, reason=reason, case=case,
    )  # fmt: skip
    _change_faces(ctx, command, model, f"{entry} is in {list_id}", as_json=as_json)


def remove_face(
    ctx: typer.Context,
    list_id: ListId,
    entries: Annotated[list[str], typer.Argument(metavar="ENTRY…")],
    yes: Yes = False,
    reason: Reason = "",
    case: CaseOption = "",
    as_json: AsJson = False,
) -> None:
    """Take faces out of a gallery."""
    wanted = tuple(dict.fromkeys(entries))
    with _reading(), closing(_importer(ctx)) as importer:
        found = importer.in_force(list_id)
        if found is None or found[0].model is None:
            raise typer.BadParameter(f"no gallery {list_id} is in force; see: databus lists show")
        record, stored = found
        missing = set(wanted) - {line.entry for line in stored.faces(record)}
    if missing:
        fail(f"not in {list_id}: {', '.join(sorted(missing))}")
    command = ListCommand(
        list_id=list_id, op="change", removed_plates=wanted, author=shell_user(), issuer=ISSUER,
        reason=reason, case=case, confirms_removal=yes, seen_version=record.version,
    )  # fmt: skip
    _change_faces(ctx, command, found[0].model, f"{', '.join(wanted)} out of {list_id}",
                  as_json=as_json)  # fmt: skip


def end_list(
    ctx: typer.Context, list_id: ListId, reason: Reason = "", case: CaseOption = "",
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """End a list: none of its plates or faces is looked for any more."""
    command = ListCommand(
        list_id=list_id, op="remove", author=shell_user(), issuer=ISSUER, reason=reason, case=case
    )
    with closing(_importer(ctx)) as importer:
        answer = accepted(ctx, lambda: importer.request(command), as_json=as_json)
    if as_json:
        typer.echo(json.dumps(msgspec.to_builtins(answer), ensure_ascii=False))
    else:
        typer.echo(f"{list_id} is ended")


def _change(ctx: typer.Context, command: ListCommand, done: str, *, as_json: bool) -> None:
    try:
        check_change(command.put_lines, command.removed_plates)
    except CommandError as error:
        raise typer.BadParameter(str(error)) from error
    _request_change(ctx, command, done, as_json=as_json)


def _change_faces(
    ctx: typer.Context, command: ListCommand, model: FeatureModel, done: str, *, as_json: bool
) -> None:
    try:
        check_face_change(model, command.put_faces, command.removed_plates)
    except CommandError as error:
        raise typer.BadParameter(str(error)) from error
    _request_change(ctx, command, done, as_json=as_json)


def _gallery_model(ctx: typer.Context, list_id: str) -> FeatureModel:
    """Of a gallery in force. Raises `typer.BadParameter`."""
    with _reading():
        record = read_lists(ctx.obj.bus, CLIENT_ID, timeout_s=READ_S).in_force.get(list_id)
    if record is None or record.model is None:
        raise typer.BadParameter(f"no gallery {list_id} is in force; see: databus lists show")
    return record.model


def _request_change(ctx: typer.Context, command: ListCommand, done: str, *, as_json: bool) -> None:
    with _reading(), closing(_importer(ctx)) as importer:
        answer = accepted(ctx, lambda: importer.request(command), as_json=as_json)
        record = read_lists(ctx.obj.bus, CLIENT_ID, timeout_s=READ_S).in_force.get(command.list_id)
    if as_json:
        typer.echo(json.dumps(msgspec.to_builtins(answer), ensure_ascii=False))
    else:
        _say_done(answer, done)
    if record is not None and record.changed_lines >= MANY_CHANGED_LINES:
        typer.echo(f"{record.changed_lines} lines have changed since the list was imported: "
                   "import it again soon", err=True)  # fmt: skip


def _say_done(answer: CommandAnswer, done: str) -> None:
    """What was asked for; where it waits, that it does."""
    if answer.state == "proposed":
        approval = f"databus lists approve {answer.key}"
        done = f"{answer.key}: this is proposed and waits for an approval: {approval}"
    typer.echo(done)


def _tried(importer: ListImporter, list_id: str, file: ListFile) -> TriedFile:
    """Raises `typer.BadParameter`."""
    try:
        return importer.try_file(list_id, file, _progress)
    except CommandError as error:
        option = "--list" if error.field == "list_id" else f"--{error.field.replace('_', '-')}"
        raise typer.BadParameter(str(error), param_hint=option) from error


def _confirmed(
    command: ListCommand, record: ListRecord | None, difference: ListDifference, *, yes: bool
) -> ListCommand:
    """Where many lines go, somebody has to say that it is meant."""
    if record is None or not removes_many(difference.removed, record.base_lines):
        return command
    question = f"{difference.removed} of {record.base_lines} lines go. Is this meant?"
    if not yes and not (sys.stdin.isatty() and typer.confirm(question, err=True)):
        fail(f"nothing is changed: {difference.removed} of {record.base_lines} lines would go; "
             "if this is meant, say --yes")  # fmt: skip
    return msgspec.structs.replace(command, confirms_removal=True)


def _say(outcome: ListImport, *, as_json: bool) -> None:
    _progress("", 0)
    if as_json:
        typer.echo(json.dumps(msgspec.to_builtins(outcome), ensure_ascii=False))
        return
    found = outcome.difference
    typer.echo(f"{outcome.lines} lines: {found.added} added{_examples(found.added_plates)}, "
               f"{found.removed} removed{_examples(found.removed_plates)}, "
               f"{found.changed} changed{_examples(found.changed_plates)}")  # fmt: skip
    if outcome.refused:
        typer.echo(f"{outcome.refused} lines are refused; {outcome.report} says why")


def _examples(plates: Sequence[str]) -> str:
    return f" ({', '.join(plates)}{' …' if len(plates) > 1 else ''})" if plates else ""


def _visible_fields(record: ListRecord) -> dict[str, object]:
    """Without its chunks, which are the readers'."""
    fields = msgspec.to_builtins(msgspec.structs.asdict(record))
    hidden = ("chunks", "changes", "seen_version", "session", "signature", "op")
    visible = {key: value for key, value in fields.items() if key not in hidden}
    return visible | {"lines": record.base_lines, "changed_lines": record.changed_lines}


def _plate(written: str) -> str:
    plate = wanted_vehicle(written)
    if not plate or not is_list_plate(plate):
        raise typer.BadParameter(f"{written!r} is no plate", param_hint="PLATE")
    return plate


def _day(written: str) -> str:
    """Empty where none was written. Raises `typer.BadParameter`."""
    day = day_of(written) if written else ""
    if day is None:
        raise typer.BadParameter(f"{written!r}: write 2026-01-31", param_hint="--date")
    return day


def _check_one_of(option: str, value: str | None, allowed: Sequence[str]) -> None:
    if value is not None and value not in allowed:
        expected = ", ".join(allowed)
        raise typer.BadParameter(f"{value!r}; expected one of: {expected}", param_hint=option)


def _importer(ctx: typer.Context) -> ListImporter:
    return ListImporter(ctx.obj.bus, ctx.obj.site.name, CLIENT_ID)


@contextmanager
def _reading() -> Iterator[None]:
    """What may be wrong with a file or the bus ends the program with a sentence."""
    try:
        yield
    except (ListFileError, NoPlateColumn, TooManyLines, ExcelUnreadable) as error:
        fail(f"nothing is imported: {error}")
    except (CatchUpTimeout, BusError, ListChunkError) as error:
        fail(f"the lists cannot be read or written: {error}")
    except OSError as error:
        fail(f"nothing is imported: {error}")


def _progress(what: str, lines: int) -> None:
    """On a terminal one line that is written over; an empty text ends it."""
    if sys.stderr.isatty():
        texts = {"read": "read", "send": "sending", "ask": "waiting for the answer:"}
        text = f"{texts[what]} {lines} lines" if what else ""
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()
