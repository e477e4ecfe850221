"""Whether a JSON web token (RFC 7519) is good here, by the keys of its issuer (RFC 7517). Pure.

In: a token, a set of keys, rules, the time. Out: `BearerToken`. Raises `TokenRefused`, whose text
has nothing of the token's; KeySetError. Never: a token without a signature or with one that a
symmetric key makes, a key that the token itself names or brings, or claims that are read before the
signature is checked.

The rules for claims are those of Kafka's BrokerJwtValidator.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, RSAKey
from joserfc.jws import JWSRegistry
from joserfc.util import base64_to_int

from bus.security.oauth_bearer import (
    MOST_TOKEN_CHARACTERS,
    BearerToken,
    TokenRefused,
    TokenRules,
)

ALGORITHMS = tuple(f"{family}{bits}" for family in ("RS", "PS", "ES") for bits in (256, 384, 512))
"""Of signatures; those with a key that only the issuer has."""
_CURVE_OF = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}
LEAST_RSA_BITS, MOST_RSA_BITS = 2048, 8192
MOST_KEY_SET_BYTES = 1 << 20
MOST_KEYS = 1000
MOST_HEADER_CHARACTERS = 16_384
"""Read before the signature is checked."""
LAST_SECOND = 253_402_300_799
"""Of the year 9999; a later end counts as this one."""
_THREE_PARTS = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")


class KeySetError(ValueError):
    """No set of keys that can be used; the text is for an operator."""


class UnknownKey(TokenRefused):
    """No key fits the token; there may be one in a newer set."""


class _TokenBound(JWSRegistry):
    """Bounds for headers with certificates in them."""

    max_header_length = MOST_HEADER_CHARACTERS
    max_payload_length = MOST_TOKEN_CHARACTERS
    max_signature_length = 4096


_REGISTRY = _TokenBound(algorithms=ALGORITHMS, strict_check_header=False)


@dataclass(frozen=True, slots=True)
class IssuerKey:
    """One public key of an issuer; without an `algorithm` it is good for all of its kind."""

    key_id: str | None
    algorithm: str | None
    key: RSAKey | ECKey

    def fits(self, algorithm: str) -> bool:
        """Whether it checks signatures by this algorithm."""
        if self.algorithm is not None and self.algorithm != algorithm:
            return False
        if isinstance(self.key, ECKey):
            return _CURVE_OF.get(algorithm) == self.key.curve_name
        return algorithm[:2] in ("RS", "PS")


class IssuerKeys:
    """The public keys of an issuer."""

    def __init__(self, keys: Iterable[IssuerKey] = ()) -> None:
        self._keys = tuple(keys)

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def key_ids(self) -> list[str]:
        """In order; those that have one."""
        return sorted(one.key_id for one in self._keys if one.key_id is not None)

    def find(self, key_id: str | None, algorithm: str) -> IssuerKey:
        """The first that fits, of those with this id where there is one. Raises UnknownKey."""
        for one in self._keys:
            if (key_id is None or one.key_id == key_id) and one.fits(algorithm):
                return one
        raise UnknownKey("no key of its issuer fits the token")


def parse_key_set(data: bytes) -> IssuerKeys:
    """Keys that cannot be used here (symmetric, for encryption, of another kind) are left out.
    Raises KeySetError where none is left."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise KeySetError("it is no JSON") from None
    entries = found.get("keys") if isinstance(found, dict) else None
    if not isinstance(entries, list):
        raise KeySetError('it is no set of keys (JWKS): {"keys": [...]}')
    if len(entries) > MOST_KEYS:
        raise KeySetError(f"it has more than {MOST_KEYS} keys")
    keys = [one for entry in entries if isinstance(entry, dict) and (one := _key(entry))]
    if not keys:
        raise KeySetError(
            "it has no key that checks signatures by RS, PS or ES (RSA from "
            f"{LEAST_RSA_BITS} to {MOST_RSA_BITS} bits; P-256, P-384, P-521)"
        )
    return IssuerKeys(keys)


def _key(entry: Mapping[str, Any]) -> IssuerKey | None:
    """None: no key for us. Of a private one the public part alone is read."""
    key_id, algorithm = entry.get("kid"), entry.get("alg")
    operations = entry.get("key_ops", ["verify"])
    if entry.get("use", "sig") != "sig" or not isinstance(operations, list):
        return None
    if "verify" not in operations or not isinstance(key_id, str | None):
        return None
    if algorithm is not None and algorithm not in ALGORITHMS:
        return None
    try:
        key = _imported(entry)
    except (JoseError, AttributeError, KeyError, TypeError, ValueError):
        return None
    if key is None:
        return None
    return IssuerKey(key_id, algorithm, key)


def _imported(entry: Mapping[str, Any]) -> RSAKey | ECKey | None:
    if entry.get("kty") == "RSA":
        if not LEAST_RSA_BITS <= base64_to_int(entry["n"]).bit_length() <= MOST_RSA_BITS:
            return None
        return RSAKey.import_key({name: entry[name] for name in ("kty", "n", "e")})
    if entry.get("kty") == "EC" and entry.get("crv") in _CURVE_OF.values():
        return ECKey.import_key({name: entry[name] for name in ("kty", "crv", "x", "y")})
    return None


def validate_token(
    token: str, keys: IssuerKeys, rules: TokenRules, now_ms: int
) -> BearerToken:
    """Raises TokenRefused; UnknownKey if a newer set of keys may help."""
    if len(token) > MOST_TOKEN_CHARACTERS:
        raise TokenRefused(f"the token has more than {MOST_TOKEN_CHARACTERS} characters")
    if _THREE_PARTS.fullmatch(token) is None:
        raise TokenRefused("the token has no three parts of a JWT")
    claims = _verified_claims(token.encode("ascii"), keys)
    expires_s = _check_times(claims, rules.clock_skew_s, now_ms // 1000)
    _check_audience(claims, rules.audiences)
    if rules.issuer is not None and claims.get("iss") != rules.issuer:
        raise TokenRefused("the token is of another issuer (iss)")
    _check_scopes(claims.get(rules.scope_claim))
    user = claims.get(rules.user_claim)
    if not isinstance(user, str) or not user.strip():
        raise TokenRefused(f"the token's claim {rules.user_claim} names nobody")
    return BearerToken(user.strip(), expires_s * 1000)


def _verified_claims(token: bytes, keys: IssuerKeys) -> dict[str, Any]:
    try:
        parts = jws.extract_compact(token, registry=_REGISTRY)
        header = parts.headers()
        algorithm, key_id = header.get("alg"), header.get("kid")
        if algorithm not in ALGORITHMS:
            raise TokenRefused("the token is not signed by an algorithm that is taken here")
        if "crit" in header:
            raise TokenRefused("the token wants something understood that is not (crit)")
        if not isinstance(key_id, str | None):
            raise TokenRefused("the id of the token's key is no text")
        key = keys.find(key_id, algorithm)
        if not jws.validate_compact(parts, key.key, registry=_REGISTRY):
            raise TokenRefused("the token's signature is not that of its issuer's key")
        claims = json.loads(parts.payload)
    except (JoseError, ValueError, TypeError, RecursionError):
        raise TokenRefused("the token cannot be read") from None
    if not isinstance(claims, dict):
        raise TokenRefused("the token has no claims")
    return claims


def _check_times(claims: Mapping[str, Any], skew_s: int, now_s: int) -> int:
    """When the token ends, in seconds."""
    expires, issued = _time(claims, "exp"), _time(claims, "iat")
    not_before = _time(claims, "nbf")
    if expires is None or issued is None:
        raise TokenRefused("the token does not say when it was issued and when it ends (iat, exp)")
    if now_s - skew_s >= expires:
        raise TokenRefused("the token has ended (exp)")
    if expires < issued or (not_before is not None and expires < not_before):
        raise TokenRefused("the token ends before it begins (exp, iat, nbf)")
    if not_before is not None and now_s + skew_s < not_before:
        raise TokenRefused("the token does not count yet (nbf)")
    if issued < 0:
        raise TokenRefused("the token's time of issue is negative (iat)")
    return expires


def _time(claims: Mapping[str, Any], name: str) -> int | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TokenRefused(f"the token's claim {name} is no time")
    try:
        return min(int(value), LAST_SECOND)
    except (OverflowError, ValueError):  # infinite, or no number
        raise TokenRefused(f"the token's claim {name} is no time") from None


def _check_audience(claims: Mapping[str, Any], wanted: tuple[str, ...]) -> None:
    if not wanted:
        return
    found = claims.get("aud")
    audiences = found if isinstance(found, list) else [found]
    if not any(one in wanted for one in audiences):
        raise TokenRefused("the token is for another audience (aud)")


def _check_scopes(found: object) -> None:
    """They must be well formed; what they allow is nothing here: ACLs say that."""
    scopes = [found] if isinstance(found, str) else found if isinstance(found, list) else []
    texts = [one.strip() if isinstance(one, str) else "" for one in scopes]
    if not all(texts) or len(set(texts)) < len(texts):
        raise TokenRefused("the token's scopes are empty, doubled or no texts")
