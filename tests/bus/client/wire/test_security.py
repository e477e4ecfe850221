"""Security of the wire client: what the operator's keys mean, and what is refused."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from bus.client.wire.security import NO_SECURITY, wire_security
from bus.errors import BusError, ErrorCode
from tests.tls_files import TlsFiles

LOGIN = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "city", "sasl.password": "secret"}

OIDC = {
    "security.protocol": "sasl_plaintext", "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc", "sasl.oauthbearer.client.id": "camera-7",
    "sasl.oauthbearer.client.secret": "planted-secret",
    "sasl.oauthbearer.token.endpoint.url": "https://tokens/token",
}  # fmt: skip


def test_without_a_protocol_connections_are_as_they_are():
    """As librdkafka, which then looks at no other key either."""
    assert wire_security({}) is NO_SECURITY
    assert wire_security({"socket.timeout.ms": "9", **LOGIN}) is NO_SECURITY


def test_a_login_without_tls_and_tls_without_a_login():
    """Keys of what the protocol lacks are not looked at."""
    found = wire_security({"security.protocol": "SASL_PLAINTEXT", **LOGIN, "ssl.crl.location": "x"})
    assert found.tls is None
    assert found.login is not None
    assert (found.login.mechanism, found.login.user) == ("SCRAM-SHA-512", "city")
    found = wire_security({"security.protocol": "ssl", **LOGIN})
    assert found.login is None
    assert found.tls is not None
    assert found.tls.check_hostname
    assert found.tls.verify_mode is ssl.CERT_REQUIRED


def test_checks_are_left_out_only_where_the_operator_says_so():
    """The two keys of librdkafka."""
    keys = {"security.protocol": "ssl"}
    named = wire_security({**keys, "ssl.endpoint.identification.algorithm": "none"}).tls
    assert named is not None
    assert not named.check_hostname
    assert named.verify_mode is ssl.CERT_REQUIRED
    blind = wire_security({**keys, "enable.ssl.certificate.verification": "false"}).tls
    assert blind is not None
    assert blind.verify_mode is ssl.CERT_NONE


def test_files_are_read_and_those_that_cannot_be_are_named(tmp_path: Path):
    """Authority, certificate and key."""
    tls = TlsFiles(tmp_path)
    certificate, key = tls.signed("client")
    keys = {
        "security.protocol": "ssl", "ssl.ca.location": str(tls.authority),
        "ssl.certificate.location": str(certificate), "ssl.key.location": str(key),
    }  # fmt: skip
    assert wire_security(keys).tls is not None
    with pytest.raises(BusError, match=r"nowhere\.pem") as refused:
        wire_security({**keys, "ssl.ca.location": str(tmp_path / "nowhere.pem")})
    assert refused.value.code is ErrorCode.SECURITY_DISABLED
    (tmp_path / "broken.pem").write_text("no key")
    with pytest.raises(BusError, match=r"broken\.pem"):
        wire_security({**keys, "ssl.key.location": str(tmp_path / "broken.pem")})


def test_a_login_by_tokens_is_in_the_clients_name_and_shows_no_secret(tmp_path: Path):
    """Both names that librdkafka has for the client are taken."""
    authority = str(TlsFiles(tmp_path).authority)
    found = wire_security({**OIDC, "https.ca.location": authority}).login
    assert found is not None
    assert (found.mechanism, found.user) == ("OAUTHBEARER", "camera-7")
    assert found.tokens is not None
    assert not found.tokens.is_prepared
    assert "planted-secret" not in repr(found)
    other = {**OIDC, "sasl.oauthbearer.client.credentials.client.id": "camera-8"}
    again = wire_security(other).login
    assert again is not None
    assert again.user == "camera-8"


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"security.protocol": "tls"}, "'tls' is none of"),
        ({"security.protocol": "sasl_plaintext", "sasl.mechanism": "NTLM"}, "NTLM: our own client has PLAIN"),
        ({"security.protocol": "sasl_plaintext", "sasl.kerberos.keytab": "k"}, "needs sasl.kerberos.principal"),
        ({"security.protocol": "sasl_ssl", "sasl.mechanism": "OAUTHBEARER"}, "method = oidc"),
        ({**OIDC, "sasl.oauthbearer.method": "default"}, "method = oidc"),
        ({**OIDC, "sasl.oauthbearer.token.endpoint.url": "http://t/"}, "must be https://"),
        ({**OIDC, "sasl.oauthbearer.client.secret": ""}, r"client\.secret"),
        ({**OIDC, "sasl.oauthbearer.grant.type": "x"}, "only client_credentials"),
        ({**OIDC, "https.ca.location": "/nowhere.pem"}, r"https\.ca\.location"),
        ({**OIDC, "sasl.oauthbearer.extensions": "a=b"}, r"sasl\.oauthbearer\.extensions"),
        ({"security.protocol": "sasl_ssl", "sasl.mechanism": "PLAIN"}, "needs sasl.username"),
        ({"security.protocol": "ssl", "ssl.keystore.location": "k"}, "ssl.keystore.location"),
        ({"security.protocol": "sasl_ssl", **LOGIN, "sasl.kerberos.keytab": "k"}, "kerberos"),
    ],
)
def test_what_our_client_cannot_do_is_refused_by_its_key(keys: dict[str, str], words: str):
    """Never a connection that is secured otherwise than the operator wrote."""
    with pytest.raises(BusError, match=words):
        wire_security(keys)
