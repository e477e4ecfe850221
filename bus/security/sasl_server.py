"""The server's part of a SASL login: PLAIN (RFC 4616) and SCRAM (RFC 5802, RFC 7677). Pure.

In: the client's tokens; passwords or credentials of users; a nonce. Out: the server's tokens, and
in the end who the client is. Raises `NotAuthenticated`. Never: frames, clocks, or another course of
messages for a user who does not exist than for one with another password.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Protocol

PLAIN, GSSAPI = "PLAIN", "GSSAPI"


class ScramMechanism(IntEnum):
    """Kafka's mechanisms, with the numbers that its requests and records have for them."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def title(self) -> str:
        """The name in SASL: SCRAM-SHA-256."""
        return self.name.replace("_", "-")

    @property
    def hash_name(self) -> str:
        """Of hashlib."""
        return self.name.removeprefix("SCRAM_").replace("_", "").lower()

    @property
    def size_bytes(self) -> int:
        """Of a key."""
        return hashlib.new(self.hash_name).digest_size


SCRAM_BY_TITLE: Mapping[str, ScramMechanism] = {one.title: one for one in ScramMechanism}
OAUTHBEARER = "OAUTHBEARER"
SERVED_MECHANISMS = (PLAIN, *SCRAM_BY_TITLE, OAUTHBEARER, GSSAPI)

LEAST_ITERATIONS, MOST_ITERATIONS = 4096, 16384
"""Bounds of a credential, Kafka's: below, passwords are guessed too fast; above, each login costs
the client too much."""


class NotAuthenticated(Exception):
    """The login has failed. `text` is for the client where Kafka tells it one; None: nothing but
    that the credentials are invalid."""

    def __init__(self, reason: str, text: str | None = None) -> None:
        super().__init__(reason)
        self.text = text


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """What a server keeps of a password."""

    salt: bytes
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int


@dataclass(frozen=True, slots=True)
class TokenCredential:
    """What a server keeps of a delegation token (KIP-48): whoever logs in with it is its owner."""

    owner: str
    ends_at_ms: int
    """Of the token, in milliseconds since 1970."""
    credential: ScramCredential


class ServerExchange(Protocol):
    """One client's login."""

    @property
    def user(self) -> str | None:
        """Who the client has proved to be; None before the end."""

    @property
    def has_token(self) -> bool:
        """Whether the client has logged in with a delegation token, whose owner it is then."""

    @property
    def ends_at_ms(self) -> int | None:
        """When that ends which the client has logged in with, in milliseconds since 1970; None: it
        has no end."""

    def answer(self, token: bytes) -> bytes:
        """The server's token after this one of the client. Raises NotAuthenticated."""


class PlainExchange:
    """One message: authorisation id, user, password, with NUL between them."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords
        self.user: str | None = None
        self.has_token = False
        self.ends_at_ms: int | None = None

    def answer(self, token: bytes) -> bytes:
        """An empty token if the password is the user's. Raises NotAuthenticated."""
        if self.user is not None:
            raise NotAuthenticated("a token after the login")
        parts = token.decode("utf-8", "replace").split("\0")
        if len(parts) != 3:
            raise _plain_refusal(
                f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}"
            )
        authorization_id, user, password = parts
        if not user or not password:
            missing = "password" if user else "username"
            raise _plain_refusal(f"Authentication failed: {missing} not specified")
        expected = self._passwords.get(user)
        # Compared in any case: an unknown user takes as long as a known one.
        is_equal = hmac.compare_digest((expected or password).encode(), password.encode())
        if expected is None or not is_equal:
            raise _plain_refusal("Authentication failed: Invalid username or password")
        if authorization_id not in ("", user):
            raise _plain_refusal(_OTHER_ID)
        self.user = user
        return b""


_OTHER_ID = (
    "Authentication failed: Client requested an authorization id that is different from username"
)


def _plain_refusal(text: str) -> NotAuthenticated:
    return NotAuthenticated(text, text)


_NAME = r"(?:[^\x00,=]|=2C|=3D)+"
_CLIENT_FIRST = re.compile(
    rf"n,(?:a=(?P<authorization>{_NAME}))?,"
    rf"(?P<bare>(?:m=[^\x00,]+,)?n=(?P<name>{_NAME}),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)"
    r"(?P<extensions>(?:,[A-Za-z]+=[^\x00,]+)*))"
)
_CLIENT_FINAL = re.compile(
    r"(?P<unproved>c=(?P<binding>[A-Za-z0-9/+=]+),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)"
    r"(?:,[A-Za-z]=[^\x00,]+)*),p=(?P<proof>[A-Za-z0-9/+=]+)"
)
_TOKEN_EXTENSION = "tokenauth"
_BINDING = base64.b64encode(b"n,,").decode()


def _no_token(token_id: str, salt: bytes) -> TokenCredential | None:
    """Of a server without delegation tokens."""
    return None


def _asks_for_token(extensions: str) -> bool:
    """Whether the client says that its user is the id of a delegation token; `extensions` begin
    with a comma each."""
    said = dict(one.split("=", 1) for one in extensions.split(",")[1:])
    return said.get(_TOKEN_EXTENSION, "").lower() == "true"


class ScramExchange:
    """Two messages of the client; the second proves that it knows the password.

    Invariant: `_expected` is set between the two. A user without a credential gets one that no
    password fits, always with the same salt, so that nobody learns who exists.
    """

    def __init__(
        self,
        mechanism: ScramMechanism,
        credential_of: Callable[[str], ScramCredential | None],
        nonce: str,
        secret: bytes,
        token_of: Callable[[str, bytes], TokenCredential | None] = _no_token,
    ) -> None:
        """`nonce`: printable, new for each exchange. `secret`: of this process, for the salts of
        users that do not exist. `token_of`: by the id of a delegation token, and the salt to be
        used."""
        self._mechanism = mechanism
        self._credential_of = credential_of
        self._nonce = nonce
        self._secret = secret
        self._token_of = token_of
        self._expected: _ExpectedProof | None = None
        self.user: str | None = None
        self.has_token = False
        self.ends_at_ms: int | None = None

    def answer(self, token: bytes) -> bytes:
        """The server's first or final message. Raises NotAuthenticated."""
        if self.user is not None:
            raise NotAuthenticated("a token after the login")
        try:
            text = token.decode()
        except UnicodeDecodeError:
            raise NotAuthenticated("a token that is not UTF-8") from None
        return self._first(text) if self._expected is None else self._final(text, self._expected)

    def _first(self, text: str) -> bytes:
        match = _CLIENT_FIRST.fullmatch(text)
        if match is None:
            raise NotAuthenticated("no first message of SCRAM")
        user = match["name"].replace("=2C", ",").replace("=3D", "=")
        asked = (match["authorization"] or "").replace("=2C", ",").replace("=3D", "=")
        of_nobody = self._of_nobody(user)  # made in any case: known users take as long
        by_token = None
        if _asks_for_token(match["extensions"]):
            by_token = self._token_of(user, of_nobody.salt)
            held = None if by_token is None else by_token.credential
        else:
            held = self._credential_of(user)
        is_usable = held is not None and held.iterations >= LEAST_ITERATIONS
        credential = held if held is not None and is_usable else of_nobody
        nonce = match["nonce"] + self._nonce
        salt = base64.b64encode(credential.salt).decode()
        first = f"r={nonce},s={salt},i={credential.iterations}"
        binding = base64.b64encode(text[: match.start("bare")].encode()).decode()
        self._expected = _ExpectedProof(
            user, credential, nonce, binding, f"{match['bare']},{first}", is_usable,
            asked not in ("", user), by_token,
        )  # fmt: skip
        return first.encode()

    def _final(self, text: str, expected: _ExpectedProof) -> bytes:
        match = _CLIENT_FINAL.fullmatch(text)
        if match is None:
            raise NotAuthenticated("no final message of SCRAM")
        if match["nonce"] != expected.nonce or match["binding"] not in (
            expected.binding, _BINDING,
        ):  # fmt: skip
            raise NotAuthenticated("the final message belongs to another login")
        try:
            proof = base64.b64decode(match["proof"], validate=True)
        except binascii.Error:
            raise NotAuthenticated("a proof that is not base64") from None
        signed = f"{expected.begun},{match['unproved']}".encode()
        if not self._is_proved(proof, signed, expected.credential) or not expected.is_known:
            raise NotAuthenticated("the proof does not fit the credential")
        if expected.asks_for_another:
            raise NotAuthenticated(_OTHER_ID, _OTHER_ID)
        if expected.by_token is None:
            self.user = expected.user
        else:
            self.user = expected.by_token.owner
            self.has_token, self.ends_at_ms = True, expected.by_token.ends_at_ms
        signature = self._hmac(expected.credential.server_key, signed)
        return b"v=" + base64.b64encode(signature)

    def _is_proved(self, proof: bytes, signed: bytes, credential: ScramCredential) -> bool:
        signature = self._hmac(credential.stored_key, signed)
        if len(proof) != len(signature):
            return False
        client_key = bytes(one ^ other for one, other in zip(proof, signature, strict=True))
        stored = hashlib.new(self._mechanism.hash_name, client_key).digest()
        return hmac.compare_digest(stored, credential.stored_key)

    def _of_nobody(self, user: str) -> ScramCredential:
        """As Kafka's tools make one: their salts are numbers of 130 bits in base 36."""
        made = self._hmac(self._secret, user.encode())
        salt = _base_36(int.from_bytes(made[:17], "big") >> 6).encode()
        size = self._mechanism.size_bytes
        return ScramCredential(salt, self._hmac(made, b"stored"), bytes(size), LEAST_ITERATIONS)

    def _hmac(self, key: bytes, data: bytes) -> bytes:
        return hmac.digest(key, data, self._mechanism.hash_name)


def _base_36(number: int) -> str:
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return digits


@dataclass(frozen=True, slots=True)
class _ExpectedProof:
    """What the final message is checked against."""

    user: str
    credential: ScramCredential
    nonce: str
    binding: str
    begun: str
    is_known: bool
    asks_for_another: bool
    by_token: TokenCredential | None


def credential_of_salted(
    mechanism: ScramMechanism, salt: bytes, salted_password: bytes, iterations: int
) -> ScramCredential:
    """What is kept of a salted password, as AlterUserScramCredentials brings it."""
    name = mechanism.hash_name
    client_key = hmac.digest(salted_password, b"Client Key", name)
    return ScramCredential(
        salt,
        hashlib.new(name, client_key).digest(),
        hmac.digest(salted_password, b"Server Key", name),
        iterations,
    )


def salted(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """The salted password (PBKDF2); a tenth of a second at most."""
    return hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, iterations)
