"""Every process that shows pages is given the token, and everybody who reads them sends it. Whether a page then
refuses is tested beside each server: tests/bus/metrics, tests/ingest/edge, tests/monitor/api."""

from __future__ import annotations

import ast
import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import msgspec
import pytest
from prometheus_client import CollectorRegistry, Gauge

from broker.settings import METRICS_TOKEN_KEY, SettingError, split
from bus.client.kafka.mirrored_ends import MirroredEnds
from bus.errors import BusError
from bus.metrics.server import MetricsServer
from bus.runtime.wall_clock import now_ms
from bus.settings import BusSettings
from deploy.paths import PROJECT_ROOT
from deploy.reconcile.edge_status import edge_backlog
from deploy.roles.run import broker_properties, job_settings
from deploy.roles.watch_ports import watch_ports
from deploy.settings.composed import Settings, load
from deploy.settings.sources import SettingsError
from dr_mirror.edges.edge_client import EdgeClient, EdgeUnavailable
from ingest.edge.sites.other_site import SecondEdge, _over_http
from monitor.api.mirror import MirrorUnavailable, mirror_report
from monitor.cluster.cleaner_pages import read_cleaners
from monitor.cluster.cleaner_status import SINCE_LAST_RUN_MS
from monitor.cluster.poller import ClusterPoller
from monitor.watch.questions import ask_mirror, ask_spool

PACKAGES = ("bus", "broker", "ingest", "alarm", "monitor", "dr_mirror", "spark_apps", "deploy")
TOKEN = "token-of-the-pages"

SERVERS = {"MetricsServer", "MetricsConnection", "FastAPI", "HTTPServer", "ThreadingHTTPServer", "start_server"}
"""What listens for HTTP. `asyncio.start_server` and Python's own servers are in no process of the product."""
OWN_PAGES = {"ingest/edge/routes.py", "monitor/api/app.py"}
"""Whose routes ask by themselves; their tests walk every route."""
NO_PAGES = {
    "deploy/servers/tcp_proxy.py": "carries bytes between two processes of a test",
    "deploy/servers/delayed_link.py": "carries bytes between two processes of a test",
}


def called(node: ast.Call) -> str:
    return getattr(node.func, "attr", getattr(node.func, "id", ""))


def test_whoever_opens_a_page_says_which_token_it_asks_for() -> None:
    """A process that was added without would show its page to everybody."""
    opened, without = set(), []
    for package in PACKAGES:
        for path in (PROJECT_ROOT / package).rglob("*.py"):
            name = str(path.relative_to(PROJECT_ROOT))
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Call) and called(node) in SERVERS:
                    opened.add(name)
                    keywords = {one.arg for one in node.keywords}
                    if name not in OWN_PAGES | set(NO_PAGES) and "page_token" not in keywords:
                        without.append(f"{name}:{node.lineno}: {called(node)}")
    assert not without
    assert opened.issuperset(OWN_PAGES), "pages of their own are looked for by a name that is gone"
    expected = {"broker/server/broker.py", "alarm/dispatch/service.py", "spark_apps/driver.py"}
    expected |= {"monitor/watch/service.py", "dr_mirror/service/role.py"}
    assert opened.issuperset(expected)


def settings_of(folder: Path, text: str) -> Settings:
    path = folder / "databus.toml"
    path.write_text(f'[site]\ndata_dir = "{folder / "var"}"\n{text}', encoding="utf-8")
    return load(str(path), environment={})


def test_processes_are_handed_the_token_of_the_settings(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, f'[security]\npage_token = "{TOKEN}"\n[streams]\njars = "a"\n')
    kafka, process = split(broker_properties(settings))
    assert process.metrics_token == TOKEN
    assert TOKEN not in str(kafka), "what DescribeConfigs shows"
    assert watch_ports(settings).page_token == TOKEN
    assert job_settings(settings, tmp_path / "packages.zip").page_token == TOKEN
    assert TOKEN not in " ".join(settings.arguments)


def test_a_broker_may_have_a_token_of_its_own(tmp_path: Path) -> None:
    text = f'[security]\npage_token = "{TOKEN}"\n[broker]\n"metrics.token" = "another"\n'
    assert split(broker_properties(settings_of(tmp_path, text)))[1].metrics_token == "another"
    assert METRICS_TOKEN_KEY not in broker_properties(settings_of(tmp_path, ""))


def test_a_token_that_no_header_carries_is_refused_where_it_stands(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"databus\.toml.*page_token.*openssl") as refused:
        settings_of(tmp_path, '[security]\npage_token = "密码 xyz"\n')
    assert "xyz" not in str(refused.value)
    with pytest.raises(SettingError, match=METRICS_TOKEN_KEY):
        split({METRICS_TOKEN_KEY: "two words"})


ENDS = MirroredEnds(cluster_id="here", source_cluster_id="there", partitions=())
PAGES: Mapping[bytes, Callable[[], str]] = {
    b"/status": lambda: "null",
    b"/v1/status": lambda: json.dumps({"spooled": 7, "drained": 7, "spool_bytes": 0, "backlog": 7}),
    b"/v1/mirrored-ends": lambda: msgspec.json.encode(ENDS).decode(),
    b"/v1/sent-again": lambda: "{}",
}


@pytest.fixture
def page() -> Iterator[MetricsServer]:
    """A process that asks for the token, with the pages of all kinds of them."""
    registry = CollectorRegistry()
    Gauge(SINCE_LAST_RUN_MS, "Help.", registry=registry).set(1)
    server = MetricsServer("127.0.0.1", 0, registry, PAGES, page_token=TOKEN)
    yield server
    server.close()


def reading_console(url: str, token: str) -> bool:
    [broker] = asyncio.run(read_cleaners({1: f"{url}/metrics"}, token))
    return broker.answers


def reading_rates(url: str, token: str) -> bool:
    async def poll() -> bool:
        bus = BusSettings(bootstrap_servers="127.0.0.1:1")
        poller = ClusterPoller(bus, None, {1: f"{url}/metrics"}, now_ms, token)
        poller.watched = lambda: True
        await poller._poll_metrics()
        return 1 in poller.traffic.rates

    return asyncio.run(poll())


def reading_mirror(url: str, token: str) -> bool:
    with pytest.raises(MirrorUnavailable) as why:
        asyncio.run(mirror_report(url, token))
    return "has not answered yet" in str(why.value)


def watching_mirror(url: str, token: str) -> bool:
    return ask_mirror(f"{url}/status", 60, token) is None


def watching_spool(url: str, token: str) -> bool:
    return ask_spool(f"{url}/v1/status", 60, token).spooled == 7


def asking_the_other_site(url: str, token: str) -> bool:
    return isinstance(_over_http(SecondEdge(url, token), "cluster"), MirroredEnds)


def mirroring(url: str, token: str) -> bool:
    async def ask() -> bool:
        async with EdgeClient(token) as client:
            return b"spooled" in await client.status(url) and bool(await client.sent_again(url, "x"))

    return asyncio.run(ask())


def accounting(url: str, token: str) -> bool:
    flags = [f"edge.port={url.rpartition(':')[2]}", f"security.page_token={token}"]
    return edge_backlog(load(None, flags, {})) == 7


READERS = (
    reading_console, reading_rates, reading_mirror, watching_mirror, watching_spool, asking_the_other_site,
    mirroring, accounting,
)  # fmt: skip


@pytest.mark.parametrize("reads", READERS)
def test_every_reader_of_pages_sends_the_token(
    page: MetricsServer, reads: Callable[[str, str], bool]
) -> None:
    """With it the page is read; without it, and with a wrong one, it is away and that is said."""
    url = f"http://127.0.0.1:{page.port}"
    assert reads(url, TOKEN)
    for wrong in ("", "wrong"):
        answer: object = None
        try:
            answer = reads(url, wrong)
        except (OSError, BusError, EdgeUnavailable) as error:
            answer = "401" not in str(error)
        assert answer is False
