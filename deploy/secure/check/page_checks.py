"""Doors of HTTP: edge, console, pages of metrics.

In: `SiteFacts`. Out: findings.
"""

from __future__ import annotations

from collections.abc import Iterator

from broker.settings import METRICS_HOST_KEY, METRICS_PORT_KEY, ProcessSettings
from deploy.secure.check.addresses import is_loopback, is_plain_beyond_loopback, origin_of
from deploy.secure.check.facts import SecurityFinding, SiteFacts
from deploy.settings.composed import Settings

PROXY = "let it listen on 127.0.0.1, with a proxy that speaks TLS in front (docs/behind-a-proxy.md)"


def edge_for_everybody(facts: SiteFacts) -> Iterator[SecurityFinding]:
    """Who reaches the edge can invent passages, and reads every picture."""
    edge = facts.settings.edge
    if not edge.tokens and not is_loopback(edge.host):
        yield SecurityFinding(
            "edge-for-everybody", f"[edge] host {edge.host}:{edge.port}",
            "no token of a sender is set: whoever reaches it sends records",
            "a token for each sender in [edge.tokens] (docs/operations.md, Tokens of the edge)",
        )  # fmt: skip


def plain_edge(facts: SiteFacts) -> Iterator[SecurityFinding]:
    """Records, pictures and tokens can be read on the way."""
    edge = facts.settings.edge
    if not is_loopback(edge.host):
        yield SecurityFinding(
            "plain-edge", f"[edge] host {edge.host}:{edge.port}",
            "plain HTTP: records, pictures and tokens can be read on the way", PROXY,
        )  # fmt: skip


def plain_console(facts: SiteFacts) -> Iterator[SecurityFinding]:
    """Passwords and what operators see can be read on the way."""
    console = facts.settings.console
    if not is_loopback(console.host):
        yield SecurityFinding(
            "plain-console", f"[console] host {console.host}:{console.port}",
            "plain HTTP: passwords and everything that is shown can be read on the way", PROXY,
        )  # fmt: skip


def open_pages(facts: SiteFacts) -> Iterator[SecurityFinding]:
    """What a city sees, and when it sees nothing, is told to whoever asks."""
    if not facts.settings.security.page_token:
        yield SecurityFinding(
            "open-pages", "[security] page_token",
            "metrics and status pages ask nobody who reads them",
            "a long random text (openssl rand -base64 32), the same in Prometheus"
            " (docs/security.md, Pages)",
        )  # fmt: skip


def plain_pages(facts: SiteFacts) -> Iterator[SecurityFinding]:
    """The token of the pages can be read on the way."""
    for key, (host, port) in pages_of(facts.settings).items():
        if port >= 0 and not is_loopback(host):
            yield SecurityFinding(
                "plain-pages", f"{key} {host}",
                "plain HTTP: the page and its token can be read on the way",
                "127.0.0.1, or an address of a network of its own, with a proxy that speaks TLS"
                " before Prometheus",
            )  # fmt: skip


def plain_address(facts: SiteFacts) -> Iterator[SecurityFinding]:
    """A token that we send to another machine can be read on the way."""
    for key, url in addresses_of(facts.settings):
        if is_plain_beyond_loopback(url):
            yield SecurityFinding(
                "plain-address", f"{key}: {origin_of(url)}",
                "a token, and what it opens, goes there in the clear",
                "https:// of a proxy that speaks TLS there (docs/behind-a-proxy.md)",
            )  # fmt: skip


def pages_of(settings: Settings) -> dict[str, tuple[str, int]]:
    """Where this machine shows pages of metrics: by setting, host and port; -1: none."""
    usual = ProcessSettings()
    broker_port = settings.broker.get(METRICS_PORT_KEY, str(usual.metrics_port))
    return {
        f"[broker] {METRICS_HOST_KEY}": (
            settings.broker.get(METRICS_HOST_KEY, usual.metrics_host), int(broker_port)
        ),
        "[streams] metrics_host": (settings.streams.metrics_host, settings.streams.metrics_port),
        "[dispatcher] metrics_host": (
            settings.dispatcher.metrics_host, settings.dispatcher.metrics_port
        ),
        "[watch] metrics_host": (settings.watch.metrics_host, settings.watch.metrics_port),
        "[mirror] metrics_host": (settings.mirror.metrics_host, settings.mirror.metrics_port),
    }  # fmt: skip


def addresses_of(settings: Settings) -> Iterator[tuple[str, str]]:
    """Addresses of others to which a token of ours is sent, as far as there is one."""
    edge, console, mirror = settings.edge, settings.console, settings.mirror
    pages = settings.security.page_token
    if edge.second_site_token or pages:
        yield "[edge] second_site_url", edge.second_site_url
    if console.other_site_pictures_token:
        yield "[console] other_site_pictures", console.other_site_pictures
    if pages:
        yield "[console] mirror", console.mirror
        for one in console.brokers.split(","):
            yield "[console] brokers", one.partition("=")[2].strip()
    if mirror.edge_token or pages:
        for url in mirror.edge_urls:
            yield "[mirror] edge_urls", url
    if mirror.pictures_token:
        yield "[mirror] source_pictures_url", mirror.source_pictures_url
        yield "[mirror] target_pictures_url", mirror.target_pictures_url
