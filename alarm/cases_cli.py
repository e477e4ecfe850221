"""The commands `cases`: whom each case is about, by which rules, and what was raised for it.

A case is what rules and proposals say of themselves; who has a shell on the server sees all of
them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import datetime
from typing import Annotated

import msgspec
import typer
from rich.table import Table

from alarm.asked_answer import fail
from alarm.dispatch.reader import OperationsReader
from alarm.proposals_reader import read_rules_and_proposals
from alarm.watchlist_reader import CatchUpTimeout
from bus.cli.show import screen
from bus.contracts.alarm_states import AlarmState
from bus.contracts.alarms import Alarm
from bus.contracts.commands import WatchCommand
from bus.domain.alarm_life import no_state
from bus.domain.cases import CaseTarget, RulesOfCase, by_case, targets_of_case
from bus.domain.expressions.to_text import to_text
from bus.domain.plates import plate_text
from bus.domain.times import DAY_MS
from bus.domain.visibility import EVERYTHING
from bus.errors import BusError
from bus.runtime import wall_clock
from ingest.store.port import PageRequest, StoreError

READ_S = 10.0
CLIENT_ID = "watch-cases"
MOST_ALARMS = 1000
AsJson = Annotated[bool, typer.Option("--json", help="For scripts.")]


def mount(app: typer.Typer) -> None:
    """Add the group `cases`."""
    cases = typer.Typer(help="Cases: their targets, rules and alarms.", no_args_is_help=True)
    cases.command("list")(list_cases)
    cases.command("show")(show_case)
    app.add_typer(cases, name="cases")


def list_cases(ctx: typer.Context, as_json: AsJson = False) -> None:
    """Show the cases of rules that are in force or wait for an approval, by number."""
    found = _read(ctx)
    table = Table("case", "targets", "rules", "waiting")
    for case, (own, proposed) in sorted(found.items()):
        targets = [one.name for one in targets_of_case(own, proposed) if one.name]
        if as_json:
            row = {"case": case, "targets": targets, "rules": len(own), "waiting": len(proposed)}
            typer.echo(json.dumps(row, ensure_ascii=False))
        else:
            table.add_row(case, ", ".join(targets), str(len(own)), str(len(proposed)))
    if not as_json:
        screen().print(table if found else "no rule names a case")


def show_case(
    ctx: typer.Context,
    case: Annotated[str, typer.Argument(help="Its number, as `cases list` shows it.")],
    days: Annotated[int, typer.Option(min=1, max=4000, help="Alarms of so many days.")] = 7,
    as_json: AsJson = False,
) -> None:
    """Show a case: each target with its rules, and the newest alarms with their life."""
    number = case.strip()
    targets = targets_of_case(*_read(ctx).get(number, ((), ())))
    alarms, states = _alarms(ctx, number, wall_clock.now_ms() - days * DAY_MS)
    if not targets and not alarms:
        fail(f"no rule and no alarm of these {days} days is of case {number}; see: cases list")
    if as_json:
        typer.echo(json.dumps(
            {
                "case": number,
                "targets": [_plain(one) for one in targets],
                "alarms": [
                    msgspec.to_builtins(one) | {"life": msgspec.to_builtins(states[one.alarm_id])}
                    for one in alarms
                ],
            },
            ensure_ascii=False,
        ))  # fmt: skip
        return
    for target in targets:
        lines = [target.name or "rules that name no target", *_lines(ctx, target)]
        screen().print("\n  ".join(lines), markup=False, highlight=False)
    _print_alarms(ctx, alarms, states)


def _read(ctx: typer.Context) -> dict[str, RulesOfCase]:
    """By the number of their case. Ends the program where the topic cannot be read."""
    try:
        return by_case(
            *read_rules_and_proposals(ctx.obj.bus, CLIENT_ID, wall_clock.now_ms(), READ_S)
        )
    except (CatchUpTimeout, BusError) as error:
        fail(f"the watch list cannot be read: {error}")


def _alarms(
    ctx: typer.Context, case: str, since_ms: int
) -> tuple[list[Alarm], dict[str, AlarmState]]:
    try:
        with closing(OperationsReader(ctx.obj.dispatcher.operations_path(ctx.obj.site))) as reader:
            alarms, _ = reader.alarms(
                page=PageRequest(limit=MOST_ALARMS), viewer=EVERYTHING, case=case,
                raised_from_ms=since_ms,
            )  # fmt: skip
            known = reader.alarm_states([one.alarm_id for one in alarms])
    except StoreError as error:
        typer.echo(f"alarms cannot be read: {error}", err=True)
        return [], {}
    return alarms, {
        one.alarm_id: known.get(one.alarm_id) or no_state(one.alarm_id) for one in alarms
    }


def _plain(target: CaseTarget) -> dict[str, object]:
    return {
        "target": target.name,
        "rules": [msgspec.to_builtins(one) for one in target.rules],
        "waiting": [msgspec.to_builtins(one) for one in target.waiting],
    }


def _lines(ctx: typer.Context, target: CaseTarget) -> Iterator[str]:
    for rule in target.rules:
        yield f"in force: {_described(ctx, rule)}"
    for one in target.waiting:
        yield f"waits for an approval: {_described(ctx, one.text)}"


def _described(ctx: typer.Context, rule: WatchCommand) -> str:
    asked = [f"{name}={','.join(values)}" for name, values in rule.match.items()]
    if rule.where is not None:
        asked.append(to_text(rule.where, ctx.obj.site.zone))
    return f"{rule.rule_id}, {rule.name}, {rule.severity}: {'; '.join(asked)}"


def _print_alarms(
    ctx: typer.Context, alarms: Sequence[Alarm], states: dict[str, AlarmState]
) -> None:
    table = Table("alarm", "raised", "target", "rule", "plate", "checkpoint", "state")
    for one in alarms:
        raised = datetime.fromtimestamp(one.raised_at_ms / 1000, ctx.obj.site.tz)
        life = states[one.alarm_id]
        table.add_row(
            one.alarm_id, raised.strftime("%Y-%m-%d %H:%M:%S"), one.case_target,
            one.rule_name or one.rule_id, plate_text(one.plate_number), one.checkpoint_id,
            f"{life.stage} {life.owner}".strip(),
        )  # fmt: skip
    screen().print(table if alarms else "no alarms")
