"""Doors of what we stand on: Spark, HBase, ZooKeeper, ways of notices.

In: `SiteFacts`. Out: findings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from deploy.secure.check.addresses import hosts_of, is_loopback, is_plain_beyond_loopback, origin_of
from deploy.secure.check.facts import SecurityFinding, SiteFacts
from deploy.secure.layout import CONVERSION_FILE

HBASE = "hbase"
SPARK_KEYS = ("spark.authenticate", "spark.network.crypto.enabled")


def plain_hbase(facts: SiteFacts) -> Iterator[SecurityFinding]:
    """HBase's Thrift knows no login that we speak, and no TLS."""
    url = urlsplit(facts.settings.store.url)
    if url.scheme != HBASE:
        return
    for host in hosts_of(url.netloc):
        if not is_loopback(host):
            yield SecurityFinding(
                "plain-hbase", f"[store] url, {host}",
                "HBase's Thrift server is asked in the clear: whoever reaches it reads and writes"
                " every record",
                "a TLS tunnel to that host on 127.0.0.1 (docs/hbase.md), named in [store] url; its"
                " port shut to all others",
            )  # fmt: skip


def open_spark(facts: SiteFacts) -> Iterator[SecurityFinding]:
    """Whoever reaches a Spark cluster runs code on its workers."""
    streams = facts.settings.streams
    master = streams.wanted_master
    keys = {**facts.spark_file, **streams.conf}
    missing = [key for key in SPARK_KEYS if not _is_on(keys, key)]
    if master and not master.startswith("local") and missing:
        yield SecurityFinding(
            "open-spark", f"[streams] master {master}",
            "drivers and executors ask each other for no secret, or speak in the clear",
            f'{", ".join(f"{key} true" for key in missing)} in the file that [streams]'
            " properties_file names, and on master and workers the same (docs/spark-cluster.md)",
        )  # fmt: skip


def open_spark_page(facts: SiteFacts) -> Iterator[SecurityFinding]:
    """Spark's own pages show plans, settings and environment to whoever asks."""
    conf = {**facts.spark_file, **facts.settings.streams.conf}
    if _is_on(conf, "spark.ui.enabled") and not conf.get("spark.ui.filters"):
        yield SecurityFinding(
            "open-spark-page", "[streams.conf] spark.ui.enabled",
            "Spark's pages ask nobody who reads them",
            "leave it out, or name a filter that asks in spark.ui.filters",
        )  # fmt: skip


def open_zookeeper(facts: SiteFacts) -> Iterator[SecurityFinding]:
    """Whoever reaches ZooKeeper changes what brokers believe, ACLs and users among it."""
    for broker in facts.brokers:
        servers = broker.keys.get("zookeeper.connect", "")
        what = _open_ensemble(broker.keys, servers) if servers else ""
        if what:
            yield SecurityFinding(
                "open-zookeeper", f"{broker.where}, zookeeper.connect", what,
                _remedy_of_ensemble(facts.converted_folder),
            )  # fmt: skip


def _remedy_of_ensemble(converted_folder: str) -> str:
    """A conversion leaves this way as it was: what closes it stops the site for a moment."""
    own = (
        "zookeeper.ssl.client.enable=true with a certificate, and zookeeper.set.acl=true, on every"
        " broker; its plain port shut (docs/zookeeper.md)"
    )
    if not converted_folder:
        return own
    return (
        "secure convert has left this way as it was: stop everything, delete"
        f" {Path(converted_folder, CONVERSION_FILE)} on every machine, start again, then"
        " ./databus broker zookeeper-acls secure (docs/security.md, While everything runs); at an"
        f" ensemble of your own, {own}"
    )


def _open_ensemble(keys: Mapping[str, str], servers: str) -> str:
    """What is open there; empty: nothing."""
    has_tls = _is_on(keys, "zookeeper.ssl.client.enable")
    has_certificate = has_tls and bool(keys.get("zookeeper.ssl.keystore.location"))
    if not (has_certificate or keys.get("java.security.auth.login.config")):
        return "the ensemble asks for no login: whoever reaches it changes topics, rights, users"
    if not _is_on(keys, "zookeeper.set.acl"):
        return "what brokers make there belongs to everybody who reaches it (zookeeper.set.acl)"
    hosts = hosts_of(servers.partition("/")[0])
    if not has_tls and not all(is_loopback(host) for host in hosts):
        return "brokers and the ensemble of other machines speak in the clear"
    return ""


def plain_notice(facts: SiteFacts) -> Iterator[SecurityFinding]:
    """Plates and faces of alarms can be read on the way to who is told."""
    notices = facts.settings.notices
    addresses = {"webhook_url": notices.webhook_url, "sms_url": notices.sms_url}
    addresses |= {
        f"recipients {name} webhook_url": one.webhook_url
        for name, one in notices.recipients.items()
    }
    for key, url in addresses.items():
        if is_plain_beyond_loopback(url):
            yield SecurityFinding(
                "plain-notice", f"[notices] {key}: {origin_of(url)}",
                "alarms go there in the clear", "an https:// address",
            )  # fmt: skip
    if notices.mail_host and notices.mail_security == "none" and not is_loopback(notices.mail_host):
        yield SecurityFinding(
            "plain-notice", f"[notices] mail_host {notices.mail_host}",
            "alarms go there in the clear", 'mail_security = "starttls" or "tls"',
        )  # fmt: skip


def _is_on(keys: Mapping[str, str], key: str) -> bool:
    return keys.get(key, "").strip().lower() == "true"
