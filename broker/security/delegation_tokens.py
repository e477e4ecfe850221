"""Delegation tokens (KIP-48): their HMACs, what a client logs in with, who sees them. Pure.

In: the secret key that all nodes share, the tokens of the newest metadata. Out: the HMAC of an id,
the token of an HMAC, credentials. Never: a key in the metadata; what is stored of a token is of no
use without the secret key.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Callable, Mapping, Sequence

from broker.security.principal import Principal
from bus.protocol.generated.metadata_records import DelegationTokenRecord
from bus.security.sasl_server import (
    LEAST_ITERATIONS,
    ScramMechanism,
    TokenCredential,
    credential_of_salted,
    salted,
)

USER = "User"
MOST_CREDENTIALS = 10_000
"""Credentials that are kept for the next login; beyond them all are made again."""

Tokens = Mapping[str, DelegationTokenRecord]
"""By id."""


def is_expired(token: DelegationTokenRecord, now_ms: int) -> bool:
    """Whether its time is over, or its life."""
    return min(token.max_timestamp, token.expiration_timestamp) < now_ms


def may_renew(token: DelegationTokenRecord, principal: Principal) -> bool:
    """Whether this principal may renew it or end it: its owner and those who were named for it."""
    who = str(principal)
    return who == token.owner or who in token.renewers


def is_about(token: DelegationTokenRecord, principal: Principal) -> bool:
    """Whether this principal owns it, has asked for it or may renew it."""
    return may_renew(token, principal) or str(principal) == token.requester


def is_visible(
    token: DelegationTokenRecord,
    asker: Principal,
    owners: Sequence[Principal] | None,
    may_describe: Callable[[DelegationTokenRecord], bool],
) -> bool:
    """Whether an answer to `asker` has this token. `owners`: of whom tokens are asked for, None: of
    all. `may_describe`: what the ACLs say of a token of others."""
    if owners is not None and not any(is_about(token, one) for one in owners):
        return False
    return is_about(token, asker) or may_describe(token)


class DelegationTokens:
    """What this process makes of tokens with the secret key.

    Invariant: `_ids` has the HMACs of `_known`, `_credentials` those of clients that logged in.
    """

    def __init__(
        self, secret_key: str, tokens: Callable[[], Tokens], now_ms: Callable[[], int]
    ) -> None:
        """`secret_key`: empty where there are no tokens. `tokens`: those of the newest metadata."""
        self._secret_key = secret_key.encode()
        self._tokens = tokens
        self._now_ms = now_ms
        self._known: Tokens = {}
        self._ids: dict[bytes, str] = {}
        self._credentials: dict[tuple[int, str], TokenCredential] = {}

    @property
    def is_enabled(self) -> bool:
        """Whether there are tokens at all."""
        return bool(self._secret_key)

    def hmac_of(self, token_id: str) -> bytes:
        """64 bytes; in base64 it is the password of whoever logs in with the token."""
        return hmac.digest(self._secret_key, token_id.encode(), "sha512")

    def token_of(self, tokens: Tokens, of_hmac: bytes) -> DelegationTokenRecord | None:
        """Of these, the token that has this HMAC."""
        if tokens is not self._known:
            gone = self._known.keys() - tokens.keys()
            if gone:
                self._ids = {key: one for key, one in self._ids.items() if one not in gone}
            self._ids |= {self.hmac_of(one): one for one in tokens.keys() - self._known.keys()}
            self._known = tokens
        token_id = self._ids.get(of_hmac)
        return None if token_id is None else tokens[token_id]

    def credential(
        self, mechanism: ScramMechanism, token_id: str, salt: bytes
    ) -> TokenCredential | None:
        """What a client that knows the token logs in with; None: there is no such token, or it has
        expired. The first time costs the iterations of SCRAM, some milliseconds. `salt`: the same
        for an id each time, whether there is such a token or not."""
        token = self._tokens().get(token_id) if self.is_enabled else None
        if token is None or is_expired(token, self._now_ms()):
            self._credentials.pop((mechanism, token_id), None)
            return None
        owner = Principal.parse(token.owner)
        if owner.kind != USER:
            return None
        ends_at_ms = min(token.max_timestamp, token.expiration_timestamp)
        held = self._credentials.get((mechanism, token_id))
        if held is not None and held.ends_at_ms == ends_at_ms:
            return held
        credential = held.credential if held else None
        if credential is None:
            password = base64.b64encode(self.hmac_of(token_id)).decode()
            key = salted(mechanism, password, salt, LEAST_ITERATIONS)
            credential = credential_of_salted(mechanism, salt, key, LEAST_ITERATIONS)
        if len(self._credentials) >= MOST_CREDENTIALS:
            self._credentials.clear()
        made = TokenCredential(owner.name, ends_at_ms, credential)
        self._credentials[mechanism, token_id] = made
        return made
