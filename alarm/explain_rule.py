"""`watch explain`: a rule and a record, branch by branch, as lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
import typer

from alarm.rules import attributes_of
from alarm.rules.explain import ExplainedNode, explain
from alarm.rules.matcher import Rule
from alarm.rules.references import NO_REFERENCES, References
from bus.contracts.commands import USUAL_KIND
from bus.contracts.expressions import AtPlace, Conjunction, Disjunction, Negation, Resemblance
from bus.domain.expressions.check import check_complete
from bus.domain.expressions.leaf_text import number_text
from bus.domain.expressions.rule_tree import tree_of
from bus.domain.expressions.to_text import to_text
from bus.domain.expressions.tree import ExpressionError
from bus.domain.kinds import WIRE_KEYS
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
    rule: Rule, message: Message, zone: str, references: References = NO_REFERENCES
) -> Iterator[str]:
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
        yield _line(one, zone)
    met = rule.condition.is_met(attributes, times_ms)
    yield f"a {kind} record like this {'meets' if met else 'does not meet'} the rule"


def _captured_ms(kind: str, message: Message, zone: str) -> tuple[int, ...]:
    """When it was captured; when it would arrive is not known."""
    try:
        return (LocalTime(zone).to_ms(str(message.get(WIRE_KEYS[kind]["captured_at"]))),)
    except BadTime:
        return ()


def _line(one: ExplainedNode, zone: str) -> str:
    word = _GROUPS.get(type(one.node))
    text = word or to_text(one.node, zone)
    if one.is_missing:
        return f"{_ANSWERS[one.answer]:>8}  {'  ' * one.depth}{text}   ({_missing(one)})"
    if one.face is not None:
        nearest = f"the nearest is {one.face.line.entry}, score {one.face.score:.3f}"
        return f"{_ANSWERS[one.answer]:>8}  {'  ' * one.depth}{text}   ({nearest})"
    value = f"   ({one.value}{_price(one)})" if one.value else ""
    return f"{_ANSWERS[one.answer]:>8}  {'  ' * one.depth}{text}{value}"


def _missing(one: ExplainedNode) -> str:
    is_place = isinstance(one.node, AtPlace)
    return "the register has no such name" if is_place else "no such list is in force"


def _price(one: ExplainedNode) -> str:
    """Of a plate that may be misread: what the reading costs, and what it may."""
    if not isinstance(one.node, Resemblance):
        return ""
    if one.price is None:
        return ", more than two edits away"
    return f", price {one.price:.2f} of at most {number_text(one.node.highest_price)}"
