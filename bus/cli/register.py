"""`register`: import, export and edit the deployment register that travels on `control.register`.

Only what changes is written. Formats: docs/register.md.
"""

from __future__ import annotations

import getpass
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from bus.cli.errors import admin, report_errors
from bus.cli.show import AsJson, print_json, screen, show
from bus.client.register_follower import RegisterFollower
from bus.client.register_writer import send_entries
from bus.contracts.register import Checkpoint, Device, District
from bus.contracts.topics import CONTROL_REGISTER, TOPICS
from bus.contracts.travel_headings import Heading
from bus.domain import register_shape_texts as shapes
from bus.domain.kinds import COMMON_KIND, KINDS
from bus.domain.register_changes import (
    Entries,
    changes,
    entries_from,
    entries_of,
    faults,
    register_of,
)
from bus.domain.register_formats import FORMATS, MAX_BYTES, LineFault, read_file, write_file
from bus.domain.register_import import plan_import
from bus.errors import BusError, ErrorCode

app = typer.Typer(
    help="The deployment register: districts, checkpoints, devices, roads.", no_args_is_help=True
)


def mount(root: typer.Typer) -> None:
    """Add `register` to the command line."""
    root.add_typer(app, name="register")


CLIENT_ID = "databus-register"
READ_S = 60.0
_MAX_LISTED = 50  # of the changes; more are counted
KINDS_TEXT = ", ".join(KINDS)
_FORM = "csv, geojson or json; else by the file's name."

DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would change, write nothing.")]
Form = Annotated[str, typer.Option("--format", help=_FORM)]


@app.command("import")
@report_errors
def import_file(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(help="What to import; - reads standard input.")],
    form: Form = "",
    replace: Annotated[
        bool, typer.Option("--replace", help="Remove what the file does not name.")
    ] = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Bring the entries of a file into the register; nothing is written if one is wrong."""
    read = read_file(_bytes_of(file), _form_of(file, form))
    with _current(ctx) as (follower, on_topic, before):
        plan = plan_import(read, on_topic, before, replace=replace)
        if plan.faults:
            _refuse(plan.faults, as_json)
        _write(ctx, follower, plan.to_send, dry_run=dry_run, as_json=as_json)


@app.command("export")
@report_errors
def export_file(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(help="Where to; - writes standard output.")],
    form: Form = "",
) -> None:
    """Write the register that is in force."""
    with _current(ctx) as (_, _, entries):
        text = write_file(register_of(entries), _form_of(file, form))
    if str(file) == "-":
        sys.stdout.write(text)
        return
    file.write_text(text, encoding="utf-8")
    typer.echo(f"{len(entries)} entries in {file}")


edit = typer.Typer(help="Put or remove one entry.", no_args_is_help=True)
app.add_typer(edit, name="edit")
Remove = Annotated[bool, typer.Option("--remove", help="Take it out of the register.")]
Text = Annotated[str | None, typer.Option(help="Left out: as it was.")]


@edit.command("district")
@report_errors
def edit_district(
    ctx: typer.Context,
    name_of: Annotated[str, typer.Argument(metavar="ID")],
    name: Text = None,
    name_en: Text = None,
    remove: Remove = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """A district, by its id."""
    given = {"name": name, "name_en": name_en}
    unset = District(district_id=name_of, name="", name_en="")
    _edit(ctx, f"district/{name_of}", "district", unset, given,
          remove=remove, dry_run=dry_run, as_json=as_json)  # fmt: skip


@edit.command("checkpoint")
@report_errors
def edit_checkpoint(
    ctx: typer.Context,
    name_of: Annotated[str, typer.Argument(metavar="ID")],
    name: Text = None,
    name_en: Text = None,
    district: Annotated[str | None, typer.Option(help="Its district's id.")] = None,
    latitude: Annotated[float | None, typer.Option(help="Degrees, WGS 84.")] = None,
    longitude: Annotated[float | None, typer.Option(help="Degrees, WGS 84.")] = None,
    remove: Remove = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """A checkpoint, by its id (卡口编号)."""
    given = {"name": name, "name_en": name_en, "district_id": district, "latitude": latitude,
             "longitude": longitude}  # fmt: skip
    unset = Checkpoint(checkpoint_id=name_of, name="", name_en="", district_id="",
                       latitude=float("nan"), longitude=float("nan"))  # fmt: skip
    _edit(ctx, f"checkpoint/{name_of}", "checkpoint", unset, given,
          remove=remove, dry_run=dry_run, as_json=as_json)  # fmt: skip


@edit.command("device")
@report_errors
def edit_device(
    ctx: typer.Context,
    name_of: Annotated[str, typer.Argument(metavar="ADDRESS")],
    checkpoint: Annotated[str | None, typer.Option(help="Where it stands.")] = None,
    kind: Annotated[str | None, typer.Option(help=f"{KINDS_TEXT}.")] = None,
    server: Annotated[str | None, typer.Option(help="Its recognition server.")] = None,
    bearing: Annotated[float | None, typer.Option(help="Degrees from north, clockwise.")] = None,
    lanes: Annotated[str | None, typer.Option(help="Those that it sees: 1;2;3.")] = None,
    headings: Annotated[
        str | None, typer.Option(help="Where the traffic of each goes to: north;north;south.")
    ] = None,
    stream: Annotated[
        str | None, typer.Option(help="Of its film: rtsp://HOST/PATH, without a password.")
    ] = None,
    codec: Annotated[str | None, typer.Option(help="Of its film: h264 or h265.")] = None,
    remove: Remove = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """A camera, by its address."""
    given = {"checkpoint_id": checkpoint, "kind": kind, "recognizer_ip": server, "bearing": bearing,
             "lanes": None if lanes is None else shapes.lanes(lanes),
             "headings": None if headings is None else _headings(headings),
             "stream": stream, "codec": codec}  # fmt: skip
    unset = Device(camera_ip=name_of, checkpoint_id="", kind=COMMON_KIND)
    _edit(ctx, f"device/{name_of}", "device", unset, given,
          remove=remove, dry_run=dry_run, as_json=as_json)  # fmt: skip


def _headings(text: str) -> tuple[Heading, ...]:
    try:
        return shapes.headings(shapes.lanes(text))
    except shapes.ShapeError as error:
        raise typer.BadParameter(error.text, param_hint="--headings") from error


def _edit(
    ctx: typer.Context,
    key: str,
    kind: str,
    unset: District | Checkpoint | Device,
    given: Mapping[str, object],
    *,
    remove: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    with _current(ctx) as (follower, on_topic, before):
        after = dict(before)
        if remove:
            if after.pop(key, None) is None:
                _refuse([LineFault(0, f"there is no {key}", f"没有 {key}")], as_json)
        else:
            there = getattr(before[key], kind) if key in before else unset
            chosen = {name: value for name, value in given.items() if value is not None}
            after[key] = next(entries_from([msgspec.structs.replace(there, **chosen)]))
        known = set(faults(before))  # what was wrong before is not this edit's
        wrong = [
            LineFault(0, f"{one.key}: {one.text}", one.text_zh)
            for one in faults(after)
            if one not in known
        ]
        if wrong:
            _refuse(wrong, as_json)
        _write(ctx, follower, changes(on_topic, after), dry_run=dry_run, as_json=as_json)


@contextmanager
def _current(ctx: typer.Context) -> Iterator[tuple[RegisterFollower, Entries, Entries]]:
    """What stands on the topic, and what is in force: the same, or, while the topic is empty, the
    site's own file, which the first change brings along whole."""
    client = admin(ctx, CLIENT_ID)
    client.ensure_topics([TOPICS[CONTROL_REGISTER]])
    path = ctx.obj.site.data_path / "register.json"
    with closing(RegisterFollower(ctx.obj.bus, path, CLIENT_ID).start()) as follower:
        if not follower.wait_until_read(READ_S):
            raise BusError(ErrorCode.REQUEST_TIMED_OUT, f"{CONTROL_REGISTER} could not be read")
        yield follower, follower.entries(), entries_of(follower.read())


def _write(
    ctx: typer.Context, follower: RegisterFollower, planned: Entries, *, dry_run: bool,
    as_json: bool,
) -> None:  # fmt: skip
    if not dry_run:
        send_entries(
            ctx.obj.site, ctx.obj.bus, planned.values(), getpass.getuser(), CLIENT_ID,
            follower.next_version,
        )  # fmt: skip
    rows = [{"change": one.op, "entry": key} for key, one in planned.items()]
    if as_json:
        print_json({"changes": rows, "written": not dry_run})
        return
    if rows:
        show(rows[:_MAX_LISTED], ["change", "entry"], False)
    more = f" ({len(rows) - _MAX_LISTED} more are not shown)" if len(rows) > _MAX_LISTED else ""
    done = "would change" if dry_run else "changed"
    typer.echo(f"{len(rows)} entries {done}{more}")


def _bytes_of(file: Path) -> bytes:
    try:
        if str(file) == "-":
            return sys.stdin.buffer.read(MAX_BYTES + 1)
        if file.stat().st_size > MAX_BYTES:
            raise typer.BadParameter(f"{file} is larger than {MAX_BYTES >> 20} MiB")
        return file.read_bytes()
    except OSError as error:
        raise typer.BadParameter(f"{file}: {error.strerror}") from None


def _form_of(file: Path, form: str) -> str:
    found = form or file.suffix.removeprefix(".")
    if found not in FORMATS:
        raise typer.BadParameter(f"{found or file} is none of {', '.join(FORMATS)}: say --format")
    return found


def _refuse(wrong: list[LineFault], as_json: bool) -> None:
    """Every fault with its line, then exit status 1."""
    if as_json:
        print_json({"faults": [one._asdict() for one in wrong], "written": False})
    else:
        rows = [
            {"line": one.line or "", "fault": f"{one.text}\n{one.text_zh}"}
            for one in wrong[:_MAX_LISTED]
        ]
        show(rows, ["line", "fault"], False)
        screen().print(f"nothing was written: {len(wrong)} faults")
    raise typer.Exit(1)
