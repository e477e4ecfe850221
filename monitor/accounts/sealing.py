"""Seals accounts with a key that both sites have, so that they can cross the bus.

In: rows of accounts, a secret. Out: `SealedAccounts`, or the rows again. AES-256-GCM, the key by
HKDF-SHA-256 (RFC 5869) from the secret: it has to be long, nothing slows down who guesses. Never: a
row of a snapshot that was altered, or of another version than it says.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Sequence
from typing import Annotated, NamedTuple

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from bus.contracts.account_snapshot import MAX_SEALED_CHARS, SealedAccounts

MAX_ACCOUNTS = 10_000
NONCE_BYTES = 12
_PURPOSE = b"databus accounts 1"


class AccountRow(NamedTuple):
    """As in the file: roles and districts separated by commas, a line of
    `monitor.accounts.passwords`."""

    name: str
    roles: str
    password: str
    unit: str = ""
    districts: str = ""

    @property
    def sealed(self) -> tuple[str, ...]:
        """Without unit and districts where it has none: a console that knows neither reads it."""
        return tuple(self) if self.unit or self.districts else tuple(self)[:3]


_Texts = Annotated[list[str], msgspec.Meta(min_length=3, max_length=5)]
_ROWS = msgspec.json.Decoder(Annotated[list[_Texts], msgspec.Meta(max_length=MAX_ACCOUNTS)])


class SealingError(Exception):
    """A snapshot that cannot be opened, or not be made; the text says what to look at."""


class AccountSealing:
    """With one secret."""

    def __init__(self, secret: str) -> None:
        derived = HKDF(algorithm=SHA256(), length=32, salt=None, info=_PURPOSE)
        self._cipher = AESGCM(derived.derive(secret.encode()))

    def seal(self, rows: Sequence[AccountRow], version: int) -> SealedAccounts:
        """All accounts, in one piece. Raises SealingError for more than `open` takes."""
        if len(rows) > MAX_ACCOUNTS:
            raise SealingError(f"{len(rows)} accounts; {MAX_ACCOUNTS} at most are carried")
        nonce = os.urandom(NONCE_BYTES)
        plain = msgspec.json.encode([row.sealed for row in rows])
        sealed = self._cipher.encrypt(nonce, plain, _bound_to(version))
        text = _text(sealed)
        if len(text) > MAX_SEALED_CHARS:
            raise SealingError(
                f"{len(rows)} accounts are {len(text)} characters on the bus;"
                f" {MAX_SEALED_CHARS} at most are carried"
            )
        return SealedAccounts(version=version, nonce=_text(nonce), sealed=text)

    def open(self, found: SealedAccounts) -> list[AccountRow]:
        """Raises SealingError."""
        try:
            nonce = base64.b64decode(found.nonce, validate=True)
            sealed = base64.b64decode(found.sealed, validate=True)
            plain = self._cipher.decrypt(nonce, sealed, _bound_to(found.version))
            return [AccountRow(*row) for row in _ROWS.decode(plain)]
        except InvalidTag:
            raise SealingError(
                "it was sealed with another key, or altered: console.accounts_secret has to be the "
                "same at both sites"
            ) from None
        except (binascii.Error, ValueError, msgspec.MsgspecError) as error:
            raise SealingError(f"it is no snapshot of accounts: {error}") from None


def _bound_to(version: int) -> bytes:
    return _PURPOSE + b" " + str(version).encode()


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
