"""Each check of `secure check` alone: what it finds, where it stands, and what it leaves in peace."""

from __future__ import annotations

import inspect
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address, ip_address
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from broker.security.security_protocol import SecurityProtocol
from bus.contracts.access import all_acls
from bus.protocol.acls import AclBinding, Operation, Pattern, Permission, Resource
from deploy.secure.broker_keys import secured
from deploy.secure.check import addresses, checks
from deploy.secure.check.checks import CHECKS, findings
from deploy.secure.check.facts import BrokerFacts, CertificateFacts, FileFacts, SiteFacts
from deploy.secure.check.secret_checks import LEAST_SECRET, WELL_KNOWN, why_weak
from deploy.settings.composed import load

NOW = datetime(2026, 11, 30, tzinfo=UTC)
LONG = "a-long-random-text-of-nobody"
MARK = "plain-mark"
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
JAAS = 'a.PlainLoginModule required username="node" password="{0}" user_node="{0}";'


def facts_of(flags: tuple[str, ...] = (), broker: dict[str, str] | None = None, **more: Any) -> SiteFacts:
    """A closed site of one machine, and what the test opens."""
    settings = load(flags=[f"security.page_token={LONG}", *flags], environment={})
    keys = {"authorizer.class.name": AUTHORIZER, **(broker or {})}
    return SiteFacts(settings=settings, now=NOW, brokers=(BrokerFacts("broker 1", keys),), acls=(), **more)


def acl(principal: str, permission: Permission = Permission.ALLOW) -> AclBinding:
    return AclBinding(
        Resource.TOPIC, "data.face", Pattern.LITERAL, principal, "*", Operation.READ, permission
    )


def certificate(days: float) -> CertificateFacts:
    return CertificateFacts("/etc/databus/a.pem", "CN=a", NOW + timedelta(days=days))


ENSEMBLE = {
    "zookeeper.connect": "a:2181/bus", "zookeeper.set.acl": "true",
    "zookeeper.ssl.client.enable": "true", "zookeeper.ssl.keystore.location": "/etc/databus/z.pem",
}  # fmt: skip
"""As a broker says it whose ensemble is closed."""


AWAY = "PLAINTEXT://10.0.0.5:9092"
OPENED: dict[str, list[SiteFacts]] = {
    "unused-folder": [facts_of(unused_folder="/srv/var/secure")],
    "plain-listener": [
        facts_of(broker={"listeners": AWAY}),
        facts_of(broker={"listeners": "PLAINTEXT://0.0.0.0:9092"}),
        facts_of(broker={"listeners": "SSL://10.0.0.5:9094,CONTROLLER://10.0.0.5:9093"}),
        facts_of(broker={"listeners": "A://[::]:1", "listener.security.protocol.map": "A:SASL_PLAINTEXT",
                         "sasl.enabled.mechanisms": "SCRAM-SHA-512"}),
    ],
    "plain-password": [
        facts_of(broker={"listeners": "A://127.0.0.1:1", "listener.security.protocol.map": "A:SASL_PLAINTEXT",
                         "sasl.enabled.mechanisms": "SCRAM-SHA-512, plain"}),
        facts_of(broker={"listeners": "A://127.0.0.1:1", "listener.security.protocol.map": "A:SASL_PLAINTEXT",
                         "sasl.enabled.mechanisms": "SCRAM-SHA-512",
                         "listener.name.a.sasl.enabled.mechanisms": "PLAIN"}),
    ],
    "no-authorizer": [facts_of(broker={"authorizer.class.name": ""})],
    "everybody-without-acl": [facts_of(broker={"allow.everyone.if.no.acl.found": " True "})],
    "everybody-is-superuser": [facts_of(broker={"super.users": "User:admin;User:ANONYMOUS"})],
    "plain-connection": [
        facts_of(("bus.bootstrap_servers=127.0.0.1:9092,10.0.0.5:9092",)),
        facts_of(("mirror.source_bootstrap_servers=a.example:9092", "mirror.target_bootstrap_servers=localhost:1")),
        facts_of(("mirror.target_bootstrap_servers=a.example:9092",)),
        facts_of(("edge.second_site_bootstrap_servers=10.2.0.5:9092",)),
    ],
    "plain-edge": [facts_of(("edge.host=0.0.0.0", f"edge.tokens.server-1={LONG}"))],
    "plain-console": [facts_of(("console.host=::",))],
    "open-pages": [facts_of(("security.page_token=",))],
    "plain-pages": [
        facts_of((f"{name}.metrics_host=0.0.0.0",)) for name in ("streams", "dispatcher", "watch", "mirror")
    ] + [facts_of(("broker.metrics.host=10.0.0.5",))],
    "plain-address": [
        facts_of(("edge.second_site_url=http://10.2.0.5:8650",)),
        facts_of(("console.other_site_pictures=http://b.example:8650", f"console.other_site_pictures_token={LONG}")),
        facts_of(("console.mirror=http://10.2.0.5:8660",)),
        facts_of(("console.brokers=1=http://127.0.0.1:1/metrics, 2=http://10.0.0.6:9094/metrics",)),
        facts_of(('mirror.edge_urls=["http://10.2.0.5:8650"]',)),
        facts_of((f"mirror.pictures_token={LONG}", "mirror.target_pictures_url=http://10.2.0.5:8650")),
    ],
    "readable-secret": [
        facts_of(files=(FileFacts("/srv/databus.toml", 0o640, 0),)),
        facts_of(files=(FileFacts("/srv/var/secure", 0o750, 0, is_folder=True),)),
        facts_of(files=(FileFacts("/srv/databus.toml", 0o600, 1001),), owner=1000),
    ],
    "weak-secret": [
        facts_of(("edge.tokens.server-1=changeit",)), facts_of(("edge.tokens.server-1=",)),
        facts_of(("edge.tokens.recognition-server=recognition-server",)),
        facts_of(("console.edge_token=short",)), facts_of(("security.page_token=short",)),
        facts_of(("bus.librdkafka.security.protocol=SASL_SSL", "bus.librdkafka.sasl.mechanism=PLAIN",
                  "bus.librdkafka.sasl.username=the-city-itself", "bus.librdkafka.sasl.password=the-city-itself")),
        facts_of(broker={"listener.name.a.plain.sasl.jaas.config": JAAS.format("admin-secret")}),
        facts_of(broker={"ssl.keystore.password": "changeit"}),
        facts_of(("broker.ssl.keystore.password=changeit",)),
        facts_of(('notices.recipients={"north": {"webhook_url": "https://a", "webhook_secret": "short"}}',)),
    ],
    "guessed-account": [facts_of(guessed_accounts=("admin",))],
    "secret-on-command-line": [facts_of(given_secrets=("edge.tokens",))],
    "ending-certificate": [facts_of(certificates=(certificate(29),)), facts_of(certificates=(certificate(-1),))],
    "plain-hbase": [
        facts_of(("store.url=hbase://10.0.0.7:9090/city?keep_days=90",)),
        facts_of(("store.url=hbase://127.0.0.1:9090,region-2:9090/city",)),
    ],
    "open-spark": [
        facts_of(("streams.master=spark://10.0.0.8:7077",)),
        facts_of(("streams.master=spark://a:7077", "streams.conf.spark.authenticate=true")),
        facts_of(("streams.conf.spark.master=spark://a:7077",)),
        facts_of(("streams.master=spark://a:7077",), spark_file={"spark.authenticate": "true"}),
    ],
    "open-spark-page": [facts_of(("streams.conf.spark.ui.enabled=true",))],
    "open-zookeeper": [
        facts_of(broker={"zookeeper.connect": "127.0.0.1:2181"}),
        facts_of(broker={"zookeeper.connect": "a:2181", "zookeeper.set.acl": "true"}),
        facts_of(broker={**ENSEMBLE, "zookeeper.set.acl": "false"}),
        facts_of(broker={**ENSEMBLE, "zookeeper.ssl.client.enable": "false"}),
        facts_of(broker={"zookeeper.connect": "a:2181/bus", "zookeeper.set.acl": "true",
                         "java.security.auth.login.config": "/etc/databus/zookeeper.jaas"}),
    ],
    "plain-notice": [
        facts_of(("notices.webhook_url=http://chat.example/plain-mark",)),
        facts_of(("notices.sms_url=http://10.0.0.9/plain-mark",)),
        facts_of(('notices.recipients={"north": {"webhook_url": "http://chat.example/plain-mark"}}',)),
        facts_of(("notices.mail_host=mail.example", "notices.mail_security=none", "notices.mail_from=a@b.c",
                  'notices.mail_to=["d@e.f"]')),
    ],
}  # fmt: skip


def with_acls(*acls: AclBinding) -> SiteFacts:
    return replace(facts_of(), acls=acls)


OPENED["acl-for-everybody"] = [with_acls(acl("User:*")), with_acls(acl("User:ANONYMOUS"))]
PAIRED = {"edge-for-everybody": (facts_of(("edge.host=10.0.0.5",)), {"edge-for-everybody", "plain-edge"})}
"""Doors that never stand open alone."""

CASES = [(name, facts) for name, opened in OPENED.items() for facts in opened]
EXPECTED_OF = [(facts, {name}) for name, facts in CASES] + list(PAIRED.values())


@pytest.mark.parametrize(("facts", "names"), EXPECTED_OF, ids=range(len(EXPECTED_OF)))
def test_each_door_is_found_and_no_other(facts: SiteFacts, names: set[str]) -> None:
    found = findings(facts)
    assert {one.check for one in found} == names
    assert all(one.where and one.what and one.remedy for one in found)
    assert MARK not in str(found), "an address of a chat service holds its key"
    for secret in ("admin-secret", "the-city-itself", "short"):
        assert f'"{secret}"' not in str(found)


def test_what_a_conversion_has_left_plain_has_the_remedy_of_a_conversion() -> None:
    """The keys alone would not do: our own ensemble has no port of TLS until it is started anew."""
    keys = {"zookeeper.connect": "127.0.0.1:2181"}
    [before] = findings(facts_of(broker=keys))
    [found] = findings(replace(facts_of(broker=keys), converted_folder="/srv/secure"))
    assert found.check == before.check == "open-zookeeper"
    assert "conversion.json" not in before.remedy
    assert "delete /srv/secure/conversion.json" in found.remedy
    assert before.remedy in found.remedy
    assert findings(replace(facts_of(broker=ENSEMBLE), converted_folder="/srv/secure")) == []


def test_every_check_has_a_door_of_its_own_that_only_it_finds() -> None:
    """A check that was dropped, or forgotten in the list, leaves its door unseen."""
    named = {check.__name__.replace("_", "-") for check in CHECKS}
    assert named == {name for name, opened in OPENED.items() if opened} | set(PAIRED)
    written = {
        name
        for module in (checks.bus_checks, checks.page_checks, checks.secret_checks, checks.neighbour_checks)
        for name, one in inspect.getmembers(module, inspect.isgeneratorfunction)
        if one.__module__ == module.__name__ and list(inspect.signature(one).parameters) == ["facts"]
    }
    assert written == {check.__name__ for check in CHECKS}


CLOSED = [
    facts_of(),
    facts_of(broker=secured({"listeners": "PLAINTEXT://10.0.0.5:9092"})),
    facts_of(broker={"listeners": "PLAINTEXT://localhost:9092,SSL://10.0.0.5:9094,CONTROLLER://[::1]:9093"}),
    facts_of(broker={"listeners": "PLAINTEXT://:9092"}),  # ours serves this machine alone then
    facts_of(("bus.bootstrap_servers=10.0.0.5:9092", "bus.librdkafka.security.protocol=sasl_ssl")),
    facts_of(("streams.master=local[4]",)),
    facts_of(("streams.master=spark://a:7077", "streams.conf.spark.authenticate=true",
              "streams.conf.spark.network.crypto.enabled=true")),
    facts_of(("streams.master=spark://a:7077",),
             spark_file={"spark.authenticate": "true", "spark.network.crypto.enabled": "true"}),
    facts_of(("streams.conf.spark.ui.enabled=true", "streams.conf.spark.ui.filters=a.Filter")),
    facts_of(("store.url=hbase://127.0.0.1:9090/city",)),
    facts_of(("store.url=sqlite:///srv/records.db",)),
    facts_of(("notices.webhook_url=https://chat.example/x", "notices.mail_host=localhost",
              "notices.mail_security=none", "notices.mail_from=a@b.c", 'notices.mail_to=["d@e.f"]')),
    facts_of(files=(FileFacts("/a", 0o600, 0), FileFacts("/b", 0o700, 1000, is_folder=True)), owner=1000),
    facts_of(certificates=(certificate(31),)),
    facts_of(("broker.metrics.port=-1", "broker.metrics.host=0.0.0.0")),
    facts_of(broker=ENSEMBLE),
    facts_of(broker={"zookeeper.connect": "127.0.0.1:2181/bus", "zookeeper.set.acl": "true",
                     "java.security.auth.login.config": "/etc/databus/zookeeper.jaas"}),
    facts_of(('mirror.edge_urls=["https://b.example"]', "console.mirror=http://127.0.0.1:8660")),
    with_acls(acl("User:edge"), acl("User:*", Permission.DENY)),
]  # fmt: skip


@pytest.mark.parametrize("facts", CLOSED, ids=range(len(CLOSED)))
def test_what_is_closed_is_left_in_peace(facts: SiteFacts) -> None:
    assert findings(facts) == []


def test_no_right_of_a_secured_site_is_everybodys() -> None:
    """The table that `secure init` makes ACLs from."""
    assert findings(with_acls(*all_acls())) == []


HOSTS = st.one_of(
    st.ip_addresses(v=4).map(str), st.ip_addresses(v=6).map(str),
    st.integers(0, 2**24 - 1).map(lambda n: str(IPv4Address(2130706432 + n))),
    st.sampled_from(["localhost", "::1", "broker-1", "0.0.0.0", "::"]),
)  # fmt: skip
PROTOCOLS = st.sampled_from([one.name for one in SecurityProtocol])


@given(st.lists(st.tuples(HOSTS, PROTOCOLS), min_size=1, max_size=5))
@example([("127.255.255.254", "PLAINTEXT")])
@example([("128.0.0.0", "PLAINTEXT"), ("::ffff:10.0.0.1", "SASL_PLAINTEXT")])
def test_a_listener_is_a_finding_if_it_is_plain_and_others_reach_it(drawn: list[tuple[str, str]]) -> None:
    listeners, names, expected = [], [], 0
    for number, (host, protocol) in enumerate(drawn):
        listeners.append(f"L{number}://{f'[{host}]' if ':' in host else host}:{9092 + number}")
        names.append(f"L{number}:{protocol}")
        is_ours = host == "localhost" or (host[0] in "0123456789:" and ip_address(host).is_loopback)
        expected += protocol in ("PLAINTEXT", "SASL_PLAINTEXT") and not is_ours
    keys = {"listeners": ", ".join(listeners), "listener.security.protocol.map": ",".join(names)}
    found = [one for one in findings(facts_of(broker=keys)) if one.check == "plain-listener"]
    assert len(found) == expected


@given(st.text(max_size=40), st.text(max_size=10))
def test_a_secret_is_weak_if_it_is_short_known_or_its_owners_name(secret: str, owner: str) -> None:
    weak = len(secret) < LEAST_SECRET or secret.lower() in WELL_KNOWN or secret.lower() == owner.lower()
    assert bool(why_weak(secret, owner)) == weak


@given(st.text(max_size=60))
@example("http://[::1")
@example("HTTP://10.0.0.5:x/")
def test_any_address_is_judged_and_none_shows_its_path(url: str) -> None:
    addresses.is_plain_beyond_loopback(url)
    addresses.origin_of(url)
    assert addresses.origin_of(f"http://u:hunter2@chat.example:8080/{MARK}?{MARK}") == "http://chat.example:8080"
    assert addresses.is_plain_beyond_loopback("http://10.0.0.5/")
