"""Values of devices and of our own contracts in both languages."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

import bus.contracts
from bus.contracts.alarms import NOT_PRIMARY
from bus.contracts.headers import Reason, RecordKind
from bus.contracts.keys import FACE, NO_PLATE, UNREADABLE, VEHICLE, VIDEO
from bus.domain.plates import NO_PLATE_WORDS
from deploy.roles.table import ROLES
from deploy.supervisor.child import RoleState
from deploy.supervisor.state_file import SUPERVISOR
from dr_mirror.topics.states import MirrorState
from ingest.normalise.record import _PERSONS
from ingest.senders.simulator import names
from monitor.api.views import raw_json
from monitor.console.rows import (
    body_facts,
    features_text,
    incident_text,
    key_text,
    picture_caption,
    process_row,
    span_text,
)
from monitor.i18n import LANGUAGES, texts
from monitor.i18n.values import VALUES, device_values, value_text
from monitor.ports import ProcessStatus

HAN = re.compile(r"[\u4e00-\u9fff]")
EN, ZH = texts("en"), texts("zh")
# How a property of a schema is shown: by which group of texts. `op` is never shown.
GROUP_OF_PROPERTY = {
    "stage": ("stage",), "verdict": ("stage",), "why": ("false_why",), "result": ("alarm_result",),
    "kind": ("kind", "incident", "places"), "severity": ("severity",), "state": ("state",), "type": ("tree",), "days": ("day",),
    "tolerance": ("tolerance",),
    "measure": ("measure",), "headings": ("heading",),
}  # fmt: skip
# No page shows pieces of films yet. Entries of the register are shown by what they hold, on no page
# by their kind; answers to commands as
# sentences.
NOT_SHOWN = {"control.register.json", "data.video-segment.json", "event.command.json"}
SCHEMAS = sorted(
    path
    for path in (Path(bus.contracts.__file__).parent / "schemas").glob("*.json")
    if path.name not in NOT_SHOWN
)


def enumerations(schema: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Every (property, value) that a schema enumerates, at any depth."""
    if isinstance(schema, dict):
        for value in schema.get("enum", []):
            yield name, value
        for key, below in schema.items():
            yield from enumerations(below, key if key not in ("items", "anyOf") else name)
    elif isinstance(schema, list):
        for below in schema:
            yield from enumerations(below, name)


def device_vocabulary() -> set[tuple[str, str]]:
    """Every (attribute, value) that a message may hold by our own contracts and by what the
    product itself writes as a device."""
    found = {("plate_number", word) for word in (*NO_PLATE_WORDS, NO_PLATE, UNREADABLE)}
    found |= {("vehicle_color", colour) for colour, _ in names.VEHICLE_COLORS}
    found |= {("plate_color", colour) for colour in ("蓝色", "绿色", "黄色")}
    for brand, body, series, _ in names.MODELS:
        found |= {("vehicle_brand", brand), ("vehicle_type", body), ("vehicle_series", series)}
    found |= {("direction", way) for way in names.DIRECTIONS}
    found |= {("gender", word) for word in ("男", "女")}
    found |= {("glasses", word) for word in ("是", "否")}
    found |= {("target_class", word) for word in _PERSONS}
    return {(attribute, value) for attribute, value in found if value}


def test_every_value_that_a_schema_enumerates_has_its_word_in_both_languages() -> None:
    """A new kind, severity or state without a word fails here."""
    found = {one for path in SCHEMAS for one in enumerations(json.loads(path.read_bytes()))}
    assert len(found) > 8
    for name, value in found:
        if name == "op" or not value:
            continue
        groups = GROUP_OF_PROPERTY[name]
        for table in LANGUAGES.values():
            assert any(f"{group}.{value}" in table for group in groups), (name, value)


@pytest.mark.parametrize("words", [RecordKind, Reason], ids=["Kind", "Reason"])
def test_every_kind_and_reason_has_its_word_in_both_languages(words: type[RecordKind]) -> None:
    """Counted, shown and filtered by."""
    group = words.__name__.lower().removeprefix("record")
    for one in words:
        for table in LANGUAGES.values():
            assert f"{group}.{one.value}" in table


def test_every_process_and_its_state_has_its_word_in_both_languages() -> None:
    """Of the supervisor's own table; a broker of a cluster keeps its number."""
    for table in LANGUAGES.values():
        assert {f"process_state.{state.value}" for state in RoleState} <= set(table)
        assert {f"process.{role}" for role in (*ROLES, SUPERVISOR, "zookeeper")} <= set(table)
    row = process_row(ProcessStatus(role="broker-2", state="failed", since_ms=0), ZoneInfo("UTC"), EN)
    assert (row["process"], row["state"], row["is_well"]) == ("Broker 2", "given up", False)


@pytest.mark.parametrize(("attribute", "value"), sorted(device_vocabulary()))
def test_every_known_value_of_a_device_is_shown_in_the_language_of_the_page(
    attribute: str, value: str
) -> None:
    """Nothing Chinese on an English page, and the other way round; a name in letters stays."""
    assert not HAN.search(EN.value(attribute, value)), value
    if HAN.search(value):
        assert ZH.value(attribute, value) == value
    elif value.isalpha() and value.isupper() is False:
        assert HAN.search(ZH.value(attribute, value)) or attribute == "vehicle_brand", value


def test_the_table_is_one_to_one_from_chinese_and_has_no_empty_word() -> None:
    """Otherwise the same word would be two things."""
    chinese = [zh for zh, _ in VALUES]
    assert len(chinese) == len(set(chinese))
    for zh, en in VALUES:
        assert HAN.search(zh)
        assert en.strip() == en != ""
        assert not HAN.search(en)
        assert zh in device_values(en)
        assert device_values(en)[-1] == en
        assert value_text(value_text(zh, "en"), "zh") in device_values(en)


@given(st.text(max_size=20), st.sampled_from(["zh", "en"]))
def test_an_unknown_value_is_shown_as_it_came(value: str, language: str) -> None:
    """For any text of a device."""
    known = {zh for zh, _ in VALUES} | {en.lower() for _, en in VALUES}
    if value.strip() not in known and value.strip().lower() not in known:
        assert texts(language).value("vehicle_color", value) == value
        assert device_values(value) == [value]


def test_features_of_a_face_have_their_names() -> None:
    """Before: 男 · 45 · 53 · 否 · 否 · 是 on every page."""
    face = {"gender": "男", "age_from": "45", "age_to": "53", "glasses": "否", "mask": "否",
            "hat": "是"}  # fmt: skip
    assert features_text(face, EN) == "Gender male · Age 45–53 · Glasses no · Mask no · Hat yes"
    assert features_text(face, ZH) == "性别 男 · 年龄 45–53 · 眼镜 否 · 口罩 否 · 帽子 是"
    car = {"plate_color": "蓝色", "vehicle_type": "轿车", "vehicle_series": "2018 朗逸 1.5L"}
    assert features_text(car, EN) == "blue · car · 2018 Lavida 1.5L"
    assert features_text({"target_class": "person", "track_id": "7"}, ZH) == "目标类别 人 · 目标编号 7"


def test_what_a_device_wrote_has_names_and_values_in_both_languages() -> None:
    """Beyond the record's own columns; no addresses, no vectors, nothing of another type."""
    body = raw_json(
        '{"性别": "女", "眼镜": "是", "人脸特征": "AAA", "人脸图片地址": "http://e/1.jpg",'
        ' "卡口编号": "c", "没有的": 1, "帽子": ["是"]}'.encode()
    )
    assert body_facts("face", body, EN) == [("Gender", "female"), ("Glasses", "yes")]
    assert body_facts("face", body, ZH) == [("性别", "女"), ("眼镜", "是")]
    assert body_facts("face", "no object", EN) == []
    assert picture_caption("人脸图片地址", EN) == "Face"


@pytest.mark.parametrize("key", sorted({**VEHICLE, **FACE, **VIDEO}))
def test_every_key_of_a_message_has_a_name_in_both_languages(key: str) -> None:
    """A rejected record names the key at fault."""
    assert not HAN.search(key_text(key, EN))
    assert key_text(key, ZH) == key


def test_the_detail_of_an_incident_is_words_in_both_languages() -> None:
    """Its keys are names of our own; reasons and kinds have words."""
    detail = {"class": "vehicle", "scope": "district", "p95_ms": "31000", "rejected:not-json": "4",
              "place": "x"}  # fmt: skip
    assert incident_text(detail, EN) == (
        "class Vehicle, scope district, P95 31.0 s, not JSON 4"
    )
    assert not re.search("[a-z]{3}", incident_text(detail, ZH))


def test_what_the_watch_says_is_words_in_both_languages() -> None:
    """Parts, courses, ends; a broker keeps its address."""
    detail = {"subject": "ingest", "stage": "ingest", "bound_ms": "30000", "records": "5",
              "behind_ms": "61000", "reason": "unwatched"}  # fmt: skip
    assert incident_text(detail, EN) == (
        "part Archive (ingest), bound 30.0 s, records 5, behind by 61.0 s, end no longer watched"
    )
    silent = {"scope": "site", "address": "site", "silent_ms": "130000", "devices": "20"}
    for found in (detail, silent, {"reason": NOT_PRIMARY}, {"reason": "worse"}, {"subject": "dispatcher", "why": "suspended"}, {"course": "growing", "class": "face", "subject": "face"}):
        assert not re.search("[a-z]{3}", incident_text(found, ZH)), incident_text(found, ZH)
    assert incident_text({"reason": NOT_PRIMARY}, EN) == (
        "end raised by a site that is no longer the primary; what goes on there its own watch tells"
    )
    assert "Broker 10.0.0.1:9092" in incident_text({"subject": "broker 10.0.0.1:9092"}, EN)


@given(st.integers(-(10**15), 10**15))
def test_a_span_of_any_length_reads_as_a_short_number_with_its_unit(span_ms: int) -> None:
    """Never 11,000 s; a direction is said in words beside it."""
    text = span_text(span_ms, EN)
    number = float(text.split()[0].replace(",", ""))
    assert number >= 0
    assert number < 1000 or text.endswith(("years", "days"))
    units = {"s": 1e3, "min": 6e4, "h": 3.6e6, "days": 8.64e7, "years": 3.1536e10}
    unit_ms = units[text.split()[1]]
    assert abs(number * unit_ms - abs(span_ms)) <= 0.051 * unit_ms


@pytest.mark.parametrize("state", MirrorState, ids=lambda state: state.value)
def test_every_state_of_the_mirror_has_a_word_in_both_languages(state: MirrorState) -> None:
    """The page shows it beside its remedy; without a word it would be the one of scripts."""
    assert "_" not in EN.word("mirror_state", state.value)
    assert HAN.search(ZH.word("mirror_state", state.value))
