"""Who came without TLS lately is told, as long as anybody may want to know."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from broker.network.limits import MAX_PLAIN_CLIENTS
from broker.network.plain_clients import MOST_CHARACTERS, PlainClients
from broker.security.security_protocol import SecurityProtocol
from broker.security.session import Session


@dataclass(eq=False)
class AnyConnection:
    """What is asked of a connection."""

    client_id: str | None
    last_active: float = 0.0
    host: str = "10.0.0.1"
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    session: Session = field(init=False)

    def __post_init__(self) -> None:
        self.session = Session(self.host, "PLAINTEXT", self.protocol, client_id=self.client_id)


class Watched:
    """Connections that open and close."""

    def __init__(self) -> None:
        self.now = 100.0
        self.open: list[AnyConnection] = []
        self.clients = PlainClients(lambda: self.now, lambda: self.open)  # type: ignore[arg-type,return-value]

    def close(self, connection: AnyConnection) -> None:
        self.clients.on_closed(connection)  # type: ignore[arg-type]

    def told(self) -> dict[str, float]:
        return {one["client_id"]: one["age_s"] for one in json.loads(self.clients.page())["clients"]}


def test_an_open_connection_is_as_old_as_its_newest_request_and_a_closed_one_too() -> None:
    watched = Watched()
    gone, here = AnyConnection("gone", 101.0), AnyConnection("here", 102.0)
    watched.open = [gone, here]
    watched.now = 110.0
    assert watched.told() == {"gone": 9.0, "here": 8.0}
    watched.open.remove(gone)
    watched.close(gone)
    here.last_active = watched.now = 120.0
    assert watched.told() == {"gone": 19.0, "here": 0.0}
    assert json.loads(watched.clients.page())["watched_s"] == 20.0


def test_of_several_connections_of_a_client_the_newest_counts_in_whatever_order_they_close() -> None:
    watched = Watched()
    old, new = AnyConnection("one", 101.0), AnyConnection("one", 105.0)
    watched.now = 106.0
    watched.close(new)
    watched.close(old)
    assert watched.told() == {"one": 1.0}


def test_clients_with_tls_and_probes_that_ask_nothing_are_not_told() -> None:
    watched = Watched()
    watched.open = [AnyConnection("safe", protocol=SecurityProtocol.SASL_SSL), AnyConnection(None)]
    for one in watched.open:
        watched.close(one)
    assert watched.told() == {}


def test_many_clients_with_long_names_take_a_bounded_place_and_the_newest_stay() -> None:
    watched = Watched()
    for number in range(2 * MAX_PLAIN_CLIENTS):
        watched.close(AnyConnection(f"{number:06d}" + "x" * 30_000))
    told = watched.told()
    assert len(told) == MAX_PLAIN_CLIENTS
    assert {len(name) for name in told} == {MOST_CHARACTERS}
    assert {name[:6] for name in told} == {f"{n:06d}" for n in range(MAX_PLAIN_CLIENTS, 2 * MAX_PLAIN_CLIENTS)}
