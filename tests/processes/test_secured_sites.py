"""`demo --sites 2 --secure`: two sites with an authority each, a switch between them, and nothing open at either."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from listening import ESTABLISHED, LISTEN, sockets_of
from running_product import VERB_S, Demo, RunningProduct

from deploy.demo.two_sites.layout import MIRROR_PORT, SECOND_PORT
from deploy.paths import PROJECT_ROOT
from deploy.secure.secret_tables import read_tables
from deploy.servers.process import free_range
from tests.processes.test_secured_demo import is_tls, refusals, secrets_of, told_by_processes

pytestmark = [pytest.mark.slow, pytest.mark.java, pytest.mark.timeout(2400)]

BROKERS = ("broker-1", "broker-2", "broker-3")
PORTS = 260
"""Of both sites' brokers and of all that is beside them."""


@dataclass(frozen=True)
class SecuredSites(RunningProduct):
    """The demo's data directory and a range of ports; each site below has a state of its own."""

    first: int = 0

    @property
    def flags(self) -> list[str]:
        names = ("edge.port", "console.port", "streams.metrics_port", "dispatcher.metrics_port")
        others = ("watch.metrics_port", "mirror.metrics_port")
        ports = {name: self.first + 130 + at for at, name in enumerate(names)}
        ports |= {name: self.first + 140 + at for at, name in enumerate(others)}
        return [f"{name}={value}" for name, value in {"site.data_dir": self.folder, **ports}.items()]

    def site(self, name: str) -> RunningProduct:
        """`a`, `b` or `cameras`."""
        return RunningProduct(self.folder / "demo" / "sites-2" / name)

    def secure_check(self, name: str) -> dict[str, Any]:
        """What the command says at one site, with the settings of its processes."""
        done = subprocess.run(
            [sys.executable, "-m", "deploy", *self.words_of(name), "secure", "check", "--json"], cwd=PROJECT_ROOT,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=VERB_S, check=False,
        )  # fmt: skip
        assert done.stdout, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def words_of(self, name: str) -> list[str]:
        """The settings that a site's dispatcher was started with, of its command line."""
        pid = self.site(name).role("dispatcher")["pid"]
        words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        return words[words.index("deploy") + 1 : words.index("run")]


def secrets_of_site(folder: Path) -> dict[str, str]:
    """Every secret of one site's folder, those among it that the other site knows, too."""
    shared = read_tables(folder / "sites" / "pair.toml")["pair"]
    return {**secrets_of(folder), **{secret: name for name, secret in shared.items()}}


def check_sockets(place: SecuredSites, site: str, first: int) -> None:
    """That each broker listens with a certificate of its own site, but for its page, which asks for a token."""
    authority = place.site(site).folder / "secure" / "authority" / "ca.pem"
    for number, name in enumerate(BROKERS):
        port = first + 10 * number
        sockets = sockets_of(place.site(site).role(name)["pid"])
        listening = {one.port for one in sockets if one.state == LISTEN}
        clients, controller, page, brokers, mirrors = range(port, port + 5)
        assert listening == {clients, controller, page, brokers, mirrors}, (site, name)
        for each in listening - {page}:
            assert is_tls(each, authority), (site, name, each)
        assert httpx.get(f"http://127.0.0.1:{page}/metrics").status_code == httpx.codes.UNAUTHORIZED


def ports_reached(place: SecuredSites, site: str, role: str) -> set[int]:
    """The other ends of a process's connections."""
    sockets = sockets_of(place.site(site).role(role)["pid"])
    return {one.peer_port for one in sockets if one.state == ESTABLISHED}


@pytest.mark.rotates("switch of secured sites")
@pytest.mark.parametrize("words", [("--planned",), ()], ids=["planned", "forced"])
def test_two_secured_sites_balance_over_a_switch_and_nothing_of_either_is_open_or_told(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    first = free_range(PORTS)
    place = SecuredSites(tmp_path / "data", first=first)
    starts = {"a": first, "b": first + SECOND_PORT}
    options = ["--sites=2", "--secure", f"--port={first}", "--for=100s", "--rate=100", *words]
    with Demo(place, *options, started_s=1200) as demo:
        cameras = place.site("cameras")
        demo.wait_until(lambda: cameras.role("city").get("state") == "running", "both sites run")
        for site, start in starts.items():
            check_sockets(place, site, start)
        of_mirrors = {start + 10 * n + MIRROR_PORT for start in starts.values() for n in range(3)}
        reached = ports_reached(place, "b", "mirror")
        assert reached & of_mirrors == of_mirrors
        assert not [port for port in reached if first <= port < first + 130 and port not in of_mirrors]
        told = told_by_processes(demo.process.pid)
        secrets = {}
        for site in starts:
            secrets |= secrets_of_site(place.site(site).folder / "secure")
            found = place.secure_check(site)
            assert found["findings"] == []
        assert [of for secret, of in secrets.items() if secret in told] == []
        account = demo.end()
    assert account["stored_b_after_switch"] > 500
    assert refusals(place.folder) == []
    logs = "\n".join(path.read_text(errors="replace") for path in place.folder.rglob("*.log"))
    assert "mirror: ready" in logs
    assert [of for secret, of in secrets.items() if secret in logs] == []
