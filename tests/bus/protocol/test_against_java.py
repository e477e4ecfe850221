"""Our tables and codec against Apache Kafka's own jars: the JSON in them and the classes."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bus.protocol.generator.layout import FieldSlot, Layout, layout_of
from bus.protocol.generator.model import LENGTHS, SCALARS, SchemaMessage
from bus.protocol.generator.types import snake

pytestmark = pytest.mark.java

ZOOKEEPER_ERA = {4, 5, 6, 7}  # from kafka-clients 3.9
REQUEST_HEADER = "RequestHeader"  # 4.x dropped its version 0, which ControlledShutdown 0 has
VALUES_PER_VERSION = 4
PACKAGES = {
    "metadata_records": "org.apache.kafka.common.metadata",
    "group_records": "org.apache.kafka.coordinator.group.generated",
    "transaction_records": "org.apache.kafka.coordinator.transaction.generated",
}
ELSEWHERE = {"QuorumStateData": "org.apache.kafka.raft.generated.QuorumStateData"}


@pytest.fixture(scope="session")
def descriptions(
    jars_of_kafka_44: list[Path], jars_of_kafka_39: list[Path]
) -> dict[str, dict[str, Any]]:
    """Message name -> JSON description, of 4.4 except for what only 3.9 has."""
    old = {d["name"]: d for jar in jars_of_kafka_39 for d in _descriptions(jar)}
    new = {d["name"]: d for jar in jars_of_kafka_44 for d in _descriptions(jar)}
    kept = {n: d for n, d in old.items() if d.get("apiKey") in ZOOKEEPER_ERA and "listeners" in d}
    kept |= {n: old[n] for n in old if old[n].get("apiKey") in ZOOKEEPER_ERA}
    return new | kept | {REQUEST_HEADER: old[REQUEST_HEADER]}


def _descriptions(jar: Path) -> Iterator[dict[str, Any]]:
    with zipfile.ZipFile(jar) as archive:
        for name in archive.namelist():
            if re.search(r"(message|common/metadata)/\w+\.json$", name):
                text = re.sub(r"^\s*//.*$", "", archive.read(name).decode(), flags=re.M)
                yield json.loads(text)


def test_the_tables_have_every_message_of_kafka_and_no_other(
    messages_of_kafka: list[SchemaMessage], descriptions: dict[str, Any]
) -> None:
    assert {message.name for message in messages_of_kafka} == descriptions.keys()


def test_every_version_has_the_layout_of_the_jars(
    messages_of_kafka: list[SchemaMessage], descriptions: dict[str, Any]
) -> None:
    for message in messages_of_kafka:
        theirs = descriptions[message.name]
        first, last = _range(theirs["validVersions"])
        assert (message.versions.first, message.versions.last) == (first, last), message.name
        assert message.key == theirs.get("apiKey"), message.name
        for version in range(first, last + 1):
            ours = _our_layout(layout_of(message, version))
            assert ours == _their_layout(theirs, version), (message.name, version)


def _our_layout(layout: Layout) -> list[Any]:
    plain = [_our_slot(slot) for slot in layout.slots]
    return [layout.flexible, *plain, *(_our_slot(slot) for slot in layout.tagged)]


def _our_slot(slot: FieldSlot) -> tuple[Any, ...]:
    nested = _our_layout(slot.struct) if slot.struct else None
    kind = None if slot.struct else slot.field.type.removeprefix("legacy_")
    tag, default = slot.field.tag, _default(slot.field.default or "", kind, slot.field.is_array)
    return (slot.name, kind, slot.field.is_array, slot.nullable, tag, default, nested)


def _their_layout(message: dict[str, Any], version: int) -> list[Any]:
    shared = {struct["name"]: struct["fields"] for struct in message.get("commonStructs", [])}
    flexible = _has(message.get("flexibleVersions", "none"), version)

    def layout(fields: list[dict[str, Any]]) -> list[Any]:
        here = [f for f in fields if _has(f.get("versions") or f["taggedVersions"], version)]
        plain = [f for f in here if not _has(f.get("taggedVersions", "none"), version)]
        tagged = [f for f in here if _has(f.get("taggedVersions", "none"), version)]
        tagged.sort(key=lambda f: f["tag"])
        return [flexible, *map(slot, plain), *map(slot, tagged)]

    def slot(field: dict[str, Any]) -> tuple[Any, ...]:
        kind = field["type"].removeprefix("[]")
        is_array = field["type"].startswith("[]")
        is_struct = kind not in SCALARS and kind not in LENGTHS
        nested = layout(field.get("fields") or shared[kind]) if is_struct else None
        nullable = _has(field.get("nullableVersions", "none"), version)
        default = _default(field.get("default") or "", None if is_struct else kind, is_array)
        shown = None if is_struct else kind
        name = snake(field["name"])
        return (name, shown, is_array, nullable, field.get("tag"), default, nested)

    return layout(message["fields"])


def _default(text: Any, kind: str | None, is_array: bool) -> Any:
    """A default in one spelling."""
    if text == "null":
        return "null"
    if is_array or kind is None or kind in ("bytes", "records", "uuid"):
        return ""
    if kind == "string":
        return text or ""
    if kind == "bool":
        return str(text).lower() == "true"
    return float(text or 0) if kind == "float64" else int(str(text or 0), 0)


def _range(text: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    return (int(text[:-1]), 1 << 15) if text.endswith("+") else (int(first), int(last or first))


def _has(text: str, version: int) -> bool:
    if text == "none":
        return False
    first, last = _range(text)
    return first <= version <= last


def test_the_classes_of_kafka_read_what_we_write_and_write_the_same(
    codecs_of_kafka: list[Any],
    maker: Any,
    run_java: Any,
    jars_of_kafka_44: list[Path],
    jars_of_kafka_39: list[Path],
) -> None:
    old = [codec for codec in codecs_of_kafka if _is_old(codec.message)]
    new = [codec for codec in codecs_of_kafka if not _is_old(codec.message)]
    others = [jar for jar in jars_of_kafka_44 if "kafka-clients" not in jar.name]
    _reread(new, maker, run_java, jars_of_kafka_44)
    _reread(old, maker, run_java, [*jars_of_kafka_39, *others])


def _is_old(message: SchemaMessage) -> bool:
    of_old_api = message.kind in ("request", "response") and message.key in ZOOKEEPER_ERA
    return of_old_api or message.name == REQUEST_HEADER


def _reread(codecs: list[Any], maker: Any, run_java: Any, jars: list[Path]) -> None:
    def line(codec: Any, version: int) -> str:
        written = codec.encode(maker.message(codec, version), version)
        return f"{_java_class(codec)} {version} {written.hex()}"

    lines = [
        line(codec, version)
        for codec in codecs
        for version in codec.encoders
        for _ in range(VALUES_PER_VERSION)
    ]
    answers = run_java("Reread.java", jars, stdin="\n".join(lines) + "\n").splitlines()
    assert len(answers) == len(lines)
    pairs = zip(lines, answers, strict=True)
    wrong = [(sent, answer) for sent, answer in pairs if sent.split(" ")[2] != answer]
    assert not wrong, f"{len(wrong)} of {len(lines)}: {wrong[:3]}"


def _java_class(codec: Any) -> str:
    name = codec.message.name
    family = codec.module.__name__.rsplit(".", 1)[1]
    if name in ELSEWHERE:
        return ELSEWHERE[name]
    suffix = "Data" if codec.message.kind in ("request", "response", "header") else ""
    return f"{PACKAGES.get(family, 'org.apache.kafka.common.message')}.{name}{suffix}"
