"""The JSON Schemas say what is really written, and the page for vendors shows them."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bus.contracts import keys, topics
from bus.contracts.device_schemas import device_schemas
from bus.contracts.schema_files import NOT_WRITTEN_YET, STRUCTS, path_of, schemas, text_of
from bus.domain.kinds import KEYS_OF_KIND, KINDS
from ingest.normalise import Envelope, normalise
from ingest.store.port import RecordRow

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "how-to-send.md"
_TYPES: dict[str, Any] = {
    "string": str, "integer": int, "number": (int, float), "object": dict, "array": list, "boolean": bool,
    "null": type(None),
}  # fmt: skip
_SILENT = {"$schema", "$id", "title", "description", "default", "$defs"}


def fits(value: Any, schema: dict[str, Any], whole: dict[str, Any] | None = None) -> bool:
    """Validation by the keywords our schemas use; an unknown keyword is an error, not a pass."""
    whole = schema if whole is None else whole
    return all(_keyword(value, name, schema, whole) for name in schema if name not in _SILENT)


def _keyword(value: Any, name: str, schema: dict[str, Any], whole: dict[str, Any]) -> bool:
    rule = schema[name]
    is_object, is_text = isinstance(value, dict), isinstance(value, str)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    match name:
        case "type":
            kinds = rule if isinstance(rule, list) else [rule]
            return any(
                isinstance(value, _TYPES[k]) and (k == "boolean" or not isinstance(value, bool))
                for k in kinds
            )
        case "required":
            return not is_object or all(key in value for key in rule)
        case "properties":
            return not is_object or all(fits(value[k], s, whole) for k, s in rule.items() if k in value)
        case "additionalProperties":
            others = value.keys() - schema.get("properties", {}).keys() if is_object else ()
            return rule is True or all(fits(value[key], rule, whole) for key in others)
        case "items":
            return not isinstance(value, list) or all(fits(item, rule, whole) for item in value)
        case "pattern":
            return not is_text or re.search(rule, value) is not None
        case "maxItems":
            return not isinstance(value, list) or len(value) <= rule
        case "minLength":
            return not is_text or len(value) >= rule
        case "maxLength":
            return not is_text or len(value) <= rule
        case "minimum":
            return not is_number or value >= rule
        case "maximum":
            return not is_number or value <= rule
        case "const":
            return bool(value == rule)
        case "enum":
            return value in rule
        case "anyOf":
            return any(fits(value, one, whole) for one in rule)
        case "$ref":
            return fits(value, whole["$defs"][rule.removeprefix("#/$defs/")], whole)
        case "not":
            return not fits(value, rule, whole)
    raise AssertionError(f"keyword {name} is not understood")


@pytest.mark.parametrize("topic", sorted(schemas()))
def test_the_committed_file_is_what_the_contract_says(topic: str):
    """Run `python -m bus.contracts.schema_files` after a change."""
    assert path_of(topic).read_text(encoding="utf-8") == text_of(schemas()[topic])


def test_every_topic_has_a_schema_or_is_not_written_yet():
    """No topic is missing, and none is listed without reason."""
    assert schemas().keys() | NOT_WRITTEN_YET == topics.TOPICS.keys()
    assert not schemas().keys() & NOT_WRITTEN_YET


@pytest.mark.parametrize(
    ("schema", "table"), [(f"{kind.name}/1", kind.keys) for kind in KINDS.values()]
)
def test_every_key_of_the_wire_is_described(schema: str, table: dict[str, str]):
    """Key for key the table of `keys`."""
    assert device_schemas()[schema]["properties"].keys() == table.keys()


@pytest.mark.parametrize("topic", sorted(STRUCTS))
def test_what_our_structs_write_fits_their_schema(topic: str):
    """The smallest and a full message; a missing field does not fit."""
    struct = STRUCTS[topic]
    fields = msgspec.structs.fields(struct)
    samples: dict[Any, Any] = {str: "x", int: 7}
    given = {}
    for field in fields:
        plain = getattr(field.type, "__origin__", field.type)  # without its bounds
        if field.required or plain in samples:
            given[field.name] = samples.get(
                plain, {"a": 1} if "dict[str" in str(field.type) else {3: 1}
            )
            if "tuple[" in str(field.type):
                given[field.name] = ["x"]
            if "Literal" in str(field.type):
                given[field.name] = field.type.__args__[0]
    message = json.loads(msgspec.json.encode(msgspec.convert(given, struct, strict=False)))
    assert fits(message, schemas()[topic])
    required = next(field.name for field in fields if field.required)
    assert not fits({k: v for k, v in message.items() if k != required}, schemas()[topic])


def samples_of_the_page() -> list[tuple[str, dict[str, Any]]]:
    """The page's JSON blocks that are marked with their kind."""
    found = re.findall(
        rf"```json ({'|'.join(KINDS)})\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL
    )
    return [(kind, json.loads(text)) for kind, text in found]


def test_the_pages_samples_fit_and_are_accepted():
    """What a vendor copies works."""
    samples = samples_of_the_page()
    assert {kind for kind, _ in samples} == set(KINDS)
    for kind, message in samples:
        assert fits(message, device_schemas()[f"{kind}/1"])
        assert isinstance(_row(message, kind), RecordRow)


def test_the_page_names_every_schema_key_and_reason():
    """Everything that a device may write or receive is documented."""
    page = PAGE.read_text(encoding="utf-8")
    for topic in schemas():
        assert path_of(topic).relative_to(ROOT).as_posix() in page, topic
    for key in {*keys.INLINE_PICTURES}.union(*KEYS_OF_KIND.values()):
        assert key in page, key
    from bus.contracts.headers import Reason

    for reason in Reason:
        assert f"`{reason.value}`" in page, reason


def test_whatever_fits_the_schema_is_accepted(dice: random.Random):
    """For mutated samples: the schema never promises what normalise refuses."""
    values: list[Any] = [
        "",
        keys.UNREADABLE,
        "x",
        5,
        None,
        "2017-08-24 17:25:34",
        "2017-99-24 17:25:34",
        [],
        True,
    ]
    fitted = 0
    for _ in range(1000):
        kind, sample = dice.choice(samples_of_the_page_cached)
        message = {k: v for k, v in sample.items() if dice.random() < 0.9}
        for key in dice.sample(sorted(message), min(len(message), dice.randrange(3))):
            message[key] = dice.choice(values)
        if kind == "vehicle" and dice.random() < 0.2:
            message |= dict.fromkeys(keys.RECOGNITION, keys.UNREADABLE)
        if fits(message, device_schemas_cached[f"{kind}/1"]):
            fitted += 1
            row = _row(message, kind)
            assert isinstance(row, RecordRow) or row.reason == "bad-time", message
    assert fitted > 30


samples_of_the_page_cached = samples_of_the_page() if PAGE.exists() else []
device_schemas_cached = device_schemas()


def _row(message: dict[str, Any], kind: str) -> Any:
    value = json.dumps(message).encode()
    return normalise(value, kind, Envelope(received_at_ms=0, record_id="x"), None, "Asia/Shanghai")
