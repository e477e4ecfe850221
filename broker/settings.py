"""Settings of the broker's process that Kafka has no key for, beside Kafka's own keys.

In: the `broker` table of the settings: Kafka's names, and the few of ours. Out: both, apart.
Never: reading files or the environment.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from bus.security.page_token import check_page_token

METRICS_HOST_KEY = "metrics.host"
METRICS_PORT_KEY = "metrics.port"
METRICS_TOKEN_KEY = "metrics.token"
SITE_NUMBER_KEY = "site.number"
CLUSTER_ID_KEY = "cluster.id"
PROCESS_LOG_DIR_KEY = "process.log.dir"
PROCESS_KEYS = frozenset(
    {
        METRICS_HOST_KEY, METRICS_PORT_KEY, METRICS_TOKEN_KEY, SITE_NUMBER_KEY, CLUSTER_ID_KEY,
        PROCESS_LOG_DIR_KEY,
    }
)  # fmt: skip
SECRET_KEYS = frozenset({METRICS_TOKEN_KEY})
"""Those whose values are shown nowhere."""
LARGEST_SITE = 255
_CLUSTER_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}")


class ProcessSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What only this product has.

    `metrics_port` 0 takes a free port, -1 opens none. `metrics_token` is what its page asks for;
    empty: nothing. `site_number` stands in bits 48-55 of every producer id, so that a mirrored
    batch never meets a local producer's. `cluster_id` is what new log directories are formatted
    with, the same on every node of a cluster; a directory of another cluster is then refused.
    `process_log_dir` is where server.log, controller.log and the others go; by default beside the
    first log directory, its name with `-log` behind it.
    """

    metrics_host: str = "127.0.0.1"
    metrics_port: int = 9094
    metrics_token: str = ""
    site_number: int = 0
    cluster_id: str = ""
    process_log_dir: str = ""


class SettingError(Exception):
    """A value of ours that cannot be used; the text names the key."""


def split(properties: Mapping[str, str]) -> tuple[dict[str, str], ProcessSettings]:
    """What DescribeConfigs shows, and what only the process needs; `site.number` is in both."""
    kafka = dict(properties)
    host = kafka.pop(METRICS_HOST_KEY, ProcessSettings().metrics_host)
    port = _number(kafka, METRICS_PORT_KEY, ProcessSettings().metrics_port, -1, 65_535)
    site = _number(kafka, SITE_NUMBER_KEY, 0, 0, LARGEST_SITE)
    if site:  # shown by DescribeConfigs, where a mirror compares it with the other site's
        kafka[SITE_NUMBER_KEY] = str(site)
    cluster_id = kafka.pop(CLUSTER_ID_KEY, "")
    if cluster_id and not _CLUSTER_ID.fullmatch(cluster_id):
        raise SettingError(
            f"{CLUSTER_ID_KEY} must be 1 to 64 letters, digits, '-' and '_', not {cluster_id!r}"
        )
    return kafka, ProcessSettings(
        metrics_host=host,
        metrics_port=port,
        metrics_token=_token(kafka),
        site_number=site,
        cluster_id=cluster_id,
        process_log_dir=kafka.pop(PROCESS_LOG_DIR_KEY, ""),
    )


def _number(kafka: dict[str, str], key: str, default: int, low: int, high: int) -> int:
    text = kafka.pop(key, str(default))
    try:
        value = int(text)
    except ValueError:
        raise SettingError(f"{key} is not a number: {text!r}") from None
    if not low <= value <= high:
        raise SettingError(f"{key} must be in {low}..{high}, not {value}")
    return value


def _token(kafka: dict[str, str]) -> str:
    token = kafka.pop(METRICS_TOKEN_KEY, "")
    try:
        check_page_token(token)
    except ValueError as error:
        raise SettingError(f"{METRICS_TOKEN_KEY}: {error}") from None
    return token
