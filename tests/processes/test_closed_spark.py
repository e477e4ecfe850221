"""Drivers of a secured site, on one machine and on a Spark cluster: neither the site's secrets nor Spark's own stand on
a page of Spark, in its event log, on a command line, in an environment, or in a file beside those that hold them."""

from __future__ import annotations

import base64
import hmac
import json
import re
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from urllib.parse import urldefrag, urljoin

import httpx
import psutil
import pytest

from broker.config.properties import read_properties
from deploy.distributed.layout import SparkPlan
from deploy.distributed.spark import spark_processes
from deploy.distributed.spark_key_files import PAGE_KEY, SparkKeyFiles
from deploy.paths import PROJECT_ROOT
from deploy.secure.layout import IN_FORCE
from deploy.servers.process import free_port, free_range
from deploy.settings.composed import load
from deploy.supervisor.child import Child
from tests.processes.test_secured_site import SECRET_FILES, PlantedSite
from tests.spark_apps.conftest import DriverProcess

pytestmark = [pytest.mark.slow, pytest.mark.java, pytest.mark.timeout(1200)]

RULE, PLATE = "planted", "浙C00001"
CLUSTER_FILES = ("cluster.conf", "cluster.credentials", "watchlist.json")
"""In the folder of the cluster: where secrets belong."""
MAX_PAGES = 150
ANSWER_S = 240.0
DRIVER_READY_S = 600.0  # of a machine that runs other tests as well
LINK = re.compile(r'(?:href|src)="([^"]+)"')
REST = ("", "/environment", "/jobs", "/stages?details=true", "/allexecutors", "/storage/rdd",
        "/sql?details=true&planDescription=true&length=200", "/executors/driver/threads")  # fmt: skip


class SparkSite(PlantedSite):
    """A secured site with Spark's pages and event log switched on."""

    start_driver: Callable[[], None]

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.keys = SparkKeyFiles(folder / "var" / "spark")
        self.events = folder / "events"
        self.events.mkdir()
        self.page_ports = [free_port()]
        self.words = [
            "--set", "streams.conf.spark.ui.enabled=true", "--set", "streams.metrics_port=0",
            "--set", f"streams.conf.spark.ui.port={self.page_ports[0]}",
            "--set", "streams.conf.spark.eventLog.enabled=true",
            "--set", "streams.conf.spark.eventLog.compress=false",  # nothing is found in what is packed
            "--set", f"streams.conf.spark.eventLog.dir=file://{self.events}",
            "--set", f"streams.properties_file={self.keys.properties}",
            "--set", 'streams.applications=["watchlist"]',
        ]  # fmt: skip
        self.driver = "streams"

    def start_on_one_machine(self) -> None:
        """The driver as a role."""
        self.keys.make()
        self.start_driver = partial(self.start, "streams", *self.words)

    def start_on_a_cluster(self) -> None:
        """A master, a worker, and the driver of the watch list, whose executors read and publish."""
        plan = SparkPlan(self.keys.home, free_range(8), 1)
        self.page_ports += [plan.first_port + 1, plan.port_of(0) + 1]
        words = ["--set", f"streams.master={plan.master}", "--set", "streams.work_in=executors"]
        flags = [word for word in (*self.words, *words) if word != "--set"]
        settings = load(str(self.config), flags, environment={})
        children = {child.name: child for child in spark_processes(settings, plan)}
        for name in ("spark-master", "spark-worker-1"):
            self.start_child(children[name])
            endpoint = children[name].endpoint
            assert endpoint is not None
            self.until(endpoint.accepts_connections, f"{name} is not there", DRIVER_READY_S)
        self.driver = "streams-watchlist"
        self.start_driver = partial(self.start_child, children[self.driver])

    def start_child(self, child: Child) -> None:
        """As the supervisor does."""
        with self.log_path(child.name).open("ab") as log:
            self.running[child.name] = subprocess.Popen(
                child.command, cwd=PROJECT_ROOT, env=child.environment, stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def is_ready(self) -> bool:
        """Whether the driver works; one that has ended is started again, as the supervisor does."""
        process = self.running.get(self.driver)
        if process is None or process.poll() is not None:
            self.start_driver()
        return "streams: ready" in self.log(self.driver)

    def stop(self) -> None:
        """Drivers first, and each with what it has started."""
        for process in reversed(self.running.values()):
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
        self.end()


@pytest.fixture(scope="module", params=["one machine", "a Spark cluster"])
def site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkSite]:
    """A record has been met by a rule."""
    site = SparkSite(tmp_path_factory.mktemp("closed-spark"))
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("SPARK_LOCAL_DIRS", str(site.folder / "local"))
        try:
            site.start("broker")
            site.until(lambda: IN_FORCE in site.log("broker"), "users and rights are not in force")
            is_cluster = request.param == "a Spark cluster"
            if is_cluster:
                site.start_on_a_cluster()
            else:
                site.start_on_one_machine()
            site.until(site.is_ready, "the driver is not ready", DRIVER_READY_S)
            meet_a_rule(site)
            site.markers |= {
                f"Spark's {key}": value
                for key, value in read_properties(site.keys.properties.read_text("ascii")).items()
                if key in ("spark.authenticate.secret", PAGE_KEY)
            }
            yield site
        finally:
            site.stop()


def meet_a_rule(site: SparkSite) -> None:
    (site.folder / "city").mkdir()
    city = DriverProcess(site.settings.bus, site.folder / "city", ())
    try:
        city.put_rule(RULE, PLATE)
        city.send_vehicle(7, PLATE)
        city.flush()
        city.until(partial(is_met, city), True)
    finally:
        city.close()


def is_met(city: DriverProcess) -> bool:
    return (RULE, "id-7") in city.candidates()


def page_token(site: SparkSite) -> str:
    """A token as Spark's filter asks for it: JSON, signed with the key of the pages."""
    key = base64.urlsafe_b64decode(site.markers[f"Spark's {PAGE_KEY}"] + "=")
    words = [base64.urlsafe_b64encode(part).rstrip(b"=") for part in (b'{"alg":"HS256"}', b"{}")]
    signature = base64.urlsafe_b64encode(hmac.digest(key, b".".join(words), "sha256")).rstrip(b"=")
    return b".".join([*words, signature]).decode()


def pages(client: httpx.Client, url: str) -> Iterator[httpx.Response]:
    """What can be reached by links from its first page, and by the REST API."""
    wanted, known = [url], {url}
    listed = client.get(f"{url}/api/v1/applications")
    if listed.is_success and listed.headers["content-type"].startswith("application/json"):
        [one] = listed.json()
        wanted += [f"{url}/api/v1/applications/{one['id']}{path}" for path in REST]
    while wanted and len(known) < MAX_PAGES:
        answer = client.get(wanted.pop(0))
        yield answer
        if "html" in answer.headers.get("content-type", ""):
            links = {urldefrag(urljoin(str(answer.url), one))[0] for one in LINK.findall(answer.text)}
            fresh = sorted(one for one in links - known if one.startswith(f"{url}/") and "kill" not in one)
            known.update(fresh)
            wanted += fresh


def test_every_page_of_spark_asks_for_a_token_and_shows_no_secret(site: SparkSite) -> None:
    texts = []
    for port in site.page_ports:
        url = f"http://127.0.0.1:{port}"
        with httpx.Client(timeout=ANSWER_S, trust_env=False, follow_redirects=True) as client:
            for path in ("/", "/environment/", "/api/v1/applications", "/json/", "/metrics/json/"):
                refused = client.get(url + path)
                assert refused.status_code == 403, (url, path)
                assert site.found_in(refused.content) == []
        headers = {"authorization": f"Bearer {page_token(site)}"}
        with httpx.Client(timeout=ANSWER_S, trust_env=False, follow_redirects=True, headers=headers) as client:
            for answer in pages(client, url):
                assert site.found_in(answer.content) == [], answer.url
                texts.append(answer.text)
    everything = "\n".join(texts)
    assert len(texts) > 15
    assert "spark.redaction.regex" in everything, "the page of the environment was not among them"
    assert "*********(redacted)" in everything
    assert "mapInArrow" in everything or "MapInArrow" in everything or len(site.page_ports) == 1


def test_the_master_listens_nowhere_but_where_it_asks(site: SparkSite) -> None:
    """What broke: Spark's server of submissions, which asks for no secret, was there as well."""
    if "spark-master" not in site.running:
        return  # a driver alone takes no applications
    master = psutil.Process(site.running["spark-master"].pid)
    listening = {one.laddr.port for one in master.net_connections("tcp") if one.status == psutil.CONN_LISTEN}
    pages = site.page_ports[1]
    assert listening == {pages - 1, pages}


def test_no_secret_is_on_a_command_line_or_in_an_environment_of_spark(site: SparkSite) -> None:
    leaks, commands = [], []
    for name, process in site.running.items():
        root = psutil.Process(process.pid)
        # A worker's threads have started its executors: they are not children of the first thread.
        for pid in (one.pid for one in (root, *root.children(recursive=True))):
            for file in ("cmdline", "environ"):
                try:
                    text = Path(f"/proc/{pid}/{file}").read_bytes()
                except OSError:
                    continue  # it has ended meanwhile
                leaks.append(((name, pid, file), site.found_in(text)))
                commands.append(text)
    assert [one for one in leaks if one[1]] == []
    said = b"".join(commands)
    assert b"org.apache.spark.deploy.SparkSubmit" in said
    assert (b"CoarseGrainedExecutorBackend" in said) == ("spark-worker-1" in site.running)


def test_no_secret_is_in_an_event_log_or_another_file_of_spark(site: SparkSite) -> None:
    """Logs, folders of workers, what is put on disks beside memory."""
    held, leaks, events = b"", [], b""
    for path in sorted(site.folder.rglob("*")):
        if not path.is_file() or set(SECRET_FILES) & set(path.relative_to(site.folder).parts):
            continue
        content = path.read_bytes()
        if path.parent == site.keys.home and path.name in CLUSTER_FILES:
            assert path.stat().st_mode & 0o777 == 0o600, path
            held += content
        elif path.parent != site.folder / "city":
            leaks.append((path, site.found_in(content)))
            events += content if site.events in path.parents else b""
    assert [one for one in leaks if one[1]] == []
    kinds = {json.loads(line)["Event"] for line in events.splitlines() if line.startswith(b"{")}
    assert {"SparkListenerEnvironmentUpdate", "SparkListenerJobStart"} <= kinds
    assert any(kind.endswith("SparkListenerSQLExecutionStart") for kind in kinds)
    found = site.found_in(held)
    assert {"Spark's spark.authenticate.secret", f"Spark's {PAGE_KEY}"} <= set(found)
    assert ("password of streams" in found) == ("spark-worker-1" in site.running)
