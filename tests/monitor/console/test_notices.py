"""What a page says of a fault: its sentence in the page's language, another's words only beside it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from zoneinfo import ZoneInfo

import msgspec
import pytest
from nicegui import ui

import bus.domain.rule_check as rule_check
from alarm.decisions import alarm_machine
from bus.contracts.command_codes import (
    NO_SUCH_ALARM,
    NO_SUCH_RULE,
    NOT_A_REQUEST,
    NOT_PRIMARY,
    OTHER_STAGE,
    STALE,
)
from bus.contracts.commands import CommandAnswer, WatchCommand
from bus.domain import alarm_life
from bus.domain.rule_check import RuleError, check_rule
from monitor.api.views import parse_time
from monitor.console import notices
from monitor.console.notices import notify_fault, rule_fault_text
from monitor.i18n import LANGUAGES, Texts, texts
from monitor.live.command_sender import CommandNotAcknowledged, CommandRefused, CommandUnanswered

CONSOLE = Path(notices.__file__).parent
# Where the text of an exception may go: the detail beside a sentence, or what is made of its kind.
SINKS = {
    "rule_fault_text", "alarm_fault_text", "fault_text", "notify_fault", "isinstance",
    "question_fault_text", "show_fault",
}  # fmt: skip
OF_A_REASON = {"rule_fault_text", "alarm_fault_text", "list_fault_text"}
# Words that a Chinese operator types or reads as they are: commands, settings, endings of files.
OURS = {
    "databus", "mirror", "status", "logs", "console", "http", "HOST", "metrics_host", "metrics_port", "csv",
    "geojson", "json", "MiB", "and", "or", "like", "contains", "matches", "resembles", "in", "is", "present",
    "Asia", "Shanghai", "plate_number", "face_feature", "on", "threshold",
}  # fmt: skip
LATIN = re.compile(r"[A-Za-z][A-Za-z_]+")


def trees() -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(CONSOLE.rglob("*.py")):
        yield path, ast.parse(path.read_text())


def calls(tree: ast.AST) -> Iterator[tuple[ast.Call, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", None) or getattr(node.func, "id", "")
            yield node, str(name)


def names_in(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}


def said_aloud(handler: ast.ExceptHandler) -> list[int]:
    """The lines in which the text of a caught error is more than a detail beside a sentence."""
    allowed: set[int] = set()
    for call, name in calls(handler):
        details = call.args if name in SINKS else call.args[1:2] if name == "show" else []
        allowed |= {id(one) for detail in details for one in ast.walk(detail)}
    handed_on = {
        id(node.value) for node in ast.walk(handler) if isinstance(node, ast.Attribute | ast.Return)
    }
    return [
        node.lineno
        for node in ast.walk(handler)
        if isinstance(node, ast.Name) and node.id == handler.name and id(node) not in allowed | handed_on
    ]


def test_no_page_puts_the_text_of_an_error_into_a_sentence() -> None:
    """`未能下发：KafkaError{code=…}` was one; the next page would have been another."""
    faults, looked_at = [], 0
    for path, tree in trees():
        for handler in ast.walk(tree):
            if isinstance(handler, ast.ExceptHandler) and handler.name:
                looked_at += 1
                faults += [f"{path.name}:{line}" for line in said_aloud(handler)]
    assert looked_at >= 5
    assert faults == []


def sentences() -> set[str]:
    """The keys of all that notices say: literal ones of every call that shows a fault."""
    found: set[str] = set()
    for _, tree in trees():
        for call, name in calls(tree):
            if name in ("notify_fault", "show", "notify") and call.args:
                text = ast.unparse(call.args[0])
                found |= set(re.findall(r"\bt\('([a-z_]+\.[a-z_]+)'", text))
    return found | {key for key in LANGUAGES["zh"] if key.startswith(("watch.fault_", "shell.away"))}


def test_what_notices_say_is_chinese_in_chinese() -> None:
    """All kinds, without a word of a library's; the parts that are filled in come from tables, too."""
    keys = sentences()
    assert {"acknowledge.failed", "register.failed", "detail.unavailable", "cluster.away", "bus.faults"} <= keys
    foreign = {
        key: words
        for key in keys
        if (words := set(LATIN.findall(re.sub(r"\{\w+\}", "", LANGUAGES["zh"][key]))) - OURS)
    }
    assert foreign == {}


def test_only_sentences_of_rules_alarms_and_lists_have_a_reason_in_their_middle() -> None:
    """It is put there by `rule_fault_text`, or of alarms and lists by their own, in the page's language;
    whatever else has one is a place for another's words."""
    with_reason = {key for table in LANGUAGES.values() for key, text in table.items() if "{why}" in text}
    assert with_reason == {"watch.failed", "plate.not_watched", "alarm.failed", "lists.failed"}
    for path, tree in trees():
        for call, _ in calls(tree):
            for keyword in call.keywords:
                if keyword.arg == "why":
                    if isinstance(keyword.value, ast.Attribute):
                        continue  # of a request
                    assert names_in(keyword.value) & OF_A_REASON, path.name


def test_every_reason_of_the_check_of_rules_has_its_words() -> None:
    """Whoever adds a reason adds both languages; a field is named as well."""
    source = ast.parse(Path(rule_check.__file__).read_text())
    made = [call.args[2] for call, name in calls(source) if name == "RuleError"]
    codes = {ast.literal_eval(code) for code in made if isinstance(code, ast.Constant)}
    assert len(codes) >= 12
    codes |= CODES
    assert {f"watch.fault_{code}" for code in codes} <= set(LANGUAGES["zh"])


CODES = {STALE, NO_SUCH_RULE, NOT_A_REQUEST, NOT_PRIMARY, "too_large", "text_length"}
CODES |= {"unit_count", "unit_name"}
"""Of a decider, and of the units of a rule, beside those of the check of rules."""


def test_every_reason_why_a_request_about_an_alarm_is_refused_has_its_words() -> None:
    """Of its table, of a decider, of the machine."""
    codes = {
        ast.literal_eval(call.args[2])
        for path in (alarm_life.__file__, alarm_machine.__file__)
        for call, name in calls(ast.parse(Path(path).read_text()))
        if name == "CommandError" and isinstance(call.args[2], ast.Constant)
    }
    assert len(codes) >= 6
    codes |= OTHER_STAGE | {STALE, NO_SUCH_ALARM, NOT_PRIMARY, "too_large", "text_length"}
    for table in LANGUAGES.values():
        assert {f"alarm.fault_{code}" for code in codes} <= set(table)


def test_every_reason_why_a_tree_is_refused_has_its_words() -> None:
    """The check of trees says a code, too."""
    codes = {
        ast.literal_eval(call.args[1])
        for path in Path(rule_check.__file__).parent.glob("expressions/*.py")
        for call, name in calls(ast.parse(path.read_text()))
        if name == "ExpressionError" and isinstance(call.args[1], ast.Constant)
    }
    assert len(codes) >= 20
    assert {f"watch.fault_{code}" for code in codes} <= set(LANGUAGES["zh"])


WRONG_RULES = (
    {"name": ""}, {"name": "n" * 101}, {"note": "n" * 501}, {"match": {}}, {"valid_until_ms": 5},
    {"valid_from_ms": -1}, {"valid_from_ms": 9_000_000_000_000, "valid_until_ms": 8_000_000_000_000},
    {"match": {"no_such": ["x"]}}, {"match": {"plate_number": []}}, {"match": {"plate_number": [" "]}},
    {"match": {"plate_number": ["浙A*"]}}, {"match": {"plate_number": ["无牌"]}},
    {"match": {"vehicle_color": ["\ud800"]}},
)  # fmt: skip


def wrong(change: dict[str, object]) -> RuleError:
    sound: dict[str, object] = {"name": "n", "match": {"plate_number": ["浙A12345"]}}
    rule = WatchCommand(rule_id="w", op="put", version=1, **(sound | change))  # type: ignore[arg-type]
    with pytest.raises(RuleError) as raised:
        check_rule(rule, 6_000_000_000_000 if "valid_from_ms" in change else 10)
    return raised.value


def other_faults() -> Iterator[Exception]:
    yield CommandNotAcknowledged("Local: Message timed out")
    yield CommandUnanswered("c", 8)
    for code in sorted(CODES):
        yield CommandRefused(CommandAnswer(
            command_id="c", topic="t", offset=1, key="r", state="refused", code=code, text="why",
            changed_by="李", changed_at_ms=1_795_000_000_000,
        ))  # fmt: skip
    for decode in (
        lambda: parse_time("junk", ZoneInfo("Asia/Shanghai")),
        lambda: msgspec.convert({"name": 5}, WatchCommand),
    ):
        try:
            decode()
        except (ValueError, msgspec.ValidationError) as error:
            yield error


def test_a_rule_that_is_refused_says_why_in_chinese() -> None:
    """Every way to be wrong, and every way not to be sent."""
    t: Texts = texts("zh")
    for error in (*map(wrong, WRONG_RULES), *other_faults()):
        field, _, reason = rule_fault_text(error, t).rpartition(": ")
        assert not LATIN.search(reason), reason
        assert not LATIN.search(field) or field == "no_such", field


def test_what_a_library_said_is_handed_on_beside_the_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has to mend it needs the words."""
    told: list[tuple[str, dict[str, object]]] = []
    monkeypatch.setattr(ui, "notify", lambda text, **more: told.append((text, more)))
    error = CommandNotAcknowledged("Local: Message timed out")
    notify_fault(texts("zh")("register.failed"), error)
    assert told == [
        (texts("zh")("register.failed"), {"caption": "Local: Message timed out", "type": "negative"})
    ]
