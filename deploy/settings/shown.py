"""The settings as `./databus config` prints them: what is secret is only said to be set.

In: the settings in force. Out: plain tables. Never: a token, a password, or the value of a key
of Kafka's that no table of ours describes.
"""

from __future__ import annotations

import re
from typing import Any

from broker.config.keys import BROKER_KEYS
from broker.settings import PROCESS_KEYS, SECRET_KEYS
from deploy.settings.composed import SECRET_MASK, SECTION_CLASSES, Settings, as_tables
from deploy.settings.secret_fields import mapped, section_type

_URL_PASSWORD = re.compile(r"(?<=://)([^/@\s:]*):[^/@\s]+@")


def masked_tables(settings: Settings) -> dict[str, dict[str, Any]]:
    """`as_tables` with `***` for each secret that is set, and for passwords within addresses."""
    tables = as_tables(settings)
    masked: dict[str, dict[str, Any]] = {
        section: mapped(section_type(cls), tables[section], _mask, _without_password)
        for section, cls in SECTION_CLASSES.items()
    }
    masked["broker"] = {
        key: SECRET_MASK if is_secret_key(key) else _without_password(value)
        for key, value in tables["broker"].items()
    }
    return masked


def _mask(secret: str) -> str:
    return SECRET_MASK if secret else secret


def is_secret_key(key: str) -> bool:
    """As DescribeConfigs has it: a key that no table of ours describes may be a secret."""
    if key in PROCESS_KEYS:
        return key in SECRET_KEYS
    return key not in BROKER_KEYS or BROKER_KEYS[key].sensitive


def _without_password(text: str) -> str:
    """`s3://name:password@host` without the password."""
    return _URL_PASSWORD.sub(rf"\1:{SECRET_MASK}@", text)
