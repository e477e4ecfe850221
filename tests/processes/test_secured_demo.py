"""`secure init` and `demo --secure`: the account balances, and nothing of it is open or told."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from listening import ESTABLISHED, LISTEN, sockets_of
from running_product import Demo, RunningProduct

from deploy.servers.process import free_range
from tests.processes.cluster.stories import CONTROLLERS

pytestmark = [pytest.mark.slow, pytest.mark.java, pytest.mark.timeout(900)]
API_VERSIONS = bytes.fromhex("0000000e 0012 0000 00000001 0004 74657374")
"""Of a client that believes the listener is plain."""
ANSWER_S = 60.0


class SecuredPlace(RunningProduct):
    """A demo that nobody reads or asks without a certificate or a login."""

    @property
    def flags(self) -> list[str]:
        return [*super().flags, f"broker.metrics.port={-1}"]


@pytest.fixture
def place(tmp_path: Path) -> RunningProduct:
    """With the folder of `secure init`."""
    data = tmp_path / "data"
    made = SecuredPlace(data / "demo" / "secured", data_dir=data)
    done = made.databus("secure", "init", "--passphrase", "-", "--json")
    assert done.returncode == 1, "an empty passphrase is none"
    done = made.databus("secure", "init", "--json")
    assert json.loads(done.stdout)["made"], done.stderr
    return made


def is_tls(port: int, authority: Path) -> bool:
    """Whether it answers nobody who speaks in plain, and shows a certificate of this authority."""
    with socket.create_connection(("127.0.0.1", port), ANSWER_S) as plain:
        plain.sendall(API_VERSIONS)
        with contextlib.suppress(ConnectionError):
            if plain.recv(1 << 16).startswith(b"\x00\x00"):
                return False  # the length of an answer
    context = ssl.create_default_context(cafile=authority)
    with (
        socket.create_connection(("127.0.0.1", port), ANSWER_S) as connection,
        context.wrap_socket(connection, server_hostname="127.0.0.1") as tls,
    ):
        return tls.version() in ("TLSv1.2", "TLSv1.3")


def secrets_of(folder: Path) -> dict[str, str]:
    """Every secret of the folder, with what it is of."""
    found = {}
    for path in (folder / "accounts").iterdir():
        tables: dict[str, Any] = tomllib.loads(path.read_text())
        found[tables["security"]["page_token"]] = "pages"
        if "bus" in tables:
            found[tables["bus"]["librdkafka"]["sasl.password"]] = path.stem
    for store in (folder / "nodes").rglob("*.pem"):
        found[store.read_text().splitlines()[1]] = store.parent.name
    return found


def processes_below(pid: int) -> Iterator[int]:
    """The process and all that it has started."""
    yield pid
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield from processes_below(int(child))


def told_by_processes(pid: int) -> str:
    """What every user of the machine reads of command lines, and root of environments."""
    texts = []
    for one in processes_below(pid):
        for name in ("cmdline", "environ"):
            with contextlib.suppress(OSError):  # it has ended
                texts.append(Path(f"/proc/{one}/{name}").read_bytes().decode(errors="replace"))
    return "\n".join(texts)


def refusals(data: Path) -> list[str]:
    """What the brokers have refused."""
    assert list(data.rglob("server.log")), "the brokers write logs; authorizer.log is made with its first line"
    logs = [path for path in data.rglob("authorizer.log*") if path.is_file()]
    return [line for path in logs for line in path.read_text().splitlines() if "Denied" in line]


@pytest.mark.rotates("secured demo")
def test_every_connection_of_a_secured_demo_is_one_of_tls_and_no_secret_is_told(
    place: RunningProduct, tmp_path: Path
) -> None:
    folder = tmp_path / "data" / "secure"
    secrets = secrets_of(folder)
    with Demo(place, "--secure", "--rate", "100") as demo:
        demo.runs()
        sockets = sockets_of(place.role("broker")["pid"])
        listening = {one.port for one in sockets if one.state == LISTEN}
        assert place.broker in listening
        assert len(listening) == 2, "one for clients, one for brokers"
        for port in listening:
            assert is_tls(port, folder / "authority" / "ca.pem"), port
        connected = [one for one in sockets if one.state == ESTABLISHED]
        assert len(connected) > 5, "the whole product is connected"
        assert {one.port for one in connected if one.port in listening} == {place.broker}
        told = told_by_processes(demo.process.pid)
        assert "deploy" in told
        assert [of for secret, of in secrets.items() if secret in told] == []
        backup = place.databus("--set", f"site.data_dir={place.folder}", "--set",
                               f"security.folder={folder}", "backup", str(tmp_path / "backup"))  # fmt: skip
        assert backup.returncode == 0, backup.stderr
        account = demo.ctrl_c()
    assert sum(flow["arrived"] for flow in account["flows"]) > 500
    assert refusals(place.folder) == []
    logs = "\n".join(path.read_text(errors="replace") for path in place.folder.rglob("*.log"))
    saved = "\n".join(p.read_bytes().decode(errors="replace") for p in (tmp_path / "backup").rglob("*") if p.is_file())
    assert "ready" in logs
    assert saved
    assert [of for secret, of in secrets.items() if secret in logs or secret in saved] == []


@pytest.mark.rotates("controller of a secured demo")
@pytest.mark.parametrize("controller", CONTROLLERS)
def test_a_secured_demo_on_three_brokers_balances_and_nobody_is_refused(controller: str, tmp_path: Path) -> None:
    data, port = tmp_path / "data", free_range(60)
    folder = data / "demo" / f"{controller}-3-secured"
    place = RunningProduct(folder, data_dir=data, broker=port, edge=port + 40, console=port + 41)
    made = place.databus("secure", "init", "--json")
    assert made.returncode == 0, made.stderr
    words = ["--secure", "--brokers=3", f"--controller={controller}", f"--port={port}"]
    with Demo(place, *words, f"--zookeeper-port={port + 42}", "--rate=100") as demo:
        demo.runs()
        account = demo.ctrl_c()
    assert sum(flow["arrived"] for flow in account["flows"]) > 500
    assert refusals(data) == []
