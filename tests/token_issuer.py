"""A token service for a test: keys, the tokens that they sign, and both over HTTPS.

Tokens are signed here by hand, so that what the product checks them with is not what made them.
"""

from __future__ import annotations

import base64
import functools
import hmac
import json
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from tests.tls_files import TlsFiles

ISSUER, AUDIENCE = "https://tokens.city.test", "city-bus"
CLIENT_ID, CLIENT_SECRET = "camera-7", "secret-of-camera-7"
HOUR_S = 3600
_HASHES: dict[str, type[hashes.SHA256 | hashes.SHA384 | hashes.SHA512]] = {"256": hashes.SHA256, "384": hashes.SHA384, "512": hashes.SHA512}
_CURVES: dict[str, type[ec.SECP256R1 | ec.SECP384R1 | ec.SECP521R1]] = {"ES256": ec.SECP256R1, "ES384": ec.SECP384R1, "ES512": ec.SECP521R1}


def base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _number(value: int, size: int = 0) -> str:
    return base64url(value.to_bytes(size or (value.bit_length() + 7) // 8, "big"))


class SigningKey:
    """A private key with its id."""

    def __init__(self, key_id: str, algorithm: str, bits: int = 2048) -> None:
        self.key_id, self.algorithm = key_id, algorithm
        self._key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey = (
            ec.generate_private_key(_CURVES[algorithm]())
            if algorithm in _CURVES
            else rsa.generate_private_key(65537, bits)
        )

    @property
    def public(self) -> dict[str, str]:
        """As a set of keys has it."""
        named = {"kid": self.key_id, "use": "sig"}
        if isinstance(self._key, rsa.RSAPrivateKey):
            numbers = self._key.public_key().public_numbers()
            return {"kty": "RSA", **named, "n": _number(numbers.n), "e": _number(numbers.e)}
        point, size = self._key.public_key().public_numbers(), (self._key.key_size + 7) // 8
        curve = {256: "P-256", 384: "P-384", 521: "P-521"}[self._key.key_size]
        return {"kty": "EC", **named, "crv": curve, "x": _number(point.x, size),
                "y": _number(point.y, size)}  # fmt: skip

    @property
    def public_pem(self) -> bytes:
        return self._key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )

    def sign(self, data: bytes, algorithm: str) -> bytes:
        kind, digest = algorithm[:2], _HASHES[algorithm[2:]]()
        if isinstance(self._key, ec.EllipticCurvePrivateKey):
            size = (self._key.key_size + 7) // 8
            r, s = decode_dss_signature(self._key.sign(data, ec.ECDSA(digest)))
            return r.to_bytes(size, "big") + s.to_bytes(size, "big")
        if kind == "PS":
            salted = padding.PSS(padding.MGF1(digest), digest.digest_size)
            return self._key.sign(data, salted, digest)
        return self._key.sign(data, padding.PKCS1v15(), digest)


class TokenIssuer:
    """Keys by their ids, and what they sign."""

    def __init__(self, *, clock_offset_s: int = 0) -> None:
        made = [SigningKey("rsa", "RS256"), SigningKey("ec", "ES256"), SigningKey("wide", "ES512")]
        self.keys = {one.key_id: one for one in made}
        self.clock_offset_s = clock_offset_s

    def key_set(self, *more: Mapping[str, Any]) -> bytes:
        return json.dumps({"keys": [*(one.public for one in self.keys.values()), *more]}).encode()

    def claims(self, user: str = "camera-7", **changed: Any) -> dict[str, Any]:
        """Good ones; `changed` with None leaves a claim out."""
        now = int(time.time()) + self.clock_offset_s
        found = {"iss": ISSUER, "aud": AUDIENCE, "sub": user, "iat": now, "exp": now + HOUR_S}
        return {name: value for name, value in (found | changed).items() if value is not None}

    def token(
        self,
        user: str = "camera-7",
        *,
        key: SigningKey | None = None,
        algorithm: str = "",
        header: Mapping[str, Any] | None = None,
        claims: Mapping[str, Any] | None = None,
        **changed: Any,
    ) -> str:
        """Signed by `key`, of which `header` may say otherwise (None leaves a part out). `claims` and
        `changed` say which claims are others than `self.claims`."""
        used = key or self.keys["rsa"]
        chosen = algorithm or used.algorithm
        told = {"alg": chosen, "typ": "JWT", "kid": used.key_id} | dict(header or {})
        told = {name: value for name, value in told.items() if value is not None}
        begun = unsigned(told, self.claims(user, **dict(claims or {}), **changed))
        return f"{begun}.{base64url(used.sign(begun.encode(), chosen))}"


def unsigned(header: Mapping[str, Any], claims: object) -> str:
    """The two parts that are signed."""
    return ".".join(base64url(json.dumps(part).encode()) for part in (header, claims))


def signed_with_secret(header: Mapping[str, Any], claims: object, secret: bytes) -> str:
    """By HS256."""
    begun = unsigned(header, claims)
    return f"{begun}.{base64url(hmac.digest(secret, begun.encode(), 'sha256'))}"


@functools.cache
def _certificate(tls: TlsFiles) -> tuple[Path, Path]:
    return tls.signed("tokens", "subjectAltName=IP:127.0.0.1,DNS:localhost")


class TokenService:
    """The issuer over HTTPS: `/keys` and `/token` (client credentials).

    `is_down`: every answer is an error of the server. `body`: instead of the keys. `goes_on`: while
    it is not set, nothing is answered (for a minute at most). `asked` counts by path."""

    def __init__(self, issuer: TokenIssuer, tls: TlsFiles) -> None:
        self.issuer = issuer
        self.is_down = False
        self.body: bytes | None = None
        self.goes_on = threading.Event()
        self.goes_on.set()
        self.lifetime_s = HOUR_S
        self.asked: dict[str, int] = {"/keys": 0, "/token": 0}
        self.scopes: list[str] = []
        certificate, key = _certificate(tls)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        service = self

        class Handler(BaseHTTPRequestHandler):
            timeout = 30

            def do_GET(self) -> None:
                service.asked[self.path] = service.asked.get(self.path, 0) + 1
                service.goes_on.wait(60)
                if service.is_down or self.path != "/keys":
                    self._answer(503, b"down")
                else:
                    self._answer(200, service.body or service.issuer.key_set())

            def do_POST(self) -> None:
                service.asked[self.path] = service.asked.get(self.path, 0) + 1
                service.goes_on.wait(60)
                form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                expected = base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()
                if service.is_down:
                    self._answer(503, b"down")
                elif self.headers["Authorization"] != f"Basic {expected}":
                    self._answer(401, b'{"error":"invalid_client"}')
                elif form.get("grant_type") != ["client_credentials"]:
                    self._answer(400, b'{"error":"unsupported_grant_type"}')
                else:
                    service.scopes += form.get("scope", [""])
                    self._answer(200, service.grant())

            def _answer(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *words: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        # The handshake is done by the thread of the connection, not by the one that accepts.
        self._server.socket = context.wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def grant(self) -> bytes:
        now = int(time.time())
        token = self.issuer.token(CLIENT_ID, exp=now + self.lifetime_s)
        answer = {"access_token": token, "token_type": "Bearer", "expires_in": self.lifetime_s}
        return json.dumps(answer).encode()

    def url(self, path: str) -> str:
        return f"https://127.0.0.1:{self._server.server_address[1]}{path}"

    def stop(self) -> None:
        self.goes_on.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(60)


@contextmanager
def token_service(issuer: TokenIssuer, tls: TlsFiles) -> Iterator[TokenService]:
    service = TokenService(issuer, tls)
    try:
        yield service
    finally:
        service.stop()


def token_settings(listener: str, keys: Path | str) -> dict[str, str]:
    """Of a listener that takes tokens; `keys`: a file, or a URL. Of our broker and of Kafka."""
    prefix = f"listener.name.{listener.lower()}"
    package = "org.apache.kafka.common.security.oauthbearer"
    url = keys if isinstance(keys, str) else keys.as_uri()
    return {
        "sasl.oauthbearer.jwks.endpoint.url": url,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        f"{prefix}.oauthbearer.sasl.server.callback.handler.class": (
            f"{package}.OAuthBearerValidatorCallbackHandler"
        ),
        f"{prefix}.oauthbearer.sasl.jaas.config": f"{package}.OAuthBearerLoginModule required;",
    }
