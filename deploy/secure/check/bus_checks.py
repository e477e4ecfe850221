"""Doors of the bus: listeners, logins, rights, and how our own processes connect.

In: `SiteFacts`. Out: findings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from broker.security.security_protocol import SecurityProtocol
from broker.server.listeners import ListenerError, protocol_of
from bus.protocol.acls import Permission
from bus.settings import BusSettings
from deploy.secure.broker_keys import OPEN_LISTENERS, PROTOCOL_MAP
from deploy.secure.check.addresses import hosts_of, is_loopback
from deploy.secure.check.facts import BrokerFacts, SecurityFinding, SiteFacts

CLOSE = "./databus secure init closes it (docs/security.md)"
EVERYBODY = ("User:*", "User:ANONYMOUS")
MECHANISMS = "sasl.enabled.mechanisms"
PLAIN = "PLAIN"
_LISTENER = re.compile(r"(?P<name>\w+)://(?P<host>\[[^\]]*\]|[^:/]*):(?P<port>\d+)")
_TLS_TO_BUS = ("ssl", "sasl_ssl")


@dataclass(frozen=True, slots=True)
class BrokerListener:
    """One listener of a broker or controller."""

    name: str
    host: str
    port: str
    protocol: SecurityProtocol

    @property
    def place(self) -> str:
        """For a person."""
        return f"{self.name}://{self.host}:{self.port}"


def listeners_of(broker: BrokerFacts) -> list[BrokerListener]:
    """Those that its keys name; one that names no host is where its clients reach it."""
    text = broker.keys.get(PROTOCOL_MAP, "")
    found = map(_LISTENER.search, broker.keys.get("listeners", OPEN_LISTENERS).split(","))
    return [
        BrokerListener(
            one["name"], one["host"].strip("[]") or broker.address, one["port"],
            _protocol(text, one["name"]),
        )
        for one in found
        if one is not None
    ]  # fmt: skip


def plain_listener(facts: SiteFacts) -> Iterator[SecurityFinding]:
    """Records, and with them faces and plates, can be read on the way."""
    for broker in facts.brokers:
        for one in listeners_of(broker):
            if not one.protocol.has_tls and not is_loopback(one.host):
                yield SecurityFinding(
                    "plain-listener", f"{broker.where}, {one.place}",
                    f"{one.protocol.name}: whoever reads the network reads every record",
                    f"make it SSL or SASL_SSL in {PROTOCOL_MAP}, or let it listen on 127.0.0.1;"
                    f" {CLOSE}",
                )  # fmt: skip


def plain_password(facts: SiteFacts) -> Iterator[SecurityFinding]:
    """PLAIN sends the password as it is."""
    for broker in facts.brokers:
        for one in listeners_of(broker):
            if one.protocol.has_sasl and not one.protocol.has_tls and PLAIN in _offered(
                broker.keys, one.name
            ):
                yield SecurityFinding(
                    "plain-password", f"{broker.where}, {one.place}",
                    "PLAIN without TLS: the network carries passwords",
                    f"make the listener SASL_SSL in {PROTOCOL_MAP}, or offer SCRAM-SHA-512 alone"
                    f" in {MECHANISMS}",
                )  # fmt: skip


def no_authorizer(facts: SiteFacts) -> Iterator[SecurityFinding]:
    """Who reaches the bus may do everything."""
    for broker in facts.brokers:
        if not broker.keys.get("authorizer.class.name"):
            yield SecurityFinding(
                "no-authorizer", broker.where,
                "no rights are asked: whoever reaches the bus reads and writes every topic",
                f"set authorizer.class.name and ACLs (docs/acls.md); {CLOSE}",
            )  # fmt: skip


def everybody_without_acl(facts: SiteFacts) -> Iterator[SecurityFinding]:
    """A topic that nobody has thought of is open."""
    key = "allow.everyone.if.no.acl.found"
    for broker in facts.brokers:
        if broker.keys.get(key, "").strip().lower() == "true":
            yield SecurityFinding(
                "everybody-without-acl", broker.where,
                f"{key} is true: what has no ACL is everybody's",
                f"take {key} out and give each account its ACLs (docs/acls.md)",
            )  # fmt: skip


def everybody_is_superuser(facts: SiteFacts) -> Iterator[SecurityFinding]:
    """Whoever has not logged in passes every ACL."""
    for broker in facts.brokers:
        users = {one.strip() for one in broker.keys.get("super.users", "").split(";")}
        if not users.isdisjoint(EVERYBODY):
            yield SecurityFinding(
                "everybody-is-superuser", broker.where,
                "super.users names everybody: no ACL holds",
                "name in super.users only those who put rights right",
            )  # fmt: skip


def acl_for_everybody(facts: SiteFacts) -> Iterator[SecurityFinding]:
    """An ACL that lets in whoever has a login, or none."""
    for one in sorted(facts.acls or ()):
        if one.permission == Permission.ALLOW and one.principal in EVERYBODY:
            yield SecurityFinding(
                "acl-for-everybody", "the running bus", f"everybody may: {one.text}",
                "./databus acl remove, and add one for each account that needs it (docs/acls.md)",
            )  # fmt: skip


def plain_connection(facts: SiteFacts) -> Iterator[SecurityFinding]:
    """Our own processes speak to brokers of other machines as anybody could read."""
    settings = facts.settings
    buses = {
        "[bus] bootstrap_servers": settings.bus,
        "[mirror] source_bootstrap_servers": settings.mirror.source_bus,
        "[mirror] target_bootstrap_servers": settings.mirror.target_bus,
    }
    second = settings.edge.second_site(settings.bus)
    if second is not None:
        buses["[edge] second_site_bootstrap_servers"] = second
    for key, bus in buses.items():
        away = [host for host in hosts_of(bus.bootstrap_servers) if not is_loopback(host)]
        if away and not _has_tls(bus):
            yield SecurityFinding(
                "plain-connection", key,
                f"records go to {', '.join(sorted(set(away)))} in the clear",
                '"security.protocol" = "SASL_SSL" in the table of librdkafka beside it'
                " (docs/security.md)",
            )  # fmt: skip


def unused_folder(facts: SiteFacts) -> Iterator[SecurityFinding]:
    """Certificates and accounts were made, and nothing uses them."""
    if facts.unused_folder:
        yield SecurityFinding(
            "unused-folder", facts.unused_folder,
            "accounts and certificates were made and are not in force: [security] folder is empty",
            f'[security] folder = "{facts.unused_folder}" in databus.toml, then a restart',
        )  # fmt: skip


def _has_tls(bus: BusSettings) -> bool:
    return bus.librdkafka.get("security.protocol", "").lower() in _TLS_TO_BUS


def _protocol(text: str, name: str) -> SecurityProtocol:
    try:
        return protocol_of(text, name)
    except ListenerError:
        return SecurityProtocol.PLAINTEXT  # no broker starts with it; what it means is the worst


def _offered(keys: Mapping[str, str], listener: str) -> set[str]:
    own = f"listener.name.{listener.lower()}.{MECHANISMS}"
    text = keys.get(own) or keys.get(MECHANISMS, "")
    return {one.strip().upper() for one in text.split(",")}
