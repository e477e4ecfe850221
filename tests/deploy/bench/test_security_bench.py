"""The figures of `bench security`, and the clients of its logins."""

from __future__ import annotations

from bus.security.sasl_server import SCRAM_BY_TITLE, ScramExchange, credential_of_salted, salted
from deploy.bench.report import FIGURES
from deploy.bench.security import measure
from deploy.bench.security.new_connections import MECHANISM, PASSWORD, USER, keyed_login


def test_each_figure_is_measured_by_something() -> None:
    measured = [name for names, _ in measure._RUNS for name in names] + [measure.ACLS, measure.ALARM]
    assert sorted(measured) == sorted(name for name in FIGURES if name.startswith(measure.PREFIX))


def test_a_client_with_keys_derived_once_is_let_in_each_time() -> None:
    scram, salt = SCRAM_BY_TITLE[MECHANISM], b"salt of the bench"
    kept = credential_of_salted(scram, salt, salted(scram, PASSWORD, salt, 4096), 4096)
    for number in range(3):
        server = ScramExchange(scram, {USER: kept}.get, f"nonce{number}", b"secret")
        client = keyed_login().begin()
        final = client.answer(server.answer(client.first()))
        assert final is not None
        assert client.answer(server.answer(final)) is None
        assert server.user == USER
