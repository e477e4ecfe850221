"""Settings of the broker's process that Kafka has no key for, beside Kafka's own keys.

In: the `broker` table of the settings: Kafka's names, and the two of ours. Out: both, apart.
Never: reading files or the environment.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

METRICS_HOST_KEY = "metrics.host"
METRICS_PORT_KEY = "metrics.port"
SITE_NUMBER_KEY = "site.number"
LARGEST_SITE = 255


class ProcessSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What only this product has.

    `metrics_port` 0 takes a free port, -1 opens none. `site_number` stands in bits 48-55 of every
    producer id, so that a mirrored batch never meets a local producer's.
    """

    metrics_host: str = "127.0.0.1"
    metrics_port: int = 9094
    site_number: int = 0


class SettingError(Exception):
    """A value of ours that cannot be used; the text names the key."""


def split(properties: Mapping[str, str]) -> tuple[dict[str, str], ProcessSettings]:
    """Kafka's keys, and ours."""
    kafka = dict(properties)
    host = kafka.pop(METRICS_HOST_KEY, ProcessSettings().metrics_host)
    port = _number(kafka, METRICS_PORT_KEY, ProcessSettings().metrics_port, -1, 65_535)
    site = _number(kafka, SITE_NUMBER_KEY, 0, 0, LARGEST_SITE)
    return kafka, ProcessSettings(metrics_host=host, metrics_port=port, site_number=site)


def _number(kafka: dict[str, str], key: str, default: int, low: int, high: int) -> int:
    text = kafka.pop(key, str(default))
    try:
        value = int(text)
    except ValueError:
        raise SettingError(f"{key} is not a number: {text!r}") from None
    if not low <= value <= high:
        raise SettingError(f"{key} must be in {low}..{high}, not {value}")
    return value
