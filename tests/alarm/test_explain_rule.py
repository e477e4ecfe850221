"""`watch explain`: why a record meets a rule or does not."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
import typer
from typer.testing import CliRunner

from alarm.cli import watch_commands
from alarm.explain_rule import explanation
from alarm.rules import compile_rules
from alarm.rules.plate_lists import PlateList
from bus.contracts.commands import WatchCommand
from bus.contracts.expressions import RegularExpression
from bus.domain.rule_check import parsed_where
from tests.alarm.lists.made_lists import made_list
from tests.alarm.rules.test_plate_lists import lists_of

ZONE = "Asia/Shanghai"
TEXT = "plate_number like 浙A*123 and not vehicle_color in (白色, 黑色) or during mon 11:00-13:00 and speed_kmh > 80"
RULE = WatchCommand(rule_id="r", op="put", version=1, where=parsed_where("vehicle", TEXT, ZONE))
PLATE_ONLY = WatchCommand(rule_id="p", op="put", version=1, match={"plate_number": ["浙A12345", "浙B?1*"]})
RECORD = '{"车牌号码": "浙A99123", "车辆颜色": "白色", "车速": 90, "抓拍时间": "2026-03-02 12:00:00"}'
EXPLAINED = """     yes  one of:
      no    all of:
     yes      plate_number like "浙A*123"   (浙A99123)
      no      not:
     yes        vehicle_color in (白色, 黑色)   (白色)
     yes    all of:
     yes      during mon 11:00-13:00
     yes      speed_kmh > 80   (90)
a vehicle record like this meets the rule
"""


def explain(
    monkeypatch: pytest.MonkeyPatch, *words: str, rules: tuple[WatchCommand, ...] = (RULE, PLATE_ONLY)
) -> tuple[int, str]:
    monkeypatch.setattr("alarm.cli._rules", lambda _: compile_rules(rules))
    app = typer.Typer()
    app.add_typer(watch_commands(), name="watch")
    settings = SimpleNamespace(site=SimpleNamespace(zone=ZONE))
    done = CliRunner().invoke(app, ["watch", "explain", *words], terminal_width=300, obj=settings)
    return done.exit_code, done.output


def test_a_record_is_explained_branch_by_branch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As it was sent; by its capture time."""
    file = tmp_path / "record.json"
    file.write_text(RECORD)
    assert explain(monkeypatch, "r", "--record", str(file)) == (0, EXPLAINED)


def test_of_a_plate_alone_the_rest_was_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    status, text = explain(monkeypatch, "r", "浙A99123")
    assert status == 0
    assert [line.split("  ")[0].strip() or line[:8].strip() for line in text.splitlines()[:2]] == ["not read", "not read"]
    assert "does not meet the rule" in text


def test_a_rule_without_a_tree_is_explained_too(monkeypatch: pytest.MonkeyPatch) -> None:
    assert explain(monkeypatch, "p", "浙BX123") == (
        0,
        "     yes  one of:\n      no    plate_number = 浙A12345   (浙BX123)\n"
        '     yes    plate_number like "浙B?1*"   (浙BX123)\na vehicle record like this meets the rule\n',
    )


def test_of_a_plate_that_may_be_misread_the_price_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    where = parsed_where("vehicle", "plate_number is present", ZONE)
    match = {"plate_number": ["~浙A8D345"]}
    rules = (WatchCommand(rule_id="f", op="put", version=1, match=match, where=where),)
    asked = 'plate_number resembles "浙A8D345"'
    for plate, answer, why in (
        ("浙A80345", "yes", "price 0.38 of at most 1"), ("浙AXX345", "no", "price 2.00 of at most 1"),
        ("浙B99999", "no", "more than two edits away"),
    ):  # fmt: skip
        status, text = explain(monkeypatch, "f", plate, rules=rules)
        assert (status, text.splitlines()[1]) == (0, f"{answer:>8}    {asked}   ({plate}, {why})")


def test_a_candidate_of_the_reader_that_decides_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "record.json"
    file.write_text('{"车牌号码": "沪B00000", "车牌候选": [{"车牌号码": "浙A8D345", "权重": 25}]}')
    rules = (WatchCommand(rule_id="f", op="put", version=1, match={"plate_number": ["~浙A8D345"]}),)
    status, text = explain(monkeypatch, "f", "--record", str(file), rules=rules)
    asked = 'plate_number resembles "浙A8D345"   (沪B00000, price 0.15 of at most 1, by its candidate 浙A8D345, 25%)'
    assert (status, text.splitlines()[0]) == (0, f"     yes  {asked}")


def test_of_a_list_its_line_and_its_age_are_said(tmp_path: Path) -> None:
    """Also where it does not mean the plate."""
    own = made_list(tmp_path, "stolen", ["浙A8D345"], tolerance="look-alikes")
    record = msgspec.structs.replace(own.record, renewal_days=7, renewed_at_ms=1_772_400_000_000)
    rules = compile_rules([], lists_of(PlateList(record, own.table, {}, frozenset())))
    rule = rules.rules["list/stolen"]
    aged = "list of 2026-03-01, imported 2026-03-02"
    for plate, now_ms, answer, why in (
        ("浙A80345", 1_772_500_000_000, "yes", f"line 2: 浙A8D345, {aged}, due 2026-03-09"),
        ("浙A99999", 1_773_100_000_000, "no", f"{aged}, overdue since 2026-03-09"),
    ):  # fmt: skip
        found = explanation(rule, {"车牌号码": plate}, ZONE, rules.references, now_ms)
        assert next(found) == f"{answer:>8}  plate_number on stolen   ({plate}, {why})"


def test_a_rule_of_a_program_that_does_not_check_says_that_it_meets_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    where = RegularExpression(attribute="plate_number", pattern="(")
    rule = WatchCommand(rule_id="s", op="put", version=1, where=where)
    status, text = explain(monkeypatch, "s", "浙A12345", rules=(rule,))
    assert (status, text.startswith("the rule is met by no record, and should be put again: ")) == (0, True)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("none", "浙A12345"), "no rule none is in force"),
        (("r",), "give a plate, or --record"),
        (("r", "浙A12345", "--record", "x"), "give a plate, or --record"),
        (("r", "--record", "missing"), "missing is no record in JSON"),
        (("r", "--record", "{bad}"), "is no record in JSON"),
        (("r", "--record", "{large}"), "is larger than"),
    ],
)
def test_what_cannot_be_explained_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: tuple[str, ...], why: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("{bad}").write_bytes(b'["\xff')
    Path("{large}").write_bytes(b" " * 1_048_577)
    status, text = explain(monkeypatch, *words)
    assert status == 2
    assert why in text
