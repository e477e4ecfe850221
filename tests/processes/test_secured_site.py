"""A secured site with a secret of its own in every place that takes one: the secrets stand nowhere, every page asks
for the token, and `secure check` finds no door until one is opened."""

from __future__ import annotations

import json
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from msgspec import inspect

from bus.client.admin import commands
from bus.client.wire.sync_client import SyncClient
from bus.contracts.access import OPERATOR
from bus.protocol.acls import AclBinding, Operation, Pattern, Permission, Resource
from deploy.paths import PROJECT_ROOT
from deploy.secure.account_settings import as_account
from deploy.secure.init import init, own_places
from deploy.secure.layout import IN_FORCE
from deploy.servers.process import free_range
from deploy.settings.composed import SECTION_CLASSES, load
from deploy.settings.secret_fields import is_secret, section_type

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

READY_S = 120.0
COMMAND_S = 120.0
OTHERS = ("edge", "dispatcher", "console", "watch")
JAAS = 'a.PlainLoginModule required username="node" password="{0}" user_node="{0}";'
SECRET_FILES = ("databus.toml", "secure", "wrong", "passphrase")
"""Where secrets belong."""


def new_marker(where: str) -> str:
    """A secret that stands nowhere else in the world."""
    return f"planted-{where.replace('.', '-').replace('_', '-')}-{secrets.token_hex(12)}"


def planted_tables(markers: dict[str, str]) -> str:
    """Every setting that is marked as a secret, as a settings file has it."""
    lines = []
    for section, cls in SECTION_CLASSES.items():
        lines.append(f"[{section}]")
        for field in section_type(cls).fields:
            kind, name = field.type, f"{section}.{field.name}"
            is_table = isinstance(kind, inspect.DictType)
            if isinstance(kind, inspect.DictType):
                kind = kind.value_type
            if not is_secret(kind) or section == "bus":  # the bus's is the account's
                continue
            markers[name] = marker = new_marker(name)
            url = f'"http://127.0.0.1:1/{marker}"'
            lines.append(f"{field.name} = {f'{{planted = {url}}}' if is_table else url}")
    return "\n".join(lines)


class PlantedSite:
    """One machine of a secured site, its processes started as a supervisor would."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.markers: dict[str, str] = {}
        port = free_range(12)
        self.bootstrap = f"127.0.0.1:{port}"
        self.ports = {
            "broker": port + 2, "edge": port + 5, "dispatcher": port + 6, "console": port + 7, "watch": port + 8,
        }  # fmt: skip
        self.config = folder / "databus.toml"
        passphrase = self.markers["passphrase"] = new_marker("passphrase")
        init(folder / "var" / "secure", site="main", brokers=1, places=own_places(), passphrase=passphrase)
        self._write_settings()
        self.settings = as_account(load(str(self.config), environment={}), OPERATOR)
        self.token = self.settings.security.page_token
        self.markers |= {"page token": self.token}
        for path in (folder / "var" / "secure" / "accounts").iterdir():
            table = path.read_text(encoding="utf-8").partition('"sasl.password" = ')[2]
            if table:
                self.markers[f"password of {path.stem}"] = json.loads(table.splitlines()[0])
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def _write_settings(self) -> None:
        text = planted_tables(self.markers)
        more = {
            "site": f'data_dir = "{self.folder / "var"}"\n',
            "bus": f'bootstrap_servers = "{self.bootstrap}"\n',
            "security": 'folder = "secure"\n',
            "edge": f"port = {self.ports['edge']}\nspool_min_free_bytes = 0\n",
            "dispatcher": f"metrics_port = {self.ports['dispatcher']}\n",
            "console": f"port = {self.ports['console']}\n",
            "watch": f"metrics_port = {self.ports['watch']}\naway_s = 1\nprobe_interval_s = 0.5\n",
            "notices": '[notices.recipients.north]\nincidents = true\nwebhook_url = "http://127.0.0.1:1/{}"\n'
            'webhook_secret = "{}"\n',
        }  # fmt: skip
        hook, signing = new_marker("recipient-webhook"), new_marker("recipient-secret")
        self.markers |= {"recipient's webhook": hook, "recipient's secret": signing}
        for section, lines in more.items():
            head = f"[{section}]\n"
            text = text + "\n" if text.endswith("]") else text
            if section == "notices":
                text = f"{text}\n{lines.format(hook, signing)}"
            else:
                text = text.replace(head, head + lines, 1)
        key, jaas = new_marker("key-password"), new_marker("jaas")
        self.markers |= {"broker's key password": key, "broker's jaas": jaas}
        text += (
            f'\n[broker]\nlisteners = "PLAINTEXT://{self.bootstrap}"\n"metrics.port" = {self.ports["broker"]}\n'
            '"group.initial.rebalance.delay.ms" = 0\n'
            f'"listener.name.extra.ssl.key.password" = "{key}"\n'
            f"\"listener.name.clients.plain.sasl.jaas.config\" = '{JAAS.format(jaas)}'\n"
        )
        self.config.touch(mode=0o600)
        self.config.write_text(text, encoding="utf-8")

    @property
    def command(self) -> list[str]:
        return [sys.executable, "-m", "deploy", "--config", str(self.config)]

    def start(self, role: str, *words: str, name: str = "") -> None:
        with self.log_path(name or role).open("ab") as log:
            self.running[name or role] = subprocess.Popen(
                [*self.command, *words, "run", role], cwd=PROJECT_ROOT, stdin=subprocess.DEVNULL,
                stdout=log, stderr=log,
            )  # fmt: skip

    def databus(self, *words: str, flags: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.command, *flags, *words], cwd=PROJECT_ROOT, stdin=subprocess.DEVNULL, capture_output=True,
            text=True, timeout=COMMAND_S, check=False,
        )  # fmt: skip

    def log_path(self, name: str) -> Path:
        folder = self.folder / "var" / "log"
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"{name}.log"

    def log(self, name: str) -> str:
        return self.log_path(name).read_text(encoding="utf-8", errors="replace")

    def until(self, what: Callable[[], bool], told: str, limit_s: float = READY_S) -> None:
        deadline = time.monotonic() + limit_s
        while not what():
            tails = "\n".join(f"--- {name}\n{self.log(name)[-1500:]}" for name in self.running)
            assert time.monotonic() < deadline, f"{told}\n{tails}"
            time.sleep(0.1)

    def is_well(self, role: str) -> bool:
        try:
            return httpx.get(f"http://127.0.0.1:{self.ports[role]}/healthz", timeout=5).is_success
        except httpx.HTTPError:
            return False

    def kill(self, name: str) -> None:
        process = self.running.pop(name)
        process.kill()
        process.wait(60)

    def end(self) -> None:
        for name in list(self.running):
            self.kill(name)

    def found_in(self, text: bytes) -> list[str]:
        """Which markers stand there, by where they were planted."""
        return [name for name, marker in self.markers.items() if marker.encode() in text]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlantedSite]:
    site = PlantedSite(tmp_path_factory.mktemp("planted"))
    try:
        site.start("broker")
        site.until(lambda: IN_FORCE in site.log("broker"), "users and rights are not in force")
        for role in OTHERS:
            site.start(role)
        site.until(lambda: all(map(site.is_well, OTHERS)), "not every process lives")
        yield site
    finally:
        site.end()


def descendants(pid: int) -> Iterator[int]:
    """A process and all that it has started."""
    yield pid
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    except OSError:
        return
    for child in children:
        yield from descendants(int(child))


PAGES: dict[str, tuple[str, ...]] = {
    "broker": ("/metrics",), "edge": ("/metrics", "/v1/status", "/v1/sent-again"), "dispatcher": ("/metrics",),
    "console": ("/metrics",), "watch": ("/metrics",),
}  # fmt: skip
WRONG: list[dict[str, Any]] = [
    {}, {"authorization": "Bearer wrong"}, {"authorization": "Bearer"}, {"authorization": b"Bearer \xe4\xbb\xa4"},
    {"authorization": "Bearer " + "x" * 7000},
]  # fmt: skip


@pytest.mark.parametrize("role", PAGES)
def test_every_page_of_every_process_asks_for_the_token_of_the_site(
    site: PlantedSite, role: str
) -> None:
    url = f"http://127.0.0.1:{site.ports[role]}"
    with httpx.Client(timeout=60, trust_env=False) as client:
        for path in PAGES[role]:
            for headers in WRONG:
                refused = client.get(url + path, headers=headers)
                assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
                assert site.found_in(refused.content) == []
            answer = client.get(url + path, headers={"authorization": f"Bearer {site.token}"})
            assert answer.is_success
            assert site.found_in(answer.content) == []
        assert client.get(f"{url}/healthz").content in (b"ok\n", b'{"status":"ok"}')


def test_no_door_stands_open_until_one_is_opened(site: PlantedSite) -> None:
    """On a site whose broker answers: its keys and ACLs are asked from itself."""
    closed = site.databus("secure", "check", "--json")
    assert (closed.returncode, json.loads(closed.stdout)) == (0, {"findings": [], "not_asked": []}), closed
    assert "no open door" in site.databus("secure", "check").stdout
    account = site.folder / "var" / "secure" / "accounts" / "prometheus.toml"
    account.chmod(0o640)
    site.config.chmod(0o644)
    everybody = AclBinding(
        Resource.TOPIC, "data.face", Pattern.LITERAL, "User:*", "*", Operation.READ, Permission.ALLOW
    )
    with SyncClient.of(site.settings.bus, "test") as client:
        commands.create_acls(client, [everybody])
    opened = site.databus("secure", "check", "--json")
    account.chmod(0o600)
    site.config.chmod(0o600)
    with SyncClient.of(site.settings.bus, "test") as client:
        commands.delete_acl(client, everybody)
    found = {(one["check"], one["where"]) for one in json.loads(opened.stdout)["findings"]}
    assert opened.returncode == 1
    assert found == {
        ("acl-for-everybody", "the running bus"), ("readable-secret", str(account)),
        ("readable-secret", str(site.config)),
    }  # fmt: skip
    assert site.found_in((opened.stdout + opened.stderr).encode()) == []


def test_no_secret_stands_where_it_does_not_belong(site: PlantedSite, tmp_path: Path) -> None:
    """Logs, what commands say, command lines and environments of all processes, every file beside those
    that hold them; after wrong passwords, and notices that reached nobody."""
    wrong = site.folder / "var" / "wrong"
    shutil.copytree(site.folder / "var" / "secure", wrong)
    for path in (wrong / "accounts").iterdir():
        text = path.read_text(encoding="utf-8")
        for name, marker in list(site.markers.items()):
            if name == f"password of {path.stem}":
                other = site.markers[f"wrong {name}"] = new_marker("wrong")
                text = text.replace(marker, other)
        path.write_text(text, encoding="utf-8")
    as_wrong = ("--set", f"security.folder={wrong}")
    port = free_range(1)
    site.start(
        "edge", *as_wrong, "--set", f"edge.port={port}", "--set", f"site.data_dir={tmp_path}", name="edge-wrong"
    )  # fmt: skip
    site.until(lambda: "uthentication" in site.log("edge-wrong"), "the wrong password is not told of")
    leaks: list[tuple[object, list[str]]] = []
    for name, process in site.running.items():
        for pid in descendants(process.pid):
            for file in ("cmdline", "environ"):
                leaks.append(((name, file), site.found_in(Path(f"/proc/{pid}/{file}").read_bytes())))
    site.kill("edge-wrong")
    site.kill("console")  # an incident, whose notices cannot be delivered
    site.until(lambda: "webhook" in site.log("watch"), "no notice has failed")
    site.start("console")
    said = {
        words: site.databus(*words, flags=flags)
        for words, flags in (
            (("config", "--json"), ()), (("status", "--json"), ()), (("topics", "list", "--json"), as_wrong),
            (("secure", "check", "--json"), as_wrong), (("backup", str(site.folder / "var" / "saved")), ()),
            (("configs", "get", "broker", "1", "--all"), ()),
        )
    }  # fmt: skip
    assert said["backup", str(site.folder / "var" / "saved")].returncode == 0
    assert said["topics", "list", "--json"].returncode != 0
    for words, done in said.items():
        leaks.append((words, site.found_in((done.stdout + done.stderr).encode())))
    checked = 0
    for folder in (site.folder, tmp_path):
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not set(SECRET_FILES) & set(path.relative_to(folder).parts):
                leaks.append((path, site.found_in(path.read_bytes())))
                checked += 1
    assert [one for one in leaks if one[1]] == []
    assert checked > 20
    planted = site.config.read_bytes() + b"".join(
        one.read_bytes() for one in (site.folder / "var").glob("*/accounts/*.toml")
    )
    assert set(site.found_in(planted)) == set(site.markers) - {"passphrase"}, "they are looked for in vain"
    assert len(site.markers) > 40
