"""How connections of the wire client are secured: TLS, a login, both or neither.

In: keys of librdkafka, as `[bus.librdkafka]` has them. Out: `WireSecurity`. Raises BusError
SECURITY_DISABLED for what our wire client cannot do. Never: a key of security that is left out
without a word, for then it would connect otherwise than all others.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass

from bus.client.wire.kerberos_login import KerberosLogin
from bus.client.wire.sasl import MECHANISMS, SaslLogin
from bus.client.wire.token_endpoint import TokenEndpoint, TokenRequest
from bus.errors import BusError, ErrorCode
from bus.security.gssapi_sasl import GSSAPI
from bus.security.java_config import SECURITY_KEYS
from bus.security.kerberos import KerberosUnavailable
from bus.security.oidc_keys import OidcKeyError, take_oidc_keys
from bus.security.sasl_server import OAUTHBEARER

_PROTOCOLS = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
_PRINCIPAL = "sasl.kerberos.principal"
_KINIT_KEYS = ("sasl.kerberos.kinit.cmd", "sasl.kerberos.min.time.before.relogin")
_TRUE = ("true", "1", "yes", "on")


@dataclass(frozen=True, slots=True)
class WireSecurity:
    """Of every connection to one cluster."""

    tls: ssl.SSLContext | None = None
    login: SaslLogin | None = None


NO_SECURITY = WireSecurity()


def wire_security(librdkafka: Mapping[str, str]) -> WireSecurity:
    """What these keys say. Files are read. Raises BusError SECURITY_DISABLED, with the key."""
    left = {key: value for key, value in librdkafka.items() if key.startswith(SECURITY_KEYS)}
    protocol = left.pop("security.protocol", "plaintext").lower()
    if protocol not in _PROTOCOLS:
        raise _refusal(f"security.protocol {protocol!r} is none of {', '.join(_PROTOCOLS)}")
    if protocol == "plaintext":
        return NO_SECURITY  # librdkafka does not look at the other keys then
    login = _login(left) if protocol.startswith("sasl") else None
    tls = _tls(left) if protocol.endswith("ssl") else None
    for key in sorted(left):
        if (login if key.startswith("sasl") else tls) is not None:  # librdkafka looks at it, too
            raise _refusal(f"{key} is not known to our own client; remove it, or use {_TOOL}")
    return WireSecurity(tls, login)


_TOOL = "the tool of Apache Kafka with --command-config"


def _refusal(sentence: str) -> BusError:
    return BusError(ErrorCode.SECURITY_DISABLED, sentence)


def _login(left: dict[str, str]) -> SaslLogin:
    one, other = left.pop("sasl.mechanism", ""), left.pop("sasl.mechanisms", "")
    mechanism = one or other or "GSSAPI"  # librdkafka's default
    if mechanism == GSSAPI:
        return _kerberos(left)
    if mechanism not in MECHANISMS:
        known = ", ".join((*MECHANISMS, GSSAPI))
        raise _refusal(f"sasl.mechanism {mechanism}: our own client has {known}; or use {_TOOL}")
    if mechanism == OAUTHBEARER:
        return _token_login(left)
    user, password = left.pop("sasl.username", ""), left.pop("sasl.password", "")
    if not user:
        raise _refusal(f"sasl.mechanism {mechanism} needs sasl.username and sasl.password")
    return SaslLogin(mechanism, user, password)


def _kerberos(left: dict[str, str]) -> SaslLogin:
    for ignored in _KINIT_KEYS:  # our client renews tickets by itself
        left.pop(ignored, "")
    keytab, principal = left.pop("sasl.kerberos.keytab", ""), left.pop(_PRINCIPAL, "")
    service = left.pop("sasl.kerberos.service.name", "kafka")
    if keytab and not principal:
        raise _refusal(f"sasl.kerberos.keytab needs {_PRINCIPAL}, whose keys it has")
    try:
        return KerberosLogin(service, principal if keytab else "", keytab)
    except KerberosUnavailable as error:
        raise _refusal(f"sasl.mechanism {GSSAPI}: {error}") from None


def _token_login(left: dict[str, str]) -> SaslLogin:
    try:
        keys = take_oidc_keys(left)
    except OidcKeyError as error:
        raise _refusal(str(error)) from None
    try:
        context = ssl.create_default_context(
            cafile=keys.authority_file or None, cadata=keys.authority_text or None
        )
    except (OSError, ValueError) as error:
        raise _refusal(f"https.ca.location: it cannot be used: {error}") from None
    request = TokenRequest(keys.url, keys.client_id, keys.client_secret, keys.scope)
    return SaslLogin(OAUTHBEARER, keys.client_id, "", TokenEndpoint(request, context))


def _tls(left: dict[str, str]) -> ssl.SSLContext:
    authority, text = left.pop("ssl.ca.location", ""), left.pop("ssl.ca.pem", "")
    certificate, key = left.pop("ssl.certificate.location", ""), left.pop("ssl.key.location", "")
    password = left.pop("ssl.key.password", "")
    try:
        context = ssl.create_default_context(cafile=authority or None, cadata=text or None)
        if certificate:
            context.load_cert_chain(certificate, key or None, password)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        files = ", ".join(filter(None, (authority, certificate, key)))
        raise _refusal(f"ssl.…location: {files} cannot be used: {error}") from None
    if left.pop("ssl.endpoint.identification.algorithm", "https") == "none":
        context.check_hostname = False
    if left.pop("enable.ssl.certificate.verification", "true").lower() not in _TRUE:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
