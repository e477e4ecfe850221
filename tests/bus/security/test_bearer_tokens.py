"""Which JSON web tokens are good: signatures, claims, sets of keys. What Kafka says to the same
tokens, `tests/conformance/test_token_logins.py` compares."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bus.security.bearer_tokens import (
    LAST_SECOND,
    MOST_KEYS,
    IssuerKeys,
    KeySetError,
    UnknownKey,
    parse_key_set,
    validate_token,
)
from bus.security.oauth_bearer import MOST_TOKEN_CHARACTERS, BearerToken, TokenRefused, TokenRules
from tests.token_issuer import (
    AUDIENCE,
    HOUR_S,
    ISSUER,
    SigningKey,
    TokenIssuer,
    base64url,
    signed_with_secret,
    unsigned,
)

ISSUED = TokenIssuer()
KEYS = parse_key_set(ISSUED.key_set())
RULES = TokenRules((AUDIENCE,), ISSUER)
ANY = TokenRules((), None)


def judged(token: str, rules: TokenRules = RULES, *, keys: IssuerKeys = KEYS,
           later_s: float = 0) -> BearerToken:  # fmt: skip
    return validate_token(token, keys, rules, int((time.time() + later_s) * 1000))


def refused(token: str, rules: TokenRules = RULES, *, later_s: float = 0) -> str:
    with pytest.raises(TokenRefused) as error:
        judged(token, rules, later_s=later_s)
    return str(error.value)


@pytest.mark.parametrize("algorithm", ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"])
def test_each_algorithm_of_a_key_of_rsa_is_taken(algorithm: str) -> None:
    assert judged(ISSUED.token("bob", algorithm=algorithm)).user == "bob"


@pytest.mark.parametrize("name", ["ec", "wide"])
def test_a_key_of_a_curve_is_taken_with_its_own_algorithm_only(name: str) -> None:
    key = ISSUED.keys[name]
    assert judged(ISSUED.token(key=key)).user == "camera-7"
    other = "ES512" if key.algorithm == "ES256" else "ES256"
    assert "no key" in refused(ISSUED.token(key=key, algorithm=other))


@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "HS256", "HS384", "HS512", "EdDSA", "", 7])
def test_a_token_without_a_signature_of_its_issuer_never_counts(algorithm: object) -> None:
    """Whatever its last part is, and whatever key it names."""
    good = ISSUED.token()
    begun = unsigned({"alg": algorithm, "kid": "rsa"}, ISSUED.claims())
    for signature in (good.rpartition(".")[2], base64url(b"\0"), ""):
        for rules in (RULES, ANY):
            assert refused(f"{begun}.{signature}", rules)


@pytest.mark.parametrize("secret", [ISSUED.keys["rsa"].public_pem, ISSUED.keys["rsa"].public_pem.strip(),
                                    ISSUED.keys["ec"].public_pem, ISSUED.key_set(), b""])  # fmt: skip
def test_a_public_key_is_no_secret_that_signs(secret: bytes) -> None:
    """HS256 with what everybody can read; also where the set of keys has a symmetric one."""
    symmetric = {"kty": "oct", "kid": "shared", "k": base64url(secret or b"x")}
    keys = parse_key_set(ISSUED.key_set(symmetric))
    for key_id in ("rsa", "ec", "shared"):
        token = signed_with_secret({"alg": "HS256", "kid": key_id}, ISSUED.claims(), secret)
        with pytest.raises(TokenRefused, match="algorithm"):
            judged(token, keys=keys)


def test_a_key_that_the_token_brings_or_points_at_is_not_used() -> None:
    """`jwk`, `jku`, `x5u`: it is signed by the key that it brings."""
    foreign = SigningKey("rsa", "RS256")
    for header in ({"jwk": foreign.public}, {"jku": "https://evil.test/keys"}, {"x5u": "https://evil.test"}):
        assert "signature" in refused(ISSUED.token(key=foreign, header=header))


def test_a_swapped_id_of_a_key_is_refused() -> None:
    """Of another kind of key, or of nobody; the latter may be in a newer set."""
    assert "no key" in refused(ISSUED.token(header={"kid": "ec"}))
    with pytest.raises(UnknownKey):
        judged(ISSUED.token(header={"kid": "new"}))
    assert judged(ISSUED.token(header={"kid": None})).user == "camera-7"


@pytest.mark.parametrize(
    ("changed", "later_s", "said"),
    [
        ({"exp": -HOUR_S, "iat": -2 * HOUR_S}, 0, "ended"),
        ({}, 2 * HOUR_S, "ended"),
        ({"nbf": HOUR_S}, 0, "not count yet"),
        ({"nbf": HOUR_S}, -HOUR_S - 40, "not count yet"),
        ({"iat": 2 * HOUR_S}, 0, "before it begins"),
        ({"nbf": 2 * HOUR_S}, 0, "before it begins"),
        ({"iat": -(1 << 40)}, 0, "negative"),
    ],
)
def test_a_token_counts_between_its_times_only(changed: dict[str, int], later_s: float, said: str) -> None:
    """Also where a clock is off by an hour: ours, or the issuer's."""
    now = int(time.time())
    assert said in refused(
        ISSUED.token(claims={name: now + offset for name, offset in changed.items()}), later_s=later_s
    )


def test_clocks_may_differ_by_the_allowance_and_no_more() -> None:
    now = 1_900_000_000
    token = ISSUED.token(iat=now - 100, nbf=now, exp=now + 100)
    for skew_s in (0, 30):
        rules = TokenRules((AUDIENCE,), ISSUER, skew_s)
        for at, counts in ((now - skew_s - 1, False), (now - skew_s, True), (now + 99 + skew_s, True),
                           (now + 100 + skew_s, False)):  # fmt: skip
            try:
                validate_token(token, KEYS, rules, at * 1000)
            except TokenRefused:
                assert not counts, (skew_s, at - now)
            else:
                assert counts, (skew_s, at - now)


@pytest.mark.parametrize("name", ["exp", "iat", "nbf"])
@pytest.mark.parametrize("value", ["1", True, [1], {}, float("nan"), float("inf")])
def test_a_time_that_is_none_is_refused(name: str, value: object) -> None:
    assert f"claim {name} is no time" in refused(ISSUED.token(claims={name: value}))


def test_a_token_must_say_when_it_began_and_when_it_ends() -> None:
    for name in ("exp", "iat"):
        assert "does not say" in refused(ISSUED.token(claims={name: None}))
    assert judged(ISSUED.token(exp=10**400)).expires_ms == LAST_SECOND * 1000


@pytest.mark.parametrize("audience", ["other", "", None, [], ["other", "x"], 7, [7, None, [AUDIENCE]],
                                      {AUDIENCE: 1}])  # fmt: skip
def test_a_token_for_another_audience_is_refused_where_one_is_expected(audience: object) -> None:
    token = ISSUED.token(aud=audience)
    assert "audience" in refused(token)
    assert judged(token, TokenRules((), ISSUER)).user == "camera-7"
    assert judged(ISSUED.token(aud=["other", AUDIENCE])).user == "camera-7"


@pytest.mark.parametrize("issuer", [f"{ISSUER}/", ISSUER.upper(), None, [ISSUER], 7])
def test_a_token_of_another_issuer_is_refused_where_one_is_expected(issuer: object) -> None:
    token = ISSUED.token(iss=issuer)
    assert "issuer" in refused(token)
    assert judged(token, TokenRules((AUDIENCE,), None)).user == "camera-7"


def test_claims_have_the_names_that_the_rules_say() -> None:
    rules = TokenRules((AUDIENCE,), ISSUER, user_claim="client_id", scope_claim="scp")
    assert judged(ISSUED.token("x", client_id="bob", scp=["a", "b"], scope=""), rules).user == "bob"
    assert "scopes" in refused(ISSUED.token("x", client_id="bob", scp=["a", "a"]), rules)
    assert "client_id names nobody" in refused(ISSUED.token("x"), rules)


def test_a_large_token_is_not_looked_into() -> None:
    """Neither is one whose header alone is large, or nested deeply."""
    assert "characters" in refused(ISSUED.token(x="y" * MOST_TOKEN_CHARACTERS))
    deep = base64url(b"[" * 10_000)
    assert refused(f"{deep}.{deep}.{deep}") == "the token cannot be read"
    assert refused(ISSUED.token(header={"x": "y" * 20_000})) == "the token cannot be read"


def test_claims_are_read_after_the_signature_only() -> None:
    """What is nested too deeply to be read, signed by nobody, fails for its signature."""
    good = ISSUED.token()
    header, _, signature = good.split(".")
    assert "signature" in refused(f"{header}.{base64url(b'[' * 40_000)}.{signature}")


@given(st.data())
@settings(max_examples=100)
def test_a_changed_token_is_never_good(data: st.DataObject) -> None:
    """One character is another one, or some are gone, or are there twice."""
    good = TOKEN
    at = data.draw(st.integers(0, len(good) - 1))
    end = data.draw(st.integers(at, min(len(good), at + 5)))
    put = data.draw(st.text("abcXYZ019-_.=", max_size=5))
    changed = good[:at] + put + good[end:]
    if changed == good:
        return
    with pytest.raises(TokenRefused) as error:
        judged(changed)
    assert good not in str(error.value)


TOKEN = ISSUED.token()
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=6,
)  # fmt: skip


@given(st.dictionaries(st.sampled_from(["alg", "kid", "crit", "b64", "jwk", "typ", "x5c", "cty"]), JSON))
@settings(max_examples=100)
def test_whatever_a_header_has_the_token_is_refused(header: dict[str, Any]) -> None:
    begun = unsigned(header, ISSUED.claims())
    assert refused(f"{begun}.{TOKEN.rpartition('.')[2]}")


@given(st.dictionaries(st.sampled_from(["iss", "aud", "sub", "iat", "exp", "nbf", "scope"]), JSON))
@settings(max_examples=50)
def test_whatever_signed_claims_say_a_token_is_good_or_refused(claims: dict[str, Any]) -> None:
    """Never another error: the issuer may make mistakes."""
    token = ISSUED.token(key=ISSUED.keys["ec"], claims=claims)
    for rules in (RULES, ANY):
        try:
            good = judged(token, rules)
        except TokenRefused:
            continue
        assert good.user
        assert good.expires_ms <= LAST_SECOND * 1000


# -- sets of keys -------------------------------------------------------------------


def test_keys_that_cannot_be_used_are_left_out() -> None:
    """Symmetric ones, of encryption, of other kinds, too short, broken; and the private part of
    one that should not be there is not read."""
    short = SigningKey("short", "RS256", 1024).public
    more: list[dict[str, Any]] = [
        short, {"kty": "oct", "k": "abc"}, {"kty": "OKP", "crv": "Ed25519", "x": "abc"}, {},
        {**ISSUED.keys["rsa"].public, "kid": "use", "use": "enc"},
        {**ISSUED.keys["rsa"].public, "kid": "ops", "key_ops": ["sign"]},
        {**ISSUED.keys["rsa"].public, "kid": "alg", "alg": "RSA-OAEP"},
        {**ISSUED.keys["rsa"].public, "kid": 7},
        {**ISSUED.keys["ec"].public, "kid": "point", "y": ISSUED.keys["ec"].public["x"]},
        {**ISSUED.keys["ec"].public, "kid": "curve", "crv": "secp256k1"},
        {"kty": "RSA", "kid": "broken", "n": "!", "e": "AQAB"},
        {"kty": "RSA", "kid": "half", "n": "AQAB"},
        {**ISSUED.keys["rsa"].public, "kid": "private", "d": "AQAB", "p": "AQAB"},
    ]  # fmt: skip
    assert parse_key_set(ISSUED.key_set(*more)).key_ids == ["ec", "private", "rsa", "wide"]


def test_a_key_may_be_for_one_algorithm_only() -> None:
    keys = parse_key_set(json.dumps({"keys": [{**ISSUED.keys["rsa"].public, "alg": "RS256"}]}).encode())
    assert judged(ISSUED.token(), keys=keys).user == "camera-7"
    with pytest.raises(UnknownKey):
        judged(ISSUED.token(algorithm="PS256"), keys=keys)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "no JSON"), (b"garbage", "no JSON"), (b"\xff", "no JSON"), (b"[" * 100_000, "no JSON"),
        (b"[]", "no set of keys"), (b"{}", "no set of keys"), (b'{"keys":{}}', "no set of keys"),
        (b'{"keys":[]}', "no key that checks"), (b'{"keys":[7,null]}', "no key that checks"),
        (b'{"keys":[' + b",".join([b"{}"] * (MOST_KEYS + 1)) + b"]}", f"more than {MOST_KEYS}"),
    ],
)  # fmt: skip
def test_what_is_no_set_of_keys_is_refused(data: bytes, said: str) -> None:
    with pytest.raises(KeySetError, match=said):
        parse_key_set(data)


@given(st.one_of(st.binary(max_size=100), JSON.map(lambda one: json.dumps({"keys": [one]}).encode()),
                 st.dictionaries(st.sampled_from(["kty", "n", "e", "crv", "x", "y", "kid", "use", "alg", "key_ops"]),
                                 st.one_of(JSON, st.sampled_from(["RSA", "EC", "P-256", "AQAB"])))
                 .map(lambda one: json.dumps({"keys": [one]}).encode())))  # fmt: skip
def test_any_bytes_are_a_set_of_keys_or_are_refused(data: bytes) -> None:
    with suppress(KeySetError):
        assert len(parse_key_set(data)) > 0
