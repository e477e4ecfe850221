"""The commands `watch` (put, list and remove rules) and `alarms`.

A rule counts as in force, or as removed, only when the site's decider has answered so.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, cast

import msgspec
import typer
from rich.table import Table

from alarm.alarm_life_cli import FILTERS, SINCE_HELP, STATE_HELP, add_life_commands
from alarm.asked_answer import fail
from alarm.command_request import CLIENT_ID, print_lines, request_answer
from alarm.confusion_cli import confusion_commands
from alarm.dispatch.reader import OperationsReader
from alarm.explain_rule import explanation, record_of
from alarm.lists.base_tables import tables_folder
from alarm.proposals_cli import list_proposed, withdraw
from alarm.rules import RuleSet
from alarm.shell_asker import ISSUER, CaseOption, ReasonOption, shell_user
from alarm.site_register import register_of_site, warn_of_places
from alarm.watchlist_reader import CatchUpTimeout, WatchlistReader
from alarm.where_option import WHERE_HELP, tree_of_text, warn_if_unindexed
from bus.cli.show import AsJsonLines, screen
from bus.client.kafka.command_client import new_command_id
from bus.confusion_file import source_of
from bus.contracts.alarms import Alarm
from bus.contracts.commands import (
    ANY_VERSION,
    USUAL_KIND,
    USUAL_QUIET_S,
    MatchedKind,
    WatchCommand,
)
from bus.contracts.expressions import Resemblance, Substring, Wildcard
from bus.contracts.plate_lists import LIST_RULE
from bus.domain.accepted_examples import accepted_examples
from bus.domain.alarm_life import no_state
from bus.domain.confusion_table import PACKAGED, ConfusionTable
from bus.domain.expressions.rule_tree import tree_of
from bus.domain.expressions.to_text import to_text
from bus.domain.kinds import WIRE_KEYS
from bus.domain.plates import plate_text
from bus.domain.rule_check import MAX_NAME_CHARACTERS, RuleError, check_rule
from bus.domain.rule_values import PLATE
from bus.domain.visibility import EVERY_UNIT, EVERYTHING
from bus.files.register_file import RegisterSource
from bus.notify.acknowledgements import Acknowledgements, AcknowledgementsUnavailable
from bus.runtime import wall_clock
from ingest.store.port import PageRequest, StoreError

READ_S = 10.0

_PLATE_HELP = (
    "A plate, as it is written; ? is one character, * any run of them; with ~ in front also as it "
    "is misread (~0.7: up to that price, 0.5 to 2). May be given several times (any of them)."
)
_MATCH_HELP = (
    "attribute=value[,value…], e.g. vehicle_color=白色 or vehicle_brand=Jeep; all must hold. "
    "Attributes: the English names of the message's fields."
)
PlateOption = Annotated[list[str] | None, typer.Option(help=_PLATE_HELP)]
MatchOption = Annotated[list[str] | None, typer.Option(help=_MATCH_HELP)]
KindOption = Annotated[str, typer.Option(help=" or ".join(WIRE_KEYS) + ".")]
WhereOption = Annotated[str, typer.Option(help=WHERE_HELP)]
_FOR_HELP = "How long it stays in force: 30m, 12h, 7d; without it until removed."
_EMERGENCY_HELP = "In force at once and for so long, 24h, without an approval; needs --reason."
_QUIET_HELP = (
    "Seconds: so long before and after an alarm no other record of that target at that place raises"
    " one; they are counted. 0: each record does."
)
_VISIBLE_HELP = (
    "A unit, as accounts have them: it sees the rule and its alarms in the console, and no other "
    "does. May be given several times; without it everybody does."
)
_TARGET_HELP = (
    "Whom of the case it is about: all rules of a --case that name the same target have one quiet "
    "time, and stand together in `cases show`."
)
_SEEN_HELP = "Change it only where this version is in force, as `watch list` shows it; 0: none."
_OPTIONS = {
    "name": "--name", "valid_until_ms": "--for", "quiet_s": "--quiet", PLATE: "--plate",
    "visible_to": "--visible-to", "target": "--target",
}  # fmt: skip
"""By which option a part of a rule is given."""
_UNITS = {"m": 60_000, "h": 3_600_000, "d": 86_400_000}


def mount(app: typer.Typer) -> None:
    """Add the group `alarms`; `watch_commands` are mounted by `deploy`."""
    alarms = typer.Typer(help="Alarms that were raised.", no_args_is_help=True)
    alarms.command("list")(list_alarms)
    alarms.command("ack")(acknowledge)
    add_life_commands(alarms)
    app.add_typer(alarms, name="alarms")


def watch_commands() -> typer.Typer:
    """The group `watch`, to which `deploy` adds what needs the store of records."""
    watch = typer.Typer(help="The watch list: who or what is looked for.", no_args_is_help=True)
    watch.command("add")(add)
    watch.command("list")(list_rules)
    watch.command("remove")(remove)
    watch.command("explain")(explain_rule)
    watch.command("proposed")(list_proposed)
    watch.command("withdraw")(withdraw)
    watch.add_typer(confusion_commands(), name="confusion")
    return watch


def add(
    ctx: typer.Context,
    plate: PlateOption = None,
    match: MatchOption = None,
    kind: KindOption = USUAL_KIND,
    name: Annotated[str, typer.Option(help="What operators read on the alarm.")] = "",
    severity: Annotated[str, typer.Option(help="info, warning or critical.")] = "warning",
    rule_id: Annotated[str, typer.Option("--id", help="Change the rule of this id.")] = "",
    lasting: Annotated[str, typer.Option("--for", help=_FOR_HELP)] = "",
    quiet_s: Annotated[int, typer.Option("--quiet", help=_QUIET_HELP)] = USUAL_QUIET_S,
    seen: Annotated[int, typer.Option("--seen", help=_SEEN_HELP)] = ANY_VERSION,
    where: WhereOption = "",
    emergency: Annotated[str, typer.Option(help=_EMERGENCY_HELP)] = "",
    visible_to: Annotated[
        list[str] | None, typer.Option("--visible-to", help=_VISIBLE_HELP)
    ] = None,
    target: Annotated[str, typer.Option(help=_TARGET_HELP)] = "",
    reason: ReasonOption = "",
    case: CaseOption = "",
    as_json: AsJsonLines = False,
) -> None:
    """Put a target on the watch list. From the next record on it is looked for; where the site asks
    for approval, when another account has approved it."""
    now_ms = wall_clock.now_ms()
    command = msgspec.structs.replace(
        rule_of_options(ctx, plate, match, kind, where, name),
        rule_id=rule_id or f"rule-{now_ms:x}",
        version=now_ms,
        severity=_one_of("--severity", severity, ("info", "warning", "critical")),
        valid_until_ms=now_ms + duration_ms(lasting) if lasting else 0,
        quiet_s=quiet_s,
        author=shell_user(),
        issuer=ISSUER,
        command_id=new_command_id(),
        seen_version=seen,
        emergency_hours=emergency_hours(emergency) if emergency else 0,
        visible_to=visible_to or [],
        target=target.strip(),
        unit=EVERY_UNIT,
        reason=reason,
        case=case,
    )
    check_options(command)
    warn_if_unindexed(command)
    warn_of_places(ctx, command, CLIENT_ID)
    answer = request_answer(ctx, command, as_json=as_json)
    waits = answer.state == "proposed"
    if as_json:
        print_lines([msgspec.structs.replace(command, version=answer.version)], state=answer.state)
    elif waits:
        waiting = f"databus watch approve {command.rule_id}"
        typer.echo(f"{command.rule_id} is proposed and waits for an approval: {waiting}")
    else:
        typer.echo(f"{command.rule_id} is in force")
    if not as_json:
        for line in example_lines(command, source_of(ctx.obj.site).read()):
            typer.echo(line)


def rule_of_options(
    ctx: typer.Context, plate: list[str] | None, match: list[str] | None, kind: str, where: str,
    name: str = "",
) -> WatchCommand:  # fmt: skip
    """What the words ask of a record. Raises `typer.BadParameter`."""
    return WatchCommand(
        rule_id="new",
        op="put",
        version=0,
        kind=cast(MatchedKind, _one_of("--kind", kind, WIRE_KEYS)),
        name=name or usual_name(*(plate or ()), *(match or ()), *where.split()),
        match=conditions(plate or (), match or (), is_needed=not where.strip()),
        where=tree_of_text(ctx, where, kind),
    )


def check_options(command: WatchCommand) -> None:
    """Raises `typer.BadParameter` for a rule that cannot be meant."""
    try:
        check_rule(command, wall_clock.now_ms())
    except RuleError as error:
        option = _OPTIONS.get(error.field, "--match")
        raise typer.BadParameter(f"{error.field}: {error}", param_hint=option) from error


def remove(
    ctx: typer.Context,
    rule_id: Annotated[str, typer.Argument(help="The rule's id, as `watch list` shows it.")],
    reason: ReasonOption = "",
    as_json: AsJsonLines = False,
) -> None:
    """Take a rule off the watch list."""
    if rule_id.startswith(LIST_RULE):
        raise typer.BadParameter(
            f"{rule_id} is a list; end it by: databus lists end {rule_id.removeprefix(LIST_RULE)}"
        )
    rule = _read_rules(ctx).rules.get(rule_id)  # of it only the version is asked
    if rule is None:
        raise typer.BadParameter(f"no rule {rule_id} is in force; see: databus watch list")
    command = WatchCommand(
        rule_id=rule_id, op="remove", version=wall_clock.now_ms(), author=shell_user(),
        issuer=ISSUER, command_id=new_command_id(), seen_version=rule.command.version,
        reason=reason, unit=EVERY_UNIT,
    )  # fmt: skip
    answer = request_answer(ctx, command, as_json=as_json)
    if as_json:
        print_lines([msgspec.structs.replace(command, version=answer.version)])
    else:
        typer.echo(f"{rule_id} is removed")


def list_rules(ctx: typer.Context, as_json: AsJsonLines = False) -> None:
    """Show the rules in force, as they were decided."""
    commands = [rule.command for _, rule in sorted(_rules(ctx).rules.items())]
    if as_json:
        print_lines(commands)
        return
    table = Table("rule", "name", "kind", "severity", "match", "visible to", "author", "version")
    for c in commands:
        match = [f"{name}={','.join(values)}" for name, values in c.match.items()]
        if c.where is not None:
            match.append(to_text(c.where, ctx.obj.site.zone))
        table.add_row(
            c.rule_id, c.name, c.kind, _severity(c), "; ".join(match),
            ", ".join(c.visible_to) or "all", c.author, str(c.version),
        )
    screen().print(table if commands else "the watch list is empty")


def _severity(command: WatchCommand) -> str:
    """With a mark on what nobody has approved."""
    return f"{command.severity}, emergency" if command.emergency_hours else command.severity


def explain_rule(
    ctx: typer.Context,
    rule_id: Annotated[str, typer.Argument(help="The rule's id, as `watch list` shows it.")],
    plate: Annotated[str, typer.Argument(help="A plate, of which nothing else is known.")] = "",
    record: Annotated[Path | None, typer.Option(help="A file: the record's JSON, as sent.")] = None,
) -> None:
    """Say why a record meets a rule or does not, branch by branch."""
    rules = _rules(ctx)
    rule = rules.rules.get(rule_id)
    if rule is None:
        raise typer.BadParameter(f"no rule {rule_id} is in force; see: databus watch list")
    message, zone = record_of(plate, record), ctx.obj.site.zone
    for line in explanation(rule, message, zone, rules.references, wall_clock.now_ms()):
        typer.echo(line)


def list_alarms(
    ctx: typer.Context,
    severity: Annotated[str, typer.Option(help="info, warning or critical.")] = "",
    rule_id: Annotated[str, typer.Option("--rule", help="A rule's id.")] = "",
    plate: Annotated[str, typer.Option(help="A plate; * is any characters, ? is one.")] = "",
    state: Annotated[str, typer.Option(help=STATE_HELP)] = "",
    owner: Annotated[str, typer.Option(help="The account that has it in hand.")] = "",
    since: Annotated[str, typer.Option(help=SINCE_HELP)] = "",
    limit: Annotated[int, typer.Option(min=1, max=1000, help="At most so many.")] = 20,
    as_json: AsJsonLines = False,
) -> None:
    """Show the newest alarms, with who has them in hand."""
    since_ms = wall_clock.now_ms() - duration_ms(since, "--since") if since else 0
    try:
        reader = OperationsReader(ctx.obj.dispatcher.operations_path(ctx.obj.site))
        page = PageRequest(limit=limit)
        found, _ = reader.alarms(
            page=page, viewer=EVERYTHING, severity=severity, rule_id=rule_id, plate=plate,
            owner=owner,
            stage=state and _one_of("--state", state, FILTERS), changed_from_ms=since_ms,
        )  # fmt: skip
        states = reader.alarm_states([one.alarm_id for one in found])
        reader.close()
    except StoreError as error:
        fail(f"no alarms can be read: {error}")
    if as_json:
        for alarm in found:
            life = states.get(alarm.alarm_id) or no_state(alarm.alarm_id)
            both = {**msgspec.structs.asdict(alarm), "life": msgspec.structs.asdict(life)}
            typer.echo(json.dumps(msgspec.to_builtins(both), ensure_ascii=False))
        return
    table = Table(
        "alarm", "raised", "severity", "rule", "plate", "checkpoint", "after", "further", "state"
    )
    for alarm in found:
        life = states.get(alarm.alarm_id) or no_state(alarm.alarm_id)
        table.add_row(alarm.alarm_id, *_row(ctx, alarm), f"{life.stage} {life.owner}".strip())
    screen().print(table if found else "no alarms")


def acknowledge(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="ID", help="Of an alarm or an incident.")],
    by_whom: Annotated[str, typer.Option("--by", help="Who takes it in hand.")] = "command line",
) -> None:
    """Take an alarm or an incident in hand: it is not escalated any more."""
    try:
        found = Acknowledgements(ctx.obj.site).add(name, by_whom, wall_clock.now_ms())
    except AcknowledgementsUnavailable as error:
        fail(f"nothing is acknowledged: {error}")
    typer.echo(f"{name} is acknowledged by {found}")


def usual_name(*parts: str) -> str:
    """Of a rule without one: what it asks for."""
    return " ".join(parts)[:MAX_NAME_CHARACTERS]


def conditions(
    plates: Sequence[str], matches: Sequence[str], *, is_needed: bool = True
) -> dict[str, list[str]]:
    """The `match` of a command. Raises `typer.BadParameter` for what is not written as one."""
    found: dict[str, list[str]] = {}
    for text in matches:
        attribute, sign, values = text.partition("=")
        if not sign or not values.strip():
            raise typer.BadParameter(
                f"{text!r}: write attribute=value[,value…]", param_hint="--match"
            )
        found.setdefault(attribute, []).extend(v.strip() for v in values.split(",") if v.strip())
    if plates:
        found.setdefault(PLATE, []).extend(plates)
    if not found and is_needed:
        raise typer.BadParameter("give at least one --plate, --match or --where")
    return found


def example_lines(
    command: WatchCommand, confusion: ConfusionTable = PACKAGED
) -> list[str]:
    """What its fuzzy plates and its patterns are met by, a line each."""
    tree = tree_of(command)
    lines = []
    for leaf, plates in accepted_examples(tree, confusion) if tree else ():
        if isinstance(leaf, Resemblance):
            lines.append(f"{leaf.plate} is also met by readings like {', '.join(plates)}")
        elif isinstance(leaf, Wildcard | Substring):
            text = leaf.pattern if isinstance(leaf, Wildcard) else f"*{leaf.text}*"
            lines.append(f"{text} is met by plates like {', '.join(plates)}")
    return lines


def duration_ms(text: str, option: str = "--for") -> int:
    """`30m`, `12h` or `7d`. Raises `typer.BadParameter`."""
    number, unit = text[:-1], text[-1:]
    if unit not in _UNITS or not number.isascii() or not number.isdigit() or int(number) == 0:
        raise typer.BadParameter(f"{text!r}: write 30m, 12h or 7d", param_hint=option)
    return int(number) * _UNITS[unit]


def emergency_hours(text: str) -> int:
    """`24h` or `2d`, whole hours. Raises `typer.BadParameter`."""
    hours, rest = divmod(duration_ms(text, "--emergency"), _UNITS["h"])
    if rest:
        raise typer.BadParameter(f"{text!r}: write whole hours", param_hint="--emergency")
    return hours


def _one_of(option: str, value: str, allowed: Iterable[str]) -> str:
    if value not in allowed:
        expected = ", ".join(sorted(allowed))
        raise typer.BadParameter(f"{value!r}; expected one of: {expected}", param_hint=option)
    return value


def _rules(ctx: typer.Context) -> RuleSet:
    """As they stand on their topic, with the lists and places that they refer to."""
    with register_of_site(ctx, CLIENT_ID) as register:
        return _read_rules(ctx, tables_folder(ctx.obj.site), register)


def _read_rules(
    ctx: typer.Context, folder: Path | None = None, register: RegisterSource | None = None
) -> RuleSet:
    """See `WatchlistReader`."""
    try:
        watchlist = WatchlistReader(
            ctx.obj.bus, CLIENT_ID, folder, register, source_of(ctx.obj.site), timeout_s=READ_S
        )
        watchlist.catch_up()
    except CatchUpTimeout as error:
        fail(f"the watch list cannot be read: {error}")
    watchlist.close()
    return watchlist.rules


def _row(ctx: typer.Context, alarm: Alarm) -> tuple[str, ...]:
    raised = datetime.fromtimestamp(alarm.raised_at_ms / 1000, ctx.obj.site.tz)
    return (
        raised.strftime("%Y-%m-%d %H:%M:%S"),
        alarm.severity,
        alarm.rule_name or alarm.rule_id,
        _target(alarm),
        alarm.checkpoint_id,
        f"{alarm.raised_at_ms - alarm.captured_at_ms} ms",
        f"+ {alarm.further_passages}" if alarm.further_passages else "",
    )


def _listed(alarm: Alarm) -> str:
    """Which line of which list or gallery meant it, and of when that was."""
    found = alarm.listed or alarm.resembled
    if found is None:
        return ""
    line = f"line {found.line} of " if found.line else ""
    of_date = f" of {found.list_date}" if found.list_date else ""
    overdue = ", which is overdue" if found.is_overdue else ""
    return f", {line}list {found.list_id}{of_date}{overdue}"


def _target(alarm: Alarm) -> str:
    """The plate, or the face of a gallery."""
    if alarm.resembled is not None:
        return f"{alarm.resembled.entry}, score {alarm.resembled.score:.3f}" + _listed(alarm)
    return plate_text(alarm.plate_number) + _meant(alarm) + _listed(alarm)


def _meant(alarm: Alarm) -> str:
    """Beside a plate that was misread, the one that is looked for."""
    one = alarm.misread
    if one is None:
        return ""
    return f", meant {one.plate}, price {one.price:.2f} of at most {one.highest:.2f}"
