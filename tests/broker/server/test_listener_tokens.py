"""What the keys of a listener say of its tokens, and what keeps a broker from starting."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.config.key import ConfigError
from broker.config.keys_oauth import HANDLERS
from broker.config.views import BrokerConfig
from broker.security.token_keys import TokenSettings
from broker.server.listener_logins import login_settings
from broker.server.listeners import parse_listeners, with_protocols
from tests.token_issuer import AUDIENCE, ISSUER, token_settings

MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
HANDLER = "listener.name.clients.oauthbearer.sasl.server.callback.handler.class"
JAAS = "listener.name.clients.oauthbearer.sasl.jaas.config"
URL = "sasl.oauthbearer.jwks.endpoint.url"
GIVEN = {
    **token_settings("CLIENTS", Path("/keys/set.json")),
    "listeners": "CLIENTS://127.0.0.1:0",
    "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "sasl.enabled.mechanisms": "OAUTHBEARER",
}


def settings(**changed: str | None) -> TokenSettings:
    """`changed` with __ for dots; None leaves a key out."""
    named = {name.replace("__", "."): value for name, value in changed.items()}
    texts = {name: text for name, text in {**GIVEN, **named}.items() if text is not None}
    config = BrokerConfig.only_of_known(texts)
    listeners = with_protocols(
        parse_listeners(config["listeners"]), config["listener.security.protocol.map"]
    )
    found = login_settings(config, listeners)["CLIENTS"].bearer_tokens
    assert found is not None
    return found


def test_what_is_not_said_is_as_kafka_has_it() -> None:
    found = settings()
    rules = found.rules
    assert (found.url, found.is_remote) == ("/keys/set.json", False)
    assert (rules.audiences, rules.issuer, rules.clock_skew_s) == ((AUDIENCE,), ISSUER, 30)
    assert (rules.user_claim, rules.scope_claim) == ("sub", "scope")
    assert (found.refresh_s, found.backoff_s, found.longest_backoff_s) == (3600, 0.1, 10)
    assert found.trust_store == {}


def test_the_most_specific_key_counts() -> None:
    """Of the mechanism of a listener, of the mechanism, of a listener, of all."""
    name = "sasl.oauthbearer.sub.claim.name"
    levels = (name, f"listener.name.clients.{name}", f"oauthbearer.{name}",
              f"listener.name.clients.oauthbearer.{name}")  # fmt: skip
    for count in range(1, len(levels) + 1):
        given = {level: f"claim{number}" for number, level in enumerate(levels[:count])}
        assert settings(**given).rules.user_claim == f"claim{count - 1}"


def test_kafkas_handler_may_be_named_or_not() -> None:
    for name in (*HANDLERS, None):
        assert settings(**{HANDLER: name}).url == "/keys/set.json"
    assert settings(**{JAAS: None}).trust_store == {}


def test_keys_over_https_and_whose_certificate_their_service_has() -> None:
    found = settings(**{
        URL: "https://tokens.city.test/keys",
        JAAS: f'{MODULE} required ssl.truststore.type="PEM" ssl.truststore.location="/ca.pem";',
    })  # fmt: skip
    assert found.is_remote
    assert found.trust_store == {
        "ssl.truststore.type": "PEM", "ssl.truststore.location": "/ca.pem"
    }  # fmt: skip
    assert "/ca.pem" not in repr(found)


def test_nobodys_audience_or_issuer_is_a_word_of_the_operator() -> None:
    found = settings(**{
        "sasl.oauthbearer.expected.audience": None, "sasl.oauthbearer.expected.issuer": None,
        "sasl.oauthbearer.allow.unverified.audience": "true",
        "sasl.oauthbearer.allow.unverified.issuer": "true",
    })  # fmt: skip
    assert (found.rules.audiences, found.rules.issuer) == ((), None)


PACKAGE = "org.apache.kafka.common.security.oauthbearer"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({URL: None}, f"clients.oauthbearer.{URL}: it is not set, and without keys no token"),
        ({URL: "http://tokens/keys"}, "over http anybody on the way"),
        ({URL: "https:///keys"}, "no URL that is served"),
        ({URL: "/keys"}, "no URL that is served"),
        ({URL: "file://elsewhere/keys"}, "no URL that is served"),
        ({URL: "file:keys"}, "no URL that is served"),
        ({URL: "file:///keys%00"}, "no URL that is served"),
        ({URL: "https://[x"}, "it is no URL"),
        ({URL: "https://tokens:99999/keys"}, "it is no URL"),
        ({URL: "https://u:planted-secret@tokens/keys"}, "must not have a user"),
        ({HANDLER: f"{PACKAGE}.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"},
         "is not served: tokens count here by the signature"),
        ({HANDLER: "city.Handler"}, "city.Handler is not served"),
        ({"sasl.oauthbearer.jwt.validator.class": "city.Validator"}, "city.Validator is not served"),
        ({JAAS: f'{MODULE} required unsecuredValidatorScopeClaimName="x";'}, "begin with unsecured"),
        ({JAAS: 'city.Module required password="planted-secret";'}, "the login module of OAUTHBEARER"),
        ({JAAS: 'planted-secret'}, "must stand one of required"),
        ({"sasl.oauthbearer.expected.audience": None}, "expected.audience: it is not set"),
        ({"sasl.oauthbearer.expected.issuer": None}, "expected.issuer: it is not set"),
        ({"sasl.oauthbearer.clock.skew.seconds": "-1"}, "at least 0"),
        ({"sasl.oauthbearer.jwks.endpoint.refresh.ms": "0"}, "at least 1"),
        ({"listener.name.clients.oauthbearer.sasl.oauthbearer.clock.skew.seconds": "x"}, "INT"),
    ],
)  # fmt: skip
def test_a_listener_without_keys_or_with_unsigned_tokens_does_not_start(
    changed: dict[str, str | None], said: str
) -> None:
    """In a sentence that names the key, and no secret."""
    with pytest.raises(ConfigError) as refused:
        settings(**changed)
    assert said in str(refused.value)
    assert "planted-secret" not in str(refused.value)
