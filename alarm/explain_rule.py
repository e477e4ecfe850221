"""`watch explain`: a rule and a record, branch by branch, as lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import msgspec
import typer

from alarm.rules import attributes_of
from alarm.rules.explain import ExplainedNode, explain
from alarm.rules.matcher import Rule
from alarm.rules.references import NO_REFERENCES, References
from bus.contracts.commands import USUAL_KIND
from bus.contracts.expressions import (
    AlongRoad,
    AtPlace,
    Conjunction,
    Disjunction,
    Negation,
    Resemblance,
)
from bus.domain.expressions.check import check_complete
from bus.domain.expressions.leaf_text import number_text
from bus.domain.expressions.rule_tree import tree_of
from bus.domain.expressions.to_text import to_text
from bus.domain.expressions.tree import ExpressionError
from bus.domain.kinds import WIRE_KEYS
from bus.domain.list_in_force import due_ms, is_overdue
from bus.domain.rule_values import PLATE
from bus.domain.times import BadTime, LocalTime

Message = Mapping[str, object]
MAX_RECORD_BYTES = 1024 * 1024  # the edge takes no larger ones
_ANSWERS = {True: "yes", False: "no", None: "not read"}
_GROUPS = {Conjunction: "all of:", Disjunction: "one of:", Negation: "not:"}


def record_of(plate: str, file: Path | None) -> Message:
    """The message that is meant. Raises `typer.BadParameter`."""
    if (file is None) is not bool(plate):
        raise typer.BadParameter("give a plate, or --record with the file of a record")
    if file is None:
        return {WIRE_KEYS[USUAL_KIND][PLATE]: plate}
    try:
        with file.open("rb") as opened:
            body = opened.read(MAX_RECORD_BYTES + 1)
        if len(body) > MAX_RECORD_BYTES:
            raise typer.BadParameter(
                f"{file} is larger than {MAX_RECORD_BYTES} bytes: no record", param_hint="--record"
            )
        return msgspec.json.decode(body, type=dict[str, object])
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        text = f"{file} is no record in JSON: {error}"
        raise typer.BadParameter(text, param_hint="--record") from error


def explanation(
    rule: Rule, message: Message, zone: str, references: References = NO_REFERENCES,
    now_ms: int = 0,
) -> Iterator[str]:  # fmt: skip
    """A line per node of the rule, then the whole."""
    kind, where = rule.command.kind, rule.command.where
    attributes, times_ms = attributes_of(kind, message), _captured_ms(kind, message, zone)
    tree = tree_of(rule.command)
    if tree is None:
        yield "the rule asks for nothing and is met by no record"
        return
    try:
        if where is not None:
            check_complete(kind, where)
    except ExpressionError as error:
        yield f"the rule is met by no record, and should be put again: {error}"
        return
    for one in explain(tree, attributes, times_ms, references):
        yield _line(one, zone, now_ms)
    met = rule.condition.is_met(attributes, times_ms)
    yield f"a {kind} record like this {'meets' if met else 'does not meet'} the rule"


def _captured_ms(kind: str, message: Message, zone: str) -> tuple[int, ...]:
    """When it was captured; when it would arrive is not known."""
    try:
        return (LocalTime(zone).to_ms(str(message.get(WIRE_KEYS[kind]["captured_at"]))),)
    except BadTime:
        return ()


def _line(one: ExplainedNode, zone: str, now_ms: int) -> str:
    word = _GROUPS.get(type(one.node))
    text = word or to_text(one.node, zone)
    if one.is_missing:
        return f"{_ANSWERS[one.answer]:>8}  {'  ' * one.depth}{text}   ({_missing(one)})"
    if one.face is not None:
        nearest = f"the nearest is {one.face.line.entry}, score {one.face.score:.3f}"
        return f"{_ANSWERS[one.answer]:>8}  {'  ' * one.depth}{text}   ({nearest})"
    parts = [one.value, _price(one), _candidate(one), *_listed(one, zone, now_ms)]
    value = f"   ({', '.join(filter(None, parts))})" if any(parts) else ""
    return f"{_ANSWERS[one.answer]:>8}  {'  ' * one.depth}{text}{value}"


def _missing(one: ExplainedNode) -> str:
    if isinstance(one.node, AlongRoad):
        return "the register has no such way"
    is_place = isinstance(one.node, AtPlace)
    return "the register has no such name" if is_place else "no such list is in force"


def _price(one: ExplainedNode) -> str:
    """Of a plate that may be misread: what the reading costs, and what it may."""
    if not isinstance(one.node, Resemblance):
        return ""
    if one.price is None:
        return "more than two edits away" if one.value else ""
    return f"price {one.price:.2f} of at most {number_text(one.node.highest_price)}"


def _candidate(one: ExplainedNode) -> str:
    """What the reader holds possible beside what it wrote, where that decides."""
    found = one.candidate
    return f"by its candidate {found.plate}, {found.weight:.0%}" if found else ""


def _listed(one: ExplainedNode, zone: str, now_ms: int) -> Iterator[str]:
    """The line of the list that means the plate, and how old the list is."""
    if one.line is not None:
        by_hand = "a line that was added"
        yield f"line {one.line.number}: {one.line.plate}" if one.line.number else by_hand
    if one.plate_list is None:
        return
    record = one.plate_list.record
    if record.date:
        yield f"list of {record.date}"
    if record.renewed_at_ms:
        yield f"imported {_day(record.renewed_at_ms, zone)}"
    if record.renewal_days:
        late = "overdue since" if is_overdue(record, now_ms) else "due"
        yield f"{late} {_day(due_ms(record), zone)}"


def _day(at_ms: int, zone: str) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, ZoneInfo(zone)):%Y-%m-%d}"
