"""Texts in two languages, view models."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path
from string import Formatter
from typing import get_args

from bus.contracts.alarms import IncidentKind
from bus.contracts.headers import Reason, RecordKind
from bus.domain.matchable import MATCHABLE
from monitor.console.rows import match_text, values_of
from monitor.i18n import LANGUAGES, TABLES, en, texts, zh

PROJECT = Path(__file__).parents[3]
CONSOLE = PROJECT / "monitor"


def test_both_languages_have_the_same_keys() -> None:
    """A text that is missing in one would show as an error to half of the people."""
    assert set(LANGUAGES["zh"]) == set(LANGUAGES["en"])


def test_no_two_tables_have_a_text_under_one_key() -> None:
    """One would be shown in the other's place: a list's owner as who has an alarm in hand."""
    for language in ("EN", "ZH"):
        tables = [{"EN": en.TEXTS, "ZH": zh.TEXTS}[language], *(getattr(one, language) for one in TABLES)]
        counted = Counter(key for table in tables for key in table)
        assert [key for key, count in counted.items() if count > 1] == []


def test_both_languages_fill_in_the_same_values() -> None:
    """`{count}` in one is `{count}` in the other; nothing is empty."""
    for key, chinese in LANGUAGES["zh"].items():
        english = LANGUAGES["en"][key]
        assert chinese.strip()
        assert english.strip()
        assert _fields(chinese) == _fields(english), key


def _fields(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name}


def test_the_chinese_is_chinese_and_the_english_is_not() -> None:
    """Mixed up lines are not seen when only one of them is read."""
    han = re.compile(r"[\u4e00-\u9fff]")
    same = {
        "language.other", "kpi.unknown", "unit.ms", "unit.s", "list.comma", "list.semicolon",
        "clock.drift",
    }  # fmt: skip
    for key in set(LANGUAGES["zh"]) - same:
        assert han.search(LANGUAGES["zh"][key]), key
        assert not han.search(LANGUAGES["en"][key]), key


def test_every_key_in_the_code_exists() -> None:
    """Literal keys; those put together at run time are looked at below."""
    used = set()
    for path in CONSOLE.rglob("*.py"):
        used |= set(re.findall(r'\bt\(\s*"([a-z_]+\.[A-Za-z0-9_.-]*)"', path.read_text()))
        used |= {
            f"column.{k}" for k in re.findall(r'column\(\s*t,\s*"([a-z_]+)"', path.read_text())
        }
    assert len(used) > 100
    assert used <= set(LANGUAGES["zh"]), used - set(LANGUAGES["zh"])


def test_every_fault_of_a_rule_has_a_sentence() -> None:
    """Their codes stand in the code as the last text of each error."""
    paths = [*(PROJECT / "bus/domain/expressions").glob("*.py"), PROJECT / "bus/domain/rule_check.py",
             PROJECT / "bus/domain/rule_demand.py", PROJECT / "alarm/decisions/referred_lists.py"]  # fmt: skip
    calls = [
        node for path in paths for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("ExpressionError", "RuleError")
    ]  # fmt: skip
    texts_of = [[a.value for a in c.args if isinstance(a, ast.Constant) and isinstance(a.value, str)] for c in calls]
    codes = {found[-1] for found in texts_of if found}
    assert len(codes) > 30
    assert {code for code in codes if f"watch.fault_{code}" not in LANGUAGES["zh"]} == set()


def test_every_value_of_ours_has_a_word() -> None:
    """Kinds, reasons, severities, states, attributes a rule may ask for."""
    t = texts("zh")
    groups = {
        "kind": {k.value for k in RecordKind},
        "reason": {r.value for r in Reason},
        "severity": {"critical", "warning", "info"},
        "state": {"active", "quiet", "alarm", "fault", "unknown", "open", "closed"},
        "incident": set(get_args(IncidentKind)),
        "attribute": {a for attributes in MATCHABLE.values() for a in attributes},
    }
    for group, values in groups.items():
        assert values <= set(t.group(group)), (group, values - set(t.group(group)))


def test_an_unknown_language_is_chinese() -> None:
    """A cookie may say anything."""
    assert texts("fr")("nav.map") == texts("zh")("nav.map")


def test_values_typed_in_either_script_are_told_apart() -> None:
    """Chinese and English commas; spaces only between plates, for a car series may hold them."""
    assert values_of("浙A1，浙A2 浙A3, ", by_space=True) == ["浙A1", "浙A2", "浙A3"]
    assert values_of("2014 指南者 2.4L、朗逸", by_space=False) == ["2014 指南者 2.4L", "朗逸"]


def test_a_rule_reads_as_a_sentence() -> None:
    """In the language of the page."""
    match = {"vehicle_color": ["白色", "white", "银色"], "vehicle_type": ["SUV"]}
    assert match_text(match, texts("zh")) == "车辆颜色 = 白色 / 银色；车型类别 = SUV"
    assert match_text(match, texts("en")) == "Vehicle colour = white / silver; Vehicle type = SUV"
