"""Reads the znodes of a cluster on ZooKeeper as a tree, by kazoo; blocks, so it runs in a thread.

Reads at most MAX_ZNODES nodes and sets no watch.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoAuthError, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from monitor.cluster.tree import MAX_VALUE_CHARACTERS, NEWEST, Tree

MAX_ZNODES = 20_000
"""Each is two requests; more would take longer than an operator waits."""

CONNECT_S = 3.0
VALUE = "="
"""The name under which a node's own value stands beside its children."""

HIDDEN = "***"
"""In the place of what is for brokers alone: users, their settings, tokens."""

_SKIPPED = frozenset({"/zookeeper"})


@dataclass(frozen=True, slots=True)
class EnsembleTlsFiles:
    """Of PEM: the certificate that is shown, with its key, and who signs the ensemble's. Without an
    authority there is no TLS."""

    certificate: str = ""
    authority: str = ""


PLAIN = EnsembleTlsFiles()


class ZooKeeperUnavailable(Exception):
    """The ensemble does not answer; the text says which."""


class ZnodeReader:
    """One session, opened at the first look and again after a loss."""

    def __init__(self, hosts: str, tls: EnsembleTlsFiles = PLAIN) -> None:
        self._hosts, self._tls = hosts, tls
        self._client: KazooClient | None = None

    def read(self) -> tuple[Tree, list[dict[str, Any]]]:
        """The whole tree, and the newest changes first. Raises ZooKeeperUnavailable."""
        try:
            client = self._connected()
            found: list[dict[str, Any]] = []
            tree = _walk(client, "/", found)
        except (KazooException, KazooTimeoutError) as error:
            self.close()
            raise ZooKeeperUnavailable(f"{self._hosts}: {type(error).__name__} {error}") from error
        found.sort(key=lambda row: -int(row["offset"]))
        return tree, found[:NEWEST]

    def controller_epoch(self) -> int:
        """What `/controller_epoch` says; -1 while there is none."""
        try:
            return int(self._connected().get("/controller_epoch")[0])
        except NoNodeError:
            return -1
        except (KazooException, KazooTimeoutError, ValueError) as error:
            self.close()
            raise ZooKeeperUnavailable(f"{self._hosts}: {type(error).__name__} {error}") from error

    def close(self) -> None:
        """End the session."""
        if self._client is not None:
            self._client.stop()
            self._client.close()
        self._client = None

    def _connected(self) -> KazooClient:
        if self._client is None:
            tls = self._tls
            client = KazooClient(
                self._hosts, timeout=CONNECT_S * 2, read_only=True, use_ssl=bool(tls.authority),
                ca=tls.authority or None, certfile=tls.certificate or None,
                keyfile=tls.certificate or None, check_hostname=bool(tls.authority),
            )  # fmt: skip
            client.start(timeout=CONNECT_S)
            self._client = client
        return self._client


def _walk(client: KazooClient, path: str, found: list[dict[str, Any]]) -> Any:
    if len(found) >= MAX_ZNODES:
        return "…"
    try:
        data, stat = client.get(path)
        children = client.get_children(path)
    except NoNodeError:
        return None  # went while we looked
    except NoAuthError:
        return HIDDEN
    value = _value(data)
    if data or not children:  # a mere parent says nothing
        found.append(_row(path, stat, value))
    if not children:
        return value
    tree: Tree = {} if value in (None, "") else {VALUE: value}
    for name in sorted(children, key=lambda one: (not one.isdecimal(), int(one)
                                                  if one.isdecimal() else 0, one)):  # fmt: skip
        below = f"{path.rstrip('/')}/{name}"
        if below not in _SKIPPED:
            tree[name] = _walk(client, below, found)
    return tree


def _value(data: bytes) -> Any:
    if not data:
        return None
    try:
        return json.loads(data)
    except ValueError:
        return data.decode("utf-8", "replace")


def _row(path: str, stat: Any, value: Any) -> dict[str, Any]:
    text = json.dumps(value, ensure_ascii=False) if value is not None else ""
    return {
        "id": path,
        "offset": stat.mzxid,
        "epoch": stat.version,
        "at_ms": stat.mtime,
        "kind": path,
        "value": text[:MAX_VALUE_CHARACTERS],
    }
