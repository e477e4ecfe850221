"""Which topics people may create, grow and delete from the console. Pure.

In: names and numbers as they were typed. Out: `CommandError`, or nothing. Never: a topic that the
product's own processes make and read: it is made, and given its partitions, by them alone.
"""

from __future__ import annotations

import re

from bus.contracts.topics import TOPICS, Flow
from bus.domain.command_error import CommandError

MAX_NAME = 249  # as Kafka has it
MAX_PARTITIONS = 1_000
MAX_REPLICAS = 15
MAX_RETENTION_DAYS = 36_500
DAY_MS = 86_400_000
_is_name = re.compile(r"[A-Za-z0-9._-]+").fullmatch
_is_mirrors_own = re.compile(r"heartbeats|mm2-.*|.*[.-]internal").fullmatch
"""As mirrors keep them for themselves."""
_OWN_FLOWS = tuple(f"{flow.value}." for flow in (Flow.CONTROL, Flow.STATE, Flow.EVENT))
CLEANUPS = ("delete", "compact", "compact,delete")


def is_own(name: str) -> bool:
    """Whether a topic is the product's, the brokers' or a mirror's: nobody creates, grows or
    deletes it from the console."""
    is_internal = name.startswith("__") or _is_mirrors_own(name) is not None
    return is_internal or name in TOPICS or name.startswith(_OWN_FLOWS)


def check_not_own(name: str) -> None:
    """Raises `CommandError`."""
    if is_own(name):
        raise CommandError("name", f"{name} is a topic of the product, the brokers or a mirror:"
                           " it is not changed here", "own_topic")  # fmt: skip


def check_new_topic(
    name: str, partitions: int, replication_factor: int, cleanup: str, retention_days: int
) -> None:
    """`replication_factor` 0: as the brokers say; `retention_days` 0: for ever. Raises
    `CommandError`."""
    if not 0 < len(name) <= MAX_NAME or _is_name(name) is None or name in (".", ".."):
        raise CommandError("name", f"1 to {MAX_NAME} letters, digits, dots, hyphens or underlines",
                           "topic_name")  # fmt: skip
    check_not_own(name)
    check_partitions(partitions)
    if not 0 <= replication_factor <= MAX_REPLICAS:
        raise CommandError("replication_factor", f"0 (as the brokers say) to {MAX_REPLICAS}",
                           "replication_factor")  # fmt: skip
    if cleanup not in CLEANUPS:
        raise CommandError("cleanup", f"one of {'; '.join(CLEANUPS)}", "cleanup")
    if not 0 <= retention_days <= MAX_RETENTION_DAYS:
        raise CommandError("retention_days", f"0 (for ever) to {MAX_RETENTION_DAYS}",
                           "retention_days")  # fmt: skip


def check_partitions(count: int) -> None:
    """Raises `CommandError`."""
    if not 1 <= count <= MAX_PARTITIONS:
        raise CommandError("partitions", f"1 to {MAX_PARTITIONS}", "partition_count")


def check_deletion(name: str, typed: str) -> None:
    """Raises `CommandError`: the name was typed again, and it is one that may go."""
    check_not_own(name)
    if typed != name:
        raise CommandError("typed", "type the topic's name again: its records go with it",
                           "name_not_typed")  # fmt: skip


def topic_configs(cleanup: str, retention_days: int) -> dict[str, str]:
    """In Kafka's own names."""
    retention_ms = retention_days * DAY_MS if retention_days else -1
    return {"cleanup.policy": cleanup, "retention.ms": str(retention_ms)}
