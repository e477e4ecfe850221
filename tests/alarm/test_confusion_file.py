"""Rules go by the site's own table of misreadings, and by the one before while a file is none."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from alarm.rules import attributes_of, compile_rules
from alarm.rules.references import References
from bus.confusion_file import ConfusionSource, source_of
from bus.contracts.commands import WatchCommand
from bus.domain.confusion_fit import JudgedReading, fitted
from bus.domain.confusion_table import PACKAGED, file_of, table_of
from bus.domain.expressions.parse import parse
from bus.files.durable_file import replace_durably
from bus.settings import SiteSettings


def own_table(*, is_confirmed: bool = True) -> bytes:
    """8 read as T, which nobody has counted: here it is usual."""
    judged = [JudgedReading(f"浙A8{number:04}", f"浙AT{number:04}", is_confirmed) for number in range(3_000)]
    found = fitted(judged, PACKAGED.counts)
    return file_of(found.counts, fitted_at="", confirmed=1, false=0, letters=1)


def test_rules_in_both_forms_go_by_the_table_that_they_are_given_also_in_executors() -> None:
    where = parse('plate_number resembles "浙A80345" up to 0.6', "vehicle")
    commands = [
        WatchCommand(rule_id="m", op="put", version=1, match={"plate_number": ["~0.6:浙A80345"]}),
        WatchCommand(rule_id="w", op="put", version=1, where=where),
    ]
    attributes = attributes_of("vehicle", {"车牌号码": "浙AT0345"})
    rules = compile_rules(commands)
    assert rules.match("vehicle", attributes) == []
    own = References(confusion=table_of(own_table()))
    assert rules.refer_to(own)
    assert not rules.refer_to(own)
    for one in (rules, compile_rules(commands, own), pickle.loads(pickle.dumps(rules))):
        assert [rule.rule_id for rule in one.match("vehicle", attributes)] == ["m", "w"]
    assert rules.refer_to(References())
    assert rules.match("vehicle", attributes) == []


def test_a_table_that_is_replaced_counts_from_then_on(tmp_path: Path) -> None:
    path = tmp_path / "confusion.json"
    source = source_of(SiteSettings(data_dir=str(tmp_path), confusion_table="confusion.json"))
    assert source.read() == PACKAGED
    replace_durably(path, own_table())
    first = source.read()
    assert first == table_of(own_table())
    assert source.read() is first
    replace_durably(path, own_table(is_confirmed=False))
    assert source.read() not in (first, PACKAGED)


def test_a_file_that_is_none_leaves_the_one_before_in_force_and_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Once, not with each record."""
    path = tmp_path / "confusion.json"
    replace_durably(path, own_table())
    source = ConfusionSource(path)
    own = source.read()
    replace_durably(path, b"{}")
    assert [source.read(), source.read()] == [own, own]
    path.unlink()
    assert [source.read(), source.read()] == [own, own]
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]
    replace_durably(path, own_table(is_confirmed=False))
    assert source.read() != own


def test_without_the_setting_it_is_the_packaged_one(tmp_path: Path) -> None:
    assert source_of(SiteSettings(data_dir=str(tmp_path))).read() is PACKAGED
