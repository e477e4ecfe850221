"""The authorizer of a process by its configuration, and the log of what it refuses.

In: configuration, the newest metadata. Out: an `Authorizer`; lines of `authorizer.log` and a count.
Never: more than `MOST_LINES` in a second, so that no client fills the disk with its refusals.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from broker.config.key import ConfigError
from broker.config.keys_controller import (
    ALLOW_WITHOUT_ACLS,
    STANDARD_AUTHORIZER,
    SUPER_USERS,
    ZOOKEEPER_AUTHORIZER,
)
from broker.config.views import BrokerConfig
from broker.metadata.image import MetadataImage
from broker.metrics.registry import Metrics
from broker.security.authorizer import AclAuthorizer, Authorizer, Denial
from bus.protocol.acl_index import AclIndex, parse_super_users
from bus.protocol.acls import Operation, Resource

log = logging.getLogger("broker.authorizer")

MOST_LINES = 10
AUTHORIZER_CLASS = "authorizer.class.name"


def check_authorizer(config: BrokerConfig, *, with_zookeeper: bool) -> None:
    """Raises ConfigError for an authorizer of the other controller, and for super users that are
    no principals."""
    wanted = ZOOKEEPER_AUTHORIZER if with_zookeeper else STANDARD_AUTHORIZER
    if config[AUTHORIZER_CLASS] not in ("", wanted):
        controller = "ZooKeeper" if with_zookeeper else "KRaft"
        raise ConfigError(AUTHORIZER_CLASS, f"with {controller} it is {wanted}")
    super_users(config)


def super_users(config: BrokerConfig) -> frozenset[str]:
    """`User:a;User:b`, as principals' texts. Raises ConfigError."""
    found = parse_super_users(config.authorizer_text(SUPER_USERS))
    for text in found:
        kind, colon, name = text.partition(":")
        if not (kind and colon and name):
            raise ConfigError(SUPER_USERS, f"{text!r} is no principal; write User:NAME;User:NAME")
    return found


def make_authorizer(
    config: BrokerConfig,
    image: Callable[[], MetadataImage],
    metrics: Metrics,
    now_s: Callable[[], float],
) -> Authorizer:
    """One that allows everything where none is configured."""
    if not config[AUTHORIZER_CLASS]:
        return Authorizer()
    index = AclIndex(
        super_users(config),
        allows_without_acls=config.authorizer_text(ALLOW_WITHOUT_ACLS).lower() == "true",
    )
    metrics.gauge("authorizer-metrics", "acls-total-count", lambda: len(image().acls))
    return AclAuthorizer(index, lambda: image().acls, DenialLog(metrics, now_s).report)


class DenialLog:
    """Invariant: `_written` lines were written in the second `_second`, `_left_out` were not since
    the last that was."""

    def __init__(self, metrics: Metrics, now_s: Callable[[], float]) -> None:
        self._denied = metrics.meter("authorizer-metrics", "authorization-denied")
        self._now_s = now_s
        self._second = 0
        self._written = self._left_out = 0

    def report(self, denial: Denial) -> None:
        """One line in Kafka's words, and which ACL decided."""
        self._denied.mark()
        second = int(self._now_s())
        if second != self._second:
            self._second, self._written = second, 0
        if self._written >= MOST_LINES:
            self._left_out += 1
            return
        self._written += 1
        if self._left_out:
            log.info("%d refusals before this one are not written here", self._left_out)
            self._left_out = 0
        acl = denial.decision.acl
        log.info(
            "Principal = %s is Denied operation = %s from host = %s on resource = %s:%s: %s",
            denial.principal, Operation(denial.operation).name, denial.host,
            Resource(denial.resource).name, denial.name,
            denial.decision.reason if acl is None else acl.text,
        )  # fmt: skip
