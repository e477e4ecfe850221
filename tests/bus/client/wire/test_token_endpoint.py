"""Tokens of our client, from a real token service over HTTPS."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from bus.client.wire.sasl import LoginRefused
from bus.client.wire.token_endpoint import BETWEEN_FAILURES_S, TokenEndpoint, TokenRequest
from tests.tls_files import TlsFiles
from tests.token_issuer import CLIENT_ID, CLIENT_SECRET, TokenIssuer, TokenService, token_service

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    return TlsFiles(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def issuer() -> TokenIssuer:
    return TokenIssuer()


@pytest.fixture
def service(issuer: TokenIssuer, tls: TlsFiles) -> Iterator[TokenService]:
    with token_service(issuer, tls) as running:
        yield running


class AdvancedClock:
    """Monotonic seconds that the test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def endpoint(service: TokenService, tls: TlsFiles, clock: AdvancedClock, secret: str = CLIENT_SECRET) -> TokenEndpoint:
    request = TokenRequest(service.url("/token"), CLIENT_ID, secret, "bus")
    return TokenEndpoint(request, ssl.create_default_context(cafile=str(tls.authority)), clock)


def asked(service: TokenService) -> int:
    return service.asked["/token"]


def test_a_token_is_fetched_once_until_it_nears_its_end(service: TokenService, tls: TlsFiles) -> None:
    """Also where many connections are opened at once."""
    service.lifetime_s, clock = 100, AdvancedClock()
    tokens = endpoint(service, tls, clock)
    with pytest.raises(LoginRefused, match="no token has been fetched"):
        tokens.held()
    with ThreadPoolExecutor(8) as threads:
        for done in [threads.submit(tokens.prepare) for _ in range(16)]:
            done.result(60)
    assert tokens.held()
    assert asked(service) == 1
    assert service.scopes == ["bus"]
    clock.now += 79
    assert tokens.is_prepared
    clock.now += 2
    tokens.prepare()
    assert asked(service) == 2
    assert tokens.is_prepared


def test_a_token_goes_on_while_its_service_is_down_until_it_ends(service: TokenService, tls: TlsFiles) -> None:
    """The service is asked once a second at most meanwhile."""
    service.lifetime_s, clock = 100, AdvancedClock()
    tokens = endpoint(service, tls, clock)
    tokens.prepare()
    held = tokens.held()
    service.is_down = True
    clock.now += 90
    for _ in range(5):
        tokens.prepare()
    assert (tokens.held(), asked(service)) == (held, 2)
    clock.now += BETWEEN_FAILURES_S
    tokens.prepare()
    assert asked(service) == 3
    clock.now += 10
    for _ in range(5):
        with pytest.raises(ConnectionError, match="status 503"):
            tokens.prepare()
    assert asked(service) == 4
    service.is_down = False
    clock.now += BETWEEN_FAILURES_S
    tokens.prepare()
    assert tokens.is_prepared


def test_a_client_that_the_service_does_not_know_is_told_what_to_look_at(
    service: TokenService, tls: TlsFiles
) -> None:
    tokens = endpoint(service, tls, AdvancedClock(), "planted-secret")
    with pytest.raises(LoginRefused, match=r"'camera-7' no token: .* status 401; look at its id") as refused:
        tokens.prepare()
    assert "planted-secret" not in str(refused.value) + repr(tokens)


@pytest.mark.parametrize(
    "answer",
    [b"", b"garbage", b"[]", b"{}", b"[" * 100_000, b'{"access_token":7}', b'{"access_token":""}',
     b'{"access_token":"a b"}', b'{"access_token":"a\\u0001auth=Bearer b"}',
     json.dumps({"access_token": "x" * 70_000}).encode()],
)  # fmt: skip
def test_an_answer_without_a_token_is_refused(
    service: TokenService, tls: TlsFiles, answer: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "grant", lambda: answer)
    with pytest.raises(LoginRefused, match="answers with no token"):
        endpoint(service, tls, AdvancedClock()).prepare()


@pytest.mark.parametrize("expires_in", [None, "3600", True, -5, 0])
def test_a_token_of_which_nobody_says_how_long_it_lasts_is_for_one_connection(
    service: TokenService, tls: TlsFiles, expires_in: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = json.dumps({"access_token": "abc", "expires_in": expires_in}).encode()
    monkeypatch.setattr(service, "grant", lambda: given)
    tokens = endpoint(service, tls, AdvancedClock())
    for count in (1, 2):
        tokens.prepare()
        assert (tokens.held(), asked(service), tokens.is_prepared) == ("abc", count, False)


def test_a_service_that_nobody_vouches_for_gets_no_secret(service: TokenService) -> None:
    request = TokenRequest(service.url("/token"), CLIENT_ID, CLIENT_SECRET)
    with pytest.raises(ConnectionError, match="CERTIFICATE_VERIFY_FAILED"):
        TokenEndpoint(request, ssl.create_default_context()).prepare()
    assert asked(service) == 0
