"""What is given to Prometheus and Grafana: read by Prometheus itself, and only of metrics that exist."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from bus.metrics.server import MetricsServer
from deploy.documentation import metrics_document
from deploy.grafana import boards
from deploy.paths import PROJECT_ROOT
from deploy.servers.databus import RunningBroker, start_broker
from deploy.servers.process import free_port
from deploy.setup.packages import install
from ingest.edge.meters import Meters

FOLDER = PROJECT_ROOT / "deploy" / "prometheus"
READY_S = 60.0
TOKEN = "token-of-the-pages"
_NAME = re.compile(r"\b(?:databus_|kafka_)\w+")
_RECORDED = re.compile(r"\bdatabus:\w+(?::\w+)?")


def names_of_rules() -> list[str]:
    """Of every alert and every recorded series that the product gives to Prometheus."""
    documents = [yaml.safe_load(path.read_text()) for path in FOLDER.glob("*.yml")]
    groups = [group for document in documents for group in document.get("groups", [])]
    return [rule.get("alert") or rule["record"] for group in groups for rule in group["rules"]]


@pytest.fixture(scope="session")
def prometheus() -> str:
    """Debian's, installed if it may be."""
    found = shutil.which("prometheus")
    if found is None and install(["prometheus"], ["golang-github-prometheus"]):
        found = shutil.which("prometheus")
    if found is None or shutil.which("promtool") is None:
        pytest.skip("Prometheus cannot be had here (Debian: apt-get install prometheus)")
    return found


def edge_meters() -> Meters:
    spool: Any = SimpleNamespace(
        waiting_bytes=0, end_sequence=0, drained_sequence=0, damaged=0, totals={}, retained_messages=0,
        retained_bytes=0, uncovered_messages=0,
    )  # fmt: skip
    writer: Any = SimpleNamespace(stored=0, lost=0, waiting_bytes=0)
    forwarder: Any = SimpleNamespace(failures=0, resent=0)
    route: Any = SimpleNamespace(has_second=True, active="home", moving_to=None)
    arrivals: Any = SimpleNamespace(unreported=0)
    return Meters(spool, forwarder, writer, route, arrivals)


def names_shown() -> set[str]:
    """Every name that a page shows, with the suffixes of counters and histograms."""
    registries = [*metrics_document.registries().values(), edge_meters().registry]
    found = {
        metric.name + suffix
        for registry in registries
        for metric in registry.collect()
        for suffix in ("", "_total", "_bucket", "_count", "_sum")
    }
    brokers = (PROJECT_ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    return found | set(_NAME.findall(brokers))


def expressions() -> list[str]:
    rules = "\n".join(
        (FOLDER / f"{name}.yml").read_text("utf-8") for name in ("recording", "alerts")
    )
    queries = [
        query for _, panels in boards.BOARDS.values() for panel in panels for query in panel.query
    ]
    return [rules, *queries]


def test_rules_and_boards_name_only_metrics_that_are_shown() -> None:
    """A metric that was renamed leaves no alert that can never fire."""
    shown, asked = names_shown(), set(_NAME.findall("\n".join(expressions())))
    assert asked - shown == set()
    recorded = set(re.findall(r"record: (\S+)", expressions()[0]))
    assert set(_RECORDED.findall("\n".join(expressions()))) <= recorded


def test_the_boards_are_those_of_the_table_and_have_grafanas_shape() -> None:
    for name in boards.BOARDS:
        text = (boards.HERE / f"{name}.json").read_text(encoding="utf-8")
        assert text == boards.text(name), "python -m deploy.grafana.boards"
        board = json.loads(text)
        panels = board["panels"]
        assert len({panel["id"] for panel in panels}) == len(panels)
        places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}
        assert len(places) == len(panels)
        assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in panels)
        for panel in panels:
            refs = [target["refId"] for target in panel["targets"]]
            assert len(set(refs)) == len(refs) > 0
            assert all(target["datasource"] == boards.SOURCE for target in panel["targets"])


def test_the_page_of_metrics_is_the_one_that_the_registries_make() -> None:
    text = (PROJECT_ROOT / "docs" / "metrics-applications.md").read_text(encoding="utf-8")
    assert text == metrics_document.document()


@pytest.mark.slow
def test_prometheus_accepts_configuration_rules_and_their_tests(prometheus: str) -> None:
    for words in (["check", "config", "prometheus.yml"], ["test", "rules", "alerts_test.yml"]):
        said = subprocess.run(
            ["promtool", *words],
            cwd=FOLDER,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert said.returncode == 0, said.stdout + said.stderr


class RealPrometheus:
    """One process over a configuration of ours whose targets are these."""

    def __init__(self, command: str, folder: Path, targets: dict[str, int]) -> None:
        config = (FOLDER / "prometheus.yml").read_text(encoding="utf-8")
        for name in ("recording.yml", "alerts.yml"):
            shutil.copy(FOLDER / name, folder / name)
        for job, port in targets.items():
            config, changed = re.subn(
                rf"(job_name: {job} .*\n.*\n\s+- targets: )\[.*\]",
                rf'\1["127.0.0.1:{port}"]',
                config,
            )
            assert changed == 1, job
        [lines] = re.findall(r"((?:^#    .*\n){2})", config, re.MULTILINE)
        token = folder / "page_token"
        token.write_text(f"{TOKEN}\n", encoding="utf-8")
        asked = lines.replace("#", "").replace("/etc/databus/page_token", str(token))
        config = re.sub(r"(^  - job_name: .*\n)", rf"\1{asked}", config, flags=re.MULTILINE)
        file = folder / "prometheus.yml"
        file.write_text(config.replace("_interval: 10s", "_interval: 1s"), encoding="utf-8")
        self.port = free_port()
        self.process = subprocess.Popen(
            [command, f"--config.file={file}", f"--storage.tsdb.path={folder / 'data'}",
             f"--web.listen-address=127.0.0.1:{self.port}"],
            stdout=subprocess.DEVNULL, stderr=(folder / "log").open("wb"),
        )  # fmt: skip

    def ask(self, path: str) -> Any:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
            return json.load(answer)["data"]

    def until(self, path: str, accept: Any) -> Any:
        """Asks until it is so; the last answer is the error."""
        deadline, found = time.monotonic() + READY_S, None
        while time.monotonic() < deadline:
            try:
                found = self.ask(path)
                if accept(found):
                    return found
            except OSError as error:
                found = error
            time.sleep(0.2)
        raise AssertionError(found)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    running = start_broker(tmp_path / "broker", {"metrics.token": TOKEN})
    yield running
    running.stop()


@pytest.mark.slow
def test_a_real_prometheus_reads_every_page_and_evaluates_every_rule(
    prometheus: str, broker: RunningBroker, tmp_path: Path
) -> None:
    """A broker process, and the pages of the others as their processes show them; each asks for a
    token, which Prometheus has as the comment in its configuration says."""
    by_title = metrics_document.registries()
    # A mirror's job is commented out: most sites run none.
    registries = [one for title, one in by_title.items() if not title.startswith("Mirror")]
    pages = [
        MetricsServer("127.0.0.1", 0, one, page_token=TOKEN)
        for one in [*registries, edge_meters().registry]
    ]
    jobs = ("streams", "dispatcher", "watch", "edge")
    targets = {
        "broker": broker.metrics_port,
        **{j: p.port for j, p in zip(jobs, pages, strict=True)},
    }
    (tmp_path / "prometheus").mkdir()
    server = RealPrometheus(prometheus, tmp_path / "prometheus", targets)
    try:
        found = server.until(
            "/api/v1/targets",
            lambda data: [t["health"] for t in data["activeTargets"]] == ["up"] * len(targets),
        )
        assert {target["labels"]["job"] for target in found["activeTargets"]} == set(targets)
        rules = server.until(
            "/api/v1/rules",
            lambda data: all(
                rule["health"] == "ok" for group in data["groups"] for rule in group["rules"]
            ),
        )
        read = [rule["name"] for group in rules["groups"] for rule in group["rules"]]
        assert sorted(read) == sorted(names_of_rules())
        works = server.until(
            "/api/v1/query?query=databus_dispatcher_works", lambda data: bool(data["result"])
        )
        assert works["result"][0]["value"][1] == "0"
    finally:
        server.process.terminate()
        server.process.wait(30)
        for page in pages:
            page.close()
