"""The settings as `./databus config` prints them: what is secret is only said to be set.

In: the settings in force. Out: plain tables. Never: a token, a password, or the value of a key
of Kafka's that no table of ours describes.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec import inspect

from broker.config.keys import BROKER_KEYS
from broker.settings import PROCESS_KEYS, SECRET_KEYS
from deploy.settings.composed import SECRET_MASK, SECTION_CLASSES, Settings, as_tables

_URL_PASSWORD = re.compile(r"(?<=://)([^/@\s:]*):[^/@\s]+@")


def masked_tables(settings: Settings) -> dict[str, dict[str, Any]]:
    """`as_tables` with `***` for each secret that is set, and for passwords within addresses."""
    tables = as_tables(settings)
    masked: dict[str, dict[str, Any]] = {}
    for section, cls in SECTION_CLASSES.items():
        kinds = inspect.type_info(cls)
        assert isinstance(kinds, inspect.StructType)
        masked[section] = {
            field.name: _masked(field.type, tables[section][field.name]) for field in kinds.fields
        }
    masked["broker"] = {
        key: SECRET_MASK if _is_secret(key) else _without_password(value)
        for key, value in tables["broker"].items()
    }
    return masked


def _masked(kind: inspect.Type, value: Any) -> Any:
    match kind:
        case inspect.Metadata(extra={"secret": True}):
            return SECRET_MASK if value else value
        case inspect.DictType(value_type=each):
            return {name: _masked(each, row) for name, row in value.items()}
        case inspect.StrType():
            return _without_password(value)
        case _:
            return value


def _is_secret(key: str) -> bool:
    """As DescribeConfigs has it: a key that no table of ours describes may be a secret."""
    if key in PROCESS_KEYS:
        return key in SECRET_KEYS
    return key not in BROKER_KEYS or BROKER_KEYS[key].sensitive


def _without_password(text: str) -> str:
    """`s3://name:password@host` without the password."""
    return _URL_PASSWORD.sub(rf"\1:{SECRET_MASK}@", text)
