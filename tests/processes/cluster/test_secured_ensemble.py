"""A secured cluster on our own ZooKeeper: nobody reaches the ensemble but with the site's
certificates, and `secure check` says so."""

from __future__ import annotations

import contextlib
import json
import random
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from deploy.servers.process import free_port
from tests.processes.cluster.test_cli import Words, all_registered

pytestmark = [pytest.mark.slow, pytest.mark.java, pytest.mark.timeout(900)]
ANSWER_S = 60.0


def ensemble_is_closed(address: str, folder: Path) -> None:
    """Without a certificate nobody is let in; the console's reads, but for users, and removes
    nothing, in the root neither."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), ANSWER_S) as plain, contextlib.suppress(ConnectionError):
        plain.sendall(b"ruok")
        assert b"imok" not in plain.recv(16)
    context = ssl.create_default_context(cafile=folder / "authority" / "ca.pem")
    context.maximum_version = ssl.TLSVersion.TLSv1_2  # of 1.3 a client learns it later
    with pytest.raises(OSError, match=r"CERT|HANDSHAKE|reset|EOF"):  # noqa: SIM117
        with socket.create_connection((host, int(port)), ANSWER_S) as nobody:
            context.wrap_socket(nobody, server_hostname=host)
    with consoles_client(address, folder) as client:
        assert set(client.get_children("/brokers/ids")) == {"1", "2", "3"}
        with pytest.raises(NoAuthError):
            client.get("/config/users")
        with pytest.raises(NoAuthError):
            client.delete("/controller")
        with pytest.raises(NoAuthError):
            client.set("/controller_epoch", b"9")


@contextlib.contextmanager
def consoles_client(address: str, folder: Path) -> Iterator[KazooClient]:
    """A connection with the console's certificate."""
    store = str(folder / "zookeeper" / "console.pem")
    client = KazooClient(address, use_ssl=True, ca=str(folder / "authority" / "ca.pem"), certfile=store,
                         keyfile=store, check_hostname=True)  # fmt: skip
    client.start(ANSWER_S)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def may_be_changed_by_everybody(address: str, folder: Path, path: str) -> bool:
    """Whether the node's ACL says so."""
    with consoles_client(address, folder) as client:
        acls, _ = client.get_acls(path)
    return any(one.id.scheme == "world" and "ALL" in one.acl_list for one in acls)


def brokers_registered(rows: list[dict[str, Any]]) -> bool:
    """ZooKeeper's own row says nothing of that."""
    return all_registered([row for row in rows if row["name"].startswith("broker-")])


def test_a_secured_cluster_has_a_closed_ensemble_and_check_is_silent_about_it(
    tmp_path: Path, dice: random.Random
) -> None:
    words = Words(tmp_path / "data", dice)
    folder, port = tmp_path / "data" / "secure", free_port()
    made = words.say("secure", "init", "--json")
    assert made.returncode == 0, made.stderr
    secured = [f"--set=security.folder={folder}", f"--set=bus.bootstrap_servers={words.bootstrap}"]
    options = [*words.options, "--controller=zookeeper", f"--zookeeper-port={port}"]
    started = words.say(*secured, "cluster", "up", *options, "--detach")
    try:
        assert started.returncode == 0, started.stderr
        words.options = [*words.options, "--controller=zookeeper"]
        words.secured = secured
        words.wait_for(brokers_registered, "the brokers are registered")
        ensemble = f"127.0.0.1:{port}"
        ensemble_is_closed(ensemble, folder)
        for state in ("unsecure", "secure"):  # with this machine's broker's certificate
            done = words.say(*secured, f"--set=broker.zookeeper.connect={ensemble}", "broker",
                             "zookeeper-acls", state)  # fmt: skip
            assert done.returncode == 0, done.stderr
            is_open = may_be_changed_by_everybody(ensemble, folder, "/brokers/topics")
            assert is_open is (state == "unsecure")
        ensemble_is_closed(ensemble, folder)
        checked = words.say(*secured, "secure", "check", "--json")
        assert checked.returncode in (0, 1), checked.stderr
        found = json.loads(checked.stdout)
        assert "broker 1" not in checked.stdout, found
        assert "open-zookeeper" not in checked.stdout
        opened = words.say(*secured, "--set=broker.zookeeper.connect=a:2181",
                           "--set=broker.zookeeper.set.acl=false", "--set=bus.bootstrap_servers=127.0.0.1:9",
                           "secure", "check", "--json")  # fmt: skip
        assert "open-zookeeper" in opened.stdout
    finally:
        assert words.say(*secured, "cluster", "down").stdout == "stopped\n"
